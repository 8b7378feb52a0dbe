/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/pytext.h"

#include "base/xalloc.h"
#include "python/unicode.h"

enum { LOWEST_ADDRESS = 0x10000 };

char *pytext_read(
	struct proc_mem *m, const struct py_layout *l, uint64_t address, size_t most)
{
	struct py_text t;
	uint64_t length;
	uint32_t state;

	if (address < LOWEST_ADDRESS ||
		!proc_mem_u64(m, address + l->str_length, &length) ||
		!proc_mem_u32(m, address + l->str_state, &state) ||
		!py_text_of(l, address, length, state, &t) || t.bytes > most)
		return NULL;
	_cleanup_free_ uint8_t *bytes = xmalloc(t.bytes + 1);

	if (t.bytes != 0 && proc_mem_read(m, t.data, bytes, t.bytes) != 0)
		return NULL;
	char *text = xmalloc(py_utf8_bound(t.width, t.bytes) + 1);

	text[py_utf8_from(t.width, bytes, t.bytes, text)] = '\0';
	return text;
}
