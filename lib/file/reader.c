/* SPDX-License-Identifier: Apache-2.0 */
#include "file/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/crc32c.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "wire/varint.h"

/* Set of identifiers that were defined, as a high-water mark: they count from 1
 * without holes, but a file may send them again. */
struct ids {
	uint32_t highest;
};

struct file_reader {
	/* Where bytes come from: a descriptor, or memory. */
	int fd;
	const uint8_t *memory;
	size_t memory_size;
	uint64_t offset;

	uint64_t chunk_offset; /* of the chunk in hand, for messages */
	unsigned char *stored;
	unsigned char *raw;
	size_t stored_capacity, raw_capacity;
	struct varint_reader records; /* of the chunk in hand */
	bool in_chunk;
	bool announced_header;
	uint32_t epoch;
	bool in_epoch;  /* a chunk has said which */
	bool new_epoch; /* to be announced */
	bool schema_seen;
	uint32_t columns;

	struct ids strings, functions, nodes, segments;
	uint32_t *thread_segment; /* by thread, 0: not defined */
	size_t thread_capacity;
	uint64_t *bases; /* by segment, of the chunk in hand */
	size_t base_capacity;

	/* A RUNS record in progress. */
	struct varint_reader runs;
	uint32_t run_thread;
	uint64_t run_end;

	/* What the record returned last borrows. */
	struct file_attribute *attributes;
	size_t attribute_capacity;
	struct file_counter *counters;
	size_t counter_capacity;
	uint64_t *late;
	size_t late_capacity;

	bool complete;
	bool ended;
	char damage[256];
};

/* --- bytes --- */

static ssize_t take_bytes(struct file_reader *r, void *to, size_t size)
{
	ssize_t n;

	if (r->memory != NULL) {
		size_t left = r->memory_size - (size_t)r->offset;

		n = (ssize_t)(size < left ? size : left);
		if (n != 0)
			memcpy(to, r->memory + r->offset, (size_t)n);
	} else {
		n = fd_read_full(r->fd, to, size);
	}
	if (n > 0)
		r->offset += (uint64_t)n;
	return n;
}

static uint64_t get_le(const unsigned char *p, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)p[i] << (8 * i);
	return value;
}

__attribute__((format(printf, 2, 3))) static void damage(
	struct file_reader *r, const char *format, ...)
{
	va_list args;

	r->ended = true;
	if (r->damage[0] != '\0')
		return;
	va_start(args, format);
	(void)vsnprintf(r->damage, sizeof(r->damage), format, args);
	va_end(args);
}

static void damage_here(struct file_reader *r, const char *what)
{
	damage(r, "chunk at byte %llu: %s", (unsigned long long)r->chunk_offset, what);
}

/* --- headers and chunks --- */

static bool name_is_ours(const unsigned char *content)
{
	return memcmp(content, FILE_NAME, FILE_NAME_BYTES) == 0;
}

static void start_over(struct file_reader *r)
{
	r->strings.highest = r->functions.highest = r->nodes.highest = 0;
}

static void start_recording(struct file_reader *r)
{
	start_over(r);
	r->segments.highest = 0;
	if (r->thread_segment != NULL)
		memset(r->thread_segment, 0,
			r->thread_capacity * sizeof(*r->thread_segment));
	r->epoch = 0;
	r->in_epoch = false;
	r->schema_seen = false;
	r->complete = false;
	r->announced_header = false;
}

/* The content of a file header, checked; 0 or a negative code. */
static int check_header(const unsigned char *h, struct err *err)
{
	uint64_t major = get_le(h + 8, 2), minor = get_le(h + 10, 2);

	if (!name_is_ours(h))
		return err_set(err, -E_BADFORMAT, "is not a pystack sample file");
	if (crc32c(h, FILE_HEADER_BYTES - 4) != get_le(h + FILE_HEADER_BYTES - 4, 4))
		return err_set(err, -E_BADFORMAT, "the file header is damaged");
	if (major != FILE_MAJOR)
		return err_set(err, -E_UNSUPPORTED,
			"has format %llu.%llu; this pystack reads format %d",
			(unsigned long long)major, (unsigned long long)minor,
			FILE_MAJOR);
	return 0;
}

