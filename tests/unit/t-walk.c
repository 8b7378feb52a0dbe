/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading of a chain says the same whether or not the one before it is of help: a
 * stack is changed at random, and read into a walk that knows the last reading and into
 * one that knows nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "core/core-internal.h"
#include "tap.h"

enum {
	DEEPEST = 200,
	SLOTS = 8,   /* code objects; the last one is a shim */
	UNSIZED = 5, /* this one and the next do not tell how large a frame is */
	LIVES = 64,  /* of each, one after the other at one address */
	CODE_BYTES = 1000,
	ROUNDS = 20000,
};

struct fake_frame {
	uint64_t previous, code, instr;
	uint8_t owner;
	uint8_t pad[7];
};

static struct {
	uint64_t frame;
	struct fake_frame frames[DEEPEST]; /* the root first, each behind its caller */
	unsigned depth;
} fake;

static struct core core;
static struct code codes[SLOTS * LIVES + 1];
static unsigned life[SLOTS];
static struct raw_frame raw[MAX_STORED_FRAMES];
static struct frame space[2][MAX_STORED_FRAMES + 1];

/* --- what the rest of the core would say --- */

static uint32_t index_of(unsigned slot)
{
	return 1 + slot * LIVES + life[slot];
}

uint32_t code_find(struct core *c, uint64_t address)
{
	unsigned slot = (unsigned)(address / 0x100000) - 1;

	(void)c;
	return address % 0x100000 == 0 && slot < SLOTS ? index_of(slot) : 0;
}

/* Nothing is copied: it is a task. */
bool copy_load(struct core *c, void *to, uint64_t address, unsigned size)
{
	(void)c;
	(void)to;
	return address == 0 && size == 0;
}

bool copy_bytes(struct core *c, void *to, uint64_t address, size_t size)
{
	(void)c;
	(void)to;
	return address == 0 && size == 0;
}

bool code_holds(struct core *c, uint32_t code)
{
	(void)c;
	return index_of((code - 1) / LIVES) == code;
}

int64_t loop_now(struct core *c)
{
	(void)c;
	return 0;
}

/* --- */

