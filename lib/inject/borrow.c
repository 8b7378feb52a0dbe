/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/borrow.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "inject/sigframe.h"
#include "proc/process.h"

enum {
	STOP_WAIT_MS = 1000,  /* for one thread to stop */
	CALL_WAIT_MS = 10000, /* for one borrowed call, once begun */
	MAX_TRIES = 16,
	MAX_FOREIGN_STOPS = 64, /* signals in the way of one stop */
	SYSCALL_STOP = SIGTRAP | 0x80,
	/* Enough below the stack pointer for the frame and a handler's. */
	STACK_ROOM = 32 << 10,
	CODE_PIECE = 1 << 20,
	USER_CODE_SEGMENT = 0x33,
	MAX_RESTARTS = 64,
	/* What a call returns that the kernel is going to make again. */
	ERESTARTSYS = 512,
	ERESTARTNOHAND = 514,
	ERESTART_RESTARTBLOCK = 516,
	SECCOMP_STRICT = 1, /* in /proc/PID/status */
	EFLAGS_TRAP = 0x100,
	EFLAGS_DIRECTION = 0x400,
};

/* --- gadgets --- */

static const unsigned char syscall_ret[] = { 0x0f, 0x05, 0xc3 };
/* mov $15, %eax (in either encoding); syscall */
static const unsigned char sigreturn_short[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };
static const unsigned char sigreturn_long[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f,
	0x05 };

static uint64_t find_bytes(const unsigned char *in, size_t size, const void *what,
	size_t what_size, uint64_t base)
{
	const unsigned char *p = memmem(in, size, what, what_size);

	return p == NULL ? 0 : base + (uint64_t)(p - in);
}

static void search_mapping(
	int mem_fd, const struct proc_map *m, struct borrow_gadgets *g)
{
	_cleanup_free_ unsigned char *bytes = xmalloc(CODE_PIECE);

	for (uint64_t at = m->start; at < m->end; at += CODE_PIECE - 16) {
		size_t size = m->end - at < CODE_PIECE ? m->end - at : CODE_PIECE;
		ssize_t n = pread(mem_fd, bytes, size, (off_t)at);

		if (n <= 0)
			return;
		if (g->syscall_ret == 0)
			g->syscall_ret = find_bytes(
				bytes, (size_t)n, syscall_ret, sizeof(syscall_ret), at);
		if (g->sigreturn == 0)
			g->sigreturn = find_bytes(bytes, (size_t)n, sigreturn_long,
				sizeof(sigreturn_long), at);
		if (g->sigreturn == 0)
			g->sigreturn = find_bytes(bytes, (size_t)n, sigreturn_short,
				sizeof(sigreturn_short), at);
		if ((g->syscall_ret != 0 && g->sigreturn != 0) || size < CODE_PIECE)
			return;
	}
}

static bool is_c_library(const struct proc_map *m)
{
	const char *base = strrchr(m->path, '/');

	return base != NULL &&
	       (strncmp(base, "/libc", 5) == 0 || strncmp(base, "/ld-", 4) == 0);
}

int borrow_find_gadgets(int mem_fd, const struct proc_maps *maps,
	struct borrow_gadgets *ret, struct err *err)
{
	struct borrow_gadgets g = { 0, 0 };

	/* The C library has both; in a static program they are anywhere. */
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < maps->count; i++) {
			const struct proc_map *m = &maps->map[i];

			if (m->executable && m->readable &&
				is_c_library(m) == (pass == 0))
				search_mapping(mem_fd, m, &g);
			if (g.syscall_ret != 0 && g.sigreturn != 0) {
				*ret = g;
				return 0;
			}
		}
	}
	return err_set(err, -E_UNSUPPORTED,
		"its code has no %s to borrow: no C library was found in it",
		g.syscall_ret == 0 ? "system call" : "return from a signal");
}

/* --- stops --- */

static bool is_interrupt_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

/*
 * Wait for a stop of the thread, for at most ms.  Returns 0 and the wait status;
 * -ESRCH when the thread has ended, -ETIMEDOUT.
 */
static int wait_stop(pid_t tid, int ms, int *ret_status)
{
	int64_t now = clock_monotonic_ns(), end = now + ms * 1000000ll;
	int64_t nap = 10000;

	for (;;) {
		int status;
		pid_t r = waitpid(tid, &status, __WALL | WNOHANG);

		if (r == tid) {
			if (!WIFSTOPPED(status))
				return -ESRCH;
			*ret_status = status;
			return 0;
		}
		if (r < 0 && errno != EINTR)
			return -ESRCH;
		now = clock_monotonic_ns();
		if (now > end)
			return -ETIMEDOUT;
		/* The first stops come within microseconds; who is slow may be asked
		 * more rarely. */
		clock_sleep_ns(nap);
		if (nap < 1000000)
			nap += nap / 4;
	}
}

