/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and stopping the task in a running program.
 *
 * All ptrace work is done in a thread that lives for one start or stop.  The kernel
 * ties what is traced to the thread that traces: when it ends, whatever it still
 * holds is let go, also a thread that never stopped for it.
 */
#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "core/abi.h"
#include "inject/borrow.h"
#include "inject/filter.h"
#include "inject/hush.h"
#include "proc/limits.h"
#include "proc/maps.h"
#include "proc/mem.h"
#include "proc/process.h"

enum {
	TASK_WAIT_MS = 5000, /* for the new task to show itself, and to leave */
	LOCK_WAIT_MS = 5000, /* for another recorder at the same program */
	HOLD_WAIT_MS = 2000, /* for a thread that can be held */
	NAP_NS = 1000000,
	BUSY_NAP_NS = 10000000,
	RING_ROOM_BYTES = 2 << 20,    /* and the image */
	WAIT_CLONE = (int)0x80000000, /* __WCLONE */
};

/* The ring's file, as /proc names it. */
#define RING_PATH "/memfd:pystack-ring"

static const char *const start_failures[] = {
	[CORE_EXIT_RING] = "no memory for its ring (a limit on memory?)",
	[CORE_EXIT_ARENA] = "no room for its tables",
	[CORE_EXIT_FILES] = "close_range is forbidden (by a seccomp filter?)",
	[CORE_EXIT_SIGNALS] = "rt_sigaction is forbidden (by a seccomp filter?)",
};

/* Runs in the program, addresses of which are plain numbers here. */
struct job {
	pid_t pid;
	struct inject_task *task;
	struct err *err;
	bool leaving; /* to unmap and reap, not to start */
	int result;
	/* Work in hand. */
	int mem_fd;
	struct proc_maps maps;
	struct proc_status status;
	struct borrow borrow;
	struct borrow_search search;
	enum core_isolation isolation; /* what is wanted */
	uint32_t avoid;                /* steps of the task, enum core_avoid */
	uint32_t own_avoid; /* those that our own filters would not let pass */
	bool may_run;       /* the clone has been made, or nobody knows */
};

/* Do filters see the borrowed calls? */
static bool is_watched(const struct job *j)
{
	return j->borrow.filtered && !j->borrow.aside && !j->borrow.own;
}

/* A child of any thread of the program with that id in its own namespace. */
static pid_t find_child(pid_t pid, pid_t inner)
{
	struct proc_ids children;
	pid_t found = 0;

	if (proc_children(pid, &children) != 0)
		return 0;
	for (size_t i = 0; i < children.count && found == 0; i++) {
		struct proc_status st;

		if (proc_status_read(children.id[i], &st) == 0 && st.inner_pid == inner)
			found = children.id[i];
	}
	proc_ids_done(&children);
	return found;
}

/* A filter that ends a thread for a call puts its registers back: where the result
 * would be stands the number of the call. */
static bool ended_by_filter(const struct job *j, long number, int64_t result)
{
	return is_watched(j) && result == number &&
	       (number != SYS_clone ||
		       (find_child(j->pid, (pid_t)result) == 0 &&
			       proc_find_thread(j->pid, (pid_t)result) == 0));
}

static int call(struct job *j, int64_t *ret, long number, uint64_t a, uint64_t b,
	uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	const uint64_t args[6] = { a, b, c, d, e, f };
	int r = borrow_call(&j->borrow, number, args, ret, j->err);

	if ((r == 0 && ended_by_filter(j, number, *ret)) ||
		(r == -ESRCH && is_watched(j)))
		return err_set(j->err, -E_GONE,
			"its seccomp filter has ended it, for %s",
			number == SYS_clone  ? "clone"
			: number == SYS_mmap ? "mmap"
					     : "a borrowed call");
	return r;
}

/* By the tracer's own way, a word at a time; the last one is filled up with zeros. */
static bool poke_memory(
	struct job *j, uint64_t address, const unsigned char *bytes, size_t size)
{
	for (size_t at = 0; at < size; at += sizeof(long)) {
		size_t left = size - at;
		long word = 0;

		memcpy(&word, bytes + at, left < sizeof(word) ? left : sizeof(word));
		if (ptrace(PTRACE_POKEDATA, j->borrow.tid, address + at, word) != 0)
			return false;
	}
	return true;
}

static int write_memory(struct job *j, uint64_t address, const void *bytes, size_t size)
{
	ssize_t n = pwrite(j->mem_fd, bytes, size, (off_t)address);

	if (n == (ssize_t)size)
		return 0;
	int code = n < 0 ? -errno : -EIO;

	/* Hardened kernels let nobody write code that way (proc_mem.force_override). */
	if (poke_memory(j, address, bytes, size))
		return 0;
	return err_set(j->err, code, "its memory cannot be written: %s",
		n < 0 ? strerror(-code) : "short write");
}

