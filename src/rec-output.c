/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording writes, and when it goes on to another file. */
#include <stdio.h>

#include "base/clock.h"
#include "msg.h"
#include "recorder-internal.h"

void rec_fail(struct recorder *r, const char *why)
{
	r->failed = true;
	r->over = true;
	msg_error("%s; what was recorded until now is kept%s", why,
		r->child != 0 ? ", the program goes on" : "");
}

void rec_flush(struct recorder *r)
{
	struct err err;

	for (size_t i = 0; i < r->tree.count; i++)
		if (r->tree.list[i]->follow != NULL)
			follow_close_runs(r->tree.list[i]->follow);
	r->flushed_ns = clock_monotonic_ns();
	if (r->failed || r->closed || output_flush(r->out, &err) == 0)
		return;
	char why[sizeof(err.text) + 4200];

	(void)snprintf(why, sizeof(why), "%s: %s", output_path(r->out), err.text);
	rec_fail(r, why);
}

/* Parents stand before their children in the list, as they must in a file. */
bool rec_begin_part(struct recorder *r)
{
	struct err err;

	if (output_begin_part(r->out, &err) != 0) {
		rec_fail(r, err.text);
		return false;
	}
	r->sampled = !r->disabled;
	for (size_t i = 0; i < r->tree.count; i++)
		if (r->tree.list[i]->follow != NULL)
			follow_move(r->tree.list[i]->follow, output_part(r->out));
	return true;
}

static void note_part(struct recorder *r, const struct output_written *w)
{
	if (w->path[0] == '\0')
		return;
	r->last_part = *w;
	r->parts++;
}

void rec_end_part(struct recorder *r, bool dump)
{
	struct output_written w;
	struct err err;
	int code;

	for (size_t i = 0; i < r->tree.count; i++) {
		struct follow *f = r->tree.list[i]->follow;

		if (f == NULL)
			continue;
		if (follow_is_moving(f))
			follow_move_now(f);
		follow_close_runs(f);
	}
	code = output_turn(r->out, dump, &w, &err);
	note_part(r, &w);
	if (w.path[0] != '\0')
		msg_line("[ pystack record: Dump %s: %.3f MB, %llu sample%s, %.1f s ]",
			w.path, (double)w.bytes / 1e6, (unsigned long long)w.samples,
			w.samples == 1 ? "" : "s", (double)w.lasted_ns / 1e9);
	if (code == 0)
		return;
	r->wait_failed = true;
	/* What is in memory stays there, for another time. */
	if (r->o->output.overwrite)
		msg_error("%s; the recording goes on", err.text);
	else
		rec_fail(r, err.text);
}

void rec_look_at_size(struct recorder *r, int64_t now)
{
	if (r->over || r->closed)
		return;
	if (output_is_full(r->out)) {
		r->over = true;
		msg_info("%s: --max-size is reached, the recording ends%s",
			output_path(r->out),
			r->child != 0 ? "; the program goes on" : "");
	} else if (r->wait == WAIT_NOTHING &&
		   output_part_is_full(r->out, r->sampled, now) && rec_begin_part(r)) {
		rec_wait(r, WAIT_TURN, false);
	}
}

static void say_kept(const struct recorder *r, const struct output_written *w)
{
	if (r->o->output.overwrite && w->path[0] != '\0')
		msg_info("%s has the last %.1f s: %llu sample%s", w->path,
			(double)w->lasted_ns / 1e9, (unsigned long long)w->samples,
			w->samples == 1 ? "" : "s");
}

void rec_close_output(struct recorder *r)
{
	struct output_written w;
	struct err err;

	if (r->closed)
		return;
	tree_note_ends(&r->tree);
	/* All has ended, and so has moved. */
	rec_look_at_wait(r, clock_monotonic_ns());
	int code = output_close(r->out, r->failed, &w, &err);

	r->closed = true;
	note_part(r, &w);
	if (code != 0) {
		msg_error("%s", err.text);
		r->failed = true;
	} else {
		say_kept(r, &w);
	}
	rec_answer_stop(r);
}
