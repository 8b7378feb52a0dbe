/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_CONTROL_H
#define SRC_CONTROL_H

/*
 * The channel through which a recording is commanded while it lasts: lines that come
 * through a named pipe or a descriptor, each answered by a line on another, if one was
 * given.  Nothing here ever waits: writers come and go, lines come in pieces or never
 * end, answers may not be read.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum control_verb {
	CONTROL_ENABLE,
	CONTROL_DISABLE,
	CONTROL_SNAPSHOT,
	CONTROL_STATUS,
	CONTROL_MARK,
	CONTROL_PING,
	CONTROL_STOP,
	CONTROL_BAD, /* not a command, text says why */
};

struct control_command {
	enum control_verb verb;
	const char *text; /* of a mark, UTF-8; borrowed until the next is asked for */
};

/* One line, without its end, as a command.  line is changed: what is not UTF-8 or not
 * text is replaced; buffer takes what text may point to. */
void control_parse_line(
	const char *line, size_t size, char *buffer, struct control_command *ret);
enum { CONTROL_LINE_MAX = 4096, CONTROL_BUFFER = CONTROL_LINE_MAX * 3 + 200 };

struct control;

/*
 * Open the channel that spec describes: fifo:COMMANDS[,ANSWERS] or fd:N[,M].  Given
 * descriptors stay open, but not for programs that are executed.  Returns 0; -EINVAL
 * with words when spec is none; another negative code with words when it cannot be had.
 */
int control_open(const char *spec, struct control **ret_control, struct err *err);
void control_free(struct control *c);

/* To be polled for reading; -1 when nobody can write any more. */
int control_fd(const struct control *c);

/* The next whole line that is there; false when there is none. */
bool control_next(struct control *c, struct control_command *ret);

/* Answer it.  Where nobody reads answers they are dropped: false, the first time.
 * SIGPIPE should be blocked. */
__attribute__((format(printf, 2, 3))) bool control_answer(
	struct control *c, const char *format, ...);
bool control_has_answers(const struct control *c);

#endif
