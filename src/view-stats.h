/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_VIEW_STATS_H
#define SRC_VIEW_STATS_H

#include "profile/profile.h"

/*
 * What a recording says of itself, on standard output: the counters of each process,
 * at which rates it was sampled and why, what each of its threads used and what of
 * their samples is to be taken with care, and what the recording has cost.
 */
void view_stats(const struct profile *p);

#endif
