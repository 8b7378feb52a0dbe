/* SPDX-License-Identifier: Apache-2.0 */
#include "file/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/xalloc.h"
#include "file/place.h"

/* An epoch ends when its tables would make a reader, or this writer, large. */
enum {
	EPOCH_STRINGS = 32768,
	EPOCH_FUNCTIONS = 32768,
	EPOCH_NODES = 131072,
	EPOCH_STRING_BYTES = 4 << 20,
	IMAGE_BYTES = 1 << 30,
	CHUNK_BYTES = 6 << 20, /* of records: cut sooner than once a second beyond it */
};

/* A string's place in the bytes of all of them. */
struct stored_string {
	uint64_t hash;
	uint32_t at, size;
};

/* The runs of one thread in the chunk in hand. */
struct thread_runs {
	struct buf runs;
	uint64_t end; /* tick behind the last run */
	bool listed;  /* in the list of threads of this chunk */
};

/* The tick from which those of a segment are counted. */
struct base {
	uint64_t tick;  /* in the chunk in hand, once that says so */
	uint64_t next;  /* in the next chunk */
	uint64_t chunk; /* the last one that says */
	uint32_t phase; /* said with it, if it is not the usual one */
};

struct file_writer {
	int fd;           /* -1: in memory */
	struct buf image; /* the file, when it is in memory */
	char *path;       /* NULL for what is no file of its own */
	char *temporary;  /* its name until it is published, then NULL */
	bool seekable;
	int failed; /* 0, or the code of the first failure */
	uint64_t size;
	ZSTD_CCtx *zstd;
	uint32_t epoch;
	uint64_t from_real_ns, to_real_ns;
	size_t pending; /* bytes of runs, about */
	uint64_t sample_count, written_count;

	struct buf definitions, ticks, samples, record, raw;

	struct buf string_bytes;
	struct stored_string *strings;
	size_t string_count, string_capacity;
	struct hash_index string_index;
	struct file_function *functions;
	size_t function_count, function_capacity;
	struct hash_index function_index;
	struct file_node *nodes;
	size_t node_count, node_capacity;
	struct hash_index node_index;

	struct thread_runs *threads; /* by thread number */
	size_t thread_capacity;
	uint32_t *listed;
	size_t listed_count, listed_capacity;
	struct base *bases; /* by segment number */
	size_t base_capacity;
	uint64_t chunk; /* number of the chunk in hand, from 1 */
};

/* --- records --- */

static struct buf *begin(struct file_writer *w)
{
	buf_clear(&w->record);
	return &w->record;
}

/* Put the record in hand into a part of the chunk. */
static void end(struct file_writer *w, struct buf *part, unsigned type)
{
	buf_add_uvarint(part, w->record.size + 1);
	buf_add_byte(part, type);
	buf_add(part, w->record.data, w->record.size);
}

static void add_text(struct buf *b, const char *bytes, size_t size)
{
	buf_add_uvarint(b, size);
	buf_add(b, bytes, size);
}

static void add_u64(struct buf *b, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		buf_add_byte(b, (unsigned)(value >> (8 * i)) & 0xff);
}

static void add_counters(
	struct buf *b, const struct file_counter *counters, uint32_t count)
{
	buf_add_uvarint(b, count);
	for (uint32_t i = 0; i < count; i++) {
		add_text(b, counters[i].name.bytes, counters[i].name.size);
		buf_add_uvarint(b, counters[i].value);
	}
}

