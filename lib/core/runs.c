/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes into the ring: runs, strata, gaps.
 *
 * A run says that a thread was seen at one place in one state for some ticks; it
 * goes on by itself while nothing changes, so that a waiting thread costs nothing.
 * Once a second, and before the tables start over, all are closed by a cut.
 */
#include "core/core-internal.h"

enum {
	PREFIX_BYTES = 2,
	SPIN_BLOCK = 256,
	SPIN_SLACK_NS = 1000,
};

void record_begin(struct record *r, uint8_t type)
{
	r->bytes[PREFIX_BYTES] = type;
	r->at = r->bytes + PREFIX_BYTES + 1;
}

bool record_put(struct core *c, struct record *r, uint32_t spared)
{
	uint32_t size = (uint32_t)(r->at - r->bytes) - PREFIX_BYTES;

	/* The length in two bytes even where one would do. */
	r->bytes[0] = (uint8_t)(size | 0x80);
	r->bytes[1] = (uint8_t)(size >> 7);
	return ring_put(&c->ring, r->bytes, size + PREFIX_BYTES, spared);
}

/* Ticks of the run in progress; the tick in hand is not in it yet. */
static uint64_t run_ticks(struct core *c, const struct thread *t)
{
	return c->tick - t->run_first;
}

static void count_run(struct core *c, const struct thread *t, uint64_t ticks)
{
	count(c, RING_SAMPLES, ticks);
	if ((t->state & REC_APPROXIMATE) != 0)
		count(c, RING_APPROXIMATE, ticks);
	if (c->nodes[t->node].kind == REC_NODE_UNREADABLE)
		count(c, RING_UNREADABLE, ticks);
	if (is_bare(c, t->node))
		count(c, RING_NO_FRAMES, ticks);
	if (t->truncated)
		count(c, RING_TRUNCATED, ticks);
}

void run_close(struct core *c, struct thread *t)
{
	uint64_t ticks = run_ticks(c, t);
	struct record r;

	if (!t->in_run || ticks == 0)
		return;
	if ((t->state & REC_RUNNING) != 0)
		t->running_ticks += ticks;
	record_begin(&r, REC_RUN);
	record_number(&r, t->id);
	record_number(&r, t->node);
	record_number(&r, t->position == PY_NO_POSITION ? 0 : t->position + 1);
	record_number(&r, t->state);
	record_number(&r, t->run_first - c->cut_base);
	record_number(&r, ticks);
	if (record_put(c, &r, RING_RESERVE)) {
		count_run(c, t, ticks);
	} else {
		count(c, RING_LOST_FULL, ticks);
		t->lost += ticks;
	}
	t->run_first = c->tick;
}

void run_end(struct core *c, struct thread *t)
{
	run_close(c, t);
	t->in_run = false;
}

void run_set(struct core *c, struct thread *t, uint32_t node, uint32_t position,
	uint8_t state)
{
	if (t->in_run && t->node == node && t->position == position &&
		t->state == state)
		return;
	run_close(c, t);
	t->in_run = true;
	t->node = node;
	t->position = position;
	t->state = state;
	t->run_first = c->tick;
}

static void flush_block(struct core *c)
{
	struct tick_block *b = &c->block;
	bool spin = (c->options.flags & RING_OPT_SPIN) != 0;
	bool limited = !spin && b->length > (int64_t)c->options.interval_ns;
	struct record r;

	if (b->count == 0)
		return;
	record_begin(&r, REC_TICKS);
	record_number(&r, b->first);
	record_number(&r, b->count);
	record_number(&r, (uint64_t)b->start);
	record_number(
		&r, (uint64_t)(spin ? (b->end - b->start) / b->count : b->length));
	record_number(&r, (spin ? REC_TICKS_SPIN : 0) |
				  (limited ? REC_TICKS_LIMITED : 0) |
				  (b->subset_of != 0 ? REC_TICKS_SUBSET : 0));
	if (b->subset_of != 0) {
		record_number(&r, b->subset_of);
		record_number(&r, b->subset);
	}
	record_number(&r, b->late_count);
	memcpy(r.at, b->late, b->late_bytes);
	r.at += b->late_bytes;
	/* The reserve is for this; should even that be used up, the recorder finds
	 * runs whose ticks it does not know, and counts them lost. */
	(void)record_put(c, &r, RING_RESERVE_LAST);
	b->count = 0;
}

