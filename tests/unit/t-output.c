/* SPDX-License-Identifier: Apache-2.0 */
/* Where a recording goes: names, parts, what is kept and what is removed. */
#include <errno.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "dump.h"
#include "output.h"
#include "scratch.h"
#include "tap.h"

enum { NAME_BYTES = 300, MOST_NAMES = 20 };

/* Names of files in the folder that begin so, in the order of the alphabet. */
struct names {
	char name[MOST_NAMES][NAME_BYTES];
	size_t count;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static struct names list(const char *start)
{
	struct names n = { .count = 0 };
	DIR *folder = opendir(scratch_folder);

	if (folder == NULL)
		return n;
	for (struct dirent *e; (e = readdir(folder)) != NULL && n.count < MOST_NAMES;)
		if (strncmp(e->d_name, start, strlen(start)) == 0)
			(void)snprintf(n.name[n.count++], NAME_BYTES, "%s", e->d_name);
	(void)closedir(folder);
	qsort(n.name, n.count, NAME_BYTES, compare_names);
	return n;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(scratch(name), "we");

	if (f == NULL)
		return;
	(void)fputs(text, f);
	(void)fclose(f);
}

static bool exists(const char *name)
{
	struct stat st;

	return lstat(scratch(name), &st) == 0;
}

/* Is it a whole file, with so many lines that begin with start? */
static bool holds(const char *name, const char *start, size_t wanted)
{
	struct buf bytes = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20);
	struct err err;

	read_bytes(scratch(name), &bytes);
	bool right = dump_bytes(bytes.data, bytes.size, &text, &err) == 0 &&
		     has_line(buf_text(&text), "end, complete") &&
		     !has_line(buf_text(&text), "damaged") &&
		     count_lines(buf_text(&text), start) == wanted;

	if (!right)
		printf("# %s holds:\n# %s\n", name, buf_text(&text));
	buf_done(&bytes);
	buf_done(&text);
	return right;
}

static struct output *begin(struct output_options *o, const char *name)
{
	struct output *out;
	struct err err = { "" };

	o->path = scratch(name);
	o->level = 1;
	if (output_open(o, &out, &err) != 0 || output_publish(out, &err) != 0) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	return out;
}

/* The recording's segment `segment`, with so many samples, in the part in hand. */
static void fill(struct output *o, uint32_t segment, uint64_t ticks)
{
	struct output_part *p = output_part(o);
	struct file_writer *w = output_part_writer(p);
	struct file_segment s = { .why = FILE_WHY_SPAWN, .pid = segment };

	s.segment = output_part_add(p, segment);
	file_writer_segment(w, &s);
	struct file_thread t = { .thread = segment, .segment = s.segment, .tid = 1 };

	file_writer_thread(w, &t);
	struct file_node n = { .kind = REC_NODE_UNREADABLE };
	struct file_run r = {
		.thread = segment, .node = file_writer_node(w, &n), .ticks = ticks
	};
	struct file_ticks strata = {
		.segment = s.segment, .count = ticks, .length_ns = 5
	};

	file_writer_base(w, s.segment, 0);
	file_writer_ticks(w, &strata);
	file_writer_run(w, s.segment, &r);
}

static struct output_written turn(struct output *o, bool dump)
{
	struct output_written w = { 0 };
	struct err err = { "" };

	if (output_begin_part(o, &err) != 0 || !output_is_turning(o) ||
		output_turn(o, dump, &w, &err) != 0)
		tap_ok(false, "a part is ended: %s", err.text);
	return w;
}

static struct output_written finish(struct output *o)
{
	struct output_written w;
	struct err err = { "" };

	if (output_close(o, false, &w, &err) != 0)
		tap_ok(false, "the last part is ended: %s", err.text);
	output_free(o);
	return w;
}

static void test_one_file(void)
{
	struct output_options options = { .max_bytes = 200 };
	struct err err;

	put("one", "before");
	struct output *o = begin(&options, "one");

	tap_ok(exists("one.old") && exists("one"), "one file, and the one before");
	tap_ok(!output_is_full(o), "it has room");
	fill(o, 1, 10);
	tap_ok(output_flush(o, &err) == 0 && output_bytes(o) > 56, "it grows");
	tap_ok(output_is_full(o) && !output_part_is_full(o, true, INT64_MAX),
		"to the size it may have");
	struct output_written w = finish(o);

	tap_str(w.path, scratch("one"), "it keeps its name");
	tap_ok(w.samples == 10 && holds("one", "run ", 1), "and has all");
	tap_ok(holds("one", "summary segments 1 samples 10 lost 0", 1), "and a sum");
	scratch_empty();
}

