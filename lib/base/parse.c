/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	double factor;
};

int parse_number(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (*text == '\0')
		return -EINVAL;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		uint64_t digit = (uint64_t)(*text - '0');

		if (digit > max || value > (max - digit) / 10)
			return -ERANGE;
		value = value * 10 + digit;
	}
	*ret = value;
	return 0;
}

/* A decimal fraction and one of the units, which together make least to most. */
static int parse_with_unit(const char *text, const struct unit *units, double least,
	double most, double *ret)
{
	char *end;
	double value;

	/* No signs, no hexadecimal, no "inf": a digit must come first. */
	if (*text < '0' || *text > '9' || text[1] == 'x' || text[1] == 'X')
		return -EINVAL;
	errno = 0;
	value = strtod(text, &end);
	if (errno != 0)
		return -ERANGE;
	for (const struct unit *u = units; u->name != NULL; u++) {
		if (strcasecmp(end, u->name) != 0)
			continue;
		value *= u->factor;
		if (value < least || value > most)
			return -ERANGE;
		*ret = value;
		return 0;
	}
	return -EINVAL;
}

static int parse_time(const char *text, double least_ns, int64_t *ret_ns)
{
	static const struct unit units[] = { { "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 },
		{ "us", 1e3 }, { "m", 60e9 }, { "min", 60e9 }, { "h", 3600e9 },
		{ "d", 86400e9 }, { NULL, 0 } };
	double value;
	int r = parse_with_unit(text, units, least_ns, 9e18, &value);

	if (r == 0)
		*ret_ns = (int64_t)value;
	return r;
}

int parse_duration(const char *text, int64_t *ret_ns)
{
	return parse_time(text, 1, ret_ns);
}

int parse_duration_or_none(const char *text, int64_t *ret_ns)
{
	return parse_time(text, 0, ret_ns);
}

int parse_rate(const char *text, int64_t *ret_interval_ns)
{
	static const struct unit units[] = { { "", 1 }, { "hz", 1 }, { "k", 1e3 },
		{ "khz", 1e3 }, { NULL, 0 } };
	double value;
	int r = parse_with_unit(text, units, 1.0 / 3600, 1e9, &value);

	if (r == 0)
		*ret_interval_ns = (int64_t)(1e9 / value + 0.5);
	return r;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct unit units[] = { { "", 1 }, { "b", 1 }, { "k", 1024 },
		{ "m", 1024.0 * 1024 }, { "g", 1024.0 * 1024 * 1024 }, { NULL, 0 } };
	double value;
	int r = parse_with_unit(text, units, 1, 9e18, &value);

	if (r == 0)
		*ret_bytes = (uint64_t)value;
	return r;
}

int parse_size_or_duration(const char *text, uint64_t *ret_bytes, int64_t *ret_ns)
{
	size_t length = strlen(text);
	uint64_t bytes = 0;
	int64_t ns = 0;
	int r = -EINVAL;

	/* "5m" are minutes, and "5M" is a size: the one place where that matters. */
	if (length != 0 && strchr("BKMG", text[length - 1]) != NULL)
		r = parse_size(text, &bytes);
	else if (length != 0 && strchr("smhdn", text[length - 1]) != NULL)
		r = parse_duration(text, &ns);
	if (r != 0)
		return r;
	*ret_bytes = bytes;
	*ret_ns = ns;
	return 0;
}

int parse_percent(const char *text, double *ret_percent)
{
	static const struct unit units[] = { { "", 1 }, { "%", 1 }, { NULL, 0 } };
	double value;
	int r = parse_with_unit(text, units, 0, 100, &value);

	if (r == 0)
		*ret_percent = value;
	return r;
}

int parse_word(const char *text, const char *list, unsigned *ret_index)
{
	size_t size = strlen(text);
	unsigned index = 0;

	for (const char *at = list;; at++, index++) {
		const char *end = strchrnul(at, '|');

		if ((size_t)(end - at) == size && memcmp(at, text, size) == 0) {
			*ret_index = index;
			return 0;
		}
		if (*end == '\0')
			return -EINVAL;
		at = end;
	}
}
