/* SPDX-License-Identifier: Apache-2.0 */
#include "view-text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "frame-text.h"
#include "interpreters.h"
#include "timer-text.h"
#include "wire/ring.h"

enum {
	MARKS_SHOWN = 10,
	COMMAND_MOST = 240, /* columns of a command line, unless more is wanted */
	STATE_KEY = REC_RUNNING | REC_GIL | REC_GC | REC_GIL_WAIT | LOAD_STARTING |
		    LOAD_FINALIZING, /* what is told apart by the key "state" */
};

const char *const view_key_names[VIEW_KEYS] = {
	[VIEW_SYMBOL] = "symbol",
	[VIEW_FILE] = "file",
	[VIEW_SRCLINE] = "srcline",
	[VIEW_THREAD] = "thread",
	[VIEW_TID] = "tid",
	[VIEW_PID] = "pid",
	[VIEW_COMM] = "comm",
	[VIEW_STATE] = "state",
	[VIEW_INTERP] = "interp",
};

static const char *const key_titles[VIEW_KEYS] = {
	[VIEW_SYMBOL] = "Function",
	[VIEW_FILE] = "File",
	[VIEW_SRCLINE] = "Source line",
	[VIEW_THREAD] = "Thread",
	[VIEW_TID] = "Tid",
	[VIEW_PID] = "Pid",
	[VIEW_COMM] = "Command",
	[VIEW_STATE] = "State",
	[VIEW_INTERP] = "Interp",
};

enum view_key view_key_parse(const char *name)
{
	/* perf's words for the file. */
	if (strcmp(name, "dso") == 0 || strcmp(name, "srcfile") == 0)
		return VIEW_FILE;
	if (strcmp(name, "sym") == 0)
		return VIEW_SYMBOL;
	for (int i = 0; i < VIEW_KEYS; i++)
		if (strcmp(view_key_names[i], name) == 0)
			return (enum view_key)i;
	return VIEW_KEYS;
}

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

