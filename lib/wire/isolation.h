/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_ISOLATION_H
#define WIRE_ISOLATION_H

/* What the core runs as: wanted, and in the ring's offer. */
enum core_isolation {
	CORE_ISOLATION_AUTO = 0, /* wanted: a task, else a thread */
	CORE_ISOLATION_TASK,     /* a process of its own that shares the memory */
	CORE_ISOLATION_THREAD,   /* a thread of the program */
};

#endif
