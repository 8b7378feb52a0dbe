/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_DECODER_H
#define SRC_DECODER_H

/*
 * Turns the records of one ring into records of the sample file: strings become
 * UTF-8, positions in bytecode become lines, numbers of the task become numbers of the
 * file.  One decoder for each process image (segment).
 *
 * Nothing the ring says is believed unchecked: a record that cannot be is an error
 * that ends the segment, not the recording.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "file/writer.h"
#include "python/layout.h"
#include "wire/record.h"

struct decoder;

/* What the recorder wants to know of a thread that appeared. */
struct decoder_thread {
	uint32_t file_thread; /* its number in the file */
	uint32_t tid;         /* in the program's namespace */
	uint64_t python_id;   /* pthread_t */
	uint64_t interpreter;
	enum record_name named; /* by whom */
	bool ended;
	uint8_t name_tries; /* the recorder's */
};

struct decoder_stats {
	uint64_t samples; /* (thread, tick) pairs written */
	uint64_t lost;    /* that could not be decoded */
	uint64_t threads;
};

/*
 * segment: its number in the file.  *next_thread: the file's counter of threads,
 * shared by all decoders; borrowed.
 */
struct decoder *decoder_new(struct file_writer *writer, uint32_t segment,
	uint32_t *next_thread, enum py_linetable_kind lines);

/* The version tells which frame a collection came upon, so that the state is right
 * also of samples in finalizers. */
void decoder_trust_gc(struct decoder *d);
void decoder_free(struct decoder *d);

/* What an address of the program lies in: append its name, nothing if not known. */
typedef void decoder_name_function(uint64_t address, struct buf *name, void *context);

/* Who took the place of the sampler's handlers is named by it; without, nobody is. */
void decoder_set_namer(struct decoder *d, decoder_name_function *namer, void *context);

/* How memory is read now, warm-up included, as the ring's header has it: for the end of
 * a segment.  Segment and names are the decoder's. */
void decoder_tell_copy(struct decoder *d, const struct file_copy *c);
/* As it was told last; NULL when it never was. */
const struct file_copy *decoder_copy(const struct decoder *d);
/* What the handler of SIGSEGV (0) or SIGBUS (1) lies in; "": not known. */
const char *decoder_owner(const struct decoder *d, size_t which);

/*
 * Decode whole records at bytes.  Returns the number of bytes used (a record cut at
 * the end is left for the next call), or a negative code with words when a record
 * cannot be.  *ret_cut is set when a cut was among them.
 */
int64_t decoder_feed(struct decoder *d, const uint8_t *bytes, size_t size,
	bool *ret_cut, struct err *err);

/* No more records come, and the sampler had no time for its last ones, as a thread that
 * ended with its program: the accounts that it sent for this case count, and the time
 * up to now, as clock_real_ns() has it, is a gap. */
void decoder_end_unsaid(struct decoder *d, int64_t now_ns);

/* Write the runs that may still grow: before every flush of the file. */
void decoder_close_runs(struct decoder *d);

const struct decoder_stats *decoder_stats(const struct decoder *d);

/* Threads seen so far, by index from 0; NULL past the last. */
struct decoder_thread *decoder_thread_at(struct decoder *d, size_t index);

/*
 * Go on in another file, as segment `segment` of it: threads that live are written
 * there, strings and the rest when they are needed.  To be called behind a cut, as then
 * nothing that belongs to one file comes later; anywhere else what is not settled yet
 * goes to the new one.
 */
void decoder_move(struct decoder *d, struct file_writer *writer, uint32_t segment);

/* From now on decoder_feed() returns behind the cut that serves request `number`, with
 * *ret_cut set, whatever follows it.  decoder_move() ends that. */
void decoder_stop_at_cut(struct decoder *d, uint32_t number);
bool decoder_has_stopped(const struct decoder *d);

/* The number of the last request for a cut that has been served. */
uint32_t decoder_cut_served(const struct decoder *d);

/* Give a thread its name, in UTF-8; writes its record again if that is another one. */
void decoder_name_thread(struct decoder *d, struct decoder_thread *t,
	enum record_name by, const char *name);

/* Monotonic time of the task less real time, ns; 0 before the first clock record. */
int64_t decoder_clock_offset(const struct decoder *d);

#endif
