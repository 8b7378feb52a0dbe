/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_TREE_H
#define SRC_TREE_H

/*
 * The processes of a recording: the one it began with and all that come from it.  What
 * is known of each; which of them are followed decides the recorder.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "file/format.h"
#include "proc/process.h"

struct follow;

/* Between looks at a process: at first, and at last. */
#define TREE_STEP_NS     5000000
#define TREE_STEP_MAX_NS 1000000000

/* What a look into a process's program has shown. */
enum tree_found {
	TREE_UNSEEN = 0, /* not looked into yet */
	TREE_NO_PYTHON,
	TREE_PYTHON, /* or one that is starting */
};

enum tree_state {
	TREE_SEEN,     /* to be looked into, again and again: it may become a Python */
	TREE_FOLLOWED, /* recorded; follow is set */
	TREE_LEFT, /* let alone, for the reason given; its children are looked for */
	TREE_GONE, /* has ended */
};

struct tree_process {
	pid_t pid;
	uint64_t start_ticks;        /* which process of that number */
	struct tree_process *parent; /* NULL of the first */
	enum tree_state state;
	struct follow *follow;
	uint32_t segment;      /* its last, 0: none */
	enum file_why why;     /* how its next image will have come */
	int64_t seen_ns;       /* first seen */
	int64_t image_ns;      /* its program first seen */
	int64_t loaded_ns;     /* the preload library was seen to have run in it */
	int64_t look_ns;       /* to be looked into next */
	uint64_t mark;         /* proc_image_mark() when a Python was found in it */
	int64_t step_ns;       /* between two looks */
	unsigned tries;        /* attaching failed so often */
	unsigned children;     /* so many were seen */
	bool brief;            /* only the kernel's news told of it */
	enum tree_found found; /* in its present program */
	bool reused;           /* it has ended, and a stranger has its number */
	bool filtered;         /* a seccomp filter has killed its task */
	bool ours;             /* a sampler task, not to be counted */
	bool needed;           /* for tree.c */
	char what[48];         /* its command line, cut */
	char reason[256];      /* why it is not followed; "" none */
};

struct tree {
	struct tree_process **list; /* in the order seen; parents before children */
	size_t count, capacity;
	size_t dropped; /* ended, without Python, and of no interest any more */
	size_t brief;   /* likewise, but never looked into */
	size_t beyond;  /* more than can be known */
	size_t forget_at;
	uint64_t last_pid;
	int64_t scanned_ns, scan_took_ns;
};

void tree_init(struct tree *t);
void tree_done(struct tree *t);

/* Add a process, as it is now; NULL when it has ended.  One that is known is returned
 * as it is. */
struct tree_process *tree_add(struct tree *t, pid_t pid, struct tree_process *parent);

/* Process `parent` has made pid, which is of the tree if it is; both may have ended.
 * All such news are to be told, in their order: numbers are used again. */
void tree_add_made(struct tree *t, pid_t pid, pid_t parent);

/* The process that lives under this number, NULL when none is known. */
struct tree_process *tree_find(const struct tree *t, pid_t pid);

/*
 * Can new processes have been made since the last time (anywhere: there is one word for
 * that), or is that a second ago?  False as well while a search would cost more than a
 * fiftieth of the time.  now: monotonic.
 */
bool tree_scan_is_due(struct tree *t, int64_t now);

/* Look for children that are new. */
void tree_scan(struct tree *t, int64_t now);

/* It may be another program now: to be looked into at once. */
void tree_look_again(struct tree_process *p, int64_t now);

/* What /proc says of it; false when it has ended. */
bool tree_read(const struct tree_process *p, struct proc_stat *ret);
bool tree_lives(const struct tree_process *p);

/* This is a sampler task, or was one; with it what it was cloned through. */
void tree_set_ours(struct tree *t, pid_t task);

/* Mark what was surely made by sampler tasks of forked processes that ended at once. */
void tree_mark_ours(struct tree *t);

/* The recording ends: which of them have ended until now? */
void tree_note_ends(struct tree *t);

/* Is there a process that is new enough to become a Python yet? */
bool tree_expects(const struct tree *t);

#endif
