/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of C code that calls back now and then, for tests/python/apps/callbacks.py:
 * in Python it has a new thread state each time.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

static struct {
	void (*function)(void);
	int count;
	int64_t own_ns; /* CPU time between two calls */
} job;
static pthread_t thread;

static int64_t cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void *run(void *unused)
{
	for (int i = 0; i < job.count; i++) {
		int64_t end = cpu_ns() + job.own_ns;

		while (cpu_ns() < end) {
		}
		job.function();
	}
	return unused;
}

int callbacks_start(void (*function)(void), int count, int own_us);
int callbacks_start(void (*function)(void), int count, int own_us)
{
	job.function = function;
	job.count = count;
	job.own_ns = own_us * 1000ll;
	return pthread_create(&thread, NULL, run, NULL);
}

int callbacks_join(void);
int callbacks_join(void)
{
	return pthread_join(thread, NULL);
}
