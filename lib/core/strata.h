/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_STRATA_H
#define CORE_STRATA_H

/*
 * When to sample.  Time is cut into strata; each has one tick, at an instant drawn
 * uniformly before the stratum begins, and the tick weighs the stratum's length.
 * So every instant is as likely to be sampled as any other, whatever the program
 * does in lockstep, and a change of the rate bends nothing: the new length holds
 * from the next stratum on.  (The wrong ways are simulated in
 * tests/unit/t-strata.c.)
 *
 * Pure arithmetic, no clock of its own.  All times in ns of one clock.
 */

#include <stdint.h>

struct strata {
	uint64_t random;     /* state of the generator, never 0 */
	int64_t start;       /* of the stratum in force */
	int64_t length;      /* of the stratum in force */
	int64_t tick;        /* its instant */
	int64_t next_length; /* of those that follow */
};

/* Begin with a stratum that starts at now.  seed may be anything. */
void strata_init(struct strata *s, uint64_t seed, int64_t now, int64_t length);

/*
 * For ticks without strata: the ns from one to the next, anything between half of the
 * mean and one and a half, mean below 2^31.
 */
int64_t strata_spacing(struct strata *s, int64_t mean);

/* Any number below n, each with the same chance.  n: above 0. */
uint32_t strata_draw(struct strata *s, uint32_t n);

/* Length of the strata after this one. */
void strata_set_length(struct strata *s, int64_t length);

/*
 * The tick of the stratum in force was taken at now (or given up).  Go to the
 * stratum that follows it, or, when now is beyond that one's end, to the one that
 * now lies in.  Returns the number of strata left out.
 */
uint64_t strata_next(struct strata *s, int64_t now);

/* Begin anew at now, as after a pause: what lies between has no stratum. */
void strata_restart(struct strata *s, int64_t now);

/*
 * The adaptive rate.  Keeps the sampler's CPU time under a budget: a share of the
 * program's CPU time plus a share of one core.
 */
struct strata_budget {
	uint32_t program_ppm; /* of the program's CPU time */
	uint32_t core_ppm;    /* of one core, whatever the program does */
	int64_t shortest;     /* length asked for: never faster */
	int64_t longest;      /* never slower */
};

/*
 * The length for the next while, from what was spent in the last: elapsed of wall
 * time, sampler_cpu and program_cpu ns, with strata of the given length.  Moves by
 * at most a factor of 4 down and 2 up a call.
 */
int64_t strata_adapt(const struct strata_budget *b, int64_t length, int64_t elapsed,
	int64_t sampler_cpu, int64_t program_cpu);

#endif
