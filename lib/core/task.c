/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the task does before its first sample, and how it ends; likewise the thread,
 * which leaves out what is the process's: actions of signals, limits, the session.
 *
 * The order matters.  It is born with every signal blocked and with the program's
 * descriptors; first they go, then its own handlers come, so that from there on
 * nothing that happens to it reaches the program.  Then everything that needs a
 * name or a right is opened, the ring is made, the recorder told; then it locks itself
 * in, and only then waits for orders.  It never changes its user ids (that would take
 * the program's dumpable flag with it) and never writes oom_score_adj (shared with the
 * program).
 */
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/un.h>

#include "core/core-internal.h"

enum {
	SIG_ILL = 4,
	SIG_TRAP = 5,
	SIG_ABRT = 6,
	SIG_BUS = 7,
	SIG_FPE = 8,
	SIG_SEGV = 11,
	SIG_SYS = 31,

	FLAG_SIGINFO = 0x4,
	FLAG_RESTORER = 0x04000000,
	FLAG_NODEFER = 0x40000000,

	CLOSE_UNSHARE = 2,
	UNSHARE_FOLDER = 0x200, /* CLONE_FS */
	LIMIT_CORE = 4,
	LIMIT_NOFILE = 7,

	OPEN_DIRECTORY = 0x10000 | 0x80000, /* O_DIRECTORY | O_CLOEXEC */
	OPEN_READ = 0x80000,
	HERE = -100, /* AT_FDCWD */

	MAKE_SEALED = 0x3, /* MFD_CLOEXEC | MFD_ALLOW_SEALING */
	ADD_SEALS = 1033,  /* F_ADD_SEALS */
	SEALS = 0x7,       /* F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW */
	STREAM_CLOEXEC = 1 | 0x80000,

	ORDERS_WAIT_S = 30,
	ORDERS_SOON_MS = 10,
	PART_NAP_NS = 50000,
	PART_NAPS = 4000,
};

struct sigaction_raw {
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer;
	uint64_t mask;
};

static uint64_t bit(int sig)
{
	return 1ull << (sig - 1);
}

struct core *task_state(void)
{
	uint64_t base = arch_stack_pointer() & ~(uint64_t)(CORE_STACK_BYTES - 1);

	return *(struct core **)(uintptr_t)base;
}

/* Before there is a ring to say it in. */
static _Noreturn void fail(struct core *c, enum core_exit why)
{
	struct core_args *args = (void *)(uintptr_t)c->args.arena;

	__atomic_store_n(&args->failed, why, __ATOMIC_RELEASE);
	sys_exit(why);
	__builtin_unreachable();
}

/* The process between the program and this task has its stack in the arena. */
static bool middle_is_gone(struct core *c)
{
	if (c->middle != 0 && SYS0(__NR_getppid) != c->middle)
		c->middle = 0;
	return c->middle == 0;
}

/* Let it end, and wait until it has: the task is the nearest reaper's child then. */
static void part_from_middle(struct core *c)
{
	struct core_args *args = (void *)(uintptr_t)c->args.arena;

	__atomic_store_n(&args->released, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < PART_NAPS && !middle_is_gone(c); i++)
		(void)sys_ppoll(NULL, 0, PART_NAP_NS);
}

/*
 * The end: say why, and take along what is mapped.  The image stays, as this runs in
 * it; who attached unmaps it.
 */
static _Noreturn void go(struct core *c, enum ring_leave why, int detail)
{
	struct ring_header *h = c->ring.header;

	if (h->magic == 0)
		ring_writer_init(&c->ring, h, RING_DATA_BYTES);
	h->leave = why;
	h->leave_detail = detail;
	__atomic_store_n(&h->state, RING_LEFT, __ATOMIC_RELEASE);
	(void)SYS2(__NR_munmap, h, RING_HEADER_BYTES + RING_DATA_BYTES);
	/* Who waits for us there has the program unmap it; and a thread of the program
	 * may be in the handler. */
	if (!middle_is_gone(c) || c->timers.page != 0)
		sys_exit(0);
	arch_unmap_exit(c->args.arena, c->args.arena_bytes, 0);
}

/*
 * The handler of everything that would end a process with a core dump.  A guarded
 * load that faulted goes on; anything else ends the task, quietly.
 */
