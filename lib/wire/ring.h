/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_RING_H
#define WIRE_RING_H

/*
 * The ring between the sampler task and the recorder: one shared memfd a
 * process, a header of two pages and then a run of bytes, written by the task
 * alone and read by the recorder alone.  Freestanding; both sides compile it.
 *
 * The task makes the memfd; the recorder maps it through a descriptor it was
 * handed or through /proc/TASK/fd.  Both sides take the other's words for hostile
 * and check each against its limits: the memory lies in the program as well.
 *
 * Invariants of the bytes:
 *  1. head and tail only grow; both count bytes since the start.
 *  2. tail <= head <= tail + data_bytes.  A reader who finds otherwise stops.
 *  3. Bytes [tail, head) are whole records (record.h); head is stored with
 *     release order after the bytes, and only at the end of a record.
 *  4. The task never waits: a record that does not fit is counted and left out.
 *  5. The last RING_RESERVE bytes take control records only, so that a full ring
 *     still says what was lost and when; of these, the last RING_RESERVE_LAST none of
 *     which there are many (ticks, cuts, ends of threads), but gaps, phases, the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/isolation.h"

#define RING_MAGIC        0x676e69726b737970ull /* "pyskring" */
#define RING_VERSION      6u
#define RING_HEADER_BYTES 8192u
#define RING_DATA_BYTES   (1u << 20)
#define RING_RESERVE      4096u
#define RING_RESERVE_LAST 1024u

/* What a task has room for at once; of what is beyond, RING_LOST_THREADS tells. */
#define RING_MOST_THREADS      8192u
#define RING_MOST_INTERPRETERS 1024u

/* The longest record that may be put, prefix included. */
#define RING_RECORD_MAX 8448u

/* What the task is doing; written by the task. */
enum ring_state {
	RING_STARTING = 0,
	RING_OFFERED, /* the offer is there; waits for orders */
	RING_WAITING, /* under orders; the interpreter is not up yet */
	RING_RUNNING,
	RING_PARKED,  /* by order or because the recorder fell silent */
	RING_LEFT,    /* gone, or about to: nothing more is written */
	RING_STOPPED, /* the program is stopped by a signal */
};

/* Why the task left. */
enum ring_leave {
	RING_LEAVE_NONE = 0,
	RING_LEAVE_ORDERED,       /* the recorder asked */
	RING_LEAVE_EXITED,        /* the program ended */
	RING_LEAVE_EXECED,        /* the program became another one */
	RING_LEAVE_RECORDER_GONE, /* nobody reads any more */
	RING_LEAVE_NO_ORDERS,     /* none came in time after the offer */
	RING_LEAVE_BAD_LAYOUT,    /* memory is not as the layout says */
	RING_LEAVE_SIGNAL,        /* detail: a fault of the task's own */
	RING_LEAVE_SYSCALL,       /* detail: errno of a call it cannot do without */
	RING_LEAVE_NO_COPY,       /* detail: errno; memory cannot be read any more */
	RING_LEAVE_NO_HANDLERS,   /* detail: errno, EBUSY where another handler stands;
				     fast copies were asked for */
	RING_LEAVE_RIGHTS, /* of a thread: the program has fewer or other rights */
	RING_LEAVE_COUNT,
};

/* What the recorder wants; written by the recorder. */
enum ring_order {
	RING_ORDER_NONE = 0,
	RING_ORDER_RUN,
	RING_ORDER_PARK, /* sampling is off, until the order to run */
	RING_ORDER_LEAVE,
};

enum ring_option_flags {
	RING_OPT_SPIN = 1u << 0, /* no sleeping; ticks weigh the time since the last */
	RING_OPT_ADAPTIVE = 1u << 1, /* stay under the overhead limit */
	RING_OPT_ONCPU = 1u << 2,    /* of threads that run alone */
};

/* How memory is to be read in the thread isolation. */
enum ring_copy {
	RING_COPY_AUTO = 0, /* by system calls */
	RING_COPY_FAST,     /* by loads, if the handlers of their faults can be had */
	RING_COPY_SYSCALL,  /* by system calls, whatever auto comes to mean */
};

/* How it is read. */
enum ring_copy_state {
	RING_COPY_DIRECT = 0, /* guarded loads of a task with handlers of its own */
	RING_COPY_BY_SYSCALL, /* also where loads are wanted, until Python is up */
	RING_COPY_WARMUP, /* by system calls still; then by loads, if all stays so */
	RING_COPY_BY_LOAD,
	RING_COPY_STOPPED, /* not at all */
	RING_COPY_STATES,
};

