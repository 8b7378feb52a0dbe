/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strata by simulation: whatever a program does, the share of the ticks' weight at
 * a place is the share of the time spent there.  Beside each, the ways that look right
 * and are not.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/strata.h"
#include "tap.h"

enum { MS = 1000000 };

/* Of how long a program is simulated: where that is slow, a part of it, which is good
 * for less. */
static int part = 1;

/* A program: at which of its places is it at a time? */
typedef int place_function(int64_t ns);

/* Busy 1 ms of every 5, in step with the rates used below. */
static int one_in_five(int64_t ns)
{
	return ns % (5 * MS) < 1 * MS;
}

/* Busy 1 ms of every 20: one tick or none falls into each burst. */
static int one_in_twenty(int64_t ns)
{
	return ns % (20 * MS) < 1 * MS;
}

/* Exactly as long as a stratum, half of it busy. */
static int in_lockstep(int64_t ns)
{
	return ns % (10 * MS) < 5 * MS;
}

/* The same share, in step with nothing. */
static int out_of_step(int64_t ns)
{
	return ns % 7300001 < 1460000;
}

/* Idle for 2 s, busy for 2 s, in which two places alternate. */
static int load_steps(int64_t ns)
{
	return ns / 1000 / MS / 2 % 2 == 0 ? 0 : ns % (7 * MS) < 3 * MS;
}

/* In turns with the strata: one of them busy, the next one not. */
static int in_turns(int64_t ns)
{
	return ns % (20 * MS) < 10 * MS;
}

/* Wakes at each multiple of the interval, and works for 1 ms. */
static int at_multiples(int64_t ns)
{
	return ns % (10 * MS) < 1 * MS;
}

/* Works for 1 ms every 100. */
static int seldom(int64_t ns)
{
	return ns % (100 * MS) < 1 * MS;
}

/* Idle and busy for a quarter of a second each: as often as the rate is set anew. */
static int with_adaptation(int64_t ns)
{
	return ns % (500 * MS) < 250 * MS;
}

/* Busy for 0.1 s of every 0.5, in step with nothing: the rate follows each burst. */
static int in_bursts(int64_t ns)
{
	return ns % (500 * MS + 170007) < 100 * MS;
}

struct result {
	double share; /* of the weight, in percent */
	uint64_t ticks;
	uint64_t missed;
};

/* The rate of the next while, from the load of the last: as adaptation would. */
static int64_t follow_load(place_function *place, int64_t now, int64_t length)
{
	int busy = 0;

	for (int i = 0; i < 100; i++)
		busy += place(now - i * MS / 4);
	return busy > 30 ? length : length * 8;
}

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/*
 * Sample a program for so many seconds.  late_ns: each tick is taken up to that much
 * after its instant (the place is the one at that time).
 */
static struct result sample(place_function *place, int64_t length, int seconds,
	bool adaptive, int64_t late_ns, uint64_t seed)
{
	struct strata s;
	struct result r = { 0 };
	double busy = 0, whole = 0;
	int64_t end = (int64_t)seconds * 1000 * MS, now;
	uint64_t random = seed;

	strata_init(&s, seed, 12345, length);
	for (now = s.tick; now<end; now = s.tick> now ? s.tick : now) {
		if (late_ns != 0)
			now += (int64_t)(draw(&random) % (uint64_t)late_ns);
		busy += place(now) ? (double)s.length : 0;
		whole += (double)s.length;
		r.ticks++;
		if (adaptive && r.ticks % 16 == 0)
			strata_set_length(&s, follow_load(place, now, length));
		r.missed += strata_next(&s, now);
	}
	r.share = 100 * busy / whole;
	return r;
}

/* CPU time of a program until ns, with one thread that is at place 1 or sleeps; looked
 * at so often that no change is missed. */
static int64_t cpu_until(place_function *place, int64_t *from, int64_t to)
{
	enum { STEP = 250000 };
	int64_t cpu = 0;

	for (; *from + STEP <= to; *from += STEP)
		cpu += place(*from) ? STEP : 0;
	return cpu;
}

/* The adaptive rate as it is: the budget decides, every 0.25 s, and a tick costs so
 * much. */
static struct result sample_adaptive(place_function *place, int64_t shortest,
	int64_t tick_cost_ns, int seconds, uint64_t seed)
{
	const struct strata_budget b = {
		.program_ppm = 10000,
		.core_ppm = 2000,
		.shortest = shortest,
		.longest = 100 * MS,
	};
	struct strata s;
	struct result r = { 0 };
	double busy = 0, whole = 0;
	int64_t end = (int64_t)seconds * 1000 * MS, adapted = 0, counted = 0, spent = 0;

	strata_init(&s, seed, 0, shortest);
	while (s.tick < end) {
		int64_t now = s.tick;

		busy += place(now) ? (double)s.length : 0;
		whole += (double)s.length;
		r.ticks++;
		spent += tick_cost_ns;
		if (now - adapted >= 250 * MS) {
			strata_set_length(
				&s, strata_adapt(&b, s.length, now - adapted, spent,
					    cpu_until(place, &counted, now)));
			adapted = now;
			spent = 0;
		}
		r.missed += strata_next(&s, now);
	}
	r.share = 100 * busy / whole;
	return r;
}

