/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CORE_INTERNAL_H
#define CORE_CORE_INTERNAL_H

/*
 * The state of the core, all of it in the arena, and the calls between its files.
 * Everything here runs in the sampler task, on its one stack, unless it says so.
 *
 *   call.c    starting the task from a thread of the program
 *   task.c    what a task does before its first sample; its end
 *   alive.c   orders, heartbeats, death and exec of the program
 *   loop.c    the loop: strata, sleeping, the adaptive rate
 *   sample.c  one tick: which threads to look at, and what is taken as true
 *   walk.c    reading one chain of frames
 *   kept.c    chains of waiting threads, kept to see that they have not changed
 *   threads.c the table of threads, listing
 *   names.c   what a new thread is called
 *   intern.c  strings, code objects and nodes, each sent once
 *   runs.c    runs of samples, ticks, gaps: what goes into the ring
 *   cpu.c     CPU time and who runs without the GIL
 *   timer.c   CPU timers of threads
 *   timer-handler.c  what their signal does: runs in threads of the program
 *   standing.c  which signals a thread blocks, which filters it has
 *   fault-*   guarded loads that fault
 *   copy.c    reading memory as a thread of the program: by system calls, or by loads
 *             with handlers in the program's table
 *   copy-*    those handlers
 *   pages.c   pages that stay in the program, where the handlers of both lie
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/abi.h"
#include "core/arch.h"
#include "core/strata.h"
#include "core/sys.h"
#include "python/layout.h"
#include "wire/record.h"
#include "wire/ring.h"
#include "wire/varint.h"

/* Of functions that run now and then at most: made small rather than fast. */
#define RARE __attribute__((cold))

enum {
	/* Of each there are 80 bytes, which lie untouched where there is one. */
	MAX_INTERPRETERS = RING_MOST_INTERPRETERS,
	MAX_THREADS = RING_MOST_THREADS + 1, /* one is kept for the main thread */
	THREAD_INDEX = 16384,                /* a power of two, twice the entries */
	MAX_CODES = 8192,
	CODE_INDEX = 16384,
	MAX_NODES = 32767,
	NODE_INDEX = 65536,
	MAX_STRINGS = 16383,
	STRING_INDEX = 32768,
	MAX_STRING_BYTES = 4 << 20, /* sent in one epoch */
	PATH_CACHE = 1024,
	MAX_STORED_FRAMES = 4096, /* the most that max_stack may ask for */
	MAX_FRAMES = 65536,       /* a longer chain is taken for a loop */
	MAX_KEPT_BLOCKS = 4096,
	KEPT_BLOCK_FRAMES = 10,
	MAX_ENDED = 64, /* kernel threads remembered */
	SCRATCH_BYTES = 16384,
	NAME_TRIES = 8,
	COMM_BYTES = 16, /* of the kernel's name of a thread, with what ends it */
};

/* A PyThreadState and the kernel thread it belongs to.  What a look at all threads
 * needs stands in front, in two cache lines. */
struct thread {
	__attribute__((aligned(64))) uint64_t ts;
	uint64_t pthread;
	uint64_t native; /* the id in the thread state, as read; 0 before 3.11 */

	/* Its chain while it waits (kept.c). */
	uint64_t kept_link, kept_current, kept_chunk, kept_top;
	uint32_t kept_node, kept_position; /* what it shows */
	uint16_t kept;                     /* the first block, 0: none */
	uint16_t kept_frames;
	bool kept_truncated; /* frames of it are not shown */

	uint32_t id; /* on the wire; 0: entry not in use */
	uint32_t tid;
	uint32_t listing;     /* number of the listing that saw it last */
	uint16_t next_listed; /* the one behind it then: index plus 1, 0: not known */
	uint16_t gil;
	uint16_t next_attended; /* in the list of core.attended: index plus 1, 0 ends */
	bool attended;          /* it is in that list, even if its entry was freed */
	bool fresh;  /* has no run: entered by the last listing, or not chosen since */
	bool twin;   /* its kernel thread has another thread state, used later */
	bool chosen; /* of a subset of all, for the tick in hand */
	uint8_t name_tries; /* NAME_TRIES: it has its name, or will have none */

