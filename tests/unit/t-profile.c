/* SPDX-License-Identifier: Apache-2.0 */
/* From a sample file to what a report adds up: the model, and the weights of samples.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "file/writer.h"
#include "profile/profile.h"
#include "records.h"
#include "scratch.h"
#include "tap.h"

enum { MS = 1000000 };

/* --- writing --- */

/* A recording in the making: of segment 1, unless another is begun. */
struct recording {
	struct file_writer *w;
	uint32_t segment;
	uint64_t tick, now; /* of the strata written so far */
};

static struct file_text text(const char *s)
{
	return (struct file_text){ s, strlen(s) };
}

static void segment(
	struct recording *r, uint32_t number, uint32_t parent, const char *command)
{
	struct file_attribute arg = { text("arg"), text(command) };
	struct file_segment s = {
		.segment = number,
		.parent = parent,
		.why = parent != 0 ? FILE_WHY_FORK : FILE_WHY_SPAWN,
		.pid = 100 + number,
		.mono_ns = 1000,
		.real_ns = 5000,
		.interval_ns = 10 * MS,
		.attributes = &arg,
		.attribute_count = command[0] != '\0',
	};

	file_writer_segment(r->w, &s);
	r->segment = number;
	r->tick = 0;
}

static void thread(struct recording *r, uint32_t number, uint32_t tid, const char *name)
{
	struct file_thread t = { number, r->segment, tid, 0x7000 + number, 0,
		text(name) };

	file_writer_thread(r->w, &t);
}

static struct recording begin(const char *name)
{
	struct recording r = { .now = 1000 * MS };
	struct err err;

	if (file_writer_open(scratch(name), 1, -1, -1, &r.w, &err) != 0) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	segment(&r, 1, 0, "/usr/bin/python3");
	thread(&r, 1, 101, "MainThread");
	return r;
}

static void end_recording(struct recording *r)
{
	struct file_summary nothing = { 0 };
	struct err err = { "" };

	if (file_writer_publish(r->w, &err) != 0 ||
		file_writer_close(r->w, &nothing, &err) != 0)
		tap_ok(false, "the file is written: %s", err.text);
}

static void flush(struct recording *r)
{
	struct err err = { "" };

	if (file_writer_flush(r->w, &err) != 0)
		tap_ok(false, "the file is written: %s", err.text);
}

/* Count strata of that length behind those before. */
static void ticks(struct recording *r, uint64_t count, uint64_t length_ns)
{
	struct file_ticks t = { r->segment, r->tick, count, r->now, length_ns, 0, 0, 0,
		NULL, 0 };

	file_writer_ticks(r->w, &t);
	r->tick += count;
	r->now += count * length_ns;
}

static uint32_t function(struct recording *r, const char *name)
{
	struct file_function f = {
		.file = file_writer_string(r->w, "app.py", 6),
		.name = file_writer_string(r->w, name, strlen(name)),
		.first_line = 10,
		.table_hash = strlen(name),
	};

	return file_writer_function(r->w, &f);
}

/* A node for the function of that name. */
static uint32_t node(struct recording *r, uint32_t caller, const char *name)
{
	struct file_node n = { caller, caller != 0 ? 3 : 0, REC_NODE_PYTHON,
		function(r, name) };

	return file_writer_node(r->w, &n);
}

static void run(struct recording *r, uint32_t thread_number, uint32_t node_number,
	uint32_t state, uint64_t first, uint64_t count)
{
	struct file_run run = { thread_number, node_number, 1, state, first, count };

	file_writer_run(r->w, r->segment, &run);
}

static void account(
	struct recording *r, uint32_t thread_number, uint64_t tick, uint64_t cpu_ns)
{
	struct file_cpu c = { thread_number, tick, cpu_ns, 1, 0, 0, 0 };

	file_writer_cpu(r->w, r->segment, &c);
}

/* --- reading --- */

static struct profile *load(const char *name)
{
	struct profile *p = NULL;
	struct err err = { "" };

	if (profile_load(scratch(name), &p, &err) != 0) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	return p;
}

static const char *leaf_name(const struct profile *p, uint32_t stack)
{
	static char special[100];
	const struct model_frame *f =
		model_frame(p->model, model_stack(p->model, stack)->frame);

	return f->kind == MODEL_PYTHON
		       ? model_function(p->model, f->function)->name
		       : model_special_name(f, special, sizeof(special));
}

/* The weight of all samples whose leaf has that name. */
static int64_t weight(
	const struct profile *p, const char *name, enum profile_event event)
{
	int64_t sum = 0;

	for (size_t i = 0; i < p->count; i++)
		if (strcmp(leaf_name(p, p->samples[i].stack), name) == 0)
			sum += profile_weight(&p->samples[i], event);
	return sum;
}

/* "main:13;inner:11", root first. */
static const char *stack_text(const struct profile *p, uint32_t stack)
{
	static char out[1000];
	char before[1000];

	out[0] = '\0';
	for (; stack != 0; stack = model_stack(p->model, stack)->parent) {
		const struct model_frame *f =
			model_frame(p->model, model_stack(p->model, stack)->frame);

		(void)snprintf(
			before, sizeof(before), "%s%s", out[0] != '\0' ? ";" : "", out);
		(void)snprintf(out, sizeof(out), "%s:%lld%.800s", leaf_name(p, stack),
			(long long)f->line, before);
	}
	return out;
}

/* --- weights --- */

