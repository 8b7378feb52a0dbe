/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the seeds below tests/fuzz/corpus: a few small inputs for each target that lead
 * a fuzzer to the interesting places.  (What a fuzzer found is added by hand.)
 *
 * usage: make-corpus FOLDER
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../unit/offsets.h"
#include "../unit/records.h"
#include "base/err.h"
#include "base/fd.h"
#include "wire/ring.h"

static const char *folder;

static void put(const char *target, const char *name, const void *bytes, size_t size)
{
	char path[500];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, target);
	(void)mkdir(path, 0777);
	(void)snprintf(path, sizeof(path), "%s/%s/%s", folder, target, name);
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	int code = fd < 0 ? -errno : fd_write_all(fd, bytes, size);

	if (code != 0) {
		(void)fprintf(stderr, "make-corpus: %s: %s\n", path, err_name(code));
		exit(1);
	}
}

static void put_text(const char *target, const char *name, const char *text)
{
	put(target, name, text, strlen(text));
}

/* --- sample files --- */

static void add_definitions(struct buf *b)
{
	add_schema(b, 0);
	add_record(b, FILE_SEGMENT, "u88uuuuuuuuutt", U(1), U(1), U(2), U(0),
		U(FILE_WHY_SPAWN), U(10), U(7), U(1000), U(2000), U(10), U(0), U(1),
		"arg", "x");
	add_record(b, FILE_STRING, "ut", U(1), "f.py");
	add_record(b, FILE_STRING, "ut", U(2), "name");
	add_record(b, FILE_FUNCTION, "uuus8u", U(1), U(1), U(2), S(5), U(99), U(3));
	add_record(b, FILE_NODE, "uusuu", U(1), U(0), S(0), U(REC_NODE_PYTHON), U(1));
	add_record(b, FILE_NODE, "uusuu", U(2), U(1), S(-2), U(REC_NODE_PYTHON), U(1));
	add_record(
		b, FILE_NODE, "uusuu", U(3), U(0), S(0), U(REC_NODE_TRUNCATED), U(9));
	add_record(
		b, FILE_NODE, "uusuu", U(4), U(3), S(0), U(REC_NODE_UNREADABLE), U(0));
	add_record(b, FILE_THREAD, "uuuuut", U(1), U(1), U(7), U(77), U(0), "Main");
}

static void add_samples(struct buf *b, uint64_t first)
{
	add_record(b, FILE_BASE, "uu", U(1), first);
	add_record(b, FILE_TICKS, "uuuuuuuuu", U(1), first, U(10), U(1000 + first),
		U(5), U(0), U(2), U(3), U(4));
	add_record(b, FILE_RUNS, "uuusuuus", U(1), U(4 << 5 | 3), U(2), S(1),
		U(2 << 5 | FILE_RUN_SKIP), U(2), U(1), S(0));
	add_record(b, FILE_CPU, "uuuu", U(1), U(0), first * 100, U(2));
	add_record(b, FILE_CPU, "uuuu", U(1), U(10), first * 100 + 50, U(3));
}

static void add_rest(struct buf *b)
{
	add_record(b, FILE_GAP, "uuuu", U(1), U(200), U(300), U(1));
	add_record(b, FILE_CLOCK, "uuu", U(1), U(200), U(300));
	add_record(b, FILE_COPY, "uuuuuutut", U(1), U(200), U(RING_COPY_BY_SYSCALL),
		U(RING_COPY_FLAGS), U(9), U(0x5000), "/lib/taker.so", U(1), "");
	add_record(b, FILE_TIMERS, "uuuuuut", U(1), U(210), U(RING_TIMER_TAKEN), U(0),
		U(1), U(0x5000), "/lib/taker.so");
	add_record(b, FILE_MARK, "ut", U(2100), "a mark");
	add_record(b, FILE_CPU, "uuuuu", U(1), U(20), U(9000), U(4), U(FILE_CPU_ANEW));
	add_record(b, FILE_COUNTERS, "uutu", U(1), U(1), "ticks", U(500));
	add_record(b, FILE_THREAD, "uuuuut", U(1), U(1), U(7), U(77), U(0), "renamed");
	add_record(b, FILE_THREAD_END, "uu", U(1), U(20));
	add_record(b, FILE_OPTIONAL | 9, "u", U(1));
	add_record(b, FILE_SEGMENT_END, "uuuuutu", U(1), U(1), U(0), U(9), U(1), "lost",
		U(1));
}

