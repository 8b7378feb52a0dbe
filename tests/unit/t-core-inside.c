/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core as a whole in a program of the test's own, a forked process whose memory
 * looks like that of a Python: as a task, with guarded loads; as a thread, with copies
 * by system calls and by loads; with CPU timers, whose handler runs in the program's
 * threads.  The test is the recorder; it shares the memory in which the interpreter
 * lies and tells the program what to do.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/auxv.h>
#include <sys/un.h>

#include "hosted.h"
#include "proc/maps.h"
#include "python/unicode.h"
#include "scratch.h"
#include "tap.h"

long hosted_call(long n, long a, long b, long c, long d, long e, long f)
{
	/* Valgrind does not know it yet.  Of itself the program needs no word; this
	 * never has one. */
	if (n == __NR_pidfd_open && tap_valgrind())
		return arch_syscall(__NR_eventfd2, 0, O_CLOEXEC, 0, 0, 0, 0);
	if (n == __NR_close_range)
		return hosted_close_range(a, b, c);
	return arch_syscall(n, a, b, c, d, e, f);
}

/* --- an interpreter --- */

struct fake_text {
	uint64_t references, type, length;
	uint32_t state, pad;
	char bytes[40];
};

struct fake_bytes {
	uint64_t references, type, size;
	char bytes[8];
};

struct fake_code {
	uint64_t references, type, size; /* in units of two bytes */
	uint64_t filename, name, linetable;
	uint32_t first_line, flags;
	uint8_t bytecode[200];
};

struct fake_frame {
	uint64_t previous, code, instr, local;
	uint8_t owner, pad[7];
};

enum { FRAMES = 4, THREADS = 4, STARTS = 4, PAGE = 4096 };

/* Interpreters besides the main one: three more than there is room for. */
enum { CROWD = RING_MOST_INTERPRETERS + 2, CROWD_STATES = 4 };

struct fake_interpreter {
	uint64_t next, id, threads_head;
	uint32_t collecting, pad;
};

struct fake_state {
	uint64_t prev, next, interpreter, frame, pthread, native;
	struct fake_frame frames[FRAMES]; /* the outermost first */
};

enum fake_function { RUN, WORK, LEAF, WAIT, PAGED, FUNCTIONS };

static const char *const functions[FUNCTIONS] = { "inside_run", "inside_work",
	"inside_leaf", "inside_wait", "inside_page" };

/* What the program is told to do, by a word that it takes back when it has. */
enum order {
	NOTHING = 0,
	START,       /* the core, of args[start] */
	JOIN,        /* its thread */
	HANDLE,      /* a signal, by a handler of its own */
	LEAVE_ALONE, /* a signal, as it was at first */
	ASK,         /* whether its action is the default */
	HAND_ON,     /* a signal, to the handler that is there */
	FILTER,      /* one of seccomp that lets everything pass */
	UNMAP,       /* the page */
	END_OTHERS,  /* all threads but the main one, and that after it */
};

static struct shared {
	/* The runtime. */
	uint64_t interpreters_head, finalizing;
	uint64_t gil_last_holder, gil_switches;
	uint32_t gil_locked, initialized;
	struct fake_interpreter interpreter;
	struct fake_state states[THREADS]; /* main, two that work, one that waits */
	struct fake_interpreter crowd[CROWD];
	struct fake_state crowd_states[CROWD_STATES];
	struct fake_code codes[FUNCTIONS];
	struct fake_text names[FUNCTIONS], file;
	struct fake_bytes lines;
	uint64_t code_type;

	/* The test and the program. */
	atomic_int order, signal, start, result;
	atomic_bool ends, blocks;
	struct core_args *args[STARTS];
} * fake;

#define AT(x) ((uint64_t)(uintptr_t) & (x))

static void make_text(struct fake_text *t, const char *text)
{
	*t = (struct fake_text){ .references = 1,
		.length = strlen(text),
		.state = PY_STATE_COMPACT | PY_STATE_ASCII | 1 << PY_STATE_KIND_SHIFT };
	memcpy(t->bytes, text, strlen(text));
}