/* Stop the thread where get_signal() looks, before it returns to its own code.
 * Signals on their way to it are passed on. */
static int interrupt(pid_t tid, int ms)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0)
		return -errno;
	for (int i = 0; i < MAX_FOREIGN_STOPS; i++) {
		int r = wait_stop(tid, ms, &status);

		if (r != 0)
			return r;
		if (is_interrupt_stop(status))
			return 0;
		long sig = WSTOPSIG(status);

		if (ptrace(PTRACE_CONT, tid, 0, sig == SYSCALL_STOP ? 0 : sig) != 0)
			return -errno;
	}
	return -ETIMEDOUT;
}

/* Go on to the next stop at the entry to or exit from a system call. */
static int step_to_syscall(struct borrow *b)
{
	int status;
	long sig = 0;

	for (int i = 0; i < MAX_FOREIGN_STOPS; i++) {
		if (ptrace(PTRACE_SYSCALL, b->tid, 0, sig) != 0)
			return -errno;
		int r = wait_stop(b->tid, CALL_WAIT_MS, &status);

		if (r != 0)
			return r;
		if (WSTOPSIG(status) == SYSCALL_STOP)
			return 0;
		/* A group stop is left for now: letting go comes back to it.  A signal
		 * cannot come, being blocked, but for those that a fault forces. */
		sig = is_interrupt_stop(status) ? 0 : WSTOPSIG(status);
	}
	return -ETIMEDOUT;
}

/* --- is this thread fit to be borrowed? --- */

/*
 * Is the memory below its stack pointer its own?  Only where the stack is known for
 * a stack: the main thread's, or one that holds the C library's thread struct, to
 * which the fs base points.  Green threads and Go run on pieces of heap, where the
 * bytes below may be anybody's.
 */
static bool stack_is_roomy(
	const struct proc_maps *maps, const struct user_regs_struct *r)
{
	const struct proc_map *m = proc_maps_at(maps, r->rsp);

	if (m == NULL || !m->writable || r->rsp - STACK_ROOM < m->start)
		return false;
	return strcmp(m->path, "[stack]") == 0 ||
	       (r->fs_base > r->rsp && r->fs_base < m->end);
}

/* A restartable sequence of the thread in which it now is would not be aborted. */
static bool in_restartable_sequence(
	pid_t tid, int mem_fd, const struct user_regs_struct *r)
{
	struct __ptrace_rseq_configuration c;
	uint64_t at = 0, words[3];

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof(c), &c) != sizeof(c) ||
		c.rseq_abi_pointer == 0)
		return false;
	if (pread(mem_fd, &at, sizeof(at), (off_t)c.rseq_abi_pointer + 8) !=
			sizeof(at) ||
		at == 0)
		return false;
	/* struct rseq_cs: version and flags, start, length, abort address. */
	if (pread(mem_fd, words, sizeof(words), (off_t)at) != sizeof(words))
		return false;
	return r->rip - words[1] < words[2];
}

/*
 * Calls that return EINTR after any stop, handler or not: nothing was done yet, so
 * they may be started again, which -ERESTARTNOHAND makes the kernel do unless a
 * handler really runs.  (signal(7), "Interruption of system calls and library
 * functions by stop signals", and the socket calls with timeouts)
 */
static void hide_interruption(struct user_regs_struct *r)
{
	static const int calls[] = { SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_pwait2,
		SYS_rt_sigtimedwait, SYS_semop, SYS_semtimedop, SYS_io_getevents,
		SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_accept, SYS_accept4,
		SYS_write, SYS_writev, SYS_sendto, SYS_sendmsg };

	if ((long)r->rax != -EINTR)
		return;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if ((long)r->orig_rax == calls[i])
			r->rax = (uint64_t)-ERESTARTNOHAND;
}

/* --- one thread --- */

