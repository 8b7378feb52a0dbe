/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "file/reader.h"

/* A run that waits for the account behind it.  Its strata are in the same chunk: it
 * is weighed at the end of that, before they are dropped. */
struct pending {
	int64_t start_ns, wall_ns;
	uint64_t first, ticks;
	uint64_t late; /* of the ticks */
	uint32_t stack;
	uint32_t state;
};

struct account {
	uint64_t tick;
	uint64_t cpu_ns;
	uint64_t lost;
	bool anew;
};

/* A thread of the recording in hand. */
struct thread {
	struct pending *runs;
	size_t run_count, run_capacity;
	size_t weighed;           /* of the runs */
	struct account *accounts; /* that came with the chunk in hand */
	size_t account_count, account_capacity;
	bool has_account; /* last is one */
	uint64_t last_cpu_ns;
	bool listed; /* among those with something to do */

	bool lives; /* it has had an account, in this recording or another part of it */
	uint64_t last_tick, last_lost;
	uint64_t missed_before; /* its life */
	uint64_t gaps_before[REC_GAP_COUNT];
};

struct block {
	uint64_t first, count;
	int64_t start_ns, length_ns;
	uint32_t subset_of, subset; /* 0: every thread was looked at */
};

/* From a tick on. */
struct phase {
	uint64_t tick;
	uint32_t state; /* enum load_state, 0 */
};

struct gap {
	int64_t from_ns, to_ns;
	uint64_t missed; /* strata */
	uint32_t reason; /* below REC_GAP_COUNT */
};

struct segment {
	struct block *blocks; /* of the chunks that are still needed */
	size_t block_count, block_capacity;
	uint64_t *late; /* ticks, likewise */
	size_t late_count, late_capacity;
	struct gap *gaps; /* of the chunk in hand */
	size_t gap_count, gap_capacity;
	uint64_t missed; /* in the gaps before it */
	uint64_t gap_ns[REC_GAP_COUNT];
	int64_t rate_ns; /* the length of strata that was told last; 0: none was */
	uint32_t rate_flags;
	struct phase *phases; /* likewise */
	size_t phase_count, phase_capacity;
};

struct loader {
	struct model *m;
	const struct load_options *o;
	struct thread *threads; /* by number in the model */
	size_t thread_count, thread_capacity;
	struct segment *segments; /* by number in the model */
	size_t segment_count, segment_capacity;
	uint32_t *listed;
	size_t listed_count, listed_capacity;
	struct load_run *batch; /* of a chunk, to be sorted */
	size_t batch_count, batch_capacity;
	int64_t wall_ns, cpu_ns, timer_ns; /* given so far */
	size_t marks;                      /* likewise */
};

/* Times of a hostile file add up to no more than this, all together. */
#define MOST_NS (INT64_MAX / 4)

static int64_t add_ns(int64_t a, int64_t b)
{
	return b > MOST_NS - a ? MOST_NS : a + b;
}

static struct thread *thread_of(struct loader *l, uint32_t number)
{
	while (l->thread_count <= number) {
		l->threads = xgrow(l->threads, l->thread_count, &l->thread_capacity,
			sizeof(*l->threads));
		l->threads[l->thread_count++] = (struct thread){ 0 };
	}
	struct thread *t = &l->threads[number];

	if (!t->listed) {
		l->listed = xgrow(l->listed, l->listed_count, &l->listed_capacity,
			sizeof(*l->listed));
		l->listed[l->listed_count++] = number;
		t->listed = true;
	}
	return t;
}

static struct segment *segment_of(struct loader *l, uint32_t number)
{
	while (l->segment_count <= number) {
		l->segments = xgrow(l->segments, l->segment_count, &l->segment_capacity,
			sizeof(*l->segments));
		l->segments[l->segment_count++] = (struct segment){ 0 };
	}
	return &l->segments[number];
}

/* --- ticks --- */