static int read_first_header(struct file_reader *r, struct err *err)
{
	unsigned char head[FILE_SKIPPABLE_BYTES + FILE_HEADER_BYTES];
	ssize_t n = take_bytes(r, head, sizeof(head));

	if (n < 0)
		return err_set(err, (int)n, "%s", strerror(-(int)n));
	if (n == 0)
		return err_set(err, -E_BADFORMAT, "is empty");
	if (n < FILE_SKIPPABLE_BYTES || get_le(head, 4) != FILE_MAGIC_HEADER)
		return err_set(err, -E_BADFORMAT, "is not a pystack sample file");
	if (n != sizeof(head))
		return err_set(err, -E_TRUNCATED, "ends within the file header");
	if (get_le(head + 4, 4) != FILE_HEADER_BYTES)
		return err_set(err, -E_BADFORMAT, "is not a pystack sample file");
	start_recording(r);
	return check_header(head + FILE_SKIPPABLE_BYTES, err);
}

static void grow_bytes(unsigned char **p, size_t *capacity, size_t size)
{
	if (size <= *capacity)
		return;
	*p = xrealloc(*p, size);
	*capacity = size;
}

/* The data frame behind a chunk header; false when it ends the reading. */
static bool read_data(struct file_reader *r, const unsigned char *h)
{
	uint32_t stored = (uint32_t)get_le(h + 8, 4), raw = (uint32_t)get_le(h + 12, 4);

	if (crc32c(h, FILE_CHUNK_BYTES - 4) != get_le(h + FILE_CHUNK_BYTES - 4, 4)) {
		damage_here(r, "the chunk header's checksum differs");
		return false;
	}
	if (stored > FILE_STORED_MAX || raw > FILE_RAW_MAX) {
		damage_here(r, "is larger than the format allows");
		return false;
	}
	grow_bytes(&r->stored, &r->stored_capacity, stored);
	/* Never NULL, not even for no records at all. */
	grow_bytes(&r->raw, &r->raw_capacity, (size_t)raw + 1);
	ssize_t n = take_bytes(r, r->stored, stored);

	if (n < 0) {
		damage_here(r, strerror(-(int)n));
		return false;
	}
	if (n != (ssize_t)stored) {
		damage_here(r, "the file ends here");
		return false;
	}
	size_t got = ZSTD_decompress(r->raw, raw, r->stored, stored);

	if (ZSTD_isError(got) || got != raw) {
		damage_here(r, ZSTD_isError(got) ? ZSTD_getErrorName(got)
						 : "holds less than its header says");
		return false;
	}
	r->records = (struct varint_reader){ .at = r->raw, .end = r->raw + raw };
	r->in_chunk = true;
	return true;
}

/* The content of the chunk header; then its data. */
static bool read_chunk(struct file_reader *r)
{
	unsigned char h[FILE_CHUNK_BYTES];
	ssize_t n = take_bytes(r, h, sizeof(h));

	if (n != sizeof(h)) {
		damage_here(r, n < 0 ? strerror(-(int)n) : "the file ends here");
		return false;
	}
	if (!read_data(r, h))
		return false;
	uint32_t epoch = (uint32_t)get_le(h + 4, 4);

	if (epoch < r->epoch) {
		damage_here(r, "belongs to an epoch that is over");
		return false;
	}
	if (r->in_epoch && epoch != r->epoch) {
		r->new_epoch = true;
		start_over(r);
	}
	r->epoch = epoch;
	r->in_epoch = true;
	if (r->bases != NULL)
		memset(r->bases, 0xff, r->base_capacity * sizeof(*r->bases));
	return true;
}

