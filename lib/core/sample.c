/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tick: which threads can have changed, and what of their chains is true.
 *
 * Which threads.  A thread's Python frames change only while it holds the GIL, and
 * the GIL keeps a ledger: its last holder and the number of switches.  No switch
 * since the last tick: only the holder's chain can differ.  One switch: the old and
 * the new holder's.  More: anybody's.  The holder comes first, as near to the tick
 * as can be.
 *
 * What is true.  The first reading, at the tick, is the sample; taking a later,
 * calmer one instead would bend the profile towards calm code.  It is good
 *   - if its path is known, or
 *   - if nobody took the GIL during the reading and the thread does not hold it
 *     (its frames cannot have changed), or
 *   - if all that is new of it lies among the frames at the leaf end that read alike
 *     again at once.
 * The last two teach the path, as does what two readings in a row have in common:
 * further ones are made only to learn, and if the first one's path is then known, it
 * is good after all.  What remains is shown as it was read and marked approximate; it
 * teaches nothing.
 */
#include "core/core-internal.h"

enum {
	LEARNING_READS = 8,
	STEADY_PAIRS = 3,
	GRAFTED_FRAMES = 4,
};

/* --- paths --- */

/* How far along its path a walk is known: the node reached, and how many of the
 * stored frames, counted from the root, led there. */
struct known {
	uint32_t node;
	uint32_t frames;
};

/* Frames missing on the root side, rounded down to a power of two: one node for
 * all depths of that size, or recursion would fill the table. */
static uint32_t missing_frames(const struct walk *w)
{
	uint32_t missing = w->frames - w->stored;

	return missing == 0 ? 0 : 1u << (31 - __builtin_clz(missing));
}

static struct known follow(struct core *c, struct walk *w)
{
	struct known k = { 0, w->followed };
	uint32_t call = 0;

	if (k.frames != 0) {
		const struct frame *f = &w->frame[w->stored - k.frames];

		k.node = f->node;
		call = f->position + 1;
	} else if (w->frames > w->stored) {
		k.node = node_find(c, 0, 0, REC_NODE_TRUNCATED, missing_frames(w));
		if (k.node == 0)
			return k;
	}
	while (k.frames < w->stored) {
		struct frame *f = &w->frame[w->stored - 1 - k.frames];
		uint32_t child = node_find(c, k.node, call, REC_NODE_PYTHON, f->code);

		if (child == 0 || !c->nodes[child].known)
			break;
		k.node = f->node = child;
		call = f->position + 1;
		k.frames++;
	}
	w->followed = k.frames;
	return k;
}

static struct path_entry *path_slot(struct core *c, uint64_t path)
{
	return &c->path_cache[(path >> 32) & (PATH_CACHE - 1)];
}

/* The node of a walk's path if every edge of it is known, else 0. */
static uint32_t known_path(struct core *c, struct walk *w)
{
	struct path_entry *p = path_slot(c, w->path);

	if (!w->complete || w->stored == 0)
		return 0;
	if (p->node != 0 && p->path == w->path)
		return p->node;
	struct known k = follow(c, w);

	if (k.frames != w->stored)
		return 0;
	*p = (struct path_entry){ .path = w->path, .node = k.node };
	return k.node;
}

/* Make the path of so many of the frames, from the root, known.  Returns its node, or 0
 * when a part could not be read or sent. */
static uint32_t teach(struct core *c, struct walk *w, uint32_t frames)
{
	struct known k = follow(c, w);

	if (frames == 0)
		return 0;
	if (k.frames >= frames)
		return w->frame[w->stored - frames].node;
	if (k.node == 0 && w->frames > w->stored) {
		k.node = node_make(c, 0, 0, REC_NODE_TRUNCATED, missing_frames(w));
		if (k.node == 0)
			return 0;
	}
	for (uint32_t i = w->stored - k.frames; i-- > w->stored - frames;) {
		uint32_t call = i + 1 < w->stored ? w->frame[i + 1].position + 1 : 0;

		k.node = node_make(c, k.node, call, REC_NODE_PYTHON, w->frame[i].code);
		if (k.node == 0)
			return 0;
		c->nodes[k.node].known = true;
	}
	return k.node;
}

/* --- one thread --- */

static bool on_cpu_alone(const struct core *c)
{
	return (c->options.flags & RING_OPT_ONCPU) != 0;
}

