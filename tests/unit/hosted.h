/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_HOSTED_H
#define TESTS_UNIT_HOSTED_H

/*
 * The whole core as a part of a test, which a sanitizer or valgrind can watch then: it
 * is started by core_call() in a process that was forked for it, and this one is the
 * recorder.  Two functions are replaced (--wrap of the linker; alive_init() is where it
 * is watched), both in lib/core/entry-x86-64.S:
 *
 *   arch_clone       makes a thread by pthread_create(), whichever kind was asked for,
 *                    as neither of the two follows a raw clone().  The core goes on in
 *                    it, on its own stack in the arena.
 *   arch_unmap_exit  ends the thread and leaves the arena, in which the C library has
 *                    what it knows of it; what was to be unmapped is compared.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "core/core-internal.h"
#include "decoder.h"
#include "dump.h"
#include "tap.h"

#if defined(__SANITIZE_ADDRESS__) || TAP_HAS_FEATURE(address_sanitizer)
#	include <sanitizer/asan_interface.h>
#	define HOSTED_GUARDS
#endif

/* Memory that the process of the core shares with this one. */
static inline void *hosted_shared(size_t bytes)
{
	void *at = mmap(
		NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at != MAP_FAILED)
		return at;
	printf("Bail out! no memory\n");
	exit(1);
}

/* --- in the core's process --- */

/* What is told of one start, in the first page of its arena behind the args. */
struct hosted {
	atomic_int tid;
	atomic_bool unmapped; /* it asked for the arena to be unmapped, as a whole */
	bool task;
	pthread_t thread;
	long (*run)(void *);
	void *arg;
};

static inline struct hosted *hosted_of(const struct core_args *args)
{
	_Static_assert(sizeof(*args) <= 1024, "room for the args");
	return (void *)(uintptr_t)(args->arena + 1024);
}

/* Args of an attached task or thread, in an arena of their own. */
static inline struct core_args *hosted_args(enum core_isolation isolation)
{
	struct core_args *args = hosted_shared(CORE_ARENA_BYTES);

	*args = (struct core_args){
		.abi_version = CORE_ABI_VERSION,
		.way = CORE_WAY_ATTACH,
		.arena = (uint64_t)(uintptr_t)args,
		.arena_bytes = CORE_ARENA_BYTES,
		.recorder_pid = getpid(),
		.single_clone = 1,
		.isolation = isolation,
	};
	/* Under a filter a sanitizer could not report, and valgrind not work; and a
	 * report needs the program's file for its lines. */
	if (TAP_SANITIZED)
		args->avoid = CORE_AVOID_SECCOMP | CORE_AVOID_CHROOT;
	else if (tap_valgrind())
		args->avoid = CORE_AVOID_SECCOMP;
	return args;
}

/* The state of the core: what it begins with, and what it has reached. */
static inline struct core *hosted_core(const struct core_args *args)
{
	return (void *)(uintptr_t)core_stack_top(args->arena);
}

static inline void *hosted_thread(void *arg)
{
	struct hosted *h = arg;

	/* As a task has it, whose root is its own. */
	if (h->task && unshare(CLONE_FS) != 0)
		return NULL;
	atomic_store(&h->tid, (int)syscall(SYS_gettid));
	(void)h->run(h->arg);
	return NULL;
}

/* The core's empty table of descriptors is to keep the one that a report goes to. */
static inline long hosted_close_range(long first, long last, long flags)
{
	if (first != 0)
		return arch_syscall(__NR_close_range, first, last, flags, 0, 0, 0);
	long r =
		arch_syscall(__NR_close_range, STDERR_FILENO + 1, last, flags, 0, 0, 0);

	for (int fd = 0; r >= 0 && fd < STDERR_FILENO; fd++)
		(void)sys_close(fd);
	return r;
}

/* Of clones for a task, whether they are refused. */
static bool hosted_no_tasks;

long __wrap_arch_clone(long flags, void *stack_top, long (*run)(void *), void *arg);
void __wrap_arch_unmap_exit(uint64_t address, uint64_t bytes, int status);

