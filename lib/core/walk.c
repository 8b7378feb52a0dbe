/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading one chain of frames, from the current frame to the root, while its thread
 * may be running.  What comes out may be torn; it says of itself whether every
 * frame was plausible and the chain reached a root that can be one.  Whether it is
 * true is decided in sample.c.
 *
 * Every loop is bounded, every load guarded.
 */
#include "core/memory.h"

/* An odd number: from where a frame was called is to change all bits of its path. */
#define SPREAD 0xd6e8feb86659fd93ull

enum {
	MAX_CHUNKS = 16384, /* of 16 KiB and more each: beyond any stack */
	CHUNK_SIZE = 8,     /* _PyStackChunk: previous, size, top, then the slots */
	CHUNK_DATA = 24,
	CHUNK_LEAST = 16384,     /* bytes */
	CHUNK_FIRST_SKIPPED = 8, /* the root chunk leaves its first slot empty */
	PROVEN_MOST = 48,        /* of deeper stacks the rest has hardly changed */
	MAX_ENTRIES = 16,        /* that follow each other */
	MAX_ROOT_STEPS = 1024,   /* of a thread that is new as a rule */
	TOP_FRAMES = 3,          /* the leaf, its caller, and a shim between them */
};

/* The thread's own stack, and the frames of a chain that lie there, not in a
 * generator. */
struct own_stack {
	uint64_t chunk, top; /* as the chain was read; chunk 0: no stack yet */
	uint64_t innermost, outermost; /* 0: none */
};

/* Where the outermost frame of a stack lies whose last chunk this is; 0 when that
 * cannot be read. */
static uint64_t root_of_stack(struct core *c, uint64_t chunk)
{
	for (unsigned i = 0; i < MAX_CHUNKS; i++) {
		uint64_t previous;

		if (!load64(c, chunk, &previous))
			return 0;
		if (previous == 0)
			return chunk + CHUNK_DATA + CHUNK_FIRST_SKIPPED;
		chunk = previous;
	}
	return 0;
}

/*
 * Do the frames lie where the thread's stack has frames?  The outermost must be the
 * first of its first chunk; the innermost must be below the top of its last one: above
 * it lie frames that have ended, to which a pointer not yet set may still lead (the
 * C stack's struct from which 3.11 and 3.12 take the current frame is such a place).
 * A thread that runs nothing but generators has an empty stack.
 */
static bool lies_on_stack(struct core *c, const struct own_stack *own)
{
	uint64_t chunk = own->chunk, root, size;

	if (chunk == 0)
		return own->outermost == 0;
	if (!load64(c, chunk + CHUNK_SIZE, &size))
		return false;
	if (own->innermost - chunk < size && own->innermost >= own->top)
		return false;
	root = root_of_stack(c, chunk);
	if (root == 0)
		return false;
	return own->outermost == 0 ? own->top <= root : own->outermost == root;
}

/* Can the chain have ended here?  flags: of the last code. */
static bool ends_at_root(struct core *c, const struct own_stack *own, uint32_t flags)
{
	if ((c->layout.flags & PY_HAS_DATASTACK) != 0)
		return lies_on_stack(c, own);
	/* A suspended generator's frame has no caller: the chain was cut there. */
	return (flags & PY_CO_GENERATOR_FLAGS) == 0;
}

/*
 * The lines that the last reading found at its leaf end, asked for before the first of
 * them is needed: each comes from the core on which the thread runs, and the longer
 * one load waits for another, the more often the frames read belong to different
 * moments (half as many on 3.11).
 */
static void ask_for_frames(struct core *c)
{
	enum { FRAME_LINES = 2, LINE = 64 };

	for (unsigned i = 0; i < TOP_FRAMES * FRAME_LINES; i++)
		__builtin_prefetch(
			(const void *)(uintptr_t)(c->raw[i / FRAME_LINES].at +
						  i % FRAME_LINES * LINE));
}

/*
 * Is this current frame one that has been left already?  Its memory has been given back
 * then, before its caller is made the current one.
 */
static bool has_ended(const struct py_layout *l, const struct own_stack *own,
	uint64_t at, const struct py_frame *f)
{
	return (l->flags & PY_HAS_DATASTACK) != 0 && f->owner != PY_OWNER_GENERATOR &&
	       at - own->top < CHUNK_LEAST;
}

