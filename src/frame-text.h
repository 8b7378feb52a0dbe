/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_FRAME_TEXT_H
#define SRC_FRAME_TEXT_H

/*
 * Frames, threads and other names of a model as text, appended to a buffer; cleaned
 * of what a terminal must not see.
 */

#include "base/buf.h"
#include "profile/model.h"

/* A foreign string. */
void frame_text_clean(struct buf *b, const char *text);

/* "inner (/srv/app/busy.py:5)"; without ":5" where there is no line. */
void frame_text_full(struct buf *b, const struct model *m, uint32_t frame);

/* The same as a piece of a collapsed stack: no semicolon, no line break. */
void frame_text_collapsed(struct buf *b, const struct model *m, uint32_t frame);

/* The function's name alone. */
void frame_text_name(struct buf *b, const struct model *m, const struct model_frame *f);

/* "running+gil+gc", with what stands between given. */
void frame_text_state(struct buf *b, uint32_t state, const char *between);

/* A thread: its name, or "MainThread", or "thread". */
void frame_text_thread(struct buf *b, const struct model *m, uint32_t thread);

#endif
