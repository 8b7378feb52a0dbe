/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_RECORDS_H
#define TESTS_UNIT_RECORDS_H

/*
 * Records and sample files by hand, good and bad ones.  The records of the ring and of
 * the file have the same frame: length, type, payload.
 */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/xalloc.h"
#include "file/format.h"

/*
 * Append a record.  format, a letter for each member: 'u' uint64_t as a number, 's'
 * int64_t as a signed one, 't' const char * as a text with its length, 'p' const
 * char * as bytes alone, 'b' unsigned as one byte, '8' uint64_t as eight bytes.
 */
static inline void add_record(
	struct buf *records, unsigned type, const char *format, ...)
{
	struct buf b = BUF_INIT(FILE_RAW_MAX);
	va_list args;

	va_start(args, format);
	for (; *format != '\0'; format++) {
		const char *text;
		uint64_t number;

		switch (*format) {
		case 'u':
			buf_add_uvarint(&b, va_arg(args, uint64_t));
			break;
		case 's':
			buf_add_svarint(&b, va_arg(args, int64_t));
			break;
		case 't':
			text = va_arg(args, const char *);
			buf_add_uvarint(&b, strlen(text));
			buf_add_str(&b, text);
			break;
		case 'p':
			buf_add_str(&b, va_arg(args, const char *));
			break;
		case 'b':
			buf_add_byte(&b, va_arg(args, unsigned));
			break;
		case '8':
			number = va_arg(args, uint64_t);
			for (int i = 0; i < 8; i++)
				buf_add_byte(&b, (unsigned)(number >> (8 * i)) & 0xff);
			break;
		default:
			abort();
		}
	}
	va_end(args);
	buf_add_uvarint(records, b.size + 1);
	buf_add_byte(records, type);
	buf_add(records, b.data, b.size);
	buf_done(&b);
}

/* Numbers for 'u' and 's', which must have their full width. */
#define U(x) ((uint64_t)(x))
#define S(x) ((int64_t)(x))

static inline void put_number(unsigned char *p, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (unsigned char)(value >> (8 * i));
}

static inline void add_skippable(
	struct buf *file, uint32_t magic, unsigned char *content, size_t size)
{
	unsigned char head[FILE_SKIPPABLE_BYTES];

	put_number(content + size - 4, crc32c(content, size - 4), 4);
	put_number(head, magic, 4);
	put_number(head + 4, size, 4);
	buf_add(file, head, sizeof(head));
	buf_add(file, content, size);
}

static inline void add_file_header(struct buf *file, unsigned major, unsigned minor)
{
	unsigned char h[FILE_HEADER_BYTES] = FILE_NAME;

	put_number(h + 8, major, 2);
	put_number(h + 10, minor, 2);
	add_skippable(file, FILE_MAGIC_HEADER, h, sizeof(h));
}

/* A chunk whose header claims stored and raw sizes, and the frame behind it. */
static inline void add_chunk_claiming(struct buf *file, unsigned kind, uint32_t epoch,
	size_t stored, size_t raw, const void *frame, size_t size)
{
	unsigned char h[FILE_CHUNK_BYTES] = { (unsigned char)kind };

	put_number(h + 4, epoch, 4);
	put_number(h + 8, stored, 4);
	put_number(h + 12, raw, 4);
	add_skippable(file, FILE_MAGIC_CHUNK, h, sizeof(h));
	buf_add(file, frame, size);
}

static inline void add_chunk(struct buf *file, unsigned kind, uint32_t epoch,
	const void *records, size_t size)
{
	size_t bound = ZSTD_compressBound(size);
	_cleanup_free_ char *frame = xmalloc(bound);
	ZSTD_CCtx *z = ZSTD_createCCtx();

	(void)ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	size_t stored = ZSTD_compress2(z, frame, bound, records, size);

	(void)ZSTD_freeCCtx(z);
	if (ZSTD_isError(stored))
		abort();
	add_chunk_claiming(file, kind, epoch, stored, size, frame, stored);
}

/* The schema of format 1.0, with further columns if `more` is not 0. */
static inline void add_schema(struct buf *records, unsigned more)
{
	struct buf b = BUF_INIT(1000);

	buf_add_uvarint(&b, 5 + more);
	for (unsigned i = 0; i < 5 + more; i++)
		buf_printf(&b, "%c%c%c%c", 1, 'a' + i, 1, 'u');
	buf_add_uvarint(records, b.size + 1);
	buf_add_byte(records, FILE_SCHEMA);
	buf_add(records, b.data, b.size);
	buf_done(&b);
}

#endif
