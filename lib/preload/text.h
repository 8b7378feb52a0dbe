/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRELOAD_TEXT_H
#define PRELOAD_TEXT_H

/* The few string functions the preload library needs; it has no libc. */

#include <stdbool.h>
#include <stddef.h>

static inline bool text_begins(const char *text, const char *with)
{
	while (*with != '\0')
		if (*text++ != *with++)
			return false;
	return true;
}

static inline size_t text_length(const char *text)
{
	size_t n = 0;

	while (text[n] != '\0')
		n++;
	return n;
}

/* Copy as much as there is room for; always ended by a NUL. */
static inline void text_copy(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; n + 1 < size && from[n] != '\0'; n++)
		to[n] = from[n];
	to[n] = '\0';
}

static inline void text_add(char *to, size_t size, const char *from)
{
	size_t n = text_length(to);

	text_copy(to + n, size - n, from);
}

#endif
