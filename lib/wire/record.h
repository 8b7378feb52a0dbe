/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

/*
 * The records of the ring.  One record:
 *
 *	length	varint, bytes that follow (type and payload)
 *	type	one byte; bit 7 set: optional, a reader that does not know it skips
 *		it.  Without the bit an unknown type is an error.
 *	payload	as listed; numbers are varints (varint.h), "signed" ones folded
 *
 * A reader uses the members it knows and ignores what follows them in the payload.
 * Times are ns of CLOCK_MONOTONIC as the task sees it.  Ticks count from 0 over
 * the life of the task.  Identifiers of strings, codes and nodes count from 1
 * and hold until the next REC_EPOCH; those of threads hold for the life of the
 * task.
 */

#include <stdint.h>

#define REC_OPTIONAL 0x80u

enum record_type {
	/* A string, or a piece of one that is longer than REC_STRING_PIECE.
	 * id, width (bytes a character: 1, 2, 4, or 0 for plain bytes), bytes in
	 * all, offset of this piece, then the bytes as they lie in the program. */
	REC_STRING = 1,

	/* A code object: id, string of the file name, string of the (qualified)
	 * name, string of the line table, first line (signed), co_flags. */
	REC_CODE = 2,

	/* A place in the call tree: id, node of the caller (0: none), position
	 * in the caller at which it calls, plus 1 (0: not begun or no caller),
	 * kind (enum record_node_kind), ref (a code, or what the kind says). */
	REC_NODE = 3,

	/* A thread: id, kernel thread id, pthread_t, interpreter id.  Then, which may
	 * be missing: when the kernel's thread began, clock ticks since boot (0: not
	 * told), by which one that comes again is known; whose name follows (enum
	 * record_name), its width as of a string, and to the end the name as it lies in
	 * the program.  Sent again with a name when that was not known at first. */
	REC_THREAD = 4,

	/* A thread has ended: id, first tick at which it was not there. */
	REC_THREAD_END = 5,

	/* Strata, one tick each, one after the other without a gap: first tick,
	 * count, start of the first stratum, length of each, flags (enum
	 * record_ticks_flags), with REC_TICKS_SUBSET the number of threads and of
	 * those that a tick looked at, number of late ticks, then for each late
	 * tick its distance from the one before (from the first tick). */
	REC_TICKS = 6,

	/* What a thread was seen at: thread, node, position in the leaf plus 1
	 * (0: not begun), state (enum record_state), first tick less the base of
	 * the last REC_CUT, count of ticks. */
	REC_RUN = 7,

	/* CPU time of a thread so far: thread, tick less the base of the last
	 * cut, CPU ns, times it was put on a CPU.  Holds at the start of the tick.
	 * Then flags (enum record_cpu_flags), ns it was ready and had no CPU, ticks
	 * of it that were left out as the ring was full. */
	REC_CPU = 8,

	/* Time without ticks: from, to, reason (enum record_gap). */
	REC_GAP = 9,

	/* Every run is closed here: base (the next tick), now, number of the last
	 * request for a cut that was served. */
	REC_CUT = 10,

	/* Strings, codes and nodes start over: number of the epoch. */
	REC_EPOCH = 11,

	/* The two clocks at one instant: monotonic, real time since 1970. */
	REC_CLOCK = 12,

	/* The last record: enum ring_leave, detail (signed), now. */
	REC_END = 13,

	/* What the interpreter is in the middle of, from a tick on: enum
	 * record_phase, tick less the base of the last cut.  At first it runs. */
	REC_PHASE = 14,

	/* How memory is read from here on: enum ring_copy_state, enum ring_copy_flags,
	 * addresses of the handlers of SIGSEGV and SIGBUS that took the place of ours
	 * (0: none), now. */
	REC_COPY = 15,

	/* CPU time by a thread's own timer: thread, node, position in the leaf plus 1
	 * (0: not begun), state (REC_APPROXIMATE or 0), tick before which it was taken,
	 * less the base of the last cut, ns of CPU time it stands for, samples. */
	REC_TIMER = 16,
};

#define REC_STRING_PIECE 8192u
/* The longest string, in bytes; a longer one is cut there. */
#define REC_STRING_MAX (256u << 10)

enum record_ticks_flags {
	REC_TICKS_SPIN = 1u << 0,    /* the length is the mean of the block */
	REC_TICKS_LIMITED = 1u << 1, /* longer than asked for, for the overhead limit */
	REC_TICKS_SUBSET = 1u << 2,  /* not all threads were looked at */
};

enum record_cpu_flags {
	/* No ticks were taken since the account before it: the difference is
	 * nobody's. */
	REC_CPU_ANEW = 1u << 0,
	/* The kernel's fine account was not to be had: CPU time in steps of a clock
	 * tick, nothing else. */
	REC_CPU_COARSE = 1u << 1,
	/* Counts only if nothing comes behind it: a thread of the program ends with
	 * that, without a last word. */
	REC_CPU_SO_FAR = 1u << 2,
};

enum record_phase {
	REC_PHASE_RUNNING = 0,
	REC_PHASE_STARTING,   /* not initialized yet */
	REC_PHASE_FINALIZING, /* on its way to its end */
	REC_PHASE_COUNT,
};

enum record_name {
	REC_NAME_NONE = 0,
	REC_NAME_KERNEL,    /* the kernel's, another one than the main thread's */
	REC_NAME_THREADING, /* of the threading module */
	REC_NAME_COUNT,
};

#define REC_NAME_MAX 4096u /* bytes; a longer one is cut there */

enum record_node_kind {
	REC_NODE_PYTHON = 0,     /* ref: code */
	REC_NODE_TRUNCATED = 1,  /* ref: frames missing on the root side, at least */
	REC_NODE_UNREADABLE = 2, /* no frame could be trusted; ref 0 */
	REC_NODE_NO_FRAME = 3,   /* the thread has no Python frame; ref 0 */
};

enum record_state {
	REC_RUNNING = 1u << 0,     /* on a CPU, or ready and holding the GIL */
	REC_GIL = 1u << 1,         /* holds the GIL */
	REC_GC = 1u << 2,          /* in the cyclic garbage collector */
	REC_APPROXIMATE = 1u << 3, /* root side trusted, leaf side cut or unproved */
	REC_GIL_WAIT = 1u << 4,    /* waits for the GIL; where the version tells */
	REC_STATE_MAX = 0x1f,
};

enum record_gap {
	REC_GAP_MISSED = 0, /* the task did not get the CPU in time */
	REC_GAP_PARKED,     /* the recorder was silent */
	REC_GAP_STOPPED,    /* the program was stopped by a signal */
	REC_GAP_DISABLED,   /* sampling was off, by order */
	REC_GAP_UNTOLD,     /* never sent: the sampler ended before it could */
	REC_GAP_COUNT,
};

#endif
