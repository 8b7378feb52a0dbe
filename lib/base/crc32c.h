/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C of the bytes (Castagnoli, as in iSCSI: crc of "123456789" is 0xe3069283). */
uint32_t crc32c(const void *bytes, size_t size);

#endif
