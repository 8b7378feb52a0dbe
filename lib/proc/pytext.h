/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_PYTEXT_H
#define PROC_PYTEXT_H

/* Strings in another process's Python. */

#include <stddef.h>
#include <stdint.h>

#include "proc/mem.h"
#include "python/layout.h"

/*
 * The str object at address as UTF-8.  Returns owned text, or NULL when there is none
 * or one of more than `most` bytes as it lies in memory.
 */
char *pytext_read(
	struct proc_mem *m, const struct py_layout *l, uint64_t address, size_t most);

#endif
