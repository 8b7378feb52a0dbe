/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second look sees what is there now.  Each function that asks whether something has
 * changed is called when what it reads lies in chunks that were copied before the
 * change: if one of them took those for the present, two readings that are one would be
 * taken for proof.  And a reading whose words change with every copy proves nothing.
 *
 * A thread without a Python frame is a thread all the same, unless its thread state is
 * only what is left of one, or is not its own yet.
 */
#include <stdlib.h>
#include <sys/syscall.h>

#include "core/core-internal.h"
#include "tap.h"

static long watched_call(long n, long a, long b, long c, long d, long e, long f);

#undef SYS6
#define SYS6(n, a, b, c, d, e, f)                                                      \
	watched_call(                                                                  \
		n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#include "core/copy.c"
#undef PAGE
#include "core/sample.c"

/* What a program does behind each copy of its memory. */
static void (*behind)(void);

static long watched_call(long n, long a, long b, long c, long d, long e, long f)
{
	long r = arch_syscall(n, a, b, c, d, e, f);

	if (n == __NR_pwritev && behind != NULL)
		behind();
	return r;
}

/* --- the rest of the core --- */

static int64_t now;

int64_t loop_now(struct core *c)
{
	(void)c;
	return now += 500;
}

int64_t loop_clock(int clock)
{
	(void)clock;
	return now;
}

int64_t loop_untold_since(const struct core *c)
{
	return c->strata.start;
}

void timers_begin(struct core *c, struct thread *t)
{
	(void)c;
	(void)t;
}

void timers_end(struct core *c, struct thread *t)
{
	(void)c;
	(void)t;
}

void loop_count_cpu(struct core *c)
{
	(void)c;
}

void task_leave(struct core *c, enum ring_leave why, int detail)
{
	(void)c;
	printf("Bail out! it leaves: %d %d\n", (int)why, detail);
	exit(1);
}

/* --- a program --- */

struct fake_frame {
	uint64_t previous, code, instr;
	uint8_t owner, pad[7];
};

enum { FRAMES = 6, MS = 1000000 };

static struct {
	uint64_t interpreters_head, finalizing;
	uint64_t gil_last_holder, gil_switches;
	uint32_t gil_locked, pad;
	struct {
		uint64_t next, id, threads_head;
		uint32_t collecting, pad;
	} interpreter;
	struct fake_thread {
		uint64_t prev, next, interp, frame, pthread, native;
	} thread, second;
	/* What stands behind a pthread_t. */
	struct {
		uint32_t tid[4];
	} library, second_library;
	struct fake_frame frames[FRAMES];
	struct {
		uint64_t type, filename, name, linetable;
		uint32_t first_line, flags;
		uint64_t size;
	} code;
} fake __attribute__((aligned(64)));

static struct core core;
static struct thread threads[4];
static struct code codes[MAX_CODES + 1];
static uint16_t code_index[CODE_INDEX], thread_index[THREAD_INDEX];
static struct raw_frame raw[MAX_STORED_FRAMES];
static struct frame space[3][MAX_STORED_FRAMES + 1];
static struct kept_block blocks[MAX_KEPT_BLOCKS + 1];
static struct node nodes[MAX_NODES + 1];
static uint16_t node_index[NODE_INDEX];
static uint8_t ring[RING_HEADER_BYTES + RING_DATA_BYTES] __attribute__((aligned(64)));

#define AT(x) ((uint64_t)(uintptr_t) & (x))

static void lay_out(void)
{
	struct py_layout *l = &core.layout;
	uint64_t runtime = AT(fake);

	memset(l, 0xff, sizeof(*l));
	l->flags = PY_GIL_IN_RUNTIME | PY_HAS_NATIVE_ID;
	l->instr_kind = PY_INSTR_POINTER;
	l->rt_interpreters_head = (uint32_t)(AT(fake.interpreters_head) - runtime);
	l->rt_finalizing = (uint32_t)(AT(fake.finalizing) - runtime);
	l->gil = 0;
	l->gil_last_holder = (uint32_t)(AT(fake.gil_last_holder) - runtime);
	l->gil_switch_number = (uint32_t)(AT(fake.gil_switches) - runtime);
	l->gil_locked = (uint32_t)(AT(fake.gil_locked) - runtime);
	l->is_next = 0;
	l->is_id = 8;
	l->is_threads_head = 16;
	l->gc_collecting = 24;
	l->ts_prev = 0;
	l->ts_next = 8;
	l->ts_interp = 16;
	l->ts_frame = 24;
	l->ts_thread_id = 32;
	l->ts_native_id = 40;
	l->fr_previous = 0;
	l->fr_code = 8;
	l->fr_instr = 16;
	l->fr_owner = 24;
	l->code_tag_mask = 0;
	l->ob_type = 0;
	l->co_filename = 8;
	l->co_name = 16;
	l->co_linetable = 24;
	l->co_firstlineno = 32;
	l->co_flags = 36;
	l->var_size = 40;
	l->co_bytecode = 0;
}

static void begin(void)
{
	uint64_t in = AT(fake.interpreter);

	behind = NULL;
	memset(&core, 0, sizeof(core));
	memset(&fake, 0, sizeof(fake));
	memset(code_index, 0, sizeof(code_index));
	memset(thread_index, 0, sizeof(thread_index));
	memset(node_index, 0, sizeof(node_index));
	memset(threads, 0, sizeof(threads));
	lay_out();
	fake.interpreters_head = in;
	fake.gil_last_holder = AT(fake); /* somebody else */
	fake.gil_switches = 5;
	fake.interpreter.threads_head = AT(fake.thread);
	fake.thread = (struct fake_thread){
		.interp = in, .frame = AT(fake.frames[0]), .pthread = 11, .native = 12
	};
	fake.code.type = 99;
	fake.code.filename = 1;
	fake.code.name = 2;
	fake.code.size = 1000;
	for (int i = 0; i < FRAMES; i++)
		fake.frames[i] = (struct fake_frame){
			.previous = i + 1 < FRAMES ? AT(fake.frames[i + 1]) : 0,
			.code = AT(fake.code),
			.instr = AT(fake.code) + 100 + 2 * (unsigned)i,
		};
	core.thread = true;
	core.options.runtime = AT(fake);
	core.options.code_type = 99;
	core.options.max_stack = 100;
	core.threads = threads;
	core.thread_index = thread_index;
	core.codes = codes;
	core.code_index = code_index;
	core.kept = blocks;
	core.nodes = nodes;
	core.node_index = node_index;
	core.raw = raw;
	for (int i = 0; i < 3; i++)
		core.walks[i].space = space[i];
	memset(ring, 0, RING_HEADER_BYTES);
	ring_writer_init(&core.ring, (struct ring_header *)ring, RING_DATA_BYTES);
	copy_begin(&core);
	copy_orders(&core);
	core.interpreter_count = 1;
	core.interpreters[0] =
		(struct interpreter){ .address = in, .threads_head = AT(fake.thread) };
	core.gil_count = 1;
	core.gils[0] = (struct gil){ .address = AT(fake),
		.holder = fake.gil_last_holder,
		.switches = 5,
		.interpreters = 1 };
	threads[0] = (struct thread){ .ts = AT(fake.thread),
		.id = 1,
		.pthread = 11,
		.native = 12,
		.tid = 12,
		.interpreter = in };
}

/* All of it is in chunks, as it is now. */
static void copy_all(void)
{
	uint64_t v;

	copy_forget(&core);
	for (uint64_t at = AT(fake); at < AT(fake) + sizeof(fake); at += 8)
		(void)load64(&core, at, &v);
	/* So it is: a change alone is not seen. */
	uint64_t before = fake.finalizing;

	fake.finalizing++;
	if (!load64(&core, AT(fake.finalizing), &v) || v != before)
		tap_ok(false, "the chunks hold");
	fake.finalizing--;
}

static void test_questions(void)
{
	struct thread *t = &threads[0];
	struct gil now_says;

	begin();
	tap_ok(still(&core, t) && !switched(&core, t) && thread_same(&core, t) &&
			thread_linked(&core, t) && !heads_moved(&core),
		"nothing has changed");
	copy_all();
	fake.gil_switches = 6;
	tap_ok(!still(&core, t), "still: the GIL was taken");
	copy_all();
	fake.gil_switches = 7;
	tap_ok(switched(&core, t), "switched: likewise");
	copy_all();
	fake.gil_last_holder = 4096;
	tap_ok(ledger_now(&core, &core.gils[0], &now_says) && now_says.holder == 4096,
		"the ledger, not of a tick");
	copy_all();
	fake.gil_locked = 1;
	fake.gil_switches = 8;
	read_ledger(&core, &core.gils[0]);
	tap_ok(core.gils[0].locked && core.gils[0].switches == 8, "that of a tick");
	copy_all();
	fake.thread.native = 13;
	tap_ok(!thread_same(&core, t), "a thread state is another thread's");
	copy_all();
	fake.interpreter.threads_head = AT(fake.frames);
	tap_ok(!thread_linked(&core, t), "it is in the list no more");
	copy_all();
	fake.interpreters_head = 0;
	tap_ok(!threads_interpreters(&core), "the interpreter is gone");
	copy_end(&core);

	begin();
	core.layout.gc_frame = PY_NONE;
	copy_all();
	fake.interpreter.collecting = 1;
	tap_ok(collects(&core, t), "the collector is at work");
	copy_all();
	fake.interpreter.collecting = 0;
	tap_ok(!collects(&core, t), "and no more");
	copy_end(&core);
}

static unsigned changes;

/* The caller of the leaf goes on. */
static void run_on(void)
{
	changes++;
	fake.frames[1].instr = AT(fake.code) + 200 + 2 * (changes & 63);
}

static void leaf_runs_on(void)
{
	fake.frames[0].instr += 2;
}

static void test_walks(void)
{
	struct walk *w = &core.walks[0];

	begin();
	walk_read(&core, AT(fake.thread), w);
	tap_ok(w->complete && w->frames == FRAMES && w->proven == FRAMES,
		"a chain that stands still reads alike twice");
	tap_ok(!walk_moves(&core, AT(fake.thread)), "it does not move");
	copy_all();
	fake.frames[0].instr += 2;
	walk_read(&core, AT(fake.thread), w);
	tap_is((int64_t)w->frame[0].position, 102, "a walk is of now");
	behind = run_on;
	walk_read(&core, AT(fake.thread), w);
	tap_ok(w->complete && w->frames == FRAMES && w->proven == 0,
		"one that changes behind each copy does not");
	tap_ok(changes > 2, "as it was copied more than once");
	behind = leaf_runs_on;
	tap_ok(walk_moves(&core, AT(fake.thread)), "it moves");
	copy_end(&core);
}

static void test_kept(void)
{
	struct thread *t = &threads[0];

	begin();
	copy_all();
	fake.frames[2].instr += 2;
	tap_ok(kept_store(&core, t) && kept_holds(&core, t),
		"a chain is kept as it is now");
	copy_all();
	fake.frames[3].instr += 2;
	tap_ok(!kept_holds(&core, t), "a change of it is seen");
	fake.frames[3].instr -= 2;
	core.moment++;
	tap_ok(kept_holds(&core, t), "as that it is back");
	copy_all();
	fake.code.name = 3;
	core.moment++;
	tap_ok(!kept_holds(&core, t), "and another code object at its address");
	copy_end(&core);
}

static void enter_as_read(struct thread *t)
{
	walk_thread(&core, t);
	enter(&core, t, false);
}

static void test_bare(void)
{
	struct thread *t = &threads[0];

	begin();
	fake.thread.frame = 0;
	enter_as_read(t);
	tap_ok(t->in_run && is_bare(&core, t->node) && t->position == PY_NO_POSITION &&
			t->state == 0,
		"a thread without a frame is seen as that");
	core.tick = 3;
	run_close(&core, t);
	tap_is((int64_t)core.counters[RING_NO_FRAMES], 3, "and counted");
	tap_is((int64_t)core.counters[RING_SAMPLES], 3, "among the samples");
	look(&core, t);
	tap_ok(kept_holds(&core, t), "it is kept as a chain is");
	core.gils[0].holder = t->ts;
	walk_thread(&core, t);
	enter(&core, t, true);
	tap_ok(t->state == (REC_RUNNING | REC_GIL), "with the GIL it runs");
	core.gils[0].holder = fake.gil_last_holder;
	t->state = 0;
	fake.interpreter.threads_head = AT(fake.frames);
	core.tick = 5;
	enter_as_read(t);
	tap_ok(core.relist && t->run_first == 3,
		"in no list any more it is what is left of one");
}

/* A second thread state, the head of the list, and nothing in the table. */
static void begin_list(uint64_t native)
{
	copy_end(&core);
	begin();
	core.task_directory = core.self_stat_fd = -1;
	core.args.program_pid = 12;
	fake.thread.pthread = AT(fake.library);
	fake.second = (struct fake_thread){ .next = AT(fake.thread),
		.interp = AT(fake.interpreter),
		.pthread = native != 12 ? AT(fake.second_library) : AT(fake.library),
		.native = native };
	fake.thread.prev = AT(fake.second);
	fake.interpreter.threads_head = AT(fake.second);
	fake.library.tid[0] = 12;
	fake.second_library.tid[0] = 13;
	core.pthread_tid_offset = 0;
	threads[0].id = 0;
	core.thread_count = 0;
}

static void list_again(void)
{
	core.now_ns += 1000000000;
	threads_list(&core);
}

/* How many entries there are of a kernel thread. */
static int entries(uint32_t tid)
{
	int n = 0;

	for (uint32_t i = 0; i < core.thread_count; i++)
		n += threads[i].id != 0 && threads[i].tid == tid;
	return n;
}

static void test_bare_list(void)
{
	begin_list(13);
	list_again();
	tap_ok(entries(12) == 1 && entries(13) == 1 && !core.unentered,
		"a thread that never had a frame is in the table");
	begin_list(12);
	list_again();
	tap_ok(entries(12) == 1 && thread_find(&core, AT(fake.second)) == NULL &&
			core.unentered,
		"but not by its creator's ids");
	fake.thread.frame = 0;
	thread_end(&core, thread_find(&core, AT(fake.thread)));
	list_again();
	tap_ok(entries(12) == 1 && thread_find(&core, AT(fake.thread)) != NULL,
		"the older one's they are, where neither has a frame");
	begin_list(0);
	list_again();
	tap_ok(entries(0) == 0 && core.unentered, "nor before it has any");

	begin_list(13);
	core.pthread_tid_offset = 2 * sizeof(uint32_t);
	fake.library.tid[2] = 12;
	fake.second_library.tid[2] = 13;
	list_again();
	enter_as_read(thread_find(&core, AT(fake.second)));
	tap_ok(entries(13) == 1, "while the C library has its thread");
	fake.second_library.tid[2] = 0;
	list_again();
	tap_ok(entries(13) == 0, "when that has ended, no more");
	list_again();
	tap_ok(entries(13) == 0 && entries(12) == 1, "nor later");
	copy_end(&core);
}

/* The accounts in the ring: the CPU time of each, in ms. */
static unsigned accounts(uint64_t *ms, unsigned most)
{
	const uint8_t *at = ring + RING_HEADER_BYTES;
	const uint8_t *end = at + core.ring.head;
	unsigned n = 0;

	while (at < end) {
		struct varint_reader v = { .at = at, .end = end };
		uint64_t length = varint_get(&v);

		at = v.at + length;
		if (*v.at++ != REC_CPU || n == most)
			continue;
		(void)varint_get(&v);
		(void)varint_get(&v);
		ms[n++] = varint_get(&v) / MS;
	}
	return n;
}

/* A thread was seen running for so long, and used more, when there is no interpreter
 * any more, which may have been for 5 ms. */
static void see_gone(int64_t seen, int64_t used, const char *wanted)
{
	struct thread *t = &threads[0];
	uint64_t ms[8];
	char got[64] = "";

	copy_end(&core);
	begin();
	core.thread_count = 1;
	t->schedstat = -1;
	t->in_run = seen != 0;
	t->state = REC_RUNNING;
	t->node = 1;
	core.tick = 4;
	t->seen_ns = seen;
	t->cpu_ns = t->checkpoint_cpu_ns = 100 * MS;
	now = (100 * MS + used);
	core.now_ns = 50 * MS;
	core.strata.start = 45 * MS;
	end_all_runs(&core);
	for (unsigned i = 0, n = accounts(ms, 8); i < n; i++)
		(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), " %u",
			(unsigned)ms[i]);
	tap_ok(strcmp(got, wanted) == 0, "%d ms seen, %d used:%s", (int)(seen / MS),
		(int)(used / MS), got);
}

/* What no tick stands for goes to no stack. */
static void test_gone(void)
{
	see_gone(40 * MS, 43 * MS, " 140 143");
	see_gone(40 * MS, 90 * MS, " 185 190");
	see_gone(40 * MS, 40 * MS, " 140");
	see_gone(40 * MS, 20 * MS, " 120");
	see_gone(0, 3 * MS, " 103");
	see_gone(0, 0, "");
	copy_end(&core);
}

int main(void)
{
	test_questions();
	test_walks();
	test_kept();
	test_bare();
	test_bare_list();
	test_gone();
	return tap_done();
}
