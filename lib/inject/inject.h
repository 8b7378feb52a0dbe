/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INJECT_INJECT_H
#define INJECT_INJECT_H

/*
 * Putting the core into a running program from outside, and taking it out again.
 *
 * One thread of the program is held for some 100 us and made to run a few system
 * calls: map the image and the arena, clone the task, or a thread of the program in its
 * place; at the end unmap them and reap the task.  doc/design.md, "Attach", lists the
 * steps, what can fail at each, and why the program survives even the death of this
 * process at any of them.
 *
 * These functions use ptrace, so they belong to one thread of the caller.  The
 * caller should have its signals blocked meanwhile.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* A task in a program, or a thread of it, as its starter holds it. */
struct inject_task {
	pid_t program;
	bool thread;          /* of the program, not a task of its own */
	pid_t task;           /* as this process sees it */
	pid_t inner_task;     /* in the program's pid namespace */
	int task_pidfd;       /* owned; -1: a thread, which has none */
	uint64_t start_ticks; /* of the thread */
	int ring_fd;          /* owned: the ring's memfd, read and write */
	uint64_t image, image_bytes;
	uint64_t arena, arena_bytes;
	bool forced;
	int own_filters; /* inherited from this process, and let the calls pass */
	/* Set by the caller before inject_stop(), once the task has gone: where it has
	 * left a handler of CPU timers that threads may be in (the ring's timer_page).
	 */
	uint64_t timer_page;
	int64_t held_ns;     /* the borrowed thread was held so long, all told */
	uint64_t image_mark; /* proc_image_mark() of the program it was put into */
};

enum inject_flags {
	/* Also under a seccomp filter that can be neither set aside nor read, and that
	 * may end the program for one of the borrowed calls. */
	INJECT_FORCE = 1u << 0,
	/* It comes from a process that this one has forked: a filter of both is one
	 * that was inherited, if it has no more of them. */
	INJECT_DESCENDANT = 1u << 1,
	/* A task alone, or a thread; without either a task, and where none can be had a
	 * thread. */
	INJECT_TASK = 1u << 2,
	INJECT_THREAD = 1u << 3,
};

/*
 * Start the task in process pid.  image_mark: what proc_image_mark() said when the
 * caller looked into it, to be refused if it has executed another program since; 0: as
 * it is.  flags: enum inject_flags.  On failure nothing is left in the program, or,
 * when it cannot be taken back any more, the err text says what.
 *
 * Returns 0; -EPERM not allowed; -ESRCH no such process; -E_REFUSED not safe now;
 * -E_TIMEOUT no thread could be held; others as they come.
 */
int inject_start(pid_t pid, uint64_t image_mark, unsigned flags,
	struct inject_task *ret_task, struct err *err);

/*
 * The task has been ordered to leave: wait until it has provably gone.  One that is
 * stopped together with its program is made to go on.  Returns 0; -E_TIMEOUT, with
 * words.
 */
int inject_await(struct inject_task *t, struct err *err);

/*
 * The same, then unmap what was mapped and reap the task.  Unmapped is only what holds
 * what was put there: not what the task took along, nor anything of a program that was
 * executed since.  Image and arena stay where a thread of the program may be in them.
 * t is released in any case.  Returns 0, or a negative code with words when something
 * stayed in the program.
 */
int inject_stop(struct inject_task *t, struct err *err);

/* Close what t owns and leave the program as it is. */
void inject_abandon(struct inject_task *t);

/* The task that lives in process pid's memory already, or its thread that is one; 0
 * when there is none. */
pid_t inject_find_task(pid_t pid);
pid_t inject_find_thread(pid_t pid); /* a thread of it alone */

/* The process that reads the ring of that task, or thread, of process pid; 0 when it is
 * not to be seen from here. */
pid_t inject_find_recorder(pid_t pid, pid_t task);

#endif
