/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "cmd.h"
#include "frame-text.h"
#include "input.h"
#include "msg.h"
#include "profile/load.h"
#include "profile/profile.h"
#include "term.h"
#include "view-jsonl.h"

static const char *input = "pystack.data";
static const char *output;
static enum { TEXT, COLLAPSED, JSONL } format;
static bool per_thread, force;
static int event = -1;

static int set_format(const char *value, struct err *err)
{
	unsigned which;

	if (parse_word(value, "text|collapsed|jsonl", &which) != 0)
		return err_set(err, -EINVAL,
			"'%s' is not a format (text, collapsed, jsonl)", value);
	format = which;
	return 0;
}

static int set_event(const char *value, struct err *err)
{
	event = profile_event_parse(value);
	if (event < 0)
		return err_set(err, -EINVAL,
			"'%s' is not an event (cpu, wall, gil, cpu-timer)", value);
	return 0;
}

static const struct opt script_options[] = {
	{ 'i', "input", "FILE", "file to read (pystack.data), - for standard input",
		.text = &input },
	{ 0, "format", "FORMAT",
		"text: one sample after another (default); collapsed:\none line a stack, root "
		"first, for flame graphs; jsonl:\none JSON object a line, samples and all else",
		.set = set_format },
	{ 'e', "event", "EVENT",
		"weigh stacks by cpu, wall, gil or cpu-timer time, instead\nof counting samples: "
		"collapsed ones in microseconds,\njsonl in ns",
		.set = set_event },
	{ 0, "per-thread", NULL,
		"put process and thread in front of each collapsed stack",
		.flag = &per_thread },
	{ 'o', "output", "FILE", "file to write instead of standard output",
		.text = &output },
	{ 'f', "force", NULL,
		"read files of other users, and end with status 0 when a\nfile is read only in "
		"part",
		.flag = &force },
	{ 0 },
};

/* --- text --- */

/* Seconds since the beginning, which a stratum may reach back over. */
static void print_since(int64_t ns)
{
	int64_t us = ns / 1000;

	printf("  %s%" PRId64 ".%06" PRId64, us < 0 ? "-" : "",
		(us < 0 ? -us : us) / 1000000, (us < 0 ? -us : us) % 1000000);
}

static void print_run(struct model *m, const struct load_run *r, void *context)
{
	const struct model_thread *t = model_thread(m, r->thread);
	const struct model_segment *s = model_segment(m, r->segment);
	int64_t since = r->start_ns - (int64_t)s->mono_ns;
	struct buf line = BUF_INIT(FILE_TEXT_MAX * 4);

	(void)context;
	frame_text_clean(&line, s->comm);
	buf_printf(&line, " %u/%u ", s->pid, t->tid);
	frame_text_thread(&line, m, r->thread);
	printf("%s", buf_text(&line));
	print_since(since);
	if (r->timer_samples != 0)
		printf(":  cpu-timer  %.3f ms  ", (double)r->timer_ns / 1e6);
	else
		printf(":  %" PRIu64 " tick%s  %.3f ms  ", r->ticks,
			r->ticks == 1 ? "" : "s", (double)r->wall_ns / 1e6);
	buf_clear(&line);
	frame_text_state(&line, r->state, " ");
	printf("%s\n", buf_text(&line));
	for (uint32_t at = r->stack; at != 0; at = model_stack(m, at)->parent) {
		buf_clear(&line);
		frame_text_full(&line, m, model_stack(m, at)->frame);
		printf("\t%s\n", buf_text(&line));
	}
	printf("\n");
	buf_done(&line);
}

static void print_mark(struct model *m, const struct model_mark *mark, void *context)
{
	struct buf text = BUF_INIT(FILE_TEXT_MAX * 4);

	(void)context;
	frame_text_clean(&text, mark->text);
	printf("[mark]");
	if (model_segment_count(m) != 0) {
		const struct model_segment *s = model_segment(m, 0);

		print_since(model_mark_ns(mark, s) - (int64_t)s->mono_ns);
	}
	printf(":  %s\n\n", buf_text(&text));
	buf_done(&text);
}

static int script_text(void)
{
	struct model *m = model_new();
	struct load_options o = { .run = print_run, .mark = print_mark };
	struct load_result result;
	struct err err;
	int code = load_file(m, input, &o, &result, &err);

	if (code != 0) {
		msg_error("%s", err.text);
		model_free(m);
		return STATUS_FAILED;
	}
	int status = input_account(input, &result, force);

	model_free(m);
	return status;
}

/* --- collapsed --- */

/* One line: the stack's text, and what it weighs. */
struct line {
	char *text;
	int64_t weight;
};

