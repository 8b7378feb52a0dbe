/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreters, their GILs, and the table of threads.
 *
 * A thread is a PyThreadState together with the kernel thread id in it: addresses
 * of thread states are used again at once, kernel ids are not.  New thread states
 * are put at the head of their interpreter's list, so a changed head tells of them;
 * an end in the middle shows by a listing, or by the neighbours' links.
 *
 * New interpreters, too, are put at the head of theirs; the last one is the main one,
 * and stays to the end.  Where there are more than the table holds, it has the last
 * entry; of those between (from first_beyond on) only the threads are counted.
 */
#include "core/core-internal.h"

enum {
	MAX_LISTED = 65536, /* steps along one list: beyond it, it is a loop */
	/* Where the C libraries keep the kernel id in the struct behind a pthread_t:
	 * glibc and musl on x86-64, looked at first. */
	GLIBC_TID_OFFSET = 720,
	MUSL_TID_OFFSET = 48,
	TID_SCAN_BYTES = 2304,
	LIST_NS = 50000000,
	LIST_MAX_NS = 250000000,
	LISTED_NS = 300, /* of CPU time, a thread that is known */
	BARE_MAX_NS = 2000000000,
	MAX_FORKED = 4096, /* thread states looked through for the one that is left */
};

#define NO_THREAD UINT32_MAX

static uint32_t slot_of(uint64_t ts)
{
	return (uint32_t)(mix(0, ts) >> 32) & (THREAD_INDEX - 1);
}

struct thread *thread_find(struct core *c, uint64_t ts)
{
	for (uint32_t i = slot_of(ts);; i = (i + 1) & (THREAD_INDEX - 1)) {
		uint16_t entry = c->thread_index[i];

		if (entry == 0)
			return NULL;
		if (c->threads[entry - 1].ts == ts)
			return &c->threads[entry - 1];
	}
}

static void index_insert(struct core *c, struct thread *t)
{
	uint32_t i = slot_of(t->ts);

	while (c->thread_index[i] != 0)
		i = (i + 1) & (THREAD_INDEX - 1);
	c->thread_index[i] = (uint16_t)(t - c->threads + 1);
}

/* Take an entry out of the index, moving those behind it that would be lost. */
static void index_remove(struct core *c, struct thread *t)
{
	uint32_t hole = slot_of(t->ts);

	while (c->thread_index[hole] != (uint16_t)(t - c->threads + 1))
		hole = (hole + 1) & (THREAD_INDEX - 1);
	for (uint32_t i = hole;;) {
		i = (i + 1) & (THREAD_INDEX - 1);
		uint16_t entry = c->thread_index[i];

		if (entry == 0)
			break;
		uint32_t home = slot_of(c->threads[entry - 1].ts);

		if (((i - home) & (THREAD_INDEX - 1)) >=
			((i - hole) & (THREAD_INDEX - 1))) {
			c->thread_index[hole] = entry;
			hole = i;
		}
	}
	c->thread_index[hole] = 0;
}

/*
 * Where in the C library's struct behind a pthread_t the kernel's id is, if this is the
 * main thread's: known places of the two libraries.  0: it is another thread.
 */
RARE static uint16_t main_tid_offset(struct core *c, uint64_t pthread)
{
	static const uint16_t known[] = { GLIBC_TID_OFFSET, MUSL_TID_OFFSET };
	uint32_t value;

	for (unsigned i = 0; pthread != 0 && i < 2; i++)
		if (load32(c, pthread + known[i], &value) &&
			value == (uint32_t)c->args.program_pid)
			return known[i];
	return 0;
}

/* In a process that was forked by a thread without Python's knowing, the one that is
 * left is not the one that was the main thread. */
RARE static uint16_t left_tid_offset(struct core *c)
{
	uint16_t offset = 0;
	uint64_t ts, pthread;

	if (!load64(c, c->interpreters[0].address + c->layout.is_threads_head, &ts))
		return 0;
	for (unsigned n = 0; n < MAX_FORKED && ts != 0 && offset == 0; n++) {
		if (!load64(c, ts + c->layout.ts_thread_id, &pthread))
			return 0;
		offset = main_tid_offset(c, pthread);
		if (!load64(c, ts + c->layout.ts_next, &ts))
			return 0;
	}
	return offset;
}

