/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts of CPython versions: the generated rows, and the reader of what 3.13
 * and later publish about themselves.
 *
 * _Py_DebugOffsets is a run of 64-bit words whose order is fixed within a minor
 * version and grows in the middle between minor versions, without a length: the
 * word of each field is listed here per version.  (CPython:
 * Include/internal/pycore_runtime.h in 3.13, pycore_debug_offsets.h in 3.14 and
 * 3.15; checked against 3.13.0, 3.13.18, 3.14.10 and 3.15.2.)
 */
#include "python/layout.h"

static const struct py_layout rows[] = {
#include "python/layouts.inc"
};

const struct py_layout *py_layout_row(uint32_t version)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].version == version)
			return &rows[i];
	return NULL;
}

/* Indices of the words that are used; 0 where a version has no such word. */
struct words {
	uint32_t version;
	uint8_t count; /* words in the whole struct */
	uint8_t rt_finalizing, rt_interpreters_head;
	uint8_t is_size, is_id, is_next, is_threads_head, is_gc, is_modules;
	uint8_t is_ceval_gil, is_gil_state, is_gil_locked, is_gil_holder;
	uint8_t ts_size, ts_prev, ts_next, ts_interp, ts_current_frame, ts_thread_id;
	uint8_t ts_native_id, ts_datastack_chunk, ts_gil_requested;
	uint8_t fr_size, fr_previous, fr_executable, fr_instr, fr_localsplus, fr_owner;
	uint8_t co_size, co_filename, co_name, co_qualname, co_linetable;
	uint8_t co_firstlineno, co_bytecode;
	uint8_t ob_type, type_flags, dict_keys, dict_values, int_tag, int_digits;
	uint8_t bytes_size, bytes_data, str_state, str_length, str_ascii_size;
	uint8_t gc_collecting, gc_frame;
};

static const struct words known_words[] = {
	{
		.version = PY_VERSION_OF(3, 13),
		.count = 73,
		.rt_finalizing = 4,
		.rt_interpreters_head = 5,
		.is_size = 6,
		.is_id = 7,
		.is_next = 8,
		.is_threads_head = 9,
		.is_gc = 10,
		.is_modules = 11,
		.is_ceval_gil = 14,
		.is_gil_state = 15,
		.is_gil_locked = 17,
		.is_gil_holder = 18,
		.ts_size = 19,
		.ts_prev = 20,
		.ts_next = 21,
		.ts_interp = 22,
		.ts_current_frame = 23,
		.ts_thread_id = 24,
		.ts_native_id = 25,
		.ts_datastack_chunk = 26,
		.fr_size = 28,
		.fr_previous = 29,
		.fr_executable = 30,
		.fr_instr = 31,
		.fr_localsplus = 32,
		.fr_owner = 33,
		.co_size = 34,
		.co_filename = 35,
		.co_name = 36,
		.co_qualname = 37,
		.co_linetable = 38,
		.co_firstlineno = 39,
		.co_bytecode = 43,
		.ob_type = 45,
		.type_flags = 49,
		.dict_keys = 57,
		.dict_values = 58,
		.int_tag = 62,
		.int_digits = 63,
		.bytes_size = 65,
		.bytes_data = 66,
		.str_state = 68,
		.str_length = 69,
		.str_ascii_size = 70,
		.gc_collecting = 72,
	},
	{
		.version = PY_VERSION_OF(3, 14),
		.count = 95,
		.rt_finalizing = 4,
		.rt_interpreters_head = 5,
		.is_size = 6,
		.is_id = 7,
		.is_next = 8,
		.is_threads_head = 9,
		.is_gc = 11,
		.is_modules = 12,
		.is_ceval_gil = 15,
		.is_gil_state = 16,
		.is_gil_locked = 18,
		.is_gil_holder = 19,
		.ts_size = 22,
		.ts_prev = 23,
		.ts_next = 24,
		.ts_interp = 25,
		.ts_current_frame = 26,
		.ts_thread_id = 27,
		.ts_native_id = 28,
		.ts_datastack_chunk = 29,
		.fr_size = 31,
		.fr_previous = 32,
		.fr_executable = 33,
		.fr_instr = 34,
		.fr_localsplus = 35,
		.fr_owner = 36,
		.co_size = 39,
		.co_filename = 40,
		.co_name = 41,
		.co_qualname = 42,
		.co_linetable = 43,
		.co_firstlineno = 44,
		.co_bytecode = 48,
		.ob_type = 51,
		.type_flags = 55,
		.dict_keys = 67,
		.dict_values = 68,
		.int_tag = 72,
		.int_digits = 73,
		.bytes_size = 75,
		.bytes_data = 76,
		.str_state = 78,
		.str_length = 79,
		.str_ascii_size = 80,
		.gc_collecting = 82,
	},
	{
		.version = PY_VERSION_OF(3, 15),
		.count = 111,
		.rt_finalizing = 4,
		.rt_interpreters_head = 5,
		.is_size = 6,
		.is_id = 7,
		.is_next = 8,
		.is_threads_head = 9,
		.is_gc = 11,
		.is_modules = 12,
		.is_ceval_gil = 15,
		.is_gil_state = 16,
		.is_gil_locked = 18,
		.is_gil_holder = 19,
		.ts_size = 22,
		.ts_prev = 23,
		.ts_next = 24,
		.ts_interp = 25,
		.ts_current_frame = 26,
		.ts_thread_id = 30,
		.ts_native_id = 31,
		.ts_datastack_chunk = 32,
		.ts_gil_requested = 35,
		.fr_size = 39,
		.fr_previous = 40,
		.fr_executable = 41,
		.fr_instr = 42,
		.fr_localsplus = 43,
		.fr_owner = 44,
		.co_size = 47,
		.co_filename = 48,
		.co_name = 49,
		.co_qualname = 50,
		.co_linetable = 51,
		.co_firstlineno = 52,
		.co_bytecode = 56,
		.ob_type = 59,
		.type_flags = 63,
		.dict_keys = 79,
		.dict_values = 80,
		.int_tag = 84,
		.int_digits = 85,
		.bytes_size = 87,
		.bytes_data = 88,
		.str_state = 90,
		.str_length = 91,
		.str_ascii_size = 92,
		.gc_collecting = 95,
		.gc_frame = 96,
	},
};

