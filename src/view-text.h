/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_VIEW_TEXT_H
#define SRC_VIEW_TEXT_H

/* A profile as text on standard output: header, table, tree. */

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"

enum view_key {
	VIEW_SYMBOL,
	VIEW_FILE,
	VIEW_SRCLINE,
	VIEW_THREAD,
	VIEW_TID,
	VIEW_PID,
	VIEW_COMM,
	VIEW_STATE,
	VIEW_INTERP,
	VIEW_KEYS,
};

/* Names of keys, perf's where it has them; VIEW_KEYS for none. */
enum view_key view_key_parse(const char *name);
extern const char *const view_key_names[VIEW_KEYS];

struct view_options {
	enum profile_event event;
	bool event_given;
	enum view_key keys[VIEW_KEYS];
	size_t key_count;
	bool children; /* the Children column, and sorting by it */
	double percent_limit;
	size_t row_limit; /* 0: all */
	bool full_paths;
	size_t width; /* columns to be used */
};

/* The lines with # that come first: what was recorded, how much, how trustworthy.
 * more: everything that is known. */
void view_header(const struct profile *p, const char *path,
	const struct view_options *o, bool more);

void view_table(const struct profile *p, const struct view_options *o);
void view_tree(const struct profile *p, const struct view_options *o);

/* How a segment ended, in words. */
void view_end(const struct model_segment *s);

#endif