static void on_fault(int sig, const void *info, void *context)
{
	if ((sig == SIG_SEGV || sig == SIG_BUS) && arch_fault_fix(sig, info, context))
		return;
	struct core *c = task_state();

	if (c == NULL || c->ring.header == NULL)
		sys_exit(128 + sig);
	go(c, RING_LEAVE_SIGNAL, sig);
}

/*
 * A thread shares the program's actions, and none of its handlers is ever to run here:
 * everything is blocked, so that of signals to the process this thread is given none.
 * copy.c lets those through that a fault raises, as long as their handlers are ours.
 */
static void block_signals(struct core *c)
{
	uint64_t every = ~0ull;

	if (SYS4(__NR_rt_sigprocmask, 2, &every, NULL, 8) < 0)
		fail(c, CORE_EXIT_SIGNALS);
}

/* Without them a fault would be met by the default action. */
static void own_signals(struct core *c)
{
	static const uint8_t dumping[] = { SIG_SEGV, SIG_BUS, SIG_ILL, SIG_FPE,
		SIG_TRAP, SIG_SYS, SIG_ABRT };
	uint64_t handler = (uint64_t)(uintptr_t)on_fault, restorer = ARCH_SIGRETURN;

	/* clang would copy the struct from a constant, whose addresses need a loader.
	 */
	__asm__("" : "+r"(handler), "+r"(restorer));
	struct sigaction_raw action = {
		.handler = handler,
		.flags = FLAG_SIGINFO | FLAG_RESTORER | FLAG_NODEFER,
		.restorer = restorer,
	};
	uint64_t open = 0;

	for (unsigned i = 0; i < sizeof(dumping); i++) {
		if (SYS4(__NR_rt_sigaction, dumping[i], &action, NULL, 8) < 0)
			fail(c, CORE_EXIT_SIGNALS);
		open |= bit(dumping[i]);
	}
	uint64_t mask = ~open;

	if (SYS4(__NR_rt_sigprocmask, 2, &mask, NULL, 8) < 0)
		fail(c, CORE_EXIT_SIGNALS);
}

static bool may(const struct core *c, enum core_avoid step)
{
	return (c->args.avoid & step) == 0;
}

/* A task that a signal kills must not write the program's memory into a file: a limit
 * of 1 byte makes the kernel dump neither into a file nor to a collector. */
static void limit_core(const struct core *c)
{
	struct {
		uint64_t soft, hard;
	} limit = { 1, 1 };

	if (may(c, CORE_AVOID_CORE_LIMIT))
		(void)SYS4(__NR_prlimit64, 0, LIMIT_CORE, &limit, NULL);
}

/*
 * An empty table of descriptors.  Until then the table is the program's: without one
 * of its own the task must not open anything.
 */
static void own_files(struct core *c)
{
	if (SYS3(__NR_close_range, 0, ~0u, CLOSE_UNSHARE) < 0)
		fail(c, CORE_EXIT_FILES);
}

/*
 * An ordinary task, of the niceness that it has.  Where every CPU is taken, the kernel
 * lets one that wakes run before others only if its slice is shorter (since Linux 6.12;
 * before, the number is not looked at): else a tick that falls into a short piece of
 * work is taken when that is over, and shows what comes after it.
 */
static void be_scheduled_soon(const struct core *c)
{
	enum { PROCESS = 0, NICE_OFFSET = 20, SLICE_NS = 100000 };
	struct {
		int32_t priority;
	} other = { 0 };
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} soon = { .size = sizeof(soon), .runtime = SLICE_NS };

	if (!may(c, CORE_AVOID_SCHEDULER))
		return;
	long nice = SYS2(__NR_getpriority, PROCESS, 0);

	(void)SYS3(__NR_sched_setscheduler, 0, 0 /* SCHED_OTHER */, &other);
	if (nice <= 0)
		return;
	soon.nice = NICE_OFFSET - (int32_t)nice;
	(void)SYS3(__NR_sched_setattr, 0, &soon, 0);
}

