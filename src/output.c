/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "file/place.h"

enum {
	PIECES = 8, /* what is kept in memory, at least in so many */
	PIECE_LEAST_NS = 100000000,
	STAMP_BYTES = 40, /* YYYYMMDDhhmmssNN and a NUL, with room */
	STAMP_STEP_NS = 10000000,
	STAMP_TRIES = 1000,
};

struct output_part {
	struct file_writer *writer;
	int64_t begun_ns;
	int64_t begun_cpu_ns; /* of this process */
	uint32_t segments;    /* in it */
	uint32_t *numbers;    /* of the recording's segments, from 1; 0: not in it */
	size_t number_count, number_capacity;
	uint64_t lost;
	uint64_t sampled_bytes; /* written, once samples were among them */
	bool marked;
};

/* A part that is kept in memory. */
struct piece {
	struct buf bytes;
	int64_t begun_ns, ended_ns;
	uint64_t samples;
	bool empty; /* kept only while there is no other */
};

/* A file that this recording has written and may remove. */
struct written_file {
	char *path;
	struct stat st; /* as it was left */
};

struct output {
	struct output_options o;
	int64_t owner, group;
	struct output_part *part, *before; /* before: while processes move */
	uint64_t bytes;                    /* in files that are ended */
	uint64_t samples;                  /* likewise */
	struct piece *pieces;
	size_t piece_count, piece_capacity;
	uint64_t piece_bytes;
	struct written_file *files;
	size_t file_count, file_capacity;
	int64_t stamp_ns; /* of the last file, since 1970 */
	bool closed;
};

/* --- parts --- */

struct file_writer *output_part_writer(const struct output_part *p)
{
	return p->writer;
}

uint32_t output_part_add(struct output_part *p, uint32_t segment)
{
	while (p->number_count < segment) {
		p->numbers = xgrow(p->numbers, p->number_count, &p->number_capacity,
			sizeof(*p->numbers));
		p->numbers[p->number_count++] = 0;
	}
	p->numbers[segment - 1] = ++p->segments;
	return p->segments;
}

uint32_t output_part_find(const struct output_part *p, uint32_t segment)
{
	return segment != 0 && segment <= p->number_count ? p->numbers[segment - 1] : 0;
}

void output_part_lost(struct output_part *p, uint64_t samples)
{
	p->lost += samples;
}

static void free_part(struct output_part *p)
{
	if (p == NULL)
		return;
	file_writer_free(p->writer);
	free(p->numbers);
	free(p);
}

static int new_part(const struct output *o, struct output_part **ret, struct err *err)
{
	struct file_writer *writer;
	int r = file_writer_open_memory(o->o.level, &writer, err);

	if (r != 0)
		return r;
	*ret = xcalloc(1, sizeof(**ret));
	(*ret)->writer = writer;
	(*ret)->begun_ns = clock_monotonic_ns();
	(*ret)->begun_cpu_ns = clock_process_cpu_ns();
	return 0;
}

static struct file_summary summary_of(const struct output_part *p)
{
	int64_t now = clock_monotonic_ns();

	return (struct file_summary){
		.segments = p->segments,
		.samples = file_writer_samples(p->writer),
		.lost = p->lost,
		.mono_ns = (uint64_t)now,
		.elapsed_ns = (uint64_t)(now - p->begun_ns),
		.recorder_cpu_ns = (uint64_t)(clock_process_cpu_ns() - p->begun_cpu_ns),
	};
}

/* --- opening --- */

/* The user behind sudo gets the file. */
static void find_owner(struct output *o)
{
	const char *user = getenv("SUDO_UID"), *group = getenv("SUDO_GID");
	uint64_t value;

	o->owner = o->group = -1;
	if (geteuid() != 0)
		return;
	if (user != NULL && parse_number(user, INT32_MAX, &value) == 0)
		o->owner = (int64_t)value;
	if (o->owner >= 0 && group != NULL &&
		parse_number(group, INT32_MAX, &value) == 0)
		o->group = (int64_t)value;
}

/* What is kept in memory has no file until the end: can there be one? */
static int try_place(const struct output *o, struct err *err)
{
	char *name;
	int fd = place_open(o->o.path, o->owner, o->group, &name, err);

	if (fd < 0)
		return fd;
	(void)close(fd);
	(void)unlink(name);
	free(name);
	return 0;
}

