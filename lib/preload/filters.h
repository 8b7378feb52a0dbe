/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRELOAD_FILTERS_H
#define PRELOAD_FILTERS_H

#include <stdbool.h>

/*
 * A filter of system calls (seccomp) that the program has given itself may end it for
 * a call that it never makes by itself.  Those it was started under have let pass what
 * the library did then.
 */

/* Note those it is started under. */
void filters_note(void);

/* Are there no others now?  Reads a file of /proc: open, read, close.  False when it
 * cannot be told. */
bool filters_are_ours(void);

/* Had the program so many then? */
bool filters_are(long count);

#endif
