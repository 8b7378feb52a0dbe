/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

/*
 * A growing run of bytes, born with a maximum.  What does not fit is not added
 * and sets the overflow flag; a caller may add many things and look once.
 * There is always a NUL behind the last byte.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data; /* NULL while empty */
	size_t size;
	size_t capacity;
	size_t max;
	bool overflow;
};

#define BUF_INIT(max_bytes)                                                            \
	{                                                                              \
		.max = (max_bytes)                                                     \
	}

void buf_done(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory */
void buf_fit(struct buf *b);   /* gives back what is not used */
void buf_add(struct buf *b, const void *bytes, size_t size);
void buf_add_str(struct buf *b, const char *s);
void buf_add_byte(struct buf *b, unsigned byte);
__attribute__((format(printf, 2, 3))) void buf_printf(
	struct buf *b, const char *format, ...);

/* Unsigned LEB128 and its zigzag form for signed values. */
void buf_add_uvarint(struct buf *b, uint64_t value);
void buf_add_svarint(struct buf *b, int64_t value);

/* The text so far, "" when empty; borrowed until the next change. */
const char *buf_text(const struct buf *b);

#define _cleanup_buf_ __attribute__((cleanup(buf_done)))

#endif
