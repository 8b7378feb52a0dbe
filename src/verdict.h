/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_VERDICT_H
#define SRC_VERDICT_H

/*
 * Can a process be attached to; if not, why, and which one command would change that.
 * Judged from what a look has found: nothing is asked here, so that tests can put
 * together what no machine has.
 */

#include "look.h"
#include "proc/host.h"
#include "proc/limits.h"

/* What attaching would add to a process, compared with its limits. */
struct verdict_limits {
	struct proc_limits process;
	uint64_t user_threads; /* what counts for the limit on processes */
	bool tasks_full, space_full;
	struct proc_tasks_limit tasks;
	struct proc_space_limit space;
};

void verdict_limits_read(const struct look *l, struct verdict_limits *ret);

struct verdict {
	bool yes;
	const char *code;  /* a stable word: "yes", "stopped", "not-permitted" ... */
	const char *brief; /* for a column: "yes", "no: stopped" */
	char why[400];     /* "it is stopped"; "" when yes */
	char fix[160];     /* a command, or ""; see fix_is_words */
	bool fix_is_words; /* no command, but what there is to do */
};

/* Add "attachable", "verdict", "why", and "fix" or "advice" to an object. */
struct cJSON;
void verdict_json(const struct verdict *v, struct cJSON *object);

/* limits may be NULL: not looked at. */
void verdict_on(const struct look *l, const struct host *h,
	const struct verdict_limits *limits, struct verdict *ret);

/*
 * Single questions.  Each returns true when it is a reason to refuse, and *ret says so
 * then: is it a Python that can be sampled; may it be attached to; is something about
 * it as it is now in the way, or what it is; is its filter; are its limits?
 */
bool verdict_python(const struct look *l, struct verdict *ret);
bool verdict_permission(
	const struct look *l, const struct host *h, struct verdict *ret);
bool verdict_state(const struct look *l, struct verdict *ret);
bool verdict_machine(const struct look *l, struct verdict *ret);
bool verdict_seccomp(const struct look *l, const struct host *h, struct verdict *ret);
bool verdict_limit(
	const struct look *l, const struct verdict_limits *limits, struct verdict *ret);

/* May a process's seccomp filter be suspended by this one? */
bool verdict_may_suspend_seccomp(const struct host *h);

#endif
