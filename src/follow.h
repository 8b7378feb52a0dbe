/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_FOLLOW_H
#define SRC_FOLLOW_H

/*
 * One process that is being recorded: its task, its ring, its segment of the file.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "file/writer.h"
#include "inject/inject.h"
#include "output.h"
#include "proc/python.h"
#include "wire/ring.h"

/* How to sample, the same for every process of a recording. */
struct follow_options {
	int64_t interval_ns;
	bool spin;
	bool adaptive;
	bool oncpu; /* of threads that run alone */
	uint32_t max_stack;
	uint32_t max_threads; /* looked at by a tick; 0: all */
	uint32_t overhead_ppm;
	uint32_t timer_ns; /* of CPU timers; 0: none */
	unsigned copy;     /* enum ring_copy, for the isolation of a thread */
	int64_t warmup_ns;
};

/* Sums of a segment, for the end line. */
struct follow_stats {
	uint64_t counters[RING_COUNTERS];
	uint64_t samples;
	uint64_t lost;
	uint64_t threads;
	int64_t held_ns;
	unsigned takeovers; /* segments in which another took the sampler's handlers */
	char owner[1024];   /* the first of them, "" when there is none */
	uint64_t timer_blocked; /* threads without a CPU timer as they block SIGURG */
};

struct follow;

/* Where its task comes from: said hello, or was injected. */
struct follow_source {
	int ring_fd;
	int connection;                     /* of a hello */
	pid_t task;                         /* likewise */
	pid_t program;                      /* of a hello by a thread of it; else 0 */
	const struct inject_task *injected; /* NULL: a hello */
};

/* Its place in the recording, where segments count from 1. */
struct follow_origin {
	uint32_t segment;
	uint32_t parent; /* segment it comes from, 0: none */
	enum file_why why;
	bool disabled; /* it begins with sampling off */
};

/*
 * Follow process pid by what source has (descriptors and task are taken).  Fills the
 * ring's orders and writes the segment.  Returns 0, or a negative code with words;
 * everything taken is then released.
 */
int follow_start(pid_t pid, const struct follow_source *source,
	const struct python_found *python, const struct follow_options *options,
	struct output_part *part, const struct follow_origin *origin,
	uint32_t *next_thread, struct follow **ret_follow, struct err *err);

/*
 * Map the ring behind fd (borrowed) and check it.  Returns the mapping's reader, to be
 * released with follow_unmap(), or a negative code.
 */
int follow_map(int fd, struct ring_reader *ret_reader, struct err *err);
void follow_unmap(struct ring_reader *reader);

/* Make the recorder's beat move; any thread. */
void follow_beat(struct follow *f);

/* Take what is in the ring.  Returns the number of bytes, or a negative code with
 * words when the ring cannot be read any more.  *ret_cut is set after a cut. */
int64_t follow_drain(struct follow *f, bool *ret_cut, struct err *err);

/* Turn sampling on or off. */
void follow_enable(struct follow *f, bool on);
/* Has the task obeyed, or can it not sample anyway? */
bool follow_obeys(const struct follow *f);

/* Ask for a cut: soon all until now is in the ring.  Has it been drained? */
void follow_want_cut(struct follow *f);
bool follow_is_cut(const struct follow *f);

/*
 * Go on in another part, from the next cut on, which is asked for.  The segment is
 * begun there at once; those it comes from must be there before.
 */
void follow_move(struct follow *f, struct output_part *part);
bool follow_is_moving(const struct follow *f);
/* Move now, though no cut came in time. */
void follow_move_now(struct follow *f);

/* Before a flush of the file. */
void follow_close_runs(struct follow *f);

/*
 * Has something become of the CPU timers that has to be said?  Then words of it, whole
 * in themselves, and true.
 */
bool follow_timer_news(struct follow *f, struct buf *words);

/* Wait until the sampler has taken its orders, has left, or had its time (1 s): from
 * then on the program's handlers are not touched any more.  Returns whether it stays.
 */
bool follow_await_start(const struct follow *f);

/* Has the task left? */
bool follow_has_left(const struct follow *f);
enum ring_leave follow_why_left(const struct follow *f, int *ret_detail);

/* How its memory is read; what the ring cannot mean is left out. */
struct follow_copy {
	enum ring_copy_state state;
	uint32_t flags; /* enum ring_copy_flags */
};

struct follow_copy follow_copy_get(const struct follow *f);

/* How many threads were seen until now. */
uint64_t follow_thread_count(const struct follow *f);

/* Names of threads that have none yet, or, now and then or at once, another one. */
void follow_name_threads(struct follow *f, bool at_once);

/*
 * End the segment: why and status as the file has them.  The task is ordered to leave
 * if it has not, its last records are taken, what is mapped in an attached program is
 * unmapped.  Returns 0, or a negative code with words when something stayed in the
 * program.  f is no longer usable but for follow_stats().
 */
int follow_end(
	struct follow *f, enum file_end_why why, uint64_t status, struct err *err);

pid_t follow_task(const struct follow *f);
/* Is it a thread of the program?  Then it ends with that, without a word. */
bool follow_is_thread(const struct follow *f);
/* Descriptor that becomes readable when the task or the connection ends. */
int follow_poll_fd(const struct follow *f);
/* Also while it lasts. */
void follow_stats_get(struct follow *f, struct follow_stats *ret);
void follow_free(struct follow *f);

#endif
