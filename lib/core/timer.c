/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU timers, the sampler's side: a timer for each thread, on its CPU clock; their
 * handler; what it has seen (doc/design.md 1.6).
 *
 *   NONE      not asked for, or the interpreter is not up
 *   ON        the handler is installed, and was ours at the last look; threads that may
 *             have one have a timer
 *   TAKEN     another handler was found where ours was: no timers, for good
 *   others    could not begin, and why
 *
 * A thread has no timer while SIGURG is blocked in it, as the signal would lie there
 * for whoever asks what is pending or waits for it; nor if its seccomp filters are not
 * those of this thread, which has tried the one call that the handler makes.
 */
#include "core/timer.h"
#include "core/core-internal.h"
#include "core/memory.h"
#include "core/pages.h"

enum {
	HANDLER_DEFAULT = 0,
	HANDLER_IGNORE = 1,
	FLAG_SIGINFO = 0x4,
	FLAG_RESTORER = 0x04000000,
	FLAG_ONSTACK = 0x08000000,

	THREAD_ID = 4, /* SIGEV_THREAD_ID */
	THREAD_CLOCK = 6,

	CHECK_NS = 10000000, /* one thread's mask and filters so often */
	OPEN_LOOKS = 8,
	BLOCKED_LOOKS = 2,
	APART_NS = 20000000, /* looks, and drains: a buffer is soon full */
	INSIDE_NAP_NS = 100000,
	INSIDE_NAPS = 10000,
	SETTLED_ROUNDS = 2,
};

/* All but what an instruction of the handler itself could raise. */
#define HANDLER_MASK                                                                   \
	(~(1ull << 3 | 1ull << 4 | 1ull << 6 | 1ull << 7 | 1ull << 10 | 1ull << 30))

struct sigevent_raw {
	uint64_t value;
	int32_t signal, notify;
	int32_t tid;
	int32_t pad[11];
};

RARE static void tell(struct core *c, enum ring_timer state, int detail)
{
	c->timers.state = state;
	c->ring.header->timer_detail = detail;
	__atomic_store_n(&c->ring.header->timer_state, state, __ATOMIC_RELEASE);
}

/* --- buffers --- */

/* One that was handed out. */
static struct timer_buffer *buffer_at(const struct core *c, uint32_t number)
{
	return (void *)(c->timers.slab[number / TIMER_SLAB] +
			(uint64_t)(number % TIMER_SLAB) * TIMER_BUFFER_BYTES);
}

struct timer_buffer *timers_buffer(struct core *c, uint32_t number)
{
	uint32_t slab = number / TIMER_SLAB;

	return slab < TIMER_SLABS && c->timers.slab[slab] != 0 ? buffer_at(c, number)
							       : NULL;
}

/* Its number, or -1. */
RARE static int take_buffer(struct core *c)
{
	struct timers *m = &c->timers;
	uint32_t slab = m->used / TIMER_SLAB;
	const uint64_t bytes = (uint64_t)TIMER_SLAB * TIMER_BUFFER_BYTES;

	if (m->free_count != 0) {
		uint16_t number = m->free[m->free_count - 1];

		/* Its last thread may still be in the handler. */
		if (__atomic_load_n(&buffer_at(c, number)->inside, __ATOMIC_SEQ_CST) ==
			0) {
			m->free_count--;
			return number;
		}
	}
	if (slab >= TIMER_SLABS)
		return -1;
	if (m->slab[slab] == 0) {
		long at = SYS6(__NR_mmap, 0, bytes, READ_WRITE, MAP_OWN, -1, 0);

		if (!sys_is_address(at))
			return -1;
		if ((c->args.avoid & CORE_AVOID_UNLOCK) == 0)
			(void)SYS2(__NR_munlock, at, bytes);
		(void)SYS3(__NR_madvise, at, bytes, DONT_FORK);
		m->slab[slab] = (uint64_t)at;
	}
	return (int)m->used++;
}

static void give_back(struct core *c, uint32_t number)
{
	c->timers.free[c->timers.free_count++] = (uint16_t)number;
}

/* --- what the handler has seen --- */

/* Are these the frames of a code object that was there before the sample was taken?
 * What has come into the table since may have taken another one's place. */
static bool is_settled(const struct core *c, uint32_t code)
{
	return c->codes[code].entered + SETTLED_ROUNDS <= c->timers.round;
}

