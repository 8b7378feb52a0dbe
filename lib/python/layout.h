/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYTHON_LAYOUT_H
#define PYTHON_LAYOUT_H

/*
 * Where things lie in the memory of a CPython process: all that the sampler
 * and the recorder know of a CPython version is in one struct of offsets, so
 * that a new version is new data and not new code.
 *
 * Rows for 3.8 to 3.12 are generated from those versions' own headers
 * (build-aux/gen-layouts.c makes lib/python/layouts.inc).  From 3.13 on the
 * process itself publishes its offsets (_Py_DebugOffsets, the first bytes of
 * _PyRuntime; CPython: Include/internal/pycore_runtime.h, 3.14 and later
 * pycore_debug_offsets.h), and py_layout_from_debug_offsets() reads them.
 *
 * Freestanding: used by the injected core, which only reads the struct, and by
 * the recorder, which fills it.  It crosses the ring's header page as it is.
 */

#include <stddef.h>
#include <stdint.h>

/* The value of an offset for a field which this version does not have. */
#define PY_NONE 0xffffffffu

enum py_layout_flags {
	/* The GIL struct lies in _PyRuntime (to 3.11); else the interpreter
	 * holds a pointer to it. */
	PY_GIL_IN_RUNTIME = 1u << 0,
	/* gc.collecting is in _PyRuntime (3.8); else in the interpreter. */
	PY_GC_IN_RUNTIME = 1u << 1,
	/* The bytecode is a bytes object of its own (to 3.10). */
	PY_CODE_IN_BYTES = 1u << 2,
	/* The kernel thread id stands in the thread state (3.11 and later);
	 * else it is read from the C library's pthread struct. */
	PY_HAS_NATIVE_ID = 1u << 3,
	/* Frames of one thread lie in chunks, the outermost at a known place. */
	PY_HAS_DATASTACK = 1u << 4,
	/* The word in front of an object leads to its attributes' values if bit 0 is
	 * set, else to its dict (3.12). */
	PY_VALUES_TAGGED = 1u << 5,
	/* The values lie behind the object while it has no dict, if its type says so
	 * (3.13 and later). */
	PY_VALUES_INLINE = 1u << 6,
	/* An int's sign is in the lowest bits of its number of digits (3.12 and later).
	 */
	PY_INT_TAGGED = 1u << 7,
};

/* How a frame tells the instruction it is at. */
enum py_instr_kind {
	PY_INSTR_LASTI_BYTES = 1, /* int, byte offset, -1 not begun: 3.8, 3.9 */
	PY_INSTR_LASTI_UNITS = 2, /* int, 2-byte units: 3.10 */
	PY_INSTR_POINTER = 3,     /* address: last executed to 3.12, then current */
};

/* Which line table a code object carries (linetable.h decodes them). */
enum py_linetable_kind {
	PY_LINES_LNOTAB = 1,    /* 3.8, 3.9: co_lnotab */
	PY_LINES_RANGES = 2,    /* 3.10: co_linetable of PEP 626 */
	PY_LINES_LOCATIONS = 3, /* 3.11 and later: location table */
};

/*
 * Byte offsets from the start of the struct that the prefix names: rt
 * _PyRuntimeState, is PyInterpreterState, ts PyThreadState, gil
 * _gil_runtime_state, fr the frame (PyFrameObject to 3.10, then
 * _PyInterpreterFrame), co PyCodeObject.  PY_NONE where there is no such field.
 */
struct py_layout {
	uint32_t version; /* major << 8 | minor */
	uint32_t flags;   /* enum py_layout_flags */
	uint32_t instr_kind;
	uint32_t linetable_kind;

	uint32_t rt_interpreters_head;
	uint32_t rt_finalizing;
	uint32_t rt_initialized; /* int */
	uint32_t rt_main_thread; /* pthread_t; PY_NONE when not needed */

	uint32_t is_next;
	uint32_t is_id;
	uint32_t is_threads_head;
	uint32_t is_modules;
	uint32_t gc_collecting; /* from rt or is, see flags */
	uint32_t gc_frame; /* that a collection came upon, likewise: 3.15; else PY_NONE
			    */

	uint32_t gil; /* from rt, or of the pointer in is */
	uint32_t gil_last_holder;
	uint32_t gil_locked;
	uint32_t gil_switch_number;

