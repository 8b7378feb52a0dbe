/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands from outside: whoever writes them may write anything, in pieces, without an
 * end, and need not read what is answered.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "control.h"
#include "schedule.h"
#include "scratch.h"
#include "tap.h"

/* --- lines --- */

static const struct {
	const char *line;
	enum control_verb verb;
	const char *text; /* of a mark; or what a message must hold */
} lines[] = {
	{ "enable", CONTROL_ENABLE, "" },
	{ "disable", CONTROL_DISABLE, "" },
	{ "snapshot", CONTROL_SNAPSHOT, "" },
	{ "status", CONTROL_STATUS, "" },
	{ "ping", CONTROL_PING, "" },
	{ "stop", CONTROL_STOP, "" },
	{ "  ping \t\r", CONTROL_PING, "" },
	{ "mark here", CONTROL_MARK, "here" },
	{ "mark \t two  words ", CONTROL_MARK, "two  words" },
	{ "mark \xff\xc3", CONTROL_MARK, "\xef\xbf\xbd\xef\xbf\xbd" },
	{ "mark \x1b[31m\xe4\xb8\xad", CONTROL_MARK, "\x1b[31m\xe4\xb8\xad" },
	{ "mark", CONTROL_BAD, "needs a text" },
	{ "mark  ", CONTROL_BAD, "needs a text" },
	{ "ping now", CONTROL_BAD, "too much in 'ping now'" },
	{ "PING", CONTROL_BAD, "unknown command 'PING'" },
	{ "pin", CONTROL_BAD, "unknown command 'pin' (enable, " },
	{ "pingping", CONTROL_BAD, "unknown command" },
	{ "marker x", CONTROL_BAD, "unknown command" },
	{ "evlist", CONTROL_BAD, "unknown command" },
	{ "0123456789012345678901234567890123456789x", CONTROL_BAD, "...'" },
	{ "\xff", CONTROL_BAD, "'\xef\xbf\xbd'" },
};

static void test_lines(void)
{
	char buffer[CONTROL_BUFFER];
	struct control_command c;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		control_parse_line(lines[i].line, strlen(lines[i].line), buffer, &c);
		bool right =
			c.verb == lines[i].verb &&
			(c.verb == CONTROL_BAD ? strstr(c.text, lines[i].text) != NULL
					       : strcmp(c.text, lines[i].text) == 0);

		if (!tap_ok(right, "line %zu", i))
			printf("# verb %d, '%s'\n", c.verb, c.text);
	}
	control_parse_line("mark a\0b", 8, buffer, &c);
	tap_str(c.text, "a b", "a NUL is no text");
	char longest[CONTROL_LINE_MAX];

	memset(longest, 0xff, sizeof(longest));
	memcpy(longest, "mark ", 5);
	control_parse_line(longest, sizeof(longest), buffer, &c);
	tap_is((int64_t)strlen(c.text), (CONTROL_LINE_MAX - 5) * 3,
		"the longest line of what is no UTF-8");
	longest[4] = 'x';
	control_parse_line(longest, sizeof(longest), buffer, &c);
	tap_is(c.verb, CONTROL_BAD, "as an unknown command");
}

/* --- specifications --- */

static int try_open(const char *spec, char *text, size_t size)
{
	struct control *c = NULL;
	struct err err = { "" };
	int code = control_open(spec, &c, &err);

	control_free(c);
	(void)snprintf(text, size, "%s", err.text);
	return code;
}

static void expect_refusal(const char *spec, int wanted, const char *part)
{
	char text[sizeof(((struct err *)0)->text)];
	int code = try_open(spec, text, sizeof(text));

	if (!tap_ok(code == wanted && strstr(text, part) != NULL, "'%.60s' is refused",
		    spec))
		printf("# %d %s\n", code, text);
}