static void test_wall(void)
{
	struct recording r = begin("wall");
	uint32_t main_node = node(&r, 0, "main"), wait = node(&r, main_node, "wait");

	/* 10 of 10 ms, 5 of 20 ms, 10 of 1 ms. */
	ticks(&r, 10, 10 * MS);
	ticks(&r, 5, 20 * MS);
	ticks(&r, 10, 1 * MS);
	run(&r, 1, main_node, REC_RUNNING | REC_GIL, 0, 4);
	run(&r, 1, wait, 0, 4, 8);                  /* 6 of 10 ms, 2 of 20 ms */
	run(&r, 1, main_node, REC_RUNNING, 14, 11); /* behind a hole of two */
	end_recording(&r);

	struct profile *p = load("wall");

	tap_is(weight(p, "wait", PROFILE_WALL), 100 * MS,
		"a run over strata of two lengths");
	tap_is(weight(p, "main", PROFILE_WALL), 70 * MS,
		"two runs of one stack add up");
	tap_is(profile_total(p, PROFILE_WALL), 170 * MS, "all of it");
	tap_is(weight(p, "main", PROFILE_CPU), 70 * MS,
		"without accounts CPU is running time");
	tap_is(weight(p, "wait", PROFILE_CPU), 0, "and waiting takes none");
	tap_is(p->totals.cpu_unscaled_ns, 70 * MS, "which is said");
	tap_is(profile_total(p, PROFILE_GIL), 40 * MS, "time with the GIL");
	tap_is(profile_total(p, PROFILE_SAMPLES), 23, "samples");
	tap_is((int64_t)p->totals.running_ticks, 15, "those seen running");
	tap_is(p->totals.running_ns, 70 * MS, "and their time");
	tap_ok(p->count == 3, "a sample for each stack and state");
	tap_ok(p->result.complete && p->result.damage[0] == '\0', "the file was whole");
	profile_free(p);
}

static void test_unknown_ticks(void)
{
	struct recording r = begin("unknown");
	uint32_t main_node = node(&r, 0, "main");

	ticks(&r, 10, 10 * MS);
	run(&r, 1, main_node, 0, 5, 5);
	run(&r, 1, main_node, 0, 10, 10); /* strata that were lost */
	run(&r, 1, main_node, 0, 1000000, 1);
	end_recording(&r);
	struct profile *p = load("unknown");

	tap_is(profile_total(p, PROFILE_WALL), 50 * MS,
		"runs whose strata are lost weigh nothing");
	tap_is(profile_total(p, PROFILE_SAMPLES), 16, "and are counted");
	profile_free(p);
}

/* --- CPU time --- */

static void test_cpu_spread(void)
{
	struct recording r = begin("cpu");
	uint32_t a = node(&r, 0, "a"), b = node(&r, 0, "b"), idle = node(&r, 0, "idle");
	uint32_t late = node(&r, 0, "late");

	account(&r, 1, 0, 500 * MS); /* used before the recording */
	ticks(&r, 10, 10 * MS);
	ticks(&r, 10, 20 * MS);
	ticks(&r, 20, 10 * MS);
	run(&r, 1, a, REC_RUNNING, 0, 10);  /* 100 ms */
	run(&r, 1, b, REC_RUNNING, 10, 10); /* 200 ms */
	account(&r, 1, 20, 650 * MS);       /* of 300 ms, 150 ms */
	run(&r, 1, idle, 0, 20, 10);
	account(&r, 1, 30, 657 * MS); /* 7 ms that no tick saw */
	run(&r, 1, late, REC_RUNNING | REC_GIL, 30, 10);
	end_recording(&r);

	struct profile *p = load("cpu");

	tap_is(weight(p, "a", PROFILE_CPU), 50 * MS,
		"CPU time is spread over the running ticks");
	tap_is(weight(p, "b", PROFILE_CPU), 100 * MS, "in proportion to their lengths");
	tap_is(weight(p, "b", PROFILE_WALL), 200 * MS, "wall time is as it was");
	tap_is(weight(p, "idle", PROFILE_CPU), 0, "waiting takes none");
	tap_is(weight(p, "[cpu not sampled]", PROFILE_CPU), 7 * MS,
		"CPU time without a running tick is not sampled");
	tap_is(weight(p, "[cpu not sampled]", PROFILE_WALL), 0, "and has no wall time");
	tap_is(weight(p, "late", PROFILE_CPU), 100 * MS,
		"behind the last account: unscaled");
	tap_is(p->totals.cpu_unscaled_ns, 100 * MS, "which is said");
	tap_is(p->totals.cpu_not_sampled_ns, 7 * MS, "as is what was not sampled");
	tap_is(profile_total(p, PROFILE_CPU), 257 * MS, "the sum is the kernel's");
	profile_free(p);
}

static void test_cpu_over_chunks(void)
{
	struct recording r = begin("chunks");
	uint32_t a = node(&r, 0, "a"), b = node(&r, 0, "b");

	thread(&r, 2, 102, "other");
	account(&r, 1, 0, 0);
	account(&r, 2, 0, 0);
	/* An account in each third chunk, of thread 1 only. */
	for (uint64_t chunk = 0; chunk < 9; chunk++) {
		file_writer_base(r.w, 1, r.tick);
		ticks(&r, 10, 10 * MS);
		run(&r, 1, chunk % 2 == 0 ? a : b, REC_RUNNING, r.tick - 10, 10);
		run(&r, 2, a, REC_RUNNING, r.tick - 10, 10);
		if (chunk % 3 == 2)
			account(&r, 1, r.tick, (chunk + 1) * 50 * MS);
		flush(&r);
	}
	end_recording(&r);
	struct profile *p = load("chunks");

	tap_is(p->totals.cpu_unscaled_ns, 900 * MS,
		"a thread without further accounts");
	tap_is(profile_total(p, PROFILE_CPU), 900 * MS + 450 * MS,
		"accounts over several chunks");
	tap_is(weight(p, "b", PROFILE_CPU), 200 * MS, "half of what was seen running");
	profile_free(p);
}