/* Has nobody taken the GIL since the tick began, and is it not this thread's? */
static bool still(struct core *c, const struct thread *t)
{
	const struct gil *g = &c->gils[t->gil];
	uint64_t switches, holder;

	copy_forget(c);
	return g->holder != t->ts && g->interpreters == 1 &&
	       load64(c, g->address + c->layout.gil_switch_number, &switches) &&
	       load64(c, g->address + c->layout.gil_last_holder, &holder) &&
	       switches == g->switches && holder == g->holder;
}

/*
 * How many frames from the root two readings have in common: the same frames, running
 * the same code, that call each other at the same places.  Only the last one may be
 * further on, and that must not be a generator: its link to a caller may be an old one.
 */
static uint32_t common_frames(const struct walk *a, const struct walk *b)
{
	uint32_t n = 0;

	if (!a->complete || !b->complete)
		return 0;
	if (a->path == b->path && a->stored == b->stored)
		return a->stored;
	if (a->frames != a->stored || b->frames != b->stored)
		return 0;
	while (n < a->stored && n < b->stored) {
		const struct frame *x = &a->frame[a->stored - 1 - n];
		const struct frame *y = &b->frame[b->stored - 1 - n];

		if (x->at != y->at || x->code != y->code)
			break;
		n++;
		if (x->position != y->position)
			break;
	}
	while (n != 0 && !a->frame[a->stored - n].own)
		n--;
	return n;
}

/* What is to be shown of a thread. */
struct place {
	uint32_t node; /* 0: nothing */
	uint32_t position;
	bool approximate;
};

/*
 * What a reading shows that could not be proven: the longest known piece from the root,
 * and on it the frames as they were read.  To leave these out would give the time of
 * short calls to their callers.  At which instruction they were called was read later
 * than they were, and is left open but for those that read alike again at once.
 */
static struct place as_read(struct core *c, struct walk *w)
{
	struct known k = follow(c, w);
	struct place p = { .approximate = true, .position = PY_NO_POSITION };
	uint32_t above = w->stored - k.frames;

	p.node = k.node;
	if (k.frames != 0)
		p.position = w->frame[above].position;
	while (above-- > 0) {
		uint32_t call =
			above + 1 < w->proven ? w->frame[above + 1].position + 1 : 0;
		uint32_t node = node_make(
			c, p.node, call, REC_NODE_PYTHON, w->frame[above].code);

		if (node == 0)
			break;
		p.node = node;
		p.position = w->frame[above].position;
	}
	return p;
}

/*
 * A reading that was torn has its leaf all the same: put the frames of it down to one
 * that the later, whole reading has as well on top of those of that one.  Returns the
 * reading to be shown.
 */
static struct walk *graft(struct walk *torn, struct walk *whole)
{
	if (!whole->complete || whole->frames != whole->stored)
		return whole;
	for (uint32_t i = 0; i < torn->stored && i < GRAFTED_FRAMES; i++)
		for (uint32_t j = 0; j < whole->stored; j++) {
			uint32_t rest = whole->stored - j;

			if (torn->frame[i].at != whole->frame[j].at ||
				torn->frame[i].code != whole->frame[j].code ||
				i + rest > MAX_STORED_FRAMES)
				continue;
			uint32_t leaf = torn->frame[0].position;

			walk_put_on(torn, i, &whole->frame[j], rest);
			torn->frame[0].position = leaf;
			return torn;
		}
	return whole;
}

static struct place unreadable(struct core *c)
{
	return (struct place){
		.approximate = true,
		.position = PY_NO_POSITION,
		.node = node_make(c, 0, 0, REC_NODE_UNREADABLE, 0),
	};
}

/* Only what was seen twice at one moment is not known of a reading: that teaches it.
 * By system calls the two lie so far apart that much may have happened in between. */
static bool learn_top(struct core *c, struct walk *w)
{
	if (!w->complete || w->proven == 0 || reads_by_calls(c))
		return false;
	uint32_t known = follow(c, w).frames;

	return known < w->stored &&
	       (known + w->proven > w->stored || w->proven == w->stored) &&
	       teach(c, w, w->stored) != 0;
}

/* What the last readings have in common, from the root. */
struct steady {
	uint32_t frames[STEADY_PAIRS]; /* of each pair of them */
	uint32_t pairs;
};

/*
 * How many frames are taught by a reading and the one before it.  By system calls two
 * may be torn alike: what several in a row have in common is taken then.
 */
