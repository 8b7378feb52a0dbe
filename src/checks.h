/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_CHECKS_H
#define SRC_CHECKS_H

/*
 * What doctor has found out, a line each: what is there, what it means, what there is
 * to do.
 */

#include <stdbool.h>
#include <stddef.h>

#include "look.h"
#include "proc/host.h"
#include "verdict.h"

enum check_level {
	CHECK_OK,
	CHECK_WARNING, /* something will not work, or not everywhere */
	CHECK_PROBLEM, /* recording will not */
};

struct check {
	enum check_level level;
	const char *name; /* stable */
	char text[480];
	char fix[160];     /* a command, or ""; see fix_is_words */
	bool fix_is_words; /* no command, but what there is to do */
};

struct checks {
	struct check *list;
	size_t count, capacity;
};

void checks_done(struct checks *c);

/* Add one; it stays where it is until the next is added. */
__attribute__((format(printf, 4, 5))) struct check *checks_add(struct checks *c,
	enum check_level level, const char *name, const char *format, ...);

/* The worst there is. */
enum check_level checks_worst(const struct checks *c);

/* Of the machine, and of what pystack may do on it. */
/* attaching: to a running process, not to start one. */
void checks_on_host(struct checks *c, const struct host *h, bool attaching);

/* Of one process. */
void checks_on_process(struct checks *c, const struct look *l, const struct host *h,
	const struct verdict_limits *limits);

const char *checks_level_name(enum check_level level);

#endif