static bool needs_names(const struct output_options *o)
{
	return o->switching || o->overwrite;
}

/* Several files need names that can be made of this one. */
static int check_path(const struct output *o, struct err *err)
{
	struct stat st;

	if (!needs_names(&o->o) || stat(o->o.path, &st) != 0 || S_ISREG(st.st_mode))
		return 0;
	return err_set(err, -EINVAL,
		"%s: is no file; %s needs one to name others after", o->o.path,
		o->o.overwrite ? "--overwrite" : "--switch-output");
}

int output_open(const struct output_options *options, struct output **ret_output,
	struct err *err)
{
	struct output *o = xcalloc(1, sizeof(*o));
	int r;

	o->o = *options;
	find_owner(o);
	r = check_path(o, err);
	if (r == 0)
		r = new_part(o, &o->part, err);
	/* What the recorder has used to come this far is the first one's. */
	if (r == 0)
		o->part->begun_cpu_ns = 0;
	if (r == 0)
		r = o->o.overwrite ? try_place(o, err)
				   : file_writer_settle(o->part->writer, o->o.path,
					     o->owner, o->group, err);
	if (r != 0) {
		output_free(o);
		return r;
	}
	*ret_output = o;
	return 0;
}

int output_publish(struct output *o, struct err *err)
{
	return o->o.overwrite ? 0 : file_writer_publish(o->part->writer, err);
}

struct output_part *output_part(const struct output *o)
{
	return o->part;
}

/* --- names --- */

/* Later than all before, also where the clock was set back. */
static void next_stamp(struct output *o, char *ret)
{
	int64_t now = clock_real_ns() / STAMP_STEP_NS * STAMP_STEP_NS;
	struct tm tm;

	if (now <= o->stamp_ns)
		now = o->stamp_ns + STAMP_STEP_NS;
	o->stamp_ns = now;
	time_t seconds = (time_t)(now / 1000000000);

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(ret, STAMP_BYTES, "%Y%m%d%H%M%S", &tm);
	(void)snprintf(ret + 14, STAMP_BYTES - 14, "%02d",
		(int)(now % 1000000000 / STAMP_STEP_NS) % 100);
}

/* The number of a file that was removed may be another's soon. */
static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Remove the oldest of our own, unless it is another by now. */
static void forget_oldest(struct output *o)
{
	struct written_file *f = &o->files[0];
	struct stat st;

	if (lstat(f->path, &st) == 0 && is_same_file(&st, &f->st))
		(void)unlink(f->path);
	free(f->path);
	memmove(f, f + 1, --o->file_count * sizeof(*f));
}

static void note_file(struct output *o, const char *path)
{
	struct stat st;

	if (o->o.max_files == 0 || lstat(path, &st) != 0)
		return;
	o->files = xgrow(o->files, o->file_count, &o->file_capacity, sizeof(*o->files));
	o->files[o->file_count++] = (struct written_file){
		.path = xstrdup(path),
		.st = st,
	};
	while (o->file_count > o->o.max_files)
		forget_oldest(o);
}

/* Name the file `from` by the time, behind the name of the recording. */
static int move_to_stamp(
	struct output *o, const char *from, struct output_written *w, struct err *err)
{
	char stamp[STAMP_BYTES];
	int r = -EEXIST;

	for (int i = 0; i < STAMP_TRIES && r == -EEXIST; i++) {
		next_stamp(o, stamp);
		int n = snprintf(w->path, sizeof(w->path), "%s.%s", o->o.path, stamp);

		r = n < (int)sizeof(w->path) ? place_move(from, w->path)
					     : -ENAMETOOLONG;
	}
	if (r != 0)
		return err_set(err, r, "%s: cannot be renamed to %s: %s", from, w->path,
			strerror(-r));
	note_file(o, w->path);
	return 0;
}

/* --- ending a part as a file --- */

/* Ends and frees p. */
static int end_file(struct output *o, struct output_part *p, struct output_written *w,
	struct err *err)
{
	struct file_summary summary = summary_of(p);
	struct err why;
	int r = file_writer_finish(p->writer, &summary, &why);

	w->bytes = file_writer_size(p->writer);
	w->samples = file_writer_written(p->writer);
	w->lasted_ns = clock_monotonic_ns() - p->begun_ns;
	o->bytes += w->bytes;
	o->samples += w->samples;
	free_part(p);
	(void)snprintf(w->path, sizeof(w->path), "%s", o->o.path);
	if (r != 0)
		return err_set(err, r, "%s: %s", o->o.path, why.text);
	return o->o.switching ? move_to_stamp(o, o->o.path, w, err) : 0;
}

