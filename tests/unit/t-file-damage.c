/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are not whole, not from us, or made to do harm.  All that lies before the
 * damage is read, the damage is told, and nothing that was not defined is returned.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "dump.h"
#include "records.h"
#include "tap.h"

/* --- a small file --- */

/* What the records of a recording may refer to: 2 strings, 1 function, 2 nodes,
 * segment 1, thread 1. */
static void add_prelude(struct buf *b)
{
	add_schema(b, 0);
	add_record(b, FILE_SEGMENT, "u88uuuuuuuuutt", U(1), U(1), U(2), U(0),
		U(FILE_WHY_SPAWN), U(10), U(0), U(1000), U(2000), U(10), U(0), U(1),
		"arg", "x");
	add_record(b, FILE_STRING, "ut", U(1), "file.py");
	add_record(b, FILE_STRING, "ut", U(2), "name");
	add_record(b, FILE_FUNCTION, "uuus8u", U(1), U(1), U(2), S(5), U(99), U(3));
	add_record(b, FILE_NODE, "uusuu", U(1), U(0), S(0), U(REC_NODE_PYTHON), U(1));
	add_record(b, FILE_NODE, "uusuu", U(2), U(1), S(1), U(REC_NODE_PYTHON), U(1));
	add_record(b, FILE_THREAD, "uuuuut", U(1), U(1), U(10), U(77), U(0), "Main");
}

static const char prelude_text[] =
	"header\n"
	"segment 1 id 01000000000000000200000000000000 parent 0 why 1 pid 10/0 mono 1000 "
	"real 2000 interval 10 flags 0 'arg' 'x'\n"
	"string 1 'file.py'\n"
	"string 2 'name'\n"
	"function 1 file 1 name 2 line 5 table 63 flags 3\n"
	"node 1 caller 0 call none kind 0 ref 1\n"
	"node 2 caller 1 call 0 kind 0 ref 1\n"
	"thread 1 segment 1 tid 10 python 4d interpreter 0 'Main'\n";

/* Samples of ticks [first, first + 10). */
static void add_samples(struct buf *b, uint64_t first)
{
	add_record(b, FILE_BASE, "uu", U(1), U(first));
	add_record(b, FILE_TICKS, "uuuuuuuu", U(1), U(first), U(10), U(1000 + first),
		U(5), U(0), U(1), U(3));
	/* Two runs, the second behind a skip. */
	add_record(b, FILE_RUNS, "uuusuuus", U(1), U(4 << FILE_RUN_TICKS_SHIFT | 3),
		U(2), S(1), U(2 << FILE_RUN_TICKS_SHIFT | FILE_RUN_SKIP), U(2), U(1),
		S(0));
	add_record(b, FILE_CPU, "uuuu", U(1), U(10), U(first * 100), U(2));
}

