/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRELOAD_ENTRIES_H
#define PRELOAD_ENTRIES_H

/*
 * The two entries in the environment that bring the preload library and tell it where
 * the recorder is: taken out of the program's own at its start, put back into that of
 * what it executes.
 *
 *   LD_PRELOAD=...:/PATH/pystack-preload.so
 *   PYSTACK_SPAWN=[alone:][adopted:][task:|thread:[filters=N,A:]]/PATH/OF/THE/SOCKET
 *
 * The kernel goes on showing what the program was started with (/proc/PID/environ): the
 * first character of the second entry becomes ENTRIES_TAKEN there.
 *
 * adopted: the recorder is to become the reaper of tasks (core_args.hold).
 * alone: of the first Python nothing more is to be recorded, neither forks of it nor
 * what it executes.
 * task, thread: what is to be started, if not whatever can be.
 * filters: the recorder has N filters itself, and has tried that a thread can live
 * under them if it leaves out the steps A (core_args.avoid).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/abi.h"

#define ENTRIES_TAKEN 'p'

enum {
	ENTRIES_PATH_BYTES = 512, /* of the library */
	ENTRIES_TEXT_BYTES = 1536,
	ENTRIES_MOST = 1000, /* entries an environment may have to be given ours: the
			      * new one lies on a stack of unknown size */
};

/* Take them out of the program's environment and keep them; false when there are none.
 * Before main. */
bool entries_take(char **environment);

bool entries_adopted(void);

enum core_isolation entries_isolation(void);

/* How many filters a thread can live under, and what it has to leave out then. */
long entries_filters(uint32_t *ret_avoid);

/* The path of the recorder's socket. */
const char *entries_socket(void);

/* The process is a Python: where that is to be recorded alone, they do not go on. */
void entries_found_python(void);

/* Is what this process forks or executes to be recorded, and is the recorder there to
 * do it? */
bool entries_go_on(void);

/* How many pointers the environment takes with them; 0: it is to stay as it is. */
size_t entries_room(char *const *environment);

/* Make that environment in list; text is room for one entry of it.  It refers to the
 * strings of the old one. */
void entries_put(
	char *const *environment, char **list, char text[static ENTRIES_TEXT_BYTES]);

#endif
