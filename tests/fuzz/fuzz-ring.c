/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a ring through the decoder: a byte for the kind of line tables (bits 0 and
 * 1) and for how much is fed at once (the rest), then the bytes as they come from the
 * ring.  Behind a cut that serves the next request the decoder goes on in another file.
 * Whatever the bytes are, the files that are written must be good ones.
 */
#include <string.h>

#include "base/xalloc.h"
#include "decoder.h"
#include "file/reader.h"
#include "fuzz.h"

struct session {
	struct decoder *d;
	struct file_writer *w;
	uint32_t asked; /* requests for a cut */
};

static void check_file(const struct buf *bytes)
{
	struct file_reader *r;
	struct file_record record;
	struct err err;

	fuzz_require(file_reader_open_bytes(bytes->data, bytes->size, &r, &err) == 0,
		"a sample file");
	while (file_reader_next(r, &record) != FILE_EVENT_END)
		;
	if (file_reader_damage(r) != NULL)
		(void)fprintf(stderr, "%s\n", file_reader_damage(r));
	fuzz_require(file_reader_damage(r) == NULL && file_reader_complete(r),
		"a good file");
	file_reader_free(r);
}

static struct file_writer *begin_file(void)
{
	struct file_segment segment = { .segment = 1, .why = FILE_WHY_SPAWN };
	struct file_writer *w;
	struct err err;

	fuzz_require(file_writer_open_memory(1, &w, &err) == 0, "a writer");
	file_writer_segment(w, &segment);
	return w;
}

static void end_file(struct file_writer *w)
{
	static const struct file_summary summary = { .segments = 1 };
	struct buf bytes;
	struct err err;

	fuzz_require(
		file_writer_take(w, &summary, &bytes, &err) == 0, "the file is closed");
	check_file(&bytes);
	buf_done(&bytes);
}

static void move(struct session *s)
{
	struct file_writer *before = s->w;

	s->w = begin_file();
	decoder_move(s->d, s->w, 1);
	end_file(before);
	decoder_stop_at_cut(s->d, ++s->asked);
}

/* As follow_drain() does: what was not used comes again with what is new. */
static void feed_pieces(
	struct session *s, const uint8_t *bytes, size_t size, size_t piece)
{
	size_t start = 0, end = 0;
	struct err err;

	while (end < size || start < end) {
		size_t before = end;

		end += piece < size - end ? piece : size - end;
		_cleanup_free_ uint8_t *copy = xmalloc(end - start);
		bool cut = false;

		memcpy(copy, bytes + start, end - start);
		int64_t used = decoder_feed(s->d, copy, end - start, &cut, &err);

		if (used < 0 || (used == 0 && end == before))
			return;
		fuzz_require(
			(size_t)used <= end - start, "no more is used than is there");
		start += (size_t)used;
		if (decoder_has_stopped(s->d))
			move(s);
		if (cut || file_writer_should_flush(s->w)) {
			decoder_close_runs(s->d);
			fuzz_require(file_writer_flush(s->w, &err) == 0, "a flush");
		}
	}
}

/* The path of a mapping may be anything too. */
static void name_mapping(uint64_t address, struct buf *name, void *context)
{
	(void)context;
	buf_add(name, &address, sizeof(address));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session s = { .w = begin_file() };
	uint32_t next_thread = 0;

	if (size == 0) {
		file_writer_free(s.w);
		return 0;
	}
	s.d = decoder_new(s.w, 1, &next_thread, (enum py_linetable_kind)(data[0] & 3));
	decoder_set_namer(s.d, name_mapping, NULL);
	decoder_stop_at_cut(s.d, ++s.asked);
	feed_pieces(&s, data + 1, size - 1, 1 + (size_t)(data[0] >> 2) * 40);
	for (size_t i = 0; decoder_thread_at(s.d, i) != NULL; i++)
		if (decoder_thread_at(s.d, i)->file_thread != 0)
			decoder_name_thread(s.d, decoder_thread_at(s.d, i),
				REC_NAME_THREADING, "name");
	if (decoder_copy(s.d) != NULL) {
		struct file_copy again = *decoder_copy(s.d);

		decoder_tell_copy(s.d, &again);
	}
	/* In the middle of things, as when no cut came. */
	move(&s);
	decoder_close_runs(s.d);
	decoder_free(s.d);
	end_file(s.w);
	return 0;
}
