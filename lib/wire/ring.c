/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ring.h"

/* Kept free of library calls: the same source is part of the injected core, where it
 * shall not lie four times over. */
static __attribute__((noinline)) void copy_bytes(
	uint8_t *to, const uint8_t *from, uint64_t size)
{
	for (; size >= 8; size -= 8, to += 8, from += 8)
		__builtin_memcpy(to, from, 8);
	for (; size != 0; size--)
		*to++ = *from++;
}

void ring_writer_init(
	struct ring_writer *w, struct ring_header *header, uint64_t data_bytes)
{
	*w = (struct ring_writer){
		.header = header,
		.data = (uint8_t *)header + RING_HEADER_BYTES,
		.data_bytes = data_bytes,
	};
	header->version = RING_VERSION;
	header->header_bytes = RING_HEADER_BYTES;
	header->data_bytes = data_bytes;
	__atomic_store_n(&header->magic, RING_MAGIC, __ATOMIC_RELEASE);
}

/* Bytes that may be written; a tail that cannot be counts as a full ring. */
static uint64_t room(struct ring_writer *w)
{
	if (w->head - w->tail > w->data_bytes)
		return 0;
	return w->data_bytes - (w->head - w->tail);
}

static void look_at_tail(struct ring_writer *w)
{
	w->tail = __atomic_load_n(&w->header->tail, __ATOMIC_ACQUIRE);
}

bool ring_put(
	struct ring_writer *w, const uint8_t *record, size_t size, uint32_t spared)
{
	uint64_t needed = size + spared;

	if (room(w) < needed) {
		look_at_tail(w);
		if (room(w) < needed)
			return false;
	}
	uint64_t at = w->head & (w->data_bytes - 1);
	uint64_t first = w->data_bytes - at;

	if (first > size)
		first = size;
	copy_bytes(w->data + at, record, first);
	copy_bytes(w->data, record + first, size - first);
	w->head += size;
	return true;
}

uint64_t ring_room(struct ring_writer *w)
{
	look_at_tail(w);
	uint64_t bytes = room(w);

	return bytes > RING_RESERVE ? bytes - RING_RESERVE : 0;
}

void ring_publish(struct ring_writer *w)
{
	__atomic_store_n(&w->header->head, w->head, __ATOMIC_RELEASE);
}

int ring_reader_init(struct ring_reader *r, void *mapped, uint64_t mapped_bytes)
{
	struct ring_header *h = mapped;

	if (mapped_bytes < RING_HEADER_BYTES)
		return -1;
	if (__atomic_load_n(&h->magic, __ATOMIC_ACQUIRE) != RING_MAGIC)
		return -2;
	if (h->version != RING_VERSION || h->header_bytes != RING_HEADER_BYTES)
		return -3;
	uint64_t bytes = h->data_bytes;

	if (bytes == 0 || (bytes & (bytes - 1)) != 0 ||
		bytes != mapped_bytes - RING_HEADER_BYTES)
		return -4;
	*r = (struct ring_reader){
		.header = h,
		.data = (const uint8_t *)h + RING_HEADER_BYTES,
		.data_bytes = bytes,
		.tail = __atomic_load_n(&h->tail, __ATOMIC_RELAXED),
	};
	r->released = r->tail;
	return 0;
}

int64_t ring_peek(const struct ring_reader *r, uint8_t *bytes, size_t max)
{
	uint64_t head = __atomic_load_n(&r->header->head, __ATOMIC_ACQUIRE);
	uint64_t size = head - r->tail;

	if (size > r->data_bytes)
		return -1;
	if (size > max)
		size = max;
	uint64_t at = r->tail & (r->data_bytes - 1);
	uint64_t first = r->data_bytes - at;

	if (first > size)
		first = size;
	copy_bytes(bytes, r->data + at, first);
	copy_bytes(bytes + first, r->data, size - first);
	return (int64_t)size;
}

void ring_take(struct ring_reader *r, uint64_t size)
{
	r->tail += size;
}

void ring_release(struct ring_reader *r)
{
	r->released = r->tail;
	__atomic_store_n(&r->header->tail, r->tail, __ATOMIC_RELEASE);
}

void ring_consume(struct ring_reader *r, uint64_t size)
{
	ring_take(r, size);
	ring_release(r);
}

uint64_t ring_counter_get(const struct ring_header *h, enum ring_counter which)
{
	return __atomic_load_n(&h->counters[which], __ATOMIC_RELAXED);
}