/* CPU time by place, in percent. */
struct cpu_result {
	double work, sleep, nobody;
};

/*
 * CPU time of a program that works and sleeps.  in_windows: the time between two looks
 * goes to the ticks that saw it running, and waits until there are such ticks; else to
 * what is seen at the tick in hand, as it is wrong.
 */
static struct cpu_result sample_cpu(
	place_function *place, int64_t length, int seconds, bool in_windows)
{
	struct strata s;
	double work = 0, sleep = 0, waiting = 0;
	int64_t end = (int64_t)seconds * 1000 * MS, counted = 0, looked = 0;
	uint64_t running = 0;

	strata_init(&s, 17, 0, length);
	for (; s.tick < end; (void)strata_next(&s, s.tick)) {
		bool at_work = place(s.tick);

		running += at_work;
		if (in_windows && s.tick - looked < 50 * MS)
			continue;
		looked = s.tick;
		waiting += (double)cpu_until(place, &counted, s.tick);
		if (in_windows && running == 0)
			continue;
		*(at_work || in_windows ? &work : &sleep) += waiting;
		waiting = 0;
		running = 0;
	}
	double whole = (work + sleep + waiting) / 100;

	return (struct cpu_result){ work / whole, sleep / whole, waiting / whole };
}

/* The same with "the time since the last sample" for a weight. */
static double sample_by_distance(place_function *place, int64_t length, int seconds)
{
	double busy = 0, whole = 0;
	int64_t end = (int64_t)seconds * 1000 * MS, interval = length, last = 0;

	for (int64_t now = length, n = 1; now < end; now += interval, n++) {
		busy += place(now) ? (double)(now - last) : 0;
		whole += (double)(now - last);
		last = now;
		if (n % 16 == 0)
			interval = follow_load(place, now, length);
	}
	return 100 * busy / whole;
}

static void check(const char *what, double got, double wanted, double tolerance)
{
	if (!tap_ok(fabs(got - wanted) <= tolerance, "%s", what))
		printf("# %.3f, wanted %.3f within %.3f points\n", got, wanted,
			tolerance);
	else
		printf("# %.3f of %.3f points\n", got, wanted);
}

static void test_shares(void)
{
	const int seconds = 20000 / part;
	const double near = 0.1 * sqrt(part);

	check("1 ms of every 5",
		sample(one_in_five, 10 * MS, seconds, false, 0, 1).share, 20, near);
	check("1 ms of every 20, at a high rate",
		sample(one_in_twenty, 1 * MS, seconds, false, 0, 2).share, 5, near);
	check("1 ms of every 20, at a low rate",
		sample(one_in_twenty, 10 * MS, seconds, false, 0, 3).share, 5, near);
	check("in lockstep with the strata",
		sample(in_lockstep, 10 * MS, seconds, false, 0, 4).share, 50, near);
	check("load that steps, rate that follows it",
		sample(load_steps, 1 * MS, seconds, true, 0, 5).share, 100.0 * 3 / 14,
		near);
	check("1 ms of every 20, rate that follows it",
		sample(one_in_twenty, 1 * MS, seconds, true, 0, 6).share, 5, near);
	/* A late tick is drawn towards the end of its stratum: harmless, unless strata
	 * and program are in step (then 0.1 points, for ticks late by 40 % of a
	 * stratum). */
	check("ticks taken late",
		sample(out_of_step, 10 * MS, seconds, false, 4 * MS, 7).share, 20,
		near);
	check("ticks taken later than a stratum",
		sample(out_of_step, 1 * MS, seconds, false, 3 * MS, 8).share, 20, near);
}