static void tell_rate(struct loader *l, struct segment *s, const struct file_ticks *t)
{
	uint32_t flags = t->flags & (FILE_TICKS_MEAN | FILE_TICKS_LIMITED);
	struct load_rate rate = {
		.segment = model_segment_of_file(l->m, t->segment),
		.from_ns = (int64_t)t->start_ns,
		.length_ns = (int64_t)t->length_ns,
		.flags = flags,
	};
	bool same = flags == s->rate_flags &&
		    (s->rate_ns == rate.length_ns || (flags & FILE_TICKS_MEAN) != 0);

	if (l->o->rate == NULL || (s->rate_ns != 0 && same))
		return;
	s->rate_ns = rate.length_ns;
	s->rate_flags = flags;
	l->o->rate(l->m, &rate, l->o->context);
}

static void add_late(struct segment *s, const struct file_ticks *t)
{
	for (uint32_t i = 0; i < t->late_count; i++) {
		s->late = xgrow(
			s->late, s->late_count, &s->late_capacity, sizeof(*s->late));
		s->late[s->late_count++] = t->late[i];
	}
}

/* How many of the late ticks lie before one. */
static size_t late_before(const struct segment *s, uint64_t tick)
{
	size_t low = 0, high = s->late_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->late[middle] < tick)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void add_ticks(struct loader *l, const struct file_ticks *t)
{
	struct segment *s = segment_of(l, model_segment_of_file(l->m, t->segment));
	const struct block *last =
		s->block_count != 0 ? &s->blocks[s->block_count - 1] : NULL;

	/* They come in order, so that they can be searched. */
	if (last != NULL && t->first < last->first + last->count)
		return;
	s->blocks = xgrow(
		s->blocks, s->block_count, &s->block_capacity, sizeof(*s->blocks));
	s->blocks[s->block_count++] = (struct block){
		.first = t->first,
		.count = t->count,
		.start_ns = (int64_t)t->start_ns,
		.length_ns = (int64_t)t->length_ns,
		.subset_of = t->subset_of,
		.subset = t->subset,
	};
	add_late(s, t);
	model_add_ticks(l->m, t);
	tell_rate(l, s, t);
}

/* The strata that a gap has in place of ticks: they are as long as the one behind it,
 * which the chunk has before the gap, or else the one before it. */
static uint64_t missed_in(const struct segment *s, const struct gap *g)
{
	size_t low = 0, high = s->block_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->blocks[middle].start_ns < g->to_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == s->block_count || s->blocks[low].start_ns != g->to_ns) {
		if (low == 0)
			return 0;
		low--;
	}
	return s->blocks[low].length_ns > 0
		       ? (uint64_t)((g->to_ns - g->from_ns) / s->blocks[low].length_ns)
		       : 0;
}

static void add_gap(struct loader *l, const struct file_gap *g)
{
	uint32_t number = model_segment_of_file(l->m, g->segment);
	struct segment *s = segment_of(l, number);
	struct gap gap = {
		.from_ns = (int64_t)g->from_ns,
		.to_ns = (int64_t)g->to_ns,
		.reason = g->reason,
	};

	model_add_gap(l->m, g);
	if (gap.from_ns < 0 || gap.to_ns <= gap.from_ns)
		return;
	if (l->o->gap != NULL)
		l->o->gap(l->m,
			&(struct load_gap){
				number, gap.from_ns, gap.to_ns, gap.reason },
			l->o->context);
	if (gap.reason >= REC_GAP_COUNT)
		return;
	if (gap.reason == REC_GAP_MISSED)
		gap.missed = missed_in(s, &gap);
	s->gaps = xgrow(s->gaps, s->gap_count, &s->gap_capacity, sizeof(*s->gaps));
	s->gaps[s->gap_count++] = gap;
}

/* Those of the chunk are behind it. */
static void sum_gaps(struct loader *l)
{
	for (size_t i = 0; i < l->segment_count; i++) {
		struct segment *s = &l->segments[i];

		for (size_t j = 0; j < s->gap_count; j++) {
			s->missed += s->gaps[j].missed;
			s->gap_ns[s->gaps[j].reason] +=
				(uint64_t)(s->gaps[j].to_ns - s->gaps[j].from_ns);
		}
		s->gap_count = 0;
	}
}

