/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/memfd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "core/abi.h"

enum { MOST_FILTERS = 256 };

/* --- reading --- */

static struct sock_filter *copy_code(const struct sock_filter *code, size_t count)
{
	struct sock_filter *copy = xmalloc(count * sizeof(*code));

	memcpy(copy, code, count * sizeof(*code));
	return copy;
}

int filters_read(pid_t tid, struct filters *ret)
{
	struct filters f = { 0 };
	long n = 0;

	for (long i = 0; i < MOST_FILTERS; i++) {
		struct sock_filter code[BPF_MAXINSNS];

		n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, NULL);
		if (n > 0 && n <= BPF_MAXINSNS)
			n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, code);
		if (n < 0)
			n = -errno;
		if (n <= 0 || n > BPF_MAXINSNS)
			break;
		f.program = xgrow(f.program, f.count, &f.capacity, sizeof(*f.program));
		f.program[f.count++] = (struct filter_program){
			.code = copy_code(code, (size_t)n),
			.count = (unsigned)n,
		};
	}
	/* The end of the list is told by this. */
	if (n == -ENOENT && f.count != 0) {
		*ret = f;
		return 0;
	}
	filters_done(&f);
	return n < 0 ? (int)n : -EINVAL;
}

void filters_done(struct filters *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->program[i].code);
	free(f->program);
	*f = (struct filters){ 0 };
}

/* --- running --- */

struct machine {
	uint32_t a, x, memory[BPF_MEMWORDS];
};

static uint32_t compute(uint16_t operation, uint32_t a, uint32_t b)
{
	switch (operation) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return b != 0 ? a / b : 0;
	case BPF_OR:
		return a | b;
	case BPF_AND:
		return a & b;
	case BPF_LSH:
		return b < 32 ? a << b : 0;
	case BPF_RSH:
		return b < 32 ? a >> b : 0;
	case BPF_NEG:
		return 0u - a;
	case BPF_XOR:
		return a ^ b;
	default:
		return 0;
	}
}

static bool holds(uint16_t comparison, uint32_t a, uint32_t b)
{
	switch (comparison) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	case BPF_JSET:
		return (a & b) != 0;
	default:
		return false;
	}
}

/* The words that a program can load; false where the kernel allows none. */
static bool load(const struct machine *m, const struct sock_filter *i,
	const struct seccomp_data *call, uint32_t *ret)
{
	switch (BPF_MODE(i->code)) {
	case BPF_ABS:
		if (i->k > sizeof(*call) - sizeof(*ret) || i->k % sizeof(*ret) != 0)
			return false;
		memcpy(ret, (const char *)call + i->k, sizeof(*ret));
		return true;
	case BPF_IMM:
		*ret = i->k;
		return true;
	case BPF_MEM:
		if (i->k >= BPF_MEMWORDS)
			return false;
		*ret = m->memory[i->k];
		return true;
	case BPF_LEN:
		*ret = sizeof(*call);
		return true;
	default:
		return false;
	}
}