	/* The run in progress: from tick run_first on the thread was here. */
	bool in_run;
	uint8_t state;  /* enum record_state */
	bool truncated; /* frames are missing on the root side */
	uint32_t node;
	uint32_t position;
	uint64_t run_first;
	uint64_t lost; /* ticks that were left out as the ring was full */

	uint64_t interpreter;
	uint64_t last_held; /* tick at which it was last seen with the GIL */
	uint64_t looked; /* tick, plus 1, at which it was last looked at without it */

	/* CPU accounting (cpu.c). */
	int32_t schedstat; /* descriptor, or -errno when it cannot be had */
	int32_t stat;      /* descriptor, opened when asked for; -1 before */
	bool coarse;       /* the account is that of stat: CPU time in clock ticks */
	bool look;         /* has to be looked at when the window ends */
	bool ask;          /* its CPU time says that it runs without the GIL at times */
	bool untried;      /* it is new: nobody has looked at its CPU time yet */
	uint8_t vain;      /* so often it has been asked all the same */
	bool ran; /* was it on a CPU when its state was read last, at asked_ns? */
	int64_t ask_until; /* till then it may run without the GIL */
	int64_t asked_ns;
	uint64_t cpu_ns; /* at the last look */
	uint64_t run_count;
	uint64_t delay_ns; /* ready to run, without a CPU */
	int64_t excess_ns; /* CPU beyond what it ran with the GIL, decaying */
	int64_t held_ns;  /* weight of ticks seen holding the GIL since the last look */
	int64_t seen_ns;  /* of those seen running, likewise */
	int64_t slack_ns; /* time with the GIL beyond its CPU time, decaying */
	uint64_t running_ticks; /* of closed runs, since the last checkpoint */
	uint64_t checkpoint_cpu_ns;
	int64_t checkpoint_ns;
	bool anew; /* the next checkpoint begins anew: a pause was before it */
	uint8_t answers, yes; /* whether it ran, when it was asked for its excess */
	uint8_t doubt;        /* its delay counts as excess by this power of 2 less */
	bool brief; /* not of its kernel thread's beginning, and no checkpoint yet */

	uint16_t timer; /* number of its buffer plus 1 (timer.c); 0: it has no timer */
	uint8_t timer_blocked; /* looks in a row that found SIGURG blocked in it */
	uint8_t timer_open;    /* and then looks that did not */
	bool timer_told;       /* counted as one that blocks it */
};

/* A GIL and what its ledger said last. */
struct gil {
	uint64_t address;
	uint64_t holder;
	uint64_t switches;
	uint32_t interpreters;
	bool locked;
	/* Of the tick in hand. */
	uint64_t old_holder;
	uint64_t new_switches; /* since the last tick */
};

struct interpreter {
	uint64_t address;
	uint64_t id;
	uint64_t threads_head;
	uint64_t threads_last; /* of the last listing: the oldest */
	uint16_t gil;
};

/* A code object: trusted at its address only as long as these words are equal. */
struct code {
	uint64_t address;
	uint64_t filename, name, linetable;
	uint32_t first_line;
	uint32_t bytes;       /* of bytecode */
	uint32_t frame_bytes; /* of a frame that runs it; 0: not known */
	uint32_t flags;
	bool shim;        /* CPython's own, never shown */
	bool defined;     /* sent */
	uint32_t entered; /* core.timers.round at which it came into the table */
	uint64_t checked; /* core.moment at which it was found to be what it was */
};

struct node {
	uint32_t parent;
	uint32_t call; /* position in the parent, plus 1 */
	uint32_t ref;
	uint8_t kind; /* enum record_node_kind */
	bool known;   /* on a path that was proven, see sample.c */
};

struct string {
	uint64_t hash;
	uint32_t bytes;
	uint32_t width;
};

struct path_entry {
	uint64_t path;
	uint32_t node;
};

/* One frame of a chain as it lies in memory. */
struct raw_frame {
	uint64_t at, previous, code, instr;
	bool own; /* on the thread's own stack, not in a generator */
};

/* One frame of a chain, as stored. */
struct frame {
	uint64_t at, instr;
	uint64_t path; /* of the frames from the root to this one (struct walk) */
	uint32_t code; /* index of a struct code, from 1 */
	uint32_t position;
	uint32_t node; /* of one of the first struct walk.followed */
	bool own;      /* on the thread's own stack, not in a generator */
};

