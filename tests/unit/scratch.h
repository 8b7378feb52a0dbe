/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

/*
 * A folder of a test's own, below TMPDIR or /tmp, which is removed with all that is in
 * it: scratch_begin() once, scratch_end() at the end.
 */

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char scratch_folder[200];

static inline void scratch_begin(void)
{
	const char *top = getenv("TMPDIR");

	(void)snprintf(scratch_folder, sizeof(scratch_folder), "%s/pystack-test-XXXXXX",
		top != NULL && strlen(top) < 150 ? top : "/tmp");
	if (mkdtemp(scratch_folder) == NULL) {
		printf("Bail out! no temporary folder: %m\n");
		exit(1);
	}
}

/* The path of a file in it; each call uses one of eight buffers in turn. */
static inline const char *scratch(const char *name)
{
	static char paths[8][300];
	static unsigned next;
	char *path = paths[next++ % 8];

	(void)snprintf(path, sizeof(paths[0]), "%s/%s", scratch_folder, name);
	return path;
}

/* Files of the folder, other folders in it are not looked into. */
static inline void scratch_empty(void)
{
	DIR *folder = opendir(scratch_folder);

	if (folder == NULL)
		return;
	for (struct dirent *e; (e = readdir(folder)) != NULL;)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
			unlink(scratch(e->d_name)) != 0)
			(void)rmdir(scratch(e->d_name));
	(void)closedir(folder);
}

static inline void scratch_end(void)
{
	scratch_empty();
	(void)rmdir(scratch_folder);
}

#endif
