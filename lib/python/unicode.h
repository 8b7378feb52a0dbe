/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYTHON_UNICODE_H
#define PYTHON_UNICODE_H

/*
 * Strings as CPython keeps them (PEP 393: 1, 2 or 4 bytes a character) to UTF-8.
 * Freestanding.
 */

#include <stddef.h>
#include <stdint.h>

/* Bytes of UTF-8 that size bytes of the given width can become, at most. */
static inline size_t py_utf8_bound(uint32_t width, size_t size)
{
	return width == 1 ? size * 2 : width == 2 ? size / 2 * 3 : size;
}

/*
 * Convert the characters in bytes (native byte order) into to, which has room for
 * py_utf8_bound() bytes.  Lone surrogates (undecodable bytes of file names among
 * them) and what is no character become U+FFFD.  Returns the bytes written; 0 for a
 * width that is none.
 */
size_t py_utf8_from(uint32_t width, const uint8_t *bytes, size_t size, char *to);

#endif
