/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_HOST_H
#define PROC_HOST_H

/* What this machine, and this process on it, may do. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct host {
	char release[65]; /* of the kernel, "5.10.0-30-amd64" */
	char machine[65]; /* "x86_64" */
	uint32_t kernel;  /* HOST_KERNEL(5, 10); 0: not understood */
	int yama_scope;   /* kernel.yama.ptrace_scope; -1: no Yama here */
	bool proc_is_ours;
	uid_t uid; /* effective */
	gid_t gid; /* likewise */
	uint64_t capabilities;
	int seccomp;               /* of this process: 0 none, 1 strict, 2 filter */
	bool first_pid_namespace;  /* not in a container's */
	bool first_user_namespace; /* likewise */
};

#define HOST_KERNEL(major, minor) ((uint32_t)(major) << 16 | (minor))

void host_read(struct host *ret);

/* The number of a release, for tests too; 0 when it is none. */
uint32_t host_kernel_parse(const char *release);
/* The number in the text of a ptrace_scope file; -1 when it is none. */
int host_yama_parse(const char *text);

/* Does this process hold CAP_...? */
bool host_may(const struct host *h, int capability);

/* "CAP_SYS_PTRACE", or NULL for those that make no difference here. */
const char *host_capability_name(int capability);

#endif
