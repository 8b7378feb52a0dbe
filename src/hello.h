/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_HELLO_H
#define SRC_HELLO_H

/* The socket at which the tasks of started programs say hello, and the preload library
 * that brings them. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "wire/ring.h"

struct hello {
	int listener; /* -1: closed */
	char *folder, *socket_path;
	char *preload; /* path of the library, without a blank or colon */
};

/* Make folder and socket.  Returns 0 or a negative code with words; to be closed with
 * hello_close() in any case. */
int hello_open(struct hello *h, struct err *err);
void hello_close(struct hello *h);

enum hello_outlook {
	HELLO_NEVER,   /* started without the preload library, as far as is known */
	HELLO_LOADING, /* with it, which has not come to run yet */
	HELLO_LOADED,  /* the library has run: a Python's task is about to say hello */
};

/* Is there a task to come from a process? */
enum hello_outlook hello_outlook(const struct hello *h, pid_t pid);

/* Who said hello. */
struct hello_guest {
	int connection; /* its task leaves when this is closed */
	int ring_fd;
	pid_t task;    /* as this process sees it */
	pid_t program; /* likewise, where the task is a thread of it; else 0 */
	struct ring_offer offer;
};

/* The next one that waits; false when there is none.  What does not speak as a task is
 * dropped.  Both descriptors are the caller's. */
bool hello_accept(struct hello *h, struct hello_guest *ret);

#endif
