/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the task from a thread of the program (CORE_ENTRY_CALL), as the preload
 * library does in its constructor.
 *
 * The task must not be a child of the program: it is cloned twice, and the middle
 * one ends at once, so that the second belongs to the nearest reaper.  That may have to
 * be the recorder, which makes itself one when the task has said hello: then the
 * middle one is held until it has.  Only a program that is itself a reaper gets the
 * task as its own child, with no exit signal, which hides it from every wait without
 * __WCLONE.
 *
 * All signals are blocked meanwhile: the new tasks are born with them blocked, and
 * none of the program's handlers runs on a foreign stack.
 */
#include <linux/prctl.h>

#include "core/core-internal.h"

enum {
	WAIT_CLONE = 0x80000000, /* __WCLONE */
	WAIT_NO_HANG = 1,
	MIDDLE_STACK_BYTES = 4096,
	HOLD_NAP_NS = 500000,
	HOLD_NAPS = 200,
};

/* Until the task has its orders; not for long, as the program waits too.  Returns false
 * when the task has left instead: it was a child of ours still, and is reaped here. */
static bool hold(const struct core_args *args, long task)
{
	for (int i = 0; i < HOLD_NAPS; i++) {
		if (__atomic_load_n(&args->released, __ATOMIC_ACQUIRE) != 0)
			break;
		if (SYS4(__NR_wait4, task, NULL, WAIT_CLONE | WAIT_NO_HANG, NULL) != 0)
			return false;
		(void)sys_ppoll(NULL, 0, HOLD_NAP_NS);
	}
	return true;
}

static long middle(void *arg)
{
	struct core_args *args = arg;
	void *stack = (void *)core_stack_top(args->arena);

	/* The recorder takes it for one of ours. */
	(void)SYS2(__NR_prctl, PR_SET_NAME, "pystack");
	args->middle = (int32_t)SYS0(__NR_getpid);
	long task = arch_clone(CORE_CLONE_FLAGS, stack, core_task, args);

	return task < 0 || (args->hold != 0 && !hold(args, task));
}

static long clone_twice(struct core_args *args)
{
	/* The middle task uses the lower end of what will be the task's stack. */
	void *stack = (void *)(core_stack_base(args->arena) + MIDDLE_STACK_BYTES);
	int status = 0;
	long pid = arch_clone(CORE_CLONE_FLAGS, stack, middle, args);

	if (pid < 0)
		return pid;
	long r = SYS4(__NR_wait4, pid, &status, WAIT_CLONE, NULL);

	if (r < 0)
		return r;
	return status == 0 ? 0 : -SYS_EAGAIN;
}

__attribute__((visibility("hidden"))) int core_call(struct core_args *args)
{
	uint64_t all = ~0ull, old = 0;
	long r;

	if (args->abi_version != CORE_ABI_VERSION)
		return -SYS_EPERM;
	(void)SYS4(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &all, &old, sizeof(all));
	if (args->single_clone) {
		r = arch_clone(CORE_CLONE_FLAGS, (void *)core_stack_top(args->arena),
			core_task, args);
		if (r > 0)
			r = 0;
	} else {
		r = clone_twice(args);
	}
	(void)SYS4(__NR_rt_sigprocmask, 2, &old, NULL, sizeof(old));
	return (int)r;
}
