/* SPDX-License-Identifier: Apache-2.0 */
/* What is written into a sample file is what is read from it. */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "dump.h"
#include "file/writer.h"
#include "records.h"
#include "scratch.h"
#include "tap.h"

static struct file_text text(const char *s)
{
	return (struct file_text){ s, strlen(s) };
}

static struct file_writer *open_writer(const char *name, int level)
{
	struct file_writer *w;
	struct err err;

	if (file_writer_open(scratch(name), level, -1, -1, &w, &err) != 0) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	return w;
}

static void close_writer(struct file_writer *w)
{
	static const struct file_summary summary = { 2, 1234, 5, 6000000000, 777, 88 };
	struct err err = { "" };

	if (file_writer_publish(w, &err) != 0 ||
		file_writer_close(w, &summary, &err) != 0)
		tap_ok(false, "the writer closes: %s", err.text);
}

static void flush(struct file_writer *w)
{
	struct err err = { "" };

	if (file_writer_flush(w, &err) != 0)
		tap_ok(false, "the writer flushes: %s", err.text);
}

/* The file of that name, read through its descriptor and from memory. */
static void dump(const char *name, struct buf *b)
{
	struct buf bytes = BUF_INIT(DUMP_MAX_BYTES), other = BUF_INIT(DUMP_MAX_BYTES);
	struct file_reader *r;
	struct err err;

	read_bytes(scratch(name), &bytes);
	if (file_reader_open(scratch(name), &r, &err) != 0) {
		tap_ok(false, "%s can be opened: %s", name, err.text);
		buf_done(&bytes);
		return;
	}
	dump_events(r, b);
	if (file_reader_offset(r) != bytes.size && file_reader_damage(r) == NULL)
		tap_ok(false, "all of %s is read", name);
	file_reader_free(r);
	if (dump_bytes(bytes.data, bytes.size, &other, &err) != 0 ||
		other.size != b->size || memcmp(other.data, b->data, b->size) != 0)
		tap_ok(false, "%s reads the same from memory", name);
	buf_done(&bytes);
	buf_done(&other);
}

/* Texts of many lines: on a difference the first line that differs is shown. */
static void is_text(const char *got, const char *wanted, const char *what)
{
	if (tap_ok(strcmp(got, wanted) == 0, "%s", what))
		return;
	size_t at = 0, line = 0;

	for (; got[at] == wanted[at]; at++)
		if (got[at] == '\n')
			line = at + 1;
	printf("# got    %.*s\n", (int)strcspn(got + line, "\n"), got + line);
	printf("# wanted %.*s\n", (int)strcspn(wanted + line, "\n"), wanted + line);
}

/* --- every record --- */

static void write_definitions(struct file_writer *w)
{
	tap_is(file_writer_string(w, "app.py", 6), 1, "strings count from 1");
	tap_is(file_writer_string(w, "main", 4), 2, "and on");
	tap_is(file_writer_string(w, "", 0), 3, "an empty one");
	tap_is(file_writer_string(w, "app.py", 6), 1, "the same again");
	tap_is(file_writer_string(w, "app.pyc", 7), 4, "another that begins so");
	tap_is(file_writer_string(w, "", 0), 3, "the empty one again");

	struct file_function f = { 1, 2, 10, 0x1122334455667788, 0x43 };
	struct file_function g = { 4, 3, -5, UINT64_MAX, UINT32_MAX };
	struct file_function same = { 1, 2, 10, 0x1122334455667788, 0x7 };
	struct file_function other = { 1, 2, 10, 0x1122334455667789, 0x43 };

	tap_is(file_writer_function(w, &f), 1, "a function");
	tap_is(file_writer_function(w, &g), 2, "another");
	tap_is(file_writer_function(w, &same), 1, "flags do not make another function");
	tap_is(file_writer_function(w, &other), 3, "another line table does");

	struct file_node root = { 0, 0, REC_NODE_PYTHON, 1 };
	struct file_node child = { 1, 3, REC_NODE_PYTHON, 2 };
	struct file_node other_line = { 1, -4, REC_NODE_PYTHON, 2 };
	struct file_node truncated = { 0, 0, REC_NODE_TRUNCATED, 17 };
	struct file_node unreadable = { 0, 0, REC_NODE_UNREADABLE, 0 };
	struct file_node below = { 4, 0, REC_NODE_PYTHON, 3 };

	tap_is(file_writer_node(w, &root), 1, "a node");
	tap_is(file_writer_node(w, &child), 2, "one below it");
	tap_is(file_writer_node(w, &other_line), 3, "called from another line");
	tap_is(file_writer_node(w, &child), 2, "the same again");
	tap_is(file_writer_node(w, &truncated), 4, "frames left out");
	tap_is(file_writer_node(w, &unreadable), 5, "nothing readable");
	tap_is(file_writer_node(w, &below), 6, "one below frames left out");
}

