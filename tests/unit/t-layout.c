/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where things lie in CPython: the generated rows, and the struct in which 3.13 and
 * later publish their offsets, built here word by word in the order of each version.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "offsets.h"
#include "python/layout.h"
#include "tap.h"

/* --- the generated rows --- */

#define FIELD(name) #name, offsetof(struct py_layout, name)
#define NONE        PY_NONE

/* Of the headers of 3.8.18, 3.9.18, 3.10.13, 3.11.7 and 3.12.1, by hand. */
static const struct {
	const char *name;
	size_t at;
	uint32_t values[5];
} row_fields[] = {
	{ FIELD(instr_kind), { 1, 1, 2, 3, 3 } },
	{ FIELD(linetable_kind), { 1, 1, 2, 3, 3 } },
	{ FIELD(rt_interpreters_head), { 32, 32, 32, 40, 40 } },
	{ FIELD(rt_finalizing), { 16, 16, 16, 24, 24 } },
	{ FIELD(rt_initialized), { 12, 12, 12, 16, 16 } },
	{ FIELD(is_next), { 0, 0, 0, 0, 0 } },
	{ FIELD(is_id), { 16, 24, 24, 48, 8 } },
	{ FIELD(is_threads_head), { 8, 8, 8, 16, 72 } },
	{ FIELD(is_modules), { 56, 856, 856, 888, 944 } },
	{ FIELD(gc_collecting), { 544, 816, 816, 848, 312 } },
	{ FIELD(gc_frame), { NONE, NONE, NONE, NONE, NONE } },
	{ FIELD(ts_gil_requested), { NONE, NONE, NONE, NONE, NONE } },
	{ FIELD(gil), { 1152, 352, 352, 360, 384 } },
	{ FIELD(gil_last_holder), { 8, 8, 8, 8, 8 } },
	{ FIELD(gil_locked), { 16, 16, 16, 16, 16 } },
	{ FIELD(ts_interp), { 16, 16, 16, 16, 16 } },
	{ FIELD(ts_frame), { 24, 24, 24, 56, 56 } },
	{ FIELD(cframe_frame), { NONE, NONE, NONE, 8, 0 } },
	{ FIELD(ts_thread_id), { 176, 176, 176, 152, 136 } },
	{ FIELD(ts_native_id), { NONE, NONE, NONE, 160, 144 } },
	{ FIELD(ts_datastack_chunk), { NONE, NONE, NONE, 296, 232 } },
	{ FIELD(fr_previous), { 24, 24, 24, 48, 8 } },
	{ FIELD(fr_code), { 32, 32, 32, 32, 0 } },
	{ FIELD(fr_instr), { 104, 104, 96, 56, 56 } },
	{ FIELD(fr_owner), { NONE, NONE, NONE, 69, 70 } },
	{ FIELD(co_filename), { 104, 104, 104, 112, 112 } },
	{ FIELD(co_name), { 112, 112, 112, 120, 120 } },
	{ FIELD(co_qualname), { NONE, NONE, NONE, 128, 128 } },
	{ FIELD(co_linetable), { 120, 120, 120, 136, 136 } },
	{ FIELD(co_firstlineno), { 40, 40, 40, 72, 68 } },
	{ FIELD(co_flags), { 36, 36, 36, 48, 48 } },
	{ FIELD(co_bytecode), { 48, 48, 48, 184, 192 } },
	{ FIELD(ob_type), { 8, 8, 8, 8, 8 } },
	{ FIELD(var_size), { 16, 16, 16, 16, 16 } },
	{ FIELD(bytes_data), { 32, 32, 32, 32, 32 } },
	{ FIELD(str_length), { 16, 16, 16, 16, 16 } },
	{ FIELD(str_state), { 32, 32, 32, 32, 32 } },
	{ FIELD(str_ascii_data), { 48, 48, 48, 48, 40 } },
	{ FIELD(str_compact_data), { 72, 72, 72, 72, 56 } },
	{ FIELD(dict_keys), { 32, 32, 32, 32, 32 } },
	{ FIELD(dict_values), { 40, 40, 40, 40, 40 } },
	{ FIELD(fr_localsplus), { 360, 360, 352, 72, 72 } },
	{ FIELD(int_tag), { 16, 16, 16, 16, 16 } },
	{ FIELD(int_digits), { 24, 24, 24, 24, 24 } },
	{ FIELD(keys_size), { 8, 8, 8, NONE, NONE } },
	{ FIELD(keys_log2_index_bytes), { NONE, NONE, NONE, 9, 9 } },
	{ FIELD(keys_kind), { NONE, NONE, NONE, 10, 10 } },
	{ FIELD(keys_count), { 32, 32, 32, 24, 24 } },
	{ FIELD(keys_indices), { 40, 40, 40, 32, 32 } },
	{ FIELD(values_first), { 0, 0, 0, 0, 0 } },
	{ FIELD(ob_dict), { NONE, NONE, NONE, 24, 24 } },
	{ FIELD(ob_values), { NONE, NONE, NONE, 32, NONE } },
	{ FIELD(type_flags), { 168, 168, 168, 168, 168 } },
	{ FIELD(type_dictoffset), { 288, 288, 288, 288, 288 } },
	{ FIELD(type_cached_keys), { 872, 864, 872, 872, 880 } },
	{ FIELD(module_dict), { 16, 16, 16, 16, 16 } },
};

