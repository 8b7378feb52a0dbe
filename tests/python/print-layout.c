/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints where the top frame of a thread lies in a running CPython, for readers that
 * share nothing else with pystack: "ts_frame cframe_frame fr_code fr_previous fr_owner
 * owner_skip code_tag_mask", -1 for none.
 *
 * usage: print-layout PID
 */
#include <stdio.h>
#include <stdlib.h>

#include "proc/python.h"

int main(int argc, char **argv)
{
	struct python_found found;
	struct err err;

	if (argc != 2 || python_find(atoi(argv[1]), &found, &err) != 0 ||
		found.kind != PYTHON_CPYTHON) {
		fprintf(stderr, "usage: print-layout PID of a CPython\n");
		return 2;
	}
	const struct py_layout *l = &found.layout;

	bool top_tells = l->cframe_frame != PY_NONE && l->owner_skip == PY_NONE;

	printf("%d %d %d %d %d %d %u %d\n", (int)l->ts_frame, (int)l->cframe_frame,
		(int)l->fr_code, (int)l->fr_previous, (int)l->fr_owner,
		(int)l->owner_skip, l->code_tag_mask,
		top_tells ? (int)l->ts_datastack_chunk + 8 : -1);
	return 0;
}
