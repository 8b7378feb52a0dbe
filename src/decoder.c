/* SPDX-License-Identifier: Apache-2.0 */
#include "decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "python/linetable.h"
#include "python/unicode.h"
#include "wire/record.h"
#include "wire/ring.h"
#include "wire/varint.h"

/* Limits of what a task may number, well above what it does. */
enum {
	MAX_STRINGS = 1 << 17,
	MAX_CODES = 1 << 17,
	MAX_NODES = 1 << 18,
	MAX_THREADS = 1 << 20,
	MAX_POSITION = 1 << 28,
	MAX_EPOCH_BYTES = 64 << 20,
	MAX_PENDING = 1 << 20, /* runs and accounts without strata */
	MAX_COPIES = 256,      /* changes; there are four states, and two that last */
	MAX_MAPPING = 4096,
	PHASE_SHIFT = 8, /* above the bits of a state, so that runs differ */
};

struct string {
	uint32_t width;
	uint32_t size;     /* bytes, as they lie in the program */
	uint32_t received; /* of these */
	uint8_t *bytes;
	uint32_t file_string; /* in file epoch `epoch` */
	uint32_t epoch;
};

struct line_start {
	uint32_t position;
	int32_t line; /* 0: none */
};

struct code {
	uint32_t file, name, table; /* strings */
	int32_t first_line;
	uint32_t flags;
	bool defined;
	uint32_t file_function;
	uint32_t epoch;
	struct line_start *lines; /* decoded when first asked for */
	uint32_t line_count;
};

struct node {
	uint32_t parent;
	uint32_t call; /* position plus 1 */
	uint32_t kind;
	uint32_t ref;
	uint32_t file_node;
	uint32_t epoch;
};

/* A run, an account (ticks 0) or what a timer has seen (likewise), that waits for the
 * strata it belongs to: they come behind it, and both are to stand in one chunk. */
struct pending {
	uint32_t thread; /* by the task's number */
	uint32_t state;  /* of an account: enum file_cpu_flags */
	bool timer;
	uint64_t first;
	uint64_t ticks;
	union {
		struct {
			uint32_t node;
			uint32_t position1;
			uint64_t timer_ns;
			uint64_t timer_samples;
		};
		struct {
			uint64_t cpu_ns;
			uint64_t run_count;
			uint64_t delay_ns;
			uint64_t lost;
		};
	};
};

/* A thread, and a run of it that may still grow. */
struct thread {
	struct decoder_thread t;
	uint64_t began;   /* of the kernel's thread, clock ticks; 0: not told */
	uint32_t same_as; /* number of the one that it is again; 0: of none */
	struct file_run run;
	bool open;
	uint64_t end; /* tick behind the last run received */
	char *name;   /* NULL: none */
	bool in_file; /* the one in hand has its record */
	bool accounted;
	struct file_cpu account; /* its last one */
	bool has_so_far;
	struct pending so_far; /* if nothing follows, this is the last one */
};

struct decoder {
	struct file_writer *writer;
	uint32_t segment;
	uint32_t *next_thread;
	enum py_linetable_kind lines;
	struct decoder_stats stats;

	struct string *strings;
	size_t string_count, string_capacity;
	struct code *codes;
	size_t code_count, code_capacity;
	struct node *nodes;
	size_t node_count, node_capacity;
	uint64_t epoch_bytes;
	struct thread *threads;  /* by the task's number, from 1 */
	struct hash_index known; /* of those of which it is told when they began */
	size_t thread_count, thread_capacity;
	uint32_t *path; /* nodes still to be written, leaf first */
	size_t path_capacity;
	uint64_t *late;
	size_t late_capacity;

	struct pending *pending;
	size_t pending_count, pending_capacity;
	uint64_t base; /* tick of the last cut */
	bool base_set;
	bool stop_at_cut;
	uint32_t stop_number;
	uint32_t cut_served;
	int64_t clock_offset;
	uint64_t told_ns; /* end of the last strata or gap */
	uint32_t phase;
	bool trusts_gc;

	decoder_name_function *namer;
	void *namer_context;
	struct file_copy copy; /* as told last, if copies is not 0 */
	uint32_t copies;
	char *mapping[2]; /* of its owners */
};

struct decoder *decoder_new(struct file_writer *writer, uint32_t segment,
	uint32_t *next_thread, enum py_linetable_kind lines)
{
	struct decoder *d = xcalloc(1, sizeof(*d));

	d->writer = writer;
	d->segment = segment;
	d->next_thread = next_thread;
	d->lines = lines;
	return d;
}

void decoder_trust_gc(struct decoder *d)
{
	d->trusts_gc = true;
}

static void forget_epoch(struct decoder *d)
{
	for (size_t i = 0; i < d->string_count; i++)
		free(d->strings[i].bytes);
	for (size_t i = 0; i < d->code_count; i++)
		free(d->codes[i].lines);
	d->string_count = d->code_count = d->node_count = 0;
	d->epoch_bytes = 0;
}

