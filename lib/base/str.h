/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STR_H
#define BASE_STR_H

/* Foreign strings: UTF-8, widths, what a terminal must not see. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * The character at s (up to size bytes, at least one) and its length in bytes.  What
 * is not UTF-8 counts as one byte and gives 0xfffd.
 */
uint32_t str_character(const char *s, size_t size, size_t *ret_bytes);

/* Columns a character takes: 0, 1 or 2; 1 for those that are replaced. */
unsigned str_character_width(uint32_t c);

/* Columns of a whole string. */
size_t str_width(const char *s, size_t size);

/*
 * Append s to b so that it can be shown: control characters (C0, C1, bidirectional
 * and other invisible ones) become U+FFFD, or '?' when ascii; with ascii every
 * character outside ASCII becomes '?'.
 */
void str_clean(struct buf *b, const char *s, size_t size, bool ascii);

/* How many bytes of s fit into `columns` columns. */
size_t str_fit(const char *s, size_t size, size_t columns);

#endif