long __wrap_arch_clone(long flags, void *stack_top, long (*run)(void *), void *arg)
{
	struct core_args *args = arg;
	struct hosted *h = hosted_of(args);
	pthread_attr_t attributes;

	if ((uint64_t)(uintptr_t)stack_top != core_stack_top(args->arena) ||
		(flags != CORE_CLONE_FLAGS && flags != CORE_THREAD_FLAGS))
		return -EINVAL;
	if (flags == CORE_CLONE_FLAGS && hosted_no_tasks)
		return -EPERM;
	h->task = flags == CORE_CLONE_FLAGS;
	h->run = run;
	h->arg = arg;
	if (pthread_attr_init(&attributes) != 0 ||
		pthread_attr_setstack(&attributes,
			(void *)(uintptr_t)core_stack_base(args->arena),
			CORE_STACK_BYTES) != 0 ||
		pthread_create(&h->thread, &attributes, hosted_thread, h) != 0)
		return -EAGAIN;
	return 1;
}

void __wrap_arch_unmap_exit(uint64_t address, uint64_t bytes, int status)
{
	struct core_args *args = (void *)(uintptr_t)address;

	atomic_store(&hosted_of(args)->unmapped, bytes == CORE_ARENA_BYTES);
	sys_exit(status);
	__builtin_unreachable();
}

/* Behind each of the core's tables, as far as there is something: what a sanitizer is
 * to take for nobody's. */
static inline void hosted_guard(const void *table, size_t count, size_t size)
{
#ifdef HOSTED_GUARDS
	uint64_t end = (uint64_t)(uintptr_t)table + count * size;

	__asan_poison_memory_region((void *)(uintptr_t)end, -end % 4096);
#else
	(void)table;
	(void)count;
	(void)size;
#endif
}

void __real_alive_init(struct core *c);
void __wrap_alive_init(struct core *c);

/* A function that comes when the tables are laid out. */
void __wrap_alive_init(struct core *c)
{
	hosted_guard(c, 1, sizeof(*c));
	hosted_guard(c->codes, MAX_CODES + 1, sizeof(*c->codes));
	hosted_guard(c->nodes, MAX_NODES + 1, sizeof(*c->nodes));
	hosted_guard(c->strings, MAX_STRINGS + 1, sizeof(*c->strings));
	hosted_guard(c->kept, MAX_KEPT_BLOCKS + 1, sizeof(*c->kept));
	for (int i = 0; i < 3; i++)
		hosted_guard(
			c->walks[i].space, MAX_STORED_FRAMES + 1, sizeof(struct frame));
	__real_alive_init(c);
}

/* Fork a process that runs a function and ends with its result, at the latest with this
 * one. */
static inline pid_t hosted_fork(int (*run)(void *), void *arg)
{
	(void)fflush(stdout);
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Whatever this one has been started with. */
	(void)signal(SIGINT, SIG_DFL);
	_exit(run(arg));
}

/* --- the recorder --- */

static inline int64_t hosted_deadline(void)
{
	return clock_monotonic_ns() + (tap_valgrind() ? 90 : 40) * 1000000000ll;
}

enum { HOSTED_NAP_NS = 1000000, HOSTED_TYPES = 32 };

struct watch {
	const struct core_args *args;
	pid_t pid; /* of the core's process */
	struct ring_header *h;
	struct ring_reader reader;
	struct file_writer *writer;
	struct decoder *decoder;
	uint32_t next_thread;
	struct err err;
	bool bad;                       /* a record that cannot be, err says which */
	uint64_t records[HOSTED_TYPES]; /* of each type */
	uint64_t gaps[REC_GAP_COUNT];   /* of each reason */
	int socket;                     /* on which the core said hello, or -1 */
	struct buf strings;             /* one behind the other */
	int64_t until;
};

/* The words with which a wait that ends without what it is for says so. */
static inline void hosted_say(const struct watch *w, const char *what)
{
	printf("# %s; state %u, leave %u (%d), %llu ticks, copies %u, timers %u (%d)\n",
		what, w->h->state, w->h->leave, w->h->leave_detail,
		(unsigned long long)ring_counter_get(w->h, RING_TICKS),
		w->h->copy_state, w->h->timer_state, w->h->timer_detail);
}