void decoder_free(struct decoder *d)
{
	if (d == NULL)
		return;
	forget_epoch(d);
	free(d->strings);
	free(d->codes);
	free(d->nodes);
	for (size_t i = 0; i < d->thread_count; i++)
		free(d->threads[i].name);
	free(d->threads);
	hash_index_done(&d->known);
	free(d->mapping[0]);
	free(d->mapping[1]);
	free(d->pending);
	free(d->path);
	free(d->late);
	free(d);
}

/* The element of that number (from 1) in an array that grows to hold it, new ones
 * zero. */
static void *element(
	void *array, size_t *count, size_t *capacity, size_t size, uint32_t number)
{
	char **p = array;

	while (*count < number) {
		*p = xgrow(*p, *count, capacity, size);
		memset(*p + *count * size, 0, size);
		(*count)++;
	}
	return *p + (number - 1) * size;
}

static struct string *string_at(struct decoder *d, uint32_t number)
{
	struct string *s = number != 0 && number <= d->string_count
				   ? &d->strings[number - 1]
				   : NULL;

	return s != NULL && s->received == s->size && s->bytes != NULL ? s : NULL;
}

static struct code *code_at(struct decoder *d, uint32_t number)
{
	struct code *k =
		number != 0 && number <= d->code_count ? &d->codes[number - 1] : NULL;

	return k != NULL && k->defined ? k : NULL;
}

/* --- lines --- */

static void decode_lines(struct decoder *d, struct code *k)
{
	struct string *table = string_at(d, k->table);
	struct py_lines it;
	struct py_line_range range;
	size_t count = 0, capacity = 0;
	struct line_start *lines = NULL;

	if (table != NULL)
		py_lines_init(&it, d->lines, table->bytes, table->size, k->first_line);
	while (table != NULL && py_lines_next(&it, &range)) {
		if (count != 0 && lines[count - 1].line == range.line)
			continue;
		lines = xgrow(lines, count, &capacity, sizeof(*lines));
		lines[count++] = (struct line_start){ range.start, range.line };
	}
	/* An empty table still is a decoded one. */
	k->lines = lines != NULL ? lines : xcalloc(1, sizeof(*lines));
	k->line_count = (uint32_t)count;
}

/* The line of a position, relative to the first line; FILE_NO_LINE when none.
 * position1: the position plus 1, 0 when not begun, which stands at the first. */
static int64_t line_of(struct decoder *d, struct code *k, uint32_t position1)
{
	uint32_t low = 0, high;

	if (position1 == 0)
		return 0;
	if (k->lines == NULL)
		decode_lines(d, k);
	high = k->line_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (k->lines[middle].position <= position1 - 1)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || k->lines[low - 1].line == 0)
		return FILE_NO_LINE;
	return (int64_t)k->lines[low - 1].line - k->first_line;
}

/* --- into the file --- */

static uint32_t file_string(struct decoder *d, uint32_t number)
{
	struct string *s = string_at(d, number);
	uint32_t epoch = file_writer_epoch(d->writer);

	if (s == NULL)
		return 0;
	if (s->file_string == 0 || s->epoch != epoch) {
		_cleanup_free_ char *text =
			xmalloc(py_utf8_bound(s->width, s->size) + 1);
		size_t size = py_utf8_from(s->width, s->bytes, s->size, text);

		s->file_string = file_writer_string(d->writer, text, size);
		s->epoch = epoch;
	}
	return s->file_string;
}

static uint32_t file_function(struct decoder *d, uint32_t number)
{
	struct code *k = code_at(d, number);
	uint32_t epoch = file_writer_epoch(d->writer);

	if (k == NULL)
		return 0;
	if (k->file_function == 0 || k->epoch != epoch) {
		struct string *table = string_at(d, k->table);

		if (table == NULL)
			return 0;
		struct file_function f = {
			.file = file_string(d, k->file),
			.name = file_string(d, k->name),
			.first_line = k->first_line,
			.table_hash = hash_bytes(table->bytes, table->size),
			.flags = k->flags,
		};

		if (f.file == 0 || f.name == 0)
			return 0;
		k->file_function = file_writer_function(d->writer, &f);
		k->epoch = epoch;
	}
	return k->file_function;
}

/* Write one node whose caller is written. */
static uint32_t write_node(struct decoder *d, struct node *n, uint32_t caller)
{
	struct file_node f = {
		.caller = caller,
		.call_line = FILE_NO_LINE,
		.kind = n->kind,
		.ref = n->ref,
	};

	if (n->kind == REC_NODE_PYTHON) {
		f.ref = file_function(d, n->ref);
		if (f.ref == 0)
			return 0;
	}
	if (n->parent != 0 && d->nodes[n->parent - 1].kind == REC_NODE_PYTHON) {
		struct code *k = code_at(d, d->nodes[n->parent - 1].ref);

		/* An approximate stack leaves open where the call was. */
		if (k != NULL && n->call != 0)
			f.call_line = line_of(d, k, n->call);
	}
	return file_writer_node(d->writer, &f);
}