static void write_segments(struct file_writer *w)
{
	struct file_attribute attributes[] = { { text("arg"), text("python3") },
		{ text("arg"), text("app.py") }, { text("host"), text("") } };
	struct file_segment first = {
		.segment = 1,
		.id = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255 },
		.why = FILE_WHY_SPAWN,
		.pid = 4711,
		.inner_pid = 7,
		.mono_ns = 1000000000,
		.real_ns = 1700000000000000000,
		.interval_ns = 10000000,
		.flags = FILE_SEGMENT_ADAPTIVE,
		.attributes = attributes,
		.attribute_count = 3,
	};
	struct file_segment second = {
		.segment = 2,
		.parent = 1,
		.why = FILE_WHY_EXEC,
		.pid = INT32_MAX,
		.mono_ns = UINT64_MAX,
		.real_ns = UINT64_MAX,
		.interval_ns = UINT64_MAX,
		.flags = UINT32_MAX,
	};
	struct file_thread one = { 1, 1, 4711, 0x7f0000001000, 0, text("MainThread") };
	struct file_thread seven = { 7, 2, INT32_MAX, UINT64_MAX, UINT64_MAX,
		text("") };

	file_writer_segment(w, &first);
	file_writer_segment(w, &second);
	file_writer_thread(w, &one);
	file_writer_thread(w, &seven);
	one.name = text("renamed \xc3\xa9");
	file_writer_thread(w, &one);
}

static void run(struct file_writer *w, uint32_t segment, uint32_t thread, uint32_t node,
	int64_t line, uint32_t state, uint64_t first, uint64_t ticks)
{
	struct file_run r = { thread, node, line, state, first, ticks };

	file_writer_run(w, segment, &r);
}

static void write_samples(struct file_writer *w)
{
	uint64_t late[] = { 100, 105, 149 };
	struct file_ticks ticks = { 1, 100, 50, 1000000000, 10000000,
		FILE_TICKS_LIMITED | FILE_TICKS_SUBSET, 1000, 17, late, 3 };
	struct file_ticks mean = { 2, 0, UINT32_MAX, 5, 1, FILE_TICKS_MEAN, 0, 0, NULL,
		0 };
	struct file_cpu cpu = { 1, 110, 123456789, 42, 0, 77, 5 };
	struct file_cpu anew = { 1, 110, 200000000, 43, FILE_CPU_ANEW, 78, 5 };
	struct file_cpu cpu_of_other = { 7, 0, UINT64_MAX, UINT64_MAX, FILE_CPU_COARSE,
		UINT64_MAX, UINT64_MAX };
	struct file_mark mark = { 1700000000000000001, text("a mark\x1b") };
	struct file_gap gap = { 1, 5, UINT64_MAX, REC_GAP_STOPPED };
	struct file_phase phase = { 1, REC_PHASE_FINALIZING, 120 };
	struct file_timer timer = { 1, 2, FILE_NO_LINE, REC_APPROXIMATE, 125, 10000000,
		UINT32_MAX };
	struct file_copy copy = { 1, 1500, RING_COPY_BY_SYSCALL, RING_COPY_FLAGS, 7,
		{ 0x7f0000001234, UINT64_MAX }, { text("/lib/a b.so"), text("") } };
	struct file_copy unknown = { 2, UINT64_MAX, 255, UINT32_MAX, UINT64_MAX,
		{ 0, 1 }, { text(""), text("\xff") } };
	struct file_timers timers = { 1, 1600, RING_TIMER_TAKEN, 0, 3, 0x7f0000001234,
		text("/lib/a b.so") };
	struct file_timers strange = { 2, UINT64_MAX, 255, UINT32_MAX, UINT32_MAX,
		UINT64_MAX, text("\xff") };
	struct file_clock clock = { 1, 1000000000, 1700000000000000000 };
	struct file_counter counters[] = { { text("ticks"), 50 },
		{ text("new one"), UINT64_MAX } };

	file_writer_base(w, 1, 100);
	file_writer_ticks(w, &ticks);
	file_writer_ticks(w, &mean);
	run(w, 1, 1, 2, 5, REC_RUNNING | REC_GIL, 100, 10);
	run(w, 1, 1, 2, FILE_NO_LINE, 0, 110, 1);
	run(w, 2, 7, 6, 0, REC_STATE_MAX, 0, 1);
	run(w, 1, 1, 1, -7, REC_APPROXIMATE, 120, 29);
	run(w, 2, 7, 5, FILE_NO_LINE, 0, UINT32_MAX, UINT32_MAX);
	run(w, 1, 1, 3, 1000000, 0, 149, 1);
	file_writer_cpu(w, 1, &cpu);
	file_writer_cpu(w, 1, &anew);
	file_writer_cpu(w, 2, &cpu_of_other);
	file_writer_gap(w, &gap);
	file_writer_copy(w, &copy);
	file_writer_copy(w, &unknown);
	file_writer_timers(w, &timers);
	file_writer_timers(w, &strange);
	file_writer_timer(w, 1, &timer);
	file_writer_phase(w, &phase);
	file_writer_mark(w, &mark);
	file_writer_clock(w, &clock);
	file_writer_counters(w, 1, counters, 2);
	file_writer_counters(w, 2, NULL, 0);
	file_writer_thread_end(w, 7, 12345);
	file_writer_span(w, 200, 300);
	file_writer_span(w, 100, 250);
}

