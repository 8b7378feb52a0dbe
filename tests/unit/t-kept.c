/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains that are kept: any word of one that changes is seen, and the blocks that hold
 * them are neither lost nor given out twice.
 */
#include <stdlib.h>

#include "core/core-internal.h"
#include "tap.h"

enum { DEEPEST = 80, THREADS = 1000, CODES = 8 };

/* Frames and thread states as in no Python, but by the layout below. */
struct fake_frame {
	uint64_t previous, code, instr;
	uint8_t owner;
	uint8_t pad[7];
};

struct fake_thread {
	uint64_t cframe; /* or the frame */
	uint64_t chunk, top;
	uint64_t frame; /* what stands in the cframe */
	struct fake_frame frames[DEEPEST];
};

static struct core core;
static struct code codes[CODES + 1];
static struct thread threads[THREADS];
static struct kept_block blocks[MAX_KEPT_BLOCKS + 1];
static struct fake_thread fakes[THREADS];
static uint32_t changed_code; /* its words differ from those it had */
static bool other_thread;     /* the thread state is another's now */
static bool unlinked;         /* and this one is in no list any more */
static struct node nodes[3000];

/* --- what the rest of the core would say --- */

uint32_t code_find(struct core *c, uint64_t address)
{
	for (uint32_t i = 1; i <= CODES; i++)
		if (c->codes[i].address == address)
			return i;
	return 0;
}

bool code_holds(struct core *c, uint32_t code)
{
	(void)c;
	return code != changed_code;
}

bool copy_load(struct core *c, void *to, uint64_t address, unsigned size)
{
	(void)c;
	memcpy(to, (const void *)(uintptr_t)address, size);
	return true;
}

bool thread_same(struct core *c, const struct thread *t)
{
	(void)c;
	(void)t;
	return !other_thread;
}

bool thread_linked(struct core *c, const struct thread *t)
{
	(void)c;
	(void)t;
	return !unlinked;
}

/* --- */

