/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between the task and the recorder: varints and the ring. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "tap.h"
#include "wire/ring.h"
#include "wire/varint.h"

/* --- varints --- */

static void test_varint_values(void)
{
	bool same = true, size = true, folded = true, cut = true;
	unsigned count = 0;

	/* Around every power of two. */
	for (unsigned bit = 0; bit < 64; bit++)
		for (int step = -1; step <= 1; step++) {
			uint64_t value = (1ull << bit) + (uint64_t)step;
			uint8_t bytes[VARINT_MAX_BYTES];
			uint8_t *end = varint_put(bytes, value);
			size_t n = (size_t)(end - bytes), wanted = 1;

			for (uint64_t v = value; v >= 0x80; v >>= 7)
				wanted++;
			size &= n == wanted;
			struct varint_reader r = { bytes, end, false };

			same &= varint_get(&r) == value && !r.bad && r.at == end;
			folded &= varint_fold(varint_unfold(value)) == value;
			for (size_t less = 0; less < n; less++) {
				struct varint_reader c = { bytes, bytes + less, false };

				cut &= varint_get(&c) == 0 && c.bad && c.at == c.end;
			}
			count++;
		}
	tap_ok(same, "%u values around the powers of two come back", count);
	tap_ok(size, "in as few bytes as can be");
	tap_ok(folded, "folding and unfolding");
	tap_ok(cut, "cut anywhere they are bad, and end the input");
}