/* A chunk as fuzz-file.c has it. */
static void add_listed(
	struct buf *list, unsigned kind, unsigned epoch, const struct buf *records)
{
	buf_add_byte(list, kind | epoch << 4);
	buf_add_byte(list, records->size & 0xff);
	buf_add_byte(list, (unsigned)(records->size >> 8));
	buf_add(list, records->data, records->size);
}

static void make_files(void)
{
	struct buf b = BUF_INIT(1 << 20), file = BUF_INIT(1 << 20),
		   list = BUF_INIT(1 << 20);
	struct buf end = BUF_INIT(1000);

	add_file_header(&file, 1, 0);
	add_definitions(&b);
	add_chunk(&file, FILE_CHUNK_DEFINITIONS, 1, b.data, b.size);
	add_listed(&list, FILE_CHUNK_DEFINITIONS, 1, &b);
	buf_clear(&b);
	add_samples(&b, 0);
	add_samples(&b, 10);
	add_rest(&b);
	add_chunk(&file, FILE_CHUNK_SAMPLES, 1, b.data, b.size);
	add_listed(&list, FILE_CHUNK_SAMPLES, 1, &b);
	add_record(&end, FILE_SUMMARY, "uuuu", U(1), U(20), U(0), U(9));
	add_chunk(&file, FILE_CHUNK_END, 1, end.data, end.size);
	put("file", "whole", file.data, file.size);
	put("file", "cut", file.data, file.size - 20);
	put("file", "chunks", list.data, list.size);

	/* A second epoch, and a second recording. */
	buf_clear(&b);
	add_record(&b, FILE_STRING, "ut", U(1), "other");
	add_record(&b, FILE_FUNCTION, "uuus8u", U(1), U(1), U(1), S(-5), U(9), U(3));
	add_record(&b, FILE_NODE, "uusuu", U(1), U(0), S(0), U(REC_NODE_PYTHON), U(1));
	add_record(&b, FILE_BASE, "uu", U(1), U(20));
	add_record(&b, FILE_RUNS, "uuus", U(1), U(4 << 5), U(1), S(-1));
	add_listed(&list, FILE_CHUNK_SAMPLES, 2, &b);
	put("file", "epochs", list.data, list.size);
	buf_add(&list, "\xff\0\0", 3);
	buf_clear(&b);
	add_definitions(&b);
	add_listed(&list, FILE_CHUNK_DEFINITIONS, 1, &b);
	put("file", "recordings", list.data, list.size);

	/* Two parts of one recording. */
	buf_clear(&list);
	for (unsigned i = 0; i < 2; i++) {
		buf_clear(&b);
		add_schema(&b, 0);
		add_record(&b, FILE_SEGMENT, "u88uuuuuuuuu", U(1), U(1), U(2), U(0),
			U(FILE_WHY_SPAWN), U(10), U(7), U(1000), U(2000), U(10),
			U(i != 0 ? FILE_SEGMENT_CONTINUED : 0), U(0));
		add_record(&b, FILE_THREAD, "uuuuut", U(5), U(1), U(7), U(77), U(0),
			i != 0 ? "" : "Main");
		add_record(&b, FILE_NODE, "uusuu", U(1), U(0), S(0),
			U(REC_NODE_UNREADABLE), U(0));
		add_listed(&list, FILE_CHUNK_DEFINITIONS, 1, &b);
		buf_clear(&b);
		add_record(&b, FILE_BASE, "uu", U(1), U(i * 10));
		add_record(&b, FILE_TICKS, "uuuuuuu", U(1), U(i * 10), U(10),
			U(1000 + i * 50), U(5), U(0), U(0));
		add_record(&b, FILE_RUNS, "uuus", U(5), U(9 << 5 | 1), U(1), S(0));
		add_record(&b, FILE_CPU, "uuuu", U(5), U(0), U(40 * i), U(1));
		add_record(&b, FILE_CPU, "uuuu", U(5), U(10), U(40 * i + 40), U(1));
		add_record(&b, FILE_SEGMENT_END, "uuuuutu", U(1), U(FILE_END_CONTINUED),
			U(0), U(9), U(1), "lost", U(1));
		add_listed(&list, FILE_CHUNK_SAMPLES, 1, &b);
		buf_add(&list, "\xff\0\0", 3);
	}
	put("file", "parts", list.data, list.size);
	buf_done(&b);
	buf_done(&end);
	buf_done(&file);
	buf_done(&list);
}

