/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <stdio.h>
#include <string.h>

enum {
	MOST_DECIMALS = 9,
	RATE_DIGITS = 4,
	RATE_DECIMALS = 3, /* of a rate that was asked for */
};

static struct number_text with_decimals(double value, int decimals)
{
	struct number_text t;
	int n = snprintf(t.text, sizeof(t.text), "%.*f", decimals, value);

	if (n >= (int)sizeof(t.text)) {
		(void)snprintf(t.text, sizeof(t.text), "more");
		return t;
	}
	if (strchr(t.text, '.') == NULL)
		return t;
	while (t.text[n - 1] == '0')
		n--;
	t.text[t.text[n - 1] == '.' ? n - 1 : n] = '\0';
	return t;
}

struct number_text number_plain(double value, int digits)
{
	double size = value < 0 ? -value : value;
	int decimals = digits - 1;

	for (; size >= 10 && decimals > 0; size /= 10)
		decimals--;
	for (; size > 0 && size < 1 && decimals < MOST_DECIMALS; size *= 10)
		decimals++;
	return with_decimals(value, decimals);
}

struct number_text number_rate(uint64_t interval_ns)
{
	double rate = interval_ns != 0 ? 1e9 / (double)interval_ns : 0, scale = 1;

	if (interval_ns == 0)
		return with_decimals(0, 0);
	for (int decimals = 0; decimals <= RATE_DECIMALS; decimals++, scale *= 10) {
		double shorter = (double)(uint64_t)(rate * scale + 0.5) / scale;

		if (shorter > 0 && (uint64_t)(1e9 / shorter + 0.5) == interval_ns)
			return with_decimals(rate, decimals);
	}
	return number_plain(rate, RATE_DIGITS);
}
