/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cmd.h"
#include "input.h"
#include "msg.h"
#include "term.h"
#include "view-stats.h"
#include "view-text.h"

static const char *input = "pystack.data";
static bool force, tree, header, header_only, stats, stdio, no_header;
static struct view_options view = {
	.event = PROFILE_CPU,
	.keys = { VIEW_SYMBOL },
	.key_count = 1,
	.children = true,
	.percent_limit = 0.01,
};

static int set_event(const char *value, struct err *err)
{
	int event = profile_event_parse(value);

	if (event < 0)
		return err_set(err, -EINVAL,
			"'%s' is not an event (cpu, wall, gil, cpu-timer)", value);
	view.event = (enum profile_event)event;
	view.event_given = true;
	return 0;
}

static int set_sort(const char *value, struct err *err)
{
	view.key_count = 0;
	while (*value != '\0') {
		char name[32] = "";
		size_t size = strcspn(value, ",");

		if (size < sizeof(name))
			memcpy(name, value, size);
		enum view_key key = view_key_parse(name);

		if (key == VIEW_KEYS)
			return err_set(err, -EINVAL,
				"'%.*s' is not a key (symbol, file, srcline, thread, tid, pid, "
				"comm, state, interp)",
				(int)size, value);
		if (view.key_count == VIEW_KEYS)
			return err_set(err, -EINVAL, "too many keys");
		view.keys[view.key_count++] = key;
		value += size + (value[size] == ',');
	}
	if (view.key_count == 0)
		return err_set(err, -EINVAL, "no key given");
	return 0;
}

static int set_percent_limit(const char *value, struct err *err)
{
	if (parse_percent(value, &view.percent_limit) != 0)
		return err_set(
			err, -EINVAL, "'%s' is not a percentage from 0 to 100", value);
	return 0;
}

static int set_limit(const char *value, struct err *err)
{
	uint64_t rows;

	if (parse_number(value, UINT32_MAX, &rows) != 0)
		return err_set(err, -EINVAL, "'%s' is not a number of rows", value);
	view.row_limit = rows;
	return 0;
}

static const struct opt report_options[] = {
	{ 'i', "input", "FILE", "file to read (pystack.data), - for standard input",
		.text = &input },
	{ 0, "stdio", NULL,
		"print text on standard output (there is no other view yet)",
		.flag = &stdio },
	{ 'e', "event", "EVENT",
		"what to count: cpu, the time running (default); wall,\nall time of all threads; "
		"gil, the time with the lock;\ncpu-timer, the time running by threads' own timers",
		.set = set_event },
	{ 's', "sort", "KEY[,KEY]",
		"a row for each: symbol (default), file, srcline,\nthread, tid, pid, comm, state, interp",
		.set = set_sort },
	{ 0, "children", NULL,
		"add up callees in a column of their own, and sort by it\n(on)",
		.flag = &view.children, .negatable = true },
	{ 'g', "call-graph", NULL, "print the tree of calls instead of the table",
		.flag = &tree },
	{ 0, "percent-limit", "P", "leave out what is below P percent (0.01)",
		.set = set_percent_limit },
	{ 'n', "limit", "N", "print at most N rows", .set = set_limit },
	{ 0, "full-paths", NULL, "do not shorten file names",
		.flag = &view.full_paths },
	{ 0, "header", NULL, "print all that is known of the recording first",
		.flag = &header },
	{ 0, "header-only", NULL, "print that and nothing else", .flag = &header_only },
	{ 0, "stats", NULL, "print the sampler's own account instead of the profile",
		.flag = &stats },
	{ 0, "no-header", NULL, "print none of the lines that tell of the recording",
		.flag = &no_header },
	{ 'f', "force", NULL,
		"read files of other users, and end with status 0 when a\nfile is read only in "
		"part",
		.flag = &force },
	{ 0 },
};

static void say_empty(const struct profile *p)
{
	if (!p->result.complete)
		printf("#\n# The file has no samples: it is still being written, or was cut off, "
		       "before the\n# first of them.\n");
	else if (model_segment_count(p->model) == 0)
		printf("#\n# The file has no samples: no Python process was recorded.\n");
	else
		printf("#\n# The file has no samples: the program ended before the first tick, "
		       "or no Python\n# thread was there, or sampling was off (see --stats).\n");
}

static void print_report(const struct profile *p)
{
	if (stats) {
		view_stats(p);
		return;
	}
	if (!no_header)
		view_header(p, input, &view, header || header_only);
	if (header_only)
		return;
	if (p->totals.ticks == 0 && p->totals.timer_samples == 0)
		say_empty(p);
	else if (view.event == PROFILE_CPU_TIMER && p->totals.timer_samples == 0)
		printf("#\n# No timer ran out: no thread ran Python code for long, or SIGURG was "
		       "taken (see --stats).\n");
	else if (profile_total(p, view.event) == 0)
		printf("#\n# No sample has any %s time; --event=wall shows all %llu samples.\n",
			profile_event_name(view.event),
			(unsigned long long)p->totals.ticks);
	else if (tree)
		view_tree(p, &view);
	else
		view_table(p, &view);
}

static int run(int argc, char **argv)
{
	struct profile *p;
	struct err err;

	if (argc != 0)
		return opt_usage_error(
			"unexpected argument '%s'; the file is given with -i", argv[0]);
	if (!input_allowed(input, force))
		return STATUS_FAILED;
	if (profile_load(input, &p, &err) != 0) {
		msg_error("%s%s", err.text,
			strcmp(input, "pystack.data") == 0
				? " (record first: pystack record -- python3 app.py)"
				: "");
		return STATUS_FAILED;
	}
	if (input_check_event(input, p->model, (int)view.event,
		    p->totals.timer_samples != 0, &err) != 0) {
		msg_error("%s", err.text);
		profile_free(p);
		return STATUS_FAILED;
	}
	view.width = term_width();
	if (tree && view.percent_limit < 0.5)
		view.percent_limit =
			view.percent_limit == 0.01 ? 0.5 : view.percent_limit;
	term_start_pager();
	print_report(p);
	int status = input_account(input, &p->result, force);

	profile_free(p);
	return status;
}

const struct cmd cmd_report = {
	.name = "report",
	.summary = "show where a recorded program spent its time",
	.usage = "[OPTIONS]",
	.options = report_options,
	.run = run,
};
