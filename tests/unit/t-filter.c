/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running seccomp programs, and what is concluded from them for the task.  The kernel
 * is the judge of the first part: a child under the program makes the call.
 */
#include "inject/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/xalloc.h"
#include "core/abi.h"
#include "tap.h"

#define NUMBER   ((uint32_t)offsetof(struct seccomp_data, nr))
#define ARGUMENT ((uint32_t)offsetof(struct seccomp_data, args))
#define RETURN(action)                                                                 \
	{                                                                              \
		BPF_RET | BPF_K, 0, 0, action                                          \
	}
#define DENY     (SECCOMP_RET_ERRNO | 77)
#define COUNT(a) ((unsigned)(sizeof(a) / sizeof((a)[0])))

struct named_program {
	const char *name;
	const struct sock_filter *code;
	unsigned count;
};

/* Programs on getpriority(which, who): each kind of instruction once. */
static const struct sock_filter equal[] = { { BPF_LD | BPF_W | BPF_ABS, 0, 0, NUMBER },
	{ BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getpriority }, RETURN(DENY),
	RETURN(SECCOMP_RET_ALLOW) };
static const struct sock_filter arguments[] = {
	{ BPF_LD | BPF_W | BPF_ABS, 0, 0, NUMBER },
	{ BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_getpriority },
	{ BPF_LD | BPF_W | BPF_ABS, 0, 0, ARGUMENT + 8 },
	{ BPF_JMP | BPF_JGE | BPF_K, 0, 1, 5 }, RETURN(DENY), RETURN(SECCOMP_RET_ALLOW)
};
static const struct sock_filter arithmetic[] = { { BPF_LD | BPF_W | BPF_ABS, 0, 0,
							 NUMBER },
	{ BPF_JMP | BPF_JEQ | BPF_K, 0, 15, SYS_getpriority },
	{ BPF_LD | BPF_W | BPF_ABS, 0, 0, ARGUMENT + 8 }, { BPF_ST, 0, 0, 3 },
	{ BPF_ALU | BPF_MUL | BPF_K, 0, 0, 6 }, { BPF_ALU | BPF_SUB | BPF_K, 0, 0, 2 },
	{ BPF_ALU | BPF_XOR | BPF_K, 0, 0, 0x55 },
	{ BPF_ALU | BPF_LSH | BPF_K, 0, 0, 3 }, { BPF_ALU | BPF_RSH | BPF_K, 0, 0, 1 },
	{ BPF_MISC | BPF_TAX, 0, 0, 0 }, { BPF_LD | BPF_MEM, 0, 0, 3 },
	{ BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0 }, { BPF_ALU | BPF_NEG, 0, 0, 0 },
	{ BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xff },
	{ BPF_ALU | BPF_OR | BPF_K, 0, 0, SECCOMP_RET_ERRNO },
	{ BPF_JMP | BPF_JA, 0, 0, 1 }, RETURN(SECCOMP_RET_KILL_PROCESS),
	{ BPF_JMP | BPF_JSET | BPF_K, 0, 1, 0x40 }, { BPF_RET | BPF_A, 0, 0, 0 },
	RETURN(SECCOMP_RET_ALLOW) };
static const struct sock_filter more[] = { { BPF_LD | BPF_W | BPF_ABS, 0, 0, NUMBER },
	{ BPF_JMP | BPF_JEQ | BPF_K, 0, 8, SYS_getpriority },
	{ BPF_LDX | BPF_IMM, 0, 0, 7 }, { BPF_LD | BPF_W | BPF_LEN, 0, 0, 0 },
	{ BPF_ALU | BPF_DIV | BPF_X, 0, 0, 0 }, { BPF_STX, 0, 0, 15 },
	{ BPF_LDX | BPF_MEM, 0, 0, 15 }, { BPF_JMP | BPF_JGT | BPF_X, 0, 1, 0 },
	RETURN(DENY), { BPF_MISC | BPF_TXA, 0, 0, 0 }, RETURN(SECCOMP_RET_ALLOW) };

static const struct named_program programs[] = {
	{ "the number", equal, COUNT(equal) },
	{ "an argument", arguments, COUNT(arguments) },
	{ "arithmetic", arithmetic, COUNT(arithmetic) },
	{ "length, division and the second register", more, COUNT(more) },
};

/* The errno of the call in a child under the program; -1 when that cannot be had. */
static int by_kernel(const struct named_program *p, int who)
{
	struct sock_fprog program = { (unsigned short)p->count,
		(struct sock_filter *)(uintptr_t)p->code };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
			prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
			_exit(255);
		errno = 0;
		long r = syscall(SYS_getpriority, 99, who);

		_exit(r < 0 ? errno : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
		WEXITSTATUS(status) == 255)
		return -1;
	return WEXITSTATUS(status);
}

