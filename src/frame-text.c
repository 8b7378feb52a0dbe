/* SPDX-License-Identifier: Apache-2.0 */
#include "frame-text.h"

#include <string.h>

#include "base/str.h"
#include "profile/load.h"
#include "term.h"

void frame_text_clean(struct buf *b, const char *text)
{
	str_clean(b, text, strlen(text), term_is_ascii());
}

void frame_text_name(struct buf *b, const struct model *m, const struct model_frame *f)
{
	char special[80];

	if (f->kind != MODEL_PYTHON)
		buf_add_str(b, model_special_name(f, special, sizeof(special)));
	else
		frame_text_clean(b, model_function(m, f->function)->name);
}

void frame_text_full(struct buf *b, const struct model *m, uint32_t frame)
{
	const struct model_frame *f = model_frame(m, frame);

	frame_text_name(b, m, f);
	if (f->kind != MODEL_PYTHON)
		return;
	buf_add_str(b, " (");
	frame_text_clean(b, model_function(m, f->function)->file);
	if (f->line != 0)
		buf_printf(b, ":%lld", (long long)f->line);
	buf_add_str(b, ")");
}

void frame_text_collapsed(struct buf *b, const struct model *m, uint32_t frame)
{
	size_t start = b->size;

	frame_text_full(b, m, frame);
	for (size_t i = start; i < b->size; i++)
		if (b->data[i] == ';')
			b->data[i] = ',';
}

void frame_text_state(struct buf *b, uint32_t state, const char *between)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} words[] = {
		{ REC_GIL, "gil" },
		{ REC_GIL_WAIT, "gil-wait" },
		{ REC_GC, "gc" },
		{ LOAD_STARTING, "starting" },
		{ LOAD_FINALIZING, "finalizing" },
		{ REC_APPROXIMATE, "approximate" },
	};

	buf_add_str(b, (state & REC_RUNNING) != 0 ? "running" : "waiting");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if ((state & words[i].bit) != 0)
			buf_printf(b, "%s%s", between, words[i].word);
}

void frame_text_thread(struct buf *b, const struct model *m, uint32_t thread)
{
	const struct model_thread *t = model_thread(m, thread);

	if (t->name[0] != '\0')
		frame_text_clean(b, t->name);
	else
		buf_add_str(b, t->main ? "MainThread" : "thread");
	if (t->interpreter != 0)
		buf_printf(
			b, " (interpreter %llu)", (unsigned long long)t->interpreter);
}