static void test_segments(void)
{
	struct output_options options = { .switching = true };
	struct output *o = begin(&options, "numbers");
	struct output_part *p = output_part(o);

	tap_ok(output_part_find(p, 7) == 0 && output_part_add(p, 7) == 1 &&
			output_part_add(p, 3) == 2 && output_part_find(p, 7) == 1 &&
			output_part_find(p, 3) == 2 && output_part_find(p, 0) == 0 &&
			output_part_find(p, 8) == 0,
		"segments are numbered as they come");
	(void)turn(o, false);
	tap_ok(output_part_find(output_part(o), 7) == 0 &&
			output_part_add(output_part(o), 9) == 1,
		"in each part anew");
	(void)finish(o);
	scratch_empty();
}

static void test_row(void)
{
	struct output_options options = {
		.switching = true, .switch_bytes = 100, .switch_ns = 1000000000
	};
	struct err err;
	struct output *o = begin(&options, "row");
	int64_t now = clock_monotonic_ns();

	fill(o, 1, 10);
	tap_ok(!output_part_is_full(o, true, now), "a part has room");
	tap_ok(output_part_is_full(o, true, now + 2000000000), "until its time is up");
	tap_ok(!output_part_is_full(o, false, now + 2000000000),
		"which counts only with samples");
	(void)output_flush(o, &err);
	tap_ok(output_part_is_full(o, true, now), "or it is large enough");
	tap_is(output_begin_part(o, &err), 0, "another begins");
	tap_ok(!output_part_is_full(o, true, now + 2000000000),
		"while that takes time");
	fill(o, 2, 5);
	struct output_written w;

	tap_is(output_turn(o, false, &w, &err), 0, "the one before is ended");
	tap_ok(w.samples == 10 && w.bytes > 100, "with what it had");
	struct names n = list("row.");

	tap_ok(n.count == 1 && strlen(n.name[0]) == strlen("row.") + 16 &&
			strspn(n.name[0] + 4, "0123456789") == 16,
		"and is called by the time");
	tap_ok(holds(n.name[0], "run 1 ", 1) && holds(n.name[0], "run 2 ", 0),
		"it has its own samples");
	tap_ok(exists("row"), "the other has the name now");
	w = finish(o);
	n = list("row");
	tap_ok(n.count == 2 && !exists("row"), "in the end that is so called too");
	tap_ok(strstr(w.path, n.name[1]) != NULL && w.samples == 5 &&
			holds(n.name[1], "run 2 ", 1) && holds(n.name[1], "run 1 ", 0),
		"later in the order of names");
	scratch_empty();
}

static void test_most_files(void)
{
	struct output_options options = { .switching = true, .max_files = 2 };

	put("most.2000010100000000", "not ours");
	struct output *o = begin(&options, "most");

	fill(o, 1, 1);
	(void)turn(o, false);
	struct names n = list("most.2");

	/* Somebody puts another file in the place of one of ours. */
	(void)unlink(scratch(n.name[1]));
	put("other", "not ours either");
	(void)rename(scratch("other"), scratch(n.name[1]));
	for (uint32_t i = 2; i <= 5; i++) {
		fill(o, i, i);
		(void)turn(o, false);
	}
	fill(o, 6, 6);
	(void)finish(o);
	n = list("most");
	tap_ok(n.count == 4 && strcmp(n.name[0], "most.2000010100000000") == 0 &&
			!exists("most"),
		"the last two are kept, and files that are not ours");
	tap_ok(n.count == 4 && holds(n.name[2], "run 5 ", 1) &&
			holds(n.name[3], "run 6 ", 1),
		"in order");
	scratch_empty();
}

static void test_names_taken(void)
{
	struct output_options options = { .switching = true };
	struct output *o = begin(&options, "taken");

	/* Names come 10 ms apart, however quickly parts follow each other. */
	for (uint32_t i = 1; i <= 5; i++) {
		fill(o, i, i);
		(void)turn(o, false);
	}
	struct names n = list("taken.");

	bool ordered = n.count == 5;

	for (size_t i = 0; ordered && i < n.count; i++) {
		char run[40];

		(void)snprintf(run, sizeof(run), "run %zu ", i + 1);
		ordered = holds(n.name[i], run, 1);
	}
	tap_ok(ordered, "parts that follow each other at once are in order");
	(void)finish(o);
	scratch_empty();
}

static void test_failing(void)
{
	struct output_options options = { .switching = true };
	struct output_written w;
	struct err err = { "" };
	struct output *o = begin(&options, "failing");

	fill(o, 1, 1);
	/* Whoever removes the file has removed it. */
	(void)unlink(scratch("failing"));
	(void)output_begin_part(o, &err);
	tap_ok(output_turn(o, false, &w, &err) == -ENOENT && err.text[0] != '\0',
		"a file that is gone cannot be called otherwise");
	tap_is(output_close(o, true, &w, &err), 0, "what follows is given up");
	output_free(o);
	tap_is((int64_t)list("failing").count, 0, "nothing is left");
}