static void write_more(struct file_writer *w)
{
	struct file_ticks ticks = { 1, 150, 1, 1500000000, 10000000, 0, 0, 0, NULL, 0 };
	struct file_counter counter = { text("lost"), 3 };
	struct file_segment_end end = { 1, FILE_END_SIGNAL, 9, 1700000000, &counter,
		1 };
	struct file_segment_end other = { 2, FILE_END_EXIT, UINT64_MAX, 0, NULL, 0 };

	file_writer_base(w, 1, 150);
	file_writer_ticks(w, &ticks);
	run(w, 1, 1, 1, -1, 0, 150, 1);
	file_writer_segment_end(w, &end);
	file_writer_segment_end(w, &other);
}

static void test_round_trip(void)
{
	static const char wanted[] =
		"header\n"
		"string 1 'app.py'\n"
		"string 2 'main'\n"
		"string 3 ''\n"
		"string 4 'app.pyc'\n"
		"function 1 file 1 name 2 line 10 table 1122334455667788 flags 67\n"
		"function 2 file 4 name 3 line -5 table ffffffffffffffff flags 4294967295\n"
		"function 3 file 1 name 2 line 10 table 1122334455667789 flags 67\n"
		"node 1 caller 0 call 0 kind 0 ref 1\n"
		"node 2 caller 1 call 3 kind 0 ref 2\n"
		"node 3 caller 1 call -4 kind 0 ref 2\n"
		"node 4 caller 0 call 0 kind 1 ref 17\n"
		"node 5 caller 0 call 0 kind 2 ref 0\n"
		"node 6 caller 4 call 0 kind 0 ref 3\n"
		"segment 1 id 000102030405060708090a0b0c0d0eff parent 0 why 1 pid 4711/7 "
		"mono 1000000000 real 1700000000000000000 interval 10000000 flags 1 'arg' "
		"'python3' 'arg' 'app.py' 'host' ''\n"
		"segment 2 id 00000000000000000000000000000000 parent 1 why 4 pid 2147483647/0 "
		"mono 18446744073709551615 real 18446744073709551615 "
		"interval 18446744073709551615 flags 4294967295\n"
		"thread 1 segment 1 tid 4711 python 7f0000001000 interpreter 0 'MainThread'\n"
		"thread 7 segment 2 tid 2147483647 python ffffffffffffffff "
		"interpreter 18446744073709551615 ''\n"
		"thread 1 segment 1 tid 4711 python 7f0000001000 interpreter 0 "
		"'renamed \xc3\xa9'\n"
		"flush\n"
		/* Ticks come first, then the runs of each thread, then the rest. */
		"ticks 1 first 100 count 50 start 1000000000 length 10000000 flags 6 "
		"subset 17 of 1000 late 100 105 149\n"
		"ticks 2 first 0 count 4294967295 start 5 length 1 flags 1 late\n"
		"phase 1 is 2 from 120\n"
		"run 1 node 2 line 5 state 3 first 100 ticks 10\n"
		"run 1 node 2 line none state 0 first 110 ticks 1\n"
		"run 1 node 1 line -7 state 8 first 120 ticks 29\n"
		"run 1 node 3 line 1000000 state 0 first 149 ticks 1\n"
		"run 7 node 6 line 0 state 31 first 0 ticks 1\n"
		"run 7 node 5 line none state 0 first 4294967295 ticks 4294967295\n"
		"cpu 1 tick 110 ns 123456789 runs 42 delay 77 lost 5\n"
		"cpu 1 tick 110 ns 200000000 runs 43 flags 1 delay 78 lost 5\n"
		"cpu 7 tick 0 ns 18446744073709551615 runs 18446744073709551615 "
		"flags 2 delay 18446744073709551615 lost 18446744073709551615\n"
		"gap 1 from 5 to 18446744073709551615 reason 2\n"
		"copy 1 at 1500 state 1 flags 63 warmup 7 owner 7f0000001234 '/lib/a b.so' "
		"owner ffffffffffffffff ''\n"
		"copy 2 at 18446744073709551615 state 255 flags 4294967295 "
		"warmup 18446744073709551615 owner 0 '' owner 1 '\xff'\n"
		"timers 1 at 1600 state 3 detail 0 blocked 3 owner 7f0000001234 "
		"'/lib/a b.so'\n"
		"timers 2 at 18446744073709551615 state 255 detail 4294967295 "
		"blocked 4294967295 owner ffffffffffffffff '\xff'\n"
		"timer 1 node 2 line none state 8 tick 125 ns 10000000 samples 4294967295\n"
		"mark 1700000000000000001 'a mark\x1b'\n"
		"clock 1 mono 1000000000 real 1700000000000000000\n"
		"counters 1 'ticks'=50 'new one'=18446744073709551615\n"
		"counters 2\n"
		"thread-end 7 tick 12345\n"
		"flush\n"
		"ticks 1 first 150 count 1 start 1500000000 length 10000000 flags 0 late\n"
		"phase 1 is 2 from 150\n"
		"run 1 node 1 line -1 state 0 first 150 ticks 1\n"
		"segment-end 1 why 2 status 9 mono 1700000000 'lost'=3\n"
		"segment-end 2 why 1 status 18446744073709551615 mono 0\n"
		"flush\n"
		"summary segments 2 samples 1234 lost 5 mono 6000000000 elapsed 777 cpu 88\n"
		"flush\n"
		"end, complete\n";
	static const int levels[] = { 1, 3, 22 };

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		_cleanup_buf_ struct buf b = BUF_INIT(DUMP_MAX_BYTES);
		struct file_writer *w = open_writer("all", levels[i]);
		char what[64];

		write_definitions(w);
		write_segments(w);
		write_samples(w);
		flush(w);
		flush(w);
		write_more(w);
		uint64_t before = file_writer_size(w);

		flush(w);
		tap_ok(file_writer_size(w) > before, "the file grows with a flush");
		close_writer(w);
		dump("all", &b);
		(void)snprintf(what, sizeof(what), "every record comes back, level %d",
			levels[i]);
		is_text(buf_text(&b), wanted, what);
	}
}

