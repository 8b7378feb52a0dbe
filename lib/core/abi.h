/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ABI_H
#define CORE_ABI_H

/*
 * What those who start the core need to know of it.
 *
 * The core image is one run of position independent code and constants, without
 * writable data and without anything a loader would do: copied or mapped
 * anywhere, executable, it runs.  All its state lies in an arena that the starter
 * maps (readable, writable, zero) and at whose start it puts a struct core_args.
 *
 * Two entries:
 *   CORE_ENTRY_CALL   a function `int (struct core_args *)` by the C calling
 *		       convention.  Starts the task with raw clones and returns
 *		       once the task runs: 0, or a negative errno.  Blocks signals
 *		       for that moment and puts the mask back.  Takes 100 us or so.
 *   CORE_ENTRY_CLONE  where a task begins that was cloned from outside: the word
 *		       the stack pointer points at is the address of the
 *		       struct core_args.  Never returns.
 *
 * Both are for a task of its own, that shares the memory of the program and nothing
 * else (clone flags CORE_CLONE_FLAGS), or for a thread of the program
 * (CORE_THREAD_FLAGS): see doc/design.md.
 */

#include <stdint.h>

#include "wire/isolation.h"

#define CORE_ABI_VERSION 6u

/* Byte offsets of the two entries from the start of the image. */
#define CORE_ENTRY_CALL  0
#define CORE_ENTRY_CLONE 16

/* CLONE_VM | CLONE_FILES | CLONE_UNTRACED, exit signal 0.  The descriptors are
 * shared for an instant only: the task's first call gives it an empty table
 * without ever having copied the program's. */
#define CORE_CLONE_FLAGS 0x00800500u

/*
 * The other isolation, where such a clone is refused: a thread of the program.  These
 * are the flags of glibc's pthread_create(), bit for bit, as there are filters that let
 * nothing else pass.  Of what they ask for, the places of the ids are to be NULL, and
 * what the thread gets for its TLS is the arena's address: nothing reads it, and it is
 * not another thread's.  It unshares descriptors and working directory at once.
 */
#define CORE_THREAD_FLAGS 0x003d0f00u

/* The arena: args and state, stack, tables.  Bytes; only what is used is touched. */
#define CORE_ARENA_BYTES (6u << 20)

/* The task's stack lies at the first multiple of its size in the arena, so that a
 * signal handler finds the state from the stack pointer alone. */
#define CORE_STACK_BYTES (64u << 10)

enum core_way {
	CORE_WAY_SPAWN = 1,  /* by the preload library; says hello on a socket */
	CORE_WAY_ATTACH = 2, /* by an injector, which finds the ring by itself */
};

/*
 * Steps that the task can do without: those which a seccomp filter of the program, that
 * the task has inherited, would answer with an error or with its death, are to be left
 * out (core_args.avoid).
 */
enum core_avoid {
	CORE_AVOID_CORE_LIMIT = 1u << 0, /* prlimit64(RLIMIT_CORE) */
	CORE_AVOID_FILE_LIMIT = 1u << 1, /* prlimit64(RLIMIT_NOFILE) */
	CORE_AVOID_SESSION = 1u << 2,    /* setsid */
	CORE_AVOID_SCHEDULER = 1u << 3,  /* sched_setscheduler */
	CORE_AVOID_AFFINITY = 1u << 4,   /* sched_setaffinity */
	CORE_AVOID_SLACK = 1u << 5,      /* prctl(PR_SET_TIMERSLACK) */
	CORE_AVOID_UNLOCK = 1u << 6,     /* munlock */
	CORE_AVOID_PROC = 1u << 7,       /* readlinkat, openat, pread64, close */
	CORE_AVOID_CHROOT = 1u << 8,     /* fchdir, chroot; of a thread: unshare */
	CORE_AVOID_CAPSET = 1u << 9,
	CORE_AVOID_NO_NEW_PRIVS = 1u << 10, /* prctl(PR_SET_NO_NEW_PRIVS) */
	CORE_AVOID_SECCOMP = 1u << 11,
	CORE_AVOID_KCMP = 1u << 12,
	CORE_AVOID_PWRITEV = 1u << 13, /* of copies of a thread, one of the two */
	CORE_AVOID_READV = 1u << 14,   /* process_vm_readv */
	CORE_AVOID_TIMERS = 1u << 15,  /* CPU timers, and what they need */
};

