/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void (*failure_hook)(void);

void xalloc_on_failure(void (*hook)(void))
{
	failure_hook = hook;
}

static _Noreturn void out_of_memory(void)
{
	static const char text[] = "pystack: out of memory\n";
	void (*hook)(void) = failure_hook;

	failure_hook = NULL;
	if (hook != NULL)
		hook();
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(1);
}

void *xmalloc(size_t size)
{
	void *p = malloc(size != 0 ? size : 1);

	if (p == NULL)
		out_of_memory();
	return p;
}

void *xcalloc(size_t count, size_t size)
{
	void *p = calloc(count != 0 ? count : 1, size != 0 ? size : 1);

	if (p == NULL)
		out_of_memory();
	return p;
}

void *xrealloc(void *p, size_t size)
{
	p = realloc(p, size != 0 ? size : 1);
	if (p == NULL)
		out_of_memory();
	return p;
}

char *xmemdup0(const void *p, size_t size)
{
	char *copy = xmalloc(size + 1);

	if (size != 0)
		memcpy(copy, p, size);
	copy[size] = '\0';
	return copy;
}

char *xstrdup(const char *s)
{
	return xmemdup0(s, strlen(s));
}

char *xasprintf(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		out_of_memory();
	va_end(args);
	return text;
}

void *xgrow(void *array, size_t count, size_t *capacity, size_t element_size)
{
	if (count < *capacity)
		return array;
	size_t wanted = *capacity < 8 ? 8 : *capacity * 2;

	if (wanted <= count)
		wanted = count + 1;
	if (wanted > SIZE_MAX / element_size)
		out_of_memory();
	array = xrealloc(array, wanted * element_size);
	*capacity = wanted;
	return array;
}

void xfreep(void *p)
{
	free(*(void **)p);
}
