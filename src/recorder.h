/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_RECORDER_H
#define SRC_RECORDER_H

/*
 * A recording from start to end: starts or attaches to the program, drains its ring
 * into the file once in a while, minds signals, and says how it went.
 */

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "follow.h"
#include "output.h"
#include "wire/isolation.h"

struct control;
struct schedule;

struct recorder_options {
	pid_t pid; /* attach to it; 0: start argv */
	char **argv;
	struct follow_options sampling;
	int64_t duration_ns; /* 0: until the end */
	struct output_options output;
	const struct schedule *schedule; /* NULL: sampling is on from the start */
	struct control *control;         /* NULL: none */
	bool quiet;
	unsigned isolation; /* enum core_isolation; AUTO: a task, else a thread */
	bool force;         /* attach under filters that cannot be set aside */
	bool no_inherit;    /* the first Python alone, not what comes from it */
	/* Children whose command line it matches are not recorded; NULL: none. */
	const regex_t *exclude_child;
};

/* Record.  Returns the exit status of the command. */
int recorder_run(const struct recorder_options *options);

#endif