/* Of a process of its own. */
static void own_process(const struct core *c)
{
	struct {
		uint64_t soft, hard;
	} files;

	if (may(c, CORE_AVOID_FILE_LIMIT) &&
		SYS4(__NR_prlimit64, 0, LIMIT_NOFILE, NULL, &files) == 0) {
		files.soft = files.hard;
		(void)SYS4(__NR_prlimit64, 0, LIMIT_NOFILE, &files, NULL);
	}
	if (may(c, CORE_AVOID_SESSION))
		(void)SYS0(__NR_setsid);
}

/* What a task inherits and must not keep. */
static void own_attributes(const struct core *c)
{
	uint64_t every_cpu[128];

	memset(every_cpu, 0xff, sizeof(every_cpu));
	if (may(c, CORE_AVOID_AFFINITY))
		(void)SYS3(__NR_sched_setaffinity, 0, sizeof(every_cpu), every_cpu);
	if (may(c, CORE_AVOID_SLACK))
		(void)SYS2(__NR_prctl, PR_SET_TIMERSLACK, 1);
	(void)SYS2(__NR_prctl, PR_SET_NAME, "pystack");
}

/* The memfd is the first descriptor of an empty table: number 0. */
static void make_ring(struct core *c)
{
	uint64_t bytes = RING_HEADER_BYTES + RING_DATA_BYTES;
	long fd = SYS2(__NR_memfd_create, "pystack-ring", MAKE_SEALED);

	if (fd < 0 || SYS2(__NR_ftruncate, fd, bytes) < 0)
		fail(c, CORE_EXIT_RING);
	/* The recorder maps it too: nobody may cut it short under its eyes. */
	(void)SYS3(__NR_fcntl, fd, ADD_SEALS, SEALS);
	long at = SYS6(__NR_mmap, 0, bytes, READ_WRITE, MAP_BOTH, fd, 0);

	if (!sys_is_address(at))
		fail(c, CORE_EXIT_RING);
	/* Where the program locks all that it maps, this is not to count. */
	if (may(c, CORE_AVOID_UNLOCK))
		(void)SYS2(__NR_munlock, at, bytes);
	(void)SYS3(__NR_madvise, at, bytes, DONT_FORK);
	/* Enough to leave by. */
	c->ring.header = (void *)at;
}

/* With it the ring is complete, which its magic number tells. */
static void make_offer(struct core *c)
{
	struct ring_header *h = c->ring.header;

	h->offer = (struct ring_offer){
		.pid = c->args.program_pid,
		.tid = (int32_t)SYS0(__NR_gettid),
		.isolation = c->thread ? CORE_ISOLATION_THREAD : CORE_ISOLATION_TASK,
		.image = c->args.image,
		.image_bytes = c->args.image_bytes,
		.arena = c->args.arena,
		.arena_bytes = c->args.arena_bytes,
		.runtime = c->args.runtime,
		.code_type = c->args.code_type,
		.python_hex = c->args.python_hex,
	};
	memcpy(h->offer.python_version, c->args.python_version,
		sizeof(h->offer.python_version));
	if (c->args.runtime != 0)
		(void)load_bytes(c, h->offer.runtime_bytes, c->args.runtime,
			sizeof(h->offer.runtime_bytes));
	ring_writer_init(&c->ring, h, RING_DATA_BYTES);
}

/* Decimal digits at p; returns the byte behind them. */
static char *put_number(char *p, uint32_t value)
{
	char digits[10];
	int n = 0;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	while (n > 0)
		*p++ = digits[--n];
	return p;
}

/*
 * The program's threads in /proc, if there is a /proc and it is the one of the
 * pid namespace the task lives in: else the numbers would mean other processes.
 */
static void open_proc(struct core *c)
{
	char path[64] = "/proc/", self[16];
	char *p = put_number(path + 6, (uint32_t)c->args.program_pid);
	uint32_t pid = 0;

	c->task_directory = -1;
	c->stat_fd = c->self_stat_fd = c->status_fd = -1;
	if (!may(c, CORE_AVOID_PROC))
		return;
	long n = SYS4(__NR_readlinkat, HERE, "/proc/self", self, sizeof(self) - 1);

	for (long i = 0; i < n && self[i] >= '0' && self[i] <= '9'; i++)
		pid = pid * 10 + (uint32_t)(self[i] - '0');
	if (pid == 0 || pid != (uint32_t)SYS0(__NR_getpid))
		return;
	memcpy(p, "/task", 6);
	c->task_directory = (int)sys_openat(HERE, path, OPEN_DIRECTORY);
	memcpy(p, "/stat", 6);
	c->stat_fd = (int)sys_openat(HERE, path, OPEN_READ);
	if (c->thread) {
		memcpy(p, "/status", 8);
		c->status_fd = (int)sys_openat(HERE, path, OPEN_READ);
	}
	c->self_stat_fd = (int)sys_openat(HERE,
		c->thread ? "/proc/thread-self/schedstat" : "/proc/self/stat",
		OPEN_READ);
}