/* A frame of a chain that is kept. */
struct kept_frame {
	uint64_t at, instr;
	uint32_t code; /* index of a struct code; 0: one that is never shown */
	uint8_t owner;
};

struct kept_block {
	struct kept_frame frame[KEPT_BLOCK_FRAMES];
	uint16_t next; /* of the chain, or of those that are free; 0: none */
};

/*
 * One reading of a chain, leaf first.  The frames lie so that the root is the last of
 * the space: of a deep stack, the next reading finds most of what it needs there.
 */
struct walk {
	uint32_t frames; /* in the chain, those not shown left out */
	uint32_t stored; /* when not complete: those plausible before one that is not */
	bool complete;   /* every frame plausible, down to the root */
	uint32_t proven; /* frames from the leaf that call each other for certain */
	uint64_t path;   /* over everything but the leaf's position */
	struct frame *frame;
	struct frame *space; /* for MAX_STORED_FRAMES */
	uint64_t beyond;     /* path of the thread and of what is not stored of it */
	uint32_t followed;   /* frames, from the root, whose node is entered */
	bool stands_at_root; /* the frames are where the next reading may look */
};

/* The strata since the last TICKS record. */
struct tick_block {
	uint64_t first;
	uint32_t count;
	uint32_t late_count;
	int64_t start;
	int64_t length;
	int64_t end;
	uint32_t subset_of, subset; /* threads, and those looked at; 0: all were */
	uint8_t late[512];          /* varint distances */
	uint32_t late_bytes;
	uint64_t last_late;
};

/* CPU timers (timer.c). */
enum { MAX_TIMERS = 4096 };

struct timers {
	uint32_t some; /* a handler has put something into a buffer */
	enum ring_timer state;
	bool paused;
	uint32_t secret;        /* in the cookies of all */
	uint32_t tid;           /* of the sampler */
	uint64_t page;          /* of the handler; 0: none */
	uint64_t mode, filters; /* of seccomp, in this thread */
	uint64_t queue_most;    /* signals queued for this user, for another timer */
	uint64_t random;
	int64_t checked_ns;
	uint32_t next_checked; /* index of a thread */
	uint32_t round;        /* number of the last drain */
	uint32_t used;         /* buffers handed out so far, free ones included */
	uint32_t free_count;
	uint16_t free[MAX_TIMERS];
	uint64_t slab[64]; /* TIMER_SLABS */
};

/*
 * Memory as it is read in the thread isolation (copy.c).  A chunk never crosses a page:
 * it can be read whole or not at all.  A call costs the same for 64 bytes and for
 * 1024; 512 make 0.7 times the CPU time of 256 where a stack is deep, and cost nothing
 * where it is not.
 */
enum {
	COPY_CHUNK = 512, /* bytes, aligned */
	COPY_CHUNKS = 256,
	COPY_PAGES = 2048, /* known to be readable */
};

struct copying {
	uint8_t *data;    /* the chunks, and a page for what is longer */
	int fd;           /* the memfd that data is mapped from, -1 */
	int32_t tid;      /* of this thread */
	uint32_t call;    /* the system call in use, see copy.c */
	uint32_t refused; /* one bit for each call: it is not made again */
	int error;        /* why neither works */
	enum ring_copy_state state;
	uint32_t flags; /* enum ring_copy_flags */
	uint64_t owner[2];
	int64_t fast_at_ns;  /* end of the warm-up */
	int64_t known_at_ns; /* since when the table below is filled */
	uint64_t page;       /* of the handlers; 0: none */
	uint64_t spare;      /* for them, as long as there are none; 0: none */
	bool awaits;         /* the interpreter, before the handlers may come */
	bool ordered;        /* the orders are known, and how memory is read is told */
	uint64_t faults;     /* of them, that are counted */
	struct {
		uint64_t address, moment;
	} chunk[COPY_CHUNKS];
	uint64_t known[COPY_PAGES]; /* pages read by a system call lately */
};

struct core {
	struct core_args args;
	bool thread; /* a thread of the program, not a task of its own */
	bool copies; /* memory is read by copy_load() alone */

	int32_t middle; /* process that made it and may live still; 0: gone */

