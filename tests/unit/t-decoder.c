/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the records of a ring to those of a file.  The ring lies in the program that is
 * watched: any record may be anything.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/xalloc.h"
#include "decoder.h"
#include "dump.h"
#include "records.h"
#include "scratch.h"
#include "tap.h"
#include "wire/record.h"
#include "wire/ring.h"

/* A decoder that writes a file of its own. */
struct session {
	struct file_writer *w;
	struct decoder *d;
	uint32_t next_thread;
	bool cut;
	struct err err;
};

static void session_begin(struct session *s, enum py_linetable_kind kind)
{
	struct file_segment segment = { .segment = 1, .why = FILE_WHY_SPAWN, .pid = 1 };

	*s = (struct session){ .err = { "" } };
	if (file_writer_open(scratch("file"), 1, -1, -1, &s->w, &s->err) != 0) {
		printf("Bail out! %s\n", s->err.text);
		exit(1);
	}
	file_writer_segment(s->w, &segment);
	s->d = decoder_new(s->w, 1, &s->next_thread, kind);
}

static int64_t feed(struct session *s, const void *bytes, size_t size)
{
	/* In a block of exactly that size. */
	_cleanup_free_ uint8_t *copy = xmalloc(size);

	if (size != 0)
		memcpy(copy, bytes, size);
	return decoder_feed(s->d, copy, size, &s->cut, &s->err);
}

/* Close all and append what the file holds behind its header and its segment. */
static void session_end(struct session *s, struct buf *b)
{
	struct file_summary nothing = { 0 };
	struct file_reader *r;
	struct buf all = BUF_INIT(DUMP_MAX_BYTES);
	struct err err = { "" };

	decoder_close_runs(s->d);
	decoder_free(s->d);
	(void)file_writer_publish(s->w, &err);
	if (file_writer_close(s->w, &nothing, &err) != 0 ||
		file_reader_open(scratch("file"), &r, &err) != 0) {
		tap_ok(false, "the file is closed and opened: %s", err.text);
		return;
	}
	dump_events(r, &all);
	file_reader_free(r);
	/* Definitions are written as they are needed; segment 1 comes first. */
	const char *start = strstr(buf_text(&all), "flags 0\n");

	buf_add_str(b, start != NULL ? start + 8 : buf_text(&all));
	buf_done(&all);
}

/* --- good records --- */

/* Two functions; the table of the second: lines 20 to 22 of 3.11. */
static const char table_one[] = "\x80\x01";
static const char table_two[] = "\x80\x01\xd8\x01\x01\xd9\x01\x01";

static void add_string(
	struct buf *b, uint32_t id, unsigned width, const void *bytes, size_t size)
{
	struct buf payload = BUF_INIT(FILE_RAW_MAX);

	buf_add_uvarint(&payload, id);
	buf_add_uvarint(&payload, width);
	buf_add_uvarint(&payload, size);
	buf_add_uvarint(&payload, 0);
	buf_add(&payload, bytes, size);
	buf_add_uvarint(b, payload.size + 1);
	buf_add_byte(b, REC_STRING);
	buf_add(b, payload.data, payload.size);
	buf_done(&payload);
}

/* Strings 1 to 5, codes 1 and 2, nodes 1 (code 1) and 2 (code 2 below it), thread 1. */
static void add_prelude(struct buf *b)
{
	add_string(b, 1, 1, "app.py", 6);
	add_string(b, 2, 2, "\x2d\x4e\x78\0", 4); /* U+4E2D and an x */
	add_string(b, 3, 0, table_one, 2);
	add_string(b, 4, 1, "inner", 5);
	add_string(b, 5, 0, table_two, 8);
	add_record(b, REC_CODE, "uuuusu", U(1), U(1), U(2), U(3), S(10), U(67));
	add_record(b, REC_CODE, "uuuusu", U(2), U(1), U(4), U(5), S(20), U(3));
	add_record(b, REC_NODE, "uuuuu", U(1), U(0), U(0), U(REC_NODE_PYTHON), U(1));
	add_record(b, REC_NODE, "uuuuu", U(2), U(1), U(1), U(REC_NODE_PYTHON), U(2));
	add_record(b, REC_THREAD, "uuuu", U(1), U(77), U(0x7000), U(0));
}

static void add_ticks(struct buf *b, uint64_t first, uint64_t count)
{
	add_record(b, REC_TICKS, "uuuuuu", first, count, U(1000 + first * 10), U(10),
		U(0), U(0));
}

static void add_run(struct buf *b, uint64_t thread, uint64_t node, uint64_t position1,
	uint64_t state, uint64_t first, uint64_t count)
{
	add_record(b, REC_RUN, "uuuuuu", thread, node, position1, state, first, count);
}

/* What is said of CPU time for the case that nothing follows: it counts if nothing
 * does, the last of it. */
static void test_unsaid(void)
{
	struct buf in = BUF_INIT(1 << 20), out = BUF_INIT(DUMP_MAX_BYTES);
	struct session s;

	session_begin(&s, PY_LINES_LOCATIONS);
	add_prelude(&in);
	add_record(&in, REC_THREAD, "uuuu", U(2), U(78), U(0x8000), U(0));
	add_record(&in, REC_THREAD, "uuuu", U(3), U(79), U(0x9000), U(0));
	for (uint64_t thread = 1; thread <= 3; thread++)
		add_run(&in, thread, 1, 1, 0, 0, 10);
	for (uint64_t thread = 1; thread <= 3; thread++)
		add_record(&in, REC_CPU, "uuuuuuu", thread, U(4), U(400), U(4),
			U(REC_CPU_SO_FAR), U(0), U(0));
	add_record(&in, REC_CPU, "uuuuuuu", U(1), U(10), U(1000), U(5),
		U(REC_CPU_SO_FAR), U(0), U(0));
	add_record(&in, REC_CPU, "uuuu", U(2), U(10), U(2000), U(6));
	add_record(&in, REC_CLOCK, "uu", U(5000), U(1000));
	add_ticks(&in, 0, 10);
	add_record(&in, REC_CUT, "uu", U(10), U(6000));
	tap_is(feed(&s, in.data, in.size), (int64_t)in.size, "accounts so far");
	decoder_end_unsaid(s.d, 2000);
	session_end(&s, &out);
	tap_ok(has_line(buf_text(&out), "cpu 1 tick 10 ns 1000 runs 5") &&
			has_line(buf_text(&out), "cpu 2 tick 10 ns 2000 runs 6"),
		"the last ones count");
	tap_ok(has_line(buf_text(&out), "cpu 3 tick 10 ns 400 runs 4"),
		"also one from before the last cut, where that is");
	tap_ok(has_line(buf_text(&out), "gap 1 from 1100 to 6000 reason 4"),
		"what nobody told of is a gap");
	tap_ok(!has_line(buf_text(&out), "cpu 1 tick 4 ns 400 runs 4") &&
			!has_line(buf_text(&out), "cpu 2 tick 4 ns 400 runs 4"),
		"those that others follow do not");
	buf_done(&in);
	buf_done(&out);
}

/* Runs do not go on over a change of phase; of strata and accounts, what a part of the
 * threads, a limit or a coarse account add. */