struct shown {
	uint32_t code[TIMER_FRAMES]; /* 0: cannot be told */
	uint32_t position[TIMER_FRAMES];
	uint32_t from, to; /* those that are shown, leaf first */
	bool approximate;
};

/*
 * Where the chain is whole but code has been freed since, what calls that is shown.
 * Where it is not whole, what lies below a frame that cannot be need not be this
 * thread's.
 */
RARE static void resolve(struct core *c, const struct timer_buffer *b,
	const struct timer_sample *s, struct shown *ret)
{
	ret->from = 0;
	ret->to = s->stored;
	ret->approximate = !s->complete;
	copy_forget(c);
	for (uint32_t i = 0; i < ret->to; i++) {
		uint64_t word = timer_frame(b, i), code = timer_word_code(word);
		uint32_t k = code_find(c, code);

		ret->code[i] = k;
		if (k != 0 && timer_word_instr(word) != TIMER_INSTR_BAD &&
			(c->codes[k].shim ||
				py_frame_position(&c->layout, code, c->codes[k].bytes,
					timer_handler_instr(&c->layout, code,
						timer_word_instr(word)),
					&ret->position[i]))) {
			ret->approximate |= !is_settled(c, k);
			continue;
		}
		ret->approximate = true;
		if (s->complete)
			ret->from = i + 1;
		else
			ret->to = i;
	}
}

RARE static uint32_t below(struct core *c, const struct timer_sample *s)
{
	return s->missing == 0 ? 0
			       : node_make(c, 0, 0, REC_NODE_TRUNCATED,
					 1u << (31 - __builtin_clz(s->missing)));
}

RARE static void send(struct core *c, const struct thread *t,
	const struct timer_buffer *b, const struct timer_sample *s)
{
	struct shown w;
	uint32_t node = below(c, s), call = 0;
	uint64_t expired = 1ull + s->overruns;
	bool lost = s->missing != 0 && node == 0;
	struct record r;

	resolve(c, b, s, &w);
	for (uint32_t i = w.to; i-- > w.from && !lost;) {
		if (c->codes[w.code[i]].shim)
			continue;
		node = node_make(c, node, call, REC_NODE_PYTHON, w.code[i]);
		lost = node == 0;
		call = w.position[i] + 1;
	}
	if (node == 0 && !lost) {
		node = node_make(c, 0, 0, REC_NODE_UNREADABLE, 0);
		call = 0;
		w.approximate = true;
	}
	record_begin(&r, REC_TIMER);
	record_number(&r, t->id);
	record_number(&r, node);
	record_number(&r, call);
	record_number(&r, w.approximate ? REC_APPROXIMATE : 0);
	record_number(&r, c->tick - c->cut_base);
	record_number(&r, expired * c->options.timer_ns);
	record_number(&r, 1);
	if (node == 0 || !record_put(c, &r, RING_RESERVE)) {
		count(c, RING_TIMER_LOST, expired);
		return;
	}
	count(c, RING_TIMER_SAMPLES, 1);
	count(c, RING_TIMER_OVERRUNS, s->overruns);
}

RARE static void drain(struct core *c, const struct thread *t, struct timer_buffer *b)
{
	struct timer_sample s;
	uint64_t lost = b->lost, interrupted = b->interrupted;

	while (timer_next(b, &s)) {
		send(c, t, b, &s);
		timer_consume(b, &s);
	}
	/* Nothing that the handler writes; the program's memory may be anything. */
	if (b->tail != __atomic_load_n(&b->head, __ATOMIC_ACQUIRE) &&
		!timer_next(b, &s))
		timer_skip(b);
	count(c, RING_TIMER_LOST, lost - b->lost_told);
	b->lost_told = lost;
	count(c, RING_TIMER_INTERRUPTED, interrupted - b->interrupted_told);
	b->interrupted_told = interrupted;
}

RARE static void drain_all(struct core *c)
{
	if (__atomic_exchange_n(&c->timers.some, 0, __ATOMIC_ACQ_REL) == 0)
		return;
	c->timers.round++;
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id != 0 && t->timer != 0)
			drain(c, t, buffer_at(c, t->timer - 1u));
	}
}

/* --- timers --- */

