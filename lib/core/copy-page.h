/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_COPY_PAGE_H
#define CORE_COPY_PAGE_H

/*
 * The handlers of SIGSEGV and SIGBUS in the program's own table, for copies by loads.
 *
 * They lie in two pages that are mapped for good: others may have saved our handler,
 * and a fork child inherits it, long after the image and the arena are gone.  The first
 * page is code, a copy of the section core_page, which calls nothing outside and finds
 * its state by its own address.  The second is that state.
 *
 * The guarded loads are part of the code, so a fault is ours if it is at one of them.
 * The code's first bytes are laid out as below.
 */

#include <stdint.h>

enum {
	COPY_PAGE_BYTES = 4096,

	COPY_AT_HANDLER = 0, /* the action's handler */
	COPY_AT_RETURN = 48, /* and its restorer */
	COPY_AT_LOAD64 = 64, /* of each load the instruction that may fault is first */
	COPY_AT_LOAD32 = 72,
	COPY_AT_LOAD8 = 80,
	COPY_AT_FAILED = 88, /* where one goes on that has faulted */
	COPY_AT_DECIDE = 96,
};

#define COPY_PAGE_MAGIC 0x6567617079706f63ull /* "copypage" */

/* The kernel's struct sigaction. */
struct copy_action {
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer;
	uint64_t mask;
};

/* What a load returns: in two registers. */
struct copy_loaded {
	uint64_t value, failed;
};

typedef struct copy_loaded copy_load_function(uint64_t address);

enum { COPY_SEGV = 0, COPY_BUS, COPY_SIGNALS };

/* The second page. */
struct copy_state {
	uint64_t magic;
	int32_t sampler; /* the thread that loads; 0: none does */
	/* Both actions were taken out by ourselves and none was another's: nothing is
	 * known to lead here any more, and a later start may use the pages. */
	uint32_t idle;
	uint64_t stack, stack_bytes;            /* of the thread that loads */
	uint64_t faults;                        /* of loads */
	struct copy_action saved[COPY_SIGNALS]; /* what was there before ours */
	/* Signals that are no fault of a load and came to the thread that loads: for
	 * others of the program to take. */
	struct {
		uint32_t signal; /* 0: none */
		uint32_t pad;
		uint64_t info[16];
	} stray[COPY_SIGNALS];
};

/* The section, in the image. */
extern const unsigned char core_page_begin[] __attribute__((visibility("hidden")));
extern const unsigned char core_page_end[] __attribute__((visibility("hidden")));

#endif