static void test_rows(void)
{
	for (unsigned i = 0; i < 5; i++) {
		const struct py_layout *l = py_layout_row(PY_VERSION_OF(3, 8 + i));
		unsigned wrong = 0;

		if (!tap_ok(l != NULL && l->version == PY_VERSION_OF(3, 8 + i),
			    "there is a row of 3.%u", 8 + i))
			continue;
		for (size_t f = 0; f < sizeof(row_fields) / sizeof(row_fields[0]);
			f++) {
			uint32_t got = field_at(l, row_fields[f].at);

			if (got == row_fields[f].values[i])
				continue;
			printf("# %s: %u, wanted %u\n", row_fields[f].name, got,
				row_fields[f].values[i]);
			wrong++;
		}
		tap_is(wrong, 0, "its offsets are those of the headers");
		tap_ok(((l->flags & PY_GIL_IN_RUNTIME) != 0) == (i <= 3) &&
				((l->flags & PY_GC_IN_RUNTIME) != 0) == (i == 0) &&
				((l->flags & PY_CODE_IN_BYTES) != 0) == (i <= 2) &&
				((l->flags & PY_HAS_NATIVE_ID) != 0) == (i >= 3) &&
				((l->flags & PY_HAS_DATASTACK) != 0) == (i >= 3) &&
				((l->flags & PY_VALUES_TAGGED) != 0) == (i == 4) &&
				((l->flags & PY_INT_TAGGED) != 0) == (i == 4) &&
				(l->flags & PY_VALUES_INLINE) == 0,
			"and its flags");
		tap_ok(l->owner_skip == (i == 4 ? 3 : PY_NONE) && l->code_tag_mask == 0,
			"and what its frames are");
	}
	static const uint32_t without[] = { 0, 1, PY_VERSION_OF(2, 7),
		PY_VERSION_OF(3, 7), PY_VERSION_OF(3, 13), PY_VERSION_OF(3, 16),
		PY_VERSION_OF(4, 8), UINT32_MAX };

	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
		tap_ok(py_layout_row(without[i]) == NULL, "there is none of %#x",
			without[i]);
}

/* --- published offsets --- */

static unsigned index_of(const struct published *p, const char *name)
{
	for (unsigned i = 0; i < p->count; i++)
		if (strcmp(p->name[i], name) == 0)
			return i;
	return 0;
}

/* From the first `size` bytes, in a block of that size. */
static int read_some(const struct published *p, size_t size, struct py_layout *l,
	uint32_t *ret_hex, unsigned *ret_bad)
{
	_cleanup_free_ void *bytes = xmalloc(size);

	memcpy(bytes, p->word, size);
	return py_layout_from_debug_offsets(bytes, size, l, ret_hex, ret_bad);
}

