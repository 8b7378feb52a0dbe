/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings, code objects and nodes: each gets a number and is sent once an epoch.
 *
 * A code object is known by its address only together with its words (file name,
 * name, line table, first line, size): an address is used again at once, with the
 * same first line more often than not, but never with the same pointers.  Strings
 * are known by content.  What cannot be read whole, or not be sent, is not entered:
 * the sample that needed it is then cut or lost, and counted.
 */
#include "core/core-internal.h"
#include "python/unicode.h"

enum {
	MAX_BYTECODE = 64 << 20,
	EPOCH_SLACK = 64, /* entries kept free so that one tick always finds room */
};

static void table_full(struct core *c)
{
	c->epoch_full = true;
}

/* --- strings --- */

/* A string as it lies in the program. */
struct raw_string {
	uint64_t data;
	uint32_t bytes;
	uint32_t width; /* 0: a bytes object */
};

static bool unicode_at(struct core *c, uint64_t address, struct raw_string *s)
{
	const struct py_layout *l = &c->layout;
	uint64_t length;
	uint32_t state;
	struct py_text text;

	if (!load64(c, address + l->str_length, &length) ||
		!load32(c, address + l->str_state, &state) ||
		!py_text_of(l, address, length, state, &text))
		return false;
	s->width = text.width;
	s->data = text.data;
	s->bytes = text.bytes > REC_STRING_MAX ? REC_STRING_MAX : (uint32_t)text.bytes;
	return true;
}

static bool bytes_at(struct core *c, uint64_t address, struct raw_string *s)
{
	uint64_t size;

	if (!load64(c, address + c->layout.var_size, &size) || size >= 1u << 30)
		return false;
	s->width = 0;
	s->data = address + c->layout.bytes_data;
	s->bytes = size > REC_STRING_MAX ? REC_STRING_MAX : (uint32_t)size;
	return true;
}

static uint64_t hash_bytes(uint64_t h, const uint8_t *bytes, uint32_t size)
{
	uint64_t v;

	for (; size >= 8; size -= 8, bytes += 8) {
		memcpy(&v, bytes, 8);
		h = mix(h, v);
	}
	v = 0;
	for (uint32_t i = 0; i < size; i++)
		v |= (uint64_t)bytes[i] << (8 * i);
	return mix(h, v ^ ((uint64_t)size << 56));
}

static bool send_piece(struct core *c, uint32_t id, const struct raw_string *s,
	uint32_t offset, const uint8_t *bytes, uint32_t size)
{
	struct record r;

	record_begin(&r, REC_STRING);
	record_number(&r, id);
	record_number(&r, s->width);
	record_number(&r, s->bytes);
	record_number(&r, offset);
	memcpy(r.at, bytes, size);
	r.at += size;
	return record_put(c, &r, RING_RESERVE);
}

/* Hash the string piece by piece; with id, send each piece too. */
RARE static bool read_string(
	struct core *c, const struct raw_string *s, uint32_t id, uint64_t *ret_hash)
{
	uint64_t h = mix(s->width, s->bytes);

	for (uint32_t at = 0; at < s->bytes || at == 0; at += REC_STRING_PIECE) {
		uint32_t size = s->bytes - at;

		if (size > REC_STRING_PIECE)
			size = REC_STRING_PIECE;
		if (size != 0 && (!sane(s->data + at) || !load_bytes(c, c->scratch,
								 s->data + at, size)))
			return false;
		h = hash_bytes(h, c->scratch, size);
		if (id != 0 && !send_piece(c, id, s, at, c->scratch, size))
			return false;
		if (size == 0)
			break;
	}
	*ret_hash = h;
	return true;
}

/* The number of a string, sent when new; 0 when that cannot be. */
RARE static uint32_t string_get(struct core *c, const struct raw_string *s)
{
	uint64_t hash, sent;

	if (!read_string(c, s, 0, &hash))
		return 0;
	uint32_t i = (uint32_t)(hash >> 32) & (STRING_INDEX - 1);

	for (; c->string_index[i] != 0; i = (i + 1) & (STRING_INDEX - 1)) {
		struct string *known = &c->strings[c->string_index[i]];

		if (known->hash == hash && known->bytes == s->bytes &&
			known->width == s->width)
			return c->string_index[i];
	}
	if (c->string_count + EPOCH_SLACK >= MAX_STRINGS ||
		c->string_bytes + s->bytes > MAX_STRING_BYTES) {
		table_full(c);
		if (c->string_count >= MAX_STRINGS)
			return 0;
	}
	/* All pieces or none. */
	if (ring_room(&c->ring) < s->bytes + (s->bytes / REC_STRING_PIECE + 1) * 64)
		return 0;

	uint32_t id = ++c->string_count;

	c->string_bytes += s->bytes;
	if (!read_string(c, s, id, &sent))
		return 0;
	/* A number whose string changed while it was sent is never used. */
	if (sent != hash)
		return 0;
	c->strings[id] =
		(struct string){ .hash = hash, .bytes = s->bytes, .width = s->width };
	c->string_index[i] = (uint16_t)id;
	return id;
}

