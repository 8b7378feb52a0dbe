/* SPDX-License-Identifier: Apache-2.0 */
#include "view-jsonl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "copy-text.h"
#include "frame-text.h"
#include "json.h"
#include "profile/profile.h"

enum { FORMAT_VERSION = 1 };

struct writer {
	const char *path;
	int event; /* enum profile_event, -1: ticks */
	bool begun;
	uint32_t segments; /* that have been printed */
	uint64_t samples;
};

/* --- members; what stands before one decides on the comma --- */

static void name(const char *before, const char *member)
{
	printf("%s\"%s\":", before, member);
}

/* NULL: null. */
static void text(const char *before, const char *member, const char *value)
{
	name(before, member);
	if (value != NULL)
		json_quote(value);
	else
		printf("null");
}

static void number(const char *before, const char *member, uint64_t value)
{
	name(before, member);
	printf("%" PRIu64, value);
}

static void signed_number(const char *before, const char *member, int64_t value)
{
	name(before, member);
	printf("%" PRId64, value);
}

static void flag(const char *before, const char *member, bool value)
{
	name(before, member);
	printf("%s", value ? "true" : "false");
}

/* Since a segment began; its strata may reach back over that. */
static void since(const char *before, const char *member, uint64_t mono_ns,
	const struct model_segment *s)
{
	signed_number(before, member, (int64_t)(mono_ns - s->mono_ns));
}

/* --- lines --- */

static void print_header(struct writer *w)
{
	if (w->begun)
		return;
	w->begun = true;
	text("{", "type", "header");
	text(",", "format", "pystack-jsonl");
	number(",", "version", FORMAT_VERSION);
	text(",", "pystack", PACKAGE_VERSION);
	text(",", "file", w->path);
	text(",", "event",
		w->event >= 0 ? profile_event_name((enum profile_event)w->event)
			      : NULL);
	text(",", "unit", w->event >= 0 ? "ns" : "ticks");
	printf("}\n");
}

static const char *word_of(uint32_t index, const char *const *words, size_t count)
{
	return index < count && words[index] != NULL ? words[index] : "unknown";
}

#define WORD_OF(index, words) word_of(index, words, sizeof(words) / sizeof((words)[0]))

static void print_command(const struct model_segment *s)
{
	const char *before = "";

	name(",", "command");
	printf("[");
	for (size_t i = 0; i < s->attribute_count; i++) {
		if (strcmp(s->attributes[i].name, "arg") != 0)
			continue;
		printf("%s", before);
		json_quote(s->attributes[i].value);
		before = ",";
	}
	printf("]");
}

static void print_segment(const struct model *m, uint32_t index)
{
	static const char *const reasons[] = {
		[FILE_WHY_SPAWN] = "started",
		[FILE_WHY_ATTACH] = "attached",
		[FILE_WHY_FORK] = "forked",
		[FILE_WHY_EXEC] = "executed",
		[FILE_WHY_RESTART] = "restarted",
	};
	static const char *const told[] = { "python", "exe", "host", "kernel",
		"isolation" };
	const struct model_segment *s = model_segment(m, index);

	text("{", "type", "segment");
	number(",", "segment", index + 1);
	name(",", "id");
	printf("\"");
	for (size_t i = 0; i < sizeof(s->id); i++)
		printf("%02x", s->id[i]);
	printf("\"");
	name(",", "parent");
	if (s->parent != 0)
		printf("%u", s->parent);
	else
		printf("null");
	text(",", "why", WORD_OF(s->why, reasons));
	number(",", "pid", s->pid);
	number(",", "inner_pid", s->inner_pid);
	text(",", "comm", s->comm);
	print_command(s);
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		text(",", told[i], model_attribute(s, told[i]));
	number(",", "start_ns", s->real_ns);
	number(",", "interval_ns", s->interval_ns);
	flag(",", "adaptive", (s->flags & FILE_SEGMENT_ADAPTIVE) != 0);
	flag(",", "oncpu", (s->flags & FILE_SEGMENT_ONCPU) != 0);
	flag(",", "continued", s->continued);
	printf("}\n");
}

