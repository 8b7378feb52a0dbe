/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as users write them, and as they are shown. */
#include <errno.h>
#include <string.h>

#include "base/number.h"
#include "base/parse.h"
#include "tap.h"

enum { UNTOUCHED = 4711 };

static void test_number(void)
{
	static const struct {
		const char *text;
		uint64_t max;
		int code;
		uint64_t value;
	} cases[] = {
		{ "0", 100, 0, 0 }, { "7", 100, 0, 7 }, { "100", 100, 0, 100 },
		{ "007", 100, 0, 7 }, { "0000000000000000000000000000001", 100, 0, 1 },
		{ "18446744073709551615", UINT64_MAX, 0, UINT64_MAX },
		{ "9223372036854775807", INT64_MAX, 0, INT64_MAX },
		{ "101", 100, -ERANGE, 0 }, { "1000", 100, -ERANGE, 0 },
		{ "18446744073709551616", UINT64_MAX, -ERANGE, 0 },
		{ "99999999999999999999999999", UINT64_MAX, -ERANGE, 0 },
		{ "", 100, -EINVAL, 0 }, { "-1", 100, -EINVAL, 0 },
		{ "+1", 100, -EINVAL, 0 }, { " 1", 100, -EINVAL, 0 },
		{ "1 ", 100, -EINVAL, 0 }, { "1.5", 100, -EINVAL, 0 },
		{ "0x10", 100, -EINVAL, 0 }, { "1e2", 100, -EINVAL, 0 },
		{ "1k", 100, -EINVAL, 0 }, { "nan", 100, -EINVAL, 0 },
		{ "inf", 100, -EINVAL, 0 },
		{ "\xd9\xa1", 100, -EINVAL, 0 }, /* an Arabic digit */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t value = UNTOUCHED;
		int code = parse_number(cases[i].text, cases[i].max, &value);

		tap_ok(code == cases[i].code &&
				value == (code == 0 ? cases[i].value : UNTOUCHED),
			"number '%s', at most %llu", cases[i].text,
			(unsigned long long)cases[i].max);
	}
}

/* Every small number against every small maximum. */
static bool all_below(uint64_t from_max, uint64_t to_max)
{
	bool right = true;

	for (uint64_t max = from_max; max <= to_max; max++)
		for (uint64_t n = 0; n < 130; n++) {
			char text[8];
			uint64_t value = UNTOUCHED;

			(void)snprintf(text, sizeof(text), "%u", (unsigned)n);
			int code = parse_number(text, max, &value);

			right &= n <= max ? code == 0 && value == n : code == -ERANGE;
		}
	return right;
}

static void test_small_numbers(void)
{
	tap_ok(all_below(0, 8), "no number passes a maximum of 0 to 8");
	tap_ok(all_below(9, 120), "nor one of 9 to 120");
}

struct unit_case {
	const char *text;
	int code;
	int64_t value;
};

typedef int unit_function(const char *text, int64_t *ret);

static int size_of(const char *text, int64_t *ret)
{
	uint64_t bytes = (uint64_t)*ret;
	int code = parse_size(text, &bytes);

	*ret = (int64_t)bytes;
	return code;
}

/* Bytes as they are, ns negative. */
static int size_or_duration_of(const char *text, int64_t *ret)
{
	uint64_t bytes = 0;
	int64_t ns = 0;
	int code = parse_size_or_duration(text, &bytes, &ns);

	if (code == 0)
		*ret = ns != 0 ? -ns : (int64_t)bytes;
	return code == 0 && (bytes != 0) == (ns != 0) ? 1 : code;
}

static const struct unit_case sizes_or_durations[] = {
	{ "100M", 0, 100 << 20 },
	{ "1.5K", 0, 1536 },
	{ "2G", 0, 2ll << 30 },
	{ "512B", 0, 512 },
	{ "30s", 0, -30000000000 },
	{ "5m", 0, -300000000000 },
	{ "250ms", 0, -250000000 },
	{ "1min", 0, -60000000000 },
	{ "1h", 0, -3600000000000 },
	{ "1d", 0, -86400000000000 },
	{ "100", -EINVAL, 0 },
	{ "100k", -EINVAL, 0 },
	{ "100g", -EINVAL, 0 },
	{ "M", -EINVAL, 0 },
	{ "s", -EINVAL, 0 },
	{ "10n", -EINVAL, 0 },
	{ "10S", -EINVAL, 0 },
	{ "0s", -ERANGE, 0 },
	{ "0M", -ERANGE, 0 },
	{ "1e30M", -ERANGE, 0 },
};

