/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TIMER_H
#define CORE_TIMER_H

/*
 * What lies between the handler of SIGURG, which runs in a thread of the program, and
 * the sampler: a buffer for each thread that has a timer (doc/design.md 1.6).  The
 * handler's own pages are in abi.h.
 *
 * One producer, the handler, which does not nest as its signal is blocked in it; one
 * consumer, the sampler.  Of the words [tail, head) all are whole samples.  A buffer is
 * given to another thread only when its timer is deleted and nobody is inside.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/abi.h"

enum {
	TIMER_BUFFER_BYTES = 8192,
	TIMER_WINDOW_BYTES = 1024, /* copied at once */
	TIMER_WORDS = 848,
	TIMER_HEAD_WORDS = 2,
	TIMER_FRAMES = 256,     /* stored of one stack, leaf side */
	TIMER_STEPS = 1024,     /* frames looked at */
	TIMER_FULL_MOST = 1000, /* in a row, then the timer is disarmed */
};

/* A frame in a word: address of the code object / 8, and the instruction. */
enum { TIMER_INSTR_BITS = 20 };
#define TIMER_INSTR_BAD  0xfffffu /* cannot be */
#define TIMER_INSTR_NONE 0xffffeu /* not begun */
#define TIMER_INSTR_MOST 0xffffdu

/* As the kernel has them. */
enum {
	/* SIGURG: what comes when the handler is not there is ignored (1.6). */
	TIMER_SIGNAL = 23,
	TIMER_SIGNALS_BYTES = 8,    /* of a set of signals */
	TIMER_RESTART = 0x10000000, /* SA_RESTART */
};

struct sigaction_raw {
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer;
	uint64_t mask;
};

struct itimer_raw {
	int64_t every_s, every_ns;
	int64_t at_s, at_ns;
};

struct timer_buffer {
	/* Set by the sampler while there is no timer. */
	uint64_t ts, pthread, native;
	uint64_t root; /* where its outermost frame lies; 0: not known */
	uint32_t max_frames;
	int32_t timer; /* the kernel's number */
	int64_t interval_ns;
	uint32_t live; /* the handler may write */
	uint64_t lost_told, interrupted_told;

	/* Written by the sampler. */
	__attribute__((aligned(64))) uint64_t tail;

	/* Written by the handler, those in front of full by the sampler at first. */
	__attribute__((aligned(64))) uint32_t inside;
	int64_t stratum; /* where that of the last expiration begins, CPU time */
	int64_t next;    /* instant of the next expiration */
	uint64_t random;
	uint32_t full;   /* samples without room since the last that had some */
	uint32_t masked; /* the thread blocks the signal, but for a call that let it in
			  */
	uint64_t head;
	uint64_t lost;        /* expirations without room */
	uint64_t interrupted; /* system calls that said EINTR as the signal came */
	uint64_t absent;      /* and those at which the thread had no Python frames */
	uint64_t window_at;
	uint32_t window_bytes;

	uint8_t window[TIMER_WINDOW_BYTES];
	uint64_t words[TIMER_WORDS];
};

_Static_assert(sizeof(struct timer_buffer) <= TIMER_BUFFER_BYTES, "8 KiB a thread");

/* What stands in front of the frames of a sample. */
struct timer_sample {
	uint32_t stored;
	uint32_t missing;  /* frames on the root side, at least */
	uint32_t overruns; /* expirations that came together with this one */
	bool complete;     /* the chain ended where a stack ends */
};

static inline uint64_t timer_room(const struct timer_buffer *b)
{
	uint64_t used = b->head - __atomic_load_n(&b->tail, __ATOMIC_ACQUIRE);

	return used <= TIMER_WORDS ? TIMER_WORDS - used : 0;
}

/* Word number i of the sample in the making. */
static inline void timer_set(struct timer_buffer *b, uint32_t i, uint64_t word)
{
	b->words[(b->head + i) % TIMER_WORDS] = word;
}

