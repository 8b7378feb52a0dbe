/* SPDX-License-Identifier: Apache-2.0 */
#include "msg.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/xalloc.h"

static const char *command;
static bool quiet;

void msg_set_command(const char *name)
{
	command = name;
}

void msg_set_quiet(bool on)
{
	quiet = on;
}

/* One write, so that lines of several processes do not mix. */
__attribute__((format(printf, 2, 0))) static void say(
	const char *prefix, const char *format, va_list args)
{
	struct buf line = BUF_INIT(65536);
	char *text;

	if (vasprintf(&text, format, args) < 0)
		return;
	if (prefix != NULL) {
		buf_add_str(&line, prefix);
		if (command != NULL) {
			buf_add_str(&line, command);
			buf_add_str(&line, ": ");
		}
	}
	if (isatty(STDERR_FILENO))
		str_clean(&line, text, strlen(text), false);
	else
		buf_add_str(&line, text);
	buf_add_byte(&line, '\n');
	(void)fd_write_all(STDERR_FILENO, line.data, line.size);
	buf_done(&line);
	free(text);
}

void msg_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("pystack: ", format, args);
	va_end(args);
}

void msg_info(const char *format, ...)
{
	va_list args;

	if (quiet)
		return;
	va_start(args, format);
	say("pystack: ", format, args);
	va_end(args);
}

void msg_line(const char *format, ...)
{
	va_list args;

	if (quiet)
		return;
	va_start(args, format);
	say(NULL, format, args);
	va_end(args);
}