/* Those that have come since the last line. */
static void print_segments(struct writer *w, const struct model *m)
{
	print_header(w);
	for (; w->segments < model_segment_count(m); w->segments++)
		print_segment(m, w->segments);
}

static void print_frame(const char *before, const struct model *m, uint32_t number)
{
	const struct model_frame *f = model_frame(m, number);
	char special[80];

	printf("%s", before);
	if (f->kind != MODEL_PYTHON) {
		text("{", "function", model_special_name(f, special, sizeof(special)));
		printf(",\"file\":null,\"line\":null}");
		return;
	}
	text("{", "function", model_function(m, f->function)->name);
	text(",", "file", model_function(m, f->function)->file);
	if (f->line != 0)
		signed_number(",", "line", f->line);
	else
		printf(",\"line\":null");
	printf("}");
}

static void print_thread(const struct model_thread *t)
{
	number(",", "tid", t->tid);
	text(",", "thread",
		t->name[0] != '\0' ? t->name
		: t->main          ? "MainThread"
				   : NULL);
	number(",", "interpreter", t->interpreter);
}

static void print_run(struct model *m, const struct load_run *r, void *context)
{
	struct writer *w = context;
	const struct model_segment *s = model_segment(m, r->segment);
	struct profile_sample sample = {
		.state = r->state,
		.ticks = r->ticks,
		.wall_ns = r->wall_ns,
		.cpu_ns = r->cpu_ns,
		.timer_ns = r->timer_ns,
	};
	int64_t weight = profile_weight(&sample,
		w->event >= 0 ? (enum profile_event)w->event : PROFILE_SAMPLES);
	struct buf state = BUF_INIT(1024);
	const char *before = "";

	print_segments(w, m);
	if (weight <= 0)
		return;
	w->samples += r->ticks + r->timer_samples;
	text("{", "type", "sample");
	number(",", "segment", r->segment + 1);
	number(",", "pid", s->pid);
	print_thread(model_thread(m, r->thread));
	if (r->start_ns != 0)
		since(",", "time_ns", (uint64_t)r->start_ns, s);
	else
		printf(",\"time_ns\":null");
	number(",", "ticks", r->ticks);
	if (r->timer_samples != 0)
		number(",", "timer_samples", r->timer_samples);
	signed_number(",", "wall_ns", r->wall_ns);
	signed_number(",", "weight", weight);
	frame_text_state(&state, r->state, "\",\"");
	printf(",\"state\":[\"%s\"],\"stack\":[", buf_text(&state));
	for (uint32_t at = r->stack; at != 0; at = model_stack(m, at)->parent) {
		print_frame(before, m, model_stack(m, at)->frame);
		before = ",";
	}
	printf("]}\n");
	buf_done(&state);
}

static void print_mark(struct model *m, const struct model_mark *mark, void *context)
{
	print_segments(context, m);
	text("{", "type", "mark");
	number(",", "real_ns", mark->real_ns);
	text(",", "text", mark->text);
	printf("}\n");
}

/* --- what a recording says of itself --- */

static void print_owners(const struct model_copy *c)
{
	static const char *const signals[] = { "SIGSEGV", "SIGBUS" };
	static const uint32_t taken[] = { RING_COPY_TAKEN_SEGV, RING_COPY_TAKEN_BUS };
	const char *before = "{";

	name(",", "takeovers");
	printf("[");
	for (size_t i = 0; i < 2; i++) {
		if ((c->flags & taken[i]) == 0)
			continue;
		text(before, "signal", signals[i]);
		name(",", "handler");
		printf("\"0x%" PRIx64 "\"", c->owner[i]);
		/* The default action, and to ignore it, lie nowhere. */
		text(",", "owner",
			c->owner[i] == 0           ? "SIG_DFL"
			: c->owner[i] == 1         ? "SIG_IGN"
			: c->mapping[i][0] != '\0' ? c->mapping[i]
						   : NULL);
		printf("}");
		before = ",{";
	}
	printf("]");
}