	/* What the task holds. */
	struct ring_writer ring;
	uint64_t vdso_clock_gettime; /* 0: by system call */
	struct ring_options options;
	struct py_layout layout;
	int program_pidfd;
	int recorder_pidfd; /* or the hello socket; -1 when neither */
	bool recorder_is_socket;
	int task_directory; /* /proc/PID/task of the program, -1 */
	int stat_fd;        /* of the program's main thread, -1 */
	int self_stat_fd;   /* of the task, -1; schedstat of a thread */
	int status_fd;      /* of the main thread, for a thread; -1 */
	uint64_t rights;    /* what it says of them at first */
	uint64_t own_delay; /* of a thread: ready without a CPU, when last looked at */
	bool tid_word_good;
	int64_t mm_checked_ns;
	uint32_t recorder_beat;
	int64_t recorder_beat_ns;
	uint32_t cut_seen;        /* the last request for a cut that was served */
	enum record_gap park_why; /* when alive_check() says so */
	int64_t clock_sent_ns;

	/* Time. */
	struct strata strata;
	struct strata_budget budget;
	int64_t now_ns;    /* of the tick in hand */
	int64_t weight_ns; /* likewise */
	uint64_t tick;     /* its number */
	uint64_t cut_base; /* number of the first tick after the last cut */
	int64_t cut_ns;
	int64_t ticks_since_ns; /* the first ticks */
	int64_t polled_ns;      /* when the ends were last asked for */
	int64_t adapt_ns;
	int64_t adapt_own_cpu, adapt_program_cpu;
	int64_t first_program_cpu; /* of the program, before that of the segment */
	int64_t stopped_since;     /* 0: the program is not stopped */
	struct tick_block block;
	int64_t last_tick_ns;
	int64_t gap_from; /* since when no ticks are taken, and why; 0: they are */
	enum record_gap gap_why;
	int64_t learn_until; /* the next tick of those without strata; 0 with strata */
	uint32_t subset_of, subset; /* threads, those looked at; 0: all are */

	/* The window of cpu.c, and how long it is to be. */
	int64_t window_ns, window_step;
	int64_t window_cpu;
	int64_t full_look_ns, full_look_step, full_look_price;
	int64_t so_far_ns, so_far_step;
	int64_t doubted_ns;     /* when every thread was last doubted less */
	int64_t unexplained_ns; /* CPU time that nobody was found to have used */
	/* Weight of the ticks that saw a thread running, and what the kernel says of
	 * the same time: in the last windows, decaying. */
	int64_t window_seen_ns;
	int64_t lately_seen_ns, lately_used_ns;
	bool young; /* these two are what there is of the first window, at part_ns */
	int64_t part_ns;
	uint32_t asked;    /* threads, in this tick */
	bool ask_all;      /* they are few enough */
	int64_t vain_room; /* for questions to those that are untried, ns */

	/* The interpreter. */
	uint32_t pthread_tid_offset; /* 0: not found yet */
	enum record_phase phase;
	bool interpreters_gone;
	uint32_t interpreter_count;
	uint32_t gil_count;
	uint64_t first_beyond; /* the first that found no room; 0: all are there */
	struct interpreter interpreters[MAX_INTERPRETERS];
	struct gil gils[MAX_INTERPRETERS];
	uint32_t listing;
	uint32_t left_out; /* threads that it found no room for */
	bool relist;
	bool unentered; /* thread states without a frame were left out of the table */
	bool unproven;  /* no frame has shown yet that memory is as the layout says */
	int64_t unlike_since; /* 0: nothing says that it is not */
	bool older; /* threads that are new in the list may be older than its ticks */
	int64_t listed_ns, listed_before_ns; /* the last listing, the one before it */
	int64_t list_step;          /* to the next one, if nothing asks for it */
	int64_t bare_ns, bare_step; /* the same, of those without a frame */
	uint32_t thread_count;      /* entries used so far, free ones included */
	uint32_t free_threads;      /* of these */
	uint32_t next_thread_id;
	uint32_t ended[MAX_ENDED]; /* kernel threads that outlived their thread state */
	uint32_t ended_count;
	uint16_t attended; /* index plus 1 of the first to be seen at the next tick */
	bool all_changed;  /* every thread has to be walked at the next tick */