/*
 * Recorders take turns at a program: two that came at once would both find no task in
 * it, and one that comes while another holds a thread would be refused by the kernel.
 * The lock is advice and goes with its holder; who holds it for too long is passed
 * over.  Returns a descriptor to close, -1 without the lock.
 */
static int take_turn(pid_t pid)
{
	int64_t end = clock_monotonic_ns() + LOCK_WAIT_MS * 1000000ll;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK || clock_monotonic_ns() > end)
			fd_close(&fd);
		else
			clock_sleep_ns(NAP_NS);
	}
	return fd;
}

/* Reasons not to touch the program, each with what to do. */
static int check_program(struct job *j)
{
	struct proc_stat st;
	char who[64] = "";

	if (proc_stat_read(j->pid, 0, &st) != 0 ||
		proc_status_read(j->pid, &j->status) != 0)
		return err_set(j->err, -ESRCH, "no such process");
	if (proc_has_ended(&st))
		return err_set(j->err, -ESRCH,
			"it has ended, and waits for its parent to see that");
	if (j->status.tracer != 0) {
		proc_describe(j->status.tracer, who, sizeof(who));
		return err_set(j->err, -E_REFUSED,
			"it is already traced by process %d (%s)",
			(int)j->status.tracer, who);
	}
	/* To be let go it has to be held once more, even so. */
	if ((st.state == 'T' && !j->leaving) || st.state == 't')
		return err_set(j->err, -E_REFUSED,
			"it is stopped; let it go on first: kill -CONT %d",
			(int)j->pid);
	if (j->status.shadow_stack)
		return err_set(j->err, -E_UNSUPPORTED,
			"it runs with a shadow stack, which is not supported");
	return 0;
}

/* Has it ended, or let go of its memory, which is the first step of that? */
static bool is_over(pid_t pid)
{
	struct proc_stat st;
	struct proc_maps maps;

	if (proc_stat_read(pid, 0, &st) != 0 || proc_has_ended(&st))
		return true;
	if (proc_maps_read(pid, &maps, NULL) != 0)
		return false;
	bool over = maps.count == 0;

	proc_maps_done(&maps);
	return over;
}

/* Open its memory, read its mappings, hold a thread. */
static int hold_program(struct job *j)
{
	struct borrow_gadgets gadgets;
	char path[64];
	int r = check_program(j);

	if (r != 0)
		return r;
	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)j->pid);
	j->mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (j->mem_fd < 0)
		return err_set(j->err, errno == EACCES ? -EPERM : -errno, "%s",
			errno == EACCES ? "not permitted" : strerror(errno));
	r = proc_maps_read(j->pid, &j->maps, j->err);
	if (r == 0)
		r = borrow_find_gadgets(j->mem_fd, &j->maps, &gadgets, j->err);
	if (r == 0)
		r = borrow_begin(j->pid, j->mem_fd, &j->maps, &gadgets, &j->search,
			&j->borrow, j->err);
	return r;
}

/* The same; whatever failed because it ended meanwhile is told as that. */
static int open_program(struct job *j)
{
	int r = hold_program(j);

	if (r != 0 && is_over(j->pid))
		return err_set(j->err, -ESRCH, "it has ended");
	return r;
}

static void close_program(struct job *j)
{
	fd_close(&j->mem_fd);
	proc_maps_done(&j->maps);
}

/* --- start --- */

static int map(
	struct job *j, uint64_t bytes, int protection, const char *what, uint64_t *ret)
{
	int64_t result;
	int r = call(j, &result, SYS_mmap, 0, bytes, (uint64_t)protection,
		MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0);

	if (r != 0)
		return r;
	if (result == -EAGAIN)
		return err_set(j->err, (int)result,
			"its limit of locked memory (RLIMIT_MEMLOCK) leaves no room for %s, "
			"as it locks all that it maps; raise it first: prlimit "
			"--memlock=unlimited --pid %d",
			what, (int)j->pid);
	if (result == -EACCES || result == -EPERM)
		return err_set(j->err, -E_REFUSED,
			"it may not map memory for %s (%s): a seccomp filter or a security "
			"module forbids it",
			what, strerror((int)-result));
	if (result < 0 && result > -4096)
		return err_set(j->err, (int)result,
			"it cannot map %llu bytes for %s: %s",
			(unsigned long long)bytes, what, strerror((int)-result));
	*ret = (uint64_t)result;
	return 0;
}

