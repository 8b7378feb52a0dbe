/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that LD_PRELOAD brings into a program started by `pystack record`.
 *
 * Its constructor runs before main.  In a CPython it takes its own entries out of
 * the environment and starts the sampler task; in any other program it leaves
 * everything as it is, so that the Python further down still gets it.  It needs
 * nothing and demands nothing: no DT_NEEDED, every import weak, so it loads under
 * glibc and musl, whatever their version.  It stays silent, whatever fails: the
 * recorder notices that no task said hello and attaches instead, or says why not.
 *
 * The entries: LD_PRELOAD, to which the recorder added this file's path as the last
 * component, and PYSTACK_SPAWN, the path of the recorder's socket, with a + in front
 * where the recorder is to become the task's reaper (core_args.hold).
 */
#include <asm/unistd.h>
#include <linux/auxvec.h>
#include <linux/prctl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/abi.h"
#include "core/arch.h"

#define WEAK extern __attribute__((weak))

/* CPython's (any of these tells one), PyPy's, and the C library's. */
WEAK char _PyRuntime[];
WEAK char PyCode_Type[];
WEAK const unsigned long Py_Version;
WEAK const char *Py_GetVersion(void);
WEAK char pypy_execute_source[];
WEAK char **environ;
WEAK unsigned long getauxval(unsigned long type);

static const char library_name[] = "pystack-preload.so";
static const char spawn_entry[] = "PYSTACK_SPAWN=";
static const char preload_entry[] = "LD_PRELOAD=";

static long call(long n, long a, long b, long c, long d, long e, long f)
{
	return arch_syscall(n, a, b, c, d, e, f);
}

static bool starts_with(const char *s, const char *prefix)
{
	while (*prefix != '\0')
		if (*s++ != *prefix++)
			return false;
	return true;
}

static size_t length_of(const char *s)
{
	size_t n = 0;

	while (s[n] != '\0')
		n++;
	return n;
}

static char *entry_value(const char *name)
{
	for (char **e = environ; e != NULL && *e != NULL; e++)
		if (starts_with(*e, name))
			return *e + length_of(name);
	return NULL;
}

static void drop_entry(const char *name)
{
	char **to = environ;

	for (char **e = environ; *e != NULL; e++)
		if (!starts_with(*e, name))
			*to++ = *e;
	*to = NULL;
}

/* Does the component [from, to) end in "/pystack-preload.so"? */
static bool is_this_library(const char *from, const char *to)
{
	size_t n = sizeof(library_name) - 1;

	return (size_t)(to - from) > n && to[-(long)n - 1] == '/' &&
	       starts_with(to - n, library_name);
}

/* Take this library out of LD_PRELOAD, and the entry with it when it was alone. */
static void clean_preload(void)
{
	char *value = entry_value(preload_entry);
	char *to = value;

	if (value == NULL)
		return;
	for (char *at = value; *at != '\0';) {
		char *end = at;

		while (*end != '\0' && *end != ':' && *end != ' ')
			end++;
		if (!is_this_library(at, end)) {
			if (to != value)
				*to++ = ':';
			while (at != end)
				*to++ = *at++;
		}
		at = *end != '\0' ? end + 1 : end;
	}
	*to = '\0';
	if (to == value)
		drop_entry(preload_entry);
}

static void copy_text(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; n + 1 < size && from[n] != '\0'; n++)
		to[n] = from[n];
	to[n] = '\0';
}

static void fill_args(struct core_args *args, uint64_t arena, const char *socket_path)
{
	uint64_t word = 0;
	int reaper = 0;

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
	if (call(__NR_prctl, PR_GET_CHILD_SUBREAPER, (long)&reaper, 0, 0, 0, 0) == 0)
		args->single_clone = reaper != 0;
	args->hold = *socket_path == '+';
	copy_text(
		args->socket_path, sizeof(args->socket_path), socket_path + args->hold);
	args->runtime = (uint64_t)(uintptr_t)_PyRuntime;
	args->code_type = (uint64_t)(uintptr_t)PyCode_Type;
	if (&Py_Version != NULL)
		args->python_hex = (uint32_t)Py_Version;
	else if (Py_GetVersion != NULL)
		copy_text(args->python_version, sizeof(args->python_version),
			Py_GetVersion());
}

static void start_task(const char *socket_path)
{
	int (*start)(struct core_args *) =
		(int (*)(struct core_args *))(uintptr_t)(core_image + CORE_ENTRY_CALL);
	long arena = call(__NR_mmap, 0, CORE_ARENA_BYTES, 0x3 /* read, write */,
		0x22 /* private, anonymous */, -1, 0);

	if (arena < 0 && arena > -4096)
		return;
	struct core_args *args = (struct core_args *)arena;

	fill_args(args, (uint64_t)arena, socket_path);
	if (start(args) < 0)
		(void)call(__NR_munmap, arena, CORE_ARENA_BYTES, 0, 0, 0, 0);
}

__attribute__((constructor)) static void preload_start(void)
{
	char path[CORE_SOCKET_PATH_BYTES + 1];
	const char *socket_path;

	if (&environ == NULL || environ == NULL)
		return;
	socket_path = entry_value(spawn_entry);
	if (socket_path == NULL)
		return;
	if (_PyRuntime == NULL && Py_GetVersion == NULL && pypy_execute_source == NULL)
		return;
	copy_text(path, sizeof(path), socket_path);
	drop_entry(spawn_entry);
	clean_preload();
	/* Without _PyRuntime it is older than 3.7, or not CPython. */
	if (_PyRuntime != NULL)
		start_task(path);
}