/* For versions without a native id. */
RARE static void find_tid_offset(struct core *c)
{
	uint64_t pthread;
	uint32_t value;

	if (!load64(c, c->options.runtime + c->layout.rt_main_thread, &pthread))
		return;
	c->pthread_tid_offset = main_tid_offset(c, pthread);
	if (c->pthread_tid_offset == 0)
		c->pthread_tid_offset = left_tid_offset(c);
	for (uint32_t at = 4; at < TID_SCAN_BYTES && c->pthread_tid_offset == 0;
		at += 4)
		if (load32(c, pthread + at, &value) &&
			value == (uint32_t)c->args.program_pid)
			c->pthread_tid_offset = at;
}

/* By the C library's struct, from which the kernel and a fork take the id of a thread
 * that has ended. */
static uint32_t pthread_id(struct core *c, uint64_t pthread)
{
	uint32_t id;

	if (c->pthread_tid_offset == 0)
		find_tid_offset(c);
	if (c->pthread_tid_offset == 0 || pthread == 0 ||
		!load32(c, pthread + c->pthread_tid_offset, &id) || id >= 1u << 30)
		return 0;
	return id != 0 ? id : NO_THREAD;
}

/* The ids in a thread state. */
struct ids {
	uint64_t pthread;
	uint64_t native; /* 0 before 3.11 */
};

static bool read_ids(struct core *c, uint64_t ts, struct ids *ids)
{
	ids->native = 0;
	return load64(c, ts + c->layout.ts_thread_id, &ids->pthread) &&
	       ((c->layout.flags & PY_HAS_NATIVE_ID) == 0 ||
		       load64(c, ts + c->layout.ts_native_id, &ids->native));
}

/* After a fork without Python's knowing, the thread state still bears the id of the
 * thread that forked. */
static uint32_t native_id(struct core *c, const struct ids *ids)
{
	uint32_t pid = (uint32_t)c->args.program_pid;

	if (ids->native >= 1u << 30)
		return 0;
	return ids->native != pid && main_tid_offset(c, ids->pthread) != 0
		       ? pid
		       : (uint32_t)ids->native;
}

/* The kernel's id of the thread that a thread state belongs to, 0 if not known,
 * NO_THREAD if it has surely ended. */
RARE static uint32_t kernel_id(struct core *c, const struct ids *ids)
{
	return (c->layout.flags & PY_HAS_NATIVE_ID) != 0 ? native_id(c, ids)
							 : pthread_id(c, ids->pthread);
}

/*
 * Are these the ids of the thread in the table?  Where the thread state has the
 * kernel's id, which is given to no other thread soon, that settles it: to ask the C
 * library's struct as well, in a page of its own, took longer than all else.
 */
static bool same_ids(struct core *c, const struct thread *t, const struct ids *ids)
{
	return ids->pthread == t->pthread && ids->native == t->native &&
	       ((c->layout.flags & PY_HAS_NATIVE_ID) != 0 ||
		       pthread_id(c, ids->pthread) == t->tid);
}

/* The GIL of an interpreter: entered when new.  MAX_INTERPRETERS when unreadable. */
RARE static uint16_t gil_of(struct core *c, uint64_t interpreter)
{
	uint64_t address = c->options.runtime + c->layout.gil;

	if ((c->layout.flags & PY_GIL_IN_RUNTIME) == 0 &&
		(!load64(c, interpreter + c->layout.gil, &address) || !sane(address)))
		return MAX_INTERPRETERS;
	for (uint32_t i = 0; i < c->gil_count; i++)
		if (c->gils[i].address == address)
			return (uint16_t)i;
	c->gils[c->gil_count] = (struct gil){ .address = address };
	return (uint16_t)c->gil_count++;
}

/* Are the interpreters those of the last tick? */
static bool same_interpreters(struct core *c)
{
	uint64_t at;

	if (!load64(c, c->options.runtime + c->layout.rt_interpreters_head, &at))
		return false;
	for (uint32_t i = 0; i < c->interpreter_count; i++) {
		uint64_t gil = c->gils[c->interpreters[i].gil].address;

		if (c->first_beyond != 0 && i + 1 == MAX_INTERPRETERS) {
			if (at != c->first_beyond)
				return false;
			at = c->interpreters[i].address;
		}
		if (at != c->interpreters[i].address)
			return false;
		if ((c->layout.flags & PY_GIL_IN_RUNTIME) == 0 &&
			(!load64(c, at + c->layout.gil, &gil) ||
				gil != c->gils[c->interpreters[i].gil].address))
			return false;
		if (!load64(c, at + c->layout.is_next, &at))
			return false;
	}
	return at == 0;
}