static double percent(int64_t part, int64_t whole)
{
	return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

/* --- header --- */

static void print_time(uint64_t real_ns)
{
	time_t t = (time_t)(real_ns / 1000000000);
	struct tm tm;
	char text[64];

	if (gmtime_r(&t, &tm) == NULL ||
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
		text[0] = '\0';
	printf("%s", text);
}

static void print_clean(const char *text)
{
	struct buf b = BUF_INIT(FILE_TEXT_MAX * 4);

	frame_text_clean(&b, text);
	printf("%s", buf_text(&b));
	buf_done(&b);
}

/* Whole programs are given as an argument. */
static void print_command(const struct model_segment *s, bool more)
{
	_cleanup_buf_ struct buf b = BUF_INIT(FILE_TEXT_MAX * 4);

	for (size_t i = 0; i < s->attribute_count; i++) {
		if (strcmp(s->attributes[i].name, "arg") != 0)
			continue;
		if (b.size != 0)
			buf_add_str(&b, " ");
		frame_text_clean(&b, s->attributes[i].value);
	}
	size_t fits = str_fit(buf_text(&b), b.size, COMMAND_MOST);

	if (more || fits == b.size)
		printf("%s", buf_text(&b));
	else
		printf("%.*s~", (int)str_fit(buf_text(&b), b.size, COMMAND_MOST - 1),
			buf_text(&b));
}

static const char *why_text(uint32_t why)
{
	static const char *const words[] = { "?", "started", "attached to", "forked",
		"executed", "restarted" };

	return words[why <= FILE_WHY_RESTART ? why : 0];
}

void view_end(const struct model_segment *s)
{
	if (!s->ended) {
		printf("the recording has no end yet");
		return;
	}
	switch (s->end_why) {
	case FILE_END_EXIT:
		printf("exited with status %" PRIu64, s->end_status);
		break;
	case FILE_END_SIGNAL:
		printf("ended by signal %" PRIu64, s->end_status);
		break;
	case FILE_END_EXEC:
		printf("executed another program");
		break;
	case FILE_END_DETACHED:
		printf("let go while it ran");
		break;
	case FILE_END_SAMPLER:
		printf("the sampler ended by itself (reason %" PRIu64 ")",
			s->end_status);
		break;
	case FILE_END_CONTINUED:
		printf("goes on in another file");
		break;
	default:
		printf("ended");
		break;
	}
}

static uint64_t end_ns(const struct model_segment *s)
{
	return s->ended ? s->end_mono_ns : 0;
}

static void print_rate(const struct model_segment *s)
{
	uint64_t stratum = model_counter(s, "stratum");

	if ((s->flags & FILE_SEGMENT_SPIN) != 0) {
		printf("as fast as it went");
		return;
	}
	printf("%s Hz", number_rate(s->interval_ns).text);
	if ((s->flags & FILE_SEGMENT_ADAPTIVE) != 0 && stratum > s->interval_ns)
		printf(" lowered to %s Hz for the overhead limit",
			number_rate(stratum).text);
	if ((s->flags & FILE_SEGMENT_ONCPU) != 0)
		printf(", of running threads alone");
	if (model_attribute(s, "max-threads") != NULL)
		printf(", of at most %s threads at a time",
			model_attribute(s, "max-threads"));
}

static void print_overhead_limit(const struct model_segment *s, const char *value)
{
	uint64_t ppm;

	if (value != NULL && parse_number(value, UINT32_MAX, &ppm) == 0)
		printf("#   overhead-limit: %s%% of the program's CPU\n",
			number_plain((double)ppm / 1e4, 4).text);
	else if ((s->flags & FILE_SEGMENT_ADAPTIVE) == 0)
		printf("#   overhead-limit: none (%s)\n",
			(s->flags & FILE_SEGMENT_SPIN) != 0 ? "-F max"
							    : "--no-adaptive");
}

static void print_segment_more(const struct model_segment *s)
{
	static const char *const shown[] = { "host", "kernel", "exe", "isolation",
		"max-stack", "max-threads", "overhead-limit", "boot", "pystack" };

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		const char *value = model_attribute(s, shown[i]);

		if (strcmp(shown[i], "overhead-limit") == 0)
			print_overhead_limit(s, value);
		if (value == NULL || strcmp(shown[i], "overhead-limit") == 0)
			continue;
		printf("#   %-14s: ", shown[i]);
		print_clean(value);
		printf("\n");
	}
	printf("#   %-14s: ", "end");
	view_end(s);
	printf("\n");
}

/* A thread of the program cannot tell a stop of that from one of the whole machine. */
static const char *gap_text(const struct model_segment *s, int gap)
{
	static const char *const texts[] = {
		[REC_GAP_MISSED] = "missed, as the sampler came too late",
		[REC_GAP_PARKED] = "with the recorder silent",
		[REC_GAP_STOPPED] = "stopped by a signal",
		[REC_GAP_DISABLED] = "with sampling off",
		[REC_GAP_UNTOLD] = "at the end untold, as the sampler ended too",
	};
	const char *isolation = model_attribute(s, "isolation");

	return gap == REC_GAP_STOPPED && isolation != NULL &&
			       strcmp(isolation, "thread") == 0
		       ? "stopped, by a signal or with the whole machine"
		       : texts[gap];
}

/* Samples that the sampler had no room for, of all threads. */
static void print_lost(const struct model *m, uint32_t segment)
{
	double lost = 0;

	for (uint32_t i = 0; i < model_thread_count(m); i++)
		if (model_thread(m, i)->segment == segment)
			lost += (double)model_thread(m, i)->lost_ns;
	if (lost >= 1e6)
		printf("#   about %.3f s of threads' time whose samples had no room: not in "
		       "the figures\n",
			lost / 1e9);
}

static void print_segment(const struct model *m, uint32_t index,
	const struct interpreter *interpreters, size_t count, bool more)
{
	const struct model_segment *s = model_segment(m, index);
	const char *python = model_attribute(s, "python");

	printf("# %s process %u: ", why_text(s->why), s->pid);
	print_command(s, more);
	printf("\n#   CPython ");
	print_clean(python != NULL ? python : "?");
	printf(", ");
	print_time(s->real_ns);
	if (end_ns(s) > s->mono_ns)
		printf(", %.2f s", (double)(end_ns(s) - s->mono_ns) / 1e9);
	printf(", ");
	print_rate(s);
	printf("\n");
	if (s->continued)
		printf("#   its beginning is not in this file\n");
	for (int i = 0; i < REC_GAP_COUNT; i++)
		if (s->gap_ns[i] >= 1000000)
			printf("#   %.3f s %s: not in the figures\n",
				(double)s->gap_ns[i] / 1e9, gap_text(s, i));
	print_lost(m, index);
	if (count > 1 || (more && count != 0)) {
		printf("#   interpreters  : ");
		interpreters_print(interpreters, count);
	}
	if (more)
		print_segment_more(s);
}

static size_t coarse_threads(const struct model *m)
{
	size_t count = 0;

	for (uint32_t i = 0; i < model_thread_count(m); i++)
		count += model_thread(m, i)->coarse;
	return count;
}

/*
 * Ready is not running: where a thread has to wait for a CPU more often in one part of
 * its work than in another, ticks find it there.
 */
static void print_delay(const struct profile *p)
{
	uint64_t delay = 0;

	for (uint32_t i = 0; i < model_thread_count(p->model); i++)
		if (!model_thread(p->model, i)->coarse)
			delay += model_thread(p->model, i)->delay_ns;
	if (delay <= (uint64_t)p->totals.cpu_ns / 2)
		return;
	printf("# cpu: %.3f s more in which threads were ready and no CPU was free: "
	       "shares lean to where that was\n",
		(double)delay / 1e9);
	printf("# cpu: %s\n",
		p->totals.timer_samples != 0
			? "with -e cpu-timer they do not, which this file has"
			: "recorded with -e cpu-timer they would not");
}

/* Processes, and threads, that had no CPU timers, or only for a time. */
static void print_timers(const struct model *m)
{
	for (uint32_t i = 0; i < model_segment_count(m); i++) {
		const struct model_segment *s = model_segment(m, i);
		_cleanup_buf_ struct buf why = BUF_INIT(FILE_TEXT_MAX * 4);

		if (timer_text_why(&why, s))
			printf("# cpu-timer: of process %u %s\n", s->pid,
				buf_text(&why));
		if (s->timers.blocked != 0)
			printf("# cpu-timer: %u thread%s of process %u had none: SIGURG was "
			       "blocked\n",
				s->timers.blocked, s->timers.blocked == 1 ? "" : "s",
				s->pid);
	}
}

/* What the figures are of, and what they leave out. */
static void print_event(const struct profile *p, const struct view_options *o)
{
	const struct profile_totals *t = &p->totals;
	int64_t waiting = t->wall_ns - t->running_ns;

	switch (o->event) {
	case PROFILE_WALL:
		printf("# wall: %.3f s of all threads together, running or waiting\n",
			seconds(t->wall_ns));
		break;
	case PROFILE_GIL:
		printf("# gil: %.3f s in which a thread held the global interpreter lock\n",
			seconds(t->gil_ns));
		break;
	case PROFILE_CPU_TIMER:
		printf("# cpu-timer: %.3f s by timers of the threads' CPU clocks, %" PRIu64
		       " samples, %.1f%% approximate\n",
			seconds(t->timer_ns), t->timer_samples,
			percent((int64_t)t->timer_approximate,
				(int64_t)t->timer_samples));
		print_timers(p->model);
		break;
	default:
		if (!profile_has_waiting(p)) {
			printf("# cpu: %.3f s running; waiting was not recorded\n",
				seconds(t->cpu_ns));
			break;
		}
		printf("# cpu: %.3f s running; waiting were %.1f%% of %.3f s thread time%s\n",
			seconds(t->cpu_ns), percent(waiting, t->wall_ns),
			seconds(t->wall_ns),
			waiting > 0 && !o->event_given ? " (--event=wall shows them)"
						       : "");
		break;
	}
	if (o->event == PROFILE_CPU)
		print_delay(p);

	size_t coarse = coarse_threads(p->model);

	if (coarse != 0 && o->event == PROFILE_CPU)
		printf("# cpu: of %zu thread%s in steps of 10 ms: the kernel's fine account "
		       "was not to be had\n",
			coarse, coarse == 1 ? "" : "s");
	if (t->cpu_unscaled_ns > 0 && o->event == PROFILE_CPU &&
		percent(t->cpu_unscaled_ns, t->cpu_ns) >= 1)
		printf("# cpu: %.1f%% of it as seen by samples, not by the kernel's account\n",
			percent(t->cpu_unscaled_ns, t->cpu_ns));
}

static void print_marks(const struct model *m, bool more)
{
	size_t count = model_mark_count(m), shown = more ? count : MARKS_SHOWN;

	for (size_t i = 0; i < count && i < shown; i++) {
		const struct model_mark *mark = model_mark(m, i);

		printf("# mark");
		if (model_segment_count(m) != 0) {
			const struct model_segment *s = model_segment(m, 0);

			printf(" at %.3f s",
				seconds(model_mark_ns(mark, s) - (int64_t)s->mono_ns));
		}
		printf(": ");
		print_clean(mark->text);
		printf("\n");
	}
	if (count > shown)
		printf("# %zu more marks (--header shows them)\n", count - shown);
}

static uint64_t sum_counter(const struct profile *p, const char *name)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < model_segment_count(p->model); i++)
		sum += model_counter(model_segment(p->model, i), name);
	return sum;
}

