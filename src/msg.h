/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_MSG_H
#define SRC_MSG_H

/*
 * What the program says besides its results: one line each, on standard error, with
 * the command's name in front; foreign text is cleaned of control characters when
 * standard error is a terminal.
 */

#include <stdbool.h>

/* Exit statuses (git's, env's and timeout's habits). */
enum {
	STATUS_OK = 0,
	STATUS_FAILED = 1,
	STATUS_CANNOT = 125,    /* record: the recording cannot be made */
	STATUS_NOT_RUN = 126,   /* record: the command cannot be executed */
	STATUS_NOT_FOUND = 127, /* record: there is no such command */
	STATUS_USAGE = 129,
};

/* The command in whose name messages are given; NULL: pystack itself. */
void msg_set_command(const char *name);
/* Drop what msg_info() says. */
void msg_set_quiet(bool on);

__attribute__((format(printf, 1, 2))) void msg_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void msg_info(const char *format, ...);
/* msg_info() without the name in front: perf's bracketed lines. */
__attribute__((format(printf, 1, 2))) void msg_line(const char *format, ...);

#endif
