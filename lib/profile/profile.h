/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

/*
 * A whole file added up: how much of which thread, at which stack, in which state.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "profile/load.h"
#include "profile/model.h"

/* What is counted. */
enum profile_event {
	PROFILE_CPU,       /* CPU time, by the kernel's account */
	PROFILE_WALL,      /* time, running or waiting */
	PROFILE_GIL,       /* time with the global interpreter lock */
	PROFILE_CPU_TIMER, /* CPU time, by each thread's own timer */
	PROFILE_SAMPLES,   /* (thread, tick) pairs, running or waiting */
};

struct profile_sample {
	uint32_t thread, stack, state;
	uint64_t ticks, timer_samples;
	int64_t wall_ns, cpu_ns, timer_ns;
};

/* Sums over all samples. */
struct profile_totals {
	uint64_t ticks, running_ticks, approximate_ticks;
	int64_t wall_ns;    /* of all threads */
	int64_t running_ns; /* of it, in ticks seen running */
	int64_t cpu_ns;     /* with what was not sampled */
	int64_t cpu_not_sampled_ns;
	int64_t cpu_unscaled_ns; /* of cpu_ns, not by the kernel's account */
	int64_t gil_ns;
	int64_t timer_ns; /* CPU time by timers */
	uint64_t timer_samples, timer_approximate;
};

struct profile {
	struct model *model;
	struct profile_sample *samples;
	size_t count, capacity;
	struct profile_totals totals;
	struct load_result result;
};

/* Read and add up a file.  Returns 0, also for a damaged file (see result), or a
 * negative code with words. */
int profile_load(const char *path, struct profile **ret_profile, struct err *err);
void profile_free(struct profile *p);

/* What a sample weighs for an event: ns, or samples. */
int64_t profile_weight(const struct profile_sample *s, enum profile_event event);

/* How many samples it stands for there. */
uint64_t profile_samples(const struct profile_sample *s, enum profile_event event);

/* The total of an event. */
int64_t profile_total(const struct profile *p, enum profile_event event);

/* Were waiting threads recorded, of any process?  (Not with --oncpu.) */
bool profile_has_waiting(const struct profile *p);

/* Had any process CPU timers? */
bool profile_has_timers(const struct profile *p);

/* "cpu", "wall", "gil", "cpu-timer"; -1 for anything else. */
int profile_event_parse(const char *name);
const char *profile_event_name(enum profile_event event);

#endif
