/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/xalloc.h"

/* Changes that are kept of a segment; there are a handful. */
enum { MOST_COPIES = 64 };

struct string {
	char *text;
	size_t size;
	uint64_t hash;
};

/* A node of the file: the stack of its callers, each where it calls, and itself. */
struct node {
	uint32_t callers; /* stack */
	uint32_t kind;
	uint32_t function; /* of the model; or what the kind says */
};

/* Numbers of the file to numbers of the model; the file's count from 1. */
struct map {
	uint32_t *to;
	size_t count, capacity;
};

struct model {
	struct string *strings;
	size_t string_count, string_capacity;
	struct hash_index string_index;
	struct model_function *functions;
	size_t function_count, function_capacity;
	struct hash_index function_index;
	struct hash_index symbol_index; /* of the first functions of that name */
	struct model_frame *frames;
	size_t frame_count, frame_capacity;
	struct hash_index frame_index;
	struct model_stack *stacks;
	size_t stack_count, stack_capacity;
	struct hash_index stack_index;
	struct model_segment *segments;
	size_t segment_count, segment_capacity;
	struct hash_index segment_index; /* by id */
	struct model_thread *threads;
	size_t thread_count, thread_capacity;
	struct hash_index thread_index; /* by segment and number in the file */
	struct model_mark *marks;
	size_t mark_count, mark_capacity;
	struct model_recorder recorder;
	uint32_t recordings;

	/* Of the epoch and recording in hand. */
	struct map string_map, function_map, segment_map, thread_map;
	struct node *nodes;
	size_t node_count, node_capacity;
};

struct model *model_new(void)
{
	struct model *m = xcalloc(1, sizeof(*m));

	/* The empty stack. */
	m->stacks = xgrow(m->stacks, 0, &m->stack_capacity, sizeof(*m->stacks));
	m->stacks[m->stack_count++] = (struct model_stack){ 0, 0, 0 };
	return m;
}

static void free_segment(struct model_segment *s)
{
	for (size_t i = 0; i < s->attribute_count; i++) {
		free(s->attributes[i].name);
		free(s->attributes[i].value);
	}
	free(s->attributes);
	for (size_t i = 0; i < s->counter_count; i++)
		free(s->counters[i].name);
	free(s->counters);
	for (size_t i = 0; i < s->copy_count; i++) {
		free(s->copies[i].mapping[0]);
		free(s->copies[i].mapping[1]);
	}
	free(s->copies);
	free(s->timers.mapping);
	free(s->comm);
}

void model_free(struct model *m)
{
	if (m == NULL)
		return;
	for (size_t i = 0; i < m->string_count; i++)
		free(m->strings[i].text);
	free(m->strings);
	hash_index_done(&m->string_index);
	free(m->functions);
	hash_index_done(&m->function_index);
	hash_index_done(&m->symbol_index);
	free(m->frames);
	hash_index_done(&m->frame_index);
	free(m->stacks);
	hash_index_done(&m->stack_index);
	for (size_t i = 0; i < m->segment_count; i++)
		free_segment(&m->segments[i]);
	free(m->segments);
	hash_index_done(&m->segment_index);
	for (size_t i = 0; i < m->thread_count; i++)
		free(m->threads[i].name);
	free(m->threads);
	hash_index_done(&m->thread_index);
	for (size_t i = 0; i < m->mark_count; i++)
		free(m->marks[i].text);
	free(m->marks);
	free(m->string_map.to);
	free(m->function_map.to);
	free(m->segment_map.to);
	free(m->thread_map.to);
	free(m->nodes);
	free(m);
}

/* --- looking --- */

size_t model_segment_count(const struct model *m)
{
	return m->segment_count;
}

const struct model_segment *model_segment(const struct model *m, uint32_t number)
{
	return &m->segments[number];
}

size_t model_thread_count(const struct model *m)
{
	return m->thread_count;
}

const struct model_thread *model_thread(const struct model *m, uint32_t number)
{
	return &m->threads[number];
}

const struct model_function *model_function(const struct model *m, uint32_t number)
{
	return &m->functions[number];
}

size_t model_function_count(const struct model *m)
{
	return m->function_count;
}

const struct model_frame *model_frame(const struct model *m, uint32_t number)
{
	return &m->frames[number];
}

const struct model_stack *model_stack(const struct model *m, uint32_t number)
{
	return &m->stacks[number];
}

size_t model_stack_count(const struct model *m)
{
	return m->stack_count;
}

