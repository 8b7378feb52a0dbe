/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the task's life hangs on: the program, the recorder, its orders.
 *
 * The program's death shows on a pidfd, which is polled by the sleeps, if they are
 * short by one every 10 ms.  Its exec shows in the main thread's clear_child_tid word,
 * which the kernel zeroes when the thread lets go of the memory: one load a tick.  The
 * word lies when the C library never set it (musl) or when main called pthread_exit, so
 * a zero is only a hint, and the kernel is asked whether the program still has this
 * memory: by kcmp, or, where that is not allowed (the program has capabilities, the
 * task gave its own up), by the size of the address space, which /proc tells of both.
 * Where the word is of no use, that is asked ten times a second.
 *
 * A thread ends with its program, also at exec, by itself.  But a program whose main
 * thread has ended goes on until the last of its threads has, and that must not be
 * ours: while the main thread is dead the threads are counted.  Without /proc they
 * cannot be, and our thread leaves once the main thread is dead.
 *
 * Nor must it keep what the program gives up: its user, or calls that a filter forbids,
 * which each thread does for itself.  Whoever writes this thread's stack could use
 * them. So it leaves when either changes, and the recorder attaches anew.
 *
 * The recorder's death shows on a socket or a pidfd; where neither is to be had
 * its beat tells: 5 s without one parks the sampler, 10 minutes end the task.
 */
#include <linux/kcmp.h>

#include "core/core-internal.h"

enum {
	BEAT_PARK_S = 5,
	BEAT_LEAVE_S = 600,
	MM_CHECK_NS = 100000000,
	SLEEP_MAX_NS = 100000000, /* orders are seen at least this often */
	POLL_NS = 10000000,
	END_GRACE_NS = 200000000, /* in which an end is yet to show */
	END_NAP_NS = 1000000,
	STATUS_BYTES = 4096,
	SIZE_TRIES = 5, /* the size may change between the two readings */
};

static int64_t seconds(int64_t s)
{
	return s * 1000000000;
}

/* The main thread's id in most C libraries, a state in glibc 2.43; never 0 while the
 * thread lives, but for musl. */
static bool word_holds(struct core *c)
{
	uint32_t word = 0;

	copy_forget(c);
	return load32(c, c->args.tid_word, &word) && word != 0;
}

/* Users and filters of the main thread as one number; 0 where they are not told. */
static uint64_t read_rights(struct core *c)
{
	char text[STATUS_BYTES];
	uint64_t hash = 0;
	bool line_begins = true, taken = false;
	long n =
		c->status_fd >= 0 ? sys_pread(c->status_fd, text, sizeof(text) - 8) : 0;

	for (long i = 0; i < n; i++) {
		if (line_begins)
			taken = memcmp(text + i, "Uid:", 4) == 0 ||
				memcmp(text + i, "Seccomp", 7) == 0;
		line_begins = text[i] == '\n';
		if (taken)
			hash = mix(hash + 1, (uint8_t)text[i]);
	}
	return hash;
}

void alive_init(struct core *c)
{
	c->rights = read_rights(c);
	c->tid_word_good = !c->thread && word_holds(c);
	c->recorder_beat_ns = loop_now(c);
}

static long ppoll_or_leave(
	struct core *c, struct sys_pollfd *fds, unsigned count, int64_t timeout_ns)
{
	long n = sys_ppoll(fds, count, timeout_ns);

	/* A task that cannot sleep would spin, and not see the ends. */
	if (n < 0 && n != -SYS_EINTR && n != -SYS_EAGAIN && n != -SYS_ENOMEM)
		task_leave(c, RING_LEAVE_SYSCALL, (int)-n);
	return n;
}

/* Leaves when the process behind a pidfd has ended or a socket's peer is gone;
 * returns after at most timeout_ns otherwise. */
static void wait_for_an_end(struct core *c, int64_t timeout_ns)
{
	struct sys_pollfd fds[2] = {
		{ .fd = c->program_pidfd, .events = SYS_POLLIN },
		{ .fd = c->recorder_pidfd, .events = SYS_POLLIN },
	};
	/* A negative descriptor is passed over by the kernel. */
	if (ppoll_or_leave(c, fds, 2, timeout_ns) <= 0)
		return;
	if (fds[0].revents != 0)
		task_leave(c, RING_LEAVE_EXITED, 0);
	if (fds[1].revents != 0)
		task_leave(c, RING_LEAVE_RECORDER_GONE, 0);
}

bool alive_sleep(struct core *c, int64_t until_ns)
{
	for (;;) {
		int64_t now = loop_now(c);
		int64_t left = until_ns > now ? until_ns - now : 0;

		/* Short sleeps need not ask each time, but who is always late still has
		 * to see the end. */
		if (now + left - c->polled_ns < POLL_NS) {
			if (left != 0)
				(void)ppoll_or_leave(c, NULL, 0, left);
			return true;
		}
		int64_t most = timers_apart(c, SLEEP_MAX_NS);

		wait_for_an_end(c, left > most ? most : left);
		c->polled_ns = now;
		if (left <= most)
			return true;
		if (!alive_check(c))
			return false;
		timers_take(c);
	}
}

/*
 * The main thread has ended: the program too, unless other threads go on.  An exec
 * by one of them would have put a living main thread in its place.
 */
static bool main_thread_ended(struct core *c)
{
	char state = cpu_main_state(c);

	if (state != 'Z' && state != 'X')
		return false;
	wait_for_an_end(c, 0);
	return true;
}

