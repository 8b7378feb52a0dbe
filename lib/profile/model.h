/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_MODEL_H
#define PROFILE_MODEL_H

/*
 * What a sample file speaks of, in memory: processes (segments), threads, functions,
 * and stacks as nodes of one tree.  Numbers here are the model's own and hold for its
 * life, over epochs and over several recordings in one file; equal things have equal
 * numbers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file/format.h"

struct model;

struct model_function {
	const char *name; /* qualified, UTF-8 */
	const char *file;
	int64_t first_line;
	uint64_t table_hash;
	/* Of those with this name, file and line, which nobody can tell apart, the
	 * number of the first: code that was compiled again, two lambdas in a line. */
	uint32_t symbol;
};

/* What stands at one level of a stack. */
enum model_frame_kind {
	MODEL_PYTHON = 0,
	MODEL_TRUNCATED = 1, /* `missing` frames or more left out on the root side */
	MODEL_UNREADABLE = 2,
	MODEL_NOT_SAMPLED = 3, /* CPU time of a thread that no tick saw */
	MODEL_GC = 4,          /* the collector, under the frame that it came upon */
	MODEL_NO_FRAME = 5,    /* a thread that has no Python frame */
};

struct model_frame {
	enum model_frame_kind kind;
	uint32_t function; /* MODEL_PYTHON */
	uint32_t missing;  /* MODEL_TRUNCATED */
	int64_t line;      /* in the file; 0: none.  Of a caller: where it calls */
};

/* A stack: the one below it and the frame on top.  Number 0 is the empty stack. */
struct model_stack {
	uint32_t parent;
	uint32_t frame;
	uint32_t depth;
};

struct model_attribute {
	char *name, *value;
};

struct model_counter {
	char *name;
	uint64_t value;
	uint64_t before; /* of value: in the parts before the one in hand */
};

/* How the program's memory was read, from a time on. */
struct model_copy {
	uint64_t mono_ns;
	uint32_t state; /* enum ring_copy_state; or another one, of a newer writer */
	uint32_t flags; /* enum ring_copy_flags */
	uint64_t warmup_ns; /* left, as it was last told */
	/* What took the place of the sampler's handlers of SIGSEGV and SIGBUS. */
	uint64_t owner[2];
	char *mapping[2]; /* "": not known */
};

/* What has become of CPU timers, from a time on. */
struct model_timers {
	bool told;
	uint64_t mono_ns;
	uint32_t state;   /* enum ring_timer; or another one, of a newer writer */
	uint32_t detail;  /* an errno, where the state has one */
	uint32_t blocked; /* threads that had none, as they block SIGURG */
	uint64_t owner;   /* the handler of SIGURG that is not the sampler's */
	char *mapping;    /* what it lies in; "" or NULL: not known */
};

struct model_segment {
	uint8_t id[FILE_ID_BYTES];
	bool continued; /* its beginning is in a file that was not read */
	uint32_t pid, inner_pid;
	uint32_t parent; /* number + 1 of a segment, 0: none */
	uint32_t why;    /* enum file_why */
	uint64_t mono_ns, real_ns, interval_ns;
	uint32_t flags;
	struct model_attribute *attributes;
	size_t attribute_count;
	bool ended;
	uint32_t end_why; /* enum file_end_why */
	uint64_t end_status;
	uint64_t end_mono_ns;
	struct model_counter *counters;
	size_t counter_count, counter_capacity;
	uint64_t gap_ns[REC_GAP_COUNT];
	uint64_t ticks_ns,
		limited_ns;        /* of all strata; of those the limit made longer */
	uint64_t longest_ns;       /* stratum; 0: none has come */
	int64_t clock_offset;      /* monotonic less real, ns */
	struct model_copy *copies; /* changes; none where the sampler was a task */
	size_t copy_count, copy_capacity;
	struct model_timers timers;
	char *comm; /* base name of the first word of the command line */
};

struct model_thread {
	uint32_t segment;
	uint32_t number; /* in its file: the same in all parts of a recording */
	uint32_t tid;
	uint64_t python_id;
	uint64_t interpreter;
	char *name; /* "" when Python gave none */
	bool main;

	/* By the kernel's account, in the time that was sampled. */
	bool accounted;
	bool coarse; /* CPU time in steps of a clock tick; delay and runs are not known
		      */
	uint64_t cpu_ns;
	uint64_t delay_ns; /* ready to run, without a CPU */
	uint64_t runs;     /* times it was put on one */
	uint64_t lost;     /* ticks that were left out for want of room */
	/* As the last account has them, and in which recording that was. */
	uint64_t last_cpu_ns, last_delay_ns, last_runs, last_lost;
	uint32_t recording;