struct model_recorder model_recorder(const struct model *m)
{
	return m->recorder;
}

size_t model_mark_count(const struct model *m)
{
	return m->mark_count;
}

const struct model_mark *model_mark(const struct model *m, size_t number)
{
	return &m->marks[number];
}

int64_t model_mark_ns(const struct model_mark *mark, const struct model_segment *s)
{
	return (int64_t)(mark->real_ns + (uint64_t)s->clock_offset);
}

const char *model_attribute(const struct model_segment *s, const char *name)
{
	for (size_t i = 0; i < s->attribute_count; i++)
		if (strcmp(s->attributes[i].name, name) == 0)
			return s->attributes[i].value;
	return NULL;
}

bool model_has_waiting(const struct model *m)
{
	size_t without = 0;

	for (size_t i = 0; i < m->segment_count; i++)
		without += (m->segments[i].flags & FILE_SEGMENT_ONCPU) != 0;
	return m->segment_count == 0 || without != m->segment_count;
}

bool model_has_timers(const struct model *m)
{
	for (size_t i = 0; i < m->segment_count; i++)
		if (model_attribute(&m->segments[i], "cpu-timer") != NULL)
			return true;
	return false;
}

uint64_t model_counter(const struct model_segment *s, const char *name)
{
	for (size_t i = 0; i < s->counter_count; i++)
		if (strcmp(s->counters[i].name, name) == 0)
			return s->counters[i].value;
	return 0;
}

bool model_is_thread(const struct model_segment *s)
{
	const char *isolation = model_attribute(s, "isolation");

	return isolation != NULL && strcmp(isolation, "thread") == 0;
}

const struct model_copy *model_copy_now(const struct model_segment *s)
{
	return s->copy_count != 0 ? &s->copies[s->copy_count - 1] : NULL;
}

const char *model_special_name(const struct model_frame *f, char *text, size_t size)
{
	switch (f->kind) {
	case MODEL_TRUNCATED:
		(void)snprintf(text, size, "[truncated: %u+ frames]", f->missing);
		return text;
	case MODEL_UNREADABLE:
		return "[unreadable]";
	case MODEL_NOT_SAMPLED:
		return "[cpu not sampled]";
	case MODEL_GC:
		return "[gc]";
	case MODEL_NO_FRAME:
		return "[no Python frame]";
	case MODEL_PYTHON:
		break;
	}
	return "[?]";
}

/* --- interning --- */

static uint64_t hash_of_string(uint32_t entry, const void *context)
{
	return ((const struct model *)context)->strings[entry].hash;
}

static uint32_t intern_string(struct model *m, const char *text, size_t size)
{
	uint64_t hash = hash_bytes(text, size);
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&m->string_index, &at, &entry)) {
		const struct string *s = &m->strings[entry];

		if (s->hash == hash && s->size == size &&
			memcmp(s->text, text, size) == 0)
			return entry;
	}
	m->strings = xgrow(
		m->strings, m->string_count, &m->string_capacity, sizeof(*m->strings));
	entry = (uint32_t)m->string_count++;
	m->strings[entry] = (struct string){ xmemdup0(text, size), size, hash };
	hash_index_add(&m->string_index, hash, entry, hash_of_string, m);
	return entry;
}

static uint64_t hash_symbol(const struct model_function *f)
{
	/* Interned, so that addresses tell strings apart. */
	uint64_t h = hash_mix((uintptr_t)f->name, (uintptr_t)f->file);

	return hash_mix(h, (uint64_t)f->first_line);
}

static uint64_t hash_of_symbol(uint32_t entry, const void *context)
{
	return hash_symbol(&((const struct model *)context)->functions[entry]);
}

static bool is_same_symbol(
	const struct model_function *a, const struct model_function *b)
{
	return a->name == b->name && a->file == b->file &&
	       a->first_line == b->first_line;
}

/* The number of the first function that looks like one; its own, if that is new. */
static uint32_t symbol_of(struct model *m, uint32_t function)
{
	const struct model_function *f = &m->functions[function];
	uint32_t at = (uint32_t)hash_symbol(f), entry;

	while (hash_index_next(&m->symbol_index, &at, &entry))
		if (is_same_symbol(&m->functions[entry], f))
			return entry;
	hash_index_add(&m->symbol_index, hash_symbol(f), function, hash_of_symbol, m);
	return function;
}

static uint64_t hash_function(const struct model_function *f)
{
	return hash_mix(hash_symbol(f), f->table_hash);
}