/*
 * Do the frames at the leaf end read alike again?  Their lines are in the cache now: it
 * takes some ns a frame, in which no function is called and left unless they have
 * changed. The current frame first: where it has been left and another one has been
 * made in its place, what is read after that is the other one's.
 */
static bool top_again(struct core *c, uint64_t ts, uint64_t current, uint32_t frames)
{
	uint64_t at;

	copy_forget(c);
	if (!py_frame_first(memory(c), &c->layout, ts, &at) || at != current)
		return false;
	for (uint32_t i = 0; i < frames; i++) {
		const struct raw_frame *before = &c->raw[i];
		struct py_frame f;

		if (!read_frame(c, before->at, &f) || f.code != before->code ||
			f.previous != before->previous ||
			(i != 0 && f.instr != before->instr))
			return false;
	}
	return true;
}

/*
 * First the chain alone, as fast as it can be loaded: a thread that runs calls and
 * returns every 100 ns or so, and each ns between two loads is one in which they may
 * come to belong to different moments.  Frames beyond what is stored are only counted
 * and made part of the path.  Returns false when the chain did not end.
 */
static bool read_chain(
	struct core *c, uint64_t ts, struct walk *w, struct own_stack *ret_own)
{
	const struct py_layout *l = &c->layout;
	uint32_t most = c->options.max_stack;
	uint32_t next = TOP_FRAMES; /* so many are looked at again */
	uint64_t at, current;

	*ret_own = (struct own_stack){ 0 };
	if (!py_frame_first(memory(c), l, ts, &current))
		return false;
	ask_for_frames(c);
	at = current;
	if ((l->flags & PY_HAS_DATASTACK) != 0 &&
		(!load64(c, ts + l->ts_datastack_chunk, &ret_own->chunk) ||
			!load64(c, ts + l->ts_datastack_chunk + DATASTACK_TOP,
				&ret_own->top)))
		return false;
	for (uint32_t steps = 0; at != 0; steps++) {
		struct py_frame f;

		if (steps == MAX_FRAMES || !read_frame(c, at, &f) || f.previous == at)
			return false;
		if (!py_frame_is_entry(l, &f)) {
			if (f.owner > PY_OWNER_GENERATOR)
				return false;
			if (w->frames == 0 && has_ended(l, ret_own, at, &f)) {
				at = f.previous;
				continue;
			}
			if (f.owner != PY_OWNER_GENERATOR) {
				if (ret_own->innermost == 0)
					ret_own->innermost = at;
				ret_own->outermost = at;
			}
			if (w->frames < most)
				c->raw[w->frames] = (struct raw_frame){ at, f.previous,
					f.code, f.instr,
					f.owner != PY_OWNER_GENERATOR };
			else
				w->path =
					mix(mix(w->path, at ^ (f.code << 20)), f.instr);
			w->frames++;
			if (w->frames == next && next <= most) {
				bool alike = top_again(c, ts, current, next);

				w->proven = alike ? next : w->proven;
				next = alike && next < PROVEN_MOST ? next * 2 : 0;
			}
		}
		at = f.previous;
	}
	uint32_t stored = w->frames < most ? w->frames : most;

	if (next != 0 && stored > w->proven && top_again(c, ts, current, stored))
		w->proven = stored;
	return true;
}

/* What is carried along when frames are resolved from the root on. */
struct resolving {
	uint32_t code; /* of the frame before, which has just been looked at */
	uint64_t path;
	/* Where the last frame of the thread's own stack ends; 0: not known. */
	uint64_t ends;
};

/*
 * On the thread's own stack a frame begins where its caller's ends, or at the start of
 * a chunk (which begins at a page).
 */
static bool adjoins(const struct raw_frame *f, uint64_t ends)
{
	enum { PAGE = 4096 };

	return ends == 0 || f->at == ends || (f->at - CHUNK_DATA) % PAGE == 0;
}

static uint64_t end_of(const struct core *c, uint64_t at, uint32_t code)
{
	return c->codes[code].frame_bytes != 0 ? at + c->codes[code].frame_bytes : 0;
}

/* In a recursion it has just been looked at. */
static bool find_code(struct core *c, uint64_t address, uint32_t *code)
{
	if (*code == 0 || address != c->codes[*code].address)
		*code = code_find(c, address);
	return *code != 0;
}