static void add_phase(struct loader *l, const struct file_phase *p)
{
	struct segment *s = segment_of(l, model_segment_of_file(l->m, p->segment));
	uint32_t state = p->phase == REC_PHASE_STARTING     ? LOAD_STARTING
			 : p->phase == REC_PHASE_FINALIZING ? LOAD_FINALIZING
							    : 0;

	const struct phase *last =
		s->phase_count != 0 ? &s->phases[s->phase_count - 1] : NULL;

	/* Said again, it holds on; and they come in order. */
	if (last != NULL && (last->state == state || last->tick > p->tick))
		return;
	s->phases = xgrow(
		s->phases, s->phase_count, &s->phase_capacity, sizeof(*s->phases));
	s->phases[s->phase_count++] = (struct phase){ p->tick, state };
}

static uint32_t phase_at(const struct segment *s, uint64_t tick)
{
	size_t low = 0, high = s->phase_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->phases[middle].tick <= tick)
			low = middle + 1;
		else
			high = middle;
	}
	return low != 0 ? s->phases[low - 1].state : 0;
}

/* What n ticks of a block weigh: each thread was looked at by a part of them alone. */
static int64_t weight_of(const struct block *b, uint64_t n)
{
	int64_t wall = (int64_t)n * b->length_ns;

	if (b->subset == 0)
		return wall;
	double all = (double)wall * b->subset_of / b->subset;

	return all < (double)MOST_NS ? (int64_t)all : MOST_NS;
}

/* The block a tick lies in, or NULL. */
static const struct block *block_at(const struct segment *s, uint64_t tick)
{
	size_t low = 0, high = s->block_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->blocks[middle].first <= tick)
			low = middle + 1;
		else
			high = middle;
	}
	const struct block *b = low != 0 ? &s->blocks[low - 1] : NULL;

	return b != NULL && tick - b->first < b->count ? b : NULL;
}

/* Start and weight of ticks [first, first + ticks); false when some are not known. */
static bool weigh(const struct segment *s, uint64_t first, uint64_t ticks,
	int64_t *ret_start, int64_t *ret_wall)
{
	int64_t wall = 0;

	*ret_start = 0;
	while (ticks != 0) {
		const struct block *b = block_at(s, first);

		if (b == NULL)
			return false;
		uint64_t skipped = first - b->first, n = b->count - skipped;

		if (n > ticks)
			n = ticks;
		if (*ret_start == 0)
			*ret_start = b->start_ns + (int64_t)skipped * b->length_ns;
		wall = add_ns(wall, weight_of(b, n));
		first += n;
		ticks -= n;
	}
	*ret_wall = wall;
	return true;
}

static void drop_late(struct segment *s)
{
	enum { KEPT = 65536 };

	if (s->late_count <= KEPT * 2)
		return;
	memmove(s->late, s->late + s->late_count - KEPT, KEPT * sizeof(*s->late));
	s->late_count = KEPT;
}

/* Blocks that no run can refer to any more: all but the last ones. */
static void drop_blocks(struct loader *l)
{
	enum { KEPT = 4096 };

	for (size_t i = 0; i < l->segment_count; i++) {
		struct segment *s = &l->segments[i];

		drop_late(s);
		if (s->block_count <= KEPT * 2)
			continue;
		memmove(s->blocks, s->blocks + s->block_count - KEPT,
			KEPT * sizeof(*s->blocks));
		s->block_count = KEPT;
	}
}

/* --- lives of threads --- */

/* When an account was taken: where nothing was sampled before it, at the beginning of
 * its tick's stratum, else at the end of the one before; 0: not known. */
static int64_t time_of(const struct segment *s, uint64_t tick, bool anew)
{
	const struct block *b = block_at(s, tick);
	const struct block *before = tick != 0 ? block_at(s, tick - 1) : NULL;

	if (before != NULL && (!anew || b == NULL))
		return before->start_ns +
		       (int64_t)(tick - before->first) * before->length_ns;
	return b != NULL ? b->start_ns + (int64_t)(tick - b->first) * b->length_ns : 0;
}

