/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core as a whole, from its start to its end, over each Python that can be sampled:
 * what the recorder of a task sees, orders and receives.
 *
 * It is part of a process of its own here (hosted.h), not of the Python that it
 * samples: that is what a sanitizer and valgrind can look at.  So it reads memory as a
 * thread does, by process_vm_readv(), but of that process; all else is as in a task.
 */
#include "hosted.h"
#include "proc/mem.h"
#include "proc/python.h"
#include "pythons.h"
#include "scratch.h"
#include "tap.h"

/* The process that is read, and what is read of our own instead: the arena. */
static pid_t far_pid;
static const struct core_args *far_args;

struct far_vector {
	uint64_t base, size;
};

/*
 * Valgrind does not know pidfd_open() yet.  Of a FIFO that the process alone has open
 * for writing the end shows likewise.
 */
static long far_end(void)
{
	return arch_syscall(__NR_openat, AT_FDCWD, (long)scratch("end"),
		O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, 0, 0);
}

long hosted_call(long n, long a, long b, long c, long d, long e, long f)
{
	if (n == __NR_pidfd_open && a == far_pid && tap_valgrind())
		return far_end();
	if (n == __NR_close_range)
		return hosted_close_range(a, b, c);
	if (n != __NR_process_vm_readv)
		return arch_syscall(n, a, b, c, d, e, f);
	const struct far_vector *theirs = (const struct far_vector *)d;

	if (theirs->base - far_args->arena >= far_args->arena_bytes)
		a = far_pid;
	long r = arch_syscall(n, a, b, c, d, e, f);

	/* Memory of a process that has ended is no memory: a load would fault. */
	return r == -SYS_ESRCH ? -EFAULT : r;
}

void __real_copy_begin(struct core *c);
void __wrap_copy_begin(struct core *c);

void __wrap_copy_begin(struct core *c)
{
	c->thread = true;
	__real_copy_begin(c);
	c->thread = false;
}

/* --- the program --- */

/* A byte is an order: "e" ends it, "x" makes another program of it. */
static const char script[] =
	"import os, select, sys, threading, time\n"
	"def core_test_leaf(n):\n"
	"    t = 0\n"
	"    for i in range(n):\n"
	"        t += i & 3\n"
	"    return t\n"
	"def core_test_deep(depth):\n"
	"    return core_test_leaf(300) if depth == 0 else core_test_deep(depth - 1)\n"
	"def core_test_generator():\n"
	"    for i in range(3):\n"
	"        yield core_test_leaf(100)\n"
	"def core_test_wait(lock):\n"
	"    lock.acquire()\n"
	"def core_test_brief():\n"
	"    time.sleep(0.01)\n"
	"def core_test_sort():\n"
	"    return sorted(range(500), key=lambda i: -i)\n"
	"def main():\n"
	"    lock = threading.Lock()\n"
	"    lock.acquire()\n"
	"    for name in ('core-test-thread', u'core-test-\\u4e2d'):\n"
	"        t = threading.Thread(target=core_test_wait, args=(lock,), name=name)\n"
	"        t.daemon = True\n"
	"        t.start()\n"
	"    os.write(1, b'%d' % threading.get_ident())\n"
	"    rounds = 0\n"
	"    while True:\n"
	"        if select.select([0], [], [], 0)[0]:\n"
	"            order = os.read(0, 1)\n"
	"            if order == b'x':\n"
	"                os.execv('/bin/sh', ['sh', '-c', 'read x'])\n"
	"            return\n"
	"        core_test_deep(rounds % 40)\n"
	"        sum(core_test_generator())\n"
	"        core_test_sort()\n"
	"        rounds += 1\n"
	"        if rounds % 50 == 0:\n"
	"            threading.Thread(target=core_test_brief).start()\n"
	"main()\n";

struct program {
	pid_t pid;
	int in, out;
	uint64_t pthread; /* of its main thread */
	struct python_found found;
};

