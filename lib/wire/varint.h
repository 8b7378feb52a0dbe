/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_VARINT_H
#define WIRE_VARINT_H

/*
 * Integers of variable length: 7 bits a byte, low ones first, bit 7 says that
 * more follow; at most 10 bytes.  Signed values are folded (0, -1, 1, -2, ...).
 * Freestanding.
 */

#include <stdbool.h>
#include <stdint.h>

#define VARINT_MAX_BYTES 10

/* Write value at p and return the first byte behind it. */
static inline uint8_t *varint_put(uint8_t *p, uint64_t value)
{
	while (value >= 0x80) {
		*p++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*p++ = (uint8_t)value;
	return p;
}

static inline uint64_t varint_fold(int64_t value)
{
	return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t varint_unfold(uint64_t value)
{
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* A piece of input and how far it is read; bad once something did not fit. */
struct varint_reader {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

/* The next value; 0 and the bad mark when the input ends or the value does not
 * fit into 64 bits. */
static inline uint64_t varint_get(struct varint_reader *r)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (r->at >= r->end)
			break;
		uint8_t byte = *r->at++;

		if (shift == 63 && (byte & 0x7e) != 0)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0)
			return value;
	}
	r->bad = true;
	r->at = r->end;
	return 0;
}

static inline int64_t varint_get_signed(struct varint_reader *r)
{
	return varint_unfold(varint_get(r));
}

/* The next value if it is at most max, else 0 and the bad mark. */
static inline uint32_t varint_get_max(struct varint_reader *r, uint32_t max)
{
	uint64_t value = varint_get(r);

	if (value > max) {
		r->bad = true;
		return 0;
	}
	return (uint32_t)value;
}

#endif