	/* Tables of the epoch. */
	uint32_t epoch;
	bool epoch_full;
	uint32_t code_count, node_count, string_count, string_bytes;

	/* Counters, copied into the ring's header by runs.c. */
	uint64_t counters[RING_COUNTERS];

	struct timers timers;

	struct walk walks[3];
	struct raw_frame *raw; /* of the walk in hand */

	/* Too large to be members that are touched at start: in the arena. */
	struct thread *threads;
	uint16_t *thread_index;
	struct code *codes;
	uint16_t *code_index;
	struct node *nodes;
	uint16_t *node_index;
	struct string *strings;
	uint16_t *string_index;
	struct path_entry *path_cache;
	struct kept_block *kept; /* from 1 */
	uint64_t moment;         /* moves when code objects have to be checked again */
	uint64_t copy_moment;    /* moves with copy_forget() */
	uint32_t kept_count;     /* blocks used so far, free ones included */
	uint16_t kept_free;      /* the first of these */
	uint8_t *scratch;

	struct copying copying; /* of a thread alone */
};

/* call.c: the entry for threads of the program (abi.h). */
int core_call(struct core_args *args);

/* task.c */
RARE long core_task(void *args) __attribute__((noreturn));
RARE _Noreturn void task_leave(struct core *c, enum ring_leave why, int detail);
struct core *task_state(void); /* from the stack pointer; any context */

/* alive.c */
/* Sleep until the monotonic time ns.  Returns false, maybe before it, when the sampler
 * should be parked. */
bool alive_sleep(struct core *c, int64_t until_ns);
/*
 * Look at orders and at what the task depends on; leaves when it has to, cuts when that
 * is asked for.  Returns false while the sampler should be parked, with the reason in
 * park_why.
 */
bool alive_check(struct core *c);
/* The first look: is the word of the main thread of use? */
RARE void alive_init(struct core *c);

/* loop.c */
_Noreturn void loop_run(struct core *c);
/* The time from which on no stratum tells that had its tick before now_ns. */
int64_t loop_untold_since(const struct core *c);
int64_t loop_now(struct core *c); /* CLOCK_MONOTONIC */
/*
 * How far apart is to be what costs so much CPU time, or it would take more than 0.2 %
 * of a core?
 */
static inline int64_t loop_step(int64_t least, int64_t price, int64_t most)
{
	enum { SHARE = 500 };
	int64_t step = price * SHARE;

	return step < least ? least : step > most ? most : step;
}
/* Bring the counters of CPU time up to date: of the task and of the program. */
void loop_count_cpu(struct core *c);
RARE void loop_find_vdso(struct core *c);
int64_t loop_clock(int clock); /* any clock, by system call */
enum { CLOCK_OWN_CPU = 3 };    /* CLOCK_THREAD_CPUTIME_ID */

/* sample.c */
/* Before runs_tick(): which threads will the tick look at? */
void sample_choose(struct core *c);
/* The same for a thread that has only now entered the table. */
void sample_choose_thread(struct core *c, struct thread *t);
void sample_tick(struct core *c);
/* From now on the thread is seen at each tick, as long as it is fresh or to be asked.
 */
void sample_attend(struct core *c, struct thread *t);
/* Has the interpreter come up, and does not go down yet?  Also before the first tick.
 */
RARE bool sample_is_up(struct core *c);
/* Is memory as the layout says?  0, the number of the check that failed, or
 * SAMPLE_NO_FRAMES: so it may be. */
#define SAMPLE_NO_FRAMES (-1)
RARE int sample_check_layout(struct core *c);
enum record_phase sample_phase(struct core *c);

/* walk.c */
void walk_read(struct core *c, uint64_t ts, struct walk *w);
/* Before it, at a tick: have the addresses translated. */
void walk_warm(struct core *c, uint64_t ts);
/* Does the thread execute Python code, or a C function that one has called? */
bool walk_moves(struct core *c, uint64_t ts);
/* Of a torn reading, put the first few frames on top of those of another one. */
RARE void walk_put_on(
	struct walk *torn, uint32_t first, const struct frame *frames, uint32_t count);