static void test_states(void)
{
	struct buf in = BUF_INIT(1 << 20), out = BUF_INIT(DUMP_MAX_BYTES);
	struct session s;

	session_begin(&s, PY_LINES_LOCATIONS);
	add_prelude(&in);
	add_string(&in, 6, 1, "Last.__del__", 12);
	add_record(&in, REC_CODE, "uuuusu", U(3), U(1), U(6), U(5), S(30), U(3));
	add_record(&in, REC_NODE, "uuuuu", U(3), U(2), U(1), U(REC_NODE_PYTHON), U(3));
	add_record(&in, REC_PHASE, "uu", U(REC_PHASE_STARTING), U(0));
	add_run(&in, 1, 1, 1, 0, 0, 4);
	add_record(&in, REC_PHASE, "uu", U(REC_PHASE_RUNNING), U(4));
	add_run(&in, 1, 1, 1, 0, 4, 2);
	add_run(&in, 1, 1, 1, REC_GIL_WAIT, 6, 1);
	add_run(&in, 1, 1, 1, REC_RUNNING | REC_GIL | REC_GC, 7, 1);
	add_run(&in, 1, 3, 1, REC_RUNNING | REC_GIL | REC_GC, 8, 2);
	add_record(&in, REC_CPU, "uuuuuuu", U(1), U(9), U(5), U(6),
		U(REC_CPU_ANEW | REC_CPU_COARSE), U(7), U(8));
	add_record(&in, REC_TICKS, "uuuuuuuuu", U(0), U(10), U(1000), U(10),
		U(REC_TICKS_LIMITED | REC_TICKS_SUBSET), U(100), U(7), U(1), U(3));
	add_record(&in, REC_CUT, "uu", U(10), U(6000));
	tap_is(feed(&s, in.data, in.size), (int64_t)in.size, "states are read");
	session_end(&s, &out);
	static const char *const lines[] = {
		"ticks 1 first 0 count 10 start 1000 length 10 flags 6 subset 7 of 100 late 3\n",
		"phase 1 is 1 from 0\n",
		"phase 1 is 0 from 4\n",
		"run 1 node 1 line 0 state 0 first 0 ticks 4\n",
		"run 1 node 1 line 0 state 0 first 4 ticks 2\n",
		"run 1 node 1 line 0 state 16 first 6 ticks 1\n",
		"run 1 node 1 line 0 state 7 first 7 ticks 1\n",
		/* The collector has called the finalizer. */
		"run 1 node 3 line 0 state 3 first 8 ticks 2\n",
		"cpu 1 tick 9 ns 5 runs 6 flags 3 delay 7 lost 8\n",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		tap_ok(strstr(buf_text(&out), lines[i]) != NULL, "%.*s",
			(int)strlen(lines[i]) - 1, lines[i]);
	buf_done(&in);
	buf_done(&out);
}

/* How memory is read. */

static unsigned named;

static void name_mapping(uint64_t address, struct buf *name, void *context)
{
	named++;
	if (context == &named && address == 0x5000)
		buf_add_str(name, "/lib/taker.so");
}

static void add_copy(
	struct buf *b, uint64_t state, uint64_t flags, uint64_t segv, uint64_t bus)
{
	add_record(b, REC_COPY, "uuuuu", state, flags, segv, bus, U(77));
}

static bool move_to_memory(struct session *s)
{
	struct file_segment segment = { .segment = 1, .why = FILE_WHY_SPAWN };
	static const struct file_summary nothing = { 0 };
	struct file_writer *other;

	if (file_writer_open_memory(1, &other, &s->err) != 0)
		return false;
	file_writer_segment(other, &segment);
	decoder_move(s->d, other, 1);
	(void)file_writer_publish(s->w, &s->err);
	(void)file_writer_close(s->w, &nothing, &s->err);
	s->w = other;
	return true;
}

static void are_lines(const char *text, const char *const *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!tap_ok(strstr(text, lines[i]) != NULL, "%.*s",
			    (int)strlen(lines[i]) - 1, lines[i]))
			printf("# %s", text);
}

static void test_copies(void)
{
	static const struct file_summary nothing = { 0 };
	static const char *const before[] = {
		"copy 1 at 77 state 2 flags 7 warmup 0 owner 0 '' owner 0 ''\n",
		"copy 1 at 77 state 3 flags 7 warmup 0 owner 0 '' owner 0 ''\n",
		"copy 1 at 77 state 1 flags 31 warmup 0 owner 5000 '/lib/taker.so' "
		"owner 0 ''\n",
		"copy 1 at 77 state 1 flags 63 warmup 0 owner 5000 '/lib/taker.so' "
		"owner 1 ''\n",
	};
	static const char *const after[] = {
		"copy 1 at 77 state 1 flags 63 warmup 0 owner 5000 '/lib/taker.so' "
		"owner 1 ''\n",
		"copy 1 at 99 state 4 flags 63 warmup 12 owner 5000 '/lib/taker.so' "
		"owner 6000 ''\n",
	};
	struct file_copy last = { .mono_ns = 99,
		.state = RING_COPY_STOPPED,
		.flags = RING_COPY_FLAGS,
		.warmup_ns = 12,
		.owner = { 0x5000, 0x6000 } };
	struct buf in = BUF_INIT(1 << 20), first = BUF_INIT(DUMP_MAX_BYTES),
		   second = BUF_INIT(DUMP_MAX_BYTES), bytes = BUF_INIT(0),
		   whole = BUF_INIT(DUMP_MAX_BYTES);
	struct session s;

	session_begin(&s, PY_LINES_LOCATIONS);
	decoder_set_namer(s.d, name_mapping, &named);
	tap_ok(decoder_copy(s.d) == NULL, "of a task nothing is told");
	add_copy(&in, RING_COPY_WARMUP, 7, 0, 0);
	add_copy(&in, RING_COPY_BY_LOAD, 7, 0, 0);
	add_copy(&in, RING_COPY_BY_SYSCALL, 7 | 8 | RING_COPY_TAKEN_SEGV, 0x5000, 0);
	add_copy(&in, RING_COPY_BY_SYSCALL, RING_COPY_FLAGS, 0x5000, 1);
	tap_is(feed(&s, in.data, in.size), (int64_t)in.size,
		"ways to read memory are read");
	tap_ok(decoder_copy(s.d) != NULL &&
			decoder_copy(s.d)->state == RING_COPY_BY_SYSCALL &&
			strcmp(decoder_owner(s.d, 0), "/lib/taker.so") == 0 &&
			decoder_owner(s.d, 1)[0] == '\0',
		"the last one is known");
	tap_is(named, 1, "an owner is looked for once, and where it is an address");
	if (!tap_ok(move_to_memory(&s), "another file"))
		return;
	decoder_tell_copy(s.d, &last);
	tap_is(named, 2, "a new owner is looked for");
	buf_clear(&in);
	for (unsigned i = 0; i < 252; i++)
		add_copy(&in, i % 2 + 1, 0, i + 2, 0);
	tap_is(feed(&s, in.data, in.size), (int64_t)in.size,
		"there are more than will ever be");
	buf_clear(&in);
	add_copy(&in, 1, 0, 0, 0);
	tap_is(feed(&s, in.data, in.size), -E_BADFORMAT, "but not without end");
	decoder_free(s.d);
	(void)file_writer_take(s.w, &nothing, &bytes, &s.err);
	read_bytes(scratch("file"), &whole);
	(void)dump_bytes(whole.data, whole.size, &first, &s.err);
	(void)dump_bytes(bytes.data, bytes.size, &second, &s.err);
	are_lines(buf_text(&first), before, sizeof(before) / sizeof(before[0]));
	are_lines(buf_text(&second), after, sizeof(after) / sizeof(after[0]));
	buf_done(&in);
	buf_done(&first);
	buf_done(&second);
	buf_done(&bytes);
	buf_done(&whole);
}

static void add_recording(struct buf *b)
{
	add_record(b, REC_CLOCK, "uu", U(5000), U(1000));
	add_prelude(b);
	add_run(b, 1, 2, 1, REC_RUNNING | REC_GIL, 0, 4); /* line 20 */
	add_run(b, 1, 2, 3, REC_RUNNING | REC_GIL, 4, 2); /* line 21 */
	add_run(b, 1, 2, 5, 0, 6, 2);                     /* line 22 */
	add_run(b, 1, 2, 0, 0, 8, 2);                     /* not begun */
	add_record(b, REC_CPU, "uuuu", U(1), U(10), U(123456), U(5));
	add_record(b, REC_TICKS, "uuuuuuuu", U(0), U(10), U(1000), U(10), U(0), U(2),
		U(3), U(6));
	add_record(b, REC_CUT, "uu", U(10), U(6000));
	add_record(b, REC_OPTIONAL | 44, "u", U(7)); /* of a newer task */
	add_record(b, REC_GAP, "uuu", U(1100), U(1200), U(REC_GAP_PARKED));
	add_run(b, 1, 1, 1, 0, 0, 5); /* from the new base */
	add_record(b, REC_TICKS, "uuuuuu", U(10), U(5), U(1200), U(10),
		U(REC_TICKS_SPIN), U(0));
	add_record(b, REC_THREAD_END, "uu", U(1), U(15));
	add_record(b, REC_CUT, "uu", U(15), U(7000));
	add_record(b, REC_END, "usu", U(RING_LEAVE_EXITED), S(0), U(7000));
}