static void unmap(struct job *j, uint64_t address, uint64_t bytes)
{
	const uint64_t args[6] = { address, bytes };
	struct err unsaid;
	int64_t ignored;

	/* What has failed before is to be told, not this. */
	if (address != 0)
		(void)borrow_call(&j->borrow, SYS_munmap, args, &ignored, &unsaid);
}

/*
 * Memory for the tables.  In a program that locks all it maps, the whole of it would be
 * filled at once, and count where there is a limit: so it is let off before it can be
 * touched.
 */
static int map_arena(struct job *j)
{
	struct inject_task *t = j->task;
	static const char what[] = "the sampler's tables";
	struct proc_status now;
	int64_t result;

	/* With the code, something has been mapped for certain. */
	if (proc_status_read(j->pid, &now) != 0 || now.locked_kib == 0)
		return map(j, t->arena_bytes, PROT_READ | PROT_WRITE, what, &t->arena);
	int r = map(j, t->arena_bytes, PROT_NONE, what, &t->arena);

	if (r == 0)
		r = call(j, &result, SYS_munlock, t->arena, t->arena_bytes, 0, 0, 0, 0);
	if (r == 0)
		r = call(j, &result, SYS_mprotect, t->arena, t->arena_bytes,
			PROT_READ | PROT_WRITE, 0, 0, 0);
	if (r == 0 && result != 0)
		r = err_set(j->err, (int)result,
			"it cannot make memory for %s writable: %s", what,
			strerror((int)-result));
	return r;
}

/* The main thread's clear_child_tid word: the core watches it for exec and exit. */
static uint64_t tid_word(struct job *j)
{
	uint64_t word = 0;
	int64_t result;

	/* The answer goes to where the args will stand.  Under a filter that sees it,
	 * no call is made that can be done without. */
	if (j->borrow.tid != j->pid || is_watched(j) ||
		call(j, &result, SYS_prctl, PR_GET_TID_ADDRESS, j->task->arena, 0, 0, 0,
			0) != 0 ||
		result != 0 ||
		pread(j->mem_fd, &word, sizeof(word), (off_t)j->task->arena) !=
			sizeof(word))
		return 0;
	return word;
}

static int write_args(struct job *j)
{
	const struct proc_map *vdso = proc_maps_named(&j->maps, "[vdso]");
	struct inject_task *t = j->task;
	struct core_args args = {
		.abi_version = CORE_ABI_VERSION,
		.way = CORE_WAY_ATTACH,
		.arena = t->arena,
		.arena_bytes = t->arena_bytes,
		.image = t->image,
		.image_bytes = t->image_bytes,
		.vdso = vdso != NULL ? vdso->start : 0,
		.tid_word = tid_word(j),
		.avoid = j->avoid,
		.isolation = t->thread ? CORE_ISOLATION_THREAD : CORE_ISOLATION_TASK,
		.program_pid = j->status.inner_pid,
		.recorder_pid = proc_same_pid_namespace(j->pid) ? (int32_t)getpid() : 0,
	};
	uint64_t top[2] = { t->image + CORE_ENTRY_CLONE, t->arena };
	int r = write_memory(j, t->arena, &args, sizeof(args));

	if (r == 0)
		r = write_memory(
			j, core_stack_top(t->arena) - sizeof(top), top, sizeof(top));
	return r;
}

/* Before Linux 5.16 a task that a filter kills takes along all who share its memory. */
static bool kernel_spares_program(void)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 16));
}

/* A task, or where its filters do not let it have one, but a thread, that. */
static int choose_isolation(struct job *j, const struct filters *filters)
{
	struct inject_task *t = j->task;
	struct err unsaid;
	uint32_t thread_avoid;
	bool clone = filters_let_clone(filters, CORE_ISOLATION_TASK);
	bool thread = filters_let_clone(filters, CORE_ISOLATION_THREAD) &&
		      filters_judge(filters, CORE_ISOLATION_THREAD, &thread_avoid,
			      &unsaid) == 0;
	/* The clone alone they do not see, where they are set aside. */
	int task = filters_judge(filters, CORE_ISOLATION_TASK, &j->avoid, j->err);

	if (t->thread)
		return filters_judge(filters, CORE_ISOLATION_THREAD, &j->avoid, j->err);
	if (j->isolation == CORE_ISOLATION_AUTO && thread && (task != 0 || !clone)) {
		t->thread = true;
		j->avoid = thread_avoid;
		return 0;
	}
	if (task == 0 || !thread)
		return task;
	unsaid = *j->err;
	return err_set(j->err, task, "%s; a thread of it may do: --isolation=auto",
		unsaid.text);
}

/* The task will inherit the filters.  What they let it do is known before it is made,
 * or, with force, not at all. */