enum ring_copy_flags {
	RING_COPY_CAN_PWRITE = 1u << 0, /* pwritev to a memfd of its own works */
	RING_COPY_CAN_READV = 1u << 1,  /* process_vm_readv works */
	RING_COPY_WANTED = 1u << 2, /* fast was asked for: the intent, not the state */
	RING_COPY_FELL_BACK = 1u
			      << 3, /* fast was wanted and is not to be had any more */
	RING_COPY_TAKEN_SEGV = 1u << 4, /* another handler stands where ours was */
	RING_COPY_TAKEN_BUS = 1u << 5,
	RING_COPY_FLAGS = 0x3f,
};

/* What becomes of the CPU timers that were asked for. */
enum ring_timer {
	RING_TIMER_NONE = 0, /* not begun */
	RING_TIMER_ON,
	RING_TIMER_USED,     /* the program uses SIGURG, or ignores it */
	RING_TIMER_TAKEN,    /* it has begun to */
	RING_TIMER_NO_READ,  /* detail: errno of process_vm_readv */
	RING_TIMER_NO_PROC,  /* what signals a thread blocks cannot be seen */
	RING_TIMER_REFUSED,  /* detail: errno; the handler cannot be installed */
	RING_TIMER_FILTERED, /* a seccomp filter was put on all threads */
	RING_TIMER_STATES,
};

/* Set by the recorder before the order to run. */
struct ring_options {
	uint64_t interval_ns;  /* wanted length of a stratum */
	uint32_t flags;        /* enum ring_option_flags */
	uint32_t max_stack;    /* frames stored, leaf side */
	uint32_t overhead_ppm; /* share of the program's CPU time, adaptive only */
	uint32_t max_threads;  /* looked at by a tick; 0: all */
	uint32_t copy;         /* enum ring_copy */
	uint32_t timer_ns;     /* of CPU timers; 0: none */
	uint64_t warmup_ns;    /* by system calls before fast copies */
	uint64_t runtime;      /* address of _PyRuntime */
	uint64_t code_type;    /* address of PyCode_Type */
	uint8_t layout[512];   /* struct py_layout (python/layout.h) */
};

/* What a spawned program's task tells of itself; zero when attached. */
struct ring_offer {
	int32_t pid; /* of the program, in its own pid namespace */
	int32_t tid; /* of the task, likewise */
	uint64_t image, image_bytes;
	uint64_t arena, arena_bytes;
	uint64_t runtime;       /* address of _PyRuntime, 0 when not known */
	uint64_t code_type;     /* address of PyCode_Type, 0 when not known */
	uint32_t python_hex;    /* Py_Version (3.11 and later), else 0 */
	uint32_t recorder_seen; /* 1: the recorder's death can be seen */
	uint32_t isolation;     /* enum core_isolation, as it is */
	uint32_t pad;
	char python_version[64];     /* of Py_GetVersion(), when python_hex is 0 */
	uint8_t runtime_bytes[1024]; /* the first of _PyRuntime */
};

/* Counters of the task, each written whole; they only grow, but for the stratum. */
enum ring_counter {
	RING_TICKS = 0,    /* taken */
	RING_LATE,         /* of these, more than half a stratum after their instant */
	RING_MISSED,       /* strata that passed without a tick */
	RING_SAMPLES,      /* (thread, tick) pairs with a stack */
	RING_APPROXIMATE,  /* of the samples, marked so */
	RING_UNREADABLE,   /* of the samples, without any frame that can be trusted */
	RING_LOST_FULL,    /* samples left out because the ring was full */
	RING_LOST_THREADS, /* not a sum: the most threads at once without room */
	RING_NO_FRAMES,    /* of the samples, of threads without a Python frame */
	RING_WALKS,        /* chains read, repeated readings included */
	RING_EPOCHS,       /* tables started over */
	RING_CPU_NS,       /* CPU time of the task */
	RING_PARKED_NS,    /* time with the recorder silent or the program stopped */
	RING_NO_SCHEDSTAT, /* threads without the kernel's fine account */
	RING_GIL_SWITCHES, /* seen in the ledger */
	RING_STRATUM_NS,   /* not a sum: the stratum in force */
	RING_DISABLED_NS,  /* time parked by order */
	RING_TRUNCATED,    /* of the samples, those that lack frames on the root side */
	RING_PROGRAM_NS,   /* CPU time of the program since the task began */
	RING_LIMITED_NS,   /* time in strata longer than asked for */
	RING_COPY_CALLS,   /* system calls that copied memory */
	RING_COPY_BYTES,   /* copied by them */
	RING_COPY_ERRORS,  /* copies of what could not be read */
	RING_COPY_FAULTS,  /* guarded loads that faulted, in the thread isolation */
	RING_TIMER_SAMPLES,  /* of CPU timers */
	RING_TIMER_OVERRUNS, /* expirations that came together with another one */
	RING_TIMER_LOST,     /* samples without room, overruns included */
	RING_TIMER_YIELDED,  /* times the timers stood aside for another SIGURG user */
	RING_TIMER_INTERRUPTED, /* system calls that said EINTR as a timer's signal came
				 */
	RING_HELD_NS, /* that a start by the program itself has held it; 0: not known */
	RING_COUNTERS,
};

