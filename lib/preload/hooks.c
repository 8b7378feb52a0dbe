/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls by which a program executes another, interposed: each gives the entries of
 * the preload library to the new program and goes on to the next definition, the C
 * library's or that of another preloaded library.
 *
 * They may run in any thread, in a signal handler, and in the child of a vfork, which
 * runs on its parent's stack and in its memory: no lock, no memory but a bounded piece
 * of the stack, nothing written that stays.  Where the new program would not take the
 * library well, or a filter of system calls might punish the looking, the environment
 * stays as it is: the recorder then finds the process by itself.
 *
 * What the C library calls by itself (system, popen) does not come through here.
 */
#include "preload/hooks.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/sys.h"
#include "preload/entries.h"
#include "preload/filters.h"
#include "preload/fit.h"
#include "preload/text.h"

#define WEAK extern __attribute__((weak))
#define HOOK __attribute__((visibility("default")))
/* Pointers on the stack of the function that is in. */
#define ROOM(count) __builtin_alloca((count) * sizeof(char *))

/* They are declared by the C library's headers, which are not for here. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum {
	HERE = -100, /* AT_FDCWD */
	MAY_EXECUTE = 1,
	PATH_BYTES = 1024,
	SYS_E2BIG = 7,
};

typedef char *const *strings;
typedef int spawn_call(int *ret_pid, const char *path, const void *actions,
	const void *attributes, strings argv, strings environment);

WEAK char **environ;
WEAK int *__errno_location(void);
WEAK void *dlsym(void *handle, const char *name);
WEAK char *dlerror(void);
/* Before glibc 2.34 dlsym may be in a library that the program does not have. */
WEAK void *__libc_dlopen_mode(const char *name, int mode);
WEAK void *__libc_dlsym(void *handle, const char *name);

/* The next definitions; NULL: not looked for yet, or there is none. */
static struct {
	int (*execve)(const char *path, strings argv, strings environment);
	int (*execvpe)(const char *file, strings argv, strings environment);
	int (*fexecve)(int fd, strings argv, strings environment);
	int (*execveat)(int directory, const char *path, strings argv,
		strings environment, int flags);
	spawn_call *posix_spawn, *posix_spawnp;
} next;

static void *find_next(const char *name)
{
	static void *const after_this = (void *)-1; /* RTLD_NEXT */
	void *found = NULL;

	if (dlsym != NULL) {
		found = dlsym(after_this, name);
		/* A name that is not there leaves an error behind. */
		if (found == NULL && dlerror != NULL)
			(void)dlerror();
	} else if (__libc_dlopen_mode != NULL && __libc_dlsym != NULL) {
		void *libc = __libc_dlopen_mode(
			"libc.so.6", (int)0x80000002 /* RTLD_NOW, own */);

		if (libc != NULL)
			found = __libc_dlsym(libc, name);
	}
	return found;
}

