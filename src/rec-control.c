/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling on and off, commands from outside, and waiting until all have come along
 * (enum recorder_wait).
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/number.h"
#include "control.h"
#include "msg.h"
#include "recorder-internal.h"
#include "schedule.h"

enum {
	WAIT_MS = 2000, /* a process that is frozen answers never */
	WAITING_ROUND_MS = 2,
	MOST_COMMANDS = 64, /* in a round, as there is other work */
};

/* --- answers --- */

static void answer(struct recorder *r, const char *text)
{
	if (!control_answer(r->o->control, "%s", text))
		msg_error("answers to commands are dropped: nobody reads them");
}

static void answer_error(struct recorder *r, const char *text)
{
	char line[512];

	(void)snprintf(line, sizeof(line), "error: %s", text);
	msg_error("control: %s", text);
	answer(r, line);
}

/* --- waiting --- */

void rec_wait(struct recorder *r, enum recorder_wait what, bool answer_then)
{
	r->wait = what;
	r->wait_end_ns = clock_monotonic_ns() + WAIT_MS * 1000000ll;
	r->wait_answer = answer_then;
}

static bool all_follows(const struct recorder *r, bool (*test)(const struct follow *f))
{
	for (size_t i = 0; i < r->tree.count; i++)
		if (r->tree.list[i]->follow != NULL && !test(r->tree.list[i]->follow))
			return false;
	return true;
}

static bool has_moved(const struct follow *f)
{
	return !follow_is_moving(f);
}

static bool is_done(const struct recorder *r)
{
	switch (r->wait) {
	case WAIT_OBEY:
		return all_follows(r, follow_obeys);
	case WAIT_CUTS:
		return all_follows(r, follow_is_cut);
	case WAIT_TURN:
		return all_follows(r, has_moved);
	case WAIT_NOTHING:
		break;
	}
	return true;
}

static void say_flushed(const struct recorder *r)
{
	msg_info("%s: flushed, %.3f MB so far", output_path(r->out),
		(double)output_bytes(r->out) / 1e6);
}

void rec_look_at_wait(struct recorder *r, int64_t now)
{
	enum recorder_wait what = r->wait;
	bool done = is_done(r);

	if (what == WAIT_NOTHING || (!done && now < r->wait_end_ns))
		return;
	r->wait = WAIT_NOTHING;
	r->wait_failed = false;
	if (what == WAIT_TURN && !r->failed)
		rec_end_part(r, r->wait_dump);
	r->wait_dump = false;
	if (what == WAIT_CUTS) {
		rec_flush(r);
		say_flushed(r);
	}
	if (!r->wait_answer)
		return;
	r->wait_answer = false;
	if (r->failed || r->wait_failed)
		answer_error(r, "the output cannot be written");
	else if (what == WAIT_OBEY && !done)
		answer_error(r, "not all processes have obeyed within 2 s");
	else
		answer(r, "ack");
}

/* --- on and off --- */

static void enable(struct recorder *r, bool on)
{
	if (r->disabled == !on)
		return;
	r->disabled = !on;
	r->sampled |= on;
	for (size_t i = 0; i < r->tree.count; i++)
		if (r->tree.list[i]->follow != NULL)
			follow_enable(r->tree.list[i]->follow, on);
	msg_info("sampling is %s", on ? "on" : "off");
}

void rec_begin_schedule(struct recorder *r)
{
	if (r->o->schedule == NULL)
		return;
	if (r->o->schedule->count == 0)
		msg_info("sampling is off until it is enabled");
	else
		msg_info("sampling is off for the first %s s",
			number_plain((double)r->o->schedule->toggle_ns[0] / 1e9, 3)
				.text);
}

/* Time of the next change that is planned; 0: none. */
static int64_t next_toggle(const struct recorder *r)
{
	const struct schedule *s = r->o->schedule;

	if (s == NULL || r->schedule_done || r->follow_ns == 0 || r->over ||
		r->toggles >= s->count)
		return 0;
	return r->follow_ns + s->toggle_ns[r->toggles];
}

static void look_at_schedule(struct recorder *r, int64_t now)
{
	int64_t at;

	while ((at = next_toggle(r)) != 0 && now >= at)
		enable(r, ++r->toggles % 2 != 0);
}

/* --- snapshots --- */