static void test_cpu_odd(void)
{
	struct recording r = begin("odd");
	uint32_t a = node(&r, 0, "a");

	ticks(&r, 40, 10 * MS);
	run(&r, 1, a, REC_RUNNING, 0, 10);
	run(&r, 1, a, REC_RUNNING, 10, 10);
	run(&r, 1, a, REC_RUNNING, 20, 10);
	/* Not in order, with a clock that stands still, then goes back. */
	account(&r, 1, 30, 100 * MS);
	account(&r, 1, 10, 200 * MS);
	account(&r, 1, 0, 100 * MS);
	account(&r, 1, 20, 200 * MS);
	end_recording(&r);
	struct profile *p = load("odd");

	tap_is(profile_total(p, PROFILE_CPU), 100 * MS,
		"accounts are sorted, and never take time away");
	tap_is(p->totals.cpu_unscaled_ns, 0, "all is accounted for");
	profile_free(p);
}

/* Runs that no account precedes have no difference to share in. */
static void test_before_first_account(void)
{
	struct recording r = begin("before");
	uint32_t a = node(&r, 0, "a"), b = node(&r, 0, "b");

	ticks(&r, 20, 10 * MS);
	run(&r, 1, a, REC_RUNNING, 0, 10);
	account(&r, 1, 10, 500 * MS);
	run(&r, 1, b, REC_RUNNING, 10, 10);
	account(&r, 1, 20, 600 * MS);
	end_recording(&r);
	struct profile *p = load("before");

	tap_ok(weight(p, "b", PROFILE_CPU) == 100 * MS,
		"CPU time between two accounts belongs to the ticks between them");
	profile_free(p);
}

/* Rounded one by one, the parts of a second must still add up to it. */
static void test_sums(void)
{
	enum { RUNS = 3000 };
	struct recording r = begin("sums");
	uint32_t nodes[7];

	for (int i = 0; i < 7; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "f%d", i);
		nodes[i] = node(&r, 0, name);
	}
	account(&r, 1, 0, 0);
	for (uint64_t i = 0; i < RUNS; i++) {
		ticks(&r, 1, 333333 + i % 11);
		run(&r, 1, nodes[i % 7], REC_RUNNING, i, 1);
	}
	account(&r, 1, RUNS, 777777777);
	end_recording(&r);
	struct profile *p = load("sums");
	int64_t sum = 0, wall = 0;

	for (size_t i = 0; i < p->count; i++) {
		sum += p->samples[i].cpu_ns;
		wall += p->samples[i].wall_ns;
	}
	tap_is(sum, profile_total(p, PROFILE_CPU), "the parts add up to the total");
	tap_ok(sum <= 777777777 && sum > 777777777 - RUNS,
		"which is the kernel's within %d ns (%lld less)", RUNS,
		777777777ll - (long long)sum);
	tap_is(wall, (int64_t)(r.now - 1000 * MS),
		"wall time adds up to the time that passed");
	profile_free(p);
}

/* --- long recordings --- */

/*
 * A thread that waits has no account for hours: its runs must not lose their weight
 * with the strata they were seen in.
 */
static void test_idle_for_long(void)
{
	enum { CHUNKS = 10000 };
	struct recording r = begin("idle");
	uint32_t idle = node(&r, 0, "idle");

	account(&r, 1, 0, 0);
	for (uint64_t i = 0; i < CHUNKS; i++) {
		file_writer_base(r.w, 1, r.tick);
		ticks(&r, 100, 10 * MS);
		run(&r, 1, idle, 0, i * 100, 100);
		if (i % 10 == 9)
			flush(&r);
	}
	end_recording(&r);
	struct profile *p = load("idle");

	tap_ok(profile_total(p, PROFILE_WALL) == (int64_t)CHUNKS * 1000 * MS,
		"a thread that waits for hours keeps its time");
	tap_is(profile_total(p, PROFILE_SAMPLES), (int64_t)CHUNKS * 100,
		"and its samples");
	profile_free(p);
}

/* --- the model --- */

static void test_stacks(void)
{
	struct recording r = begin("stacks");
	uint32_t main_node = node(&r, 0, "main"), f = node(&r, main_node, "fact");
	uint32_t g = node(&r, f, "fact"), h = node(&r, g, "fact");
	struct file_node truncated = { 0, 0, REC_NODE_TRUNCATED, 9 };
	struct file_node unreadable = { main_node, 0, REC_NODE_UNREADABLE, 0 };
	uint32_t t = node(&r, file_writer_node(r.w, &truncated), "deep");
	uint32_t u = file_writer_node(r.w, &unreadable);
	struct file_run no_line = { 1, main_node, FILE_NO_LINE, 0, 30, 1 };
	struct file_node no_frame = { 0, 0, REC_NODE_NO_FRAME, 0 };
	uint32_t bare = file_writer_node(r.w, &no_frame);

	ticks(&r, 100, 10 * MS);
	run(&r, 1, h, 0, 0, 10);
	run(&r, 1, t, REC_APPROXIMATE, 10, 10);
	run(&r, 1, u, 0, 20, 10);
	file_writer_run(r.w, 1, &no_line);
	run(&r, 1, bare, REC_RUNNING | REC_GIL | REC_GC, 31, 1);
	end_recording(&r);

	struct profile *p = load("stacks");

	if (!tap_is((int64_t)p->count, 5, "five stacks")) {
		profile_free(p);
		return;
	}
	tap_str(stack_text(p, p->samples[0].stack), "main:13;fact:13;fact:13;fact:11",
		"a function that calls itself stands there each time, with its line");
	tap_is(model_stack(p->model, p->samples[0].stack)->depth, 4, "its depth");
	tap_str(stack_text(p, p->samples[1].stack), "[truncated: 9+ frames]:0;deep:11",
		"frames left out");
	tap_is((int64_t)p->totals.approximate_ticks, 10, "approximate ticks");
	tap_str(stack_text(p, p->samples[2].stack), "main:10;[unreadable]:0",
		"unreadable");
	tap_str(stack_text(p, p->samples[3].stack), "main:0", "a frame at no line");
	tap_str(stack_text(p, p->samples[4].stack), "[no Python frame]:0;[gc]:0",
		"no frame, and the collector on top of that");
	tap_is((int64_t)model_function_count(p->model), 3, "three functions");

	const struct model_function *k = model_function(p->model, 0);

	tap_ok(strcmp(k->name, "main") == 0 && strcmp(k->file, "app.py") == 0 &&
			k->first_line == 10 && k->table_hash == 4,
		"a function is what was written");
	profile_free(p);
}

