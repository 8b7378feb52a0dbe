/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three line tables.  The vectors were made by the CPython versions named, of
 *
 *	def f(a,			def g(a):	def h(m):
 *	      b):				<300 lines>	with m:
 *	    x = (a +			    for i in a:		return 1
 *	         b)			        b = i
 *	    <2 lines>			    return b
 *	    return x
 *
 * each at line 1; lines.sh compares with every CPython at hand.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "harmless.h"
#include "python/linetable.h"
#include "tap.h"

struct vector {
	const char *what;
	enum py_linetable_kind kind;
	uint32_t size;         /* of the bytecode */
	const char *table;     /* in hexadecimal */
	const char *lines;     /* "START-END:LINE ...", line 0 for none */
	const char *positions; /* "OFFSET:LINE,END,COLUMN,END ...", or NULL */
};

/* clang-format off */
static const struct vector vectors[] = {
	{
		.what = "f of 3.8",
		.kind = PY_LINES_LNOTAB,
		.size = 12,
		.table = "0002020102ff0404",
		.lines = "0-2:3 2-4:4 4-8:3 8-12:7",
	},
	{
		.what = "g of 3.8",
		.kind = PY_LINES_LNOTAB,
		.size = 18,
		.table = "007f007f002f08010601",
		.lines = "0-8:302 8-14:303 14-18:304",
	},
	{
		.what = "h of 3.8",
		.kind = PY_LINES_LNOTAB,
		.size = 30,
		.table = "00010601",
		.lines = "0-6:2 6-30:3",
	},
	{
		.what = "f of 3.10",
		.kind = PY_LINES_RANGES,
		.size = 12,
		.table = "0202020104ff0404",
		.lines = "0-2:3 2-4:4 4-8:3 8-12:7",
	},
	{
		.what = "g of 3.10",
		.kind = PY_LINES_RANGES,
		.size = 18,
		.table = "007f007f082f06010401",
		.lines = "0-8:302 8-14:303 14-18:304",
	},
	{
		.what = "h of 3.10",
		.kind = PY_LINES_RANGES,
		.size = 44,
		.table = "0601020124ff",
		.lines = "0-6:2 6-8:3 8-44:2",
	},
	{
		.what = "f of 3.11",
		.kind = PY_LINES_LOCATIONS,
		.size = 16,
		.table = "8000e0090ad8090af103010a0b8041f008000c0d8048",
		.lines = "0-2:1 2-4:3 4-6:4 6-12:3 12-16:7",
		.positions = "0:1,1,0,0 2:3,3,9,10 4:4,4,9,10 6:3,4,9,10 10:3,3,4,5 "
			"12:7,7,11,12 14:7,7,4,12",
	},
	{
		.what = "g of 3.11",
		.kind = PY_LINES_LOCATIONS,
		.size = 20,
		.table = "8000f05a09000e0ff00001050ef00001050e8801d80c0d88018801d80b0c8048",
		.lines = "0-2:1 2-10:302 10-16:303 16-20:304",
		.positions = "0:1,1,0,0 2:302,302,13,14 4:302,303,4,13 8:302,302,8,9 "
			"10:303,303,12,13 12:303,303,8,9 16:304,304,11,12 "
			"18:304,304,4,12",
	},
	{
		.what = "h of 3.11",
		.kind = PY_LINES_LOCATIONS,
		.size = 62,
		.table = "8000d8090af000010511f000010511d80f10f003010511f000010511f0000105"
			"11f100010511f400010511f000010511f000010511f000010511f000010511f0"
			"00010511f000010511f000010511f8f8f8f000010511f000010511f000010511"
			"f000010511f000010511f000010511",
		.lines = "0-2:1 2-8:2 8-10:3 10-44:2 44-50:0 50-62:2",
		.positions = "0:1,1,0,0 2:2,2,9,10 4:2,3,4,16 8:3,3,15,16 10:2,3,4,16 "
			"44:-,-,-,- 50:2,3,4,16",
	},
	{
		.what = "g of 3.12",
		.kind = PY_LINES_LOCATIONS,
		.size = 24,
		.table = "8000f05a09000e0ff20001050e8801d80c0d8901f00301050ee00b0c8048",
		.lines = "0-2:1 2-12:302 12-18:303 18-20:302 20-24:304",
		.positions = "0:1,1,0,0 2:302,302,13,14 4:302,303,4,13 10:302,302,8,9 "
			"12:303,303,12,13 14:303,303,8,9 18:302,303,4,13 "
			"20:304,304,11,12 22:304,304,4,12",
	},
	{
		.what = "h of 3.12",
		.kind = PY_LINES_LOCATIONS,
		.size = 52,
		.table = "8000d8090af100010511d80f10f703010511f700010511f100010511fa",
		.lines = "0-2:1 2-8:2 8-10:3 10-46:2 46-52:0",
		.positions = "0:1,1,0,0 2:2,2,9,10 4:2,3,4,16 8:3,3,15,16 10:2,3,4,16 "
			"46:-,-,-,-",
	},
	{
		.what = "g of 3.13",
		.kind = PY_LINES_LOCATIONS,
		.size = 28,
		.table = "8000f35a09000e0f8801d80c0d8a01f103000e0fe00b0c8048",
		.lines = "0-2:1 2-12:302 12-20:303 20-24:302 24-28:304",
		.positions = "0:1,1,0,0 2:302,302,13,14 10:302,302,8,9 12:303,303,12,13 "
			"14:303,303,8,9 20:302,302,13,14 24:304,304,11,12 "
			"26:304,304,4,12",
	},
	{
		.what = "h of 3.13",
		.kind = PY_LINES_LOCATIONS,
		.size = 62,
		.table = "8000da090ad80f10f703000a0b8f118e11fa",
		.lines = "0-2:1 2-8:2 8-10:3 10-56:2 56-62:0",
		.positions = "0:1,1,0,0 2:2,2,9,10 8:3,3,15,16 10:2,2,9,10 56:-,-,-,-",
	},
	{
		.what = "f of 3.14",
		.kind = PY_LINES_LOCATIONS,
		.size = 24,
		.table = "8000e0090ad8090af503010a0b8041f008000c0d8048",
		.lines = "0-2:1 2-4:3 4-6:4 6-20:3 20-24:7",
		.positions = "0:1,1,0,0 2:3,3,9,10 4:4,4,9,10 6:3,4,9,10 18:3,3,4,5 "
			"20:7,7,11,12 22:7,7,4,12",
	},
	{
		.what = "h of 3.14",
		.kind = PY_LINES_LOCATIONS,
		.size = 86,
		.table = "8000df090a8a11d80f10f703000a0b8f118f118a11fa",
		.lines = "0-2:1 2-24:2 24-26:3 26-80:2 80-86:0",
		.positions = "0:1,1,0,0 2:2,2,9,10 24:3,3,15,16 26:2,2,9,10 80:-,-,-,-",
	},
	{
		.what = "f of 3.15",
		.kind = PY_LINES_LOCATIONS,
		.size = 26,
		.table = "8100e0090ad8090af503010a0b8041f008000c0d8048",
		.lines = "0-4:1 4-6:3 6-8:4 8-22:3 22-26:7",
		.positions = "0:1,1,0,0 4:3,3,9,10 6:4,4,9,10 8:3,4,9,10 20:3,3,4,5 "
			"22:7,7,11,12 24:7,7,4,12",
	},
	{
		.what = "g of 3.15",
		.kind = PY_LINES_LOCATIONS,
		.size = 32,
		.table = "8100f45a09000e0f8801d80c0d8a01f103000e0fe00b0c8048",
		.lines = "0-4:1 4-16:302 16-24:303 24-28:302 28-32:304",
		.positions = "0:1,1,0,0 4:302,302,13,14 14:302,302,8,9 16:303,303,12,13 "
			"18:303,303,8,9 24:302,302,13,14 28:304,304,11,12 "
			"30:304,304,4,12",
	},
	{
		.what = "h of 3.15",
		.kind = PY_LINES_LOCATIONS,
		.size = 88,
		.table = "8100df090a8a11d80f10f703000a0b8f118f118a11fa",
		.lines = "0-4:1 4-26:2 26-28:3 28-82:2 82-88:0",
		.positions = "0:1,1,0,0 4:2,2,9,10 26:3,3,15,16 28:2,2,9,10 82:-,-,-,-",
	},
};
/* clang-format on */