/* Its own mask was seen: one that it waits with alone hid that it blocks the signal. */
static bool was_caught(const struct core *c, const struct thread *t)
{
	return t->timer != 0 && __atomic_load_n(&buffer_at(c, t->timer - 1u)->masked,
					__ATOMIC_RELAXED) != 0;
}

RARE static void note_blocked(struct core *c, struct thread *t)
{
	t->timer_open = 0;
	/* Seen once it may be about to end, or to start a program. */
	if (t->timer_blocked < BLOCKED_LOOKS && ++t->timer_blocked < BLOCKED_LOOKS)
		return;
	c->ring.header->timer_blocked += !t->timer_told;
	t->timer_told = true;
}

/*
 * May a timer send it the signal?  Who was seen to block it has to be seen several
 * times not to: where it runs it may be in a call with a mask of its own.  had: what it
 * has, if that cannot be told now.
 */
RARE static bool is_open(
	struct core *c, struct thread *t, const struct standing *s, bool had)
{
	switch (was_caught(c, t) ? MASK_BLOCKED : s->mask) {
	case MASK_OPEN:
		t->timer_open = OPEN_LOOKS;
		break;
	case MASK_SEEMS_OPEN:
		t->timer_open += t->timer_open < OPEN_LOOKS;
		break;
	case MASK_BLOCKED:
		note_blocked(c, t);
		return false;
	case MASK_HIDDEN:
		return false;
	case MASK_PASSING:
		return had;
	}
	if (t->timer_blocked != 0 && t->timer_open < OPEN_LOOKS)
		return had;
	t->timer_blocked = 0;
	return true;
}

/* May a timer send it a signal, and may its handler make its calls there? */
RARE static bool may_have_timer(struct core *c, struct thread *t, bool had)
{
	const struct timers *m = &c->timers;
	struct standing s;

	return standing_of(c, t->tid, TIMER_SIGNAL, &s) && is_open(c, t, &s, had) &&
	       s.mode == m->mode && s.filters == m->filters && s.queued < m->queue_most;
}

/* Two thread states of one kernel thread are one timer's. */
RARE static bool has_other(struct core *c, const struct thread *t)
{
	if (c->interpreter_count < 2)
		return false;
	for (uint32_t i = 0; i < c->thread_count; i++) {
		const struct thread *o = &c->threads[i];

		if (o->id != 0 && o != t && o->tid == t->tid && o->timer != 0)
			return true;
	}
	return false;
}

static uint64_t next_random(struct timers *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

RARE static void fill_buffer(
	struct core *c, const struct thread *t, struct timer_buffer *b)
{
	uint32_t most = c->options.max_stack;

	b->ts = t->ts;
	b->pthread = t->pthread;
	b->native = t->native;
	b->root = walk_stack_root(c, t->ts);
	b->max_frames = most < TIMER_FRAMES ? most : TIMER_FRAMES;
	b->full = 0;
	b->masked = 0;
	b->tail = b->head;
	b->lost_told = b->lost;
	b->interrupted_told = b->interrupted;
}

/* Returns 0 or a negative errno. */
RARE static int make_timer(
	struct core *c, const struct thread *t, struct timer_buffer *b, uint32_t number)
{
	struct timers *m = &c->timers;
	const int64_t interval = c->options.timer_ns;
	const int clock = (int)((~t->tid << 3) | THREAD_CLOCK);
	struct sigevent_raw event = {
		.value = (uint64_t)m->secret << 32 | number,
		.signal = TIMER_SIGNAL,
		.notify = THREAD_ID,
		.tid = (int32_t)t->tid,
	};

	b->interval_ns = interval;
	b->random = next_random(m) | 1;
	b->stratum = loop_clock(clock) - interval;
	timer_next_stratum(b);
	/* Not at an instant of its clock, as the handler does it: one that is over by
	 * then would run out here, and wake a thread that sleeps.  In no time it runs
	 * out at the thread's next tick. */
	int64_t first = b->next - b->stratum + 1;
	struct itimer_raw when = {
		.at_s = first / 1000000000,
		.at_ns = first % 1000000000,
	};
	long r = SYS3(__NR_timer_create, clock, &event, &b->timer);

	if (r < 0)
		return (int)r;
	__atomic_store_n(&b->live, 1, __ATOMIC_SEQ_CST);
	r = SYS4(__NR_timer_settime, b->timer, 0, &when, NULL);
	if (r >= 0)
		return 0;
	__atomic_store_n(&b->live, 0, __ATOMIC_SEQ_CST);
	(void)SYS1(__NR_timer_delete, b->timer);
	return (int)r;
}

void timers_begin(struct core *c, struct thread *t)
{
	if (c->timers.state != RING_TIMER_ON || c->timers.paused || t->timer != 0 ||
		t->tid == 0 || has_other(c, t) || !may_have_timer(c, t, false))
		return;
	int number = take_buffer(c);

	if (number < 0)
		return;
	struct timer_buffer *b = buffer_at(c, (uint32_t)number);

	fill_buffer(c, t, b);
	if (make_timer(c, t, b, (uint32_t)number) != 0) {
		give_back(c, (uint32_t)number);
		return;
	}
	t->timer = (uint16_t)(number + 1);
}

void timers_end(struct core *c, struct thread *t)
{
	if (t->timer == 0)
		return;
	struct timer_buffer *b = buffer_at(c, t->timer - 1u);

	(void)SYS1(__NR_timer_delete, b->timer);
	__atomic_store_n(&b->live, 0, __ATOMIC_SEQ_CST);
	drain(c, t, b);
	give_back(c, t->timer - 1u);
	t->timer = 0;
}

RARE static void begin_all(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++)
		if (c->threads[i].id != 0)
			timers_begin(c, &c->threads[i]);
}