/* Every struct these offsets lead into is far smaller; a larger one is no offset. */
#define MAX_OFFSET (1u << 22)

/* What is known of the words so far; bad_word is 0 until one is impossible. */
struct reader {
	const unsigned char *bytes;
	unsigned bad_word;
};

static uint64_t word(const struct reader *r, unsigned index)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < 8; i++)
		v |= (uint64_t)r->bytes[index * 8 + i] << (8 * i);
	return v;
}

/* An offset of a field of width bytes in a struct of size bytes (0: not told). */
static uint32_t offset(struct reader *r, unsigned index, uint64_t size, unsigned width)
{
	uint64_t v = word(r, index);
	uint64_t limit = size != 0 && size < MAX_OFFSET ? size : MAX_OFFSET;

	if (limit < width || v > limit - width || v % width != 0) {
		if (r->bad_word == 0)
			r->bad_word = index;
		return 0;
	}
	return (uint32_t)v;
}

/* The GIL struct as 3.13 to 3.15 have it without free threading: the counter of
 * switches follows the locked word.  (CPython: Include/internal/pycore_gil.h) */
static void fill_gil(struct reader *r, const struct words *w, struct py_layout *l)
{
	uint32_t state = offset(r, w->is_gil_state, 0, 8);
	uint32_t holder = offset(r, w->is_gil_holder, 0, 8);
	uint32_t locked = offset(r, w->is_gil_locked, 0, 4);

	l->gil = offset(r, w->is_ceval_gil, 0, 8);
	if (holder < state || locked < holder || locked - state > 256) {
		if (r->bad_word == 0)
			r->bad_word = w->is_gil_holder;
		return;
	}
	l->gil_last_holder = holder - state;
	l->gil_locked = locked - state;
	l->gil_switch_number = l->gil_locked + 8;
}

/* The same of a word that not all versions have. */
static uint32_t if_told(struct reader *r, unsigned index, uint64_t size, unsigned width)
{
	return index != 0 ? offset(r, index, size, width) : PY_NONE;
}

