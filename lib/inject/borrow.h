/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INJECT_BORROW_H
#define INJECT_BORROW_H

/*
 * Borrowing a thread of another process for a few system calls.
 *
 * States, and what happens to the thread if this process dies in each:
 *   seized    stopped where it was           goes on as if nothing had been
 *   framed    its registers point at the next borrowed call; below its stack lies a
 *	       signal frame                   runs that call, then restores itself
 *   masked    the same, all signals blocked  likewise; the frame has the old mask
 *   returned  registers and mask are its own goes on
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/err.h"
#include "proc/maps.h"

/* Code that the program has anyway: `syscall; ret`, and a call of rt_sigreturn. */
struct borrow_gadgets {
	uint64_t syscall_ret;
	uint64_t sigreturn;
};

struct borrow {
	pid_t pid, tid;
	int mem_fd; /* /proc/PID/mem, borrowed from the caller */
	struct borrow_gadgets gadgets;
	struct user_regs_struct saved;
	uint64_t mask;
	uint64_t frame; /* address of the signal frame, 0 before there is one */
	bool masked;
	bool filtered; /* it has seccomp filters */
	bool aside;    /* which do not see the borrowed calls */
	bool own;      /* which are this process's own, inherited, and let them pass */
	int64_t since_ns; /* held since */
};

/* A search for a thread, over several attempts. */
struct borrow_search {
	bool force; /* borrow also where a filter will see the calls */
	/* The process is known to come from this one, whose so many filters let the
	 * calls pass; 0: not so.  Filters are only ever added. */
	int own_filters;
	unsigned next; /* the thread to go on with */
};

/* Find the gadgets in the executable mappings; 0 or -E_UNSUPPORTED. */
int borrow_find_gadgets(int mem_fd, const struct proc_maps *maps,
	struct borrow_gadgets *ret, struct err *err);

/*
 * Hold one of the threads, in turn, until one is found that can be borrowed.  Returns 0
 * or a negative code, with all threads let go but for one case: on -E_TIMEOUT a thread
 * did not stop in time, and the end of the calling thread lets it go.  The search may
 * then go on in another, as it may be repeated on -EBUSY: all are in an uninterruptible
 * wait.
 */
int borrow_begin(pid_t pid, int mem_fd, const struct proc_maps *maps,
	const struct borrow_gadgets *gadgets, struct borrow_search *search,
	struct borrow *ret_borrow, struct err *err);

/* Run one system call; *ret_result is what it returned (-errno on failure). */
int borrow_call(struct borrow *b, long number, const uint64_t args[6],
	int64_t *ret_result, struct err *err);

/* Let the thread go, as it was.  Returns how long it was held, in ns. */
int64_t borrow_end(struct borrow *b);

#endif
