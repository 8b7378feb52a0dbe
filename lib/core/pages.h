/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PAGES_H
#define CORE_PAGES_H

/*
 * Two pages that stay in the program for good: code that may be called long after the
 * image and the arena are gone, as others have saved its address or a fork child has
 * inherited it, and the state of that code.  The code refers to nothing outside and
 * finds its state by its own address.
 */

#include <stdbool.h>
#include <stdint.h>

struct core;

enum { PAGES_CODE = 4096, PAGES_BYTES = 2 * PAGES_CODE };

struct pages {
	uint64_t name;                    /* tells the kinds apart */
	const unsigned char *begin, *end; /* the code, in the image */
	bool wiped;                       /* a fork child has the state zeroed */
	/* Are those of a start before, or of a parent, free to use?  Asked of pages
	 * with this very code. */
	bool (*are_free)(struct core *c, uint64_t address);
};

/* Does this code lie there?  Read as anything else of the program. */
bool pages_have_code(struct core *c, const struct pages *p, uint64_t address);

/* Pages that are free to use: those of an earlier start, or new ones, whose state is
 * zeroed.  Returns their address or a negative errno (sys_is_address()). */
long pages_find(struct core *c, const struct pages *p);

#endif