void rec_snapshot(struct recorder *r, bool answer_then)
{
	r->snapshot_due = false;
	if (r->closed) {
		msg_info("the recording is over, all of it is written");
		return;
	}
	if (r->o->output.switching || r->o->output.overwrite) {
		if (!rec_begin_part(r)) {
			if (answer_then)
				answer_error(r, "no other file can be begun");
			return;
		}
		rec_wait(r, WAIT_TURN, answer_then);
		r->wait_dump = true;
		return;
	}
	for (size_t i = 0; i < r->tree.count; i++)
		if (r->tree.list[i]->follow != NULL)
			follow_want_cut(r->tree.list[i]->follow);
	rec_wait(r, WAIT_CUTS, answer_then);
}

/* --- commands --- */

static void status(struct recorder *r)
{
	struct follow_stats s;
	char line[512];

	rec_stats(r, &s);
	int n = snprintf(line, sizeof(line),
		"status: sampling=%s samples=%llu lost=%llu processes=%u followed=%zu "
		"threads=%llu bytes=%llu",
		r->over       ? "over"
		: r->disabled ? "off"
			      : "on",
		(unsigned long long)s.samples, (unsigned long long)s.lost,
		rec_processes(r), r->follow_count, (unsigned long long)s.threads,
		(unsigned long long)output_bytes(r->out));

	if (r->o->output.overwrite)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " kept=%llu",
			(unsigned long long)output_kept_bytes(r->out));
	(void)snprintf(line + n, sizeof(line) - (size_t)n,
		" overhead=%.2f%% seconds=%.3f", rec_overhead(r, &s),
		(double)(clock_monotonic_ns() - r->started_ns) / 1e9);
	if (control_has_answers(r->o->control))
		answer(r, line);
	else
		msg_info("%s", line);
}

static void stop(struct recorder *r)
{
	r->over = true;
	r->stop_answer = true;
	if (r->child != 0)
		msg_info("the recording is stopped; the program goes on");
}

void rec_answer_stop(struct recorder *r)
{
	if (!r->stop_answer)
		return;
	r->stop_answer = false;
	if (r->failed)
		answer_error(r, "the output cannot be written");
	else
		answer(r, "ack");
}

/* A command that changes what is sampled counts more than the schedule. */
static void command_enable(struct recorder *r, bool on)
{
	r->schedule_done = true;
	enable(r, on);
	rec_wait(r, WAIT_OBEY, true);
}

static void command(struct recorder *r, const struct control_command *c)
{
	if (c->verb == CONTROL_BAD) {
		answer_error(r, c->text);
	} else if (c->verb == CONTROL_PING) {
		answer(r, "ack");
	} else if (c->verb == CONTROL_STATUS) {
		status(r);
	} else if (r->over) {
		answer_error(r, "the recording is over");
	} else if (c->verb == CONTROL_MARK) {
		output_mark(r->out, c->text);
		answer(r, "ack");
	} else if (c->verb == CONTROL_SNAPSHOT) {
		rec_snapshot(r, true);
	} else if (c->verb == CONTROL_STOP) {
		stop(r);
	} else {
		command_enable(r, c->verb == CONTROL_ENABLE);
	}
}

/* --- rounds --- */

void rec_control_round(struct recorder *r, int64_t now)
{
	struct control_command c;

	rec_look_at_wait(r, now);
	look_at_schedule(r, now);
	if (r->snapshot_due && r->wait == WAIT_NOTHING)
		rec_snapshot(r, false);
	r->commands_left = false;
	for (int i = 0; r->o->control != NULL && r->wait == WAIT_NOTHING &&
			!r->stop_answer && control_next(r->o->control, &c);
		i++) {
		command(r, &c);
		r->commands_left = i >= MOST_COMMANDS;
		if (r->commands_left)
			break;
	}
}

int rec_control_sleep(const struct recorder *r, int64_t now, int ms)
{
	int64_t at = next_toggle(r), left = (at - now) / 1000000 + 1;

	if (r->commands_left)
		return 0;
	if (r->wait != WAIT_NOTHING)
		return WAITING_ROUND_MS;
	if (at != 0 && left < ms)
		return left > 0 ? (int)left : 0;
	return ms;
}

int rec_control_fd(const struct recorder *r)
{
	return r->o->control != NULL && r->wait == WAIT_NOTHING
		       ? control_fd(r->o->control)
		       : -1;
}
