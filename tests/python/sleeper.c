/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a signal of the program's ends, and calls that wait with a mask of their
 * own, for tests/python/apps/timers.py: how often did they not end as they should?
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

long sleeper_reads(double seconds, int sig, int to_process);
long sleeper_masked(double seconds, int which);

static volatile sig_atomic_t handled;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

static double now(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void burn(double seconds)
{
	double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		continue;
}

struct sleeper {
	pid_t tid;
	int sig, to_wake[2];
	bool to_process;
	volatile long calls;
	volatile bool ends;
	long hung;
};

static char state_of(int stat)
{
	char text[256];
	ssize_t n = pread(stat, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return '?';
	while (n > 0 && text[n - 1] != ')')
		n--;
	return text[n + 1];
}

/* Send it a signal whenever it sleeps: it has to wake. */
static void *wake(void *arg)
{
	struct sleeper *s = arg;
	char name[64];

	(void)snprintf(name, sizeof(name), "/proc/self/task/%d/stat", (int)s->tid);
	int stat = open(name, O_RDONLY | O_CLOEXEC);

	while (!s->ends) {
		long calls = s->calls;

		if (state_of(stat) != 'S')
			continue;
		if (s->to_process)
			(void)kill(getpid(), s->sig);
		else
			(void)syscall(SYS_tgkill, getpid(), s->tid, s->sig);
		double end = now(CLOCK_MONOTONIC) + 1;

		while (s->calls == calls && !s->ends && now(CLOCK_MONOTONIC) < end)
			continue;
		if (s->calls == calls && !s->ends) {
			s->hung++;
			(void)!write(s->to_wake[1], "", 1);
			while (s->calls == calls && !s->ends)
				continue;
		}
	}
	(void)close(stat);
	return NULL;
}

/* Reads of a pipe that a signal should have ended, and did not. */
long sleeper_reads(double seconds, int sig, int to_process)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct sleeper s = { .tid = (pid_t)syscall(SYS_gettid), .sig = sig };
	double end = now(CLOCK_MONOTONIC) + seconds;
	sigset_t set, before;
	pthread_t thread;
	char byte;

	s.to_process = to_process != 0;
	(void)sigaction(sig, &action, NULL);
	if (pipe(s.to_wake) != 0)
		return -1;
	/* Of this process only this thread takes it. */
	(void)sigemptyset(&set);
	(void)sigaddset(&set, sig);
	(void)pthread_sigmask(SIG_BLOCK, &set, &before);
	if (pthread_create(&thread, NULL, wake, &s) != 0)
		return -1;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (; now(CLOCK_MONOTONIC) < end; s.calls++)
		(void)!read(s.to_wake[0], &byte, 1);
	s.ends = true;
	(void)pthread_join(thread, NULL);
	return s.hung;
}

enum { PPOLL, SIGWAIT, SIGSUSPEND };

/* Most of the time it waits, so that looks find it there. */
static const struct timespec apart = { 0, 40000000 };

static void *signal_now_and_then(void *arg)
{
	struct sleeper *s = arg;

	while (!s->ends) {
		(void)nanosleep(&apart, NULL);
		(void)syscall(SYS_tgkill, getpid(), s->tid, SIGUSR1);
	}
	return NULL;
}

/* One call that lets all signals in; was it ended by none of the program's? */
static bool is_astray(int which)
{
	sig_atomic_t before = handled;
	sigset_t all, none;

	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	switch (which) {
	case PPOLL:
		return ppoll(NULL, 0, &apart, &none) < 0 && handled == before;
	case SIGWAIT: {
		int sig = sigtimedwait(&all, NULL, &apart);

		return sig > 0 && sig != SIGUSR1;
	}
	default:
		return sigsuspend(&none) < 0 && handled == before;
	}
}

/* A thread that works with all signals blocked, and waits for them. */
long sleeper_masked(double seconds, int which)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct sleeper s = { .tid = (pid_t)syscall(SYS_gettid) };
	double end = now(CLOCK_MONOTONIC) + seconds;
	sigset_t all, before;
	pthread_t thread;
	long astray = 0;

	(void)sigaction(SIGUSR1, &action, NULL);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &before);
	if (which == SIGSUSPEND &&
		pthread_create(&thread, NULL, signal_now_and_then, &s) != 0)
		return -1;
	/* It had a timer until now: until it is seen that it blocks its signal. */
	burn(0.3);
	while (now(CLOCK_MONOTONIC) < end) {
		burn(0.012);
		astray += is_astray(which);
	}
	s.ends = true;
	if (which == SIGSUSPEND)
		(void)pthread_join(thread, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return astray;
}