/* Codes and nodes have new numbers. */
RARE void walk_forget(struct core *c);
/* Has the thread state a frame? */
bool walk_has_frame(struct core *c, uint64_t ts);
/* Where the outermost frame of its own stack lies, also later; 0: not known. */
uint64_t walk_stack_root(struct core *c, uint64_t ts);
/* Its outermost frame and the code that it runs; false when that cannot be told, or is
 * far away. */
bool walk_root(struct core *c, uint64_t ts, uint64_t *ret_at, uint64_t *ret_code);

/* kept.c */
/* Keep the chain of a thread that does not run, and what is shown of it, which is that
 * of its run.  False when that cannot be. */
RARE bool kept_store(struct core *c, struct thread *t);
void kept_drop(struct core *c, struct thread *t);
/* Is its chain, down to the root, as it was kept? */
bool kept_holds(struct core *c, struct thread *t);
/* Ask for what that needs: for the frames when what leads to them is there. */
void kept_ask_places(struct core *c, const struct thread *t);
void kept_ask_frames(struct core *c, const struct thread *t);

/*
 * copy.c: reading memory in the thread isolation, where a load that faults is met by
 * the program's handlers (doc/design.md, "Copies").
 */
/*
 * copy.c.  copy_begin() comes before the first load, copy_orders() when options, layout
 * and ring are there: it leaves when memory cannot be read as it has to be.  Both block
 * every signal in the thread isolation and do nothing in the other.
 */
RARE void copy_begin(struct core *c);
RARE void copy_orders(struct core *c);
/* 8, 4 or 1 bytes from a sane address; false when they cannot be read. */
bool copy_load(struct core *c, void *to, uint64_t address, unsigned size);
/* Any number of bytes, always as they are now. */
RARE bool copy_bytes(struct core *c, void *to, uint64_t address, size_t size);
/*
 * A new look is meant: what was loaded before is old.  Loads by copy_load() between two
 * of these calls may come from one snapshot, so two of them prove nothing about the
 * time between.
 */
static inline void copy_forget(struct core *c)
{
	c->copy_moment++;
}
/* Once a cycle, before its first load: is it time for the handlers, are they still
 * ours? Leaves when they cannot be had. */
void copy_look(struct core *c);
/* Before the end: what was installed is taken out again, if it is still ours, and what
 * was mapped goes, but for the handlers.  Nothing can be loaded after that. */
RARE void copy_end(struct core *c);
/* Is it worth it to touch a page ahead of its use? */
static inline bool copy_may_touch(const struct core *c)
{
	return !c->copies || c->copying.state == RING_COPY_BY_LOAD;
}

/* threads.c */
struct thread *thread_find(struct core *c, uint64_t ts);
/* Bring the interpreters and GILs up to date; returns false when there is none. */
bool threads_interpreters(struct core *c);
/* Walk the list of every interpreter: new threads enter, missing ones end. */
void threads_list(struct core *c);
/* Is this thread state still linked where it was? */
bool thread_linked(struct core *c, const struct thread *t);

/* Is it still this thread's state?  Its memory may be used again at once. */
bool thread_same(struct core *c, const struct thread *t);
RARE void thread_end(struct core *c, struct thread *t);
/* End what is left in the table of its kernel thread's last time in its interpreter. */
void thread_end_before(struct core *c, const struct thread *t);

/* timer.c: nothing of it does anything where no CPU timers were asked for. */
struct timer_buffer;
struct timer_state;
/* After each tick: begin when it is time, take what the handlers have seen. */
void timers_cycle(struct core *c);
/* The same between ticks that are far apart, where the sampler sleeps for at most so
 * long at once. */
void timers_take(struct core *c);
int64_t timers_apart(const struct core *c, int64_t most);
/* Is the handler still ours?  If not, they stand aside. */
void timers_look(struct core *c);
RARE void timers_begin(struct core *c, struct thread *t);
RARE void timers_end(struct core *c, struct thread *t);
/* No CPU time counts between the two. */
RARE void timers_pause(struct core *c);
RARE void timers_resume(struct core *c);
/* The end of all.  Where a thread is still inside of the handler, c->timers.page stays
 * (the ring's timer_page as well): so have to the arena and the image. */
RARE void timers_stop(struct core *c);
/* Any thread: the buffer of that number, or NULL. */
struct timer_buffer *timers_buffer(struct core *c, uint32_t number);