/* The first two pages.  Members of one writer share cache lines with no other. */
struct ring_header {
	/* Constant once the task has made the ring. */
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes;
	uint64_t data_bytes;
	struct ring_offer offer;

	/* Written by the task. */
	__attribute__((aligned(64))) uint64_t head;
	uint32_t state; /* enum ring_state */
	uint32_t leave; /* enum ring_leave */
	int32_t leave_detail;
	uint32_t task_beat; /* moves while the task lives */
	uint64_t counters[RING_COUNTERS];
	uint32_t copy_state;     /* enum ring_copy_state */
	uint32_t copy_flags;     /* enum ring_copy_flags */
	uint64_t copy_warmup_ns; /* left of the warm-up */
	uint64_t copy_owner[2];  /* handlers that took the place of ours: SEGV, BUS */
	uint32_t timer_state;    /* enum ring_timer */
	int32_t timer_detail;
	uint64_t timer_owner; /* the handler of SIGURG that is not ours */
	/* Where the handler of CPU timers is: not 0 from before there is one until no
	 * thread of the program can be in it.  Who finds it so when the sampler is gone
	 * must not take for granted that arena and image may go. */
	uint64_t timer_page;
	uint32_t timer_blocked; /* threads that had SIGURG blocked, so no timer */

	/* Written by the recorder. */
	__attribute__((aligned(64))) uint64_t tail;
	uint32_t order;         /* enum ring_order */
	uint32_t recorder_beat; /* moves once a second while the recorder lives */
	uint32_t cut_wanted;    /* number of the request for a cut, at once */
	struct ring_options options;
};

_Static_assert(sizeof(struct ring_header) <= RING_HEADER_BYTES, "header too large");

/* The task's side: where it writes, and what of it is published. */
struct ring_writer {
	struct ring_header *header;
	uint8_t *data;
	uint64_t data_bytes;
	uint64_t head; /* written, not yet published beyond header->head */
	uint64_t tail; /* as last seen */
};

/* header is mapped, zero and header_bytes + data_bytes long. */
void ring_writer_init(
	struct ring_writer *w, struct ring_header *header, uint64_t data_bytes);

/*
 * Put one whole record of size bytes (prefix included, at most RING_RECORD_MAX).
 * spared: room that has to be left behind it, RING_RESERVE, RING_RESERVE_LAST or 0, by
 * what it is (see above).  Returns false when it does not fit; the record is then left
 * out.  Nothing is visible before ring_publish().
 */
bool ring_put(
	struct ring_writer *w, const uint8_t *record, size_t size, uint32_t spared);

/* Free bytes for ordinary records, at least. */
uint64_t ring_room(struct ring_writer *w);

/* Let the reader see what was put. */
void ring_publish(struct ring_writer *w);

/* The recorder's side. */
struct ring_reader {
	struct ring_header *header;
	const uint8_t *data;
	uint64_t data_bytes;
	uint64_t tail;     /* what was taken */
	uint64_t released; /* what of it the writer has back */
};

/*
 * mapped: the whole memfd, mapped_bytes long.  Checks magic, version and sizes.
 * Returns 0 or a negative number that says which check failed.
 */
int ring_reader_init(struct ring_reader *r, void *mapped, uint64_t mapped_bytes);

/*
 * Copy up to max bytes of what is there into bytes.  Returns the count, or -1
 * when head is impossible (invariant 2).  Nothing is freed yet.
 */
int64_t ring_peek(const struct ring_reader *r, uint8_t *bytes, size_t max);

/* The first size bytes are done with; the writer has them back with the next release.
 */
void ring_take(struct ring_reader *r, uint64_t size);
void ring_release(struct ring_reader *r);

/* Both. */
void ring_consume(struct ring_reader *r, uint64_t size);

/* One counter, read whole. */
uint64_t ring_counter_get(const struct ring_header *h, enum ring_counter which);

#endif
