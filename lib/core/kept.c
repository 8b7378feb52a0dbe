/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of waiting threads, kept.
 *
 * After several switches of the GIL any thread may have run and wait somewhere else
 * now, or at the same place again, which is what nearly all do.  Nothing in a thread
 * tells that it has not run, and equal frames at the leaf end prove nothing of those
 * below. But a chain of which every word is as it was (the current frame; of each frame
 * its address, code, instruction, caller and owner; the top of the stack) is the same
 * stack.
 *
 * To see that is cheaper by far than to read the chain anew: where each frame lies is
 * known, so no load waits for another one, and those of the next threads can be asked
 * for ahead.  What a chain says must have been true when it was kept: its thread did
 * not run while it was read.
 */
#include "core/memory.h"

enum { KEPT_MOST = 60 }; /* frames; longer chains are read each time */

/* Where a chain begins, and how far its stack reaches. */
struct place {
	uint64_t link; /* what the thread state leads to */
	uint64_t current;
	uint64_t chunk, top;
};

__attribute__((noinline)) static bool read_place(
	struct core *c, uint64_t ts, struct place *p)
{
	const struct py_layout *l = &c->layout;

	p->chunk = p->top = 0;
	if (!load64(c, ts + l->ts_frame, &p->link))
		return false;
	p->current = p->link;
	if (l->cframe_frame != PY_NONE &&
		!load64(c, p->link + l->cframe_frame, &p->current))
		return false;
	return (l->flags & PY_HAS_DATASTACK) == 0 ||
	       (load64(c, ts + l->ts_datastack_chunk, &p->chunk) &&
		       load64(c, ts + l->ts_datastack_chunk + DATASTACK_TOP, &p->top));
}

/* A block that is free, behind another one or the first; NULL when there is none. */
static struct kept_block *take_block(struct core *c, uint16_t *link)
{
	uint16_t number = c->kept_free;

	if (number != 0)
		c->kept_free = c->kept[number].next;
	else if (c->kept_count < MAX_KEPT_BLOCKS)
		number = (uint16_t)++c->kept_count;
	else
		return NULL;
	c->kept[number].next = 0;
	*link = number;
	return &c->kept[number];
}

void kept_drop(struct core *c, struct thread *t)
{
	uint16_t last = t->kept;

	if (last == 0)
		return;
	while (c->kept[last].next != 0)
		last = c->kept[last].next;
	c->kept[last].next = c->kept_free;
	c->kept_free = t->kept;
	t->kept = t->kept_frames = 0;
}

/* Once for both that follow: its loads have to wait anyway. */
__attribute__((noinline)) static bool frame_at(
	struct core *c, uint64_t at, struct py_frame *f)
{
	return read_frame(c, at, f);
}

RARE static bool store_frames(struct core *c, struct thread *t)
{
	struct kept_block *b = NULL;
	uint64_t at = t->kept_current;
	uint16_t *link = &t->kept;

	/* A chain of no frames is kept as well. */
	if (at == 0)
		return take_block(c, link) != NULL;
	for (uint32_t n = 0; at != 0; n++) {
		struct py_frame f;
		uint32_t code = 0;

		if (n == KEPT_MOST || !frame_at(c, at, &f))
			return false;
		if (!py_frame_is_entry(&c->layout, &f)) {
			code = code_find(c, f.code);
			if (code == 0)
				return false;
		}
		if (n % KEPT_BLOCK_FRAMES == 0) {
			b = take_block(c, link);
			if (b == NULL)
				return false;
			link = &b->next;
		}
		b->frame[n % KEPT_BLOCK_FRAMES] =
			(struct kept_frame){ at, f.instr, code, f.owner };
		t->kept_frames++;
		at = f.previous;
	}
	return t->kept_frames != 0;
}

bool kept_store(struct core *c, struct thread *t)
{
	struct place p;

	kept_drop(c, t);
	copy_forget(c);
	if (!read_place(c, t->ts, &p))
		return false;
	t->kept_link = p.link;
	t->kept_current = p.current;
	t->kept_chunk = p.chunk;
	t->kept_top = p.top;
	t->kept_node = t->node;
	t->kept_position = t->position;
	t->kept_truncated = t->truncated;
	if (store_frames(c, t))
		return true;
	kept_drop(c, t);
	return false;
}

static bool frame_holds(
	struct core *c, const struct kept_frame *k, uint64_t *ret_previous)
{
	struct py_frame f;

	if (!frame_at(c, k->at, &f) || f.instr != k->instr || f.owner != k->owner)
		return false;
	*ret_previous = f.previous;
	return k->code == 0 ||
	       (f.code == c->codes[k->code].address && code_holds(c, k->code));
}

bool kept_holds(struct core *c, struct thread *t)
{
	struct place p;

	if (t->kept == 0 || !thread_same(c, t) || !read_place(c, t->ts, &p) ||
		p.link != t->kept_link || p.current != t->kept_current ||
		p.chunk != t->kept_chunk || p.top != t->kept_top)
		return false;
	/* That of a thread that has ended looks the same, left as it was. */
	if (is_bare(c, t->kept_node) && !thread_linked(c, t))
		return false;
	const struct kept_block *b = &c->kept[t->kept];
	uint64_t at = t->kept_current;

	for (uint32_t n = 0; n < t->kept_frames; n++) {
		if (n != 0 && n % KEPT_BLOCK_FRAMES == 0)
			b = &c->kept[b->next];
		const struct kept_frame *k = &b->frame[n % KEPT_BLOCK_FRAMES];

		if (k->at != at || !frame_holds(c, k, &at))
			return false;
	}
	return at == 0;
}

enum { LINE = 64 };

static void ask_for(uint64_t address)
{
	__builtin_prefetch((const void *)(uintptr_t)address);
}

void kept_ask_places(struct core *c, const struct thread *t)
{
	const struct py_layout *l = &c->layout;

	if (t->kept == 0)
		return;
	ask_for(t->ts + l->ts_frame);
	ask_for(t->ts + l->ts_thread_id);
	if (is_bare(c, t->kept_node))
		ask_for(t->ts + l->ts_prev);
	if ((l->flags & PY_HAS_DATASTACK) != 0)
		ask_for(t->ts + l->ts_datastack_chunk);
	if ((l->flags & PY_HAS_NATIVE_ID) == 0)
		ask_for(t->pthread + c->pthread_tid_offset);
	if (l->cframe_frame != PY_NONE)
		ask_for(t->kept_link + l->cframe_frame);
	for (unsigned at = 0; at < sizeof(struct kept_block); at += LINE)
		ask_for((uint64_t)(uintptr_t)&c->kept[t->kept] + at);
}

void kept_ask_frames(struct core *c, const struct thread *t)
{
	const struct kept_block *b = &c->kept[t->kept];

	for (uint32_t n = 0; n < t->kept_frames && n < KEPT_BLOCK_FRAMES; n++) {
		ask_for(b->frame[n].at + c->layout.fr_previous);
		ask_for(b->frame[n].at + c->layout.fr_instr);
	}
}
