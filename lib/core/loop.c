/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a task under orders:
 *
 *   waiting   the interpreter is not up, or its memory does not check out yet
 *   running   one tick a stratum
 *   parked    as sampling is off, or as the recorder is silent: no ticks, a gap in time
 *   stopped   the program was stopped by a signal: likewise
 */
#include <linux/time.h>

#include "core/core-internal.h"

enum {
	CUT_NS = 1000000000,
	/* A thread ends with its program, in the middle of things: what it has not said
	 * by then is lost, and matters more the less there is. */
	THREAD_CUT_NS = 100000000,
	THREAD_CUT_SHARE = 16, /* of the time since the first tick */
	THREAD_CUT_MIN_NS = 5000000,
	THREAD_CUT_ENDING_NS = 1000000,
	/* A thread that wakes up so late, for want of what but a CPU? */
	STOPPED_MIN_NS = 20000000,
	ADAPT_NS = 250000000,
	CLOCK_NS_S = 60,
	/* A look costs some 20 us: at first often, as pauses may be short. */
	PARKED_LOOK_NS = 20000000,
	PARKED_LOOK_LATER_NS = 100000000,
	PARKED_LONG_NS = 1000000000,
	STOPPED_LOOK_NS = 20000000,
	WAITING_LOOK_NS = 2000000,
	LAYOUT_WAIT_S = 10,
	SPIN_CHECK_TICKS = 512,
	SPIN_NS = 900,          /* from tick to tick, on average */
	SPIN_COPY_NS = 40000,   /* by system calls: a reading takes some 15 us */
	CORE_SHARE_PPM = 2000,  /* 0.2 % of a core, whatever the program does */
	SLOWEST_NS = 100000000, /* 10 a second */
};

struct timespec_raw {
	int64_t s, ns;
};

int64_t loop_clock(int clock)
{
	struct timespec_raw ts = { 0, 0 };

	(void)SYS2(__NR_clock_gettime, clock, &ts);
	return ts.s * 1000000000 + ts.ns;
}

int64_t loop_now(struct core *c)
{
	int (*vdso)(int, struct timespec_raw *) =
		(int (*)(int, struct timespec_raw *))(uintptr_t)c->vdso_clock_gettime;
	struct timespec_raw ts;

	if (vdso == NULL || vdso(1 /* CLOCK_MONOTONIC */, &ts) != 0)
		return loop_clock(1);
	return ts.s * 1000000000 + ts.ns;
}

static void send_clocks(struct core *c)
{
	struct record r;

	record_begin(&r, REC_CLOCK);
	record_number(&r, (uint64_t)loop_now(c));
	record_number(&r, (uint64_t)loop_clock(0 /* CLOCK_REALTIME */));
	(void)record_put(c, &r, 0);
	c->clock_sent_ns = c->now_ns;
}

static void set_state(struct core *c, enum ring_state state)
{
	__atomic_store_n(&c->ring.header->state, state, __ATOMIC_RELEASE);
}

/* What the adaptive rate compares begins here. */
static void start_budget(struct core *c)
{
	loop_count_cpu(c);
	c->adapt_own_cpu = (int64_t)c->counters[RING_CPU_NS];
	c->adapt_program_cpu = (int64_t)c->counters[RING_PROGRAM_NS];
	c->adapt_ns = c->now_ns;
}

/* That in hand has no tick yet, unless it is the next one, which has not begun. */
int64_t loop_untold_since(const struct core *c)
{
	int64_t since = (c->options.flags & RING_OPT_SPIN) == 0 ? c->strata.start
								: c->last_tick_ns;

	return since != 0 && since < c->now_ns ? since : c->now_ns;
}

/*
 * Sleep in pieces until the sampler may run again, then go on with a fresh stratum.
 * The runs are closed at the last tick before; the time between weighs nothing, and
 * CPU time used in it is nobody's.
 */
RARE static void park(struct core *c)
{
	c->now_ns = loop_now(c);
	timers_pause(c);
	cpu_settle(c);
	(void)runs_cut(c);
	c->gap_from = loop_untold_since(c);
	c->gap_why = c->park_why;
	runs_publish(c);
	set_state(c, RING_PARKED);
	for (;;) {
		int64_t from = loop_now(c);
		bool fresh = from - c->now_ns < PARKED_LONG_NS;

		(void)alive_sleep(
			c, from + (fresh ? PARKED_LOOK_NS : PARKED_LOOK_LATER_NS));
		if (alive_check(c))
			break;
		/* A thread says it bit by bit, as any may be the last. */
		if (c->gap_why != c->park_why || c->thread) {
			int64_t now = loop_now(c);

			runs_end_gap(c, now);
			c->gap_from = now;
			c->gap_why = c->park_why;
			runs_publish(c);
		}
	}
	c->now_ns = loop_now(c);
	runs_end_gap(c, c->now_ns);
	cpu_resume(c);
	timers_resume(c);
	strata_restart(&c->strata, c->now_ns);
	start_budget(c);
	c->all_changed = c->relist = c->older = true;
	set_state(c, RING_RUNNING);
}

