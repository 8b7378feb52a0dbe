/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILE_READER_H
#define FILE_READER_H

/*
 * Reading a sample file, record by record, in one pass and in bounded memory.  The
 * reader checks every number against the limits of the format and against what was
 * defined before, so that its users need not: identifiers in the records it returns
 * are those of things already returned.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "file/format.h"

/* One record.  Texts and arrays in it are borrowed until the next call. */
struct file_record {
	enum file_record_type type;
	uint32_t id; /* of a string, function or node */
	union {
		struct file_text string;
		struct file_function function;
		struct file_node node;
		struct file_segment segment;
		struct file_segment_end segment_end;
		struct file_thread thread;
		struct {
			uint32_t thread;
			uint64_t tick;
		} thread_end;
		struct file_ticks ticks;
		struct file_run run; /* type FILE_RUNS, one run at a time */
		struct file_cpu cpu;
		struct file_timer timer;
		struct file_phase phase;
		struct file_copy copy;
		struct file_timers timers;
		struct file_gap gap;
		struct file_clock clock;
		struct {
			uint32_t segment;
			const struct file_counter *counters;
			uint32_t count;
		} counters;
		struct file_mark mark;
		struct file_summary summary;
	};
};

enum file_event {
	FILE_EVENT_END = 0,    /* of the file, or of what can be read */
	FILE_EVENT_RECORD = 1, /* *ret is filled */
	FILE_EVENT_HEADER = 2, /* a recording begins: all identifiers are void */
	FILE_EVENT_EPOCH = 3,  /* strings, functions and nodes are void */
	FILE_EVENT_FLUSH = 4,  /* end of a chunk */
};

struct file_reader;

/*
 * Open path ("-": standard input) and read the header.  Returns 0; -E_BADFORMAT for
 * what is no sample file, -E_UNSUPPORTED for a newer major version, -errno.
 */
int file_reader_open(
	const char *path, struct file_reader **ret_reader, struct err *err);

/* Read from bytes in memory, borrowed while the reader lives (for tests). */
int file_reader_open_bytes(const void *bytes, size_t size,
	struct file_reader **ret_reader, struct err *err);

/* The next event; after FILE_EVENT_END only FILE_EVENT_END. */
enum file_event file_reader_next(struct file_reader *r, struct file_record *ret);

/* NULL when all of the file was read; else a text that says where and why the
 * reading ended (with its reason), borrowed. */
const char *file_reader_damage(const struct file_reader *r);

/* Was the last recording closed properly (an end chunk)? */
bool file_reader_complete(const struct file_reader *r);

/* Bytes read so far. */
uint64_t file_reader_offset(const struct file_reader *r);

void file_reader_free(struct file_reader *r);

#endif
