/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/pynames.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "proc/mem.h"
#include "proc/pymem.h"
#include "proc/pytext.h"

#include "python/object.h"

enum {
	MAX_NAME_BYTES = 4096,
	MAX_INTERPRETERS = 8192, /* steps along the list: beyond it, it is a loop */
	SHAPES = 8,
	HEAD_BYTES = 128, /* of a str object: more than the offsets of any version */
};

#define NO_INDEX UINT32_MAX

struct name {
	uint64_t interpreter;
	uint64_t python_id;
	uint64_t tid; /* 0: not known */
	char *text;
};

struct pynames {
	struct name *name; /* by python_id */
	size_t count, capacity;
};

/* Where objects with these keys have what is asked for. */
struct shape {
	uint64_t keys;
	uint32_t name, native_id; /* NO_INDEX: nowhere */
};

struct scan {
	struct proc_mem mem;
	const struct py_layout *l;
	uint64_t interpreter; /* its id */
	struct shape shapes[SHAPES];
	unsigned next_shape;
};

static bool get(struct scan *s, uint64_t address, uint64_t *ret)
{
	return py_mem_load64(&s->mem, address, ret);
}

/* The items of a dict with values of its own, in one piece: key and value of each. */
struct pairs {
	unsigned char *bytes; /* owned */
	struct py_keys keys;
};

static bool get_pairs(struct scan *s, uint64_t dict, struct pairs *ret)
{
	struct py_items items;

	if (!py_items_of_dict(&s->mem, s->l, dict, &items) || items.values != 0 ||
		items.keys.count == 0)
		return false;
	size_t size = (size_t)items.keys.count * items.keys.entry_bytes;

	ret->keys = items.keys;
	ret->bytes = xmalloc(size);
	if (proc_mem_read(&s->mem, items.keys.entries, ret->bytes, size) == 0)
		return true;
	free(ret->bytes);
	return false;
}

static void pair_at(
	const struct pairs *p, uint32_t index, uint64_t *ret_key, uint64_t *ret_value)
{
	const unsigned char *at =
		p->bytes + (size_t)index * p->keys.entry_bytes + p->keys.key_offset;

	memcpy(ret_key, at, sizeof(*ret_key));
	memcpy(ret_value, at + 8, sizeof(*ret_value));
}

/* Is it this string?  With a single read, as a dict of modules has a thousand keys. */
static bool is_text(struct scan *s, uint64_t object, const char *text)
{
	unsigned char head[HEAD_BYTES];
	size_t size = strlen(text);
	uint64_t length;
	uint32_t state;
	struct py_text t;

	if (object < 0x10000 || proc_mem_read_some(&s->mem, object, head,
					sizeof(head)) < s->l->str_ascii_data + size)
		return false;
	memcpy(&length, head + s->l->str_length, sizeof(length));
	memcpy(&state, head + s->l->str_state, sizeof(state));
	return length == size && py_text_of(s->l, 0, length, state, &t) &&
	       t.data == s->l->str_ascii_data && memcmp(head + t.data, text, size) == 0;
}

/* dict[name], 0 when not there. */
static uint64_t dict_get(struct scan *s, uint64_t dict, const char *name)
{
	uint64_t key, value, found = 0;
	struct pairs p;

	if (!get_pairs(s, dict, &p))
		return 0;
	for (uint32_t i = 0; i < p.keys.count && found == 0; i++) {
		pair_at(&p, i, &key, &value);
		if (key != 0 && is_text(s, key, name))
			found = value;
	}
	free(p.bytes);
	return found;
}

static uint32_t index_of(
	struct scan *s, const struct py_items *items, const char *name, uint32_t size)
{
	uint32_t index;

	return py_item_find(&s->mem, s->l, items, name, size, &index) ? index
								      : NO_INDEX;
}

/* Threads of one class have their keys in common, which are gone through once. */
static const struct shape *shape_of(struct scan *s, const struct py_items *items)
{
	for (unsigned i = 0; i < SHAPES; i++)
		if (s->shapes[i].keys == items->keys_object)
			return &s->shapes[i];
	struct shape *k = &s->shapes[s->next_shape++ % SHAPES];

	*k = (struct shape){
		.keys = items->keys_object,
		.name = index_of(s, items, "_name", 5),
		.native_id = index_of(s, items, "_native_id", 10),
	};
	return k;
}

