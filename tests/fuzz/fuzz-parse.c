/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of options, commands from outside, and what is made of a foreign string
 * before it is shown. */
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "control.h"
#include "fuzz.h"
#include "schedule.h"

static void fuzz_numbers(const char *text)
{
	static const uint64_t limits[] = { 9, 255, UINT32_MAX, INT64_MAX, UINT64_MAX };
	uint64_t number;
	unsigned index;
	int64_t ns;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (parse_number(text, limits[i], &number) == 0)
			fuzz_require(
				number <= limits[i], "a number within its maximum");
	if (parse_duration(text, &ns) == 0)
		fuzz_require(ns >= 1 && ns <= 9000000000000000000,
			"a duration within bounds");
	if (parse_duration_or_none(text, &ns) == 0)
		fuzz_require(ns >= 0 && ns <= 9000000000000000000,
			"a duration within bounds, or none");
	if (parse_word(text, "auto|fast|syscall", &index) == 0)
		fuzz_require(index < 3, "one of three words");
	if (parse_rate(text, &ns) == 0)
		fuzz_require(
			ns >= 1 && ns <= 3600ll * 1000000000, "a rate within bounds");
	if (parse_size(text, &number) == 0)
		fuzz_require(number >= 1 && number <= 9000000000000000000,
			"a size within bounds");
	ns = 0;
	number = 0;
	if (parse_size_or_duration(text, &number, &ns) == 0)
		fuzz_require((ns > 0) != (number > 0), "one of the two");
}

static void fuzz_schedule(const char *text)
{
	struct schedule s;
	struct err err;

	if (schedule_parse(text, &s, &err) != 0)
		return;
	for (size_t i = 0; i < s.count; i++)
		fuzz_require(s.toggle_ns[i] >= 0 &&
				     (i == 0 || s.toggle_ns[i] > s.toggle_ns[i - 1]),
			"times rise");
	schedule_done(&s);
}

static void fuzz_command(const char *line, size_t size)
{
	static char buffer[CONTROL_BUFFER];
	struct control_command c;
	size_t step;

	control_parse_line(
		line, size < CONTROL_LINE_MAX ? size : CONTROL_LINE_MAX, buffer, &c);
	fuzz_require(c.verb <= CONTROL_BAD && strlen(c.text) < CONTROL_BUFFER,
		"a command, or a reason");
	for (size_t i = 0; c.text[i] != '\0'; i += step)
		fuzz_require(str_character(c.text + i, strlen(c.text + i), &step) !=
					     0xfffd ||
				     step == 3,
			"a mark is UTF-8");
}

static void fuzz_string(const char *s, size_t size)
{
	_cleanup_buf_ struct buf b = BUF_INIT(4 << 20), ascii = BUF_INIT(4 << 20);
	size_t n;

	str_clean(&b, s, size, false);
	str_clean(&ascii, s, size, true);
	fuzz_require(str_width(s, size) == str_width(buf_text(&b), b.size),
		"cleaning keeps the width");
	for (size_t i = 0; i < ascii.size; i++)
		fuzz_require(ascii.data[i] >= 0x20 && ascii.data[i] < 0x7f,
			"ASCII is ASCII");
	for (size_t i = 0; i < b.size; i += n)
		fuzz_require(str_character(b.data + i, b.size - i, &n) >= 0x20,
			"no control character is left");
	for (size_t columns = 0; columns < 20; columns++) {
		size_t fit = str_fit(s, size, columns);

		fuzz_require(
			fit <= size && str_width(s, fit) <= columns, "what fits, fits");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *all = xmemdup0(data, size);
	_cleanup_free_ char *text = xstrdup(all);
	_cleanup_free_ char *bytes = xmalloc(size);

	fuzz_numbers(text);
	if (size != 0)
		memcpy(bytes, data, size);
	fuzz_string(bytes, size);
	fuzz_schedule(text);
	fuzz_command(bytes, size);
	return 0;
}