static bool is_same(
	const struct core *c, const struct raw_frame *raw, const struct frame *f)
{
	return raw->at == f->at && raw->instr == f->instr && raw->own == f->own &&
	       raw->code == c->codes[f->code].address;
}

static struct frame *root_of(const struct walk *w)
{
	return w->space + MAX_STORED_FRAMES - 1;
}

/*
 * How many of the frames, from the root on, are those that the last reading found,
 * running the same code at the same instruction?  What they show is there already: of a
 * deep stack that is nearly all.
 */
static uint32_t resolve_again(
	struct core *c, const struct walk *w, uint32_t raws, struct resolving *r)
{
	const struct frame *f = root_of(w), *own = NULL;
	uint32_t most = w->stored < raws ? w->stored : raws;
	uint32_t n = 0;

	if (!w->stands_at_root || w->beyond != w->path)
		return 0;
	for (; n < most && is_same(c, &c->raw[raws - 1 - n], f); n++, f--) {
		if (f->code != r->code && !code_holds(c, f->code))
			break;
		r->code = f->code;
		r->path = f->path + f->position * SPREAD;
		if (f->own)
			own = f;
	}
	if (own != NULL)
		r->ends = end_of(c, own->at, own->code);
	return n;
}

/*
 * When one of them is not plausible: those between it and the leaf, which may be true.
 * What lies on the root side of it need not have been this thread's.
 */
RARE static bool resolve_torn(struct core *c, struct walk *w, uint32_t raws)
{
	const struct raw_frame *above = NULL;
	uint32_t shown = 0, code = 0;

	w->frame = w->space;
	w->stands_at_root = false;
	w->followed = 0;
	for (uint32_t i = 0; i < raws; i++) {
		const struct raw_frame *f = &c->raw[i];
		uint32_t position;

		if (!find_code(c, f->code, &code))
			break;
		if (f->own) {
			if (above != NULL && !adjoins(above, end_of(c, f->at, code)))
				break;
			above = f;
		}
		if (c->codes[code].shim)
			continue;
		if (!py_frame_position(&c->layout, f->code, c->codes[code].bytes,
			    f->instr, &position))
			break;
		w->frame[shown++] = (struct frame){
			.at = f->at,
			.code = code,
			.position = position,
			.own = f->own,
		};
	}
	w->stored = shown;
	return false;
}

/* What the frames run.  False when one of them is not plausible. */
static bool resolve_frames(struct core *c, struct walk *w)
{
	uint32_t most = c->options.max_stack;
	uint32_t raws = w->frames < most ? w->frames : most;
	uint32_t proven = w->proven;
	struct resolving r = { .path = w->path };

	c->moment++;
	copy_forget(c);
	uint32_t shown = resolve_again(c, w, raws, &r);

	if (w->followed > shown)
		w->followed = shown;
	w->beyond = w->path;
	for (uint32_t i = raws - shown; i-- != 0;) {
		const struct raw_frame *f = &c->raw[i];
		uint32_t position;

		if (!find_code(c, f->code, &r.code))
			return resolve_torn(c, w, raws);
		if (f->own) {
			if (!adjoins(f, r.ends))
				return resolve_torn(c, w, raws);
			r.ends = end_of(c, f->at, r.code);
		}
		if (c->codes[r.code].shim) {
			w->proven -= i < proven;
			continue;
		}
		if (!py_frame_position(&c->layout, f->code, c->codes[r.code].bytes,
			    f->instr, &position))
			return resolve_torn(c, w, raws);
		r.path = mix(r.path, f->at ^ (uint64_t)r.code << 48);
		*(root_of(w) - shown++) = (struct frame){
			.at = f->at,
			.instr = f->instr,
			.path = r.path,
			.code = r.code,
			.position = position,
			.own = f->own,
		};
		r.path += position * SPREAD;
	}
	w->stands_at_root = true;
	w->frame = root_of(w) + 1 - shown;
	w->stored = shown;
	w->frames -= raws - shown;
	if (shown != 0)
		w->path = w->frame[0].path;
	return true;
}

void walk_put_on(
	struct walk *torn, uint32_t first, const struct frame *frames, uint32_t count)
{
	const struct frame *top = torn->frame;

	torn->frame = root_of(torn) + 1 - count - first;
	for (uint32_t i = 0; i < first; i++)
		torn->frame[i] = top[i];
	memcpy(torn->frame + first, frames, count * sizeof(*frames));
	torn->frames = torn->stored = first + count;
	torn->complete = true;
	torn->stands_at_root = false;
	torn->followed = 0;
}

