/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the thread isolation: chunks and their age, the edges of memory, each
 * system call refused at each moment, and every edge between the states.  The core's
 * file is part of this one, so that its system calls can be counted, answered for the
 * kernel, and followed by what others do at that moment.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "core/core-internal.h"
#include "tap.h"

static long watched_call(long n, long a, long b, long c, long d, long e, long f);

#undef SYS6
#define SYS6(n, a, b, c, d, e, f)                                                      \
	watched_call(                                                                  \
		n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#include "core/copy.c"
#include "core/pages.c"

/* --- the kernel --- */

static struct {
	long answer[512]; /* 0: the kernel's own; else what the call returns */
	unsigned calls[512];
	/* Run behind a call of this number, each time. */
	long behind;
	void (*then)(void);
} kernel;

static long watched_call(long n, long a, long b, long c, long d, long e, long f)
{
	long r = kernel.answer[n];

	kernel.calls[n]++;
	if (r == 0)
		r = arch_syscall(n, a, b, c, d, e, f);
	if (kernel.then != NULL && kernel.behind == n)
		kernel.then();
	return r;
}

static unsigned copies(void)
{
	return kernel.calls[__NR_pwritev] + kernel.calls[__NR_process_vm_readv];
}

/* --- the rest of the core --- */

static struct core core;
static struct ring_header header;
static unsigned told; /* records */
static uint8_t last_state;
static int64_t now = 1000;
static enum ring_leave left;
static int left_detail;
static jmp_buf leaving;

int64_t loop_now(struct core *c)
{
	(void)c;
	return now;
}

static bool up; /* the interpreter */

bool sample_is_up(struct core *c)
{
	(void)c;
	return up;
}

void task_leave(struct core *c, enum ring_leave why, int detail)
{
	uint64_t word;

	/* What it does on its way out may load, which must not begin it again. */
	if (why == RING_LEAVE_NO_COPY &&
		copy_load(c, &word, (uint64_t)&word & ~7ull, 8))
		why = RING_LEAVE_NONE;
	left = why;
	left_detail = detail;
	longjmp(leaving, 1);
}

void record_begin(struct record *r, uint8_t type)
{
	r->bytes[0] = type;
	r->at = r->bytes + 1;
}

bool record_put(struct core *c, struct record *r, uint32_t spared)
{
	(void)c;
	told += r->bytes[0] == REC_COPY && spared == 0;
	last_state = r->bytes[1];
	return true;
}

/* --- */

/* Three pages that are there, and one behind them that is not. */
static uint8_t *pages;

static uint64_t at(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void begin(void)
{
	memset(&core, 0, sizeof(core));
	memset(&header, 0, sizeof(header));
	core.thread = true;
	core.ring.header = &header;
	core.args.vdso = 0x7fff12345000;
	core.args.program_pid = getpid();
	core.args.arena = 0x10000000; /* nobody's stack */
	core.options.interval_ns = 1000000;
	up = true;
	kernel.then = NULL;
	memset(kernel.calls, 0, sizeof(kernel.calls));
	left = RING_LEAVE_NONE;
	left_detail = 0;
	told = 0;
	if (setjmp(leaving) == 0)
		copy_begin(&core);
}

static void orders(enum ring_copy copy, uint64_t warmup_ns)
{
	core.options.copy = copy;
	core.options.warmup_ns = warmup_ns;
	if (setjmp(leaving) == 0)
		copy_orders(&core);
}

static void look(void)
{
	if (setjmp(leaving) == 0)
		copy_look(&core);
}

static void end(void)
{
	memset(kernel.answer, 0, sizeof(kernel.answer));
	kernel.then = NULL;
	copy_end(&core);
}

static bool load(const void *p, uint64_t *ret)
{
	bool good = false;

	if (setjmp(leaving) == 0)
		good = load64(&core, at(p), ret);
	return good;
}

static bool loads(const void *p)
{
	uint64_t v = 0;

	return load(p, &v) && memcmp(&v, p, 8) == 0;
}

static void refuse(long call, int error)
{
	kernel.answer[call] = -error;
}

/* --- chunks --- */

static void test_chunks(void)
{
	uint64_t v = 0;
	uint32_t v32 = 0;
	uint8_t v8 = 0;
	bool good = true;

	begin();
	orders(RING_COPY_AUTO, 0);
	tap_is(core.copying.state, RING_COPY_BY_SYSCALL, "auto: by system calls");
	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL && told == 1 &&
			header.copy_flags == RING_COPY_CAN_PWRITE,
		"and that is told");
	unsigned before = copies();

	tap_ok(loads(pages) && loads(pages + COPY_CHUNK - 8) && copies() == before + 1,
		"a chunk is read once");
	tap_ok(load32(&core, at(pages + 12), &v32) &&
			memcmp(&v32, pages + 12, 4) == 0 &&
			load_sane8(&core, at(pages + 13), &v8) && v8 == pages[13] &&
			copies() == before + 1,
		"for loads of any size");
	tap_ok(loads(pages + COPY_CHUNK) && copies() == before + 2,
		"the next is another");
	for (unsigned back = 1; back < 8; back++)
		good &= loads(pages + 4 * COPY_CHUNK - back);
	tap_ok(good && copies() == before + 4, "a load across an end takes two");
	for (unsigned back = 1; back < 8; back++)
		good &= loads(pages + PAGE - back);
	tap_ok(good, "also from page to page");

	/* Those that want the same place. */
	good = true;
	for (unsigned round = 0; round < 3; round++)
		for (uint8_t *p = pages; p < pages + 3 * PAGE; p += 64)
			good &= loads(p);
	tap_ok(good, "what shares a place with another is not taken for it");
	tap_is((int64_t)core.counters[RING_COPY_ERRORS], 0, "nothing of that fails");

	copy_forget(&core);
	good = load(pages, &v);
	pages[0]++;
	before = copies();
	uint64_t again = 0;

	tap_ok(good && load(pages, &again) && again == v && copies() == before,
		"a chunk is a snapshot");
	copy_forget(&core);
	tap_ok(load(pages, &again) && again != v && copies() == before + 1,
		"a new look is at what is there now");
	end();
}

static void test_edges(void)
{
	uint64_t v;
	uint8_t *missing = pages + 3 * PAGE;
	uint8_t bytes[2 * PAGE + 100];
	bool failed = true;

	begin();
	orders(RING_COPY_SYSCALL, 0);
	tap_ok(loads(missing - 8), "the last word before memory that is not there");
	for (unsigned back = 1; back < 8; back++)
		failed &= !load(missing - back, &v);
	tap_ok(failed, "a load that ends behind it fails");
	tap_ok(!load(missing, &v) && !load(missing + PAGE - 8, &v),
		"and one from there");
	tap_is((int64_t)core.counters[RING_COPY_ERRORS], 9, "each is counted");
	tap_is(left, RING_LEAVE_NONE, "none is the end");
	tap_ok(mmap(missing, PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == missing &&
			loads(missing),
		"what has failed is tried again");
	(void)mprotect(missing, PAGE, PROT_NONE);
	copy_forget(&core);
	tap_ok(!load(missing, &v), "memory without rights fails");
	tap_ok(!load((void *)8, &v) && !load((void *)0x7ffffffff000, &v),
		"what is no address does without a call");

	tap_ok(copy_bytes(&core, bytes, at(pages + 100), sizeof(bytes)) &&
			memcmp(bytes, pages + 100, sizeof(bytes)) == 0,
		"bytes of three pages");
	tap_ok(!copy_bytes(&core, bytes, at(missing - 100), 101),
		"bytes that end where nothing is");
	tap_ok(copy_bytes(&core, bytes, at(missing - 100), 100), "bytes up to there");
	tap_ok(copy_bytes(&core, bytes, at(missing), 0), "no bytes, from nowhere");
	pages[50]++;
	tap_ok(copy_bytes(&core, bytes, at(pages), 100) && bytes[50] == pages[50],
		"bytes are always those of now");
	end();
	(void)mprotect(missing, PAGE, PROT_NONE);
}

/* --- calls that are refused --- */

static void test_refused_at_first(void)
{
	const int errors[] = { EPERM, ENOSYS, EACCES };

	for (unsigned i = 0; i < 3; i++) {
		refuse(__NR_pwritev, errors[i]);
		begin();
		orders(RING_COPY_AUTO, 0);
		unsigned before = kernel.calls[__NR_pwritev];

		tap_ok(loads(pages) && header.copy_flags == RING_COPY_CAN_READV &&
				kernel.calls[__NR_pwritev] == before,
			"no pwritev (%d): the other, and it is not tried again",
			errors[i]);
		end();

		refuse(__NR_process_vm_readv, errors[i]);
		begin();
		orders(RING_COPY_AUTO, 0);
		tap_ok(loads(pages) && kernel.calls[__NR_process_vm_readv] == 0,
			"no process_vm_readv (%d): not tried at all", errors[i]);
		end();

		refuse(__NR_pwritev, EPERM);
		refuse(__NR_process_vm_readv, errors[i]);
		begin();
		tap_ok(left == RING_LEAVE_NONE && !loads(pages),
			"neither: nothing is loaded before the orders");
		orders(RING_COPY_AUTO, 0);
		tap_ok(left == RING_LEAVE_NO_COPY && left_detail == errors[i] &&
				header.copy_state == RING_COPY_STOPPED &&
				last_state == RING_COPY_STOPPED,
			"with them it leaves, and says why (%d)", errors[i]);
		end();
	}
	refuse(__NR_memfd_create, EACCES);
	begin();
	orders(RING_COPY_AUTO, 0);
	tap_ok(loads(pages) && kernel.calls[__NR_pwritev] == 0, "no memfd: the other");
	end();
	refuse(__NR_mmap, ENOMEM);
	begin();
	orders(RING_COPY_AUTO, 0);
	tap_ok(left == RING_LEAVE_NO_COPY && left_detail == ENOMEM,
		"no memory: the end");
	end();
}

static void test_avoided(void)
{
	begin();
	core.args.avoid = CORE_AVOID_PWRITEV;
	copy_end(&core);
	memset(kernel.calls, 0, sizeof(kernel.calls));
	copy_begin(&core);
	orders(RING_COPY_AUTO, 0);
	tap_ok(loads(pages) && kernel.calls[__NR_pwritev] == 0 &&
			kernel.calls[__NR_memfd_create] == 0,
		"a pwritev to be avoided is not made");
	copy_end(&core);
	core.args.avoid = CORE_AVOID_READV;
	memset(kernel.calls, 0, sizeof(kernel.calls));
	copy_begin(&core);
	orders(RING_COPY_AUTO, 0);
	refuse(__NR_pwritev, EPERM);
	copy_forget(&core);
	left = RING_LEAVE_NONE;
	tap_ok(!loads(pages) && kernel.calls[__NR_process_vm_readv] == 0 &&
			left == RING_LEAVE_NO_COPY,
		"a process_vm_readv to be avoided neither, not even as the last resort");
	end();
}

static void test_refused_later(void)
{
	uint64_t v;

	begin();
	orders(RING_COPY_AUTO, 0);
	(void)loads(pages);
	refuse(__NR_pwritev, EPERM);
	tap_ok(loads(pages + 8), "what is there is there");
	copy_forget(&core);
	told = 0;
	tap_ok(loads(pages) && header.copy_flags == RING_COPY_CAN_READV && told == 1,
		"pwritev is refused later: the other, and that is told");
	tap_ok(!load(pages + 3 * PAGE, &v) && left == RING_LEAVE_NONE,
		"a bad address is not the end");
	kernel.answer[__NR_pwritev] = 0;
	copy_forget(&core);
	unsigned before = kernel.calls[__NR_pwritev];

	tap_ok(loads(pages) && kernel.calls[__NR_pwritev] == before,
		"it is not gone back");
	refuse(__NR_process_vm_readv, ENOSYS);
	copy_forget(&core);
	tap_ok(!loads(pages) && left == RING_LEAVE_NO_COPY && left_detail == ENOSYS &&
			header.copy_state == RING_COPY_STOPPED,
		"the other too: the end");
	before = copies();
	tap_ok(!loads(pages) && copies() == before, "and nothing is tried after it");
	end();

	/* Refused while the address is bad. */
	begin();
	orders(RING_COPY_AUTO, 0);
	refuse(__NR_pwritev, EPERM);
	tap_ok(!load(pages + 3 * PAGE, &v) && left == RING_LEAVE_NONE && loads(pages),
		"refused at an address that is bad for the other: not the end");
	end();
}

static void test_passing(void)
{
	const int errors[] = { ENOMEM, EINTR, EAGAIN, EFBIG };
	uint64_t v;

	for (unsigned i = 0; i < 4; i++) {
		begin();
		orders(RING_COPY_AUTO, 0);
		copy_forget(&core);
		refuse(__NR_pwritev, errors[i]);
		tap_ok(loads(pages), "a call that fails for once (%d): the other",
			errors[i]);
		refuse(__NR_process_vm_readv, errors[i]);
		copy_forget(&core);
		tap_ok(!load(pages, &v) && left == RING_LEAVE_NONE,
			"both: a failed copy, not the end");
		kernel.answer[__NR_pwritev] = kernel.answer[__NR_process_vm_readv] = 0;
		tap_ok(loads(pages), "and it goes on");
		end();
	}
	begin();
	orders(RING_COPY_AUTO, 0);
	copy_forget(&core);
	kernel.answer[__NR_pwritev] = 100;
	kernel.answer[__NR_process_vm_readv] = 100;
	tap_ok(!load(pages, &v) && left == RING_LEAVE_NONE,
		"a short copy is a failed one");
	end();
}

/* A limit for files holds for a memfd as well, and comes with a signal. */
static bool under_limit(void)
{
	struct rlimit limit = { 100, RLIM_INFINITY };
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
		return false;
	begin();
	orders(RING_COPY_AUTO, 0);
	for (const uint8_t *p = pages; p < pages + PAGE; p += 8)
		if (!loads(p))
			return false;
	return left == RING_LEAVE_NONE && core.counters[RING_COPY_ERRORS] == 0;
}

/* --- states --- */

static void foreign(int sig)
{
	(void)sig;
}

static void set(int sig, void (*handler)(int))
{
	struct sigaction a = { .sa_handler = handler };

	(void)sigaction(sig, &a, NULL);
}

static uint64_t installed(int sig)
{
	struct sigaction a;

	(void)sigaction(sig, NULL, &a);
	return at((void *)a.sa_handler);
}

static bool is_blocked(int sig)
{
	sigset_t mask;

	(void)sigprocmask(SIG_BLOCK, NULL, &mask);
	return sigismember(&mask, sig) == 1;
}

static bool both_blocked(void)
{
	return is_blocked(SIGSEGV) && is_blocked(SIGBUS);
}

static uint64_t original[2];

static bool as_at_first(void)
{
	return installed(SIGSEGV) == original[0] && installed(SIGBUS) == original[1];
}

static void test_direct(void)
{
	begin();
	copy_end(&core);
	memset(&core, 0, sizeof(core));
	core.ring.header = &header;
	header.copy_state = RING_COPY_DIRECT;
	memset(kernel.calls, 0, sizeof(kernel.calls));
	copy_begin(&core);
	orders(RING_COPY_FAST, 0);
	look();
	copy_end(&core);
	unsigned calls = 0;

	for (unsigned i = 0; i < 512; i++)
		calls += kernel.calls[i];
	tap_ok(!core.copies && calls == 0 && header.copy_state == RING_COPY_DIRECT,
		"a task of its own has no need of any of it");
}

static void test_states(void)
{
	begin();
	orders(RING_COPY_FAST, 500);
	tap_ok(header.copy_state == RING_COPY_WARMUP && header.copy_warmup_ns == 500 &&
			(header.copy_flags & RING_COPY_WANTED) != 0 && told == 1 &&
			!as_at_first(),
		"fast: the warm-up, with handlers");
	tap_ok(both_blocked(), "in which no signal is let in");
	now += 499;
	look();
	tap_ok(header.copy_state == RING_COPY_WARMUP && header.copy_warmup_ns == 1,
		"it goes on");
	now += 1;
	look();
	tap_ok(header.copy_state == RING_COPY_BY_LOAD && header.copy_warmup_ns == 0 &&
			told == 2 && !both_blocked(),
		"until it is over: by loads");
	tap_is(last_state, RING_COPY_BY_LOAD, "which is told");
	copy_forget(&core);
	unsigned before = copies();

	tap_ok(loads(pages) && copies() == before + 1,
		"a first load from a page is a copy");
	copy_forget(&core);
	tap_ok(loads(pages) && loads(pages + 2000) && copies() == before + 1,
		"others are loads");
	tap_ok(loads(pages + PAGE - 4) && copies() > before + 1,
		"one that ends in another page is a copy");
	before = copies();
	now += KNOWN_NS;
	look();
	copy_forget(&core);
	tap_ok(loads(pages) && copies() == before + 1,
		"a second later: once more a copy");
	end();
	tap_ok(as_at_first() && both_blocked(), "at the end all is as it was");

	begin();
	orders(RING_COPY_FAST, 0);
	tap_is(header.copy_state, RING_COPY_WARMUP, "no warm-up");
	look();
	tap_is(header.copy_state, RING_COPY_BY_LOAD, "is one up to the first look");
	end();
	begin();
	orders(RING_COPY_FAST, UINT64_MAX);
	now += INT64_MAX / 4;
	look();
	tap_is(header.copy_state, RING_COPY_WARMUP, "one that never ends");
	end();
	now = 1000;
}

/* An interpreter that comes up later. */
static void test_awaited(void)
{
	begin();
	up = false;
	orders(RING_COPY_FAST, 500);
	uint64_t room = core.copying.spare;

	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL &&
			header.copy_warmup_ns == 500 && told == 1 &&
			(header.copy_flags & RING_COPY_WANTED) != 0 &&
			(header.copy_flags & RING_COPY_FELL_BACK) == 0,
		"no interpreter yet: by system calls, and all of the warm-up is left");
	tap_ok(as_at_first() && both_blocked() && room != 0,
		"no handler is there, but room for them");
	now += 10000;
	look();
	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL && as_at_first() &&
			told == 1 && loads(pages),
		"for as long as it takes");
	/* What it has by then is covered. */
	set(SIGSEGV, foreign);
	up = true;
	look();
	tap_ok(header.copy_state == RING_COPY_WARMUP && header.copy_warmup_ns == 500 &&
			told == 2 && installed(SIGSEGV) != at((void *)foreign) &&
			!as_at_first() && core.copying.page == room,
		"it is up: handlers, over those that came before, and the warm-up");
	up = false;
	now += 500;
	look();
	tap_is(header.copy_state, RING_COPY_BY_LOAD, "from then on");
	look();
	tap_is(header.copy_state, RING_COPY_BY_LOAD, "whatever becomes of it");
	set(SIGBUS, foreign);
	look();
	up = true;
	now += 500;
	look();
	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL &&
			installed(SIGBUS) == at((void *)foreign),
		"a takeover is for good");
	end();
	tap_is((int64_t)installed(SIGSEGV), (int64_t)at((void *)foreign),
		"what was covered is there again");
	set(SIGSEGV, SIG_DFL);
	set(SIGBUS, SIG_DFL);

	begin();
	up = false;
	orders(RING_COPY_FAST, 0);
	uint64_t spare = core.copying.spare;

	end();
	tap_ok(as_at_first(), "it never came up: nothing was set");
	begin();
	orders(RING_COPY_FAST, 0);
	/* Valgrind maps where it likes to. */
	tap_ok(spare != 0 && (core.copying.page == spare || tap_valgrind()),
		"and a later start takes the room");
	end();
}

