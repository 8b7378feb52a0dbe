/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_LIMITS_H
#define PROC_LIMITS_H

/* How much room a process has below its limits. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define LIMIT_NONE UINT64_MAX

struct proc_limits {
	uint64_t address_space; /* RLIMIT_AS, bytes */
	uint64_t locked;        /* RLIMIT_MEMLOCK, bytes */
	uint64_t processes;     /* RLIMIT_NPROC */
};

/* Soft limits, LIMIT_NONE for those that are not set or not known. */
void proc_limits_read(pid_t pid, struct proc_limits *ret);
void proc_limits_parse(const char *text, struct proc_limits *ret);

/*
 * May it map so many bytes more, and go on as before?  Returns 0, or -ENOMEM and words
 * when its limit of address space leaves no room for that and as much again.
 */
int proc_limits_room(pid_t pid, uint64_t bytes, struct err *err);

/*
 * May there be a task more in its cgroup?  Returns 0, also where that cannot be told,
 * or -EAGAIN and words when the pids controller of it or of one above leaves no room
 * for two.
 */
int proc_limits_tasks(pid_t pid, struct err *err);

/* What a task takes for the moment in which it is made. */
#define LIMITS_TASK_ROOM 2

/* The level of its cgroup that leaves no room for so many tasks more; false when all
 * do. */
struct proc_tasks_limit {
	uint64_t now, most;
	char folder[256];
};
bool proc_limits_tasks_full(pid_t pid, uint64_t room, struct proc_tasks_limit *ret);

/* How much address space it has, and may have; false when that leaves room for so many
 * bytes and as many again. */
struct proc_space_limit {
	uint64_t used, most;
};
bool proc_limits_space_full(pid_t pid, uint64_t bytes, struct proc_space_limit *ret);

/* The number of threads of all processes of a user that /proc shows: what counts for
 * RLIMIT_NPROC. */
uint64_t proc_threads_of_user(uid_t uid);

/* The folder of a cgroup in which the pids controller limits it, from the text of
 * /proc/PID/cgroup: owned; NULL when there is none. */
char *proc_limits_pids_folder(const char *text);

#endif