/* The header of every chunk: its times are those of the samples in it. */
static void test_chunk_headers(void)
{
	_cleanup_buf_ struct buf bytes = BUF_INIT(DUMP_MAX_BYTES);
	uint64_t from[8], to[8];
	unsigned kinds[8], n = 0;

	read_bytes(scratch("all"), &bytes);
	for (size_t at = FILE_SKIPPABLE_BYTES + FILE_HEADER_BYTES;
		at < bytes.size && n < 8; n++) {
		uint32_t stored;

		at += FILE_SKIPPABLE_BYTES;
		kinds[n] = (unsigned char)bytes.data[at];
		memcpy(&stored, bytes.data + at + 8, 4);
		memcpy(&from[n], bytes.data + at + 16, 8);
		memcpy(&to[n], bytes.data + at + 24, 8);
		at += FILE_CHUNK_BYTES + stored;
	}
	tap_ok(n == 4 && kinds[0] == FILE_CHUNK_DEFINITIONS &&
			kinds[1] == FILE_CHUNK_SAMPLES &&
			kinds[2] == FILE_CHUNK_SAMPLES && kinds[3] == FILE_CHUNK_END,
		"chunks of definitions and samples, and one of the end");
	tap_ok(from[1] == 100 && to[1] == 300,
		"a chunk tells the times of its samples");
	tap_ok(from[0] == 0 && to[0] == 0 && from[2] == 0 && to[2] == 0 && to[3] == 0,
		"one without times tells none");
}

