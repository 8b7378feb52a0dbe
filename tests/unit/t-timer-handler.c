/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler of a CPU timer, called as the kernel would: what it makes of the frames
 * of its own thread, of chains that have no end or lead nowhere, of a buffer that is
 * full or another's.  The core's file is part of this one, so that it can be seen which
 * timers are armed.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core-internal.h"
#include "core/timer.h"
#include "tap.h"

static long watched_call(long n, long a, long b, long c, long d);

#undef SYS4
#define SYS4(n, a, b, c, d) watched_call(n, (long)(a), (long)(b), (long)(c), (long)(d))
#include "core/timer-handler.c"

/* --- what the rest of the core would say --- */

static struct timer_buffer buffer;
static int64_t now;
static unsigned armed;

static long watched_call(long n, long a, long b, long c, long d)
{
	const struct itimer_raw *when = (const struct itimer_raw *)(uintptr_t)c;

	if (n == __NR_rt_sigaction)
		return syscall(n, a, b, c, d);
	armed += n == __NR_timer_settime && a == buffer.timer && b == 1 && d == 0 &&
		 when->every_ns == 0 &&
		 when->at_s * 1000000000 + when->at_ns == buffer.next;
	return 0;
}

struct timer_buffer *timers_buffer(struct core *c, uint32_t number)
{
	(void)c;
	return number == 7 ? &buffer : NULL;
}

int64_t loop_clock(int clock)
{
	(void)clock;
	return now;
}

/* --- a thread --- */

struct fake_frame {
	uint64_t previous, code, instr;
	uint8_t owner, pad[7];
};

enum { PAGE = 4096, FRAMES = 3 * PAGE / sizeof(struct fake_frame), CODE = 0x100000 };

static struct {
	uint64_t frame, pthread, native, chunk, top;
} thread;

/* The leaf first, between memory that is not there. */
static struct fake_frame *frames;
static struct core core;
static struct timer_state state;

#define AT(x) ((uint64_t)(uintptr_t) & (x))

static void lay_out(void)
{
	struct py_layout *l = &core.layout;

	memset(l, 0xff, sizeof(*l));
	l->flags = PY_HAS_NATIVE_ID | PY_HAS_DATASTACK;
	l->instr_kind = PY_INSTR_POINTER;
	l->ts_frame = 0;
	l->ts_thread_id = 8;
	l->ts_native_id = 16;
	l->ts_datastack_chunk = 24;
	l->fr_previous = 0;
	l->fr_code = 8;
	l->fr_instr = 16;
	l->fr_owner = 24;
	l->code_tag_mask = 0;
}

/* A chain of so many frames, the last n there are. */
static void begin(unsigned n)
{
	memset(&buffer, 0, sizeof(buffer));
	memset(&core, 0, sizeof(core));
	lay_out();
	core.args.program_pid = getpid();
	state.core = AT(core);
	thread.frame = n != 0 ? AT(frames[FRAMES - n]) : 0;
	thread.pthread = 11;
	thread.native = 12;
	thread.top = AT(frames[FRAMES]);
	buffer.ts = AT(thread);
	buffer.pthread = 11;
	buffer.native = 12;
	buffer.root = AT(frames[FRAMES - 1]);
	buffer.max_frames = TIMER_FRAMES;
	buffer.timer = 99;
	buffer.interval_ns = 1000000;
	buffer.random = 1;
	buffer.live = 1;
	now = armed = 0;
	for (unsigned i = 0; i < FRAMES; i++)
		frames[i] = (struct fake_frame){
			.previous = i + 1 < FRAMES ? AT(frames[i + 1]) : 0,
			.code = CODE + 8 * i,
			.instr = CODE + 8 * i + 2 * (i % 100),
		};
}

static uint64_t context[64];

static void expire(void)
{
	struct siginfo_timer info = { .signo = SIGURG, .timer = 99, .cookie = 7 };

	(void)core_timer_handler(&info, &state, context);
}

/* Are they the frames from there on? */
static bool shows(const struct timer_sample *s, unsigned from)
{
	bool good = true;

	for (uint32_t i = 0; i < s->stored; i++) {
		uint64_t w = timer_frame(&buffer, i);

		good &= timer_word_code(w) == CODE + 8 * (from + i) &&
			timer_word_instr(w) == (from + i) % 100;
	}
	return good;
}