/* Read the registers and lay the signal frame. */
static int take_over(struct borrow *b, const struct proc_maps *maps)
{
	unsigned char xstate[SIGFRAME_MAX_BYTES], frame[SIGFRAME_MAX_BYTES];
	struct iovec regs = { &b->saved, sizeof(b->saved) };
	struct iovec vector = { xstate, sizeof(xstate) };

	if (ptrace(PTRACE_GETREGSET, b->tid, NT_PRSTATUS, &regs) != 0 ||
		ptrace(PTRACE_GETREGSET, b->tid, NT_X86_XSTATE, &vector) != 0 ||
		ptrace(PTRACE_GETSIGMASK, b->tid, sizeof(b->mask), &b->mask) != 0)
		return -errno;
	if (b->saved.cs != USER_CODE_SEGMENT)
		return -E_UNSUPPORTED;
	if (!stack_is_roomy(maps, &b->saved) ||
		in_restartable_sequence(b->tid, b->mem_fd, &b->saved))
		return -E_REFUSED;
	hide_interruption(&b->saved);
	uint64_t address;
	size_t size = sigframe_build(frame, b->saved.rsp, &b->saved, xstate,
		vector.iov_len, b->mask, b->gadgets.sigreturn, &address);

	if (size == 0)
		return -E_UNSUPPORTED;
	if (pwrite(b->mem_fd, frame, size, (off_t)address) != (ssize_t)size)
		return -E_REFUSED;
	b->frame = address;
	return 0;
}

/* Filters are a thread's own, and must not see the borrowed calls: they may end the
 * program for them. */
static int set_filters_aside(struct borrow *b, const struct borrow_search *search)
{
	struct proc_status status;

	if (proc_thread_status_read(b->pid, b->tid, &status) != 0)
		return -ESRCH;
	b->filtered = status.seccomp != 0;
	if (!b->filtered)
		return 0;
	if (status.seccomp == SECCOMP_STRICT)
		return -EACCES;
	b->aside = ptrace(PTRACE_SETOPTIONS, b->tid, 0,
			   PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP) == 0;
	b->own = !b->aside && search->own_filters > 0 &&
		 status.filters == search->own_filters;
	return b->aside || b->own || search->force ? 0 : -EACCES;
}

static int begin_thread(struct borrow *b, const struct proc_maps *maps,
	const struct borrow_search *search)
{
	if (ptrace(PTRACE_SEIZE, b->tid, 0, PTRACE_O_TRACESYSGOOD) != 0)
		return -errno;
	b->since_ns = clock_monotonic_ns();
	int r = interrupt(b->tid, STOP_WAIT_MS);

	if (r == 0)
		r = set_filters_aside(b, search);
	if (r == 0)
		r = take_over(b, maps);
	if (r == 0)
		return 0;
	/* One that did not stop cannot be detached; the end of this thread of ours
	 * lets it go (inject.c sees to that). */
	(void)ptrace(PTRACE_DETACH, b->tid, 0, 0);
	return r;
}

/* In a wait that only its end ends; a stop would come after that. */
static bool is_uninterruptible(pid_t pid, pid_t tid)
{
	struct proc_stat st;

	return proc_stat_read(pid, tid, &st) == 0 && st.state == 'D';
}

static bool thread_ended(pid_t pid, pid_t tid)
{
	struct proc_stat st;

	return proc_stat_read(pid, tid, &st) != 0 || proc_has_ended(&st);
}

static const char *reason_of(int code)
{
	switch (-code) {
	case EPERM:
		return "not permitted";
	case EACCES:
		return "its seccomp filter may end it for the calls that it is to make, and "
		       "cannot be set aside: that takes CAP_SYS_ADMIN, and no filter of one's "
		       "own (try as root, from outside of a container); --force tries in "
		       "spite of it";
	case ESRCH:
		return "the process has ended";
	case EBUSY:
		return "all its threads are in an uninterruptible wait (state D: of a vfork "
		       "child, a disk, a frozen cgroup); try again later";
	case ETIMEDOUT:
		return "no thread stopped within a second; try again later";
	case E_REFUSED:
		return "no thread is at a place where it can be borrowed safely";
	case E_UNSUPPORTED:
		return "it runs 32-bit code, or has an unknown processor state";
	default:
		return strerror(-code);
	}
}

int borrow_begin(pid_t pid, int mem_fd, const struct proc_maps *maps,
	const struct borrow_gadgets *gadgets, struct borrow_search *search,
	struct borrow *ret_borrow, struct err *err)
{
	struct proc_ids threads;
	int r = proc_threads(pid, &threads);
	unsigned tries = 0;

