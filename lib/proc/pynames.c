/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/pynames.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "proc/mem.h"
#include "proc/pytext.h"

enum {
	MAX_ENTRIES = 1 << 17, /* of a dict */
	MAX_NAME_BYTES = 4096,
	MAX_ATTRIBUTES = 256,

	/* To 3.10 (CPython: Objects/dict-common.h). */
	OLD_KEYS_SIZE = 8,
	OLD_KEYS_NENTRIES = 32,
	OLD_KEYS_INDICES = 40,
	/* From 3.11 on (CPython: Include/internal/pycore_dict.h). */
	KEYS_LOG2_SIZE = 8,
	KEYS_LOG2_INDEX_BYTES = 9,
	KEYS_KIND = 10, /* 0: entries with a hash */
	KEYS_NENTRIES = 24,
	KEYS_INDICES = 32,

	TYPE_INLINE_VALUES = 1 << 2, /* 3.13 and later */
	TYPE_MANAGED_DICT = 1 << 4,  /* 3.11 and later */

	INT_TAG = 16,
	INT_DIGITS = 24,
	INT_DIGIT_BITS = 30,
};

struct name {
	uint64_t python_id;
	uint64_t tid; /* 0: not known */
	char *text;
};

struct pynames {
	struct name *name;
	size_t count, capacity;
};

struct scan {
	struct proc_mem mem;
	const struct py_layout *l;
};

/* One key and value. */
typedef bool entry_function(
	struct scan *s, uint64_t key, uint64_t value, void *context);

static bool get(struct scan *s, uint64_t address, uint64_t *ret)
{
	return address >= 0x10000 && proc_mem_u64(&s->mem, address, ret);
}

static char *get_string(struct scan *s, uint64_t address)
{
	return pytext_read(&s->mem, s->l, address, MAX_NAME_BYTES);
}

static bool string_is(struct scan *s, uint64_t address, const char *wanted)
{
	_cleanup_free_ char *text = get_string(s, address);

	return text != NULL && strcmp(text, wanted) == 0;
}

/* A non-negative int object. */
static bool get_int(struct scan *s, uint64_t address, uint64_t *ret)
{
	uint64_t tag, digits;
	uint64_t value = 0;

	if (!get(s, address + INT_TAG, &tag))
		return false;
	if (s->l->version >= PY_VERSION_OF(3, 12)) {
		if ((tag & 3) == 2)
			return false;
		digits = tag >> 3;
	} else {
		digits = tag;
	}
	if (digits > 3)
		return false;
	for (uint64_t i = 0; i < digits; i++) {
		uint32_t digit;

		if (!proc_mem_u32(&s->mem, address + INT_DIGITS + i * 4, &digit))
			return false;
		value |= (uint64_t)digit << (INT_DIGIT_BITS * i);
	}
	*ret = value;
	return true;
}

/* Where a keys object has its entries. */
struct keys {
	uint64_t entries;
	uint64_t count;
	unsigned entry_bytes;
	unsigned key_offset; /* in an entry; the value follows */
};

static bool get_keys(struct scan *s, uint64_t keys, struct keys *k)
{
	uint64_t indices;

	if (s->l->version < PY_VERSION_OF(3, 11)) {
		uint64_t size;

		if (!get(s, keys + OLD_KEYS_SIZE, &size) ||
			!get(s, keys + OLD_KEYS_NENTRIES, &k->count) ||
			size > MAX_ENTRIES * 2)
			return false;
		unsigned width = size <= 0xff ? 1 : size <= 0xffff ? 2 : 4;

		indices = keys + OLD_KEYS_INDICES;
		k->entries = indices + size * width;
		k->entry_bytes = 24;
		k->key_offset = 8;
	} else {
		uint8_t head[3];

		if (proc_mem_read(&s->mem, keys + KEYS_LOG2_SIZE, head, sizeof(head)) !=
				0 ||
			!get(s, keys + KEYS_NENTRIES, &k->count) || head[1] > 24)
			return false;
		bool general = head[KEYS_KIND - KEYS_LOG2_SIZE] == 0;

		indices = keys + KEYS_INDICES;
		k->entries = indices + (1ull << head[1]);
		k->entry_bytes = general ? 24 : 16;
		k->key_offset = general ? 8 : 0;
	}
	return k->count <= MAX_ENTRIES;
}

/* Call f for each entry of a dict with its own values, until it returns true. */
static bool each_entry(struct scan *s, uint64_t dict, entry_function *f, void *context)
{
	uint64_t keys, values;
	struct keys k;

	if (!get(s, dict + s->l->dict_keys, &keys) ||
		!get(s, dict + s->l->dict_values, &values) || !get_keys(s, keys, &k))
		return false;
	size_t bytes = k.count * k.entry_bytes;
	_cleanup_free_ unsigned char *all = xmalloc(bytes);

	if (bytes == 0 || proc_mem_read(&s->mem, k.entries, all, bytes) != 0)
		return false;
	/* A split dict, as an instance's made from its attributes: its values stand
	 * apart; behind a word of counts from 3.13 on. */
	uint64_t first_value = values + (s->l->version >= PY_VERSION_OF(3, 13) ? 8 : 0);

	for (uint64_t i = 0; i < k.count; i++) {
		uint64_t key, value;

		memcpy(&key, all + i * k.entry_bytes + k.key_offset, sizeof(key));
		memcpy(&value, all + i * k.entry_bytes + k.key_offset + 8,
			sizeof(value));
		if (values != 0 && !get(s, first_value + i * 8, &value))
			return false;
		if (key != 0 && value != 0 && f(s, key, value, context))
			return true;
	}
	return false;
}