	uint32_t ts_prev;
	uint32_t ts_next;
	uint32_t ts_interp;
	uint32_t ts_frame; /* current frame, or the cframe when cframe_frame is set */
	uint32_t cframe_frame; /* 3.11, 3.12: in the cframe; else PY_NONE */
	uint32_t ts_thread_id; /* pthread_t */
	uint32_t ts_native_id; /* kernel thread id in the process's pid namespace */
	uint32_t ts_datastack_chunk;
	uint32_t ts_gil_requested; /* int, 3.15; else PY_NONE */

	uint32_t fr_previous;
	uint32_t fr_code;
	uint32_t fr_instr;
	uint32_t fr_owner; /* int8; see owner_* */

	/* Values of fr_owner; 0 (thread) and 1 (generator) are the frames shown. */
	uint32_t owner_skip;    /* entry frames of the C stack: 3 from 3.12 on */
	uint32_t code_tag_mask; /* bits of fr_code and of locals that are not address: 7
				   in 3.14 on */

	uint32_t co_filename;
	uint32_t co_name;
	uint32_t co_qualname;
	uint32_t co_linetable;
	uint32_t co_firstlineno; /* int */
	uint32_t co_flags;       /* int */
	uint32_t co_bytecode;    /* first instruction, or pointer to the bytes object */
	/* Words a frame takes: an int by itself (3.12 and later), or the sum of two and
	 * of what lies in front of the locals (3.11). */
	uint32_t co_framesize;
	uint32_t co_nlocalsplus;
	uint32_t co_stacksize;
	uint32_t fr_localsplus; /* the first local */

	uint32_t ob_type;
	uint32_t var_size; /* ob_size of a variable-sized object */
	uint32_t bytes_data;
	uint32_t str_length;
	uint32_t str_state;
	uint32_t str_ascii_data;
	uint32_t str_compact_data;

	uint32_t int_tag; /* number of digits, see PY_INT_TAGGED */
	uint32_t int_digits;

	uint32_t dict_keys;
	uint32_t dict_values; /* 0: they stand with the keys */
	uint32_t keys_size;   /* entries of the index (to 3.10), or: */
	uint32_t keys_log2_index_bytes;
	uint32_t keys_kind; /* 0: entries have a hash in front; to 3.10 all have */
	uint32_t keys_count;
	uint32_t keys_indices; /* the entries follow them */
	uint32_t values_first; /* what lies in front of the first value */

	uint32_t type_flags;
	uint32_t type_basicsize;
	uint32_t type_dictoffset;
	uint32_t type_cached_keys;
	uint32_t module_dict;
	/* So many bytes in front of an object is the pointer to its dict (3.11 and
	 * later; before, at type_dictoffset's), and to its values (3.11). */
	uint32_t ob_dict;
	uint32_t ob_values;
};

/* Position of a frame that has not begun. */
#define PY_NO_POSITION 0xffffffffu

/* co_flags of code whose frames hang between callers: generator, coroutine,
 * async generator.  (CPython: Include/cpython/code.h, Include/code.h) */
#define PY_CO_GENERATOR_FLAGS 0x2a0u

#define PY_VERSION_OF(major, minor) ((uint32_t)((major) << 8 | (minor)))

/* The largest _Py_DebugOffsets that is understood, in bytes. */
#define PY_DEBUG_OFFSETS_BYTES 1024

/*
 * The generated row of a version (PY_VERSION_OF), or NULL: 3.13 and later have
 * none, and neither have versions before 3.8.
 */
const struct py_layout *py_layout_row(uint32_t version);

/*
 * Fill a layout from the first size bytes of a process's _PyRuntime.  Each
 * offset is checked against what it can be; on any that cannot, the version is
 * refused and *ret_bad_word is the index of the first bad 64-bit word.
 *
 * Returns 0; -1 no cookie; -2 version not known to this program (the value is in
 * *ret_hex when not NULL); -3 free-threaded build; -4 an offset is impossible.
 */
int py_layout_from_debug_offsets(const void *runtime, size_t size,
	struct py_layout *ret_layout, uint32_t *ret_hex, unsigned *ret_bad_word);

#endif