static void test_stacks(void)
{
	struct timer_sample s;

	begin(5);
	expire();
	tap_ok(timer_next(&buffer, &s) && s.stored == 5 && s.missing == 0 &&
			s.complete && s.overruns == 0 && shows(&s, FRAMES - 5),
		"the frames of a thread");
	tap_ok(armed == 1 && core.timers.some == 1 && buffer.inside == 0,
		"the timer is armed for the next, and the sampler told");
	timer_consume(&buffer, &s);
	now = buffer.next + 10 * buffer.interval_ns;
	expire();
	tap_ok(timer_next(&buffer, &s) && s.overruns >= 9 && s.overruns <= 11,
		"what comes late counts for all since");

	begin(FRAMES);
	expire();
	tap_ok(timer_next(&buffer, &s) && s.stored == TIMER_FRAMES &&
			s.missing == FRAMES - TIMER_FRAMES && s.complete &&
			shows(&s, 0),
		"those of a deep stack that have room, leaf first; the others counted");

	begin(5);
	buffer.root = 1;
	expire();
	tap_ok(timer_next(&buffer, &s) && s.stored == 5 && !s.complete,
		"a chain that ends elsewhere is not whole");

	begin(5);
	thread.top = AT(frames[FRAMES - 1]);
	thread.frame = thread.top;
	frames[FRAMES - 1].previous = AT(frames[FRAMES - 3]);
	frames[FRAMES - 2].previous = 0;
	buffer.root = AT(frames[FRAMES - 2]);
	expire();
	tap_ok(timer_next(&buffer, &s) && s.stored == 2 && s.complete &&
			shows(&s, FRAMES - 3),
		"a frame that has ended is left out");

	begin(0);
	expire();
	tap_ok(!timer_next(&buffer, &s) && buffer.absent == 1 && armed == 1,
		"a thread without frames has no sample");
	begin(5);
	thread.native = 13;
	expire();
	tap_ok(!timer_next(&buffer, &s) && buffer.absent == 1,
		"nor has a thread state that is another's now");
}

static void test_bad_chains(void)
{
	struct timer_sample s;

	begin(5);
	frames[FRAMES - 1].previous = AT(frames[FRAMES]);
	expire();
	tap_ok(timer_next(&buffer, &s) && s.stored == 5 && !s.complete,
		"a chain into memory that is not there");
	begin(5);
	frames[FRAMES - 1].previous = thread.frame;
	expire();
	tap_ok(timer_next(&buffer, &s) && s.stored == TIMER_FRAMES && !s.complete &&
			s.missing == TIMER_STEPS - TIMER_FRAMES,
		"a circle");
	begin(5);
	frames[FRAMES - 3].previous = AT(frames[FRAMES - 3]);
	expire();
	tap_ok(timer_next(&buffer, &s) && s.stored == 2 && !s.complete,
		"a frame that is its own caller");
	begin(5);
	frames[FRAMES - 3].previous += 4;
	expire();
	tap_ok(timer_next(&buffer, &s) && s.stored == 3 && !s.complete,
		"a frame where none can lie");
	begin(5);
	thread.frame = ARCH_USER_END;
	expire();
	thread.frame = 8;
	expire();
	tap_ok(!timer_next(&buffer, &s) && buffer.absent == 2, "no addresses at all");
}

static void ignore(int sig)
{
	(void)sig;
}

static void test_full(void)
{
	struct timer_sample s;
	uint64_t head;
	unsigned n = 0;

	begin(100);
	while (timer_room(&buffer) > TIMER_HEAD_WORDS + 100 && n++ < 100)
		expire();
	head = buffer.head;
	expire();
	tap_ok(buffer.lost == 1 && buffer.full == 1 && buffer.head == head,
		"what does not fit is counted");
	for (unsigned i = 0; i < 2 * TIMER_FULL_MOST; i++)
		expire();
	tap_ok(armed == n + TIMER_FULL_MOST - 1,
		"when nobody takes anything for long the timer is armed no more");
	bool good = true;

	for (; timer_next(&buffer, &s); n--) {
		good &= s.stored == 100 && shows(&s, FRAMES - 100);
		timer_consume(&buffer, &s);
	}
	tap_ok(good && n == 0, "what is there is whole");
}

static void test_not_ours(void)
{
	struct siginfo_timer info = { .signo = SIGURG, .timer = 98, .cookie = 7 };
	struct timer_sample s;

	begin(5);
	(void)core_timer_handler(&info, &state, context);
	info.timer = 99;
	info.cookie = 8;
	(void)core_timer_handler(&info, &state, context);
	buffer.live = 0;
	expire();
	tap_ok(!timer_next(&buffer, &s) && armed == 0 && buffer.inside == 0,
		"another timer, another buffer, one that is given up");
}

static void test_eintr(void)
{
	static const uint8_t code[] = { 0x0f, 0x05, 0x90, 0x90 };

	begin(5);
	context[ARCH_CONTEXT_RAX] = (uint64_t)-4;
	context[ARCH_CONTEXT_RIP] = AT(code[2]);
	expire();
	tap_ok(buffer.interrupted == 1, "a system call that says EINTR is counted");
	context[ARCH_CONTEXT_RIP] = AT(code[4]);
	expire();
	context[ARCH_CONTEXT_RIP] = 1;
	expire();
	context[ARCH_CONTEXT_RAX] = 4;
	context[ARCH_CONTEXT_RIP] = AT(code[2]);
	expire();
	tap_ok(buffer.interrupted == 1, "what only looks like one is not");
	memset(context, 0, sizeof(context));
}