/* The next header or chunk; false at the end. */
static bool read_frame(struct file_reader *r)
{
	unsigned char head[FILE_SKIPPABLE_BYTES], h[FILE_HEADER_BYTES];
	struct err err;

	r->chunk_offset = r->offset;
	ssize_t n = take_bytes(r, head, sizeof(head));

	if (n == 0) {
		r->ended = true;
		return false;
	}
	if (n != sizeof(head)) {
		damage_here(r, n < 0 ? strerror(-(int)n) : "the file ends here");
		return false;
	}
	uint64_t magic = get_le(head, 4), size = get_le(head + 4, 4);

	if (magic == FILE_MAGIC_CHUNK && size == FILE_CHUNK_BYTES)
		return read_chunk(r);
	if (magic != FILE_MAGIC_HEADER || size != FILE_HEADER_BYTES) {
		damage_here(r, "does not begin like one");
		return false;
	}
	n = take_bytes(r, h, sizeof(h));
	if (n != sizeof(h)) {
		damage_here(r, n < 0 ? strerror(-(int)n) : "the file ends here");
		return false;
	}
	if (check_header(h, &err) != 0) {
		damage_here(r, err.text);
		return false;
	}
	start_recording(r);
	return true;
}

/* --- records --- */

static struct file_text get_text(struct varint_reader *v)
{
	struct file_text t = { .size = varint_get_max(v, FILE_TEXT_MAX) };

	if (v->bad || t.size > (size_t)(v->end - v->at)) {
		v->bad = true;
		return (struct file_text){ "", 0 };
	}
	t.bytes = (const char *)v->at;
	v->at += t.size;
	return t;
}

/* A line, or a distance between two: Python has 32 bits for them. */
static int64_t get_line(struct varint_reader *v)
{
	int64_t line = varint_get_signed(v);

	if (line < INT32_MIN || line > INT32_MAX) {
		v->bad = true;
		return 0;
	}
	return line;
}

/* One relative to a function's first: 0 is none, the first one follows it. */
static int64_t get_relative_line(struct varint_reader *v)
{
	int64_t line = get_line(v);

	return line == 0 ? FILE_NO_LINE : line > 0 ? line - 1 : line;
}

static void get_bytes(struct varint_reader *v, void *to, size_t size)
{
	if (v->bad || size > (size_t)(v->end - v->at)) {
		v->bad = true;
		memset(to, 0, size);
		return;
	}
	memcpy(to, v->at, size);
	v->at += size;
}

/* A reference to something defined: 0 only where none is allowed. */
static uint32_t get_ref(struct varint_reader *v, uint32_t highest, bool none_allowed)
{
	uint32_t id = varint_get_max(v, highest);

	if (id == 0 && !none_allowed)
		v->bad = true;
	return id;
}

/* The number of a definition: at most one above what is there, within a limit. */
static uint32_t get_new(struct varint_reader *v, struct ids *ids, uint32_t limit)
{
	uint32_t id = varint_get_max(v, limit);

	if (id == 0 || id > ids->highest + 1) {
		v->bad = true;
		return 0;
	}
	if (id > ids->highest)
		ids->highest = id;
	return id;
}

static uint32_t get_thread(struct file_reader *r, struct varint_reader *v)
{
	uint32_t thread = varint_get_max(v, FILE_THREADS_MAX);

	if (thread >= r->thread_capacity || r->thread_segment[thread] == 0) {
		v->bad = true;
		return 0;
	}
	return thread;
}

static uint64_t base_of(
	struct file_reader *r, struct varint_reader *v, uint32_t segment)
{
	if (segment >= r->base_capacity || r->bases[segment] == UINT64_MAX) {
		v->bad = true;
		return 0;
	}
	return r->bases[segment];
}

static void get_schema(struct file_reader *r, struct varint_reader *v)
{
	r->columns = varint_get_max(v, 64);
	for (uint32_t i = 0; i < r->columns; i++) {
		(void)get_text(v);
		(void)get_text(v);
	}
	if (r->columns < 5)
		v->bad = true;
	r->schema_seen = true;
}

