/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_ELF_H
#define PROC_ELF_H

/*
 * Symbols of an object that is mapped into a process: from its file, both the dynamic
 * and the full table, or, when the file cannot be had any more, from the dynamic
 * tables in memory.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/maps.h"
#include "proc/mem.h"

/* One symbol wanted: name is set by the caller; address is found, 0 until then.  A name
 * that begins with a dot is that of a section, which only files have. */
struct elf_symbol {
	const char *name;
	uint64_t address; /* in the process */
};

/*
 * Look for the symbols in the object whose first mapping is maps->map[first].
 * Returns the number found, or a negative code when the object cannot be read.
 */
int elf_symbols(struct proc_mem *mem, const struct proc_maps *maps, size_t first,
	struct elf_symbol *symbols, size_t count);

/*
 * Open the file behind a mapping of process pid: through map_files, which works for
 * deleted files, else through the process's root when what lies there is still the
 * same file.  Returns a descriptor or a negative code.
 */
int elf_open_mapped(pid_t pid, const struct proc_map *map);

#endif