static uint32_t steady_frames(struct core *c, struct steady *s, const struct walk *next,
	const struct walk *previous)
{
	uint32_t least = common_frames(next, previous);

	if (!reads_by_calls(c))
		return least;
	s->frames[s->pairs++ % STEADY_PAIRS] = least;
	if (s->pairs < STEADY_PAIRS)
		return 0;
	for (uint32_t i = 0; i < STEADY_PAIRS; i++)
		if (s->frames[i] < least)
			least = s->frames[i];
	return least;
}

static bool may_learn(struct core *c)
{
	return c->learn_until == 0 || loop_now(c) < c->learn_until;
}

/* The first reading, in walks[0], is not known as it stands. */
static struct place settle(struct core *c, struct thread *t)
{
	struct walk *first = &c->walks[0], *previous = first;
	struct steady steady = { .pairs = 0 };
	struct place p = { .position = first->frame[0].position };

	if (first->complete && still(c, t)) {
		p.node = teach(c, first, first->stored);
		if (p.node != 0)
			return p;
	}
	for (unsigned i = 0;; i++) {
		if (learn_top(c, first) || i != 0) {
			p.node = known_path(c, first);
			if (p.node != 0)
				return p;
		}
		if (i == LEARNING_READS || !may_learn(c))
			break;
		struct walk *next = &c->walks[previous == &c->walks[1] ? 2 : 1];

		walk_read(c, t->ts, next);
		(void)learn_top(c, next);
		uint32_t common = steady_frames(c, &steady, next, previous);

		if (common != 0)
			(void)teach(c, next, common);
		previous = next;
	}
	if (!first->complete)
		first = graft(first, previous);
	p = (struct place){ 0 };
	if (first->complete && first->stored != 0)
		p = as_read(c, first);
	return p.node != 0 ? p : unreadable(c);
}

/*
 * Is the collector at work, under the frame that was read?  Not while Python code runs
 * that it has called, such as a finalizer: then the frame is another one than that
 * which the collector came upon, where the version tells, or it moves on.
 */
static bool collects(struct core *c, const struct thread *t)
{
	const struct py_layout *l = &c->layout;
	uint64_t gc = (l->flags & PY_GC_IN_RUNTIME) != 0 ? c->options.runtime
							 : t->interpreter;
	uint32_t collecting = 0;
	uint64_t frame = 0;

	copy_forget(c);
	(void)load32(c, gc + l->gc_collecting, &collecting);
	if (collecting == 0)
		return false;
	if (l->gc_frame == PY_NONE)
		return !walk_moves(c, t->ts);
	(void)load64(c, gc + l->gc_frame, &frame);
	return frame == 0 || c->walks[0].stored == 0 ||
	       c->walks[0].frame[0].at == frame;
}

/* Of a subset each stands for those that were not looked at. */
static void count_running(struct core *c, struct thread *t, bool running)
{
	int64_t seen = c->weight_ns;

	if (!running)
		return;
	if (c->subset_of != 0)
		seen = seen * c->subset_of / c->subset;
	t->seen_ns += seen;
	c->window_seen_ns += seen;
}

/* Of a thread that does not hold the GIL. */
static uint8_t state_without_gil(struct core *c, struct thread *t)
{
	bool running = cpu_runs_outside(c, t);
	uint32_t requested = 0;

	count_running(c, t, running);
	if (c->layout.ts_gil_requested != PY_NONE)
		(void)load32(c, t->ts + c->layout.ts_gil_requested, &requested);
	return (uint8_t)((running ? REC_RUNNING : 0) |
			 (requested == 1 ? REC_GIL_WAIT : 0));
}

/* Of the one that walks[0] was read of. */
static uint8_t state_of(struct core *c, struct thread *t, bool holds)
{
	if (!holds)
		return state_without_gil(c, t);
	bool running = cpu_runs_inside(c, t);

	count_running(c, t, running);
	return (uint8_t)((running ? REC_RUNNING : 0) | REC_GIL |
			 (collects(c, t) ? REC_GC : 0));
}

/* Where that is what walks[0] says of a thread: it starts, it ends, or it is in C code
 * that no Python code has called. */
static struct place without_frame(struct core *c)
{
	return (struct place){
		.position = PY_NO_POSITION,
		.node = node_make(c, 0, 0, REC_NODE_NO_FRAME, 0),
	};
}