static int compare_lines(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

/* Frames of a stack, root first, joined by semicolons. */
static void add_stack(struct buf *b, const struct model *m, uint32_t stack)
{
	uint32_t depth = model_stack(m, stack)->depth;
	_cleanup_free_ uint32_t *frames = xmalloc(depth * sizeof(*frames));
	uint32_t n = depth;

	for (uint32_t at = stack; at != 0; at = model_stack(m, at)->parent)
		frames[--n] = model_stack(m, at)->frame;
	for (uint32_t i = 0; i < depth; i++) {
		if (i != 0)
			buf_add_byte(b, ';');
		frame_text_collapsed(b, m, frames[i]);
	}
}

/* A semicolon ends a frame: within a name it becomes a comma, as in those of frames. */
static void without_semicolons(struct buf *b, size_t start)
{
	for (size_t i = start; i < b->size; i++)
		if (b->data[i] == ';')
			b->data[i] = ',';
}

static char *line_of(const struct profile *p, const struct profile_sample *s)
{
	struct buf b = BUF_INIT(64u << 20);

	if (per_thread) {
		const struct model_thread *t = model_thread(p->model, s->thread);
		const struct model_segment *seg = model_segment(p->model, t->segment);
		struct buf name = BUF_INIT(FILE_TEXT_MAX * 2);

		frame_text_clean(&name, seg->comm);
		without_semicolons(&name, 0);
		buf_printf(&name, " %u;", seg->pid);
		size_t start = name.size;

		frame_text_thread(&name, p->model, s->thread);
		without_semicolons(&name, start);
		buf_printf(&name, " %u;", t->tid);
		buf_add(&b, name.data, name.size);
		buf_done(&name);
	}
	add_stack(&b, p->model, s->stack);
	char *text = xmemdup0(buf_text(&b), b.size);

	buf_done(&b);
	return text;
}

/* Print a weight: samples as they are; time in microseconds, where what rounding
 * leaves is carried on, so that the lines add up to the whole. */
static void print_line(const char *text, int64_t weight, int64_t *carried)
{
	int64_t n = weight;

	if (event >= 0) {
		n = (weight + *carried) / 1000;
		*carried += weight - n * 1000;
	}
	if (n > 0)
		printf("%s %" PRId64 "\n", text, n);
}

static int script_collapsed(void)
{
	struct profile *p;
	struct err err;
	enum profile_event what =
		event >= 0 ? (enum profile_event)event : PROFILE_SAMPLES;

	if (profile_load(input, &p, &err) != 0) {
		msg_error("%s", err.text);
		return STATUS_FAILED;
	}
	if (input_check_event(input, p->model, (int)what, p->totals.timer_samples != 0,
		    &err) != 0) {
		msg_error("%s", err.text);
		profile_free(p);
		return STATUS_FAILED;
	}
	struct line *lines = xcalloc(p->count, sizeof(*lines));
	size_t count = 0;
	int64_t carried = 0;

	for (size_t i = 0; i < p->count; i++) {
		int64_t weight = profile_weight(&p->samples[i], what);

		if (weight > 0)
			lines[count++] =
				(struct line){ line_of(p, &p->samples[i]), weight };
	}
	if (count != 0)
		qsort(lines, count, sizeof(*lines), compare_lines);
	for (size_t i = 0; i < count;) {
		int64_t weight = 0;
		size_t first = i;

		for (; i < count && strcmp(lines[i].text, lines[first].text) == 0; i++)
			weight += lines[i].weight;
		print_line(lines[first].text, weight, &carried);
	}
	for (size_t i = 0; i < count; i++)
		free(lines[i].text);
	free(lines);
	int status = input_account(input, &p->result, force);

	profile_free(p);
	return status;
}

static int script_jsonl(void)
{
	struct load_result result;
	struct err err;

	if (view_jsonl(input, event, &result, &err) != 0) {
		msg_error("%s", err.text);
		return STATUS_FAILED;
	}
	return input_account(input, &result, force);
}

static int run(int argc, char **argv)
{
	(void)argv;
	if (argc != 0)
		return opt_usage_error("unexpected argument '%s'", argv[0]);
	if (event >= 0 && format == TEXT)
		return opt_usage_error("--event goes with --format collapsed or jsonl");
	if (per_thread && format != COLLAPSED)
		return opt_usage_error("--per-thread goes with --format collapsed");
	if (!input_allowed(input, force))
		return STATUS_FAILED;
	if (output != NULL && freopen(output, "we", stdout) == NULL) {
		msg_error("%s: %s", output, strerror(errno));
		return STATUS_FAILED;
	}
	switch (format) {
	case COLLAPSED:
		return script_collapsed();
	case JSONL:
		return script_jsonl();
	default:
		return script_text();
	}
}

const struct cmd cmd_script = {
	.name = "script",
	.summary = "print a recording's samples one by one, or convert them",
	.usage = "[OPTIONS]",
	.options = script_options,
	.run = run,
};