static void get_segment(
	struct file_reader *r, struct varint_reader *v, struct file_segment *s)
{
	*s = (struct file_segment){ 0 };
	s->segment = get_new(v, &r->segments, FILE_SEGMENTS_MAX);
	get_bytes(v, s->id, sizeof(s->id));
	s->parent = get_ref(v, r->segments.highest, true);
	s->why = varint_get_max(v, 255);
	s->pid = varint_get_max(v, INT32_MAX);
	s->inner_pid = varint_get_max(v, INT32_MAX);
	s->mono_ns = varint_get(v);
	s->real_ns = varint_get(v);
	s->interval_ns = varint_get(v);
	s->flags = varint_get_max(v, UINT32_MAX);
	s->attribute_count = varint_get_max(v, FILE_ATTRS_MAX);
	for (uint32_t i = 0; i < s->attribute_count && !v->bad; i++) {
		r->attributes = xgrow(r->attributes, i, &r->attribute_capacity,
			sizeof(*r->attributes));
		r->attributes[i].name = get_text(v);
		r->attributes[i].value = get_text(v);
	}
	s->attributes = r->attributes;
}

static uint32_t get_counters(struct file_reader *r, struct varint_reader *v)
{
	uint32_t count = varint_get_max(v, 1024);

	for (uint32_t i = 0; i < count && !v->bad; i++) {
		r->counters = xgrow(
			r->counters, i, &r->counter_capacity, sizeof(*r->counters));
		r->counters[i].name = get_text(v);
		r->counters[i].value = varint_get(v);
	}
	return count;
}

static void get_thread_definition(
	struct file_reader *r, struct varint_reader *v, struct file_thread *t)
{
	t->thread = varint_get_max(v, FILE_THREADS_MAX);
	t->segment = get_ref(v, r->segments.highest, false);
	t->tid = varint_get_max(v, INT32_MAX);
	t->python_id = varint_get(v);
	t->interpreter = varint_get(v);
	t->name = get_text(v);
	if (t->thread == 0)
		v->bad = true;
	if (v->bad)
		return;
	while (t->thread >= r->thread_capacity) {
		size_t old = r->thread_capacity;

		r->thread_segment = xgrow(r->thread_segment, r->thread_capacity,
			&r->thread_capacity, sizeof(*r->thread_segment));
		memset(r->thread_segment + old, 0,
			(r->thread_capacity - old) * sizeof(*r->thread_segment));
	}
	uint32_t *known = &r->thread_segment[t->thread];

	/* A thread stays with its segment. */
	if (*known != 0 && *known != t->segment)
		v->bad = true;
	*known = t->segment;
}

static void get_ticks(
	struct file_reader *r, struct varint_reader *v, struct file_ticks *t)
{
	t->segment = get_ref(v, r->segments.highest, false);
	t->first = varint_get(v);
	t->count = varint_get(v);
	t->start_ns = varint_get(v);
	t->length_ns = varint_get(v);
	t->flags = varint_get_max(v, UINT32_MAX);
	t->subset_of = t->subset = 0;
	if ((t->flags & FILE_TICKS_SUBSET) != 0) {
		t->subset_of = varint_get_max(v, FILE_THREADS_MAX);
		t->subset = varint_get_max(v, FILE_THREADS_MAX);
		v->bad |= t->subset == 0 || t->subset > t->subset_of;
	}
	t->late_count = varint_get_max(v, FILE_RAW_MAX);
	if (t->count == 0 || t->count > UINT32_MAX || t->first > UINT64_MAX / 4 ||
		t->start_ns > INT64_MAX / 2 ||
		t->length_ns > INT64_MAX / 4 / (t->count + 1) ||
		t->late_count > t->count)
		v->bad = true;
	uint64_t tick = t->first;

	for (uint32_t i = 0; i < t->late_count && !v->bad; i++) {
		uint64_t step = varint_get(v);

		r->late = xgrow(r->late, i, &r->late_capacity, sizeof(*r->late));
		if (step >= t->count - (tick - t->first))
			v->bad = true;
		tick += step;
		r->late[i] = tick;
	}
	t->late = r->late;
}

static void get_base(struct file_reader *r, struct varint_reader *v)
{
	uint32_t segment = get_ref(v, r->segments.highest, false);
	uint64_t tick = varint_get(v);

	if (v->bad || tick > UINT64_MAX / 4) {
		v->bad = true;
		return;
	}
	while (segment >= r->base_capacity) {
		size_t old = r->base_capacity;

		r->bases = xgrow(r->bases, r->base_capacity, &r->base_capacity,
			sizeof(*r->bases));
		memset(r->bases + old, 0xff,
			(r->base_capacity - old) * sizeof(*r->bases));
	}
	r->bases[segment] = tick;
}

