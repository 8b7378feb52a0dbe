/* SPDX-License-Identifier: Apache-2.0 */
#include "python/linetable.h"

void py_lines_init(struct py_lines *it, enum py_linetable_kind kind,
	const uint8_t *bytes, size_t size, int32_t first_line)
{
	*it = (struct py_lines){
		.kind = kind,
		.at = bytes,
		.end = bytes + (size < PY_LINETABLE_MAX ? size : PY_LINETABLE_MAX),
		.line = first_line,
	};
}

/* Lines of a hostile table may run anywhere; the sum must stay defined. */
static int32_t add_line(int32_t line, int32_t step)
{
	return (int32_t)((uint32_t)line + (uint32_t)step);
}

static struct py_line_range whole_line(uint32_t start, uint32_t end, int32_t line)
{
	return (struct py_line_range){
		.start = start,
		.end = end,
		.line = line,
		.end_line = line,
		.column = -1,
		.end_column = -1,
	};
}

/*
 * 3.8, 3.9: pairs (unsigned step of the offset, signed step of the line).  The
 * line step counts from the new offset on, so that the running line holds for
 * what lies before it.
 */
static bool next_lnotab(struct py_lines *it, struct py_line_range *ret)
{
	uint32_t start = it->offset;
	int32_t line = it->line;

	while (it->end - it->at >= 2) {
		uint32_t step = it->at[0];
		int32_t line_step = (int8_t)it->at[1];

		it->at += 2;
		it->offset += step;
		it->line = add_line(it->line, line_step);
		if (step != 0) {
			*ret = whole_line(start, it->offset, line);
			return true;
		}
		line = it->line;
	}
	it->finished = true;
	*ret = whole_line(start, UINT32_MAX, line);
	return true;
}

/*
 * 3.10: pairs (unsigned length, signed step of the line); the step counts for
 * the range itself, also when its length is 0.  Step -128: no line.
 */
static bool next_range(struct py_lines *it, struct py_line_range *ret)
{
	while (it->end - it->at >= 2) {
		uint32_t length = it->at[0];
		int32_t step = (int8_t)it->at[1];
		uint32_t start = it->offset;

		it->at += 2;
		it->offset += length;
		if (step != -128)
			it->line = add_line(it->line, step);
		if (length != 0) {
			*ret = whole_line(
				start, it->offset, step == -128 ? 0 : it->line);
			return true;
		}
	}
	return false;
}

/* 6 bits a byte, low ones first; bit 6 says that more follow. */
static uint32_t get_varint(struct py_lines *it)
{
	uint32_t value = 0;

	for (unsigned shift = 0; it->at < it->end; shift += 6) {
		uint32_t byte = *it->at++;

		if (shift < 32)
			value |= (byte & 63) << shift;
		if ((byte & 64) == 0)
			break;
	}
	return value;
}

static int32_t get_signed_varint(struct py_lines *it)
{
	uint32_t v = get_varint(it);

	return v & 1 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

static uint32_t get_byte(struct py_lines *it)
{
	return it->at < it->end ? *it->at++ : 0;
}

enum {
	LOC_ONE_LINE_0 = 10, /* to 12: line step 0 to 2, two columns */
	LOC_NO_COLUMNS = 13,
	LOC_LONG = 14,
	LOC_NONE = 15,
};

/* 3.11 and later: the lead byte has bit 7 set, 4 bits of kind, 3 of length. */
static bool next_location(struct py_lines *it, struct py_line_range *ret)
{
	if (it->at >= it->end)
		return false;

	uint32_t lead = get_byte(it);
	uint32_t code = (lead >> 3) & 15;
	uint32_t start = it->offset;
	int32_t end_line_step = 0;
	int32_t column = -1, end_column = -1;

	it->offset += ((lead & 7) + 1) * 2;
	switch (code) {
	case LOC_NONE:
		*ret = whole_line(start, it->offset, 0);
		return true;
	case LOC_NO_COLUMNS:
		it->line = add_line(it->line, get_signed_varint(it));
		break;
	case LOC_LONG:
		it->line = add_line(it->line, get_signed_varint(it));
		end_line_step = (int32_t)get_varint(it);
		/* Of 32 bits, in a hostile table. */
		column = (int32_t)(get_varint(it) & INT32_MAX) - 1;
		end_column = (int32_t)(get_varint(it) & INT32_MAX) - 1;
		break;
	case LOC_ONE_LINE_0:
	case LOC_ONE_LINE_0 + 1:
	case LOC_ONE_LINE_0 + 2:
		it->line = add_line(it->line, (int32_t)(code - LOC_ONE_LINE_0));
		column = (int32_t)get_byte(it);
		end_column = (int32_t)get_byte(it);
		break;
	default: {
		uint32_t columns = get_byte(it);

		column = (int32_t)(code * 8 + (columns >> 4));
		end_column = column + (int32_t)(columns & 15);
		break;
	}
	}
	*ret = (struct py_line_range){
		.start = start,
		.end = it->offset,
		.line = it->line,
		.end_line = add_line(it->line, end_line_step),
		.column = column,
		.end_column = end_column,
	};
	return true;
}

bool py_lines_next(struct py_lines *it, struct py_line_range *ret_range)
{
	if (it->finished)
		return false;
	switch (it->kind) {
	case PY_LINES_LNOTAB:
		return next_lnotab(it, ret_range);
	case PY_LINES_RANGES:
		return next_range(it, ret_range);
	case PY_LINES_LOCATIONS:
		return next_location(it, ret_range);
	}
	return false;
}
