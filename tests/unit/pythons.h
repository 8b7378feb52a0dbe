/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_PYTHONS_H
#define TESTS_UNIT_PYTHONS_H

/* The Pythons of this machine. */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/xalloc.h"

enum { PYTHONS_MAX = 40, PYTHONS_PATH = 300 };

/* Versions below pyenv's root, and the system's. */
static inline size_t pythons_find(char (*paths)[PYTHONS_PATH])
{
	char root[200] = "";
	size_t count = 0;
	FILE *p = popen("pyenv root 2>/dev/null", "r");

	if (p != NULL) {
		if (fgets(root, sizeof(root), p) != NULL)
			root[strcspn(root, "\n")] = '\0';
		(void)pclose(p);
	}
	_cleanup_free_ char *command = xasprintf(
		"ls -d '%s'/versions/*/bin/python '%s'/versions/*/bin/python3 "
		"/usr/bin/python3 2>/dev/null",
		root, root);
	p = popen(command, "r");

	while (p != NULL && count < PYTHONS_MAX &&
		fgets(paths[count], PYTHONS_PATH, p) != NULL) {
		char *path = paths[count];
		struct stat st, other;
		bool known = false;

		path[strcspn(path, "\n")] = '\0';
		for (size_t i = 0; i < count; i++)
			known |= stat(path, &st) == 0 && stat(paths[i], &other) == 0 &&
				 st.st_ino == other.st_ino && st.st_dev == other.st_dev;
		count += !known;
	}
	if (p != NULL)
		(void)pclose(p);
	return count;
}

#endif