/* Loads that follow the rate, and that the rate follows. */
static void test_adaptive(void)
{
	static const struct {
		const char *what;
		place_function *place;
		double share;
	} loads[] = {
		{ "load that steps", load_steps, 100.0 * 3 / 14 },
		{ "places in turns with the interval", in_turns, 50 },
		{ "the first half of each interval", in_lockstep, 50 },
		{ "work at each multiple of the interval", at_multiples, 10 },
		{ "load that steps with the adaptation", with_adaptation, 50 },
		{ "1 ms of every 20", one_in_twenty, 5 },
	};
	const int seconds = 20000 / part;
	static const int64_t costs[] = { 30000, 300000 };

	for (unsigned i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
		for (unsigned j = 0; j < 2; j++) {
			struct result r = sample_adaptive(loads[i].place,
				1 * MS * (j == 0 ? 10 : 1), costs[j], seconds,
				i * 2 + j + 20);
			char text[128];

			(void)snprintf(text, sizeof(text),
				"%s, ticks of %d us: %.0f a second", loads[i].what,
				(int)(costs[j] / 1000), (double)r.ticks / seconds);
			check(text, r.share, loads[i].share, 0.3 * sqrt(part));
		}
}

static void test_cpu(void)
{
	struct cpu_result r = sample_cpu(seldom, 10 * MS, 2000, true);

	tap_ok(r.work + r.nobody > 99.99 && r.nobody < 1,
		"1 ms of 100: CPU time is that of the work (%.2f %%, nobody's %.2f)",
		r.work, r.nobody);
	r = sample_cpu(seldom, 10 * MS, 2000, false);
	tap_ok(r.work < 10, "to give it to what is seen at the end is wrong (%.2f %%)",
		r.work);
}

/* What the strata are there for: the other way fails these. */
static void test_wrong_way(void)
{
	double got = sample_by_distance(in_lockstep, 10 * MS, 2000);

	tap_ok(fabs(got - 50) > 5,
		"distance to the last sample is wrong in lockstep (%.1f)", got);
	got = sample_by_distance(one_in_twenty, 3 * MS, 20000);
	tap_ok(fabs(got - 5) > 0.5,
		"distance to the last sample is wrong when the rate follows the load (%.2f)",
		got);
	/* 21.0 for 20.0: the first sample of a burst brings the long interval along. */
	got = sample_by_distance(in_bursts, 10 * MS, 20000);
	tap_ok(got - 20 > 0.7,
		"it is too much where a burst raises the rate (%.2f for 20 %%)", got);
	check("which the strata are not",
		sample(in_bursts, 10 * MS, 20000 / part, true, 0, 9).share, 20,
		0.3 * sqrt(part));
}

static void test_order(void)
{
	struct strata s;
	bool inside = true, contiguous = true;
	int64_t end = 0;

	strata_init(&s, 42, 1000, 10 * MS);
	tap_is(s.start, 1000, "the first stratum begins where it should");
	for (int i = 0; i < 100000; i++) {
		inside &= s.tick >= s.start && s.tick < s.start + s.length;
		contiguous &= end == 0 || s.start == end;
		end = s.start + s.length;
		if (i % 1000 == 0)
			strata_set_length(&s, (1 + i % 7) * MS);
		(void)strata_next(&s, s.tick);
	}
	tap_ok(inside, "each tick lies in its stratum");
	tap_ok(contiguous, "strata follow each other without a gap");
}

static void test_missed(void)
{
	struct strata s;

	strata_init(&s, 7, 0, 10 * MS);
	tap_is((int64_t)strata_next(&s, 5 * MS), 0, "none missed in time");
	tap_is((int64_t)strata_next(&s, 19 * MS), 0, "none missed within the next");
	/* The stratum after [10, 20) is [20, 30); now lies in [50, 60). */
	tap_is((int64_t)strata_next(&s, 55 * MS), 2, "strata that passed are missed");
	tap_is(s.start, 50 * MS, "and the one in hand holds the time");
	strata_restart(&s, 1000 * MS);
	tap_is(s.start, 1000 * MS, "a restart begins anew");
}

static void test_budget(void)
{
	struct strata_budget b = {
		.program_ppm = 10000,
		.core_ppm = 2000,
		.shortest = 1 * MS,
		.longest = 100 * MS,
	};
	const int64_t quarter = 250 * MS;

	/* 1 % of 250 ms and 0.2 % of 250 ms: 3 ms may be spent. */
	tap_is(strata_adapt(&b, 1 * MS, quarter, 1 * MS, quarter), 1 * MS,
		"under the budget: the rate asked for");
	tap_is(strata_adapt(&b, 1 * MS, quarter, 6 * MS, quarter), 2 * MS,
		"twice the budget: half the rate");
	tap_is(strata_adapt(&b, 1 * MS, quarter, 600 * MS, quarter), 4 * MS,
		"far beyond: a quarter at most, at once");
	tap_is(strata_adapt(&b, 80 * MS, quarter, 600 * MS, quarter), 100 * MS,
		"never slower than the slowest");
	tap_is(strata_adapt(&b, 8 * MS, quarter, 1, quarter), 4 * MS,
		"back up by a factor of two at most");
	tap_is(strata_adapt(&b, 8 * MS, 0, 1, 1), 8 * MS, "no time passed: no change");
	tap_is(strata_adapt(&b, 1 * MS, quarter, 1 * MS, 0), 2 * MS,
		"an idle program: what a share of a core allows");
}

int main(void)
{
	if (tap_valgrind())
		part = 50;
	test_shares();
	test_adaptive();
	test_cpu();
	test_wrong_way();
	test_order();
	test_missed();
	test_budget();
	return tap_done();
}
