/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ .max = b->max };
}

void buf_clear(struct buf *b)
{
	b->size = 0;
	b->overflow = false;
	if (b->data != NULL)
		b->data[0] = '\0';
}

void buf_fit(struct buf *b)
{
	if (b->data == NULL || b->capacity == b->size + 1)
		return;
	b->data = xrealloc(b->data, b->size + 1);
	b->capacity = b->size + 1;
}

/* Room for size more bytes and the NUL; false past the maximum. */
static bool reserve(struct buf *b, size_t size)
{
	if (size > b->max - b->size) {
		b->overflow = true;
		return false;
	}
	if (b->size + size + 1 > b->capacity) {
		size_t wanted = b->capacity < 64 ? 64 : b->capacity * 2;

		if (wanted < b->size + size + 1)
			wanted = b->size + size + 1;
		b->data = xrealloc(b->data, wanted);
		b->capacity = wanted;
	}
	return true;
}

void buf_add(struct buf *b, const void *bytes, size_t size)
{
	if (size == 0 || !reserve(b, size))
		return;
	memcpy(b->data + b->size, bytes, size);
	b->size += size;
	b->data[b->size] = '\0';
}

void buf_add_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_add_byte(struct buf *b, unsigned byte)
{
	unsigned char c = (unsigned char)byte;

	buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list args;
	_cleanup_free_ char *text = NULL;

	va_start(args, format);
	int n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0) {
		text = NULL;
		b->overflow = true;
		return;
	}
	buf_add(b, text, (size_t)n);
}

void buf_add_uvarint(struct buf *b, uint64_t value)
{
	unsigned char bytes[10];
	size_t n = 0;

	while (value >= 0x80) {
		bytes[n++] = (unsigned char)(value | 0x80);
		value >>= 7;
	}
	bytes[n++] = (unsigned char)value;
	buf_add(b, bytes, n);
}

void buf_add_svarint(struct buf *b, int64_t value)
{
	buf_add_uvarint(b, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

const char *buf_text(const struct buf *b)
{
	return b->data != NULL ? b->data : "";
}