static void test_epochs(void)
{
	struct recording r = begin("epochs");
	uint32_t first = node(&r, node(&r, 0, "main"), "same");

	ticks(&r, 10, 10 * MS);
	run(&r, 1, first, REC_RUNNING, 0, 10);
	for (uint32_t from = 0; file_writer_epoch(r.w) == 1; from += 50000) {
		for (uint32_t i = from; i < from + 50000; i++) {
			struct file_node n = { 0, 0, REC_NODE_TRUNCATED, i };

			(void)file_writer_node(r.w, &n);
		}
		flush(&r);
	}
	/* Other identifiers, the same things. */
	(void)node(&r, 0, "another");
	uint32_t second = node(&r, node(&r, 0, "main"), "same");

	file_writer_base(r.w, 1, 10);
	ticks(&r, 10, 10 * MS);
	run(&r, 1, second, REC_RUNNING, 10, 10);
	account(&r, 1, 0, 0);
	end_recording(&r);
	struct profile *p = load("epochs");

	tap_ok(p->count == 1 && first != second,
		"one stack over two epochs, by other numbers");
	tap_is(weight(p, "same", PROFILE_WALL), 200 * MS, "has the weight of both");
	tap_is((int64_t)model_function_count(p->model), 3, "functions are merged");
	profile_free(p);
}

static void test_threads(void)
{
	struct recording r = begin("threads");
	uint32_t a = node(&r, 0, "a");

	thread(&r, 5, 105, "");
	ticks(&r, 20, 10 * MS);
	run(&r, 5, a, 0, 0, 10);
	flush(&r);
	thread(&r, 5, 105, "worker");
	run(&r, 5, a, 0, 10, 10);
	file_writer_thread_end(r.w, 5, 20);
	flush(&r);
	/* Ended, and named after all. */
	thread(&r, 5, 105, "worker-1");
	end_recording(&r);

	struct profile *p = load("threads");

	tap_is((int64_t)model_thread_count(p->model), 2,
		"a name does not make a thread");
	tap_str(model_thread(p->model, 1)->name, "worker-1", "the last name counts");
	tap_ok(model_thread(p->model, 0)->main && !model_thread(p->model, 1)->main,
		"the main thread is the one with the process's id");
	tap_ok(model_thread(p->model, 1)->tid == 105 &&
			model_thread(p->model, 1)->python_id == 0x7005 &&
			model_thread(p->model, 1)->segment == 0,
		"and what else is known of one");
	tap_is((int64_t)p->count, 1, "its samples are one");
	profile_free(p);
}

static void test_segments(void)
{
	struct recording r = begin("segments");
	struct file_counter counters[] = { { text("ticks"), 10 }, { text("lost"), 1 } };
	struct file_counter more = { text("ticks"), 20 };
	struct file_segment_end end = { 1, FILE_END_SIGNAL, 9, 777, &more, 1 };
	struct file_gap gaps[] = { { 1, 100, 400, REC_GAP_PARKED },
		{ 1, 500, 600, REC_GAP_PARKED }, { 1, 500, 501, REC_GAP_MISSED },
		{ 1, 900, 800, REC_GAP_MISSED }, { 1, 0, 1000, 200 } };
	struct file_clock clock = { 1, 3000, 1000 };

	file_writer_counters(r.w, 1, counters, 2);
	for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++)
		file_writer_gap(r.w, &gaps[i]);
	file_writer_clock(r.w, &clock);
	file_writer_segment_end(r.w, &end);
	flush(&r);
	segment(&r, 2, 1, "script.py");
	segment(&r, 3, 2, "");
	end_recording(&r);
	struct profile *p = load("segments");
	const struct model_segment *one = model_segment(p->model, 0);
	const struct model_segment *two = model_segment(p->model, 1);

	tap_is((int64_t)model_segment_count(p->model), 3, "three segments");
	tap_ok(one->ended && one->end_why == FILE_END_SIGNAL && one->end_status == 9 &&
			one->end_mono_ns == 777,
		"one that ended");
	tap_ok(!two->ended, "one that did not");
	tap_ok(one->parent == 0 && two->parent == 1 &&
			model_segment(p->model, 2)->parent == 2,
		"where they come from");
	tap_is((int64_t)model_counter(one, "ticks"), 20,
		"the last value of a counter counts");
	tap_is((int64_t)model_counter(one, "lost"), 1, "each by its name");
	tap_is((int64_t)model_counter(one, "none"), 0, "and one that is not there");
	tap_is((int64_t)one->gap_ns[REC_GAP_PARKED], 400, "gaps add up");
	tap_is((int64_t)one->gap_ns[REC_GAP_MISSED], 1, "those that go forward");
	tap_is(one->clock_offset, 2000, "the last clock counts");
	tap_is(two->clock_offset, -4000, "before it the segment's own");
	tap_str(model_attribute(one, "arg"), "/usr/bin/python3", "an attribute");
	tap_ok(model_attribute(one, "none") == NULL, "and one that is not there");
	tap_str(one->comm, "python3", "a command without its folder");
	tap_str(two->comm, "script.py", "one without a folder");
	tap_str(model_segment(p->model, 2)->comm, "?", "one that is not known");
	profile_free(p);
}