static void test_varint_cases(void)
{
	static const struct {
		const char *what, *bytes;
		size_t size;
		uint64_t value;
		bool bad;
	} cases[] = {
		{ "nothing", "", 0, 0, true },
		{ "the largest value", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10,
			UINT64_MAX, false },
		{ "bit 63 alone", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10,
			1ull << 63, false },
		{ "bit 64", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02", 10, 0, true },
		{ "bits 63 and 64", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03", 10, 0,
			true },
		{ "eleven bytes", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, 0,
			true },
		{ "eleven bytes with bit 63",
			"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x81\x00", 11, 0, true },
		{ "no end at all", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
			12, 0, true },
		{ "zero in two bytes", "\x80\x00", 2, 0, false },
		{ "one in ten bytes", "\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00", 10, 1,
			false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ uint8_t *bytes = xmalloc(cases[i].size);

		memcpy(bytes, cases[i].bytes, cases[i].size);
		struct varint_reader r = { bytes, bytes + cases[i].size, false };
		uint64_t value = varint_get(&r);

		tap_ok(value == cases[i].value && r.bad == cases[i].bad &&
				r.at == r.end,
			"%s", cases[i].what);
		tap_ok(!cases[i].bad || (varint_get(&r) == 0 && r.bad), "and stays so");
	}
	tap_is(varint_unfold(0), 0, "unfold 0");
	tap_is(varint_unfold(1), -1, "unfold 1");
	tap_is(varint_unfold(UINT64_MAX), INT64_MIN, "unfold the largest");
	tap_is(varint_unfold(UINT64_MAX - 1), INT64_MAX, "unfold the one before");
}

static void test_varint_max(void)
{
	static const struct {
		uint64_t value;
		uint32_t max;
		bool bad;
	} cases[] = { { 0, 0, false }, { 1, 0, true }, { 255, 255, false },
		{ 256, 255, true }, { UINT32_MAX, UINT32_MAX, false },
		{ 1ull << 32, UINT32_MAX, true }, { UINT64_MAX, UINT32_MAX, true },
		{ (1ull << 32) + 5, 5, true } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[VARINT_MAX_BYTES];
		struct varint_reader r = { bytes, varint_put(bytes, cases[i].value),
			false };
		uint32_t got = varint_get_max(&r, cases[i].max);

		tap_ok(r.bad == cases[i].bad &&
				got == (r.bad ? 0 : (uint32_t)cases[i].value),
			"%llu, at most %u", (unsigned long long)cases[i].value,
			cases[i].max);
	}
}

/* --- the ring --- */

/* A small one: the header, the reserve and some room. */
enum { DATA = 16384 };

struct ring {
	struct ring_header *header;
	struct ring_writer w;
	struct ring_reader r;
};

static void ring_new(struct ring *ring)
{
	size_t size = RING_HEADER_BYTES + DATA;

	ring->header = aligned_alloc(4096, size);
	if (ring->header == NULL)
		abort();
	memset(ring->header, 0, size);
	ring_writer_init(&ring->w, ring->header, DATA);
	if (ring_reader_init(&ring->r, ring->header, size) != 0)
		abort();
}

/* A record whose bytes follow from a number. */
static void make_record(uint8_t *bytes, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)((seed + i) * 2654435761u >> 13);
}

static void test_ring_basics(void)
{
	struct ring ring;
	uint8_t in[100], out[200];

	ring_new(&ring);
	make_record(in, sizeof(in), 1);
	tap_is(ring_peek(&ring.r, out, sizeof(out)), 0, "an empty ring has nothing");
	tap_is((int64_t)ring_room(&ring.w), DATA - RING_RESERVE,
		"room, less the reserve");
	tap_ok(ring_put(&ring.w, in, 100, RING_RESERVE), "a record is put");
	tap_is(ring_peek(&ring.r, out, sizeof(out)), 0,
		"and not seen before it is published");
	ring_publish(&ring.w);
	tap_ok(ring_peek(&ring.r, out, sizeof(out)) == 100 && memcmp(in, out, 100) == 0,
		"then it is");
	tap_is(ring_peek(&ring.r, out, 30), 30, "or as much as is asked for");
	tap_is(ring_peek(&ring.r, out, 0), 0, "or nothing");
	ring_consume(&ring.r, 40);
	tap_ok(ring_peek(&ring.r, out, sizeof(out)) == 60 &&
			memcmp(in + 40, out, 60) == 0,
		"what is given back is gone");
	tap_is((int64_t)ring_room(&ring.w), DATA - RING_RESERVE - 60, "and makes room");
	ring.header->counters[RING_WALKS] = 1ull << 40;
	tap_is((int64_t)ring_counter_get(ring.header, RING_WALKS), 1ll << 40,
		"a counter");
	free(ring.header);
}

static void test_ring_wraps(void)
{
	struct ring ring;
	uint8_t in[700], out[700];
	bool same = true;
	uint32_t seed = 0;

	ring_new(&ring);
	for (size_t size = 1; size <= sizeof(in); size++) {
		make_record(in, size, ++seed);
		same &= ring_put(&ring.w, in, size, RING_RESERVE);
		ring_publish(&ring.w);
		memset(out, 0, sizeof(out));
		same &= ring_peek(&ring.r, out, sizeof(out)) == (int64_t)size &&
			memcmp(in, out, size) == 0;
		ring_consume(&ring.r, size);
	}
	tap_ok(same && ring.w.head > 10 * DATA, "records that lie over the end");

	/* Positions are 64 bits and may start near the end of 32. */
	ring.w.head = ring.w.tail = ring.r.tail = ring.header->head =
		ring.header->tail = (1ull << 32) - 50;
	make_record(in, 100, 5);
	(void)ring_put(&ring.w, in, 100, RING_RESERVE);
	ring_publish(&ring.w);
	tap_ok(ring_peek(&ring.r, out, 100) == 100 && memcmp(in, out, 100) == 0,
		"positions beyond 32 bits");
	free(ring.header);
}

static void test_ring_full(void)
{
	struct ring ring;
	uint8_t in[RING_RESERVE] = { 0 }, *out = xmalloc(DATA);
	size_t put = 0;
	bool same = true;

	ring_new(&ring);
	for (uint32_t i = 0;; i++) {
		make_record(in, 100, i);
		if (!ring_put(&ring.w, in, 100, RING_RESERVE))
			break;
		put++;
	}
	tap_is((int64_t)put, (DATA - RING_RESERVE) / 100,
		"ordinary records up to the reserve");
	tap_ok(ring_room(&ring.w) < 100, "there is no room for more");
	make_record(in, 100, (uint32_t)put);
	while (ring_put(&ring.w, in, 100, RING_RESERVE_LAST)) {
		put++;
		make_record(in, 100, (uint32_t)put);
	}
	tap_is((int64_t)put, (DATA - RING_RESERVE_LAST) / 100,
		"those of which there are many leave some of it");
	while (ring_put(&ring.w, in, 100, 0)) {
		put++;
		make_record(in, 100, (uint32_t)put);
	}
	tap_is((int64_t)put, DATA / 100, "control records use the reserve");
	tap_is((int64_t)ring_room(&ring.w), 0, "now it is full");
	tap_ok(ring_put(&ring.w, in, DATA % 100, 0), "to the last byte");
	tap_ok(!ring_put(&ring.w, in, 1, 0), "and not one more");
	ring_publish(&ring.w);
	tap_is(ring_peek(&ring.r, out, DATA), DATA, "all of it is read");
	for (uint32_t i = 0; i < put; i++) {
		make_record(in, 100, i);
		same &= memcmp(in, out + i * 100, 100) == 0;
	}
	tap_ok(same, "as it was written");
	ring_consume(&ring.r, 100);
	tap_ok(!ring_put(&ring.w, in, 100, RING_RESERVE) &&
			ring_put(&ring.w, in, 100, 0),
		"what was read makes room, for control records first");
	free(out);
	free(ring.header);
}

static void test_ring_hostile(void)
{
	struct ring ring;
	uint8_t bytes[64] = { 0 };

	ring_new(&ring);
	ring.header->head = DATA + 1;
	tap_is(ring_peek(&ring.r, bytes, sizeof(bytes)), -1,
		"more than the ring holds");
	ring.header->head = UINT64_MAX;
	tap_is(ring_peek(&ring.r, bytes, sizeof(bytes)), -1, "far more");
	ring_consume(&ring.r, 10);
	ring.header->head = 9;
	tap_is(ring_peek(&ring.r, bytes, sizeof(bytes)), -1, "head behind tail");
	ring.header->head = 10;
	tap_is(ring_peek(&ring.r, bytes, sizeof(bytes)), 0, "and as it should be");
	free(ring.header);

	ring_new(&ring);
	ring.header->tail = 1;
	ring.w.tail = 1;
	tap_is((int64_t)ring_room(&ring.w), 0, "a tail before the head: no room");
	tap_ok(!ring_put(&ring.w, bytes, 1, 0), "and nothing is written");
	ring.header->tail = UINT64_MAX - DATA;
	tap_is((int64_t)ring_room(&ring.w), 0, "a tail far behind: no room");
	tap_ok(!ring_put(&ring.w, bytes, 1, 0), "and nothing is written");
	free(ring.header);
}

static void test_ring_header(void)
{
	struct ring ring;
	struct ring_reader r = { .tail = 4711 };
	const uint64_t size = RING_HEADER_BYTES + DATA;

	ring_new(&ring);
	struct ring_header *h = ring.header;

	tap_is(ring_reader_init(&r, h, RING_HEADER_BYTES - 1), -1,
		"too short for a header");
	tap_is(ring_reader_init(&r, h, 0), -1, "nothing at all");
	h->magic++;
	tap_is(ring_reader_init(&r, h, size), -2, "another magic number");
	h->magic = 0;
	tap_is(ring_reader_init(&r, h, size), -2, "none yet");
	h->magic = RING_MAGIC;
	h->version++;
	tap_is(ring_reader_init(&r, h, size), -3, "another version");
	h->version = RING_VERSION;
	h->header_bytes = 4096;
	tap_is(ring_reader_init(&r, h, size), -3, "a header of another size");
	h->header_bytes = RING_HEADER_BYTES;

	static const uint64_t sizes[] = { 0, 1, DATA / 2, DATA * 2, DATA + 1, DATA - 1,
		UINT64_MAX, 1ull << 63, UINT64_MAX - RING_HEADER_BYTES + 1 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		h->data_bytes = sizes[i];
		tap_ok(ring_reader_init(&r, h, size) == -4,
			"data of %#llx bytes are refused",
			(unsigned long long)sizes[i]);
	}
	/* Agreeing with the mapping, and no power of two. */
	h->data_bytes = DATA - 8;
	tap_is(ring_reader_init(&r, h, size - 8), -4, "no power of two");
	h->data_bytes = 0;
	tap_is(ring_reader_init(&r, h, RING_HEADER_BYTES), -4, "a header alone");
	tap_is((int64_t)r.tail, 4711, "a failure leaves the reader as it was");
	h->data_bytes = DATA;
	h->tail = h->head = 77;
	tap_ok(ring_reader_init(&r, h, size) == 0 && r.tail == 77 &&
			r.data_bytes == DATA,
		"and a good one is taken up where it stands");
	free(ring.header);
}

/* --- two threads --- */

enum { TOTAL = 24 << 20, MAX_RECORD = 300 };

static uint8_t byte_at(uint64_t position)
{
	return (uint8_t)((position * 0x9e3779b97f4a7c15ull) >> 56);
}

/* Puts the bytes of the stream in records of varying length; never waits within put. */
static void *produce(void *argument)
{
	struct ring *ring = argument;
	uint8_t record[MAX_RECORD];
	uint64_t position = 0;
	uint32_t random = 1;

	while (position < TOTAL) {
		random = random * 1664525 + 1013904223;
		size_t size = 1 + (random >> 16) % MAX_RECORD;

		if (size > TOTAL - position)
			size = TOTAL - position;
		for (size_t i = 0; i < size; i++)
			record[i] = byte_at(position + i);
		while (!ring_put(
			&ring->w, record, size, random % 8 == 0 ? 0 : RING_RESERVE)) {
			ring_publish(&ring->w);
			(void)sched_yield();
		}
		position += size;
		if (random % 5 == 0)
			ring_publish(&ring->w);
	}
	ring_publish(&ring->w);
	return NULL;
}

static void test_ring_threads(void)
{
	struct ring ring;
	pthread_t producer;
	uint8_t bytes[5000];
	uint64_t position = 0, wrong = 0, impossible = 0;

	ring_new(&ring);
	if (pthread_create(&producer, NULL, produce, &ring) != 0) {
		tap_skip("two threads", "no thread can be made");
		return;
	}
	while (position < TOTAL && impossible == 0) {
		int64_t n = ring_peek(&ring.r, bytes, 1 + position % sizeof(bytes));

		if (n < 0) {
			impossible++;
		} else if (n == 0) {
			(void)sched_yield();
		} else {
			for (int64_t i = 0; i < n; i++)
				wrong += bytes[i] != byte_at(position + (uint64_t)i);
			position += (uint64_t)n;
			ring_consume(&ring.r, (uint64_t)n);
		}
	}
	(void)pthread_join(producer, NULL);
	tap_is((int64_t)impossible, 0, "two threads: never an impossible head");
	tap_is((int64_t)position, TOTAL, "all bytes arrive");
	tap_is((int64_t)wrong, 0, "each in its place");
	free(ring.header);
}

int main(void)
{
	test_varint_values();
	test_varint_cases();
	test_varint_max();
	test_ring_basics();
	test_ring_wraps();
	test_ring_full();
	test_ring_hostile();
	test_ring_header();
	test_ring_threads();
	return tap_done();
}