/* --- code objects --- */

/* The words by which a code object is known. */
static bool read_code(struct core *c, uint64_t address, struct code *k)
{
	const struct py_layout *l = &c->layout;
	uint64_t type;
	uint32_t name = l->co_qualname != PY_NONE ? l->co_qualname : l->co_name;

	if ((address & 7) != 0 || !sane(address) ||
		!load_sane64(c, address + l->ob_type, &type) ||
		type != c->options.code_type)
		return false;
	return load_sane64(c, address + l->co_filename, &k->filename) &&
	       load_sane64(c, address + name, &k->name) &&
	       load_sane64(c, address + l->co_linetable, &k->linetable) &&
	       load_sane32(c, address + l->co_firstlineno, &k->first_line);
}

/* What need not be read again while those words are equal. */
RARE static bool read_code_rest(struct core *c, uint64_t address, struct code *k)
{
	const struct py_layout *l = &c->layout;
	uint64_t size, at = address;
	uint64_t name;
	uint32_t words, stack;

	if ((l->flags & PY_CODE_IN_BYTES) != 0 &&
		!load64(c, address + l->co_bytecode, &at))
		return false;
	if (!load64(c, at + l->var_size, &size) ||
		!load32(c, address + l->co_flags, &k->flags) ||
		!load64(c, address + l->co_name, &name))
		return false;
	if ((l->flags & PY_CODE_IN_BYTES) == 0)
		size *= 2;
	if (size == 0 || size > MAX_BYTECODE)
		return false;
	k->frame_bytes = 0;
	if (l->co_framesize != PY_NONE) {
		if (!load32(c, address + l->co_framesize, &words))
			return false;
		k->frame_bytes = words * 8;
	} else if (l->co_nlocalsplus != PY_NONE) {
		if (!load32(c, address + l->co_nlocalsplus, &words) ||
			!load32(c, address + l->co_stacksize, &stack))
			return false;
		k->frame_bytes = (words + stack) * 8 + l->fr_localsplus;
	}
	k->address = address;
	k->checked = 0;
	k->entered = c->timers.round;
	k->bytes = (uint32_t)size;
	/* The frames that CPython pushes for specialised constructors (3.12 and later)
	 * run a code object whose name and file name are one object. */
	k->shim = (l->flags & PY_HAS_DATASTACK) != 0 && name == k->filename;
	k->defined = false;
	return true;
}

static bool same_words(const struct code *a, const struct code *b)
{
	return a->filename == b->filename && a->name == b->name &&
	       a->linetable == b->linetable && a->first_line == b->first_line;
}

bool code_holds(struct core *c, uint32_t code)
{
	struct code *k = &c->codes[code], now;

	if (k->checked != c->moment && read_code(c, k->address, &now) &&
		same_words(k, &now))
		k->checked = c->moment;
	return k->checked == c->moment;
}

uint32_t code_find(struct core *c, uint64_t address)
{
	struct code k;

	if (!read_code(c, address, &k))
		return 0;
	uint32_t i = (uint32_t)(mix(0, address) >> 32) & (CODE_INDEX - 1);

	for (; c->code_index[i] != 0; i = (i + 1) & (CODE_INDEX - 1)) {
		struct code *known = &c->codes[c->code_index[i]];

		if (known->address != address)
			continue;
		if (same_words(known, &k))
			return c->code_index[i];
		/* Another code object lies here now; it takes the old one's place in
		 * the index, under a number of its own. */
		break;
	}
	if (c->code_count + EPOCH_SLACK >= MAX_CODES) {
		table_full(c);
		if (c->code_count >= MAX_CODES)
			return 0;
	}
	if (!read_code_rest(c, address, &k))
		return 0;
	uint32_t id = ++c->code_count;

	c->codes[id] = k;
	c->code_index[i] = (uint16_t)id;
	return id;
}

/*
 * Is it still the living object it was?  A freed block has a link of the allocator
 * in its first word: nothing, or an address, where a count of references was.
 */