static uint64_t value_at(struct scan *s, const struct py_items *items, uint32_t index)
{
	uint64_t value;

	return index != NO_INDEX && index < items->keys.count &&
			       py_item_value(&s->mem, items, index, &value)
		       ? value
		       : 0;
}

/* An item of the dict threading._active. */
static void note_thread(
	struct scan *s, uint64_t key, uint64_t thread, struct pynames *names)
{
	struct name n = { .interpreter = s->interpreter };
	struct py_items items;

	if (!py_int_read(&s->mem, s->l, key, &n.python_id) ||
		!py_items_of_instance(&s->mem, s->l, thread, &items) ||
		items.keys.count > PY_ATTRIBUTES_MAX)
		return;
	const struct shape *k = shape_of(s, &items);
	uint64_t native = value_at(s, &items, k->native_id);

	if (native == 0 || !py_int_read(&s->mem, s->l, native, &n.tid))
		n.tid = 0;
	n.text = pytext_read(
		&s->mem, s->l, value_at(s, &items, k->name), MAX_NAME_BYTES);
	if (n.text == NULL)
		return;
	names->name = xgrow(
		names->name, names->count, &names->capacity, sizeof(*names->name));
	names->name[names->count++] = n;
}

static void note_threads(struct scan *s, uint64_t active, struct pynames *names)
{
	uint64_t key, value;
	struct pairs p;

	if (!get_pairs(s, active, &p))
		return;
	for (uint32_t i = 0; i < p.keys.count; i++) {
		pair_at(&p, i, &key, &value);
		if (key != 0 && value != 0)
			note_thread(s, key, value, names);
	}
	free(p.bytes);
}

static void read_interpreter(
	struct scan *s, uint64_t interpreter, struct pynames *names)
{
	uint64_t modules, threading, dict, active;

	if (get(s, interpreter + s->l->is_id, &s->interpreter) &&
		get(s, interpreter + s->l->is_modules, &modules) &&
		(threading = dict_get(s, modules, "threading")) != 0 &&
		get(s, threading + s->l->module_dict, &dict) &&
		(active = dict_get(s, dict, "_active")) != 0)
		note_threads(s, active, names);
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = ((const struct name *)a)->python_id;
	uint64_t y = ((const struct name *)b)->python_id;

	return x < y ? -1 : x > y;
}

struct pynames *pynames_read(pid_t pid, const struct python_found *python)
{
	struct scan s = { .l = &python->layout };
	struct pynames *names = xcalloc(1, sizeof(*names));
	uint64_t at, next;

	proc_mem_init(&s.mem, pid);
	if (!get(&s, python->runtime + s.l->rt_interpreters_head, &at))
		at = 0;
	for (unsigned i = 0; at != 0 && i < MAX_INTERPRETERS; i++, at = next) {
		read_interpreter(&s, at, names);
		if (!get(&s, at + s.l->is_next, &next) || next == at)
			break;
	}
	proc_mem_done(&s.mem);
	if (names->count != 0)
		qsort(names->name, names->count, sizeof(*names->name), compare_ids);
	return names;
}

/* The first with that id, or the place where it would be. */
static size_t first_of(const struct pynames *names, uint64_t python_id)
{
	size_t low = 0, high = names->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (names->name[middle].python_id < python_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What threading calls a thread that it meets but has not started. */
static bool is_stand_in(const char *name)
{
	return strncmp(name, "Dummy-", 6) == 0;
}

const char *pynames_find(const struct pynames *names, uint64_t interpreter,
	uint64_t python_id, uint32_t tid)
{
	const char *here = NULL, *elsewhere = NULL;

	for (size_t i = first_of(names, python_id);
		i < names->count && names->name[i].python_id == python_id; i++) {
		const struct name *n = &names->name[i];

		if (tid != 0 && n->tid != tid)
			continue;
		if (n->interpreter == interpreter)
			here = n->text;
		else if (!is_stand_in(n->text))
			elsewhere = n->text;
	}
	return here == NULL || (elsewhere != NULL && is_stand_in(here)) ? elsewhere
									: here;
}

void pynames_free(struct pynames *names)
{
	if (names == NULL)
		return;
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i].text);
	free(names->name);
	free(names);
}