static void test_specs(void)
{
	char spec[700];
	int ends[2], file = open(scratch("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	expect_refusal("", -EINVAL, "neither fifo:");
	expect_refusal("unix:/tmp/x", -EINVAL, "neither fifo:");
	expect_refusal("fifo", -EINVAL, "neither");
	expect_refusal("fifo:", -EINVAL, "lacks a name");
	expect_refusal("fifo:,x", -EINVAL, "lacks a name");
	expect_refusal("fifo:x,", -EINVAL, "lacks a name");
	expect_refusal("fd:", -EINVAL, "lacks a name");
	expect_refusal("fd:x", -EINVAL, "'x' is no descriptor");
	expect_refusal("fd:-1", -EINVAL, "'-1' is no descriptor");
	expect_refusal("fd:99999999999", -EINVAL, "is no descriptor");
	expect_refusal("fd:0", -EINVAL, "standard");
	expect_refusal("fd:2,3", -EINVAL, "standard");
	expect_refusal("fd:777777", -EBADF, "is not open");
	(void)snprintf(spec, sizeof(spec), "fd:%d", file);
	expect_refusal(spec, -ENXIO, "no pipe or socket");
	(void)snprintf(spec, sizeof(spec), "fifo:%s", scratch("none"));
	expect_refusal(spec, -ENOENT, "make it with mkfifo");
	(void)snprintf(spec, sizeof(spec), "fifo:%s", scratch("file"));
	expect_refusal(spec, -ENXIO, "is no named pipe");
	if (pipe2(ends, 0) != 0)
		return;
	(void)snprintf(spec, sizeof(spec), "fd:%d", ends[1]);
	expect_refusal(spec, -EBADF, "not open for reading");
	(void)snprintf(spec, sizeof(spec), "fd:%d,%d", ends[0], ends[0]);
	expect_refusal(spec, -EBADF, "not open for writing");
	(void)snprintf(spec, sizeof(spec), "fd:%d,%d", ends[0], ends[1]);
	expect_refusal(spec, -EINVAL, "is one pipe");
	(void)mkfifo(scratch("pipe"), 0600);
	(void)snprintf(
		spec, sizeof(spec), "fifo:%s,%s", scratch("pipe"), scratch("pipe"));
	expect_refusal(spec, -EINVAL, "is one pipe");
	tap_ok((fcntl(ends[0], F_GETFD) & FD_CLOEXEC) != 0 &&
			(fcntl(ends[0], F_GETFL) & O_NONBLOCK) == 0,
		"a descriptor is closed for others, and blocks as it did");
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)close(file);
	scratch_empty();
}

/* --- the channel --- */

static bool is_next(struct control *c, enum control_verb verb)
{
	struct control_command got;

	return control_next(c, &got) && got.verb == verb;
}

static bool is_none(struct control *c)
{
	struct control_command got;

	return !control_next(c, &got);
}

static void say(int fd, const char *text)
{
	(void)fd_write_all(fd, text, strlen(text));
}

/* All that can be read at once. */
static const char *heard(int fd)
{
	static char text[10000];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void test_pieces(struct control *c, int writer, int reader)
{
	struct control_command got;

	tap_ok(is_none(c), "nothing has been said");
	say(writer, "pi");
	tap_ok(is_none(c), "half a line is none");
	say(writer, "ng\n\n  \nmark a b\nsto");
	tap_ok(is_next(c, CONTROL_PING), "then it is one");
	tap_ok(control_next(c, &got) && got.verb == CONTROL_MARK &&
			strcmp(got.text, "a b") == 0,
		"empty lines are none");
	tap_ok(is_none(c), "a line at a time");
	say(writer, "p\n");
	tap_ok(is_next(c, CONTROL_STOP), "in any pieces");
	tap_ok(control_answer(c, "ack") && control_answer(c, "%d", 7),
		"answers are written");
	tap_str(heard(reader), "ack\n7\n", "a line each");
}

static void test_long_line(struct control *c, int writer)
{
	char piece[1000];
	struct control_command got;

	memset(piece, 'x', sizeof(piece));
	for (int i = 0; i < 10; i++) {
		(void)fd_write_all(writer, piece, sizeof(piece));
		if (i == 5)
			tap_ok(control_next(c, &got) && got.verb == CONTROL_BAD &&
					strstr(got.text, "more than 4096") != NULL,
				"a line without an end is told");
		else if (i > 5)
			(void)control_next(c, &got);
	}
	tap_ok(is_none(c), "once");
	say(writer, "ping\nping\n");
	tap_ok(is_next(c, CONTROL_PING) && is_none(c),
		"its end is no command, but what follows is one");
	/* As long as may be. */
	char line[CONTROL_LINE_MAX];

	memset(line, ' ', sizeof(line));
	memcpy(line, "ping", 4);
	line[sizeof(line) - 1] = '\n';
	(void)fd_write_all(writer, line, sizeof(line));
	tap_ok(is_next(c, CONTROL_PING), "a line of the greatest length");
}

static void test_full_answers(struct control *c, int reader)
{
	int written = 0;
	bool told = false;

	for (; written < 100000 && !told; written++)
		told = !control_answer(c, "an answer that nobody reads");
	tap_ok(told && written > 100, "answers are dropped when nobody reads them");
	tap_ok(control_answer(c, "more"), "which is told once");
	while (strlen(heard(reader)) == 9999)
		;
	tap_ok(control_answer(c, "again") && strstr(heard(reader), "again") != NULL,
		"and are written again when somebody does");
}

static void test_fifo(void)
{
	struct control *c;
	struct err err = { "" };
	char spec[700];

	(void)mkfifo(scratch("commands"), 0600);
	(void)mkfifo(scratch("answers"), 0600);
	(void)snprintf(spec, sizeof(spec), "fifo:%s,%s", scratch("commands"),
		scratch("answers"));
	if (!tap_ok(control_open(spec, &c, &err) == 0, "named pipes")) {
		printf("# %s\n", err.text);
		return;
	}
	int writer = open(scratch("commands"), O_WRONLY | O_CLOEXEC);
	int reader = open(scratch("answers"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	test_pieces(c, writer, reader);
	test_long_line(c, writer);
	test_full_answers(c, reader);
	(void)close(writer);
	(void)close(reader);
	tap_ok(is_none(c) && control_fd(c) >= 0, "a writer that goes is no end");
	tap_ok(control_answer(c, "ack"), "nor is a reader");
	writer = open(scratch("commands"), O_WRONLY | O_CLOEXEC);
	say(writer, "ping\n");
	tap_ok(is_next(c, CONTROL_PING), "another may come");
	(void)close(writer);
	control_free(c);
	scratch_empty();
}

static void test_pipes(void)
{
	struct control *c;
	struct err err = { "" };
	char spec[100];
	int commands[2], answers[2];

	if (pipe2(commands, 0) != 0 || pipe2(answers, 0) != 0)
		return;
	(void)snprintf(spec, sizeof(spec), "fd:%d,%d", commands[0], answers[1]);
	if (!tap_ok(control_open(spec, &c, &err) == 0, "pipes")) {
		printf("# %s\n", err.text);
		return;
	}
	(void)fcntl(answers[0], F_SETFL, O_NONBLOCK);
	test_pieces(c, commands[1], answers[0]);
	test_full_answers(c, answers[0]);
	say(commands[1], "ping\nsto");
	(void)close(commands[1]);
	(void)close(commands[0]);
	tap_ok(is_next(c, CONTROL_PING) && is_next(c, CONTROL_BAD),
		"what is left when all writers are gone is a line");
	tap_ok(is_none(c) && control_fd(c) < 0, "and then is nothing more");
	(void)close(answers[0]);
	(void)close(answers[1]);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)control_answer(c, "ack");
	tap_ok(true, "an answer without any reader ends nobody");
	control_free(c);
}

static void test_socket(void)
{
	struct control *c;
	struct err err = { "" };
	char spec[100];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		return;
	(void)snprintf(spec, sizeof(spec), "fd:%d,%d", ends[0], ends[0]);
	if (!tap_ok(control_open(spec, &c, &err) == 0, "a socket for both")) {
		printf("# %s\n", err.text);
		return;
	}
	(void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
	test_pieces(c, ends[1], ends[1]);
	(void)close(ends[1]);
	tap_ok(is_none(c) && control_fd(c) < 0, "until the other end is closed");
	(void)close(ends[0]);
	control_free(c);
	control_free(NULL);
}

/* --- the schedule --- */

static const struct {
	const char *text;
	int64_t ms[6]; /* rising; -1: the end */
} schedules[] = {
	{ "500", { 500, -1 } },
	{ "0", { 0, -1 } },
	{ "2s", { 2000, -1 } },
	{ "1.5m", { 90000, -1 } },
	{ "-1", { -1 } },
	{ "10-20", { 10, 20, -1 } },
	{ "0-1s,2s-3s", { 0, 1000, 2000, 3000, -1 } },
	{ "10-20,30-40", { 10, 20, 30, 40, -1 } },
};

static const char *const no_schedules[] = { "", "x", "-2", "-", "--", "10-", "-10",
	"10-10", "20-10", "10-20,15-30", "10-20,20-30", "10-20,", ",10-20",
	"10-20,,30-40", "10-20-30", "10,20", "10-20,30", "1e30", "99999999999999999999",
	"1e30s", "10 -20", "200000d" };

static void test_schedule(void)
{
	struct err err;

	for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++) {
		struct schedule s = { 0 };
		bool right = schedule_parse(schedules[i].text, &s, &err) == 0;
		size_t n = 0;

		for (; right && schedules[i].ms[n] >= 0; n++)
			right = n < s.count &&
				s.toggle_ns[n] == schedules[i].ms[n] * 1000000;
		tap_ok(right && s.count == n, "'%s'", schedules[i].text);
		schedule_done(&s);
	}
	for (size_t i = 0; i < sizeof(no_schedules) / sizeof(no_schedules[0]); i++) {
		struct schedule s = { 0 };

		tap_ok(schedule_parse(no_schedules[i], &s, &err) == -EINVAL &&
				s.toggle_ns == NULL,
			"'%s' is none", no_schedules[i]);
	}
	char many[20000] = "";
	struct schedule s = { 0 };

	for (int i = 0; i < 501; i++)
		(void)snprintf(many + strlen(many), sizeof(many) - strlen(many),
			"%s%d-%d", i != 0 ? "," : "", i * 2, i * 2 + 1);
	tap_is(schedule_parse(many, &s, &err), -EINVAL, "nor are too many");
}

int main(void)
{
	scratch_begin();
	test_lines();
	test_specs();
	test_fifo();
	test_pipes();
	test_socket();
	test_schedule();
	scratch_end();
	return tap_done();
}