/* The file's number of a node; its callers are written first, without recursion. */
static uint32_t file_node(struct decoder *d, uint32_t number)
{
	uint32_t epoch = file_writer_epoch(d->writer);
	size_t depth = 0;
	uint32_t caller = 0;

	for (uint32_t at = number; at != 0; at = d->nodes[at - 1].parent) {
		struct node *n = &d->nodes[at - 1];

		if (n->file_node != 0 && n->epoch == epoch) {
			caller = n->file_node;
			break;
		}
		d->path = xgrow(d->path, depth, &d->path_capacity, sizeof(*d->path));
		d->path[depth++] = at;
	}
	while (depth != 0) {
		struct node *n = &d->nodes[d->path[--depth] - 1];

		caller = write_node(d, n, caller);
		if (caller == 0)
			return 0;
		n->file_node = caller;
		n->epoch = epoch;
	}
	return caller;
}

static void close_run(struct decoder *d, struct thread *t)
{
	if (t->open)
		file_writer_run(d->writer, d->segment, &t->run);
	t->open = false;
}

static void close_all_runs(struct decoder *d)
{
	for (size_t i = 0; i < d->thread_count; i++)
		close_run(d, &d->threads[i]);
}

/* --- records --- */

static void get_string(struct decoder *d, struct varint_reader *v)
{
	uint32_t number = varint_get_max(v, MAX_STRINGS);
	uint32_t width = varint_get_max(v, 4);
	uint32_t size = varint_get_max(v, REC_STRING_MAX);
	uint32_t offset = varint_get_max(v, REC_STRING_MAX);
	size_t piece = (size_t)(v->end - v->at);

	if (v->bad || number == 0 || width == 3) {
		v->bad = true;
		return;
	}
	struct string *s = element(
		&d->strings, &d->string_count, &d->string_capacity, sizeof(*s), number);

	if (offset == 0 && s->bytes == NULL) {
		d->epoch_bytes += size;
		if (d->epoch_bytes > MAX_EPOCH_BYTES) {
			v->bad = true;
			return;
		}
		*s = (struct string){ .width = width, .size = size };
		s->bytes = xmalloc(size + 1);
	}
	/* Pieces come in order. */
	if (s->bytes == NULL || s->width != width || s->size != size ||
		s->received != offset || piece > size - offset) {
		v->bad = true;
		return;
	}
	memcpy(s->bytes + offset, v->at, piece);
	s->received += (uint32_t)piece;
}

static void get_code(struct decoder *d, struct varint_reader *v)
{
	uint32_t number = varint_get_max(v, MAX_CODES);
	struct code k = { 0 };

	k.file = varint_get_max(v, MAX_STRINGS);
	k.name = varint_get_max(v, MAX_STRINGS);
	k.table = varint_get_max(v, MAX_STRINGS);
	int64_t first = varint_get_signed(v);

	k.flags = varint_get_max(v, UINT32_MAX);
	k.first_line = (int32_t)first;
	if (v->bad || number == 0 || first != k.first_line ||
		string_at(d, k.file) == NULL || string_at(d, k.name) == NULL ||
		string_at(d, k.table) == NULL || string_at(d, k.file)->width == 0 ||
		string_at(d, k.name)->width == 0 || code_at(d, number) != NULL) {
		v->bad = true;
		return;
	}
	k.defined = true;
	struct code *at = element(
		&d->codes, &d->code_count, &d->code_capacity, sizeof(*at), number);

	*at = k;
}

static void get_node(struct decoder *d, struct varint_reader *v)
{
	uint32_t number = varint_get_max(v, MAX_NODES);
	struct node n = { 0 };

	n.parent = varint_get_max(v, MAX_NODES);
	n.call = varint_get_max(v, MAX_POSITION);
	n.kind = varint_get_max(v, 255);
	n.ref = varint_get_max(v, UINT32_MAX);
	/* Numbers follow each other, so a parent always stands before its children. */
	if (v->bad || number != d->node_count + 1 || n.parent >= number ||
		(n.kind == REC_NODE_PYTHON && code_at(d, n.ref) == NULL)) {
		v->bad = true;
		return;
	}
	*(struct node *)element(
		&d->nodes, &d->node_count, &d->node_capacity, sizeof(n), number) = n;
}

static void write_thread(struct decoder *d, struct thread *t)
{
	const char *name = t->name != NULL ? t->name : "";
	struct file_thread f = {
		.thread = t->t.file_thread,
		.segment = d->segment,
		.tid = t->t.tid,
		.python_id = t->t.python_id,
		.interpreter = t->t.interpreter,
		.name = { name, strlen(name) },
	};

	file_writer_thread(d->writer, &f);
	t->in_file = true;
}

/* After a move, the thread of a record that comes too late for the old file. */
static void need_thread(struct decoder *d, struct thread *t)
{
	if (!t->in_file)
		write_thread(d, t);
}

/* The kernel's name is cut at some byte: what is no UTF-8 then is left out. */
static size_t copy_utf8(const uint8_t *bytes, size_t size, char *to)
{
	size_t used = 0;

	for (size_t at = 0, n; at < size; at += n) {
		const char *s = (const char *)bytes + at;

		if (str_character(s, size - at, &n) == 0xfffd)
			continue;
		memcpy(to + used, s, n);
		used += n;
	}
	return used;
}