static void write_schema(struct file_writer *w)
{
	static const char *const columns[][2] = {
		{ "node", "id" },
		{ "line", "line" },
		{ "state", "bits" },
		{ "first", "tick" },
		{ "ticks", "ticks" },
	};
	struct buf *b = begin(w);

	buf_add_uvarint(b, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		for (size_t j = 0; j < 2; j++)
			add_text(b, columns[i][j], strlen(columns[i][j]));
	end(w, &w->definitions, FILE_SCHEMA);
}

/* --- opening --- */

static void put_le(unsigned char *p, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (unsigned char)(value >> (8 * i));
}

static int put_bytes(struct file_writer *w, const void *bytes, size_t size)
{
	if (w->fd >= 0)
		return fd_write_all(w->fd, bytes, size);
	buf_add(&w->image, bytes, size);
	return w->image.overflow ? -E_TOOBIG : 0;
}

/* A skippable frame around content, which ends in room for its crc. */
static int write_skippable(
	struct file_writer *w, uint32_t magic, unsigned char *content, size_t size)
{
	unsigned char head[FILE_SKIPPABLE_BYTES];

	put_le(content + size - 4, crc32c(content, size - 4), 4);
	put_le(head, magic, 4);
	put_le(head + 4, size, 4);
	int r = put_bytes(w, head, sizeof(head));

	if (r == 0)
		r = put_bytes(w, content, size);
	return r;
}

static int write_header(struct file_writer *w)
{
	unsigned char h[FILE_HEADER_BYTES] = FILE_NAME;

	put_le(h + 8, FILE_MAJOR, 2);
	put_le(h + 10, FILE_MINOR, 2);
	if (getrandom(h + 16, FILE_ID_BYTES, GRND_NONBLOCK) != FILE_ID_BYTES)
		put_le(h + 16, (uint64_t)clock_monotonic_ns(), 8);
	put_le(h + 32, (uint64_t)clock_real_ns(), 8);
	int r = write_skippable(w, FILE_MAGIC_HEADER, h, sizeof(h));

	if (r == 0)
		w->size = FILE_SKIPPABLE_BYTES + FILE_HEADER_BYTES;
	return r;
}

static int open_beside(struct file_writer *w, const char *path, int64_t owner,
	int64_t group, struct err *err)
{
	int fd = place_open(path, owner, group, &w->temporary, err);

	if (fd < 0)
		return fd;
	w->fd = fd;
	w->path = xstrdup(path);
	w->seekable = true;
	return 0;
}

static int open_output(struct file_writer *w, const char *path, int64_t owner,
	int64_t group, struct err *err)
{
	struct stat st;
	bool exists = strcmp(path, "-") != 0 && stat(path, &st) == 0;

	if (exists && S_ISDIR(st.st_mode))
		return err_set(err, -EISDIR, "%s: is a directory; name a file", path);
	if (strcmp(path, "-") == 0)
		w->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	else if (exists && !S_ISREG(st.st_mode))
		/* A device or a pipe is written to as it is. */
		w->fd = open(path, O_WRONLY | O_CLOEXEC);
	else
		return open_beside(w, path, owner, group, err);
	if (w->fd < 0)
		return err_set(err, -errno, "%s: cannot be written: %s", path,
			strerror(errno));
	w->seekable = fstat(w->fd, &st) == 0 && S_ISREG(st.st_mode);
	return 0;
}

int file_writer_publish(struct file_writer *w, struct err *err)
{
	if (w->temporary == NULL)
		return 0;
	int r = place_publish(w->temporary, w->path, err);

	if (r != 0)
		return r;
	free(w->temporary);
	w->temporary = NULL;
	return 0;
}

int file_writer_open_memory(int level, struct file_writer **ret_writer, struct err *err)
{
	struct file_writer *w = xmalloc(sizeof(*w));
	const struct buf chunk = BUF_INIT(FILE_RAW_MAX);

	*w = (struct file_writer){
		.fd = -1,
		.image = BUF_INIT(IMAGE_BYTES),
		.epoch = 1,
		.chunk = 1,
		.definitions = chunk,
		.ticks = chunk,
		.samples = chunk,
		.record = chunk,
		.raw = chunk,
		.string_bytes = BUF_INIT(EPOCH_STRING_BYTES * 4),
	};
	w->zstd = ZSTD_createCCtx();
	if (w->zstd == NULL) {
		file_writer_free(w);
		return err_set(err, -ENOMEM, "no memory for compression");
	}
	(void)ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, level);
	(void)ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
	/* This cannot fail in memory. */
	(void)write_header(w);
	write_schema(w);
	*ret_writer = w;
	return 0;
}