/* Those of a start before are taken over, also by one that waited. */
static void test_awaited_other(void)
{
	struct copy_action ours[COPY_SIGNALS], last;

	begin();
	orders(RING_COPY_FAST, 0);
	uint64_t page = core.copying.page;

	for (unsigned i = 0; i < COPY_SIGNALS; i++)
		(void)action_get(i, &ours[i]);
	/* Gone without a word. */
	core.copying.page = 0;
	end();
	begin();
	up = false;
	orders(RING_COPY_FAST, 0);
	tap_ok(core.copying.spare != page, "pages that are in use are no room");
	up = true;
	look();
	tap_ok(core.copying.page == page && header.copy_state == RING_COPY_WARMUP &&
			action_get(0, &last) >= 0 && same_action(&last, &ours[0]),
		"they are taken over");
	end();
	tap_ok(as_at_first(), "and out");
}

static void give_back(unsigned which, int sig)
{
	struct sigaction back = { .sa_handler = SIG_DFL };

	if (original[which] != 0)
		back.sa_sigaction = (void (*)(int, siginfo_t *, void *))original[which];
	(void)sigaction(sig, &back, NULL);
}

/* One takeover, in one state. */
static void check_taken(int sig, bool fast)
{
	unsigned which = sig == SIGBUS;
	const char *state = fast ? "by loads" : "the warm-up";
	uint32_t flag = sig == SIGBUS ? RING_COPY_TAKEN_BUS : RING_COPY_TAKEN_SEGV;
	struct sigaction ours;

	begin();
	orders(RING_COPY_FAST, fast ? 0 : 1000);
	look();
	(void)sigaction(sig, NULL, &ours);
	told = 0;
	set(sig, foreign);
	look();
	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL && told == 1 &&
			header.copy_owner[which] == at((void *)foreign) &&
			header.copy_owner[!which] == 0 &&
			(header.copy_flags &
				(RING_COPY_FELL_BACK | flag | RING_COPY_WANTED)) ==
				(RING_COPY_FELL_BACK | flag | RING_COPY_WANTED) &&
			both_blocked(),
		"%s: signal %d is taken: by system calls", state, sig);
	tap_ok(loads(pages) && loads(pages), "which still read");
	(void)sigaction(sig, &ours, NULL);
	now += 2000;
	look();
	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL && told == 1,
		"for good, also when ours is back");
	set(sig, foreign);
	end();
	tap_is((int64_t)installed(sig), (int64_t)at((void *)foreign),
		"who took it keeps it");
	give_back(which, sig);
	tap_ok(as_at_first(), "the other one is as it was");
}