static void print_copy_members(const struct model_copy *c)
{
	bool pwrite = (c->flags & RING_COPY_CAN_PWRITE) != 0;
	bool readv = (c->flags & RING_COPY_CAN_READV) != 0;

	text(",", "mode", copy_text_state(c->state));
	printf(",\"capable\":[%s%s%s]", pwrite ? "\"pwritev\"" : "",
		pwrite && readv ? "," : "", readv ? "\"process_vm_readv\"" : "");
	flag(",", "wanted_fast", (c->flags & RING_COPY_WANTED) != 0);
	flag(",", "fell_back", (c->flags & RING_COPY_FELL_BACK) != 0);
	print_owners(c);
}

static void print_copy(const struct model_segment *s)
{
	const char *asked = model_attribute(s, "copy");
	const struct model_copy *c = model_copy_now(s);

	name(",", "copy");
	if (c == NULL) {
		printf("null");
		return;
	}
	text("{", "asked", asked);
	flag(",", "user_disabled", asked != NULL && strcmp(asked, "syscall") == 0);
	print_copy_members(c);
	number(",", "warmup_left_ns", c->warmup_ns);
	name(",", "changes");
	for (size_t i = 0; i < s->copy_count; i++) {
		printf("%s", i == 0 ? "[" : ",");
		since("{", "time_ns", s->copies[i].mono_ns, s);
		print_copy_members(&s->copies[i]);
		printf("}");
	}
	printf("]}");
}

static void print_stats(const struct model *m, uint32_t index)
{
	static const char *const ends[] = {
		[FILE_END_EXIT] = "exit",
		[FILE_END_SIGNAL] = "signal",
		[FILE_END_EXEC] = "exec",
		[FILE_END_DETACHED] = "detached",
		[FILE_END_SAMPLER] = "sampler",
		[FILE_END_GONE] = "gone",
		[FILE_END_CONTINUED] = "continued",
	};
	const struct model_segment *s = model_segment(m, index);

	text("{", "type", "stats");
	number(",", "segment", index + 1);
	number(",", "pid", s->pid);
	text(",", "end", s->ended ? WORD_OF(s->end_why, ends) : NULL);
	number(",", "status", s->end_status);
	if (s->ended)
		since(",", "end_ns", s->end_mono_ns, s);
	else
		printf(",\"end_ns\":null");
	text(",", "isolation", model_attribute(s, "isolation"));
	print_copy(s);
	name(",", "counters");
	printf("{");
	for (size_t i = 0; i < s->counter_count; i++) {
		printf("%s", i == 0 ? "" : ",");
		json_quote(s->counters[i].name);
		printf(":%" PRIu64, s->counters[i].value);
	}
	printf("}}\n");
}

static void print_end(
	const struct writer *w, const struct model *m, const struct load_result *result)
{
	struct model_recorder r = model_recorder(m);

	text("{", "type", "end");
	number(",", "samples", w->samples);
	flag(",", "complete", result->complete);
	text(",", "damage", result->damage[0] != '\0' ? result->damage : NULL);
	number(",", "bytes", result->bytes);
	number(",", "recorder_ns", r.elapsed_ns);
	number(",", "recorder_cpu_ns", r.cpu_ns);
	printf("}\n");
}

int view_jsonl(
	const char *path, int event, struct load_result *ret_result, struct err *err)
{
	struct writer w = { .path = path, .event = event };
	struct load_options o = {
		.cpu = event == PROFILE_CPU,
		.run = print_run,
		.mark = print_mark,
		.context = &w,
	};
	struct model *m = model_new();
	int code = load_file(m, path, &o, ret_result, err);

	if (code == 0) {
		print_segments(&w, m);
		for (uint32_t i = 0; i < model_segment_count(m); i++)
			print_stats(m, i);
		print_end(&w, m, ret_result);
	}
	if (code == 0 && event == PROFILE_CPU_TIMER && !model_has_timers(m) &&
		w.samples == 0)
		code = err_set(err, -E_UNSUPPORTED,
			"%s has no CPU timers: record with -e cpu-timer", path);
	model_free(m);
	return code;
}