static void fake_begin(void)
{
	fake = hosted_shared(sizeof(*fake));
	fake->interpreters_head = AT(fake->interpreter);
	fake->initialized = 1;
	fake->interpreter.threads_head = AT(fake->states[0]);
	make_text(&fake->file, "inside.py");
	fake->lines.references = 1;
	for (int i = 0; i < FUNCTIONS; i++) {
		make_text(&fake->names[i], functions[i]);
		fake->codes[i] = (struct fake_code){ .references = 1,
			.type = AT(fake->code_type),
			.size = sizeof(fake->codes[i].bytecode) / 2,
			.filename = AT(fake->file),
			.name = AT(fake->names[i]),
			.linetable = AT(fake->lines),
			.first_line = 10u * (unsigned)i + 1 };
	}
	for (int i = 0; i < THREADS; i++) {
		struct fake_state *s = &fake->states[i];

		s->prev = i != 0 ? AT(s[-1]) : 0;
		s->next = i + 1 < THREADS ? AT(s[1]) : 0;
		s->interpreter = AT(fake->interpreter);
	}
}

static void lay_out(struct py_layout *l)
{
	memset(l, 0xff, sizeof(*l));
	l->version = PY_VERSION_OF(3, 9);
	l->flags = PY_GIL_IN_RUNTIME | PY_HAS_NATIVE_ID;
	l->instr_kind = PY_INSTR_POINTER;
	l->linetable_kind = PY_LINES_LNOTAB;
	l->rt_interpreters_head = offsetof(struct shared, interpreters_head);
	l->rt_finalizing = offsetof(struct shared, finalizing);
	l->rt_initialized = offsetof(struct shared, initialized);
	l->gil = 0;
	l->gil_last_holder = offsetof(struct shared, gil_last_holder);
	l->gil_switch_number = offsetof(struct shared, gil_switches);
	l->gil_locked = offsetof(struct shared, gil_locked);
	l->is_next = 0;
	l->is_id = 8;
	l->is_threads_head = 16;
	l->gc_collecting = 24;
	l->ts_prev = offsetof(struct fake_state, prev);
	l->ts_next = offsetof(struct fake_state, next);
	l->ts_interp = offsetof(struct fake_state, interpreter);
	l->ts_frame = offsetof(struct fake_state, frame);
	l->ts_thread_id = offsetof(struct fake_state, pthread);
	l->ts_native_id = offsetof(struct fake_state, native);
	l->fr_previous = offsetof(struct fake_frame, previous);
	l->fr_code = offsetof(struct fake_frame, code);
	l->fr_instr = offsetof(struct fake_frame, instr);
	l->fr_localsplus = offsetof(struct fake_frame, local);
	l->fr_owner = offsetof(struct fake_frame, owner);
	l->code_tag_mask = 0;
	l->ob_type = offsetof(struct fake_code, type);
	l->var_size = offsetof(struct fake_code, size);
	l->co_filename = offsetof(struct fake_code, filename);
	l->co_name = offsetof(struct fake_code, name);
	l->co_linetable = offsetof(struct fake_code, linetable);
	l->co_firstlineno = offsetof(struct fake_code, first_line);
	l->co_flags = offsetof(struct fake_code, flags);
	l->co_bytecode = offsetof(struct fake_code, bytecode);
	l->bytes_data = offsetof(struct fake_bytes, bytes);
	l->str_length = offsetof(struct fake_text, length);
	l->str_state = offsetof(struct fake_text, state);
	l->str_ascii_data = l->str_compact_data = offsetof(struct fake_text, bytes);
}

/* --- the program --- */

static void set64(uint64_t *at, uint64_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
}

static void call(struct fake_state *s, unsigned depth, enum fake_function function)
{
	struct fake_frame *f = &s->frames[depth];

	f->code = AT(fake->codes[function]);
	f->instr = AT(fake->codes[function].bytecode[0]);
	f->previous = depth != 0 ? AT(f[-1]) : 0;
	set64(&s->frame, AT(*f));
}

static void go_on(struct fake_state *s, unsigned depth, unsigned instr)
{
	set64(&s->frames[depth].instr,
		s->frames[depth].code + offsetof(struct fake_code, bytecode) + instr);
}

static void leave(struct fake_state *s, unsigned depth)
{
	set64(&s->frame, AT(s->frames[depth - 1]));
}

static void begin_thread(struct fake_state *s)
{
	s->pthread = (uint64_t)pthread_self();
	s->native = (uint64_t)syscall(SYS_gettid);
}

static pthread_mutex_t gil = PTHREAD_MUTEX_INITIALIZER;

