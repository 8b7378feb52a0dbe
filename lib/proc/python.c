/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/python.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "proc/elf.h"
#include "proc/maps.h"
#include "proc/mem.h"
#include "proc/pytype.h"

enum {
	SYM_RUNTIME,
	SYM_CODE_TYPE,
	SYM_VERSION,     /* Py_Version, 3.11 and later */
	SYM_GET_VERSION, /* in every CPython */
	SYM_PYPY,
	SYM_SECTION, /* of _PyRuntime alone, 3.10 and later */
	SYM_COUNT,
};

/* The most of an object's writable memory that is searched for a version text. */
#define SEARCH_BYTES (16u << 20)

static void set_version(struct python_found *f, uint32_t hex)
{
	static const char *const levels[16] = {
		[0xa] = "a", [0xb] = "b", [0xc] = "rc"
	};
	const char *level = levels[(hex >> 4) & 0xf];

	(void)snprintf(f->version, sizeof(f->version), "%u.%u.%u", hex >> 24,
		(hex >> 16) & 0xff, (hex >> 8) & 0xff);
	if (level != NULL) {
		size_t n = strlen(f->version);

		(void)snprintf(f->version + n, sizeof(f->version) - n, "%s%u", level,
			hex & 0xf);
	}
}

/* "3.8.18 (default, ..." as Py_GetVersion() gives it: its hex, or 0. */
static uint32_t parse_version(const char *text, size_t size)
{
	unsigned major, minor, micro;
	char head[16] = "";
	int n = 0;

	memcpy(head, text, size < sizeof(head) - 1 ? size : sizeof(head) - 1);
	if (sscanf(head, "%1u.%2u.%2u%n", &major, &minor, &micro, &n) != 3)
		return 0;
	if (major < 2 || major > 3 || minor > 99)
		return 0;
	/* A blank follows, or the suffix of a version under development. */
	if (head[n] != ' ' && head[n] != '+' && head[n] != 'a' && head[n] != 'b' &&
		head[n] != 'r')
		return 0;
	return (major << 24) | (minor << 16) | (micro << 8) |
	       (head[n] == ' ' || head[n] == '+' ? 0xf0 : 0xa0);
}

/* Before 3.11 the version is known to Py_GetVersion() alone, which keeps its text in
 * the object's own variables: search them. */
static uint32_t search_version(
	struct proc_mem *mem, const struct proc_maps *maps, size_t first)
{
	const char *path = maps->map[first].path;
	bool inside = false;

	for (size_t i = first; i < maps->count; i++) {
		const struct proc_map *m = &maps->map[i];
		bool ours = strcmp(m->path, path) == 0;

		/* What follows the file's last mapping without a name is its .bss. */
		if (!ours && !(inside && m->path[0] == '\0' &&
				     m->start == maps->map[i - 1].end))
			break;
		inside = ours || inside;
		if (!m->writable || m->end - m->start > SEARCH_BYTES)
			continue;
		_cleanup_free_ char *bytes = xmalloc(m->end - m->start);
		size_t size =
			proc_mem_read_some(mem, m->start, bytes, m->end - m->start);

		for (size_t at = 0; at + 16 < size; at++) {
			/* At the start of a text that has a parenthesis: cheap tests
			 * first. */
			if ((bytes[at] != '2' && bytes[at] != '3') ||
				bytes[at + 1] != '.' ||
				(at != 0 && bytes[at - 1] != '\0'))
				continue;
			uint32_t hex = parse_version(bytes + at, size - at);
			const char *end = memchr(bytes + at, '\0', size - at);

			if (hex != 0 && end != NULL &&
				memmem(bytes + at, (size_t)(end - bytes) - at, " (",
					2) != NULL)
				return hex;
		}
	}
	return 0;
}

/* What the version and the first bytes of the runtime say. */
static void judge(struct python_found *f, uint32_t hex, const void *bytes, size_t size)
{
	uint32_t version = hex >> 16;
	uint32_t published = 0;

	set_version(f, hex);
	if (version < PY_VERSION_OF(3, 8)) {
		f->kind = PYTHON_TOO_OLD;
		return;
	}
	const struct py_layout *row = py_layout_row(version);

	if (row != NULL) {
		f->layout = *row;
		f->kind = PYTHON_CPYTHON;
		return;
	}
	switch (py_layout_from_debug_offsets(
		bytes, size, &f->layout, &published, NULL)) {
	case 0:
		/* Both must tell the same version. */
		f->kind = published >> 16 == version ? PYTHON_CPYTHON : PYTHON_DAMAGED;
		return;
	case -2:
		f->kind = PYTHON_TOO_NEW;
		return;
	case -3:
		f->kind = PYTHON_FREE_THREADED;
		return;
	default:
		f->kind = PYTHON_DAMAGED;
		return;
	}
}