/* The same while the program is stopped by a signal. */
RARE static void sit_out_stop(struct core *c)
{
	cpu_settle(c);
	(void)runs_cut(c);
	c->gap_from = c->stopped_since;
	c->gap_why = REC_GAP_STOPPED;
	runs_publish(c);
	set_state(c, RING_STOPPED);
	do {
		(void)alive_sleep(c, loop_now(c) + STOPPED_LOOK_NS);
		(void)alive_check(c);
	} while (cpu_program_stopped(c));

	int64_t now = loop_now(c);

	runs_end_gap(c, now);
	c->stopped_since = 0;
	c->window_ns = now;
	strata_restart(&c->strata, now);
	set_state(c, RING_RUNNING);
}

/*
 * A thread is stopped together with its program, and finds out behind it: it was late,
 * not for want of a CPU, and the program did not run meanwhile.  (In a fork it does,
 * and who reads its memory waits for that.)
 */
static bool was_stopped(struct core *c, int64_t since)
{
	int64_t late = c->now_ns - since;

	if (!c->thread || late < STOPPED_MIN_NS)
		return false;
	int64_t delay = cpu_own_delay(c);

	return delay >= 0 && delay < late / 2 && cpu_since_window(c, since) < late / 2;
}

/* What was used since the last account was used before the stop. */
RARE static void tell_own_stop(struct core *c, int64_t from)
{
	cpu_settle(c);
	(void)runs_cut(c);
	runs_gap(c, from, c->now_ns, REC_GAP_STOPPED);
	c->cut_ns = c->window_ns = c->now_ns;
	strata_restart(&c->strata, c->now_ns);
	runs_publish(c);
}

/* The program's thread says it when it goes on, which may be after the first ticks. */
static void count_held(struct core *c)
{
	uint64_t ns;

	if (c->args.held_word != 0 && c->counters[RING_HELD_NS] == 0 &&
		load64(c, c->args.held_word, &ns))
		c->counters[RING_HELD_NS] = ns;
}

void loop_count_cpu(struct core *c)
{
	int64_t program = cpu_of_program(c) - c->first_program_cpu;

	count_held(c);
	c->counters[RING_CPU_NS] = (uint64_t)loop_clock(CLOCK_OWN_CPU);
	/* Once it was reaped it has no clock any more. */
	if (program > (int64_t)c->counters[RING_PROGRAM_NS])
		c->counters[RING_PROGRAM_NS] = (uint64_t)program;
}

static void adapt(struct core *c)
{
	loop_count_cpu(c);
	if (c->thread)
		(void)cpu_own_delay(c);

	int64_t own = (int64_t)c->counters[RING_CPU_NS];
	int64_t program = (int64_t)c->counters[RING_PROGRAM_NS];
	int64_t elapsed = c->now_ns - c->adapt_ns;

	if ((c->options.flags & RING_OPT_ADAPTIVE) != 0 && c->adapt_ns != 0)
		strata_set_length(&c->strata, strata_adapt(&c->budget, c->strata.length,
						      elapsed, own - c->adapt_own_cpu,
						      program - c->adapt_program_cpu));
	c->adapt_program_cpu = program;
	c->adapt_own_cpu = own;
	c->adapt_ns = c->now_ns;
}

static int64_t cut_apart(const struct core *c)
{
	int64_t share = (c->now_ns - c->ticks_since_ns) / THREAD_CUT_SHARE;

	if (!c->thread)
		return CUT_NS;
	/* Any tick may be the last one now. */
	if (c->phase == REC_PHASE_FINALIZING)
		return THREAD_CUT_ENDING_NS;
	return share < THREAD_CUT_MIN_NS ? THREAD_CUT_MIN_NS
	       : share > THREAD_CUT_NS   ? THREAD_CUT_NS
					 : share;
}

/* Leaves when memory has looked otherwise than the layout says for long. */
RARE static void prove_layout(struct core *c, int64_t now)
{
	int failed = sample_check_layout(c);

	c->unproven = failed != 0;
	if (failed == 0 || failed == SAMPLE_NO_FRAMES)
		c->unlike_since = 0;
	else if (c->unlike_since == 0)
		c->unlike_since = now;
	else if (now - c->unlike_since > LAYOUT_WAIT_S * 1000000000ll)
		task_leave(c, RING_LEAVE_BAD_LAYOUT, failed);
}

/* What has to be done now and then, after a tick. */
static void after_tick(struct core *c)
{
	if (c->unproven && c->interpreter_count != 0)
		prove_layout(c, c->now_ns);
	if (c->now_ns - c->adapt_ns >= ADAPT_NS)
		adapt(c);
	if (c->now_ns - c->clock_sent_ns >= CLOCK_NS_S * 1000000000ll)
		send_clocks(c);
	if (c->now_ns - c->cut_ns >= cut_apart(c) || c->epoch_full) {
		(void)runs_cut(c);
		c->cut_ns = c->now_ns;
		if (intern_new_epoch(c))
			c->all_changed = true;
	}
	if (c->thread)
		cpu_say_so_far(c);
	runs_publish(c);
	if (c->stopped_since != 0)
		sit_out_stop(c);
}

