/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hold a thread while it is in the handler of a CPU timer.
 *
 *	hold-in-handler stop TID
 *	hold-in-handler hold TID
 *
 * Only that handler makes a thread of a Python read its own process's memory by
 * process_vm_readv.  So the thread is traced up to that call.  stop: its process is
 *sent SIGSTOP, and the thread is let go: it stops where the call returns; ends once it
 * stands.  hold: prints "held", and lets it go when the standard input ends.
 */
#ifndef _GNU_SOURCE
#	define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEADLINE_S = 60, CALL_STOP = SIGTRAP | 0x80 };

static int fail(const char *what)
{
	fprintf(stderr, "hold-in-handler: %s: %s\n", what, strerror(errno));
	return 1;
}

/* The number of the call at whose entry or exit it stands. */
static long call_of(pid_t tid)
{
	struct user_regs_struct regs;

	return ptrace(PTRACE_GETREGS, tid, 0, &regs) == 0 ? (long)regs.orig_rax : -1;
}

static bool is_stopped(pid_t tid)
{
	char path[64], text[512];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	FILE *f = fopen(path, "re");
	size_t n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f != NULL)
		(void)fclose(f);
	text[n] = '\0';
	const char *end = strrchr(text, ')');

	return end != NULL && strncmp(end, ") T", 3) == 0;
}

/* Up to the entry of the call. */
static int run_to_call(pid_t tid)
{
	int status;
	long sig = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, tid, 0, sig) != 0)
			return fail("PTRACE_SYSCALL");
		if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
			return fail("the thread has ended");
		bool at_call = WSTOPSIG(status) == CALL_STOP;

		if (at_call && call_of(tid) == SYS_process_vm_readv)
			return 0;
		sig = at_call || status >> 16 != 0 ? 0 : WSTOPSIG(status);
	}
}

static int let_go(pid_t tid)
{
	return ptrace(PTRACE_DETACH, tid, 0, 0) == 0 ? 0 : fail("PTRACE_DETACH");
}

static int stop(pid_t tid)
{
	const struct timespec nap = { .tv_nsec = 1000000 };

	if (kill(tid, SIGSTOP) != 0)
		return fail("SIGSTOP");
	if (let_go(tid) != 0)
		return 1;
	while (!is_stopped(tid))
		(void)nanosleep(&nap, NULL);
	return 0;
}

static int hold(pid_t tid)
{
	char byte;

	(void)puts("held");
	(void)fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return let_go(tid);
}

int main(int argc, char **argv)
{
	pid_t tid = argc == 3 ? (pid_t)atoi(argv[2]) : 0;
	int status;

	if (tid <= 0)
		return 2;
	(void)alarm(DEADLINE_S);
	if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) != 0)
		return fail("PTRACE_SEIZE");
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0 ||
		waitpid(tid, &status, __WALL) != tid)
		return fail("PTRACE_INTERRUPT");
	if (run_to_call(tid) != 0)
		return 1;
	return strcmp(argv[1], "stop") == 0 ? stop(tid) : hold(tid);
}
