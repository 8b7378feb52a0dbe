/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_PROCESS_H
#define PROC_PROCESS_H

/* What /proc says of a process and its threads. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct proc_stat {
	char comm[65];
	char state; /* R, S, D, T, t, Z, X, I */
	pid_t parent;
	bool kernel_thread;
	uint64_t cpu_ticks; /* used so far, in clock ticks */
	uint32_t threads;
	uint64_t start_ticks; /* since boot, in clock ticks */
};

/* Has it ended, whether or not its parent has seen that? */
static inline bool proc_has_ended(const struct proc_stat *st)
{
	return st->state == 'Z' || st->state == 'X';
}

/* Of a process (tid 0), or of one of its threads.  Returns 0 or a negative code:
 * -ESRCH or -ENOENT when it is not there. */
int proc_stat_read(pid_t pid, pid_t tid, struct proc_stat *ret);

/* The wait status of a process that has ended and is not reaped; -1 where that is not
 * to be had. */
int proc_wait_status(pid_t pid);

/* Parse the text of a stat file (for tests). */
int proc_stat_parse(const char *text, struct proc_stat *ret);

/*
 * A number that tells one program of a process from the next one that it executes: of
 * the random bytes that the kernel gives each (AT_RANDOM).  Addresses would not do:
 * where they are not random, two programs may well have the same.  0 when it cannot be
 * told.
 */
uint64_t proc_image_mark(pid_t pid);

/* Do the two run in one memory, as a vfork child and a sampler task do?  False of what
 * has ended, and of kernel threads. */
bool proc_share_memory(pid_t a, pid_t b);

struct proc_status {
	uid_t uid;
	gid_t gid;
	uid_t effective_uid, saved_uid;
	gid_t effective_gid, saved_gid;
	pid_t process;   /* whose thread it is; itself: a process */
	pid_t tracer;    /* 0: none */
	pid_t inner_pid; /* in its own pid namespace */
	int seccomp;     /* 0 none, 1 strict, 2 filter */
	int filters;     /* how many; -1 where the kernel does not say */
	bool no_new_privs;
	bool shadow_stack;
	/* Bit CAP_... of <linux/capability.h>. */
	uint64_t capabilities, permitted_capabilities;
	uint64_t locked_kib, size_kib; /* of its memory (VmLck, VmSize) */
};

int proc_status_read(pid_t pid, struct proc_status *ret);
/* Of one thread: filters, for example, are its own. */
int proc_thread_status_read(pid_t pid, pid_t tid, struct proc_status *ret);
void proc_status_parse(const char *text, struct proc_status *ret);

/* Command line as words, each ended by a NUL, appended to b; 0 or a negative code. */
int proc_cmdline_read(pid_t pid, struct buf *b);

/* The command line with blanks between the words and for control characters, cut to
 * size, where it then ends in '~'; the name in brackets when there is none, as for
 * kernel threads and zombies. */
void proc_describe(pid_t pid, char *text, size_t size);

/* Where /proc/PID/exe leads; owned, NULL when it cannot be read. */
char *proc_exe(pid_t pid);

/* Numbers of a folder's entries: threads of "/proc/PID/task" and the like. */
struct proc_ids {
	pid_t *id;
	size_t count, capacity;
};

void proc_ids_done(struct proc_ids *ids);

/* Same namespace as this process?  kind: "pid", "mnt", "user" and so on, as the files
 * in /proc/PID/ns are named.  Returns 1, 0, or a negative code when it cannot be told.
 */
int proc_same_namespace(pid_t pid, const char *kind);

/* All processes of this pid namespace that /proc shows. */
int proc_all(struct proc_ids *ret);

/* Thread ids of a process, the main thread first. */
int proc_threads(pid_t pid, struct proc_ids *ret);

/* The thread of a process with that id in its own pid namespace: its id here, 0 when
 * there is none, negative when that cannot be told. */
pid_t proc_find_thread(pid_t pid, pid_t inner);

/* Is it proven that a thread is over: not there, or its number another's by now? */
bool proc_thread_is_over(pid_t pid, pid_t tid, uint64_t start_ticks);

/* Children of all threads of a process. */
int proc_children(pid_t pid, struct proc_ids *ret);

/* Is `descendant` below `ancestor`, or the same? */
bool proc_is_below(pid_t descendant, pid_t ancestor);

/* Same pid namespace as this process? */
bool proc_same_pid_namespace(pid_t pid);

#endif
