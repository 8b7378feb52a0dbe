/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_PYNAMES_H
#define PROC_PYNAMES_H

/*
 * Names of a process's Python threads, read from its memory from outside: the dict
 * _active of each interpreter's module threading maps thread ids to Thread objects,
 * whose _name is looked up as CPython would.  The process runs on meanwhile; what is
 * torn is left out, and every address and count is checked.
 */

#include <stdint.h>
#include <sys/types.h>

#include "proc/python.h"

struct pynames;

/* Never NULL; without names when there is no such module, or it cannot be read. */
struct pynames *pynames_read(pid_t pid, const struct python_found *python);

/*
 * The name of the thread with that pthread_t, in UTF-8, or NULL; borrowed.  That which
 * its interpreter has of it, else, or where that is but a stand-in ("Dummy-1"),
 * another's: one thread may run in several.  tid: its
 * kernel id in its own namespace, as a pthread_t is given to another thread as soon as
 * it is free; 0: not known, or not to be asked for (a main thread keeps the id of its
 * parent's after a fork).
 */
const char *pynames_find(const struct pynames *names, uint64_t interpreter,
	uint64_t python_id, uint32_t tid);

void pynames_free(struct pynames *names);

#endif
