/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_TARGET_H
#define SRC_TARGET_H

/* Starting the command that is to be recorded. */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"

/* What a process was given of signals. */
struct target_signals {
	sigset_t mask;
	uint64_t ignored; /* bit sig - 1 */
};

/* Of this process.  To be called before its first thread is made: the C library then
 * takes signal 33 for itself, which may have been ignored, and hides that. */
void target_signals_save(struct target_signals *ret);

struct target_options {
	char **argv;
	const char *preload;     /* path of the preload library */
	const char *socket_path; /* where its task says hello */
	bool alone;              /* the first Python, no child of it */
	bool adopts;             /* its task is to become our child */
	int filters;    /* a thread can live under so many, which are inherited, */
	uint32_t avoid; /* if it leaves these steps out */
	const char *isolation; /* "task", "thread"; NULL: whatever can be */
	const struct target_signals *signals; /* for the command */
	const struct rlimit *files; /* likewise, of descriptors; NULL: as it is */
};

/*
 * Fork and execute the command, found in PATH as a shell would.  It is left what this
 * process was given: standard descriptors, terminal, process group, signal actions.
 * Returns 0 and its pid.  When it cannot be executed: -ENOENT for "not found", another
 * -errno for "found, but"; err says which file.
 */
int target_start(const struct target_options *options, pid_t *ret_pid, struct err *err);

/* The exit status a shell would show for a wait status: 128+N for a signal. */
int target_exit_status(int wait_status);

#endif
