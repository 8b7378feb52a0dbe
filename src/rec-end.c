/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of a recording, and what is said when it is over. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "msg.h"
#include "recorder-internal.h"

enum {
	NAMED_AT_MOST = 4, /* children that are not followed */
};

void rec_add_stats(struct follow_stats *to, const struct follow_stats *s)
{
	for (unsigned i = 0; i < RING_COUNTERS; i++)
		to->counters[i] += s->counters[i];
	to->samples += s->samples;
	to->lost += s->lost;
	to->threads += s->threads;
	to->held_ns += s->held_ns;
	to->timer_blocked += s->timer_blocked;
	to->takeovers += s->takeovers;
	if (to->owner[0] == '\0')
		memcpy(to->owner, s->owner, sizeof(to->owner));
}

void rec_stats(struct recorder *r, struct follow_stats *ret)
{
	struct follow_stats stats;

	*ret = r->stats;
	for (size_t i = 0; i < r->tree.count; i++) {
		if (r->tree.list[i]->follow == NULL)
			continue;
		follow_stats_get(r->tree.list[i]->follow, &stats);
		rec_add_stats(ret, &stats);
	}
}

unsigned rec_processes(const struct recorder *r)
{
	unsigned processes = 0;

	for (size_t i = 0; i < r->tree.count; i++)
		processes += r->tree.list[i]->segment != 0;
	return processes;
}

double rec_overhead(const struct recorder *r, const struct follow_stats *s)
{
	double elapsed = (double)(clock_monotonic_ns() - r->started_ns);
	double own = (double)s->counters[RING_CPU_NS] + (double)clock_process_cpu_ns();

	return elapsed > 0 ? 100 * own / elapsed : 0;
}

/* Children that were not followed, and why. */
static void say_strangers(struct recorder *r)
{
	struct buf names = BUF_INIT(4096);
	size_t count = 0, reasons = 0, brief = r->tree.brief;
	const char *why = "";

	for (size_t i = 0; i < r->task_count; i++)
		tree_set_ours(&r->tree, r->tasks[i]);
	tree_mark_ours(&r->tree);

	for (size_t i = 0; i < r->tree.count; i++) {
		const struct tree_process *p = r->tree.list[i];

		if (p->segment != 0 && p->follow == NULL && p->reason[0] != '\0')
			msg_info("process %d (%s) is not recorded any more: %s",
				(int)p->pid, p->what, p->reason);
		if (p->parent == NULL || p->segment != 0 || p->ours)
			continue;
		brief += p->brief;
		reasons += !p->brief && p->reason[0] != '\0';
		if (p->brief || count++ >= NAMED_AT_MOST)
			continue;
		buf_printf(&names, "%s%s", count > 1 ? ", " : "", p->what);
		if (p->reason[0] != '\0')
			buf_printf(&names, ": %s", p->reason);
	}
	count += r->tree.dropped;
	if (count > NAMED_AT_MOST)
		buf_printf(&names, ", and %zu more", count - NAMED_AT_MOST);
	if (reasons == 0 && r->tree.dropped == 0)
		why = count == 1 ? ", as it runs no Python" : ", as they run no Python";
	if (count != 0)
		msg_info("%zu %s not followed%s (%s)", count,
			count == 1 ? "child" : "children", why, buf_text(&names));
	if (brief != 0)
		msg_info("%zu %s ended before anyone could look at %s", brief,
			brief == 1 ? "child" : "children", brief == 1 ? "it" : "them");
	buf_done(&names);
}

/* A tick comes soon after its time, if there is an interpreter. */
static bool may_have_ticked(const struct recorder *r, double ran_ms)
{
	enum { SOON_MS = 1000 };

	return ran_ms > SOON_MS + (double)r->o->sampling.interval_ns / 1e6 * 2;
}

/* Of processes that were followed. */
static void say_why_no_sample(const struct recorder *r, double ran_ms)
{
	const uint64_t *c = r->stats.counters;

	if (c[RING_TICKS] != 0)
		msg_info("no samples: at none of %llu ticks %s",
			(unsigned long long)c[RING_TICKS],
			r->o->sampling.oncpu ? "did a Python thread run"
					     : "was there a Python thread");
	else if (c[RING_DISABLED_NS] != 0)
		msg_info("no samples: sampling was off until the end");
	else if (may_have_ticked(r, ran_ms))
		msg_info(
			"no samples: in %.0f ms no interpreter was up, or the sampler got "
			"no CPU",
			ran_ms);
	else
		msg_info(
			"no samples: the program ran for %.0f ms, and ticks are %.3g ms "
			"apart",
			ran_ms, (double)r->o->sampling.interval_ns / 1e6);
}

