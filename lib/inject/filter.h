/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INJECT_FILTER_H
#define INJECT_FILTER_H

/*
 * The seccomp filters of a thread, and what they would do to a task that is cloned from
 * it.  Filters are inherited, and only for a thread that is traced can they be set
 * aside: so what the task's calls will meet is worked out before it is made, by running
 * the filters' programs here.
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "core/abi.h"

struct filter_program {
	struct sock_filter *code;
	unsigned count;
};

struct filters {
	struct filter_program *program;
	size_t count, capacity;
};

/*
 * Read the filters of a thread that this one traces and has stopped.  Returns 0, or
 * -errno where they cannot be had: -EACCES without CAP_SYS_ADMIN (or under a filter
 * oneself), -EINVAL where the kernel cannot tell, -EMEDIUMTYPE for a program of another
 * kind.
 */
int filters_read(pid_t tid, struct filters *ret);
void filters_done(struct filters *f);

/* What a program returns for a call, SECCOMP_RET_*.  A damaged program kills. */
uint32_t filter_run(const struct filter_program *p, const struct seccomp_data *call);

/* What all of them together do: the most severe action. */
uint32_t filters_run(const struct filters *f, const struct seccomp_data *call);

/*
 * Can a task live under them, or a thread?  Returns 0 and in *ret_avoid the steps that
 * it has to leave out (enum core_avoid), or -E_REFUSED with the call that it needs and
 * would not get.
 */
int filters_judge(const struct filters *f, enum core_isolation isolation,
	uint32_t *ret_avoid, struct err *err);

/* Do they let the program clone one?  Not asked where they are set aside for that. */
bool filters_let_clone(const struct filters *f, enum core_isolation isolation);

/*
 * The same of the filters of this process, which nothing needs to be known of: by
 * making the calls, in children that may be killed for it.  Those of the injector have
 * to pass, too.
 */
int filters_try_own(
	enum core_isolation isolation, uint32_t *ret_avoid, struct err *err);

#endif
