/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"

enum {
	SCAN_NS = 15000000,
	SCAN_ANYWAY_NS = 1000000000,
	SCAN_SHARE = 50,
	FORGET_LEAST = 1024,
	MOST_PROCESSES = 65536, /* of a recording; as many segments a file may have */
};

void tree_init(struct tree *t)
{
	*t = (struct tree){ .forget_at = FORGET_LEAST };
}

void tree_done(struct tree *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->list[i]);
	free(t->list);
	*t = (struct tree){ 0 };
}

struct tree_process *tree_find(const struct tree *t, pid_t pid)
{
	/* What is asked for is mostly new. */
	for (size_t i = t->count; i-- > 0;)
		if (t->list[i]->pid == pid && t->list[i]->state != TREE_GONE)
			return t->list[i];
	return NULL;
}

void tree_look_again(struct tree_process *p, int64_t now)
{
	p->image_ns = now;
	p->look_ns = now;
	p->step_ns = TREE_STEP_NS;
	p->tries = 0;
	p->found = TREE_UNSEEN;
	proc_describe(p->pid, p->what, sizeof(p->what));
	if (p->what[0] == '\0')
		(void)snprintf(p->what, sizeof(p->what), "one that ended at once");
}

bool tree_read(const struct tree_process *p, struct proc_stat *ret)
{
	return proc_stat_read(p->pid, 0, ret) == 0 && !proc_has_ended(ret) &&
	       ret->start_ticks == p->start_ticks;
}

bool tree_lives(const struct tree_process *p)
{
	struct proc_stat st;

	return tree_read(p, &st);
}

/* Of what has ended and has nothing to tell only the number is kept. */
static void forget(struct tree *t)
{
	size_t kept = 0;

	tree_mark_ours(t);
	for (size_t i = 0; i < t->count; i++)
		t->list[i]->needed = t->list[i]->state != TREE_GONE ||
				     t->list[i]->segment != 0 ||
				     t->list[i]->reason[0] != '\0';
	for (size_t i = t->count; i-- > 0;)
		if (t->list[i]->needed && t->list[i]->parent != NULL)
			t->list[i]->parent->needed = true;
	for (size_t i = 0; i < t->count; i++) {
		struct tree_process *p = t->list[i];

		if (p->needed) {
			t->list[kept++] = p;
			continue;
		}
		t->dropped += !p->ours && p->found == TREE_NO_PYTHON;
		t->brief += !p->ours && p->found != TREE_NO_PYTHON;
		free(p);
	}
	t->count = kept;
}

static struct tree_process *make(struct tree *t, pid_t pid, struct tree_process *parent)
{
	struct tree_process *p;

	if (t->count >= t->forget_at) {
		forget(t);
		t->forget_at =
			t->count * 2 > FORGET_LEAST ? t->count * 2 : FORGET_LEAST;
	}
	if (t->count >= MOST_PROCESSES) {
		t->beyond++;
		return NULL;
	}
	p = xcalloc(1, sizeof(*p));
	p->pid = pid;
	p->parent = parent;
	p->brief = true;
	if (parent != NULL)
		parent->children++;
	p->seen_ns = clock_monotonic_ns();
	t->list = xgrow(t->list, t->count, &t->capacity, sizeof(struct tree_process *));
	t->list[t->count++] = p;
	return p;
}

struct tree_process *tree_add(struct tree *t, pid_t pid, struct tree_process *parent)
{
	struct tree_process *p = tree_find(t, pid);
	struct proc_stat st;

	if (proc_stat_read(pid, 0, &st) != 0 || proc_has_ended(&st))
		return NULL;
	if (p != NULL && p->start_ticks == st.start_ticks)
		return p;
	if (p != NULL && p->follow == NULL)
		p->state = TREE_GONE;
	p = make(t, pid, parent);
	if (p == NULL)
		return NULL;
	p->start_ticks = st.start_ticks;
	tree_look_again(p, p->seen_ns);
	return p;
}

/* The latest process of that number, whether it lives or not; NULL when the number is a
 * stranger's by now. */
static struct tree_process *latest(struct tree *t, pid_t pid)
{
	for (size_t i = t->count; i-- > 0;)
		if (t->list[i]->pid == pid)
			return t->list[i]->reused ? NULL : t->list[i];
	return NULL;
}

/* A stranger was made under this number: what had it has ended, and what the stranger
 * makes is none of ours. */
static void give_up_number(struct tree *t, pid_t pid)
{
	struct tree_process *p = latest(t, pid);

	if (p == NULL || tree_lives(p))
		return;
	p->reused = true;
	if (p->follow == NULL)
		p->state = TREE_GONE;
}

