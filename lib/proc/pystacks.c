/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/pystacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "proc/mem.h"
#include "proc/process.h"
#include "proc/pymem.h"
#include "proc/pytext.h"
#include "python/linetable.h"

#include "python/frame.h"

enum {
	MAX_INTERPRETERS = 65536, /* steps along a list: beyond it, it is a loop */
	MAX_THREADS = 65536,      /* of all interpreters */
	MAX_FRAMES = 65536,
	MAX_TRIES = 20,
	MAX_TEXT_BYTES = 256 << 10,
	GLIBC_TID_OFFSET = 720,
	MUSL_TID_OFFSET = 48,
};

struct reading {
	struct proc_mem mem;
	const struct python_found *python;
	const struct py_layout *l;
	pid_t inner_pid;
};

/* One frame, not yet in words. */
struct raw {
	uint64_t frame, code;
	uint32_t position;
};

struct chain {
	struct raw *raw;
	size_t count, capacity;
	bool whole;
};

/* The bytes of bytecode of a code object; false when it is none. */
static bool code_bytes(struct reading *r, uint64_t code, uint32_t *ret)
{
	const struct py_layout *l = r->l;
	uint64_t type, at = code, size;

	if (!py_mem_load64(&r->mem, code + l->ob_type, &type) ||
		type != r->python->code_type)
		return false;
	if ((l->flags & PY_CODE_IN_BYTES) != 0 &&
		!py_mem_load64(&r->mem, code + l->co_bytecode, &at))
		return false;
	if (!py_mem_load64(&r->mem, at + l->var_size, &size) || size > 32 << 20)
		return false;
	*ret = (uint32_t)((l->flags & PY_CODE_IN_BYTES) != 0 ? size : size * 2);
	return true;
}

/* CPython's own frame of a specialised constructor: its names are one object. */
static bool is_shim(struct reading *r, uint64_t code)
{
	uint64_t name, file;

	return (r->l->flags & PY_HAS_DATASTACK) != 0 &&
	       py_mem_load64(&r->mem, code + r->l->co_name, &name) &&
	       py_mem_load64(&r->mem, code + r->l->co_filename, &file) && name == file;
}

static void read_chain(struct reading *r, uint64_t ts, struct chain *c)
{
	uint64_t at;

	c->count = 0;
	c->whole = false;
	if (!py_frame_first(&r->mem, r->l, ts, &at))
		return;
	for (size_t steps = 0; at != 0; steps++) {
		struct py_frame f;
		uint32_t bytes, position;

		if (steps == MAX_FRAMES || !py_frame_read(&r->mem, r->l, at, &f) ||
			f.previous == at)
			return;
		if (!py_frame_is_entry(r->l, &f)) {
			if (f.owner > PY_OWNER_GENERATOR ||
				!code_bytes(r, f.code, &bytes) ||
				!py_frame_position(
					r->l, f.code, bytes, f.instr, &position))
				return;
			if (!is_shim(r, f.code)) {
				c->raw = xgrow(c->raw, c->count, &c->capacity,
					sizeof(*c->raw));
				c->raw[c->count++] =
					(struct raw){ at, f.code, position };
			}
		}
		at = f.previous;
	}
	c->whole = true;
}

static bool equal_chains(const struct chain *a, const struct chain *b)
{
	if (!a->whole || !b->whole || a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->raw[i].frame != b->raw[i].frame ||
			a->raw[i].code != b->raw[i].code ||
			(i != 0 && a->raw[i].position != b->raw[i].position))
			return false;
	return true;
}

/* --- words --- */

static char *text_at(struct reading *r, uint64_t address)
{
	char *text = pytext_read(&r->mem, r->l, address, MAX_TEXT_BYTES);

	return text != NULL ? text : xstrdup("?");
}

static int64_t line_at(struct reading *r, uint64_t code, uint32_t position)
{
	const struct py_layout *l = r->l;
	uint64_t table, size;
	uint32_t first;
	struct py_lines it;
	struct py_line_range range;

	if (!py_mem_load32(&r->mem, code + l->co_firstlineno, &first))
		return 0;
	if (position == PY_NO_POSITION)
		return (int32_t)first;
	if (!py_mem_load64(&r->mem, code + l->co_linetable, &table) ||
		!py_mem_load64(&r->mem, table + l->var_size, &size) ||
		size > PY_LINETABLE_MAX)
		return 0;
	_cleanup_free_ uint8_t *bytes = xmalloc(size);

	if (size != 0 &&
		proc_mem_read(&r->mem, table + l->bytes_data, bytes, size) != 0)
		return 0;
	py_lines_init(&it, (enum py_linetable_kind)l->linetable_kind, bytes, size,
		(int32_t)first);
	while (py_lines_next(&it, &range))
		if (position >= range.start && position < range.end)
			return range.line;
	return 0;
}

static void put_into_words(
	struct reading *r, const struct chain *c, struct pystacks_thread *t)
{
	uint32_t name_offset =
		r->l->co_qualname != PY_NONE ? r->l->co_qualname : r->l->co_name;

