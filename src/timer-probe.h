/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_TIMER_PROBE_H
#define SRC_TIMER_PROBE_H

#include "base/err.h"

/*
 * Does this kernel keep a timer of a thread's CPU clock from cutting the thread's
 * system calls short?  Tried on the calling thread: it makes a call that is in the
 * kernel for some ms and that a signal would cut short.  Returns 0, or a negative code
 * with words.
 */
int timer_probe(struct err *err);

#endif