/* What may follow: a name. */
static void get_name(struct thread *t, struct varint_reader *v)
{
	uint32_t by = varint_get_max(v, REC_NAME_COUNT - 1);
	uint32_t width = varint_get_max(v, 4);
	size_t size = (size_t)(v->end - v->at);

	if (v->bad || width == 3 || size > REC_NAME_MAX ||
		(width != 0 && size % width != 0)) {
		v->bad = true;
		return;
	}
	/* What the kernel has says less. */
	if (by < t->t.named)
		return;
	_cleanup_free_ char *name = xmalloc(py_utf8_bound(width, size) + 1);
	size_t length = width == 0 ? copy_utf8(v->at, size, name)
				   : py_utf8_from(width, v->at, size, name);

	if (length == 0)
		return;
	free(t->name);
	t->name = xmemdup0(name, length);
	t->t.named = (enum record_name)by;
}

/* One that runs in another interpreter too has the name that it has there. */
static void take_name(const struct decoder *d, struct thread *t)
{
	for (size_t i = 0; i < d->thread_count; i++) {
		const struct thread *other = &d->threads[i];

		if (other->name == NULL || other->t.ended || other->t.tid != t->t.tid ||
			other->t.python_id != t->t.python_id)
			continue;
		t->name = xstrdup(other->name);
		t->t.named = other->t.named;
		return;
	}
}

static uint64_t hash_known(const struct decoder_thread *t, uint64_t began)
{
	return hash_mix(hash_mix(t->tid, began), t->python_id);
}

static uint64_t hash_of_known(uint32_t entry, const void *context)
{
	const struct thread *t = &((const struct decoder *)context)->threads[entry];

	return hash_known(&t->t, t->began);
}

/* A thread of the kernel's that has been in the same interpreter before. */
static struct thread *find_earlier(
	struct decoder *d, const struct decoder_thread *t, uint64_t began)
{
	uint32_t at = (uint32_t)hash_known(t, began), entry;

	while (hash_index_next(&d->known, &at, &entry)) {
		struct thread *k = &d->threads[entry];

		if (k->began == began && k->t.tid == t->tid && k->t.ended &&
			k->t.python_id == t->python_id &&
			k->t.interpreter == t->interpreter)
			return k;
	}
	return NULL;
}

/* It comes again, or its name is known only now. */
static void get_again(struct decoder *d, struct thread *t, struct varint_reader *v)
{
	t->t.ended = false;
	if (v->at < v->end)
		get_name(t, v);
	write_thread(d, t);
}

static void get_new(struct decoder *d, struct thread *t, struct varint_reader *v)
{
	t->t.file_thread = ++*d->next_thread;
	if (v->at < v->end)
		get_name(t, v);
	else if (t->t.interpreter != 0)
		take_name(d, t);
	d->stats.threads++;
	write_thread(d, t);
	if (t->began != 0)
		hash_index_add(&d->known, hash_known(&t->t, t->began),
			(uint32_t)(t - d->threads), hash_of_known, d);
}

static void get_thread(struct decoder *d, struct varint_reader *v)
{
	uint32_t number = varint_get_max(v, MAX_THREADS);
	struct decoder_thread k = { 0 };

	k.tid = varint_get_max(v, INT32_MAX);
	k.python_id = varint_get(v);
	k.interpreter = varint_get(v);
	uint64_t began = !v->bad && v->at < v->end ? varint_get(v) : 0;

	if (v->bad || number == 0 || number > d->thread_count + 65536) {
		v->bad = true;
		return;
	}
	struct thread *t = element(
		&d->threads, &d->thread_count, &d->thread_capacity, sizeof(*t), number);
	struct thread *earlier = began != 0 ? find_earlier(d, &k, began) : NULL;

	if (t->t.file_thread != 0 && t->t.tid == k.tid &&
		t->t.python_id == k.python_id && t->t.interpreter == k.interpreter &&
		!t->t.ended) {
		get_again(d, t, v);
	} else if (t->t.file_thread != 0 || t->same_as != 0 ||
		   (earlier == NULL && *d->next_thread >= FILE_THREADS_MAX)) {
		v->bad = true;
	} else if (earlier != NULL) {
		t->same_as = (uint32_t)(earlier - d->threads) + 1;
		get_again(d, earlier, v);
	} else {
		t->t = k;
		t->began = began;
		get_new(d, t, v);
	}
}

static struct thread *thread_of(struct decoder *d, struct varint_reader *v)
{
	uint32_t number = varint_get_max(v, MAX_THREADS);

	struct thread *t = !v->bad && number != 0 && number <= d->thread_count
				   ? &d->threads[number - 1]
				   : NULL;

	if (t != NULL && t->same_as != 0)
		t = &d->threads[t->same_as - 1];
	if (t == NULL || t->t.file_thread == 0) {
		v->bad = true;
		return NULL;
	}
	return t;
}

static void get_thread_end(struct decoder *d, struct varint_reader *v)
{
	struct thread *t = thread_of(d, v);
	uint64_t tick = varint_get(v);

	if (v->bad)
		return;
	t->t.ended = true;
	need_thread(d, t);
	file_writer_thread_end(d->writer, t->t.file_thread, tick);
}