static unsigned digit(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
}

/* In a block of its exact size; owned. */
static uint8_t *from_hex(const char *text, size_t *ret_size)
{
	size_t size = strlen(text) / 2;
	uint8_t *bytes = xmalloc(size);

	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
	*ret_size = size;
	return bytes;
}

/* All ranges, those of the same line that follow each other as one; the open end of
 * the last is the end of the code. */
static void describe_lines(struct py_lines *it, uint32_t size, struct buf *b)
{
	struct py_line_range range, last = { 0 };
	bool more = py_lines_next(it, &range);

	while (more) {
		last = range;
		while ((more = py_lines_next(it, &range)) && range.line == last.line &&
			range.start == last.end)
			last.end = range.end;
		buf_printf(b, "%s%u-%u:%d", b->size != 0 ? " " : "", last.start,
			last.end < size ? last.end : size, last.line);
	}
}

static bool range_at(const struct vector *v, const uint8_t *table, size_t size,
	uint32_t offset, struct py_line_range *ret)
{
	struct py_lines it;

	py_lines_init(&it, v->kind, table, size, 1);
	while (py_lines_next(&it, ret))
		if (offset >= ret->start && offset < ret->end)
			return true;
	return false;
}

/* The positions of the offsets that the vector names, in its own form. */
static void describe_positions(
	const struct vector *v, const uint8_t *table, size_t size, struct buf *b)
{
	for (const char *at = v->positions; at != NULL; at = strchr(at, ' ')) {
		struct py_line_range r;

		at += *at == ' ';
		uint32_t offset = (uint32_t)strtoul(at, NULL, 10);

		buf_printf(b, "%s%u:", b->size != 0 ? " " : "", offset);
		if (!range_at(v, table, size, offset, &r))
			buf_add_str(b, "?");
		else if (r.line == 0)
			buf_add_str(b, "-,-,-,-");
		else
			buf_printf(b, "%d,%d,%d,%d", r.line, r.end_line, r.column,
				r.end_column);
	}
}