/* The mean weight of the ticks [from, to), of those whose strata are known. */
static double mean_weight(const struct segment *s, uint64_t from, uint64_t to)
{
	size_t low = 0, high = s->block_count;
	double sum = 0, ticks = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->blocks[middle].first + s->blocks[middle].count <= from)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < s->block_count && s->blocks[low].first < to; low++) {
		const struct block *b = &s->blocks[low];
		uint64_t first = b->first > from ? b->first : from;
		uint64_t end = b->first + b->count < to ? b->first + b->count : to;

		sum += (double)weight_of(b, end - first);
		ticks += (double)(end - first);
	}
	return ticks > 0 ? sum / ticks : 0;
}

/* Strata that were missed, and gaps, up to a time. */
static uint64_t gaps_until(
	const struct segment *s, int64_t ns, uint64_t gap_ns[REC_GAP_COUNT])
{
	uint64_t missed = s->missed;

	memcpy(gap_ns, s->gap_ns, sizeof(s->gap_ns));
	for (size_t i = 0; i < s->gap_count; i++) {
		const struct gap *g = &s->gaps[i];

		if (g->to_ns > ns)
			continue;
		missed += g->missed;
		gap_ns[g->reason] += (uint64_t)(g->to_ns - g->from_ns);
	}
	return missed;
}

static void add_lost(const struct segment *s, struct thread *t,
	struct model_thread *life, const struct account *a, bool begins_here)
{
	uint64_t from = t->lives ? t->last_tick : 0;
	uint64_t known = t->lives ? t->last_lost : begins_here ? 0 : a->lost;

	if (a->lost > known) {
		double ns = (double)(a->lost - known) * mean_weight(s, from, a->tick);

		life->lost_ns = ns < (double)MOST_NS - (double)life->lost_ns
					? life->lost_ns + (uint64_t)ns
					: MOST_NS;
	}
	t->last_tick = a->tick;
	t->last_lost = a->lost;
	t->lives = true;
}

/* What a thread's accounts of the chunk, in order, say of its life. */
static void follow_life(struct loader *l, uint32_t number, struct thread *t)
{
	struct model_thread *life = model_thread_life(l->m, number);
	const struct segment *s = segment_of(l, life->segment);
	bool begins_here = !model_segment(l->m, life->segment)->continued;

	for (size_t i = 0; i < t->account_count; i++) {
		const struct account *a = &t->accounts[i];
		uint64_t gap_ns[REC_GAP_COUNT];
		bool first = life->first_ns == 0;
		int64_t ns = time_of(s, a->tick, first || a->anew);

		add_lost(s, t, life, a, begins_here);
		if (ns <= 0 || ns < life->last_ns)
			continue;
		uint64_t missed = gaps_until(s, ns, gap_ns);

		if (first) {
			life->first_ns = ns;
			t->missed_before = missed;
			memcpy(t->gaps_before, gap_ns, sizeof(gap_ns));
		}
		life->last_ns = ns;
		life->missed = missed - t->missed_before;
		for (size_t j = 0; j < REC_GAP_COUNT; j++)
			life->gap_ns[j] = gap_ns[j] - t->gaps_before[j];
	}
}

/* --- runs --- */

static struct load_run resolve(
	struct loader *l, uint32_t number, const struct pending *p)
{
	uint32_t segment = model_thread(l->m, number)->segment;
	struct load_run r = {
		.segment = segment,
		.thread = number,
		.stack = p->stack,
		.state = p->state,
		.tick = p->first,
		.ticks = p->ticks,
		.start_ns = p->start_ns,
		.wall_ns = p->wall_ns,
		.late = p->late,
	};

	if ((p->state & REC_RUNNING) != 0)
		r.cpu_ns = r.wall_ns;
	return r;
}

/* Start and weight of the runs that came with the chunk. */
static void weigh_runs(struct loader *l, uint32_t number, struct thread *t)
{
	const struct segment *s = segment_of(l, model_thread(l->m, number)->segment);

	for (; t->weighed < t->run_count; t->weighed++) {
		struct pending *p = &t->runs[t->weighed];

		p->state |= phase_at(s, p->first);
		if (!weigh(s, p->first, p->ticks, &p->start_ns, &p->wall_ns))
			p->wall_ns = 0;
		p->late =
			late_before(s, p->first + p->ticks) - late_before(s, p->first);
		model_thread_life(l->m, number)->late += p->late;
	}
}

