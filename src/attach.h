/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ATTACH_H
#define SRC_ATTACH_H

/* What every command that works on a running process does first. */

#include <sys/types.h>

#include "proc/python.h"

/*
 * Find the Python of a process that may be sampled, or say in one line why not and
 * what would help.  what: "record", "dump".  Returns STATUS_OK or STATUS_CANNOT.
 */
int attach_find(pid_t pid, const char *what, struct python_found *ret);

/*
 * Likewise, but a process that is no Python and has one below it will do: a shell, or
 * another that started it.  *ret is then the Python's, and *ret_pid is its process.
 */
int attach_find_below(
	pid_t pid, const char *what, struct python_found *ret, pid_t *ret_pid);

/* Say that the kernel or inject refused; code as from lib/. */
int attach_refused(pid_t pid, const char *what, int code, const char *why);

#endif
