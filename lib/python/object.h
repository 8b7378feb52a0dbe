/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYTHON_OBJECT_H
#define PYTHON_OBJECT_H

/*
 * Reading keys of dicts, attributes of instances, ints and short strings by a layout.
 * The same code serves the core and the recorder; whoever includes this defines PY_MEM
 * and its loads first, as frame.h says, and may define PY_FUNCTION to keep functions
 * out of line.
 *
 * Nothing here is trusted: every count has a limit, and what an address leads to may be
 * anything.  Whether what comes out is true is for the caller to find out.
 */

#include <stdbool.h>
#include <stdint.h>

#include "python/layout.h"
#include "python/unicode.h"

#ifndef PY_FUNCTION
#	define PY_FUNCTION static inline
#endif

enum {
	PY_KEYS_MAX = 1 << 17,
	PY_ATTRIBUTES_MAX =
		256, /* of one object; its class may have shared keys for 30 */
	PY_TYPE_INLINE_VALUES = 1 << 2, /* tp_flags, 3.13 and later */
	PY_TYPE_MANAGED_DICT = 1 << 4,  /* likewise, 3.11 and later */
	PY_OFFSET_MAX = 4096,           /* of a dict or values in an instance */
	PY_INT_DIGIT_BITS = 30,
	PY_INT_DIGITS_MAX = 3,
};

/* Where a keys object has its entries. */
struct py_keys {
	uint64_t entries;
	uint32_t count;
	uint32_t entry_bytes;
	uint32_t key_offset; /* in an entry; the value follows */
};

PY_FUNCTION bool py_keys_read(
	PY_MEM m, const struct py_layout *l, uint64_t keys, struct py_keys *k)
{
	uint64_t count, size;
	uint8_t log2 = 0, kind = 0;

	if (!py_mem_load64(m, keys + l->keys_count, &count) || count > PY_KEYS_MAX)
		return false;
	k->entries = keys + l->keys_indices;
	if (l->keys_size != PY_NONE) {
		if (!py_mem_load64(m, keys + l->keys_size, &size) ||
			size > PY_KEYS_MAX * 2)
			return false;
		k->entries += size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : 4);
	} else {
		if (!py_mem_load8(m, keys + l->keys_log2_index_bytes, &log2) ||
			!py_mem_load8(m, keys + l->keys_kind, &kind) || log2 > 24)
			return false;
		k->entries += 1ull << log2;
	}
	k->count = (uint32_t)count;
	k->key_offset = kind == 0 ? 8 : 0;
	k->entry_bytes = k->key_offset + 16;
	return true;
}

/* Keys and what belongs to them: of a dict, or of an instance's attributes. */
struct py_items {
	uint64_t keys_object;
	struct py_keys keys;
	uint64_t values; /* where the first value is; 0: they stand with the keys */
};

PY_FUNCTION bool py_items_of_dict(
	PY_MEM m, const struct py_layout *l, uint64_t dict, struct py_items *ret)
{
	if (!py_mem_load64(m, dict + l->dict_keys, &ret->keys_object) ||
		!py_mem_load64(m, dict + l->dict_values, &ret->values))
		return false;
	if (ret->values != 0)
		ret->values += l->values_first;
	return py_keys_read(m, l, ret->keys_object, &ret->keys);
}

/* Values that are laid out by the keys which the instances of a type share. */
PY_FUNCTION bool py_items_of_values(PY_MEM m, const struct py_layout *l, uint64_t type,
	uint64_t values, struct py_items *ret)
{
	ret->values = values + l->values_first;
	return py_mem_load64(m, type + l->type_cached_keys, &ret->keys_object) &&
	       py_keys_read(m, l, ret->keys_object, &ret->keys);
}

/* Before 3.11 an instance says by its type where it has its dict. */
PY_FUNCTION bool py_items_by_offset(PY_MEM m, const struct py_layout *l,
	uint64_t object, uint64_t type, struct py_items *ret)
{
	uint64_t offset, dict;

	return py_mem_load64(m, type + l->type_dictoffset, &offset) &&
	       offset <= PY_OFFSET_MAX && py_mem_load64(m, object + offset, &dict) &&
	       py_items_of_dict(m, l, dict, ret);
}