/* What the file then holds, line by line. */
static void expect_recording(struct buf *b)
{
	buf_printf(b,
		"thread 1 segment 1 tid 77 python 7000 interpreter 0 ''\n"
		"string 1 'app.py'\n"
		"string 2 '\xe4\xb8\xadx'\n"
		"function 1 file 1 name 2 line 10 table %llx flags 67\n"
		"node 1 caller 0 call none kind 0 ref 1\n"
		"string 3 'inner'\n"
		"function 2 file 1 name 3 line 20 table %llx flags 3\n"
		"node 2 caller 1 call 0 kind 0 ref 2\n"
		"flush\n"
		"ticks 1 first 0 count 10 start 1000 length 10 flags 0 late 3 9\n"
		"ticks 1 first 10 count 5 start 1200 length 10 flags 1 late\n"
		"run 1 node 2 line 0 state 3 first 0 ticks 4\n"
		"run 1 node 2 line 1 state 3 first 4 ticks 2\n"
		"run 1 node 2 line 2 state 0 first 6 ticks 2\n"
		"run 1 node 2 line 0 state 0 first 8 ticks 2\n"
		"run 1 node 1 line 0 state 0 first 10 ticks 5\n"
		"clock 1 mono 5000 real 1000\n"
		"cpu 1 tick 10 ns 123456 runs 5\n"
		"gap 1 from 1100 to 1200 reason 1\n"
		"thread-end 1 tick 15\n"
		"flush\n"
		"summary segments 0 samples 0 lost 0 mono 0\n"
		"flush\n"
		"end, complete\n",
		(unsigned long long)hash_bytes(table_one, 2),
		(unsigned long long)hash_bytes(table_two, 8));
}

static void is_recording(const struct buf *got, const char *what)
{
	struct buf wanted = BUF_INIT(1 << 20);

	expect_recording(&wanted);
	if (!tap_ok(strcmp(buf_text(got), buf_text(&wanted)) == 0, "%s", what))
		for (const char *at = buf_text(got); *at != '\0';
			at += strcspn(at, "\n") + 1)
			printf("# %.*s\n", (int)strcspn(at, "\n"), at);
	buf_done(&wanted);
}

static void test_good(void)
{
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

	add_recording(&b);
	session_begin(&s, PY_LINES_LOCATIONS);
	tap_is(feed(&s, b.data, b.size), (int64_t)b.size, "a recording is decoded");
	tap_ok(s.cut, "a cut is told");
	tap_is((int64_t)decoder_stats(s.d)->samples, 15, "its samples are counted");
	tap_is((int64_t)decoder_stats(s.d)->lost, 0, "none is lost");
	tap_is((int64_t)decoder_stats(s.d)->threads, 1, "one thread");
	tap_is(decoder_clock_offset(s.d), 4000, "and the clocks' distance");

	struct decoder_thread *t = decoder_thread_at(s.d, 0);

	tap_ok(t != NULL && t->tid == 77 && t->python_id == 0x7000 && t->ended &&
			!t->named,
		"the thread is known");
	tap_ok(decoder_thread_at(s.d, 1) == NULL, "and no other");
	session_end(&s, &got);
	is_recording(&got, "the file holds what the ring said");
	buf_done(&b);
	buf_done(&got);
	decoder_free(NULL);
}

/* In two parts, cut at every byte: the second call gets what the first left. */
static void test_cut_anywhere(void)
{
	struct buf b = BUF_INIT(1 << 20), first = BUF_INIT(DUMP_MAX_BYTES);
	bool left = true, same = true;

	add_recording(&b);
	for (size_t at = 0; at <= b.size; at++) {
		struct session s;
		struct buf got = BUF_INIT(DUMP_MAX_BYTES);

		session_begin(&s, PY_LINES_LOCATIONS);
		int64_t used = feed(&s, b.data, at);

		left &= used >= 0 && used <= (int64_t)at;
		if (used >= 0)
			used += feed(&s, b.data + used, b.size - (size_t)used);
		left &= used == (int64_t)b.size;
		session_end(&s, &got);
		if (at == 0)
			buf_add(&first, got.data, got.size);
		same &= strcmp(buf_text(&first), buf_text(&got)) == 0;
		buf_done(&got);
	}
	tap_ok(left, "records cut at any byte are left for the next call");
	is_recording(&first, "from nothing and all");
	tap_ok(same, "and the file is the same, wherever it was cut");

	/* Byte by byte, as of a slow writer. */
	struct session s;
	struct buf got = BUF_INIT(DUMP_MAX_BYTES);
	size_t start = 0;
	bool right = true;

	session_begin(&s, PY_LINES_LOCATIONS);
	for (size_t end = 1; end <= b.size; end++) {
		int64_t used = feed(&s, b.data + start, end - start);

		right &= used >= 0;
		start += used > 0 ? (size_t)used : 0;
	}
	session_end(&s, &got);
	tap_ok(right && start == b.size, "byte by byte");
	is_recording(&got, "it is the same still");
	buf_done(&got);
	buf_done(&first);
	buf_done(&b);
}

/* --- pieces and epochs --- */

static void test_long_string(void)
{
	enum { SIZE = REC_STRING_MAX };
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);
	char *text = xmalloc(SIZE);

	memset(text, 'n', SIZE);
	for (size_t at = 0; at < SIZE; at += REC_STRING_PIECE) {
		struct buf payload = BUF_INIT(1 << 20);

		buf_add_uvarint(&payload, 1);
		buf_add_uvarint(&payload, 1);
		buf_add_uvarint(&payload, SIZE);
		buf_add_uvarint(&payload, at);
		buf_add(&payload, text + at, REC_STRING_PIECE);
		buf_add_uvarint(&b, payload.size + 1);
		buf_add_byte(&b, REC_STRING);
		buf_add(&b, payload.data, payload.size);
		buf_done(&payload);
	}
	add_string(&b, 2, 0, "", 0);
	add_record(&b, REC_CODE, "uuuusu", U(1), U(1), U(1), U(2), S(1), U(0));
	add_record(&b, REC_NODE, "uuuuu", U(1), U(0), U(0), U(REC_NODE_PYTHON), U(1));
	add_record(&b, REC_THREAD, "uuuu", U(1), U(77), U(1), U(0));
	add_run(&b, 1, 1, 1, 0, 0, 1);
	add_ticks(&b, 0, 1);
	session_begin(&s, PY_LINES_LOCATIONS);
	tap_is(feed(&s, b.data, b.size), (int64_t)b.size, "a string in pieces");
	session_end(&s, &got);
	const char *string = strstr(buf_text(&got), "string 1 '");

	tap_ok(string != NULL && strspn(string + 10, "n") == SIZE &&
			string[10 + SIZE] == '\'',
		"is one string");
	tap_ok(has_line(buf_text(&got), "run 1 node 1 line none "),
		"an empty table has no lines");
	free(text);
	buf_done(&b);
	buf_done(&got);
}

/* Numbers start over, threads and ticks go on; what was seen before keeps its meaning.
 */
static void test_epoch(void)
{
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

	add_prelude(&b);
	add_run(&b, 1, 2, 1, 0, 0, 2);
	add_record(&b, REC_EPOCH, "u", U(2));
	add_string(&b, 1, 1, "other.py", 8);
	add_string(&b, 2, 0, table_one, 2);
	add_record(&b, REC_CODE, "uuuusu", U(1), U(1), U(1), U(2), S(1), U(0));
	add_record(&b, REC_NODE, "uuuuu", U(1), U(0), U(0), U(REC_NODE_PYTHON), U(1));
	add_run(&b, 1, 1, 1, 0, 2, 2);
	add_ticks(&b, 0, 4);
	session_begin(&s, PY_LINES_LOCATIONS);
	tap_is(feed(&s, b.data, b.size), (int64_t)b.size, "an epoch of the task");
	session_end(&s, &got);
	tap_ok(has_line(buf_text(&got), "string 4 'other.py'") &&
			has_line(buf_text(&got),
				"run 1 node 2 line 0 state 0 first 0 ticks 2") &&
			has_line(buf_text(&got),
				"run 1 node 3 line 0 state 0 first 2 ticks 2"),
		"runs before and behind it have their own nodes");
	tap_ok(!has_line(buf_text(&got), "damaged"), "and the file is good");
	buf_done(&b);
	buf_done(&got);
}

/* An epoch of the file ends in a flush: what the task defined once is written again. */
static void test_file_epoch(void)
{
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

	session_begin(&s, PY_LINES_LOCATIONS);
	add_prelude(&b);
	add_run(&b, 1, 2, 1, 0, 0, 2);
	add_ticks(&b, 0, 2);
	(void)feed(&s, b.data, b.size);
	for (uint32_t i = 0; i < 140000; i++) {
		struct file_node n = { 0, 0, REC_NODE_TRUNCATED, i };

		(void)file_writer_node(s.w, &n);
	}
	decoder_close_runs(s.d);
	(void)file_writer_flush(s.w, NULL);
	buf_clear(&b);
	add_run(&b, 1, 2, 1, 0, 2, 2);
	add_ticks(&b, 2, 2);
	tap_ok(feed(&s, b.data, b.size) == (int64_t)b.size &&
			file_writer_epoch(s.w) == 2,
		"an epoch of the file");
	session_end(&s, &got);
	const char *behind = strstr(buf_text(&got), "\nepoch\n");

	tap_ok(behind != NULL && has_line(behind, "string 1 'app.py'") &&
			has_line(behind, "node 2 caller 1 ") &&
			has_line(behind, "run 1 node 2 line 0 state 0 first 2 ticks 2"),
		"all that a run needs is written again");
	buf_done(&b);
	buf_done(&got);
}

