/* SPDX-License-Identifier: Apache-2.0 */
#include "python/unicode.h"

static uint32_t character_at(uint32_t width, const uint8_t *p)
{
	uint16_t two;
	uint32_t four;

	switch (width) {
	case 1:
		return *p;
	case 2:
		__builtin_memcpy(&two, p, sizeof(two));
		return two;
	default:
		__builtin_memcpy(&four, p, sizeof(four));
		return four;
	}
}

static char *put_character(char *to, uint32_t c, uint32_t width)
{
	if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
		c = 0xfffd;
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000 || width == 2) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	}
	return to;
}

size_t py_utf8_from(uint32_t width, const uint8_t *bytes, size_t size, char *to)
{
	char *start = to;

	if (width != 1 && width != 2 && width != 4)
		return 0;
	for (size_t at = 0; at + width <= size; at += width)
		to = put_character(to, character_at(width, bytes + at), width);
	return (size_t)(to - start);
}