static bool is_finalizer(struct decoder *d, const struct code *k)
{
	static const char name[] = "__del__", end[] = ".__del__";
	struct string *s = k != NULL ? string_at(d, k->name) : NULL;

	if (s == NULL || s->width != 1 || s->size < sizeof(name) - 1)
		return false;
	if (s->size == sizeof(name) - 1)
		return memcmp(s->bytes, name, s->size) == 0;
	return memcmp(s->bytes + s->size - (sizeof(end) - 1), end, sizeof(end) - 1) ==
	       0;
}

/*
 * In a finalizer it is mostly the collector that has called it, not one that has come
 * upon it, and what runs is the finalizer.
 */
static uint32_t state_in(struct decoder *d, uint32_t state, uint32_t node)
{
	if (d->trusts_gc || (state & REC_GC) == 0)
		return state;
	for (uint32_t at = node; at != 0; at = d->nodes[at - 1].parent)
		if (d->nodes[at - 1].kind == REC_NODE_PYTHON &&
			is_finalizer(d, code_at(d, d->nodes[at - 1].ref)))
			return state & ~(uint32_t)REC_GC;
	return state;
}

/* Where in its function's lines the leaf stands. */
static int64_t leaf_line(struct decoder *d, const struct pending *p)
{
	const struct node *n = &d->nodes[p->node - 1];

	return n->kind == REC_NODE_PYTHON ? line_of(d, code_at(d, n->ref), p->position1)
					  : FILE_NO_LINE;
}

/* Into the file, or into the run before it if it goes on. */
static void settle_run(struct decoder *d, const struct pending *p)
{
	struct thread *t = &d->threads[p->thread - 1];
	struct file_run run = {
		.thread = t->t.file_thread,
		.node = file_node(d, p->node),
		.line = leaf_line(d, p),
		.state = state_in(d, p->state, p->node),
		.first = p->first,
		.ticks = p->ticks,
	};

	if (run.node == 0) {
		d->stats.lost += run.ticks;
		return;
	}
	d->stats.samples += run.ticks;
	if (t->open && t->run.node == run.node && t->run.line == run.line &&
		t->run.state == run.state && t->run.first + t->run.ticks == run.first) {
		t->run.ticks += run.ticks;
		return;
	}
	close_run(d, t);
	need_thread(d, t);
	t->run = run;
	t->open = true;
}

static void settle_account(struct decoder *d, const struct pending *p)
{
	struct thread *t = &d->threads[p->thread - 1];
	struct file_cpu c = {
		.thread = t->t.file_thread,
		.tick = p->first,
		.cpu_ns = p->cpu_ns,
		.run_count = p->run_count,
		.flags = p->state,
		.delay_ns = p->delay_ns,
		.lost = p->lost,
	};

	/* One that has come again begins behind where it stood. */
	if (t->accounted && c.cpu_ns < t->account.cpu_ns)
		return;
	/* The run before it ends here, so that no run spans an account. */
	close_run(d, t);
	need_thread(d, t);
	file_writer_cpu(d->writer, d->segment, &c);
	t->accounted = true;
	t->account = c;
}

static void settle_timer(struct decoder *d, const struct pending *p)
{
	struct thread *t = &d->threads[p->thread - 1];
	struct file_timer f = {
		.thread = t->t.file_thread,
		.node = file_node(d, p->node),
		.line = leaf_line(d, p),
		.state = p->state,
		.tick = p->first,
		.cpu_ns = p->timer_ns,
		.samples = p->timer_samples,
	};

	if (f.node == 0) {
		d->stats.lost += f.samples;
		return;
	}
	need_thread(d, t);
	file_writer_timer(d->writer, d->segment, &f);
}

/* Write what lies before the tick `covered`; the rest goes on waiting. */
static void settle(struct decoder *d, uint64_t covered)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->pending_count; i++) {
		const struct pending *p = &d->pending[i];

		if (p->first + p->ticks > covered)
			d->pending[kept++] = *p;
		else if (p->ticks != 0)
			settle_run(d, p);
		else if (p->timer)
			settle_timer(d, p);
		else
			settle_account(d, p);
	}
	d->pending_count = kept;
}

/* False when too many wait already: the strata must come some time. */
static bool wait_for_strata(struct decoder *d, const struct pending *p)
{
	if (d->pending_count >= MAX_PENDING)
		return false;
	d->pending = xgrow(d->pending, d->pending_count, &d->pending_capacity,
		sizeof(*d->pending));
	d->pending[d->pending_count++] = *p;
	return true;
}

