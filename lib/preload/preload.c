/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that LD_PRELOAD brings into a program started by `pystack record`.
 *
 * Its constructor runs before main and takes the library's own entries out of the
 * environment; the calls by which a program executes another give them back to that
 * (hooks.c).  In a CPython it starts the sampler task, and once more in each process
 * that is forked from it.  It needs nothing and demands nothing: no DT_NEEDED, every
 * import weak, so it loads under glibc and musl, whatever their version.  It stays
 * silent, whatever fails: the recorder notices that no task said hello and attaches
 * instead, or says why not.
 */
#include <asm/unistd.h>
#include <linux/auxvec.h>
#include <linux/prctl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/abi.h"
#include "core/arch.h"
#include "preload/entries.h"
#include "preload/filters.h"
#include "preload/hooks.h"
#include "preload/text.h"

#define WEAK extern __attribute__((weak))

/* CPython's (any of these tells one), PyPy's, and the C library's. */
WEAK char _PyRuntime[];
WEAK char PyCode_Type[];
WEAK const unsigned long Py_Version;
WEAK const char *Py_GetVersion(void);
WEAK char pypy_execute_source[];
WEAK char **environ;
WEAK unsigned long getauxval(unsigned long type);
WEAK int __register_atfork(
	void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);
WEAK int pthread_atfork(
	void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Seldom a system call, and one that every Python makes as it starts. */
struct monotonic {
	long s, ns;
};
WEAK int clock_gettime(int clock, struct monotonic *time);

enum { FORK_PATIENCE_US = 1000, CLOCK_IS_MONOTONIC = 1 };

static long call(long n, long a, long b, long c, long d, long e, long f)
{
	return arch_syscall(n, a, b, c, d, e, f);
}

/* A program above this one, which has only forked since, takes in orphans: a task that
 * is cloned twice would be its child at once, and not only when the process here ends.
 */
static bool below_reaper;

static bool is_reaper(void)
{
	int reaper = 0;

	return call(__NR_prctl, PR_GET_CHILD_SUBREAPER, (long)&reaper, 0, 0, 0, 0) ==
		       0 &&
	       reaper != 0;
}

/*
 * A filter may end the program for what a thread of it does, where of a task it ends
 * the task.  A thread is then left to who can read the filter, and attaches; unless it
 * is the recorder's own, who has tried it.
 */
static bool may_be_thread(uint32_t *ret_avoid)
{
	return filters_are(entries_filters(ret_avoid));
}

static void fill_args(struct core_args *args, uint64_t arena, const char *socket_path)
{
	uint64_t word = 0;

	args->abi_version = CORE_ABI_VERSION;
	args->way = CORE_WAY_SPAWN;
	args->arena = arena;
	args->arena_bytes = CORE_ARENA_BYTES;
	args->image = (uint64_t)(uintptr_t)core_image;
	args->image_bytes = (uint64_t)(core_image_end - core_image);
	args->vdso = getauxval != NULL ? getauxval(AT_SYSINFO_EHDR) : 0;
	args->program_pid = (int32_t)call(__NR_getpid, 0, 0, 0, 0, 0, 0);
	/* The constructor runs in the main thread. */
	if (call(__NR_prctl, PR_GET_TID_ADDRESS, (long)&word, 0, 0, 0, 0) == 0)
		args->tid_word = word;
	args->single_clone = below_reaper || is_reaper();
	args->hold = entries_adopted();
	args->isolation =
		may_be_thread(&args->avoid) ? entries_isolation() : CORE_ISOLATION_TASK;
	text_copy(args->socket_path, sizeof(args->socket_path), socket_path);
	args->runtime = (uint64_t)(uintptr_t)_PyRuntime;
	args->code_type = (uint64_t)(uintptr_t)PyCode_Type;
	if (&Py_Version != NULL)
		args->python_hex = (uint32_t)Py_Version;
	else if (Py_GetVersion != NULL)
		text_copy(args->python_version, sizeof(args->python_version),
			Py_GetVersion());
}

/* How long the program was held for the start, ns; the task looks here for it.  Of this
 * memory, as the arena may be gone before the program goes on. */
static uint64_t held_ns;

static uint64_t now_ns(void)
{
	struct monotonic now;

	if (clock_gettime == NULL || clock_gettime(CLOCK_IS_MONOTONIC, &now) != 0)
		return 0;
	return (uint64_t)now.s * 1000000000 + (uint64_t)now.ns;
}

static void tell_held(uint64_t since)
{
	uint64_t now = now_ns();

	if (since != 0 && now > since)
		__atomic_store_n(&held_ns, now - since, __ATOMIC_RELAXED);
}

static void start_task(bool forked)
{
	int (*start)(struct core_args *) =
		(int (*)(struct core_args *))(uintptr_t)(core_image + CORE_ENTRY_CALL);
	uint32_t ignored;

	if (entries_isolation() == CORE_ISOLATION_THREAD && !may_be_thread(&ignored))
		return;
	long arena = call(__NR_mmap, 0, CORE_ARENA_BYTES, 0x3 /* read, write */,
		0x22 /* private, anonymous */, -1, 0);

	if (arena < 0 && arena > -4096)
		return;
	struct core_args *args = (struct core_args *)arena;

	fill_args(args, (uint64_t)arena, entries_socket());
	args->forked = forked;
	args->held_word = (uint64_t)(uintptr_t)&held_ns;
	/* Where the program waits for the recorder's answer, it cannot end. */
	args->patience_us = forked && !args->hold ? FORK_PATIENCE_US : 0;
	if (start(args) < 0)
		(void)call(__NR_munmap, arena, CORE_ARENA_BYTES, 0, 0, 0, 0);
}

/* Nothing is to be done for forks any more. */
static bool over;

static void before_fork(void)
{
	if (over || !filters_are_ours())
		return;
	over = !entries_go_on();
	if (!over && !below_reaper)
		below_reaper = is_reaper();
}

/* In the only thread of a process that was forked: it has neither the task nor its
 * memory.  Before all that the program does there. */
static void after_fork(void)
{
	uint64_t since;

	if (over || !filters_are_ours())
		return;
	/* What is there is of the process that was forked. */
	__atomic_store_n(&held_ns, 0, __ATOMIC_RELAXED);
	since = now_ns();
	if (!entries_go_on())
		return;
	start_task(true);
	tell_held(since);
}

static void watch_forks(void)
{
	if (__register_atfork != NULL)
		(void)__register_atfork(before_fork, NULL, after_fork, NULL);
	else if (pthread_atfork != NULL)
		(void)pthread_atfork(before_fork, NULL, after_fork);
}

__attribute__((constructor)) static void preload_start(void)
{
	uint64_t since = now_ns();

	hooks_find();
	if (&environ == NULL || environ == NULL || !entries_take(environ))
		return;
	filters_note();
	if (_PyRuntime == NULL && Py_GetVersion == NULL && pypy_execute_source == NULL)
		return;
	entries_found_python();
	/* Without _PyRuntime it is older than 3.7, or not CPython. */
	if (_PyRuntime == NULL)
		return;
	start_task(false);
	watch_forks();
	tell_held(since);
}