	if (r != 0)
		return err_set(err, r, "%s", reason_of(-ESRCH));
	r = search->next != 0 ? -ETIMEDOUT : -ESRCH;
	for (size_t i = search->next; i < threads.count && tries < MAX_TRIES; i++) {
		if (is_uninterruptible(pid, threads.id[i])) {
			r = r == -ESRCH ? -EBUSY : r;
			continue;
		}
		tries++;
		struct borrow b = {
			.pid = pid,
			.tid = threads.id[i],
			.mem_fd = mem_fd,
			.gadgets = *gadgets,
		};

		r = begin_thread(&b, maps, search);
		search->next = r == -ETIMEDOUT ? (unsigned)i + 1 : 0;
		if (r == 0)
			*ret_borrow = b;
		/* One that has just ended is refused in many ways. */
		if (r != 0 && r != -ETIMEDOUT && thread_ended(pid, threads.id[i]))
			r = -ESRCH;
		if (r == 0 || r == -EPERM || r == -ETIMEDOUT)
			break;
	}
	proc_ids_done(&threads);
	if (r == 0)
		return 0;
	return err_set(err,
		r == -ETIMEDOUT ? -E_TIMEOUT
		: r == -EACCES  ? -E_REFUSED
				: r,
		"%s", reason_of(r));
}

static bool will_restart(int64_t result)
{
	return result <= -ERESTARTSYS && result >= -ERESTART_RESTARTBLOCK;
}

int borrow_call(struct borrow *b, long number, const uint64_t args[6],
	int64_t *ret_result, struct err *err)
{
	struct user_regs_struct regs = b->saved;
	struct iovec io = { &regs, sizeof(regs) };
	static const uint64_t every_signal = ~0ull;

	regs.rip = b->gadgets.syscall_ret;
	regs.rsp = b->frame;
	regs.rax = (uint64_t)number;
	regs.orig_rax = (uint64_t)-1;
	regs.eflags &= ~(uint64_t)(EFLAGS_TRAP | EFLAGS_DIRECTION);
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	int r = 0;

	/* The registers first: from then on the frame restores the mask. */
	if (ptrace(PTRACE_SETREGSET, b->tid, NT_PRSTATUS, &io) != 0)
		r = -errno;
	if (r == 0 && !b->masked) {
		if (ptrace(PTRACE_SETSIGMASK, b->tid, sizeof(every_signal),
			    &every_signal) != 0)
			r = -errno;
		b->masked = r == 0;
	}
	/* A stop that others order makes clone give up, to be made again by the kernel.
	 */
	for (int i = 0; r == 0 && i < MAX_RESTARTS; i++) {
		r = step_to_syscall(b);
		if (r == 0)
			r = step_to_syscall(b);
		if (r == 0 && ptrace(PTRACE_GETREGSET, b->tid, NT_PRSTATUS, &io) != 0)
			r = -errno;
		if (r == 0 && !will_restart((int64_t)regs.rax))
			break;
	}
	if (r == 0 && will_restart((int64_t)regs.rax))
		r = -ETIMEDOUT;
	if (r != 0)
		return err_set(err, r, "a borrowed call failed: %s", reason_of(r));
	*ret_result = (int64_t)regs.rax;
	return 0;
}

int64_t borrow_end(struct borrow *b)
{
	struct iovec io = { &b->saved, sizeof(b->saved) };
	/* Only from this kind of stop does the kernel restart an interrupted call. */
	int r = ptrace(PTRACE_INTERRUPT, b->tid, 0, 0) != 0 ||
				ptrace(PTRACE_CONT, b->tid, 0, 0) != 0
			? -errno
			: 0;

	for (int i = 0; r == 0 && i < MAX_FOREIGN_STOPS; i++) {
		int status;

		r = wait_stop(b->tid, CALL_WAIT_MS, &status);
		if (r == 0 && is_interrupt_stop(status))
			break;
		if (r == 0 && ptrace(PTRACE_CONT, b->tid, 0,
				      WSTOPSIG(status) == SYSCALL_STOP
					      ? 0
					      : WSTOPSIG(status)) != 0)
			r = -errno;
	}
	if (r == 0 && b->masked)
		(void)ptrace(PTRACE_SETSIGMASK, b->tid, sizeof(b->mask), &b->mask);
	if (r == 0)
		(void)ptrace(PTRACE_SETREGSET, b->tid, NT_PRSTATUS, &io);
	/* On any failure the frame brings the thread back. */
	(void)ptrace(PTRACE_DETACH, b->tid, 0, 0);
	return clock_monotonic_ns() - b->since_ns;
}