	/* What of its time there are no samples of.  Ticks that are late or missed, and
	 * pauses, are the sampler's: they are those of a thread's life, which is as
	 * long as it is known to have lived, on the monotonic clock of the segment. */
	int64_t first_ns, last_ns; /* 0: not known */
	uint64_t late;    /* ticks at which it was seen, but later than drawn */
	uint64_t lost_ns; /* that the lost ticks stood for, about */
	uint64_t missed;  /* strata without a tick */
	uint64_t gap_ns[REC_GAP_COUNT];
};

/* What somebody wanted to be noted. */
struct model_mark {
	uint64_t real_ns;
	char *text;
};

struct model *model_new(void);
void model_free(struct model *m);

/* --- looking --- */

size_t model_segment_count(const struct model *m);
const struct model_segment *model_segment(const struct model *m, uint32_t number);
size_t model_thread_count(const struct model *m);
const struct model_thread *model_thread(const struct model *m, uint32_t number);
const struct model_function *model_function(const struct model *m, uint32_t number);
size_t model_function_count(const struct model *m);
const struct model_frame *model_frame(const struct model *m, uint32_t number);
const struct model_stack *model_stack(const struct model *m, uint32_t number);
size_t model_stack_count(const struct model *m);

/* What the recorder itself took, over all recordings that were closed properly. */
struct model_recorder {
	uint64_t elapsed_ns, cpu_ns;
};

struct model_recorder model_recorder(const struct model *m);

size_t model_mark_count(const struct model *m);
const struct model_mark *model_mark(const struct model *m, size_t number);
/* Its time, on the monotonic clock of a segment. */
int64_t model_mark_ns(const struct model_mark *mark, const struct model_segment *s);

/* The value of an attribute of a segment (its first), or NULL. */
const char *model_attribute(const struct model_segment *s, const char *name);
/* Were waiting threads recorded, of any process?  (Not with --oncpu.) */
bool model_has_waiting(const struct model *m);
/* Had any process CPU timers? */
bool model_has_timers(const struct model *m);
/* A counter of a segment, 0 when it is not there. */
uint64_t model_counter(const struct model_segment *s, const char *name);

/* Was the sampler a thread of the program? */
bool model_is_thread(const struct model_segment *s);
/* How memory was read at last, NULL where nothing tells. */
const struct model_copy *model_copy_now(const struct model_segment *s);

/* What stands for a frame that is no function: "[truncated ...]"; into text. */
const char *model_special_name(const struct model_frame *f, char *text, size_t size);

/* --- building; identifiers of the file in, numbers of the model out --- */

/* A recording begins: the file's identifiers are void.  model_epoch(): those of
 * strings, functions and nodes are. */
void model_recording(struct model *m);
void model_epoch(struct model *m);

void model_add_string(struct model *m, uint32_t id, const struct file_text *text);
void model_add_function(struct model *m, uint32_t id, const struct file_function *f);
void model_add_node(struct model *m, uint32_t id, const struct file_node *n);
/* One that goes on from another file that was read becomes one with it. */
void model_add_segment(struct model *m, const struct file_segment *s);
void model_end_segment(struct model *m, const struct file_segment_end *e);
void model_add_counters(struct model *m, uint32_t segment,
	const struct file_counter *list, uint32_t count);
void model_add_thread(struct model *m, const struct file_thread *t);
void model_add_account(struct model *m, const struct file_cpu *c);
void model_add_ticks(struct model *m, const struct file_ticks *t);
void model_add_summary(struct model *m, const struct file_summary *s);
void model_add_copy(struct model *m, const struct file_copy *c);
void model_add_timers(struct model *m, const struct file_timers *t);
void model_add_gap(struct model *m, const struct file_gap *g);
void model_add_mark(struct model *m, const struct file_mark *mark);
void model_add_clock(struct model *m, const struct file_clock *c);

/* To fill in what is known of its life. */
struct model_thread *model_thread_life(struct model *m, uint32_t number);

uint32_t model_segment_of_file(const struct model *m, uint32_t id);
uint32_t model_thread_of_file(const struct model *m, uint32_t id);
/* The stack of a run: its node, and where it stands in the leaf. */
uint32_t model_stack_of_run(struct model *m, uint32_t node, int64_t line);
/* A stack with a special frame on top; of nothing else on stack 0. */
uint32_t model_special_stack(
	struct model *m, uint32_t stack, enum model_frame_kind kind);

#endif
