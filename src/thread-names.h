/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_THREAD_NAMES_H
#define SRC_THREAD_NAMES_H

/*
 * Names of a process's threads, as far as the sampler has not sent them with the
 * thread: from the program's memory, and from the kernel.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "decoder.h"
#include "proc/python.h"

/* Whose, and when to look again. */
struct thread_names {
	pid_t pid;
	uint32_t main_tid; /* in the program's pid namespace */
	const struct python_found *python;
	int64_t next_ns;
};

/*
 * Look for names of threads that have none, and, not before it is time for that, for
 * new ones.  at_once: also for those.
 */
void thread_names_look(struct thread_names *n, struct decoder *d, bool at_once);

#endif
