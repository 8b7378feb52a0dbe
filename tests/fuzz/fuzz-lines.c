/* SPDX-License-Identifier: Apache-2.0 */
/* Line tables of all three kinds: a byte for the kind, four of the first line, a table.
 */
#include <string.h>

#include "../unit/harmless.h"
#include "base/xalloc.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int32_t first_line;

	if (size < 5)
		return 0;
	memcpy(&first_line, data + 1, sizeof(first_line));
	size -= 5;
	_cleanup_free_ uint8_t *table = xmalloc(size);

	memcpy(table, data + 5, size);
	/* Kinds 1 to 3, and two that are none. */
	fuzz_require(lines_are_harmless((enum py_linetable_kind)(data[0] % 5), table,
			     size, first_line),
		"ranges rise and end");
	return 0;
}