static void start_runs(struct file_reader *r, struct varint_reader *v)
{
	r->run_thread = get_thread(r, v);
	if (!v->bad)
		r->run_end = base_of(r, v, r->thread_segment[r->run_thread]);
	if (!v->bad)
		r->runs = *v;
}

/* The next run of the RUNS record in progress. */
static bool next_run(struct file_reader *r, struct file_run *run)
{
	struct varint_reader *v = &r->runs;

	if (v->at >= v->end)
		return false;
	uint64_t head = varint_get(v);
	uint64_t skip = (head & FILE_RUN_SKIP) != 0 ? varint_get(v) : 0;

	run->thread = r->run_thread;
	run->state = (uint32_t)head & FILE_RUN_STATE_MASK;
	run->ticks = (head >> FILE_RUN_TICKS_SHIFT) + 1;
	run->first = r->run_end + skip;
	run->node = get_ref(v, r->nodes.highest, false);
	run->line = get_relative_line(v);
	for (uint32_t i = 5; i < r->columns; i++)
		(void)varint_get(v);
	if (v->bad || skip > UINT64_MAX / 8 || run->first > UINT64_MAX / 4 ||
		run->ticks > UINT32_MAX) {
		damage_here(r, "a run cannot be read");
		return false;
	}
	r->run_end = run->first + run->ticks;
	return true;
}

/* A member that a writer may leave out at the end of a record: 0 then. */
static uint64_t get_added(struct varint_reader *v)
{
	return v->at < v->end ? varint_get(v) : 0;
}

static void get_cpu(struct file_reader *r, struct varint_reader *v, struct file_cpu *c)
{
	c->thread = get_thread(r, v);
	c->tick = varint_get(v);
	c->cpu_ns = varint_get(v);
	c->run_count = varint_get(v);
	c->flags = (uint32_t)get_added(v);
	c->delay_ns = get_added(v);
	c->lost = get_added(v);
	if (v->bad || c->tick > UINT64_MAX / 8)
		v->bad = true;
	else
		c->tick += base_of(r, v, r->thread_segment[c->thread]);
}

static void get_timer(
	struct file_reader *r, struct varint_reader *v, struct file_timer *t)
{
	t->thread = get_thread(r, v);
	t->tick = varint_get(v);
	t->node = get_ref(v, r->nodes.highest, false);
	t->line = get_relative_line(v);
	t->state = varint_get_max(v, REC_STATE_MAX);
	t->cpu_ns = varint_get(v);
	t->samples = varint_get_max(v, UINT32_MAX);
	if (v->bad || t->tick > UINT64_MAX / 8 || t->cpu_ns > INT64_MAX / 4)
		v->bad = true;
	else
		t->tick += base_of(r, v, r->thread_segment[t->thread]);
}

static void get_copy(
	struct file_reader *r, struct varint_reader *v, struct file_copy *c)
{
	c->segment = get_ref(v, r->segments.highest, false);
	c->mono_ns = varint_get(v);
	c->state = varint_get_max(v, 255);
	c->flags = varint_get_max(v, UINT32_MAX);
	c->warmup_ns = varint_get(v);
	for (size_t i = 0; i < 2; i++) {
		c->owner[i] = varint_get(v);
		c->mapping[i] = get_text(v);
	}
}

static void get_timers(
	struct file_reader *r, struct varint_reader *v, struct file_timers *t)
{
	t->segment = get_ref(v, r->segments.highest, false);
	t->mono_ns = varint_get(v);
	t->state = varint_get_max(v, 255);
	t->detail = varint_get_max(v, UINT32_MAX);
	t->blocked = varint_get_max(v, UINT32_MAX);
	t->owner = varint_get(v);
	t->mapping = get_text(v);
}

/* Decode the payload v of a record of this type.  Sets v->bad when it does not fit;
 * returns false when the record is not one to be returned. */
