/* SPDX-License-Identifier: Apache-2.0 */
#include "core/sys.h"

void *memcpy(void *to, const void *from, size_t size)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	while (size-- != 0)
		*t++ = *f++;
	return to;
}

void *memmove(void *to, const void *from, size_t size)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	if (t <= f)
		return memcpy(to, from, size);
	while (size-- != 0)
		t[size] = f[size];
	return to;
}

void *memset(void *to, int byte, size_t size)
{
	unsigned char *t = to;

	while (size-- != 0)
		*t++ = (unsigned char)byte;
	return to;
}

int memcmp(const void *a, const void *b, size_t size)
{
	const unsigned char *x = a, *y = b;

	for (; size != 0; size--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}