static int read_all(const struct published *p, struct py_layout *l)
{
	return read_some(p, p->count * sizeof(p->word[0]), l, NULL, NULL);
}

static void test_good(void)
{
	static const unsigned counts[] = { 73, 95, 111 };
	/* Values of py_layout for 3.13, 3.14, 3.15. */
	static const struct {
		const char *name;
		size_t at;
		uint32_t values[3];
	} fields[] = {
		{ FIELD(rt_interpreters_head), { 632, 808, 936 } },
		{ FIELD(rt_finalizing), { 616, 792, 920 } },
		{ FIELD(rt_initialized), { 608, 784, 912 } },
		{ FIELD(rt_main_thread), { NONE, NONE, NONE } },
		{ FIELD(is_id), { 7272, 7280, 7272 } },
		{ FIELD(is_next), { 7264, 7272, 7264 } },
		{ FIELD(is_threads_head), { 7344, 7344, 7336 } },
		{ FIELD(is_modules), { 7656, 7688, 7592 } },
		{ FIELD(gc_collecting), { 7600, 7600, 7512 } },
		{ FIELD(gc_frame), { NONE, NONE, 7520 } },
		{ FIELD(ts_gil_requested), { NONE, NONE, 40 } },
		{ FIELD(gil), { 16, 16, 16 } },
		{ FIELD(gil_last_holder), { 8, 8, 8 } },
		{ FIELD(gil_locked), { 16, 16, 16 } },
		{ FIELD(gil_switch_number), { 24, 24, 24 } },
		{ FIELD(ts_prev), { 0, 0, 0 } },
		{ FIELD(ts_next), { 8, 8, 8 } },
		{ FIELD(ts_interp), { 16, 16, 16 } },
		{ FIELD(ts_frame), { 72, 72, 72 } },
		{ FIELD(cframe_frame), { NONE, NONE, NONE } },
		{ FIELD(ts_thread_id), { 152, 152, 176 } },
		{ FIELD(ts_native_id), { 160, 160, 184 } },
		{ FIELD(ts_datastack_chunk), { 232, 232, 256 } },
		{ FIELD(fr_previous), { 8, 8, 8 } },
		{ FIELD(fr_code), { 0, 0, 0 } },
		{ FIELD(fr_instr), { 56, 56, 56 } },
		{ FIELD(fr_owner), { 70, 74, 74 } },
		{ FIELD(owner_skip), { 3, 3, 3 } },
		{ FIELD(code_tag_mask), { 0, 7, 7 } },
		{ FIELD(co_filename), { 112, 112, 112 } },
		{ FIELD(co_name), { 120, 120, 120 } },
		{ FIELD(co_qualname), { 128, 128, 128 } },
		{ FIELD(co_linetable), { 136, 136, 136 } },
		{ FIELD(co_firstlineno), { 68, 68, 68 } },
		{ FIELD(co_flags), { 48, 48, 48 } },
		{ FIELD(co_framesize), { 76, 76, 76 } },
		{ FIELD(co_bytecode), { 200, 208, 208 } },
		{ FIELD(ob_type), { 8, 8, 8 } },
		{ FIELD(var_size), { 16, 16, 16 } },
		{ FIELD(bytes_data), { 32, 32, 32 } },
		{ FIELD(str_length), { 16, 16, 16 } },
		{ FIELD(str_state), { 32, 32, 32 } },
		{ FIELD(str_ascii_data), { 40, 40, 40 } },
		{ FIELD(str_compact_data), { 56, 56, 56 } },
		{ FIELD(dict_keys), { 32, 32, 32 } },
		{ FIELD(dict_values), { 40, 40, 40 } },
		{ FIELD(fr_localsplus), { 72, 80, 80 } },
		{ FIELD(int_tag), { 16, 16, 16 } },
		{ FIELD(int_digits), { 24, 24, 24 } },
		{ FIELD(keys_size), { NONE, NONE, NONE } },
		{ FIELD(keys_log2_index_bytes), { 9, 9, 9 } },
		{ FIELD(keys_kind), { 10, 10, 10 } },
		{ FIELD(keys_count), { 24, 24, 24 } },
		{ FIELD(keys_indices), { 32, 32, 32 } },
		{ FIELD(values_first), { 8, 8, 8 } },
		{ FIELD(ob_dict), { 24, 24, 24 } },
		{ FIELD(ob_values), { NONE, NONE, NONE } },
		{ FIELD(type_flags), { 168, 168, 168 } },
		{ FIELD(type_cached_keys), { 880, 880, 888 } },
	};

	for (unsigned minor = 13; minor <= 15; minor++) {
		struct published p;
		struct py_layout l;
		uint32_t hex = 0;
		unsigned wrong = 0;

		build_offsets(&p, minor);
		tap_ok(p.count == counts[minor - 13], "3.%u publishes %u words", minor,
			p.count);
		int code = read_some(&p, p.count * 8, &l, &hex, NULL);

		if (!tap_ok(code == 0 && l.version == PY_VERSION_OF(3, minor),
			    "offsets of 3.%u are understood", minor))
			continue;
		tap_is(hex, (int64_t)p.word[1], "the version is told");
		for (size_t f = 0; f < sizeof(fields) / sizeof(fields[0]); f++) {
			uint32_t got = field_at(&l, fields[f].at);

			if (got == fields[f].values[minor - 13])
				continue;
			printf("# %s: %u, wanted %u\n", fields[f].name, got,
				fields[f].values[minor - 13]);
			wrong++;
		}
		tap_is(wrong, 0, "and every offset is where it should be");
		tap_ok(l.flags == (PY_HAS_NATIVE_ID | PY_HAS_DATASTACK |
					  PY_VALUES_INLINE | PY_INT_TAGGED) &&
				l.instr_kind == PY_INSTR_POINTER &&
				l.linetable_kind == PY_LINES_LOCATIONS,
			"and its flags and kinds");
		/* A struct that goes on, as _PyRuntime does. */
		_cleanup_free_ unsigned char *more = xcalloc(1, PY_DEBUG_OFFSETS_BYTES);

		memcpy(more, p.word, p.count * 8);
		tap_is(py_layout_from_debug_offsets(
			       more, PY_DEBUG_OFFSETS_BYTES, &l, NULL, NULL),
			0, "with what follows it");
	}
}

