/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of a recording, and what is said when it is over. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/number.h"
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
enum stranger {
	STRANGER_REFUSED,
	STRANGER_LATE,
	STRANGER_OPTION,
	STRANGER_CROWDED,
	STRANGER_BEYOND,
	STRANGER_NO_PYTHON,
	STRANGER_SHORT,
	STRANGERS,
};

static const char *const stranger_words[STRANGERS] = {
	[STRANGER_REFUSED] = "left out",
	[STRANGER_LATE] = "met as the recording ended",
	[STRANGER_OPTION] = "by --no-inherit",
	[STRANGER_CROWDED] = "as tasks are limited",
	[STRANGER_BEYOND] = "as there are too many",
	[STRANGER_NO_PYTHON] = "without Python",
	[STRANGER_SHORT] = "over before anyone could look",
};

/* Of one kind. */
struct strangers {
	size_t count, named;
	struct buf names;
};

/* A Python that was seen, or may have been one, is never "without Python". */
static enum stranger stranger_kind(
	const struct recorder *r, const struct tree_process *p)
{
	if (p->reason[0] != '\0')
		return STRANGER_REFUSED;
	if (p->found == TREE_NO_PYTHON)
		return STRANGER_NO_PYTHON;
	if (r->o->no_inherit)
		return STRANGER_OPTION;
	if (r->crowded)
		return STRANGER_CROWDED;
	return p->state == TREE_GONE ? STRANGER_SHORT : STRANGER_LATE;
}

/* The program alone, of a command line; or of a name in brackets, where it had none. */
static int program_name(const char *what, const char **ret_name)
{
	what += what[0] == '[';
	size_t size = strcspn(what, " ]");

	*ret_name = what;
	for (size_t i = 0; i < size; i++)
		if (what[i] == '/')
			*ret_name = what + i + 1;
	return (int)(what + size - *ret_name);
}

/* Has one of this name been named? */
static bool is_named(const struct strangers *s, const char *name, int size)
{
	const char *at = buf_text(&s->names);

	for (; *at != '\0'; at += strcspn(at, ",")) {
		at += strspn(at, ", ");
		if (strncmp(at, name, (size_t)size) == 0 &&
			(at[size] == ',' || at[size] == '\0'))
			return true;
	}
	return false;
}

static void name_stranger(
	struct strangers *s, enum stranger kind, const struct tree_process *p)
{
	const char *name = p->what;
	int size = (int)strlen(name);

	if (kind == STRANGER_NO_PYTHON)
		size = program_name(p->what, &name);
	if (size == 0 || (kind == STRANGER_NO_PYTHON && is_named(s, name, size)))
		return;
	if (s->named++ >= NAMED_AT_MOST) {
		if (s->named == NAMED_AT_MOST + 1)
			buf_printf(&s->names, ", ...");
		return;
	}
	buf_printf(&s->names, "%s%.*s", s->named > 1 ? ", " : "", size, name);
	if (p->reason[0] != '\0')
		buf_printf(&s->names, ": %s", p->reason);
}

static void count_strangers(struct recorder *r, struct strangers *kinds)
{
	for (size_t i = 0; i < r->task_count; i++)
		tree_set_ours(&r->tree, r->tasks[i]);
	tree_mark_ours(&r->tree);
	kinds[STRANGER_NO_PYTHON].count = r->tree.dropped;
	kinds[STRANGER_BEYOND].count = r->tree.beyond;
	kinds[r->o->no_inherit ? STRANGER_OPTION
		: r->crowded   ? STRANGER_CROWDED
			       : STRANGER_SHORT]
		.count = r->tree.brief;
	for (size_t i = 0; i < r->tree.count; i++) {
		const struct tree_process *p = r->tree.list[i];

		if (p->parent == NULL || p->segment != 0 || p->ours)
			continue;
		enum stranger kind = stranger_kind(r, p);

		kinds[kind].count++;
		/* What nobody looked at has no name but its parent's. */
		if (kind == STRANGER_REFUSED || kind == STRANGER_LATE ||
			p->found != TREE_UNSEEN)
			name_stranger(&kinds[kind], kind, p);
	}
}