struct iovec_raw {
	void *base;
	uint64_t size;
};

struct msghdr_raw {
	void *name;
	uint32_t name_size, pad0;
	struct iovec_raw *vector;
	uint64_t vector_count;
	void *control;
	uint64_t control_size;
	uint32_t flags, pad1;
};

/* One byte, and with it the ring's descriptor. */
static long send_ring(int socket, int ring)
{
	char byte = 'R';
	struct iovec_raw vector = { &byte, 1 };
	struct {
		uint64_t size;
		int32_t level, type;
		int32_t fd, pad;
	} control = { 16 + sizeof(int32_t), 1 /* SOL_SOCKET */, 1 /* SCM_RIGHTS */,
		ring, 0 };
	struct msghdr_raw message = {
		.vector = &vector,
		.vector_count = 1,
		.control = &control,
		.control_size = sizeof(control),
	};

	return SYS3(__NR_sendmsg, socket, &message, 0x4000 /* MSG_NOSIGNAL */);
}

/* Say hello to the recorder of a spawned program; the socket stays, since its end
 * is the surest sign of the recorder's. */
static void say_hello(struct core *c)
{
	struct sockaddr_un address = { .sun_family = 1 /* AF_UNIX */ };
	long fd = SYS3(__NR_socket, 1, STREAM_CLOEXEC, 0);

	memcpy(address.sun_path, c->args.socket_path, sizeof(address.sun_path));
	if (fd < 0 || SYS3(__NR_connect, fd, &address, sizeof(address)) < 0 ||
		send_ring((int)fd, 0) < 0)
		task_leave(c, RING_LEAVE_RECORDER_GONE, 0);
	c->recorder_pidfd = (int)fd;
	c->recorder_is_socket = true;
	c->ring.header->offer.recorder_seen = 1;
}

/* Wait for the recorder to fill in the options. */
static void await_orders(struct core *c)
{
	struct ring_header *h = c->ring.header;
	int64_t began = loop_now(c), end = began + ORDERS_WAIT_S * 1000000000ll;

	__atomic_store_n(&h->state, RING_OFFERED, __ATOMIC_RELEASE);
	while (__atomic_load_n(&h->order, __ATOMIC_ACQUIRE) == RING_ORDER_NONE) {
		int64_t now = loop_now(c);

		if (now > end)
			task_leave(c, RING_LEAVE_NO_ORDERS, 0);
		/* They come within a ms as a rule, and until then nothing is seen. */
		bool soon = now - began < ORDERS_SOON_MS * 1000000;

		(void)alive_sleep(c, now + (soon ? 200000 : 2000000));
		(void)alive_check(c);
	}
	part_from_middle(c);
	c->options = h->options;
	memcpy(&c->layout, c->options.layout, sizeof(c->layout));
	copy_orders(c);
	if (c->options.max_stack == 0 || c->options.max_stack > MAX_STORED_FRAMES)
		c->options.max_stack = MAX_STORED_FRAMES;
	if (c->options.interval_ns < 20000)
		c->options.interval_ns = 20000;
	if (c->options.interval_ns > 3600ull * 1000000000)
		c->options.interval_ns = 3600ull * 1000000000;
}

/*
 * The system calls the task may make once it is locked in.  openat is for the
 * schedstat files of new threads, so for reading alone; the chroot, where it could be
 * had, confines it.
 */