static void print_left_out(uint64_t threads)
{
	if (threads != 0)
		printf("# %" PRIu64 " thread%s beyond what is recorded of a process at "
		       "once (%u, in %u interpreters): not in the figures\n",
			threads, threads == 1 ? "" : "s", RING_MOST_THREADS,
			RING_MOST_INTERPRETERS);
}

void view_header(const struct profile *p, const char *path,
	const struct view_options *o, bool more)
{
	const struct model *m = p->model;
	const struct profile_totals *t = &p->totals;
	static const char *const faults[] = { "truncated", "unreadable" };
	uint64_t lost = sum_counter(p, "lost"), late = sum_counter(p, "late");
	uint64_t missed = sum_counter(p, "missed");
	struct interpreters interpreters;
	size_t at = 0;

	printf("# ");
	print_clean(path);
	printf(": format %d.%d%s\n", FILE_MAJOR, FILE_MINOR,
		p->result.complete ? ""
				   : ", not closed: still being written, or cut off");
	interpreters_find(m, &interpreters);
	for (uint32_t i = 0; i < model_segment_count(m); i++) {
		size_t first = at, count = interpreters_of(&interpreters, i, &at);

		print_segment(m, i, interpreters.list + first, count, more);
	}
	free(interpreters.list);
	print_marks(m, more);
	printf("# samples: %" PRIu64 " of %zu thread%s, %" PRIu64 " lost, %" PRIu64
	       " approximate (%.1f%%)",
		t->ticks, model_thread_count(m), model_thread_count(m) == 1 ? "" : "s",
		lost, t->approximate_ticks,
		percent((int64_t)t->approximate_ticks, (int64_t)t->ticks));
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (sum_counter(p, faults[i]) != 0)
			printf(", %" PRIu64 " %s", sum_counter(p, faults[i]),
				faults[i]);
	/* These are of ticks, at each of which all threads are looked at. */
	printf(", %" PRIu64 " of %" PRIu64 " ticks late", late,
		sum_counter(p, "ticks"));
	if (missed != 0)
		printf(", %" PRIu64 " missed", missed);
	printf("\n");
	print_left_out(sum_counter(p, "lost-threads"));
	if (t->ticks != 0 || o->event == PROFILE_CPU_TIMER)
		print_event(p, o);
}