/* --- runs --- */

static void test_runs_wait(void)
{
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

	session_begin(&s, PY_LINES_LOCATIONS);
	add_prelude(&b);
	add_run(&b, 1, 2, 1, 0, 0, 2);
	add_run(&b, 1, 2, 2, 0, 2, 2); /* another position of the same line */
	add_run(&b, 1, 2, 1, 0, 4, 2);
	(void)feed(&s, b.data, b.size);
	tap_is((int64_t)decoder_stats(s.d)->samples, 0, "runs wait for their strata");
	buf_clear(&b);
	add_ticks(&b, 0, 4);
	(void)feed(&s, b.data, b.size);
	tap_is((int64_t)decoder_stats(s.d)->samples, 4, "and come with them");
	decoder_close_runs(s.d);
	(void)file_writer_flush(s.w, NULL);
	buf_clear(&b);
	add_ticks(&b, 4, 2);
	add_run(&b, 1, 2, 1, 0, 6, 1);
	add_run(&b, 1, 2, 1, REC_GIL, 7, 1);
	add_run(&b, 1, 2, 1, REC_GIL, 9, 1);
	/* Their strata were lost: a cut says that no more will come. */
	add_record(&b, REC_CUT, "uu", U(10), U(0));
	(void)feed(&s, b.data, b.size);
	tap_is((int64_t)decoder_stats(s.d)->samples, 9,
		"without strata they come at the cut");
	session_end(&s, &got);
	tap_ok(strstr(buf_text(&got),
		       "\nrun 1 node 2 line 0 state 0 first 0 ticks 4\nflush\n") !=
			NULL,
		"runs that go on at the same line are one");
	tap_ok(strstr(buf_text(&got),
		       "\nrun 1 node 2 line 0 state 0 first 4 ticks 3\n"
		       "run 1 node 2 line 0 state 2 first 7 ticks 1\n"
		       "run 1 node 2 line 0 state 2 first 9 ticks 1\nflush\n") != NULL,
		"unless a flush, a state or a hole lies between");
	buf_done(&b);
	buf_done(&got);
}

static void test_kinds_of_nodes(void)
{
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

	session_begin(&s, PY_LINES_LOCATIONS);
	add_prelude(&b);
	add_record(
		&b, REC_NODE, "uuuuu", U(3), U(0), U(0), U(REC_NODE_TRUNCATED), U(40));
	add_record(&b, REC_NODE, "uuuuu", U(4), U(3), U(9), U(REC_NODE_PYTHON), U(1));
	add_record(
		&b, REC_NODE, "uuuuu", U(5), U(0), U(0), U(REC_NODE_UNREADABLE), U(0));
	/* Called from a place without a line, and from beyond the table. */
	add_record(
		&b, REC_NODE, "uuuuu", U(6), U(2), U(1000), U(REC_NODE_PYTHON), U(1));
	add_run(&b, 1, 4, 1, 0, 0, 1);
	add_run(&b, 1, 5, 0, REC_APPROXIMATE, 1, 1);
	add_record(&b, REC_NODE, "uuuuu", U(7), U(0), U(0), U(REC_NODE_NO_FRAME), U(0));
	add_run(&b, 1, 6, 1 << 28, 0, 2, 1);
	add_run(&b, 1, 3, 0, 0, 3, 1);
	add_run(&b, 1, 7, 0, REC_RUNNING | REC_GIL | REC_GC, 4, 1);
	add_ticks(&b, 0, 5);
	tap_is(feed(&s, b.data, b.size), (int64_t)b.size, "nodes of every kind");
	session_end(&s, &got);
	tap_ok(has_line(buf_text(&got), "node 1 caller 0 call none kind 1 ref 40") &&
			has_line(buf_text(&got),
				"node 2 caller 1 call none kind 0 ref 1") &&
			has_line(buf_text(&got),
				"node 3 caller 0 call none kind 2 ref 0") &&
			has_line(buf_text(&got),
				"node 7 caller 0 call none kind 3 ref 0"),
		"are written as they are");
	tap_ok(has_line(buf_text(&got),
		       "run 1 node 3 line none state 8 first 1 ticks 1") &&
			has_line(buf_text(&got),
				"run 1 node 1 line none state 0 first 3 ticks 1") &&
			has_line(buf_text(&got),
				"run 1 node 7 line none state 7 first 4 ticks 1"),
		"what is no function stands at no line");
	tap_ok(has_line(buf_text(&got), "node 6 caller 5 call 2 kind 0 ref 1") &&
			!has_line(buf_text(&got), "damaged"),
		"a position beyond the table is at its last line");
	buf_done(&b);
	buf_done(&got);
}

static void test_lines_of_kinds(void)
{
	/* No line from 2 to 4, then line 12. */
	static const struct {
		enum py_linetable_kind kind;
		const char *table;
		size_t size;
		const char *lines[3]; /* of positions 0, 2, 4 */
	} cases[] = {
		{ PY_LINES_LNOTAB, "\2\0\2\2", 4, { "0", "0", "2" } },
		{ PY_LINES_RANGES, "\2\0\2\x80\2\2", 6, { "0", "none", "2" } },
		{ PY_LINES_LOCATIONS, "\x80\1\xf8\xe8\4", 5, { "0", "none", "2" } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct session s;
		struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);
		bool right = true;

		session_begin(&s, cases[i].kind);
		add_string(&b, 1, 1, "f", 1);
		add_string(&b, 2, 0, cases[i].table, cases[i].size);
		add_record(&b, REC_CODE, "uuuusu", U(1), U(1), U(1), U(2), S(10), U(0));
		add_record(&b, REC_NODE, "uuuuu", U(1), U(0), U(0), U(0), U(1));
		add_record(&b, REC_THREAD, "uuuu", U(1), U(77), U(1), U(0));
		for (uint64_t k = 0; k < 3; k++)
			add_run(&b, 1, 1, 2 * k + 1, k % 2, k, 1);
		add_ticks(&b, 0, 3);
		right &= feed(&s, b.data, b.size) == (int64_t)b.size;
		session_end(&s, &got);
		for (unsigned k = 0; k < 3; k++) {
			char line[64];

			(void)snprintf(line, sizeof(line),
				"run 1 node 1 line %s state %u first %u ",
				cases[i].lines[k], k % 2, k);
			right &= has_line(buf_text(&got), line);
		}
		tap_ok(right, "lines by a table of kind %d", (int)cases[i].kind);
		buf_done(&b);
		buf_done(&got);
	}
}

static void test_names(void)
{
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

	session_begin(&s, PY_LINES_LOCATIONS);
	s.next_thread = 41; /* of other processes */
	add_prelude(&b);
	add_record(&b, REC_THREAD, "uuuu", U(3), U(79), U(1), U(0));
	(void)feed(&s, b.data, b.size);
	tap_is(s.next_thread, 43, "threads count over all processes");
	struct decoder_thread *t = decoder_thread_at(s.d, 2),
			      *hole = decoder_thread_at(s.d, 1);

	tap_ok(t != NULL && t->file_thread == 43 && hole != NULL &&
			hole->file_thread == 0,
		"a number that is left out is no thread");
	decoder_name_thread(s.d, t, REC_NAME_THREADING, "worker");
	tap_ok(t->named, "a thread gets its name");
	session_end(&s, &got);
	tap_ok(has_line(buf_text(&got),
		       "thread 43 segment 1 tid 79 python 1 interpreter 0 'worker'"),
		"which is written");
	buf_done(&b);
	buf_done(&got);
}

/* Thread `number`, its tid 100 more, with a name. */
static void add_named(struct buf *b, uint32_t number, uint32_t interpreter,
	enum record_name by, unsigned width, const void *bytes, size_t size)
{
	struct buf payload = BUF_INIT(FILE_RAW_MAX);

	buf_add_uvarint(&payload, number);
	buf_add_uvarint(&payload, 100 + number);
	buf_add_uvarint(&payload, 0x5000);
	buf_add_uvarint(&payload, interpreter);
	buf_add_uvarint(&payload, 0);
	buf_add_uvarint(&payload, by);
	buf_add_uvarint(&payload, width);
	buf_add(&payload, bytes, size);
	buf_add_uvarint(b, payload.size + 1);
	buf_add_byte(b, REC_THREAD);
	buf_add(b, payload.data, payload.size);
	buf_done(&payload);
}