/* One word made impossible: refused, or harmless. */
static bool is_refused_or_harmless(
	const struct published *good, unsigned index, uint64_t value, bool *ret_refused)
{
	struct published p = *good;
	struct py_layout l, untouched;
	unsigned bad = 0;

	memset(&l, 0x5a, sizeof(l));
	untouched = l;
	p.word[index] = value;
	int code = read_some(&p, p.count * 8, &l, NULL, &bad);

	*ret_refused = code != 0;
	if (code == 0)
		return layout_is_sane(&l);
	if (memcmp(&l, &untouched, sizeof(l)) != 0)
		return false;
	/* Which word it was; the three of the GIL are judged together. */
	const char *name = p.name[index];

	return code != -4 || bad == index ||
	       (strncmp(name, "interp.gil_", 11) == 0 &&
		       bad == index_of(&p, "interp.gil_holder")) ||
	       /* A size too small makes an impossible offset of each in the struct. */
	       strstr(name, ".size") != NULL;
}

static void test_impossible_words(void)
{
	static const uint64_t values[] = { 1ull << 63, 1ull << 32, (1ull << 32) + 8,
		UINT32_MAX, 1ull << 22, 1ull << 31, 1, 3, 4, 0, INT64_MAX,
		UINT64_MAX - 1000 };

	for (unsigned minor = 13; minor <= 15; minor++) {
		struct published p;
		unsigned wrong = 0, refused = 0, tried = 0;

		build_offsets(&p, minor);
		for (unsigned i = 0; i < p.count; i++)
			for (size_t v = 0; v < sizeof(values) / sizeof(values[0]);
				v++) {
				bool no;

				tried++;
				if (!is_refused_or_harmless(&p, i, values[v], &no)) {
					wrong++;
					printf("# %s = %#llx\n", p.name[i],
						(unsigned long long)values[v]);
				}
				refused += no;
			}
		tap_ok(wrong == 0,
			"3.%u: each word impossible in turn: %u tried, %u refused",
			minor, tried, refused);
	}
}