static void check_units(const char *what, unit_function *parse,
	const struct unit_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int64_t value = UNTOUCHED;
		int code = parse(cases[i].text, &value);

		if (!tap_ok(code == cases[i].code &&
				    value == (code == 0 ? cases[i].value : UNTOUCHED),
			    "%s '%s'", what, cases[i].text))
			printf("# code %d, value %lld\n", code, (long long)value);
	}
}

/* What is no number for any of them. */
static const struct unit_case no_numbers[] = {
	{ "", -EINVAL, 0 },
	{ " ", -EINVAL, 0 },
	{ "-1", -EINVAL, 0 },
	{ "+1", -EINVAL, 0 },
	{ "-0", -EINVAL, 0 },
	{ " 1", -EINVAL, 0 },
	{ "1 ", -EINVAL, 0 },
	{ ".5", -EINVAL, 0 },
	{ "nan", -EINVAL, 0 },
	{ "NaN", -EINVAL, 0 },
	{ "inf", -EINVAL, 0 },
	{ "infinity", -EINVAL, 0 },
	{ "1inf", -EINVAL, 0 },
	{ "0x10", -EINVAL, 0 },
	{ "0X1p4", -EINVAL, 0 },
	{ "00x10", -EINVAL, 0 },
	{ "1,5", -EINVAL, 0 },
	{ "1.5.5", -EINVAL, 0 },
	{ "1e", -EINVAL, 0 },
	{ "5parsecs", -EINVAL, 0 },
	{ "s", -EINVAL, 0 },
	{ "0", -ERANGE, 0 },
	{ "0.0", -ERANGE, 0 },
	{ "1e400", -ERANGE, 0 },
	{ "1e-400", -ERANGE, 0 },
	{ "1e30", -ERANGE, 0 },
};

static void test_duration(void)
{
	static const struct unit_case cases[] = {
		{ "10", 0, 10000000000 },
		{ "1.5s", 0, 1500000000 },
		{ "200ms", 0, 200000000 },
		{ "50us", 0, 50000 },
		{ "0.001us", 0, 1 },
		{ "2m", 0, 120000000000 },
		{ "2min", 0, 120000000000 },
		{ "1h", 0, 3600000000000 },
		{ "1d", 0, 86400000000000 },
		{ "1S", 0, 1000000000 },
		{ "1MS", 0, 1000000 },
		{ "1.", 0, 1000000000 },
		{ "0.25", 0, 250000000 },
		{ "5e-1s", 0, 500000000 },
		{ "9000000000", 0, 9000000000000000000 },
		{ "9000000001", -ERANGE, 0 },
		{ "104167d", -ERANGE, 0 },
		{ "0.0001us", -ERANGE, 0 },
		{ "1ns", -EINVAL, 0 },
		{ "1 s", -EINVAL, 0 },
		{ "1ss", -EINVAL, 0 },
		{ "1k", -EINVAL, 0 },
	};

	check_units(
		"duration", parse_duration, cases, sizeof(cases) / sizeof(cases[0]));
	check_units("duration", parse_duration, no_numbers,
		sizeof(no_numbers) / sizeof(no_numbers[0]));
}

static void test_duration_or_none(void)
{
	static const struct unit_case cases[] = {
		{ "0", 0, 0 },
		{ "0s", 0, 0 },
		{ "0.0ms", 0, 0 },
		{ "0.0001us", 0, 0 },
		{ "15s", 0, 15000000000 },
		{ "9000000001", -ERANGE, 0 },
		{ "1e400", -ERANGE, 0 },
		{ "-0", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "nan", -EINVAL, 0 },
		{ "NaNs", -EINVAL, 0 },
		{ "inf", -EINVAL, 0 },
		{ "infinity", -EINVAL, 0 },
		{ "soon", -EINVAL, 0 },
	};

	check_units("duration or none", parse_duration_or_none, cases,
		sizeof(cases) / sizeof(cases[0]));
}