static void test_refused(void)
{
	struct output_options options = { .switching = true, .path = "/dev/null" };
	struct output *o;
	struct err err = { "" };

	tap_ok(output_open(&options, &o, &err) == -EINVAL &&
			strstr(err.text, "--switch-output") != NULL,
		"a device has no names for several files");
	options = (struct output_options){ .overwrite = true };
	options.path = "/dev/null";
	tap_ok(output_open(&options, &o, &err) == -EINVAL &&
			strstr(err.text, "--overwrite") != NULL,
		"not at the end either");
	options.path = scratch("no/file");
	tap_is(output_open(&options, &o, &err), -ENOENT,
		"what cannot be written in the end is refused at once");
}

static void test_memory(void)
{
	struct output_options options = {
		.overwrite = true, .keep_ns = 3600000000000, .keep_bytes = 1 << 20
	};
	struct output_written w;

	put("memory", "before");
	struct output *o = begin(&options, "memory");

	tap_ok(list("memory").count == 1 && !exists("memory.old"),
		"nothing is written before it is asked for");
	w = turn(o, true);
	struct names n = list("memory.");

	tap_ok(n.count == 1 && w.samples == 0 && holds(n.name[0], "run ", 0),
		"not even a sample makes a file too");
	(void)unlink(scratch(n.name[0]));
	uint64_t before = output_bytes(o);

	fill(o, 1, 10);
	w = turn(o, false);
	tap_ok(w.path[0] == '\0' && list("memory.").count == 0, "a piece is no file");
	fill(o, 2, 20);
	w = turn(o, true);
	n = list("memory.");
	tap_ok(n.count == 1 && w.samples == 30 && holds(n.name[0], "run ", 2) &&
			holds(n.name[0], "header", 2),
		"asked for, all of them are in one");
	tap_is((int64_t)output_bytes(o), (int64_t)(before + w.bytes),
		"which counts as written");
	fill(o, 3, 30);
	w = finish(o);
	tap_ok(w.samples == 60 && holds("memory", "run ", 3), "in the end again");
	tap_ok(strcmp(w.path, scratch("memory")) == 0 && exists("memory.old"),
		"under the name of the recording, which others had");
	scratch_empty();
}

static void test_memory_limits(void)
{
	struct output_options options = { .overwrite = true, .keep_bytes = 8000 };
	struct output *o = begin(&options, "limits");
	uint64_t most = 0;
	struct err err;

	for (uint32_t i = 1; i <= 200; i++) {
		fill(o, i, 1);
		(void)output_flush(o, &err);
		if (output_kept_bytes(o) > most)
			most = output_kept_bytes(o);
		if (output_part_is_full(o, true, clock_monotonic_ns()))
			(void)turn(o, false);
	}
	tap_ok(most <= 8000 && most > 4000, "memory is bounded: %d bytes", (int)most);
	struct output_written w = finish(o);

	tap_ok(w.samples > 3 && w.samples < 200 &&
			holds("limits", "run ", (size_t)w.samples) &&
			holds("limits", "run 200 ", 1) && holds("limits", "run 1 ", 0),
		"the last pieces are kept: %d samples", (int)w.samples);
	scratch_empty();

	/* One piece alone is larger than all that may be kept. */
	options.keep_bytes = 100;
	o = begin(&options, "limits");
	fill(o, 1, 7);
	(void)output_flush(o, &err);
	(void)turn(o, false);
	w = finish(o);
	tap_is((int64_t)w.samples, 0, "the newest piece is kept, whatever its size");
	scratch_empty();

	options = (struct output_options){ .overwrite = true, .keep_ns = 200000000 };
	o = begin(&options, "limits");
	fill(o, 1, 7);
	(void)turn(o, false);
	clock_sleep_ns(250000000);
	fill(o, 2, 8);
	w = finish(o);
	tap_is((int64_t)w.samples, 8, "what is older than asked for is not kept");
	scratch_empty();
}

static void test_marks(void)
{
	struct output_options options = { .overwrite = true, .keep_bytes = 1 << 20 };
	struct output *o = begin(&options, "marks");

	output_mark(o, "nobody ran");
	(void)turn(o, false);
	fill(o, 1, 1);
	(void)turn(o, false);
	(void)finish(o);
	tap_ok(holds("marks", "mark ", 1), "a mark is kept without any sample");
	scratch_empty();
}

int main(void)
{
	scratch_begin();
	test_one_file();
	test_segments();
	test_row();
	test_most_files();
	test_names_taken();
	test_failing();
	test_refused();
	test_memory();
	test_memory_limits();
	test_marks();
	scratch_end();
	return tap_done();
}