static void get_ticks(struct decoder *d, struct varint_reader *v)
{
	struct file_ticks t = { .segment = d->segment };
	uint32_t flags;
	uint64_t tick;

	t.first = varint_get(v);
	t.count = varint_get_max(v, INT32_MAX);
	t.start_ns = varint_get(v);
	t.length_ns = varint_get(v);
	flags = varint_get_max(v, UINT32_MAX);
	t.flags = ((flags & REC_TICKS_SPIN) != 0 ? FILE_TICKS_MEAN : 0) |
		  ((flags & REC_TICKS_LIMITED) != 0 ? FILE_TICKS_LIMITED : 0) |
		  ((flags & REC_TICKS_SUBSET) != 0 ? FILE_TICKS_SUBSET : 0);
	if ((flags & REC_TICKS_SUBSET) != 0) {
		t.subset_of = varint_get_max(v, FILE_THREADS_MAX);
		t.subset = varint_get_max(v, FILE_THREADS_MAX);
		v->bad |= t.subset == 0 || t.subset > t.subset_of;
	}
	t.late_count = varint_get_max(v, 65536);
	tick = t.first;
	if (t.count == 0 || t.late_count > t.count || t.first > UINT64_MAX / 8 ||
		t.start_ns > INT64_MAX / 2 ||
		t.length_ns > INT64_MAX / 4 / (t.count + 1))
		v->bad = true;
	for (uint32_t i = 0; i < t.late_count && !v->bad; i++) {
		uint64_t step = varint_get(v);

		d->late = xgrow(d->late, i, &d->late_capacity, sizeof(*d->late));
		if (step >= t.count - (tick - t.first))
			v->bad = true;
		tick += step;
		d->late[i] = tick;
	}
	t.late = d->late;
	if (v->bad)
		return;
	d->told_ns = t.start_ns + t.length_ns * t.count;
	file_writer_ticks(d->writer, &t);
	settle(d, t.first + t.count);
	if (d->clock_offset != 0) {
		uint64_t from = t.start_ns - (uint64_t)d->clock_offset;

		file_writer_span(d->writer, from, from + t.length_ns * t.count);
	}
}

static void get_run(struct decoder *d, struct varint_reader *v)
{
	struct thread *t = thread_of(d, v);
	struct pending p = { 0 };

	p.node = varint_get_max(v, MAX_NODES);
	p.position1 = varint_get_max(v, MAX_POSITION);
	p.state = varint_get_max(v, REC_STATE_MAX) | d->phase << PHASE_SHIFT;
	p.first = d->base + varint_get_max(v, UINT32_MAX);
	p.ticks = varint_get_max(v, INT32_MAX);
	/* Runs of a thread follow each other. */
	if (v->bad || p.node == 0 || p.node > d->node_count || p.ticks == 0 ||
		p.first < t->end) {
		v->bad = true;
		return;
	}
	p.thread = (uint32_t)(t - d->threads) + 1;
	t->end = p.first + p.ticks;
	v->bad |= !wait_for_strata(d, &p);
}

/* A member that may be left out at the end of a record: 0 then. */
static uint64_t get_added(struct varint_reader *v)
{
	return v->at < v->end ? varint_get(v) : 0;
}

static void get_cpu(struct decoder *d, struct varint_reader *v)
{
	struct thread *t = thread_of(d, v);
	struct pending p = { 0 };

	p.first = d->base + varint_get_max(v, UINT32_MAX);
	p.cpu_ns = varint_get(v);
	p.run_count = varint_get(v);
	uint64_t flags = get_added(v);

	p.state = ((flags & REC_CPU_ANEW) != 0 ? FILE_CPU_ANEW : 0) |
		  ((flags & REC_CPU_COARSE) != 0 ? FILE_CPU_COARSE : 0);
	p.delay_ns = get_added(v);
	p.lost = get_added(v);
	if (v->bad)
		return;
	p.thread = (uint32_t)(t - d->threads) + 1;
	t->has_so_far = (flags & REC_CPU_SO_FAR) != 0;
	if (t->has_so_far)
		t->so_far = p;
	else
		v->bad |= !wait_for_strata(d, &p);
}

static void get_timer(struct decoder *d, struct varint_reader *v)
{
	struct thread *t = thread_of(d, v);
	struct pending p = { .timer = true };

	p.node = varint_get_max(v, MAX_NODES);
	p.position1 = varint_get_max(v, MAX_POSITION);
	p.state = varint_get_max(v, REC_STATE_MAX) & REC_APPROXIMATE;
	p.first = d->base + varint_get_max(v, UINT32_MAX);
	p.timer_ns = varint_get(v);
	p.timer_samples = varint_get_max(v, INT32_MAX);
	if (v->bad || p.node == 0 || p.node > d->node_count || p.timer_samples == 0 ||
		p.timer_ns > INT64_MAX / 4) {
		v->bad = true;
		return;
	}
	p.thread = (uint32_t)(t - d->threads) + 1;
	v->bad |= !wait_for_strata(d, &p);
}

static void get_gap(struct decoder *d, struct varint_reader *v)
{
	struct file_gap g = { .segment = d->segment };

	g.from_ns = varint_get(v);
	g.to_ns = varint_get(v);
	g.reason = varint_get_max(v, 255);
	if (v->bad)
		return;
	d->told_ns = g.to_ns;
	file_writer_gap(d->writer, &g);
}

static void write_phase(struct decoder *d, uint64_t tick)
{
	struct file_phase p = {
		.segment = d->segment,
		.phase = d->phase,
		.tick = tick,
	};

	file_writer_phase(d->writer, &p);
}