static uint64_t at(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static bool is_sized(unsigned slot)
{
	return slot < UNSIZED || slot == SLOTS - 1;
}

static uint64_t code_at(unsigned slot)
{
	return 0x100000 * (slot + 1);
}

static void set_up(void)
{
	memset(&core, 0, sizeof(core));
	core.codes = codes;
	core.raw = raw;
	core.options.max_stack = MAX_STORED_FRAMES;
	core.layout = (struct py_layout){
		.instr_kind = PY_INSTR_POINTER,
		.cframe_frame = PY_NONE,
		.fr_previous = offsetof(struct fake_frame, previous),
		.fr_code = offsetof(struct fake_frame, code),
		.fr_instr = offsetof(struct fake_frame, instr),
		.fr_owner = offsetof(struct fake_frame, owner),
		.owner_skip = 3,
	};
	for (unsigned slot = 0; slot < SLOTS; slot++)
		for (unsigned i = 0; i < LIVES; i++)
			codes[1 + slot * LIVES + i] = (struct code){
				.address = code_at(slot),
				.bytes = CODE_BYTES,
				.frame_bytes =
					is_sized(slot) ? sizeof(struct fake_frame) : 0,
				.shim = slot == SLOTS - 1,
			};
	for (unsigned i = 0; i < 2; i++)
		core.walks[i].space = space[i];
}

static void link_frames(void)
{
	for (unsigned i = 0; i < fake.depth; i++)
		fake.frames[i].previous = i != 0 ? at(&fake.frames[i - 1]) : 0;
	fake.frame = fake.depth != 0 ? at(&fake.frames[fake.depth - 1]) : 0;
}

static void fill(struct fake_frame *f)
{
	/* Shims are rare, generators too. */
	unsigned slot = (unsigned)rand() % (SLOTS - (rand() % 16 != 0));

	f->code = code_at(slot);
	f->instr = f->code + 2 * ((unsigned)rand() % (CODE_BYTES / 2));
	/* A generator's lies elsewhere: here it stands in the way of what adjoins. */
	f->owner = f != fake.frames && rand() % 2 == 0 &&
		   !is_sized((unsigned)(f[-1].code / 0x100000) - 1);
}

/* As a program would: calls, returns, goes on; and what must not pass. */
static void change(void)
{
	unsigned i = fake.depth != 0 ? (unsigned)rand() % fake.depth : 0;
	struct fake_frame *f = &fake.frames[i];

	switch (rand() % 9) {
	case 0: /* calls */
	case 1:
		for (unsigned n = 1 + (unsigned)rand() % 20;
			n != 0 && fake.depth < DEEPEST; n--)
			fill(&fake.frames[fake.depth++]);
		break;
	case 2: /* returns */
		fake.depth -= fake.depth != 0 ? (unsigned)rand() % fake.depth : 0;
		break;
	case 3: /* another one from some depth on */
		for (; i < fake.depth; i++)
			fill(&fake.frames[i]);
		break;
	case 4: /* the leaf goes on */
		if (fake.depth != 0)
			fill(&fake.frames[fake.depth - 1]);
		break;
	case 5: /* a code object dies, another is made in its place */
		i = (unsigned)rand() % SLOTS;
		life[i] = (life[i] + 1) % LIVES;
		break;
	case 6: /* only where a caller is */
		f->instr = f->code + 2 * ((unsigned)rand() % (CODE_BYTES / 2));
		break;
	case 7: /* outside of its code, or no code at all */
		if (rand() % 4 == 0)
			f->instr = f->code + CODE_BYTES + 2;
		else if (rand() % 4 == 0)
			f->code = 12345;
		break;
	default: /* nothing */
		break;
	}
	link_frames();
}

/* A node for what lies between the root and a frame, made of all that it depends on. */
static uint32_t node_of(const struct walk *w, uint32_t frame)
{
	uint64_t h = w->beyond;

	for (uint32_t i = w->stored; i-- != frame;) {
		h = mix(h, w->frame[i].code);
		if (i != frame)
			h = mix(h, w->frame[i].position);
	}
	return (uint32_t)(h >> 32);
}

/* Enter nodes as the caller of the readings does. */
static void follow_some(struct walk *w)
{
	if (!w->complete || w->stored == 0)
		return;
	uint32_t upto = (uint32_t)rand() % (w->stored + 1);

	while (w->followed < upto) {
		uint32_t i = w->stored - 1 - w->followed;

		w->frame[i].node = node_of(w, i);
		w->followed++;
	}
}

static bool nodes_hold(const struct walk *w)
{
	for (uint32_t n = 0; n < w->followed; n++) {
		uint32_t i = w->stored - 1 - n;

		if (w->frame[i].node != node_of(w, i))
			return false;
	}
	return w->followed <= w->stored;
}

static bool alike(const struct walk *a, const struct walk *b)
{
	if (a->frames != b->frames || a->stored != b->stored ||
		a->complete != b->complete || a->proven != b->proven ||
		(a->complete && a->path != b->path))
		return false;
	for (uint32_t i = 0; i < a->stored; i++) {
		const struct frame *x = &a->frame[i], *y = &b->frame[i];

		if (x->at != y->at || x->code != y->code ||
			x->position != y->position || x->own != y->own)
			return false;
	}
	return true;
}

/* What a reading is to show, worked out the long way: frames from the leaf on, up to
 * the first that cannot be. */
static bool is_right(const struct walk *w)
{
	uint32_t n = 0;
	unsigned i = fake.depth;

	for (; i-- != 0;) {
		const struct fake_frame *f = &fake.frames[i];
		unsigned slot = (unsigned)(f->code / 0x100000) - 1;

		if (f->code % 0x100000 != 0 || slot >= SLOTS ||
			(slot != SLOTS - 1 && f->instr - f->code >= CODE_BYTES))
			break;
		if (slot == SLOTS - 1)
			continue;
		if (n >= w->stored || w->frame[n].at != at(f) ||
			w->frame[n].code != index_of(slot) ||
			w->frame[n].position != f->instr - f->code)
			return false;
		n++;
	}
	return n == w->stored && w->complete == (i == UINT32_MAX);
}

static void test_changes(uint32_t max_stack)
{
	struct walk *knows = &core.walks[0], *fresh = &core.walks[1];
	bool same = true, right = true, nodes = true;
	unsigned complete = 0, helped = 0;

	set_up();
	core.options.max_stack = max_stack;
	fake.depth = 0;
	for (unsigned i = 0; i < ROUNDS && same && right && nodes; i++) {
		change();
		walk_read(&core, at(&fake), knows);
		helped += knows->followed != 0;
		nodes = nodes_hold(knows);
		fresh->stands_at_root = false;
		fresh->followed = 0;
		walk_read(&core, at(&fake), fresh);
		same = alike(knows, fresh);
		right = fake.depth > max_stack || is_right(knows);
		complete += knows->complete;
		follow_some(knows);
	}
	tap_ok(same, "max_stack %u: both readings are alike", max_stack);
	tap_ok(right, "max_stack %u: and as the stack is", max_stack);
	tap_ok(nodes, "max_stack %u: no node is kept of what has changed", max_stack);
	tap_ok(complete > ROUNDS / 4 && complete < ROUNDS && helped > ROUNDS / 4,
		"max_stack %u: %u of %u were whole, %u of use for the next", max_stack,
		complete, ROUNDS, helped);
}

static void test_forget(void)
{
	struct walk *w = &core.walks[0];

	set_up();
	for (fake.depth = 0; fake.depth < 50; fake.depth++)
		fake.frames[fake.depth] =
			(struct fake_frame){ .code = code_at(1), .instr = code_at(1) };
	link_frames();
	walk_read(&core, at(&fake), w);
	w->followed = 50;
	walk_read(&core, at(&fake), w);
	tap_is(w->followed, 50u, "nodes of a stack that stays are kept");
	walk_forget(&core);
	walk_read(&core, at(&fake), w);
	tap_ok(w->followed == 0 && w->stored == 50,
		"but not when the tables start over");
}

/* The first frames of a torn reading on top of a whole one. */
static void test_put_on(void)
{
	struct walk *torn = &core.walks[0], *whole = &core.walks[1];
	bool good = true;

	set_up();
	for (fake.depth = 0; fake.depth < 30; fake.depth++)
		fake.frames[fake.depth] =
			(struct fake_frame){ .code = code_at(1), .instr = code_at(1) };
	link_frames();
	walk_read(&core, at(&fake), whole);
	fake.frames[20].code = 12345;
	fake.frames[29].code = fake.frames[29].instr = code_at(2);
	walk_read(&core, at(&fake), torn);
	tap_ok(!torn->complete && torn->stored == 9, "a torn reading has its leaf");
	uint64_t leaf = torn->frame[0].at, second = torn->frame[1].at;

	walk_put_on(torn, 2, &whole->frame[5], whole->stored - 5);
	good = torn->complete && torn->stored == 27 && torn->frame[0].at == leaf &&
	       torn->frame[1].at == second && torn->frame[2].at == whole->frame[5].at &&
	       torn->frame[26].at == whole->frame[29].at;
	tap_ok(good, "it is put on a whole one");
	fake.frames[20].code = code_at(1);
	walk_read(&core, at(&fake), torn);
	tap_ok(torn->complete && torn->stored == 30 && is_right(torn),
		"and is of no use for the next");
}

int main(void)
{
	srand(1);
	test_changes(MAX_STORED_FRAMES);
	test_changes(40);
	test_forget();
	test_put_on();
	return tap_done();
}
