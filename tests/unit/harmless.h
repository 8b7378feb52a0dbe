/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_HARMLESS_H
#define TESTS_UNIT_HARMLESS_H

/* What a line table may do at the worst, whatever its bytes are. */

#include <stdbool.h>

#include "python/linetable.h"

/* Read to the end: rising ranges without overlap, in bounded steps. */
static inline bool lines_are_harmless(enum py_linetable_kind kind, const uint8_t *table,
	size_t size, int32_t first_line)
{
	struct py_lines it;
	struct py_line_range r;
	uint32_t end = 0;
	size_t count = 0;

	py_lines_init(&it, kind, table, size, first_line);
	while (py_lines_next(&it, &r)) {
		if (r.start < end || r.end <= r.start || ++count > size + 1)
			return false;
		if (r.column < -1 || r.end_column < -1)
			return false;
		end = r.end;
	}
	return true;
}

#endif
