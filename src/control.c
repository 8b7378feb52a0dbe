/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/xalloc.h"

enum {
	FIRST_FD = 3,
	MOST_FD = 1 << 20,
	ANSWER_MAX = 4096, /* written whole or not at all */
	SHOWN_MAX = 40,    /* of a command that is none */
};

/* One direction. */
struct end {
	int fd; /* -1: none */
	bool is_socket;
};

struct control {
	struct end commands, answers;
	char line[CONTROL_LINE_MAX + 1];
	size_t size;  /* of what has come of lines */
	bool skip;    /* the rest of a line that is too long */
	bool dropped; /* an answer was */
	char buffer[CONTROL_BUFFER];
};

/* --- commands --- */

static const struct {
	const char *name;
	enum control_verb verb;
} verbs[] = {
	{ "enable", CONTROL_ENABLE },
	{ "disable", CONTROL_DISABLE },
	{ "snapshot", CONTROL_SNAPSHOT },
	{ "status", CONTROL_STATUS },
	{ "mark", CONTROL_MARK },
	{ "ping", CONTROL_PING },
	{ "stop", CONTROL_STOP },
};

/* Into buffer, as UTF-8 without NUL. */
static void copy_text(char *buffer, const char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0, step; i < size; i += step) {
		if (str_character(text + i, size - i, &step) == 0xfffd && step == 1) {
			memcpy(buffer + n, "\xef\xbf\xbd", 3);
			n += 3;
		} else {
			memcpy(buffer + n, text[i] != '\0' ? text + i : " ", step);
			n += step;
		}
	}
	buffer[n] = '\0';
}

static void bad(char *buffer, struct control_command *ret, const char *what,
	const char *text, size_t size)
{
	char shown[SHOWN_MAX * 3 + 1];

	copy_text(shown, text, size < SHOWN_MAX ? size : SHOWN_MAX);
	(void)snprintf(buffer, CONTROL_BUFFER,
		"%s '%s%s' (enable, disable, snapshot, "
		"status, mark TEXT, ping, stop)",
		what, shown, size > SHOWN_MAX ? "..." : "");
	*ret = (struct control_command){ CONTROL_BAD, buffer };
}

void control_parse_line(
	const char *line, size_t size, char *buffer, struct control_command *ret)
{
	size_t word = 0;

	while (size != 0 && (line[0] == ' ' || line[0] == '\t')) {
		line++;
		size--;
	}
	while (size != 0 && strchr(" \t\r", line[size - 1]) != NULL)
		size--;
	while (word < size && line[word] != ' ' && line[word] != '\t')
		word++;
	const char *rest = line + word;
	size_t rest_size = size - word;

	while (rest_size != 0 && (rest[0] == ' ' || rest[0] == '\t')) {
		rest++;
		rest_size--;
	}
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (word != strlen(verbs[i].name) ||
			memcmp(line, verbs[i].name, word) != 0)
			continue;
		if (verbs[i].verb == CONTROL_MARK && rest_size == 0) {
			bad(buffer, ret, "a mark needs a text:", line, size);
		} else if (verbs[i].verb != CONTROL_MARK && rest_size != 0) {
			bad(buffer, ret, "too much in", line, size);
		} else {
			copy_text(buffer, rest, rest_size);
			*ret = (struct control_command){ verbs[i].verb, buffer };
		}
		return;
	}
	bad(buffer, ret, "unknown command", line, size);
}

/* --- opening --- */

static int open_fifo(const char *path, struct end *ret, struct err *err)
{
	/* For both, so that it is no end when a writer or reader goes. */
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return err_set(err, -errno, "%s: %s%s", path, strerror(errno),
			errno == ENOENT ? "; make it with mkfifo" : "");
	if (fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode)) {
		(void)close(fd);
		return err_set(
			err, -ENXIO, "%s: is no named pipe; mkfifo makes one", path);
	}
	*ret = (struct end){ .fd = fd };
	return 0;
}

/*
 * A descriptor of our own on the same pipe, that does not block: to set that on the
 * one given would set it for all who share it.  Where it cannot be had we do with the
 * given one; nothing is read or written that poll() has not promised.
 */
static int reopen(int fd, int mode)
{
	char path[40];
	int own;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, mode | O_NONBLOCK | O_CLOEXEC);
	return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
}