static void take_gil(struct fake_state *s)
{
	(void)pthread_mutex_lock(&gil);
	if (fake->gil_last_holder != AT(*s)) {
		(void)__atomic_fetch_add(&fake->gil_switches, 1, __ATOMIC_RELEASE);
		set64(&fake->gil_last_holder, AT(*s));
	}
	__atomic_store_n(&fake->gil_locked, 1, __ATOMIC_RELEASE);
}

static void drop_gil(void)
{
	__atomic_store_n(&fake->gil_locked, 0, __ATOMIC_RELEASE);
	(void)pthread_mutex_unlock(&gil);
}

static void *work(void *arg)
{
	struct fake_state *s = arg;
	volatile unsigned n = 0;

	(void)n;
	begin_thread(s);
	call(s, 0, RUN);
	call(s, 1, WORK);
	while (!atomic_load(&fake->ends)) {
		take_gil(s);
		for (unsigned i = 0; i < 20; i++) {
			call(s, 2, LEAF);
			for (unsigned j = 0; j < 3000; j++)
				n += j;
			go_on(s, 2, 2);
			leave(s, 2);
			go_on(s, 1, 2 * (i % 4));
		}
		drop_gil();
	}
	return NULL;
}

static void *wait_for_end(void *arg)
{
	sigset_t timer;

	begin_thread(arg);
	call(arg, 0, RUN);
	call(arg, 1, WAIT);
	(void)sigemptyset(&timer);
	(void)sigaddset(&timer, SIGURG);
	while (!atomic_load(&fake->ends)) {
		(void)pthread_sigmask(
			atomic_load(&fake->blocks) ? SIG_BLOCK : SIG_UNBLOCK, &timer,
			NULL);
		clock_sleep_ns(HOSTED_NAP_NS);
	}
	return NULL;
}

static uint8_t *page; /* for a frame, to be unmapped */

static void on_signal(int sig)
{
	(void)sig;
}

static int set_action(int sig, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	return sigaction(sig, &action, NULL);
}