static void test_vectors(void)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		size_t size;
		_cleanup_free_ uint8_t *table = from_hex(v->table, &size);
		_cleanup_buf_ struct buf lines = BUF_INIT(10000),
					 positions = BUF_INIT(10000);
		char what[64];
		struct py_lines it;

		py_lines_init(&it, v->kind, table, size, 1);
		describe_lines(&it, v->size, &lines);
		tap_str(buf_text(&lines), v->lines, v->what);
		if (v->positions == NULL)
			continue;
		describe_positions(v, table, size, &positions);
		(void)snprintf(what, sizeof(what), "columns of %s", v->what);
		tap_str(buf_text(&positions), v->positions, what);
	}
}

static void test_small_tables(void)
{
	static const struct {
		const char *what;
		enum py_linetable_kind kind;
		int32_t first;
		const char *table, *lines;
	} cases[] = {
		{ "3.8: no table", PY_LINES_LNOTAB, 5, "", "0-400:5" },
		{ "3.8: half a pair", PY_LINES_LNOTAB, 5, "02", "0-400:5" },
		{ "3.8: half a pair behind one", PY_LINES_LNOTAB, 5, "020304",
			"0-2:5 2-400:8" },
		{ "3.8: lines go back", PY_LINES_LNOTAB, 10, "02fd0205",
			"0-2:10 2-4:7 4-400:12" },
		{ "3.8: a long step in two", PY_LINES_LNOTAB, 1, "ff002d01",
			"0-300:1 300-400:2" },
		{ "3.8: lines past 127", PY_LINES_LNOTAB, 1, "047f0003",
			"0-4:1 4-400:131" },
		{ "3.8: lines back past 128", PY_LINES_LNOTAB, 500, "048000ff",
			"0-4:500 4-400:371" },
		{ "3.10: no table", PY_LINES_RANGES, 5, "", "" },
		{ "3.10: half a pair", PY_LINES_RANGES, 5, "02", "" },
		{ "3.10: no line, and on at the same", PY_LINES_RANGES, 5,
			"020104800400", "0-2:6 2-6:0 6-10:6" },
		{ "3.10: no line, without length", PY_LINES_RANGES, 5, "02010080040a",
			"0-2:6 2-6:16" },
		{ "3.10: a step without length counts", PY_LINES_RANGES, 5,
			"007f007f0201", "0-2:260" },
		{ "3.10: lines go back", PY_LINES_RANGES, 50, "0201029c",
			"0-2:51 2-4:-49" },
		{ "3.11: no table", PY_LINES_LOCATIONS, 5, "", "" },
		{ "3.11: no columns, one line on", PY_LINES_LOCATIONS, 5, "e802",
			"0-2:6" },
		{ "3.11: no columns, a line back", PY_LINES_LOCATIONS, 5, "e803",
			"0-2:4" },
		{ "3.11: 8 units", PY_LINES_LOCATIONS, 5, "8700", "0-16:5" },
		{ "3.11: no location keeps the line", PY_LINES_LOCATIONS, 5,
			"e802f88000", "0-2:6 2-4:0 4-6:6" },
		{ "3.11: short, line 1 and 2 on", PY_LINES_LOCATIONS, 5, "d80000e00000",
			"0-2:6 2-4:8" },
		{ "3.11: a line step of two bytes", PY_LINES_LOCATIONS, 5, "e84801",
			"0-2:41" },
		{ "3.11: the step is cut", PY_LINES_LOCATIONS, 5, "e8", "0-2:5" },
		{ "3.11: the columns are cut", PY_LINES_LOCATIONS, 5, "d8", "0-2:6" },
		{ "3.11: a long one is cut", PY_LINES_LOCATIONS, 5, "f002", "0-2:6" },
		{ "no kind of table", (enum py_linetable_kind)0, 5, "0201", "" },
		{ "nor this one", (enum py_linetable_kind)4, 5, "0201", "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t size;
		_cleanup_free_ uint8_t *table = from_hex(cases[i].table, &size);
		_cleanup_buf_ struct buf b = BUF_INIT(10000);
		struct py_lines it;
		struct py_line_range range;

		py_lines_init(&it, cases[i].kind, table, size, cases[i].first);
		describe_lines(&it, 400, &b);
		tap_str(buf_text(&b), cases[i].lines, cases[i].what);
		tap_ok(!py_lines_next(&it, &range), "and nothing follows the end");
	}
}

/* A 3.11 entry with two columns and an end line, as PEP 626's successor has it. */
static void test_columns(void)
{
	static const uint8_t table[] = {
		0x80 | 14 << 3, 0x02, 0x03, 0x05, 0x49,
		0x01, /* long: +1, end +3, 4, 72 */
		0x80 | 14 << 3 | 1, 0x00, 0x00, 0x00, 0x00, /* long without columns */
		0x80 | 9 << 3, 0x7f,                        /* short: 79 to 94 */
		0x80 | 12 << 3, 0x7f, 0x7f,                 /* two lines on: 127, 127 */
	};
	static const struct py_line_range wanted[] = {
		{ 0, 2, 11, 14, 4, 72 },
		{ 2, 6, 11, 11, -1, -1 },
		{ 6, 8, 11, 11, 79, 94 },
		{ 8, 10, 13, 13, 127, 127 },
	};
	struct py_lines it;
	struct py_line_range r;

	py_lines_init(&it, PY_LINES_LOCATIONS, table, sizeof(table), 10);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		bool got = py_lines_next(&it, &r);

		tap_ok(got && memcmp(&r, &wanted[i], sizeof(r)) == 0,
			"columns of entry %zu", i);
	}
	tap_ok(!py_lines_next(&it, &r), "and no more");
}

