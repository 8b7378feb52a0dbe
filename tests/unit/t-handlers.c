/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers of fast copies, in processes of their own.  What a program does and
 * sees, and how it ends, must be the same with a sampler in it that copies by loads as
 * without one: for each kind of action, for faults and for signals that are sent.  Then
 * what becomes of the pages: takeovers, forks, later starts.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/copy-page.h"
#include "core/core-internal.h"
#include "scratch.h"
#include "tap.h"

enum { PAGE = 4096, LIMIT_S = 60, FAULTS = 1000 };

/* --- the rest of the core --- */

static struct core core;
static struct ring_header header;
static atomic_int left;

int64_t loop_now(struct core *c)
{
	struct timespec ts;

	(void)c;
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

bool sample_is_up(struct core *c)
{
	(void)c;
	return true;
}

void task_leave(struct core *c, enum ring_leave why, int detail)
{
	(void)detail;
	copy_end(c);
	atomic_store(&left, (int)why);
	pthread_exit(NULL);
}

void record_begin(struct record *r, uint8_t type)
{
	r->bytes[0] = type;
	r->at = r->bytes + 1;
}

bool record_put(struct core *c, struct record *r, uint32_t spared)
{
	(void)c;
	(void)r;
	return spared == 0;
}

/* --- the sampler --- */

/* One thread on a stack in an arena, which does what it is told to. */
static struct {
	pthread_t thread;
	void (*volatile job)(void);
	atomic_int jobs, done;
	bool runs;
} sampler;

static void *sampler_run(void *unused)
{
	copy_begin(&core);
	copy_orders(&core);
	copy_look(&core);
	for (int n = 0;;) {
		while (atomic_load(&sampler.jobs) == n)
			(void)usleep(100);
		n++;
		if (sampler.job == NULL)
			break;
		sampler.job();
		atomic_store(&sampler.done, n);
	}
	copy_end(&core);
	return unused;
}

static void fail(const char *what)
{
	(void)dprintf(STDOUT_FILENO, "failed: %s\n", what);
	_exit(99);
}

static void wait_done(int n)
{
	while (atomic_load(&sampler.done) < n && atomic_load(&left) == 0)
		(void)usleep(100);
}

static void let(void (*job)(void))
{
	sampler.job = job;
	wait_done(atomic_fetch_add(&sampler.jobs, 1) + 1);
}

static void nothing(void)
{
}

static uint64_t vdso = 0x7ffff1230000;

static void sampler_begin(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	void *arena = mmap(NULL, CORE_ARENA_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(&core, 0, sizeof(core));
	memset(&header, 0, sizeof(header));
	memset(&sampler, 0, sizeof(sampler));
	atomic_store(&left, 0);
	core.thread = true;
	core.ring.header = &header;
	core.args.arena = (uint64_t)(uintptr_t)arena;
	core.args.vdso = vdso;
	core.args.program_pid = getpid();
	core.options.copy = RING_COPY_FAST;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	(void)pthread_attr_init(&attr);
	if (arena == MAP_FAILED ||
		pthread_attr_setstack(&attr, (void *)core_stack_base(core.args.arena),
			CORE_STACK_BYTES) != 0 ||
		pthread_create(&sampler.thread, &attr, sampler_run, NULL) != 0)
		fail("thread");
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	sampler.runs = true;
	let(nothing);
	if (header.copy_state != RING_COPY_BY_LOAD)
		fail("not by loads");
}

static void sampler_end(void)
{
	sampler.job = NULL;
	(void)atomic_fetch_add(&sampler.jobs, 1);
	(void)pthread_join(sampler.thread, NULL);
	sampler.runs = false;
}

static void look(void)
{
	copy_look(&core);
}

static volatile uintptr_t wild = 16; /* no address */

/* --- what a program sees --- */

enum cause { FAULT, KILL, QUEUE, THREAD_KILL };

struct situation {
	const char *name;
	int sig;
	enum cause cause;
	int flags;
	bool masks;   /* SIGUSR1 while it runs */
	uint64_t own; /* 0: a handler; else SIG_DFL plus 1, SIG_IGN plus 1 */
};

static const struct situation *situation;
static unsigned char *broken; /* what faults */
static int broken_fd;
static unsigned mended;
static char alternate[64 << 10];

/* Memory that raises the signal when it is touched. */
static void break_memory(int sig)
{
	if (sig == SIGSEGV) {
		broken =
			mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	} else {
		broken_fd = (int)syscall(SYS_memfd_create, "broken", 0);
		broken = mmap(
			NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, broken_fd, 0);
	}
	if (broken == MAP_FAILED)
		fail("memory");
}

static void mend(void)
{
	if (situation->cause != FAULT)
		return;
	if ((situation->sig == SIGSEGV ? mprotect(broken, PAGE, PROT_READ | PROT_WRITE)
				       : ftruncate(broken_fd, PAGE)) != 0)
		fail("mending");
}

static void say(const char *how, int sig, const siginfo_t *info)
{
	char here;
	sigset_t mask;

	(void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
	(void)dprintf(STDOUT_FILENO, "%s %d self %d usr1 %d alternate %d main %d\n",
		how, sig, sigismember(&mask, sig), sigismember(&mask, SIGUSR1),
		&here >= alternate && &here < alternate + sizeof(alternate),
		gettid() == getpid());
	if (info != NULL)
		(void)dprintf(STDOUT_FILENO, "code %d address %d value %d me %d\n",
			info->si_code,
			situation->cause == FAULT ? info->si_addr == broken + 8 : 0,
			situation->cause == QUEUE ? info->si_value.sival_int : 0,
			situation->cause != FAULT && info->si_pid == getpid());
	mended++;
}

static void on_plain(int sig)
{
	say("plain", sig, NULL);
	mend();
}

static void on_info(int sig, siginfo_t *info, void *context)
{
	say("info", sig, info);
	(void)dprintf(STDOUT_FILENO, "context %d\n",
		sigismember(&((ucontext_t *)context)->uc_sigmask, SIGUSR1));
	mend();
}

static void raise_it(void)
{
	union sigval value = { .sival_int = 77 };

	switch (situation->cause) {
	case FAULT:
		break_memory(situation->sig);
		((volatile unsigned char *)broken)[8] = 1;
		(void)dprintf(STDOUT_FILENO, "written %d\n", broken[8]);
		break;
	case KILL:
		(void)kill(getpid(), situation->sig);
		break;
	case QUEUE:
		(void)sigqueue(getpid(), situation->sig, value);
		break;
	case THREAD_KILL:
		(void)syscall(SYS_tgkill, getpid(), gettid(), situation->sig);
		break;
	}
}

static void install(const struct situation *s)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	struct sigaction a = { .sa_flags = s->flags };

	(void)sigaltstack(&stack, NULL);
	if (s->own == 1)
		a.sa_handler = SIG_DFL;
	else if (s->own == 2)
		a.sa_handler = SIG_IGN;
	else if ((s->flags & SA_SIGINFO) != 0)
		a.sa_sigaction = on_info;
	else
		a.sa_handler = on_plain;
	if (s->masks)
		(void)sigaddset(&a.sa_mask, SIGUSR1);
	if (sigaction(s->sig, &a, NULL) != 0)
		fail("sigaction");
}

/* Twice: an action that resets itself is another one then. */
static void program(void)
{
	raise_it();
	(void)dprintf(STDOUT_FILENO, "once\n");
	raise_it();
	(void)dprintf(STDOUT_FILENO, "twice, mended %u\n", mended);
}

static void bare(void)
{
	install(situation);
	program();
	_exit(7);
}

static void sampled(void)
{
	install(situation);
	sampler_begin();
	program();
	sampler_end();
	_exit(7);
}

/* The sampler came and has gone, and another one has saved its handler meanwhile and
 * put it back since. */
static void left_behind(void)
{
	struct sigaction ours;

	install(situation);
	sampler_begin();
	(void)sigaction(situation->sig, NULL, &ours);
	sampler_end();
	(void)sigaction(situation->sig, &ours, NULL);
	program();
	_exit(7);
}

/* The child of a fork has the handlers, and no sampler. */
static void forked(void)
{
	install(situation);
	sampler_begin();
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		program();
		_exit(7);
	}
	(void)waitpid(child, &status, 0);
	sampler_end();
	/* The same end. */
	if (WIFSIGNALED(status)) {
		struct rlimit limit = { 0, 0 };

		if (!WCOREDUMP(status))
			(void)setrlimit(RLIMIT_CORE, &limit);
		(void)signal(WTERMSIG(status), SIG_DFL);
		(void)raise(WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status));
}

struct outcome {
	int status;
	char text[4096];
};

static void run(void (*body)(void), struct outcome *o)
{
	int pipes[2];
	size_t n = 0;

	memset(o, 0, sizeof(*o));
	(void)fflush(stdout);
	if (pipe(pipes) != 0)
		exit(1);
	pid_t child = fork();

	if (child == 0) {
		(void)dup2(pipes[1], STDOUT_FILENO);
		(void)close(pipes[0]);
		(void)close(pipes[1]);
		(void)alarm(LIMIT_S);
		body();
		_exit(98);
	}
	(void)close(pipes[1]);
	for (ssize_t r = 1; r > 0 && n < sizeof(o->text) - 1; n += (size_t)r) {
		r = read(pipes[0], o->text + n, sizeof(o->text) - 1 - n);
		if (r < 0)
			r = 0;
		if (r == 0)
			break;
	}
	(void)close(pipes[0]);
	(void)waitpid(child, &o->status, 0);
}

static void check(const char *what, void (*body)(void), const struct outcome *as)
{
	struct outcome o;

	run(body, &o);
	if (!tap_ok(o.status == as->status && strcmp(o.text, as->text) == 0, "%s: %s",
		    situation->name, what))
		printf("# status %x, bare %x\n# %s\n# bare: %s\n", (unsigned)o.status,
			(unsigned)as->status, o.text, as->text);
}

static void test_situations(void)
{
	static const struct {
		const char *name;
		int flags;
		bool masks;
		uint64_t own;
	} kinds[] = {
		{ "plain", 0, false, 0 },
		{ "info", SA_SIGINFO, false, 0 },
		{ "masks", SA_SIGINFO, true, 0 },
		{ "nodefer", SA_SIGINFO | SA_NODEFER, false, 0 },
		{ "nodefer, masks", SA_NODEFER, true, 0 },
		{ "alternate stack", SA_SIGINFO | SA_ONSTACK, false, 0 },
		{ "restart", SA_RESTART, false, 0 },
		{ "resets", SA_RESETHAND, false, 0 },
		{ "resets, all", (int)(SA_RESETHAND | SA_NODEFER | SA_SIGINFO), true,
			0 },
		{ "default", 0, false, 1 },
		{ "default, flags", SA_ONSTACK | SA_SIGINFO, true, 1 },
		{ "ignored", 0, false, 2 },
	};
	static const char *const causes[] = { "fault", "kill", "sigqueue", "tgkill" };
	static const int sigs[] = { SIGSEGV, SIGBUS };

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (unsigned i = 0; i < 8; i++) {
			char name[100];
			struct situation s = { name, sigs[i % 2], (enum cause)(i / 2),
				kinds[k].flags, kinds[k].masks, kinds[k].own };
			struct outcome o;

			(void)snprintf(name, sizeof(name), "%s, %s, %s", kinds[k].name,
				s.sig == SIGSEGV ? "SEGV" : "BUS", causes[i / 2]);
			situation = &s;
			run(bare, &o);
			check("as without", sampled, &o);
			check("afterwards too", left_behind, &o);
			check("in a fork", forked, &o);
		}
}

/* --- a stack that overflows --- */

static int overflow(int n)
{
	volatile char room[PAGE];

	room[0] = (char)n;
	/* Never; but compilers know endless recursion. */
	return wild == 0 ? 0 : overflow(n + 1) + room[0];
}

static void on_overflow(int sig)
{
	say("overflow", sig, NULL);
	_exit(5);
}

static void install_for_overflow(void)
{
	struct sigaction a = { .sa_handler = on_overflow,
		.sa_flags = situation->flags };

	/* The alternate stack, and the default. */
	install(situation);
	if (situation->own == 0)
		(void)sigaction(SIGSEGV, &a, NULL);
}

static void overflow_bare(void)
{
	install_for_overflow();
	(void)overflow(1);
	_exit(6);
}

static void overflow_sampled(void)
{
	install_for_overflow();
	sampler_begin();
	(void)overflow(1);
	_exit(6);
}

/* There is no room for the frame of a handler, ours or another, but on an alternate
 * stack: the kernel ends the program by itself. */
static void test_overflow(void)
{
	const struct situation all[] = {
		{ "overflow, default", SIGSEGV, FAULT, 0, false, 1 },
		{ "overflow, handler", SIGSEGV, FAULT, 0, false, 0 },
		{ "overflow, alternate stack", SIGSEGV, FAULT, SA_ONSTACK, false, 0 },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct outcome o;

		situation = &all[i];
		run(overflow_bare, &o);
		bool handled = (situation->flags & SA_ONSTACK) != 0;

		tap_ok(handled ? WIFEXITED(o.status) && WEXITSTATUS(o.status) == 5
			       : WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGSEGV,
			"%s: %s", situation->name,
			handled ? "is handled" : "ends the program");
		check("as without", overflow_sampled, &o);
	}
}

/* --- what becomes of the handlers --- */

static uint64_t at(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static uint64_t installed(int sig)
{
	struct sigaction a;

	(void)sigaction(sig, NULL, &a);
	return at((void *)a.sa_handler);
}

static unsigned good, bad;

/* Loads from a page that is known, and is gone when it is loaded from again. */
static void load_and_lose(void)
{
	for (unsigned i = 0; i < FAULTS; i++) {
		int fd = (int)syscall(SYS_memfd_create, "lost", 0);
		uint64_t v;
		uint64_t *p;

		if (ftruncate(fd, PAGE) != 0)
			return;
		p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		p[3] = i + 1;
		copy_forget(&core);
		good += load64(&core, at(p + 3), &v) && v == i + 1;
		p[3]++;
		good += load64(&core, at(p + 3), &v) && v == i + 2;
		if (i % 2 == 0)
			(void)munmap(p, PAGE);
		else if (ftruncate(fd, 0) != 0)
			return;
		bad += !load64(&core, at(p + 3), &v);
		copy_forget(&core);
		bad += !load64(&core, at(p + 3), &v);
		uint32_t v32;
		uint8_t v8;

		bad += !load32(&core, at(p + 3), &v32) +
		       !load_sane8(&core, at(p + 3), &v8);
		if (i % 2 != 0)
			(void)munmap(p, PAGE);
		(void)close(fd);
	}
}

static bool storm(void)
{
	sampler_begin();
	let(load_and_lose);
	let(look);
	bool all = good == 2 * FAULTS && bad == 4 * FAULTS &&
		   core.counters[RING_COPY_FAULTS] == FAULTS;

	sampler_end();
	return all && installed(SIGSEGV) == 0 && installed(SIGBUS) == 0;
}

static struct sigaction under[2];
static atomic_uint passed;

static void foreign(int sig, siginfo_t *info, void *context)
{
	(void)atomic_fetch_add(&passed, 1);
	const struct sigaction *a = &under[sig == SIGBUS];

	if ((a->sa_flags & SA_SIGINFO) != 0)
		a->sa_sigaction(sig, info, context);
	else
		_exit(42);
}

static void take_over(int sig)
{
	struct sigaction a = { .sa_sigaction = foreign, .sa_flags = SA_SIGINFO };

	(void)sigaction(sig, &a, &under[sig == SIGBUS]);
}

/* Taken over between the look and the faults, by one that hands on. */
static bool chained(void)
{
	sampler_begin();
	take_over(SIGSEGV);
	take_over(SIGBUS);
	let(load_and_lose);
	if (passed != FAULTS || bad != 4 * FAULTS)
		return false;
	let(look);
	if (header.copy_state != RING_COPY_BY_SYSCALL)
		return false;
	good = bad = 0;
	let(load_and_lose);
	/* No fault any more; the one in a chunk that is still good is none. */
	if (passed != FAULTS || bad != 3 * FAULTS)
		return false;
	sampler_end();
	return installed(SIGSEGV) == at((void *)foreign) &&
	       installed(SIGBUS) == at((void *)foreign);
}

static void note_only(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (gettid() == getpid() && sig == SIGSEGV && info->si_code == SI_USER &&
		info->si_pid == getpid())
		(void)atomic_fetch_add(&passed, 1);
	else
		_exit(43);
}

static atomic_bool stop_loading;

static void load_on(void)
{
	uint64_t v;

	while (!atomic_load(&stop_loading)) {
		copy_forget(&core);
		bad += !load64(&core, at(alternate), &v);
	}
}

/* Nobody but the thread that loads lets it in. */
static bool sent_meanwhile(void)
{
	struct sigaction a = { .sa_sigaction = note_only, .sa_flags = SA_SIGINFO };
	sigset_t mask;

	(void)sigaction(SIGSEGV, &a, NULL);
	sampler_begin();
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGSEGV);
	(void)pthread_sigmask(SIG_BLOCK, &mask, NULL);
	sampler.job = load_on;
	int n = atomic_fetch_add(&sampler.jobs, 1) + 1;

	(void)kill(getpid(), SIGSEGV);
	(void)usleep(20000);
	(void)kill(getpid(), SIGSEGV);
	atomic_store(&stop_loading, true);
	wait_done(n);
	if (bad != 0 || passed != 0)
		return false;
	let(look);
	if (header.copy_state != RING_COPY_BY_SYSCALL ||
		(header.copy_flags & RING_COPY_FELL_BACK) == 0 || passed != 0)
		return false;
	(void)pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
	if (passed != 1)
		return false;
	sampler_end();
	return true;
}

static void own_fault(void)
{
	*(volatile int *)wild = 1;
}

/* A fault of the sampler's own ends its thread, and nothing else. */
static bool own(void)
{
	sampler_begin();
	sampler.job = own_fault;
	(void)atomic_fetch_add(&sampler.jobs, 1);
	(void)pthread_join(sampler.thread, NULL);
	return true;
}

static bool again(void)
{
	sampler_begin();
	uint64_t page = core.copying.page;

	sampler_end();
	sampler_begin();
	bool same = core.copying.page == page;

	sampler_end();
	return same && installed(SIGSEGV) == 0;
}

/* Without a place that follows from anything. */
static bool nowhere(void)
{
	vdso = 0;
	sampler_begin();
	let(load_and_lose);
	sampler_end();
	return bad == 4 * FAULTS && installed(SIGSEGV) == 0;
}

/* The sampler of a process is gone without a word; or: the parent's, in a fork. */
static bool inherited(void)
{
	sampler_begin();
	uint64_t page = core.copying.page;
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		(void)alarm(LIMIT_S);
		sampler_begin();
		bool same = core.copying.page == page;

		let(load_and_lose);
		sampler_end();
		_exit(same && bad == 4 * FAULTS && installed(SIGSEGV) == 0 &&
					installed(SIGBUS) == 0
				? 0
				: 1);
	}
	(void)waitpid(child, &status, 0);
	let(load_and_lose);
	sampler_end();
	return status == 0 && bad == 4 * FAULTS;
}