static void tick(struct core *c)
{
	sample_tick(c);
	c->tick++;
	timers_cycle(c);
	c->last_tick_ns = c->now_ns;
	count(c, RING_TICKS, 1);
}

static void one_stratum(struct core *c)
{
	sample_choose(c);
	if (!alive_sleep(c, c->strata.tick) || !alive_check(c)) {
		park(c);
		return;
	}
	c->now_ns = loop_now(c);
	c->weight_ns = c->strata.length;
	if (was_stopped(c, c->strata.tick)) {
		tell_own_stop(c, c->strata.start);
		return;
	}

	bool late = c->now_ns - c->strata.tick > c->strata.length / 2;

	runs_tick(c, c->strata.start, c->strata.length, late);
	tick(c);
	after_tick(c);

	int64_t end = c->strata.start + c->strata.length;
	uint64_t missed = strata_next(&c->strata, loop_now(c));

	if (missed != 0) {
		count(c, RING_MISSED, missed);
		runs_gap(c, end, c->strata.start, REC_GAP_MISSED);
	}
}

/*
 * When the next of the ticks without strata is due: on average SPIN_NS behind the time
 * at which the last one was.  Counted from the time at which it was taken, each would
 * be late by what it takes to see that it is due; but who is far behind begins anew.
 */
static int64_t next_due(struct core *c)
{
	int64_t apart =
		strata_spacing(&c->strata, reads_by_calls(c) ? SPIN_COPY_NS : SPIN_NS);
	int64_t due = c->learn_until + apart;

	return due - c->now_ns > apart / 2 ? due : c->now_ns + apart;
}

/*
 * As fast as can be.  Back to back the ticks would come sooner after a reading that was
 * known at once than after one that had to be learned, and so weigh calm code more; and
 * as each reading takes lines of memory from the program's core, they would fall in
 * step with its waiting for them.  So the distance from one to the next is random, and
 * what has to be learned ends with it.
 */
static _Noreturn void spin(struct core *c)
{
	int64_t before = loop_now(c);

	c->learn_until = before;

	for (uint32_t n = 0;; n++) {
		if (n % SPIN_CHECK_TICKS == 0) {
			(void)alive_sleep(c, 0);
			if (!alive_check(c)) {
				park(c);
				before = loop_now(c);
			}
		}
		do {
			c->now_ns = loop_now(c);
		} while (c->now_ns < c->learn_until);
		if (was_stopped(c, c->learn_until)) {
			tell_own_stop(c, before);
			before = c->now_ns;
		}
		c->learn_until = next_due(c);
		sample_choose(c);
		c->weight_ns = c->now_ns - before;
		runs_spin_tick(c, before, c->now_ns);
		before = c->now_ns;
		tick(c);
		after_tick(c);
		if (c->stopped_since != 0 || n == 0)
			before = loop_now(c);
	}
}

/*
 * Until there is an interpreter whose memory is as the layout says.  Where it is up and
 * no thread has a frame, as at the prompt of an interactive one, ticks begin, and the
 * first frame has to tell.
 */
RARE static void wait_for_interpreter(struct core *c)
{
	set_state(c, RING_WAITING);
	c->unproven = true;
	for (;;) {
		int64_t now = loop_now(c);

		(void)alive_check(c);
		if (threads_interpreters(c)) {
			prove_layout(c, now);
			if (!c->unproven ||
				(c->unlike_since == 0 &&
					sample_phase(c) != REC_PHASE_STARTING))
				return;
		}
		(void)alive_sleep(c, now + WAITING_LOOK_NS);
	}
}

void loop_run(struct core *c)
{
	int64_t length = (int64_t)c->options.interval_ns;

	c->now_ns = loop_now(c);
	c->first_program_cpu = c->args.forked ? 0 : cpu_of_program(c);
	send_clocks(c);
	runs_publish(c);
	wait_for_interpreter(c);

	c->budget = (struct strata_budget){
		.program_ppm = c->options.overhead_ppm,
		.core_ppm = CORE_SHARE_PPM,
		.shortest = length,
		.longest = length > SLOWEST_NS ? length : SLOWEST_NS,
	};
	c->now_ns = loop_now(c);
	c->cut_ns = c->ticks_since_ns = c->now_ns;
	c->window_ns = c->now_ns;
	c->relist = c->older = c->young = true;
	strata_init(&c->strata,
		(uint64_t)c->now_ns ^ ((uint64_t)c->ring.header->offer.tid << 32),
		c->now_ns, length);
	/* Where sampling is off from the start, not one tick is taken. */
	if (alive_check(c))
		set_state(c, RING_RUNNING);
	else
		park(c);
	adapt(c);
	if ((c->options.flags & RING_OPT_SPIN) != 0)
		spin(c);
	for (;;)
		one_stratum(c);
}
