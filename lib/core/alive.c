/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the task's life hangs on: the program, the recorder, its orders.
 *
 * The program's death shows on a pidfd, which every sleep polls.  Its exec shows
 * in the main thread's clear_child_tid word, which the kernel zeroes when the
 * thread lets go of the memory: one load a tick.  The word lies when the C library
 * never set it (musl) or when main called pthread_exit, so a zero is only a hint:
 * kcmp then tells whether the program still has this memory.  Where the word is of
 * no use, kcmp is asked ten times a second.
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
	END_GRACE_NS = 200000000, /* without /proc: an end may yet show */
};

static int64_t seconds(int64_t s)
{
	return s * 1000000000;
}

static bool word_holds(struct core *c)
{
	uint32_t word = 0;

	return load32(c->args.tid_word, &word) && word == (uint32_t)c->args.program_pid;
}

void alive_init(struct core *c)
{
	c->tid_word_good = c->args.tid_word != 0 && word_holds(c);
	c->recorder_beat_ns = loop_now(c);
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
	if (sys_ppoll(fds, 2, timeout_ns) <= 0)
		return;
	if (fds[0].revents != 0)
		task_leave(c, RING_LEAVE_EXITED, 0);
	if (fds[1].revents != 0)
		task_leave(c, RING_LEAVE_RECORDER_GONE, 0);
}

void alive_sleep(struct core *c, int64_t until_ns)
{
	for (;;) {
		int64_t now = loop_now(c);
		int64_t left = until_ns - now;

		/* A sampler that is always late still has to see the end. */
		if (left <= 0 && now - c->polled_ns < POLL_NS)
			return;
		wait_for_an_end(c, left < 0 ? 0 : left > SLEEP_MAX_NS ? SLEEP_MAX_NS : left);
		c->polled_ns = now;
		if (left <= SLEEP_MAX_NS)
			return;
		/* Leaves on an order to; parking waits for the tick. */
		(void)alive_check(c);
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

/* Has the program gone to other memory?  Only a sure no lets the task go on. */
static void check_memory(struct core *c)
{
	if (main_thread_ended(c))
		return;

	long r = SYS5(__NR_kcmp, c->args.program_pid, c->ring.header->offer.tid, KCMP_VM, 0,
		0);

	/* A kernel without kcmp: the pidfd must do. */
	if (r == 0 || r == -SYS_ENOSYS)
		return;
	/* Other memory, or no longer allowed to ask: it has become another program,
	 * unless it ended between the two looks. */
	if (main_thread_ended(c))
		return;
	wait_for_an_end(c, c->stat_fd < 0 ? END_GRACE_NS : 0);
	task_leave(c, RING_LEAVE_EXECED, 0);
}

static void check_program(struct core *c, int64_t now)
{
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
	uint32_t beat = __atomic_load_n(&c->ring.header->recorder_beat, __ATOMIC_RELAXED);

	if (beat != c->recorder_beat) {
		c->recorder_beat = beat;
		c->recorder_beat_ns = now;
		return true;
	}
	if (now - c->recorder_beat_ns > seconds(BEAT_LEAVE_S))
		task_leave(c, RING_LEAVE_RECORDER_GONE, 0);
	return now - c->recorder_beat_ns <= seconds(BEAT_PARK_S);
}

bool alive_check(struct core *c)
{
	struct ring_header *h = c->ring.header;
	uint32_t order = __atomic_load_n(&h->order, __ATOMIC_ACQUIRE);
	int64_t now = loop_now(c);

	if (order == RING_ORDER_LEAVE)
		task_leave(c, RING_LEAVE_ORDERED, 0);
	check_program(c, now);
	h->task_beat++;
	return check_beat(c, now) && order != RING_ORDER_PARK;
}