/* The sample whose frames were set, behind TIMER_HEAD_WORDS, is whole. */
static inline void timer_publish(struct timer_buffer *b, const struct timer_sample *s)
{
	timer_set(b, 0,
		(uint64_t)s->stored | (uint64_t)s->missing << 16 |
			(uint64_t)s->complete << 48);
	timer_set(b, 1, s->overruns);
	__atomic_store_n(
		&b->head, b->head + TIMER_HEAD_WORDS + s->stored, __ATOMIC_RELEASE);
}

/*
 * CPU time is cut into strata, each with one expiration at a random instant of it: a
 * program that works in step with the interval would else be seen at few of its places.
 */
static inline void timer_next_stratum(struct timer_buffer *b)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	b->stratum += b->interval_ns;
	b->next = b->stratum + (int64_t)(b->random % (uint64_t)b->interval_ns);
}

/* How many expirations are behind this CPU time since those that were told?  At least
 * one; the next one is the first that is not. */
static inline uint32_t timer_expired(struct timer_buffer *b, int64_t now)
{
	int64_t strata = (now - b->next) / b->interval_ns - 2;
	uint32_t n = 1;

	timer_next_stratum(b);
	/* Far behind, one by one would take long. */
	if (strata > 0) {
		n += strata < INT32_MAX ? (uint32_t)strata : INT32_MAX;
		b->stratum += strata * b->interval_ns;
		b->next += strata * b->interval_ns;
	}
	for (; b->next <= now; n++)
		timer_next_stratum(b);
	return n;
}

/* The sampler's side: the next sample, or false.  Its frames are looked at with
 * timer_frame() and given back with timer_consume(). */
static inline bool timer_next(const struct timer_buffer *b, struct timer_sample *s)
{
	uint64_t head = __atomic_load_n(&b->head, __ATOMIC_ACQUIRE);
	uint64_t there = head - b->tail;

	if (there < TIMER_HEAD_WORDS || there > TIMER_WORDS)
		return false;
	uint64_t first = b->words[b->tail % TIMER_WORDS];

	s->stored = first & 0xffff;
	s->missing = first >> 16 & 0xffff;
	s->complete = (first >> 48 & 1) != 0;
	s->overruns = (uint32_t)b->words[(b->tail + 1) % TIMER_WORDS];
	return s->stored <= TIMER_FRAMES && s->stored + TIMER_HEAD_WORDS <= there;
}

static inline uint64_t timer_frame(const struct timer_buffer *b, uint32_t i)
{
	return b->words[(b->tail + TIMER_HEAD_WORDS + i) % TIMER_WORDS];
}

static inline void timer_consume(struct timer_buffer *b, const struct timer_sample *s)
{
	__atomic_store_n(
		&b->tail, b->tail + TIMER_HEAD_WORDS + s->stored, __ATOMIC_RELEASE);
}

/* Nothing of it can be read: begin again behind it. */
static inline void timer_skip(struct timer_buffer *b)
{
	__atomic_store_n(&b->tail, __atomic_load_n(&b->head, __ATOMIC_ACQUIRE),
		__ATOMIC_RELEASE);
}

static inline uint64_t timer_word(uint64_t code, uint32_t instr)
{
	return (code >> 3) << TIMER_INSTR_BITS |
	       (instr > TIMER_INSTR_NONE ? TIMER_INSTR_BAD : instr);
}

static inline uint64_t timer_word_code(uint64_t word)
{
	return (word >> TIMER_INSTR_BITS) << 3;
}

static inline uint32_t timer_word_instr(uint64_t word)
{
	return (uint32_t)word & TIMER_INSTR_BAD;
}

enum {
	/* The cookie's lower half: number of the buffer. */
	TIMER_SLAB = 64, /* buffers mapped at once */
	TIMER_SLABS = 64,
};

#endif
