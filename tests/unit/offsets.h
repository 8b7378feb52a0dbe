/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_OFFSETS_H
#define TESTS_UNIT_OFFSETS_H

/*
 * The struct in which CPython 3.13 to 3.15 publish their offsets, built word by word in
 * the order of each version, and what may become of one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "python/layout.h"

#define ABSENT UINT64_MAX
#define COOKIE 0x7970677562656478ull /* "xdebugpy" */

/* All words, in the order of the newest version; columns are 3.13, 3.14 and 3.15.
 * Sizes and words that are not used are plausible; the others are those of real
 * interpreters. */
/* clang-format off */
static const struct {
	const char *name;
	uint64_t values[3];
} published_words[] = {
	{ "cookie", { COOKIE, COOKIE, COOKIE } },
	{ "version", { 0x030d00f0, 0x030e00f0, 0x030f00f0 } },
	{ "free_threaded", { 0, 0, 0 } },
	{ "runtime.size", { 100000, 110000, 120000 } },
	{ "runtime.finalizing", { 616, 792, 920 } },
	{ "runtime.interpreters_head", { 632, 808, 936 } },
	{ "interp.size", { 220000, 226000, 226240 } },
	{ "interp.id", { 7272, 7280, 7272 } },
	{ "interp.next", { 7264, 7272, 7264 } },
	{ "interp.threads_head", { 7344, 7344, 7336 } },
	{ "interp.threads_main", { ABSENT, 7360, 7352 } },
	{ "interp.gc", { 7400, 7400, 7312 } },
	{ "interp.modules", { 7656, 7688, 7592 } },
	{ "interp.sysdict", { 7664, 7696, 7600 } },
	{ "interp.builtins", { 7672, 7704, 7608 } },
	{ "interp.ceval_gil", { 16, 16, 16 } },
	{ "interp.gil_runtime_state", { 7752, 7784, 7736 } },
	{ "interp.gil_enabled", { 0, 0, 0 } },
	{ "interp.gil_locked", { 7768, 7800, 7752 } },
	{ "interp.gil_holder", { 7760, 7792, 7744 } },
	{ "interp.code_object_generation", { ABSENT, 7992, 7944 } },
	{ "interp.tlbc_generation", { ABSENT, 0, 0 } },
	{ "tstate.size", { 400, 420, 1104 } },
	{ "tstate.prev", { 0, 0, 0 } },
	{ "tstate.next", { 8, 8, 8 } },
	{ "tstate.interp", { 16, 16, 16 } },
	{ "tstate.current_frame", { 72, 72, 72 } },
	{ "tstate.base_frame", { ABSENT, ABSENT, 80 } },
	{ "tstate.last_profiled_frame", { ABSENT, ABSENT, 88 } },
	{ "tstate.last_profiled_frame_seq", { ABSENT, ABSENT, 96 } },
	{ "tstate.thread_id", { 152, 152, 176 } },
	{ "tstate.native_thread_id", { 160, 160, 184 } },
	{ "tstate.datastack_chunk", { 232, 232, 256 } },
	{ "tstate.status", { 32, 32, 32 } },
	{ "tstate.holds_gil", { ABSENT, ABSENT, 36 } },
	{ "tstate.gil_requested", { ABSENT, ABSENT, 40 } },
	{ "tstate.current_exception", { ABSENT, ABSENT, 112 } },
	{ "tstate.exc_state", { ABSENT, ABSENT, 240 } },
	{ "err_stackitem.exc_value", { ABSENT, ABSENT, 0 } },
	{ "frame.size", { 80, 88, 88 } },
	{ "frame.previous", { 8, 8, 8 } },
	{ "frame.executable", { 0, 0, 0 } },
	{ "frame.instr_ptr", { 56, 56, 56 } },
	{ "frame.localsplus", { 72, 80, 80 } },
	{ "frame.owner", { 70, 74, 74 } },
	{ "frame.stackpointer", { ABSENT, 64, 64 } },
	{ "frame.tlbc_index", { ABSENT, 0, 0 } },
	{ "code.size", { 208, 216, 216 } },
	{ "code.filename", { 112, 112, 112 } },
	{ "code.name", { 120, 120, 120 } },
	{ "code.qualname", { 128, 128, 128 } },
	{ "code.linetable", { 136, 136, 136 } },
	{ "code.firstlineno", { 68, 68, 68 } },
	{ "code.argcount", { 52, 52, 52 } },
	{ "code.localsplusnames", { 96, 96, 96 } },
	{ "code.localspluskinds", { 104, 104, 104 } },
	{ "code.co_code_adaptive", { 200, 208, 208 } },
	{ "code.co_tlbc", { ABSENT, 0, 0 } },
	{ "object.size", { 16, 16, 16 } },
	{ "object.ob_type", { 8, 8, 8 } },
	{ "type.size", { 416, 416, 416 } },
	{ "type.tp_name", { 24, 24, 24 } },
	{ "type.tp_repr", { 88, 88, 88 } },
	{ "type.tp_flags", { 168, 168, 168 } },
	{ "type.tp_basicsize", { ABSENT, ABSENT, 32 } },
	{ "type.tp_dictoffset", { ABSENT, ABSENT, 288 } },
	{ "heap_type.size", { ABSENT, ABSENT, 928 } },
	{ "heap_type.ht_cached_keys", { ABSENT, ABSENT, 888 } },
	{ "tuple.size", { 32, 40, 40 } },
	{ "tuple.ob_item", { 24, 32, 32 } },
	{ "tuple.ob_size", { 16, 16, 16 } },
	{ "list.size", { 40, 40, 40 } },
	{ "list.ob_item", { 24, 24, 24 } },
	{ "list.ob_size", { 16, 16, 16 } },
	{ "set.size", { ABSENT, 200, 200 } },
	{ "set.used", { ABSENT, 24, 24 } },
	{ "set.table", { ABSENT, 40, 40 } },
	{ "set.mask", { ABSENT, 32, 32 } },
	{ "dict.size", { 48, 48, 48 } },
	{ "dict.ma_keys", { 32, 32, 32 } },
	{ "dict.ma_values", { 40, 40, 40 } },
	{ "float.size", { 24, 24, 24 } },
	{ "float.ob_fval", { 16, 16, 16 } },
	{ "int.size", { 32, 32, 32 } },
	{ "int.lv_tag", { 16, 16, 16 } },
	{ "int.ob_digit", { 24, 24, 24 } },
	{ "bytes.size", { 40, 40, 40 } },
	{ "bytes.ob_size", { 16, 16, 16 } },
	{ "bytes.ob_sval", { 32, 32, 32 } },
	{ "str.size", { 64, 64, 64 } },
	{ "str.state", { 32, 32, 32 } },
	{ "str.length", { 16, 16, 16 } },
	{ "str.asciiobject_size", { 40, 40, 40 } },
	{ "str.compactunicodeobject_size", { ABSENT, ABSENT, 56 } },
	{ "gc.size", { 300, 300, 300 } },
	{ "gc.collecting", { 200, 200, 200 } },
	{ "gc.frame", { ABSENT, ABSENT, 208 } },
	{ "gc.generation_stats_size", { ABSENT, ABSENT, 100 } },
	{ "gc.generation_stats", { ABSENT, ABSENT, 216 } },
	{ "gen.size", { ABSENT, 160, 160 } },
	{ "gen.gi_name", { ABSENT, 24, 24 } },
	{ "gen.gi_iframe", { ABSENT, 72, 72 } },
	{ "gen.gi_frame_state", { ABSENT, 67, 67 } },
	{ "llist.next", { ABSENT, 0, 0 } },
	{ "llist.prev", { ABSENT, 8, 8 } },
	{ "debugger.eval_breaker", { ABSENT, 24, 24 } },
	{ "debugger.support", { ABSENT, 376, 376 } },
	{ "debugger.enabled", { ABSENT, 7248, 7248 } },
	{ "debugger.pending_call", { ABSENT, 0, 0 } },
	{ "debugger.script_path", { ABSENT, 4, 4 } },
	{ "debugger.script_path_size", { ABSENT, 512, 512 } },
};
/* clang-format on */