static struct place with_frames(struct core *c, struct thread *t)
{
	struct place p = {
		.position = c->walks[0].frame[0].position,
	};

	if (t->name_tries < NAME_TRIES)
		(void)thread_announce(c, t);
	p.node = known_path(c, &c->walks[0]);
	return p.node != 0 ? p : settle(c, t);
}

/* Enter what a thread's chain, read into walks[0], shows. */
static void enter(struct core *c, struct thread *t, bool holds)
{
	struct walk *w = &c->walks[0];
	bool read_again = !w->complete;

	t->fresh = false;
	if (w->frames == 0) {
		/* Torn, or no Python frames at all: ask once more. */
		read_again = true;
		walk_read(c, t->ts, w);
	}
	bool bare = w->frames == 0 && w->complete;
	struct place p = bare ? without_frame(c) : with_frames(c, t);

	/* A thread that has ended looks like one without a frame. */
	if ((read_again && !thread_same(c, t)) || (bare && !thread_linked(c, t))) {
		c->relist = true;
		return;
	}
	uint8_t state = state_of(c, t, holds);

	/* Who holds a GIL runs, whoever else has its kernel thread: 3.12 runs another
	 * interpreter under the ids of the thread that made it. */
	if ((t->twin && !holds) || (on_cpu_alone(c) && (state & REC_RUNNING) == 0)) {
		run_end(c, t);
		return;
	}
	if (p.approximate)
		state |= REC_APPROXIMATE;
	if (p.node == 0) {
		/* Its place could not be sent. */
		run_end(c, t);
		count(c, RING_LOST_FULL, 1);
		t->lost++;
		t->fresh = true;
		sample_attend(c, t);
		return;
	}
	run_set(c, t, p.node, p.position, state);
	t->truncated = w->complete && w->frames > w->stored;
}

/*
 * Has the GIL gone from one thread to another since the ledger was read?  Then a frame
 * that was let go of meanwhile may be another thread's by now, on a path that is known:
 * a sampler that lost its CPU in the middle of a chain reads half of each.
 */
static bool switched(struct core *c, const struct thread *t)
{
	const struct gil *g = &c->gils[t->gil];
	uint64_t switches;

	copy_forget(c);
	return load64(c, g->address + c->layout.gil_switch_number, &switches) &&
	       switches != g->switches;
}

/* Read its chain; once more if it may have become a mixture. */
static void walk_thread(struct core *c, struct thread *t)
{
	walk_read(c, t->ts, &c->walks[0]);
	if (switched(c, t))
		walk_read(c, t->ts, &c->walks[0]);
}

static void look(struct core *c, struct thread *t)
{
	uint32_t node = t->in_run ? t->node : 0, position = t->position;

	t->looked = c->tick + 1;
	walk_thread(c, t);
	/* Its thread state may be another's by now. */
	if (!thread_same(c, t)) {
		c->relist = true;
		return;
	}
	enter(c, t, false);
	/* It seems to wait here.  What is kept must be what was entered. */
	if (t->in_run && t->node == node && t->position == position &&
		(t->state & REC_APPROXIMATE) == 0 && still(c, t) && kept_store(c, t) &&
		!still(c, t))
		kept_drop(c, t);
}

/* --- one tick --- */

/* What the ledger says now; the holders' chains are read right behind it. */
static void read_ledger(struct core *c, struct gil *g)
{
	const struct py_layout *l = &c->layout;
	uint64_t holder = 0, switches = 0;
	uint32_t locked = 0;

	copy_forget(c);
	(void)load64(c, g->address + l->gil_last_holder, &holder);
	(void)load32(c, g->address + l->gil_locked, &locked);
	(void)load64(c, g->address + l->gil_switch_number, &switches);
	g->old_holder = g->holder;
	g->new_switches = switches - g->switches;
	g->holder = holder;
	g->locked = locked == 1;
	g->switches = switches;
	count(c, RING_GIL_SWITCHES, c->all_changed ? 0 : g->new_switches);
}

static bool is_chosen(const struct core *c, const struct thread *t)
{
	return c->subset_of == 0 || t->chosen;
}

/* Is the last holder of a GIL to be looked at?  It may have let go of it and run on. */
static bool is_wanted(struct core *c, const struct gil *g, struct thread *t)
{
	return is_chosen(c, t) &&
	       (g->locked || !on_cpu_alone(c) || cpu_runs_outside(c, t));
}

