/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

/* Numbers as people write them: never with an exponent. */

#include <stdint.h>

struct number_text {
	char text[40];
};

/* With so many digits that tell something, and all of those before the point: "0.9",
 * "59.03", "1110". */
struct number_text number_plain(double value, int digits);

/*
 * The rate of ticks that are so far apart, in Hz: the shortest number that asks for
 * this interval ("12345"), or else one of four digits ("59.03").  "0" for no interval.
 */
struct number_text number_rate(uint64_t interval_ns);

#endif