static void test_nothing(void)
{
	_cleanup_buf_ struct buf b = BUF_INIT(DUMP_MAX_BYTES);

	close_writer(open_writer("nothing", 3));
	dump("nothing", &b);
	is_text(buf_text(&b),
		"header\nflush\nsummary segments 2 samples 1234 lost 5 mono 6000000000 elapsed 777 cpu 88\nflush\n"
		"end, complete\n",
		"a recording of nothing");
}

/* --- epochs --- */

static void add_segment(struct file_writer *w)
{
	struct file_segment s = { .segment = 1, .why = FILE_WHY_ATTACH };
	struct file_thread t = { 1, 1, 1, 1, 0, text("") };

	file_writer_segment(w, &s);
	file_writer_thread(w, &t);
}

enum what { STRINGS, LONG_STRINGS, FUNCTIONS, NODES };

/* One more definition of that kind; its identifier. */
static uint32_t define(struct file_writer *w, enum what what, uint32_t i)
{
	static char long_text[8192];
	char name[32];
	int n = snprintf(name, sizeof(name), "name%u", i);
	struct file_function f = { 1, 1, i, 0, 0 };
	struct file_node node = { 0, 0, REC_NODE_TRUNCATED, i };

	switch (what) {
	case STRINGS:
		return file_writer_string(w, name, (size_t)n);
	case LONG_STRINGS:
		memset(long_text, 'x', sizeof(long_text));
		memcpy(long_text, name, (size_t)n);
		return file_writer_string(w, long_text, sizeof(long_text));
	case FUNCTIONS:
		(void)file_writer_string(w, "f", 1);
		return file_writer_function(w, &f);
	case NODES:
		return file_writer_node(w, &node);
	}
	return 0;
}

/* Definitions of one kind until the epoch changes, some after that, and a run of each
 * side: all must be readable. */
static void test_epoch(enum what what, const char *name, uint32_t step, uint32_t most)
{
	_cleanup_buf_ struct buf b = BUF_INIT(DUMP_MAX_BYTES);
	struct file_writer *w = open_writer("epochs", 1);
	bool rising = true;
	uint32_t count = 0, start;

	add_segment(w);
	while (file_writer_epoch(w) == 1 && count < most) {
		for (uint32_t i = 0; i < step; i++) {
			count++;
			rising &= define(w, what, count) == count;
		}
		flush(w);
	}
	tap_ok(rising && file_writer_epoch(w) == 2, "%s: an epoch ends after %u", name,
		count);
	start = define(w, what, 1);
	tap_is(start, 1, "and their numbers start over");
	tap_is(file_writer_epoch(w), 2, "a flush alone does not begin another");
	(void)file_writer_string(w, "f", 1);
	struct file_function f = { 1, 1, 1, 2, 3 };
	struct file_node n = { 0, 0, REC_NODE_PYTHON, file_writer_function(w, &f) };

	run(w, 1, 1, file_writer_node(w, &n), 1, 0, 0, 1);
	close_writer(w);
	dump("epochs", &b);
	tap_ok(!has_line(buf_text(&b), "damaged") &&
			has_line(buf_text(&b), "end, complete"),
		"the file is readable");
	tap_is((int64_t)count_lines(buf_text(&b), "epoch"), 1,
		"and tells of the new epoch");
	tap_is((int64_t)count_lines(buf_text(&b), "run 1"), 1,
		"and has the run behind it");
}

/* --- limits --- */

static void test_long_text(void)
{
	char *bytes = xcalloc(1, FILE_TEXT_MAX + 10);
	_cleanup_buf_ struct buf b = BUF_INIT(DUMP_MAX_BYTES);
	struct file_writer *w = open_writer("long", 1);

	memset(bytes, 'n', FILE_TEXT_MAX + 10);
	tap_is(file_writer_string(w, bytes, FILE_TEXT_MAX), 1, "the longest string");
	tap_is(file_writer_string(w, bytes, FILE_TEXT_MAX + 10), 1,
		"a longer one is cut to it");
	tap_ok(!file_writer_should_flush(w), "a chunk holds more than that");
	for (unsigned i = 0; i < 10 && !file_writer_should_flush(w); i++) {
		bytes[0]++;
		(void)file_writer_string(w, bytes, FILE_TEXT_MAX);
	}
	tap_ok(file_writer_should_flush(w), "but not ten of them");
	close_writer(w);
	dump("long", &b);
	tap_ok(has_line(buf_text(&b), "string 6") &&
			has_line(buf_text(&b), "end, complete"),
		"they can be read");
	free(bytes);
}