/* Nothing is told of it until it is looked at again. */
static void leave_out(struct core *c, struct thread *t)
{
	if (t->in_run)
		run_end(c, t);
	t->fresh = true;
	sample_attend(c, t);
}

/*
 * May the list tell of a holder that is not known?  Of a GIL that nobody holds it is
 * mostly one that is gone, or has no frame and is left out: hundreds of interpreters
 * with GILs of their own would each have all threads listed, at every tick.
 */
static bool is_worth_a_list(struct core *c, const struct gil *g)
{
	return g->locked || (g->holder != 0 && c->listed_ns != c->now_ns &&
				    walk_has_frame(c, g->holder));
}

/*
 * Its chain is read before anything else of it: what is loaded from the lines that a
 * running thread writes makes its next writes wait for them, and which frame is seen
 * then is the one it was at when it had to wait (ten points of the shares by depth
 * on 3.12).
 */
static void look_at_holder(struct core *c, struct gil *g)
{
	struct thread *t = g->holder != 0 ? thread_find(c, g->holder) : NULL;
	bool wanted = t != NULL && is_wanted(c, g, t);

	if (wanted) {
		walk_warm(c, t->ts);
		walk_thread(c, t);
	}
	if (t == NULL || !thread_linked(c, t) || !thread_same(c, t)) {
		/* Unknown, gone, or another's thread state by now: the list tells. */
		if (t == NULL && !is_worth_a_list(c, g))
			return;
		threads_list(c);
		t = g->holder != 0 ? thread_find(c, g->holder) : NULL;
		if (t == NULL)
			return;
		wanted = is_wanted(c, g, t);
		if (wanted)
			walk_thread(c, t);
		if (!thread_same(c, t)) {
			c->relist = true;
			return;
		}
	}
	if (g->locked) {
		t->last_held = c->tick;
		t->held_ns += c->weight_ns;
		t->look = true;
	}
	if (wanted)
		enter(c, t, g->locked);
	else
		leave_out(c, t);
}

static bool heads_moved(struct core *c)
{
	for (uint32_t i = 0; i < c->interpreter_count; i++) {
		uint64_t head;

		if (load64(c, c->interpreters[i].address + c->layout.is_threads_head,
			    &head) &&
			head != c->interpreters[i].threads_head)
			return true;
	}
	return false;
}

static bool any_switched(struct core *c)
{
	for (uint32_t i = 0; i < c->gil_count; i++)
		if (c->gils[i].new_switches != 0)
			return true;
	return false;
}

/* Its place is that of the last tick; the state need not be. */
static void go_on(struct core *c, struct thread *t)
{
	t->looked = c->tick + 1;
	run_set(c, t, t->node, t->position,
		(uint8_t)((t->state & REC_APPROXIMATE) | state_without_gil(c, t)));
}

/* Its chain is as it was kept, which need not be as at the last tick. */
static void enter_kept(struct core *c, struct thread *t)
{
	t->looked = c->tick + 1;
	run_set(c, t, t->kept_node, t->kept_position, state_without_gil(c, t));
	t->truncated = t->kept_truncated;
}

/* What the ledger says at this moment; not of a tick. */
static bool ledger_now(struct core *c, const struct gil *g, struct gil *now)
{
	copy_forget(c);
	return load64(c, g->address + c->layout.gil_switch_number, &now->switches) &&
	       load64(c, g->address + c->layout.gil_last_holder, &now->holder);
}

static bool may_have_changed(struct core *c, const struct thread *t, uint16_t gil)
{
	return t->id != 0 && t->gil == gil && t->ts != c->gils[gil].holder;
}

/*
 * Some threads of one GIL, one bit for each: whose chain is as it was kept?  While they
 * are looked at only the holder can run.
 */
static uint64_t see_kept(struct core *c, uint16_t gil, uint32_t from, uint32_t to)
{
	const struct gil *g = &c->gils[gil];
	struct gil before, behind;
	uint64_t holds = 0;

	if (c->all_changed || g->interpreters > 1 || !ledger_now(c, g, &before))
		return 0;
	c->moment++;
	copy_forget(c);
	/* All of them at once: most of the time goes into the translation of addresses,
	 * of which a processor does several at a time. */
	for (uint32_t i = from; i < to; i++)
		kept_ask_places(c, &c->threads[i]);
	for (uint32_t i = from; i < to; i++)
		kept_ask_frames(c, &c->threads[i]);
	for (uint32_t i = from; i < to; i++) {
		struct thread *t = &c->threads[i];

		if (may_have_changed(c, t, gil) && t->in_run &&
			t->ts != before.holder && kept_holds(c, t))
			holds |= 1ull << (i - from);
	}
	return ledger_now(c, g, &behind) && behind.switches == before.switches &&
			       behind.holder == before.holder
		       ? holds
		       : 0;
}

