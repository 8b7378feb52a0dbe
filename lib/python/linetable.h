/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYTHON_LINETABLE_H
#define PYTHON_LINETABLE_H

/*
 * Decoders of the three line tables of CPython 3.8 and later.
 *
 * A table is read as a run of ranges of byte offsets into the bytecode, in
 * rising order, without overlap.  The bytes come from another process and may be
 * anything: a damaged table ends early or gives wrong lines, and nothing worse.
 *
 * (CPython: Objects/lnotab_notes.txt to 3.10, Objects/locations.md or
 * InternalDocs/code_objects.md from 3.11 on)
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "python/layout.h"

/* The longest table that is read, in bytes. */
#define PY_LINETABLE_MAX (1u << 20)

/* Instructions [start, end) stand at line.  line 0: at no line at all.
 * Columns are UTF-8 byte columns from 0, -1 when the table has none. */
struct py_line_range {
	uint32_t start;
	uint32_t end;
	int32_t line;
	int32_t end_line;
	int32_t column;
	int32_t end_column;
};

struct py_lines {
	enum py_linetable_kind kind;
	const uint8_t *at;
	const uint8_t *end;
	uint32_t offset; /* byte offset reached */
	int32_t line;    /* running line */
	bool finished;
};

/* Start reading a table; bytes is borrowed until the reading ends. */
void py_lines_init(struct py_lines *it, enum py_linetable_kind kind,
	const uint8_t *bytes, size_t size, int32_t first_line);

/* The next range, or false after the last.  The last range of a 3.8 or 3.9
 * table is open: its end is UINT32_MAX. */
bool py_lines_next(struct py_lines *it, struct py_line_range *ret_range);

#endif
