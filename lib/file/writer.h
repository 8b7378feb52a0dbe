/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILE_WRITER_H
#define FILE_WRITER_H

/*
 * Writing a sample file.  Definitions and samples gather in memory and become
 * chunks at file_writer_flush(), which is called once a second and at the end of a
 * segment.  One thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "file/format.h"

struct file_writer;

/*
 * Begin a file, mode 0600, owned by owner/group unless those are -1.  It is written
 * beside path under a name of its own, and takes its place with
 * file_writer_publish(); freed before that, it is removed.  path "-" writes to
 * standard output, and a device or pipe is written to as it is.
 * level: of Zstandard, 1 to 22.
 */
int file_writer_open(const char *path, int level, int64_t owner, int64_t group,
	struct file_writer **ret_writer, struct err *err);

/*
 * Begin a file in memory.  It becomes one on disk with file_writer_settle(), or ends
 * as the bytes that file_writer_take() gives.
 */
int file_writer_open_memory(
	int level, struct file_writer **ret_writer, struct err *err);

/*
 * Write a file in memory to path, with all as file_writer_open() has it; what comes
 * later is written there too.  On failure it stays in memory.
 */
int file_writer_settle(struct file_writer *w, const char *path, int64_t owner,
	int64_t group, struct err *err);

/* Give the file its name; what had it before is kept as path.old. */
int file_writer_publish(struct file_writer *w, struct err *err);

/*
 * Definitions.  Each returns the identifier in the epoch in force, the same for the
 * same content; 0 only when a limit of the format is reached.
 */
uint32_t file_writer_string(struct file_writer *w, const char *bytes, size_t size);
uint32_t file_writer_function(struct file_writer *w, const struct file_function *f);
uint32_t file_writer_node(struct file_writer *w, const struct file_node *n);

/* The number of the epoch: when it has changed, the identifiers above are void.
 * It changes in file_writer_flush() only. */
uint32_t file_writer_epoch(const struct file_writer *w);

/* Segments and threads; their numbers are the caller's, from 1. */
void file_writer_segment(struct file_writer *w, const struct file_segment *s);
void file_writer_segment_end(struct file_writer *w, const struct file_segment_end *e);
void file_writer_thread(struct file_writer *w, const struct file_thread *t);
void file_writer_thread_end(struct file_writer *w, uint32_t thread, uint64_t tick);

/*
 * Samples of the chunk in hand.  base: no tick of the segment in chunks that begin
 * from now on is smaller.  Runs of one thread come in the order of time.
 */
void file_writer_base(struct file_writer *w, uint32_t segment, uint64_t tick);
void file_writer_ticks(struct file_writer *w, const struct file_ticks *t);
void file_writer_run(struct file_writer *w, uint32_t segment, const struct file_run *r);
void file_writer_cpu(struct file_writer *w, uint32_t segment, const struct file_cpu *c);
void file_writer_timer(
	struct file_writer *w, uint32_t segment, const struct file_timer *t);
/* It holds on, in later chunks too. */
void file_writer_phase(struct file_writer *w, const struct file_phase *p);
void file_writer_copy(struct file_writer *w, const struct file_copy *c);
void file_writer_timers(struct file_writer *w, const struct file_timers *t);
void file_writer_gap(struct file_writer *w, const struct file_gap *g);
void file_writer_clock(struct file_writer *w, const struct file_clock *c);
void file_writer_counters(struct file_writer *w, uint32_t segment,
	const struct file_counter *counters, uint32_t count);

/* The text is cut at the format's limit. */
void file_writer_mark(struct file_writer *w, const struct file_mark *m);

/* The chunk in hand spans these times (ns since 1970). */
void file_writer_span(
	struct file_writer *w, uint64_t from_real_ns, uint64_t to_real_ns);

/*
 * Write what has gathered.  On failure nothing of it stays in the file (what was
 * written before does), and the writer takes no more: it returns the same code again.
 */
int file_writer_flush(struct file_writer *w, struct err *err);

/* Is it time to flush before the second is over? */
bool file_writer_should_flush(const struct file_writer *w);

/* Bytes in the file so far. */
uint64_t file_writer_size(const struct file_writer *w);

/* Ticks of all runs so far. */
uint64_t file_writer_samples(const struct file_writer *w);

/* Of these, those that are in the file: after a failure the others never will be. */
uint64_t file_writer_written(const struct file_writer *w);

/*
 * Flush, write the end chunk, sync and close.  Returns the first failure of all that
 * was done; only the sums above may still be asked for.
 */
int file_writer_finish(
	struct file_writer *w, const struct file_summary *summary, struct err *err);

/* The same, and frees w in any case. */
int file_writer_close(
	struct file_writer *w, const struct file_summary *summary, struct err *err);

/* The same for a file in memory: its bytes are moved into *ret_bytes, which is then the
 * caller's, and untouched on failure. */
int file_writer_take(struct file_writer *w, const struct file_summary *summary,
	struct buf *ret_bytes, struct err *err);

/* Close without an end chunk, as after a failure; NULL is allowed. */
void file_writer_free(struct file_writer *w);

#endif