static bool code_lives(struct core *c, const struct code *k)
{
	struct code again;
	uint64_t references;

	copy_forget(c);
	return load64(c, k->address, &references) && (uint32_t)references != 0 &&
	       (references >> 40 == 0 ||
		       (references >> 40 != 0x7f && references >> 44 != 5)) &&
	       read_code(c, k->address, &again) && same_words(&again, k);
}

bool code_define(struct core *c, uint32_t code)
{
	struct code *k = &c->codes[code];
	struct raw_string file, name, lines;
	struct record r;

	if (k->defined)
		return true;
	if (!unicode_at(c, k->filename, &file) || !unicode_at(c, k->name, &name) ||
		!bytes_at(c, k->linetable, &lines))
		return false;
	uint32_t file_id = string_get(c, &file);
	uint32_t name_id = string_get(c, &name);
	uint32_t lines_id = string_get(c, &lines);

	if (file_id == 0 || name_id == 0 || lines_id == 0 || !code_lives(c, k))
		return false;
	record_begin(&r, REC_CODE);
	record_number(&r, code);
	record_number(&r, file_id);
	record_number(&r, name_id);
	record_number(&r, lines_id);
	record_number(&r, varint_fold((int32_t)k->first_line));
	record_number(&r, k->flags);
	k->defined = record_put(c, &r, RING_RESERVE);
	return k->defined;
}

/* --- nodes --- */

static uint32_t node_slot(uint32_t parent, uint32_t call, uint8_t kind, uint32_t ref)
{
	uint64_t h = mix(((uint64_t)parent << 32) | call, ((uint64_t)kind << 32) | ref);

	return (uint32_t)(h >> 32) & (NODE_INDEX - 1);
}

/* The place in the index where the node is, or would be. */
static uint32_t node_place(
	struct core *c, uint32_t parent, uint32_t call, uint8_t kind, uint32_t ref)
{
	uint32_t i = node_slot(parent, call, kind, ref);

	for (; c->node_index[i] != 0; i = (i + 1) & (NODE_INDEX - 1)) {
		const struct node *n = &c->nodes[c->node_index[i]];

		if (n->parent == parent && n->call == call && n->ref == ref &&
			n->kind == kind)
			break;
	}
	return i;
}

uint32_t node_find(
	struct core *c, uint32_t parent, uint32_t call, uint8_t kind, uint32_t ref)
{
	return c->node_index[node_place(c, parent, call, kind, ref)];
}

uint32_t node_make(
	struct core *c, uint32_t parent, uint32_t call, uint8_t kind, uint32_t ref)
{
	uint32_t i = node_place(c, parent, call, kind, ref);
	struct record r;

	if (c->node_index[i] != 0)
		return c->node_index[i];
	if (c->node_count + c->options.max_stack * 2 + EPOCH_SLACK >= MAX_NODES)
		table_full(c);
	if (c->node_count >= MAX_NODES)
		return 0;
	if (kind == REC_NODE_PYTHON && !code_define(c, ref))
		return 0;
	uint32_t id = c->node_count + 1;

	record_begin(&r, REC_NODE);
	record_number(&r, id);
	record_number(&r, parent);
	record_number(&r, call);
	record_number(&r, kind);
	record_number(&r, ref);
	if (!record_put(c, &r, RING_RESERVE))
		return 0;
	c->node_count = id;
	c->nodes[id] = (struct node){
		.parent = parent,
		.call = call,
		.ref = ref,
		.kind = kind,
		.known = kind != REC_NODE_PYTHON,
	};
	c->node_index[i] = (uint16_t)id;
	return id;
}

bool intern_new_epoch(struct core *c)
{
	struct record r;

	if (!c->epoch_full)
		return false;
	record_begin(&r, REC_EPOCH);
	record_number(&r, c->epoch + 1);
	if (!record_put(c, &r, 0))
		return false;
	c->epoch++;
	c->epoch_full = false;
	c->code_count = c->node_count = c->string_count = c->string_bytes = 0;
	memset(c->code_index, 0, CODE_INDEX * sizeof(c->code_index[0]));
	memset(c->node_index, 0, NODE_INDEX * sizeof(c->node_index[0]));
	memset(c->string_index, 0, STRING_INDEX * sizeof(c->string_index[0]));
	memset(c->path_cache, 0, PATH_CACHE * sizeof(c->path_cache[0]));
	walk_forget(c);
	/* Nodes have new numbers: runs begin anew with the next look. */
	for (uint32_t i = 0; i < c->thread_count; i++) {
		c->threads[i].in_run = false;
		kept_drop(c, &c->threads[i]);
	}
	count(c, RING_EPOCHS, 1);
	return true;
}