static int open_fd(const char *text, bool answers, struct end *ret, struct err *err)
{
	uint64_t fd;
	struct stat st;

	if (parse_number(text, MOST_FD, &fd) != 0)
		return err_set(err, -EINVAL, "'%s' is no descriptor", text);
	if (fd < FIRST_FD)
		return err_set(err, -EINVAL,
			"descriptor %s is a standard one; give one from %d on", text,
			FIRST_FD);
	int flags = fcntl((int)fd, F_GETFL);
	int mode = answers ? O_WRONLY : O_RDONLY;

	if (flags < 0 || fstat((int)fd, &st) != 0)
		return err_set(err, -EBADF, "descriptor %s is not open", text);
	if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
		return err_set(err, -ENXIO, "descriptor %s is no pipe or socket", text);
	if ((flags & O_ACCMODE) != O_RDWR && (flags & O_ACCMODE) != mode)
		return err_set(err, -EBADF, "descriptor %s is not open for %s", text,
			answers ? "writing" : "reading");
	/* The program that is recorded shall not have it. */
	(void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	ret->is_socket = S_ISSOCK(st.st_mode);
	ret->fd = ret->is_socket ? fcntl((int)fd, F_DUPFD_CLOEXEC, FIRST_FD)
				 : reopen((int)fd, mode);
	return ret->fd >= 0 ? 0
			    : err_set(err, -errno, "descriptor %s: %s", text,
				      strerror(errno));
}

/* What is answered would be a command. */
static bool is_one_pipe(const struct control *c)
{
	struct stat commands, answers;

	return fstat(c->commands.fd, &commands) == 0 && S_ISFIFO(commands.st_mode) &&
	       fstat(c->answers.fd, &answers) == 0 &&
	       commands.st_dev == answers.st_dev && commands.st_ino == answers.st_ino;
}

static int open_ends(struct control *c, const char *spec, struct err *err)
{
	bool fifo = strncmp(spec, "fifo:", 5) == 0;

	if (!fifo && strncmp(spec, "fd:", 3) != 0)
		return err_set(err, -EINVAL,
			"'%s' is neither fifo:COMMANDS[,ANSWERS] nor fd:N[,M]", spec);
	_cleanup_free_ char *first = xstrdup(strchr(spec, ':') + 1);
	char *second = strchr(first, ',');

	if (second != NULL)
		*second++ = '\0';
	if (first[0] == '\0' || (second != NULL && second[0] == '\0'))
		return err_set(err, -EINVAL, "'%s' lacks a name", spec);
	int r = fifo ? open_fifo(first, &c->commands, err)
		     : open_fd(first, false, &c->commands, err);

	if (r != 0 || second == NULL)
		return r;
	r = fifo ? open_fifo(second, &c->answers, err)
		 : open_fd(second, true, &c->answers, err);
	if (r == 0 && is_one_pipe(c))
		r = err_set(err, -EINVAL,
			"'%s' is one pipe; commands and answers need one each", spec);
	return r;
}

int control_open(const char *spec, struct control **ret_control, struct err *err)
{
	struct control *c = xcalloc(1, sizeof(*c));

	c->commands.fd = c->answers.fd = -1;
	int r = open_ends(c, spec, err);

	if (r != 0) {
		control_free(c);
		return r;
	}
	*ret_control = c;
	return 0;
}

void control_free(struct control *c)
{
	if (c == NULL)
		return;
	fd_close(&c->commands.fd);
	fd_close(&c->answers.fd);
	free(c);
}

int control_fd(const struct control *c)
{
	return c->commands.fd;
}

bool control_has_answers(const struct control *c)
{
	return c->answers.fd >= 0;
}

/* --- lines --- */

/* Without waiting: 0 at the end, -EAGAIN when nothing is there. */
static ssize_t read_some(const struct end *e, char *to, size_t size)
{
	struct pollfd p = { .fd = e->fd, .events = POLLIN };
	ssize_t n;

	if (e->fd < 0 || poll(&p, 1, 0) <= 0)
		return -EAGAIN;
	n = e->is_socket ? recv(e->fd, to, size, MSG_DONTWAIT) : read(e->fd, to, size);
	return n >= 0 ? n : -errno;
}

static void read_more(struct control *c)
{
	ssize_t n;

	while (c->size < CONTROL_LINE_MAX) {
		n = read_some(
			&c->commands, c->line + c->size, CONTROL_LINE_MAX - c->size);
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			/* All writers are gone.  What they left is a line. */
			fd_close(&c->commands.fd);
			if (c->size != 0)
				c->line[c->size++] = '\n';
			return;
		}
		c->size += (size_t)n;
	}
}

static void drop_bytes(struct control *c, size_t size)
{
	memmove(c->line, c->line + size, c->size - size);
	c->size -= size;
}

bool control_next(struct control *c, struct control_command *ret)
{
	for (;;) {
		read_more(c);
		char *end = memchr(c->line, '\n', c->size);
		size_t size = end != NULL ? (size_t)(end - c->line) : c->size;

		if (end == NULL && c->size < CONTROL_LINE_MAX)
			return false;
		bool skip = c->skip, empty = strspn(c->line, " \t\r\n") >= size;

		if (end == NULL) {
			/* Told once, then passed over up to its end. */
			c->skip = true;
			c->size = 0;
			if (skip)
				continue;
			(void)snprintf(c->buffer, sizeof(c->buffer),
				"a line of more than %d bytes", CONTROL_LINE_MAX);
			*ret = (struct control_command){ CONTROL_BAD, c->buffer };
			return true;
		}
		if (!skip && !empty)
			control_parse_line(c->line, size, c->buffer, ret);
		c->skip = false;
		drop_bytes(c, size + 1);
		if (!skip && !empty)
			return true;
	}
}

/* --- answers --- */

static bool write_line(const struct end *e, const char *line, size_t size)
{
	struct pollfd p = { .fd = e->fd, .events = POLLOUT };
	ssize_t n;

	/* A pipe that is ready has room for as much as is never cut. */
	if (poll(&p, 1, 0) <= 0 || (p.revents & POLLOUT) == 0)
		return false;
	n = e->is_socket ? send(e->fd, line, size, MSG_DONTWAIT | MSG_NOSIGNAL)
			 : write(e->fd, line, size);
	return n == (ssize_t)size;
}

bool control_answer(struct control *c, const char *format, ...)
{
	char line[ANSWER_MAX];
	va_list args;
	int n;

	if (c->answers.fd < 0)
		return true;
	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (n < 0)
		return true;
	size_t size = (size_t)n < sizeof(line) - 2 ? (size_t)n : sizeof(line) - 2;

	line[size++] = '\n';
	if (write_line(&c->answers, line, size))
		return true;
	bool first = !c->dropped;

	c->dropped = true;
	return !first;
}
