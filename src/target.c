/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/xalloc.h"
#include "preload/fit.h"

extern char **environ;

/* As the kernel has it: sigaction() refuses the signals of the C library's own. */
struct kernel_action {
	uintptr_t handler;
	unsigned long flags;
	uintptr_t restorer;
	uint64_t mask;
};

enum { SIGNALS = 64 };

static long kernel_sigaction(
	int sig, const struct kernel_action *action, struct kernel_action *ret_old)
{
	return syscall(SYS_rt_sigaction, sig, action, ret_old, sizeof(action->mask));
}

void target_signals_save(struct target_signals *ret)
{
	ret->ignored = 0;
	(void)sigprocmask(SIG_SETMASK, NULL, &ret->mask);
	for (int sig = 1; sig <= SIGNALS; sig++) {
		struct kernel_action action;

		if (kernel_sigaction(sig, NULL, &action) == 0 &&
			action.handler == (uintptr_t)SIG_IGN)
			ret->ignored |= UINT64_C(1) << (sig - 1);
	}
}

static void restore_signals(const struct target_signals *s)
{
	struct kernel_action ignore = { .handler = (uintptr_t)SIG_IGN };

	for (int sig = 1; sig <= SIGNALS; sig++)
		if ((s->ignored >> (sig - 1) & 1) != 0)
			(void)kernel_sigaction(sig, &ignore, NULL);
	(void)sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

/* What the command will execute, as execvp() finds it; owned, NULL when it does not. */
static char *find_command(const char *name)
{
	const char *path = getenv("PATH");

	if (strchr(name, '/') != NULL)
		return xstrdup(name);
	if (path == NULL)
		path = "/bin:/usr/bin";
	for (const char *end; path != NULL; path = *end == ':' ? end + 1 : NULL) {
		end = strchrnul(path, ':');

		char *file = end == path ? xstrdup(name)
					 : xasprintf("%.*s/%s", (int)(end - path), path,
						   name);
		if (access(file, X_OK) == 0)
			return file;
		free(file);
	}
	return NULL;
}

/* In the child: this process's environment with the two entries of the preload
 * library (lib/preload/entries.h) added. */
static void set_environment(const struct target_options *o)
{
	char *file = find_command(o->argv[0]);
	/* A static program does not mind, and may start one that is not. */
	bool fits = file == NULL || fit_of_file(AT_FDCWD, file) != FIT_BREAKS;

	free(file);
	if (!fits)
		return;

	const char *old = getenv("LD_PRELOAD");
	char *value =
		old != NULL ? xasprintf("%s:%s", old, o->preload) : xstrdup(o->preload);

	(void)setenv("LD_PRELOAD", value, 1);
	free(value);
	_cleanup_free_ char *filters =
		o->filters != 0 ? xasprintf("filters=%d,%u:", o->filters, o->avoid)
				: xstrdup("");

	value = xasprintf("%s%s%s%s%s%s", o->alone ? "alone:" : "",
		o->adopts ? "adopted:" : "", o->isolation != NULL ? o->isolation : "",
		o->isolation != NULL ? ":" : "", filters, o->socket_path);
	(void)setenv("PYSTACK_SPAWN", value, 1);
	free(value);
}

/* In the child; comes back only when the command cannot be executed. */
static int execute(const struct target_options *o)
{
	restore_signals(o->signals);
	if (o->files != NULL)
		(void)setrlimit(RLIMIT_NOFILE, o->files);
	set_environment(o);
	(void)execvp(o->argv[0], o->argv);
	return errno;
}

int target_start(const struct target_options *options, pid_t *ret_pid, struct err *err)
{
	int ends[2], failure = 0;

	/* Closed by a successful exec; else it brings the reason. */
	if (pipe2(ends, O_CLOEXEC) != 0)
		return err_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	pid_t pid = fork();

	if (pid == 0) {
		failure = execute(options);
		(void)fd_write_all(ends[1], &failure, sizeof(failure));
		_exit(127);
	}
	int saved = errno;

	fd_close(&ends[1]);
	if (pid < 0) {
		fd_close(&ends[0]);
		return err_set(
			err, -saved, "cannot start a process: %s", strerror(saved));
	}
	ssize_t n = fd_read_full(ends[0], &failure, sizeof(failure));

	fd_close(&ends[0]);
	if (n == sizeof(failure)) {
		(void)waitpid(pid, NULL, 0);
		return err_set(err, -failure, "%s: %s", options->argv[0],
			failure == ENOENT ? "not found" : strerror(failure));
	}
	*ret_pid = pid;
	return 0;
}

int target_exit_status(int wait_status)
{
	if (WIFEXITED(wait_status))
		return WEXITSTATUS(wait_status);
	return 128 + WTERMSIG(wait_status);
}