/* --- rings --- */

static void add_string(struct buf *b, uint64_t id, uint64_t width, const char *text)
{
	add_record(b, REC_STRING, "uuuup", id, width, U(strlen(text)), U(0), text);
}

static void add_code(struct buf *b)
{
	add_string(b, 1, 1, "f.py");
	add_string(b, 2, 2, "abcd");
	add_string(b, 3, 0, "\x80\x01\xd8\x01\x01\xd9\x01\x01");
	add_record(b, REC_STRING, "uuuup", U(4), U(1), U(6), U(0), "lon");
	add_record(b, REC_STRING, "uuuup", U(4), U(1), U(6), U(3), "ger");
	add_record(b, REC_CODE, "uuuusu", U(1), U(1), U(2), U(3), S(10), U(67));
	add_record(b, REC_CODE, "uuuusu", U(2), U(1), U(4), U(3), S(20), U(3));
	add_record(b, REC_NODE, "uuuuu", U(1), U(0), U(0), U(REC_NODE_PYTHON), U(1));
	add_record(b, REC_NODE, "uuuuu", U(2), U(1), U(3), U(REC_NODE_PYTHON), U(2));
	add_record(
		b, REC_NODE, "uuuuu", U(3), U(0), U(0), U(REC_NODE_TRUNCATED), U(40));
	add_record(b, REC_NODE, "uuuuu", U(4), U(3), U(9), U(REC_NODE_PYTHON), U(1));
}

static void make_rings(void)
{
	struct buf b = BUF_INIT(1 << 20);

	for (unsigned kind = 1; kind <= 3; kind++) {
		char name[16];

		buf_clear(&b);
		buf_add_byte(&b, kind | 8 << 2);
		add_record(&b, REC_CLOCK, "uu", U(5000), U(1000));
		add_code(&b);
		add_record(&b, REC_THREAD, "uuuu", U(1), U(77), U(0x7000), U(0));
		/* Named "A" with two bytes a character. */
		add_record(&b, REC_THREAD, "uuuuuuuuu", U(2), U(78), U(0x7000), U(0),
			U(99), U(REC_NAME_THREADING), U(2), U('A'), U(0));
		add_record(&b, REC_RUN, "uuuuuu", U(1), U(2), U(3), U(3), U(0), U(8));
		add_record(&b, REC_RUN, "uuuuuu", U(1), U(4), U(0), U(0), U(8), U(2));
		add_record(&b, REC_CPU, "uuuu", U(1), U(10), U(123456), U(5));
		add_record(&b, REC_TICKS, "uuuuuuuu", U(0), U(10), U(1000), U(10), U(0),
			U(2), U(3), U(4));
		add_record(&b, REC_CUT, "uuu", U(10), U(6000), U(1));
		add_record(&b, REC_COPY, "uuuuu", U(RING_COPY_BY_SYSCALL),
			U(RING_COPY_FLAGS), U(0x5000), U(1), U(6000));
		add_record(&b, REC_GAP, "uuu", U(1100), U(1200), U(REC_GAP_DISABLED));
		add_record(&b, REC_CPU, "uuuuu", U(1), U(0), U(200000), U(6),
			U(REC_CPU_ANEW));
		add_record(&b, REC_EPOCH, "u", U(2));
		add_code(&b);
		add_record(&b, REC_RUN, "uuuuuu", U(1), U(1), U(2), U(1), U(0), U(5));
		add_record(&b, REC_TICKS, "uuuuuu", U(10), U(5), U(1200), U(10), U(1),
			U(0));
		add_record(&b, REC_THREAD_END, "uu", U(1), U(15));
		add_record(&b, REC_OPTIONAL | 44, "u", U(7));
		add_record(&b, REC_CUT, "uuu", U(15), U(7000), U(2));
		add_record(&b, REC_END, "usu", U(RING_LEAVE_EXITED), S(0), U(7000));
		(void)snprintf(name, sizeof(name), "kind-%u", kind);
		put("ring", name, b.data, b.size);
	}
	buf_done(&b);
}