static bool decode(struct file_reader *r, unsigned type, struct varint_reader *v,
	struct file_record *ret)
{
	ret->type = type;
	switch (type) {
	case FILE_SCHEMA:
		get_schema(r, v);
		return false;
	case FILE_SEGMENT:
		get_segment(r, v, &ret->segment);
		return true;
	case FILE_SEGMENT_END:
		ret->segment_end.segment = get_ref(v, r->segments.highest, false);
		ret->segment_end.why = varint_get_max(v, 255);
		ret->segment_end.status = varint_get(v);
		ret->segment_end.mono_ns = varint_get(v);
		ret->segment_end.counter_count = get_counters(r, v);
		ret->segment_end.counters = r->counters;
		return true;
	case FILE_STRING:
		ret->id = get_new(v, &r->strings, FILE_IDS_MAX);
		ret->string = get_text(v);
		return true;
	case FILE_FUNCTION: {
		unsigned char hash[8];

		ret->id = get_new(v, &r->functions, FILE_IDS_MAX);
		ret->function.file = get_ref(v, r->strings.highest, false);
		ret->function.name = get_ref(v, r->strings.highest, false);
		ret->function.first_line = get_line(v);
		get_bytes(v, hash, sizeof(hash));
		ret->function.table_hash = get_le(hash, 8);
		ret->function.flags = varint_get_max(v, UINT32_MAX);
		return true;
	}
	case FILE_NODE: {
		uint32_t highest = r->nodes.highest;

		ret->id = get_new(v, &r->nodes, FILE_IDS_MAX);
		/* A caller stands before what it calls. */
		ret->node.caller =
			get_ref(v, ret->id <= highest ? ret->id - 1 : highest, true);
		ret->node.call_line = get_relative_line(v);
		ret->node.kind = varint_get_max(v, 255);
		ret->node.ref = ret->node.kind == REC_NODE_PYTHON
					? get_ref(v, r->functions.highest, false)
					: varint_get_max(v, UINT32_MAX);
		return true;
	}
	case FILE_THREAD:
		get_thread_definition(r, v, &ret->thread);
		return true;
	case FILE_THREAD_END:
		ret->thread_end.thread = get_thread(r, v);
		ret->thread_end.tick = varint_get(v);
		return true;
	case FILE_BASE:
		get_base(r, v);
		return false;
	case FILE_TICKS:
		get_ticks(r, v, &ret->ticks);
		return true;
	case FILE_RUNS:
		start_runs(r, v);
		return false;
	case FILE_CPU:
		get_cpu(r, v, &ret->cpu);
		return true;
	case FILE_TIMER:
		get_timer(r, v, &ret->timer);
		return true;
	case FILE_PHASE:
		ret->phase.segment = get_ref(v, r->segments.highest, false);
		ret->phase.phase = varint_get_max(v, 255);
		ret->phase.tick = varint_get(v);
		return true;
	case FILE_COPY:
		get_copy(r, v, &ret->copy);
		return true;
	case FILE_TIMERS:
		get_timers(r, v, &ret->timers);
		return true;
	case FILE_GAP:
		ret->gap.segment = get_ref(v, r->segments.highest, false);
		ret->gap.from_ns = varint_get(v);
		ret->gap.to_ns = varint_get(v);
		ret->gap.reason = varint_get_max(v, 255);
		return true;
	case FILE_CLOCK:
		ret->clock.segment = get_ref(v, r->segments.highest, false);
		ret->clock.mono_ns = varint_get(v);
		ret->clock.real_ns = varint_get(v);
		return true;
	case FILE_COUNTERS:
		ret->counters.segment = get_ref(v, r->segments.highest, false);
		ret->counters.count = get_counters(r, v);
		ret->counters.counters = r->counters;
		return true;
	case FILE_MARK:
		ret->mark.real_ns = varint_get(v);
		ret->mark.text = get_text(v);
		return true;
	case FILE_SUMMARY:
		ret->summary.segments = varint_get(v);
		ret->summary.samples = varint_get(v);
		ret->summary.lost = varint_get(v);
		ret->summary.mono_ns = varint_get(v);
		ret->summary.elapsed_ns = get_added(v);
		ret->summary.recorder_cpu_ns = get_added(v);
		r->complete = !v->bad;
		return true;
	default:
		if ((type & FILE_OPTIONAL) == 0)
			damage(r,
				"chunk at byte %llu: a record of type %u, which this "
				"pystack does not know; a newer one wrote the file",
				(unsigned long long)r->chunk_offset, type);
		return false;
	}
}