/* The attributes of an instance of a class that is written in Python. */
PY_FUNCTION bool py_items_of_instance(
	PY_MEM m, const struct py_layout *l, uint64_t object, struct py_items *ret)
{
	uint64_t type, flags, word;

	if (!py_mem_load64(m, object + l->ob_type, &type))
		return false;
	if (l->ob_dict == PY_NONE)
		return py_items_by_offset(m, l, object, type, ret);
	if (!py_mem_load64(m, type + l->type_flags, &flags) ||
		(flags & PY_TYPE_MANAGED_DICT) == 0)
		return false;
	if (l->ob_values != PY_NONE) {
		if (!py_mem_load64(m, object - l->ob_values, &word))
			return false;
		if (word != 0)
			return py_items_of_values(m, l, type, word, ret);
	}
	if (!py_mem_load64(m, object - l->ob_dict, &word))
		return false;
	if ((l->flags & PY_VALUES_TAGGED) != 0 && (word & 1) != 0)
		return py_items_of_values(m, l, type, word + 1, ret);
	if (word != 0)
		return py_items_of_dict(m, l, word, ret);
	if ((l->flags & PY_VALUES_INLINE) == 0 ||
		(flags & PY_TYPE_INLINE_VALUES) == 0 ||
		!py_mem_load64(m, type + l->type_basicsize, &word) ||
		word > PY_OFFSET_MAX)
		return false;
	return py_items_of_values(m, l, type, object + word, ret);
}

PY_FUNCTION bool py_item_key(
	PY_MEM m, const struct py_items *items, uint32_t index, uint64_t *ret)
{
	const struct py_keys *k = &items->keys;

	return py_mem_load64(
		m, k->entries + (uint64_t)index * k->entry_bytes + k->key_offset, ret);
}

/* 0: there is none. */
PY_FUNCTION bool py_item_value(
	PY_MEM m, const struct py_items *items, uint32_t index, uint64_t *ret)
{
	const struct py_keys *k = &items->keys;

	return py_mem_load64(m,
		items->values != 0 ? items->values + (uint64_t)index * 8
				   : k->entries + (uint64_t)index * k->entry_bytes +
					     k->key_offset + 8,
		ret);
}

/* The characters of a str object. */
PY_FUNCTION bool py_text_read(
	PY_MEM m, const struct py_layout *l, uint64_t address, struct py_text *ret)
{
	uint64_t length;
	uint32_t state;

	return py_mem_load64(m, address + l->str_length, &length) &&
	       py_mem_load32(m, address + l->str_state, &state) &&
	       py_text_of(l, address, length, state, ret);
}

/* Do its last characters read so?  end: ASCII, size characters. */
PY_FUNCTION bool py_text_ends(
	PY_MEM m, const struct py_text *t, const char *end, uint32_t size)
{
	uint64_t at = t->data + t->bytes - (uint64_t)size * t->width;

	if (t->bytes / t->width < size)
		return false;
	for (uint32_t i = 0; i < size; i++)
		for (uint32_t j = 0; j < t->width; j++) {
			uint8_t byte;

			if (!py_mem_load8(m, at++, &byte) ||
				byte != (j == 0 ? (uint8_t)end[i] : 0))
				return false;
		}
	return true;
}

PY_FUNCTION bool py_text_is(
	PY_MEM m, const struct py_text *t, const char *text, uint32_t size)
{
	return t->bytes == (uint64_t)size * t->width && py_text_ends(m, t, text, size);
}

/* The index of the item of that name, false when there is none. */
PY_FUNCTION bool py_item_find(PY_MEM m, const struct py_layout *l,
	const struct py_items *items, const char *name, uint32_t size, uint32_t *ret)
{
	for (uint32_t i = 0; i < items->keys.count; i++) {
		uint64_t key;
		struct py_text t;

		if (!py_item_key(m, items, i, &key))
			return false;
		if (key != 0 && py_text_read(m, l, key, &t) &&
			py_text_is(m, &t, name, size)) {
			*ret = i;
			return true;
		}
	}
	return false;
}

/* A non-negative int object of up to 64 bits. */
PY_FUNCTION bool py_int_read(
	PY_MEM m, const struct py_layout *l, uint64_t address, uint64_t *ret)
{
	uint64_t digits, value = 0;

	if (!py_mem_load64(m, address + l->int_tag, &digits))
		return false;
	if ((l->flags & PY_INT_TAGGED) != 0) {
		if ((digits & 3) == 2)
			return false;
		digits >>= 3;
	}
	if (digits > PY_INT_DIGITS_MAX)
		return false;
	for (uint32_t i = 0; i < digits; i++) {
		uint32_t digit;

		if (!py_mem_load32(m, address + l->int_digits + i * 4ull, &digit))
			return false;
		value |= (uint64_t)digit << (PY_INT_DIGIT_BITS * i);
	}
	*ret = value;
	return true;
}

#endif