/* --- the last part of the recording, in memory --- */

static void drop_oldest_piece(struct output *o)
{
	o->piece_bytes -= o->pieces[0].bytes.size;
	buf_done(&o->pieces[0].bytes);
	memmove(o->pieces, o->pieces + 1, --o->piece_count * sizeof(*o->pieces));
}

/* Of the pieces all are kept that are needed, but no more than the limits allow. */
static void trim_pieces(struct output *o)
{
	int64_t now = clock_monotonic_ns();
	/* With room for the one in hand, and for what its last second adds to that. The
	 * newest is kept in any case. */
	uint64_t most = o->o.keep_bytes - o->o.keep_bytes / PIECES * 2;

	while (o->piece_count > 1 &&
		(o->pieces[0].empty ||
			(o->o.keep_bytes != 0 && o->piece_bytes > most) ||
			(o->o.keep_ns != 0 &&
				now - o->pieces[0].ended_ns > (int64_t)o->o.keep_ns)))
		drop_oldest_piece(o);
}

/* Ends and frees p. */
static int end_piece(struct output *o, struct output_part *p, struct err *err)
{
	struct file_summary summary = summary_of(p);
	struct file_writer *writer = p->writer;
	struct piece piece = {
		.begun_ns = p->begun_ns,
		.ended_ns = clock_monotonic_ns(),
		.samples = summary.samples,
		.empty = p->segments == 0 && !p->marked,
	};

	p->writer = NULL;
	free_part(p);
	int r = file_writer_take(writer, &summary, &piece.bytes, err);

	if (r != 0)
		return r;
	buf_fit(&piece.bytes);
	o->pieces = xgrow(
		o->pieces, o->piece_count, &o->piece_capacity, sizeof(*o->pieces));
	o->pieces[o->piece_count++] = piece;
	o->piece_bytes += piece.bytes.size;
	trim_pieces(o);
	return 0;
}

static int write_pieces(struct output *o, int fd, struct output_written *w)
{
	int r = 0;

	for (size_t i = 0; i < o->piece_count && r == 0; i++) {
		const struct piece *p = &o->pieces[i];

		r = fd_write_all(fd, p->bytes.data, p->bytes.size);
		w->bytes += p->bytes.size;
		w->samples += p->samples;
	}
	if (o->piece_count != 0)
		w->lasted_ns =
			o->pieces[o->piece_count - 1].ended_ns - o->pieces[0].begun_ns;
	return r == 0 && fdatasync(fd) != 0 ? -errno : r;
}

/* One recording behind the other is a file too.  last: under the recording's name. */
static int dump_pieces(
	struct output *o, bool last, struct output_written *w, struct err *err)
{
	_cleanup_free_ char *name = NULL;
	int fd = place_open(o->o.path, o->owner, o->group, &name, err);

	if (fd < 0)
		return fd;
	int r = write_pieces(o, fd, w);

	if (close(fd) != 0 && r == 0)
		r = -errno;
	if (r != 0) {
		(void)err_set(err, r, "%s: %s", o->o.path, err_name(r));
	} else if (last) {
		(void)snprintf(w->path, sizeof(w->path), "%s", o->o.path);
		r = place_publish(name, o->o.path, err);
	} else {
		r = move_to_stamp(o, name, w, err);
	}
	if (r != 0) {
		(void)unlink(name);
		w->path[0] = '\0';
		return r;
	}
	o->bytes += w->bytes;
	if (last)
		o->samples = w->samples;
	return 0;
}

/* --- turning --- */

int output_begin_part(struct output *o, struct err *err)
{
	struct output_part *p;
	int r = new_part(o, &p, err);

	if (r != 0)
		return r;
	o->before = o->part;
	o->part = p;
	return 0;
}

bool output_is_turning(const struct output *o)
{
	return o->before != NULL;
}

int output_turn(struct output *o, bool dump, struct output_written *ret_written,
	struct err *err)
{
	struct output_part *before = o->before;
	int r;

