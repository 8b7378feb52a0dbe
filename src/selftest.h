/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_SELFTEST_H
#define SRC_SELFTEST_H

/*
 * Whole recordings of a program of its own: start a Python, attach, sample, let go, and
 * compare what the program is and has with what it was and had before; then the same
 * program, started by record.
 */

#include <stdbool.h>
#include <stdint.h>

#include "checks.h"
#include "proc/host.h"

struct selftest {
	char python[256]; /* as it was called */
	char version[64]; /* "" when none was found */
	bool passed;
	uint64_t samples, known; /* all, and those of the function that ran */
	int64_t start_held_ns, stop_held_ns;
};

/*
 * python: a path, or a name that is looked for in PATH.  Takes two to three seconds,
 * more on a busy machine, and has an end in any case.  Adds its lines to c.
 */
void selftest_run(const char *python, const struct host *h, struct checks *c,
	struct selftest *ret);

#endif