/* --- tables from nowhere --- */

static uint32_t draw(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 16;
}

/* No varint of more than five bytes, see test_large_columns(). */
static void shorten_varints(uint8_t *table, size_t size)
{
	for (size_t i = 0, run = 0; i < size; i++) {
		run = (table[i] & 0x40) != 0 ? run + 1 : 0;
		if (run == 4) {
			table[i] &= 0xbf;
			run = 0;
		}
	}
}

static void test_random(void)
{
	static const enum py_linetable_kind kinds[] = { PY_LINES_LNOTAB,
		PY_LINES_RANGES, PY_LINES_LOCATIONS };
	uint32_t random = 5;

	for (size_t k = 0; k < 3; k++) {
		bool harmless = true;

		for (int round = 0; round < 30000; round++) {
			size_t size = draw(&random) % 60;
			_cleanup_free_ uint8_t *table = xmalloc(size);

			for (size_t i = 0; i < size; i++)
				table[i] = (uint8_t)draw(&random);
			shorten_varints(table, size);
			harmless &= lines_are_harmless(kinds[k], table, size, 1);
		}
		tap_ok(harmless, "random tables of kind %d", (int)kinds[k]);
	}
}

static void test_cut(void)
{
	bool harmless = true;

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		size_t size;
		_cleanup_free_ uint8_t *table = from_hex(vectors[i].table, &size);

		for (size_t less = 0; less < size; less++) {
			_cleanup_free_ uint8_t *cut = xmalloc(less);

			memcpy(cut, table, less);
			harmless &= lines_are_harmless(vectors[i].kind, cut, less, 1);
		}
	}
	tap_ok(harmless, "tables cut at every byte");
}

