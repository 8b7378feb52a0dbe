/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints one row of lib/python/layouts.inc for the CPython whose headers it is
 * compiled with (3.8 to 3.12).  build-aux/gen-layouts.sh compiles and runs it
 * for every version it finds; tests/unit/layouts.sh compares the result with
 * the rows in the tree.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#if PY_VERSION_HEX >= 0x03090000
#	include <internal/pycore_interp.h>
#	include <internal/pycore_runtime.h>
#endif
#if PY_VERSION_HEX >= 0x030b0000
#	include <internal/pycore_dict.h>
#endif
#include <internal/pycore_gil.h>
#include <internal/pycore_pystate.h>
#if PY_VERSION_HEX >= 0x030b0000
#	include <internal/pycore_frame.h>
#endif
#include <stddef.h>
#include <stdio.h>

#if PY_VERSION_HEX >= 0x030b0000
#	define FRAME _PyInterpreterFrame
#else
#	define FRAME PyFrameObject
#endif

static void row(const char *field, unsigned long value)
{
	printf("\t\t.%s = %lu,\n", field, value);
}

static void none(const char *field)
{
	printf("\t\t.%s = PY_NONE,\n", field);
}

static void text(const char *field, const char *value)
{
	printf("\t\t.%s = %s,\n", field, value);
}