	*ret_written = (struct output_written){ 0 };
	o->before = NULL;
	if (o->o.overwrite) {
		r = end_piece(o, before, err);
		return r == 0 && dump ? dump_pieces(o, false, ret_written, err) : r;
	}
	r = end_file(o, before, ret_written, err);
	/* So that there is something to be read in it from the first moment. */
	if (r == 0)
		r = file_writer_flush(o->part->writer, err);
	if (r == 0)
		r = file_writer_settle(
			o->part->writer, o->o.path, o->owner, o->group, err);
	return r == 0 ? file_writer_publish(o->part->writer, err) : r;
}

void output_mark(struct output *o, const char *text)
{
	struct file_mark mark = {
		.real_ns = (uint64_t)clock_real_ns(),
		.text = { text, strlen(text) },
	};

	o->part->marked = true;
	file_writer_mark(o->part->writer, &mark);
}

int output_flush(struct output *o, struct err *err)
{
	int r = o->before != NULL ? file_writer_flush(o->before->writer, err) : 0;

	if (r != 0 || o->part == NULL)
		return r;
	r = file_writer_flush(o->part->writer, err);
	if (r == 0 && file_writer_samples(o->part->writer) != 0)
		o->part->sampled_bytes = file_writer_size(o->part->writer);
	return r;
}

bool output_should_flush(const struct output *o)
{
	return o->part != NULL && file_writer_should_flush(o->part->writer);
}

/* --- limits --- */

/* Pieces are small, so that little more than what is asked for is kept. */
static bool piece_is_full(const struct output *o, uint64_t bytes, int64_t lasted)
{
	if (o->o.keep_ns != 0 && lasted >= (int64_t)o->o.keep_ns / PIECES &&
		lasted >= PIECE_LEAST_NS)
		return true;
	return o->o.keep_bytes != 0 && bytes >= o->o.keep_bytes / PIECES;
}

bool output_part_is_full(const struct output *o, bool sampled, int64_t now)
{
	const struct output_part *p = o->part;

	if (p == NULL || o->before != NULL)
		return false;
	int64_t lasted = now - p->begun_ns;

	if (o->o.overwrite)
		return piece_is_full(o, file_writer_size(p->writer), lasted);
	/* What a file has before its first sample may be larger than asked for. */
	if (o->o.switch_bytes != 0 && p->sampled_bytes >= o->o.switch_bytes)
		return true;
	/* With sampling off for a while there is nothing to be put into a file. */
	return o->o.switch_ns != 0 && lasted >= (int64_t)o->o.switch_ns && sampled &&
	       p->segments != 0;
}

bool output_is_full(const struct output *o)
{
	return o->o.max_bytes != 0 && output_bytes(o) >= o->o.max_bytes;
}

static uint64_t part_samples(const struct output_part *p)
{
	return p != NULL ? file_writer_written(p->writer) : 0;
}

static uint64_t part_bytes(const struct output_part *p)
{
	return p != NULL ? file_writer_size(p->writer) : 0;
}

uint64_t output_bytes(const struct output *o)
{
	if (o->o.overwrite)
		return o->bytes;
	return o->bytes + part_bytes(o->part) + part_bytes(o->before);
}

uint64_t output_samples(const struct output *o)
{
	return o->samples;
}

uint64_t output_kept_bytes(const struct output *o)
{
	if (!o->o.overwrite)
		return 0;
	return o->piece_bytes + part_bytes(o->part) + part_bytes(o->before);
}

const char *output_path(const struct output *o)
{
	return o->o.path;
}

/* --- the end --- */

int output_close(struct output *o, bool failed, struct output_written *ret_written,
	struct err *err)
{
	struct output_part *p = o->part;
	int r;

	*ret_written = (struct output_written){ 0 };
	o->part = NULL;
	if (failed) {
		o->bytes += part_bytes(p);
		if (!o->o.overwrite)
			o->samples += part_samples(p) + part_samples(o->before);
		free_part(p);
		return 0;
	}
	if (!o->o.overwrite)
		return end_file(o, p, ret_written, err);
	r = end_piece(o, p, err);
	return r == 0 ? dump_pieces(o, true, ret_written, err) : r;
}

void output_free(struct output *o)
{
	if (o == NULL)
		return;
	free_part(o->part);
	free_part(o->before);
	while (o->piece_count != 0)
		drop_oldest_piece(o);
	for (size_t i = 0; i < o->file_count; i++)
		free(o->files[i].path);
	free(o->pieces);
	free(o->files);
	free(o);
}
