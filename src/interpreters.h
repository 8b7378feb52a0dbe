/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_INTERPRETERS_H
#define SRC_INTERPRETERS_H

/* The interpreters of a recording: those of which threads were seen. */

#include <stddef.h>
#include <stdint.h>

#include "profile/model.h"

struct interpreter {
	uint32_t segment;
	uint64_t number;
};

/* All of them, each once, in the order of segments and numbers. */
struct interpreters {
	struct interpreter *list; /* owned: to be given to free() */
	size_t count;
};

void interpreters_find(const struct model *m, struct interpreters *ret);

/* How many of a segment, the first of them at *at, which goes on behind them. */
size_t interpreters_of(const struct interpreters *all, uint32_t segment, size_t *at);

/* "0 (main), 1, 2" and a line's end, on standard output. */
void interpreters_print(const struct interpreter *list, size_t count);

#endif
