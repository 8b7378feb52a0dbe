/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILE_PLACE_H
#define FILE_PLACE_H

/*
 * Names of files: each is written beside its place under a name of its own, and takes
 * its place when there is something to be read, so that nothing is replaced in vain.
 */

#include <stdint.h>

#include "base/err.h"

/*
 * Make a file beside path, mode 0600, owned by owner/group unless those are -1.
 * Returns its descriptor, and its name, owned; or a negative code with words.
 */
int place_open(const char *path, int64_t owner, int64_t group, char **ret_name,
	struct err *err);

/* Give the file its place; what had it before is kept as path.old, unless it is a
 * recording of nothing, which is to cost nobody the one that is kept. */
int place_publish(const char *name, const char *path, struct err *err);

/* Rename a file, replacing nothing: -EEXIST when there is something at `to`. */
int place_move(const char *from, const char *to);

#endif