static void filter_calls(void)
{
	static const uint16_t allowed[] = {
		__NR_clock_gettime,
		__NR_ppoll,
		__NR_pread64,
		__NR_close,
		__NR_kcmp,
		__NR_getppid,
		__NR_rt_sigreturn,
		__NR_munmap,
		__NR_exit,
		__NR_restart_syscall,
	};
	enum {
		ALLOWED = sizeof(allowed) / sizeof(allowed[0]),
		NR = offsetof(struct seccomp_data, nr),
		ARCH = offsetof(struct seccomp_data, arch),
		/* The lower half, which is all the kernel looks at. */
		OPEN_FLAGS = offsetof(struct seccomp_data, args) + 2 * sizeof(uint64_t),
	};
	struct sock_filter code[ALLOWED + 8];
	unsigned n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARCH);
	code[n++] = (struct sock_filter)BPF_JUMP(
		BPF_JMP | BPF_JEQ | BPF_K, ARCH_AUDIT, 0, ALLOWED + 4);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NR);
	for (unsigned i = 0; i < ALLOWED; i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			allowed[i], (uint8_t)(ALLOWED - i + 3), 0);
	code[n++] = (struct sock_filter)BPF_JUMP(
		BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 2);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, OPEN_FLAGS);
	code[n++] = (struct sock_filter)BPF_JUMP(
		BPF_JMP | BPF_JEQ | BPF_K, OPEN_READ, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K, SECCOMP_RET_ERRNO | SYS_EPERM);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

	struct sock_fprog program = { .len = (uint16_t)n, .filter = code };

	(void)SYS3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* The root and working directory are the task's own; a thread has to ask for that. */
static bool own_folder(struct core *c)
{
	return !c->thread || SYS1(__NR_unshare, UNSHARE_FOLDER) == 0;
}

/*
 * Give up what is not needed any more.  Each step alone may be refused.  A thread has
 * no filter of its own: the program's SECCOMP_FILTER_FLAG_TSYNC fails where a thread
 * has one that the others lack.
 */
static void lock_in(struct core *c)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct none[2] = { { 0 } };

	if (may(c, CORE_AVOID_CHROOT) && c->task_directory >= 0 && own_folder(c) &&
		SYS1(__NR_fchdir, c->task_directory) == 0)
		(void)SYS1(__NR_chroot, ".");
	/* Until there is no such capability, or none may be dropped. */
	for (unsigned cap = 0; may(c, CORE_AVOID_CAPSET) &&
			       SYS2(__NR_prctl, PR_CAPBSET_DROP, cap) == 0;
		cap++)
		;
	if (may(c, CORE_AVOID_CAPSET))
		(void)SYS2(__NR_capset, &header, none);
	if (may(c, CORE_AVOID_NO_NEW_PRIVS))
		(void)SYS5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (may(c, CORE_AVOID_SECCOMP) && !c->thread)
		filter_calls();
}

/* Where the tables lie: behind the stack and the state, each on pages of its own. */
static void *take(uint64_t *at, uint64_t bytes)
{
	void *p = (void *)*at;

	*at = (*at + bytes + 4095) & ~4095ull;
	return p;
}

static void lay_out(struct core *c, uint64_t at)
{
	c->threads = take(&at, MAX_THREADS * sizeof(struct thread));
	c->thread_index = take(&at, THREAD_INDEX * sizeof(uint16_t));
	c->codes = take(&at, (MAX_CODES + 1) * sizeof(struct code));
	c->code_index = take(&at, CODE_INDEX * sizeof(uint16_t));
	c->nodes = take(&at, (MAX_NODES + 1) * sizeof(struct node));
	c->node_index = take(&at, NODE_INDEX * sizeof(uint16_t));
	c->strings = take(&at, (MAX_STRINGS + 1) * sizeof(struct string));
	c->string_index = take(&at, STRING_INDEX * sizeof(uint16_t));
	c->path_cache = take(&at, PATH_CACHE * sizeof(struct path_entry));
	c->kept = take(&at, (MAX_KEPT_BLOCKS + 1) * sizeof(struct kept_block));
	c->scratch = take(&at, SCRATCH_BYTES);
	c->raw = take(&at, MAX_STORED_FRAMES * sizeof(struct raw_frame));
	for (unsigned i = 0; i < sizeof(c->walks) / sizeof(c->walks[0]); i++)
		c->walks[i].space =
			take(&at, (MAX_STORED_FRAMES + 1) * sizeof(struct frame));
	if (at > c->args.arena + c->args.arena_bytes)
		fail(c, CORE_EXIT_ARENA);
}