static uint64_t hash_of_function(uint32_t entry, const void *context)
{
	return hash_function(&((const struct model *)context)->functions[entry]);
}

static uint32_t intern_function(struct model *m, const struct model_function *f)
{
	uint64_t hash = hash_function(f);
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&m->function_index, &at, &entry)) {
		const struct model_function *k = &m->functions[entry];

		if (is_same_symbol(k, f) && k->table_hash == f->table_hash)
			return entry;
	}
	m->functions = xgrow(m->functions, m->function_count, &m->function_capacity,
		sizeof(*m->functions));
	entry = (uint32_t)m->function_count++;
	m->functions[entry] = *f;
	m->functions[entry].symbol = symbol_of(m, entry);
	hash_index_add(&m->function_index, hash, entry, hash_of_function, m);
	return entry;
}

static uint64_t hash_frame(const struct model_frame *f)
{
	return hash_mix(hash_mix(f->kind, f->function),
		(uint64_t)f->line ^ ((uint64_t)f->missing << 40));
}

static uint64_t hash_of_frame(uint32_t entry, const void *context)
{
	return hash_frame(&((const struct model *)context)->frames[entry]);
}

static uint32_t intern_frame(struct model *m, const struct model_frame *f)
{
	uint64_t hash = hash_frame(f);
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&m->frame_index, &at, &entry)) {
		const struct model_frame *k = &m->frames[entry];

		if (k->kind == f->kind && k->function == f->function &&
			k->line == f->line && k->missing == f->missing)
			return entry;
	}
	m->frames = xgrow(
		m->frames, m->frame_count, &m->frame_capacity, sizeof(*m->frames));
	entry = (uint32_t)m->frame_count++;
	m->frames[entry] = *f;
	hash_index_add(&m->frame_index, hash, entry, hash_of_frame, m);
	return entry;
}

static uint64_t hash_stack(uint32_t parent, uint32_t frame)
{
	return hash_mix(parent, frame);
}

static uint64_t hash_of_stack(uint32_t entry, const void *context)
{
	const struct model_stack *s = &((const struct model *)context)->stacks[entry];

	return hash_stack(s->parent, s->frame);
}

static uint32_t intern_stack(struct model *m, uint32_t parent, uint32_t frame)
{
	uint64_t hash = hash_stack(parent, frame);
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&m->stack_index, &at, &entry))
		if (m->stacks[entry].parent == parent &&
			m->stacks[entry].frame == frame)
			return entry;
	m->stacks = xgrow(
		m->stacks, m->stack_count, &m->stack_capacity, sizeof(*m->stacks));
	entry = (uint32_t)m->stack_count++;
	m->stacks[entry] = (struct model_stack){
		.parent = parent,
		.frame = frame,
		.depth = m->stacks[parent].depth + 1,
	};
	hash_index_add(&m->stack_index, hash, entry, hash_of_stack, m);
	return entry;
}

/* --- building --- */

/* Enter the model's number of the file's id; ids come without holes. */
static void map_set(struct map *map, uint32_t id, uint32_t number)
{
	while (map->count < id) {
		map->to = xgrow(map->to, map->count, &map->capacity, sizeof(*map->to));
		map->to[map->count++] = 0;
	}
	map->to[id - 1] = number;
}

void model_epoch(struct model *m)
{
	m->string_map.count = m->function_map.count = m->node_count = 0;
}

void model_recording(struct model *m)
{
	model_epoch(m);
	m->recordings++;
	m->segment_map.count = m->thread_map.count = 0;
}

void model_add_string(struct model *m, uint32_t id, const struct file_text *text)
{
	map_set(&m->string_map, id, intern_string(m, text->bytes, text->size));
}

void model_add_function(struct model *m, uint32_t id, const struct file_function *f)
{
	struct model_function k = {
		.name = m->strings[m->string_map.to[f->name - 1]].text,
		.file = m->strings[m->string_map.to[f->file - 1]].text,
		.first_line = f->first_line,
		.table_hash = f->table_hash,
	};

	map_set(&m->function_map, id, intern_function(m, &k));
}

/* The frame of a node that stands at a line relative to its function's first. */
static uint32_t frame_of(struct model *m, const struct node *n, int64_t line)
{
	struct model_frame f = { .kind = MODEL_PYTHON };

	switch (n->kind) {
	case REC_NODE_PYTHON:
		f.function = n->function;
		if (line != FILE_NO_LINE)
			f.line = m->functions[n->function].first_line + line;
		break;
	case REC_NODE_TRUNCATED:
		f.kind = MODEL_TRUNCATED;
		f.missing = n->function;
		break;
	case REC_NODE_NO_FRAME:
		f.kind = MODEL_NO_FRAME;
		break;
	default:
		f.kind = MODEL_UNREADABLE;
		break;
	}
	return intern_frame(m, &f);
}

