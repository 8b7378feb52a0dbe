/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the stacks of a recording of apps/oracle.py with what is known of it.
 *
 * usage: oracle-check FILE TRUTH
 *
 * Prints "stacks N impossible N approximate N unreadable N": impossible are those shown
 * as good of which a caller, its line or the leaf's line cannot be.  Then a line
 * "depth D N" for each depth of the leaf in the tree: ns, whatever the mark.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"

enum { MAX_FUNCTIONS = 4096, MAX_DEPTH = 64, FIRST_WRONG = 5 };

struct truth {
	char callee[64], caller[64];
	int line, first, last;
};

static struct truth truths[MAX_FUNCTIONS];
static int truth_count;

/* Versions before 3.11 know the plain name only: then several may fit. */
static bool name_fits(const char *name, const char *qualified)
{
	const char *dot = strrchr(qualified, '.');

	return strcmp(name, qualified) == 0 ||
	       (dot != NULL && strcmp(name, dot + 1) == 0);
}

static const struct truth *find(const struct profile *p, const struct model_frame *f)
{
	const struct model_function *k = model_function(p->model, f->function);

	for (int i = 0; i < truth_count; i++)
		if (truths[i].first == k->first_line &&
			name_fits(k->name, truths[i].callee))
			return &truths[i];
	return NULL;
}

static bool is_generated(const struct profile *p, const struct model_frame *f)
{
	return f->kind == MODEL_PYTHON &&
	       strcmp(model_function(p->model, f->function)->file,
		       "/oracle/generated.py") == 0;
}

/* Frames of a stack, leaf first, that belong to the tree. */
static int tree_frames(const struct profile *p, uint32_t stack,
	const struct model_frame **frames, const struct model_frame **ret_below)
{
	int n = 0;

	*ret_below = NULL;
	for (uint32_t at = stack; at != 0; at = model_stack(p->model, at)->parent) {
		const struct model_frame *f =
			model_frame(p->model, model_stack(p->model, at)->frame);

		if (is_generated(p, f) && n < MAX_DEPTH)
			frames[n++] = f;
		else if (n != 0 && *ret_below == NULL)
			*ret_below = f;
	}
	return n;
}

static const char *judge(const struct profile *p, const struct model_frame **frames,
	int n, const struct model_frame *below)
{
	for (int i = 0; i < n; i++) {
		const struct truth *t = find(p, frames[i]);

		if (t == NULL)
			return "a function that is none";
		if (i == 0 && frames[i]->line != 0 &&
			(frames[i]->line < t->first || frames[i]->line > t->last))
			return "a leaf outside its lines";
		if (i + 1 == n) {
			if (strcmp(t->caller, "-") != 0)
				return "a root that is none";
			if (below == NULL || below->kind != MODEL_PYTHON ||
				strcmp(model_function(p->model, below->function)->name,
					"main") != 0)
				return "not called by main";
			break;
		}
		const struct truth *caller = find(p, frames[i + 1]);

		if (caller == NULL || strcmp(caller->callee, t->caller) != 0)
			return "a caller that does not call it";
		if (frames[i + 1]->line != t->line)
			return "a line that does not call it";
	}
	return NULL;
}

static void print_stack(
	const struct profile *p, const struct model_frame **frames, int n)
{
	for (int i = n; i-- > 0;)
		printf(" %s:%" PRId64,
			model_function(p->model, frames[i]->function)->name,
			frames[i]->line);
	printf("\n");
}

static bool read_truth(const char *path)
{
	FILE *f = fopen(path, "r");

	if (f == NULL)
		return false;
	while (truth_count < MAX_FUNCTIONS) {
		struct truth *t = &truths[truth_count];

		if (fscanf(f, "%63s %63s %d %d %d", t->callee, t->caller, &t->line,
			    &t->first, &t->last) != 5)
			break;
		truth_count++;
	}
	(void)fclose(f);
	return truth_count != 0;
}

int main(int argc, char **argv)
{
	struct profile *p;
	struct err err;
	uint64_t stacks = 0, impossible = 0, approximate = 0, unreadable = 0;
	uint64_t depths[MAX_DEPTH + 1] = { 0 };
	int shown = 0;

	if (argc != 3 || !read_truth(argv[2]) || profile_load(argv[1], &p, &err) != 0) {
		fprintf(stderr, "usage: oracle-check FILE TRUTH\n");
		return 2;
	}
	for (size_t i = 0; i < p->count; i++) {
		const struct profile_sample *s = &p->samples[i];
		const struct model_frame *frames[MAX_DEPTH], *below;
		const struct model_frame *leaf =
			model_frame(p->model, model_stack(p->model, s->stack)->frame);
		int n = tree_frames(p, s->stack, frames, &below);

		if (leaf->kind == MODEL_UNREADABLE)
			unreadable += s->ticks;
		/* The generated module being executed, with the bodies of its classes.
		 */
		if (n == 0 ||
			strcmp(model_function(p->model, frames[n - 1]->function)->name,
				"<module>") == 0)
			continue;
		stacks += s->ticks;
		depths[n] += (uint64_t)s->wall_ns;
		if ((s->state & REC_APPROXIMATE) != 0) {
			approximate += s->ticks;
			continue;
		}
		const char *wrong = judge(p, frames, n, below);

		if (wrong == NULL)
			continue;
		impossible += s->ticks;
		if (shown++ < FIRST_WRONG) {
			printf("# %s (%" PRIu64 "):", wrong, s->ticks);
			print_stack(p, frames, n);
		}
	}
	printf("stacks %" PRIu64 " impossible %" PRIu64 " approximate %" PRIu64
	       " unreadable %" PRIu64 "\n",
		stacks, impossible, approximate, unreadable);
	for (int i = 1; i <= MAX_DEPTH; i++)
		if (depths[i] != 0)
			printf("depth %d %" PRIu64 "\n", i, depths[i]);
	profile_free(p);
	return impossible == 0 ? 0 : 1;
}
