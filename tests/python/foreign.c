/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of SIGSEGV and SIGBUS as libraries install them, for
 * tests/python/apps/copies.py: of faults that are raised here, and handed on to what
 * was there before if they are not.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 65 };

struct raw_action {
	uint64_t handler, flags, restorer, mask;
};

static struct raw_action before[MOST];
static unsigned char *volatile area; /* what faults here */
static volatile sig_atomic_t handled, handed_on;

static void handler(int sig, siginfo_t *info, void *context)
{
	const struct raw_action *b = &before[sig];
	unsigned char *at = info->si_addr;

	if (info->si_code > 0 && area != NULL && at >= area && at < area + PAGE) {
		handled++;
		(void)mprotect(area, PAGE, PROT_READ | PROT_WRITE);
		return;
	}
	handed_on++;
	if (b->handler > 1) {
		((void (*)(int, siginfo_t *, void *))b->handler)(sig, info, context);
		return;
	}
	(void)signal(sig, SIG_DFL);
}

static int call(int sig, const struct raw_action *new, struct raw_action *old)
{
	return (int)syscall(SYS_rt_sigaction, sig, new, old, 8);
}

/* Install it, by the C library or without it; what was there is kept. */
int foreign_take(int sig, int raw);
int foreign_take(int sig, int raw)
{
	struct sigaction a = { .sa_sigaction = handler,
		.sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct raw_action now, mine;

	if (call(sig, NULL, &now) != 0)
		return -1;
	if (now.handler != (uint64_t)(uintptr_t)handler)
		before[sig] = now;
	if (sigaction(sig, &a, NULL) != 0)
		return -1;
	if (!raw)
		return 0;
	/* With the C library's restorer, but set by the kernel alone. */
	if (call(sig, NULL, &mine) != 0 || call(sig, &now, NULL) != 0)
		return -1;
	return call(sig, &mine, NULL);
}

int foreign_give_back(int sig);
int foreign_give_back(int sig)
{
	return call(sig, &before[sig], NULL);
}

/* So many faults of the program's own.  Returns how many were handled. */
int foreign_fault(int count);
int foreign_fault(int count)
{
	int first = handled;

	if (area == NULL)
		area = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < count; i++) {
		if (mprotect(area, PAGE, PROT_NONE) != 0)
			return -1;
		*(volatile unsigned char *)(area + 8) = 1;
	}
	return handled - first;
}

int foreign_handed_on(void);
int foreign_handed_on(void)
{
	return handed_on;
}

/* 1 if it stands there. */
int foreign_stands(int sig);
int foreign_stands(int sig)
{
	struct raw_action now;

	return call(sig, NULL, &now) == 0 &&
	       now.handler == (uint64_t)(uintptr_t)handler;
}

/* As a host does that Python is a part of: before anything else. */
__attribute__((constructor)) static void at_start(void)
{
	if (getenv("FOREIGN_AT_START") == NULL)
		return;
	(void)foreign_take(SIGSEGV, 0);
	(void)foreign_take(SIGBUS, 0);
}