static int put_filter(void)
{
	struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = 1, .filter = &code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

/* As a handler does that knows one to have been there before it. */
static int hand_on(int sig)
{
	struct sigaction before;

	if (sigaction(sig, NULL, &before) != 0 || before.sa_handler == SIG_DFL)
		return 1;
	before.sa_sigaction(sig, (siginfo_t *)8, NULL);
	return 0;
}

/* Only to be called by the main thread. */
static int obey(enum order order, pthread_t *threads)
{
	struct core_args *args = fake->args[atomic_load(&fake->start)];
	int sig = atomic_load(&fake->signal);
	struct sigaction action;

	switch (order) {
	case START:
		return core_call(args);
	case JOIN:
		return pthread_join(hosted_of(args)->thread, NULL);
	case HANDLE:
		return set_action(sig, on_signal);
	case LEAVE_ALONE:
		return set_action(sig, SIG_DFL);
	case ASK:
		return sigaction(sig, NULL, &action) != 0 ||
		       action.sa_handler != SIG_DFL;
	case HAND_ON:
		return hand_on(sig);
	case FILTER:
		return put_filter();
	case UNMAP:
		return munmap(page, PAGE);
	case END_OTHERS:
		atomic_store(&fake->ends, true);
		for (int i = 1; i < THREADS; i++)
			(void)pthread_join(threads[i], NULL);
		return 0;
	default:
		return 1;
	}
}

static int program(void *arg)
{
	pthread_t threads[THREADS];
	enum order order;
	bool failed = false;

	(void)arg;
	for (unsigned i = 0; i < STARTS; i++) {
		fake->args[i]->program_pid = getpid();
		fake->args[i]->vdso = getauxval(AT_SYSINFO_EHDR);
		(void)prctl(PR_GET_TID_ADDRESS, &fake->args[i]->tid_word);
	}
	begin_thread(&fake->states[0]);
	call(&fake->states[0], 0, WAIT);
	for (unsigned i = 1; i < THREADS; i++)
		failed |= pthread_create(&threads[i], NULL,
				  i + 1 < THREADS ? work : wait_for_end,
				  &fake->states[i]) != 0;
	while (!failed) {
		order = (enum order)atomic_load(&fake->order);
		if (order != NOTHING) {
			atomic_store(&fake->result, obey(order, threads));
			atomic_store(&fake->order, NOTHING);
		}
		/* Of the threads that are left the core's is one; or there is none. */
		if (order == END_OTHERS)
			sys_exit(0);
		clock_sleep_ns(HOSTED_NAP_NS);
	}
	return 1;
}

/* --- the test --- */

static pid_t pid;

static void inside_begin(enum core_isolation isolation)
{
	fake_begin();
	page = mmap(
		NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	hosted_no_tasks = isolation != CORE_ISOLATION_TASK;
	for (unsigned i = 0; i < STARTS; i++)
		fake->args[i] = hosted_args(isolation);
	pid = hosted_fork(program, NULL);
	if (pid < 0 || page == MAP_FAILED) {
		printf("Bail out! no process: %m\n");
		exit(1);
	}
}

static void inside_end(void)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	for (unsigned i = 0; i < STARTS; i++)
		(void)munmap(fake->args[i], CORE_ARENA_BYTES);
	(void)munmap(page, PAGE);
	(void)munmap(fake, sizeof(*fake));
}

/* Returns what the program makes of it, or -1. */
static int tell(enum order order, int value)
{
	int64_t end = hosted_deadline();

	atomic_store(&fake->signal, value);
	atomic_store(&fake->order, order);
	while (atomic_load(&fake->order) != NOTHING && clock_monotonic_ns() < end &&
		!hosted_has_ended(pid))
		clock_sleep_ns(HOSTED_NAP_NS);
	return atomic_load(&fake->order) == NOTHING ? atomic_load(&fake->result) : -1;
}

static const struct core_args *args_now(void)
{
	return fake->args[atomic_load(&fake->start)];
}

/* The n-th start.  listener: -1, or where it is to say hello. */
static bool start(struct watch *w, int n, int listener)
{
	const struct core_args *args = fake->args[n];

	atomic_store(&fake->start, n);
	int r = tell(START, 0);
	bool offered = r == 0 && watch_begin(w, args, pid, listener, PY_LINES_LNOTAB);

	if (!tap_ok(offered && w->h->offer.pid == pid &&
			    w->h->offer.isolation ==
				    (hosted_no_tasks ? CORE_ISOLATION_THREAD
						     : CORE_ISOLATION_TASK),
		    "the core offers its ring"))
		printf("# %d, %s, failed %u\n", r, w->err.text, args->failed);
	return offered;
}

static void run(struct watch *w, struct ring_options options)
{
	struct py_layout layout;

	lay_out(&layout);
	options.interval_ns = tap_valgrind() ? 10000000 : 1000000;
	options.runtime = AT(*fake);
	options.code_type = AT(fake->code_type);
	memcpy(options.layout, &layout, sizeof(layout));
	watch_run(w, &options);
}

/* That core is no more; the program lives. */
static void end(struct watch *w, enum ring_leave why, const char *what)
{
	struct buf text = BUF_INIT(DUMP_MAX_BYTES);

	watch_end(w, why, what, &text);
	buf_done(&text);
	tap_is(tell(JOIN, 0), 0, "its thread ends, the program goes on");
	tap_ok(hosted_stack_used(args_now()) < CORE_STACK_BYTES / 4 * 3,
		"and had stack enough");
}

/* All but that which is called from the page. */
static bool has_functions(struct watch *w)
{
	for (int i = 0; i < PAGED; i++)
		if (!watch_has_string(w, functions[i]))
			return false;
	return decoder_stats(w->decoder)->samples > 50;
}

static bool more_ticks(const struct watch *w, uint64_t before)
{
	return watch_counter(w, RING_TICKS) > before + 5;
}

static void check_parking(struct watch *w)
{
	watch_order(w, RING_ORDER_PARK);
	WAIT_OK(w, watch_state(w) == RING_PARKED, "parked by order");
	uint64_t ticks = watch_counter(w, RING_TICKS);

	w->h->cut_wanted++;
	WAIT_OK(w, decoder_cut_served(w->decoder) == w->h->cut_wanted,
		"a cut while it is parked");
	tap_is((int64_t)watch_counter(w, RING_TICKS), (int64_t)ticks,
		"no tick is taken meanwhile");
	watch_order(w, RING_ORDER_RUN);
	WAIT_OK(w, more_ticks(w, ticks) && w->gaps[REC_GAP_DISABLED] != 0,
		"then some are again, and the time between is told");
}

/* What the thread that waits is called by: nothing, or a frame in the page. */
static void set_caller(uint64_t previous)
{
	set64(&fake->states[THREADS - 1].frames[0].previous, previous);
}

/* As if the GIL had been taken often: every thread is looked at. */
static bool stir(void)
{
	(void)__atomic_fetch_add(&fake->gil_switches, 2, __ATOMIC_RELEASE);
	return true;
}

/* There is a frame, and then it is gone with all the page. */
static void check_page(struct watch *w)
{
	struct fake_frame *f = (struct fake_frame *)(void *)page;

	*f = fake->states[THREADS - 1].frames[0];
	f->code = AT(fake->codes[PAGED]);
	f->instr = AT(fake->codes[PAGED].bytecode[0]);
	set_caller(AT(*f));
	WAIT_OK(w, stir() && watch_has_string(w, functions[PAGED]),
		"a frame in a page of its own");
	tap_is(tell(UNMAP, 0), 0, "which goes");
}

/* --- as a task --- */

/* Returns -1 where the name of the folder is too long for a socket's: it is found as
 * one that was attached then. */
static int listen_in(struct core_args *args)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int s = -1;

	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s",
		    scratch_folder) >= sizeof(address.sun_path))
		return -1;
	memcpy(args->socket_path, address.sun_path, sizeof(address.sun_path));
	args->way = CORE_WAY_SPAWN;
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0 || bind(s, (struct sockaddr *)&address, sizeof(address)) != 0 ||
		listen(s, 1) != 0) {
		printf("Bail out! no socket: %m\n");
		exit(1);
	}
	return s;
}