	for (size_t i = 0; i < c->count; i++) {
		uint64_t name = 0, file = 0;
		struct pystacks_frame f = { 0 };

		(void)py_mem_load64(&r->mem, c->raw[i].code + name_offset, &name);
		(void)py_mem_load64(&r->mem, c->raw[i].code + r->l->co_filename, &file);
		f.name = text_at(r, name);
		f.file = text_at(r, file);
		f.line = line_at(r, c->raw[i].code, c->raw[i].position);
		t->frames =
			xgrow(t->frames, t->count, &t->capacity, sizeof(*t->frames));
		t->frames[t->count++] = f;
	}
}

/* --- threads --- */

static uint32_t kernel_id(struct reading *r, uint64_t ts, uint64_t pthread)
{
	static const uint32_t offsets[] = { GLIBC_TID_OFFSET, MUSL_TID_OFFSET };
	uint64_t id;
	uint64_t main_thread;
	uint32_t id32;

	if ((r->l->flags & PY_HAS_NATIVE_ID) != 0)
		return py_mem_load64(&r->mem, ts + r->l->ts_native_id, &id)
			       ? (uint32_t)id
			       : 0;
	if (!py_mem_load64(
		    &r->mem, r->python->runtime + r->l->rt_main_thread, &main_thread))
		return 0;
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		if (py_mem_load32(&r->mem, main_thread + offsets[i], &id32) &&
			id32 == (uint32_t)r->inner_pid)
			return py_mem_load32(&r->mem, pthread + offsets[i], &id32)
				       ? id32
				       : 0;
	return 0;
}

static bool holds_gil(struct reading *r, uint64_t interpreter, uint64_t ts)
{
	const struct py_layout *l = r->l;
	uint64_t gil = r->python->runtime + l->gil, holder;
	uint32_t locked;

	if ((l->flags & PY_GIL_IN_RUNTIME) == 0 &&
		!py_mem_load64(&r->mem, interpreter + l->gil, &gil))
		return false;
	return py_mem_load64(&r->mem, gil + l->gil_last_holder, &holder) &&
	       holder == ts && py_mem_load32(&r->mem, gil + l->gil_locked, &locked) &&
	       locked == 1;
}

static void read_thread(struct reading *r, uint64_t interpreter, uint64_t id,
	uint64_t ts, struct pystacks *s)
{
	struct chain chains[2] = { { 0 } };
	struct pystacks_thread t = { .interpreter = id };
	int now = 0;

	(void)py_mem_load64(&r->mem, ts + r->l->ts_thread_id, &t.python_id);
	t.tid = kernel_id(r, ts, t.python_id);
	t.holds_gil = holds_gil(r, interpreter, ts);
	read_chain(r, ts, &chains[now]);
	for (int i = 0; i < MAX_TRIES && !t.steady; i++) {
		now = !now;
		read_chain(r, ts, &chains[now]);
		t.steady = equal_chains(&chains[0], &chains[1]);
	}
	put_into_words(r, &chains[now], &t);
	free(chains[0].raw);
	free(chains[1].raw);
	s->threads = xgrow(s->threads, s->count, &s->capacity, sizeof(*s->threads));
	s->threads[s->count++] = t;
}

static void read_interpreter(
	struct reading *r, uint64_t interpreter, struct pystacks *s)
{
	uint64_t ts, id = 0, next;

	(void)py_mem_load64(&r->mem, interpreter + r->l->is_id, &id);
	if (!py_mem_load64(&r->mem, interpreter + r->l->is_threads_head, &ts))
		return;
	for (; ts != 0 && s->count < MAX_THREADS; ts = next) {
		read_thread(r, interpreter, id, ts, s);
		if (!py_mem_load64(&r->mem, ts + r->l->ts_next, &next) || next == ts)
			return;
	}
}

int pystacks_read(pid_t pid, const struct python_found *python, struct pystacks **ret,
	struct err *err)
{
	struct reading r = { .python = python, .l = &python->layout, .inner_pid = pid };
	struct proc_status status;
	struct pystacks *s = xcalloc(1, sizeof(*s));
	uint64_t at, next;

	if (proc_status_read(pid, &status) == 0)
		r.inner_pid = status.inner_pid;
	proc_mem_init(&r.mem, pid);
	if (!py_mem_load64(&r.mem, python->runtime + r.l->rt_interpreters_head, &at)) {
		proc_mem_done(&r.mem);
		free(s);
		return err_set(err, -E_GONE, "its memory cannot be read");
	}
	for (int i = 0; at != 0 && i < MAX_INTERPRETERS; i++, at = next) {
		read_interpreter(&r, at, s);
		if (!py_mem_load64(&r.mem, at + r.l->is_next, &next) || next == at)
			break;
	}
	proc_mem_done(&r.mem);
	*ret = s;
	return 0;
}

void pystacks_free(struct pystacks *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->count; i++) {
		for (size_t j = 0; j < s->threads[i].count; j++) {
			free(s->threads[i].frames[j].name);
			free(s->threads[i].frames[j].file);
		}
		free(s->threads[i].frames);
	}
	free(s->threads);
	free(s);
}