/* Back to memory. */
static void leave_output(struct file_writer *w)
{
	fd_close(&w->fd);
	if (w->temporary != NULL)
		(void)unlink(w->temporary);
	free(w->temporary);
	free(w->path);
	w->temporary = w->path = NULL;
	w->seekable = false;
}

int file_writer_settle(struct file_writer *w, const char *path, int64_t owner,
	int64_t group, struct err *err)
{
	int r = open_output(w, path, owner, group, err);

	if (r == 0) {
		r = fd_write_all(w->fd, w->image.data, w->image.size);
		if (r != 0)
			(void)err_set(err, r, "%s: %s", path, err_name(r));
	}
	if (r != 0)
		leave_output(w);
	else
		buf_done(&w->image);
	return r;
}

int file_writer_open(const char *path, int level, int64_t owner, int64_t group,
	struct file_writer **ret_writer, struct err *err)
{
	struct file_writer *w = NULL;
	int r = file_writer_open_memory(level, &w, err);

	if (w == NULL)
		return r;
	r = file_writer_settle(w, path, owner, group, err);
	if (r != 0) {
		file_writer_free(w);
		return r;
	}
	*ret_writer = w;
	return 0;
}

/* --- definitions --- */

uint32_t file_writer_epoch(const struct file_writer *w)
{
	return w->epoch;
}

static uint64_t hash_of_string(uint32_t entry, const void *context)
{
	const struct file_writer *w = context;

	return w->strings[entry].hash;
}

uint32_t file_writer_string(struct file_writer *w, const char *bytes, size_t size)
{
	if (size > FILE_TEXT_MAX)
		size = FILE_TEXT_MAX;
	uint64_t hash = hash_bytes(bytes, size);
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&w->string_index, &at, &entry)) {
		const struct stored_string *s = &w->strings[entry];

		if (s->hash == hash && s->size == size &&
			memcmp(w->string_bytes.data + s->at, bytes, size) == 0)
			return entry + 1;
	}
	uint32_t place = (uint32_t)w->string_bytes.size;

	if (w->string_count >= FILE_IDS_MAX)
		return 0;
	/* With a NUL behind it, so that data is there even for an empty first one. */
	buf_add(&w->string_bytes, bytes, size);
	buf_add_byte(&w->string_bytes, 0);
	if (w->string_bytes.overflow)
		return 0;
	w->strings = xgrow(
		w->strings, w->string_count, &w->string_capacity, sizeof(*w->strings));
	entry = (uint32_t)w->string_count++;
	w->strings[entry] = (struct stored_string){
		.hash = hash, .at = place, .size = (uint32_t)size
	};
	hash_index_add(&w->string_index, hash, entry, hash_of_string, w);

	struct buf *b = begin(w);

	buf_add_uvarint(b, entry + 1);
	add_text(b, bytes, size);
	end(w, &w->definitions, FILE_STRING);
	return entry + 1;
}

static uint64_t hash_function(const struct file_function *f)
{
	uint64_t h = hash_mix(f->file, f->name);

	return hash_mix(hash_mix(h, (uint64_t)f->first_line), f->table_hash);
}

static uint64_t hash_of_function(uint32_t entry, const void *context)
{
	const struct file_writer *w = context;

	return hash_function(&w->functions[entry]);
}

