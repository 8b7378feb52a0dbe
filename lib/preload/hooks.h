/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRELOAD_HOOKS_H
#define PRELOAD_HOOKS_H

/* Find the next definitions of what is interposed, while that is easy: at the start. */
void hooks_find(void);

#endif