/* --- the small ones --- */

static void make_lines(void)
{
	/* Of the functions in tests/unit/t-lines.c. */
	static const char lnotab[] = "\1\1\0\0\0\0\x7f\0\x7f\0\x2f\x08\1\6\1";
	static const char ranges[] = "\2\1\0\0\0\6\1\2\1\x24\xff\4\x80\0\3";
	static const char locations[] =
		"\3\1\0\0\0\x80\0\xf0\x5a\x09\0\x0e\x0f\xf2\0\1\5\x0e\x88\1\xd8\x0c\x0d\x89\1\xfa";

	put("lines", "lnotab", lnotab, sizeof(lnotab) - 1);
	put("lines", "ranges", ranges, sizeof(ranges) - 1);
	put("lines", "locations", locations, sizeof(locations) - 1);
}

static void make_offsets(void)
{
	for (unsigned minor = 13; minor <= 15; minor++) {
		struct published p;
		char name[16];

		build_offsets(&p, minor);
		(void)snprintf(name, sizeof(name), "3.%u", minor);
		put("offsets", name, p.word, p.count * sizeof(p.word[0]));
	}
}

static void make_texts(void)
{
	put_text("proc", "maps",
		"00400000-00401000 r-xp 00001000 fd:0a 1234 /usr/bin/python3\n"
		"7f0000000000-7f0000001000 rw-s 00000000 00:01 9 /memfd:x (deleted)\n"
		"7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0 [stack]\n");
	put_text("proc", "stat",
		"4711 (a) R (b) S 77 1 1 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0 987654321 1 5");
	put_text("proc", "status",
		"Name:\tx\nTracerPid:\t815\nUid:\t1000\t1\t1\t1\nGid:\t20\t2\t2\t2\n"
		"NSpid:\t4711\t52\t1\nSeccomp:\t2\nx86_Thread_features:\tshstk wrss\n");
	put_text("proc", "limits",
		"Limit Soft Limit Hard Limit Units\n"
		"Max processes 96365 100000 processes\n"
		"Max address space unlimited unlimited bytes\n");
	put_text("proc", "cgroup", "9:name=systemd:/s\n8:pids:/one/two\n0::/user:x\n");
	put_text("parse", "number", "18446744073709551615");
	put_text("parse", "duration", "1.5ms");
	put_text("parse", "rate", "49.5khz");
	put_text("parse", "size", "1.5e3G");
	put_text("parse", "ranges", "10-20,1s-2s");
	put_text("parse", "mark", "mark a\xff mark");
	put_text("parse", "text",
		"na\xc3\xafve \xe4\xb8\xad\xf0\x9f\x98\x80 e\xcc\x81\x1b[0m\xe2\x80\xae");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		(void)fprintf(stderr, "usage: make-corpus FOLDER\n");
		return 2;
	}
	folder = argv[1];
	make_files();
	make_rings();
	make_lines();
	make_offsets();
	make_texts();
	return 0;
}