static int judge_filters(struct job *j)
{
	struct filters filters;

	if (!j->borrow.filtered)
		return 0;
	if (j->borrow.own) {
		j->avoid = j->own_avoid;
		return 0;
	}
	int r = filters_read(j->borrow.tid, &filters);

	if (r == 0) {
		r = choose_isolation(j, &filters);
		filters_done(&filters);
		return r;
	}
	if (!j->search.force)
		return err_set(j->err, -E_REFUSED,
			"it runs under a seccomp filter, and what that would do to the "
			"sampler cannot be told (%s); --force tries in spite of it",
			strerror(-r));
	if (!kernel_spares_program())
		return err_set(j->err, -E_REFUSED,
			"it runs under a seccomp filter, which before Linux 5.16 could end "
			"it together with the sampler; --force does not go that far");
	/* As little as possible, but for what confines the superuser's task. */
	j->avoid = geteuid() == 0
			   ? 0
			   : (uint32_t) ~(CORE_AVOID_CORE_LIMIT | CORE_AVOID_PROC);
	return 0;
}

/* By a filter, a security module or an emulator. */
static bool is_refusal(int64_t code)
{
	return code == -EPERM || code == -EACCES || code == -ENOSYS || code == -EINVAL;
}

static int clone_refused(struct job *j, int code)
{
	struct proc_limits limits;

	if (is_refusal(code))
		return err_set(j->err, -E_REFUSED,
			"it may not start the sampler's %s (clone: %s): a seccomp filter, "
			"a security module or an emulator forbids it%s",
			j->task->thread ? "thread" : "task", strerror(-code),
			j->isolation == CORE_ISOLATION_TASK
				? "; --isolation=auto may do"
				: "");
	proc_limits_read(j->pid, &limits);
	if (code == -EAGAIN && limits.processes != LIMIT_NONE)
		return err_set(j->err, code,
			"its user has as many tasks as he may (RLIMIT_NPROC, %llu), so the "
			"sampler's cannot be started; raise it first: prlimit --nproc=%llu "
			"--pid %d",
			(unsigned long long)limits.processes,
			(unsigned long long)limits.processes + 8, (int)j->pid);
	return err_set(j->err, code, "it cannot start the sampler's task: %s%s",
		strerror(-code),
		code == -EAGAIN ? " (pids.max of its cgroup, or kernel.threads-max)"
				: "");
}

static int clone_it(struct job *j, int64_t *ret_result)
{
	const struct inject_task *t = j->task;
	int r = call(j, ret_result, SYS_clone,
		t->thread ? CORE_THREAD_FLAGS : CORE_CLONE_FLAGS,
		core_stack_top(t->arena) - 16, 0, 0, t->thread ? t->arena : 0, 0);

	/* Whose result was not seen may have been made. */
	j->may_run = r != 0 || *ret_result >= 0;
	return r;
}

/* As a task, or where that is refused, as a thread. */
static int start_it(struct job *j, int64_t *ret_result)
{
	int r = clone_it(j, ret_result);

	if (r != 0 || j->task->thread || j->isolation != CORE_ISOLATION_AUTO ||
		!is_refusal(*ret_result))
		return r;
	j->task->thread = true;
	r = write_args(j);
	return r == 0 ? clone_it(j, ret_result) : r;
}

/* Map, fill and clone.  Once the clone has run there is no way back but orders. */
static int put_in(struct job *j)
{
	struct inject_task *t = j->task;
	int64_t result;

	t->thread = j->isolation == CORE_ISOLATION_THREAD;
	t->image_bytes = (uint64_t)(core_image_end - core_image);
	t->arena_bytes = CORE_ARENA_BYTES;
	int r = judge_filters(j);

	if (r == 0)
		r = map(j, t->image_bytes, PROT_READ | PROT_EXEC, "the sampler's code",
			&t->image);
	if (r == 0)
		r = map_arena(j);
	if (r == 0)
		r = write_memory(j, t->image, core_image, t->image_bytes);
	if (r == 0)
		r = write_args(j);
	if (r == 0)
		r = start_it(j, &result);
	if (r == 0 && result < 0)
		r = clone_refused(j, (int)result);
	if (r != 0 && !j->may_run) {
		unmap(j, t->image, t->image_bytes);
		unmap(j, t->arena, t->arena_bytes);
	}
	if (r != 0)
		return r;
	t->inner_task = (pid_t)result;
	return 0;
}

