/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread is called, read when it enters the table, as it may be over soon.
 *
 * The outermost frame of a thread that the threading module has started runs
 * Thread._bootstrap, and its first local is the Thread object, which it keeps alive.
 * The object must know itself to be this very thread: a greenlet's outermost frame
 * looks the same.  That the frame is still there when the name has been copied proves
 * that none of it was freed meanwhile.
 *
 * The object learns who it is in the first microseconds of its thread, which may have
 * to wait for the GIL before that: then it is asked again when the thread is looked at.
 * Where there is no such frame, the kernel may have a name.  Names given later are
 * for the recorder to find.
 */
#include "core/core-internal.h"

/* Loads of python/object.h, out of line: this must be small rather than fast. */
#define PY_MEM      struct core *
#define OUTLINE     static __attribute__((noinline, unused))
#define PY_FUNCTION OUTLINE

OUTLINE bool py_mem_load64(PY_MEM m, uint64_t address, uint64_t *ret)
{
	return load64(m, address, ret);
}

OUTLINE bool py_mem_load32(PY_MEM m, uint64_t address, uint32_t *ret)
{
	return load32(m, address, ret);
}

OUTLINE bool py_mem_load8(PY_MEM m, uint64_t address, uint8_t *ret)
{
	return sane(address) && load_sane8(m, address, ret);
}

#include "python/object.h"

#define TEXT(s) (s), sizeof(s) - 1

/* The Thread object of a thread, and what proves that it is alive. */
struct thread_object {
	uint64_t frame, code, object;
};

OUTLINE bool find_object(
	struct core *c, const struct thread *t, struct thread_object *ret)
{
	const struct py_layout *l = &c->layout;

	if (!walk_root(c, t->ts, &ret->frame, &ret->code) ||
		!load64(c, ret->frame + l->fr_localsplus, &ret->object))
		return false;
	ret->object &= ~(uint64_t)l->code_tag_mask;
	return true;
}

OUTLINE bool text_at(struct core *c, uint64_t object, uint32_t offset,
	uint64_t *ret_type, struct py_text *ret)
{
	uint64_t text;

	return load64(c, object + offset, &text) &&
	       load64(c, text + c->layout.ob_type, ret_type) &&
	       py_text_read(c, &c->layout, text, ret);
}

/* Is it the code of threading.Thread._bootstrap?  Gives the type of strings. */
static bool is_bootstrap(struct core *c, uint64_t code, uint64_t *ret_str_type)
{
	struct py_text name, file;
	uint64_t type;

	return load64(c, code + c->layout.ob_type, &type) &&
	       type == c->options.code_type &&
	       text_at(c, code, c->layout.co_name, ret_str_type, &name) &&
	       py_text_is(c, &name, TEXT("_bootstrap")) &&
	       text_at(c, code, c->layout.co_filename, &type, &file) &&
	       py_text_ends(c, &file, TEXT("threading.py"));
}

/* An attribute. */
OUTLINE bool item_of(struct core *c, const struct py_items *items, const char *name,
	uint32_t size, uint64_t *ret)
{
	uint32_t index;

	return py_item_find(c, &c->layout, items, name, size, &index) &&
	       py_item_value(c, items, index, ret) && *ret != 0;
}

/* One that is a number. */
OUTLINE bool number_of(struct core *c, const struct py_items *items, const char *name,
	uint32_t size, uint64_t *ret)
{
	uint64_t object;

	return item_of(c, items, name, size, &object) &&
	       py_int_read(c, &c->layout, object, ret);
}

/* The main thread may have kept the kernel's id from before a fork. */
static bool is_of_thread(
	struct core *c, const struct thread *t, const struct py_items *items)
{
	uint64_t id;

	return number_of(c, items, TEXT("_ident"), &id) && id == t->pthread &&
	       (t->tid == (uint32_t)c->args.program_pid ||
		       (number_of(c, items, TEXT("_native_id"), &id) && id == t->tid));
}

/* The str object that is its name; 0 when it is not to be had. */
OUTLINE uint64_t name_of(
	struct core *c, const struct thread *t, uint64_t object, uint64_t str_type)
{
	struct py_items items;
	uint64_t name, type;

