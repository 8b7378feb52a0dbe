/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a _PyRuntime: refused, or a layout that is safe to read by. */
#include <string.h>

#include "../unit/offsets.h"
#include "base/xalloc.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ uint8_t *bytes = xmalloc(size);
	struct py_layout layout;
	unsigned bad_word = 0;
	uint32_t hex = 0;

	if (size != 0)
		memcpy(bytes, data, size);
	int code = py_layout_from_debug_offsets(bytes, size, &layout, &hex, &bad_word);

	fuzz_require(code <= 0 && code >= -4, "a code that is listed");
	fuzz_require(code != 0 || layout_is_sane(&layout), "offsets are offsets");
	fuzz_require(code != -4 || (bad_word != 0 && bad_word * 8 < size),
		"the bad word is told");
	return 0;
}