/* --- rows --- */

struct row {
	uint64_t keys[VIEW_KEYS];
	uint64_t hash;
	int64_t self, children;
	uint64_t samples; /* of the children's column, or of self without it */
	uint32_t seen;    /* number of the sample that counted it last, from 1 */
};

struct table {
	const struct profile *p;
	const struct view_options *o;
	struct row *rows;
	size_t count, capacity;
	struct hash_index index;
};

static uint64_t hash_of_row(uint32_t entry, const void *context)
{
	return ((const struct table *)context)->rows[entry].hash;
}

/* A function, or what a special frame says: those lie above all functions. */
static uint64_t symbol_of(const struct model *m, const struct model_frame *f)
{
	return f->kind == MODEL_PYTHON
		       ? model_function(m, f->function)->symbol
		       : (1ull << 40) + ((uint64_t)f->kind << 33) + f->missing;
}

/* A line of a file, whichever function it is in. */
static uint64_t line_of(const struct model *m, const struct model_frame *f)
{
	return hash_mix((uint64_t)(uintptr_t)model_function(m, f->function)->file,
		(uint64_t)f->line);
}

/* What a frame is under a key, as one number. */
static uint64_t key_of(const struct table *t, enum view_key key,
	const struct profile_sample *s, const struct model_frame *f)
{
	const struct model *m = t->p->model;
	const struct model_thread *thread = model_thread(m, s->thread);

	switch (key) {
	case VIEW_SYMBOL:
		return symbol_of(m, f);
	case VIEW_FILE:
		return f->kind == MODEL_PYTHON
			       ? (uint64_t)(uintptr_t)model_function(m, f->function)
					 ->file
			       : (uint64_t)f->kind;
	case VIEW_SRCLINE:
		return f->kind == MODEL_PYTHON ? line_of(m, f) : symbol_of(m, f);
	case VIEW_THREAD:
	case VIEW_TID:
		return s->thread;
	case VIEW_PID:
		return thread->segment;
	case VIEW_COMM:
		return hash_bytes(model_segment(m, thread->segment)->comm,
			strlen(model_segment(m, thread->segment)->comm));
	case VIEW_STATE:
		return s->state & STATE_KEY;
	case VIEW_INTERP:
		return thread->interpreter;
	case VIEW_KEYS:
		break;
	}
	return 0;
}

/* What is needed to print a row again: the first sample and frame that made it. */
struct origin {
	uint32_t sample;
	uint32_t frame;
};

struct rows_with_origin {
	struct table t;
	struct origin *origins;
	size_t origin_capacity;
};

static struct row *row_of(struct rows_with_origin *w, uint32_t sample, uint32_t frame)
{
	struct table *t = &w->t;
	const struct profile_sample *s = &t->p->samples[sample];
	const struct model_frame *f = model_frame(t->p->model, frame);
	uint64_t keys[VIEW_KEYS] = { 0 }, hash = 0;