static void say_strangers(struct recorder *r)
{
	_cleanup_buf_ struct buf line = BUF_INIT(8192);
	struct strangers kinds[STRANGERS];
	size_t all = 0;

	for (size_t i = 0; i < STRANGERS; i++)
		kinds[i] = (struct strangers){ .names = BUF_INIT(2048) };
	for (size_t i = 0; i < r->tree.count; i++) {
		const struct tree_process *p = r->tree.list[i];

		if (p->segment != 0 && p->follow == NULL && p->reason[0] != '\0')
			msg_info("process %d (%s) is not recorded any more: %s",
				(int)p->pid, p->what, p->reason);
	}
	count_strangers(r, kinds);
	for (size_t i = 0; i < STRANGERS; i++)
		all += kinds[i].count;
	for (size_t i = 0; i < STRANGERS; i++) {
		const struct strangers *s = &kinds[i];

		if (s->count == 0)
			continue;
		buf_printf(&line, line.size == 0 ? ": " : ", ");
		if (s->count != all)
			buf_printf(&line, "%zu ", s->count);
		buf_printf(&line, "%s", stranger_words[i]);
		if (s->names.size != 0)
			buf_printf(&line, " (%s)", buf_text(&s->names));
	}
	if (all != 0)
		msg_info("%zu %s not followed%s", all, all == 1 ? "child" : "children",
			buf_text(&line));
	for (size_t i = 0; i < STRANGERS; i++)
		buf_done(&kinds[i].names);
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
			"no samples: the program ran for %.0f ms, and ticks are %s ms apart",
			ran_ms,
			number_plain((double)r->o->sampling.interval_ns / 1e6, 3).text);
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
		{ RING_LOST_THREADS, "threads left out" },
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (c[faults[i].counter] != 0)
			buf_printf(b, ", %llu %s",
				(unsigned long long)c[faults[i].counter],
				faults[i].word);
	if (c[RING_PARKED_NS] != 0)
		buf_printf(b, ", %s s parked",
			number_plain((double)c[RING_PARKED_NS] / 1e9, 3).text);
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
		msg_info("CPU timers: %llu thread%s had none, as %s SIGURG",
			(unsigned long long)r->stats.timer_blocked,
			r->stats.timer_blocked == 1 ? "" : "s",
			r->stats.timer_blocked == 1 ? "it blocks" : "they block");
	unsigned long long lost = c[RING_TIMER_LOST], all = lost;

	all += c[RING_TIMER_SAMPLES] + c[RING_TIMER_OVERRUNS];
	if (lost != 0)
		msg_info("CPU timers: %llu of %llu sample%s lost: no room, or their "
			 "code had gone",
			lost, all, all == 1 ? "" : "s");
	if (c[RING_TIMER_INTERRUPTED] != 0)
		msg_info(
			"CPU timers: %llu system call%s of the program may have said EINTR for "
			"them, as it was stopped and went on (see pystack-record(1))",
			(unsigned long long)c[RING_TIMER_INTERRUPTED],
			c[RING_TIMER_INTERRUPTED] == 1 ? "" : "s");
}

void rec_say_end(struct recorder *r)
{
	_cleanup_buf_ struct buf faults = BUF_INIT(1024);
	const uint64_t *c = r->stats.counters;
	unsigned processes = rec_processes(r);
	char name[sizeof(r->last_part.path) + 64];

	/* What the kept last part leaves out on purpose is no matter of failures. */
	uint64_t samples = r->failed ? output_samples(r->out) : r->stats.samples;

	if (samples < r->stats.samples)
		buf_printf(&faults, ", %llu not written",
			(unsigned long long)(r->stats.samples - samples));
	name_output(r, name, sizeof(name));
	add_faults(&faults, &r->stats);
	msg_line(
		"[ pystack record: wrote %.3f MB %s (%llu sample%s, %u process%s, %llu "
		"thread%s, %llu lost, %llu approximate, %llu of %llu ticks late%s, overhead %.2f%% of a core) ]",
		(double)output_bytes(r->out) / 1e6, name, (unsigned long long)samples,
		samples == 1 ? "" : "s", processes, processes == 1 ? "" : "es",
		(unsigned long long)r->stats.threads, r->stats.threads == 1 ? "" : "s",
		(unsigned long long)r->stats.lost,
		(unsigned long long)c[RING_APPROXIMATE],
		(unsigned long long)c[RING_LATE], (unsigned long long)c[RING_TICKS],
		buf_text(&faults), rec_overhead(r, &r->stats));
	say_timers(r);
	say_no_frames(r);
	/* Where it was refused, that has been said. */
	if (r->stats.samples == 0 && !r->refused)
		say_why_empty(r);
	say_strangers(r);
}