static void check_fault(struct watch *w)
{
	(void)syscall(
		SYS_tgkill, pid, atomic_load(&hosted_of(args_now())->tid), SIGSEGV);
	WAIT_OK(w, watch_left(w, RING_LEAVE_SIGNAL), "a fault of its own");
	tap_is(w->h->leave_detail, SIGSEGV, "is told");
	watch_done(w);
	tap_is(tell(JOIN, 0), 0, "and ends nothing but itself");
}

static void test_task(void)
{
	struct watch w;

	inside_begin(CORE_ISOLATION_TASK);
	int listener = listen_in(fake->args[0]);

	if (start(&w, 0, listener)) {
		run(&w, (struct ring_options){ 0 });
		WAIT_OK(&w, has_functions(&w), "a task sees all functions");
		tap_is(w.h->copy_state, RING_COPY_DIRECT, "by loads of its own");
		check_parking(&w);
		check_page(&w);
		WAIT_OK(&w, stir() && watch_counter(&w, RING_APPROXIMATE) != 0,
			"a load that faults makes a stack that is marked");
		set_caller(0);
		/* The recorder ends, as far as that is to be seen. */
		fd_close(&w.socket);
		end(&w, listener >= 0 ? RING_LEAVE_RECORDER_GONE : RING_LEAVE_ORDERED,
			"it leaves when the recorder ends");
	}
	fd_close(&listener);

	if (start(&w, 1, -1)) {
		run(&w, (struct ring_options){ .flags = RING_OPT_SPIN });
		WAIT_OK(&w, has_functions(&w), "one more, as fast as can be");
		check_parking(&w);
		if (tap_valgrind()) {
			/* The signal may come as it waits for valgrind's own lock,
			 * which is nobody's then. */
			end(&w, RING_LEAVE_ORDERED, "it leaves");
		} else {
			check_fault(&w);
		}
	}
	inside_end();
}

/* --- many interpreters --- */

/* The last one that has room, and all three that have none, have a thread state each;
 * all but one of these a frame. */
static void fake_crowd(void)
{
	for (unsigned i = 0; i < CROWD; i++)
		fake->crowd[i] = (struct fake_interpreter){
			.next = i + 1 < CROWD ? AT(fake->crowd[i + 1])
					      : AT(fake->interpreter),
			.id = CROWD - i,
		};
	for (unsigned i = 0; i < CROWD_STATES; i++) {
		struct fake_interpreter *in = &fake->crowd[CROWD - CROWD_STATES + i];
		struct fake_state *s = &fake->crowd_states[i];

		in->threads_head = AT(*s);
		s->interpreter = AT(*in);
		s->native = (uint64_t)pid;
		if (i != 2)
			call(s, 0, WAIT);
	}
	set64(&fake->interpreters_head, AT(fake->crowd[0]));
}

