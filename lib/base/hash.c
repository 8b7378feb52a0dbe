/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

uint64_t hash_bytes(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	uint64_t h = size, v;

	for (; size >= 8; size -= 8, p += 8) {
		memcpy(&v, p, 8);
		h = hash_mix(h, v);
	}
	v = 0;
	if (size != 0)
		memcpy(&v, p, size);
	return hash_mix(h, v);
}

void hash_index_done(struct hash_index *x)
{
	free(x->slots);
	*x = (struct hash_index){ 0 };
}

void hash_index_clear(struct hash_index *x)
{
	if (x->slots != NULL)
		memset(x->slots, 0, x->capacity * sizeof(*x->slots));
	x->count = 0;
}

bool hash_index_next(const struct hash_index *x, uint32_t *at, uint32_t *ret_entry)
{
	if (x->capacity == 0)
		return false;
	uint32_t slot = x->slots[*at & (x->capacity - 1)];

	(*at)++;
	if (slot == 0)
		return false;
	*ret_entry = slot - 1;
	return true;
}

static void insert(struct hash_index *x, uint64_t hash, uint32_t entry)
{
	uint32_t i = (uint32_t)hash & (x->capacity - 1);

	while (x->slots[i] != 0)
		i = (i + 1) & (x->capacity - 1);
	x->slots[i] = entry + 1;
	x->count++;
}

void hash_index_add(struct hash_index *x, uint64_t hash, uint32_t entry,
	uint64_t (*hash_of)(uint32_t entry, const void *context), const void *context)
{
	if (x->count * 2 >= x->capacity) {
		struct hash_index old = *x;

		x->capacity = old.capacity == 0 ? 64 : old.capacity * 2;
		x->slots = xcalloc(x->capacity, sizeof(*x->slots));
		x->count = 0;
		for (uint32_t i = 0; i < old.capacity; i++)
			if (old.slots[i] != 0)
				insert(x, hash_of(old.slots[i] - 1, context),
					old.slots[i] - 1);
		free(old.slots);
	}
	insert(x, hash, entry);
}