static void give(struct loader *l, const struct load_run *run)
{
	struct load_run r = *run;

	if (r.wall_ns > MOST_NS - l->wall_ns)
		r.wall_ns = MOST_NS - l->wall_ns;
	if (r.cpu_ns > MOST_NS - l->cpu_ns)
		r.cpu_ns = MOST_NS - l->cpu_ns;
	if (r.timer_ns > MOST_NS - l->timer_ns)
		r.timer_ns = MOST_NS - l->timer_ns;
	l->timer_ns += r.timer_ns;
	l->wall_ns += r.wall_ns;
	l->cpu_ns += r.cpu_ns;
	l->o->run(l->m, &r, l->o->context);
}

static void give_not_sampled(struct loader *l, uint32_t number, int64_t cpu_ns)
{
	struct load_run r = {
		.segment = model_thread(l->m, number)->segment,
		.thread = number,
		.stack = model_special_stack(l->m, 0, MODEL_NOT_SAMPLED),
		.state = REC_RUNNING,
		.cpu_ns = cpu_ns,
		.cpu_scaled = true,
	};

	if (cpu_ns > 0)
		give(l, &r);
}

static void drop_runs(struct thread *t, size_t count)
{
	if (count == 0)
		return;
	memmove(t->runs, t->runs + count, (t->run_count - count) * sizeof(*t->runs));
	t->run_count -= count;
	t->weighed -= count;
}

/* The runs [0, count) of a thread lie before an account: spread its CPU time. */
static void give_accounted(struct loader *l, uint32_t number, struct thread *t,
	size_t count, int64_t cpu_ns)
{
	int64_t running = 0;
	for (size_t i = 0; i < count; i++)
		running = add_ns(running, resolve(l, number, &t->runs[i]).cpu_ns);
	for (size_t i = 0; i < count; i++) {
		struct load_run r = resolve(l, number, &t->runs[i]);

		if (running > 0)
			r.cpu_ns = (int64_t)((double)r.cpu_ns * (double)cpu_ns /
					     (double)running);
		r.cpu_scaled = true;
		give(l, &r);
	}
	if (running == 0)
		give_not_sampled(l, number, cpu_ns);
	drop_runs(t, count);
}

/* Runs that no account precedes have no difference to share in. */
static void give_unaccounted(
	struct loader *l, uint32_t number, struct thread *t, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct load_run r = resolve(l, number, &t->runs[i]);

		give(l, &r);
	}
	drop_runs(t, count);
}

static int compare_accounts(const void *a, const void *b)
{
	const struct account *x = a, *y = b;

	if (x->tick != y->tick)
		return x->tick < y->tick ? -1 : 1;
	/* Before and behind a pause. */
	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? -1 : 1;
	return x->anew - y->anew;
}

static void settle_accounts(struct loader *l, uint32_t number, struct thread *t)
{
	for (size_t i = 0; i < t->account_count; i++) {
		const struct account *a = &t->accounts[i];
		size_t count = 0;
		bool accounted = t->has_account && !a->anew;
		uint64_t used = accounted && a->cpu_ns > t->last_cpu_ns
					? a->cpu_ns - t->last_cpu_ns
					: 0;

		while (count < t->run_count && t->runs[count].first < a->tick)
			count++;
		if (accounted)
			give_accounted(l, number, t, count,
				used < MOST_NS ? (int64_t)used : MOST_NS);
		else
			give_unaccounted(l, number, t, count);
		t->has_account = true;
		t->last_cpu_ns = a->cpu_ns;
	}
	t->account_count = 0;
}