void python_from_offer(uint64_t runtime, uint64_t code_type, const void *runtime_bytes,
	size_t size, uint32_t hex, const char *version_text, struct python_found *ret)
{
	struct python_found f = { .runtime = runtime, .code_type = code_type };

	if (hex == 0)
		hex = parse_version(version_text, strlen(version_text));
	if (hex == 0)
		f.kind = PYTHON_DAMAGED;
	else
		judge(&f, hex, runtime_bytes, size);
	*ret = f;
}

static uint32_t version_in(struct proc_mem *mem, const struct proc_maps *maps,
	size_t first, const struct elf_symbol *symbols)
{
	uint64_t value;

	if (symbols[SYM_VERSION].address != 0 &&
		proc_mem_u64(mem, symbols[SYM_VERSION].address, &value))
		return (uint32_t)value;
	return search_version(mem, maps, first);
}

/* Look into one object.  True when it holds an interpreter. */
static bool look_into(struct proc_mem *mem, const struct proc_maps *maps, size_t first,
	struct python_found *f)
{
	struct elf_symbol symbols[SYM_COUNT] = {
		[SYM_RUNTIME] = { .name = "_PyRuntime" },
		[SYM_CODE_TYPE] = { .name = "PyCode_Type" },
		[SYM_VERSION] = { .name = "Py_Version" },
		[SYM_GET_VERSION] = { .name = "Py_GetVersion" },
		[SYM_PYPY] = { .name = "pypy_execute_source" },
		[SYM_SECTION] = { .name = ".PyRuntime" },
	};
	unsigned char bytes[PY_DEBUG_OFFSETS_BYTES];

	if (elf_symbols(mem, maps, first, symbols, SYM_COUNT) <= 0)
		return false;
	*f = (struct python_found){ 0 };
	(void)snprintf(f->object, sizeof(f->object), "%s", maps->map[first].path);
	if (symbols[SYM_PYPY].address != 0) {
		f->kind = PYTHON_PYPY;
		return true;
	}
	/* A static program has no symbols once it is stripped, but its sections. */
	f->stripped = symbols[SYM_GET_VERSION].address == 0;
	if (f->stripped && symbols[SYM_SECTION].address == 0)
		return false;
	f->runtime = symbols[f->stripped ? SYM_SECTION : SYM_RUNTIME].address;
	f->code_type = symbols[SYM_CODE_TYPE].address;
	f->by_text = symbols[SYM_VERSION].address == 0;
	uint32_t hex = version_in(mem, maps, first, symbols);

	if (hex == 0) {
		f->kind = PYTHON_STARTING;
		return true;
	}
	if (f->runtime == 0 || (f->code_type == 0 && !f->stripped)) {
		set_version(f, hex);
		f->kind = hex >> 16 < PY_VERSION_OF(3, 8) ? PYTHON_TOO_OLD
							  : PYTHON_DAMAGED;
		return true;
	}
	size_t size = proc_mem_read_some(mem, f->runtime, bytes, sizeof(bytes));

	judge(f, hex, bytes, size);
	if (f->stripped && f->kind == PYTHON_CPYTHON) {
		f->code_type = pytype_of_code(mem, &f->layout, f->runtime);
		if (f->code_type == 0)
			f->kind = PYTHON_IDLE;
	}
	return true;
}

/* Is an interpreter up in it?  Decides between two objects that both hold one. */
static bool is_up(struct proc_mem *mem, const struct python_found *f)
{
	uint64_t head;

	return f->kind == PYTHON_CPYTHON &&
	       proc_mem_u64(mem, f->runtime + f->layout.rt_interpreters_head, &head) &&
	       head != 0;
}

static bool name_promises(const struct proc_map *m)
{
	const char *base = strrchr(m->path, '/');

	return base != NULL &&
	       (strstr(base, "ython") != NULL || strstr(base, "pypy") != NULL);
}

/* Is this the first mapping of a file that holds code? */
static bool starts_object(const struct proc_maps *maps, size_t i)
{
	const struct proc_map *m = &maps->map[i];

	if (m->path[0] != '/' ||
		(i != 0 && strcmp(maps->map[i - 1].path, m->path) == 0))
		return false;
	for (size_t j = i; j < maps->count && strcmp(maps->map[j].path, m->path) == 0;
		j++)
		if (maps->map[j].executable)
			return true;
	return false;
}

