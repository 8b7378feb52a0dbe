/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_MEMORY_H
#define CORE_MEMORY_H

/* Loads of python/frame.h: the address space is this one.  Their context says whether
 * the address is known to be one. */

#include "core/core-internal.h"

struct core_memory {
	struct core *c;
	bool sure;
};

#define PY_MEM struct core_memory

static inline struct core_memory memory(struct core *c)
{
	return (struct core_memory){ c, false };
}

static inline bool py_mem_load64(PY_MEM m, uint64_t address, uint64_t *ret)
{
	return (m.sure || sane(address)) && load_sane64(m.c, address, ret);
}

static inline bool py_mem_load32(PY_MEM m, uint64_t address, uint32_t *ret)
{
	return (m.sure || sane(address)) && load_sane32(m.c, address, ret);
}

static inline bool py_mem_load8(PY_MEM m, uint64_t address, uint8_t *ret)
{
	return (m.sure || sane(address)) && load_sane8(m.c, address, ret);
}

#include "python/frame.h"

/* One frame, if there can be one.  One check of its address will do: by the layout
 * (sample_check_layout) it ends before the bytes that sane() keeps free do. */
static inline bool read_frame(struct core *c, uint64_t at, struct py_frame *f)
{
	struct core_memory sure = { c, true };

	return (at & 7) == 0 && sane(at) && py_frame_read(sure, &c->layout, at, f);
}

/* In the thread state behind datastack_chunk. */
#define DATASTACK_TOP 8

#endif
