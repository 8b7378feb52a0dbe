/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INJECT_PROBE_H
#define INJECT_PROBE_H

/*
 * Can be had here what a recording takes?  System calls are tried on this process,
 * where a filter of a container, or a kernel that is none, would refuse them; no other
 * process is touched.
 */

enum probe_call {
	PROBE_PTRACE,      /* to hold a thread that is attached to */
	PROBE_CLONE,       /* a task that shares memory and nothing else */
	PROBE_MEMFD,       /* its ring */
	PROBE_PIDFD,       /* to notice ends */
	PROBE_READ_MEMORY, /* process_vm_readv */
	PROBE_MEM_FILE,    /* /proc/PID/mem */
	PROBE_KCMP,        /* to tell whose memory is shared */
	PROBE_CALLS,
};

/* 0 when it works, else -errno. */
int probe_call(enum probe_call call);

/* For people: "ptrace", "/proc/PID/mem"; and for programs: "mem_file". */
const char *probe_name(enum probe_call call);
const char *probe_key(enum probe_call call);

#endif