RARE static void end_all(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++)
		if (c->threads[i].id != 0)
			timers_end(c, &c->threads[i]);
}

/* --- the handler --- */

extern const unsigned char core_timer_begin[] __attribute__((visibility("hidden")));
extern const unsigned char core_timer_end[] __attribute__((visibility("hidden")));

static struct timer_state *state_of(uint64_t page)
{
	return (struct timer_state *)(page + TIMER_PAGE);
}

/*
 * In those of a parent, which are wiped, and of a start that has ended nobody takes
 * samples.  But a thread may be in that start's handler still (a debugger holds it): it
 * will count itself out, so the count is not for another start to begin with.
 */
RARE static bool are_free(struct core *c, uint64_t page)
{
	const uint64_t at = page + TIMER_PAGE;
	uint64_t entry;
	uint32_t inside;

	/* One after the other: none goes in any more, then none is in. */
	return load_bytes(c, &entry, at, sizeof(entry)) && entry == 0 &&
	       load_bytes(c, &inside, at + offsetof(struct timer_state, inside),
		       sizeof(inside)) &&
	       inside == 0;
}

static struct pages make_pages(void)
{
	return (struct pages){
		.name = 0x7079737474696d72,
		.begin = core_timer_begin,
		.end = core_timer_end,
		.wiped = true,
		.are_free = are_free,
	};
}

/* Does an action lead to pages that an earlier start has left? */
RARE static bool is_stale(struct core *c, uint64_t page)
{
	const struct pages p = make_pages();
	uint64_t entry;

	return page > HANDLER_IGNORE && pages_have_code(c, &p, page) &&
	       load_bytes(c, &entry, page + TIMER_PAGE, sizeof(entry)) && entry == 0;
}

static long exchange(const struct sigaction_raw *new, struct sigaction_raw *ret_old)
{
	*ret_old = (struct sigaction_raw){ 0 };
	return SYS4(__NR_rt_sigaction, TIMER_SIGNAL, new, ret_old, TIMER_SIGNALS_BYTES);
}

RARE static void make_action(uint64_t page, struct sigaction_raw *ret)
{
	*ret = (struct sigaction_raw){
		.handler = page,
		.flags = TIMER_RESTART | FLAG_SIGINFO | FLAG_ONSTACK | FLAG_RESTORER,
		.restorer = page + TIMER_AT_RETURN,
		.mask = HANDLER_MASK,
	};
}

/* As we have put it there, its flags too: somebody may want calls cut short by it. */
static bool is_ours(const struct core *c, const struct sigaction_raw *a)
{
	return a->handler == c->timers.page &&
	       a->flags ==
		       (TIMER_RESTART | FLAG_SIGINFO | FLAG_ONSTACK | FLAG_RESTORER);
}

/*
 * Put the default there in place of ours, with which the kernel drops what is queued
 * for any thread.  Not while one of the program's is, for who waits for it: a handler
 * that does nothing is as good as none.  What comes out and is not ours goes back.
 * False: that was so.
 */