/* Two address spaces that are one have the same size, at the same instant. */
static bool same_size(struct core *c)
{
	for (int i = 0; i < SIZE_TRIES; i++) {
		uint64_t theirs = cpu_address_space(c->stat_fd);

		if (theirs != 0 && theirs == cpu_address_space(c->self_stat_fd))
			return true;
	}
	return false;
}

/* Of a thread, without /proc: a dead main thread has let go of the memory.  Leaves
 * where that cannot be told. */
static bool main_has_memory(struct core *c)
{
	int32_t pid = c->args.program_pid, tid = c->ring.header->offer.tid;
	uint8_t byte;
	struct {
		void *base;
		uint64_t size;
	} here = { &byte, 1 }, there = { &c->args, 1 };
	long r = (c->args.avoid & CORE_AVOID_KCMP) != 0
			 ? -SYS_EPERM
			 : SYS5(__NR_kcmp, pid, tid, KCMP_VM, 0, 0);

	if (r >= 0)
		return r == 0;
	r = SYS6(__NR_process_vm_readv, pid, &here, 1, &there, 1, 0);
	if (r < 0 && r != -SYS_ESRCH)
		task_leave(c, RING_LEAVE_SYSCALL, (int)-r);
	return r == 1;
}

/* Is this thread the last one of the program that lives, or may it be? */
static bool is_last_thread(struct core *c)
{
	enum { DEAD_MAIN_AND_US = 2 };
	char state = cpu_main_state(c);

	if (state == '?')
		return !main_has_memory(c);
	if (state != 'Z' && state != 'X')
		return false;
	return cpu_thread_count(c) <= DEAD_MAIN_AND_US;
}

static void check_threads(struct core *c, int64_t now)
{
	uint64_t word;

	if (now - c->mm_checked_ns < MM_CHECK_NS)
		return;
	c->mm_checked_ns = now;
	if (is_last_thread(c))
		task_leave(c, RING_LEAVE_EXITED, 0);
	if (c->rights == 0 || read_rights(c) == c->rights)
		return;
	/* Where they include those to read memory, that is what is told. */
	copy_forget(c);
	(void)load64(c, c->options.runtime, &word);
	task_leave(c, RING_LEAVE_RIGHTS, 0);
}

/* Does the program still have this memory? */
static bool same_memory(struct core *c)
{
	long r = (c->args.avoid & CORE_AVOID_KCMP) != 0
			 ? -SYS_EPERM
			 : SYS5(__NR_kcmp, c->args.program_pid,
				   c->ring.header->offer.tid, KCMP_VM, 0, 0);

	return r == 0 || (r < 0 && same_size(c));
}

/*
 * Has the program gone to other memory?  Only a sure no lets the task go on.  One that
 * is ending has none any more for a moment, before it can be seen to have ended.
 */
static void check_memory(struct core *c)
{
	if (main_thread_ended(c) || same_memory(c))
		return;
	int64_t end = loop_now(c) + END_GRACE_NS;

	do {
		if (main_thread_ended(c))
			return;
		if (cpu_address_space(c->stat_fd) != 0)
			break;
		wait_for_an_end(c, END_NAP_NS);
	} while (loop_now(c) < end);
	task_leave(c, RING_LEAVE_EXECED, 0);
}

static void check_program(struct core *c, int64_t now)
{
	if (c->thread) {
		check_threads(c, now);
		return;
	}
	if (c->tid_word_good) {
		if (word_holds(c))
			return;
		c->tid_word_good = false;
	} else if (now - c->mm_checked_ns < MM_CHECK_NS) {
		return;
	}
	c->mm_checked_ns = now;
	check_memory(c);
}

static bool check_beat(struct core *c, int64_t now)
{
	uint32_t beat =
		__atomic_load_n(&c->ring.header->recorder_beat, __ATOMIC_RELAXED);

	if (beat != c->recorder_beat) {
		c->recorder_beat = beat;
		c->recorder_beat_ns = now;
		return true;
	}
	if (now - c->recorder_beat_ns > seconds(BEAT_LEAVE_S))
		task_leave(c, RING_LEAVE_RECORDER_GONE, 0);
	return now - c->recorder_beat_ns <= seconds(BEAT_PARK_S);
}

/* The recorder wants to have all until now: to change files, or to show it. */
static void serve_cut(struct core *c, int64_t now)
{
	uint32_t before = c->cut_seen;
	uint32_t wanted =
		__atomic_load_n(&c->ring.header->cut_wanted, __ATOMIC_ACQUIRE);

	if (wanted == before)
		return;
	if (c->gap_from != 0) {
		runs_gap(c, c->gap_from, now, c->gap_why);
		c->gap_from = now;
	} else {
		c->now_ns = now;
		cpu_settle(c);
	}
	c->cut_seen = wanted;
	if (runs_cut(c))
		c->cut_ns = now;
	else
		c->cut_seen = before;
	runs_publish(c);
}

bool alive_check(struct core *c)
{
	struct ring_header *h = c->ring.header;
	uint32_t order = __atomic_load_n(&h->order, __ATOMIC_ACQUIRE);
	int64_t now = loop_now(c);

	if (order == RING_ORDER_LEAVE)
		task_leave(c, RING_LEAVE_ORDERED, 0);
	check_program(c, now);
	copy_look(c);
	timers_look(c);
	h->task_beat++;
	serve_cut(c, now);
	bool heard = check_beat(c, now);

	c->park_why = order == RING_ORDER_PARK ? REC_GAP_DISABLED : REC_GAP_PARKED;
	return heard && order != RING_ORDER_PARK;
}
