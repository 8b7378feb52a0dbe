/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the core from a thread of the program (CORE_ENTRY_CALL), as the preload
 * library does in its constructor: as a task, or where the clone of one is refused, as
 * a thread of the program.
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
	HOLD_NAP_NS = 100000,
	HOLD_NAPS = 1000,
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

	/* Not as a refusal of the clone, which would mean that there is no task. */
	return r >= 0 && status == 0 ? 0 : -SYS_EAGAIN;
}

static long clone_once(struct core_args *args, uint32_t flags)
{
	long r =
		arch_clone(flags, (void *)core_stack_top(args->arena), core_task, args);

	return r > 0 ? 0 : r;
}

static long start_task(struct core_args *args)
{
	args->isolation = CORE_ISOLATION_TASK;
	return args->single_clone ? clone_once(args, CORE_CLONE_FLAGS)
				  : clone_twice(args);
}

static long start_thread(struct core_args *args)
{
	args->isolation = CORE_ISOLATION_THREAD;
	return clone_once(args, CORE_THREAD_FLAGS);
}

/* By a filter, a security module or an emulator. */
static bool is_refusal(long r)
{
	return r == -SYS_EPERM || r == -SYS_ENOSYS || r == -SYS_EACCES ||
	       r == -SYS_EINVAL;
}

__attribute__((visibility("hidden"))) int core_call(struct core_args *args)
{
	uint64_t all = ~0ull, old = 0;
	uint32_t wanted = args->isolation;

	if (args->abi_version != CORE_ABI_VERSION)
		return -SYS_EPERM;
	/* A thread must not run a handler of the program: without this there is none.
	 */
	long r =
		SYS4(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &all, &old, sizeof(all));

	if (r < 0)
		return (int)r;
	r = wanted != CORE_ISOLATION_THREAD ? start_task(args) : -SYS_EPERM;
	if (wanted != CORE_ISOLATION_TASK && is_refusal(r))
		r = start_thread(args);
	(void)SYS4(__NR_rt_sigprocmask, 2, &old, NULL, sizeof(old));
	return (int)r;
}