/* A process that was forked is often over at once, or another program: then nobody
 * needs to know. */
static void await_more(struct core *c)
{
	struct sys_pollfd p = { .events = SYS_POLLIN };
	uint32_t word = 1;

	/* With such a program its thread ends. */
	if (c->thread) {
		(void)sys_ppoll(NULL, 0, c->args.patience_us * 1000ll);
		return;
	}
	p.fd = (int)SYS2(__NR_pidfd_open, c->args.program_pid, 0);
	if (sys_ppoll(&p, 1, c->args.patience_us * 1000ll) != 0 ||
		(c->args.tid_word != 0 &&
			(!load32(c, c->args.tid_word, &word) || word == 0)))
		arch_unmap_exit(c->args.arena, c->args.arena_bytes, 0);
	(void)sys_close(p.fd);
}

/* A thread ends with its program, and needs no word of that. */
static void open_program(struct core *c)
{
	if (c->thread)
		return;
	c->program_pidfd = (int)SYS2(__NR_pidfd_open, c->args.program_pid, 0);
	/* It may have ended since the clone. */
	if (c->program_pidfd == -SYS_ESRCH)
		task_leave(c, RING_LEAVE_EXITED, 0);
	if (c->program_pidfd < 0)
		task_leave(c, RING_LEAVE_SYSCALL, -c->program_pidfd);
}

long core_task(void *arg)
{
	const struct core_args *args = arg;
	uint64_t at = core_stack_top(args->arena);
	struct core *c = take(&at, sizeof(*c));

	*(struct core **)(uintptr_t)core_stack_base(args->arena) = c;
	c->args = *args;
	c->thread = args->isolation == CORE_ISOLATION_THREAD;

	be_scheduled_soon(c);
	if (c->thread)
		block_signals(c);
	else
		limit_core(c);
	own_files(c);
	if (!c->thread) {
		own_signals(c);
		own_process(c);
	}
	own_attributes(c);
	c->middle = c->args.middle;
	if (c->args.hold == 0)
		part_from_middle(c);
	(void)SYS3(__NR_madvise, c->args.arena, c->args.arena_bytes, DONT_FORK);
	if (c->args.way == CORE_WAY_ATTACH)
		(void)SYS3(__NR_madvise, c->args.image, c->args.image_bytes, DONT_FORK);
	if (c->args.patience_us != 0)
		await_more(c);
	lay_out(c, at);
	c->program_pidfd = c->recorder_pidfd = -1;
	make_ring(c);
	copy_begin(c);
	loop_find_vdso(c);
	make_offer(c);
	open_program(c);
	open_proc(c);
	if (c->args.way == CORE_WAY_SPAWN) {
		say_hello(c);
	} else if (c->args.recorder_pid > 0) {
		c->recorder_pidfd = (int)SYS2(__NR_pidfd_open, c->args.recorder_pid, 0);
		/* Killed between the clone and here. */
		if (c->recorder_pidfd == -SYS_ESRCH)
			task_leave(c, RING_LEAVE_RECORDER_GONE, 0);
		c->ring.header->offer.recorder_seen = c->recorder_pidfd >= 0;
	}
	alive_init(c);
	/* Before the orders, which may be long in coming: who gets at this memory when
	 * the program has given up its rights must not find them here. */
	lock_in(c);
	await_orders(c);
	loop_run(c);
}

void task_leave(struct core *c, enum ring_leave why, int detail)
{
	struct record r;

	/* Threads are asked for their last account; the first one may also be when all
	 * have ended. */
	if ((why == RING_LEAVE_ORDERED || why == RING_LEAVE_EXITED ||
		    why == RING_LEAVE_EXECED) &&
		c->gap_from == 0) {
		c->now_ns = loop_now(c);
		cpu_settle(c);
	}
	timers_stop(c);

	if (c->options.interval_ns != 0)
		(void)runs_cut(c);
	runs_end_gap(c, loop_now(c));
	copy_end(c);
	loop_count_cpu(c);
	record_begin(&r, REC_END);
	record_number(&r, why);
	record_number(&r, varint_fold(detail));
	record_number(&r, (uint64_t)loop_now(c));
	(void)record_put(c, &r, 0);
	runs_publish(c);
	go(c, why, detail);
}