/* timer-handler.c, called in a thread of the program.  info: siginfo of a timer of
 * ours; context: the thread's ucontext. */
long core_timer_handler(const void *info, struct timer_state *state, void *context);
/* The instruction that a word of a buffer stands for, as py_frame has it. */
uint64_t timer_handler_instr(const struct py_layout *l, uint64_t code, uint32_t word);

/* names.c */
/* Send a thread, with what it is called if that can be told; once more while it has
 * tries left.  Returns false when there was no room. */
bool thread_announce(struct core *c, struct thread *t);

/* intern.c */
/* The entry of a code object, new or old; 0 when it is none or the table is full. */
uint32_t code_find(struct core *c, uint64_t address);
/* Is it, at this moment (core.moment), still what it was when it was entered? */
bool code_holds(struct core *c, uint32_t code);
/* Send what belongs to it; false when it cannot be read whole or not be sent. */
RARE bool code_define(struct core *c, uint32_t code);
uint32_t node_find(
	struct core *c, uint32_t parent, uint32_t call, uint8_t kind, uint32_t ref);
/* The same, made and sent when not there; 0 when there is no room. */
uint32_t node_make(
	struct core *c, uint32_t parent, uint32_t call, uint8_t kind, uint32_t ref);
/* Start the tables over, if they are full; true when it was done. */
RARE bool intern_new_epoch(struct core *c);

/* runs.c */
struct record {
	uint8_t bytes[RING_RECORD_MAX];
	uint8_t *at;
};
_Static_assert(2 * REC_NAME_MAX + 80 < RING_RECORD_MAX, "names.c reads a name twice");
void record_begin(struct record *r, uint8_t type);
static inline void record_number(struct record *r, uint64_t value)
{
	r->at = varint_put(r->at, value);
}
/* spared: as of ring_put() */
bool record_put(struct core *c, struct record *r, uint32_t spared);

void run_set(struct core *c, struct thread *t, uint32_t node, uint32_t position,
	uint8_t state);
/* Put the run in progress into the ring; it goes on. */
void run_close(struct core *c, struct thread *t);
/* The same, and it is over. */
void run_end(struct core *c, struct thread *t);
void runs_phase(struct core *c, enum record_phase phase);
void runs_tick(struct core *c, int64_t start, int64_t length, bool late);
void runs_spin_tick(struct core *c, int64_t from, int64_t to);
void runs_gap(struct core *c, int64_t from, int64_t to, enum record_gap why);
/* The gap in hand, if there is one, ends at now. */
void runs_end_gap(struct core *c, int64_t now);
/* Close every run and the block of ticks; once a second and at the end.  Returns
 * false when there was no room to say so. */
bool runs_cut(struct core *c);
void runs_publish(struct core *c);

/* cpu.c */
/* Returns false when there is no such thread. */
bool cpu_open(struct core *c, struct thread *t);
void cpu_close(struct core *c, struct thread *t);
/* What the kernel calls a thread, into COMM_BYTES.  Returns how many, without an end.
 */
unsigned cpu_comm(struct core *c, uint32_t tid, char *text);
/* At the end of a tick: account for it and, when the window is over, look. */
void cpu_tick(struct core *c);
/* The first checkpoint of a thread, and the last of one that has ended. */
void cpu_begin(struct core *c, struct thread *t);
void cpu_end(struct core *c, struct thread *t);
/* Those that are due at a cut. */
void cpu_checkpoint_all(struct core *c);
/* Account for all until now: a pause follows, another file, or the end. */
void cpu_settle(struct core *c);
/* The same, and the interpreters have gone: so has what could be seen of threads, since
 * that time at the latest. */
