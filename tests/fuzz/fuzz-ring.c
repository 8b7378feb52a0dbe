/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a ring through the decoder: a byte for the kind of line tables (bits 0 and
 * 1) and for how much is fed at once (the rest), then the bytes as they come from the
 * ring.  Whatever they are, the file that is written must be a good one.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/xalloc.h"
#include "decoder.h"
#include "file/reader.h"
#include "fuzz.h"

enum { FIRST_FREE = 3 };

/* The writer's "-" is standard output: let that be a file in memory. */
static void prepare_output(void)
{
	static bool ready;

	if (!ready) {
		int fd = memfd_create("fuzz", MFD_CLOEXEC);

		fuzz_require(
			fd >= FIRST_FREE && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO,
			"a file in memory");
		(void)close(fd);
		ready = true;
	}
	fuzz_require(ftruncate(STDOUT_FILENO, 0) == 0 &&
			     lseek(STDOUT_FILENO, 0, SEEK_SET) == 0,
		"an empty file");
}

/* As follow_drain() does: what was not used comes again with what is new. */
static void feed_pieces(struct decoder *d, struct file_writer *w, const uint8_t *bytes,
	size_t size, size_t piece)
{
	size_t start = 0, end = 0;
	struct err err;

	while (end < size) {
		end += piece < size - end ? piece : size - end;
		_cleanup_free_ uint8_t *copy = xmalloc(end - start);
		bool cut = false;

		memcpy(copy, bytes + start, end - start);
		int64_t used = decoder_feed(d, copy, end - start, &cut, &err);

		if (used < 0)
			return;
		fuzz_require(
			(size_t)used <= end - start, "no more is used than is there");
		start += (size_t)used;
		if (cut || file_writer_should_flush(w)) {
			decoder_close_runs(d);
			fuzz_require(file_writer_flush(w, &err) == 0, "a flush");
		}
	}
}

static void check_file(void)
{
	struct file_reader *r;
	struct file_record record;
	struct err err;

	fuzz_require(
		file_reader_open("/proc/self/fd/1", &r, &err) == 0, "a sample file");
	while (file_reader_next(r, &record) != FILE_EVENT_END)
		;
	if (file_reader_damage(r) != NULL)
		(void)fprintf(stderr, "%s\n", file_reader_damage(r));
	fuzz_require(file_reader_damage(r) == NULL && file_reader_complete(r),
		"a good file");
	file_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct file_summary summary = { 1, 0, 0, 0 };
	struct file_segment segment = { .segment = 1, .why = FILE_WHY_SPAWN };
	struct file_writer *w;
	uint32_t next_thread = 0;
	struct err err;

	if (size == 0)
		return 0;
	prepare_output();
	fuzz_require(file_writer_open("-", 1, -1, -1, &w, &err) == 0, "a writer");
	file_writer_segment(w, &segment);
	struct decoder *d =
		decoder_new(w, 1, &next_thread, (enum py_linetable_kind)(data[0] & 3));

	feed_pieces(d, w, data + 1, size - 1, 1 + (size_t)(data[0] >> 2) * 40);
	for (size_t i = 0; decoder_thread_at(d, i) != NULL; i++)
		if (decoder_thread_at(d, i)->file_thread != 0)
			decoder_name_thread(d, decoder_thread_at(d, i), "name");
	decoder_close_runs(d);
	decoder_free(d);
	fuzz_require(file_writer_close(w, &summary, &err) == 0, "the file is closed");
	check_file();
	return 0;
}
