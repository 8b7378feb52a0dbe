/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_VIEW_JSONL_H
#define SRC_VIEW_JSONL_H

#include "base/err.h"
#include "profile/load.h"

/*
 * A recording on standard output, an object a line, in pieces: pystack-script(1) says
 * which.  event: enum profile_event that samples are weighed by; -1: ticks.  Returns 0,
 * also for a damaged file (see ret_result), or a negative code with words; nothing is
 * printed then.
 */
int view_jsonl(
	const char *path, int event, struct load_result *ret_result, struct err *err);

#endif