/* A look may fall between the two calls of a library. */
static void test_both_taken(void)
{
	begin();
	orders(RING_COPY_FAST, 0);
	look();
	set(SIGSEGV, foreign);
	look();
	told = 0;
	set(SIGBUS, foreign);
	look();
	tap_ok(told == 1 && header.copy_owner[1] == at((void *)foreign) &&
			(header.copy_flags & RING_COPY_TAKEN_BUS) != 0 &&
			last_state == RING_COPY_BY_SYSCALL,
		"who takes the second one later is told, too");
	look();
	tap_is(told, 1, "once");
	end();
	give_back(0, SIGSEGV);
	give_back(1, SIGBUS);
	tap_ok(as_at_first(), "and all is as it was");
}

/* The warm-up is over, and the signals cannot be let in. */
static void test_mask_refused(void)
{
	begin();
	orders(RING_COPY_FAST, 500);
	uint64_t ours = installed(SIGSEGV);

	now += 499;
	look();
	tap_is(header.copy_state, RING_COPY_WARMUP, "the warm-up");
	refuse(__NR_rt_sigprocmask, EPERM);
	now += 1;
	told = 0;
	look();
	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL && told == 1 &&
			last_state == RING_COPY_BY_SYSCALL &&
			header.copy_warmup_ns == 0 && both_blocked(),
		"no signal may be let in: by system calls");
	tap_ok((header.copy_flags & (RING_COPY_FELL_BACK | RING_COPY_TAKEN_SEGV |
					    RING_COPY_TAKEN_BUS)) ==
				RING_COPY_FELL_BACK &&
			installed(SIGSEGV) == ours,
		"given up, and taken over by nobody");
	kernel.answer[__NR_rt_sigprocmask] = 0;
	now += 1000;
	look();
	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL && told == 1 && loads(pages),
		"for good, also where it is allowed again");
	end();
	tap_ok(as_at_first(), "the handlers go at the end");
}