static void test_crowd(void)
{
	struct watch w;

	inside_begin(CORE_ISOLATION_TASK);
	if (start(&w, 0, -1)) {
		fake_crowd();
		run(&w, (struct ring_options){ 0 });
		WAIT_OK(&w, has_functions(&w),
			"of more interpreters than there is room for, the main one is there");
		WAIT_OK(&w, w.records[REC_THREAD] >= THREADS + 1,
			"and the threads of all that have room");
		WAIT_OK(&w, watch_counter(&w, RING_LOST_THREADS) == 2,
			"those of the others are counted");
		/* One of those without room ends, then all. */
		set64(&fake->crowd[CROWD - 2].next, AT(fake->interpreter));
		uint64_t ticks = watch_counter(&w, RING_TICKS);

		WAIT_OK(&w, more_ticks(&w, ticks), "some end");
		set64(&fake->interpreters_head, AT(fake->interpreter));
		ticks = watch_counter(&w, RING_TICKS);
		WAIT_OK(&w, more_ticks(&w, ticks), "and then all");
		tap_is((int64_t)watch_counter(&w, RING_LOST_THREADS), 2,
			"how many were left out at most stays told");
		end(&w, RING_LEAVE_ORDERED, "it leaves when it is told to");
	}
	inside_end();
}

/* --- as a thread --- */

/*
 * A thread is stopped together with the program.  It takes a time without ticks for a
 * stop if it is long, and longer than it had to wait for a CPU of late.
 */
static void check_stops(struct watch *w)
{
	int64_t stop_ns = 100000000;

	for (int i = 0; i < 6 && w->gaps[REC_GAP_STOPPED] == 0; i++, stop_ns *= 2) {
		uint64_t ticks = watch_counter(w, RING_TICKS);

		(void)kill(pid, SIGSTOP);
		(void)waitpid(pid, NULL, WUNTRACED);
		clock_sleep_ns(stop_ns);
		(void)kill(pid, SIGCONT);
		w->until = hosted_deadline();
		while (!more_ticks(w, ticks) && watch_on(w))
			;
	}
	tap_ok(w->gaps[REC_GAP_STOPPED] != 0, "a stop is told behind it");
}

/* Some containers refuse that one call. */
static bool may_read(void)
{
	uint64_t word;
	struct {
		void *base;
		uint64_t size;
	} mine = { &word, sizeof(word) }, theirs = { fake, sizeof(word) };

	return arch_syscall(__NR_process_vm_readv, getpid(), (long)&mine, 1,
		       (long)&theirs, 1, 0) == sizeof(word);
}

static void test_thread(void)
{
	struct watch w;

	inside_begin(CORE_ISOLATION_AUTO);
	if (start(&w, 0, -1)) {
		run(&w, (struct ring_options){ 0 });
		WAIT_OK(&w, has_functions(&w), "a thread sees all functions");
		tap_ok(w.h->copy_state == RING_COPY_BY_SYSCALL &&
				(w.h->copy_flags & RING_COPY_CAN_PWRITE) != 0,
			"by system calls");
		check_parking(&w);
		check_stops(&w);
		end(&w, RING_LEAVE_ORDERED, "it leaves when it is told to");
	}
	fake->args[1]->avoid |= CORE_AVOID_PWRITEV;
	if (!may_read()) {
		tap_skip("by process_vm_readv", "it is refused here");
	} else if (start(&w, 1, -1)) {
		run(&w, (struct ring_options){ .flags = RING_OPT_SPIN });
		WAIT_OK(&w, has_functions(&w), "by the other call, as fast as can be");
		tap_is(w.h->copy_flags, RING_COPY_CAN_READV, "which is told");
		tap_is(tell(FILTER, 0), 0, "the program gives up rights");
		end(&w, RING_LEAVE_RIGHTS, "and the core leaves");
	}
	fake->args[2]->avoid |= CORE_AVOID_PWRITEV | CORE_AVOID_READV;
	if (start(&w, 2, -1)) {
		run(&w, (struct ring_options){ 0 });
		end(&w, RING_LEAVE_NO_COPY, "without a call it leaves");
	}
	if (start(&w, 3, -1)) {
		run(&w, (struct ring_options){ 0 });
		WAIT_OK(&w, has_functions(&w), "it is there again");
		struct buf text = BUF_INIT(DUMP_MAX_BYTES);

		tap_is(tell(END_OTHERS, 0), 0, "the program's threads end");
		watch_end(
			&w, RING_LEAVE_EXITED, "the core does not outlive them", &text);
		buf_done(&text);
		int status = -1;

		tap_ok(waitpid(pid, &status, 0) == pid && status == 0,
			"nor does the program");
	}
	inside_end();
}