static bool has_ended(int pidfd, int ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

/* A thread that was not found: a list of threads that come and go may lack one. */
static bool was_never_there(const struct inject_task *t)
{
	for (int i = 0; i < 3; i++)
		if (proc_find_thread(t->program, t->inner_task) != 0)
			return false;
	return true;
}

/* Has it provably ended?  Waits for that for so long at most. */
static bool is_gone(const struct inject_task *t, int ms)
{
	int64_t end = clock_monotonic_ns() + ms * 1000000ll;

	if (!t->thread)
		return t->task_pidfd >= 0 && has_ended(t->task_pidfd, ms);
	if (t->task <= 0)
		return was_never_there(t);
	while (!proc_thread_is_over(t->program, t->task, t->start_ticks)) {
		if (clock_monotonic_ns() >= end)
			return false;
		clock_sleep_ns(NAP_NS);
	}
	return true;
}

/* Is descriptor 0 of a thread a ring?  path: of that descriptor. */
static bool holds_ring(pid_t pid, pid_t tid, char *path, size_t size)
{
	char target[64];

	(void)snprintf(path, size, "/proc/%d/task/%d/fd/0", (int)pid, (int)tid);
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	return strncmp(target, RING_PATH, sizeof(RING_PATH) - 1) == 0;
}

/* The task's ring, once it has its size and is sealed; -1 before. */
static int open_ring(const struct inject_task *t)
{
	char path[64];

	if (!holds_ring(t->thread ? t->program : t->task, t->task, path, sizeof(path)))
		return -1;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0 && (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
		fd_close(&fd);
	return fd;
}

/* Why a thread did not begin: it has written that down. */
static int thread_failed(const struct inject_task *t, struct err *err)
{
	struct proc_mem mem;
	uint32_t code = 0;

	proc_mem_init(&mem, t->program);
	(void)proc_mem_u32(&mem, t->arena + offsetof(struct core_args, failed), &code);
	proc_mem_done(&mem);
	if (code == 0 || code >= sizeof(start_failures) / sizeof(start_failures[0]))
		return err_set(err, -E_GONE,
			"the sampler's thread ended as it started (does a seccomp filter or "
			"a security module forbid what it needs?)");
	return err_set(err, -E_GONE, "the sampler's thread could not start: %s",
		start_failures[code]);
}

/* It ended before it had a ring: by its status, why. */
static int task_failed(pid_t task, struct err *err)
{
	int status = proc_wait_status(task);
	unsigned code = status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;

	int signal = status >= 0 && WIFSIGNALED(status) ? WTERMSIG(status)
		     : code > 128                       ? (int)code - 128
							: 0;

	if (signal != 0)
		return err_set(err, -E_GONE,
			"the sampler's task was killed as it started, by %s%s",
			strsignal(signal),
			signal == SIGSYS ? " of a seccomp filter" : "");
	if (code != 0 && code < sizeof(start_failures) / sizeof(start_failures[0]))
		return err_set(err, -E_GONE, "the sampler's task could not start: %s",
			start_failures[code]);
	return err_set(err, -E_GONE,
		"the sampler's task ended as it started (does a seccomp filter or a "
		"security module forbid what it needs?)");
}

/* Take hold of it from outside, if it is there; false before. */
static bool take_hold(struct inject_task *t)
{
	struct proc_stat st;

	if (t->task <= 0)
		t->task = t->thread ? proc_find_thread(t->program, t->inner_task)
				    : find_child(t->program, t->inner_task);
	if (t->task <= 0)
		return false;
	if (t->thread && t->start_ticks == 0 &&
		proc_stat_read(t->program, t->task, &st) == 0)
		t->start_ticks = st.start_ticks;
	if (!t->thread && t->task_pidfd < 0)
		t->task_pidfd = (int)syscall(SYS_pidfd_open, t->task, 0);
	return t->thread ? t->start_ticks != 0 : t->task_pidfd >= 0;
}

/* Find the task from outside, and its ring: descriptor 0 of an otherwise empty table.
 */
static int find_task(struct inject_task *t, struct err *err)
{
	int64_t end = clock_monotonic_ns() + TASK_WAIT_MS * 1000000ll;

	do {
		bool held = take_hold(t);

		if ((held || t->thread) && is_gone(t, 0))
			return t->thread ? thread_failed(t, err)
					 : task_failed(t->task, err);
		if (held)
			t->ring_fd = open_ring(t);
		if (t->ring_fd >= 0)
			return 0;
		/* The task then leaves by itself, and has maybe gone already. */
		if (is_over(t->program))
			return err_set(err, -ESRCH, "it has ended");
		clock_sleep_ns(NAP_NS);
	} while (clock_monotonic_ns() < end);
	return err_set(err, -E_TIMEOUT, "the sampler did not show itself within %d s",
		TASK_WAIT_MS / 1000);
}

/* Tasks whose recorder was killed have left, but nobody reaped them. */
static void reap_old_tasks(struct job *j)
{
	struct proc_ids children;
	int64_t ignored;

	if (is_watched(j) || proc_children(j->pid, &children) != 0)
		return;
	for (size_t i = 0; i < children.count; i++) {
		struct proc_stat st;
		struct proc_status status;

		if (proc_stat_read(children.id[i], 0, &st) == 0 && st.state == 'Z' &&
			strcmp(st.comm, "pystack") == 0 &&
			proc_status_read(children.id[i], &status) == 0)
			(void)call(j, &ignored, SYS_wait4, (uint64_t)status.inner_pid,
				0, (uint64_t)(unsigned)WAIT_CLONE | 1 /* WNOHANG */, 0,
				0, 0);
	}
	proc_ids_done(&children);
}

static void start_job(struct job *j)
{
	uint64_t mark = proc_image_mark(j->pid);

	j->result = open_program(j);
	if (j->result == 0) {
		/* What was read of it before it was held must be of this program. */
		if (mark == 0) {
			j->result = err_set(j->err, -E_REFUSED,
				"cannot tell it from what it may execute: no random "
				"bytes by /proc/%d/auxv",
				(int)j->pid);
		} else if (proc_image_mark(j->pid) != mark ||
			   (j->task->image_mark != 0 && j->task->image_mark != mark)) {
			j->result = err_set(j->err, -E_REFUSED,
				"it has just executed another program");
		} else {
			j->task->image_mark = mark;
			reap_old_tasks(j);
			j->result = put_in(j);
		}
		j->task->held_ns += borrow_end(&j->borrow);
	}
	close_program(j);
}

/* --- stop --- */

/* A task that was killed has left its ring mapped.  Of one that was killed before it
 * was found the file is not known: then it is any, if no other sampler lives there. */
static void unmap_ring(struct job *j)
{
	struct stat st;
	bool known = j->task->ring_fd >= 0 && fstat(j->task->ring_fd, &st) == 0;

	if (!known && inject_find_task(j->pid) != 0)
		return;
	for (size_t i = 0; i < j->maps.count; i++) {
		const struct proc_map *m = &j->maps.map[i];

		if (m->shared && strcmp(m->path, RING_PATH) == 0 &&
			(!known || m->inode == st.st_ino))
			unmap(j, m->start, m->end - m->start);
	}
}

/* The task unmaps its arena on its way out: what is there now may be anybody's. */
static void unmap_arena(struct job *j)
{
	const struct inject_task *t = j->task;
	struct core_args args;

	if (pread(j->mem_fd, &args, sizeof(args), (off_t)t->arena) == sizeof(args) &&
		args.arena == t->arena && args.image == t->image &&
		args.arena_bytes == t->arena_bytes)
		unmap(j, t->arena, t->arena_bytes);
}

static void stop_job(struct job *j)
{
	struct inject_task *t = j->task;
	int64_t ignored;

	j->result = open_program(j);
	if (j->result == 0) {
		/* After an exec these addresses are somebody else's. */
		bool same = proc_image_mark(j->pid) == t->image_mark;

		if (same) {
			unmap_arena(j);
			unmap_ring(j);
			unmap(j, t->image, t->image_bytes);
			t->image = t->arena = 0;
		}
		/* A filter that sees it may have another mind about this call. */
		if (!t->thread && !is_watched(j))
			(void)call(j, &ignored, SYS_wait4, (uint64_t)t->inner_task, 0,
				(uint64_t)(unsigned)WAIT_CLONE | 1 /* WNOHANG */, 0, 0,
				0);
		t->held_ns += borrow_end(&j->borrow);
	}
	close_program(j);
}

/*
 * A thread that is stopped together with its program does not see the order to leave.
 * One that is traced goes on by itself while the others stay stopped.
 */
static void free_job(struct job *j)
{
	struct inject_task *t = j->task;
	int64_t end = clock_monotonic_ns() + TASK_WAIT_MS * 1000000ll;

	if (ptrace(PTRACE_SEIZE, t->task, 0, 0) != 0)
		return;
	(void)ptrace(PTRACE_INTERRUPT, t->task, 0, 0);
	do {
		int status;
		pid_t r = waitpid(t->task, &status, __WALL | WNOHANG);

		if (r < 0)
			return;
		if (r == t->task && WIFSTOPPED(status)) {
			(void)ptrace(PTRACE_CONT, t->task, 0, 0);
		} else if (r == t->task) {
			return;
		} else {
			clock_sleep_ns(NAP_NS);
		}
	} while (clock_monotonic_ns() < end);
}

static bool is_stopped(const struct inject_task *t)
{
	struct proc_stat st;

	return t->thread && t->task > 0 &&
	       proc_stat_read(t->program, t->task, &st) == 0 && st.state == 'T';
}

/* --- the thread that does either --- */

struct work {
	void (*run)(struct job *j);
	struct job *job;
};

static void *thread_main(void *arg)
{
	struct work *w = arg;

	w->run(w->job);
	return NULL;
}

static int run_in_thread(void (*run)(struct job *j), struct job *j)
{
	struct work w = { run, j };
	sigset_t all, old;
	pthread_t thread;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	int r = pthread_create(&thread, NULL, thread_main, &w);

	if (r == 0)
		r = pthread_join(thread, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r != 0)
		return err_set(j->err, -r, "cannot start a thread: %s", strerror(r));
	return j->result;
}

/* Each attempt in a thread of its own, the end of which lets go of a thread that did
 * not stop.  One that is busy in the kernel may come out of it. */
static int run_job(void (*run)(struct job *j), struct job *j)
{
	int64_t end = clock_monotonic_ns() + HOLD_WAIT_MS * 1000000ll;

	for (;;) {
		int r = run_in_thread(run, j);
		bool again = (r == -EBUSY || (r == -E_TIMEOUT && j->search.next != 0));

		if (!again || clock_monotonic_ns() > end)
			return r;
		if (r == -EBUSY)
			clock_sleep_ns(BUSY_NAP_NS);
	}
}

/* How many filters this process has, if the calls that are needed pass them all; it is
 * tried once. */
static int own_filters(enum core_isolation isolation, uint32_t *ret_avoid)
{
	static int count = -1;
	static uint32_t avoid;
	struct proc_status status;
	struct err unsaid;

	if (count < 0)
		count = proc_status_read(getpid(), &status) == 0 &&
					status.seccomp != 0 && status.filters > 0 &&
					filters_try_own(isolation, &avoid, &unsaid) == 0
				? status.filters
				: 0;
	*ret_avoid = avoid;
	return count;
}

static int refuse_second(pid_t pid, pid_t task, struct err *err)
{
	pid_t recorder = inject_find_recorder(pid, task);

	if (recorder == 0)
		return err_set(err, -E_REFUSED,
			"it is already being recorded (by sampler task %d)", (int)task);
	return err_set(err, -E_REFUSED,
		"it is already being recorded (by process %d, sampler task %d)",
		(int)recorder, (int)task);
}

int inject_start(pid_t pid, uint64_t image_mark, unsigned flags,
	struct inject_task *ret_task, struct err *err)
{
	bool force = (flags & INJECT_FORCE) != 0;
	enum core_isolation isolation =
		(flags & INJECT_THREAD) != 0 ? CORE_ISOLATION_THREAD
		: (flags & INJECT_TASK) != 0 ? CORE_ISOLATION_TASK
					     : CORE_ISOLATION_AUTO;
	struct inject_task t = {
		.program = pid,
		.task_pidfd = -1,
		.ring_fd = -1,
		.image_mark = image_mark,
	};
	struct job j = {
		.pid = pid,
		.task = &t,
		.err = err,
		.isolation = isolation,
		.mem_fd = -1,
		.search.force = force,
	};
	_cleanup_close_ int turn = take_turn(pid);
	pid_t other = inject_find_task(pid);

	if (other != 0)
		return refuse_second(pid, other, err);
	if ((flags & INJECT_DESCENDANT) != 0)
		t.own_filters = j.search.own_filters = own_filters(
			isolation == CORE_ISOLATION_THREAD ? CORE_ISOLATION_THREAD
							   : CORE_ISOLATION_TASK,
			&j.own_avoid);
	int r = proc_limits_room(pid, CORE_ARENA_BYTES + RING_ROOM_BYTES, err);

	if (r == 0)
		r = proc_limits_tasks(pid, err);
	if (r == 0)
		r = run_job(start_job, &j);
	t.forced = force;
	/* Of a program that ends in the middle every step may be the one that fails. */
	if (r != 0 && r != -E_GONE && is_over(pid))
		return err_set(err, -ESRCH, "it has ended");

	if (r != 0)
		return r;
	r = find_task(&t, err);
	fd_close(&turn);
	if (r != 0) {
		struct err ignored;

		/* It has no orders and leaves by itself; what is mapped may go only
		 * when it has gone. */
		(void)inject_stop(&t, &ignored);
		return is_over(pid) ? err_set(err, -ESRCH, "it has ended") : r;
	}
	*ret_task = t;
	return 0;
}

static int await_end(struct job *j)
{
	struct inject_task *t = j->task;

	(void)take_hold(t);
	if (is_stopped(t))
		(void)run_in_thread(free_job, j);
	return is_gone(t, TASK_WAIT_MS)
		       ? 0
		       : err_set(j->err, -E_TIMEOUT,
				 "the sampler task has not left; its memory stays mapped in "
				 "the program");
}

static struct job stopping(struct inject_task *t, struct err *err)
{
	return (struct job){ .pid = t->program,
		.task = t,
		.err = err,
		.leaving = true,
		.mem_fd = -1,
		.search.force = t->forced,
		.search.own_filters = t->own_filters };
}

int inject_await(struct inject_task *t, struct err *err)
{
	struct job j = stopping(t, err);
	int turn = take_turn(t->program);
	int r = await_end(&j);

	fd_close(&turn);
	return r;
}

/* Threads of the program may be in it; it has not, if it is another program now. */
static int leave_mapped(struct job *j)
{
	if (proc_image_mark(j->pid) != j->task->image_mark)
		return 0;
	return err_set(j->err, -E_TIMEOUT,
		"a thread of it may be in the handler of a CPU timer (it is stopped, or "
		"held by a debugger), so the sampler's memory stays mapped in the program");
}

int inject_stop(struct inject_task *t, struct err *err)
{
	struct job j = stopping(t, err);
	int turn = take_turn(t->program);
	int r = await_end(&j);

	/* Before a thread is held, which might be the one that is inside. */
	if (r == 0)
		r = t->timer_page == 0 || hush_timers(t) ? run_job(stop_job, &j)
							 : leave_mapped(&j);
	/* A program that has ended has nothing of ours. */
	if (r == -ESRCH)
		r = 0;
	fd_close(&turn);
	inject_abandon(t);
	return r;
}

void inject_abandon(struct inject_task *t)
{
	fd_close(&t->task_pidfd);
	fd_close(&t->ring_fd);
}

/* Every process of this name, the recorders among them. */
static int sampler_tasks(struct proc_ids *ret)
{
	struct proc_ids all;
	size_t kept = 0;
	int r = proc_all(&all);

	if (r != 0)
		return r;
	for (size_t i = 0; i < all.count; i++) {
		struct proc_stat st;

		if (proc_stat_read(all.id[i], 0, &st) == 0 &&
			strcmp(st.comm, "pystack") == 0 && !proc_has_ended(&st))
			all.id[kept++] = all.id[i];
	}
	all.count = kept;
	*ret = all;
	return 0;
}

/* A thread of that name, other than the main one, with a ring or what may be one. */
pid_t inject_find_thread(pid_t pid)
{
	struct proc_ids threads;
	pid_t found = 0;

	if (proc_threads(pid, &threads) != 0)
		return 0;
	for (size_t i = 0; i < threads.count && found == 0; i++) {
		pid_t tid = threads.id[i];
		struct proc_stat st;
		char path[64];

		if (tid != pid && proc_stat_read(pid, tid, &st) == 0 &&
			strcmp(st.comm, "pystack") == 0 && !proc_has_ended(&st) &&
			holds_ring(pid, tid, path, sizeof(path)))
			found = tid;
	}
	proc_ids_done(&threads);
	return found;
}

pid_t inject_find_task(pid_t pid)
{
	struct proc_ids tasks;
	pid_t found = inject_find_thread(pid);

	if (found != 0 || sampler_tasks(&tasks) != 0)
		return found;
	for (size_t i = 0; i < tasks.count && found == 0; i++)
		if (proc_share_memory(pid, tasks.id[i]))
			found = tasks.id[i];
	proc_ids_done(&tasks);
	return found;
}

static bool maps_inode(pid_t pid, const struct stat *ring)
{
	struct proc_maps maps;
	struct err ignored;
	bool found = false;

	if (proc_maps_read(pid, &maps, &ignored) != 0)
		return false;
	for (size_t i = 0; i < maps.count && !found; i++)
		found = maps.map[i].inode == ring->st_ino &&
			strncmp(maps.map[i].path, RING_PATH, sizeof(RING_PATH) - 1) ==
				0;
	proc_maps_done(&maps);
	return found;
}

pid_t inject_find_recorder(pid_t pid, pid_t task)
{
	struct proc_ids all;
	struct stat ring;
	pid_t found = 0;
	char path[64];

	if ((!holds_ring(task, task, path, sizeof(path)) &&
		    !holds_ring(pid, task, path, sizeof(path))) ||
		stat(path, &ring) != 0 || sampler_tasks(&all) != 0)
		return 0;
	/* A task has its ring at descriptor 0, a recorder does not. */
	for (size_t i = 0; i < all.count && found == 0; i++)
		if (!holds_ring(all.id[i], all.id[i], path, sizeof(path)) &&
			maps_inode(all.id[i], &ring))
			found = all.id[i];
	proc_ids_done(&all);
	return found;
}