void model_add_node(struct model *m, uint32_t id, const struct file_node *n)
{
	struct node k = {
		.kind = n->kind,
		.function = n->kind == REC_NODE_PYTHON ? m->function_map.to[n->ref - 1]
						       : n->ref,
	};

	if (n->caller != 0) {
		const struct node *caller = &m->nodes[n->caller - 1];

		k.callers = intern_stack(
			m, caller->callers, frame_of(m, caller, n->call_line));
	}
	while (m->node_count < id) {
		m->nodes = xgrow(
			m->nodes, m->node_count, &m->node_capacity, sizeof(*m->nodes));
		m->nodes[m->node_count++] = (struct node){ 0 };
	}
	m->nodes[id - 1] = k;
}

static char *copy_text(const struct file_text *t)
{
	return xmemdup0(t->bytes, t->size);
}

static uint64_t hash_id(const uint8_t *id)
{
	return hash_bytes(id, FILE_ID_BYTES);
}

static uint64_t hash_of_segment(uint32_t entry, const void *context)
{
	return hash_id(((const struct model *)context)->segments[entry].id);
}

/* The segment that this one continues; false when it has not been read. */
static bool find_beginning(
	const struct model *m, const struct file_segment *s, uint32_t *ret)
{
	uint32_t at = (uint32_t)hash_id(s->id), entry;

	if ((s->flags & FILE_SEGMENT_CONTINUED) == 0)
		return false;
	while (hash_index_next(&m->segment_index, &at, &entry))
		if (memcmp(m->segments[entry].id, s->id, FILE_ID_BYTES) == 0) {
			*ret = entry;
			return true;
		}
	return false;
}

static void continue_segment(struct model_segment *s)
{
	s->ended = false;
	for (size_t i = 0; i < s->counter_count; i++)
		s->counters[i].before = s->counters[i].value;
}

void model_add_segment(struct model *m, const struct file_segment *s)
{
	uint32_t number;

	if (find_beginning(m, s, &number)) {
		continue_segment(&m->segments[number]);
		map_set(&m->segment_map, s->segment, number);
		return;
	}
	struct model_segment k = {
		.continued = (s->flags & FILE_SEGMENT_CONTINUED) != 0,
		.pid = s->pid,
		.inner_pid = s->inner_pid,
		.parent = s->parent != 0 && s->parent <= m->segment_map.count
				  ? m->segment_map.to[s->parent - 1] + 1
				  : 0,
		.why = s->why,
		.mono_ns = s->mono_ns,
		.real_ns = s->real_ns,
		.interval_ns = s->interval_ns,
		.flags = s->flags,
		.clock_offset = (int64_t)(s->mono_ns - s->real_ns),
		.attribute_count = s->attribute_count,
	};

	k.attributes = xcalloc(s->attribute_count, sizeof(*k.attributes));
	for (uint32_t i = 0; i < s->attribute_count; i++) {
		k.attributes[i].name = copy_text(&s->attributes[i].name);
		k.attributes[i].value = copy_text(&s->attributes[i].value);
	}
	const char *command = model_attribute(&k, "arg");
	const char *slash = command != NULL ? strrchr(command, '/') : NULL;

	k.comm = xstrdup(slash != NULL ? slash + 1 : command != NULL ? command : "?");
	m->segments = xgrow(m->segments, m->segment_count, &m->segment_capacity,
		sizeof(*m->segments));
	memcpy(k.id, s->id, sizeof(k.id));
	number = (uint32_t)m->segment_count++;
	m->segments[number] = k;
	hash_index_add(&m->segment_index, hash_id(k.id), number, hash_of_segment, m);
	map_set(&m->segment_map, s->segment, number);
}

/* The stratum in force is none, nor is the most of something at a time. */
static bool is_sum(const struct file_counter *c)
{
	static const char *const none[] = { "stratum", "lost-threads" };

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (c->name.size == strlen(none[i]) &&
			memcmp(c->name.bytes, none[i], c->name.size) == 0)
			return false;
	return true;
}