/* In a call that the kernel has set up to be made again, with a signal on its way whose
 * handler will run behind ours: 1, it is made again; 0, it says EINTR; -1, neither. */
static int made_again(long call, long second, int flags, bool is_blocked)
{
	static const uint8_t code[] = { 0x0f, 0x05, 0x90, 0x90 };
	struct sigaction action = { .sa_flags = flags }, before;
	sigset_t set, mask;
	int again = -1;

	action.sa_handler = ignore;
	begin(5);
	(void)sigfillset(&set);
	(void)pthread_sigmask(SIG_BLOCK, &set, &mask);
	(void)sigaction(SIGUSR1, &action, &before);
	(void)raise(SIGUSR1);
	context[ARCH_CONTEXT_RIP] = AT(code[0]);
	context[ARCH_CONTEXT_RCX] = AT(code[2]);
	context[ARCH_CONTEXT_RAX] = (uint64_t)call;
	context[ARCH_CONTEXT_RSI] = (uint64_t)second;
	context[ARCH_CONTEXT_MASK] = is_blocked ? 1ull << (SIGUSR1 - 1) : 0;
	expire();
	if (context[ARCH_CONTEXT_RIP] == AT(code[0]) &&
		context[ARCH_CONTEXT_RAX] == (uint64_t)call)
		again = 1;
	else if (context[ARCH_CONTEXT_RIP] == AT(code[2]) &&
		 context[ARCH_CONTEXT_RAX] == (uint64_t)-EINTR)
		again = 0;
	(void)signal(SIGUSR1, SIG_IGN);
	(void)sigaction(SIGUSR1, &before, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
	memset(context, 0, sizeof(context));
	return again;
}

static void test_calls(void)
{
	tap_ok(made_again(__NR_read, 0, 0, false) == 0 &&
			made_again(__NR_futex, 128, 0, false) == 0 &&
			made_again(__NR_futex, 137, 0, false) == 0,
		"a call that a signal without SA_RESTART has ended says EINTR");
	tap_ok(made_again(__NR_read, 0, SA_RESTART, false) == 1,
		"with SA_RESTART it is made again");
	tap_ok(made_again(__NR_read, 0, 0, true) == 1,
		"and where the signal is blocked in that thread");
	tap_ok(made_again(__NR_clone, 0, 0, false) == 1 &&
			made_again(__NR_futex, 134, 0, false) == 1,
		"and a call that never says EINTR");

	begin(5);
	context[ARCH_CONTEXT_MASK] = 1ull << (SIGURG - 1);
	expire();
	tap_ok(buffer.masked == 1 && armed == 0,
		"who blocks the signal but for a call has no next one");
	memset(context, 0, sizeof(context));
	begin(5);
	expire();
	tap_ok(buffer.masked == 0 && armed == 1, "who does not has");
}

/* Whatever a thread's memory holds. */
static void test_random(void)
{
	const unsigned rounds = tap_valgrind() ? 1000 : 30000;
	struct timer_sample s;
	bool good = true;
	unsigned samples = 0;

	srandom(1);
	begin(5);
	for (unsigned i = 0; i < rounds; i++) {
		struct fake_frame *f = &frames[(unsigned)random() % FRAMES];
		uint64_t any = (uint64_t)random() << 32 | (uint64_t)random();

		switch (random() % 6) {
		case 0:
			f->previous = any >> random() % 64;
			break;
		case 1:
			f->instr = any;
			break;
		case 2:
			f->owner = (uint8_t)any;
			break;
		case 3:
			f->code = any;
			break;
		default:
			f->previous = AT(frames[(unsigned)random() % FRAMES]);
			break;
		}
		thread.frame = AT(frames[(unsigned)random() % FRAMES]);
		buffer.max_frames = 1 + (unsigned)random() % TIMER_FRAMES;
		expire();
		for (; random() % 3 == 0 && timer_next(&buffer, &s); samples++) {
			good &= s.stored <= TIMER_FRAMES &&
				s.stored + s.missing <= TIMER_STEPS;
			timer_consume(&buffer, &s);
		}
		buffer.full = 0;
	}
	tap_ok(good && samples > rounds / 20, "%u samples of what is not a stack",
		samples);
}

int main(void)
{
	uint8_t *pages = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* Not unmapped: valgrind maps things of its own where there is room. */
	if (pages == MAP_FAILED || mprotect(pages, PAGE, PROT_NONE) != 0 ||
		mprotect(pages + 4 * PAGE, PAGE, PROT_NONE) != 0) {
		printf("Bail out! no memory\n");
		return 1;
	}
	frames = (struct fake_frame *)(void *)(pages + PAGE);
	test_stacks();
	test_bad_chains();
	test_full();
	test_not_ours();
	test_eintr();
	test_calls();
	test_random();
	return tap_done();
}
