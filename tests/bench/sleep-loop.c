/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that any sampler costs: a loop that wakes at absolute times and does
 * nothing, or, for "max", reads the clock as often as it can.
 *
 * usage: sleep-loop HZ|max
 *
 * Runs until SIGTERM, then prints one JSON object.  A tick is late and a period is
 * missed by the rules of the sampler (core/loop.c): more than half a period behind its
 * time; wholly in the past when its turn comes.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { SECOND_NS = 1000000000 };

static volatile sig_atomic_t over;

static void on_term(int sig)
{
	(void)sig;
	over = 1;
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * SECOND_NS + ts.tv_nsec;
}

struct tally {
	uint64_t ticks, late, missed;
};

static void spin(struct tally *t)
{
	while (!over) {
		(void)clock_ns(CLOCK_MONOTONIC);
		t->ticks++;
	}
}

static void sleep_until(int64_t at_ns)
{
	struct timespec ts = {
		.tv_sec = at_ns / SECOND_NS,
		.tv_nsec = at_ns % SECOND_NS,
	};

	/* Cut short only by the signal that ends the loop. */
	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static void tick(struct tally *t, int64_t period_ns)
{
	int64_t at = clock_ns(CLOCK_MONOTONIC);

	for (;;) {
		at += period_ns;
		int64_t behind = clock_ns(CLOCK_MONOTONIC) - at;

		if (behind >= period_ns) {
			t->missed += (uint64_t)(behind / period_ns);
			at += behind / period_ns * period_ns;
		}
		if (behind < 0)
			sleep_until(at);
		if (over)
			return;
		t->ticks++;
		t->late += clock_ns(CLOCK_MONOTONIC) - at > period_ns / 2;
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_term };
	struct tally t = { 0 };
	bool max = argc == 2 && strcmp(argv[1], "max") == 0;
	double hz = argc == 2 && !max ? atof(argv[1]) : 0;

	if (!max && !(hz > 0)) {
		(void)fprintf(stderr, "usage: sleep-loop HZ|max\n");
		return 2;
	}
	(void)sigaction(SIGTERM, &action, NULL);
	(void)prctl(PR_SET_TIMERSLACK, 1);
	int64_t began = clock_ns(CLOCK_MONOTONIC);
	int64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	if (max)
		spin(&t);
	else
		tick(&t, (int64_t)(SECOND_NS / hz));
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	int64_t elapsed = clock_ns(CLOCK_MONOTONIC) - began;

	printf("{\"ticks\": %" PRIu64 ", \"late\": %" PRIu64 ", \"missed\": %" PRIu64
	       ", \"cpu_ns\": %" PRId64 ", \"elapsed_ns\": %" PRId64 "}\n",
		t.ticks, t.late, t.missed, cpu, elapsed);
	return 0;
}