/* A thread of the kernel's that comes into Python twice, and others that are none. */
static void test_comes_again(void)
{
	static const struct {
		uint64_t number, tid, interpreter, began;
	} others[] = { { 4, 77, 1, 500 }, { 5, 77, 0, 501 }, { 6, 78, 0, 500 },
		{ 7, 77, 0, 0 } };
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

	add_prelude(&b);
	add_record(&b, REC_THREAD, "uuuuu", U(2), U(77), U(9), U(0), U(500));
	add_run(&b, 2, 1, 1, 0, 0, 5);
	add_record(&b, REC_CPU, "uuuu", U(2), U(5), U(1000), U(3));
	add_record(&b, REC_THREAD_END, "uu", U(2), U(5));
	add_record(&b, REC_THREAD, "uuuuu", U(3), U(77), U(9), U(0), U(500));
	/* Where it stood when it ended is not told again, less is never said. */
	add_record(&b, REC_CPU, "uuuu", U(3), U(5), U(0), U(0));
	add_run(&b, 3, 1, 1, 0, 7, 3);
	add_record(&b, REC_CPU, "uuuu", U(3), U(10), U(1500), U(4));
	add_ticks(&b, 0, 10);
	add_record(&b, REC_CUT, "uu", U(10), U(6000));
	/* While it is here, no other one can be it. */
	add_record(&b, REC_THREAD, "uuuuu", U(8), U(77), U(9), U(0), U(500));
	add_record(&b, REC_THREAD_END, "uu", U(3), U(10));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		add_record(&b, REC_THREAD, "uuuuu", others[i].number, others[i].tid,
			U(9), others[i].interpreter, others[i].began);
	session_begin(&s, PY_LINES_LOCATIONS);
	tap_is(feed(&s, b.data, b.size), (int64_t)b.size, "a thread comes again");
	tap_is((int64_t)decoder_stats(s.d)->threads, 7, "and is no new one");
	session_end(&s, &got);
	tap_ok(has_line(
		       buf_text(&got), "run 2 node 1 line 0 state 0 first 0 ticks 5") &&
			has_line(buf_text(&got),
				"run 2 node 1 line 0 state 0 first 7 ticks 3"),
		"its runs are one thread's");
	tap_ok(has_line(buf_text(&got), "cpu 2 tick 5 ns 1000 runs 3") &&
			has_line(buf_text(&got), "cpu 2 tick 10 ns 1500 runs 4") &&
			!has_line(buf_text(&got), "cpu 2 tick 5 ns 0 runs 0"),
		"and so is its account");
	buf_done(&b);
	buf_done(&got);

	/* A number that stands for another cannot become one of its own. */
	static const uint64_t numbers[] = { 2, 3 };
	bool refused = true;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct buf more = BUF_INIT(1 << 20), rest = BUF_INIT(DUMP_MAX_BYTES);

		add_record(&more, REC_THREAD, "uuuuu", U(2), U(77), U(9), U(0), U(500));
		add_record(&more, REC_THREAD_END, "uu", U(2), U(5));
		add_record(&more, REC_THREAD, "uuuuu", U(3), U(77), U(9), U(0), U(500));
		add_record(&more, REC_THREAD, "uuuuu", numbers[i], U(99), U(9), U(0),
			U(7));
		session_begin(&s, PY_LINES_LOCATIONS);
		refused &= feed(&s, more.data, more.size) < 0;
		session_end(&s, &rest);
		buf_done(&more);
		buf_done(&rest);
	}
	tap_ok(refused, "numbers that are taken are refused");
}

/* Names that come with the thread, or behind it. */
static void test_sent_names(void)
{
	static const char *const lines[] = {
		"thread 1 segment 1 tid 101 python 5000 interpreter 0 'plain'",
		"thread 2 segment 1 tid 102 python 5000 interpreter 0 '\xc3\xa9'",
		"thread 3 segment 1 tid 103 python 5000 interpreter 0 '\xe4\xb8\xad'",
		"thread 4 segment 1 tid 104 python 5000 interpreter 0 '\xf0\x9f\x90\x8d'",
		/* Cut within a character. */
		"thread 5 segment 1 tid 105 python 5000 interpreter 0 'pool-\xc3\xa9'",
		"thread 6 segment 1 tid 106 python 5000 interpreter 0 ''",
		"thread 7 segment 1 tid 107 python 5000 interpreter 0 ''",
		"thread 7 segment 1 tid 107 python 5000 interpreter 0 'late'",
		"thread 8 segment 1 tid 101 python 5000 interpreter 2 'plain'",
		"thread 9 segment 1 tid 102 python 5000 interpreter 2 ''",
	};
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);
	bool right = true;

	add_named(&b, 1, 0, REC_NAME_THREADING, 1, "plain", 5);
	add_named(&b, 2, 0, REC_NAME_THREADING, 1, "\xe9", 1);
	add_named(&b, 3, 0, REC_NAME_THREADING, 2, "\x2d\x4e", 2);
	add_named(&b, 4, 0, REC_NAME_THREADING, 4, "\x0d\xf4\x01\0", 4);
	add_named(&b, 5, 0, REC_NAME_KERNEL, 0, "pool-\xc3\xa9\xf0\x9f", 9);
	add_named(&b, 6, 0, REC_NAME_THREADING, 1, "", 0);
	add_record(&b, REC_THREAD, "uuuu", U(7), U(107), U(0x5000), U(0));
	add_named(&b, 7, 0, REC_NAME_THREADING, 1, "late", 4);
	/* The first one in another interpreter; and one who is no other. */
	add_record(&b, REC_THREAD, "uuuu", U(8), U(101), U(0x5000), U(2));
	add_record(&b, REC_THREAD_END, "uu", U(2), U(1));
	add_record(&b, REC_THREAD, "uuuu", U(9), U(102), U(0x5000), U(2));
	session_begin(&s, PY_LINES_LOCATIONS);
	tap_is(feed(&s, b.data, b.size), (int64_t)b.size, "threads with names");
	tap_ok(decoder_thread_at(s.d, 0)->named == REC_NAME_THREADING &&
			decoder_thread_at(s.d, 4)->named == REC_NAME_KERNEL &&
			decoder_thread_at(s.d, 5)->named == REC_NAME_NONE &&
			decoder_thread_at(s.d, 6)->named == REC_NAME_THREADING &&
			decoder_thread_at(s.d, 7)->named == REC_NAME_THREADING &&
			decoder_thread_at(s.d, 8)->named == REC_NAME_NONE,
		"by whom they have them is known");
	session_end(&s, &got);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!has_line(buf_text(&got), lines[i])) {
			printf("# missing: %s\n", lines[i]);
			right = false;
		}
	tap_ok(right, "and they are written in UTF-8");
	buf_done(&b);
	buf_done(&got);
}

static void test_bad_names(void)
{
	static const struct {
		unsigned by, width;
		size_t size;
	} cases[] = { { REC_NAME_COUNT, 1, 4 }, { REC_NAME_THREADING, 3, 3 },
		{ REC_NAME_THREADING, 5, 5 }, { REC_NAME_THREADING, 2, 3 },
		{ REC_NAME_THREADING, 4, 6 },
		{ REC_NAME_THREADING, 1, REC_NAME_MAX + 1 } };
	static const char bytes[REC_NAME_MAX + 1];
	bool right = true;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct session s;
		struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

		session_begin(&s, PY_LINES_LOCATIONS);
		add_named(&b, 1, 0, (enum record_name)cases[i].by, cases[i].width,
			bytes, cases[i].size);
		right &= feed(&s, b.data, b.size) < 0;
		session_end(&s, &got);
		buf_done(&b);
		buf_done(&got);
	}
	tap_ok(right, "names that cannot be are refused");
}

/* --- bad records --- */

struct bad_record {
	const char *what;
	unsigned type;
	unsigned count; /* of numbers, each written as it is */
	uint64_t n[10];
	const char *bytes; /* behind them */
};

enum { HUGE_BIT = 63 };
#define HUGE (1ull << HUGE_BIT)

