/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_PYMEM_H
#define PROC_PYMEM_H

/* Loads of python/frame.h and python/object.h, which are included behind this: from the
 * memory of another process. */

#include <stdbool.h>
#include <stdint.h>

#include "proc/mem.h"

#define PY_MEM struct proc_mem *

/* Below it lies no object. */
#define PY_MEM_LEAST 0x10000u

static inline bool py_mem_load64(PY_MEM m, uint64_t address, uint64_t *ret)
{
	return address >= PY_MEM_LEAST &&
	       proc_mem_read(m, address, ret, sizeof(*ret)) == 0;
}

static inline bool py_mem_load32(PY_MEM m, uint64_t address, uint32_t *ret)
{
	return address >= PY_MEM_LEAST &&
	       proc_mem_read(m, address, ret, sizeof(*ret)) == 0;
}

static inline bool py_mem_load8(PY_MEM m, uint64_t address, uint8_t *ret)
{
	return address >= PY_MEM_LEAST &&
	       proc_mem_read(m, address, ret, sizeof(*ret)) == 0;
}

#endif