/* Put an interpreter into the table; what follows it in the list is *ret_next. */
RARE static bool enter_interpreter(struct core *c, uint64_t at, uint64_t *ret_next)
{
	uint16_t gil = gil_of(c, at);
	uint64_t id, next;

	if (gil == MAX_INTERPRETERS || !load64(c, at + c->layout.is_next, &next) ||
		!load64(c, at + c->layout.is_id, &id))
		return false;
	c->gils[gil].interpreters++;
	c->interpreters[c->interpreter_count++] = (struct interpreter){
		.address = at,
		.id = id,
		.gil = gil,
	};
	*ret_next = next == at ? 0 : next;
	return true;
}

/* The last one of the list that goes on with this one. */
RARE static bool last_interpreter(struct core *c, uint64_t at, uint64_t *ret_last)
{
	uint64_t next;

	for (uint32_t n = 0; n < MAX_LISTED; n++, at = next) {
		if (!load64(c, at + c->layout.is_next, &next))
			return false;
		if (next == 0 || next == at) {
			*ret_last = at;
			return true;
		}
	}
	return false;
}

RARE static bool list_interpreters(struct core *c)
{
	uint64_t at, last;

	c->interpreter_count = 0;
	c->gil_count = 0;
	c->first_beyond = 0;
	c->all_changed = true;
	c->relist = true;
	if (!load64(c, c->options.runtime + c->layout.rt_interpreters_head, &at))
		return false;
	while (at != 0 && c->interpreter_count < MAX_INTERPRETERS) {
		if (c->interpreter_count + 1 == MAX_INTERPRETERS) {
			if (!last_interpreter(c, at, &last))
				return false;
			if (last != at)
				c->first_beyond = at;
			at = last;
		}
		if (!enter_interpreter(c, at, &at))
			return false;
	}
	return c->interpreter_count != 0;
}

bool threads_interpreters(struct core *c)
{
	copy_forget(c);
	return (c->interpreter_count != 0 && same_interpreters(c)) ||
	       list_interpreters(c);
}

/* The main thread is the last one of its list, whatever finds no more room. */
static struct thread *free_entry(struct core *c, bool of_main)
{
	if (c->thread_count - c->free_threads + !of_main >= MAX_THREADS)
		return NULL;
	/* Entries that were used before first: every tick goes over all used ones. */
	for (uint32_t i = 0; c->free_threads != 0 && i < c->thread_count; i++)
		if (c->threads[i].id == 0) {
			c->free_threads--;
			return &c->threads[i];
		}
	return &c->threads[c->thread_count++];
}

static void release_entry(struct core *c, struct thread *t)
{
	t->id = 0;
	c->free_threads++;
}

/* A thread state that is not in the table yet. */
RARE static void enter_thread(struct core *c, const struct interpreter *in, uint64_t ts,
	const struct ids *ids, uint32_t tid)
{
	struct thread *t =
		free_entry(c, in->id == 0 && tid == (uint32_t)c->args.program_pid);

	if (t == NULL) {
		c->left_out++;
		return;
	}
	*t = (struct thread){
		.ts = ts,
		.interpreter = in->address,
		.pthread = ids->pthread,
		.native = ids->native,
		.tid = tid,
		.id = c->next_thread_id + 1,
		.listing = c->listing,
		.gil = in->gil,
		.next_attended = t->next_attended,
		.attended = t->attended,
		.fresh = true,
		.schedstat = -1,
		.stat = -1,
	};
	/* A thread state without a kernel thread: left over from a fork in C. */
	if (!cpu_open(c, t)) {
		release_entry(c, t);
		return;
	}
	if (tid == (uint32_t)c->args.program_pid && c->pthread_tid_offset == 0)
		c->pthread_tid_offset = main_tid_offset(c, ids->pthread);
	sample_choose_thread(c, t);
	if (!thread_announce(c, t)) {
		cpu_close(c, t);
		release_entry(c, t);
		c->relist = true;
		return;
	}
	c->next_thread_id++;
	index_insert(c, t);
	cpu_begin(c, t);
	timers_begin(c, t);
}

void thread_end(struct core *c, struct thread *t)
{
	struct record r;

	run_close(c, t);
	timers_end(c, t);
	kept_drop(c, t);
	cpu_end(c, t);
	cpu_close(c, t);
	record_begin(&r, REC_THREAD_END);
	record_number(&r, t->id);
	record_number(&r, c->tick);
	(void)record_put(c, &r, RING_RESERVE_LAST);
	index_remove(c, t);
	release_entry(c, t);
}