/* What is not the decoder's to tell. */
static inline void watch_note(struct watch *w, const uint8_t *bytes, size_t size)
{
	struct varint_reader all = { bytes, bytes + size, false };

	while (all.at < all.end) {
		uint64_t length = varint_get(&all);

		if (all.bad || length == 0 || length > (uint64_t)(all.end - all.at)) {
			w->bad = true;
			return;
		}
		struct varint_reader r = { all.at + 1, all.at + length, false };
		uint8_t type = *all.at & 0x7f;

		all.at += length;
		w->records[type % HOSTED_TYPES]++;
		if (type == REC_GAP) {
			(void)varint_get(&r);
			(void)varint_get(&r);
			w->gaps[varint_get_max(&r, REC_GAP_COUNT - 1)]++;
		} else if (type == REC_STRING) {
			for (int i = 0; i < 4; i++)
				(void)varint_get(&r);
			buf_add(&w->strings, r.at, (size_t)(r.end - r.at));
			buf_add_byte(&w->strings, '\n');
		}
		w->bad |= r.bad;
	}
}

/* Take what is there, and say that the recorder lives. */
static inline void watch_drain(struct watch *w)
{
	static uint8_t bytes[RING_DATA_BYTES];
	int64_t n = ring_peek(&w->reader, bytes, sizeof(bytes));
	bool cut;

	__atomic_fetch_add(&w->h->recorder_beat, 1, __ATOMIC_RELAXED);
	if (n <= 0 || w->bad) {
		w->bad |= n < 0;
		return;
	}
	/* In a block of exactly that size. */
	_cleanup_free_ uint8_t *copy = xmalloc((size_t)n);

	memcpy(copy, bytes, (size_t)n);
	watch_note(w, copy, (size_t)n);
	w->bad |= decoder_feed(w->decoder, copy, (size_t)n, &cut, &w->err) != n;
	ring_consume(&w->reader, (uint64_t)n);
}

static inline bool hosted_has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == pid;
}

/* One more round of a wait; false when there is nothing more to wait for. */
static inline bool watch_on(struct watch *w)
{
	watch_drain(w);
	if (clock_monotonic_ns() > w->until || hosted_has_ended(w->pid))
		return false;
	clock_sleep_ns(HOSTED_NAP_NS);
	return true;
}