static int by_us(const struct named_program *p, int who)
{
	struct filter_program program = { (struct sock_filter *)(uintptr_t)p->code,
		p->count };
	struct seccomp_data call = { .nr = SYS_getpriority,
		.arch = AUDIT_ARCH_X86_64,
		.args = { 99, (uint64_t)who } };
	uint32_t r = filter_run(&program, &call);

	/* 99 is no kind of priority. */
	return (r & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO
		       ? (int)(r & SECCOMP_RET_DATA)
		       : EINVAL;
}

static void test_against_kernel(void)
{
	for (unsigned i = 0; i < COUNT(programs); i++) {
		int differ = 0, seen = 0;

		for (int who = 0; who < 12; who++) {
			int kernel = by_kernel(&programs[i], who);

			seen += kernel >= 0;
			differ += kernel >= 0 && kernel != by_us(&programs[i], who);
		}
		if (seen == 0)
			tap_skip(programs[i].name, "no filters here");
		else
			tap_ok(differ == 0, "as the kernel runs it: %s",
				programs[i].name);
	}
}

static void test_damaged(void)
{
	static const struct sock_filter beyond[] = { { BPF_JMP | BPF_JA, 0, 0, 9 } };
	static const struct sock_filter far_word[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, 64 }, RETURN(SECCOMP_RET_ALLOW)
	};
	static const struct sock_filter odd_word[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, 2 }, RETURN(SECCOMP_RET_ALLOW)
	};
	static const struct sock_filter no_cell[] = { { BPF_ST, 0, 0, 16 },
		RETURN(SECCOMP_RET_ALLOW) };
	static const struct sock_filter no_end[] = { { BPF_MISC | BPF_TAX, 0, 0, 0 } };
	static const struct sock_filter wrapped[] = {
		{ BPF_JMP | BPF_JA, 0, 0, UINT32_MAX }, RETURN(SECCOMP_RET_ALLOW)
	};
	static const struct named_program damaged[] = {
		{ "a jump past the end", beyond, COUNT(beyond) },
		{ "a word behind the call", far_word, COUNT(far_word) },
		{ "a word between two", odd_word, COUNT(odd_word) },
		{ "memory that is not there", no_cell, COUNT(no_cell) },
		{ "no end", no_end, COUNT(no_end) },
		{ "a jump around", wrapped, COUNT(wrapped) },
	};

	for (unsigned i = 0; i < COUNT(damaged); i++) {
		struct filter_program p = {
			(struct sock_filter *)(uintptr_t)damaged[i].code,
			damaged[i].count
		};
		struct seccomp_data call = { .nr = 1 };

		tap_ok(filter_run(&p, &call) == SECCOMP_RET_KILL_PROCESS,
			"a damaged program kills: %s", damaged[i].name);
	}
}

/* One program that does something at one call. */
static void make_filter(struct sock_filter code[4], int number, uint32_t action)
{
	code[0] = (struct sock_filter){ BPF_LD | BPF_W | BPF_ABS, 0, 0, NUMBER };
	code[1] = (struct sock_filter){ BPF_JMP | BPF_JEQ | BPF_K, 0, 1,
		(uint32_t)number };
	code[2] = (struct sock_filter)RETURN(action);
	code[3] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
}

static void test_severity(void)
{
	static const uint32_t order[] = { SECCOMP_RET_KILL_PROCESS,
		SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO,
		SECCOMP_RET_USER_NOTIF, SECCOMP_RET_TRACE, SECCOMP_RET_LOG,
		SECCOMP_RET_ALLOW };
	struct seccomp_data call = { .nr = 5 };
	int wrong = 0;

	for (unsigned i = 0; i < COUNT(order); i++)
		for (unsigned j = 0; j < COUNT(order); j++) {
			struct sock_filter a[4], b[4];

			make_filter(a, 5, order[i]);
			make_filter(b, 5, order[j]);
			struct filter_program two[] = { { a, 4 }, { b, 4 } };
			struct filters f = { two, 2, 2 };

			wrong += filters_run(&f, &call) != order[i < j ? i : j];
		}
	tap_is(wrong, 0, "of two the more severe counts, in any order");
}

struct verdict {
	const char *name;
	int number;
	uint32_t action;
	int code;
	uint32_t avoid;
	const char *words;
};

static const struct verdict verdicts[] = {
	{ "nothing of ours", SYS_execve, SECCOMP_RET_KILL_PROCESS, 0, 0, "" },
	{ "logged", SYS_memfd_create, SECCOMP_RET_LOG, 0, 0, "" },
	{ "kcmp", SYS_kcmp, SECCOMP_RET_KILL_PROCESS, 0, CORE_AVOID_KCMP, "" },
	{ "openat, trapped", SYS_openat, SECCOMP_RET_TRAP, 0, CORE_AVOID_PROC, "" },
	{ "chroot, refused", SYS_chroot, DENY, 0, CORE_AVOID_CHROOT, "" },
	{ "seccomp, asked about", SYS_seccomp, SECCOMP_RET_USER_NOTIF, 0,
		CORE_AVOID_SECCOMP, "" },
	{ "both limits", SYS_prlimit64, SECCOMP_RET_KILL_THREAD, 0,
		CORE_AVOID_CORE_LIMIT | CORE_AVOID_FILE_LIMIT, "" },
	{ "memfd_create", SYS_memfd_create, SECCOMP_RET_KILL_THREAD, -E_REFUSED, 0,
		"its seccomp filter would kill the sampler for memfd_create, which the "
		"sampler needs" },
	{ "ppoll, refused", SYS_ppoll, DENY, -E_REFUSED, 0,
		"its seccomp filter refuses ppoll, which the sampler needs" },
	{ "mmap, asked about", SYS_mmap, SECCOMP_RET_USER_NOTIF, -E_REFUSED, 0,
		"its seccomp filter would ask another process about mmap, which the "
		"sampler needs" },
};

