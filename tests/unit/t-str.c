/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign strings: decoding, widths, what is replaced, where a text is cut. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/xalloc.h"
#include "tap.h"

#define BAD "\xef\xbf\xbd" /* U+FFFD */

/* In a block of exactly that size, so that a sanitizer sees a byte too many. */
static uint32_t character(const char *bytes, size_t size, size_t *ret_bytes)
{
	_cleanup_free_ char *copy = xmalloc(size);

	memcpy(copy, bytes, size);
	return str_character(copy, size, ret_bytes);
}

static void test_character(void)
{
	static const struct {
		const char *what, *bytes;
		size_t size;
		uint32_t c;
		size_t used;
	} cases[] = {
		{ "ASCII", "A", 1, 'A', 1 },
		{ "NUL", "\0", 1, 0, 1 },
		{ "DEL", "\x7f", 1, 0x7f, 1 },
		{ "the first of two bytes", "\xc2\x80", 2, 0x80, 2 },
		{ "the last of two bytes", "\xdf\xbf", 2, 0x7ff, 2 },
		{ "the first of three", "\xe0\xa0\x80", 3, 0x800, 3 },
		{ "the last before the surrogates", "\xed\x9f\xbf", 3, 0xd7ff, 3 },
		{ "the first behind them", "\xee\x80\x80", 3, 0xe000, 3 },
		{ "U+FFFD itself", BAD, 3, 0xfffd, 3 },
		{ "the last of three", "\xef\xbf\xbf", 3, 0xffff, 3 },
		{ "the first of four", "\xf0\x90\x80\x80", 4, 0x10000, 4 },
		{ "the last of all", "\xf4\x8f\xbf\xbf", 4, 0x10ffff, 4 },
		{ "more behind it", "\xc3\xa9x", 3, 0xe9, 2 },

		{ "a byte that continues nothing", "\x80", 1, 0xfffd, 1 },
		{ "the last of these", "\xbf\xbf", 2, 0xfffd, 1 },
		{ "overlong, two bytes", "\xc0\x80", 2, 0xfffd, 1 },
		{ "overlong slash", "\xc1\xaf", 2, 0xfffd, 1 },
		{ "overlong, three bytes", "\xe0\x9f\xbf", 3, 0xfffd, 1 },
		{ "overlong, four bytes", "\xf0\x8f\xbf\xbf", 4, 0xfffd, 1 },
		{ "the first surrogate", "\xed\xa0\x80", 3, 0xfffd, 1 },
		{ "the last surrogate", "\xed\xbf\xbf", 3, 0xfffd, 1 },
		{ "above the last character", "\xf4\x90\x80\x80", 4, 0xfffd, 1 },
		{ "far above", "\xf5\x80\x80\x80", 4, 0xfffd, 1 },
		{ "five bytes", "\xf8\x88\x80\x80\x80", 5, 0xfffd, 1 },
		{ "0xff", "\xff", 1, 0xfffd, 1 },
		{ "two bytes, cut", "\xc3", 1, 0xfffd, 1 },
		{ "three bytes, cut at one", "\xe2", 1, 0xfffd, 1 },
		{ "three bytes, cut at two", "\xe2\x82", 2, 0xfffd, 1 },
		{ "four bytes, cut at three", "\xf0\x9f\x98", 3, 0xfffd, 1 },
		{ "a letter where it should go on", "\xe2\x82z", 3, 0xfffd, 1 },
		{ "a lead byte where it should go on", "\xc3\xc3\xa9", 3, 0xfffd, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t used = 99;
		uint32_t c = character(cases[i].bytes, cases[i].size, &used);

		if (!tap_ok(c == cases[i].c && used == cases[i].used, "%s",
			    cases[i].what))
			printf("# U+%04X of %zu bytes\n", c, used);
	}
}

/* Every character there is, by an encoder of the test's own. */
static void test_all_characters(void)
{
	uint32_t wrong = 0;

	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		char s[4];
		size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, used;

		for (size_t i = n; i-- > 1;)
			s[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
		s[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xff) | c >> (6 * (n - 1)));
		bool surrogate = c >= 0xd800 && c < 0xe000;
		uint32_t got = str_character(s, n, &used);

		wrong += surrogate ? got != 0xfffd || used != 1 : got != c || used != n;
	}
	tap_is(wrong, 0, "every character is itself, and no surrogate is one");
}

