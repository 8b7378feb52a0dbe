/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The target, in each fuzz-*.c; the name is libFuzzer's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* End the program, as what must not be is so. */
static inline void fuzz_require(bool condition, const char *what)
{
	if (condition)
		return;
	(void)fprintf(stderr, "not so: %s\n", what);
	abort();
}

#endif