RARE static bool take_out(struct core *c)
{
	struct sigaction_raw standard = { 0 }, out;
	struct standing own;

	if (exchange(NULL, &out) < 0 || !is_ours(c, &out) ||
		(standing_of(c, c->timers.tid, TIMER_SIGNAL, &own) && own.pending) ||
		exchange(&standard, &out) < 0)
		return false;
	if (is_ours(c, &out))
		return true;
	struct sigaction_raw back = out;

	(void)exchange(&back, &out);
	return false;
}

/*
 * A signal of a timer that is deleted may lie in a thread that blocks it now, for
 * whoever asks what is pending there.
 */
RARE static void drop_queued(struct core *c)
{
	struct sigaction_raw action, out;

	/* What is dropped of other threads' would not be followed by more. */
	end_all(c);
	if (!take_out(c)) {
		if (exchange(NULL, &out) >= 0 && is_ours(c, &out))
			begin_all(c);
		return;
	}
	make_action(c->timers.page, &action);
	/* Somebody came between the two: timers_look() sees it. */
	if (exchange(&action, &out) >= 0 && out.handler != HANDLER_DEFAULT) {
		action = out;
		(void)exchange(&action, &out);
		return;
	}
	begin_all(c);
}

/* Masks and filters change: one thread after the other is looked at again. */
RARE static void check_one(struct core *c)
{
	struct timers *m = &c->timers;
	struct standing own;

	if (c->now_ns - m->checked_ns < CHECK_NS || c->thread_count == 0)
		return;
	m->checked_ns = c->now_ns;
	m->next_checked = (m->next_checked + 1) % c->thread_count;
	struct thread *t = &c->threads[m->next_checked];

	if (t->id == 0)
		return;
	/* What was put on all threads is on this one, too. */
	if (standing_of(c, m->tid, TIMER_SIGNAL, &own) &&
		(own.mode != m->mode || own.filters != m->filters)) {
		end_all(c);
		tell(c, RING_TIMER_FILTERED, 0);
	} else if (t->timer == 0) {
		timers_begin(c, t);
	} else if (!may_have_timer(c, t, true)) {
		timers_end(c, t);
		drop_queued(c);
	}
}

/* Can the handler make its calls?  This thread has the same filters. */
RARE static int try_read(struct core *c)
{
	uint64_t word = 0;
	struct {
		uint64_t base, size;
	} mine = { (uint64_t)(uintptr_t)&word, 8 }, theirs = { c->args.arena, 8 };

	if ((c->args.avoid & CORE_AVOID_READV) != 0)
		return -SYS_EPERM;
	long r = SYS6(
		__NR_process_vm_readv, c->args.program_pid, &mine, 1, &theirs, 1, 0);

	if (r >= 0)
		r = SYS2(__NR_rt_sigpending, &word, TIMER_SIGNALS_BYTES);
	return r < 0 ? (int)r : 0;
}

RARE static void install(struct core *c)
{
	struct timers *m = &c->timers;
	struct sigaction_raw action, old;
	const struct pages p = make_pages();
	bool stale;
	long r = exchange(NULL, &old);

	stale = r >= 0 && is_stale(c, old.handler);
	if (r >= 0 && old.handler != HANDLER_DEFAULT && !stale) {
		c->ring.header->timer_owner = old.handler;
		tell(c, RING_TIMER_USED, 0);
		return;
	}
	if (r >= 0)
		r = stale && are_free(c, old.handler) ? (long)old.handler
						      : pages_find(c, &p);
	if (!sys_is_address(r)) {
		tell(c, RING_TIMER_REFUSED, (int)-r);
		return;
	}
	m->page = (uint64_t)r;
	struct timer_state *s = state_of(m->page);

	__atomic_store_n(&c->ring.header->timer_page, m->page, __ATOMIC_SEQ_CST);
	s->secret = m->secret;
	s->core = (uint64_t)(uintptr_t)c;
	uint64_t entry = (uint64_t)(uintptr_t)core_timer_handler;

	__asm__("" : "+r"(entry));
	__atomic_store_n(&s->entry, entry, __ATOMIC_RELEASE);
	make_action(m->page, &action);
	uint64_t before = old.handler;

	r = exchange(&action, &old);
	if (r >= 0 && old.handler == before) {
		tell(c, RING_TIMER_ON, 0);
		return;
	}
	__atomic_store_n(&s->entry, 0, __ATOMIC_RELEASE);
	/* Somebody came between the two. */
	if (r >= 0) {
		action = old;
		(void)exchange(&action, &old);
		c->ring.header->timer_owner = action.handler;
	}
	tell(c, r >= 0 ? RING_TIMER_USED : RING_TIMER_REFUSED, r < 0 ? (int)-r : 0);
}

