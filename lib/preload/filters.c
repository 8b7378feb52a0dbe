/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/filters.h"

#include "core/sys.h"
#include "preload/text.h"

enum {
	HERE = -100,         /* AT_FDCWD */
	OPEN_READ = 0x80000, /* O_CLOEXEC */
	STATUS_BYTES = 4096,
	UNKNOWN = -1,
};

static long noted = UNKNOWN;

/* The number behind a name at the start of a line, UNKNOWN when there is none. */
static long number_of(const char *text, const char *name)
{
	for (const char *line = text; *line != '\0'; line++) {
		if (line != text && line[-1] != '\n')
			continue;
		if (!text_begins(line, name))
			continue;
		const char *at = line + text_length(name);
		long value = 0;

		while (*at == '\t' || *at == ' ')
			at++;
		while (*at >= '0' && *at <= '9')
			value = value * 10 + (*at++ - '0');
		return value;
	}
	return UNKNOWN;
}

/* How many there are of this thread; kernels before 5.9 tell only whether. */
static long count_filters(void)
{
	char text[STATUS_BYTES];
	int fd = (int)sys_openat(HERE, "/proc/thread-self/status", OPEN_READ);

	if (fd < 0)
		return UNKNOWN;
	long n = SYS3(__NR_read, fd, text, sizeof(text) - 1);

	(void)sys_close(fd);
	if (n <= 0)
		return UNKNOWN;
	text[n] = '\0';
	long mode = number_of(text, "Seccomp:");

	if (mode <= 0)
		return mode;
	return number_of(text, "Seccomp_filters:");
}

void filters_note(void)
{
	noted = count_filters();
}

bool filters_are(long count)
{
	return noted == count;
}

bool filters_are_ours(void)
{
	long count = count_filters();

	return count != UNKNOWN && count == noted;
}
