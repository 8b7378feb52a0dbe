/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_MEM_H
#define PROC_MEM_H

/*
 * Reading another process's memory, from outside and without stopping it: by
 * process_vm_readv, or through /proc/PID/mem where that is refused.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_mem {
	pid_t pid;
	int fd; /* /proc/PID/mem, opened when first needed; -1 */
	bool by_file;
};

void proc_mem_init(struct proc_mem *m, pid_t pid);
void proc_mem_done(struct proc_mem *m);

/* Copy size bytes at address.  Returns 0 or -errno; all or nothing. */
int proc_mem_read(struct proc_mem *m, uint64_t address, void *to, size_t size);

/* As much as can be read from address on, up to size.  Returns the count, 0 when
 * nothing can. */
size_t proc_mem_read_some(struct proc_mem *m, uint64_t address, void *to, size_t size);

static inline bool proc_mem_u64(struct proc_mem *m, uint64_t address, uint64_t *ret)
{
	return proc_mem_read(m, address, ret, sizeof(*ret)) == 0;
}

static inline bool proc_mem_u32(struct proc_mem *m, uint64_t address, uint32_t *ret)
{
	return proc_mem_read(m, address, ret, sizeof(*ret)) == 0;
}

#endif
