/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_TIMER_TEXT_H
#define SRC_TIMER_TEXT_H

/* What has become of CPU timers, in words. */

#include "base/buf.h"
#include "profile/model.h"

/* One word for each state: "on", "taken", ...; "?". */
const char *timer_text_state(uint32_t state);

/* Why there are none, and from when on: "none from 0.012 s on: the program has taken
 * SIGURG ...".  False, and nothing, where there are. */
bool timer_text_why(struct buf *b, const struct model_segment *s);

#endif