static bool words_at_the_end_of_64_bits(void)
{
	bool right = true, no;

	for (unsigned minor = 13; minor <= 15; minor++) {
		struct published p;

		build_offsets(&p, minor);
		for (unsigned i = 0; i < p.count; i++)
			for (uint64_t less = 0; less < 16; less++)
				right &= is_refused_or_harmless(
					&p, i, UINT64_MAX - less, &no);
	}
	return right;
}

/* An offset at which the field would reach over the end of its struct. */
static void test_outside_struct(void)
{
	static const char *const cases[][2] = {
		{ "interp.modules", "interp.size" },
		{ "interp.threads_head", "interp.size" },
		{ "interp.gc", "interp.size" },
		{ "tstate.current_frame", "tstate.size" },
		{ "tstate.native_thread_id", "tstate.size" },
		{ "frame.previous", "frame.size" },
		{ "frame.owner", "frame.size" },
		{ "frame.localsplus", "frame.size" },
		{ "code.filename", "code.size" },
		{ "code.firstlineno", "code.size" },
	};

	for (unsigned minor = 13; minor <= 15; minor++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct published p;
			bool refused;

			build_offsets(&p, minor);
			uint64_t size = p.word[index_of(&p, cases[i][1])];
			bool harmless = is_refused_or_harmless(
				&p, index_of(&p, cases[i][0]), size, &refused);

			tap_ok(harmless && refused, "3.%u: %s behind its struct", minor,
				cases[i][0]);
		}
}

static void test_refusals(void)
{
	struct published p;
	struct py_layout l;
	uint32_t hex;
	bool right = true;
	static const uint64_t versions[] = { 0, 0x030800f0, 0x030c01f0, 0x031000f0,
		0x040d00f0, 0x020712f0, 0x1030d00f0, 0xffffffff030d00f0, UINT64_MAX,
		0x030d00a0,   /* 3.13.0a0 */
		0x030d00a6,   /* a6 */
		0x030e00b1,   /* 3.14.0b1 */
		0x030f00c1 }; /* 3.15.0rc1 */

	for (unsigned minor = 13; minor <= 15; minor++) {
		build_offsets(&p, minor);
		for (unsigned i = 0; i < 64; i++) {
			struct published other = p;

			other.word[0] ^= 1ull << i;
			right &= read_all(&other, &l) == -1;
		}
		for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
			struct published other = p;

			other.word[1] = versions[i];
			hex = 1;
			right &= read_some(&other, other.count * 8, &l, &hex, NULL) ==
					 -2 &&
				 hex == (uint32_t)versions[i];
		}
	}
	tap_ok(right, "another cookie, an unknown version, one before its release");

	right = true;
	for (unsigned minor = 13; minor <= 15; minor++) {
		build_offsets(&p, minor);
		for (size_t size = 0; size < p.count * 8; size++)
			right &= read_some(&p, size, &l, NULL, NULL) ==
				 (size < 24 ? -1 : -2);
		/* Patch releases differ in the low half of the version only. */
		p.word[1] += 0x1200;
		right &= read_all(&p, &l) == 0;
	}
	tap_ok(right, "cut at every byte");

	right = true;
	for (unsigned minor = 13; minor <= 15; minor++) {
		build_offsets(&p, minor);
		p.word[2] = 1;
		right &= read_all(&p, &l) == -3;
		p.word[2] = 1ull << 56;
		right &= read_all(&p, &l) == -3;
	}
	tap_ok(right, "free-threaded");
}

int main(void)
{
	test_rows();
	test_good();
	test_impossible_words();
	test_outside_struct();
	tap_ok(words_at_the_end_of_64_bits(),
		"words at the end of 64 bits are refused or harmless");
	test_refusals();
	return tap_done();
}
