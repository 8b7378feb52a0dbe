/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_PYSTACKS_H
#define PROC_PYSTACKS_H

/*
 * What all Python threads of a process are doing right now, read from outside: nothing
 * is put into the process, no thread of it is stopped.  A running thread's stack is
 * read again until two readings are equal; where that does not come about, the last
 * reading is given and marked.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proc/python.h"

struct pystacks_frame {
	char *name;
	char *file;
	int64_t line; /* 0: none */
};

struct pystacks_thread {
	uint32_t tid; /* in the process's pid namespace; 0: not known */
	uint64_t python_id;
	uint64_t interpreter;
	bool holds_gil;
	bool steady;                   /* two readings were equal */
	struct pystacks_frame *frames; /* leaf first */
	size_t count, capacity;
};

struct pystacks {
	struct pystacks_thread *threads; /* newest first, as CPython lists them */
	size_t count, capacity;
};

/* Returns 0, or a negative code with words. */
int pystacks_read(pid_t pid, const struct python_found *python, struct pystacks **ret,
	struct err *err);
void pystacks_free(struct pystacks *s);

#endif