static void set_counter(struct model_segment *s, const struct file_counter *c)
{
	for (size_t i = 0; i < s->counter_count; i++)
		if (strlen(s->counters[i].name) == c->name.size &&
			memcmp(s->counters[i].name, c->name.bytes, c->name.size) == 0) {
			s->counters[i].value =
				is_sum(c) ? s->counters[i].before + c->value : c->value;
			return;
		}
	s->counters = xgrow(s->counters, s->counter_count, &s->counter_capacity,
		sizeof(*s->counters));
	s->counters[s->counter_count++] =
		(struct model_counter){ copy_text(&c->name), c->value, 0 };
}

void model_add_counters(struct model *m, uint32_t segment,
	const struct file_counter *list, uint32_t count)
{
	struct model_segment *s = &m->segments[model_segment_of_file(m, segment)];

	for (uint32_t i = 0; i < count; i++)
		set_counter(s, &list[i]);
}

void model_end_segment(struct model *m, const struct file_segment_end *e)
{
	struct model_segment *s = &m->segments[model_segment_of_file(m, e->segment)];

	s->ended = true;
	s->end_why = e->why;
	s->end_status = e->status;
	s->end_mono_ns = e->mono_ns;
	model_add_counters(m, e->segment, e->counters, e->counter_count);
}

static uint64_t hash_thread(uint32_t segment, uint32_t number)
{
	return hash_mix(segment, number);
}

static uint64_t hash_of_thread(uint32_t entry, const void *context)
{
	const struct model_thread *t = &((const struct model *)context)->threads[entry];

	return hash_thread(t->segment, t->number);
}

/* The thread as it was in another part of the recording; NULL when it was not. */
static struct model_thread *find_thread(
	const struct model *m, const struct model_thread *k)
{
	uint32_t at = (uint32_t)hash_thread(k->segment, k->number), entry;

	while (hash_index_next(&m->thread_index, &at, &entry)) {
		struct model_thread *t = &m->threads[entry];

		if (t->segment == k->segment && t->number == k->number &&
			t->tid == k->tid && t->python_id == k->python_id)
			return t;
	}
	return NULL;
}

void model_add_thread(struct model *m, const struct file_thread *t)
{
	uint32_t segment = model_segment_of_file(m, t->segment);
	const struct model_segment *s = &m->segments[segment];
	struct model_thread k = {
		.segment = segment,
		.number = t->thread,
		.tid = t->tid,
		.python_id = t->python_id,
		.interpreter = t->interpreter,
		.name = copy_text(&t->name),
		.main = t->tid == (s->inner_pid != 0 ? s->inner_pid : s->pid),
	};

	/* Said again: a new name. */
	if (t->thread <= m->thread_map.count && m->thread_map.to[t->thread - 1] != 0) {
		struct model_thread *old =
			&m->threads[m->thread_map.to[t->thread - 1] - 1];

		free(old->name);
		old->name = k.name;
		return;
	}
	struct model_thread *earlier = find_thread(m, &k);

	if (earlier != NULL) {
		if (k.name[0] != '\0') {
			free(earlier->name);
			earlier->name = k.name;
		} else {
			free(k.name);
		}
		map_set(&m->thread_map, t->thread,
			(uint32_t)(earlier - m->threads) + 1);
		return;
	}
	m->threads = xgrow(
		m->threads, m->thread_count, &m->thread_capacity, sizeof(*m->threads));
	m->threads[m->thread_count] = k;
	hash_index_add(&m->thread_index, hash_thread(k.segment, k.number),
		(uint32_t)m->thread_count++, hash_of_thread, m);
	/* Plus 1: threads of a file may have holes. */
	map_set(&m->thread_map, t->thread, (uint32_t)m->thread_count);
}

void model_add_account(struct model *m, const struct file_cpu *c)
{
	struct model_thread *t = &m->threads[model_thread_of_file(m, c->thread)];

	/* What was lost before the beginning of a file that is not there is not of it.
	 */
	if (!t->accounted && !m->segments[t->segment].continued)
		t->lost = c->lost;
	else if (t->accounted && c->lost > t->last_lost)
		t->lost += c->lost - t->last_lost;
	/* What lies before the first one, in a pause, or between two files was not
	 * sampled. */
	if (t->accounted && t->recording == m->recordings &&
		(c->flags & FILE_CPU_ANEW) == 0) {
		if (c->cpu_ns > t->last_cpu_ns)
			t->cpu_ns += c->cpu_ns - t->last_cpu_ns;
		if (c->delay_ns > t->last_delay_ns)
			t->delay_ns += c->delay_ns - t->last_delay_ns;
		if (c->run_count > t->last_runs)
			t->runs += c->run_count - t->last_runs;
	}
	t->accounted = true;
	t->coarse |= (c->flags & FILE_CPU_COARSE) != 0;
	t->last_delay_ns = c->delay_ns;
	t->last_runs = c->run_count;
	t->last_cpu_ns = c->cpu_ns;
	t->last_lost = c->lost;
	t->recording = m->recordings;
}

