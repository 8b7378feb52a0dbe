/* SPDX-License-Identifier: Apache-2.0 */
#include "interpreters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"

enum { SHOWN = 8 };

static int compare(const void *a, const void *b)
{
	const struct interpreter *x = a, *y = b;

	if (x->segment != y->segment)
		return x->segment < y->segment ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

void interpreters_find(const struct model *m, struct interpreters *ret)
{
	size_t all = model_thread_count(m), kept = 0;
	struct interpreter *list = xcalloc(all, sizeof(*list));

	for (uint32_t i = 0; i < all; i++)
		list[i] = (struct interpreter){ model_thread(m, i)->segment,
			model_thread(m, i)->interpreter };
	if (all != 0)
		qsort(list, all, sizeof(*list), compare);
	for (size_t i = 0; i < all; i++)
		if (kept == 0 || compare(&list[kept - 1], &list[i]) != 0)
			list[kept++] = list[i];
	*ret = (struct interpreters){ list, kept };
}

size_t interpreters_of(const struct interpreters *all, uint32_t segment, size_t *at)
{
	size_t first = *at;

	while (*at < all->count && all->list[*at].segment == segment)
		(*at)++;
	return *at - first;
}

void interpreters_print(const struct interpreter *list, size_t count)
{
	for (size_t i = 0; i < count && i < SHOWN; i++)
		printf("%s%" PRIu64 "%s", i == 0 ? "" : ", ", list[i].number,
			list[i].number == 0 ? " (main)" : "");
	if (count > SHOWN)
		printf(" and %zu more", count - SHOWN);
	printf("\n");
}