static volatile sig_atomic_t came;

static void note(int sig)
{
	came = sig;
}

/* A signal that is sent comes to the thread that loads. */
static void check_stray(int sig)
{
	begin();
	set(sig, note);
	orders(RING_COPY_FAST, 0);
	look();
	/* As if this were its stack, but for what this function has of it. */
	struct copy_state *s = state_of_page(core.copying.page);

	s->stack = 0;
	s->stack_bytes = UINT64_MAX;
	came = 0;
	told = 0;
	(void)kill(getpid(), sig);
	tap_ok(came == 0 && header.copy_state == RING_COPY_BY_LOAD && told == 0,
		"signal %d is sent and comes to this thread: kept", sig);
	look();
	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL && told == 1 &&
			last_state == RING_COPY_BY_SYSCALL && both_blocked() &&
			(header.copy_flags &
				(RING_COPY_FELL_BACK | RING_COPY_TAKEN_SEGV |
					RING_COPY_TAKEN_BUS)) == RING_COPY_FELL_BACK,
		"at the next look: by system calls, taken over by nobody");
	sigset_t pending;

	(void)sigpending(&pending);
	/* Valgrind's own signals are another matter. */
	tap_ok(came == 0 && (sigismember(&pending, sig) == 1 || tap_valgrind()),
		"and it is sent on, to whoever lets it in");
	look();
	tap_ok(header.copy_state == RING_COPY_BY_SYSCALL && told == 1 && loads(pages),
		"for good");
	/* As another thread would. */
	s->sampler = 0;
	(void)mask_signals(UNBLOCK, both_signals());
	(void)mask_signals(BLOCK, both_signals());
	tap_is(came, sig, "the program's handler has it");
	end();
	set(sig, SIG_DFL);
}