static void search_objects(struct proc_mem *mem, const struct proc_maps *maps,
	bool promising, struct python_found *best)
{
	for (size_t i = 0; i < maps->count; i++) {
		struct python_found f;

		if (!starts_object(maps, i) ||
			(name_promises(&maps->map[i]) || i == 0) != promising ||
			!look_into(mem, maps, i, &f))
			continue;
		if (best->kind == PYTHON_NONE ||
			(is_up(mem, &f) && !is_up(mem, best))) {
			*best = f;
		} else if (is_up(mem, &f)) {
			(void)snprintf(best->other_version, sizeof(best->other_version),
				"%s", f.version);
			(void)snprintf(best->other_object, sizeof(best->other_object),
				"%s", f.object);
		}
	}
}

/* Who may read the list of mappings may not always read what is mapped. */
static int check_readable(struct proc_mem *mem, const struct proc_maps *maps)
{
	char byte;
	int r;

	for (size_t i = 0; i < maps->count; i++) {
		if (!maps->map[i].readable)
			continue;
		r = proc_mem_read(mem, maps->map[i].start, &byte, 1);
		return r == -EPERM || r == -EACCES ? r : 0;
	}
	return 0;
}

int python_find(pid_t pid, struct python_found *ret, struct err *err)
{
	struct python_found best = { 0 };
	struct proc_maps maps;
	struct proc_mem mem;
	int r = proc_maps_read(pid, &maps, err);

	if (r != 0)
		return r;
	proc_mem_init(&mem, pid);
	r = check_readable(&mem, &maps);
	if (r != 0) {
		proc_mem_done(&mem);
		proc_maps_done(&maps);
		return err_set(err, r, "its memory cannot be read: %s", strerror(-r));
	}
	/* Likely names first, the executable among them; then everything else: a
	 * library may have been renamed. */
	search_objects(&mem, &maps, true, &best);
	if (best.kind == PYTHON_NONE)
		search_objects(&mem, &maps, false, &best);
	proc_mem_done(&mem);
	proc_maps_done(&maps);
	*ret = best;
	return 0;
}

bool python_left_traces(pid_t pid)
{
	/* CPython looks it up in the environment: Python/preconfig.c and before. */
	static const char trace[] = "PYTHONUNBUFFERED";
	struct proc_maps maps;
	struct proc_mem mem;
	bool found = false;

	if (proc_maps_read(pid, &maps, NULL) != 0)
		return false;
	proc_mem_init(&mem, pid);
	for (size_t i = 0; i < maps.count && !found; i++) {
		const struct proc_map *m = &maps.map[i];

		if (m->path[0] != '/' || !m->readable || m->writable ||
			strcmp(m->path, maps.map[0].path) != 0 ||
			m->end - m->start > SEARCH_BYTES)
			continue;
		_cleanup_free_ char *bytes = xmalloc(m->end - m->start);
		size_t size =
			proc_mem_read_some(&mem, m->start, bytes, m->end - m->start);

		found = memmem(bytes, size, trace, sizeof(trace) - 1) != NULL;
	}
	proc_mem_done(&mem);
	proc_maps_done(&maps);
	return found;
}

const char *python_refusal(const struct python_found *f, char *text, size_t size)
{
	switch (f->kind) {
	case PYTHON_CPYTHON:
		return NULL;
	case PYTHON_NONE:
		return "is not a Python process";
	case PYTHON_STARTING:
		return "has not started its Python interpreter yet";
	case PYTHON_PYPY:
		return "runs PyPy; pystack samples CPython 3.8 to 3.15 only";
	case PYTHON_IDLE:
		(void)snprintf(text, size,
			"runs CPython %s without symbols, and no thread of it runs Python now, "
			"by which the rest could be found; try again",
			f->version);
		return text;
	case PYTHON_STRIPPED:
		return "looks like a Python whose symbols were stripped; before CPython 3.10 "
		       "they are needed: link it with -Wl,--export-dynamic, or leave out strip";
	case PYTHON_TOO_OLD:
		(void)snprintf(text, size,
			"runs CPython %s; pystack samples CPython 3.8 to 3.15",
			f->version);
		return text;
	case PYTHON_TOO_NEW:
		(void)snprintf(text, size,
			"runs CPython %s, which is newer than this pystack (3.8 to 3.15)",
			f->version);
		return text;
	case PYTHON_FREE_THREADED:
		(void)snprintf(text, size,
			"runs the free-threaded build of CPython %s, which pystack does not "
			"sample yet",
			f->version);
		return text;
	case PYTHON_DAMAGED:
		(void)snprintf(text, size,
			"runs CPython %s, but its memory is not laid out as that version's",
			f->version[0] != '\0' ? f->version : "of an unknown version");
		return text;
	}
	return "cannot be sampled";
}
