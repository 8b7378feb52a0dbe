/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/pytype.h"

#include "proc/pymem.h"
#include <string.h>

#include "python/frame.h"

enum {
	MAX_THREADS = 4096,
	MAX_FRAMES = 16,
	TYPE_NAME =
		24, /* tp_name of a PyTypeObject (CPython: Include/cpython/object.h) */
};

/* The type of an object, if its name is "code"; else 0. */
static uint64_t type_of(
	struct proc_mem *mem, const struct py_layout *l, uint64_t object)
{
	uint64_t type, name;
	char text[5];

	if (!py_mem_load64(mem, object + l->ob_type, &type) ||
		!py_mem_load64(mem, type + TYPE_NAME, &name) ||
		proc_mem_read(mem, name, text, sizeof(text)) != 0)
		return 0;
	return memcmp(text, "code", sizeof(text)) == 0 ? type : 0;
}

static uint64_t type_in_thread(
	struct proc_mem *mem, const struct py_layout *l, uint64_t ts)
{
	uint64_t at;

	if (!py_frame_first(mem, l, ts, &at))
		return 0;
	for (unsigned i = 0; i < MAX_FRAMES && at != 0; i++) {
		struct py_frame f;

		if (!py_frame_read(mem, l, at, &f))
			return 0;
		uint64_t type = py_frame_is_entry(l, &f) ? 0 : type_of(mem, l, f.code);

		if (type != 0)
			return type;
		at = f.previous;
	}
	return 0;
}

uint64_t pytype_of_code(
	struct proc_mem *mem, const struct py_layout *l, uint64_t runtime)
{
	uint64_t interpreter, ts, type = 0;

	if (!py_mem_load64(mem, runtime + l->rt_interpreters_head, &interpreter) ||
		!py_mem_load64(mem, interpreter + l->is_threads_head, &ts))
		return 0;
	for (unsigned i = 0; i < MAX_THREADS && ts != 0 && type == 0; i++) {
		type = type_in_thread(mem, l, ts);
		if (!py_mem_load64(mem, ts + l->ts_next, &ts))
			break;
	}
	return type;
}