	for (size_t i = 0; i < t->o->key_count; i++) {
		keys[i] = key_of(t, t->o->keys[i], s, f);
		hash = hash_mix(hash, keys[i]);
	}
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&t->index, &at, &entry))
		if (entry < t->count &&
			memcmp(t->rows[entry].keys, keys, sizeof(keys)) == 0)
			return &t->rows[entry];
	t->rows = xgrow(t->rows, t->count, &t->capacity, sizeof(*t->rows));
	w->origins =
		xgrow(w->origins, t->count, &w->origin_capacity, sizeof(*w->origins));
	entry = (uint32_t)t->count++;
	t->rows[entry] = (struct row){ .hash = hash };
	memcpy(t->rows[entry].keys, keys, sizeof(keys));
	w->origins[entry] = (struct origin){ sample, frame };
	hash_index_add(&t->index, hash, entry, hash_of_row, t);
	return &t->rows[entry];
}

static void add_sample(struct rows_with_origin *w, uint32_t number)
{
	const struct profile *p = w->t.p;
	const struct profile_sample *s = &p->samples[number];
	int64_t weight = profile_weight(s, w->t.o->event);
	uint64_t samples = profile_samples(s, w->t.o->event);

	if (weight <= 0)
		return;
	for (uint32_t at = s->stack; at != 0; at = model_stack(p->model, at)->parent) {
		struct row *r = row_of(w, number, model_stack(p->model, at)->frame);

		if (at == s->stack) {
			r->self += weight;
			if (!w->t.o->children)
				r->samples += samples;
		}
		/* Recursion counts once. */
		if (r->seen != number + 1) {
			r->seen = number + 1;
			r->children += weight;
			if (w->t.o->children)
				r->samples += samples;
		}
		if (!w->t.o->children)
			break;
	}
}

static void build(struct rows_with_origin *w)
{
	for (uint32_t i = 0; i < w->t.p->count; i++)
		add_sample(w, i);
}

/* For qsort, which has no context. */
static const struct rows_with_origin *sorted;