/* Into *to, unless it is there already. */
#define FIND(member)                                                                   \
	(next.member != NULL                                                           \
			? next.member                                                  \
			: (next.member = (__typeof__(next.member))find_next(#member)))

void hooks_find(void)
{
	(void)FIND(execve);
	(void)FIND(execvpe);
	(void)FIND(fexecve);
	(void)FIND(execveat);
	(void)FIND(posix_spawn);
	(void)FIND(posix_spawnp);
}

static int fail(int error)
{
	if (__errno_location != NULL)
		*__errno_location() = error;
	return -1;
}

static bool too_big(void)
{
	return __errno_location != NULL && *__errno_location() == SYS_E2BIG;
}

static strings own_environment(void)
{
	return &environ != NULL ? environ : NULL;
}

/* --- which file --- */

/* The next component of PATH with the name behind it; false after the last. */
static bool next_candidate(const char **path, const char *name, char *to)
{
	const char *from = *path;
	size_t n = 0;

	if (from == NULL)
		return false;
	while (from[n] != '\0' && from[n] != ':')
		n++;
	*path = from[n] == ':' ? from + n + 1 : NULL;
	to[0] = '\0';
	if (n + text_length(name) + 2 > PATH_BYTES)
		return true;
	text_copy(to, n + 1, from);
	if (n != 0)
		text_add(to, PATH_BYTES, "/");
	text_add(to, PATH_BYTES, name);
	return true;
}

/* The file that a search for name will end at; false when there is none. */
static bool search(const char *name, char to[static PATH_BYTES])
{
	const char *path = "/bin:/usr/bin";

	for (const char *s = name; *s != '\0'; s++)
		if (*s == '/') {
			text_copy(to, PATH_BYTES, name);
			return true;
		}
	for (strings e = own_environment(); e != NULL && *e != NULL; e++)
		if (text_begins(*e, "PATH=")) {
			path = *e + 5;
			break;
		}
	while (next_candidate(&path, name, to))
		if (SYS3(__NR_faccessat, HERE, to, MAY_EXECUTE) == 0)
			return true;
	return false;
}

/* Are the entries to be given on, and may the new program be looked into? */
static bool may_look(void)
{
	return filters_are_ours() && entries_go_on();
}

static size_t room_for_file(int directory, const char *path, strings environment)
{
	if (path == NULL || !may_look() || fit_of_file(directory, path) != FIT_LOADS)
		return 0;
	return entries_room(environment);
}

static size_t room_for_name(const char *name, strings environment)
{
	char path[PATH_BYTES];

	if (name == NULL || !may_look() || !search(name, path) ||
		fit_of_file(HERE, path) != FIT_LOADS)
		return 0;
	return entries_room(environment);
}

static size_t room_for_descriptor(int fd, strings environment)
{
	if (!may_look() || fit_of_descriptor(fd) != FIT_LOADS)
		return 0;
	return entries_room(environment);
}

/*
 * Make the call with an environment that has the entries, where there is room for
 * them.  It comes back only when it failed: for want of room in the new program's
 * stack it is made again with the environment as it was.
 */
#define CALL_WITH_ENTRIES(room, environment, call)                                     \
	do {                                                                           \
		size_t slots = (room);                                                 \
		if (slots != 0) {                                                      \
			char **with = ROOM(slots), text[ENTRIES_TEXT_BYTES];           \
			entries_put(environment, with, text);                          \
			int r = call(with);                                            \
			if (r >= 0 || !too_big())                                      \
				return r;                                              \
		}                                                                      \
		return call(environment);                                              \
	} while (0)

/* --- the next definitions, or what does for them --- */

static int next_execve(const char *path, strings argv, strings environment)
{
	if (FIND(execve) != NULL)
		return next.execve(path, argv, environment);
	return fail((int)-SYS3(__NR_execve, path, argv, environment));
}

static int next_execvpe(const char *name, strings argv, strings environment)
{
	char path[PATH_BYTES];

	if (FIND(execvpe) != NULL)
		return next.execvpe(name, argv, environment);
	return search(name, path) ? next_execve(path, argv, environment)
				  : fail(SYS_ENOENT);
}

static int next_fexecve(int fd, strings argv, strings environment)
{
	if (FIND(fexecve) != NULL)
		return next.fexecve(fd, argv, environment);
	return fail((int)-SYS5(
		__NR_execveat, fd, "", argv, environment, 0x1000 /* AT_EMPTY_PATH */));
}

static int next_execveat(
	int directory, const char *path, strings argv, strings environment, int flags)
{
	if (FIND(execveat) != NULL)
		return next.execveat(directory, path, argv, environment, flags);
	return fail(
		(int)-SYS5(__NR_execveat, directory, path, argv, environment, flags));
}

/* --- the hooks --- */

static int execute_file(const char *path, strings argv, strings environment)
{
#define CALL(with) next_execve(path, argv, with)
	CALL_WITH_ENTRIES(room_for_file(HERE, path, environment), environment, CALL);
#undef CALL
}

static int execute_name(const char *name, strings argv, strings environment)
{
#define CALL(with) next_execvpe(name, argv, with)
	CALL_WITH_ENTRIES(room_for_name(name, environment), environment, CALL);
#undef CALL
}

HOOK int execve(const char *path, strings argv, strings environment)
{
	return execute_file(path, argv, environment);
}

HOOK int execv(const char *path, strings argv)
{
	return execute_file(path, argv, own_environment());
}

HOOK int execvp(const char *name, strings argv)
{
	return execute_name(name, argv, own_environment());
}

HOOK int execvpe(const char *name, strings argv, strings environment)
{
	return execute_name(name, argv, environment);
}

HOOK int fexecve(int fd, strings argv, strings environment)
{
#define CALL(with) next_fexecve(fd, argv, with)
	CALL_WITH_ENTRIES(room_for_descriptor(fd, environment), environment, CALL);
#undef CALL
}

HOOK int execveat(
	int directory, const char *path, strings argv, strings environment, int flags)
{
	size_t room = path != NULL && path[0] == '\0'
			      ? room_for_descriptor(directory, environment)
			      : room_for_file(directory, path, environment);
#define CALL(with) next_execveat(directory, path, argv, with, flags)
	CALL_WITH_ENTRIES(room, environment, CALL);
#undef CALL
}

/* The arguments of a call that lists them; how many, with the NULL at their end. */
static size_t count_arguments(const char *first, va_list rest)
{
	size_t count = 1;

	for (const char *at = first; at != NULL; count++)
		at = va_arg(rest, const char *);
	return count;
}

static void collect_arguments(char **to, size_t count, const char *first, va_list rest,
	strings *ret_environment)
{
	to[0] = (char *)(uintptr_t)first;
	for (size_t i = 1; i < count; i++)
		to[i] = va_arg(rest, char *);
	to[count - 1] = NULL;
	if (ret_environment != NULL)
		*ret_environment = va_arg(rest, char **);
}

/* Make argv of first and what follows it; *ret_environment is what follows that. */
#define LIST_ARGUMENTS(first, ret_environment)                                         \
	va_list rest;                                                                  \
	va_start(rest, first);                                                         \
	size_t count = count_arguments(first, rest);                                   \
	va_end(rest);                                                                  \
	char **argv = ROOM(count);                                                     \
	va_start(rest, first);                                                         \
	collect_arguments(argv, count, first, rest, ret_environment);                  \
	va_end(rest)

HOOK int execl(const char *path, const char *first, ...)
{
	LIST_ARGUMENTS(first, NULL);
	return execute_file(path, argv, own_environment());
}

HOOK int execlp(const char *name, const char *first, ...)
{
	LIST_ARGUMENTS(first, NULL);
	return execute_name(name, argv, own_environment());
}

HOOK int execle(const char *path, const char *first, ...)
{
	strings environment = NULL;

	LIST_ARGUMENTS(first, &environment);
	return execute_file(path, argv, environment);
}

/* These return the error instead of setting errno. */
static int spawn_with_entries(spawn_call *spawn, size_t room, int *ret_pid,
	const char *path, const void *actions, const void *attributes, strings argv,
	strings environment)
{
	if (spawn == NULL)
		return SYS_ENOSYS;
	if (room != 0) {
		char **with = ROOM(room), text[ENTRIES_TEXT_BYTES];

		entries_put(environment, with, text);
		int r = spawn(ret_pid, path, actions, attributes, argv, with);

		if (r != SYS_E2BIG)
			return r;
	}
	return spawn(ret_pid, path, actions, attributes, argv, environment);
}

HOOK int posix_spawn(int *ret_pid, const char *path, const void *actions,
	const void *attributes, strings argv, strings environment)
{
	return spawn_with_entries(FIND(posix_spawn),
		room_for_file(HERE, path, environment), ret_pid, path, actions,
		attributes, argv, environment);
}

HOOK int posix_spawnp(int *ret_pid, const char *name, const void *actions,
	const void *attributes, strings argv, strings environment)
{
	return spawn_with_entries(FIND(posix_spawnp), room_for_name(name, environment),
		ret_pid, name, actions, attributes, argv, environment);
}
