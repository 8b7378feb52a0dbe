/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_XALLOC_H
#define BASE_XALLOC_H

/*
 * Allocation that does not fail: without memory the program says so in one line
 * and ends with status 1, after the hook (a recorder's: close the file) has run.
 * Sizes that come from input are compared with a limit before they come here.
 */

#include <stddef.h>

/* Call hook once, before the program ends for want of memory; NULL: nothing. */
void xalloc_on_failure(void (*hook)(void));

__attribute__((returns_nonnull, malloc)) void *xmalloc(size_t size);
__attribute__((returns_nonnull, malloc)) void *xcalloc(size_t count, size_t size);
__attribute__((returns_nonnull)) void *xrealloc(void *p, size_t size);
__attribute__((returns_nonnull, malloc)) char *xstrdup(const char *s);
/* A copy of size bytes with a NUL behind them. */
__attribute__((returns_nonnull, malloc)) char *xmemdup0(const void *p, size_t size);
__attribute__((returns_nonnull, format(printf, 1, 2))) char *xasprintf(
	const char *format, ...);

/*
 * Make room for one more element in an array that doubles: returns array, moved
 * perhaps, with room for more than count elements; *capacity follows.
 */
__attribute__((returns_nonnull)) void *xgrow(
	void *array, size_t count, size_t *capacity, size_t element_size);

/* free(*p) for __attribute__((cleanup)) on any pointer. */
void xfreep(void *p);
#define _cleanup_free_ __attribute__((cleanup(xfreep)))

#endif
