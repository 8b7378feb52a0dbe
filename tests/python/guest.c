/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libraries in a program do that a profiler must leave alone; loaded by
 * apps/guest.py with ctypes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ALTSTACK_BYTES = 65536, FOREIGN_STATUS = 86 };

int guest_take_signals(int raw);
int guest_has_signals(void);
int guest_take_altstack(void);
int guest_has_altstack(void);
int guest_start_states(int count);
int guest_leave_states(int count);
int guest_wait_calls(int milliseconds);

static void on_fault(int signal)
{
	static const char text[] = "FOREIGN HANDLER RAN\n";

	(void)signal;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(FOREIGN_STATUS);
}

struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* Own SIGSEGV and SIGBUS, by libc or behind its back; nobody else is asked on a fault.
 */
int guest_take_signals(int raw)
{
	static const int both[] = { SIGSEGV, SIGBUS };

	for (int i = 0; i < 2; i++) {
		struct sigaction action = { .sa_handler = on_fault,
			.sa_flags = SA_ONSTACK | SA_NODEFER };
		struct kernel_action direct = { .handler = on_fault,
			.flags = SA_ONSTACK | SA_NODEFER };

		if (raw ? syscall(SYS_rt_sigaction, both[i], &direct, NULL, 8) != 0
			: sigaction(both[i], &action, NULL) != 0)
			return -1;
	}
	return 0;
}

int guest_has_signals(void)
{
	struct sigaction a, b;

	return sigaction(SIGSEGV, NULL, &a) == 0 && sigaction(SIGBUS, NULL, &b) == 0 &&
	       a.sa_handler == on_fault && b.sa_handler == on_fault;
}

static _Thread_local void *altstack;

/* An alternate signal stack for the calling thread, this library's own. */
int guest_take_altstack(void)
{
	altstack = malloc(ALTSTACK_BYTES);

	stack_t s = { .ss_sp = altstack, .ss_size = ALTSTACK_BYTES };

	return altstack == NULL ? -1 : sigaltstack(&s, NULL);
}

int guest_has_altstack(void)
{
	stack_t now;

	return sigaltstack(NULL, &now) == 0 && now.ss_sp == altstack &&
	       now.ss_size == ALTSTACK_BYTES && now.ss_flags == 0;
}

static atomic_int states;

/* A thread that Python knows and that never runs any; or that ends and leaves its state
 * behind. */
static void *hold_state(void *end)
{
	int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
	void *(*save)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyEval_SaveThread");

	if (ensure == NULL || save == NULL)
		return NULL;
	(void)ensure();
	(void)save();
	atomic_fetch_add(&states, 1);
	while (end == NULL)
		(void)pause();
	return NULL;
}

static int start_states(int count, void *end)
{
	int all = atomic_load(&states) + count;

	for (int i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, hold_state, end) != 0)
			return -1;
		(void)pthread_detach(thread);
	}
	for (int i = 0; i < 5000 && atomic_load(&states) < all; i++)
		(void)poll(NULL, 0, 1);
	return atomic_load(&states) == all ? 0 : -1;
}

int guest_start_states(int count)
{
	return start_states(count, NULL);
}

int guest_leave_states(int count)
{
	return start_states(count, &states);
}

static int64_t now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

/* Calls that a signal would interrupt; returns how many were or were short. */
int guest_wait_calls(int milliseconds)
{
	int64_t end = now_us() + milliseconds * 1000ll;
	int epoll = epoll_create1(EPOLL_CLOEXEC), pipes[2], wrong = 0;
	char byte;

	if (epoll < 0 || pipe(pipes) != 0)
		return -1;
	while (now_us() < end) {
		int64_t start = now_us();
		struct epoll_event event;
		struct timeval tv = { .tv_usec = 4000 };
		struct timespec ts = { .tv_nsec = 4000000 };
		struct pollfd none = { .fd = pipes[0], .events = POLLIN };
		sigset_t set;

		(void)sigemptyset(&set);
		(void)sigaddset(&set, SIGUSR2);
		wrong += poll(&none, 1, 4) != 0;
		wrong += epoll_wait(epoll, &event, 1, 4) != 0;
		wrong += select(0, NULL, NULL, NULL, &tv) != 0;
		wrong += nanosleep(&ts, NULL) != 0;
		wrong += sigtimedwait(&set, NULL, &ts) != -1 || errno != EAGAIN;
		wrong += usleep(4000) != 0;
		wrong += now_us() - start < 6 * 4000 - 200;
		wrong += write(pipes[1], "x", 1) != 1 || read(pipes[0], &byte, 1) != 1;
	}
	(void)close(epoll);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
	return wrong;
}