static void test_fast(void)
{
	struct ring_options fast = { .copy = RING_COPY_FAST, .warmup_ns = 20000000 };
	struct watch w;

	inside_begin(CORE_ISOLATION_AUTO);
	if (start(&w, 0, -1)) {
		run(&w, fast);
		WAIT_OK(&w, w.h->copy_state == RING_COPY_BY_LOAD,
			"copies by loads, after a time by system calls");
		WAIT_OK(&w, has_functions(&w), "show all functions");
		check_parking(&w);
		/* Valgrind would report the load, of code that has no name. */
		if (!tap_valgrind()) {
			check_page(&w);
			WAIT_OK(&w, stir() && watch_counter(&w, RING_COPY_FAULTS) != 0,
				"loads that fault fail");
		}
		set_caller(0);
		tap_is(tell(HANDLE, SIGSEGV), 0, "the program has a handler now");
		WAIT_OK(&w,
			w.h->copy_state == RING_COPY_BY_SYSCALL &&
				(w.h->copy_flags & RING_COPY_TAKEN_SEGV) != 0,
			"by system calls again");
		uint64_t ticks = watch_counter(&w, RING_TICKS);

		WAIT_OK(&w, more_ticks(&w, ticks), "and it goes on");
		end(&w, RING_LEAVE_ORDERED, "it leaves");
		tap_is(tell(ASK, SIGSEGV), 1, "the program's handler stays");
	}
	inside_end();
}

static bool no_handlers(void)
{
	return tell(ASK, SIGSEGV) == 0 && tell(ASK, SIGBUS) == 0;
}

/* An embedded Python may stay half initialized for as long as its host wants. */
static void test_fast_later(void)
{
	struct ring_options fast = { .copy = RING_COPY_FAST };
	struct watch w;

	inside_begin(CORE_ISOLATION_AUTO);
	/* A sanitizer has some. */
	(void)tell(LEAVE_ALONE, SIGSEGV);
	(void)tell(LEAVE_ALONE, SIGBUS);
	__atomic_store_n(&fake->initialized, 0, __ATOMIC_RELEASE);
	if (start(&w, 0, -1)) {
		run(&w, fast);
		WAIT_OK(&w, has_functions(&w), "an interpreter that is not up is seen");
		tap_ok(w.h->copy_state == RING_COPY_BY_SYSCALL && no_handlers(),
			"by system calls, without handlers");
		__atomic_store_n(&fake->initialized, 1, __ATOMIC_RELEASE);
		WAIT_OK(&w, w.h->copy_state == RING_COPY_BY_LOAD,
			"by loads when it is up");
		tap_is(tell(ASK, SIGSEGV), 1, "with handlers");
		end(&w, RING_LEAVE_ORDERED, "it leaves");
		tap_ok(no_handlers(), "and takes them along");
	}
	__atomic_store_n(&fake->initialized, 0, __ATOMIC_RELEASE);
	if (start(&w, 1, -1)) {
		run(&w, fast);
		WAIT_OK(&w, has_functions(&w), "one that never comes up is seen too");
		tap_is(w.h->copy_state, RING_COPY_BY_SYSCALL, "by system calls");
		end(&w, RING_LEAVE_ORDERED, "it leaves");
		tap_ok(no_handlers(), "there never was a handler");
	}
	inside_end();
}

/* --- timers --- */

enum { TIMER_NS = 2000000 };

/* POSIX timers of the program; -1 where the kernel does not tell. */
static int timers_there(void)
{
	char path[40];
	struct buf text = BUF_INIT(1 << 20);

	(void)snprintf(path, sizeof(path), "/proc/%d/timers", (int)pid);
	int n = fd_read_file(AT_FDCWD, path, &text) == 0
			? (int)count_lines(buf_text(&text), "ID: ")
			: -1;

	buf_done(&text);
	return n;
}

/* Under valgrind some or none: it blocks signals of its own accord, and a thread that
 * seems to block the timers' gets none for a while. */
static bool has_timers(int n)
{
	int there = timers_there();

	return there == n || there == -1 || (tap_valgrind() && n != 0 && there > 0);
}

static bool more_timer_samples(const struct watch *w, uint64_t before)
{
	return watch_counter(w, RING_TIMER_SAMPLES) > before + 10;
}