/* CPU time that was used while sampling was off is nobody's. */
static void test_pause(void)
{
	struct recording r = begin("pause");
	uint32_t a = node(&r, 0, "a"), b = node(&r, 0, "b");
	struct file_cpu anew = { 1, 10, 5000ll * MS, 9, FILE_CPU_ANEW, 0, 0 };
	struct file_gap gap = { 1, 100, 100 + 5000ll * MS, REC_GAP_DISABLED };

	account(&r, 1, 0, 0);
	ticks(&r, 10, 10 * MS);
	run(&r, 1, a, REC_RUNNING, 0, 10);
	account(&r, 1, 10, 80 * MS);
	file_writer_gap(r.w, &gap);
	file_writer_cpu(r.w, 1, &anew);
	ticks(&r, 10, 10 * MS);
	run(&r, 1, b, REC_RUNNING, 10, 10);
	account(&r, 1, 20, 5040ll * MS);
	end_recording(&r);
	struct profile *p = load("pause");

	tap_is(weight(p, "a", PROFILE_CPU), 80 * MS, "CPU time before a pause");
	tap_is(weight(p, "b", PROFILE_CPU), 40 * MS, "and behind it");
	tap_is(p->totals.cpu_ns, 120 * MS, "is all there is");
	tap_is(p->totals.cpu_unscaled_ns, 0, "all of it the kernel's");
	tap_is((int64_t)model_segment(p->model, 0)->gap_ns[REC_GAP_DISABLED],
		5000ll * MS, "and how long it was");
	profile_free(p);
}

/* A part of a recording, with the segment's id and the ticks from first on. */
static void part(const char *name, uint64_t first, uint32_t flags, uint64_t cpu_ns)
{
	struct recording r = { .now = 1000 * MS + first * 10 * MS, .tick = first };
	struct file_segment s = { .segment = 1,
		.why = FILE_WHY_SPAWN,
		.pid = 101,
		.id = "the same in all",
		.flags = flags,
		.mono_ns = r.now };
	struct file_counter list[] = { { text("lost"), 3 }, { text("stratum"), 9 } };
	struct file_segment_end end = { 1, FILE_END_CONTINUED, 0, r.now, list, 2 };
	struct file_mark mark = { 7, text("here") };
	struct err err;

	if (file_writer_open(scratch(name), 1, -1, -1, &r.w, &err) != 0)
		return;
	file_writer_segment(r.w, &s);
	r.segment = 1;
	file_writer_base(r.w, 1, first);
	thread(&r, 4, 105, first == 0 ? "named" : "");
	uint32_t a = node(&r, 0, "a");

	account(&r, 4, first, cpu_ns);
	ticks(&r, 10, 10 * MS);
	run(&r, 4, a, REC_RUNNING, first, 10);
	account(&r, 4, first + 10, cpu_ns + 70 * MS);
	file_writer_mark(r.w, &mark);
	file_writer_segment_end(r.w, &end);
	end_recording(&r);
}

