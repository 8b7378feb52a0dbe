/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_MAPS_H
#define PROC_MAPS_H

/* The mappings of a process, from /proc/PID/maps. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct proc_map {
	uint64_t start, end;
	uint64_t offset;
	uint64_t inode;
	uint32_t device_major, device_minor;
	bool readable, writable, executable, shared;
	char *path; /* owned; "" for none; "[stack]" and the like as they stand;
		     * without " (deleted)" */
	bool deleted;
};

struct proc_maps {
	struct proc_map *map;
	size_t count, capacity;
};

/* Read them.  Returns 0 or a negative code; ret_maps must be freed with _done. */
int proc_maps_read(pid_t pid, struct proc_maps *ret_maps, struct err *err);

/* Parse text as /proc/PID/maps has it (for tests); lines that do not fit are passed
 * over. */
void proc_maps_parse(const char *text, struct proc_maps *ret_maps);

void proc_maps_done(struct proc_maps *m);

/* The mapping an address lies in, or NULL. */
const struct proc_map *proc_maps_at(const struct proc_maps *m, uint64_t address);

/* The first mapping of that path ("[vdso]"), or NULL. */
const struct proc_map *proc_maps_named(const struct proc_maps *m, const char *path);

#endif