	return py_items_of_instance(c, &c->layout, object, &items) &&
			       items.keys.count <= PY_ATTRIBUTES_MAX &&
			       is_of_thread(c, t, &items) &&
			       item_of(c, &items, TEXT("_name"), &name) &&
			       load64(c, name + c->layout.ob_type, &type) &&
			       type == str_type
		       ? name
		       : 0;
}

static bool append_text(struct core *c, uint64_t name, struct record *r)
{
	struct py_text text;

	if (!py_text_read(c, &c->layout, name, &text) || text.bytes == 0)
		return false;
	if (text.bytes > REC_NAME_MAX)
		text.bytes = REC_NAME_MAX;
	record_number(r, REC_NAME_THREADING);
	record_number(r, text.width);
	if (!sane(text.data) || !load_bytes(c, r->at, text.data, text.bytes))
		return false;
	r->at += text.bytes;
	return true;
}

/*
 * Append the name that threading has of it; it is read twice, as it may be given
 * another one meanwhile and the memory of the first may be used again.  False:
 * *ret_later says whether it may have one later, and what has been appended is for the
 * caller to take back.
 */
static bool append_python_name(
	struct core *c, const struct thread *t, struct record *r, bool *ret_later)
{
	struct thread_object o, again;
	uint64_t name, str_type;
	uint8_t *first = r->at, *second;

	*ret_later = false;
	if (!find_object(c, t, &o) || !is_bootstrap(c, o.code, &str_type))
		return false;
	*ret_later = true;
	name = name_of(c, t, o.object, str_type);
	if (name == 0 || !append_text(c, name, r))
		return false;
	second = r->at;
	copy_forget(c);
	if (!append_text(c, name, r) || r->at - second != second - first ||
		memcmp(first, second, (size_t)(second - first)) != 0)
		return false;
	r->at = second;
	copy_forget(c);
	return name_of(c, t, o.object, str_type) == name && find_object(c, t, &again) &&
	       memcmp(&o, &again, sizeof(o)) == 0 && thread_same(c, t);
}

/* The kernel's, which a thread has from the one that made it until it is given another:
 * what the main thread is called is no name. */
static void append_kernel_name(struct core *c, const struct thread *t, struct record *r)
{
	uint32_t pid = (uint32_t)c->args.program_pid;
	char name[COMM_BYTES], of_main[COMM_BYTES];
	unsigned size = t->tid != pid ? cpu_comm(c, t->tid, name) : 0;

	if (size == 0 ||
		(size == cpu_comm(c, pid, of_main) && memcmp(name, of_main, size) == 0))
		return;
	record_number(r, REC_NAME_KERNEL);
	record_number(r, 0);
	memcpy(r->at, name, size);
	r->at += size;
}

static uint64_t interpreter_id(struct core *c, uint64_t address)
{
	for (uint32_t i = 0; i < c->interpreter_count; i++)
		if (c->interpreters[i].address == address)
			return c->interpreters[i].id;
	return 0;
}

bool thread_announce(struct core *c, struct thread *t)
{
	bool again = t->name_tries != 0, later;
	bool starts = !walk_has_frame(c, t->ts);
	struct record r;

	record_begin(&r, REC_THREAD);
	record_number(&r, t->id);
	record_number(&r, t->tid);
	record_number(&r, t->pthread);
	record_number(&r, interpreter_id(c, t->interpreter));
	uint8_t *bare = r.at;

	t->name_tries++;
	/* One that threading has started is none that was here before. */
	record_number(&r, 0);
	bool named = append_python_name(c, t, &r, &later);

	if (!named) {
		r.at = bare;
		/* It was on its way out already. */
		if (again && !later)
			t->name_tries = NAME_TRIES;
		if (again)
			return true;
		record_number(&r, later ? 0 : cpu_start_ticks(c, t->tid));
	}
	if (!named && !later) {
		append_kernel_name(c, t, &r);
		thread_end_before(c, t);
	}
	/* Without a frame, threading may have started it all the same. */
	if (named || (!later && !starts))
		t->name_tries = NAME_TRIES;
	return record_put(c, &r, RING_RESERVE);
}
