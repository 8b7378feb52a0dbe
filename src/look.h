/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LOOK_H
#define SRC_LOOK_H

/*
 * Looking at processes from outside: what there is to know before one is attached to.
 * Nothing is stopped, changed or waited for.  It is done in a process of its own, so
 * that one that cannot be read (its memory is held by somebody, or lies on a disk that
 * does not answer) costs a second, and not the command.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/process.h"
#include "proc/python.h"

struct look {
	pid_t pid;
	bool answered; /* false: nothing below is known but stat, where it was there */
	int code;      /* 0; -ESRCH: it is not there; -EPERM: it may not be seen */
	struct proc_stat stat;
	struct proc_status status;
	char command[512]; /* as proc_describe() gives it */
	char exe[512];     /* "" when not known */

	/* May its memory be written, as one has to who attaches?  0 or -errno. */
	int attach_code;
	bool dumpable; /* has not made itself unreadable */
	bool narrow;   /* a 32-bit program */
	/* Result of process_vm_readv and of kcmp with it, 0 or -errno. */
	int read_code, kcmp_code;
	/* As proc_same_namespace() has it. */
	int same_pid_namespace, same_user_namespace, same_mount_namespace;
	char tracer[64]; /* who traces it */

	int python_code; /* 0; negative: it could not be looked into */
	struct python_found python;
	bool file_there; /* the runtime's file can still be opened */
	bool up;         /* an interpreter has started */

	/* Of those who called: its sampler task, and, for a process that is one itself,
	 * the program; 0: none. */
	pid_t task, program;
	pid_t recorder; /* of its task; 0: not known */
};

typedef void look_function(const struct look *look, void *context);

/*
 * Look at each and hand it out, in this order.  pythons_only: leave out those that are
 * not there or surely not Python.  The struct is valid during the call only.
 */
void look_at(const pid_t *pids, size_t count, bool pythons_only, look_function *take,
	void *context);

/* The same for one process, with its task and program. */
void look_at_one(pid_t pid, struct look *ret);

/* The first Python that comes from this process, itself left out; false when there is
 * none. */
bool look_below(pid_t pid, struct look *ret);

#endif