/* Larger than is read, of every byte: all in one varint, all without length, ... */
static void test_large(void)
{
	static const enum py_linetable_kind kinds[] = { PY_LINES_LNOTAB,
		PY_LINES_RANGES, PY_LINES_LOCATIONS };
	const size_t size = PY_LINETABLE_MAX + 5000;
	_cleanup_free_ uint8_t *table = xmalloc(size);
	bool harmless = true, bounded = true;

	for (unsigned byte = 0; byte < 256; byte += 15) {
		memset(table, (int)byte, size);
		/* A long entry of continued varints would be one of those below. */
		for (size_t k = 0; k < ((byte & 0x40) != 0 ? 2 : 3); k++) {
			struct py_lines it;
			struct py_line_range r;

			harmless &= lines_are_harmless(kinds[k], table, size, 1);
			py_lines_init(&it, kinds[k], table, size, INT32_MAX);
			while (py_lines_next(&it, &r))
				;
			bounded &= it.at <= table + PY_LINETABLE_MAX;
		}
	}
	tap_ok(harmless, "tables of one byte repeated");
	tap_ok(bounded, "of a table too long the first part is read");
}

static bool large_columns_are_harmless(void)
{
	/* A column of 0x80000000, then an end column of that. */
	static const uint8_t column[] = { 0xf0, 0, 0, 0x40, 0x40, 0x40, 0x40, 0x40,
		0x02, 0 };
	static const uint8_t end[] = { 0xf0, 0, 0, 0, 0x40, 0x40, 0x40, 0x40, 0x40,
		0x02 };
	static const uint8_t next[] = { 0xf0, 0, 0, 0x41, 0x40, 0x40, 0x40, 0x40, 0x02,
		0 };

	return lines_are_harmless(PY_LINES_LOCATIONS, column, sizeof(column), 1) &&
	       lines_are_harmless(PY_LINES_LOCATIONS, end, sizeof(end), 1) &&
	       lines_are_harmless(PY_LINES_LOCATIONS, next, sizeof(next), 1);
}

static void test_large_columns(void)
{
	tap_ok(tap_child(large_columns_are_harmless), "columns beyond 31 bits");
}

int main(void)
{
	test_vectors();
	test_small_tables();
	test_columns();
	test_random();
	test_cut();
	test_large();
	test_large_columns();
	return tap_done();
}
