/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_OUTPUT_H
#define SRC_OUTPUT_H

/*
 * Where a recording goes: into one file, into a row of files of which the older are
 * named by the time they ended, or into memory, of which the last is written when it is
 * asked for.
 *
 * A recording is made of parts, each complete by itself.  A part is begun in memory;
 * the processes move to it one by one, each behind a cut of its own, while the part
 * before it still takes what the others have left.  When all have moved, that one is
 * ended and the new one gets the file's name.  So at every instant each file that bears
 * the recording's name can be read, and each sample is in one part.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "file/writer.h"

struct output_options {
	const char *path; /* "-": standard output */
	int level;        /* of compression */
	bool switching;   /* a row of files */
	uint64_t switch_bytes,
		switch_ns;  /* a new one by size, by time; 0: only asked */
	unsigned max_files; /* of those that are ended, or written on demand; 0: all */
	uint64_t max_bytes; /* of all that is written; 0: no limit */
	bool overwrite;     /* in memory; then, of this: */
	uint64_t keep_bytes, keep_ns; /* 0: no limit of this kind */
};

/* One part: a file, or a piece in memory. */
struct output_part;

struct file_writer *output_part_writer(const struct output_part *p);
/* The number of a segment in this part: a new one, the one it was given, 0: none. */
uint32_t output_part_add(struct output_part *p, uint32_t segment);
uint32_t output_part_find(const struct output_part *p, uint32_t segment);
/* Samples of it were lost: for its summary. */
void output_part_lost(struct output_part *p, uint64_t samples);

struct output;

/* Begin; nothing has its name yet.  What cannot be written is refused here. */
int output_open(const struct output_options *options, struct output **ret_output,
	struct err *err);
/* The recording has begun: the file may take its name. */
int output_publish(struct output *o, struct err *err);

/* The part that what is new belongs to. */
struct output_part *output_part(const struct output *o);

/* Begin a part; the one before goes on until output_turn().  Not before the last turn
 * has been taken. */
int output_begin_part(struct output *o, struct err *err);
bool output_is_turning(const struct output *o);

/* What became of a part. */
struct output_written {
	char path[4096]; /* "": nothing was written */
	uint64_t bytes, samples;
	int64_t lasted_ns;
};

/*
 * All have moved, and their runs are closed: end the part before.  dump: also write
 * what is kept in memory, to a file of its own; when that fails, it is still kept.  In
 * a row of files a failure leaves the new part without one: the recording is over.
 */
int output_turn(struct output *o, bool dump, struct output_written *ret_written,
	struct err *err);

/* Note a text, at this instant. */
void output_mark(struct output *o, const char *text);

/* Write what has gathered; see file_writer_flush(). */
int output_flush(struct output *o, struct err *err);
bool output_should_flush(const struct output *o);

/* Is it time for another part?  sampled: there may be samples in this one.  now:
 * monotonic. */
bool output_part_is_full(const struct output *o, bool sampled, int64_t now);
/* Has the recording reached its size? */
bool output_is_full(const struct output *o);

/* Bytes written, in all files; kept in memory. */
uint64_t output_bytes(const struct output *o);
/* Samples in the files that are ended, but for those written on demand; all, once the
 * last is. */
uint64_t output_samples(const struct output *o);
uint64_t output_kept_bytes(const struct output *o);
const char *output_path(const struct output *o);

/* End the last part, as output_turn() does; nothing follows.  failed: only close. */
int output_close(struct output *o, bool failed, struct output_written *ret_written,
	struct err *err);

/* NULL is allowed.  What has not been published is removed. */
void output_free(struct output *o);

#endif