void walk_forget(struct core *c)
{
	for (unsigned i = 0; i < sizeof(c->walks) / sizeof(c->walks[0]); i++) {
		c->walks[i].stands_at_root = false;
		c->walks[i].followed = 0;
	}
}

void walk_read(struct core *c, uint64_t ts, struct walk *w)
{
	struct own_stack own;

	w->frames = 0;
	w->path = ts;
	w->proven = 0;
	count(c, RING_WALKS, 1);
	copy_forget(c);
	bool ended = read_chain(c, ts, w, &own);

	w->complete = resolve_frames(c, w) && ended &&
		      (w->stored == 0 ||
			      ends_at_root(c, &own,
				      c->codes[w->frame[w->stored - 1].code].flags));
}

/*
 * After a sleep a first load from a page takes some 100 ns, and a function may be over
 * by then.  So one is made from each page that will be needed, from a line of which the
 * thread has no need.
 */
static bool touch_page(struct core *c, uint64_t address)
{
	enum { PAGE = 4096, LINE = 64 };
	uint64_t unused;

	return load64(c, (address ^ (PAGE / 2)) & ~(uint64_t)(LINE - 1), &unused);
}

void walk_warm(struct core *c, uint64_t ts)
{
	if (!copy_may_touch(c))
		return;
	(void)touch_page(c, ts + c->layout.ts_frame);
	/* Frames of another thread may be left there from a deeper chain, and their
	 * page may be gone: that is met once, not at each tick. */
	for (unsigned i = 0; i < TOP_FRAMES; i++)
		if (!touch_page(c, c->raw[i].at))
			c->raw[i].at = 0;
}

bool walk_moves(struct core *c, uint64_t ts)
{
	/* Longer than most instructions take, calls of C functions included. */
	enum { LOOK_NS = 6000, LOOKS_AT_ONCE = 16 };
	int64_t end = loop_now(c) + LOOK_NS;
	struct py_frame first, f;
	uint64_t leaf, at;

	copy_forget(c);
	if (!py_frame_first(memory(c), &c->layout, ts, &leaf) ||
		!read_frame(c, leaf, &first))
		return false;
	do {
		for (unsigned i = 0; i < LOOKS_AT_ONCE; i++) {
			copy_forget(c);
			if (!py_frame_first(memory(c), &c->layout, ts, &at) ||
				at != leaf || !read_frame(c, at, &f) ||
				f.instr != first.instr)
				return true;
		}
	} while (loop_now(c) < end);
	return false;
}

bool walk_has_frame(struct core *c, uint64_t ts)
{
	uint64_t at;
	struct py_frame f;

	if (!py_frame_first(memory(c), &c->layout, ts, &at))
		return false;
	/* 3.15 has a mark at the bottom before anything runs. */
	for (unsigned i = 0; at != 0 && i < MAX_ENTRIES; i++, at = f.previous) {
		if (!read_frame(c, at, &f))
			return false;
		if (!py_frame_is_entry(&c->layout, &f))
			return true;
	}
	return false;
}

uint64_t walk_stack_root(struct core *c, uint64_t ts)
{
	uint64_t chunk;

	if ((c->layout.flags & PY_HAS_DATASTACK) == 0 ||
		!load64(c, ts + c->layout.ts_datastack_chunk, &chunk) || chunk == 0)
		return 0;
	return root_of_stack(c, chunk);
}

bool walk_root(struct core *c, uint64_t ts, uint64_t *ret_at, uint64_t *ret_code)
{
	const struct py_layout *l = &c->layout;
	struct py_frame f;
	uint64_t at;

	if ((l->flags & PY_HAS_DATASTACK) != 0) {
		if (!load64(c, ts + l->ts_datastack_chunk, &at) || at == 0)
			return false;
		at = root_of_stack(c, at);
		if (at == 0 || !read_frame(c, at, &f))
			return false;
	} else {
		if (!py_frame_first(memory(c), l, ts, &at) || at == 0)
			return false;
		for (unsigned i = 0;; i++) {
			if (i == MAX_ROOT_STEPS || !read_frame(c, at, &f))
				return false;
			if (f.previous == 0)
				break;
			at = f.previous;
		}
	}
	*ret_at = at;
	*ret_code = f.code;
	return true;
}