RARE void cpu_settle_gone(struct core *c, int64_t since);
/* What each has used so far, for the case that this is the last word; now and then. */
void cpu_say_so_far(struct core *c);
/* Ticks are taken again: CPU time used since is nobody's. */
RARE void cpu_resume(struct core *c);
/* Is this thread on a CPU although it does not hold the GIL? */
bool cpu_runs_outside(struct core *c, struct thread *t);
/* Is this one, that does hold it? */
bool cpu_runs_inside(struct core *c, struct thread *t);
/* May it run without the GIL, and is that to be asked at each tick? */
bool cpu_may_run(const struct core *c, const struct thread *t);
bool cpu_asks(const struct core *c, const struct thread *t);
/* 0 when it is gone. */
int64_t cpu_of_program(struct core *c);
/* At least so much of it was used from `since` on, which is not before the window. */
int64_t cpu_since_window(struct core *c, int64_t since);
/* When a thread began, clock ticks since boot; 0 when it cannot be read. */
uint64_t cpu_start_ticks(struct core *c, uint32_t tid);
/* The text of its status file, and of that which tells the system call that it waits
 * in; bytes, or not more than 0. */
long cpu_status(struct core *c, uint32_t tid, char *text, size_t size);
long cpu_call(struct core *c, uint32_t tid, char *text, size_t size);

/* standing.c */
enum mask {
	MASK_OPEN,       /* the signal is not blocked */
	MASK_SEEMS_OPEN, /* it is not, but who runs may be in a call with its own mask
			  */
	MASK_HIDDEN,     /* it waits in such a call: its mask is not to be seen */
	MASK_BLOCKED,
	MASK_PASSING, /* blocked by the C library, for some instructions */
};

struct standing {
	enum mask mask;
	bool pending;           /* the signal, for the process */
	uint64_t mode, filters; /* of seccomp */
	uint64_t queued;        /* signals and timers of the user, everywhere */
};

/* False when /proc does not tell. */
RARE bool standing_of(struct core *c, uint32_t tid, int sig, struct standing *ret);
/* The letter of the main thread's state, or '?'. */
char cpu_main_state(struct core *c);
/* How many threads the program has, with the main thread even if it has ended, and with
 * us; 0 when that cannot be read. */
uint64_t cpu_thread_count(struct core *c);
/* How long this thread was ready and without a CPU since the last call; -1 where that
 * is not told. */
int64_t cpu_own_delay(struct core *c);
/* Size of the address space in a stat file, bytes; 0 when it cannot be read. */
uint64_t cpu_address_space(int stat_fd);
/* Stopped by a signal or a tracer? */
bool cpu_program_stopped(struct core *c);

/* Loads with an address check in front: false for what cannot be an address, nor can
 * SANE_BYTES less 8 from there on. */
#define SANE_BYTES 4096

static inline bool sane(uint64_t address)
{
	return address >= 0x10000 && address < ARCH_USER_END - SANE_BYTES;
}

static inline bool load_sane64(struct core *c, uint64_t address, uint64_t *ret)
{
	return c->copies ? copy_load(c, ret, address, sizeof(*ret))
			 : arch_load64(address, ret);
}

static inline bool load_sane32(struct core *c, uint64_t address, uint32_t *ret)
{
	return c->copies ? copy_load(c, ret, address, sizeof(*ret))
			 : arch_load32(address, ret);
}

static inline bool load_sane8(struct core *c, uint64_t address, uint8_t *ret)
{
	return c->copies ? copy_load(c, ret, address, sizeof(*ret))
			 : arch_load8(address, ret);
}

static inline bool load64(struct core *c, uint64_t address, uint64_t *ret)
{
	return sane(address) && load_sane64(c, address, ret);
}

static inline bool load32(struct core *c, uint64_t address, uint32_t *ret)
{
	return sane(address) && load_sane32(c, address, ret);
}

/* Any number of bytes; the address must be sane. */
static inline bool load_bytes(struct core *c, void *to, uint64_t address, size_t size)
{
	return c->copies ? copy_bytes(c, to, address, size)
			 : arch_copy(to, address, size);
}

/* Is memory read by system calls?  A chain takes microseconds then, not 100 ns. */
static inline bool reads_by_calls(const struct core *c)
{
	return c->copies && c->copying.state != RING_COPY_BY_LOAD;
}

/* Is it the node of threads that have no Python frame? */
static inline bool is_bare(const struct core *c, uint32_t node)
{
	return c->nodes[node].kind == REC_NODE_NO_FRAME;
}

static inline void count(struct core *c, enum ring_counter which, uint64_t n)
{
	c->counters[which] += n;
}

static inline uint64_t mix(uint64_t h, uint64_t v)
{
	h ^= v;
	h *= 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 29);
}

#endif