static void test_no_handlers(void)
{
	refuse(__NR_rt_sigaction, EPERM);
	begin();
	orders(RING_COPY_FAST, 0);
	tap_ok(left == RING_LEAVE_NO_HANDLERS && left_detail == EPERM,
		"no action may be set: it leaves");
	end();
	refuse(__NR_mprotect, EACCES);
	begin();
	orders(RING_COPY_FAST, 0);
	tap_ok(left == RING_LEAVE_NO_HANDLERS && left_detail == EACCES && as_at_first(),
		"no page may become code: it leaves, nothing is set");
	end();
	begin();
	refuse(__NR_mmap, ENOMEM);
	orders(RING_COPY_FAST, 0);
	tap_ok(left == RING_LEAVE_NO_HANDLERS && left_detail == ENOMEM && as_at_first(),
		"no room for pages: it leaves");
	end();
}

/* Behind the two that read. */
static void refuse_next(void)
{
	if (kernel.calls[__NR_rt_sigaction] == 2)
		refuse(__NR_rt_sigaction, EACCES);
}

/* Before the interpreter is up: what can be known. */
static void test_no_handlers_early(void)
{
	refuse(__NR_rt_sigaction, EPERM);
	begin();
	up = false;
	orders(RING_COPY_FAST, 0);
	tap_ok(left == RING_LEAVE_NO_HANDLERS && left_detail == EPERM &&
			(header.copy_flags & RING_COPY_FELL_BACK) != 0,
		"no interpreter yet, no action may be set: it leaves at once");
	end();
	begin();
	up = false;
	kernel.behind = __NR_rt_sigaction;
	kernel.then = refuse_next;
	orders(RING_COPY_FAST, 0);
	tap_ok(left == RING_LEAVE_NO_HANDLERS && left_detail == EACCES && as_at_first(),
		"they may be read, and not be set: likewise");
	end();
	refuse(__NR_mprotect, EACCES);
	begin();
	up = false;
	orders(RING_COPY_FAST, 0);
	tap_ok(left == RING_LEAVE_NO_HANDLERS && left_detail == EACCES && as_at_first(),
		"no page may become code: likewise");
	end();
	begin();
	up = false;
	orders(RING_COPY_FAST, 0);
	refuse(__NR_rt_sigaction, EPERM);
	look();
	tap_is(left, RING_LEAVE_NONE, "refused since: nothing yet");
	up = true;
	look();
	tap_ok(left == RING_LEAVE_NO_HANDLERS && left_detail == EPERM &&
			last_state == RING_COPY_BY_SYSCALL,
		"but when they are to come");
	end();
}

