/* SPDX-License-Identifier: Apache-2.0 */
#include "view-stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/number.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "copy-text.h"
#include "frame-text.h"
#include "interpreters.h"
#include "thread-sums.h"
#include "timer-text.h"
#include "view-text.h"

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* Of a task nothing is told that only a thread does and that did not happen. */
static bool is_of_threads(const char *counter)
{
	static const char *const names[] = { "copies", "copied", "copy-errors",
		"copy-faults", "timer-samples", "timer-overruns", "timer-lost",
		"timer-yielded", "timer-interrupted" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(counter, names[i]) == 0)
			return true;
	return false;
}

static void print_counters(const struct model_segment *s)
{
	static const char *const times[] = { "sampler-cpu", "program-cpu", "parked",
		"disabled", "held", "stratum", "limited" };

	for (size_t i = 0; i < s->counter_count; i++) {
		struct buf name = BUF_INIT(FILE_TEXT_MAX * 4);
		bool time = false;

		if (s->counters[i].value == 0 && !model_is_thread(s) &&
			is_of_threads(s->counters[i].name))
			continue;
		for (size_t j = 0; j < sizeof(times) / sizeof(times[0]); j++)
			time |= strcmp(s->counters[i].name, times[j]) == 0;
		frame_text_clean(&name, s->counters[i].name);
		printf("%16" PRIu64 "  %s%s\n", s->counters[i].value, buf_text(&name),
			time ? " (ns)" : "");
		buf_done(&name);
	}
}

static void print_owner(
	const struct model_copy *c, size_t which, const char *signal_name)
{
	struct buf owner = BUF_INIT(FILE_TEXT_MAX * 4);

	copy_text_owner(&owner, c->owner[which], c->mapping[which]);
	printf("# %s: taken over by %s", signal_name, buf_text(&owner));
	if (c->owner[which] > 1 && c->mapping[which][0] != '\0')
		printf(" (0x%" PRIx64 ")", c->owner[which]);
	printf("\n");
	buf_done(&owner);
}

/* How a thread read the program's memory. */
static void print_copies(const struct model_segment *s)
{
	const struct model_copy *c = model_copy_now(s);
	const char *asked = model_attribute(s, "copy");

	if (!model_is_thread(s) && c == NULL)
		return;
	printf("# isolation: %s\n", model_is_thread(s) ? "thread" : "task");
	if (c == NULL)
		return;
	bool pwrite = (c->flags & RING_COPY_CAN_PWRITE) != 0;
	bool readv = (c->flags & RING_COPY_CAN_READV) != 0;

	printf("# copies: %s", copy_text_state(c->state));
	if (c->state == RING_COPY_WARMUP)
		printf(", %.3f s of the warm-up left", seconds(c->warmup_ns));
	/* Its handlers wait for that. */
	if (c->state == RING_COPY_BY_SYSCALL && (c->flags & RING_COPY_WANTED) != 0 &&
		(c->flags & RING_COPY_FELL_BACK) == 0)
		printf(" until the interpreter is up");
	if (asked != NULL) {
		struct buf b = BUF_INIT(FILE_TEXT_MAX * 4);

		frame_text_clean(&b, asked);
		printf("; asked for: %s", buf_text(&b));
		buf_done(&b);
	}
	if (asked != NULL && strcmp(asked, "syscall") == 0)
		printf(" (fast ones are turned off)");
	printf("; works: %s%s%s\n", pwrite ? "pwritev" : "",
		pwrite && readv ? ", " : "",
		readv    ? "process_vm_readv"
		: pwrite ? ""
			 : "no system call");
	if ((c->flags & RING_COPY_FELL_BACK) != 0)
		printf("# copies: fast ones were given up\n");
	if ((c->flags & RING_COPY_TAKEN_SEGV) != 0)
		print_owner(c, 0, "SIGSEGV");
	if ((c->flags & RING_COPY_TAKEN_BUS) != 0)
		print_owner(c, 1, "SIGBUS");
}

static void print_rates(const struct model_segment *s)
{
	const char *limit = model_attribute(s, "overhead-limit");
	uint64_t ppm = 0;

	if (s->longest_ns == 0)
		return;
	if ((s->flags & FILE_SEGMENT_SPIN) != 0) {
		printf("# rate: as fast as it went, %.3f s\n", seconds(s->ticks_ns));
		return;
	}
	printf("# rate: %s Hz for %.3f s", number_rate(s->interval_ns).text,
		seconds(s->ticks_ns - s->limited_ns));
	if (limit != NULL)
		(void)parse_number(limit, UINT32_MAX, &ppm);
	if (s->limited_ns != 0)
		printf("; less, down to %s Hz, for %.3f s: more would have cost over "
		       "%s%% of the program's CPU",
			number_rate(s->longest_ns).text, seconds(s->limited_ns),
			number_plain((double)ppm / 1e4, 4).text);
	printf("\n");
}