static int compare_runs(const void *a, const void *b)
{
	const struct load_run *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

/* All runs of a thread, unaccounted, into the batch. */
static void batch_runs(struct loader *l, uint32_t number, struct thread *t)
{
	for (size_t i = 0; i < t->run_count; i++) {
		l->batch = xgrow(l->batch, l->batch_count, &l->batch_capacity,
			sizeof(*l->batch));
		l->batch[l->batch_count++] = resolve(l, number, &t->runs[i]);
	}
	t->run_count = t->account_count = t->weighed = 0;
}

/* Those that lie before a run, or all.  A mark may stand in an earlier chunk than the
 * runs around it, which come later out of the ring. */
static void give_marks(struct loader *l, const struct load_run *before)
{
	for (; l->marks < model_mark_count(l->m); l->marks++) {
		const struct model_mark *mark = model_mark(l->m, l->marks);

		if (before != NULL &&
			model_mark_ns(mark, model_segment(l->m, before->segment)) >
				before->start_ns)
			return;
		if (l->o->mark != NULL)
			l->o->mark(l->m, mark, l->o->context);
	}
}

static void give_batch(struct loader *l)
{
	if (l->batch_count != 0)
		qsort(l->batch, l->batch_count, sizeof(*l->batch), compare_runs);
	for (size_t i = 0; i < l->batch_count; i++) {
		give_marks(l, &l->batch[i]);
		give(l, &l->batch[i]);
	}
	l->batch_count = 0;
}

/* The end of a chunk: give what can be given. */
static void on_flush(struct loader *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->listed_count; i++) {
		uint32_t number = l->listed[i];
		struct thread *t = &l->threads[number];

		weigh_runs(l, number, t);
		if (t->account_count != 0)
			qsort(t->accounts, t->account_count, sizeof(*t->accounts),
				compare_accounts);
		follow_life(l, number, t);
		if (l->o->cpu)
			settle_accounts(l, number, t);
		else
			batch_runs(l, number, t);
		if (t->run_count == 0)
			t->listed = false;
		else
			l->listed[kept++] = number;
	}
	l->listed_count = kept;
	give_batch(l);
	sum_gaps(l);
	drop_blocks(l);
}

/* The end of the file: what no account follows is given as it is. */
static void on_end(struct loader *l)
{
	on_flush(l);
	give_marks(l, NULL);
	for (size_t i = 0; i < l->listed_count; i++) {
		struct thread *t = &l->threads[l->listed[i]];

		for (size_t j = 0; j < t->run_count; j++) {
			struct load_run r = resolve(l, l->listed[i], &t->runs[j]);

			give(l, &r);
		}
		t->run_count = t->weighed = 0;
		t->listed = false;
	}
	l->listed_count = 0;
}

static void add_run(struct loader *l, const struct file_run *r)
{
	struct thread *t = thread_of(l, model_thread_of_file(l->m, r->thread));
	uint32_t stack = model_stack_of_run(l->m, r->node, r->line);

	if ((r->state & REC_GC) != 0)
		stack = model_special_stack(l->m, stack, MODEL_GC);
	t->runs = xgrow(t->runs, t->run_count, &t->run_capacity, sizeof(*t->runs));
	t->runs[t->run_count++] = (struct pending){
		.first = r->first,
		.ticks = r->ticks,
		.stack = stack,
		.state = r->state,
	};
}

static void add_account(struct loader *l, const struct file_cpu *c)
{
	struct thread *t = thread_of(l, model_thread_of_file(l->m, c->thread));

	model_add_account(l->m, c);
	t->accounts = xgrow(t->accounts, t->account_count, &t->account_capacity,
		sizeof(*t->accounts));
	t->accounts[t->account_count++] = (struct account){
		.tick = c->tick,
		.cpu_ns = c->cpu_ns,
		.lost = c->lost,
		.anew = (c->flags & FILE_CPU_ANEW) != 0,
	};
}

/* Its strata, if they are there, are in the same chunk in front of it. */
static void add_timer(struct loader *l, const struct file_timer *t)
{
	uint32_t number = model_thread_of_file(l->m, t->thread);
	uint32_t segment = model_thread(l->m, number)->segment;
	struct load_run r = {
		.segment = segment,
		.thread = number,
		.stack = model_stack_of_run(l->m, t->node, t->line),
		.state = t->state,
		.tick = t->tick,
		.timer_ns = (int64_t)t->cpu_ns,
		.timer_samples = t->samples,
	};
	int64_t ignored;

	(void)weigh(segment_of(l, segment), t->tick != 0 ? t->tick - 1 : 0, 1,
		&r.start_ns, &ignored);
	if (l->o->cpu) {
		give(l, &r);
		return;
	}
	l->batch =
		xgrow(l->batch, l->batch_count, &l->batch_capacity, sizeof(*l->batch));
	l->batch[l->batch_count++] = r;
}

