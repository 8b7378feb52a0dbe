/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_MEMORY_H
#define CORE_MEMORY_H

/* Loads of python/frame.h: the address space is this one.  Their context says whether
 * the address is known to be one. */

#include "core/core-internal.h"

#define PY_MEM bool

static inline bool py_mem_load64(PY_MEM sure, uint64_t address, uint64_t *ret)
{
	return (sure || sane(address)) && arch_load64(address, ret);
}

static inline bool py_mem_load32(PY_MEM sure, uint64_t address, uint32_t *ret)
{
	return (sure || sane(address)) && arch_load32(address, ret);
}

static inline bool py_mem_load8(PY_MEM sure, uint64_t address, uint8_t *ret)
{
	return (sure || sane(address)) && arch_load8(address, ret);
}

#include "python/frame.h"

/* One frame, if there can be one.  One check of its address will do: by the layout
 * (sample_check_layout) it ends before the bytes that sane() keeps free do. */
static inline bool read_frame(
	const struct py_layout *l, uint64_t at, struct py_frame *f)
{
	return (at & 7) == 0 && sane(at) && py_frame_read(true, l, at, f);
}

/* In the thread state behind datastack_chunk. */
#define DATASTACK_TOP 8

#endif