static void get_phase(struct decoder *d, struct varint_reader *v)
{
	uint32_t phase = varint_get_max(v, REC_PHASE_COUNT - 1);
	uint64_t tick = d->base + varint_get_max(v, UINT32_MAX);

	if (v->bad)
		return;
	d->phase = phase;
	write_phase(d, tick);
}

/* --- how memory is read --- */

void decoder_set_namer(struct decoder *d, decoder_name_function *namer, void *context)
{
	d->namer = namer;
	d->namer_context = context;
}

/* The default action, and to ignore the signal, are no addresses. */
static void name_owner(struct decoder *d, size_t i, uint64_t owner)
{
	_cleanup_buf_ struct buf name = BUF_INIT(MAX_MAPPING);

	if (d->mapping[i] != NULL && owner == d->copy.owner[i])
		return;
	if (owner > 1 && d->namer != NULL)
		d->namer(owner, &name, d->namer_context);
	free(d->mapping[i]);
	d->mapping[i] = xstrdup(buf_text(&name));
}

static void write_copy(struct decoder *d)
{
	struct file_copy c = d->copy;

	c.segment = d->segment;
	for (size_t i = 0; i < 2; i++)
		c.mapping[i] =
			(struct file_text){ d->mapping[i], strlen(d->mapping[i]) };
	file_writer_copy(d->writer, &c);
}

void decoder_tell_copy(struct decoder *d, const struct file_copy *c)
{
	for (size_t i = 0; i < 2; i++)
		name_owner(d, i, c->owner[i]);
	d->copy = *c;
	d->copies += d->copies == 0;
	write_copy(d);
}

const struct file_copy *decoder_copy(const struct decoder *d)
{
	return d->copies != 0 ? &d->copy : NULL;
}

const char *decoder_owner(const struct decoder *d, size_t which)
{
	return d->mapping[which] != NULL ? d->mapping[which] : "";
}

static void get_copy(struct decoder *d, struct varint_reader *v)
{
	struct file_copy c = { .warmup_ns = 0 };

	c.state = varint_get_max(v, RING_COPY_STATES - 1);
	c.flags = varint_get_max(v, RING_COPY_FLAGS);
	c.owner[0] = varint_get(v);
	c.owner[1] = varint_get(v);
	c.mono_ns = varint_get(v);
	if (v->bad || d->copies >= MAX_COPIES) {
		v->bad = true;
		return;
	}
	d->copies++;
	decoder_tell_copy(d, &c);
}

static void get_clock(struct decoder *d, struct varint_reader *v)
{
	struct file_clock c = { .segment = d->segment };

	c.mono_ns = varint_get(v);
	c.real_ns = varint_get(v);
	if (v->bad)
		return;
	d->clock_offset = (int64_t)(c.mono_ns - c.real_ns);
	file_writer_clock(d->writer, &c);
}

static void get_cut(struct decoder *d, struct varint_reader *v)
{
	uint64_t base = varint_get(v);

	(void)varint_get(v);
	if (v->at < v->end)
		d->cut_served = varint_get_max(v, UINT32_MAX);
	if (v->bad || base < d->base || base > UINT64_MAX / 8) {
		v->bad = true;
		return;
	}
	/* All strata are there; what lacks them lost them on the way. */
	settle(d, UINT64_MAX);
	close_all_runs(d);
	d->base = base;
}

static void decode(
	struct decoder *d, unsigned type, struct varint_reader *v, bool *ret_cut)
{
	switch (type) {
	case REC_STRING:
		get_string(d, v);
		break;
	case REC_CODE:
		get_code(d, v);
		break;
	case REC_NODE:
		get_node(d, v);
		break;
	case REC_THREAD:
		get_thread(d, v);
		break;
	case REC_THREAD_END:
		get_thread_end(d, v);
		break;
	case REC_TICKS:
		get_ticks(d, v);
		break;
	case REC_RUN:
		get_run(d, v);
		break;
	case REC_CPU:
		get_cpu(d, v);
		break;
	case REC_TIMER:
		get_timer(d, v);
		break;
	case REC_GAP:
		get_gap(d, v);
		break;
	case REC_CUT:
		get_cut(d, v);
		*ret_cut = true;
		break;
	case REC_EPOCH:
		settle(d, UINT64_MAX);
		forget_epoch(d);
		break;
	case REC_CLOCK:
		get_clock(d, v);
		break;
	case REC_PHASE:
		get_phase(d, v);
		break;
	case REC_COPY:
		get_copy(d, v);
		break;
	case REC_END:
		break;
	default:
		if ((type & REC_OPTIONAL) == 0)
			v->bad = true;
		break;
	}
}

