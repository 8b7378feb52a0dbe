/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYTHON_UNICODE_H
#define PYTHON_UNICODE_H

/*
 * Strings as CPython keeps them (PEP 393: 1, 2 or 4 bytes a character) to UTF-8.
 * Freestanding.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "python/layout.h"

/* Fields of a str object's state word (3.8 to 3.15). */
enum {
	PY_STATE_KIND_SHIFT = 2,
	PY_STATE_KIND_MASK = 7,
	PY_STATE_COMPACT = 1 << 5,
	PY_STATE_ASCII = 1 << 6,
	PY_MAX_CHARACTERS = 1 << 30,
};

/* The characters of a str object. */
struct py_text {
	uint64_t data; /* their address */
	uint64_t bytes;
	uint32_t width; /* 1, 2 or 4 bytes each */
};

/*
 * Where they lie, from the object's address and its length and state words (CPython:
 * PyASCIIObject in cpython/unicodeobject.h).  False for what is no compact string, or
 * one of more than a thousand million characters.
 */
static inline bool py_text_of(const struct py_layout *l, uint64_t address,
	uint64_t length, uint32_t state, struct py_text *ret)
{
	uint32_t width = state >> PY_STATE_KIND_SHIFT & PY_STATE_KIND_MASK;
	bool ascii = (state & PY_STATE_ASCII) != 0;

	if ((state & PY_STATE_COMPACT) == 0 ||
		(width != 1 && width != 2 && width != 4) || length > PY_MAX_CHARACTERS)
		return false;
	*ret = (struct py_text){
		.data = address + (ascii ? l->str_ascii_data : l->str_compact_data),
		.bytes = length * width,
		.width = width,
	};
	return true;
}

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
