/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INJECT_HUSH_H
#define INJECT_HUSH_H

/*
 * The handler of CPU timers that a sampler has left in its program: make it do nothing,
 * from outside.
 */

#include <stdbool.h>

#include "inject/inject.h"

/*
 * The sampler is gone.  Of t: program, image_mark, arena, arena_bytes, timer_page.
 * Signals that come from here on are dropped, and no timer is armed again; threads that
 * are in the handler are given a second to come out.  The program is not stopped for
 * it, and must not be: who is held cannot come out.
 *
 * Returns true when no thread can be in the image any more.
 */
bool hush_timers(const struct inject_task *t);

#endif
