/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILE_FORMAT_H
#define FILE_FORMAT_H

/*
 * Constants of the sample file, format 1.0: pystack-file(5) says what they mean.
 * And the structs in which records pass between the file and the rest.
 */

#include <stddef.h>
#include <stdint.h>

#include "wire/record.h" /* states, node kinds and gaps are the ring's */
#include "wire/ring.h"   /* and how memory is read */

#define FILE_MAGIC_HEADER 0x184d2a50u
#define FILE_MAGIC_CHUNK  0x184d2a51u
#define FILE_NAME_BYTES   8
#define FILE_NAME         "pystack" /* with its NUL */
#define FILE_MAJOR        1
#define FILE_MINOR        0

enum {
	FILE_HEADER_BYTES = 48,
	FILE_CHUNK_BYTES = 40,
	FILE_SKIPPABLE_BYTES = 8, /* magic and size in front of either */
	FILE_ID_BYTES = 16,
};

enum file_chunk_kind {
	FILE_CHUNK_DEFINITIONS = 1,
	FILE_CHUNK_SAMPLES = 2,
	FILE_CHUNK_END = 3,
};

/* Limits, of writing and of what a reader takes. */
#define FILE_RAW_MAX      (16u << 20)
#define FILE_STORED_MAX   (17u << 20)
#define FILE_IDS_MAX      (1u << 20) /* strings, functions, nodes in an epoch */
#define FILE_TEXT_MAX     (1u << 20)
#define FILE_SEGMENTS_MAX 65536u
#define FILE_THREADS_MAX  (1u << 20)
#define FILE_ATTRS_MAX    65536u

#define FILE_OPTIONAL 0x80u

enum file_record_type {
	FILE_SCHEMA = 1,
	FILE_SEGMENT = 2,
	FILE_SEGMENT_END = 3,
	FILE_STRING = 4,
	FILE_FUNCTION = 5,
	FILE_NODE = 6,
	FILE_THREAD = 7,
	FILE_THREAD_END = 8,
	FILE_BASE = 16,
	FILE_TICKS = 17,
	FILE_RUNS = 18,
	FILE_CPU = 19,
	FILE_GAP = 20,
	FILE_CLOCK = 21,
	FILE_COUNTERS = 22,
	FILE_PHASE = 24,
	FILE_MARK = FILE_OPTIONAL | 23,
	FILE_COPY = FILE_OPTIONAL | 25,
	FILE_TIMER = FILE_OPTIONAL | 26,
	FILE_TIMERS = FILE_OPTIONAL | 27,
	FILE_SUMMARY = 32,
};

/* A run's first number: state, a flag, and its ticks. */
enum {
	FILE_RUN_STATE_MASK = 0x1f,
	FILE_RUN_SKIP = 0x20,
	FILE_RUN_TICKS_SHIFT = 6,
};

enum file_why {
	FILE_WHY_SPAWN = 1,
	FILE_WHY_ATTACH = 2,
	FILE_WHY_FORK = 3,
	FILE_WHY_EXEC = 4,
	FILE_WHY_RESTART = 5,
};

enum file_end_why {
	FILE_END_EXIT = 1,
	FILE_END_SIGNAL = 2,
	FILE_END_EXEC = 3,
	FILE_END_DETACHED = 4,
	FILE_END_SAMPLER = 5,
	FILE_END_GONE = 6,
	FILE_END_CONTINUED = 7, /* it goes on in another file */
};

enum file_segment_flags {
	FILE_SEGMENT_ADAPTIVE = 1,
	FILE_SEGMENT_SPIN = 2,
	FILE_SEGMENT_CONTINUED = 4, /* it began in another file */
	FILE_SEGMENT_ONCPU = 8,     /* of threads that ran alone */
};

enum file_ticks_flags {
	FILE_TICKS_MEAN = 1,
	FILE_TICKS_LIMITED = 2, /* longer than asked for, for the overhead limit */
	FILE_TICKS_SUBSET = 4,  /* not all threads were looked at */
};

enum file_cpu_flags {
	FILE_CPU_ANEW = 1,   /* no ticks since the one before */
	FILE_CPU_COARSE = 2, /* in steps of a clock tick, and nothing but CPU time */
};

/* Texts are borrowed wherever they stand in these structs; they need not end in a
 * NUL, and may hold one. */
struct file_text {
	const char *bytes;
	size_t size;
};

struct file_attribute {
	struct file_text name;
	struct file_text value;
};