RARE static void start(struct core *c)
{
	struct timers *m = &c->timers;
	struct standing own;
	uint64_t limit[2] = { 0, 0 };

	m->tid = (uint32_t)SYS0(__NR_gettid);
	m->random = (uint64_t)loop_now(c) * 2 + 1;
	m->secret = (uint32_t)(mix(next_random(m), c->args.arena) >> 16) | 1;
	int r = try_read(c);

	if ((c->args.avoid & CORE_AVOID_TIMERS) != 0) {
		tell(c, RING_TIMER_REFUSED, SYS_EPERM);
		return;
	}
	if (r != 0) {
		tell(c, RING_TIMER_NO_READ, -r);
		return;
	}
	if (!standing_of(c, m->tid, TIMER_SIGNAL, &own)) {
		tell(c, RING_TIMER_NO_PROC, 0);
		return;
	}
	m->mode = own.mode;
	m->filters = own.filters;
	/* Timers count for RLIMIT_SIGPENDING, as what the program queues does. */
	if (SYS4(__NR_prlimit64, 0, 11, NULL, limit) < 0 || limit[0] > UINT32_MAX)
		limit[0] = UINT32_MAX;
	m->queue_most = limit[0] / 2;
	install(c);
	if (m->state == RING_TIMER_ON)
		begin_all(c);
}

/* Somebody else uses the signal now. */
RARE static void stand_aside(struct core *c, uint64_t owner)
{
	end_all(c);
	__atomic_store_n(&state_of(c->timers.page)->entry, 0, __ATOMIC_SEQ_CST);
	count(c, RING_TIMER_YIELDED, 1);
	c->ring.header->timer_owner = owner;
	tell(c, RING_TIMER_TAKEN, 0);
}

void timers_look(struct core *c)
{
	struct sigaction_raw now;

	if (c->timers.state == RING_TIMER_ON &&
		(exchange(NULL, &now) < 0 || !is_ours(c, &now)))
		stand_aside(c, now.handler);
}

int64_t timers_apart(const struct core *c, int64_t most)
{
	return c->timers.state == RING_TIMER_ON && most > APART_NS ? APART_NS : most;
}

void timers_take(struct core *c)
{
	if (c->timers.state == RING_TIMER_ON)
		drain_all(c);
}

void timers_cycle(struct core *c)
{
	if (c->options.timer_ns == 0 || !c->thread)
		return;
	/* Not before Python's signal module has seen what the program has. */
	if (c->timers.state == RING_TIMER_NONE && c->phase == REC_PHASE_RUNNING)
		start(c);
	if (c->timers.state != RING_TIMER_ON)
		return;
	drain_all(c);
	check_one(c);
}

void timers_pause(struct core *c)
{
	c->timers.paused = true;
	end_all(c);
}

void timers_resume(struct core *c)
{
	c->timers.paused = false;
	begin_all(c);
}

void timers_stop(struct core *c)
{
	struct timers *m = &c->timers;
	const uint64_t bytes = (uint64_t)TIMER_SLAB * TIMER_BUFFER_BYTES;

	if (m->page == 0)
		return;
	end_all(c);
	(void)take_out(c);
	struct timer_state *s = state_of(m->page);

	__atomic_store_n(&s->entry, 0, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; __atomic_load_n(&s->inside, __ATOMIC_SEQ_CST) != 0; i++) {
		if (i == INSIDE_NAPS)
			return;
		(void)sys_ppoll(NULL, 0, INSIDE_NAP_NS);
	}
	m->page = 0;
	m->state = RING_TIMER_NONE;
	for (unsigned i = 0; i < TIMER_SLABS; i++) {
		if (m->slab[i] != 0)
			(void)SYS2(__NR_munmap, m->slab[i], bytes);
		m->slab[i] = 0;
	}
	__atomic_store_n(&c->ring.header->timer_page, 0, __ATOMIC_RELEASE);
}