uint32_t filter_run(const struct filter_program *p, const struct seccomp_data *call)
{
	struct machine m = { 0 };

	/* Jumps go forwards only, so it ends. */
	for (unsigned at = 0; at < p->count; at++) {
		const struct sock_filter *i = &p->code[at];
		uint32_t operand = BPF_SRC(i->code) == BPF_X ? m.x : i->k;

		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
			if (!load(&m, i, call, &m.a))
				return SECCOMP_RET_KILL_PROCESS;
			break;
		case BPF_LDX:
			if (!load(&m, i, call, &m.x))
				return SECCOMP_RET_KILL_PROCESS;
			break;
		case BPF_ST:
		case BPF_STX:
			if (i->k >= BPF_MEMWORDS)
				return SECCOMP_RET_KILL_PROCESS;
			m.memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? m.a : m.x;
			break;
		case BPF_ALU:
			m.a = compute(BPF_OP(i->code), m.a, operand);
			break;
		case BPF_JMP:
			if (BPF_OP(i->code) == BPF_JA)
				at += i->k < p->count ? i->k : p->count;
			else
				at += holds(BPF_OP(i->code), m.a, operand) ? i->jt
									   : i->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
		case BPF_MISC:
			if (BPF_MISCOP(i->code) == BPF_TAX)
				m.x = m.a;
			else
				m.a = m.x;
			break;
		default:
			break;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

uint32_t filters_run(const struct filters *f, const struct seccomp_data *call)
{
	uint32_t result = SECCOMP_RET_ALLOW;

	for (size_t i = 0; i < f->count; i++) {
		uint32_t r = filter_run(&f->program[i], call);

		/* The order of severity is that of the signed numbers. */
		if ((int32_t)(r & SECCOMP_RET_ACTION_FULL) <
			(int32_t)(result & SECCOMP_RET_ACTION_FULL))
			result = r;
	}
	return result;
}

/* --- judging --- */

/* A call of the task or thread.  Addresses and descriptors are not known here and stand
 * as a usual one. */
struct task_call {
	const char *name;
	int number;
	uint32_t avoid; /* the step it can do without; 0: it needs this one */
	uint64_t args[6];
	uint8_t of; /* enum call_of */
};

enum call_of {
	BOTH = 0,
	TASK,
	THREAD,
	COPY, /* a thread's ways to read memory, of which one has to be left */
};

#define SOME_ADDRESS 0x7f0000000000ull
#define SOME_BYTES   (1u << 20)
#define HERE         ((uint64_t)(uint32_t)AT_FDCWD)
#define THREAD_CLOCK 0xfffffffffffffe06ull

/* All calls of lib/core on the way of an attached task or thread;
 * tests/python/attach-filters.bats compares the list with the source. */
static const struct task_call task_calls[] = {
	{ "prlimit64", SYS_prlimit64, CORE_AVOID_CORE_LIMIT,
		{ 0, RLIMIT_CORE, SOME_ADDRESS }, TASK },
	{ "close_range", SYS_close_range, 0, { 0, ~0u, 2 }, BOTH },
	{ "rt_sigaction", SYS_rt_sigaction, 0, { 11, SOME_ADDRESS, 0, 8 }, TASK },
	{ "rt_sigprocmask", SYS_rt_sigprocmask, 0, { 2, SOME_ADDRESS, 0, 8 }, BOTH },
	{ "rt_sigreturn", SYS_rt_sigreturn, 0, { 0 }, TASK },
	{ "prlimit64", SYS_prlimit64, CORE_AVOID_FILE_LIMIT,
		{ 0, RLIMIT_NOFILE, 0, SOME_ADDRESS }, TASK },
	{ "prlimit64", SYS_prlimit64, CORE_AVOID_FILE_LIMIT,
		{ 0, RLIMIT_NOFILE, SOME_ADDRESS }, TASK },
	{ "setsid", SYS_setsid, CORE_AVOID_SESSION, { 0 }, TASK },
	{ "sched_setscheduler", SYS_sched_setscheduler, CORE_AVOID_SCHEDULER,
		{ 0, 0, SOME_ADDRESS }, BOTH },
	{ "getpriority", SYS_getpriority, CORE_AVOID_SCHEDULER, { 0, 0 }, BOTH },
	{ "sched_setattr", SYS_sched_setattr, CORE_AVOID_SCHEDULER,
		{ 0, SOME_ADDRESS, 0 }, BOTH },
	{ "sched_setaffinity", SYS_sched_setaffinity, CORE_AVOID_AFFINITY,
		{ 0, 1024, SOME_ADDRESS }, BOTH },
	{ "prctl", SYS_prctl, CORE_AVOID_SLACK, { PR_SET_TIMERSLACK, 1 }, BOTH },
	{ "prctl", SYS_prctl, 0, { PR_SET_NAME, SOME_ADDRESS }, BOTH },
	{ "madvise", SYS_madvise, 0, { SOME_ADDRESS, SOME_BYTES, MADV_DONTFORK },
		BOTH },
	{ "memfd_create", SYS_memfd_create, 0,
		{ SOME_ADDRESS, MFD_CLOEXEC | MFD_ALLOW_SEALING }, BOTH },
	{ "ftruncate", SYS_ftruncate, 0, { 0, SOME_BYTES }, BOTH },
	{ "fcntl", SYS_fcntl, 0, { 0, F_ADD_SEALS, 7 }, BOTH },
	{ "mmap", SYS_mmap, 0, { 0, SOME_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED },
		BOTH },
	{ "munlock", SYS_munlock, CORE_AVOID_UNLOCK, { SOME_ADDRESS, SOME_BYTES },
		BOTH },
	{ "gettid", SYS_gettid, 0, { 0 }, BOTH },
	{ "getpid", SYS_getpid, CORE_AVOID_PROC, { 0 }, BOTH },
	{ "pidfd_open", SYS_pidfd_open, 0, { 1000, 0 }, BOTH },
	{ "readlinkat", SYS_readlinkat, CORE_AVOID_PROC,
		{ HERE, SOME_ADDRESS, SOME_ADDRESS, 15 }, BOTH },
	{ "openat", SYS_openat, CORE_AVOID_PROC,
		{ HERE, SOME_ADDRESS, O_DIRECTORY | O_CLOEXEC }, BOTH },
	{ "openat", SYS_openat, CORE_AVOID_PROC, { 1, SOME_ADDRESS, O_CLOEXEC }, BOTH },
	{ "pread64", SYS_pread64, CORE_AVOID_PROC, { 1, SOME_ADDRESS, 512 }, BOTH },
	{ "close", SYS_close, CORE_AVOID_PROC, { 1 }, BOTH },
	{ "clock_gettime", SYS_clock_gettime, 0, { 1, SOME_ADDRESS }, BOTH },
	{ "clock_gettime", SYS_clock_gettime, 0, { 3, SOME_ADDRESS }, BOTH },
	{ "clock_gettime", SYS_clock_gettime, 0, { THREAD_CLOCK, SOME_ADDRESS },
		THREAD },
	{ "ppoll", SYS_ppoll, 0, { SOME_ADDRESS, 2, SOME_ADDRESS }, BOTH },
	{ "unshare", SYS_unshare, CORE_AVOID_CHROOT, { CLONE_FS }, THREAD },
	{ "fchdir", SYS_fchdir, CORE_AVOID_CHROOT, { 1 }, BOTH },
	{ "chroot", SYS_chroot, CORE_AVOID_CHROOT, { SOME_ADDRESS }, BOTH },
	{ "prctl", SYS_prctl, CORE_AVOID_CAPSET, { PR_CAPBSET_DROP, 0 }, BOTH },
	{ "capset", SYS_capset, CORE_AVOID_CAPSET, { SOME_ADDRESS, SOME_ADDRESS },
		BOTH },
	{ "prctl", SYS_prctl, CORE_AVOID_NO_NEW_PRIVS, { PR_SET_NO_NEW_PRIVS, 1 },
		BOTH },
	{ "seccomp", SYS_seccomp, CORE_AVOID_SECCOMP,
		{ SECCOMP_SET_MODE_FILTER, 0, SOME_ADDRESS }, TASK },
	{ "kcmp", SYS_kcmp, CORE_AVOID_KCMP, { 1000, 1001, 1 }, BOTH },
	{ "pwritev", SYS_pwritev, CORE_AVOID_PWRITEV, { 1, SOME_ADDRESS, 1, 0, 0 },
		COPY },
	{ "process_vm_readv", SYS_process_vm_readv, CORE_AVOID_READV,
		{ 1000, SOME_ADDRESS, 1, SOME_ADDRESS, 1, 0 }, COPY },
	{ "timer_create", SYS_timer_create, CORE_AVOID_TIMERS,
		{ THREAD_CLOCK, SOME_ADDRESS, SOME_ADDRESS }, THREAD },
	{ "timer_settime", SYS_timer_settime, CORE_AVOID_TIMERS,
		{ 1000000, 0, SOME_ADDRESS, 0 }, THREAD },
	{ "timer_delete", SYS_timer_delete, CORE_AVOID_TIMERS, { 1000000 }, THREAD },
	{ "rt_sigaction", SYS_rt_sigaction, CORE_AVOID_TIMERS,
		{ SIGURG, SOME_ADDRESS, SOME_ADDRESS, 8 }, THREAD },
	{ "rt_sigpending", SYS_rt_sigpending, CORE_AVOID_TIMERS, { SOME_ADDRESS, 8 },
		THREAD },
	{ "rt_sigreturn", SYS_rt_sigreturn, CORE_AVOID_TIMERS, { 0 }, THREAD },
	{ "prlimit64", SYS_prlimit64, CORE_AVOID_TIMERS,
		{ 0, RLIMIT_SIGPENDING, 0, SOME_ADDRESS }, THREAD },
	{ "mmap", SYS_mmap, CORE_AVOID_TIMERS,
		{ SOME_ADDRESS, 8192, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, ~0ull },
		THREAD },
	{ "mprotect", SYS_mprotect, CORE_AVOID_TIMERS,
		{ SOME_ADDRESS, 4096, PROT_READ | PROT_EXEC }, THREAD },
	{ "madvise", SYS_madvise, CORE_AVOID_TIMERS,
		{ SOME_ADDRESS, 4096, MADV_WIPEONFORK }, THREAD },
	{ "munmap", SYS_munmap, 0, { SOME_ADDRESS, SOME_BYTES }, BOTH },
	{ "exit", SYS_exit, 0, { 0 }, BOTH },
};

static bool is_made(const struct task_call *t, enum core_isolation isolation)
{
	return t->of == BOTH || (t->of == TASK) == (isolation == CORE_ISOLATION_TASK);
}

static const char *action_text(uint32_t action)
{
	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_TRACE:
		return "refuses";
	case SECCOMP_RET_USER_NOTIF:
		return "would ask another process about";
	default:
		return "would kill the sampler for";
	}
}

enum { TASK_CALLS = sizeof(task_calls) / sizeof(task_calls[0]) };

/* What follows from the actions at the calls. */
static int conclude(const uint32_t actions[TASK_CALLS], enum core_isolation isolation,
	uint32_t *ret_avoid, struct err *err)
{
	const uint32_t copies = CORE_AVOID_PWRITEV | CORE_AVOID_READV;
	uint32_t avoid = 0;

	for (size_t i = 0; i < TASK_CALLS; i++) {
		const struct task_call *t = &task_calls[i];
		uint32_t action = actions[i] & SECCOMP_RET_ACTION_FULL;

		if (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG ||
			!is_made(t, isolation))
			continue;
		if (t->avoid == 0 || ((avoid | t->avoid) & copies) == copies)
			return err_set(err, -E_REFUSED,
				"its seccomp filter %s %s, which the sampler needs",
				action_text(action), t->name);
		avoid |= t->avoid;
	}
	*ret_avoid = avoid;
	return 0;
}

static uint32_t action_at(const struct filters *f, const struct task_call *t)
{
	struct seccomp_data call = { .nr = t->number,
		.arch = AUDIT_ARCH_X86_64,
		.instruction_pointer = SOME_ADDRESS };

	for (unsigned n = 0; n < 6; n++)
		call.args[n] = t->args[n];
	return filters_run(f, &call);
}

int filters_judge(const struct filters *f, enum core_isolation isolation,
	uint32_t *ret_avoid, struct err *err)
{
	uint32_t actions[TASK_CALLS];

	for (size_t i = 0; i < TASK_CALLS; i++)
		actions[i] = action_at(f, &task_calls[i]);
	return conclude(actions, isolation, ret_avoid, err);
}

static uint64_t clone_flags(enum core_isolation isolation)
{
	return isolation == CORE_ISOLATION_THREAD ? CORE_THREAD_FLAGS
						  : CORE_CLONE_FLAGS;
}

bool filters_let_clone(const struct filters *f, enum core_isolation isolation)
{
	const struct task_call clone = { "clone", SYS_clone, 0,
		{ clone_flags(isolation), SOME_ADDRESS }, 0 };
	uint32_t action = action_at(f, &clone) & SECCOMP_RET_ACTION_FULL;

	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

/* --- one's own filters, by trying --- */

/* Shared with the children that try. */
struct trial {
	enum core_isolation isolation;
	volatile uint32_t actions[TASK_CALLS];
	volatile size_t at;     /* the call that is being made */
	volatile bool borrowed; /* the injector's calls pass */
};

static int end_at_once(void *arg)
{
	(void)arg;
	return 0;
}

/* What the borrowed thread is made to do, in its order. */
static bool try_borrowed(enum core_isolation isolation)
{
	enum { BYTES = 64 << 10 };
	char *code = mmap(
		NULL, BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *stack = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t word;

	if (code == MAP_FAILED || stack == MAP_FAILED)
		return false;
	(void)prctl(PR_GET_TID_ADDRESS, &word, 0, 0, 0);
	bool thread = isolation == CORE_ISOLATION_THREAD;
	pid_t pid = clone(end_at_once, stack + BYTES, (int)clone_flags(isolation), NULL,
		NULL, stack, NULL);

	/* A thread may still be on its stack. */
	return pid > 0 && (thread || waitpid(pid, NULL, __WCLONE) == pid) &&
	       munlock(stack, BYTES) == 0 &&
	       mprotect(stack, BYTES, PROT_READ | PROT_WRITE) == 0 &&
	       munmap(code, BYTES) == 0 && (thread || munmap(stack, BYTES) == 0);
}

/* Make the calls from `at` on; their addresses are bad, so that nearly all fail, but
 * not as a filter makes them fail. */
static _Noreturn void try_calls(struct trial *trial)
{
	const struct rlimit no_core = { 0, 0 };

	(void)setrlimit(RLIMIT_CORE, &no_core);
	if (trial->at == 0)
		trial->borrowed = try_borrowed(trial->isolation);
	for (; trial->at < TASK_CALLS; trial->at++) {
		const struct task_call *t = &task_calls[trial->at];
		const uint64_t *a = t->args;

		/* These two do not come back, and no program does without them. */
		if (t->number == SYS_rt_sigreturn || t->number == SYS_exit ||
			!is_made(t, trial->isolation))
			continue;
		long r = syscall(t->number, a[0], a[1], a[2], a[3], a[4], a[5]);

		if (r < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS))
			trial->actions[trial->at] = SECCOMP_RET_ERRNO;
	}
	/* The child alone, by the kernel's own call: nothing of the parent's is to run.
	 */
	for (;;)
		(void)syscall(SYS_exit_group, 0);
}

int filters_try_own(enum core_isolation isolation, uint32_t *ret_avoid, struct err *err)
{
	struct trial *trial = mmap(NULL, sizeof(*trial), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t actions[TASK_CALLS];
	int status = 0;

	if (trial == MAP_FAILED)
		return err_set(err, -errno, "cannot map memory: %s", strerror(errno));
	trial->isolation = isolation;
	for (size_t i = 0; i < TASK_CALLS; i++)
		trial->actions[i] = SECCOMP_RET_ALLOW;
	/* A child that is killed has found out about one call. */
	while (trial->at < TASK_CALLS) {
		pid_t pid = fork();

		if (pid == 0)
			try_calls(trial);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			break;
		if (trial->at < TASK_CALLS)
			trial->actions[trial->at++] = SECCOMP_RET_KILL_PROCESS;
	}
	for (size_t i = 0; i < TASK_CALLS; i++)
		actions[i] = trial->actions[i];
	bool tried = trial->at >= TASK_CALLS, borrowed = trial->borrowed;

	(void)munmap(trial, sizeof(*trial));
	if (!tried || !borrowed)
		return err_set(err, -E_REFUSED,
			"the seccomp filter that it has inherited does not let pass what is "
			"needed to attach");
	return conclude(actions, isolation, ret_avoid, err);
}
