/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/xalloc.h"

/* More than a century makes no sense, and its sum with any time of day fits. */
#define MOST_MS 4000000000000ull

static int parse_time(const char *text, int64_t *ret_ns)
{
	uint64_t ms;

	if (parse_number(text, MOST_MS, &ms) == 0) {
		*ret_ns = (int64_t)ms * 1000000;
		return 0;
	}
	if (parse_duration(text, ret_ns) != 0 || *ret_ns > (int64_t)(MOST_MS * 1000000))
		return -EINVAL;
	return 0;
}

static int add(struct schedule *s, const char *text)
{
	int64_t at;

	if (parse_time(text, &at) != 0 || s->count >= SCHEDULE_MOST ||
		(s->count != 0 && at <= s->toggle_ns[s->count - 1]))
		return -EINVAL;
	s->toggle_ns[s->count++] = at;
	return 0;
}

/* "A-B,C-D" */
static int parse_ranges(char *text, struct schedule *s)
{
	char *save = NULL;

	if (text[0] == ',' || strstr(text, ",,") != NULL ||
		text[strlen(text) - 1] == ',')
		return -EINVAL;
	for (char *range = strtok_r(text, ",", &save); range != NULL;
		range = strtok_r(NULL, ",", &save)) {
		char *dash = strchr(range, '-');

		if (dash == NULL)
			return -EINVAL;
		*dash = '\0';
		if (add(s, range) != 0 || add(s, dash + 1) != 0)
			return -EINVAL;
	}
	return 0;
}

int schedule_parse(const char *text, struct schedule *ret, struct err *err)
{
	_cleanup_free_ char *copy = xstrdup(text);
	struct schedule s = { .toggle_ns = xcalloc(SCHEDULE_MOST, sizeof(int64_t)) };
	int r = 0;

	if (strcmp(text, "-1") != 0)
		r = strpbrk(text, ",-") == NULL ? add(&s, text)
						: parse_ranges(copy, &s);
	if (r != 0) {
		schedule_done(&s);
		return err_set(err, r,
			"'%s' is neither a time (500, 2s), -1, nor ranges that follow each "
			"other (10-20,1s-2s)",
			text);
	}
	*ret = s;
	return 0;
}

void schedule_done(struct schedule *s)
{
	free(s->toggle_ns);
	*s = (struct schedule){ 0 };
}
