/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that takes the handlers of SIGSEGV and SIGBUS, for
 * tests/python/apps/taker.py: by the C library, or by a system call of its own.  What
 * it handles is a fault that it makes itself.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As the kernel has it. */
struct raw_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

enum { RAW_RESTORER = 0x04000000, SIGNALS_BYTES = 8 };

/* rt_sigreturn */
extern void taker_return(void);
__asm__(".text\ntaker_return: mov $15, %eax\n\tsyscall\n");

static sigjmp_buf back;
static volatile sig_atomic_t faults;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
	faults++;
	siglongjmp(back, 1);
}

int take(int sig);
int take_raw(int sig);
int take_with(int sig, int ignore);
int make_faults(int count);

/* Returns 0, or -1. */
int take(int sig)
{
	struct sigaction a = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	return sigaction(sig, &a, NULL);
}

int take_raw(int sig)
{
	struct raw_action a = { on_fault, SA_SIGINFO | RAW_RESTORER, taker_return, 0 };

	return (int)syscall(SYS_rt_sigaction, sig, &a, NULL, SIGNALS_BYTES);
}

int take_with(int sig, int ignore)
{
	return signal(sig, ignore ? SIG_IGN : SIG_DFL) == SIG_ERR ? -1 : 0;
}

/* Load from where nothing is, so many times; returns how often it was handled. */
int make_faults(int count)
{
	void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	faults = 0;
	for (volatile int i = 0; i < count; i++)
		if (sigsetjmp(back, 1) == 0)
			(void)*(volatile char *)nothing;
	(void)munmap(nothing, 4096);
	return faults;
}
