/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler of SIGURG: a thread of the program has used so much CPU time, and walks
 * its own frames.  Everything here runs in that thread, at any of its instructions, on
 * its stack or on the alternate one that it has: no lock, no errno, one kind of system
 * call, bounded loops, little stack.
 *
 * Frames may be half made, so each load is a copy by a system call, which cannot
 * fault; also where the sampler loads, as the handlers that mend its faults may be
 * another's by now.  A part of a page is copied at once, in which the frames of several
 * calls lie.
 */
#include "core/core-internal.h"
#include "core/timer.h"

struct handler_memory {
	struct timer_buffer *b;
	int32_t pid;
};

#define PY_MEM struct handler_memory

struct iovec_raw {
	uint64_t base, size;
};

/* What is asked for next lies below as a rule: a caller's frame. */
RARE static bool move_window(struct handler_memory m, uint64_t address)
{
	enum { AHEAD = 128, PAGE = 4096 };
	uint64_t page = address & ~(uint64_t)(PAGE - 1);
	uint64_t end = (address & ~(uint64_t)7) + AHEAD;

	if (end > page + PAGE)
		end = page + PAGE;
	uint64_t start = end - TIMER_WINDOW_BYTES;

	if (start < page)
		start = page;
	struct iovec_raw mine = { (uint64_t)(uintptr_t)m.b->window, end - start };
	struct iovec_raw theirs = { start, end - start };

	m.b->window_bytes = 0;
	if (SYS6(__NR_process_vm_readv, m.pid, &mine, 1, &theirs, 1, 0) !=
		(long)(end - start))
		return false;
	m.b->window_at = start;
	m.b->window_bytes = (uint32_t)(end - start);
	return true;
}

/* None of these crosses a page: they are aligned. */
RARE static bool load_own(
	struct handler_memory m, void *to, uint64_t address, unsigned size)
{
	if (!sane(address) || (address & (size - 1)) != 0)
		return false;
	if (address - m.b->window_at >= m.b->window_bytes && !move_window(m, address))
		return false;
	const uint8_t *from = m.b->window + (address - m.b->window_at);

	if (size == 8)
		__builtin_memcpy(to, from, 8);
	else if (size == 4)
		__builtin_memcpy(to, from, 4);
	else
		*(uint8_t *)to = *from;
	return true;
}

static inline bool py_mem_load64(PY_MEM m, uint64_t address, uint64_t *ret)
{
	return load_own(m, ret, address, 8);
}

static inline bool py_mem_load32(PY_MEM m, uint64_t address, uint32_t *ret)
{
	return load_own(m, ret, address, 4);
}

static inline bool py_mem_load8(PY_MEM m, uint64_t address, uint8_t *ret)
{
	return load_own(m, ret, address, 1);
}

#include "python/frame.h"

/* The instruction as a word holds it: from the code object on, or as the frame has it.
 */
RARE static uint32_t instr_of(const struct py_layout *l, const struct py_frame *f)
{
	uint64_t units;

	switch (l->instr_kind) {
	case PY_INSTR_LASTI_BYTES:
	case PY_INSTR_LASTI_UNITS:
		if ((uint32_t)f->instr == PY_NO_POSITION)
			return TIMER_INSTR_NONE;
		units = l->instr_kind == PY_INSTR_LASTI_BYTES ? f->instr / 2 : f->instr;
		break;
	default:
		units = (f->instr - f->code) / 2;
		break;
	}
	return units <= TIMER_INSTR_MOST ? (uint32_t)units : TIMER_INSTR_BAD;
}

uint64_t timer_handler_instr(const struct py_layout *l, uint64_t code, uint32_t word)
{
	if (word == TIMER_INSTR_NONE)
		return PY_NO_POSITION;
	switch (l->instr_kind) {
	case PY_INSTR_LASTI_BYTES:
		return word * 2;
	case PY_INSTR_LASTI_UNITS:
		return word;
	default:
		return code + word * 2;
	}
}

/* Is the thread state still this thread's? */
RARE static bool same_thread(struct handler_memory m, const struct py_layout *l)
{
	const struct timer_buffer *b = m.b;
	uint64_t pthread, native;

	if (!py_mem_load64(m, b->ts + l->ts_thread_id, &pthread) ||
		pthread != b->pthread)
		return false;
	return (l->flags & PY_HAS_NATIVE_ID) == 0 ||
	       (py_mem_load64(m, b->ts + l->ts_native_id, &native) &&
		       native == b->native);
}

/* As in walk.c: memory of the innermost frames is given back before their caller is
 * made the current frame. */
