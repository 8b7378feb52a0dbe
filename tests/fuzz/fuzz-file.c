/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sample files.  An input that begins like a file is one.  Any other is a list of
 * chunks, which are put into a file with good checksums, so that the records are
 * reached: for each a byte (kind in bits 0 to 3, epoch in bits 4 to 7; 0xff: a file
 * header instead), a little-endian length of two bytes, and the records.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/records.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "file/reader.h"
#include "fuzz.h"
#include "profile/profile.h"

enum { MAX_FILE = 8 << 20, NEW_HEADER = 0xff, CHUNK_HEAD = 3 };

static void make_file(const uint8_t *data, size_t size, struct buf *file)
{
	if (size >= 4 && (data[0] | data[1] << 8 | data[2] << 16) ==
				 (FILE_MAGIC_HEADER & 0xffffff)) {
		buf_add(file, data, size);
		return;
	}
	add_file_header(file, 1, 0);
	while (size >= CHUNK_HEAD) {
		size_t length = (size_t)data[1] | (size_t)data[2] << 8;

		if (length > size - CHUNK_HEAD)
			length = size - CHUNK_HEAD;
		if (data[0] == NEW_HEADER)
			add_file_header(file, 1, 0);
		else
			add_chunk(file, data[0] & 15, data[0] >> 4, data + CHUNK_HEAD,
				length);
		data += CHUNK_HEAD + length;
		size -= CHUNK_HEAD + length;
	}
}

/* How much was defined so far, of what records refer to. */
struct defined {
	uint32_t strings, functions, nodes, segments;
	unsigned char threads[FILE_THREADS_MAX / 8 + 1]; /* a bit for each */
};

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void check_segment(const struct defined *d, uint32_t segment)
{
	fuzz_require(
		segment >= 1 && segment <= d->segments, "a segment that was defined");
}

static void check_thread(const struct defined *d, uint32_t thread)
{
	fuzz_require(thread <= FILE_THREADS_MAX &&
			     (d->threads[thread / 8] >> thread % 8 & 1) != 0,
		"a thread that was defined");
}

/* The reader's word: what a record refers to has been returned. */
static void check_record(struct defined *d, const struct file_record *r)
{
	switch (r->type) {
	case FILE_STRING:
		fuzz_require(
			r->id == d->strings + 1 || (r->id >= 1 && r->id <= d->strings),
			"strings count from 1 without holes");
		d->strings = larger(d->strings, r->id);
		break;
	case FILE_FUNCTION:
		fuzz_require(r->function.file >= 1 && r->function.file <= d->strings &&
				     r->function.name >= 1 &&
				     r->function.name <= d->strings,
			"strings of a function");
		d->functions = larger(d->functions, r->id);
		break;
	case FILE_NODE:
		fuzz_require(
			r->id >= 1 && r->node.caller < r->id && r->id <= d->nodes + 1,
			"callers come first");
		fuzz_require(r->node.kind != REC_NODE_PYTHON ||
				     (r->node.ref >= 1 && r->node.ref <= d->functions),
			"the function of a node");
		d->nodes = larger(d->nodes, r->id);
		break;
	case FILE_SEGMENT:
		d->segments = larger(d->segments, r->segment.segment);
		fuzz_require(
			r->segment.parent <= d->segments, "the parent of a segment");
		break;
	case FILE_THREAD:
		check_segment(d, r->thread.segment);
		fuzz_require(
			r->thread.thread >= 1 && r->thread.thread <= FILE_THREADS_MAX,
			"the number of a thread");
		d->threads[r->thread.thread / 8] |=
			(unsigned char)(1u << r->thread.thread % 8);
		break;
	case FILE_THREAD_END:
		check_thread(d, r->thread_end.thread);
		break;
	case FILE_RUNS:
		check_thread(d, r->run.thread);
		fuzz_require(r->run.node >= 1 && r->run.node <= d->nodes &&
				     r->run.ticks >= 1,
			"the node of a run");
		break;
	case FILE_CPU:
		check_thread(d, r->cpu.thread);
		break;
	case FILE_TICKS:
		check_segment(d, r->ticks.segment);
		fuzz_require(r->ticks.count >= 1, "ticks are ticks");
		for (uint32_t i = 1; i < r->ticks.late_count; i++)
			fuzz_require(r->ticks.late[i] >= r->ticks.late[i - 1],
				"late ticks rise");
		break;
	case FILE_GAP:
		check_segment(d, r->gap.segment);
		break;
	case FILE_CLOCK:
		check_segment(d, r->clock.segment);
		break;
	case FILE_COUNTERS:
		check_segment(d, r->counters.segment);
		break;
	case FILE_SEGMENT_END:
		check_segment(d, r->segment_end.segment);
		break;
	default:
		break;
	}
}

static void read_records(const void *bytes, size_t size)
{
	static struct defined d;
	struct file_reader *r;
	struct file_record record;
	enum file_event event;
	struct err err;

	if (file_reader_open_bytes(bytes, size, &r, &err) != 0)
		return;
	d = (struct defined){ 0 };
	while ((event = file_reader_next(r, &record)) != FILE_EVENT_END) {
		if (event == FILE_EVENT_RECORD)
			check_record(&d, &record);
		if (event == FILE_EVENT_HEADER || event == FILE_EVENT_EPOCH)
			d.strings = d.functions = d.nodes = 0;
		if (event == FILE_EVENT_HEADER)
			d = (struct defined){ 0 };
	}
	fuzz_require(
		file_reader_next(r, &record) == FILE_EVENT_END, "the end is the end");
	fuzz_require(file_reader_offset(r) <= size, "no more is read than is there");
	file_reader_free(r);
}

static void load_profile(const struct buf *file)
{
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct profile *p;
	struct err err;
	char path[64];

	if (fd < 0 || fd_write_all(fd, file->data, file->size) != 0)
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (profile_load(path, &p, &err) != 0)
		return;
	for (size_t i = 0; i < p->count; i++) {
		fuzz_require(p->samples[i].thread < model_thread_count(p->model) &&
				     p->samples[i].stack < model_stack_count(p->model),
			"a sample of the model's own");
		fuzz_require(p->samples[i].wall_ns >= 0, "time goes forward");
	}
	profile_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf file = BUF_INIT(MAX_FILE);

	make_file(data, size, &file);
	_cleanup_free_ char *bytes = xmalloc(file.size);

	if (file.size != 0)
		memcpy(bytes, file.data, file.size);
	read_records(bytes, file.size);
	load_profile(&file);
	return 0;
}
