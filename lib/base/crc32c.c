/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

/* Bit by bit: it covers headers of some 40 bytes, once a second. */
uint32_t crc32c(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	uint32_t crc = 0xffffffffu;

	while (size-- != 0) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
	}
	return ~crc;
}
