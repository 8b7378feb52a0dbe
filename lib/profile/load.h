/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_LOAD_H
#define PROFILE_LOAD_H

/*
 * Reading sample files into a model, with the weights of samples computed as
 * pystack-file(5) says.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "profile/model.h"

/* Above the bits of enum record_state: what the interpreter was in the middle of. */
enum load_state {
	LOAD_STARTING = 1 << 8,
	LOAD_FINALIZING = 1 << 9,
};

/* A run, or what became of it: what one thread was seen at for some ticks. */
struct load_run {
	uint32_t segment, thread; /* of the model */
	uint32_t stack;
	uint32_t state; /* enum record_state, enum load_state */
	uint64_t tick;  /* the first */
	uint64_t ticks;
	int64_t start_ns; /* of its first stratum, monotonic; 0 when not known */
	int64_t wall_ns;
	int64_t cpu_ns;
	int64_t timer_ns; /* CPU time by its own timer; nothing else is set then */
	uint64_t timer_samples;
	uint64_t late;   /* of the ticks, those taken too late */
	bool cpu_scaled; /* by the kernel's account; else it is the running wall time */
};

/*
 * Called for each run.  With load_options.cpu, a run comes when the account behind it
 * is known, so that runs of different threads are out of order by some seconds, and
 * CPU time without a sample comes as a run of 0 ticks with the stack
 * MODEL_NOT_SAMPLED.  Without, runs come in the order of time within each chunk, and
 * cpu_ns is the running wall time.  What a thread's CPU timer has seen comes as a run
 * of 0 ticks with timer_samples set.
 */
typedef void load_function(struct model *m, const struct load_run *run, void *context);

/* Called for each mark; without load_options.cpu in the order of time among runs. */
typedef void load_mark_function(
	struct model *m, const struct model_mark *mark, void *context);

/* Time without ticks. */
struct load_gap {
	uint32_t segment; /* of the model */
	int64_t from_ns, to_ns;
	uint32_t reason; /* enum record_gap, or one that is not known yet */
};

/* From a stratum on, another length of strata than before it. */
struct load_rate {
	uint32_t segment; /* of the model */
	int64_t from_ns;
	int64_t length_ns; /* where each is as long as it happened to be: the first */
	uint32_t flags;    /* enum file_ticks_flags */
};

/* Called for each in the order of the file: before the runs of the same chunk. */
typedef void load_gap_function(
	struct model *m, const struct load_gap *gap, void *context);
typedef void load_rate_function(
	struct model *m, const struct load_rate *rate, void *context);

struct load_options {
	bool cpu;
	load_function *run;
	load_mark_function *mark; /* NULL: they are in the model anyway */
	load_gap_function *gap;   /* likewise, as sums */
	load_rate_function *rate; /* or NULL */
	void *context;
};

/* How much of a file was read. */
struct load_result {
	bool complete;    /* it was closed properly */
	char damage[300]; /* where and why the reading ended early, or "" */
	uint64_t bytes;
};

/*
 * Read one file into m.  Returns 0, also for a damaged file, of which all before the
 * damage was read; a negative code when nothing can be.
 */
int load_file(struct model *m, const char *path, const struct load_options *options,
	struct load_result *ret_result, struct err *err);

#endif