/* Those of one GIL: they do not hold it, but may have since the last tick. */
static void look_at_all(struct core *c, uint16_t gil)
{
	enum { TOGETHER = 32 };

	for (uint32_t from = 0; from < c->thread_count; from += TOGETHER) {
		uint32_t left = c->thread_count - from;
		uint32_t to = from + (left < TOGETHER ? left : TOGETHER);
		uint64_t holds = see_kept(c, gil, from, to);

		for (uint32_t i = from; i < to; i++) {
			struct thread *t = &c->threads[i];

			if (!may_have_changed(c, t, gil))
				continue;
			if ((holds >> (i - from) & 1) != 0)
				enter_kept(c, t);
			else
				look(c, t);
		}
	}
}

/* Without a switch nobody's chain can have changed; after one, the old holder's. */
static void look_at_others(struct core *c)
{
	for (uint32_t i = 0; i < c->gil_count; i++) {
		const struct gil *g = &c->gils[i];
		struct thread *t;

		if (c->all_changed || g->new_switches > 1 || g->interpreters > 1) {
			look_at_all(c, (uint16_t)i);
			continue;
		}
		t = g->new_switches == 1 ? thread_find(c, g->old_holder) : NULL;
		if (t != NULL && t->gil == i && t->ts != g->holder)
			look(c, t);
	}
}

void sample_attend(struct core *c, struct thread *t)
{
	if (t->attended)
		return;
	t->attended = true;
	t->next_attended = c->attended;
	c->attended = (uint16_t)(t - c->threads + 1);
}

/* A thread of the list that has not been looked at in this tick. */
static void attend(struct core *c, struct thread *t)
{
	bool held = t->gil >= c->gil_count || t->ts == c->gils[t->gil].holder;

	t->look |= cpu_asks(c, t) && !held;
	if (held || t->looked == c->tick + 1)
		return;
	if (t->fresh)
		look(c, t);
	else if (t->in_run && (cpu_asks(c, t) || (t->state & REC_RUNNING) != 0))
		go_on(c, t);
}

/* Who has to be seen at each tick, or for the first time: few, and not worth a search
 * among all. */
static void look_at_attended(struct core *c)
{
	uint16_t *link = &c->attended;

	while (*link != 0) {
		struct thread *t = &c->threads[*link - 1];

		if (t->id != 0)
			attend(c, t);
		if (t->id != 0 && (t->fresh || cpu_asks(c, t))) {
			link = &t->next_attended;
		} else {
			*link = t->next_attended;
			t->attended = false;
		}
	}
}

/* Where only some of the threads are to be looked at, by lot or as they run. */
static void look_if_wanted(struct core *c, struct thread *t)
{
	const struct gil *g = &c->gils[t->gil];

	t->look |= cpu_asks(c, t);
	if (!is_chosen(c, t) || (on_cpu_alone(c) && !cpu_runs_outside(c, t)))
		leave_out(c, t);
	else if (t->fresh || on_cpu_alone(c) || c->all_changed || g->new_switches > 1 ||
		 g->interpreters > 1 ||
		 (g->new_switches == 1 && t->ts == g->old_holder))
		look(c, t);
	else if (t->in_run)
		go_on(c, t);
}

static void look_at_some(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id != 0 && t->gil < c->gil_count &&
			t->ts != c->gils[t->gil].holder && t->looked != c->tick + 1)
			look_if_wanted(c, t);
	}
}

/* Where a thread state tells that it waits for the GIL: of each at every tick. */
static void see_who_waits(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id != 0 && t->in_run && t->gil < c->gil_count &&
			t->ts != c->gils[t->gil].holder && t->looked != c->tick + 1)
			go_on(c, t);
	}
}

static void look_at_the_rest(struct core *c)
{
	if (c->subset_of != 0 || on_cpu_alone(c)) {
		look_at_some(c);
		return;
	}
	look_at_others(c);
	look_at_attended(c);
	if (c->layout.ts_gil_requested != PY_NONE)
		see_who_waits(c);
}