/* Wait for a condition and check it, by the name that follows. */
#define WAIT_OK(w, condition, ...)                                                     \
	do {                                                                           \
		(w)->until = hosted_deadline();                                        \
		while (!(condition) && watch_on(w))                                    \
			;                                                              \
		if (!tap_ok(condition, __VA_ARGS__))                                   \
			hosted_say(w, #condition);                                     \
	} while (0)

static inline uint32_t watch_state(const struct watch *w)
{
	return __atomic_load_n(&w->h->state, __ATOMIC_ACQUIRE);
}

static inline bool watch_left(const struct watch *w, enum ring_leave why)
{
	return watch_state(w) == RING_LEFT && w->h->leave == why;
}

static inline uint64_t watch_counter(const struct watch *w, enum ring_counter which)
{
	return ring_counter_get(w->h, which);
}

static inline bool watch_has_string(struct watch *w, const char *text)
{
	return w->strings.size != 0 &&
	       memmem(w->strings.data, w->strings.size, text, strlen(text)) != NULL;
}

static inline void watch_order(struct watch *w, enum ring_order order)
{
	__atomic_store_n(&w->h->order, order, __ATOMIC_RELEASE);
}

/* What happens to a ring that cannot be had. */
static inline bool watch_begin_ring(struct watch *w, int fd)
{
	const size_t size = RING_HEADER_BYTES + RING_DATA_BYTES;
	struct stat st;

	if (fstat(fd, &st) != 0 || st.st_size != (off_t)size)
		return false;
	if (w->h == NULL) {
		void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		w->h = at != MAP_FAILED ? at : NULL;
	}
	return w->h != NULL && ring_reader_init(&w->reader, w->h, size) == 0;
}

/* The first descriptor of the core's own table, as an injector finds it. */
static inline bool watch_find_ring(struct watch *w, pid_t pid)
{
	char path[100], link[100] = "";
	int tid = atomic_load(&hosted_of(w->args)->tid);

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/0", (int)pid, tid);
	if (tid == 0 || readlink(path, link, sizeof(link) - 1) < 0 ||
		strncmp(link, "/memfd:pystack-ring", 19) != 0)
		return false;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool found = fd >= 0 && watch_begin_ring(w, fd);

	if (fd >= 0)
		(void)close(fd);
	return found;
}

/* The same as a recorder whose program has been spawned: the core says hello. */
static inline bool watch_take_hello(struct watch *w, int listener)
{
	char byte, control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec vector = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	struct pollfd p = { .fd = listener, .events = POLLIN };
	int fd = -1;

	/* Its end is the recorder's. */
	if (poll(&p, 1, 30000) == 1)
		w->socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (w->socket < 0 || recvmsg(w->socket, &message, MSG_CMSG_CLOEXEC) != 1)
		return false;
	const struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	if (c == NULL || c->cmsg_type != SCM_RIGHTS)
		return false;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	bool found = watch_begin_ring(w, fd);

	(void)close(fd);
	return found;
}

/* Wait for the core's offer: by its socket if listener is one, else in the process. */
static inline bool watch_begin(struct watch *w, const struct core_args *args, pid_t pid,
	int listener, enum py_linetable_kind lines)
{
	struct file_segment segment = { .segment = 1, .why = FILE_WHY_SPAWN, .pid = 1 };
	int64_t end = hosted_deadline();
	bool found = false;

	*w = (struct watch){ .args = args,
		.pid = pid,
		.err = { "" },
		.socket = -1,
		.strings = BUF_INIT(DUMP_MAX_BYTES) };
	while (!found && clock_monotonic_ns() < end) {
		found = listener >= 0 ? watch_take_hello(w, listener)
				      : watch_find_ring(w, pid);
		if (!found &&
			(listener >= 0 || args->failed != 0 || hosted_has_ended(pid)))
			break;
		clock_sleep_ns(HOSTED_NAP_NS);
	}
	if (!found || file_writer_open_memory(1, &w->writer, &w->err) != 0)
		return false;
	file_writer_segment(w->writer, &segment);
	w->decoder = decoder_new(w->writer, 1, &w->next_thread, lines);
	w->until = hosted_deadline();
	while (watch_state(w) == RING_STARTING && watch_on(w))
		;
	return watch_state(w) == RING_OFFERED;
}

static inline void watch_run(struct watch *w, const struct ring_options *options)
{
	w->h->options = *options;
	watch_order(w, RING_ORDER_RUN);
}

/* What watch_begin() has opened. */
static inline void watch_done(struct watch *w)
{
	decoder_free(w->decoder);
	file_writer_free(w->writer);
	buf_done(&w->strings);
	(void)munmap(w->h, RING_HEADER_BYTES + RING_DATA_BYTES);
	fd_close(&w->socket);
}

/*
 * The core has left, or is told to: wait for that, and check that it was as it should
 * be, and that the file of all it has said is whole.  Appends what the file holds, and
 * has done with the watch.
 */
static inline void watch_end(
	struct watch *w, enum ring_leave why, const char *what, struct buf *ret_text)
{
	struct file_summary nothing = { 0 };
	struct buf bytes = BUF_INIT(DUMP_MAX_BYTES);
	size_t before = ret_text->size;

	if (why == RING_LEAVE_ORDERED)
		watch_order(w, RING_ORDER_LEAVE);
	WAIT_OK(w, watch_left(w, why), "%s", what);
	/* What was written before the state. */
	watch_drain(w);
	decoder_close_runs(w->decoder);
	bool whole = !w->bad && w->records[REC_END] == 1 &&
		     file_writer_take(w->writer, &nothing, &bytes, &w->err) == 0 &&
		     dump_bytes(bytes.data, bytes.size, ret_text, &w->err) == 0 &&
		     strstr(buf_text(ret_text) + before, "damaged") == NULL;

	if (!tap_ok(whole, "what it has said makes a whole file"))
		printf("# %s\n", w->err.text);
	buf_done(&bytes);
	w->writer = NULL;
	watch_done(w);
}

/* How much of its stack the core has touched; what lies below is the address of its
 * state. */
static inline size_t hosted_stack_used(const struct core_args *args)
{
	uint64_t base = core_stack_base(args->arena), at = base + 8;

	while (at < core_stack_top(args->arena) && *(const uint64_t *)at == 0)
		at += 8;
	return core_stack_top(args->arena) - at;
}

#endif
