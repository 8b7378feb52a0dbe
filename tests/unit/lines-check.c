/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares line tables with what Python says of them: lines.sh makes the input, a line
 * for each code object,
 *
 *	KIND FIRST-LINE TABLE START END LINE START END LINE ...
 *
 * (the table in hexadecimal, "-" when empty; line 0: none).  Prints how many
 * instructions were compared and how many differ, and fails if any does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "python/linetable.h"

struct table {
	enum py_linetable_kind kind;
	int32_t first_line;
	uint8_t *bytes;
	size_t size;
};

static uint8_t *from_hex(const char *text, size_t *ret_size)
{
	size_t size = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;
	uint8_t *bytes = xmalloc(size);

	for (size_t i = 0; i < size; i++) {
		char two[3] = { text[2 * i], text[2 * i + 1], '\0' };

		bytes[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	*ret_size = size;
	return bytes;
}

/* Compare [start, end) in units of two bytes; *it and *range go on from call to call.
 */
static unsigned long compare(struct py_lines *it, struct py_line_range *range,
	bool *more, unsigned long start, unsigned long end, long line)
{
	unsigned long wrong = 0;

	for (unsigned long at = start; at < end; at += 2) {
		while (*more && at >= range->end)
			*more = py_lines_next(it, range);
		long got = *more && at >= range->start ? range->line : -1;

		wrong += got != line;
	}
	return wrong;
}

static unsigned long check(char *text, unsigned long *ret_count)
{
	char *at = text;
	const char *kind = strsep(&at, " "), *first = strsep(&at, " "),
		   *hex = strsep(&at, " ");
	struct table t = {
		.kind = (enum py_linetable_kind)strtol(kind, NULL, 10),
		.first_line = (int32_t)strtol(first != NULL ? first : "0", NULL, 10),
	};
	struct py_lines it;
	struct py_line_range range = { 0 };
	unsigned long wrong = 0;

	t.bytes = from_hex(hex != NULL ? hex : "-", &t.size);
	py_lines_init(&it, t.kind, t.bytes, t.size, t.first_line);
	bool more = py_lines_next(&it, &range);

	while (at != NULL && *at != '\0' && *at != '\n') {
		unsigned long start = strtoul(at, &at, 10), end = strtoul(at, &at, 10);
		long line = strtol(at, &at, 10);

		wrong += compare(&it, &range, &more, start, end, line);
		*ret_count += (end - start) / 2;
	}
	free(t.bytes);
	return wrong;
}

int main(int argc, char **argv)
{
	FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
	char *text = NULL;
	size_t room = 0;
	unsigned long count = 0, wrong = 0, codes = 0;

	if (file == NULL) {
		(void)fprintf(stderr, "usage: lines-check FILE\n");
		return 2;
	}
	while (getline(&text, &room, file) > 0) {
		unsigned long bad = check(text, &count);

		if (bad != 0 && wrong == 0)
			printf("# differs: code object %lu\n", codes + 1);
		wrong += bad;
		codes++;
	}
	printf("%lu instructions of %lu code objects, %lu differ\n", count, codes,
		wrong);
	free(text);
	(void)fclose(file);
	return wrong != 0 || count == 0;
}