static void intrude(void)
{
	set(SIGBUS, foreign);
}

static void test_intruder(void)
{
	begin();
	kernel.behind = __NR_rt_sigaction;
	kernel.then = intrude;
	orders(RING_COPY_FAST, 0);
	tap_ok(left == RING_LEAVE_NO_HANDLERS && left_detail == EBUSY &&
			(header.copy_flags & RING_COPY_TAKEN_BUS) != 0 &&
			header.copy_owner[1] == at((void *)foreign),
		"another one puts its own there each time: it leaves, and says whose");
	tap_ok(installed(SIGSEGV) == original[0] &&
			installed(SIGBUS) == at((void *)foreign),
		"which stays; ours does not");
	end();
	set(SIGBUS, SIG_DFL);
}

/* Behind the n-th look at the actions. */
static unsigned intrude_at;

static void intrude_once(void)
{
	if (--intrude_at == 0)
		set(SIGSEGV, foreign);
}

static void test_end(void)
{
	begin();
	orders(RING_COPY_FAST, 0);
	look();
	kernel.behind = __NR_rt_sigaction;
	kernel.then = intrude_once;
	intrude_at = 1;
	copy_end(&core);
	tap_is((int64_t)installed(SIGSEGV), (int64_t)at((void *)foreign),
		"one that comes between look and exchange is put back");
	kernel.then = NULL;
	set(SIGSEGV, SIG_DFL);
	set(SIGBUS, SIG_DFL);

	/* Between reading and covering. */
	begin();
	kernel.behind = __NR_rt_sigaction;
	kernel.then = intrude_once;
	intrude_at = 2;
	orders(RING_COPY_FAST, 0);
	kernel.then = NULL;
	tap_is(left, RING_LEAVE_NONE, "one that comes while ours is put there");
	end();
	tap_is((int64_t)installed(SIGSEGV), (int64_t)at((void *)foreign),
		"is covered, and stands there again at the end");
	set(SIGSEGV, SIG_DFL);
}