/* The next record of the chunk in hand; false at its end. */
static bool next_record(struct file_reader *r, struct file_record *ret)
{
	while (r->records.at < r->records.end && !r->ended) {
		uint32_t size = varint_get_max(&r->records, FILE_RAW_MAX);
		size_t left = (size_t)(r->records.end - r->records.at);

		if (r->records.bad || size == 0 || size > left) {
			damage_here(r, "a record's length cannot be");
			return false;
		}
		struct varint_reader v = { .at = r->records.at + 1,
			.end = r->records.at + size };
		unsigned type = *r->records.at;

		r->records.at += size;
		if (type != FILE_SCHEMA && !r->schema_seen) {
			damage_here(r, "does not begin with a schema");
			return false;
		}
		bool got = decode(r, type, &v, ret);

		if (v.bad) {
			damage(r,
				"chunk at byte %llu: a record of type %u cannot be read",
				(unsigned long long)r->chunk_offset, type);
			return false;
		}
		if (type == FILE_RUNS && next_run(r, &ret->run))
			return true;
		if (got)
			return true;
	}
	return false;
}

enum file_event file_reader_next(struct file_reader *r, struct file_record *ret)
{
	for (;;) {
		if (!r->announced_header) {
			r->announced_header = true;
			return FILE_EVENT_HEADER;
		}
		if (r->ended)
			return FILE_EVENT_END;
		if (r->new_epoch) {
			r->new_epoch = false;
			return FILE_EVENT_EPOCH;
		}
		if (r->in_chunk) {
			ret->type = FILE_RUNS;
			if (r->runs.at < r->runs.end && next_run(r, &ret->run))
				return FILE_EVENT_RECORD;
			if (next_record(r, ret))
				return FILE_EVENT_RECORD;
			r->in_chunk = false;
			r->runs = (struct varint_reader){ 0 };
			return FILE_EVENT_FLUSH;
		}
		if (!read_frame(r) && r->ended)
			return FILE_EVENT_END;
	}
}

/* --- the rest --- */

static struct file_reader *new_reader(void)
{
	struct file_reader *r = xcalloc(1, sizeof(*r));

	r->fd = -1;
	return r;
}

int file_reader_open(const char *path, struct file_reader **ret_reader, struct err *err)
{
	struct file_reader *r = new_reader();
	struct err why;
	struct stat st;

	r->fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				       : open(path, O_RDONLY | O_CLOEXEC);
	int code = r->fd < 0 ? err_set(&why, -errno, "%s", strerror(errno)) : 0;

	if (code == 0 && fstat(r->fd, &st) == 0 && S_ISDIR(st.st_mode))
		code = err_set(&why, -EISDIR, "is a directory");
	if (code == 0)
		code = read_first_header(r, &why);
	if (code != 0) {
		file_reader_free(r);
		return err_set(err, code, "%s: %s", path, why.text);
	}
	*ret_reader = r;
	return 0;
}

int file_reader_open_bytes(const void *bytes, size_t size,
	struct file_reader **ret_reader, struct err *err)
{
	static const uint8_t nothing[1];
	struct file_reader *r = new_reader();

	r->memory = size != 0 ? bytes : nothing;
	r->memory_size = size;
	int code = read_first_header(r, err);

	if (code != 0) {
		file_reader_free(r);
		return code;
	}
	*ret_reader = r;
	return 0;
}

const char *file_reader_damage(const struct file_reader *r)
{
	return r->damage[0] != '\0' ? r->damage : NULL;
}

bool file_reader_complete(const struct file_reader *r)
{
	return r->complete;
}

uint64_t file_reader_offset(const struct file_reader *r)
{
	return r->offset;
}

void file_reader_free(struct file_reader *r)
{
	if (r == NULL)
		return;
	fd_close(&r->fd);
	free(r->stored);
	free(r->raw);
	free(r->thread_segment);
	free(r->bases);
	free(r->attributes);
	free(r->counters);
	free(r->late);
	free(r);
}