uint32_t file_writer_function(struct file_writer *w, const struct file_function *f)
{
	uint64_t hash = hash_function(f);
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&w->function_index, &at, &entry)) {
		const struct file_function *k = &w->functions[entry];

		if (k->file == f->file && k->name == f->name &&
			k->first_line == f->first_line &&
			k->table_hash == f->table_hash)
			return entry + 1;
	}
	if (w->function_count >= FILE_IDS_MAX)
		return 0;
	w->functions = xgrow(w->functions, w->function_count, &w->function_capacity,
		sizeof(*w->functions));
	entry = (uint32_t)w->function_count++;
	w->functions[entry] = *f;
	hash_index_add(&w->function_index, hash, entry, hash_of_function, w);

	struct buf *b = begin(w);

	buf_add_uvarint(b, entry + 1);
	buf_add_uvarint(b, f->file);
	buf_add_uvarint(b, f->name);
	buf_add_svarint(b, f->first_line);
	add_u64(b, f->table_hash);
	buf_add_uvarint(b, f->flags);
	end(w, &w->definitions, FILE_FUNCTION);
	return entry + 1;
}

/* 0 is none; the lines from the first one on follow it. */
static void add_line(struct buf *b, int64_t line)
{
	if (line == FILE_NO_LINE)
		buf_add_byte(b, 0);
	else
		buf_add_svarint(b, line >= 0 ? line + 1 : line);
}

static uint64_t hash_node(const struct file_node *n)
{
	return hash_mix(hash_mix(n->caller, (uint64_t)n->call_line),
		((uint64_t)n->kind << 32) | n->ref);
}

static uint64_t hash_of_node(uint32_t entry, const void *context)
{
	const struct file_writer *w = context;

	return hash_node(&w->nodes[entry]);
}

uint32_t file_writer_node(struct file_writer *w, const struct file_node *n)
{
	uint64_t hash = hash_node(n);
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&w->node_index, &at, &entry)) {
		const struct file_node *k = &w->nodes[entry];

		if (k->caller == n->caller && k->call_line == n->call_line &&
			k->kind == n->kind && k->ref == n->ref)
			return entry + 1;
	}
	if (w->node_count >= FILE_IDS_MAX)
		return 0;
	w->nodes = xgrow(w->nodes, w->node_count, &w->node_capacity, sizeof(*w->nodes));
	entry = (uint32_t)w->node_count++;
	w->nodes[entry] = *n;
	hash_index_add(&w->node_index, hash, entry, hash_of_node, w);

	struct buf *b = begin(w);

	buf_add_uvarint(b, entry + 1);
	buf_add_uvarint(b, n->caller);
	add_line(b, n->call_line);
	buf_add_uvarint(b, n->kind);
	buf_add_uvarint(b, n->ref);
	end(w, &w->definitions, FILE_NODE);
	return entry + 1;
}

void file_writer_segment(struct file_writer *w, const struct file_segment *s)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, s->segment);
	buf_add(b, s->id, FILE_ID_BYTES);
	buf_add_uvarint(b, s->parent);
	buf_add_uvarint(b, s->why);
	buf_add_uvarint(b, s->pid);
	buf_add_uvarint(b, s->inner_pid);
	buf_add_uvarint(b, s->mono_ns);
	buf_add_uvarint(b, s->real_ns);
	buf_add_uvarint(b, s->interval_ns);
	buf_add_uvarint(b, s->flags);
	buf_add_uvarint(b, s->attribute_count);
	for (uint32_t i = 0; i < s->attribute_count; i++) {
		add_text(b, s->attributes[i].name.bytes, s->attributes[i].name.size);
		add_text(b, s->attributes[i].value.bytes, s->attributes[i].value.size);
	}
	end(w, &w->definitions, FILE_SEGMENT);
}

void file_writer_segment_end(struct file_writer *w, const struct file_segment_end *e)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, e->segment);
	buf_add_uvarint(b, e->why);
	buf_add_uvarint(b, e->status);
	buf_add_uvarint(b, e->mono_ns);
	add_counters(b, e->counters, e->counter_count);
	/* Among the samples, so that it comes behind the segment's last ones. */
	end(w, &w->samples, FILE_SEGMENT_END);
}