enum { MAX_WORDS = 128 };

struct published {
	unsigned minor;
	unsigned count;
	uint64_t word[MAX_WORDS];
	const char *name[MAX_WORDS];
};

static inline void build_offsets(struct published *p, unsigned minor)
{
	*p = (struct published){ .minor = minor };
	for (size_t i = 0; i < sizeof(published_words) / sizeof(published_words[0]);
		i++) {
		if (published_words[i].values[minor - 13] == ABSENT)
			continue;
		p->name[p->count] = published_words[i].name;
		p->word[p->count++] = published_words[i].values[minor - 13];
	}
}

static inline uint32_t field_at(const struct py_layout *l, size_t at)
{
	uint32_t value;

	memcpy(&value, (const char *)l + at, sizeof(value));
	return value;
}

/* All offsets within what can be an offset: reading there is harmless. */
static inline bool layout_is_sane(const struct py_layout *l)
{
	enum { MOST = 1 << 23 };
	static const size_t none[] = { offsetof(struct py_layout, rt_main_thread),
		offsetof(struct py_layout, cframe_frame),
		offsetof(struct py_layout, co_nlocalsplus),
		offsetof(struct py_layout, co_stacksize),
		offsetof(struct py_layout, keys_size),
		offsetof(struct py_layout, ob_values) };
	/* Not told by each version, or not where another offset cannot be. */
	static const size_t maybe[] = { offsetof(struct py_layout, rt_initialized),
		offsetof(struct py_layout, gc_frame),
		offsetof(struct py_layout, ts_gil_requested) };

	for (size_t at = offsetof(struct py_layout, rt_interpreters_head);
		at < sizeof(*l); at += sizeof(uint32_t)) {
		bool missing = false, maybe_missing = false;

		for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
			missing |= at == none[i];
		for (size_t i = 0; i < sizeof(maybe) / sizeof(maybe[0]); i++)
			maybe_missing |= at == maybe[i];
		if (maybe_missing && field_at(l, at) == PY_NONE)
			continue;
		if (missing ? field_at(l, at) != PY_NONE : field_at(l, at) > MOST)
			return false;
	}
	return l->rt_interpreters_head % 8 == 0 && l->is_threads_head % 8 == 0 &&
	       l->ts_frame % 8 == 0 && l->fr_previous % 8 == 0 && l->fr_code % 8 == 0 &&
	       l->co_linetable % 8 == 0 && l->gil % 8 == 0;
}

#endif
