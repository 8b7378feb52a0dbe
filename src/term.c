/* SPDX-License-Identifier: Apache-2.0 */
#include "term.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "msg.h"

static bool stdout_was_closed;
static pid_t pager;

void term_open_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* The lowest free number is this one.  Writing to a closed standard
		 * output fails; so must writing to what stands in for it. */
		stdout_was_closed |= fd == STDOUT_FILENO;
		if (fd != STDOUT_FILENO || open("/dev/full", O_WRONLY) < 0)
			(void)open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
	}
}

static void end_like_sigpipe(void)
{
	(void)signal(SIGPIPE, SIG_DFL);
	(void)raise(SIGPIPE);
}

static int check_stdout(int status)
{
	bool failed = ferror(stdout) != 0;
	int code = errno;

	if (fflush(stdout) != 0) {
		failed = true;
		code = errno;
	}
	if (failed && code == EPIPE) {
		end_like_sigpipe();
		return STATUS_FAILED;
	}
	if (failed) {
		msg_error("cannot write to standard output: %s",
			stdout_was_closed ? "it is closed" : strerror(code));
		return STATUS_FAILED;
	}
	return status;
}

int term_finish_stdout(int status)
{
	status = check_stdout(status);
	if (pager > 0) {
		(void)fclose(stdout);
		while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return status;
}

size_t term_width(void)
{
	struct winsize size;
	const char *columns = getenv("COLUMNS");
	uint64_t width = 80;

	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
		size.ws_col != 0)
		width = size.ws_col;
	else if (columns != NULL && parse_number(columns, 10000, &width) != 0)
		width = 80;
	return width < 40 ? 40 : (size_t)width;
}

bool term_is_ascii(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
	const char *locale = "";

	if (!isatty(STDOUT_FILENO))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value != NULL && value[0] != '\0') {
			locale = value;
			break;
		}
	}
	return strcasestr(locale, "utf-8") == NULL &&
	       strcasestr(locale, "utf8") == NULL;
}

void term_start_pager(void)
{
	const char *command = getenv("PYSTACK_PAGER");
	int ends[2];

	if (command == NULL)
		command = getenv("PAGER");
	if (command == NULL)
		command = "less";
	if (!isatty(STDOUT_FILENO) || command[0] == '\0' ||
		strcmp(command, "cat") == 0 || pipe2(ends, O_CLOEXEC) != 0)
		return;
	(void)fflush(stdout);
	pager = fork();
	if (pager == 0) {
		(void)dup2(ends[0], STDIN_FILENO);
		/* As perf and git: quit if it fits, keep colours, chop lines. */
		(void)setenv("LESS", "FRSX", 0);
		(void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(STATUS_NOT_FOUND);
	}
	if (pager > 0)
		(void)dup2(ends[1], STDOUT_FILENO);
	(void)close(ends[0]);
	(void)close(ends[1]);
}