void file_writer_thread(struct file_writer *w, const struct file_thread *t)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, t->thread);
	buf_add_uvarint(b, t->segment);
	buf_add_uvarint(b, t->tid);
	buf_add_uvarint(b, t->python_id);
	buf_add_uvarint(b, t->interpreter);
	add_text(b, t->name.bytes, t->name.size);
	end(w, &w->definitions, FILE_THREAD);
}

void file_writer_thread_end(struct file_writer *w, uint32_t thread, uint64_t tick)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, thread);
	buf_add_uvarint(b, tick);
	end(w, &w->samples, FILE_THREAD_END);
}

/* --- samples --- */

static struct base *base_of(struct file_writer *w, uint32_t segment)
{
	while (segment >= w->base_capacity) {
		size_t old = w->base_capacity;

		w->bases = xgrow(w->bases, w->base_capacity, &w->base_capacity,
			sizeof(*w->bases));
		memset(w->bases + old, 0, (w->base_capacity - old) * sizeof(*w->bases));
	}
	return &w->bases[segment];
}

void file_writer_base(struct file_writer *w, uint32_t segment, uint64_t tick)
{
	base_of(w, segment)->next = tick;
}

static void add_phase(
	struct file_writer *w, uint32_t segment, uint32_t phase, uint64_t tick)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, segment);
	buf_add_uvarint(b, phase);
	buf_add_uvarint(b, tick);
	end(w, &w->ticks, FILE_PHASE);
}

/* The base, said in this chunk. */
static uint64_t base_said(struct file_writer *w, uint32_t segment)
{
	struct base *base = base_of(w, segment);

	if (base->chunk != w->chunk) {
		struct buf *b = begin(w);

		base->chunk = w->chunk;
		base->tick = base->next;
		buf_add_uvarint(b, segment);
		buf_add_uvarint(b, base->tick);
		end(w, &w->ticks, FILE_BASE);
		if (base->phase != REC_PHASE_RUNNING)
			add_phase(w, segment, base->phase, base->tick);
	}
	return base->tick;
}

void file_writer_ticks(struct file_writer *w, const struct file_ticks *t)
{
	struct buf *b = begin(w);
	uint64_t last = t->first;

	buf_add_uvarint(b, t->segment);
	buf_add_uvarint(b, t->first);
	buf_add_uvarint(b, t->count);
	buf_add_uvarint(b, t->start_ns);
	buf_add_uvarint(b, t->length_ns);
	buf_add_uvarint(b, t->flags);
	if ((t->flags & FILE_TICKS_SUBSET) != 0) {
		buf_add_uvarint(b, t->subset_of);
		buf_add_uvarint(b, t->subset);
	}
	buf_add_uvarint(b, t->late_count);
	for (uint32_t i = 0; i < t->late_count; i++) {
		buf_add_uvarint(b, t->late[i] - last);
		last = t->late[i];
	}
	end(w, &w->ticks, FILE_TICKS);
}

static struct thread_runs *runs_of(
	struct file_writer *w, uint32_t segment, uint32_t thread)
{
	while (thread >= w->thread_capacity) {
		size_t old = w->thread_capacity;

		w->threads = xgrow(w->threads, w->thread_capacity, &w->thread_capacity,
			sizeof(*w->threads));
		for (size_t i = old; i < w->thread_capacity; i++)
			w->threads[i] =
				(struct thread_runs){ .runs = BUF_INIT(FILE_RAW_MAX) };
	}
	struct thread_runs *t = &w->threads[thread];

	if (!t->listed) {
		w->listed = xgrow(w->listed, w->listed_count, &w->listed_capacity,
			sizeof(*w->listed));
		w->listed[w->listed_count++] = thread;
		t->listed = true;
		t->end = base_said(w, segment);
		buf_clear(&t->runs);
	}
	return t;
}

