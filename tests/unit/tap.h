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
#include <string.h>

static unsigned tap_count, tap_failed;

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
		printf("# got '%s', wanted '%s'\n", got != NULL ? got : "(null)", wanted);
	return equal;
}

/* A check that cannot be made here, and why. */
static inline void tap_skip(const char *what, const char *why)
{
	printf("ok %u - %s # SKIP %s\n", ++tap_count, what, why);
}

static inline int tap_done(void)
{
	printf("1..%u\n", tap_count);
	return tap_failed != 0;
}

#endif
