/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded by apps/oracle.py: a thread of the program that again and again reads which
 * function runs, that is the top frame and its code alone.  Both loads lie within
 * nanoseconds, so that each reading is that of its instant and the shares have no bias:
 * what a sampler that looks at whole stacks has to match.  It sleeps at random between
 * readings, so as not to take the program's CPU.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { MAX_CODES = 4096, LONGEST_PAUSE_NS = 400000 };

struct layout {
	int32_t ts_frame, cframe_frame, fr_code, fr_previous, fr_owner, owner_skip;
	uint32_t code_tag_mask;
	int32_t ts_top; /* of the data stack; -1: not to be asked */
};

static struct layout layout;
static const char *thread_state;
static volatile bool stop;
static pthread_t thread;
static sigjmp_buf next_reading;
static uint64_t codes[MAX_CODES], counts[MAX_CODES];

int naive_start(void *ts, const struct layout *l);
int naive_stop(uint64_t *ret_codes, uint64_t *ret_counts, int most);

static uint64_t load(const char *address)
{
	return *(const volatile uint64_t *)address;
}

static const char *pointer(uint64_t v)
{
	return (const char *)(uintptr_t)v;
}

static void count(uint64_t code)
{
	uint32_t at = (uint32_t)(code >> 4) % MAX_CODES;

	for (int tries = 0; tries < MAX_CODES; tries++, at = (at + 1) % MAX_CODES) {
		if (codes[at] == 0)
			codes[at] = code;
		if (codes[at] == code) {
			counts[at]++;
			return;
		}
	}
}

/* 3.12 leaves a pointer into the C stack behind; what lies there may be anything. */
static void give_up_reading(int signal)
{
	(void)signal;
	siglongjmp(next_reading, 1);
}

static void *read_on(void *unused)
{
	volatile uint32_t random = 1;

	(void)unused;
	(void)sigsetjmp(next_reading, 1);
	while (!stop) {
		const char *frame = pointer(load(thread_state + layout.ts_frame));

		if (frame != NULL && layout.cframe_frame >= 0)
			frame = pointer(load(frame + layout.cframe_frame));
		/* 3.11 gives a frame's memory back before its caller is the current
		 * one. */
		if (frame != NULL && layout.ts_top >= 0 &&
			load(thread_state + layout.ts_top) == (uintptr_t)frame)
			frame = pointer(load(frame + layout.fr_previous));
		if (frame != NULL && layout.owner_skip >= 0 &&
			frame[layout.fr_owner] == layout.owner_skip)
			frame = pointer(load(frame + layout.fr_previous));
		if (frame != NULL)
			count(load(frame + layout.fr_code) &
				~(uint64_t)layout.code_tag_mask);
		random = random * 1664525 + 1013904223;

		struct timespec pause = {
			.tv_nsec = (long)((uint64_t)random * LONGEST_PAUSE_NS >> 32)
		};

		(void)nanosleep(&pause, NULL);
	}
	return NULL;
}

int naive_start(void *ts, const struct layout *l)
{
	thread_state = ts;
	layout = *l;
	(void)signal(SIGSEGV, give_up_reading);
	(void)signal(SIGBUS, give_up_reading);
	return pthread_create(&thread, NULL, read_on, NULL);
}

/* Fills the arrays; returns how many codes there were. */
int naive_stop(uint64_t *ret_codes, uint64_t *ret_counts, int most)
{
	int n = 0;

	stop = true;
	(void)pthread_join(thread, NULL);
	for (int i = 0; i < MAX_CODES && n < most; i++)
		if (codes[i] != 0) {
			ret_codes[n] = codes[i];
			ret_counts[n++] = counts[i];
		}
	return n;
}
