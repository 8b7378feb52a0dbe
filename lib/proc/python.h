/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_PYTHON_H
#define PROC_PYTHON_H

/* Which Python a process runs, and where its runtime lies. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "python/layout.h"

enum python_kind {
	PYTHON_NONE = 0, /* no interpreter in this process */
	PYTHON_STARTING, /* CPython, not far enough to tell its version */
	PYTHON_CPYTHON,  /* one that can be sampled; layout is filled */
	PYTHON_TOO_OLD,  /* CPython before 3.8 */
	PYTHON_TOO_NEW,  /* CPython after the last version known */
	PYTHON_FREE_THREADED,
	PYTHON_DAMAGED, /* its published offsets cannot be */
	PYTHON_PYPY,
	PYTHON_IDLE,     /* stripped, and no thread tells what is missing */
	PYTHON_STRIPPED, /* nothing but its texts tells that it is one */
};

struct python_found {
	enum python_kind kind;
	char version[64]; /* "3.11.2" */
	char object[512]; /* path of the file that holds the runtime */
	bool by_text;     /* no Py_Version there: the version was read from a text */
	uint64_t runtime;
	uint64_t code_type;
	bool stripped; /* found without symbols */
	struct py_layout layout;
	/* Another one that is up in the same process, "" for none. */
	char other_version[64], other_object[512];
};

/*
 * Find it by the symbols of the mapped objects.  Returns 0 and *ret (kind tells), or
 * a negative code when the process cannot be looked into.
 */
int python_find(pid_t pid, struct python_found *ret, struct err *err);

/*
 * Does a program in which none was found look as if it were one, without its symbols?
 * Searches its constants, which takes some ms.
 */
bool python_left_traces(pid_t pid);

/*
 * The same from what a task said of itself: the address and first bytes of the
 * runtime, and its version as a number or as the text of Py_GetVersion().
 */
void python_from_offer(uint64_t runtime, uint64_t code_type, const void *runtime_bytes,
	size_t size, uint32_t hex, const char *version_text, struct python_found *ret);

/* One sentence on why what was found cannot be sampled, or NULL if it can:
 * "runs CPython 2.7.18, which ...".  Static or in text. */
const char *python_refusal(const struct python_found *f, char *text, size_t size);

#endif
