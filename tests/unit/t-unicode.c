/* SPDX-License-Identifier: Apache-2.0 */
/* Strings as CPython keeps them, to UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/xalloc.h"
#include "python/unicode.h"
#include "tap.h"

#define BAD "\xef\xbf\xbd" /* U+FFFD */

/* Converted in blocks of exactly the sizes promised; owned. */
static char *convert(uint32_t width, const void *bytes, size_t size, size_t *ret_size)
{
	_cleanup_free_ uint8_t *from = xmalloc(size);
	size_t bound = py_utf8_bound(width, size);
	_cleanup_free_ char *to = xmalloc(bound);

	memcpy(from, bytes, size);
	*ret_size = py_utf8_from(width, from, size, to);
	return xmemdup0(to, *ret_size <= bound ? *ret_size : 0);
}

static void check(const char *what, uint32_t width, const void *bytes, size_t size,
	const char *wanted, size_t wanted_size)
{
	size_t got_size;
	_cleanup_free_ char *got = convert(width, bytes, size, &got_size);

	if (!tap_ok(got_size == wanted_size && memcmp(got, wanted, wanted_size) == 0,
		    "%s", what))
		printf("# %zu bytes\n", got_size);
}

static void test_widths(void)
{
	static const uint16_t two[] = { 'a', 0xe9, 0x7ff, 0x800, 0x4e2d, 0xffff };
	static const uint16_t surrogates[] = { 0xd7ff, 0xd800, 0xdc80, 0xdfff, 0xe000 };
	static const uint16_t pair[] = { 0xd83d, 0xde00 };
	static const uint32_t four[] = { 'a', 0xffff, 0x10000, 0x1f600, 0x10ffff };
	static const uint32_t none[] = { 0x110000, 0x7fffffff, 0xffffffff, 0xdcff };

	check("one byte, ASCII", 1, "abc\x7f", 4, "abc\x7f", 4);
	check("one byte, Latin-1", 1, "\x80\xe9\xff", 3, "\xc2\x80\xc3\xa9\xc3\xbf", 6);
	check("a NUL", 1, "a\0b", 3, "a\0b", 3);
	check("two bytes", 2, two, sizeof(two),
		"a\xc3\xa9\xdf\xbf\xe0\xa0\x80\xe4\xb8\xad\xef\xbf\xbf", 14);
	check("surrogates", 2, surrogates, sizeof(surrogates),
		"\xed\x9f\xbf" BAD BAD BAD "\xee\x80\x80", 15);
	check("a pair of them is no character", 2, pair, sizeof(pair), BAD BAD, 6);
	check("four bytes", 4, four, sizeof(four),
		"a\xef\xbf\xbf\xf0\x90\x80\x80\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", 16);
	check("no characters", 4, none, sizeof(none), BAD BAD BAD BAD, 12);
}

static void test_odd(void)
{
	static const uint32_t widths[] = { 0, 3, 5, 8, UINT32_MAX };
	char to[64];

	check("nothing", 1, "", 0, "", 0);
	check("half a character of two bytes", 2, "a\0b", 3, "a", 1);
	check("half a character alone", 2, "a", 1, "", 0);
	check("a part of one of four bytes", 4, "a\0\0\0b\0\0", 7, "a", 1);
	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
		tap_ok(py_utf8_from(widths[i], (const uint8_t *)"abcdefgh", 8, to) == 0,
			"a width of %u", widths[i]);
}

/* Whatever the bytes: within the bound, and nothing but UTF-8. */
static void test_random(void)
{
	uint32_t random = 99, bad = 0;

	for (int round = 0; round < 30000; round++) {
		static const uint32_t widths[] = { 1, 2, 4 };
		uint8_t bytes[40];
		size_t size = (size_t)round % 40, n, got_size;
		uint32_t width = widths[round % 3];

		for (size_t i = 0; i < size; i++) {
			random = random * 1664525 + 1013904223;
			bytes[i] = (uint8_t)(random >> 24);
			/* Else hardly one of four bytes is a character. */
			if (width == 4 && i % 4 == 3)
				bytes[i] = 0;
			if (width == 4 && i % 4 == 2)
				bytes[i] %= 18;
		}
		_cleanup_free_ char *got = convert(width, bytes, size, &got_size);

		bad += got_size > py_utf8_bound(width, size);
		for (size_t i = 0; i < got_size; i += n) {
			uint32_t c = str_character(got + i, got_size - i, &n);

			bad += c == 0xfffd && n == 1;
		}
	}
	tap_is(bad, 0, "random bytes become UTF-8 within the bound");
}

int main(void)
{
	test_widths();
	test_odd();
	test_random();
	return tap_done();
}
