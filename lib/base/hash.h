/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

/*
 * Hashing and one hash table: from a 64-bit hash to the index of an entry in an
 * array of the caller's, which compares.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t hash_mix(uint64_t h, uint64_t value)
{
	h ^= value;
	h *= 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 32);
}

/* Of bytes; not for keys that an attacker gains by making collide. */
uint64_t hash_bytes(const void *bytes, size_t size);

struct hash_index {
	uint32_t *slots;   /* entry + 1, 0: free */
	uint32_t capacity; /* a power of two, 0 at first */
	uint32_t count;
};

void hash_index_done(struct hash_index *x);
void hash_index_clear(struct hash_index *x);

/*
 * Walk the entries that may have this hash: start with *at = (uint32_t)hash,
 * compare each entry returned, stop at false.  After false, hash_index_add().
 */
bool hash_index_next(const struct hash_index *x, uint32_t *at, uint32_t *ret_entry);

/*
 * Enter an entry.  hash_of(entry, context) gives the hash of any entry, for when
 * the table grows.
 */
void hash_index_add(struct hash_index *x, uint64_t hash, uint32_t entry,
	uint64_t (*hash_of)(uint32_t entry, const void *context), const void *context);

#endif
