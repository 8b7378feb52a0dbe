/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading one chain of frames, from the current frame to the root, while its thread
 * may be running.  What comes out may be torn; it says of itself whether every
 * frame was plausible and the chain reached a root that can be one.  Whether it is
 * true is decided in sample.c.
 *
 * Every loop is bounded, every load guarded.
 */
#include "core/core-internal.h"

enum {
	MAX_CHUNKS = 16384, /* of 16 KiB and more each: beyond any stack */
	CHUNK_DATA = 24,    /* _PyStackChunk: previous, size, top, then the slots */
	CHUNK_FIRST_SKIPPED = 8, /* the root chunk leaves its first slot empty */
};

/* Loads of python/frame.h: the address space is this one. */
#define PY_MEM void *

static inline bool py_mem_load64(PY_MEM m, uint64_t address, uint64_t *ret)
{
	(void)m;
	return load64(address, ret);
}

static inline bool py_mem_load32(PY_MEM m, uint64_t address, uint32_t *ret)
{
	(void)m;
	return load32(address, ret);
}

static inline bool py_mem_load8(PY_MEM m, uint64_t address, uint8_t *ret)
{
	(void)m;
	return sane(address) && arch_load8(address, ret);
}

#include "python/frame.h"

static bool read_frame(const struct py_layout *l, uint64_t at, struct py_frame *f)
{
	return (at & 7) == 0 && py_frame_read(NULL, l, at, f);
}

/* Where the outermost frame of the thread's own stack must lie, or 0. */
static uint64_t root_slot(struct core *c, uint64_t ts)
{
	uint64_t chunk, previous;

	if (!load64(ts + c->layout.ts_datastack_chunk, &chunk))
		return 0;
	for (unsigned i = 0; i < MAX_CHUNKS && chunk != 0; i++) {
		if (!load64(chunk, &previous))
			return 0;
		if (previous == 0)
			return chunk + CHUNK_DATA + CHUNK_FIRST_SKIPPED;
		chunk = previous;
	}
	return 0;
}

/*
 * Can the chain have ended here?  outermost is the last frame seen on the thread's
 * own stack (0: none), flags those of the last code.
 */
static bool ends_at_root(struct core *c, uint64_t ts, uint64_t outermost, uint32_t flags)
{
	if ((c->layout.flags & PY_HAS_DATASTACK) != 0)
		return outermost == 0 || outermost == root_slot(c, ts);
	/* A suspended generator's frame has no caller: the chain was cut there. */
	return (flags & PY_CO_GENERATOR_FLAGS) == 0;
}

/* What the readings of one chain have in hand. */
struct chain {
	struct core *c;
	struct walk *w;
	uint64_t outermost;
	uint32_t code; /* of the last frame */
};

/* Enter one frame; false when it is not plausible. */
static bool enter_frame(struct chain *ch, uint64_t at, const struct py_frame *f)
{
	struct core *c = ch->c;
	struct walk *w = ch->w;

	if (w->stored == c->options.max_stack) {
		/* Only counted, and part of the path. */
		w->frames++;
		w->path = mix(mix(w->path, at ^ (f->code << 20)), f->instr);
		if (f->owner != PY_OWNER_GENERATOR)
			ch->outermost = at;
		return true;
	}

	uint32_t code = code_find(c, f->code);
	uint32_t position;

	if (code == 0)
		return false;
	if (c->codes[code].shim) {
		/* It lies on the stack like any other. */
		ch->outermost = at;
		return true;
	}
	if (!py_frame_position(&c->layout, f->code, c->codes[code].bytes, f->instr, &position))
		return false;
	if (w->frames == 0) {
		w->leaf = at;
		w->leaf_code = f->code;
	} else if (w->frames == 1) {
		w->caller = at;
		w->caller_instr = f->instr;
	}
	w->path = mix(w->path, at ^ ((uint64_t)code << 48));
	if (w->frames != 0)
		w->path = mix(w->path, position);
	w->frame[w->stored].code = code;
	w->frame[w->stored].position = position;
	w->stored++;
	w->frames++;
	ch->code = code;
	if (f->owner != PY_OWNER_GENERATOR)
		ch->outermost = at;
	return true;
}

void walk_read(struct core *c, uint64_t ts, struct walk *w)
{
	const struct py_layout *l = &c->layout;
	struct chain ch = { .c = c, .w = w };
	uint64_t at;
	uint32_t steps = 0;

	w->frames = 0;
	w->stored = 0;
	w->complete = false;
	w->path = ts;
	w->caller = 0;
	count(c, RING_WALKS, 1);
	if (!py_frame_first(NULL, l, ts, &at))
		return;
	for (; at != 0; steps++) {
		struct py_frame f;

		if (steps == MAX_FRAMES || !read_frame(l, at, &f))
			return;
		if (!py_frame_is_entry(l, &f) &&
			(f.owner > PY_OWNER_GENERATOR || !enter_frame(&ch, at, &f)))
			return;
		if (f.previous == at)
			return;
		at = f.previous;
	}
	w->complete = w->frames == 0 ||
		ends_at_root(c, ts, ch.outermost, c->codes[ch.code].flags);
}

bool walk_edge_again(struct core *c, uint64_t ts, const struct walk *w)
{
	struct py_frame leaf, caller;
	uint64_t at;

	if (w->frames < 2 || !py_frame_first(NULL, &c->layout, ts, &at) || at != w->leaf)
		return false;
	return read_frame(&c->layout, w->leaf, &leaf) && leaf.code == w->leaf_code &&
		read_frame(&c->layout, w->caller, &caller) && caller.instr == w->caller_instr;
}