int64_t decoder_feed(struct decoder *d, const uint8_t *bytes, size_t size,
	bool *ret_cut, struct err *err)
{
	struct varint_reader all = { .at = bytes, .end = bytes + size };

	if (!d->base_set) {
		file_writer_base(d->writer, d->segment, d->base);
		d->base_set = true;
	}
	while (all.at < all.end) {
		const uint8_t *start = all.at;
		uint64_t length = varint_get(&all);

		/* Records are published whole; only this buffer may cut one. */
		if (all.bad ? all.end - start >= VARINT_MAX_BYTES
			    : length > RING_RECORD_MAX)
			return err_set(err, -E_BADFORMAT, "a record without an end");
		if (all.bad || length > (uint64_t)(all.end - all.at))
			return start - bytes;
		if (length == 0)
			return err_set(err, -E_BADFORMAT, "a record without a type");
		struct varint_reader v = { .at = all.at + 1, .end = all.at + length };
		unsigned type = *all.at;
		bool cut = false;

		decode(d, type, &v, &cut);
		if (v.bad)
			return err_set(err, -E_BADFORMAT,
				"a record of type %u that cannot be", type);
		all.at += length;
		if (cut) {
			*ret_cut = true;
			file_writer_base(d->writer, d->segment, d->base);
			if (decoder_has_stopped(d))
				return all.at - bytes;
		}
	}
	return (int64_t)size;
}

void decoder_close_runs(struct decoder *d)
{
	close_all_runs(d);
}

/* From the end of what was told on. */
static void tell_untold(struct decoder *d, int64_t now_ns)
{
	struct file_gap g = {
		.segment = d->segment,
		.from_ns = d->told_ns,
		.to_ns = (uint64_t)(now_ns + d->clock_offset),
		.reason = REC_GAP_UNTOLD,
	};

	if (d->told_ns != 0 && d->clock_offset != 0 && g.to_ns > g.from_ns)
		file_writer_gap(d->writer, &g);
}

void decoder_end_unsaid(struct decoder *d, int64_t now_ns)
{
	tell_untold(d, now_ns);
	for (size_t i = 0; i < d->thread_count; i++) {
		struct thread *t = &d->threads[i];
		struct pending p = t->so_far;

		if (!t->has_so_far)
			continue;
		/* Before the last cut all is written, behind it no tick is known. */
		p.first = d->base;
		if (t->accounted && p.first < t->account.tick)
			p.first = t->account.tick;
		if (t->open && p.first < t->run.first + t->run.ticks)
			p.first = t->run.first + t->run.ticks;
		settle_account(d, &p);
	}
}

void decoder_stop_at_cut(struct decoder *d, uint32_t number)
{
	d->stop_at_cut = true;
	d->stop_number = number;
}

bool decoder_has_stopped(const struct decoder *d)
{
	return d->stop_at_cut && d->cut_served == d->stop_number;
}

uint32_t decoder_cut_served(const struct decoder *d)
{
	return d->cut_served;
}

/* Identifiers of the file before are void. */
static void forget_file(struct decoder *d)
{
	for (size_t i = 0; i < d->string_count; i++)
		d->strings[i].file_string = 0;
	for (size_t i = 0; i < d->code_count; i++)
		d->codes[i].file_function = 0;
	for (size_t i = 0; i < d->node_count; i++)
		d->nodes[i].file_node = 0;
	for (size_t i = 0; i < d->thread_count; i++)
		d->threads[i].in_file = false;
}

/* What a file must have of a thread before its next run: where its account stood. */
static void repeat_thread(struct decoder *d, struct thread *t)
{
	struct file_cpu c = t->account;

	c.tick = d->base;
	c.flags &= FILE_CPU_COARSE;

	if (t->t.file_thread == 0 || t->t.ended)
		return;
	write_thread(d, t);
	if (t->accounted)
		file_writer_cpu(d->writer, d->segment, &c);
}

void decoder_move(struct decoder *d, struct file_writer *writer, uint32_t segment)
{
	close_all_runs(d);
	forget_file(d);
	d->writer = writer;
	d->segment = segment;
	d->stop_at_cut = false;
	file_writer_base(writer, segment, d->base);
	if (d->clock_offset != 0) {
		int64_t now = clock_real_ns();
		struct file_clock c = {
			.segment = segment,
			.mono_ns = (uint64_t)(now + d->clock_offset),
			.real_ns = (uint64_t)now,
		};

		file_writer_clock(writer, &c);
	}
	if (d->phase != REC_PHASE_RUNNING)
		write_phase(d, d->base);
	if (d->copies != 0)
		write_copy(d);
	for (size_t i = 0; i < d->thread_count; i++)
		repeat_thread(d, &d->threads[i]);
}

const struct decoder_stats *decoder_stats(const struct decoder *d)
{
	return &d->stats;
}

struct decoder_thread *decoder_thread_at(struct decoder *d, size_t index)
{
	return index < d->thread_count ? &d->threads[index].t : NULL;
}

void decoder_name_thread(struct decoder *d, struct decoder_thread *t,
	enum record_name by, const char *name)
{
	struct thread *thread = (struct thread *)t;

	t->named = by;
	if (thread->name != NULL && strcmp(thread->name, name) == 0)
		return;
	free(thread->name);
	thread->name = xstrdup(name);
	write_thread(d, thread);
}

int64_t decoder_clock_offset(const struct decoder *d)
{
	return d->clock_offset;
}