static void make_file(struct buf *file)
{
	struct buf b = BUF_INIT(FILE_RAW_MAX);

	add_file_header(file, 1, 0);
	add_prelude(&b);
	add_chunk(file, FILE_CHUNK_DEFINITIONS, 1, b.data, b.size);
	for (uint64_t first = 0; first < 30; first += 10) {
		buf_clear(&b);
		add_samples(&b, first);
		add_chunk(file, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
	}
	buf_clear(&b);
	add_record(&b, FILE_SUMMARY, "uuuu", U(1), U(24), U(0), U(9000));
	add_chunk(file, FILE_CHUNK_END, 1, b.data, b.size);
	buf_done(&b);
}

/* --- cut and flipped --- */

enum { MAX_CHUNKS = 16 };

/* Where each chunk ends; returns how many there are. */
static size_t chunk_ends(const struct buf *file, size_t *ends)
{
	size_t at = FILE_SKIPPABLE_BYTES + FILE_HEADER_BYTES, n = 0;

	while (at < file->size && n < MAX_CHUNKS) {
		uint32_t stored;

		memcpy(&stored, file->data + at + FILE_SKIPPABLE_BYTES + 8, 4);
		at += FILE_SKIPPABLE_BYTES + FILE_CHUNK_BYTES + stored;
		ends[n++] = at;
	}
	return n;
}

/* The size of a dump up to and with its n-th flush. */
static size_t size_of_chunks(const char *text, size_t n)
{
	const char *at = text;

	for (at = strchr(at, '\n') + 1; n != 0; at = strchr(at, '\n') + 1)
		n -= strncmp(at, "flush\n", 6) == 0;
	return (size_t)(at - text);
}

static void test_cut(void)
{
	struct buf file = BUF_INIT(1 << 20), whole = BUF_INIT(1 << 20);
	const size_t head = FILE_SKIPPABLE_BYTES + FILE_HEADER_BYTES;
	size_t ends[MAX_CHUNKS], n;
	bool refused = true, before = true, told = true;
	struct err err;

	make_file(&file);
	n = chunk_ends(&file, ends);
	tap_ok(dump_bytes(file.data, file.size, &whole, &err) == 0 &&
			has_line(buf_text(&whole), "end, complete") && n == 5,
		"a file of %zu bytes and %zu chunks is whole", file.size, n);
	for (size_t size = 0; size < file.size; size++) {
		struct buf b = BUF_INIT(1 << 20);
		int code = dump_bytes(file.data, size, &b, &err);
		size_t chunks = 0;

		while (chunks < n && ends[chunks] <= size)
			chunks++;
		if (size < head) {
			refused &= code == (size < FILE_SKIPPABLE_BYTES ? -E_BADFORMAT
									: -E_TRUNCATED);
			continue;
		}
		size_t same = chunks == 0 ? strlen("header\n")
					  : size_of_chunks(buf_text(&whole), chunks);
		bool at_end = size == (chunks == 0 ? head : ends[chunks - 1]);

		before &=
			code == 0 && b.size > same &&
			memcmp(b.data, whole.data, same) == 0 &&
			strcmp(buf_text(&b) + same + strcspn(buf_text(&b) + same, "\n"),
				at_end ? "\n" : "\nend\n") == 0;
		told &= at_end ? strcmp(buf_text(&b) + same, "end\n") == 0
			       : strncmp(buf_text(&b) + same, "damaged: chunk at byte ",
					 23) == 0;
		if (!before || !told) {
			printf("# at byte %zu: %s\n", size, buf_text(&b));
			buf_done(&b);
			break;
		}
		buf_done(&b);
	}
	tap_ok(refused, "cut within the header at any byte: refused");
	tap_ok(before, "cut anywhere behind it: the chunks before are read");
	tap_ok(told, "and what is missing is told, but for a cut between chunks");
	buf_done(&file);
	buf_done(&whole);
}

static void test_flipped(void)
{
	static const unsigned char flips[] = { 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40,
		0x80, 0xff };
	struct buf file = BUF_INIT(1 << 20), whole = BUF_INIT(1 << 20);
	size_t ends[MAX_CHUNKS], n, unnoticed = 0, in_headers = 0, wrong = 0,
				    refused = 0;
	struct err err;

	make_file(&file);
	n = chunk_ends(&file, ends);
	(void)dump_bytes(file.data, file.size, &whole, &err);
	for (size_t at = 0; at < file.size; at++)
		for (size_t i = 0; i < sizeof(flips); i++) {
			struct buf b = BUF_INIT(1 << 20);

			file.data[at] = (char)(file.data[at] ^ flips[i]);
			int code = dump_bytes(file.data, file.size, &b, &err);

			file.data[at] = (char)(file.data[at] ^ flips[i]);
			if (code != 0) {
				refused++;
			} else if (!has_line(buf_text(&b), "damaged: ")) {
				size_t chunk = 0;

				unnoticed++;
				/* Then nothing but the meaning of the frame's own
				 * header may have changed, such as the size of its
				 * window. */
				wrong += strcmp(buf_text(&b), buf_text(&whole)) != 0;
				while (chunk < n && at >= ends[chunk])
					chunk++;
				size_t start = chunk == 0 ? FILE_SKIPPABLE_BYTES +
								    FILE_HEADER_BYTES
							  : ends[chunk - 1];

				in_headers += at < start + FILE_SKIPPABLE_BYTES +
							   FILE_CHUNK_BYTES;
			}
			buf_done(&b);
		}
	tap_is((int64_t)wrong, 0,
		"each bit flipped: never other samples without a word");
	tap_is((int64_t)in_headers, 0, "every flipped bit of a header is noticed");
	tap_is((int64_t)refused, (FILE_SKIPPABLE_BYTES + FILE_HEADER_BYTES) * 9,
		"one of the file header refuses the file");
	printf("# %zu of %zu flips are noticed by nothing, and change nothing\n",
		unnoticed, file.size * sizeof(flips));
	tap_ok(unnoticed < 2 * n * sizeof(flips), "nearly all are noticed");
	buf_done(&file);
	buf_done(&whole);
}

/* --- headers --- */

static void test_file_header(void)
{
	static const struct {
		const char *what;
		size_t at; /* of a byte to be changed, and to what; 0: none */
		unsigned char byte;
		unsigned major, minor;
		int code;
		const char *words;
	} cases[] = {
		{ "as it should be", 0, 0, 1, 0, 0, "" },
		{ "a newer minor version", 0, 0, 1, 65535, 0, "" },
		{ "a newer major version", 0, 0, 2, 7, -E_UNSUPPORTED,
			"has format 2.7" },
		{ "major version 0", 0, 0, 0, 1, -E_UNSUPPORTED, "has format 0.1" },
		{ "another magic number", 1, 0x2b, 1, 0, -E_BADFORMAT,
			"is not a pystack sample file" },
		{ "a header of another size", 4, 49, 1, 0, -E_BADFORMAT,
			"is not a pystack sample file" },
		{ "another name", 9, 'Y', 1, 0, -E_BADFORMAT,
			"is not a pystack sample file" },
		{ "a wrong checksum", 54, 1, 1, 0, -E_BADFORMAT,
			"the file header is damaged" },
		{ "other flags than the checksum's", 20, 1, 1, 0, -E_BADFORMAT,
			"the file header is damaged" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf file = BUF_INIT(1000), b = BUF_INIT(1000);
		struct err err = { "" };

		add_file_header(&file, cases[i].major, cases[i].minor);
		if (cases[i].at != 0)
			file.data[cases[i].at] = (char)cases[i].byte;
		int code = dump_bytes(file.data, file.size, &b, &err);

		tap_ok(code == cases[i].code && strncmp(err.text, cases[i].words,
							strlen(cases[i].words)) == 0,
			"file header: %s", cases[i].what);
		buf_done(&file);
		buf_done(&b);
	}
	struct err err = { "" };
	struct file_reader *r;

	tap_ok(file_reader_open("/nonexistent/file", &r, &err) == -ENOENT &&
			strncmp(err.text, "/nonexistent/file: ", 19) == 0,
		"a file that is not there is named");
	tap_is(file_reader_open("/", &r, &err), -EISDIR, "a folder is no file");
	tap_is(file_reader_open("/dev/null", &r, &err), -E_BADFORMAT, "nor is nothing");
	tap_str(err.text, "/dev/null: is empty", "which is said");
}

/* A file with a prelude and then one chunk; the dump behind the prelude's flush. */
static void dump_behind_prelude(const struct buf *chunk, struct buf *b)
{
	struct buf file = BUF_INIT(64 << 20), records = BUF_INIT(1 << 20),
		   all = BUF_INIT(64 << 20);
	struct err err;

	add_file_header(&file, 1, 0);
	add_prelude(&records);
	add_chunk(&file, FILE_CHUNK_DEFINITIONS, 1, records.data, records.size);
	buf_add(&file, chunk->data, chunk->size);
	int code = dump_bytes(file.data, file.size, &all, &err);
	const char *behind = strstr(buf_text(&all), "\nflush\n");

	if (code != 0 || behind == NULL)
		printf("# the prelude cannot be read: %s\n", buf_text(&all));
	else
		buf_add_str(b, behind + 7);
	buf_done(&file);
	buf_done(&records);
	buf_done(&all);
}

static void check_chunk(const char *what, const struct buf *chunk, const char *wanted)
{
	struct buf b = BUF_INIT(64 << 20);

	dump_behind_prelude(chunk, &b);
	/* "damaged: chunk at byte N: " without where it was. */
	const char *got = buf_text(&b);

	if (strncmp(got, "damaged: chunk at byte ", 23) == 0)
		got = strchr(got + 23, ':') + 2;
	tap_ok(strncmp(got, wanted, strlen(wanted)) == 0, "%s", what);
	if (strncmp(got, wanted, strlen(wanted)) != 0)
		printf("# got '%s', wanted '%s'\n", buf_text(&b), wanted);
	buf_done(&b);
}

static void test_chunk_header(void)
{
	struct buf samples = BUF_INIT(1000), chunk = BUF_INIT(1 << 20);
	static const char ticks[] = "ticks 1 first 0 count 10 ";
	char frame[256];

	add_samples(&samples, 0);
	size_t stored =
		ZSTD_compress(frame, sizeof(frame), samples.data, samples.size, 3);

	add_chunk_claiming(&chunk, 2, 1, stored, samples.size, frame, stored);
	check_chunk("a chunk as it should be", &chunk, ticks);
	buf_clear(&chunk);
	add_chunk_claiming(
		&chunk, 2, 1, FILE_STORED_MAX + 1, samples.size, frame, stored);
	check_chunk("a frame too large", &chunk, "is larger than the format allows");
	buf_clear(&chunk);
	add_chunk_claiming(&chunk, 2, 1, UINT32_MAX, UINT32_MAX, frame, stored);
	check_chunk("the largest sizes there are", &chunk,
		"is larger than the format allows");
	buf_clear(&chunk);
	add_chunk_claiming(&chunk, 2, 1, stored, FILE_RAW_MAX + 1, frame, stored);
	check_chunk("too many bytes of records", &chunk,
		"is larger than the format allows");
	buf_clear(&chunk);
	add_chunk_claiming(&chunk, 2, 1, FILE_STORED_MAX, samples.size, frame, stored);
	check_chunk("a frame that ends too soon", &chunk, "the file ends here");
	buf_clear(&chunk);
	add_chunk_claiming(&chunk, 2, 1, stored, samples.size + 1, frame, stored);
	check_chunk("fewer bytes than announced", &chunk,
		"holds less than its header says");
	buf_clear(&chunk);
	add_chunk_claiming(&chunk, 2, 1, stored, samples.size - 1, frame, stored);
	check_chunk(
		"more bytes than announced", &chunk, "Destination buffer is too small");
	buf_clear(&chunk);
	add_chunk_claiming(&chunk, 2, 1, stored - 1, samples.size, frame, stored);
	check_chunk("a frame cut in the middle", &chunk, "Src size is incorrect");
	buf_clear(&chunk);
	add_chunk_claiming(&chunk, 2, 1, 10, 20, "0123456789", 10);
	check_chunk("a frame that is none", &chunk, "Unknown frame descriptor");
	buf_clear(&chunk);
	add_chunk_claiming(&chunk, 2, 1, 0, 0, "", 0);
	check_chunk("no frame at all", &chunk, "flush\nend\n");
	buf_clear(&chunk);
	add_chunk(&chunk, 2, 0, samples.data, samples.size);
	check_chunk(
		"an epoch that is over", &chunk, "belongs to an epoch that is over");
	buf_clear(&chunk);
	buf_add_str(&chunk, "Z");
	check_chunk("a byte behind the last chunk", &chunk, "the file ends here");
	buf_clear(&chunk);
	buf_add_str(&chunk, "12345678 and some more");
	check_chunk("something else behind it", &chunk, "does not begin like one");
	buf_clear(&chunk);
	buf_add(&chunk, frame, stored);
	check_chunk("a frame without its header", &chunk, "does not begin like one");
	buf_clear(&chunk);
	add_file_header(&chunk, 2, 0);
	check_chunk("a second recording of a newer format", &chunk, "has format 2.0");
	buf_done(&chunk);
	buf_done(&samples);
}

/* --- records --- */

static void check_records(
	const char *what, const struct buf *records, const char *wanted)
{
	struct buf chunk = BUF_INIT(64 << 20);

	add_chunk(&chunk, FILE_CHUNK_SAMPLES, 1, records->data, records->size);
	check_chunk(what, &chunk, wanted);
	buf_done(&chunk);
}

static void test_unknown_records(void)
{
	struct buf b = BUF_INIT(FILE_RAW_MAX);

	add_record(&b, FILE_OPTIONAL | 5, "uu", U(1), UINT64_MAX);
	add_record(&b, 0xff, "");
	add_record(&b, FILE_GAP, "uuuu", U(1), U(2), U(3), U(1));
	check_records("optional records that are not known are skipped", &b,
		"gap 1 from 2 to 3 reason 1\nflush\n");
	buf_clear(&b);
	add_record(&b, FILE_GAP, "uuuu", U(1), U(2), U(3), U(1));
	add_record(&b, 40, "u", U(1));
	add_record(&b, FILE_GAP, "uuuu", U(1), U(2), U(3), U(1));
	check_records("others end the reading", &b,
		"gap 1 from 2 to 3 reason 1\nflush\ndamaged: chunk at byte ");
	struct buf chunk = BUF_INIT(1000), text = BUF_INIT(10000);

	add_chunk(&chunk, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
	dump_behind_prelude(&chunk, &text);
	tap_ok(strstr(buf_text(&text),
		       "a record of type 40, which this pystack does not know; "
		       "a newer one wrote the file") != NULL,
		"and their type is named");
	buf_done(&text);
	buf_done(&chunk);
	buf_clear(&b);
	add_record(&b, 0, "u", U(1));
	check_records("type 0 is none", &b, "flush\ndamaged: ");
	buf_done(&b);
}

/* A longer payload, as a newer minor version may write it. */
static void test_longer_records(void)
{
	struct buf b = BUF_INIT(FILE_RAW_MAX);

	add_record(&b, FILE_STRING, "utp", U(3), "third", "new");
	add_record(&b, FILE_FUNCTION, "uuus8up", U(2), U(1), U(3), S(5), U(98), U(3),
		"new");
	add_record(&b, FILE_NODE, "uusuup", U(3), U(0), S(0), U(2), U(0), "new");
	add_record(
		&b, FILE_THREAD, "uuuuutp", U(2), U(1), U(10), U(77), U(0), "", "new");
	add_record(&b, FILE_THREAD_END, "uup", U(1), U(1), "new");
	add_record(&b, FILE_BASE, "uup", U(1), U(0), "new");
	add_record(&b, FILE_TICKS, "uuuuuuup", U(1), U(0), U(1), U(0), U(5), U(0), U(0),
		"new");
	add_record(&b, FILE_CPU, "uuuuuuup", U(1), U(1), U(1), U(1), U(0), U(0), U(0),
		"new");
	add_record(&b, FILE_PHASE, "uuup", U(1), U(2), U(0), "new");
	add_record(&b, FILE_MARK, "utp", U(5), "text", "new");
	add_record(&b, FILE_COPY, "uuuuuututp", U(1), U(2), U(3), U(4), U(5), U(6),
		"/lib/x.so", U(7), "", "new");
	add_record(&b, FILE_TIMERS, "uuuuuutp", U(1), U(2), U(3), U(4), U(5), U(6),
		"/lib/x.so", "new");
	add_record(&b, FILE_GAP, "uuuup", U(1), U(1), U(2), U(0), "new");
	add_record(&b, FILE_CLOCK, "uuup", U(1), U(1), U(2), "new");
	add_record(&b, FILE_COUNTERS, "uup", U(1), U(0), "new");
	add_record(&b, FILE_SEGMENT_END, "uuuuup", U(1), U(1), U(0), U(9), U(0), "new");
	add_record(
		&b, FILE_SUMMARY, "uuuuuup", U(1), U(1), U(0), U(9), U(7), U(8), "new");
	check_records("what follows the known members is ignored", &b,
		"string 3 'third'\n"
		"function 2 file 1 name 3 line 5 table 62 flags 3\n"
		"node 3 caller 0 call none kind 2 ref 0\n"
		"thread 2 segment 1 tid 10 python 4d interpreter 0 ''\n"
		"thread-end 1 tick 1\n"
		"ticks 1 first 0 count 1 start 0 length 5 flags 0 late\n"
		"cpu 1 tick 1 ns 1 runs 1\n"
		"phase 1 is 2 from 0\n"
		"mark 5 'text'\n"
		"copy 1 at 2 state 3 flags 4 warmup 5 owner 6 '/lib/x.so' owner 7 ''\n"
		"timers 1 at 2 state 3 detail 4 blocked 5 owner 6 '/lib/x.so'\n"
		"gap 1 from 1 to 2 reason 0\n"
		"clock 1 mono 1 real 2\n"
		"counters 1\n"
		"segment-end 1 why 1 status 0 mono 9\n"
		"summary segments 1 samples 1 lost 0 mono 9 elapsed 7 cpu 8\n"
		"flush\nend, complete\n");
	buf_done(&b);
}

static void test_schema(void)
{
	struct buf file = BUF_INIT(1 << 20), b = BUF_INIT(FILE_RAW_MAX),
		   text = BUF_INIT(1 << 20);
	struct err err;

	/* Two more columns: each run has two more numbers. */
	add_file_header(&file, 1, 0);
	add_prelude(&b);
	add_schema(&b, 2);
	add_record(&b, FILE_BASE, "uu", U(1), U(0));
	add_record(&b, FILE_RUNS, "uuusuuuusuu", U(1), U(0), U(1), S(1), U(8), U(9),
		U(1 << FILE_RUN_TICKS_SHIFT), U(2), S(3), U(UINT64_MAX), U(0));
	add_chunk(&file, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
	(void)dump_bytes(file.data, file.size, &text, &err);
	tap_ok(strstr(buf_text(&text),
		       "\nrun 1 node 1 line 0 state 0 first 0 ticks 1\n"
		       "run 1 node 2 line 2 state 0 first 1 ticks 2\nflush\nend\n") !=
			NULL,
		"further columns of a run are passed over");

	static const struct {
		const char *what;
		unsigned columns;
	} bad[] = { { "too few columns", 4 }, { "none", 0 }, { "too many", 65 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct buf payload = BUF_INIT(1000);

		buf_clear(&file);
		buf_clear(&b);
		buf_clear(&text);
		add_file_header(&file, 1, 0);
		buf_add_byte(&payload, bad[i].columns);
		for (unsigned k = 0; k < bad[i].columns; k++)
			buf_add_str(&payload, "\1a\1b");
		buf_add_uvarint(&b, payload.size + 1);
		buf_add_byte(&b, FILE_SCHEMA);
		buf_add(&b, payload.data, payload.size);
		add_chunk(&file, FILE_CHUNK_DEFINITIONS, 1, b.data, b.size);
		(void)dump_bytes(file.data, file.size, &text, &err);
		tap_ok(strstr(buf_text(&text), "a record of type 1 cannot be read") !=
				NULL,
			"a schema of %s", bad[i].what);
		buf_done(&payload);
	}
	buf_clear(&file);
	buf_clear(&b);
	buf_clear(&text);
	add_file_header(&file, 1, 0);
	add_record(&b, FILE_STRING, "ut", U(1), "x");
	add_chunk(&file, FILE_CHUNK_DEFINITIONS, 1, b.data, b.size);
	(void)dump_bytes(file.data, file.size, &text, &err);
	tap_ok(strstr(buf_text(&text), "does not begin with a schema") != NULL,
		"no schema at the start");
	buf_done(&file);
	buf_done(&b);
	buf_done(&text);
}

/* A record that cannot be, each behind the prelude and the base of segment 1 at 100. */
struct bad_record {
	const char *what;
	unsigned type;
	const char *format; /* 'u' and 's' only, then perhaps one 'p' */
	uint64_t n[12];
	const char *bytes;
};

/* clang-format off */
static const struct bad_record bad_records[] = {
	{ "a string with number 0", FILE_STRING, "uu", { 0, 0 }, NULL },
	{ "a string that leaves a hole", FILE_STRING, "uu", { 4, 0 }, NULL },
	{ "a string far beyond", FILE_STRING, "uu", { UINT64_MAX, 0 }, NULL },
	{ "a string longer than its record", FILE_STRING, "uup", { 3, 6 }, "hello" },
	{ "a string too long", FILE_STRING, "uup", { 3, FILE_TEXT_MAX + 1 }, "hello" },
	{ "a string of the largest length", FILE_STRING, "uup", { 3, UINT64_MAX }, "hello" },
	{ "a string without a text", FILE_STRING, "u", { 3 }, NULL },
	{ "a number without an end", FILE_STRING, "p", { 0 }, "\x83\x80" },
	{ "a number beyond 64 bits", FILE_STRING, "p", { 0 }, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f" },
	{ "a function of no file", FILE_FUNCTION, "uuusup", { 2, 0, 1, 0, 0 }, "1234567" },
	{ "a function of a file that is not there", FILE_FUNCTION, "uuusup", { 2, 3, 1, 0, 0 }, "1234567" },
	{ "a function of a name that is not there", FILE_FUNCTION, "uuusup", { 2, 1, UINT64_MAX, 0, 0 }, "1234567" },
	{ "a function without its hash", FILE_FUNCTION, "uuus", { 2, 1, 1, 0 }, NULL },
	{ "a function that leaves a hole", FILE_FUNCTION, "uuusup", { 3, 1, 1, 0, 0 }, "12345678" },
	{ "a function with flags beyond 32 bits", FILE_FUNCTION, "uuusp", { 2, 1, 1, 0 }, "12345678\x80\x80\x80\x80\x10" },
	{ "a node that leaves a hole", FILE_NODE, "uusuu", { 4, 0, 0, 0, 1 }, NULL },
	{ "a node that calls itself", FILE_NODE, "uusuu", { 3, 3, 0, 0, 1 }, NULL },
	{ "a known node that calls itself", FILE_NODE, "uusuu", { 2, 2, 0, 0, 1 }, NULL },
	{ "a caller that comes later", FILE_NODE, "uusuu", { 1, 2, 0, 0, 1 }, NULL },
	{ "a caller that is not there", FILE_NODE, "uusuu", { 3, 4, 0, 0, 1 }, NULL },
	{ "a node of no function", FILE_NODE, "uusuu", { 3, 0, 0, 0, 0 }, NULL },
	{ "a node of a function that is not there", FILE_NODE, "uusuu", { 3, 0, 0, 0, 2 }, NULL },
	{ "a node of a kind beyond a byte", FILE_NODE, "uusuu", { 3, 0, 0, 256, 1 }, NULL },
	{ "a segment that leaves a hole", FILE_SEGMENT, "uppuuuuuuuuu", { 3 }, "0123456789abcdef" },
	{ "a segment that is cut in its id", FILE_SEGMENT, "up", { 2 }, "0123456789" },
	{ "a thread of no segment", FILE_THREAD, "uuuuuu", { 2, 0, 1, 1, 1, 0 }, NULL },
	{ "a thread of a segment that is not there", FILE_THREAD, "uuuuuu", { 2, 2, 1, 1, 1, 0 }, NULL },
	{ "thread 0", FILE_THREAD, "uuuuuu", { 0, 1, 1, 1, 1, 0 }, NULL },
	{ "a thread with too high a number", FILE_THREAD, "uuuuuu", { FILE_THREADS_MAX + 1, 1, 1, 1, 1, 0 }, NULL },
	{ "a thread id beyond 31 bits", FILE_THREAD, "uuuuuu", { 2, 1, 1ull << 31, 1, 1, 0 }, NULL },
	{ "the end of a thread that is not there", FILE_THREAD_END, "uu", { 2, 1 }, NULL },
	{ "the end of thread 0", FILE_THREAD_END, "uu", { 0, 1 }, NULL },
	{ "the end of a thread far away", FILE_THREAD_END, "uu", { UINT64_MAX, 1 }, NULL },
	{ "a base of no segment", FILE_BASE, "uu", { 0, 1 }, NULL },
	{ "a base of a segment that is not there", FILE_BASE, "uu", { 2, 1 }, NULL },
	{ "a base too large", FILE_BASE, "uu", { 1, UINT64_MAX }, NULL },
	{ "a base without a tick", FILE_BASE, "u", { 1 }, NULL },
	{ "no ticks", FILE_TICKS, "uuuuuuu", { 1, 100, 0, 0, 5, 0, 0 }, NULL },
	{ "too many ticks", FILE_TICKS, "uuuuuuu", { 1, 100, 1ull << 32, 0, 0, 0, 0 }, NULL },
	{ "ticks too late to count", FILE_TICKS, "uuuuuuu", { 1, UINT64_MAX, 1, 0, 0, 0, 0 }, NULL },
	{ "ticks too long", FILE_TICKS, "uuuuuuu", { 1, 100, 2, 0, UINT64_MAX / 2, 0, 0 }, NULL },
	{ "more late ticks than ticks", FILE_TICKS, "uuuuuuuuuu", { 1, 100, 2, 0, 5, 0, 3, 0, 1, 0 }, NULL },
	{ "a late tick behind the last", FILE_TICKS, "uuuuuuuu", { 1, 100, 2, 0, 5, 0, 1, 2 }, NULL },
	{ "late ticks that are cut", FILE_TICKS, "uuuuuuuu", { 1, 100, 9, 0, 5, 0, 2, 1 }, NULL },
	{ "late ticks without number", FILE_TICKS, "uuuuuuu", { 1, 100, 9, 0, 5, 0, UINT64_MAX }, NULL },
	{ "runs of thread 0", FILE_RUNS, "uuus", { 0, 0, 1, 0 }, NULL },
	{ "runs of a thread that is not there", FILE_RUNS, "uuus", { 2, 0, 1, 0 }, NULL },
	{ "CPU time of a thread that is not there", FILE_CPU, "uuuu", { 2, 0, 1, 0 }, NULL },
	{ "ticks of no thread", FILE_TICKS, "uuuuuuuuu", { 1, 100, 2, 0, 5, FILE_TICKS_SUBSET, 5, 0, 0 }, NULL },
	{ "ticks of more threads than there are", FILE_TICKS, "uuuuuuuuu", { 1, 100, 2, 0, 5, FILE_TICKS_SUBSET, 5, 6, 0 }, NULL },
	{ "a timer of a thread that is not there", FILE_TIMER, "uuuuuuu", { 2, 0, 1, 0, 0, 1, 1 }, NULL },
	{ "a timer at a tick too late", FILE_TIMER, "uuuuuuu", { 1, UINT64_MAX, 1, 0, 0, 1, 1 }, NULL },
	{ "a timer of a node that is not there", FILE_TIMER, "uuuuuuu", { 1, 0, 99, 0, 0, 1, 1 }, NULL },
	{ "a timer of an impossible state", FILE_TIMER, "uuuuuuu", { 1, 0, 1, 0, 32, 1, 1 }, NULL },
	{ "a timer of too much time", FILE_TIMER, "uuuuuuu", { 1, 0, 1, 0, 0, UINT64_MAX, 1 }, NULL },
	{ "a timer that is cut", FILE_TIMER, "uuuuuu", { 1, 0, 1, 0, 0, 1 }, NULL },
	{ "a phase of no segment", FILE_PHASE, "uuu", { 0, 1, 1 }, NULL },
	{ "a phase without a tick", FILE_PHASE, "uu", { 1, 1 }, NULL },
	{ "timers of no segment", FILE_TIMERS, "uuuuuuu", { 0, 1, 1, 0, 0, 0, 0 }, NULL },
	{ "timers of a segment that is not there", FILE_TIMERS, "uuuuuuu", { 2, 1, 1, 0, 0, 0, 0 }, NULL },
	{ "timers in a state beyond a byte", FILE_TIMERS, "uuuuuuu", { 1, 1, 256, 0, 0, 0, 0 }, NULL },
	{ "timers with an owner's name beyond the record", FILE_TIMERS, "uuuuuuup", { 1, 1, 3, 0, 0, 5, 9 }, "/lib" },
	{ "timers that are cut", FILE_TIMERS, "uuuuuu", { 1, 1, 3, 0, 0, 5 }, NULL },
	{ "copies of no segment", FILE_COPY, "uuuuuuuuu", { 0, 1, 1, 1, 0, 0, 0, 0, 0 }, NULL },
	{ "copies of a segment that is not there", FILE_COPY, "uuuuuuuuu", { 2, 1, 1, 1, 0, 0, 0, 0, 0 }, NULL },
	{ "copies in a state beyond a byte", FILE_COPY, "uuuuuuuuu", { 1, 1, 256, 1, 0, 0, 0, 0, 0 }, NULL },
	{ "copies with flags beyond 32 bits", FILE_COPY, "uuuuuuuuu", { 1, 1, 1, 1ull << 32, 0, 0, 0, 0, 0 }, NULL },
	{ "copies with an owner's name beyond the record", FILE_COPY, "uuuuuuup", { 1, 1, 1, 1, 0, 5, 9 }, "/lib" },
	{ "copies with an owner's name of the largest length", FILE_COPY, "uuuuuuup", { 1, 1, 1, 1, 0, 5, UINT64_MAX }, "/lib" },
	{ "copies with one owner of two", FILE_COPY, "uuuuuuu", { 1, 1, 1, 1, 0, 0, 0 }, NULL },
	{ "CPU time at a tick too late", FILE_CPU, "uuuu", { 1, UINT64_MAX, 1, 0 }, NULL },
	{ "CPU time cut", FILE_CPU, "uuu", { 1, 1, 1 }, NULL },
	{ "a gap of a segment that is not there", FILE_GAP, "uuuu", { 2, 0, 1, 0 }, NULL },
	{ "a gap for a reason beyond a byte", FILE_GAP, "uuuu", { 1, 0, 1, 256 }, NULL },
	{ "a clock of no segment", FILE_CLOCK, "uuu", { 0, 0, 1 }, NULL },
	{ "counters of a segment that is not there", FILE_COUNTERS, "uu", { 2, 0 }, NULL },
	{ "more counters than there are", FILE_COUNTERS, "uup", { 1, 2 }, "\1a\5" },
	{ "too many counters", FILE_COUNTERS, "uup", { 1, 1025 }, "\1a\5" },
	{ "the end of a segment that is not there", FILE_SEGMENT_END, "uuuuu", { 2, 1, 0, 0, 0 }, NULL },
	{ "the end of no segment", FILE_SEGMENT_END, "uuuuu", { 0, 1, 0, 0, 0 }, NULL },
};

/* Runs that cannot be: the first number is the thread. */
static const struct bad_record bad_runs[] = {
	{ "a run of node 0", FILE_RUNS, "uuus", { 1, 0, 0, 0 }, NULL },
	{ "a run of a node that is not there", FILE_RUNS, "uuus", { 1, 0, 3, 0 }, NULL },
	{ "a run of a node far away", FILE_RUNS, "uuus", { 1, 0, UINT64_MAX, 0 }, NULL },
	{ "a run without a node", FILE_RUNS, "uu", { 1, 0 }, NULL },
	{ "a run without a line", FILE_RUNS, "uuu", { 1, 0, 1 }, NULL },
	{ "a run without its skip", FILE_RUNS, "uu", { 1, FILE_RUN_SKIP }, NULL },
	{ "a skip too long", FILE_RUNS, "uuuus", { 1, FILE_RUN_SKIP, UINT64_MAX, 1, 0 }, NULL },
	{ "too many ticks in a run", FILE_RUNS, "uuus", { 1, UINT64_MAX - 0x1f, 1, 0 }, NULL },
};
/* clang-format on */

static void add_bad(struct buf *b, const struct bad_record *r)
{
	struct buf payload = BUF_INIT(1 << 20);
	size_t n = 0;

	for (const char *f = r->format; *f != '\0'; f++) {
		if (*f == 'u')
			buf_add_uvarint(&payload, r->n[n++]);
		else if (*f == 's')
			buf_add_svarint(&payload, (int64_t)r->n[n++]);
		else if (f[1] != 'p')
			buf_add_str(&payload, r->bytes);
	}
	buf_add_uvarint(b, payload.size + 1);
	buf_add_byte(b, r->type);
	buf_add(b, payload.data, payload.size);
	buf_done(&payload);
}

static void test_bad_records(void)
{
	for (size_t i = 0; i < sizeof(bad_records) / sizeof(bad_records[0]); i++) {
		struct buf b = BUF_INIT(FILE_RAW_MAX), chunk = BUF_INIT(1 << 20);
		struct buf text = BUF_INIT(1 << 20);
		char wanted[64];

		add_record(&b, FILE_BASE, "uu", U(1), U(100));
		add_bad(&b, &bad_records[i]);
		add_record(&b, FILE_GAP, "uuuu", U(1), U(2), U(3), U(1));
		add_chunk(&chunk, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
		dump_behind_prelude(&chunk, &text);
		(void)snprintf(wanted, sizeof(wanted),
			"a record of type %u cannot be read\nend\n",
			bad_records[i].type);
		const char *damaged = strstr(buf_text(&text), "damaged: ");

		if (!tap_ok(strncmp(buf_text(&text), "flush\ndamaged: ", 15) == 0 &&
				    damaged != NULL && strstr(damaged, wanted) != NULL,
			    "%s", bad_records[i].what))
			printf("# %s\n", buf_text(&text));
		buf_done(&b);
		buf_done(&chunk);
		buf_done(&text);
	}
}

static void test_bad_runs(void)
{
	for (size_t i = 0; i < sizeof(bad_runs) / sizeof(bad_runs[0]); i++) {
		struct buf b = BUF_INIT(FILE_RAW_MAX), chunk = BUF_INIT(1 << 20);
		struct buf text = BUF_INIT(1 << 20);

		add_record(&b, FILE_BASE, "uu", U(1), U(100));
		/* A good run before it is returned. */
		add_record(&b, FILE_RUNS, "uuus", U(1), U(0), U(1), S(0));
		add_bad(&b, &bad_runs[i]);
		add_record(&b, FILE_GAP, "uuuu", U(1), U(2), U(3), U(1));
		add_chunk(&chunk, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
		dump_behind_prelude(&chunk, &text);
		if (!tap_ok(strncmp(buf_text(&text),
				    "run 1 node 1 line none state 0 first 100 ticks 1\n"
				    "flush\ndamaged: ",
				    strlen("run 1 node 1 line none state 0 first 100 ticks 1\n"
					   "flush\ndamaged: ")) == 0 &&
				    strstr(buf_text(&text),
					    "a run cannot be read\nend\n") != NULL,
			    "%s", bad_runs[i].what))
			printf("# %s\n", buf_text(&text));
		buf_done(&b);
		buf_done(&chunk);
		buf_done(&text);
	}
}

static void test_frames_of_records(void)
{
	struct buf b = BUF_INIT(FILE_RAW_MAX);

	buf_add_byte(&b, 0);
	check_records("a record without a type", &b, "flush\ndamaged: ");
	buf_clear(&b);
	buf_add_byte(&b, 5);
	buf_add_byte(&b, FILE_GAP);
	check_records("a record longer than its chunk", &b, "flush\ndamaged: ");
	buf_clear(&b);
	buf_add_uvarint(&b, UINT64_MAX);
	buf_add_byte(&b, FILE_GAP);
	check_records("a record of the largest length", &b, "flush\ndamaged: ");
	buf_clear(&b);
	buf_add_byte(&b, 0x80);
	check_records("a length that is cut", &b, "flush\ndamaged: ");
	buf_clear(&b);
	/* The base counts for its own chunk alone. */
	add_record(&b, FILE_RUNS, "uuus", U(1), U(0), U(1), S(0));
	check_records("runs before the base", &b, "flush\ndamaged: ");
	buf_clear(&b);
	add_record(&b, FILE_CPU, "uuuu", U(1), U(0), U(1), U(0));
	check_records("CPU time before the base", &b, "flush\ndamaged: ");
	buf_clear(&b);
	add_record(&b, FILE_SEGMENT, "u88uuuuuuuuu", U(2), U(1), U(2), U(1), U(3),
		U(10), U(0), U(1000), U(2000), U(10), U(0), U(0));
	add_record(&b, FILE_THREAD, "uuuuuu", U(1), U(2), U(1), U(1), U(1), U(0));
	check_records("a thread that moves to another segment", &b, "segment 2");
	struct buf chunk = BUF_INIT(1000), text = BUF_INIT(10000);

	add_chunk(&chunk, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
	dump_behind_prelude(&chunk, &text);
	tap_ok(strstr(buf_text(&text), "record of type 7 cannot be read") != NULL,
		"which is refused");
	buf_done(&text);
	buf_done(&chunk);
	buf_done(&b);
}

/* Every record of the small file cut at every byte of its payload, with the length
 * that says so: read or refused, but never beyond. */
static void test_cut_records(void)
{
	struct buf all = BUF_INIT(1 << 20);
	size_t refused = 0, tried = 0;

	add_prelude(&all);
	add_samples(&all, 0);
	add_record(&all, FILE_GAP, "uuuu", U(1), U(200), U(300), U(1));
	add_record(&all, FILE_CLOCK, "uuu", U(1), U(200), U(300));
	add_record(&all, FILE_COUNTERS, "uutu", U(1), U(1), "ticks", U(500));
	add_record(&all, FILE_SEGMENT_END, "uuuuutu", U(1), U(1), U(0), U(9), U(1), "t",
		U(1));
	/* Each record is shorter than 128 bytes: one byte of length. */
	for (size_t at = 0; at < all.size; at += (size_t)all.data[at] + 1)
		for (int size = 1; size < all.data[at]; size++) {
			struct buf b = BUF_INIT(1 << 20), file = BUF_INIT(1 << 20);
			struct buf text = BUF_INIT(1 << 20);
			struct err err;

			buf_add(&b, all.data, at);
			buf_add_byte(&b, (unsigned)size);
			buf_add(&b, all.data + at + 1, (size_t)size);
			add_file_header(&file, 1, 0);
			add_chunk(&file, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
			(void)dump_bytes(file.data, file.size, &text, &err);
			tried++;
			refused += has_line(buf_text(&text), "damaged: ");
			buf_done(&b);
			buf_done(&file);
			buf_done(&text);
		}
	/* A record of runs may end between two, and that of a schema has an old end. */
	tap_ok(refused + 4 >= tried && refused < tried,
		"records cut at every byte: %zu of %zu refused", refused, tried);
	buf_done(&all);
}

/* --- what a reader owes its caller --- */

static void test_prelude(void)
{
	struct buf none = BUF_INIT(1), text = BUF_INIT(1 << 20),
		   file = BUF_INIT(1 << 20);
	struct buf b = BUF_INIT(1 << 20);
	struct err err;

	add_file_header(&file, 1, 0);
	add_prelude(&b);
	add_chunk(&file, FILE_CHUNK_DEFINITIONS, 1, b.data, b.size);
	(void)dump_bytes(file.data, file.size, &text, &err);
	tap_ok(strncmp(buf_text(&text), prelude_text, strlen(prelude_text)) == 0 &&
			strcmp(buf_text(&text) + strlen(prelude_text),
				"flush\nend\n") == 0,
		"the prelude of these tests is read");
	buf_clear(&text);
	dump_behind_prelude(&none, &text);
	tap_str(buf_text(&text), "end\n", "and nothing follows it");
	buf_done(&text);
	buf_done(&file);
	buf_done(&b);
}

/* Definitions may come again, with other content, in the order of numbers. */
static void test_again(void)
{
	struct buf b = BUF_INIT(FILE_RAW_MAX);

	add_record(&b, FILE_STRING, "ut", U(1), "other.py");
	add_record(&b, FILE_NODE, "uusuu", U(1), U(0), S(0), U(2), U(0));
	check_records("definitions may come again", &b,
		"string 1 'other.py'\nnode 1 caller 0 call none kind 2 ref 0\nflush\nend\n");
	buf_done(&b);
}

static void test_epoch(uint32_t first, uint32_t second, bool announced)
{
	struct buf file = BUF_INIT(1 << 20), b = BUF_INIT(FILE_RAW_MAX),
		   text = BUF_INIT(1 << 20);
	struct err err;

	add_file_header(&file, 1, 0);
	add_prelude(&b);
	add_chunk(&file, FILE_CHUNK_DEFINITIONS, first, b.data, b.size);
	buf_clear(&b);
	add_record(&b, FILE_NODE, "uusuu", U(1), U(0), S(0), U(2), U(0));
	add_record(&b, FILE_BASE, "uu", U(1), U(0));
	add_record(&b, FILE_RUNS, "uuus", U(1), U(0), U(1), S(0));
	add_record(&b, FILE_RUNS, "uuus", U(1), U(0), U(2), S(0));
	add_chunk(&file, FILE_CHUNK_SAMPLES, second, b.data, b.size);
	(void)dump_bytes(file.data, file.size, &text, &err);
	bool right = has_line(buf_text(&text), "epoch") == announced &&
		     strstr(buf_text(&text),
			     "node 1 caller 0 call none kind 2 ref 0\n"
			     "run 1 node 1 line none state 0 first 0 ticks 1\n"
			     "flush\ndamaged: ") != NULL;

	tap_ok(right, "epoch %u after %u voids what was defined", second, first);
	buf_done(&file);
	buf_done(&b);
	buf_done(&text);
}

/* Late ticks rise, whatever their distances add up to. */
static bool late_ticks_rise(void)
{
	struct buf b = BUF_INIT(FILE_RAW_MAX), chunk = BUF_INIT(1000),
		   text = BUF_INIT(10000);

	add_record(&b, FILE_TICKS, "uuuuuuuuu", U(1), U(100), U(10), U(0), U(5), U(0),
		U(2), U(5), UINT64_MAX);
	add_chunk(&chunk, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
	dump_behind_prelude(&chunk, &text);
	bool refused = !has_line(buf_text(&text), "ticks");

	buf_done(&b);
	buf_done(&chunk);
	buf_done(&text);
	return refused;
}

/* A recording whose summary cannot be read was not closed properly. */
static bool bad_summary_is_not_complete(void)
{
	struct buf b = BUF_INIT(FILE_RAW_MAX), chunk = BUF_INIT(1000),
		   text = BUF_INIT(10000);

	add_record(&b, FILE_SUMMARY, "uu", U(1), U(2));
	add_chunk(&chunk, FILE_CHUNK_END, 1, b.data, b.size);
	dump_behind_prelude(&chunk, &text);
	bool right = has_line(buf_text(&text), "damaged: chunk at byte ") &&
		     !has_line(buf_text(&text), "end, complete");

	buf_done(&b);
	buf_done(&chunk);
	buf_done(&text);
	return right;
}

/* Random payloads of every type: the reader ends in every case, within its bounds. */
static void test_random(void)
{
	uint32_t random = 3, read = 0;

	for (int round = 0; round < 3000; round++) {
		struct buf b = BUF_INIT(FILE_RAW_MAX), chunk = BUF_INIT(1 << 20);
		struct buf text = BUF_INIT(1 << 20);

		add_record(&b, FILE_BASE, "uu", U(1), U(100));
		for (int k = 0; k < 20; k++) {
			static const unsigned char types[] = { 2, 3, 4, 5, 6, 7, 8, 16,
				17, 18, 19, 20, 21, 22, 32 };
			size_t size;

			random = random * 1664525 + 1013904223;
			size = random >> 16 & 15;
			buf_add_uvarint(&b, size + 1);
			buf_add_byte(&b, types[(random >> 24) % sizeof(types)]);
			/* Small numbers, as most are. */
			for (size_t i = 0; i < size; i++) {
				random = random * 1664525 + 1013904223;
				buf_add_byte(&b, random >> 28 == 0 ? random >> 20 & 0xff
								   : random >> 20 & 3);
			}
		}
		add_chunk(&chunk, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
		dump_behind_prelude(&chunk, &text);
		read += (uint32_t)count_lines(buf_text(&text), "run ") +
			(uint32_t)count_lines(buf_text(&text), "string ");
		buf_done(&b);
		buf_done(&chunk);
		buf_done(&text);
	}
	tap_ok(read > 100, "random records (%u of two kinds were good)", read);
}

int main(void)
{
	test_prelude();
	test_cut();
	test_flipped();
	test_file_header();
	test_chunk_header();
	test_unknown_records();
	test_longer_records();
	test_schema();
	test_bad_records();
	test_bad_runs();
	test_frames_of_records();
	test_cut_records();
	test_again();
	test_epoch(1, 2, true);
	test_epoch(3, 1000, true);
	test_epoch(0, 1, true);
	tap_ok(late_ticks_rise(), "a late tick before the one before it is refused");
	tap_ok(bad_summary_is_not_complete(),
		"a summary that cannot be read completes nothing");
	test_random();
	return tap_done();
}