static void on_record(struct loader *l, const struct file_record *r)
{
	switch (r->type) {
	case FILE_STRING:
		model_add_string(l->m, r->id, &r->string);
		break;
	case FILE_FUNCTION:
		model_add_function(l->m, r->id, &r->function);
		break;
	case FILE_NODE:
		model_add_node(l->m, r->id, &r->node);
		break;
	case FILE_SEGMENT:
		model_add_segment(l->m, &r->segment);
		break;
	case FILE_SEGMENT_END:
		model_end_segment(l->m, &r->segment_end);
		break;
	case FILE_THREAD:
		model_add_thread(l->m, &r->thread);
		break;
	case FILE_TICKS:
		add_ticks(l, &r->ticks);
		break;
	case FILE_RUNS:
		add_run(l, &r->run);
		break;
	case FILE_CPU:
		add_account(l, &r->cpu);
		break;
	case FILE_TIMER:
		add_timer(l, &r->timer);
		break;
	case FILE_PHASE:
		add_phase(l, &r->phase);
		break;
	case FILE_COPY:
		model_add_copy(l->m, &r->copy);
		break;
	case FILE_GAP:
		add_gap(l, &r->gap);
		break;
	case FILE_TIMERS:
		model_add_timers(l->m, &r->timers);
		break;
	case FILE_MARK:
		model_add_mark(l->m, &r->mark);
		break;
	case FILE_CLOCK:
		model_add_clock(l->m, &r->clock);
		break;
	case FILE_SUMMARY:
		model_add_summary(l->m, &r->summary);
		break;
	case FILE_COUNTERS:
		model_add_counters(l->m, r->counters.segment, r->counters.counters,
			r->counters.count);
		break;
	default:
		break;
	}
}

/* Another recording, or another part: what lies between is not known. */
static void start_over(struct loader *l)
{
	for (size_t i = 0; i < l->thread_count; i++)
		l->threads[i].has_account = false;
	for (size_t i = 0; i < l->segment_count; i++)
		l->segments[i].block_count = l->segments[i].phase_count =
			l->segments[i].late_count = 0;
}

static void free_loader(struct loader *l)
{
	for (size_t i = 0; i < l->thread_count; i++) {
		free(l->threads[i].runs);
		free(l->threads[i].accounts);
	}
	free(l->threads);
	for (size_t i = 0; i < l->segment_count; i++) {
		free(l->segments[i].blocks);
		free(l->segments[i].phases);
		free(l->segments[i].late);
		free(l->segments[i].gaps);
	}
	free(l->segments);
	free(l->listed);
	free(l->batch);
}

int load_file(struct model *m, const char *path, const struct load_options *options,
	struct load_result *ret_result, struct err *err)
{
	struct loader l = { .m = m, .o = options };
	struct file_reader *reader;
	struct file_record record;
	enum file_event event;
	int code = file_reader_open(path, &reader, err);

	if (code != 0)
		return code;
	while ((event = file_reader_next(reader, &record)) != FILE_EVENT_END) {
		switch (event) {
		case FILE_EVENT_RECORD:
			on_record(&l, &record);
			break;
		case FILE_EVENT_HEADER:
			on_end(&l);
			start_over(&l);
			model_recording(m);
			break;
		case FILE_EVENT_EPOCH:
			model_epoch(m);
			break;
		case FILE_EVENT_FLUSH:
			on_flush(&l);
			break;
		case FILE_EVENT_END:
			break;
		}
	}
	on_end(&l);
	*ret_result = (struct load_result){
		.complete = file_reader_complete(reader),
		.bytes = file_reader_offset(reader),
	};
	const char *damage = file_reader_damage(reader);

	if (damage != NULL)
		(void)snprintf(
			ret_result->damage, sizeof(ret_result->damage), "%s", damage);
	file_reader_free(reader);
	free_loader(&l);
	return 0;
}
