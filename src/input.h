/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_INPUT_H
#define SRC_INPUT_H

/* What every command that reads a sample file does about it. */

#include <stdbool.h>

#include "profile/load.h"

/* May the file be read?  As perf: root reads only files of root and of the user behind
 * sudo, since others may have been made to mislead; force: all.  Says why not. */
bool input_allowed(const char *path, bool force);

/* Say what of the file could not be read.  Returns the exit status: STATUS_FAILED for
 * a damaged file, unless forced. */
int input_account(const char *path, const struct load_result *result, bool force);

/* Has it what an event (enum profile_event, -1: ticks) counts?  Returns 0, or a
 * negative code with words.  timers: samples of them have been seen. */
int input_check_event(const char *path, const struct model *m, int event, bool timers,
	struct err *err);

#endif