/* Who has taken over may lead to the old pages: new ones, or the two would go round in
 * circles. */
static void no_circle(void)
{
	sampler_begin();
	uint64_t page = core.copying.page;

	take_over(SIGSEGV);
	take_over(SIGBUS);
	sampler_end();
	sampler_begin();
	if (core.copying.page == page)
		_exit(1);
	let(load_and_lose);
	if (bad != 4 * FAULTS || passed != 0)
		_exit(2);
	/* New, foreign, old, default. */
	*(volatile int *)wild = 1;
	_exit(3);
}

/* Only one was taken over; the other one still leads to the old pages. */
static bool half(void)
{
	sampler_begin();
	take_over(SIGSEGV);
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		(void)alarm(LIMIT_S);
		sampler_begin();
		const struct copy_state *s =
			(const struct copy_state *)(uintptr_t)(core.copying.page +
							       COPY_PAGE_BYTES);
		/* Under the new one is what was under the old. */
		bool straight = s->saved[COPY_BUS].handler == 0 &&
				s->saved[COPY_SEGV].handler == at((void *)foreign);

		let(load_and_lose);
		sampler_end();
		_exit(straight && bad == 4 * FAULTS ? 0 : 1);
	}
	(void)waitpid(child, &status, 0);
	sampler_end();
	return status == 0;
}