static int compare_entries(const void *a, const void *b)
{
	const struct row *x = &sorted->t.rows[*(const uint32_t *)a];
	const struct row *y = &sorted->t.rows[*(const uint32_t *)b];
	int64_t dx = sorted->t.o->children ? x->children : x->self;
	int64_t dy = sorted->t.o->children ? y->children : y->self;

	if (dx != dy)
		return dx > dy ? -1 : 1;
	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	/* The order in which they were seen, so that output is always the same. */
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* --- texts of keys --- */

/* The last components of a path that fit; of one that does not, its end. */
static void add_path(struct buf *b, const char *path, size_t columns)
{
	struct buf clean = BUF_INIT(FILE_TEXT_MAX * 4);

	frame_text_clean(&clean, path);
	const char *at = buf_text(&clean);
	size_t width = str_width(at, strlen(at));
	bool cut = false;

	for (const char *slash; width > columns; width = str_width(at, strlen(at))) {
		slash = strchr(at[0] == '/' ? at + 1 : at, '/');
		if (slash == NULL)
			break;
		at = slash + 1;
	}
	for (; width > columns && *at != '\0'; cut = true) {
		size_t bytes;

		width -= str_character_width(str_character(at, strlen(at), &bytes));
		at += bytes;
	}
	if (cut && columns > 1) {
		size_t bytes;

		(void)str_character(at, strlen(at), &bytes);
		buf_add_byte(b, '~');
		at += bytes;
	}
	buf_add_str(b, at);
	buf_done(&clean);
}

/* "path:line" in so many columns; full paths take what they need. */
static void add_location(struct buf *b, const struct model *m,
	const struct model_frame *f, int64_t line, size_t columns,
	const struct view_options *o)
{
	char number[24] = "";

	if (f->kind != MODEL_PYTHON)
		return;
	if (line > 0)
		(void)snprintf(number, sizeof(number), ":%" PRId64, line);
	if (o->full_paths)
		columns = SIZE_MAX;
	else
		columns = columns > strlen(number) + 8 ? columns - strlen(number) : 8;
	add_path(b, model_function(m, f->function)->file, columns);
	buf_add_str(b, number);
}

/* The text of one key of a row. */
static void add_key(struct buf *b, const struct rows_with_origin *w, uint32_t entry,
	enum view_key key, size_t columns)
{
	const struct model *m = w->t.p->model;
	const struct profile_sample *s = &w->t.p->samples[w->origins[entry].sample];
	const struct model_frame *f = model_frame(m, w->origins[entry].frame);
	const struct model_thread *t = model_thread(m, s->thread);
	const struct model_segment *g = model_segment(m, t->segment);

	switch (key) {
	case VIEW_SYMBOL:
		frame_text_name(b, m, f);
		break;
	case VIEW_FILE:
	case VIEW_SRCLINE:
		if (f->kind != MODEL_PYTHON)
			frame_text_name(b, m, f);
		else
			add_location(b, m, f, key == VIEW_FILE ? 0 : f->line, columns,
				w->t.o);
		break;
	case VIEW_THREAD:
		frame_text_thread(b, m, s->thread);
		break;
	case VIEW_TID:
		buf_printf(b, "%u", t->tid);
		break;
	case VIEW_PID:
		buf_printf(b, "%u", g->pid);
		break;
	case VIEW_COMM:
		frame_text_clean(b, g->comm);
		break;
	case VIEW_STATE:
		frame_text_state(b, s->state & STATE_KEY, "+");
		break;
	case VIEW_INTERP:
		buf_printf(b, "%" PRIu64, t->interpreter);
		break;
	case VIEW_KEYS:
		break;
	}
}

/* Columns behind the figures: one for each key, and where the function stands. */
struct columns {
	size_t count;
	size_t width[VIEW_KEYS + 1];
	bool where; /* a File:Line column follows the last */
};

static void add_where(
	struct buf *b, const struct rows_with_origin *w, uint32_t entry, size_t columns)
{
	const struct model *m = w->t.p->model;
	const struct model_frame *f = model_frame(m, w->origins[entry].frame);

	if (f->kind == MODEL_PYTHON)
		add_location(b, m, f, model_function(m, f->function)->first_line,
			columns, w->t.o);
}

static void column_text(struct buf *b, const struct rows_with_origin *w, uint32_t entry,
	const struct columns *c, size_t column)
{
	buf_clear(b);
	if (c->where && column + 1 == c->count)
		add_where(b, w, entry, c->width[column]);
	else
		add_key(b, w, entry, w->t.o->keys[column], c->width[column]);
}

static const char *column_title(
	const struct rows_with_origin *w, const struct columns *c, size_t column)
{
	return c->where && column + 1 == c->count ? "File:Line"
						  : key_titles[w->t.o->keys[column]];
}

/* Does this column hold paths, which can be shortened to fit? */
static bool is_path_column(
	const struct rows_with_origin *w, const struct columns *c, size_t column)
{
	if (c->where && column + 1 == c->count)
		return true;
	return w->t.o->keys[column] == VIEW_FILE ||
	       w->t.o->keys[column] == VIEW_SRCLINE;
}

/* The columns that a row's texts need, at most `most`. */
static size_t width_needed(const struct rows_with_origin *w, struct columns *c,
	size_t column, const uint32_t *entries, size_t shown, size_t most)
{
	struct buf b = BUF_INIT(FILE_TEXT_MAX * 4);
	size_t needed = strlen(column_title(w, c, column));

	c->width[column] = most;
	for (size_t i = 0; i < shown; i++) {
		column_text(&b, w, entries[i], c, column);
		size_t width = str_width(buf_text(&b), b.size);

		if (width > needed)
			needed = width;
	}
	buf_done(&b);
	return needed < most ? needed : most;
}

/*
 * Share the room out: names first, as wide as they are up to half of it, then paths,
 * which are shortened to what is left.
 */
static void lay_out(struct columns *c, const struct rows_with_origin *w,
	const uint32_t *entries, size_t shown, size_t room)
{
	enum { PATH_LEAST = 20, NAME_LEAST = 16, STATE_MOST = 40 };
	size_t used = 0, paths = 0;

	for (size_t i = 0; i < w->t.o->key_count; i++)
		c->where |= w->t.o->keys[i] == VIEW_SYMBOL;
	c->count = w->t.o->key_count + c->where;
	for (size_t i = 0; i < c->count; i++)
		paths += is_path_column(w, c, i);
	for (size_t i = 0; i < c->count; i++) {
		size_t kept = (PATH_LEAST + 2) * paths;
		size_t most = room > used + kept + NAME_LEAST ? room - used - kept
							      : NAME_LEAST;

		if (is_path_column(w, c, i))
			continue;
		/* Half of a state would be another one. */
		if (i < w->t.o->key_count && w->t.o->keys[i] == VIEW_STATE)
			most = STATE_MOST;
		c->width[i] = width_needed(w, c, i, entries, shown, most);
		used += c->width[i] + 2;
	}
	for (size_t i = 0; i < c->count; i++) {
		if (!is_path_column(w, c, i))
			continue;
		size_t left =
			room > used + PATH_LEAST ? (room - used) / paths : PATH_LEAST;

		c->width[i] = width_needed(w, c, i, entries, shown, left);
		used += c->width[i] + 2;
		paths--;
	}
}

/* Text in so many columns, the rest filled with blanks; cut with an ellipsis. */
static void print_cell(const char *text, size_t width, bool last)
{
	size_t size = strlen(text), used = str_width(text, size);

	if (used > width && !last) {
		size = str_fit(text, size, width - 1);
		used = str_width(text, size) + 1;
		printf("%.*s~", (int)size, text);
	} else {
		printf("%s", text);
	}
	for (; used < width && !last; used++)
		printf(" ");
	if (!last)
		printf("  ");
}

static void print_titles(const struct rows_with_origin *w, const struct columns *c)
{
	static const char dots[] =
		"................................................................";

	printf("#\n# %s    Self    Samples  ",
		w->t.o->children ? "Children" : "        ");
	for (size_t i = 0; i < c->count; i++)
		print_cell(column_title(w, c, i), c->width[i], i + 1 == c->count);
	printf("\n# %s  ......  .........  ",
		w->t.o->children ? "........" : "        ");
	for (size_t i = 0; i < c->count; i++) {
		char line[65];
		size_t n = c->width[i] < 64 ? c->width[i] : 64;

		(void)snprintf(line, sizeof(line), "%.*s", (int)n, dots);
		print_cell(line, c->width[i], i + 1 == c->count);
	}
	printf("\n#\n");
}

void view_table(const struct profile *p, const struct view_options *o)
{
	enum { FIGURES_COLUMNS = 31 };
	struct rows_with_origin w = { .t = { .p = p, .o = o } };
	struct columns c = { 0 };
	int64_t total = profile_total(p, o->event), left_out = 0;
	size_t shown = 0, hidden = 0;

	build(&w);
	uint32_t *entries = xcalloc(w.t.count, sizeof(*entries));

	for (uint32_t i = 0; i < w.t.count; i++)
		entries[i] = i;
	sorted = &w;
	if (w.t.count != 0)
		qsort(entries, w.t.count, sizeof(*entries), compare_entries);
	for (size_t i = 0; i < w.t.count; i++) {
		const struct row *r = &w.t.rows[entries[i]];
		int64_t value = o->children ? r->children : r->self;

		if ((o->row_limit == 0 || shown < o->row_limit) &&
			percent(value, total) >= o->percent_limit) {
			shown = i + 1;
		} else {
			hidden++;
			left_out += r->self;
		}
	}
	lay_out(&c, &w, entries, shown,
		o->width > FIGURES_COLUMNS ? o->width - FIGURES_COLUMNS : 0);
	print_titles(&w, &c);
	struct buf b = BUF_INIT(FILE_TEXT_MAX * 4);

	for (size_t i = 0; i < shown; i++) {
		const struct row *r = &w.t.rows[entries[i]];

		if (o->children)
			printf("  %7.2f%%", percent(r->children, total));
		else
			printf("          ");
		printf(" %6.2f%%  %9" PRIu64 "  ", percent(r->self, total), r->samples);
		for (size_t j = 0; j < c.count; j++) {
			column_text(&b, &w, entries[i], &c, j);
			print_cell(buf_text(&b), c.width[j], j + 1 == c.count);
		}
		printf("\n");
	}
	if (hidden != 0)
		printf("# %zu more row%s, %.2f%% self\n", hidden,
			hidden == 1 ? "" : "s", percent(left_out, total));
	buf_done(&b);
	free(entries);
	free(w.t.rows);
	free(w.origins);
	hash_index_done(&w.t.index);
}

/* --- tree --- */

/* A node of the tree of functions, from the root. */
struct branch {
	uint32_t parent;
	uint32_t frame;    /* one that has its function */
	uint64_t function; /* key_of(VIEW_SYMBOL) */
	int64_t self, total;
	uint32_t first_child, next;
};

struct tree {
	const struct profile *p;
	const struct view_options *o;
	struct branch *branches;
	size_t count, capacity;
	struct hash_index index;
	uint32_t *of_stack; /* branch of each stack, plus 1 */
};

static uint64_t hash_branch(uint32_t parent, uint64_t function)
{
	return hash_mix(parent, function);
}

static uint64_t hash_of_branch(uint32_t entry, const void *context)
{
	const struct branch *b = &((const struct tree *)context)->branches[entry];

	return hash_branch(b->parent, b->function);
}

static uint32_t branch_of(struct tree *t, uint32_t parent, uint32_t frame)
{
	const struct model_frame *f = model_frame(t->p->model, frame);
	uint64_t function = symbol_of(t->p->model, f);
	uint64_t hash = hash_branch(parent, function);
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&t->index, &at, &entry))
		if (t->branches[entry].parent == parent &&
			t->branches[entry].function == function)
			return entry;
	t->branches = xgrow(t->branches, t->count, &t->capacity, sizeof(*t->branches));
	entry = (uint32_t)t->count++;
	t->branches[entry] = (struct branch){
		.parent = parent,
		.frame = frame,
		.function = function,
		.next = t->branches[parent].first_child,
	};
	t->branches[parent].first_child = entry;
	hash_index_add(&t->index, hash, entry, hash_of_branch, t);
	return entry;
}