static void say_why_empty(struct recorder *r)
{
	double ran_ms = (double)(clock_monotonic_ns() - r->started_ns) / 1e6;
	const struct tree_process *first = tree_find(&r->tree, r->child);

	if (r->segments != 0) {
		say_why_no_sample(r, ran_ms);
	} else if (r->found_kind[0] == '\0' && r->child != 0 && first != NULL &&
		   first->reason[0] != '\0') {
		msg_info("no samples: process %d: %s", (int)first->pid, first->reason);
	} else if (r->found_kind[0] == '\0' && r->child != 0) {
		msg_info(
			"no samples: no Python process showed itself below '%s' within %.0f ms",
			r->o->argv[0], ran_ms);
	}
}

/* As of a program at its prompt. */
static void say_no_frames(const struct recorder *r)
{
	const uint64_t *c = r->stats.counters;

	if (c[RING_NO_FRAMES] != 0 && c[RING_NO_FRAMES] == c[RING_SAMPLES])
		msg_info("at none of %llu ticks had a thread a Python frame",
			(unsigned long long)c[RING_TICKS]);
}

/* The file, or the files. */
static void name_output(const struct recorder *r, char *text, size_t size)
{
	if (r->parts > 1)
		(void)snprintf(text, size, "in %u files, the last %s", r->parts,
			r->last_part.path);
	else
		(void)snprintf(text, size, "%s",
			r->parts == 1 ? r->last_part.path : output_path(r->out));
}

/* What of the samples is missing or to be taken with care, if there is any. */
static void add_faults(struct buf *b, const struct follow_stats *s)
{
	const uint64_t *c = s->counters;
	static const struct {
		enum ring_counter counter;
		const char *word;
	} faults[] = {
		{ RING_TRUNCATED, "truncated" },
		{ RING_UNREADABLE, "unreadable" },
		{ RING_MISSED, "missed" },
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (c[faults[i].counter] != 0)
			buf_printf(b, ", %llu %s",
				(unsigned long long)c[faults[i].counter],
				faults[i].word);
	if (c[RING_PARKED_NS] != 0)
		buf_printf(b, ", %.3g s parked", (double)c[RING_PARKED_NS] / 1e9);
	if (c[RING_COPY_ERRORS] != 0)
		buf_printf(b, ", %llu copy error%s",
			(unsigned long long)c[RING_COPY_ERRORS],
			c[RING_COPY_ERRORS] == 1 ? "" : "s");
	if (s->takeovers != 0)
		buf_printf(b, ", signals taken over by %s%s", s->owner,
			s->takeovers > 1 ? " and others" : "");
}

/* What CPU timers did not see, and what they may have done. */
static void say_timers(const struct recorder *r)
{
	const uint64_t *c = r->stats.counters;

	if (r->stats.timer_blocked != 0)
		msg_info("CPU timers: %llu thread%s had none, as they block SIGURG",
			(unsigned long long)r->stats.timer_blocked,
			r->stats.timer_blocked == 1 ? "" : "s");
	unsigned long long lost = c[RING_TIMER_LOST], all = lost;

	all += c[RING_TIMER_SAMPLES] + c[RING_TIMER_OVERRUNS];
	if (lost != 0)
		msg_info("CPU timers: %llu of %llu samples lost: no room, or their "
			 "code had gone",
			lost, all);
	if (c[RING_TIMER_INTERRUPTED] != 0)
		msg_info(
			"CPU timers: %llu system calls of the program may have said EINTR for "
			"them, as it was stopped and went on (see pystack-record(1))",
			(unsigned long long)c[RING_TIMER_INTERRUPTED]);
}

void rec_say_end(struct recorder *r)
{
	_cleanup_buf_ struct buf faults = BUF_INIT(1024);
	const uint64_t *c = r->stats.counters;
	unsigned processes = rec_processes(r);
	char name[sizeof(r->last_part.path) + 64];

	name_output(r, name, sizeof(name));
	add_faults(&faults, &r->stats);
	msg_line(
		"[ pystack record: wrote %.3f MB %s (%llu samples, %u process%s, %llu "
		"thread%s, %llu lost, %llu approximate, %llu late%s, overhead %.2f%% of a core) ]",
		(double)output_bytes(r->out) / 1e6, name,
		(unsigned long long)r->stats.samples, processes,
		processes == 1 ? "" : "es", (unsigned long long)r->stats.threads,
		r->stats.threads == 1 ? "" : "s", (unsigned long long)r->stats.lost,
		(unsigned long long)c[RING_APPROXIMATE],
		(unsigned long long)c[RING_LATE], buf_text(&faults),
		rec_overhead(r, &r->stats));
	say_timers(r);
	say_no_frames(r);
	/* Where it was refused, that has been said. */
	if (r->stats.samples == 0 && !r->refused)
		say_why_empty(r);
	say_strangers(r);
}