/* clang-format off */
static const struct bad_record bad_records[] = {
	{ "a timer of a thread that is not there", REC_TIMER, 7, { 2, 1, 1, 0, 0, 1, 1 }, "" },
	{ "a timer of node 0", REC_TIMER, 7, { 1, 0, 1, 0, 0, 1, 1 }, "" },
	{ "a timer of a node that is not there", REC_TIMER, 7, { 1, 99, 1, 0, 0, 1, 1 }, "" },
	{ "a timer at a huge position", REC_TIMER, 7, { 1, 1, HUGE, 0, 0, 1, 1 }, "" },
	{ "a timer at a huge tick", REC_TIMER, 7, { 1, 1, 1, 0, UINT64_MAX, 1, 1 }, "" },
	{ "a timer of a huge time", REC_TIMER, 7, { 1, 1, 1, 0, 0, UINT64_MAX, 1 }, "" },
	{ "a timer of no samples", REC_TIMER, 7, { 1, 1, 1, 0, 0, 1, 0 }, "" },
	{ "a timer that is cut", REC_TIMER, 6, { 1, 1, 1, 0, 0, 1 }, "" },
	{ "a string with number 0", REC_STRING, 4, { 0, 1, 1, 0 }, "x" },
	{ "a string with a number too high", REC_STRING, 4, { (1 << 17) + 1, 1, 1, 0 }, "x" },
	{ "a string with a huge number", REC_STRING, 4, { UINT64_MAX, 1, 1, 0 }, "x" },
	{ "a string of width 3", REC_STRING, 4, { 6, 3, 1, 0 }, "x" },
	{ "a string of width 5", REC_STRING, 4, { 6, 5, 1, 0 }, "x" },
	{ "a string of a huge width", REC_STRING, 4, { 6, HUGE, 1, 0 }, "x" },
	{ "a string too long", REC_STRING, 4, { 6, 1, REC_STRING_MAX + 1, 0 }, "x" },
	{ "a string of a huge length", REC_STRING, 4, { 6, 1, UINT64_MAX, 0 }, "x" },
	{ "a piece at a huge offset", REC_STRING, 4, { 6, 1, 10, UINT64_MAX }, "x" },
	{ "a later piece before the first", REC_STRING, 4, { 6, 1, 10, 5 }, "x" },
	{ "a piece beyond the string's end", REC_STRING, 4, { 6, 1, 2, 0 }, "xyz" },
	{ "more for a string that is whole", REC_STRING, 4, { 1, 1, 6, 6 }, "x" },
	{ "a string that comes again", REC_STRING, 4, { 1, 1, 6, 0 }, "app.py" },
	{ "a string that comes again, shorter", REC_STRING, 4, { 1, 1, 1, 0 }, "x" },
	{ "a string that is cut in its numbers", REC_STRING, 3, { 6, 1, 1 }, "" },
	{ "a code with number 0", REC_CODE, 6, { 0, 1, 4, 5, 2, 0 }, "" },
	{ "a code with a number too high", REC_CODE, 6, { (1 << 17) + 1, 1, 4, 5, 2, 0 }, "" },
	{ "a code that comes again", REC_CODE, 6, { 1, 1, 4, 5, 2, 0 }, "" },
	{ "a code of no file", REC_CODE, 6, { 3, 0, 4, 5, 2, 0 }, "" },
	{ "a code of a file that is not there", REC_CODE, 6, { 3, 6, 4, 5, 2, 0 }, "" },
	{ "a code of a huge name", REC_CODE, 6, { 3, 1, UINT64_MAX, 5, 2, 0 }, "" },
	{ "a code without a table", REC_CODE, 6, { 3, 1, 4, 0, 2, 0 }, "" },
	{ "a code whose file is bytes", REC_CODE, 6, { 3, 3, 4, 5, 2, 0 }, "" },
	{ "a code whose name is bytes", REC_CODE, 6, { 3, 1, 5, 5, 2, 0 }, "" },
	{ "a code with a huge line", REC_CODE, 6, { 3, 1, 4, 5, UINT64_MAX, 0 }, "" },
	{ "a code with a line of 33 bits", REC_CODE, 6, { 3, 1, 4, 5, 1ull << 33, 0 }, "" },
	{ "a code with huge flags", REC_CODE, 6, { 3, 1, 4, 5, 2, HUGE }, "" },
	{ "a code that is cut", REC_CODE, 5, { 3, 1, 4, 5, 2 }, "" },
	{ "a node with number 0", REC_NODE, 5, { 0, 0, 0, 0, 1 }, "" },
	{ "a node that leaves a hole", REC_NODE, 5, { 4, 0, 0, 0, 1 }, "" },
	{ "a node that comes again", REC_NODE, 5, { 2, 0, 0, 0, 1 }, "" },
	{ "a node with a huge number", REC_NODE, 5, { UINT64_MAX, 0, 0, 0, 1 }, "" },
	{ "a node below itself", REC_NODE, 5, { 3, 3, 0, 0, 1 }, "" },
	{ "a node below a later one", REC_NODE, 5, { 3, 4, 0, 0, 1 }, "" },
	{ "a node below a huge one", REC_NODE, 5, { 3, HUGE, 0, 0, 1 }, "" },
	{ "a node of no code", REC_NODE, 5, { 3, 0, 0, 0, 0 }, "" },
	{ "a node of a code that is not there", REC_NODE, 5, { 3, 0, 0, 0, 3 }, "" },
	{ "a call at a huge position", REC_NODE, 5, { 3, 1, (1 << 28) + 1, 0, 1 }, "" },
	{ "a node of a huge kind", REC_NODE, 5, { 3, 0, 0, 256, 1 }, "" },
	{ "a node with a huge reference", REC_NODE, 5, { 3, 0, 0, 1, 1ull << 32 }, "" },
	{ "a node that is cut", REC_NODE, 4, { 3, 0, 0, 0 }, "" },
	{ "thread 0", REC_THREAD, 4, { 0, 1, 1, 0 }, "" },
	{ "a thread that comes again", REC_THREAD, 4, { 1, 1, 1, 0 }, "" },
	{ "a thread far away", REC_THREAD, 4, { 70000, 1, 1, 0 }, "" },
	{ "a thread with a number too high", REC_THREAD, 4, { (1 << 20) + 1, 1, 1, 0 }, "" },
	{ "a thread with a huge id", REC_THREAD, 4, { 2, 1ull << 31, 1, 0 }, "" },
	{ "a thread that is cut", REC_THREAD, 3, { 2, 1, 1 }, "" },
	{ "the end of a thread that is not there", REC_THREAD_END, 2, { 2, 1 }, "" },
	{ "the end of thread 0", REC_THREAD_END, 2, { 0, 1 }, "" },
	{ "the end of a huge thread", REC_THREAD_END, 2, { UINT64_MAX, 1 }, "" },
	{ "the end of a thread, cut", REC_THREAD_END, 1, { 1 }, "" },
	{ "no ticks", REC_TICKS, 6, { 0, 0, 0, 1, 0, 0 }, "" },
	{ "too many ticks", REC_TICKS, 6, { 0, 1ull << 31, 0, 1, 0, 0 }, "" },
	{ "ticks too late to count", REC_TICKS, 6, { HUGE, 1, 0, 1, 0, 0 }, "" },
	{ "ticks too long", REC_TICKS, 6, { 0, 1, 0, UINT64_MAX, 0, 0 }, "" },
	{ "ticks too long together", REC_TICKS, 6, { 0, 1 << 30, 0, 1ull << 34, 0, 0 }, "" },
	{ "ticks of no thread", REC_TICKS, 8, { 0, 1, 0, 1, REC_TICKS_SUBSET, 5, 0, 0 }, "" },
	{ "more threads than there are", REC_TICKS, 8, { 0, 1, 0, 1, REC_TICKS_SUBSET, 5, 6, 0 }, "" },
	{ "a phase that there is not", REC_PHASE, 2, { 3, 0 }, "" },
	{ "a phase without a tick", REC_PHASE, 1, { 1 }, "" },
	{ "memory read in a way that there is not", REC_COPY, 5, { RING_COPY_STATES, 0, 0, 0, 5 }, "" },
	{ "memory read in a huge way", REC_COPY, 5, { HUGE, 0, 0, 0, 5 }, "" },
	{ "flags of reading that there are not", REC_COPY, 5, { 1, RING_COPY_FLAGS + 1, 0, 0, 5 }, "" },
	{ "a way to read without its time", REC_COPY, 4, { 1, 1, 2, 3 }, "" },
	{ "a way to read, cut", REC_COPY, 1, { 1 }, "" },
	{ "ticks with huge flags", REC_TICKS, 6, { 0, 1, 0, 1, HUGE, 0 }, "" },
	{ "more late ticks than ticks", REC_TICKS, 8, { 0, 1, 0, 1, 0, 2, 0, 0 }, "" },
	{ "too many late ticks", REC_TICKS, 8, { 0, 1 << 20, 0, 1, 0, 65537, 0, 0 }, "" },
	{ "a late tick behind the last", REC_TICKS, 7, { 0, 5, 0, 1, 0, 1, 5 }, "" },
	{ "a huge late tick", REC_TICKS, 7, { 0, 5, 0, 1, 0, 1, UINT64_MAX }, "" },
	{ "late ticks that are cut", REC_TICKS, 7, { 0, 5, 0, 1, 0, 2, 1 }, "" },
	{ "ticks that are cut", REC_TICKS, 5, { 0, 5, 0, 1, 0 }, "" },
	{ "a run of thread 0", REC_RUN, 6, { 0, 1, 0, 0, 0, 1 }, "" },
	{ "a run of a thread that is not there", REC_RUN, 6, { 2, 1, 0, 0, 0, 1 }, "" },
	{ "a run of node 0", REC_RUN, 6, { 1, 0, 0, 0, 0, 1 }, "" },
	{ "a run of a node that is not there", REC_RUN, 6, { 1, 3, 0, 0, 0, 1 }, "" },
	{ "a run of a huge node", REC_RUN, 6, { 1, HUGE, 0, 0, 0, 1 }, "" },
	{ "a run at a huge position", REC_RUN, 6, { 1, 1, (1 << 28) + 1, 0, 0, 1 }, "" },
	{ "a run in a state that is none", REC_RUN, 6, { 1, 1, 0, REC_STATE_MAX + 1, 0, 1 }, "" },
	{ "a run at a huge tick", REC_RUN, 6, { 1, 1, 0, 0, 1ull << 32, 1 }, "" },
	{ "a run of no ticks", REC_RUN, 6, { 1, 1, 0, 0, 0, 0 }, "" },
	{ "a run of too many ticks", REC_RUN, 6, { 1, 1, 0, 0, 0, 1ull << 31 }, "" },
	{ "a run before the one before it", REC_RUN, 6, { 1, 1, 0, 0, 9, 1 }, "" },
	{ "a run that is cut", REC_RUN, 5, { 1, 1, 0, 0, 10 }, "" },
	{ "CPU time of a thread that is not there", REC_CPU, 4, { 2, 0, 0, 0 }, "" },
	{ "CPU time at a huge tick", REC_CPU, 4, { 1, 1ull << 32, 0, 0 }, "" },
	{ "CPU time that is cut", REC_CPU, 3, { 1, 0, 0 }, "" },
	{ "a gap for a huge reason", REC_GAP, 3, { 1, 2, 256 }, "" },
	{ "a gap that is cut", REC_GAP, 2, { 1, 2 }, "" },
	{ "a cut before the last", REC_CUT, 2, { 4, 0 }, "" },
	{ "a cut at a huge tick", REC_CUT, 2, { UINT64_MAX, 0 }, "" },
	{ "a cut that is cut", REC_CUT, 1, { 100 }, "" },
	{ "a clock that is cut", REC_CLOCK, 1, { 100 }, "" },
	{ "a number of eleven bytes", REC_CLOCK, 0, { 0 }, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\1" },
	{ "type 0", 0, 1, { 1 }, "" },
	{ "a type that is not known", 14, 1, { 1 }, "" },
	{ "the last of these", 127, 1, { 1 }, "" },
};
/* clang-format on */

static void add_bad(struct buf *b, const struct bad_record *r)
{
	struct buf payload = BUF_INIT(1 << 20);

	for (unsigned i = 0; i < r->count; i++)
		buf_add_uvarint(&payload, r->n[i]);
	buf_add_str(&payload, r->bytes);
	buf_add_uvarint(b, payload.size + 1);
	buf_add_byte(b, r->type);
	buf_add(b, payload.data, payload.size);
	buf_done(&payload);
}

/* Each behind a good beginning, a run to tick 10, and a cut at 5. */
static void test_bad_records(void)
{
	for (size_t i = 0; i < sizeof(bad_records) / sizeof(bad_records[0]); i++) {
		const struct bad_record *bad = &bad_records[i];
		struct session s;
		struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);
		char wanted[64];

		session_begin(&s, PY_LINES_LOCATIONS);
		add_prelude(&b);
		add_record(&b, REC_CUT, "uu", U(5), U(0));
		add_run(&b, 1, 2, 1, 0, 0, 10);
		add_ticks(&b, 5, 10);
		/* The prelude by itself, so that it is known to be good. */
		bool good = feed(&s, b.data, b.size) == (int64_t)b.size;

		buf_clear(&b);
		add_bad(&b, bad);
		int64_t code = feed(&s, b.data, b.size);

		(void)snprintf(wanted, sizeof(wanted),
			"a record of type %u that cannot be", bad->type);
		bool right =
			good && code == -E_BADFORMAT && strcmp(s.err.text, wanted) == 0;

		session_end(&s, &got);
		/* What was good before it is in the file, and the file is good. */
		right &= has_line(buf_text(&got),
				 "run 1 node 2 line 0 state 0 first 5 ticks 10") &&
			 has_line(buf_text(&got), "end, complete") &&
			 !has_line(buf_text(&got), "damaged");
		if (!tap_ok(right, "%s", bad->what))
			printf("# code %lld, '%s'\n%s", (long long)code, s.err.text,
				buf_text(&got));
		buf_done(&b);
		buf_done(&got);
	}
}