int main(void)
{
#if PY_VERSION_HEX < 0x03090000
	const char *flags = "PY_GIL_IN_RUNTIME | PY_GC_IN_RUNTIME | PY_CODE_IN_BYTES";
#elif PY_VERSION_HEX < 0x030b0000
	const char *flags = "PY_GIL_IN_RUNTIME | PY_CODE_IN_BYTES";
#elif PY_VERSION_HEX < 0x030c0000
	const char *flags = "PY_GIL_IN_RUNTIME | PY_HAS_NATIVE_ID | PY_HAS_DATASTACK";
#else
	const char *flags = "PY_HAS_NATIVE_ID | PY_HAS_DATASTACK | PY_VALUES_TAGGED | "
			    "PY_INT_TAGGED";
#endif

	printf("\t{\n");
	printf("\t\t.version = PY_VERSION_OF(%d, %d),\n", PY_MAJOR_VERSION,
		PY_MINOR_VERSION);
	text("flags", flags);
#if PY_VERSION_HEX < 0x030a0000
	text("instr_kind", "PY_INSTR_LASTI_BYTES");
	text("linetable_kind", "PY_LINES_LNOTAB");
#elif PY_VERSION_HEX < 0x030b0000
	text("instr_kind", "PY_INSTR_LASTI_UNITS");
	text("linetable_kind", "PY_LINES_RANGES");
#else
	text("instr_kind", "PY_INSTR_POINTER");
	text("linetable_kind", "PY_LINES_LOCATIONS");
#endif
	row("rt_interpreters_head", offsetof(_PyRuntimeState, interpreters.head));
#if PY_VERSION_HEX < 0x03090000
	row("rt_finalizing", offsetof(_PyRuntimeState, finalizing));
#else
	row("rt_finalizing", offsetof(_PyRuntimeState, _finalizing));
#endif
	row("rt_initialized", offsetof(_PyRuntimeState, initialized));
	row("rt_main_thread", offsetof(_PyRuntimeState, main_thread));

	row("is_next", offsetof(PyInterpreterState, next));
	row("is_id", offsetof(PyInterpreterState, id));
#if PY_VERSION_HEX < 0x030b0000
	row("is_threads_head", offsetof(PyInterpreterState, tstate_head));
#else
	row("is_threads_head", offsetof(PyInterpreterState, threads.head));
#endif
#if PY_VERSION_HEX < 0x030c0000
	row("is_modules", offsetof(PyInterpreterState, modules));
#else
	row("is_modules", offsetof(PyInterpreterState, imports.modules));
#endif
#if PY_VERSION_HEX < 0x03090000
	row("gc_collecting", offsetof(_PyRuntimeState, gc.collecting));
#else
	row("gc_collecting", offsetof(PyInterpreterState, gc.collecting));
#endif
	none("gc_frame");

#if PY_VERSION_HEX < 0x030c0000
	row("gil", offsetof(_PyRuntimeState, ceval.gil));
#else
	row("gil", offsetof(PyInterpreterState, ceval.gil));
#endif
	row("gil_last_holder", offsetof(struct _gil_runtime_state, last_holder));
	row("gil_locked", offsetof(struct _gil_runtime_state, locked));
	row("gil_switch_number", offsetof(struct _gil_runtime_state, switch_number));

	row("ts_prev", offsetof(PyThreadState, prev));
	row("ts_next", offsetof(PyThreadState, next));
	row("ts_interp", offsetof(PyThreadState, interp));
#if PY_VERSION_HEX < 0x030b0000
	row("ts_frame", offsetof(PyThreadState, frame));
	none("cframe_frame");
#else
	row("ts_frame", offsetof(PyThreadState, cframe));
	row("cframe_frame", offsetof(_PyCFrame, current_frame));
#endif
	row("ts_thread_id", offsetof(PyThreadState, thread_id));
#if PY_VERSION_HEX < 0x030b0000
	none("ts_native_id");
	none("ts_datastack_chunk");
#else
	row("ts_native_id", offsetof(PyThreadState, native_thread_id));
	row("ts_datastack_chunk", offsetof(PyThreadState, datastack_chunk));
#endif
	none("ts_gil_requested");

#if PY_VERSION_HEX < 0x030b0000
	row("fr_previous", offsetof(FRAME, f_back));
	row("fr_code", offsetof(FRAME, f_code));
	row("fr_instr", offsetof(FRAME, f_lasti));
	none("fr_owner");
#else
	row("fr_previous", offsetof(FRAME, previous));
	row("fr_code", offsetof(FRAME, f_code));
	row("fr_instr", offsetof(FRAME, prev_instr));
	row("fr_owner", offsetof(FRAME, owner));
#endif
#if PY_VERSION_HEX < 0x030c0000
	none("owner_skip");
#else
	row("owner_skip", FRAME_OWNED_BY_CSTACK);
#endif
	row("code_tag_mask", 0);

	row("co_filename", offsetof(PyCodeObject, co_filename));
	row("co_name", offsetof(PyCodeObject, co_name));
#if PY_VERSION_HEX < 0x030b0000
	none("co_qualname");
#else
	row("co_qualname", offsetof(PyCodeObject, co_qualname));
#endif
#if PY_VERSION_HEX < 0x030a0000
	row("co_linetable", offsetof(PyCodeObject, co_lnotab));
#else
	row("co_linetable", offsetof(PyCodeObject, co_linetable));
#endif
	row("co_firstlineno", offsetof(PyCodeObject, co_firstlineno));
	row("co_flags", offsetof(PyCodeObject, co_flags));
#if PY_VERSION_HEX < 0x030b0000
	row("co_bytecode", offsetof(PyCodeObject, co_code));
#else
	row("co_bytecode", offsetof(PyCodeObject, co_code_adaptive));
#endif

#if PY_VERSION_HEX >= 0x030c0000
	row("co_framesize", offsetof(PyCodeObject, co_framesize));
#else
	none("co_framesize");
#endif
#if PY_VERSION_HEX >= 0x030b0000
	row("co_nlocalsplus", offsetof(PyCodeObject, co_nlocalsplus));
	row("co_stacksize", offsetof(PyCodeObject, co_stacksize));
	row("fr_localsplus", offsetof(FRAME, localsplus));
#else
	none("co_nlocalsplus");
	none("co_stacksize");
	row("fr_localsplus", offsetof(FRAME, f_localsplus));
#endif

	row("ob_type", offsetof(PyObject, ob_type));
	row("var_size", offsetof(PyVarObject, ob_size));
	row("bytes_data", offsetof(PyBytesObject, ob_sval));
	row("str_length", offsetof(PyASCIIObject, length));
	row("str_state", offsetof(PyASCIIObject, state));
	row("str_ascii_data", sizeof(PyASCIIObject));
	row("str_compact_data", sizeof(PyCompactUnicodeObject));

#if PY_VERSION_HEX >= 0x030c0000
	row("int_tag", offsetof(PyLongObject, long_value.lv_tag));
	row("int_digits", offsetof(PyLongObject, long_value.ob_digit));
#else
	row("int_tag", offsetof(PyVarObject, ob_size));
	row("int_digits", offsetof(PyLongObject, ob_digit));
#endif

	row("dict_keys", offsetof(PyDictObject, ma_keys));
	row("dict_values", offsetof(PyDictObject, ma_values));
#if PY_VERSION_HEX >= 0x030b0000
	none("keys_size");
	row("keys_log2_index_bytes", offsetof(PyDictKeysObject, dk_log2_index_bytes));
	row("keys_kind", offsetof(PyDictKeysObject, dk_kind));
	row("keys_count", offsetof(PyDictKeysObject, dk_nentries));
	row("keys_indices", offsetof(PyDictKeysObject, dk_indices));
#else
	/* Private to Objects/dict-common.h: five words, then the indices. */
	row("keys_size", 8);
	none("keys_log2_index_bytes");
	none("keys_kind");
	row("keys_count", 32);
	row("keys_indices", 40);
#endif
	row("values_first", 0);

	row("type_flags", offsetof(PyTypeObject, tp_flags));
	row("type_basicsize", offsetof(PyTypeObject, tp_basicsize));
	row("type_dictoffset", offsetof(PyTypeObject, tp_dictoffset));
	row("type_cached_keys", offsetof(PyHeapTypeObject, ht_cached_keys));
	/* PyModuleObject is private to CPython's moduleobject.c: its dict is the
	 * first member after the object header in all these versions. */
	row("module_dict", sizeof(PyObject));
	/* Include/internal/pycore_object.h, by _PyObject_ManagedDictPointer() and
	 * _PyObject_ValuesPointer(). */
#if PY_VERSION_HEX >= 0x030c0000
	row("ob_dict", 3 * sizeof(void *));
	none("ob_values");
#elif PY_VERSION_HEX >= 0x030b0000
	row("ob_dict", 3 * sizeof(void *));
	row("ob_values", 4 * sizeof(void *));
#else
	none("ob_dict");
	none("ob_values");
#endif
	printf("\t},\n");
	return 0;
}