static bool has_ended(
	const struct py_layout *l, uint64_t top, uint64_t at, uint8_t owner)
{
	enum { CHUNK_LEAST = 16384 };

	return (l->flags & PY_HAS_DATASTACK) != 0 && owner != PY_OWNER_GENERATOR &&
	       at - top < CHUNK_LEAST;
}

/* The chain into the words behind the head.  Returns how many frames it has, 0 for
 * none; those beyond `most` are only counted. */
RARE static uint32_t walk_own(struct handler_memory m, const struct py_layout *l,
	uint32_t most, struct timer_sample *s)
{
	enum { TOP = 8 }; /* behind datastack_chunk */
	uint64_t at, top = 0, outermost = 0;
	uint32_t frames = 0;

	s->complete = false;
	if (!py_frame_first(m, l, m.b->ts, &at))
		return 0;
	if ((l->flags & PY_HAS_DATASTACK) != 0 &&
		!py_mem_load64(m, m.b->ts + l->ts_datastack_chunk + TOP, &top))
		return 0;
	for (uint32_t steps = 0; at != 0; steps++) {
		struct py_frame f;

		if (steps == TIMER_STEPS || (at & 7) != 0 ||
			!py_frame_read(m, l, at, &f) || f.previous == at)
			return frames;
		if (!py_frame_is_entry(l, &f)) {
			if (f.owner > PY_OWNER_GENERATOR)
				return frames;
			if (frames != 0 || !has_ended(l, top, at, f.owner)) {
				if (frames < most)
					timer_set(m.b, TIMER_HEAD_WORDS + frames,
						timer_word(f.code, instr_of(l, &f)));
				frames++;
				if (f.owner != PY_OWNER_GENERATOR)
					outermost = at;
			}
		}
		at = f.previous;
	}
	s->complete = (l->flags & PY_HAS_DATASTACK) == 0 || m.b->root == 0 ||
		      outermost == m.b->root;
	return frames;
}

static void count_lost(struct timer_buffer *b, uint32_t overruns)
{
	b->lost += 1ull + overruns;
	b->full++;
}

RARE static void take(struct core *c, struct timer_buffer *b, uint32_t overruns)
{
	const struct py_layout *l = &c->layout;
	struct handler_memory m = { b, c->args.program_pid };
	struct timer_sample s = { .overruns = overruns };
	uint64_t room = timer_room(b);
	uint32_t most = b->max_frames;

	if (room < TIMER_HEAD_WORDS + 1) {
		count_lost(b, overruns);
		return;
	}
	if (most > room - TIMER_HEAD_WORDS)
		most = (uint32_t)room - TIMER_HEAD_WORDS;
	b->window_bytes = 0;
	uint32_t frames = same_thread(m, l) ? walk_own(m, l, most, &s) : 0;

	if (frames == 0) {
		b->absent += 1ull + overruns;
		return;
	}
	if (frames > most && most < b->max_frames) {
		count_lost(b, overruns);
		return;
	}
	s.stored = frames < most ? frames : most;
	s.missing = frames - s.stored;
	b->full = 0;
	timer_publish(b, &s);
	__atomic_store_n(&c->timers.some, 1, __ATOMIC_RELEASE);
}

/*
 * A timer runs out once: if this handler does not run for it, as another one is there
 * now, no other signal follows.  Nor if nobody has taken anything for long: the sampler
 * is gone.
 */
static void arm_again(const struct timer_buffer *b)
{
	enum { ABSOLUTE = 1 };
	struct itimer_raw when = {
		.at_s = b->next / 1000000000,
		.at_ns = b->next % 1000000000,
	};

	if (b->full < TIMER_FULL_MOST)
		(void)SYS4(__NR_timer_settime, b->timer, ABSOLUTE, &when, NULL);
}

/* Of the kernel's siginfo, for a timer. */
struct siginfo_timer {
	int32_t signo, error, code, pad;
	int32_t timer, overrun;
	uint64_t cookie;
};

/* --- the system call that it came upon --- */

RARE static bool is_call_at(const struct core *c, uint64_t at)
{
	uint8_t call[ARCH_CALL_BYTES] = { 0 };
	struct iovec_raw mine = { (uint64_t)(uintptr_t)call, sizeof(call) };
	struct iovec_raw theirs = { at, sizeof(call) };

	return SYS6(__NR_process_vm_readv, c->args.program_pid, &mine, 1, &theirs, 1,
		       0) == sizeof(call) &&
	       arch_is_call(call);
}

enum other { OTHER_NONE, OTHER_RESTARTS, OTHER_CUTS_SHORT };

/*
 * What the program's handler wants that will run behind this one.  Everything is
 * blocked here, so all that is on its way is pending; the kernel takes what lies lowest
 * first.
 */