static void test_verdicts(void)
{
	for (unsigned i = 0; i < COUNT(verdicts); i++) {
		const struct verdict *v = &verdicts[i];
		struct sock_filter code[4];
		struct err err = { "" };
		uint32_t avoid = 0;

		make_filter(code, v->number, v->action);
		struct filter_program one = { code, 4 };
		struct filters f = { &one, 1, 1 };
		int r = filters_judge(&f, CORE_ISOLATION_TASK, &avoid, &err);

		tap_ok(r == v->code && avoid == v->avoid &&
				strcmp(err.text, v->words) == 0,
			"judged: %s", v->name);
		if (r != v->code || avoid != v->avoid)
			printf("# %d, avoid %x: %s\n", r, avoid, err.text);
	}
}

/* What a thread does without, and what it needs. */
static const struct verdict thread_verdicts[] = {
	{ "setsid", SYS_setsid, SECCOMP_RET_KILL_PROCESS, 0, 0, "" },
	{ "seccomp", SYS_seccomp, SECCOMP_RET_KILL_PROCESS, 0, 0, "" },
	{ "unshare", SYS_unshare, DENY, 0, CORE_AVOID_CHROOT, "" },
	{ "pwritev", SYS_pwritev, DENY, 0, CORE_AVOID_PWRITEV, "" },
	{ "process_vm_readv", SYS_process_vm_readv, SECCOMP_RET_KILL_PROCESS, 0,
		CORE_AVOID_READV, "" },
	{ "exit", SYS_exit, DENY, -E_REFUSED, 0,
		"its seccomp filter refuses exit, which the sampler needs" },
};

static void test_threads(void)
{
	struct sock_filter code[4], other[4];
	struct err err = { "" };
	uint32_t avoid;

	for (unsigned i = 0; i < COUNT(thread_verdicts); i++) {
		const struct verdict *v = &thread_verdicts[i];

		avoid = 0;
		err.text[0] = '\0';
		make_filter(code, v->number, v->action);
		struct filter_program one = { code, 4 };
		struct filters f = { &one, 1, 1 };
		int r = filters_judge(&f, CORE_ISOLATION_THREAD, &avoid, &err);

		tap_ok(r == v->code && avoid == v->avoid &&
				strcmp(err.text, v->words) == 0,
			"judged for a thread: %s", v->name);
	}
	make_filter(code, SYS_pwritev, DENY);
	make_filter(other, SYS_process_vm_readv, DENY);
	struct filter_program two[] = { { code, 4 }, { other, 4 } };
	struct filters f = { two, 2, 2 };

	tap_is(filters_judge(&f, CORE_ISOLATION_THREAD, &avoid, &err), -E_REFUSED,
		"neither copy: no thread");
	tap_is(filters_judge(&f, CORE_ISOLATION_TASK, &avoid, &err), 0,
		"which is nothing to a task");
}

/* One that lets threads alone be made. */
static void test_clones(void)
{
	static const struct sock_filter code[] = { { BPF_LD | BPF_W | BPF_ABS, 0, 0,
							   NUMBER },
		{ BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_clone },
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) },
		{ BPF_JMP | BPF_JSET | BPF_K, 1, 0, CLONE_THREAD }, RETURN(DENY),
		RETURN(SECCOMP_RET_ALLOW) };
	/* As sandboxes have it: what pthread_create() asks for, nothing else. */
	static const struct sock_filter exact[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0,
			CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
				CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
				CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID },
		RETURN(DENY), RETURN(SECCOMP_RET_ALLOW)
	};
	struct filter_program one = { (struct sock_filter *)(uintptr_t)code,
		COUNT(code) };
	struct filters f = { &one, 1, 1 };

	tap_ok(!filters_let_clone(&f, CORE_ISOLATION_TASK) &&
			filters_let_clone(&f, CORE_ISOLATION_THREAD),
		"a filter that lets threads alone be made");
	one = (struct filter_program){ (struct sock_filter *)(uintptr_t)exact,
		COUNT(exact) };
	tap_ok(filters_let_clone(&f, CORE_ISOLATION_THREAD),
		"even if they have to be those of the C library");
}

int main(void)
{
	test_against_kernel();
	test_damaged();
	test_severity();
	test_verdicts();
	test_threads();
	test_clones();
	return tap_done();
}