void file_writer_run(struct file_writer *w, uint32_t segment, const struct file_run *r)
{
	struct thread_runs *t = runs_of(w, segment, r->thread);
	uint64_t skip = r->first - t->end;

	w->pending += 8;
	w->sample_count += r->ticks;
	buf_add_uvarint(&t->runs, ((r->ticks - 1) << FILE_RUN_TICKS_SHIFT) |
					  (skip != 0 ? FILE_RUN_SKIP : 0) |
					  (r->state & FILE_RUN_STATE_MASK));
	if (skip != 0)
		buf_add_uvarint(&t->runs, skip);
	buf_add_uvarint(&t->runs, r->node);
	add_line(&t->runs, r->line);
	t->end = r->first + r->ticks;
}

void file_writer_cpu(struct file_writer *w, uint32_t segment, const struct file_cpu *c)
{
	uint64_t base = base_said(w, segment);
	struct buf *b = begin(w);

	buf_add_uvarint(b, c->thread);
	buf_add_uvarint(b, c->tick - base);
	buf_add_uvarint(b, c->cpu_ns);
	buf_add_uvarint(b, c->run_count);
	buf_add_uvarint(b, c->flags);
	buf_add_uvarint(b, c->delay_ns);
	buf_add_uvarint(b, c->lost);
	end(w, &w->samples, FILE_CPU);
}

void file_writer_timer(
	struct file_writer *w, uint32_t segment, const struct file_timer *t)
{
	uint64_t base = base_said(w, segment);
	struct buf *b = begin(w);

	buf_add_uvarint(b, t->thread);
	buf_add_uvarint(b, t->tick - base);
	buf_add_uvarint(b, t->node);
	add_line(b, t->line);
	buf_add_uvarint(b, t->state);
	buf_add_uvarint(b, t->cpu_ns);
	buf_add_uvarint(b, t->samples);
	end(w, &w->samples, FILE_TIMER);
}

void file_writer_phase(struct file_writer *w, const struct file_phase *p)
{
	(void)base_said(w, p->segment);
	base_of(w, p->segment)->phase = p->phase;
	add_phase(w, p->segment, p->phase, p->tick);
}

void file_writer_copy(struct file_writer *w, const struct file_copy *c)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, c->segment);
	buf_add_uvarint(b, c->mono_ns);
	buf_add_uvarint(b, c->state);
	buf_add_uvarint(b, c->flags);
	buf_add_uvarint(b, c->warmup_ns);
	for (size_t i = 0; i < 2; i++) {
		buf_add_uvarint(b, c->owner[i]);
		add_text(b, c->mapping[i].bytes,
			c->mapping[i].size < FILE_TEXT_MAX ? c->mapping[i].size
							   : FILE_TEXT_MAX);
	}
	end(w, &w->samples, FILE_COPY);
}

void file_writer_timers(struct file_writer *w, const struct file_timers *t)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, t->segment);
	buf_add_uvarint(b, t->mono_ns);
	buf_add_uvarint(b, t->state);
	buf_add_uvarint(b, t->detail);
	buf_add_uvarint(b, t->blocked);
	buf_add_uvarint(b, t->owner);
	add_text(b, t->mapping.bytes,
		t->mapping.size < FILE_TEXT_MAX ? t->mapping.size : FILE_TEXT_MAX);
	end(w, &w->samples, FILE_TIMERS);
}

void file_writer_gap(struct file_writer *w, const struct file_gap *g)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, g->segment);
	buf_add_uvarint(b, g->from_ns);
	buf_add_uvarint(b, g->to_ns);
	buf_add_uvarint(b, g->reason);
	end(w, &w->samples, FILE_GAP);
}

void file_writer_clock(struct file_writer *w, const struct file_clock *c)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, c->segment);
	buf_add_uvarint(b, c->mono_ns);
	buf_add_uvarint(b, c->real_ns);
	end(w, &w->samples, FILE_CLOCK);
}

void file_writer_counters(struct file_writer *w, uint32_t segment,
	const struct file_counter *counters, uint32_t count)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, segment);
	add_counters(b, counters, count);
	end(w, &w->samples, FILE_COUNTERS);
}

