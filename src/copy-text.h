/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COPY_TEXT_H
#define SRC_COPY_TEXT_H

/* How a sampler that is a thread of the program reads its memory, in words. */

#include <stdint.h>

#include "base/buf.h"

/* "syscall", "warmup", "fast", "stopped"; "direct" for a task; "?". */
const char *copy_text_state(uint32_t state);

/* Who handles a signal: a mapping's name, or "SIG_DFL", "SIG_IGN", an address; cleaned.
 */
void copy_text_owner(struct buf *b, uint64_t owner, const char *mapping);

#endif