bool thread_linked(struct core *c, const struct thread *t)
{
	const struct py_layout *l = &c->layout;
	uint64_t interp, prev, next, back;

	copy_forget(c);
	if (!load64(c, t->ts + l->ts_interp, &interp) || interp != t->interpreter ||
		!load64(c, t->ts + l->ts_prev, &prev) ||
		!load64(c, t->ts + l->ts_next, &next))
		return false;
	if (!load64(c, prev != 0 ? prev + l->ts_next : interp + l->is_threads_head,
		    &back) ||
		back != t->ts)
		return false;
	return next == 0 || (load64(c, next + l->ts_prev, &back) && back == t->ts);
}

bool thread_same(struct core *c, const struct thread *t)
{
	struct ids ids;

	copy_forget(c);
	return read_ids(c, t->ts, &ids) && same_ids(c, t, &ids);
}

void thread_end_before(struct core *c, const struct thread *t)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *before = &c->threads[i];

		if (before->id != 0 && before->tid == t->tid && before != t &&
			before->interpreter == t->interpreter &&
			!thread_linked(c, before))
			thread_end(c, before);
	}
}

static void ask_for(uint64_t address)
{
	__builtin_prefetch((const void *)(uintptr_t)address);
}

/* The thread behind another one in the list, as the last listing found it; NULL when
 * that is not known. */
static struct thread *listed_behind(struct core *c, const struct thread *t)
{
	return t != NULL && t->next_listed != 0 ? &c->threads[t->next_listed - 1]
						: NULL;
}

/* What will be read of it. */
static void ask_for_listed(struct core *c, const struct thread *t)
{
	ask_for(t->ts + c->layout.ts_next);
	ask_for(t->ts + c->layout.ts_thread_id);
	if (t->next_listed != 0)
		ask_for((uint64_t)(uintptr_t)&c->threads[t->next_listed - 1]);
}

/*
 * Has the kernel thread ended and left its thread state behind, as C code may?  The
 * kernel takes the id out of the C library's struct then, which is another thread's
 * later.
 */
static bool has_left(struct core *c, uint64_t pthread, uint32_t tid)
{
	uint32_t id;

	return c->pthread_tid_offset != 0 &&
	       (!load32(c, pthread + c->pthread_tid_offset, &id) || id != tid);
}

/* The same of a thread in the table.  One with a frame has not come to its end. */
static bool has_left_bare(struct core *c, const struct thread *t)
{
	return t->in_run && is_bare(c, t->node) && has_left(c, t->pthread, t->tid);
}

/* A thread state seen in a listing, behind another one.  Returns its thread if it was
 * known before. */
static struct thread *list_thread(struct core *c, const struct interpreter *in,
	uint64_t ts, struct thread *before)
{
	struct thread *t = listed_behind(c, before);
	struct ids ids;

	if (t == NULL || t->ts != ts || t->id == 0)
		t = thread_find(c, ts);
	if (!read_ids(c, ts, &ids))
		return NULL;
	if (t != NULL && same_ids(c, t, &ids) && !has_left_bare(c, t)) {
		t->listing = c->listing;
		t->twin = false;
		if (before != NULL)
			before->next_listed = (uint16_t)(t - c->threads + 1);
		return t;
	}
	if (t != NULL)
		thread_end(c, t);
	uint32_t tid = kernel_id(c, &ids);

	if (tid == NO_THREAD)
		return NULL;
	if (walk_has_frame(c, ts))
		enter_thread(c, in, ts, &ids, tid);
	else
		c->unentered = true;
	return NULL;
}

/* One interpreter's list. */
static void list_of(struct core *c, struct interpreter *in)
{
	enum { AHEAD = 8 };
	struct thread *t = NULL, *ahead;
	uint64_t ts, next;

	if (!load64(c, in->address + c->layout.is_threads_head, &ts))
		return;
	in->threads_head = ts;
	ahead = thread_find(c, ts);
	for (uint32_t n = 0; n < AHEAD && ahead != NULL; n++) {
		ask_for_listed(c, ahead);
		ahead = listed_behind(c, ahead);
	}
	for (uint32_t n = 0; ts != 0 && n < MAX_LISTED; n++, ts = next) {
		in->threads_last = ts;
		if (ahead != NULL)
			ask_for_listed(c, ahead);
		ahead = listed_behind(c, ahead);
		t = list_thread(c, in, ts, t);
		if (!load64(c, ts + c->layout.ts_next, &next) || next == ts)
			break;
	}
}

/* Only with several interpreters: which thread states share a kernel thread?  Asked at
 * each listing. */
