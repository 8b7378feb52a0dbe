/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_SCHEDULE_H
#define SRC_SCHEDULE_H

/* When sampling is on (--delay), as times since the start of the recording. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SCHEDULE_MOST = 1000 };

/* At each time sampling is turned on or off; it is off in the beginning. */
struct schedule {
	int64_t *toggle_ns; /* rising */
	size_t count;       /* 0: until it is told to be on */
};

/*
 * "500", "2s": off until then; "-1": off; "10-20,1s-2s": on within these.  A number
 * without a unit is in milliseconds.  Returns 0 or -EINVAL with words.
 */
int schedule_parse(const char *text, struct schedule *ret, struct err *err);
void schedule_done(struct schedule *s);

#endif