void file_writer_mark(struct file_writer *w, const struct file_mark *m)
{
	struct buf *b = begin(w);

	buf_add_uvarint(b, m->real_ns);
	add_text(b, m->text.bytes,
		m->text.size < FILE_TEXT_MAX ? m->text.size : FILE_TEXT_MAX);
	end(w, &w->samples, FILE_MARK);
}

void file_writer_span(struct file_writer *w, uint64_t from_real_ns, uint64_t to_real_ns)
{
	if (w->from_real_ns == 0 || from_real_ns < w->from_real_ns)
		w->from_real_ns = from_real_ns;
	if (to_real_ns > w->to_real_ns)
		w->to_real_ns = to_real_ns;
}

/* --- chunks --- */

static int write_chunk(
	struct file_writer *w, enum file_chunk_kind kind, const struct buf *raw)
{
	unsigned char h[FILE_CHUNK_BYTES] = { (unsigned char)kind };
	size_t bound = ZSTD_compressBound(raw->size);
	_cleanup_free_ char *stored = xmalloc(bound);
	size_t size = ZSTD_compress2(w->zstd, stored, bound, raw->data, raw->size);

	if (ZSTD_isError(size))
		return -ENOMEM;
	put_le(h + 4, w->epoch, 4);
	put_le(h + 8, size, 4);
	put_le(h + 12, raw->size, 4);
	if (kind == FILE_CHUNK_SAMPLES) {
		put_le(h + 16, w->from_real_ns, 8);
		put_le(h + 24, w->to_real_ns, 8);
	}
	int r = write_skippable(w, FILE_MAGIC_CHUNK, h, sizeof(h));

	if (r == 0)
		r = put_bytes(w, stored, size);
	if (r == 0)
		w->size += FILE_SKIPPABLE_BYTES + FILE_CHUNK_BYTES + size;
	return r;
}

/* All samples of the chunk, ticks first, the runs thread by thread. */
static void gather_samples(struct file_writer *w)
{
	buf_clear(&w->raw);
	buf_add(&w->raw, w->ticks.data, w->ticks.size);
	for (size_t i = 0; i < w->listed_count; i++) {
		struct thread_runs *t = &w->threads[w->listed[i]];
		struct buf *b = begin(w);

		buf_add_uvarint(b, w->listed[i]);
		buf_add(b, t->runs.data, t->runs.size);
		end(w, &w->raw, FILE_RUNS);
		t->listed = false;
	}
	buf_add(&w->raw, w->samples.data, w->samples.size);
	w->listed_count = 0;
	w->pending = 0;
	w->chunk++;
	buf_clear(&w->ticks);
	buf_clear(&w->samples);
}

static void start_epoch(struct file_writer *w)
{
	w->epoch++;
	buf_clear(&w->string_bytes);
	w->string_count = w->function_count = w->node_count = 0;
	hash_index_clear(&w->string_index);
	hash_index_clear(&w->function_index);
	hash_index_clear(&w->node_index);
}

/* Has something not found room in its chunk?  What was written would be cut. */
static bool is_overfull(const struct file_writer *w)
{
	bool overfull = w->definitions.overflow || w->ticks.overflow ||
			w->samples.overflow || w->record.overflow;

	for (size_t i = 0; i < w->listed_count; i++)
		overfull |= w->threads[w->listed[i]].runs.overflow;
	return overfull;
}