/* A filter has come that lets no action be set. */
static void refuse_actions(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	sampler_begin();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(1);
	*(volatile int *)wild = 1;
	_exit(2);
}

static void test_pages(void)
{
	struct outcome o;

	tap_ok(tap_child(storm), "1,000 faults of loads, of both kinds");
	tap_ok(tap_child(chained), "1,000 by way of another one that hands on");
	tap_ok(tap_child(sent_meanwhile),
		"a signal that is sent while it loads is no fault, and comes to others");
	tap_ok(tap_child(own), "a fault of its own is the end of one thread");
	tap_ok(tap_child(again), "a later start finds the pages");
	tap_ok(tap_child(nowhere), "pages anywhere");
	tap_ok(tap_child(inherited), "a start in a fork takes them over");
	tap_ok(tap_child(half), "one handler was taken over: new pages over both");
	run(no_circle, &o);
	tap_ok(WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGSEGV,
		"both were: new pages, and no circle (%x)", (unsigned)o.status);
	run(refuse_actions, &o);
	tap_ok(WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGSEGV,
		"no action may be set any more: a fault kills still (%x)",
		(unsigned)o.status);
}

int main(void)
{
	/* As a program that no sanitizer has been to. */
	(void)signal(SIGSEGV, SIG_DFL);
	(void)signal(SIGBUS, SIG_DFL);
	scratch_begin();
	/* For core files, if there are any. */
	if (chdir(scratch_folder) != 0)
		return 1;
	test_pages();
	test_situations();
	test_overflow();
	scratch_end();
	return tap_done();
}