static void start_block(struct core *c, int64_t start, int64_t length)
{
	c->block.first = c->tick;
	c->block.count = 0;
	c->block.late_count = 0;
	c->block.late_bytes = 0;
	c->block.last_late = c->tick;
	c->block.start = start;
	c->block.length = length;
	c->block.end = start;
	c->block.subset_of = c->subset_of;
	c->block.subset = c->subset;
}

/* Are the threads that are looked at as many, of as many, as in the block? */
static bool same_subset(const struct core *c)
{
	return c->block.subset_of == c->subset_of && c->block.subset == c->subset;
}

void runs_tick(struct core *c, int64_t start, int64_t length, bool late)
{
	struct tick_block *b = &c->block;

	if (b->count == 0 || b->end != start || b->length != length ||
		!same_subset(c) || b->late_bytes + VARINT_MAX_BYTES > sizeof(b->late)) {
		flush_block(c);
		start_block(c, start, length);
	}
	b->count++;
	b->end = start + length;
	if (late) {
		uint8_t *at =
			varint_put(b->late + b->late_bytes, c->tick - b->last_late);

		b->late_bytes = (uint32_t)(at - b->late);
		b->late_count++;
		b->last_late = c->tick;
		count(c, RING_LATE, 1);
	}
	c->counters[RING_STRATUM_NS] = (uint64_t)length;
	if (length > (int64_t)c->options.interval_ns)
		count(c, RING_LIMITED_NS, (uint64_t)length);
}

void runs_spin_tick(struct core *c, int64_t from, int64_t to)
{
	struct tick_block *b = &c->block;
	int64_t weight = to - from;

	/* All ticks of a block weigh its mean: none may be far from it. */
	if (b->count != 0) {
		int64_t mean = (b->end - b->start) / b->count;

		if (b->end != from || b->count == SPIN_BLOCK || !same_subset(c) ||
			weight > mean * 4 + SPIN_SLACK_NS)
			flush_block(c);
	}
	if (b->count == 0)
		start_block(c, from, weight);
	b->count++;
	b->end = to;
	c->counters[RING_STRATUM_NS] = (uint64_t)weight;
}

void runs_gap(struct core *c, int64_t from, int64_t to, enum record_gap why)
{
	struct record r;

	if (to <= from)
		return;
	flush_block(c);
	record_begin(&r, REC_GAP);
	record_number(&r, (uint64_t)from);
	record_number(&r, (uint64_t)to);
	record_number(&r, why);
	(void)record_put(c, &r, 0);
	if (why == REC_GAP_DISABLED)
		count(c, RING_DISABLED_NS, (uint64_t)(to - from));
	else if (why != REC_GAP_MISSED)
		count(c, RING_PARKED_NS, (uint64_t)(to - from));
}

void runs_end_gap(struct core *c, int64_t now)
{
	if (c->gap_from != 0)
		runs_gap(c, c->gap_from, now, c->gap_why);
	c->gap_from = 0;
}

void runs_phase(struct core *c, enum record_phase phase)
{
	struct record r;

	if (c->phase == phase)
		return;
	for (uint32_t i = 0; i < c->thread_count; i++)
		if (c->threads[i].id != 0)
			run_close(c, &c->threads[i]);
	c->phase = phase;
	record_begin(&r, REC_PHASE);
	record_number(&r, phase);
	record_number(&r, c->tick - c->cut_base);
	(void)record_put(c, &r, 0);
}

bool runs_cut(struct core *c)
{
	struct record r;

	for (uint32_t i = 0; i < c->thread_count; i++)
		if (c->threads[i].id != 0)
			run_close(c, &c->threads[i]);
	cpu_checkpoint_all(c);
	flush_block(c);
	record_begin(&r, REC_CUT);
	record_number(&r, c->tick);
	record_number(&r, (uint64_t)loop_now(c));
	record_number(&r, c->cut_seen);
	if (!record_put(c, &r, RING_RESERVE_LAST))
		return false;
	c->cut_base = c->tick;
	return true;
}

void runs_publish(struct core *c)
{
	for (unsigned i = 0; i < RING_COUNTERS; i++)
		__atomic_store_n(
			&c->ring.header->counters[i], c->counters[i], __ATOMIC_RELAXED);
	ring_publish(&c->ring);
}