static void test_bad_lengths(void)
{
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

	session_begin(&s, PY_LINES_LOCATIONS);
	tap_is(feed(&s, "", 0), 0, "nothing");
	buf_add_byte(&b, 0);
	tap_is(feed(&s, b.data, 1), -E_BADFORMAT, "a record without a type");
	session_end(&s, &got);
	buf_clear(&b);
	buf_clear(&got);

	session_begin(&s, PY_LINES_LOCATIONS);
	buf_add_uvarint(&b, 1000000);
	while (b.size < 40000)
		buf_add_byte(&b, 7);
	tap_ok(feed(&s, b.data, 100) <= 0, "one longer than any may be is not used");
	tap_is(feed(&s, b.data, b.size), -E_BADFORMAT, "nor is it waited for");
	session_end(&s, &got);
	buf_clear(&b);
	buf_clear(&got);

	session_begin(&s, PY_LINES_LOCATIONS);
	buf_add_str(&b, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	tap_ok(feed(&s, b.data, b.size) == -E_BADFORMAT,
		"a length beyond 64 bits is an error at once");
	session_end(&s, &got);
	buf_done(&b);
	buf_done(&got);
}

/* The distance to a late tick that leads back before the one before it. */
static bool late_ticks_rise(void)
{
	struct session s;
	struct buf b = BUF_INIT(1000), got = BUF_INIT(DUMP_MAX_BYTES);

	session_begin(&s, PY_LINES_LOCATIONS);
	add_record(&b, REC_TICKS, "uuuuuuuu", U(0), U(10), U(0), U(1), U(0), U(2), U(5),
		UINT64_MAX);
	int64_t code = feed(&s, b.data, b.size);

	session_end(&s, &got);
	buf_done(&b);
	buf_done(&got);
	return code == -E_BADFORMAT;
}

/* --- much of everything --- */

/* Strings up to the limit of an epoch, not beyond it. */
static void test_memory_limit(void)
{
	struct session s;
	struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);
	char piece[100] = "";
	uint64_t claimed = 0;
	int64_t code = 0;

	session_begin(&s, PY_LINES_LOCATIONS);
	for (uint64_t id = 1; code >= 0 && id < 1000; id++) {
		buf_clear(&b);
		add_record(&b, REC_STRING, "uuuup", U(id), U(1), U(REC_STRING_MAX),
			U(0), piece);
		code = feed(&s, b.data, b.size);
		claimed += code >= 0 ? REC_STRING_MAX : 0;
	}
	tap_ok(code == -E_BADFORMAT && claimed <= 64 << 20,
		"strings that are only announced take 64 MiB at most");
	session_end(&s, &got);
	buf_done(&b);
	buf_done(&got);
}

/* A stack as deep as there are nodes: no recursion. */
static void test_deep(void)
{
	enum { DEPTH = 1 << 18 };
	struct session s;
	struct buf b = BUF_INIT(16 << 20), got = BUF_INIT(DUMP_MAX_BYTES);

	session_begin(&s, PY_LINES_LOCATIONS);
	add_prelude(&b);
	for (uint64_t i = 3; i <= DEPTH; i++)
		add_record(&b, REC_NODE, "uuuuu", i, i - 1, U(1), U(0), U(2));
	add_run(&b, 1, DEPTH, 1, 0, 0, 1);
	add_ticks(&b, 0, 1);
	tap_is(feed(&s, b.data, b.size), (int64_t)b.size, "a stack of 262,144 frames");
	tap_is((int64_t)decoder_stats(s.d)->samples, 1, "is one sample");
	buf_clear(&b);
	add_record(&b, REC_NODE, "uuuuu", U(DEPTH + 1), U(0), U(0), U(0), U(2));
	tap_is(feed(&s, b.data, b.size), -E_BADFORMAT,
		"and there are no more nodes than that");
	session_end(&s, &got);
	tap_ok(has_line(buf_text(&got), "run 1 node 262144 "), "the file has it");
	buf_done(&b);
	buf_done(&got);
}