/* Exit statuses of a task that could not begin; 128 + N after signal N.  Nobody sees
 * that of a thread: it stands in core_args.failed, too. */
enum core_exit {
	CORE_EXIT_RING = 1,    /* memory for the ring: it has no more, or may not */
	CORE_EXIT_ARENA = 2,   /* the arena is too small */
	CORE_EXIT_FILES = 3,   /* its own table of descriptors */
	CORE_EXIT_SIGNALS = 4, /* its own handlers, or mask */
};

/* sizeof(((struct sockaddr_un *)0)->sun_path) */
#define CORE_SOCKET_PATH_BYTES 108

struct core_args {
	uint32_t abi_version;
	uint32_t way; /* enum core_way */
	uint64_t arena, arena_bytes;
	uint64_t image, image_bytes;
	/* Where the vdso is mapped (AT_SYSINFO_EHDR), or 0: clocks by system call. */
	uint64_t vdso;
	/* The main thread's clear_child_tid word, or 0. */
	uint64_t tid_word;
	int32_t program_pid;   /* in the program's pid namespace */
	int32_t recorder_pid;  /* in the program's pid namespace; 0: not known */
	uint32_t single_clone; /* 1: the task is to be the program's child */
	/* Leave again without a word when the program has ended or executed another
	 * one by then. */
	uint32_t patience_us;
	uint32_t forked; /* 1: all that the process has used is its own */
	/* Where it is not: the process in between, and when that may end. */
	uint32_t hold;     /* 1: not before the recorder has given orders */
	uint32_t released; /* set by the task */
	int32_t middle;    /* set by it before it makes the task */
	uint32_t avoid;    /* enum core_avoid */
	/* What is wanted (spawned), or what it has been cloned as. */
	uint32_t isolation; /* enum core_isolation */
	uint32_t failed;    /* enum core_exit; set by the core */
	/* Spawned only. */
	char socket_path[CORE_SOCKET_PATH_BYTES];
	uint64_t runtime;
	uint64_t code_type;
	/* Of a word in the program's memory, or 0: how long the start has held it, in
	 * ns; 0 until that is known. */
	uint64_t held_word;
	uint32_t python_hex;
	char python_version[64];
};

/*
 * What the handler of CPU timers leaves in the program for good: a page of code that
 * calls what entry names, and behind it this, all zero in a fork child.  In the image,
 * and in whatever the handler of this start uses, no thread of the program can be once
 * entry is 0 and then inside is 0.
 */
struct timer_state {
	uint64_t entry;  /* core_timer_handler(); 0: nobody takes samples here */
	uint64_t core;   /* struct core, in the arena */
	uint32_t secret; /* upper half of the cookies of all our timers, also later */
	uint32_t inside; /* threads that may be in what entry names */
};

enum {
	TIMER_PAGE = 4096,
	TIMER_AT_RETURN = 96, /* of the code, the same in the image: where it ends but
			       * for the return to the kernel */
};

/* The first page of the image starts with the call entry; its size is here. */
extern const unsigned char core_image[];
extern const unsigned char core_image_end[];

/*
 * The stack pointer with which a task cloned from outside must begin: two words
 * below the top of the stack, of which the lower is the address of the clone
 * entry (taken by the `ret` behind the system call) and the upper that of args.
 */
static inline uint64_t core_stack_base(uint64_t arena)
{
	/* Room for the args in front of it. */
	uint64_t first = arena + 4096;

	return (first + CORE_STACK_BYTES - 1) & ~(uint64_t)(CORE_STACK_BYTES - 1);
}

static inline uint64_t core_stack_top(uint64_t arena)
{
	return core_stack_base(arena) + CORE_STACK_BYTES;
}

#endif
