/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_THREAD_SUMS_H
#define SRC_THREAD_SUMS_H

/* What the samples of one thread add up to, and what of them is to be taken with care.
 */

#include <stdint.h>

#include "profile/model.h"

struct thread_sums {
	uint64_t ticks, approximate, truncated, unreadable;
	int64_t wall_ns, cpu_ns, not_sampled_ns;
};

/* Add samples of one stack and state. */
void thread_sums_add(struct thread_sums *to, const struct model *m, uint32_t stack,
	uint32_t state, uint64_t ticks, int64_t wall_ns, int64_t cpu_ns);

/* For how long a thread neither ran nor was ready to, by the kernel's account, in the
 * time between its first and last one that was sampled or missed; -1: not known. */
int64_t thread_sums_blocked_ns(const struct model_thread *t);

/* Time of its life in which nothing was to be sampled: the recorder was silent, or the
 * program was stopped. */
uint64_t thread_sums_parked_ns(const struct model_thread *t);

#endif
