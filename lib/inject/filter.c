/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/memfd.h>
#include <sched.h>
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

/* A call of the task.  Addresses and descriptors are not known here and stand as a
 * usual one. */
struct task_call {
	const char *name;
	int number;
	uint32_t avoid; /* the step it can do without; 0: it needs this one */
	uint64_t args[6];
};

#define SOME_ADDRESS 0x7f0000000000ull
#define SOME_BYTES   (1u << 20)
#define HERE         ((uint64_t)(uint32_t)AT_FDCWD)

/* All calls of lib/core on the way of an attached task; tests/unit/t-filter.c compares
 * the list with the source. */
static const struct task_call task_calls[] = {
	{ "prlimit64", SYS_prlimit64, CORE_AVOID_CORE_LIMIT,
		{ 0, RLIMIT_CORE, SOME_ADDRESS } },
	{ "close_range", SYS_close_range, 0, { 0, ~0u, 2 } },
	{ "rt_sigaction", SYS_rt_sigaction, 0, { 11, SOME_ADDRESS, 0, 8 } },
	{ "rt_sigprocmask", SYS_rt_sigprocmask, 0, { 2, SOME_ADDRESS, 0, 8 } },
	{ "rt_sigreturn", SYS_rt_sigreturn, 0, { 0 } },
	{ "prlimit64", SYS_prlimit64, CORE_AVOID_FILE_LIMIT,
		{ 0, RLIMIT_NOFILE, 0, SOME_ADDRESS } },
	{ "prlimit64", SYS_prlimit64, CORE_AVOID_FILE_LIMIT,
		{ 0, RLIMIT_NOFILE, SOME_ADDRESS } },
	{ "setsid", SYS_setsid, CORE_AVOID_SESSION, { 0 } },
	{ "sched_setscheduler", SYS_sched_setscheduler, CORE_AVOID_SCHEDULER,
		{ 0, 0, SOME_ADDRESS } },
	{ "getpriority", SYS_getpriority, CORE_AVOID_SCHEDULER, { 0, 0 } },
	{ "sched_setattr", SYS_sched_setattr, CORE_AVOID_SCHEDULER,
		{ 0, SOME_ADDRESS, 0 } },
	{ "sched_setaffinity", SYS_sched_setaffinity, CORE_AVOID_AFFINITY,
		{ 0, 1024, SOME_ADDRESS } },
	{ "prctl", SYS_prctl, CORE_AVOID_SLACK, { PR_SET_TIMERSLACK, 1 } },
	{ "prctl", SYS_prctl, 0, { PR_SET_NAME, SOME_ADDRESS } },
	{ "madvise", SYS_madvise, 0, { SOME_ADDRESS, SOME_BYTES, MADV_DONTFORK } },
	{ "memfd_create", SYS_memfd_create, 0,
		{ SOME_ADDRESS, MFD_CLOEXEC | MFD_ALLOW_SEALING } },
	{ "ftruncate", SYS_ftruncate, 0, { 0, SOME_BYTES } },
	{ "fcntl", SYS_fcntl, 0, { 0, F_ADD_SEALS, 7 } },
	{ "mmap", SYS_mmap, 0, { 0, SOME_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED } },
	{ "munlock", SYS_munlock, CORE_AVOID_UNLOCK, { SOME_ADDRESS, SOME_BYTES } },
	{ "getpid", SYS_getpid, 0, { 0 } },
	{ "pidfd_open", SYS_pidfd_open, 0, { 1000, 0 } },
	{ "readlinkat", SYS_readlinkat, CORE_AVOID_PROC,
		{ HERE, SOME_ADDRESS, SOME_ADDRESS, 15 } },
	{ "openat", SYS_openat, CORE_AVOID_PROC,
		{ HERE, SOME_ADDRESS, O_DIRECTORY | O_CLOEXEC } },
	{ "openat", SYS_openat, CORE_AVOID_PROC, { 1, SOME_ADDRESS, O_CLOEXEC } },
	{ "pread64", SYS_pread64, CORE_AVOID_PROC, { 1, SOME_ADDRESS, 512 } },
	{ "close", SYS_close, CORE_AVOID_PROC, { 1 } },
	{ "clock_gettime", SYS_clock_gettime, 0, { 1, SOME_ADDRESS } },
	{ "clock_gettime", SYS_clock_gettime, 0, { 3, SOME_ADDRESS } },
	{ "ppoll", SYS_ppoll, 0, { SOME_ADDRESS, 2, SOME_ADDRESS } },
	{ "fchdir", SYS_fchdir, CORE_AVOID_CHROOT, { 1 } },
	{ "chroot", SYS_chroot, CORE_AVOID_CHROOT, { SOME_ADDRESS } },
	{ "prctl", SYS_prctl, CORE_AVOID_CAPSET, { PR_CAPBSET_DROP, 0 } },
	{ "capset", SYS_capset, CORE_AVOID_CAPSET, { SOME_ADDRESS, SOME_ADDRESS } },
	{ "prctl", SYS_prctl, CORE_AVOID_NO_NEW_PRIVS, { PR_SET_NO_NEW_PRIVS, 1 } },
	{ "seccomp", SYS_seccomp, CORE_AVOID_SECCOMP,
		{ SECCOMP_SET_MODE_FILTER, 0, SOME_ADDRESS } },
	{ "kcmp", SYS_kcmp, CORE_AVOID_KCMP, { 1000, 1001, 1 } },
	{ "munmap", SYS_munmap, 0, { SOME_ADDRESS, SOME_BYTES } },
	{ "exit_group", SYS_exit_group, 0, { 0 } },
};

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