void model_add_ticks(struct model *m, const struct file_ticks *t)
{
	struct model_segment *s = &m->segments[model_segment_of_file(m, t->segment)];

	s->ticks_ns += t->count * t->length_ns;
	if ((t->flags & FILE_TICKS_LIMITED) != 0)
		s->limited_ns += t->count * t->length_ns;
	if (t->length_ns > s->longest_ns)
		s->longest_ns = t->length_ns;
}

void model_add_summary(struct model *m, const struct file_summary *s)
{
	m->recorder.elapsed_ns += s->elapsed_ns;
	m->recorder.cpu_ns += s->recorder_cpu_ns;
}

static bool is_same_copy(const struct model_copy *a, const struct file_copy *b)
{
	return a->state == b->state && a->flags == b->flags &&
	       a->owner[0] == b->owner[0] && a->owner[1] == b->owner[1];
}

/* It is told again where a part ends or begins. */
void model_add_copy(struct model *m, const struct file_copy *c)
{
	struct model_segment *s = &m->segments[model_segment_of_file(m, c->segment)];
	struct model_copy *now =
		s->copy_count != 0 ? &s->copies[s->copy_count - 1] : NULL;

	if (now == NULL || (!is_same_copy(now, c) && s->copy_count < MOST_COPIES)) {
		s->copies = xgrow(s->copies, s->copy_count, &s->copy_capacity,
			sizeof(*s->copies));
		now = &s->copies[s->copy_count++];
		*now = (struct model_copy){ .mono_ns = c->mono_ns };
	}
	now->state = c->state;
	now->flags = c->flags;
	now->warmup_ns = c->warmup_ns;
	for (size_t i = 0; i < 2; i++) {
		/* What is told last may be told when nobody can look any more. */
		if (now->mapping[i] == NULL || now->owner[i] != c->owner[i] ||
			c->mapping[i].size != 0) {
			free(now->mapping[i]);
			now->mapping[i] = copy_text(&c->mapping[i]);
		}
		now->owner[i] = c->owner[i];
	}
}

/* It is told again where a part begins. */
void model_add_timers(struct model *m, const struct file_timers *t)
{
	struct model_timers *now =
		&m->segments[model_segment_of_file(m, t->segment)].timers;

	free(now->mapping);
	*now = (struct model_timers){
		.told = true,
		.mono_ns = t->mono_ns,
		.state = t->state,
		.detail = t->detail,
		.blocked = t->blocked,
		.owner = t->owner,
		.mapping = copy_text(&t->mapping),
	};
}

void model_add_gap(struct model *m, const struct file_gap *g)
{
	struct model_segment *s = &m->segments[model_segment_of_file(m, g->segment)];

	if (g->reason < REC_GAP_COUNT && g->to_ns > g->from_ns)
		s->gap_ns[g->reason] += g->to_ns - g->from_ns;
}

void model_add_mark(struct model *m, const struct file_mark *mark)
{
	m->marks = xgrow(m->marks, m->mark_count, &m->mark_capacity, sizeof(*m->marks));
	m->marks[m->mark_count++] =
		(struct model_mark){ mark->real_ns, copy_text(&mark->text) };
}

void model_add_clock(struct model *m, const struct file_clock *c)
{
	m->segments[model_segment_of_file(m, c->segment)].clock_offset =
		(int64_t)(c->mono_ns - c->real_ns);
}

struct model_thread *model_thread_life(struct model *m, uint32_t number)
{
	return &m->threads[number];
}

uint32_t model_segment_of_file(const struct model *m, uint32_t id)
{
	return m->segment_map.to[id - 1];
}

uint32_t model_thread_of_file(const struct model *m, uint32_t id)
{
	return m->thread_map.to[id - 1] - 1;
}

uint32_t model_stack_of_run(struct model *m, uint32_t node, int64_t line)
{
	const struct node *n = &m->nodes[node - 1];

	return intern_stack(m, n->callers, frame_of(m, n, line));
}

uint32_t model_special_stack(
	struct model *m, uint32_t stack, enum model_frame_kind kind)
{
	struct model_frame f = { .kind = kind };

	return intern_stack(m, stack, intern_frame(m, &f));
}