static void test_words(void)
{
	static const struct {
		const char *text;
		const char *list;
		int code;
		unsigned index;
	} cases[] = {
		{ "auto", "auto|fast|syscall", 0, 0 },
		{ "fast", "auto|fast|syscall", 0, 1 },
		{ "syscall", "auto|fast|syscall", 0, 2 },
		{ "one", "one", 0, 0 },
		{ "a", "ab|a", 0, 1 },
		{ "", "auto|fast", -EINVAL, 0 },
		{ "aut", "auto|fast", -EINVAL, 0 },
		{ "autos", "auto|fast", -EINVAL, 0 },
		{ "AUTO", "auto|fast", -EINVAL, 0 },
		{ "auto|fast", "auto|fast", -EINVAL, 0 },
		{ "|", "auto|fast", -EINVAL, 0 },
		{ "fast ", "auto|fast", -EINVAL, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned index = UNTOUCHED;
		int code = parse_word(cases[i].text, cases[i].list, &index);

		tap_ok(code == cases[i].code &&
				index == (code == 0 ? cases[i].index : UNTOUCHED),
			"word '%s' of %s", cases[i].text, cases[i].list);
	}
}

static void test_rate(void)
{
	static const struct unit_case cases[] = {
		{ "1", 0, 1000000000 },
		{ "100", 0, 10000000 },
		{ "49.5", 0, 20202020 },
		{ "1k", 0, 1000000 },
		{ "1K", 0, 1000000 },
		{ "20khz", 0, 50000 },
		{ "20kHz", 0, 50000 },
		{ "97Hz", 0, 10309278 },
		{ "3", 0, 333333333 },
		{ "0.001", 0, 1000000000000 },
		{ "1000000000", 0, 1 },
		{ "1000000k", 0, 1 },
		{ "1000000001", -ERANGE, 0 },
		{ "1000001k", -ERANGE, 0 },
		{ "0.0002", -ERANGE, 0 },
		{ "1mhz", -EINVAL, 0 },
		{ "1m", -EINVAL, 0 },
		{ "10s", -EINVAL, 0 },
		{ "10 hz", -EINVAL, 0 },
	};

	check_units("rate", parse_rate, cases, sizeof(cases) / sizeof(cases[0]));
	check_units("rate", parse_rate, no_numbers,
		sizeof(no_numbers) / sizeof(no_numbers[0]));
}

static void test_size(void)
{
	static const struct unit_case cases[] = {
		{ "1", 0, 1 },
		{ "10", 0, 10 },
		{ "512B", 0, 512 },
		{ "64K", 0, 65536 },
		{ "64k", 0, 65536 },
		{ "1.5M", 0, 1572864 },
		{ "2G", 0, 2147483648 },
		{ "0.5k", 0, 512 },
		{ "9000000000000000000", 0, 9000000000000000000 },
		{ "9000000001g", -ERANGE, 0 },
		{ "0.5", -ERANGE, 0 },
		{ "1T", -EINVAL, 0 },
		{ "1KB", -EINVAL, 0 },
		{ "1KiB", -EINVAL, 0 },
		{ "1 K", -EINVAL, 0 },
	};

	check_units("size", size_of, cases, sizeof(cases) / sizeof(cases[0]));
	check_units("size", size_of, no_numbers,
		sizeof(no_numbers) / sizeof(no_numbers[0]));
}

static void test_sizes_or_durations(void)
{
	check_units("size or duration", size_or_duration_of, sizes_or_durations,
		sizeof(sizes_or_durations) / sizeof(sizes_or_durations[0]));
}

/* A rate that was asked for comes back as it was written. */
static void test_rates_shown(void)
{
	static const char *const rates[] = { "10000", "12345", "50000", "49.5", "0.9",
		"100", "97", "1000", "1", "333", "7777", "0.001" };
	int64_t ns;

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		tap_is(parse_rate(rates[i], &ns), 0, rates[i]);
		tap_str(number_rate((uint64_t)ns).text, rates[i], "comes back");
	}
	/* The nearest interval of whole nanoseconds is that of 50 kHz. */
	tap_is(parse_rate("49999.5", &ns), 0, "49999.5");
	tap_str(number_rate((uint64_t)ns).text, "50000", "is what is done");
	tap_str(number_rate(16940539).text, "59.03", "others have four digits");
	tap_str(number_rate(3600000000007).text, "0.0002778", "also small ones");
	tap_str(number_rate(1).text, "1000000000", "as fast as can be");
	tap_str(number_rate(UINT64_MAX).text, "0", "as slow");
	tap_str(number_rate(0).text, "0", "none");
}

static void test_numbers_shown(void)
{
	static const struct {
		double value;
		int digits;
		const char *text;
	} cases[] = {
		{ 1111, 3, "1111" },
		{ 49999.5, 6, "49999.5" },
		{ 0.9, 3, "0.9" },
		{ 59.031, 4, "59.03" },
		{ 10, 3, "10" },
		{ 0, 3, "0" },
		{ 999.96, 4, "1000" },
		{ 0.0123456, 3, "0.0123" },
		{ 1e-12, 3, "0" },
		{ 1, 4, "1" },
		{ 100, 4, "100" },
		{ -2.5, 3, "-2.5" },
		{ 1e30, 3, "1000000000000000019884624838656" },
		{ 1e300, 3, "more" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		tap_str(number_plain(cases[i].value, cases[i].digits).text,
			cases[i].text, cases[i].text);
}

int main(void)
{
	test_rates_shown();
	test_numbers_shown();
	test_number();
	test_small_numbers();
	test_duration();
	test_duration_or_none();
	test_words();
	test_rate();
	test_size();
	test_sizes_or_durations();
	return tap_done();
}