static uint64_t at(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void set_up(bool cframes, bool datastack)
{
	memset(&core, 0, sizeof(core));
	core.threads = threads;
	core.codes = codes;
	core.kept = blocks;
	core.nodes = nodes;
	memset(blocks, 0, sizeof(blocks));
	core.layout = (struct py_layout){
		.flags = PY_HAS_NATIVE_ID | (datastack ? PY_HAS_DATASTACK : 0),
		.instr_kind = PY_INSTR_POINTER,
		.ts_frame = offsetof(struct fake_thread, cframe),
		.cframe_frame = cframes ? 0 : PY_NONE,
		.ts_datastack_chunk = offsetof(struct fake_thread, chunk),
		.fr_previous = offsetof(struct fake_frame, previous),
		.fr_code = offsetof(struct fake_frame, code),
		.fr_instr = offsetof(struct fake_frame, instr),
		.fr_owner = offsetof(struct fake_frame, owner),
		.owner_skip = 3,
	};
	for (uint32_t i = 1; i <= CODES; i++)
		codes[i] = (struct code){ .address = 0x100000 * i };
	changed_code = 0;
	other_thread = unlinked = false;
}

/* A thread with so many frames, the leaf first; every fifth is the C stack's. */
static struct thread *make(unsigned i, unsigned depth)
{
	struct fake_thread *f = &fakes[i];
	struct thread *t = &threads[i];

	*t = (struct thread){ .ts = at(f), .id = i + 1 };
	*f = (struct fake_thread){ .chunk = 0x7000, .top = 0x7100 };
	f->frame = depth != 0 ? at(&f->frames[0]) : 0;
	f->cframe = core.layout.cframe_frame != PY_NONE ? at(&f->frame) : f->frame;
	for (unsigned n = 0; n < depth; n++)
		f->frames[n] = (struct fake_frame){
			.previous = n + 1 < depth ? at(&f->frames[n + 1]) : 0,
			.code = 0x100000 * (n % CODES + 1),
			.instr = 100 + n,
			.owner = n % 5 == 4 ? 3 : 0,
		};
	return t;
}

/* Change a word, look, and put it back. */
static bool seen(struct thread *t, uint64_t *word, uint64_t value)
{
	uint64_t before = *word;

	*word = value;
	bool holds = kept_holds(&core, t);
	*word = before;
	return !holds && kept_holds(&core, t);
}

static void test_words(unsigned depth)
{
	struct thread *t = make(0, depth);
	struct fake_thread *f = &fakes[0];
	bool all = true;

	tap_ok(!kept_holds(&core, t), "%u frames: nothing is kept at first", depth);
	t->node = 1000 + depth;
	t->position = 2 * depth;
	tap_ok(kept_store(&core, t) && kept_holds(&core, t), "%u frames: kept", depth);
	t->node = t->position = 0;
	tap_ok(kept_holds(&core, t) && t->kept_node == 1000 + depth &&
			t->kept_position == 2 * depth,
		"%u frames: with what is shown, wherever the thread was since", depth);
	tap_ok(kept_holds(&core, t), "%u frames: it holds again and again", depth);
	for (unsigned n = 0; n < depth; n++) {
		struct fake_frame *frame = &f->frames[n];
		bool shown = frame->owner == 0;

		all &= seen(t, &frame->previous, at(&fakes[1].frames[0]));
		all &= seen(t, &frame->previous, frame->previous == 0 ? 8 : 0);
		all &= !shown ||
		       seen(t, &frame->code, 0x100000 * ((n + 1) % CODES + 1));
		all &= seen(t, &frame->instr, frame->instr + 2);
		frame->owner ^= 1;
		all &= !kept_holds(&core, t);
		frame->owner ^= 1;
		changed_code = n % CODES + 1;
		all &= !shown || !kept_holds(&core, t);
		changed_code = 0;
	}
	tap_ok(all, "%u frames: each word of each is looked at", depth);
	all = seen(t, &f->frame, at(&f->frames[1]));
	if (core.layout.cframe_frame == PY_NONE)
		all = seen(t, &f->cframe, at(&f->frames[1]));
	tap_ok(all, "%u frames: the current one", depth);
	if ((core.layout.flags & PY_HAS_DATASTACK) != 0)
		tap_ok(seen(t, &f->chunk, 0x8000) && seen(t, &f->top, 0x7180),
			"%u frames: the stack's chunk and top", depth);
	other_thread = true;
	tap_ok(!kept_holds(&core, t), "%u frames: another thread's state", depth);
	other_thread = false;
	kept_drop(&core, t);
	tap_ok(!kept_holds(&core, t), "%u frames: dropped", depth);
}

/* Of a thread that has ended nothing need have changed but for the list. */
static void test_bare(void)
{
	enum { BARE = 2000 };
	struct thread *t = make(0, 0);

	nodes[BARE] = (struct node){ .kind = REC_NODE_NO_FRAME };
	t->node = BARE;
	tap_ok(kept_store(&core, t) && t->kept != 0 && kept_holds(&core, t),
		"a thread without frames is kept");
	unlinked = true;
	tap_ok(!kept_holds(&core, t), "until it is in no list any more");
	unlinked = false;
	fakes[0].frame = at(&fakes[0].frames[0]);
	fakes[0].cframe = core.layout.cframe_frame != PY_NONE ? at(&fakes[0].frame)
							      : fakes[0].frame;
	tap_ok(!kept_holds(&core, t), "or has a frame");
	t = make(0, 1);
	unlinked = true;
	tap_ok(kept_store(&core, t) && kept_holds(&core, t),
		"of one with a frame its chain says enough");
	unlinked = false;
	kept_drop(&core, t);
}

static void test_refused(void)
{
	struct thread *t;

	t = make(0, 61);
	tap_ok(!kept_store(&core, t) && t->kept == 0, "a chain that is too long");
	t = make(0, 20);
	fakes[0].frames[19].previous = at(&fakes[0].frames[0]);
	tap_ok(!kept_store(&core, t) && t->kept == 0, "a chain without an end");
	t = make(0, 20);
	fakes[0].frames[7].code = 0x123450;
	tap_ok(!kept_store(&core, t) && t->kept == 0, "a frame of no known code");
	t = make(0, 20);
	fakes[0].frames[7].previous = 0x10;
	tap_ok(!kept_store(&core, t) && t->kept == 0, "a frame that cannot be");
}

/* Every block is either free or part of one chain. */
static bool sound(void)
{
	static uint8_t used[MAX_KEPT_BLOCKS + 1];
	bool good = true;
	uint32_t count = 0;

	memset(used, 0, sizeof(used));
	for (uint16_t b = core.kept_free; b != 0 && good; b = blocks[b].next, count++)
		good = used[b]++ == 0;
	for (unsigned i = 0; i < THREADS && good; i++)
		for (uint16_t b = threads[i].kept; b != 0 && good;
			b = blocks[b].next, count++)
			good = used[b]++ == 0;
	return good && count == core.kept_count;
}

static void test_room(void)
{
	unsigned stored = 0, refused = 0;
	bool all = true;

	for (unsigned i = 0; i < THREADS; i++)
		if (kept_store(&core, make(i, 55)))
			stored++;
	tap_is(stored, MAX_KEPT_BLOCKS / 6, "so many chains find room");
	tap_ok(sound(), "what found none has left nothing");
	for (unsigned i = 0; i < stored; i++)
		all &= kept_holds(&core, &threads[i]);
	tap_ok(all, "those that found it hold");
	srand(1);
	for (unsigned i = 0; i < 20000; i++) {
		struct thread *t = &threads[rand() % THREADS];

		kept_drop(&core, t);
		if (rand() % 3 == 0)
			continue;
		/* The entry is another thread's from here on. */
		t = make((unsigned)(t - threads), 1 + (unsigned)rand() % 60);
		refused += !kept_store(&core, t);
	}
	tap_ok(sound(), "20,000 threads later every block is in one place");
	all = true;
	for (unsigned i = 0; i < THREADS; i++)
		all &= threads[i].kept == 0 || kept_holds(&core, &threads[i]);
	tap_ok(all && refused != 0, "all that are kept hold, and some were not");
	for (unsigned i = 0; i < THREADS; i++)
		kept_drop(&core, &threads[i]);
	tap_ok(sound(), "all are free again");
}

int main(void)
{
	static const unsigned depths[] = { 1, 3, 10, 11, 20, 60 };

	for (unsigned kind = 0; kind < 3; kind++) {
		set_up(kind == 1, kind != 0);
		for (unsigned i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
			test_words(depths[i]);
		test_bare();
	}
	test_refused();
	set_up(true, true);
	test_room();
	return tap_done();
}