/* Random records with mostly small numbers: errors and good ones, and a good file. */
static void test_random(void)
{
	uint32_t random = 11, good = 0, bad = 0;
	bool readable = true;

	for (int round = 0; round < 150; round++) {
		struct session s;
		struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(DUMP_MAX_BYTES);
		int64_t code = 0;

		session_begin(&s, (enum py_linetable_kind)(1 + round % 3));
		add_prelude(&b);
		code = feed(&s, b.data, b.size);
		for (int k = 0; k < 300 && code >= 0; k++) {
			random = random * 1664525 + 1013904223;
			size_t size = random >> 20 & 7;

			buf_clear(&b);
			buf_add_uvarint(&b, size + 1);
			buf_add_byte(&b, 1 + (random >> 24) % 13);
			for (size_t i = 0; i < size; i++) {
				random = random * 1664525 + 1013904223;
				buf_add_byte(&b, random >> 29 == 0 ? random >> 20 & 0xff
								   : random >> 20 & 3);
			}
			code = feed(&s, b.data, b.size);
			good += code >= 0;
			bad += code < 0;
		}
		session_end(&s, &got);
		readable &= has_line(buf_text(&got), "end, complete") &&
			    !has_line(buf_text(&got), "damaged");
		buf_done(&b);
		buf_done(&got);
	}
	tap_ok(readable && bad > 100, "%u random records, %u refused: the file is good",
		good + bad, bad);
}

/* --- another file --- */

/* Stop at the cut that was asked for, go on in a file of its own. */
static void test_move(void)
{
	struct session s;
	struct buf b = BUF_INIT(1 << 20), first = BUF_INIT(DUMP_MAX_BYTES),
		   second = BUF_INIT(DUMP_MAX_BYTES), bytes = BUF_INIT(0);
	struct file_segment segment = { .segment = 1, .why = FILE_WHY_SPAWN, .pid = 1 };
	struct file_summary nothing = { 0 };
	struct file_writer *other;
	struct err err;

	session_begin(&s, PY_LINES_LOCATIONS);
	add_prelude(&b);
	add_record(&b, REC_THREAD, "uuuu", U(2), U(78), U(0x7001), U(0));
	add_run(&b, 1, 2, 1, REC_RUNNING, 0, 4);
	add_record(&b, REC_CPU, "uuuu", U(1), U(4), U(100), U(5));
	add_ticks(&b, 0, 4);
	add_record(&b, REC_THREAD_END, "uu", U(2), U(4));
	add_record(&b, REC_CUT, "uuu", U(4), U(6000), U(0));
	size_t natural = b.size;

	add_run(&b, 1, 2, 1, REC_RUNNING, 0, 2);
	add_ticks(&b, 4, 2);
	add_record(&b, REC_CUT, "uuu", U(6), U(6000), U(7));
	size_t asked = b.size;

	add_record(&b, REC_CPU, "uuuuu", U(1), U(0), U(150), U(6), U(REC_CPU_ANEW));
	add_run(&b, 1, 2, 1, REC_RUNNING, 0, 3);
	add_ticks(&b, 6, 3);
	add_run(&b, 2, 1, 1, 0, 0, 1);

	decoder_stop_at_cut(s.d, 7);
	tap_ok(feed(&s, b.data, b.size) == (int64_t)asked && natural < asked,
		"decoding stops at the cut that was asked for, at no other");
	tap_ok(decoder_has_stopped(s.d) && decoder_cut_served(s.d) == 7, "and says so");
	decoder_name_thread(
		s.d, decoder_thread_at(s.d, 0), REC_NAME_THREADING, "worker");
	if (file_writer_open_memory(1, &other, &err) != 0)
		return;
	file_writer_segment(other, &segment);
	decoder_move(s.d, other, 1);
	(void)file_writer_publish(s.w, &err);
	(void)file_writer_close(s.w, &nothing, &err);
	s.w = other;
	size_t rest = b.size - asked;

	tap_is(feed(&s, b.data + asked, rest), (int64_t)rest, "then it goes on");
	decoder_close_runs(s.d);
	tap_is((int64_t)file_writer_samples(other), 3, "samples of the new file alone");
	/* What waits for strata that never come is of a thread that has ended. */
	buf_clear(&b);
	add_record(&b, REC_CUT, "uuu", U(9), U(6000), U(7));
	(void)feed(&s, b.data, b.size);
	decoder_free(s.d);
	(void)file_writer_take(other, &nothing, &bytes, &err);
	(void)dump_bytes(bytes.data, bytes.size, &second, &err);
	struct buf whole = BUF_INIT(DUMP_MAX_BYTES);

	read_bytes(scratch("file"), &whole);
	(void)dump_bytes(whole.data, whole.size, &first, &err);
	tap_ok(has_line(buf_text(&first),
		       "run 1 node 2 line 0 state 1 first 0 ticks 4") &&
			has_line(buf_text(&first),
				"run 1 node 2 line 0 state 1 first 4 ticks 2") &&
			has_line(buf_text(&first), "end, complete"),
		"the old file has all before the cut");
	tap_ok(has_line(buf_text(&second), "thread 1 segment 1 tid 77 python 7000 "
					   "interpreter 0 'worker'"),
		"the new one has the thread with its name");
	tap_ok(has_line(buf_text(&second), "cpu 1 tick 6 ns 100 runs 5\n") &&
			has_line(buf_text(&second),
				"cpu 1 tick 6 ns 150 runs 6 flags 1"),
		"and where its account stood");
	tap_ok(has_line(buf_text(&second), "node 2 caller 1 call 0 kind 0 ref 2") &&
			has_line(buf_text(&second),
				"run 1 node 2 line 0 state 1 first 6 ticks 3"),
		"and what its samples need");
	tap_ok(has_line(buf_text(&second), "thread 2 ") &&
			has_line(buf_text(&second), "end, complete") &&
			!has_line(buf_text(&second), "damaged"),
		"a thread that had ended is there if a late run needs it");
	buf_done(&b);
	buf_done(&first);
	buf_done(&second);
	buf_done(&whole);
	buf_done(&bytes);
}

/* What timers have seen waits for its strata, as runs do; it has a chunk's base, and
 * the lines of the leaf. */
static void test_timers(void)
{
	struct buf in = BUF_INIT(1 << 20), out = BUF_INIT(DUMP_MAX_BYTES);
	struct session s;

	session_begin(&s, PY_LINES_LOCATIONS);
	add_prelude(&in);
	add_ticks(&in, 0, 10);
	add_record(&in, REC_CUT, "uu", U(10), U(6000));
	add_record(&in, REC_TIMER, "uuuuuuu", U(1), U(2), U(3), U(0), U(4), U(30000000),
		U(1));
	add_record(&in, REC_TIMER, "uuuuuuu", U(1), U(1), U(0), U(0x1f), U(5),
		U(10000000), U(2));
	add_ticks(&in, 10, 6);
	add_record(&in, REC_CUT, "uu", U(16), U(7000));
	tap_is(feed(&s, in.data, in.size), (int64_t)in.size, "timers are read");
	session_end(&s, &out);
	static const char *const lines[] = {
		"timer 1 node 2 line 1 state 0 tick 14 ns 30000000 samples 1\n",
		/* Of a state nothing but that. */
		"timer 1 node 1 line 0 state 8 tick 15 ns 10000000 samples 2\n",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		tap_ok(strstr(buf_text(&out), lines[i]) != NULL, "%.*s",
			(int)strlen(lines[i]) - 1, lines[i]);
	buf_done(&in);
	buf_done(&out);
}

int main(void)
{
	scratch_begin();
	test_states();
	test_timers();
	test_unsaid();
	test_copies();
	test_good();
	test_cut_anywhere();
	test_long_string();
	test_epoch();
	test_file_epoch();
	test_runs_wait();
	test_kinds_of_nodes();
	test_lines_of_kinds();
	test_names();
	test_sent_names();
	test_comes_again();
	test_bad_names();
	test_bad_records();
	test_bad_lengths();
	tap_ok(late_ticks_rise(), "a late tick before the one before it is refused");
	test_memory_limit();
	test_deep();
	test_move();
	test_random();
	scratch_end();
	return tap_done();
}