static void fill(struct reader *r, const struct words *w, struct py_layout *l)
{
	uint64_t is = word(r, w->is_size);
	uint64_t ts = word(r, w->ts_size);
	uint64_t fr = word(r, w->fr_size);
	uint64_t co = word(r, w->co_size);
	uint32_t ascii = offset(r, w->str_ascii_size, 0, 8);

	*l = (struct py_layout){
		.version = w->version,
		.flags = PY_HAS_NATIVE_ID | PY_HAS_DATASTACK | PY_VALUES_INLINE |
			 PY_INT_TAGGED,
		.instr_kind = PY_INSTR_POINTER,
		.linetable_kind = PY_LINES_LOCATIONS,
		.rt_interpreters_head = offset(r, w->rt_interpreters_head, 0, 8),
		.rt_finalizing = offset(r, w->rt_finalizing, 0, 8),
		.rt_initialized = PY_NONE,
		.rt_main_thread = PY_NONE,
		.is_next = offset(r, w->is_next, is, 8),
		.is_id = offset(r, w->is_id, is, 8),
		.is_threads_head = offset(r, w->is_threads_head, is, 8),
		.is_modules = offset(r, w->is_modules, is, 8),
		.gc_collecting =
			offset(r, w->is_gc, is, 8) + offset(r, w->gc_collecting, 0, 4),
		.gc_frame = PY_NONE,
		.ts_prev = offset(r, w->ts_prev, ts, 8),
		.ts_next = offset(r, w->ts_next, ts, 8),
		.ts_interp = offset(r, w->ts_interp, ts, 8),
		.ts_frame = offset(r, w->ts_current_frame, ts, 8),
		.cframe_frame = PY_NONE,
		.ts_thread_id = offset(r, w->ts_thread_id, ts, 8),
		.ts_native_id = offset(r, w->ts_native_id, ts, 8),
		.ts_datastack_chunk = offset(r, w->ts_datastack_chunk, ts, 8),
		.ts_gil_requested = if_told(r, w->ts_gil_requested, ts, 4),
		.fr_previous = offset(r, w->fr_previous, fr, 8),
		.fr_code = offset(r, w->fr_executable, fr, 8),
		.fr_instr = offset(r, w->fr_instr, fr, 8),
		.fr_owner = offset(r, w->fr_owner, fr, 1),
		.owner_skip = 3,
		.code_tag_mask = w->version >= PY_VERSION_OF(3, 14) ? 7 : 0,
		.co_filename = offset(r, w->co_filename, co, 8),
		.co_name = offset(r, w->co_name, co, 8),
		.co_qualname = offset(r, w->co_qualname, co, 8),
		.co_linetable = offset(r, w->co_linetable, co, 8),
		.co_firstlineno = offset(r, w->co_firstlineno, co, 4),
		/* Not published; the same distance in 3.12 to 3.15. */
		.co_flags = 48,
		.co_bytecode = offset(r, w->co_bytecode, 0, 8),
		/* Not published either; likewise. */
		.co_framesize = 76,
		.co_nlocalsplus = PY_NONE,
		.co_stacksize = PY_NONE,
		.fr_localsplus = offset(r, w->fr_localsplus, fr, 8),
		.ob_type = offset(r, w->ob_type, 64, 8),
		.var_size = offset(r, w->bytes_size, 64, 8),
		.bytes_data = offset(r, w->bytes_data, 64, 8),
		.str_length = offset(r, w->str_length, 64, 8),
		.str_state = offset(r, w->str_state, 64, 4),
		.str_ascii_data = ascii,
		.str_compact_data = ascii + 16,
		.int_tag = offset(r, w->int_tag, 64, 8),
		.int_digits = offset(r, w->int_digits, 64, 4),
		.dict_keys = offset(r, w->dict_keys, 64, 8),
		.dict_values = offset(r, w->dict_values, 64, 8),
		/* Not published; the same from 3.11 on, but for what is in front of the
		 * values.  (CPython: Include/internal/pycore_dict.h) */
		.keys_size = PY_NONE,
		.keys_log2_index_bytes = 9,
		.keys_kind = 10,
		.keys_count = 24,
		.keys_indices = 32,
		.values_first = 8,
		.type_flags = offset(r, w->type_flags, 0, 8),
		/* Not published before 3.15; the type object is part of the ABI. */
		.type_basicsize = 32,
		.type_dictoffset = 288,
		.type_cached_keys = w->version >= PY_VERSION_OF(3, 15) ? 888 : 880,
		.module_dict = 16,
		/* Not published; the same since 3.11. */
		.ob_dict = 24,
		.ob_values = PY_NONE,
	};
	/* Not published; in front of it, with the padding between, in 3.13 to 3.15. */
	if (l->rt_finalizing >= 8)
		l->rt_initialized = l->rt_finalizing - 8;
	if (w->gc_frame != 0)
		l->gc_frame = offset(r, w->is_gc, is, 8) + offset(r, w->gc_frame, 0, 8);
	fill_gil(r, w, l);
}

int py_layout_from_debug_offsets(const void *runtime, size_t size,
	struct py_layout *ret_layout, uint32_t *ret_hex, unsigned *ret_bad_word)
{
	struct reader r = { .bytes = runtime };
	static const char cookie[8] = "xdebugpy";

	if (size < 3 * 8)
		return -1;
	for (unsigned i = 0; i < sizeof(cookie); i++)
		if (r.bytes[i] != (unsigned char)cookie[i])
			return -1;

	uint64_t hex = word(&r, 1);
	if (ret_hex != NULL)
		*ret_hex = (uint32_t)hex;

	const struct words *w = NULL;
	for (size_t i = 0; i < sizeof(known_words) / sizeof(known_words[0]); i++)
		if (known_words[i].version == (uint32_t)hex >> 16)
			w = &known_words[i];
	/* The low byte of a final release is 0xf0: the struct of an alpha, beta or
	 * release candidate may differ from the final one's. */
	if (w == NULL || hex >> 32 != 0 || ((hex >> 4) & 0xf) != 0xf ||
		size < w->count * 8u)
		return -2;
	if (word(&r, 2) != 0)
		return -3;

	struct py_layout l;
	fill(&r, w, &l);
	if (r.bad_word != 0) {
		if (ret_bad_word != NULL)
			*ret_bad_word = r.bad_word;
		return -4;
	}
	*ret_layout = l;
	return 0;
}