static void test_parts(void)
{
	_cleanup_buf_ struct buf b = BUF_INIT(1 << 20);

	part("part-1", 0, 0, 0);
	part("part-2", 10, FILE_SEGMENT_CONTINUED, 70 * MS);
	/* The third has been lost: its time is not to be seen. */
	part("part-4", 30, FILE_SEGMENT_CONTINUED, 900 * MS);
	(void)fd_read_file(AT_FDCWD, scratch("part-1"), &b);
	(void)fd_read_file(AT_FDCWD, scratch("part-2"), &b);
	(void)fd_read_file(AT_FDCWD, scratch("part-4"), &b);
	int fd = open(scratch("parts"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)fd_write_all(fd, b.data, b.size);
	fd_close(&fd);
	struct profile *p = load("parts");

	tap_is((int64_t)model_segment_count(p->model), 1, "parts are one segment");
	tap_is((int64_t)model_thread_count(p->model), 1, "and their threads one");
	tap_str(model_thread(p->model, 0)->name, "named", "with the name it had");
	tap_ok(!model_segment(p->model, 0)->continued, "the beginning is there");
	tap_is((int64_t)p->totals.ticks, 30, "samples add up");
	tap_is(p->totals.wall_ns, 300 * MS, "and their time");
	tap_is(p->totals.cpu_ns, 210 * MS, "and CPU time, without what is missing");
	tap_is((int64_t)model_counter(model_segment(p->model, 0), "lost"), 9,
		"and counters");
	tap_is((int64_t)model_counter(model_segment(p->model, 0), "stratum"), 9,
		"but for the one that is no sum");
	tap_is((int64_t)model_mark_count(p->model), 3, "marks");
	tap_str(model_mark(p->model, 2)->text, "here", "and what they say");
	profile_free(p);
	p = load("part-2");
	tap_ok(model_segment(p->model, 0)->continued, "a part alone has no beginning");
	tap_is(p->totals.cpu_ns, 70 * MS, "but all of its own");
	tap_is(p->totals.cpu_unscaled_ns, 0, "by the kernel's account");
	profile_free(p);
}

static void test_two_recordings(void)
{
	_cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
	int fd = open(scratch("both"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	for (int i = 0; i < 2; i++) {
		struct recording r = begin("one");
		/* Other identifiers in the second. */
		uint32_t a = node(&r, i == 0 ? 0 : node(&r, 0, "main"), "a");

		account(&r, 1, 0, 0);
		ticks(&r, 10, 10 * MS);
		run(&r, 1, a, REC_RUNNING, 0, 10);
		if (i == 1)
			account(&r, 1, 10, 50 * MS);
		end_recording(&r);
		buf_clear(&b);
		(void)fd_read_file(AT_FDCWD, scratch("one"), &b);
		(void)fd_write_all(fd, b.data, b.size);
	}
	fd_close(&fd);
	struct profile *p = load("both");

	tap_ok(model_segment_count(p->model) == 2 && model_thread_count(p->model) == 2,
		"two recordings in one file are two processes");
	tap_is((int64_t)model_function_count(p->model), 2,
		"which share their functions");
	tap_is(weight(p, "a", PROFILE_WALL), 200 * MS, "and their weight adds up");
	tap_is(weight(p, "a", PROFILE_CPU), 150 * MS,
		"accounts of one are not the other's");
	tap_ok(p->result.complete, "both are whole");
	profile_free(p);
}

/* --- damage --- */

static void test_damaged(void)
{
	_cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
	int fd = open(scratch("cut"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct profile *p;
	struct err err = { "" };

	(void)fd_read_file(AT_FDCWD, scratch("threads"), &b);
	(void)fd_write_all(fd, b.data, b.size - 1);
	fd_close(&fd);
	p = load("cut");
	tap_ok(!p->result.complete && strstr(p->result.damage, "chunk at byte") != NULL,
		"damage is told");
	tap_is(profile_total(p, PROFILE_SAMPLES), 20,
		"and what was before it is there");
	tap_is((int64_t)p->result.bytes, (int64_t)b.size - 1, "with how much was read");
	profile_free(p);
	tap_is(profile_load(scratch("none"), &p, &err), -ENOENT,
		"a file that is not there");
	tap_ok(strncmp(err.text, scratch_folder, strlen(scratch_folder)) == 0,
		"is named");
}

/* --- without CPU time --- */

struct seen {
	struct load_run runs[20];
	size_t count;
};

static void see(struct model *m, const struct load_run *r, void *context)
{
	struct seen *s = context;

	(void)m;
	if (s->count < 20)
		s->runs[s->count++] = *r;
}

static void test_in_order(void)
{
	struct recording r = begin("order");
	uint32_t a = node(&r, 0, "a");
	struct seen s = { .count = 0 };
	struct load_options o = { .run = see, .context = &s };
	struct load_result result;

	thread(&r, 2, 102, "other");
	ticks(&r, 100, 10 * MS);
	run(&r, 2, a, 0, 5, 5);
	run(&r, 2, a, REC_RUNNING, 20, 5);
	run(&r, 1, a, REC_RUNNING, 7, 20);
	run(&r, 1, a, 0, 30, 5);
	account(&r, 1, 0, 0);
	account(&r, 1, 90, 1);
	end_recording(&r);
	struct model *m = model_new();
	bool rising = true;

	tap_is(load_file(m, scratch("order"), &o, &result, NULL), 0,
		"runs without CPU time");
	for (size_t i = 1; i < s.count; i++)
		rising &= s.runs[i].start_ns >= s.runs[i - 1].start_ns;
	tap_ok(s.count == 4 && rising, "come in the order of time");
	tap_ok(s.runs[0].start_ns == 1050 * MS && s.runs[0].thread == 1 &&
			s.runs[0].tick == 5 && s.runs[0].ticks == 5 &&
			s.runs[0].wall_ns == 50 * MS,
		"with when they were");
	tap_ok(s.runs[1].cpu_ns == 200 * MS && !s.runs[1].cpu_scaled &&
			s.runs[0].cpu_ns == 0,
		"and their running time for CPU time");
	model_free(m);
	model_free(NULL);
	profile_free(NULL);
}

static void test_events(void)
{
	static const char *const none[] = { "", "cp", "CPU", "samples", "cpu ",
		"wallgil" };
	bool refused = true;

	tap_ok(profile_event_parse("cpu") == PROFILE_CPU &&
			profile_event_parse("wall") == PROFILE_WALL &&
			profile_event_parse("gil") == PROFILE_GIL,
		"events by their names");
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		refused &= profile_event_parse(none[i]) == -1;
	tap_ok(refused, "and nothing else");
	tap_str(profile_event_name(PROFILE_GIL), "gil", "and back");
}

/* --- numbers that overflow --- */

static bool huge_numbers(void)
{
	const uint64_t huge = UINT64_MAX / 4;
	struct buf file = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20);
	struct profile *p = NULL;

	add_file_header(&file, 1, 0);
	add_schema(&b, 0);
	add_record(&b, FILE_SEGMENT, "u88uuuuuuuuu", U(1), U(1), U(2), U(0),
		U(FILE_WHY_SPAWN), U(10), U(0), UINT64_MAX, U(0), U(10), U(0), U(0));
	add_record(&b, FILE_STRING, "ut", U(1), "f");
	add_record(
		&b, FILE_FUNCTION, "uuus8u", U(1), U(1), U(1), INT64_MAX, U(99), U(3));
	add_record(&b, FILE_NODE, "uusuu", U(1), U(0), S(0), U(REC_NODE_PYTHON), U(1));
	add_record(&b, FILE_THREAD, "uuuuut", U(1), U(1), U(10), U(77), U(0), "Main");
	add_record(&b, FILE_BASE, "uu", U(1), U(0));
	for (uint64_t i = 0; i < 8; i++)
		add_record(&b, FILE_TICKS, "uuuuuuu", U(1), U(i), U(1), UINT64_MAX / 2,
			huge / 2, U(0), U(0));
	add_record(&b, FILE_RUNS, "uuus", U(1),
		U(7 << FILE_RUN_TICKS_SHIFT | REC_RUNNING), U(1), INT64_MAX);
	add_record(&b, FILE_CPU, "uuuu", U(1), U(0), U(0), U(1));
	add_record(&b, FILE_CPU, "uuuu", U(1), U(8), UINT64_MAX, U(1));
	add_chunk(&file, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
	int fd = open(scratch("huge"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	(void)fd_write_all(fd, file.data, file.size);
	fd_close(&fd);
	bool loaded = profile_load(scratch("huge"), &p, NULL) == 0;
	bool sane = loaded && p->totals.wall_ns >= 0 && p->totals.cpu_ns >= 0;

	buf_done(&file);
	buf_done(&b);
	profile_free(p);
	return sane;
}

/* The collector stands on top of what it came upon. */
static void test_gc(void)
{
	struct recording r = begin("gc");
	uint32_t a = node(&r, 0, "a");

	account(&r, 1, 0, 0);
	ticks(&r, 10, 10 * MS);
	run(&r, 1, a, REC_RUNNING | REC_GIL, 0, 4);
	run(&r, 1, a, REC_RUNNING | REC_GIL | REC_GC, 4, 6);
	account(&r, 1, 10, 100 * MS);
	end_recording(&r);
	struct profile *p = load("gc");

	tap_is(weight(p, "a", PROFILE_CPU), 40 * MS, "a function that made garbage");
	tap_is(weight(p, "[gc]", PROFILE_CPU), 60 * MS, "and its collector");
	for (size_t i = 0; i < p->count; i++)
		if ((p->samples[i].state & REC_GC) != 0)
			tap_is(model_stack(p->model, p->samples[i].stack)->depth, 2,
				"which stands above it");
	profile_free(p);
}

/* One thread in five was looked at: a tick stands for five. */
static void test_subset(void)
{
	struct recording r = begin("subset");
	struct file_ticks some = { 1, 0, 10, 1000 * MS, 10 * MS, FILE_TICKS_SUBSET, 10,
		2, NULL, 0 };
	uint32_t a = node(&r, 0, "a"), b = node(&r, 0, "b");

	account(&r, 1, 0, 0);
	file_writer_ticks(r.w, &some);
	r.tick = 10;
	ticks(&r, 10, 10 * MS);
	run(&r, 1, a, REC_RUNNING, 3, 2);
	run(&r, 1, b, REC_RUNNING, 8, 7); /* two of the former, five of the latter */
	account(&r, 1, 20, 80 * MS);
	end_recording(&r);
	struct profile *p = load("subset");

	tap_is(weight(p, "a", PROFILE_WALL), 100 * MS, "two ticks of a fifth");
	tap_is(weight(p, "b", PROFILE_WALL), 150 * MS, "two, and five of all");
	tap_is(weight(p, "a", PROFILE_CPU), 32 * MS, "and CPU time in proportion");
	tap_is(p->totals.cpu_ns, 80 * MS, "of which there is no more than there was");
	profile_free(p);
}

static void test_phases(void)
{
	struct recording r = begin("phases");
	struct file_phase phase = { 1, REC_PHASE_STARTING, 0 };
	uint32_t a = node(&r, 0, "a");
	uint32_t states[20] = { 0 };
	uint64_t ticks_of[4] = { 0 };

	ticks(&r, 10, 10 * MS);
	file_writer_phase(r.w, &phase);
	run(&r, 1, a, REC_RUNNING, 0, 2);
	phase = (struct file_phase){ 1, REC_PHASE_RUNNING, 2 };
	file_writer_phase(r.w, &phase);
	run(&r, 1, a, REC_RUNNING, 2, 5);
	phase = (struct file_phase){ 1, REC_PHASE_FINALIZING, 7 };
	file_writer_phase(r.w, &phase);
	run(&r, 1, a, REC_RUNNING, 7, 3);
	file_writer_base(r.w, 1, 10);
	flush(&r);
	/* It holds on in the next chunk. */
	ticks(&r, 10, 10 * MS);
	run(&r, 1, a, REC_RUNNING, 10, 10);
	end_recording(&r);
	struct profile *p = load("phases");

	for (size_t i = 0; i < p->count && i < 20; i++) {
		states[i] = p->samples[i].state;
		ticks_of[(states[i] & LOAD_STARTING) != 0     ? 1
			 : (states[i] & LOAD_FINALIZING) != 0 ? 2
							      : 0] +=
			p->samples[i].ticks;
	}
	tap_ok(ticks_of[0] == 5 && ticks_of[1] == 2 && ticks_of[2] == 13,
		"ticks know what the interpreter was in the middle of");
	profile_free(p);
}

static struct file_copy copy_of(uint64_t mono_ns, uint32_t state, uint32_t flags,
	uint64_t segv, const char *name)
{
	return (struct file_copy){ .segment = 1,
		.mono_ns = mono_ns,
		.state = state,
		.flags = flags,
		.warmup_ns = 100 - mono_ns,
		.owner = { segv, 0 },
		.mapping = { text(name), text("") } };
}

/* How a thread read memory: what changed, and what is told again. */
static void test_copies(void)
{
	struct recording r = begin("copies");
	const struct file_copy told[] = {
		copy_of(10, RING_COPY_WARMUP, 7, 0, ""),
		copy_of(20, RING_COPY_WARMUP, 7, 0, ""), /* again */
		copy_of(30, RING_COPY_BY_LOAD, 7, 0, ""),
		copy_of(40, RING_COPY_BY_SYSCALL, 31, 0x5000, "/lib/taker.so"),
		/* Told again, when the program is gone. */
		copy_of(50, RING_COPY_BY_SYSCALL, 31, 0x5000, ""),
	};

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		file_writer_copy(r.w, &told[i]);
	end_recording(&r);
	struct profile *p = load("copies");
	const struct model_segment *s = model_segment(p->model, 0);
	const struct model_copy *now = model_copy_now(s);

	tap_ok(!model_is_thread(s), "no attribute: it was a task");
	tap_is((int64_t)s->copy_count, 3, "three changes");
	if (tap_ok(now != NULL && s->copy_count == 3, "the last one")) {
		tap_ok(s->copies[0].mono_ns == 10 && s->copies[0].warmup_ns == 80,
			"the warm-up has its first time and its last rest");
		tap_ok(now->mono_ns == 40 && now->state == RING_COPY_BY_SYSCALL &&
				now->flags == 31 && now->owner[0] == 0x5000 &&
				strcmp(now->mapping[0], "/lib/taker.so") == 0 &&
				now->mapping[1][0] == '\0',
			"a name that was known stays");
	}
	profile_free(p);
	r = begin("copies");
	for (unsigned i = 0; i < 1000; i++) {
		struct file_copy c = copy_of(i, i % 4, 0, i, "/lib/x.so");

		file_writer_copy(r.w, &c);
	}
	end_recording(&r);
	p = load("copies");
	s = model_segment(p->model, 0);
	tap_ok(s->copy_count == 64 && model_copy_now(s)->owner[0] == 999,
		"of too many the first ones and the last are kept");
	profile_free(p);
}

/* What the kernel says of a thread besides its CPU time. */
static void test_accounts(void)
{
	struct recording r = begin("accounts");
	struct file_ticks slow = { 1, 10, 5, 1100 * MS, 40 * MS, FILE_TICKS_LIMITED, 0,
		0, NULL, 0 };
	struct file_cpu c[] = {
		{ 1, 0, 0, 100, 0, 1000 * MS, 0 }, /* what was before */
		{ 1, 5, 10 * MS, 103, 0, 1020 * MS, 1 },
		{ 1, 6, 11 * MS, 200, FILE_CPU_ANEW, 1500 * MS, 1 }, /* a pause */
		{ 1, 9, 12 * MS, 201, FILE_CPU_COARSE, 1505 * MS, 4 },
	};

	ticks(&r, 10, 10 * MS);
	file_writer_ticks(r.w, &slow);
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		file_writer_cpu(r.w, 1, &c[i]);
	end_recording(&r);
	struct profile *p = load("accounts");
	const struct model_thread *t = model_thread(p->model, 0);
	const struct model_segment *s = model_segment(p->model, 0);

	tap_is((int64_t)t->delay_ns, 25 * MS, "ready without a CPU");
	tap_is((int64_t)t->runs, 4, "and put on one");
	tap_is((int64_t)t->lost, 4, "and ticks lost");
	tap_ok(t->accounted && t->coarse, "and how fine it was");
	tap_is((int64_t)s->ticks_ns, 300 * MS, "time in strata");
	tap_is((int64_t)s->limited_ns, 200 * MS, "and in those the limit made longer");
	tap_is((int64_t)s->longest_ns, 40 * MS, "up to so long");
	profile_free(p);
}

/* Over chunks, a pause and a gap: a life is from the first account to the last. */
static void test_lives(void)
{
	struct recording r = begin("lives");
	uint64_t late[] = { 2, 12 };
	struct file_ticks first = { 1, 0, 10, 1000 * MS, 10 * MS, 0, 0, 0, late, 1 };
	struct file_ticks second = { 1, 10, 10, 1350 * MS, 20 * MS, 0, 0, 0, late + 1,
		1 };
	struct file_gap gaps[] = {
		{ 1, 900 * MS, 1000 * MS, REC_GAP_DISABLED }, /* before it */
		{ 1, 1100 * MS, 1250 * MS, REC_GAP_PARKED },
		{ 1, 1250 * MS, 1350 * MS, REC_GAP_MISSED },
		{ 1, 1550 * MS, 1600 * MS, REC_GAP_PARKED }, /* behind it */
	};
	struct file_cpu c[] = {
		{ 1, 0, 5 * MS, 1, FILE_CPU_ANEW, 0, 0 },
		{ 1, 10, 35 * MS, 2, 0, 10 * MS, 3 },
		{ 1, 10, 45 * MS, 3, FILE_CPU_ANEW, 15 * MS, 3 },
		{ 1, 20, 105 * MS, 5, 0, 35 * MS, 5 },
	};
	uint32_t a = node(&r, 0, "a");

	file_writer_ticks(r.w, &first);
	file_writer_gap(r.w, &gaps[0]);
	run(&r, 1, a, REC_RUNNING, 0, 7);
	file_writer_cpu(r.w, 1, &c[0]);
	file_writer_cpu(r.w, 1, &c[1]);
	file_writer_base(r.w, 1, 10);
	flush(&r);
	for (size_t i = 1; i < 4; i++)
		file_writer_gap(r.w, &gaps[i]);
	file_writer_ticks(r.w, &second);
	run(&r, 1, a, REC_RUNNING, 10, 8);
	file_writer_cpu(r.w, 1, &c[2]);
	file_writer_cpu(r.w, 1, &c[3]);
	end_recording(&r);
	struct profile *p = load("lives");
	const struct model_thread *t = model_thread(p->model, 0);

	tap_is(t->first_ns, 1000 * MS, "it begins with the first account");
	tap_is(t->last_ns, 1550 * MS, "and ends with the last one");
	tap_is((int64_t)t->late, 2, "late ticks at which it was seen");
	tap_is((int64_t)t->missed, 5, "strata missed, as long as the one behind them");
	tap_is((int64_t)t->gap_ns[REC_GAP_MISSED], 100 * MS, "and their time");
	tap_is((int64_t)t->gap_ns[REC_GAP_PARKED], 150 * MS, "a pause in the middle");
	tap_is((int64_t)t->gap_ns[REC_GAP_DISABLED], 0, "none before it");
	tap_is((int64_t)t->lost_ns, 70 * MS, "lost ticks weigh what those around do");
	tap_is((int64_t)t->cpu_ns, 90 * MS, "CPU time, but for that of the pause");
	profile_free(p);
}

int main(void)
{
	scratch_begin();
	test_wall();
	test_unknown_ticks();
	test_cpu_spread();
	test_cpu_over_chunks();
	test_cpu_odd();
	test_before_first_account();
	test_sums();
	test_idle_for_long();
	test_stacks();
	test_epochs();
	test_threads();
	test_segments();
	test_pause();
	test_gc();
	test_subset();
	test_phases();
	test_copies();
	test_accounts();
	test_lives();
	test_parts();
	test_two_recordings();
	test_damaged();
	test_in_order();
	test_events();
	tap_ok(tap_child(huge_numbers), "numbers of a hostile file do not overflow");
	scratch_end();
	return tap_done();
}
