/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_TAP_H
#define TESTS_UNIT_TAP_H

/*
 * A test program in the Test Anything Protocol: checks go on after a failure, each
 * prints one line, tap_done() prints the plan and gives the exit status.
 *
 *	int main(void)
 *	{
 *		tap_ok(add(1, 2) == 3, "add");
 *		return tap_done();
 *	}
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned tap_count, tap_failed;

#if defined(__has_feature)
#	define TAP_HAS_FEATURE(x) __has_feature(x)
#else
#	define TAP_HAS_FEATURE(x) 0
#endif

/* Some checks cannot be made beneath a sanitizer that has its own allocator. */
#if defined(__SANITIZE_ADDRESS__) || TAP_HAS_FEATURE(address_sanitizer)
#	define TAP_SANITIZED true
#else
#	define TAP_SANITIZED false
#endif

/* Under valgrind (tests/unit/valgrind.sh), where all takes some fifty times as long? */
static inline bool tap_valgrind(void)
{
	return getenv("TEST_VALGRIND") != NULL;
}

/* One check.  The format names what is checked.  Returns ok. */
__attribute__((format(printf, 2, 3))) static inline bool tap_ok(
	bool ok, const char *format, ...)
{
	va_list args;

	printf("%sok %u - ", ok ? "" : "not ", ++tap_count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	(void)fflush(stdout);
	tap_failed += !ok;
	return ok;
}

/* Equal numbers; prints both when they differ. */
static inline bool tap_is(int64_t got, int64_t wanted, const char *what)
{
	if (!tap_ok(got == wanted, "%s", what))
		printf("# got %lld, wanted %lld\n", (long long)got, (long long)wanted);
	return got == wanted;
}

/* Equal strings. */
static inline bool tap_str(const char *got, const char *wanted, const char *what)
{
	bool equal = got != NULL && strcmp(got, wanted) == 0;

	if (!tap_ok(equal, "%s", what))
		printf("# got '%s', wanted '%s'\n", got != NULL ? got : "(null)",
			wanted);
	return equal;
}

/* A check that cannot be made here, and why. */
static inline void tap_skip(const char *what, const char *why)
{
	printf("ok %u - %s # SKIP %s\n", ++tap_count, what, why);
}

/* Does check() return true in a child of its own?  For what may crash. */
static inline bool tap_child(bool (*check)(void))
{
	int status = -1;

	(void)fflush(stdout);
	pid_t child = fork();

	if (child == 0) {
		/* What a sanitizer has to say is no part of the result. */
		if (freopen("/dev/null", "w", stderr) == NULL)
			_exit(1);
		_exit(check() ? 0 : 1);
	}
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static inline int tap_done(void)
{
	printf("1..%u\n", tap_count);
	return tap_failed != 0;
}

#endif
