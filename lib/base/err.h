/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/*
 * How a library function fails: it returns a negative code, -errno or one of
 * the project's own, and where words help it fills the caller's struct err.
 * Nothing in lib/ prints.
 */

/* Own codes lie outside the range of errno. */
enum {
	E_TRUNCATED = 1001, /* input ends in the middle */
	E_BADFORMAT,        /* input is not what it should be */
	E_UNSUPPORTED,      /* understood, but not possible here */
	E_TOOBIG,           /* beyond a limit of this program */
	E_GONE,             /* the process or task is no longer there */
	E_REFUSED,          /* possible, but not safe for the program */
	E_TIMEOUT,          /* nothing came within the time allowed */
};

/* Caller-owned text of one failure; written on failure only. */
struct err {
	char text[512];
};

/*
 * Put the printf-style text into err, which may be NULL; a text too long is cut.
 * Returns code, so that a function can end with `return err_set(...)`.
 */
__attribute__((format(printf, 3, 4))) int err_set(
	struct err *err, int code, const char *format, ...);

/* A short English text for a negative code of either kind; static storage. */
const char *err_name(int code);

#endif