struct lookup {
	const char *name;
	uint64_t value;
};

static bool match_entry(struct scan *s, uint64_t key, uint64_t value, void *context)
{
	struct lookup *l = context;

	if (!string_is(s, key, l->name))
		return false;
	l->value = value;
	return true;
}

/* dict[name], 0 when not there. */
static uint64_t dict_get(struct scan *s, uint64_t dict, const char *name)
{
	struct lookup l = { .name = name };

	return each_entry(s, dict, match_entry, &l) ? l.value : 0;
}

/* An attribute among values that are laid out by the type's shared keys. */
static uint64_t shared_get(
	struct scan *s, uint64_t type, uint64_t values, const char *name)
{
	uint64_t keys;
	struct keys k;

	if (!get(s, type + s->l->type_cached_keys, &keys) || !get_keys(s, keys, &k))
		return 0;
	for (uint64_t i = 0; i < k.count && i < MAX_ATTRIBUTES; i++) {
		uint64_t key, value;

		if (get(s, k.entries + i * k.entry_bytes + k.key_offset, &key) &&
			key != 0 && string_is(s, key, name))
			return get(s, values + i * 8, &value) ? value : 0;
	}
	return 0;
}

/* An instance attribute of an object of a class written in Python. */
static uint64_t attribute(struct scan *s, uint64_t object, const char *name)
{
	const struct py_layout *l = s->l;
	uint64_t type, flags, dict = 0, word;

	if (!get(s, object + l->ob_type, &type) ||
		!get(s, type + l->type_flags, &flags))
		return 0;
	if (l->version < PY_VERSION_OF(3, 11)) {
		uint64_t offset;

		if (!get(s, type + l->type_dictoffset, &offset) || offset > 4096 ||
			!get(s, object + offset, &dict))
			return 0;
		return dict_get(s, dict, name);
	}
	if ((flags & TYPE_MANAGED_DICT) == 0)
		return 0;
	if (l->version == PY_VERSION_OF(3, 11)) {
		if (get(s, object - 32, &word) && word != 0)
			return shared_get(s, type, word, name);
		return get(s, object - 24, &dict) ? dict_get(s, dict, name) : 0;
	}
	if (!get(s, object - 24, &word))
		return 0;
	if (l->version == PY_VERSION_OF(3, 12))
		return (word & 1) != 0 ? shared_get(s, type, word + 1, name)
				       : dict_get(s, word, name);
	if (word != 0)
		return dict_get(s, word, name);
	if ((flags & TYPE_INLINE_VALUES) == 0 ||
		!get(s, type + l->type_basicsize, &word) || word > 4096)
		return 0;
	/* Behind a word of counts. */
	return shared_get(s, type, object + word + 8, name);
}

static bool note_thread(struct scan *s, uint64_t key, uint64_t value, void *context)
{
	struct pynames *names = context;
	uint64_t id, tid, name = attribute(s, value, "_name");
	uint64_t native = attribute(s, value, "_native_id");
	char *text;

	if (name == 0 || !get_int(s, key, &id))
		return false;
	if (native == 0 || !get_int(s, native, &tid))
		tid = 0;
	text = get_string(s, name);
	if (text == NULL)
		return false;
	names->name = xgrow(
		names->name, names->count, &names->capacity, sizeof(*names->name));
	names->name[names->count++] = (struct name){ id, tid, text };
	return false;
}

struct pynames *pynames_read(pid_t pid, const struct python_found *python)
{
	struct scan s = { .l = &python->layout };
	struct pynames *names = xcalloc(1, sizeof(*names));
	uint64_t interpreter, modules, threading, dict, active;

	proc_mem_init(&s.mem, pid);
	if (get(&s, python->runtime + s.l->rt_interpreters_head, &interpreter) &&
		get(&s, interpreter + s.l->is_modules, &modules) &&
		(threading = dict_get(&s, modules, "threading")) != 0 &&
		get(&s, threading + s.l->module_dict, &dict) &&
		(active = dict_get(&s, dict, "_active")) != 0)
		(void)each_entry(&s, active, note_thread, names);
	proc_mem_done(&s.mem);
	return names;
}

const char *pynames_find(const struct pynames *names, uint64_t python_id, uint32_t tid)
{
	for (size_t i = 0; i < names->count; i++) {
		const struct name *n = &names->name[i];

		if (n->python_id == python_id && (tid == 0 || n->tid == tid))
			return n->text;
	}
	return NULL;
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
