/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

/*
 * Numbers as users write them.  Each takes the whole text or nothing: returns 0 and
 * the value, or -EINVAL (no number, or a unit that is none), -ERANGE.
 */

#include <stdint.h>

/* Decimal digits alone, at most max. */
int parse_number(const char *text, uint64_t max, uint64_t *ret);

/* "10", "1.5s", "200ms", "50us", "2m", "1h", "1d": ns.  Without a unit: seconds. */
int parse_duration(const char *text, int64_t *ret_ns);

/* The same, and "0", "0s", "0.0ms". */
int parse_duration_or_none(const char *text, int64_t *ret_ns);

/* "100", "49.5", "1k", "20khz", "97Hz": ns between ticks. */
int parse_rate(const char *text, int64_t *ret_interval_ns);

/* "10", "64K", "1.5M", "2G", "512B": bytes. */
int parse_size(const char *text, uint64_t *ret_bytes);

/*
 * A size with the unit B, K, M or G in capitals, or a duration with a unit in small
 * letters: one of the two is set, the other 0.
 */
int parse_size_or_duration(const char *text, uint64_t *ret_bytes, int64_t *ret_ns);

/* "0", "0.5", "12%": percent, 0 to 100. */
int parse_percent(const char *text, double *ret_percent);

/* One of the words of a list "A|B|C", in the same letters: which, from 0. */
int parse_word(const char *text, const char *list, unsigned *ret_index);

#endif