int file_writer_flush(struct file_writer *w, struct err *err)
{
	uint64_t before = w->size;
	int r = w->failed != 0 ? w->failed : is_overfull(w) ? -E_TOOBIG : 0;

	if (r == 0 && w->definitions.size != 0)
		r = write_chunk(w, FILE_CHUNK_DEFINITIONS, &w->definitions);
	buf_clear(&w->definitions);
	gather_samples(w);
	if (r == 0 && w->raw.overflow)
		r = -E_TOOBIG;
	if (r == 0 && w->raw.size != 0)
		r = write_chunk(w, FILE_CHUNK_SAMPLES, &w->raw);
	w->from_real_ns = w->to_real_ns = 0;
	if (r != 0) {
		if (w->failed == 0 && w->seekable) {
			/* Half a chunk helps nobody. */
			if (ftruncate(w->fd, (off_t)before) == 0)
				(void)lseek(w->fd, 0, SEEK_END);
			w->size = before;
		}
		w->failed = r;
		return err_set(err, r, "%s", err_name(r));
	}
	w->written_count = w->sample_count;
	if (w->string_count > EPOCH_STRINGS ||
		w->string_bytes.size > EPOCH_STRING_BYTES ||
		w->function_count > EPOCH_FUNCTIONS || w->node_count > EPOCH_NODES)
		start_epoch(w);
	return 0;
}

uint64_t file_writer_size(const struct file_writer *w)
{
	return w->size;
}

uint64_t file_writer_samples(const struct file_writer *w)
{
	return w->sample_count;
}

uint64_t file_writer_written(const struct file_writer *w)
{
	return w->written_count;
}

bool file_writer_should_flush(const struct file_writer *w)
{
	return w->pending + w->definitions.size + w->samples.size + w->ticks.size >
	       CHUNK_BYTES;
}

/* All that is still to come, and the end chunk. */
static int write_rest(
	struct file_writer *w, const struct file_summary *summary, struct err *err)
{
	int r = file_writer_flush(w, err);
	struct buf *b = begin(w);

	if (r != 0)
		return r;
	buf_add_uvarint(b, summary->segments);
	buf_add_uvarint(b, summary->samples);
	buf_add_uvarint(b, summary->lost);
	buf_add_uvarint(b, summary->mono_ns);
	buf_add_uvarint(b, summary->elapsed_ns);
	buf_add_uvarint(b, summary->recorder_cpu_ns);
	buf_clear(&w->raw);
	end(w, &w->raw, FILE_SUMMARY);
	r = write_chunk(w, FILE_CHUNK_END, &w->raw);
	return r == 0 ? 0 : err_set(err, r, "%s", err_name(r));
}

int file_writer_finish(
	struct file_writer *w, const struct file_summary *summary, struct err *err)
{
	int r = write_rest(w, summary, err);

	/* EINVAL and the like: a pipe or device that cannot be synced. */
	if (r == 0 && w->seekable && fdatasync(w->fd) != 0)
		r = err_set(err, -errno, "%s", strerror(errno));
	int fd = w->fd;

	w->fd = -1;
	if (close(fd) != 0 && r == 0)
		r = err_set(err, -errno, "%s", strerror(errno));
	w->failed = -EBADF;
	return r;
}

int file_writer_close(
	struct file_writer *w, const struct file_summary *summary, struct err *err)
{
	int r = file_writer_finish(w, summary, err);

	file_writer_free(w);
	return r;
}

int file_writer_take(struct file_writer *w, const struct file_summary *summary,
	struct buf *ret_bytes, struct err *err)
{
	int r = write_rest(w, summary, err);

	if (r == 0) {
		*ret_bytes = w->image;
		w->image = (struct buf)BUF_INIT(0);
	}
	file_writer_free(w);
	return r;
}

void file_writer_free(struct file_writer *w)
{
	if (w == NULL)
		return;
	leave_output(w);
	buf_done(&w->image);
	(void)ZSTD_freeCCtx(w->zstd);
	buf_done(&w->definitions);
	buf_done(&w->ticks);
	buf_done(&w->samples);
	buf_done(&w->record);
	buf_done(&w->raw);
	buf_done(&w->string_bytes);
	free(w->strings);
	free(w->functions);
	free(w->nodes);
	hash_index_done(&w->string_index);
	hash_index_done(&w->function_index);
	hash_index_done(&w->node_index);
	for (size_t i = 0; i < w->thread_capacity; i++)
		buf_done(&w->threads[i].runs);
	free(w->threads);
	free(w->listed);
	free(w->bases);
	free(w);
}