void sample_choose_thread(struct core *c, struct thread *t)
{
	t->chosen =
		c->subset_of == 0 || strata_draw(&c->strata, c->subset_of) < c->subset;
}

/*
 * Each of the threads with the same chance, and so many of them: so many of those that
 * are left, over those that are left.
 */
void sample_choose(struct core *c)
{
	uint32_t left = c->thread_count - c->free_threads;
	uint32_t wanted = c->options.max_threads;

	c->subset_of = c->subset = 0;
	if (wanted == 0 || left <= wanted)
		return;
	c->subset_of = left;
	c->subset = wanted;
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id == 0)
			continue;
		t->chosen = strata_draw(&c->strata, left--) < wanted;
		wanted -= t->chosen;
	}
}

/* What the program does from now on is no Python thread's. */
static void end_all_runs(struct core *c)
{
	if (c->interpreters_gone)
		return;
	c->interpreters_gone = true;
	for (uint32_t i = 0; i < c->thread_count; i++) {
		if (c->threads[i].id == 0)
			continue;
		run_end(c, &c->threads[i]);
	}
	cpu_settle_gone(c, loop_untold_since(c));
	loop_count_cpu(c);
}

/* Returns false, with a guess, when it cannot be read. */
static bool read_phase(struct core *c, enum record_phase *ret)
{
	const struct py_layout *l = &c->layout;
	uint64_t finalizing = 0;
	uint32_t initialized = 1;
	bool good = load64(c, c->options.runtime + l->rt_finalizing, &finalizing);

	if (l->rt_initialized != PY_NONE)
		good &= load32(c, c->options.runtime + l->rt_initialized, &initialized);
	*ret = finalizing != 0    ? REC_PHASE_FINALIZING
	       : initialized == 0 ? REC_PHASE_STARTING
				  : REC_PHASE_RUNNING;
	return good;
}

bool sample_is_up(struct core *c)
{
	enum record_phase phase;

	copy_forget(c);
	return read_phase(c, &phase) && phase == REC_PHASE_RUNNING;
}

enum record_phase sample_phase(struct core *c)
{
	enum record_phase phase;

	(void)read_phase(c, &phase);
	return phase;
}

void sample_tick(struct core *c)
{
	copy_forget(c);
	runs_phase(c, sample_phase(c));
	if (!threads_interpreters(c)) {
		end_all_runs(c);
		c->all_changed = true;
		return;
	}
	c->interpreters_gone = false;
	for (uint32_t i = 0; i < c->gil_count; i++) {
		read_ledger(c, &c->gils[i]);
		look_at_holder(c, &c->gils[i]);
	}
	if (c->relist || heads_moved(c) || c->now_ns - c->listed_ns > c->list_step ||
		(c->unentered && any_switched(c)))
		threads_list(c);
	look_at_the_rest(c);
	if (c->relist) {
		threads_list(c);
		if (c->subset_of != 0 || on_cpu_alone(c))
			look_at_some(c);
		else
			look_at_attended(c);
	}
	c->all_changed = false;
	cpu_tick(c);
}

/*
 * Is memory as the layout says?  Asked before the first tick, again and again while
 * the interpreter comes up, and until there is a frame to tell by.  The numbers are
 * worded by the recorder.
 */
int sample_check_layout(struct core *c)
{
	const struct py_layout *l = &c->layout;
	uint64_t ts, interp, prev;
	bool frames = false;

	if (l->fr_previous >= SANE_BYTES || l->fr_code >= SANE_BYTES ||
		l->fr_instr >= SANE_BYTES ||
		(l->fr_owner >= SANE_BYTES && l->fr_owner != PY_NONE))
		return 4;
	for (uint32_t i = 0; i < c->interpreter_count; i++) {
		if (!load64(c, c->interpreters[i].address + l->is_threads_head, &ts))
			return 1;
		if (ts == 0)
			continue;
		if (!load64(c, ts + l->ts_interp, &interp) ||
			interp != c->interpreters[i].address)
			return 2;
		if (!load64(c, ts + l->ts_prev, &prev) || prev != 0)
			return 3;
		walk_read(c, ts, &c->walks[0]);
		if (c->walks[0].complete && c->walks[0].stored != 0)
			return 0;
		frames |= !c->walks[0].complete || c->walks[0].frames != 0;
	}
	return frames ? 4 : SAMPLE_NO_FRAMES;
}