/* The branch of a stack; its callers' are made first, without recursion. */
static uint32_t branch_of_stack(struct tree *t, uint32_t stack)
{
	const struct model *m = t->p->model;
	uint32_t depth = 0, at;

	for (at = stack; at != 0 && t->of_stack[at] == 0;
		at = model_stack(m, at)->parent)
		depth++;
	uint32_t branch = at != 0 ? t->of_stack[at] - 1 : 0;
	_cleanup_free_ uint32_t *path = xmalloc((depth + 1) * sizeof(*path));
	uint32_t n = depth;

	for (at = stack; n != 0; at = model_stack(m, at)->parent)
		path[--n] = at;
	for (n = 0; n < depth; n++) {
		branch = branch_of(t, branch, model_stack(m, path[n])->frame);
		t->of_stack[path[n]] = branch + 1;
	}
	return branch;
}

static const struct tree *sorted_tree;

static int compare_branches(const void *a, const void *b)
{
	const struct branch *x = &sorted_tree->branches[*(const uint32_t *)a];
	const struct branch *y = &sorted_tree->branches[*(const uint32_t *)b];

	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* Put the children of a branch onto the stack of what is to be printed, the heaviest
 * on top. */
struct waiting {
	uint32_t branch;
	uint32_t depth;
};

static void push_children(const struct tree *t, uint32_t branch, uint32_t depth,
	int64_t total, struct waiting **stack, size_t *count, size_t *capacity)
{
	uint32_t *children = NULL;
	size_t n = 0, room = 0;

	for (uint32_t c = t->branches[branch].first_child; c != 0;
		c = t->branches[c].next) {
		if (percent(t->branches[c].total, total) < t->o->percent_limit)
			continue;
		children = xgrow(children, n, &room, sizeof(*children));
		children[n++] = c;
	}
	sorted_tree = t;
	if (n != 0)
		qsort(children, n, sizeof(*children), compare_branches);
	while (n != 0) {
		*stack = xgrow(*stack, *count, capacity, sizeof(**stack));
		(*stack)[(*count)++] = (struct waiting){ children[--n], depth };
	}
	free(children);
}

static void print_branch(const struct tree *t, const struct waiting *w, int64_t total)
{
	enum { INDENT_MAX = 40, LOCATION_COLUMNS = 40 };
	const struct branch *b = &t->branches[w->branch];
	const struct model_frame *f = model_frame(t->p->model, b->frame);
	struct buf text = BUF_INIT(FILE_TEXT_MAX * 4);
	uint32_t indent = w->depth * 2;

	printf("  %7.2f%% %7.2f%%  ", percent(b->total, total),
		percent(b->self, total));
	/* Deep trees: the depth as a number instead of ever more blanks. */
	if (indent <= INDENT_MAX)
		printf("%*s", (int)indent, "");
	else
		printf("%*s[%u] ", INDENT_MAX, "", w->depth);
	frame_text_name(&text, t->p->model, f);
	if (f->kind == MODEL_PYTHON) {
		buf_add_str(&text, "  ");
		add_location(&text, t->p->model, f,
			model_function(t->p->model, f->function)->first_line,
			LOCATION_COLUMNS, t->o);
	}
	printf("%s\n", buf_text(&text));
	buf_done(&text);
}

void view_tree(const struct profile *p, const struct view_options *o)
{
	struct tree t = { .p = p, .o = o };
	int64_t total = profile_total(p, o->event);
	struct waiting *stack = NULL;
	size_t count = 0, capacity = 0;

	t.of_stack = xcalloc(model_stack_count(p->model), sizeof(*t.of_stack));
	/* Branch 0 is the root. */
	t.branches = xgrow(t.branches, 0, &t.capacity, sizeof(*t.branches));
	t.branches[t.count++] = (struct branch){ 0 };
	for (size_t i = 0; i < p->count; i++) {
		int64_t weight = profile_weight(&p->samples[i], o->event);

		if (weight <= 0)
			continue;
		uint32_t b = branch_of_stack(&t, p->samples[i].stack);

		t.branches[b].self += weight;
		for (;; b = t.branches[b].parent) {
			t.branches[b].total += weight;
			if (b == 0)
				break;
		}
	}
	printf("#\n#    Total     Self  Call tree\n# ........  .......  .........\n#\n");
	push_children(&t, 0, 0, total, &stack, &count, &capacity);
	while (count != 0) {
		struct waiting w = stack[--count];

		print_branch(&t, &w, total);
		push_children(
			&t, w.branch, w.depth + 1, total, &stack, &count, &capacity);
	}
	free(stack);
	free(t.branches);
	free(t.of_stack);
	hash_index_done(&t.index);
}
