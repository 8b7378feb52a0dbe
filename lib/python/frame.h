/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYTHON_FRAME_H
#define PYTHON_FRAME_H

/*
 * Reading one frame of a stack by a layout.  The same code serves the core, which
 * loads from its own address space, and the recorder, which reads another process:
 * whoever includes this defines first
 *
 *   PY_MEM	     a type for the context of loads
 *   py_mem_load64(PY_MEM m, uint64_t address, uint64_t *ret)   and ...load32, load8:
 *		     true and the value, or false when it cannot be read
 */

#include <stdbool.h>
#include <stdint.h>

#include "python/layout.h"

/* Values of fr_owner of the frames that are shown. */
enum {
	PY_OWNER_THREAD = 0,
	PY_OWNER_GENERATOR = 1,
};

/* One frame as it lies in memory. */
struct py_frame {
	uint64_t previous;
	uint64_t code;
	uint64_t instr; /* an address, or an int of the frame object */
	uint8_t owner;
};

static inline bool py_frame_read(
	PY_MEM m, const struct py_layout *l, uint64_t at, struct py_frame *f)
{
	if (!py_mem_load64(m, at + l->fr_previous, &f->previous) ||
		!py_mem_load64(m, at + l->fr_code, &f->code))
		return false;
	if (l->instr_kind == PY_INSTR_POINTER) {
		if (!py_mem_load64(m, at + l->fr_instr, &f->instr))
			return false;
	} else {
		uint32_t lasti;

		if (!py_mem_load32(m, at + l->fr_instr, &lasti))
			return false;
		f->instr = lasti;
	}
	f->owner = PY_OWNER_THREAD;
	if (l->fr_owner != PY_NONE && !py_mem_load8(m, at + l->fr_owner, &f->owner))
		return false;
	f->code &= ~(uint64_t)l->code_tag_mask;
	return true;
}

/* Is it one of the C stack's, that only marks where an interpreter loop began? */
static inline bool py_frame_is_entry(
	const struct py_layout *l, const struct py_frame *f)
{
	return l->owner_skip != PY_NONE && f->owner == l->owner_skip;
}

/*
 * The byte offset of the frame's instruction in its bytecode, which lies at
 * code + co_bytecode (or in an object of its own) and has so many bytes.  False when
 * it is outside.
 */
static inline bool py_frame_position(const struct py_layout *l, uint64_t code,
	uint32_t bytes, uint64_t instr, uint32_t *ret)
{
	uint32_t position;

	switch (l->instr_kind) {
	case PY_INSTR_LASTI_BYTES:
		position = (uint32_t)instr;
		break;
	case PY_INSTR_LASTI_UNITS:
		position = (uint32_t)instr == PY_NO_POSITION ? PY_NO_POSITION
							     : (uint32_t)instr * 2;
		break;
	default: {
		uint64_t offset = instr - (code + l->co_bytecode);

		/* One unit in front of the first: not begun (3.11, 3.12). */
		position = offset == (uint64_t)-2 ? PY_NO_POSITION : (uint32_t)offset;
		if (offset != (uint64_t)-2 && offset > bytes)
			return false;
		break;
	}
	}
	if (position != PY_NO_POSITION && (position >= bytes || (position & 1) != 0))
		return false;
	*ret = position;
	return true;
}

/* The current frame of a thread state; 0 when it has none. */
static inline bool py_frame_first(
	PY_MEM m, const struct py_layout *l, uint64_t ts, uint64_t *ret)
{
	if (!py_mem_load64(m, ts + l->ts_frame, ret))
		return false;
	if (l->cframe_frame != PY_NONE)
		return py_mem_load64(m, *ret + l->cframe_frame, ret);
	return true;
}

#endif
