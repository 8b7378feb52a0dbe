/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_EVENTS_H
#define PROC_EVENTS_H

/* News of new processes from the kernel, as they are made (its process connector): for
 * root in the first pid namespace. */

#include <stdbool.h>
#include <sys/types.h>

enum proc_event_kind {
	PROC_EVENT_FORKED,   /* parent has made pid */
	PROC_EVENT_EXECUTED, /* pid runs another program */
	PROC_EVENT_MISSED,   /* there were more than could be kept */
};

struct proc_news {
	enum proc_event_kind kind;
	pid_t pid, parent;
};

/* A descriptor to be polled, non-blocking, or a negative errno where the kernel does
 * not tell (then look at /proc).  Closed with fd_close(). */
int proc_events_open(void);

/* The next one; false when there is none for now.  What else happens is left out. */
bool proc_events_next(int fd, struct proc_news *ret);

#endif
