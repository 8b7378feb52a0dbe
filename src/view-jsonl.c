/* SPDX-License-Identifier: Apache-2.0 */
#include "view-jsonl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "copy-text.h"
#include "frame-text.h"
#include "input.h"
#include "json.h"
#include "profile/profile.h"
#include "thread-sums.h"
#include "timer-text.h"

enum { FORMAT_VERSION = 1 };

struct writer {
	const char *path;
	int event; /* enum profile_event, -1: ticks */
	bool begun;
	uint32_t segments; /* that have been printed */
	uint64_t samples;
	bool timers;              /* among these are some of CPU timers */
	struct thread_sums *sums; /* by number of the thread in the model */
	size_t sum_count, sum_capacity;
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

static void number_or_null(
	const char *before, const char *member, uint64_t value, bool is_known)
{
	if (is_known)
		number(before, member, value);
	else
		text(before, member, NULL);
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

/* An option that was given as a number, or null. */
static void print_option(
	const struct model_segment *s, const char *member, const char *attribute)
{
	const char *value = model_attribute(s, attribute);
	uint64_t n = 0;
	bool known = value != NULL && parse_number(value, UINT64_MAX, &n) == 0;

	number_or_null(",", member, n, known);
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
	flag(",", "spinning", (s->flags & FILE_SEGMENT_SPIN) != 0);
	print_option(s, "max_stack", "max-stack");
	print_option(s, "max_threads", "max-threads");
	print_option(s, "overhead_limit_ppm", "overhead-limit");
	print_option(s, "cpu_timer_ns", "cpu-timer");
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

/* Does all that was read so far lack what is asked for?  Then nothing is printed. */
static bool lacks_event(const struct writer *w, const struct model *m)
{
	return w->event == PROFILE_WALL && !model_has_waiting(m);
}

static struct thread_sums *sums_of(struct writer *w, uint32_t thread)
{
	while (w->sum_count <= thread) {
		w->sums = xgrow(
			w->sums, w->sum_count, &w->sum_capacity, sizeof(*w->sums));
		w->sums[w->sum_count++] = (struct thread_sums){ 0 };
	}
	return &w->sums[thread];
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

	if (lacks_event(w, m))
		return;
	print_segments(w, m);
	thread_sums_add(sums_of(w, r->thread), m, r->stack, r->state, r->ticks,
		r->wall_ns, r->cpu_ns);
	w->timers |= r->timer_samples != 0;
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
	if (r->late != 0)
		number(",", "late", r->late);
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
	if (lacks_event(context, m))
		return;
	print_segments(context, m);
	text("{", "type", "mark");
	number(",", "real_ns", mark->real_ns);
	text(",", "text", mark->text);
	printf("}\n");
}

static void print_gap(struct model *m, const struct load_gap *gap, void *context)
{
	static const char *const reasons[] = {
		[REC_GAP_MISSED] = "missed",
		[REC_GAP_PARKED] = "parked",
		[REC_GAP_STOPPED] = "stopped",
		[REC_GAP_DISABLED] = "disabled",
		[REC_GAP_UNTOLD] = "untold",
	};
	const struct model_segment *s = model_segment(m, gap->segment);

	if (lacks_event(context, m))
		return;
	print_segments(context, m);
	text("{", "type", "gap");
	number(",", "segment", gap->segment + 1);
	number(",", "pid", s->pid);
	text(",", "reason", WORD_OF(gap->reason, reasons));
	since(",", "time_ns", (uint64_t)gap->from_ns, s);
	signed_number(",", "length_ns", gap->to_ns - gap->from_ns);
	printf("}\n");
}

static void print_rate(struct model *m, const struct load_rate *rate, void *context)
{
	const struct model_segment *s = model_segment(m, rate->segment);
	bool spins = (rate->flags & FILE_TICKS_MEAN) != 0;

	if (lacks_event(context, m))
		return;
	print_segments(context, m);
	text("{", "type", "rate");
	number(",", "segment", rate->segment + 1);
	number(",", "pid", s->pid);
	since(",", "time_ns", (uint64_t)rate->from_ns, s);
	signed_number(",", "interval_ns", spins ? 0 : rate->length_ns);
	text(",", "why",
		spins                                     ? "spinning"
		: (rate->flags & FILE_TICKS_LIMITED) != 0 ? "overhead-limit"
							  : "asked");
	printf("}\n");
}

/* --- what a recording says of itself --- */

/* What of a thread's time has samples, and what has none. */
static void print_thread_figures(
	const struct model_thread *t, const struct thread_sums *sums)
{
	int64_t blocked = thread_sums_blocked_ns(t);

	number(",", "samples", sums->ticks);
	number(",", "approximate", sums->approximate);
	number(",", "truncated", sums->truncated);
	number(",", "unreadable", sums->unreadable);
	number(",", "late", t->late);
	number(",", "lost", t->lost);
	number(",", "lost_ns", t->lost_ns);
	number(",", "missed", t->missed);
	number(",", "missed_ns", t->gap_ns[REC_GAP_MISSED]);
	number(",", "parked_ns", t->gap_ns[REC_GAP_PARKED]);
	number(",", "stopped_ns", t->gap_ns[REC_GAP_STOPPED]);
	number(",", "disabled_ns", t->gap_ns[REC_GAP_DISABLED]);
	signed_number(",", "wall_ns", sums->wall_ns);
	number_or_null(",", "cpu_ns", t->cpu_ns, t->accounted);
	number_or_null(",", "delay_ns", t->delay_ns, t->accounted && !t->coarse);
	number_or_null(",", "blocked_ns", (uint64_t)blocked, blocked >= 0);
	number_or_null(",", "runs", t->runs, t->accounted && !t->coarse);
	flag(",", "coarse", t->coarse);
}

static void print_threads(struct writer *w, const struct model *m)
{
	for (uint32_t i = 0; i < model_thread_count(m); i++) {
		const struct model_thread *t = model_thread(m, i);
		const struct model_segment *s = model_segment(m, t->segment);

		text("{", "type", "thread");
		number(",", "segment", t->segment + 1);
		number(",", "pid", s->pid);
		print_thread(t);
		number(",", "id", t->number);
		number(",", "python_id", t->python_id);
		flag(",", "main", t->main);
		if (t->first_ns != 0) {
			since(",", "first_ns", (uint64_t)t->first_ns, s);
			since(",", "last_ns", (uint64_t)t->last_ns, s);
		} else {
			printf(",\"first_ns\":null,\"last_ns\":null");
		}
		print_thread_figures(t, sums_of(w, i));
		printf("}\n");
	}
}

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

static void print_timers(const struct model_segment *s)
{
	const struct model_timers *t = &s->timers;
	bool named = t->mapping != NULL && t->mapping[0] != '\0';

	name(",", "timers");
	if (!t->told) {
		printf("null");
		return;
	}
	text("{", "state", timer_text_state(t->state));
	since(",", "time_ns", t->mono_ns, s);
	number(",", "blocked_threads", t->blocked);
	number(",", "errno", t->detail);
	name(",", "handler");
	printf("\"0x%" PRIx64 "\"", t->owner);
	text(",", "owner", named ? t->mapping : NULL);
	printf("}");
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
	print_timers(s);
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
		.gap = print_gap,
		.rate = print_rate,
		.context = &w,
	};
	struct model *m = model_new();
	int code = load_file(m, path, &o, ret_result, err);
	bool lacks = lacks_event(&w, m);

	if (code == 0 && !lacks) {
		print_segments(&w, m);
		print_threads(&w, m);
		for (uint32_t i = 0; i < model_segment_count(m); i++)
			print_stats(m, i);
		print_end(&w, m, ret_result);
	}
	if (code == 0)
		code = input_check_event(path, m, event, w.timers, err);
	free(w.sums);
	model_free(m);
	return code;
}
