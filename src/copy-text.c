/* SPDX-License-Identifier: Apache-2.0 */
#include "copy-text.h"

#include "frame-text.h"
#include "wire/ring.h"

const char *copy_text_state(uint32_t state)
{
	static const char *const words[RING_COPY_STATES] = {
		[RING_COPY_DIRECT] = "direct",
		[RING_COPY_BY_SYSCALL] = "syscall",
		[RING_COPY_WARMUP] = "warmup",
		[RING_COPY_BY_LOAD] = "fast",
		[RING_COPY_STOPPED] = "stopped",
	};

	return state < RING_COPY_STATES ? words[state] : "?";
}

void copy_text_owner(struct buf *b, uint64_t owner, const char *mapping)
{
	/* As SIG_DFL and SIG_IGN are written in an action. */
	if (owner <= 1)
		buf_add_str(b, owner == 0 ? "SIG_DFL" : "SIG_IGN");
	else if (mapping != NULL && mapping[0] != '\0')
		frame_text_clean(b, mapping);
	else
		buf_printf(b, "a handler at 0x%llx", (unsigned long long)owner);
}