static void mark_twins(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *a = &c->threads[i];

		for (uint32_t j = i + 1; a->id != 0 && j < c->thread_count; j++) {
			struct thread *b = &c->threads[j];

			if (b->id == 0 || b->tid != a->tid || b->tid == 0)
				continue;
			struct thread *twin = a->last_held < b->last_held ? a : b;

			twin->twin = true;
			/* What their thread uses is the other one's. */
			twin->anew = true;
		}
	}
}

static void list_all(struct core *c)
{
	for (uint32_t i = 0; i < c->interpreter_count; i++)
		list_of(c, &c->interpreters[i]);
	/* The list may have changed under the reading: what was not seen has ended
	 * only if its neighbours do not know it either. */
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id != 0 && t->listing != c->listing && !thread_linked(c, t))
			thread_end(c, t);
	}
}

/* The threads of interpreters that found no room. */
RARE static void count_beyond(struct core *c)
{
	uint64_t at = c->first_beyond, main, ts;
	uint32_t steps = MAX_LISTED;

	main = c->interpreters[MAX_INTERPRETERS - 1].address;
	for (; at != 0 && at != main && steps != 0; steps--) {
		if (!load64(c, at + c->layout.is_threads_head, &ts))
			return;
		for (; ts != 0 && steps != 0; steps--) {
			c->left_out += walk_has_frame(c, ts);
			if (!load64(c, ts + c->layout.ts_next, &ts))
				return;
		}
		if (!load64(c, at + c->layout.is_next, &at))
			return;
	}
}

static bool has_entry(const struct core *c, uint32_t tid)
{
	for (uint32_t i = 0; i < c->thread_count; i++)
		if (c->threads[i].id != 0 && c->threads[i].tid == tid)
			return true;
	return false;
}

/* One that is not in the table as it has no frame.  False: it may be let in later. */
RARE static bool enter_bare(struct core *c, const struct interpreter *in, uint64_t ts)
{
	uint64_t interpreter;
	struct ids ids;

	if (!load64(c, ts + c->layout.ts_interp, &interpreter) ||
		interpreter != in->address || walk_has_frame(c, ts) ||
		!read_ids(c, ts, &ids))
		return false;
	uint32_t tid = kernel_id(c, &ids);

	if (tid == NO_THREAD)
		return true;
	if (tid == 0 || ids.pthread == 0 || has_entry(c, tid))
		return false;
	if (!has_left(c, ids.pthread, tid))
		enter_thread(c, in, ts, &ids, tid);
	return true;
}

/*
 * Those without a frame, once all others are known: a new thread state bears its
 * creator's ids up to the moment it runs (before 3.12), and the creator is in the table
 * by then, as the oldest come first.  Of what is left behind by threads that have ended
 * there may be many.
 */
RARE static void enter_all_bare(struct core *c)
{
	int64_t before = loop_clock(CLOCK_OWN_CPU);

	c->unentered = false;
	for (uint32_t i = 0; i < c->interpreter_count; i++) {
		const struct interpreter *in = &c->interpreters[i];
		uint64_t ts = in->threads_last, next;

		for (uint32_t n = 0; ts != 0 && n < MAX_LISTED; n++, ts = next) {
			if (thread_find(c, ts) == NULL && !enter_bare(c, in, ts))
				c->unentered = true;
			if (!load64(c, ts + c->layout.ts_prev, &next) || next == ts)
				break;
		}
	}
	c->bare_ns = c->now_ns;
	c->bare_step = loop_step(0, loop_clock(CLOCK_OWN_CPU) - before, BARE_MAX_NS);
}

void threads_list(struct core *c)
{
	copy_forget(c);
	c->listing++;
	c->left_out = 0;
	c->relist = c->unentered = false;
	/* There may be two listings in a tick. */
	if (c->listed_ns != c->now_ns)
		c->listed_before_ns = c->listed_ns;
	c->listed_ns = c->now_ns;
	list_all(c);
	if (c->first_beyond != 0)
		count_beyond(c);
	if (c->unentered && c->now_ns - c->bare_ns >= c->bare_step)
		enter_all_bare(c);
	if (c->left_out > c->counters[RING_LOST_THREADS])
		c->counters[RING_LOST_THREADS] = c->left_out;
	/* Those that are new cost more, but who has ended is to be seen soon then. */
	c->list_step = loop_step(LIST_NS,
		(int64_t)(c->thread_count - c->free_threads + c->left_out) * LISTED_NS,
		LIST_MAX_NS);
	if (c->interpreter_count > 1)
		mark_twins(c);
	c->older = false;
}
