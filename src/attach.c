/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "msg.h"
#include "proc/process.h"

enum {
	STARTING_MS = 1000,
	DEPTH = 8,
};

static bool may_trace_all(void)
{
	struct proc_status own;

	return proc_status_read(getpid(), &own) == 0 &&
	       (own.capabilities >> CAP_SYS_PTRACE & 1) != 0;
}

/* Words on how to be allowed, for a refusal of the kernel. */
static void permission_hint(pid_t pid, const char *what, char *text, size_t size)
{
	struct buf scope = BUF_INIT(64);
	struct proc_status status = { 0 };

	if (may_trace_all())
		(void)snprintf(text, size,
			", though pystack has CAP_SYS_PTRACE; for more: pystack doctor %d",
			(int)pid);
	else if (geteuid() != 0)
		(void)snprintf(
			text, size, "; try: sudo pystack %s -p %d", what, (int)pid);
	else
		(void)snprintf(text, size,
			"; this needs CAP_SYS_PTRACE (in a container: --cap-add SYS_PTRACE)");
	if (proc_status_read(pid, &status) == 0 && status.uid == geteuid() &&
		geteuid() != 0 &&
		fd_read_file(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", &scope) ==
			0 &&
		buf_text(&scope)[0] != '0')
		(void)snprintf(text, size,
			" (kernel.yama.ptrace_scope is %c); try: sudo pystack %s -p %d",
			buf_text(&scope)[0], what, (int)pid);
	buf_done(&scope);
}

int attach_refused(pid_t pid, const char *what, int code, const char *why)
{
	char hint[160] = "";

	if (code == -EPERM || code == -EACCES) {
		permission_hint(pid, what, hint, sizeof(hint));
		why = "not permitted";
	} else if (code == -ESRCH || code == -ENOENT) {
		why = "there is no such process";
	}
	msg_error("cannot %s process %d: %s%s", what, (int)pid, why, hint);
	return STATUS_CANNOT;
}

/* A Python below pid, 0 when there is none. */
static pid_t python_below(pid_t pid, int depth, struct python_found *found)
{
	struct proc_ids children;
	pid_t result = 0;
	struct err ignored;

	if (depth == 0 || proc_children(pid, &children) != 0)
		return 0;
	for (size_t i = 0; i < children.count && result == 0; i++) {
		if (python_find(children.id[i], found, &ignored) == 0 &&
			found->kind != PYTHON_NONE)
			result = children.id[i];
		else
			result = python_below(children.id[i], depth - 1, found);
	}
	proc_ids_done(&children);
	return result;
}

/* Say why this process is not the one; its child may be. */
static int refuse(pid_t pid, const struct python_found *found)
{
	char text[160], what[64];
	struct python_found below;
	pid_t child = found->kind == PYTHON_NONE ? python_below(pid, DEPTH, &below) : 0;

	struct python_found stripped = { .kind = PYTHON_STRIPPED };

	if (found->kind == PYTHON_NONE && child == 0 && python_left_traces(pid))
		found = &stripped;
	proc_describe(pid, what, sizeof(what));
	if (child != 0)
		msg_error(
			"process %d (%s) is not a Python process; below it, process %d runs "
			"CPython %s: try -p %d",
			(int)pid, what, (int)child, below.version, (int)child);
	else
		msg_error("process %d (%s) %s", (int)pid, what,
			python_refusal(found, text, sizeof(text)));
	return STATUS_CANNOT;
}

/* Has the process ended, or its main thread alone?  Neither can be looked into: what
 * /proc tells of a process, it tells of that thread. */
static bool has_ended(pid_t pid, const char *what)
{
	struct proc_ids threads;
	struct proc_stat st;
	size_t live = 0;

	if (proc_stat_read(pid, 0, &st) != 0 || !proc_has_ended(&st))
		return false;
	if (proc_threads(pid, &threads) == 0) {
		for (size_t i = 0; i < threads.count; i++)
			live += proc_stat_read(pid, threads.id[i], &st) == 0 &&
				!proc_has_ended(&st);
		proc_ids_done(&threads);
	}
	if (live != 0)
		msg_error(
			"cannot %s process %d: its main thread has ended while %zu other%s "
			"on, which is not supported",
			what, (int)pid, live, live == 1 ? " goes" : "s go");
	else
		msg_error(
			"cannot %s process %d: it has ended, and waits for its parent to see "
			"that",
			what, (int)pid);
	return true;
}

/* The number of a thread, other than the main one, is no process's. */
static bool is_thread(pid_t pid, const char *what)
{
	struct proc_status status;

	if (proc_status_read(pid, &status) != 0 || status.process == 0 ||
		status.process == pid)
		return false;
	msg_error("cannot %s process %d: it is a thread of process %d; try -p %d", what,
		(int)pid, (int)status.process, (int)status.process);
	return true;
}

/* Returns STATUS_OK when it is known what the process is. */
static int find(pid_t pid, const char *what, struct python_found *ret)
{
	int64_t end = clock_monotonic_ns() + STARTING_MS * 1000000ll;
	struct err err = { "" };
	int code;

	if (kill(pid, 0) != 0 && errno == ESRCH)
		return attach_refused(pid, what, -ESRCH, "");
	if (is_thread(pid, what) || has_ended(pid, what))
		return STATUS_CANNOT;
	/* One that has just started gets a moment. */
	for (;;) {
		code = python_find(pid, ret, &err);
		if (code != 0 ||
			(ret->kind != PYTHON_STARTING && ret->kind != PYTHON_IDLE &&
				ret->kind != PYTHON_DAMAGED) ||
			clock_monotonic_ns() > end)
			break;
		clock_sleep_ns(10000000);
	}
	return code != 0 ? attach_refused(pid, what, code, err.text) : STATUS_OK;
}

static void tell_of_another(pid_t pid, const struct python_found *found)
{
	if (found->other_object[0] != '\0')
		msg_info(
			"process %d runs two Pythons: CPython %s (%s) is looked at, and %s "
			"(%s) is not",
			(int)pid, found->version, found->object, found->other_version,
			found->other_object);
}

int attach_find(pid_t pid, const char *what, struct python_found *ret)
{
	int status = find(pid, what, ret);

	if (status == STATUS_OK && ret->kind != PYTHON_CPYTHON)
		status = refuse(pid, ret);
	if (status == STATUS_OK)
		tell_of_another(pid, ret);
	return status;
}

int attach_find_below(
	pid_t pid, const char *what, struct python_found *ret, pid_t *ret_pid)
{
	struct python_found below;
	int status = find(pid, what, ret);

	*ret_pid = pid;
	if (status != STATUS_OK)
		return status;
	if (ret->kind == PYTHON_NONE) {
		*ret_pid = python_below(pid, DEPTH, &below);
		if (*ret_pid != 0 && below.kind == PYTHON_CPYTHON)
			*ret = below;
	}
	if (ret->kind != PYTHON_CPYTHON)
		return refuse(pid, ret);
	tell_of_another(*ret_pid, ret);
	return STATUS_OK;
}