/* CPU timers, where they were asked for. */
static void print_timers(const struct model_segment *s)
{
	_cleanup_buf_ struct buf why = BUF_INIT(FILE_TEXT_MAX * 4);

	if (!s->timers.told)
		return;
	printf("# CPU timers: %s",
		timer_text_why(&why, s) ? buf_text(&why) : "to the end");
	if (s->timers.blocked != 0)
		printf("; %u thread%s had none, as they block SIGURG",
			s->timers.blocked, s->timers.blocked == 1 ? "" : "s");
	printf("\n");
}

/* --- threads --- */

static void add_sample(
	const struct model *m, const struct profile_sample *s, struct thread_sums *to)
{
	thread_sums_add(to, m, s->stack, s->state, s->ticks, s->wall_ns, s->cpu_ns);
}

static void print_thread(
	const struct model *m, uint32_t number, const struct thread_sums *s)
{
	const struct model_thread *t = model_thread(m, number);
	int64_t blocked = thread_sums_blocked_ns(t);
	struct buf name = BUF_INIT(FILE_TEXT_MAX * 4);

	frame_text_thread(&name, m, number);
	printf("%9u %10.3f %10.3f %10.3f", t->tid, (double)s->wall_ns / 1e9,
		(double)s->cpu_ns / 1e9, (double)s->not_sampled_ns / 1e9);
	if (t->accounted && !t->coarse)
		printf(" %10.3f %9" PRIu64, seconds(t->delay_ns), t->runs);
	else
		printf(" %10s %9s", "-", "-");
	printf(" %9" PRIu64 " %6" PRIu64 " %6" PRIu64 " %6" PRIu64 " %6" PRIu64
	       " %6" PRIu64 " %6" PRIu64 " %8.3f",
		s->ticks, s->approximate, s->truncated, s->unreadable, t->lost, t->late,
		t->missed, seconds(thread_sums_parked_ns(t)));
	if (blocked >= 0)
		printf(" %10.3f", (double)blocked / 1e9);
	else
		printf(" %10s", "-");
	printf("  %s%s\n", buf_text(&name),
		t->coarse ? " (CPU in steps of 10 ms)" : "");
	buf_done(&name);
}

static void print_threads(
	const struct model *m, uint32_t segment, const struct thread_sums *sums)
{
	bool titled = false;

	for (uint32_t i = 0; i < model_thread_count(m); i++) {
		if (model_thread(m, i)->segment != segment)
			continue;
		if (!titled)
			printf("# %7s %10s %10s %10s %10s %9s %9s %6s %6s %6s %6s %6s "
			       "%6s %8s %10s  %s\n",
				"tid", "wall, s", "cpu, s", "unseen, s", "delay, s",
				"on cpu", "samples", "approx", "trunc", "unread",
				"lost", "late", "miss", "park, s", "blocked, s",
				"thread");
		titled = true;
		print_thread(m, i, &sums[i]);
	}
}

/* --- the whole --- */

static void print_cost(const struct profile *p)
{
	const struct model *m = p->model;
	struct model_recorder r = model_recorder(m);
	uint64_t sampler = 0;

	for (uint32_t i = 0; i < model_segment_count(m); i++)
		sampler += model_counter(model_segment(m, i), "sampler-cpu");
	if (r.elapsed_ns != 0)
		printf("%16.2f  overhead, %% of a core (recorder %.3f s and sampler %.3f s "
		       "of CPU in %.3f s)\n",
			100 * (double)(r.cpu_ns + sampler) / (double)r.elapsed_ns,
			seconds(r.cpu_ns), seconds(sampler), seconds(r.elapsed_ns));
}

void view_stats(const struct profile *p)
{
	const struct model *m = p->model;
	struct thread_sums *sums = xcalloc(model_thread_count(m), sizeof(*sums));
	struct interpreters interpreters;
	size_t at = 0;

	interpreters_find(m, &interpreters);
	for (size_t i = 0; i < p->count; i++)
		add_sample(m, &p->samples[i], &sums[p->samples[i].thread]);
	for (uint32_t i = 0; i < model_segment_count(m); i++) {
		const struct model_segment *s = model_segment(m, i);
		size_t first = at, count = interpreters_of(&interpreters, i, &at);

		printf("# process %u: ", s->pid);
		view_end(s);
		printf("\n%16zu  interpreter%s: ", count, count == 1 ? "" : "s");
		interpreters_print(interpreters.list + first, count);
		print_counters(s);
		print_copies(s);
		print_timers(s);
		print_rates(s);
		print_threads(m, i, sums);
	}
	free(sums);
	free(interpreters.list);
	printf("%16" PRIu64 "  samples read\n", p->totals.ticks);
	printf("%16.3f  cpu, s\n%16.3f  of it not sampled, s\n%16.3f  wall of all threads, s\n",
		(double)p->totals.cpu_ns / 1e9,
		(double)p->totals.cpu_not_sampled_ns / 1e9,
		(double)p->totals.wall_ns / 1e9);
	print_cost(p);
	printf("%16" PRIu64 "  bytes read\n", p->result.bytes);
}
