/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_RECORDER_INTERNAL_H
#define SRC_RECORDER_INTERNAL_H

/*
 * The state of a recording, and the calls between the files that make it:
 *
 *   recorder.c      which processes are followed; the loop
 *   rec-output.c    flushing, changing files, limits
 *   rec-control.c   sampling on and off, commands, snapshots, and waiting for them
 *   rec-signals.c   signals, the command's end
 *   rec-end.c       what is said at the end
 *
 * All of it runs in the recorder's first thread, but for the beat.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "follow.h"
#include "hello.h"
#include "output.h"
#include "recorder.h"
#include "target.h"
#include "tree.h"

/*
 * Something that was begun and is not done before all followed processes have come
 * along: they are asked by a word in their rings, and answer within a tick or so.  One
 * at a time; while it lasts no command is read.
 */
enum recorder_wait {
	WAIT_NOTHING = 0,
	WAIT_OBEY, /* sampling is on, or off, in all of them */
	WAIT_CUTS, /* all until now has been read from their rings */
	WAIT_TURN, /* they have moved to the next part of the output */
};

struct recorder {
	const struct recorder_options *o;
	struct output *out;
	struct tree tree;
	size_t follow_count;       /* processes that are followed now */
	struct follow_stats stats; /* of segments that are over */
	uint32_t segments;
	uint32_t next_thread;
	pid_t *tasks; /* all there were */
	size_t task_count, task_capacity;
	bool over;
	bool told_thread;     /* that one was taken in place of a task */
	bool crowded;         /* no further processes are to be followed */
	bool failed;          /* the output could not be written */
	bool refused;         /* the first process cannot be recorded as asked for */
	char found_kind[192]; /* why a Python that was found is not recorded */

	pid_t child; /* the command, 0 when attached */
	int child_status;
	bool child_ended;
	struct hello hello;
	bool adopts; /* PID 1 may not reap: tasks that say hello become our children */

	int events;        /* of the kernel on new processes; negative: look at /proc */
	bool scan_missed;  /* they are not complete */
	int64_t events_ns; /* when they were read last */
	int64_t events_apart_ns;

	int signals;
	struct target_signals given; /* for the command */
	struct rlimit files;         /* likewise */
	bool passed_on[65];

	bool disabled;      /* sampling is off */
	size_t toggles;     /* of the schedule, that are done */
	bool schedule_done; /* the rest of it counts no more */

	enum recorder_wait wait;
	int64_t wait_end_ns; /* then it is done without them */
	bool wait_answer;    /* whoever gave the command gets an answer */
	bool wait_dump;      /* somebody has asked for what is turned out */
	bool wait_failed;    /* it could not be written */
	bool snapshot_due;   /* one was asked for while something else was waited for */
	bool stop_answer;    /* owed when all is written */
	bool commands_left;  /* more may be there than were done in a round */

	bool closed;  /* the output */
	bool sampled; /* sampling was on for some time of the part in hand */
	unsigned parts;
	struct output_written last_part; /* that has a file */

	int64_t started_ns, follow_ns, flushed_ns, named_ns, drained_ns;
	int64_t name_next_ns;
	uint64_t thread_count; /* of what is followed, at the last drain */
	int drain_ms;

	pthread_t beat_thread;
	pthread_mutex_t beat_lock; /* for the follows of the tree */
	pthread_cond_t beat_wake;
	bool beat_stop;
};

/* rec-output.c */
/* Write what has gathered; a failure ends the recording. */
void rec_flush(struct recorder *r);
/* The output has failed, which is said. */
void rec_fail(struct recorder *r, const char *why);
/* Let all go on in another part.  False when that cannot be. */
bool rec_begin_part(struct recorder *r);
/* All have moved: end the part before. */
void rec_end_part(struct recorder *r, bool dump);
/* After a flush: is another part due, is the recording large enough? */
void rec_look_at_size(struct recorder *r, int64_t now);
/* The recording is over and nothing is followed: complete what is written. */
void rec_close_output(struct recorder *r);

/* rec-control.c */
/* Begin to wait; answer_then: whoever gave the command. */
void rec_wait(struct recorder *r, enum recorder_wait what, bool answer_then);
/* Is it done? */
void rec_look_at_wait(struct recorder *r, int64_t now);
/* The first process is followed. */
void rec_begin_schedule(struct recorder *r);
/* Write, turn out or dump what there is; when it is due, as a signal asked for it. */
void rec_snapshot(struct recorder *r, bool answer);
/* A round: what is waited for, what the schedule has, what was commanded. */
void rec_control_round(struct recorder *r, int64_t now);
/* How long may the round sleep, at most ms? */
int rec_control_sleep(const struct recorder *r, int64_t now, int ms);
/* To be polled, or -1. */
int rec_control_fd(const struct recorder *r);
/* The answer to "stop", once all is written. */
void rec_answer_stop(struct recorder *r);

/* rec-signals.c */
void rec_set_up_signals(struct recorder *r);
void rec_read_signals(struct recorder *r);
/* Tasks that have become our children. */
void rec_reap_tasks(struct recorder *r);
/* The command, which has ended. */
void rec_reap_command(struct recorder *r);

/* rec-end.c */
void rec_add_stats(struct follow_stats *to, const struct follow_stats *s);
/* Of all there were and are. */
void rec_stats(struct recorder *r, struct follow_stats *ret);
unsigned rec_processes(const struct recorder *r);
/* CPU time of samplers and recorder, in percent of the time since the start. */
double rec_overhead(const struct recorder *r, const struct follow_stats *s);
void rec_say_end(struct recorder *r);

#endif