/* A system call is refused in every state. */
static void test_stopped(void)
{
	for (unsigned fast = 0; fast < 2; fast++) {
		begin();
		orders(RING_COPY_FAST, fast ? 0 : 1000);
		look();
		refuse(__NR_pwritev, EPERM);
		refuse(__NR_process_vm_readv, EPERM);
		copy_forget(&core);
		tap_ok(!loads(pages + PAGE) && left == RING_LEAVE_NO_COPY &&
				header.copy_state == RING_COPY_STOPPED,
			"%s: neither call works any more: the end",
			fast ? "by loads" : "the warm-up");
		end();
		tap_ok(as_at_first(), "with its handlers taken out");
	}
}

int main(void)
{
	pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Not unmapped: valgrind maps things of its own where there is room. */
	if (pages == MAP_FAILED || mprotect(pages + 3 * PAGE, PAGE, PROT_NONE) != 0) {
		printf("Bail out! no memory\n");
		return 1;
	}
	for (unsigned i = 0; i < 3 * PAGE; i++)
		pages[i] = (uint8_t)(i * 7 + i / 256 + 1);
	/* As the thread is born. */
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGSEGV);
	(void)sigaddset(&mask, SIGBUS);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	/* A sanitizer's would be met by what is done here on purpose. */
	set(SIGSEGV, SIG_DFL);
	set(SIGBUS, SIG_DFL);
	original[0] = installed(SIGSEGV);
	original[1] = installed(SIGBUS);
	test_chunks();
	test_edges();
	test_refused_at_first();
	test_avoided();
	test_refused_later();
	test_passing();
	tap_ok(tap_child(under_limit), "a limit for the size of files is no hindrance");
	test_direct();
	test_states();
	test_awaited();
	test_awaited_other();
	check_taken(SIGSEGV, false);
	check_taken(SIGBUS, false);
	check_taken(SIGSEGV, true);
	check_taken(SIGBUS, true);
	test_both_taken();
	test_no_handlers();
	test_no_handlers_early();
	test_intruder();
	test_end();
	test_mask_refused();
	check_stray(SIGSEGV);
	check_stray(SIGBUS);
	test_stopped();
	return tap_done();
}