static void test_width(void)
{
	static const struct {
		const char *what;
		uint32_t c;
		unsigned width;
	} cases[] = {
		{ "a letter", 'a', 1 },
		{ "an accented letter", 0xe9, 1 },
		{ "a combining accent", 0x301, 0 },
		{ "a variation selector", 0xfe0f, 0 },
		{ "Hangul", 0xac00, 2 },
		{ "Hiragana", 0x3042, 2 },
		{ "a Han character", 0x4e2d, 2 },
		{ "one of the second plane", 0x20000, 2 },
		{ "a full-width letter", 0xff21, 2 },
		{ "a half-width Katakana", 0xff71, 1 },
		{ "a face", 0x1f600, 2 },
		{ "a control character, replaced", 0x1b, 1 },
		{ "a C1 character, replaced", 0x9b, 1 },
		{ "a direction mark, replaced", 0x202e, 1 },
		{ "U+FFFD", 0xfffd, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		tap_is(str_character_width(cases[i].c), cases[i].width, cases[i].what);
	tap_is((int64_t)str_width("", 0), 0, "no text has no width");
	tap_is((int64_t)str_width("abc", 3), 3, "width of ASCII");
	tap_is((int64_t)str_width("\xe4\xb8\xad\xe6\x96\x87!", 7), 5,
		"of Han characters");
	tap_is((int64_t)str_width("e\xcc\x81", 3), 1, "of a letter with a mark on it");
	tap_is((int64_t)str_width("\xff\xfe", 2), 2, "of bytes that are no characters");
}

static void test_clean(void)
{
	static const struct {
		const char *what, *bytes;
		size_t size;
		const char *utf8, *ascii;
	} cases[] = {
		{ "plain text", "f(x) = 1", 8, "f(x) = 1", "f(x) = 1" },
		{ "letters", "na\xc3\xafve", 6, "na\xc3\xafve", "na?ve" },
		{ "an escape sequence", "\x1b[31m", 5, BAD "[31m", "?[31m" },
		{ "a newline and a tab", "a\nb\tc", 5, "a" BAD "b" BAD "c", "a?b?c" },
		{ "a carriage return", "x\r", 2, "x" BAD, "x?" },
		{ "a NUL", "a\0b", 3, "a" BAD "b", "a?b" },
		{ "DEL", "\x7f", 1, BAD, "?" },
		{ "CSI of C1",
			"\xc2\x9b"
			"0m",
			4, BAD "0m", "?0m" },
		{ "NEL of C1", "\xc2\x85", 2, BAD, "?" },
		{ "no-break space is no control", "\xc2\xa0", 2, "\xc2\xa0", "?" },
		{ "a soft hyphen", "\xc2\xad", 2, BAD, "?" },
		{ "right-to-left override",
			"\xe2\x80\xae"
			"cod",
			6, BAD "cod", "?cod" },
		{ "left-to-right embedding", "\xe2\x80\xaa", 3, BAD, "?" },
		{ "right-to-left mark", "\xe2\x80\x8f", 3, BAD, "?" },
		{ "a first strong isolate", "\xe2\x81\xa8", 3, BAD, "?" },
		{ "an Arabic letter mark", "\xd8\x9c", 2, BAD, "?" },
		{ "a zero width space", "\xe2\x80\x8b", 3, BAD, "?" },
		{ "a line separator", "\xe2\x80\xa8", 3, BAD, "?" },
		{ "a byte order mark", "\xef\xbb\xbf", 3, BAD, "?" },
		{ "an interlinear anchor", "\xef\xbf\xb9", 3, BAD, "?" },
		{ "a tag character", "\xf3\xa0\x81\x81", 4, BAD, "?" },
		{ "Hebrew stays", "\xd7\x90", 2, "\xd7\x90", "?" },
		{ "U+FFFD stays", BAD, 3, BAD, "?" },
		{ "bytes that are none", "\xff\xc0\xaf", 3, BAD BAD BAD, "???" },
		{ "a cut character", "a\xe2\x82", 3, "a" BAD BAD, "a??" },
		{ "a surrogate", "\xed\xa0\x80", 3, BAD BAD BAD, "???" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_buf_ struct buf b = BUF_INIT(1000), ascii = BUF_INIT(1000);

		str_clean(&b, cases[i].bytes, cases[i].size, false);
		str_clean(&ascii, cases[i].bytes, cases[i].size, true);
		tap_str(buf_text(&b), cases[i].utf8, cases[i].what);
		tap_str(buf_text(&ascii), cases[i].ascii, "and in ASCII");
	}
}

/* Whatever goes in, nothing that a terminal obeys comes out, and it is UTF-8. */
static void test_clean_random(void)
{
	uint32_t random = 12345, bad = 0;

	for (int round = 0; round < 20000; round++) {
		char bytes[24];
		size_t size = round % 24, n;
		_cleanup_buf_ struct buf b = BUF_INIT(1000), ascii = BUF_INIT(1000);

		for (size_t i = 0; i < size; i++) {
			random = random * 1664525 + 1013904223;
			bytes[i] = (char)(random >> 24);
		}
		str_clean(&b, bytes, size, false);
		str_clean(&ascii, bytes, size, true);
		for (size_t i = 0; i < b.size; i += n) {
			uint32_t c = str_character(b.data + i, b.size - i, &n);

			bad += c < 0x20 || (c >= 0x7f && c < 0xa0) ||
			       (c == 0xfffd && n == 1);
		}
		for (size_t i = 0; i < ascii.size; i++)
			bad += ascii.data[i] < 0x20 || ascii.data[i] > 0x7e;
		bad += str_width(bytes, size) != str_width(buf_text(&b), b.size) ? 1
										 : 0;
	}
	tap_is(bad, 0, "random bytes are clean and as wide as before");
}

static void test_fit(void)
{
	static const struct {
		const char *what, *text;
		size_t columns, bytes;
	} cases[] = {
		{ "nothing in no columns", "abc", 0, 0 },
		{ "a part", "abc", 2, 2 },
		{ "all", "abc", 3, 3 },
		{ "all and more", "abc", 100, 3 },
		{ "no text", "", 5, 0 },
		{ "two-byte characters", "\xc3\xa9\xc3\xa8", 1, 2 },
		{ "a wide one does not fit into one column", "\xe4\xb8\xad", 1, 0 },
		{ "nor into what is left", "a\xe4\xb8\xad", 2, 1 },
		{ "it fits into two", "\xe4\xb8\xad\xe6\x96\x87", 3, 3 },
		{ "a mark stays with its letter", "e\xcc\x81x", 1, 3 },
		{ "a face", "\xf0\x9f\x98\x80", 1, 0 },
		{ "bytes that are none, one column each", "\xff\xff\xff", 2, 2 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		tap_is((int64_t)str_fit(
			       cases[i].text, strlen(cases[i].text), cases[i].columns),
			(int64_t)cases[i].bytes, cases[i].what);

	/* At every width: never more than fits, never inside a character, never less.
	 */
	static const char text[] = "a\xc3\xa9\xe4\xb8\xad"
				   "e\xcc\x81\xf0\x9f\x98\x80\xff"
				   "b\xe2\x82\xac\xed\xa0\x80z";
	bool fits = true, whole = true, most = true;
	size_t size = sizeof(text) - 1;

	for (size_t columns = 0; columns < 30; columns++) {
		size_t n = str_fit(text, size, columns), at = 0, used;

		fits &= str_width(text, n) <= columns;
		while (at < n) {
			(void)str_character(text + at, size - at, &used);
			at += used;
		}
		whole &= at == n;
		if (n < size) {
			uint32_t c = str_character(text + n, size - n, &used);

			most &= str_width(text, n) + str_character_width(c) > columns;
		}
	}
	tap_ok(fits, "what fits is never wider than asked for");
	tap_ok(whole, "and never ends inside a character");
	tap_ok(most, "and is as much as fits");
}

int main(void)
{
	test_character();
	test_all_characters();
	test_width();
	test_clean();
	test_clean_random();
	test_fit();
	return tap_done();
}