RARE static enum other next_signal(const void *context)
{
	enum { SIGNALS = 64 };
	uint64_t pending = 0;

	if (SYS2(__NR_rt_sigpending, &pending, TIMER_SIGNALS_BYTES) < 0)
		return OTHER_NONE;
	pending &= ~(arch_signal_mask(context) | 1ull << (TIMER_SIGNAL - 1));
	for (int sig = 1; sig <= SIGNALS; sig++) {
		struct sigaction_raw action;

		if ((pending >> (sig - 1) & 1) != 0 &&
			SYS4(__NR_rt_sigaction, sig, NULL, &action,
				TIMER_SIGNALS_BYTES) == 0 &&
			action.handler > 1)
			return (action.flags & TIMER_RESTART) != 0 ? OTHER_RESTARTS
								   : OTHER_CUTS_SHORT;
	}
	return OTHER_NONE;
}

/* Calls that say EINTR if a handler without SA_RESTART runs, and are made again if not.
 * (Others are made again whatever runs, or never.) */
RARE static bool may_say_eintr(const void *context)
{
	enum { WAIT = 0, WAIT_BITSET = 9, OPERATION = 127 };

	switch (arch_call_number(context)) {
	case __NR_futex:
		return (arch_call_second(context) & OPERATION) == WAIT ||
		       (arch_call_second(context) & OPERATION) == WAIT_BITSET;
	case __NR_read:
	case __NR_write:
	case __NR_pread64:
	case __NR_pwrite64:
	case __NR_readv:
	case __NR_writev:
	case __NR_preadv:
	case __NR_pwritev:
	case __NR_preadv2:
	case __NR_pwritev2:
	case __NR_open:
	case __NR_openat:
	case __NR_creat:
	case __NR_ioctl:
	case __NR_fcntl:
	case __NR_flock:
	case __NR_accept:
	case __NR_accept4:
	case __NR_connect:
	case __NR_sendto:
	case __NR_sendmsg:
	case __NR_sendmmsg:
	case __NR_recvfrom:
	case __NR_recvmsg:
	case __NR_recvmmsg:
	case __NR_sendfile:
	case __NR_splice:
	case __NR_wait4:
	case __NR_waitid:
	case __NR_mq_timedsend:
	case __NR_mq_timedreceive:
	case __NR_getrandom:
		return true;
	default:
		return false;
	}
}

/*
 * Where a signal of the program's has ended a call, and its handler runs behind this
 * one (ours is taken first, as it is this thread's own or has the lower number), the
 * kernel has asked our SA_RESTART whether the call is made again, and not that
 * handler's.  With no such signal, what has ended the call was a stop, behind which it
 * would begin again; a call with a timeout does not where a handler runs, and that has
 * been ours.
 */
RARE static void mind_call(const struct core *c, struct timer_buffer *b, void *context)
{
	uint64_t behind = arch_behind_eintr(context), again = arch_call_again(context);

	if (again != 0 && may_say_eintr(context) &&
		next_signal(context) == OTHER_CUTS_SHORT && is_call_at(c, again))
		arch_end_call(context, -SYS_EINTR);
	else if (behind != 0 && b != NULL && is_call_at(c, behind - ARCH_CALL_BYTES) &&
		 next_signal(context) == OTHER_NONE)
		b->interrupted++;
}

static bool is_live(const struct timer_buffer *b, int32_t timer)
{
	/* A buffer that was given to another thread has another timer. */
	return __atomic_load_n(&b->live, __ATOMIC_SEQ_CST) != 0 && b->timer == timer;
}

long core_timer_handler(const void *info, struct timer_state *state, void *context)
{
	const struct siginfo_timer *si = info;
	struct core *c = (void *)(uintptr_t)state->core;
	struct timer_buffer *b = timers_buffer(c, (uint32_t)si->cookie);

	if (b == NULL) {
		mind_call(c, NULL, context);
		return 1;
	}
	__atomic_store_n(&b->inside, 1, __ATOMIC_SEQ_CST);
	bool live = is_live(b, si->timer);

	mind_call(c, live ? b : NULL, context);
	if (live) {
		take(c, b, timer_expired(b, loop_clock(CLOCK_OWN_CPU)) - 1);
		/* Blocked, but for the call that let it in. */
		if ((arch_signal_mask(context) & 1ull << (TIMER_SIGNAL - 1)) != 0)
			__atomic_store_n(&b->masked, 1, __ATOMIC_RELAXED);
		else
			arm_again(b);
	}
	__atomic_store_n(&b->inside, 0, __ATOMIC_RELEASE);
	return 1;
}