/* As many runs as one chunk takes by the writer's own judgement, each as long as a run
 * can be that comes from a ring. */
static void test_full_chunk(void)
{
	struct file_writer *w = open_writer("full", 1);
	uint64_t tick = 0, count = 0;

	add_segment(w);
	for (uint32_t i = 1; i <= 20000; i++)
		(void)define(w, NODES, i);
	while (!file_writer_should_flush(w)) {
		run(w, 1, 1, 20000, -INT32_MAX, 0, tick + UINT32_MAX, INT32_MAX);
		tick += (uint64_t)UINT32_MAX + INT32_MAX;
		count++;
	}
	flush(w);
	close_writer(w);

	struct file_reader *r;
	struct file_record record;
	struct err err;
	uint64_t got = 0;

	if (!tap_ok(file_reader_open(scratch("full"), &r, &err) == 0, "a full chunk"))
		return;
	for (enum file_event e; (e = file_reader_next(r, &record)) != FILE_EVENT_END;)
		got += e == FILE_EVENT_RECORD && record.type == FILE_RUNS;
	tap_ok(file_reader_complete(r) && got == count, "holds %llu long runs",
		(unsigned long long)count);
	file_reader_free(r);
}

/* More than a chunk can hold, by a caller who never asks: an error, or at the least
 * nothing that ruins the file. */
static bool overfull_chunk_is_noticed(void)
{
	struct file_writer *w = open_writer("overfull", 1);
	_cleanup_buf_ struct buf b = BUF_INIT(DUMP_MAX_BYTES);
	struct file_ticks ticks = { 1, 0, 1, UINT64_MAX / 2, 1, 0, 0, 0, NULL, 0 };
	struct err err;

	add_segment(w);
	(void)define(w, NODES, 1);
	for (uint64_t i = 0; i < 900000; i++) {
		ticks.first = i;
		file_writer_ticks(w, &ticks);
	}
	if (file_writer_flush(w, &err) != 0) {
		file_writer_free(w);
		return true;
	}
	close_writer(w);
	dump("overfull", &b);
	return !has_line(buf_text(&b), "damaged");
}

/* --- two recordings --- */

static void test_two_recordings(void)
{
	_cleanup_buf_ struct buf one = BUF_INIT(DUMP_MAX_BYTES),
				 two = BUF_INIT(DUMP_MAX_BYTES);
	_cleanup_buf_ struct buf bytes = BUF_INIT(DUMP_MAX_BYTES);
	struct err err;

	read_bytes(scratch("all"), &bytes);
	(void)dump_bytes(bytes.data, bytes.size, &one, &err);
	read_bytes(scratch("all"), &bytes);
	int code = dump_bytes(bytes.data, bytes.size, &two, &err);
	size_t first = one.size - strlen("end, complete\n");

	tap_ok(code == 0 && two.size == first + one.size &&
			memcmp(two.data, one.data, first) == 0 &&
			memcmp(two.data + first, one.data, one.size) == 0,
		"two files one after the other are both, with all numbers anew");

	/* Cut in the second: that is not complete, though the first was. */
	struct buf cut = BUF_INIT(DUMP_MAX_BYTES);

	code = dump_bytes(bytes.data, bytes.size - 1, &cut, &err);
	tap_ok(code == 0 && !has_line(buf_text(&cut), "end, complete") &&
			has_line(buf_text(&cut), "damaged"),
		"the second cut is not complete");
	buf_done(&cut);
}

int main(void)
{
	scratch_begin();
	test_round_trip();
	test_chunk_headers();
	test_two_recordings();
	test_nothing();
	test_epoch(STRINGS, "strings", 5000, 100000);
	test_epoch(LONG_STRINGS, "bytes of strings", 100, 10000);
	test_epoch(FUNCTIONS, "functions", 5000, 100000);
	test_epoch(NODES, "nodes", 20000, 400000);
	test_long_text();
	test_full_chunk();
	tap_ok(overfull_chunk_is_noticed(),
		"a chunk beyond its maximum is noticed when it is written");
	scratch_end();
	return tap_done();
}