struct file_segment {
	uint32_t segment;
	uint8_t id[FILE_ID_BYTES];
	uint32_t parent;
	uint32_t why; /* enum file_why */
	uint32_t pid;
	uint32_t inner_pid;
	uint64_t mono_ns;
	uint64_t real_ns;
	uint64_t interval_ns;
	uint32_t flags; /* enum file_segment_flags */
	const struct file_attribute *attributes;
	uint32_t attribute_count;
};

struct file_counter {
	struct file_text name;
	uint64_t value;
};

struct file_segment_end {
	uint32_t segment;
	uint32_t why; /* enum file_end_why */
	uint64_t status;
	uint64_t mono_ns;
	const struct file_counter *counters;
	uint32_t counter_count;
};

struct file_function {
	uint32_t file; /* string */
	uint32_t name; /* string */
	int64_t first_line;
	uint64_t table_hash;
	uint32_t flags;
};

/* A line that is none, or not known. */
#define FILE_NO_LINE INT64_MIN

struct file_node {
	uint32_t caller;
	int64_t call_line; /* relative to the caller's first line, or FILE_NO_LINE */
	uint32_t kind;     /* enum record_node_kind */
	uint32_t ref;
};

struct file_thread {
	uint32_t thread;
	uint32_t segment;
	uint32_t tid;
	uint64_t python_id;
	uint64_t interpreter;
	struct file_text name;
};

struct file_ticks {
	uint32_t segment;
	uint64_t first;
	uint64_t count;
	uint64_t start_ns;
	uint64_t length_ns;
	uint32_t flags;       /* enum file_ticks_flags */
	uint32_t subset_of;   /* threads; with FILE_TICKS_SUBSET, else 0 */
	uint32_t subset;      /* of these, those looked at */
	const uint64_t *late; /* ticks, rising */
	uint32_t late_count;
};

struct file_run {
	uint32_t thread;
	uint32_t node;
	int64_t line;   /* relative to the function's first line, or FILE_NO_LINE */
	uint32_t state; /* enum record_state */
	uint64_t first; /* tick */
	uint64_t ticks;
};

struct file_cpu {
	uint32_t thread;
	uint64_t tick;
	uint64_t cpu_ns;
	uint64_t run_count;
	uint32_t flags;    /* enum file_cpu_flags */
	uint64_t delay_ns; /* so far, ready to run without a CPU */
	uint64_t lost;     /* ticks so far that were left out for want of room */
};

struct file_phase {
	uint32_t segment;
	uint32_t phase; /* enum record_phase */
	uint64_t tick;  /* from it on */
};

/* CPU time by a thread's own timer. */
struct file_timer {
	uint32_t thread;
	uint32_t node;
	int64_t line;   /* as of a run */
	uint32_t state; /* REC_APPROXIMATE or 0 */
	uint64_t tick;  /* that comes next */
	uint64_t cpu_ns;
	uint64_t samples;
};

/* How the program's memory is read from then on, where the sampler is a thread. */
struct file_copy {
	uint32_t segment;
	uint64_t mono_ns;
	uint32_t state;     /* enum ring_copy_state, or one that is not known yet */
	uint32_t flags;     /* enum ring_copy_flags, likewise */
	uint64_t warmup_ns; /* left of the warm-up */
	/* Of SIGSEGV and of SIGBUS: the handler that took the place of the sampler's,
	 * and the file, or what else, it lies in; "": not known. */
	uint64_t owner[2];
	struct file_text mapping[2];
};

/* What has become of the CPU timers that were asked for, from then on. */
struct file_timers {
	uint32_t segment;
	uint64_t mono_ns;
	uint32_t state;   /* enum ring_timer, or one that is not known yet */
	uint32_t detail;  /* an errno, where the state has one */
	uint32_t blocked; /* threads so far that had none, as they block SIGURG */
	/* The handler of SIGURG that is not the sampler's, and what it lies in; "": not
	 * known. */
	uint64_t owner;
	struct file_text mapping;
};

struct file_gap {
	uint32_t segment;
	uint64_t from_ns;
	uint64_t to_ns;
	uint32_t reason; /* enum record_gap */
};

struct file_clock {
	uint32_t segment;
	uint64_t mono_ns;
	uint64_t real_ns;
};

/* Not of a segment: of the recording. */
struct file_mark {
	uint64_t real_ns;
	struct file_text text;
};

struct file_summary {
	uint64_t segments;
	uint64_t samples;
	uint64_t lost;
	uint64_t mono_ns;
	uint64_t elapsed_ns;      /* that the recorder ran, in the time of this file */
	uint64_t recorder_cpu_ns; /* that it used in it */
};

#endif