static bool is_mapped(uint64_t address)
{
	struct proc_maps maps;
	struct err err;

	if (proc_maps_read(pid, &maps, &err) != 0)
		return true;
	bool found = proc_maps_at(&maps, address) != NULL;

	proc_maps_done(&maps);
	return found;
}

/* Timers that are on, and what becomes of those of single threads. */
static void check_timers(struct watch *w)
{
	WAIT_OK(w, w->h->timer_state == RING_TIMER_ON, "timers are on");
	WAIT_OK(w, more_timer_samples(w, 0) && w->records[REC_TIMER] != 0,
		"they show the threads that use CPU time");
	tap_is(tell(HAND_ON, SIGURG), 0,
		"their handler does nothing for who calls it, whatever with");
	WAIT_OK(w,
		(w->h->timer_blocked == 1 || tap_valgrind()) && has_timers(THREADS - 1),
		"one that blocks the signal has none");
	atomic_store(&fake->blocks, false);
	WAIT_OK(w, has_timers(THREADS), "until it does not any more");
	atomic_store(&fake->blocks, true);
	WAIT_OK(w, has_timers(THREADS - 1), "and when it does again, its timer goes");

	watch_order(w, RING_ORDER_PARK);
	WAIT_OK(w, watch_state(w) == RING_PARKED && has_timers(0),
		"none is there while sampling is off");
	uint64_t samples = watch_counter(w, RING_TIMER_SAMPLES);

	watch_order(w, RING_ORDER_RUN);
	WAIT_OK(w, more_timer_samples(w, samples) && has_timers(THREADS - 1),
		"and then they are again");
	WAIT_OK(w, has_functions(w), "ticks go on beside them");
}

static void test_timers(void)
{
	struct ring_options options = { .timer_ns = TIMER_NS };
	struct watch w;

	inside_begin(CORE_ISOLATION_AUTO);
	if (!may_read()) {
		tap_skip("timers", "process_vm_readv is refused here");
		inside_end();
		return;
	}
	atomic_store(&fake->blocks, true);
	if (start(&w, 0, -1)) {
		run(&w, options);
		check_timers(&w);
		uint64_t slab = hosted_core(args_now())->timers.slab[0];

		tap_ok(slab != 0 && is_mapped(slab), "there are buffers");
		end(&w, RING_LEAVE_ORDERED, "it leaves when it is told to");
		tap_ok(!is_mapped(slab) && has_timers(0) && tell(ASK, SIGURG) == 0,
			"buffers, timers and handler are gone");
	}
	if (start(&w, 1, -1)) {
		run(&w, options);
		WAIT_OK(&w, more_timer_samples(&w, 0), "one more start has timers too");
		tap_is(tell(HANDLE, SIGURG), 0, "the program has a handler now");
		WAIT_OK(&w,
			w.h->timer_state == RING_TIMER_TAKEN && has_timers(0) &&
				watch_counter(&w, RING_TIMER_YIELDED) == 1,
			"they stand aside");
		tap_ok(w.h->timer_owner == (uint64_t)(uintptr_t)on_signal,
			"for that one");
		uint64_t ticks = watch_counter(&w, RING_TICKS);

		WAIT_OK(&w, more_ticks(&w, ticks), "ticks go on");
		end(&w, RING_LEAVE_ORDERED, "it leaves");
		tap_is(tell(ASK, SIGURG), 1, "the program's handler stays");
	}
	if (start(&w, 2, -1)) {
		run(&w, options);
		WAIT_OK(&w, w.h->timer_state == RING_TIMER_USED,
			"where the signal is used there are none");
		end(&w, RING_LEAVE_ORDERED, "it leaves");
	}
	tap_is(tell(LEAVE_ALONE, SIGURG), 0, "it is not used any more");
	fake->args[3]->avoid |= CORE_AVOID_READV;
	if (start(&w, 3, -1)) {
		run(&w, options);
		WAIT_OK(&w, w.h->timer_state == RING_TIMER_NO_READ,
			"without a way to read for the handler there are none");
		end(&w, RING_LEAVE_ORDERED, "it leaves");
	}
	inside_end();
}

int main(void)
{
	scratch_begin();
	test_task();
	test_crowd();
	test_thread();
	test_fast();
	test_fast_later();
	test_timers();
	scratch_end();
	return tap_done();
}
