/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_TERM_H
#define SRC_TERM_H

/* The terminal, or whatever stands in its place. */

#include <stdbool.h>
#include <stddef.h>

/* Give the descriptors 0 to 2 something to point at where they are closed. */
void term_open_standard_descriptors(void);

/*
 * Flush standard output and see whether everything went out.  Returns status, or
 * STATUS_FAILED when something did not, which is said; a reader that has gone away is
 * no failure of ours, and the process then ends like one that got SIGPIPE.
 */
int term_finish_stdout(int status);

/* Columns to be used: the terminal's, or COLUMNS, or 80; at least 40. */
size_t term_width(void);

/* Is standard output to get characters outside ASCII?  By the locale of the
 * environment; files and pipes always get UTF-8. */
bool term_is_ascii(void);

/* Let the pager show what is printed from now on, if standard output is a terminal:
 * PYSTACK_PAGER, else PAGER, else less; none when that is empty or "cat". */
void term_start_pager(void);

#endif