void tree_add_made(struct tree *t, pid_t pid, pid_t parent)
{
	struct tree_process *from = latest(t, parent), *p;

	if (from == NULL) {
		/* The first process is this one's child. */
		if (parent != getpid())
			give_up_number(t, pid);
		return;
	}
	if (tree_add(t, pid, from) != NULL)
		return;
	/* It has ended meanwhile, as the first half of a daemon's start does; it may
	 * have been seen before this news of it was read. */
	p = latest(t, pid);
	if (p != NULL && p->parent == from &&
		clock_monotonic_ns() - p->seen_ns < SCAN_ANYWAY_NS)
		return;
	p = make(t, pid, from);
	if (p != NULL)
		p->state = TREE_GONE;
}

/* The last id given out, from /proc/loadavg: unchanged, nothing was created. */
static uint64_t last_pid(void)
{
	_cleanup_buf_ struct buf text = BUF_INIT(256);
	uint64_t id = 0;

	if (fd_read_file(AT_FDCWD, "/proc/loadavg", &text) != 0)
		return 0;
	const char *blank = strrchr(buf_text(&text), ' ');

	if (blank != NULL && sscanf(blank, "%lu", &id) != 1)
		id = 0;
	return id;
}

static void scan_children(struct tree *t, struct tree_process *parent)
{
	struct proc_ids children;

	if (proc_children(parent->pid, &children) != 0)
		return;
	for (size_t i = 0; i < children.count; i++) {
		struct proc_stat st;

		/* Our own tasks are children too, where they have been cloned once. */
		if (proc_stat_read(children.id[i], 0, &st) == 0 &&
			strcmp(st.comm, "pystack") != 0) {
			struct tree_process *p = tree_add(t, children.id[i], parent);

			if (p != NULL)
				p->brief = false;
		}
	}
	proc_ids_done(&children);
}

bool tree_scan_is_due(struct tree *t, int64_t now)
{
	int64_t since = now - t->scanned_ns;

	if (since < SCAN_NS || since < t->scan_took_ns * SCAN_SHARE)
		return false;
	uint64_t last = last_pid();
	bool due = last != t->last_pid || since >= SCAN_ANYWAY_NS;

	t->last_pid = last;
	return due;
}

void tree_scan(struct tree *t, int64_t now)
{
	t->scanned_ns = now;
	/* The list grows meanwhile: children of children are found too. */
	for (size_t i = 0; i < t->count; i++) {
		struct tree_process *p = t->list[i];

		if (p->state == TREE_GONE)
			continue;
		if (tree_lives(p))
			scan_children(t, p);
		else if (p->follow == NULL)
			p->state = TREE_GONE;
	}
	t->scan_took_ns = clock_monotonic_ns() - now;
}

void tree_set_ours(struct tree *t, pid_t task)
{
	for (size_t i = t->count; i-- > 0;) {
		struct tree_process *p = t->list[i];

		/* A number that was given to another later is of no matter: a process
		 * that is followed is no task. */
		if (p->pid != task || p->segment != 0)
			continue;
		p->ours = true;
		p->state = TREE_GONE;
		if (p->parent != NULL && p->parent->state == TREE_GONE &&
			p->parent->segment == 0)
			p->parent->ours = true;
		return;
	}
}

static bool ended_unseen(const struct tree_process *p)
{
	return p->brief && p->state == TREE_GONE && p->segment == 0;
}

/* The preload library clones twice: what made a process, and nothing else, and what it
 * made, were over before either could be looked at. */
void tree_mark_ours(struct tree *t)
{
	for (size_t i = 0; i < t->count; i++) {
		struct tree_process *p = t->list[i];

		if (!ended_unseen(p) || p->children != 0 || p->parent == NULL ||
			!ended_unseen(p->parent) || p->parent->children != 1 ||
			p->parent->parent == NULL)
			continue;
		p->ours = true;
		p->parent->ours = true;
	}
}

void tree_note_ends(struct tree *t)
{
	for (size_t i = 0; i < t->count; i++) {
		struct tree_process *p = t->list[i];
		struct proc_stat st;

		if (p->state != TREE_SEEN)
			continue;
		/* A task may be about to say hello, to nobody. */
		if (!tree_read(p, &st))
			p->state = TREE_GONE;
		else if (strcmp(st.comm, "pystack") == 0)
			tree_set_ours(t, p->pid);
		else if (p->found != TREE_NO_PYTHON)
			proc_describe(p->pid, p->what, sizeof(p->what));
	}
}

bool tree_expects(const struct tree *t)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->list[i]->state == TREE_SEEN &&
			t->list[i]->step_ns < TREE_STEP_MAX_NS)
			return true;
	return false;
}