/* What follows from the actions at the task's calls. */
static int conclude(
	const uint32_t actions[TASK_CALLS], uint32_t *ret_avoid, struct err *err)
{
	uint32_t avoid = 0;

	for (size_t i = 0; i < TASK_CALLS; i++) {
		const struct task_call *t = &task_calls[i];
		uint32_t action = actions[i] & SECCOMP_RET_ACTION_FULL;

		if (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG)
			continue;
		if (t->avoid == 0)
			return err_set(err, -E_REFUSED,
				"its seccomp filter %s %s, which the sampler needs",
				action_text(action), t->name);
		avoid |= t->avoid;
	}
	*ret_avoid = avoid;
	return 0;
}

int filters_judge(const struct filters *f, uint32_t *ret_avoid, struct err *err)
{
	uint32_t actions[TASK_CALLS];

	for (size_t i = 0; i < TASK_CALLS; i++) {
		struct seccomp_data call = { .nr = task_calls[i].number,
			.arch = AUDIT_ARCH_X86_64,
			.instruction_pointer = SOME_ADDRESS };

		for (unsigned n = 0; n < 6; n++)
			call.args[n] = task_calls[i].args[n];
		actions[i] = filters_run(f, &call);
	}
	return conclude(actions, ret_avoid, err);
}

/* --- one's own filters, by trying --- */

/* Shared with the children that try. */
struct trial {
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
static bool try_borrowed(void)
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
	pid_t pid = clone(end_at_once, stack + BYTES, CORE_CLONE_FLAGS, NULL);

	return pid > 0 && waitpid(pid, NULL, __WCLONE) == pid &&
	       munlock(stack, BYTES) == 0 &&
	       mprotect(stack, BYTES, PROT_READ | PROT_WRITE) == 0 &&
	       munmap(code, BYTES) == 0 && munmap(stack, BYTES) == 0;
}

/* Make the calls from `at` on; their addresses are bad, so that nearly all fail, but
 * not as a filter makes them fail. */
static _Noreturn void try_calls(struct trial *trial)
{
	const struct rlimit no_core = { 0, 0 };

	(void)setrlimit(RLIMIT_CORE, &no_core);
	if (trial->at == 0)
		trial->borrowed = try_borrowed();
	for (; trial->at < TASK_CALLS; trial->at++) {
		const struct task_call *t = &task_calls[trial->at];
		const uint64_t *a = t->args;

		/* These two do not come back, and no program does without them. */
		if (t->number == SYS_rt_sigreturn || t->number == SYS_exit_group)
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

int filters_try_own(uint32_t *ret_avoid, struct err *err)
{
	struct trial *trial = mmap(NULL, sizeof(*trial), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t actions[TASK_CALLS];
	int status = 0;

	if (trial == MAP_FAILED)
		return err_set(err, -errno, "cannot map memory: %s", strerror(errno));
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
	return conclude(actions, ret_avoid, err);
}