static bool program_start(struct program *p, const char *python)
{
	int in[2], out[2];
	char text[32] = "";

	*p = (struct program){ .pid = -1, .in = -1, .out = -1 };
	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return false;
	(void)fflush(stdout);
	p->pid = fork();
	if (p->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Both ends, as else this would wait for a reader; it stays open. */
		(void)open(scratch("end"), O_RDWR);
		/* The core's process is none above it. */
		(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		(void)dup2(in[0], STDIN_FILENO);
		(void)dup2(out[1], STDOUT_FILENO);
		/* What cannot run it says so at length. */
		(void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		(void)execl(
			python, python, "-E", "-s", "-S", "-c", script, (char *)NULL);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	p->in = in[1];
	p->out = out[0];
	struct pollfd poll_out = { .fd = p->out, .events = POLLIN };

	if (p->pid < 0 || poll(&poll_out, 1, 30000) != 1 ||
		read(p->out, text, sizeof(text) - 1) <= 0)
		return false;
	p->pthread = strtoull(text, NULL, 10);
	return true;
}

static void program_order(const struct program *p, const char *order)
{
	(void)(write(p->in, order, 1) == 1);
}

static void program_end(struct program *p)
{
	if (p->pid > 0) {
		(void)kill(p->pid, SIGKILL);
		(void)waitpid(p->pid, NULL, 0);
	}
	if (p->in >= 0)
		(void)close(p->in);
	if (p->out >= 0)
		(void)close(p->out);
}

/* What the core watches for exec: where the C library has the kernel zero it, if it is
 * one that we know. */
static uint64_t program_tid_word(const struct program *p)
{
	static const unsigned places[] = { 720, 48 };
	struct proc_mem m;
	uint64_t word = 0;
	uint32_t tid;

	proc_mem_init(&m, p->pid);
	for (int i = 0; i < 2 && word == 0; i++)
		if (proc_mem_u32(&m, p->pthread + places[i], &tid) &&
			tid == (uint32_t)p->pid)
			word = p->pthread + places[i];
	proc_mem_done(&m);
	return word != 0 ? word : p->found.code_type;
}

/* --- the core's process --- */

struct session {
	struct core_args *args;
	pid_t pid;
	struct watch w;
};

static int host(void *arg)
{
	struct core_args *args = arg;

	if (core_call(args) != 0)
		return 1;
	return pthread_join(hosted_of(args)->thread, NULL);
}

static bool session_begin(struct session *s, const struct program *p)
{
	s->args = hosted_args(CORE_ISOLATION_TASK);
	s->args->program_pid = p->pid;
	if (tap_valgrind())
		s->args->recorder_pid = 0;
	s->args->tid_word = program_tid_word(p);
	s->args->runtime = p->found.runtime;
	s->args->code_type = p->found.code_type;
	/* It needs process_vm_readv, and for that no fewer rights than the Python. */
	s->args->avoid |= CORE_AVOID_PWRITEV | CORE_AVOID_SECCOMP | CORE_AVOID_CAPSET;
	far_pid = p->pid;
	far_args = s->args;
	s->pid = hosted_fork(host, s->args);
	bool offered = s->pid > 0 &&
		       watch_begin(&s->w, s->args, s->pid, -1,
			       (enum py_linetable_kind)p->found.layout.linetable_kind);

	if (!tap_ok(offered && s->w.h->offer.pid == p->pid &&
			    s->w.h->offer.isolation == CORE_ISOLATION_TASK &&
			    s->w.h->offer.recorder_seen == !tap_valgrind(),
		    "the core offers its ring"))
		printf("# %s, failed %u\n", s->w.err.text, s->args->failed);
	return offered;
}

static void session_run(
	struct session *s, const struct program *p, struct ring_options options)
{
	options.runtime = p->found.runtime;
	options.code_type = p->found.code_type;
	if (options.interval_ns == 0)
		options.interval_ns = tap_valgrind() ? 10000000 : 1000000;
	memcpy(options.layout, &p->found.layout, sizeof(p->found.layout));
	watch_run(&s->w, &options);
}

/* The session is over, by itself or as it is told. */
static void session_end(
	struct session *s, enum ring_leave why, const char *what, struct buf *ret_text)
{
	int status = -1;

	watch_end(&s->w, why, what, ret_text);
	(void)waitpid(s->pid, &status, 0);
	size_t used = hosted_stack_used(s->args);

	if (!tap_ok(status == 0 && atomic_load(&hosted_of(s->args)->unmapped) &&
			    used < CORE_STACK_BYTES / 4 * 3,
		    "its process ends well, the arena goes"))
		printf("# status %x, %zu bytes of its stack are used\n", status, used);
	(void)munmap(s->args, CORE_ARENA_BYTES);
}

/* --- checks --- */

static bool has_functions(struct watch *w)
{
	return watch_has_string(w, "core_test_leaf\n") &&
	       watch_has_string(w, "core_test_deep\n") &&
	       watch_has_string(w, "core_test_wait\n") &&
	       decoder_stats(w->decoder)->samples > 50;
}

static void test_orders(struct program *p)
{
	struct buf text = BUF_INIT(DUMP_MAX_BYTES);
	struct session s;
	struct watch *w = &s.w;

	if (!session_begin(&s, p))
		return;
	session_run(&s, p, (struct ring_options){ 0 });
	WAIT_OK(w, has_functions(w), "the functions that run, and those that wait");
	WAIT_OK(w, w->records[REC_THREAD_END] != 0, "threads that come and end");

	w->h->cut_wanted = 7;
	WAIT_OK(w, decoder_cut_served(w->decoder) == 7, "a cut that is asked for");

	watch_order(w, RING_ORDER_PARK);
	WAIT_OK(w, watch_state(w) == RING_PARKED, "parked by order");
	uint64_t ticks = watch_counter(w, RING_TICKS);

	w->h->cut_wanted = 8;
	WAIT_OK(w, decoder_cut_served(w->decoder) == 8, "a cut while it is parked");
	tap_is((int64_t)watch_counter(w, RING_TICKS), (int64_t)ticks,
		"no tick is taken meanwhile");
	watch_order(w, RING_ORDER_RUN);
	WAIT_OK(w,
		watch_state(w) == RING_RUNNING &&
			watch_counter(w, RING_TICKS) > ticks + 5,
		"and then some are again");
	tap_ok(w->gaps[REC_GAP_DISABLED] != 0 &&
			watch_counter(w, RING_DISABLED_NS) != 0,
		"the time between is told");

	(void)kill(p->pid, SIGSTOP);
	WAIT_OK(w, watch_state(w) == RING_STOPPED, "the program is stopped");
	(void)kill(p->pid, SIGCONT);
	WAIT_OK(w, watch_state(w) == RING_RUNNING && w->gaps[REC_GAP_STOPPED] != 0,
		"and goes on");
	ticks = watch_counter(w, RING_TICKS);
	WAIT_OK(w, watch_counter(w, RING_TICKS) > ticks + 5, "as do the ticks");
	session_end(&s, RING_LEAVE_ORDERED, "it leaves when it is told to", &text);
	tap_ok(strstr(buf_text(&text), "core-test-thread") != NULL &&
			strstr(buf_text(&text), "core-test-\xe4\xb8\xad") != NULL,
		"threads have their names");
	buf_done(&text);
}

/* The other ways to take ticks. */
static void test_options(struct program *p)
{
	static const struct {
		const char *what;
		struct ring_options options;
	} cases[] = {
		{ "as fast as can be", { .flags = RING_OPT_SPIN } },
		{ "under a limit",
			{ .flags = RING_OPT_ADAPTIVE, .overhead_ppm = 1000000 } },
		{ "of threads that run", { .flags = RING_OPT_ONCPU } },
		{ "of some threads, the leaf side",
			{ .max_threads = 1, .max_stack = 3 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf text = BUF_INIT(DUMP_MAX_BYTES);
		struct session s;

		if (!session_begin(&s, p))
			return;
		session_run(&s, p, cases[i].options);
		WAIT_OK(&s.w,
			watch_has_string(&s.w, "core_test_leaf\n") &&
				watch_counter(&s.w, RING_TICKS) > 50,
			"%s", cases[i].what);
		session_end(&s, RING_LEAVE_ORDERED, "it leaves", &text);
		buf_done(&text);
	}
}

static void test_layouts(struct program *p)
{
	struct program other = *p;
	struct buf text = BUF_INIT(DUMP_MAX_BYTES);
	struct session s;

	/* Whatever stands there is no interpreter. */
	other.found.runtime = p->found.code_type;
	if (!session_begin(&s, &other))
		return;
	session_run(&s, &other, (struct ring_options){ 0 });
	WAIT_OK(&s.w, watch_state(&s.w) == RING_WAITING,
		"no interpreter is waited for");
	session_end(&s, RING_LEAVE_ORDERED, "and it leaves", &text);
	buf_done(&text);
}

/* The program ends, or becomes another one. */
static void test_end(struct program *p, const char *order, enum ring_leave why)
{
	struct buf text = BUF_INIT(DUMP_MAX_BYTES);
	struct session s;

	if (!session_begin(&s, p))
		return;
	session_run(&s, p, (struct ring_options){ 0 });
	WAIT_OK(&s.w, has_functions(&s.w), "it is sampled");
	program_order(p, order);
	session_end(&s, why,
		why == RING_LEAVE_EXITED ? "it leaves when the program ends"
					 : "and when it executes another one",
		&text);
	buf_done(&text);
}

/* Returns whether it could be sampled. */
static bool test_python(const char *python)
{
	struct program p;
	struct err err = { "" };
	char words[200];

	if (!program_start(&p, python) || python_find(p.pid, &p.found, &err) != 0 ||
		p.found.kind != PYTHON_CPYTHON) {
		printf("# %s: %s\n", python,
			err.text[0] != '\0' ? err.text
			: p.found.kind != PYTHON_NONE
				? python_refusal(&p.found, words, sizeof(words))
				: "does not start");
		program_end(&p);
		return false;
	}
	printf("# %s: CPython %s\n", python, p.found.version);
	test_orders(&p);
	test_options(&p);
	test_layouts(&p);
	test_end(&p, "e", RING_LEAVE_EXITED);
	program_end(&p);
	if (!tap_ok(program_start(&p, python) &&
			    python_find(p.pid, &p.found, &err) == 0 &&
			    p.found.kind == PYTHON_CPYTHON,
		    "one more of it"))
		return true;
	test_end(&p, "x", RING_LEAVE_EXECED);
	program_end(&p);
	return true;
}

/* May one child read another one's memory, as the core's process has to? */
static int reads_sibling(void *arg)
{
	pid_t word;
	struct far_vector mine = { (uint64_t)(uintptr_t)&word, sizeof(word) };
	struct far_vector theirs = { (uint64_t)(uintptr_t)&far_pid, sizeof(far_pid) };
	long r = arch_syscall(__NR_process_vm_readv, *(const pid_t *)arg, (long)&mine,
		1, (long)&theirs, 1, 0);

	return r == sizeof(word) ? 0 : 1;
}

static int wait_for_end(void *arg)
{
	(void)arg;
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	(void)raise(SIGSTOP);
	return 0;
}

static bool may_read(void)
{
	int status = 1;
	pid_t read = hosted_fork(wait_for_end, NULL);

	(void)waitpid(read, NULL, WUNTRACED);
	pid_t reader = hosted_fork(reads_sibling, &read);

	(void)waitpid(reader, &status, 0);
	(void)kill(read, SIGKILL);
	(void)waitpid(read, NULL, 0);
	return status == 0;
}

int main(void)
{
	static char paths[PYTHONS_MAX][PYTHONS_PATH];
	size_t count = pythons_find(paths);
	unsigned sampled = 0;

	scratch_begin();
	if (mkfifo(scratch("end"), 0600) != 0) {
		printf("Bail out! no FIFO: %m\n");
		return 1;
	}
	/* The other end of a pipe may have ended. */
	(void)signal(SIGPIPE, SIG_IGN);
	if (!may_read()) {
		tap_skip("the core over a Python",
			"another process's memory must not be read here");
		scratch_end();
		return tap_done();
	}
	/* One will do where all takes its time: the system's is the last. */
	for (size_t i = count; i-- > 0 && (sampled == 0 || !tap_valgrind());)
		sampled += test_python(paths[i]);
	if (sampled == 0)
		tap_skip("the core over a Python", "none that can be sampled is here");
	scratch_end();
	return tap_done();
}
