/* SPDX-License-Identifier: Apache-2.0 */
/* How a sample file comes into its place, and what happens when it cannot be written.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/xalloc.h"
#include "dump.h"
#include "file/writer.h"
#include "scratch.h"
#include "tap.h"

static const struct file_summary nothing = { 0 };

static bool exists(const char *name)
{
	struct stat st;

	return lstat(scratch(name), &st) == 0;
}

/* Files in the folder whose names begin so. */
static unsigned count_files(const char *start, char *ret_last, size_t size)
{
	DIR *folder = opendir(scratch_folder);
	unsigned count = 0;

	for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;)
		if (strncmp(e->d_name, start, strlen(start)) == 0) {
			count++;
			(void)snprintf(ret_last, size, "%s", e->d_name);
		}
	if (folder != NULL)
		(void)closedir(folder);
	return count;
}

static void put(const char *name, const char *text)
{
	int fd = open(scratch(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	(void)fd_write_all(fd, text, strlen(text));
	fd_close(&fd);
}

static bool holds(const char *name, const char *text)
{
	_cleanup_buf_ struct buf b = BUF_INIT(1 << 20);

	return fd_read_file(AT_FDCWD, scratch(name), &b) == 0 &&
	       strcmp(buf_text(&b), text) == 0;
}

static bool is_sample_file(const char *name)
{
	struct file_reader *r;

	if (file_reader_open(scratch(name), &r, NULL) != 0)
		return false;
	file_reader_free(r);
	return true;
}

static struct file_writer *open_or_fail(const char *path)
{
	struct file_writer *w = NULL;
	struct err err = { "" };

	if (file_writer_open(path, 3, -1, -1, &w, &err) != 0)
		tap_ok(false, "a writer for %s: %s", path, err.text);
	return w;
}

/* --- names --- */

static void test_temporary_name(void)
{
	struct file_writer *w = open_or_fail(scratch("new.data"));
	char name[256] = "";
	struct stat st;

	tap_ok(!exists("new.data") &&
			count_files("new.data.new-", name, sizeof(name)) == 1,
		"a file has a name of its own until it is published");
	tap_ok(stat(scratch(name), &st) == 0 && (st.st_mode & 07777) == 0600 &&
			st.st_size == 56,
		"it is for its owner alone, and has its header");
	tap_is((int64_t)file_writer_size(w), 56, "which is its size so far");
	tap_is(file_writer_publish(w, NULL), 0, "it is published");
	tap_ok(exists("new.data") && !exists(name) && !exists("new.data.old"),
		"and then has the name asked for");
	tap_is(file_writer_publish(w, NULL), 0, "once is enough");
	tap_is(file_writer_close(w, &nothing, NULL), 0, "and closed");
	tap_ok(stat(scratch("new.data"), &st) == 0 && (st.st_mode & 07777) == 0600,
		"the mode is the same");
	scratch_empty();
}

static void test_not_published(void)
{
	char name[256] = "";

	put("kept", "what was there");
	struct file_writer *w = open_or_fail(scratch("kept"));

	file_writer_free(w);
	tap_ok(holds("kept", "what was there") && !exists("kept.old") &&
			count_files("kept.new", name, sizeof(name)) == 0,
		"freed before it was published, it leaves nothing");
	w = open_or_fail(scratch("kept"));
	tap_is(file_writer_close(w, &nothing, NULL), 0, "closed likewise");
	tap_ok(holds("kept", "what was there") &&
			count_files("kept.new", name, sizeof(name)) == 0,
		"it leaves nothing either");
	file_writer_free(NULL);
	scratch_empty();
}

static void add_segment(struct file_writer *w, uint32_t number)
{
	struct file_segment s = { .segment = number, .why = FILE_WHY_ATTACH };

	file_writer_segment(w, &s);
}

static void test_rotation(void)
{
	put("data", "first");
	struct file_writer *w = open_or_fail(scratch("data"));

	tap_ok(holds("data", "first"), "what is there stays until then");
	(void)file_writer_publish(w, NULL);
	tap_ok(holds("data.old", "first") && is_sample_file("data"),
		"then it is kept as .old");
	(void)file_writer_close(w, &nothing, NULL);
	w = open_or_fail(scratch("data"));
	(void)file_writer_publish(w, NULL);
	add_segment(w, 1);
	(void)file_writer_close(w, &nothing, NULL);
	tap_ok(is_sample_file("data") && holds("data.old", "first"),
		"a recording of nothing is not kept in its place");
	w = open_or_fail(scratch("data"));
	(void)file_writer_publish(w, NULL);
	(void)file_writer_close(w, &nothing, NULL);
	tap_ok(is_sample_file("data") && is_sample_file("data.old"),
		"one of a process is, and the oldest one is given up");
	scratch_empty();

	/* A link is a name like any other: what it points to is not written to. */
	put("target", "far away");
	tap_is(symlink(scratch("target"), scratch("link")), 0, "a link");
	w = open_or_fail(scratch("link"));
	(void)file_writer_publish(w, NULL);
	(void)file_writer_close(w, &nothing, NULL);
	tap_ok(holds("target", "far away") && is_sample_file("link") &&
			holds("link.old", "far away"),
		"a link is kept as .old, and what it points to is left alone");
	scratch_empty();

	struct err err = { "" };

	put("data", "first");
	(void)mkdir(scratch("data.old"), 0700);
	w = open_or_fail(scratch("data"));
	int code = file_writer_publish(w, &err);

	tap_ok(code < 0 && strstr(err.text, "cannot be kept as") != NULL &&
			holds("data", "first"),
		"where .old is a folder it cannot be published, and says so");
	file_writer_free(w);
	scratch_empty();
}

static void test_owner(void)
{
	struct file_writer *w = NULL;
	struct err err = { "" };
	struct stat st;
	char name[256] = "";
	int64_t uid = geteuid() == 0 ? 12345 : geteuid();

	int code = file_writer_open(scratch("owned"), 3, uid, getegid(), &w, &err);

	tap_ok(code == 0 && count_files("owned", name, sizeof(name)) == 1 &&
			stat(scratch(name), &st) == 0 && st.st_uid == (uid_t)uid,
		"a file is given to its owner");
	if (code == 0)
		file_writer_free(w);
	if (geteuid() == 0) {
		tap_skip("a file that cannot be given away", "root can");
		return;
	}
	code = file_writer_open(scratch("owned"), 3, 0, -1, &w, &err);
	tap_ok(code == -EPERM &&
			strstr(err.text, "cannot be given to user 0") != NULL &&
			count_files("owned", name, sizeof(name)) == 0,
		"a file that cannot be given away is not made");
}

static void test_bad_places(void)
{
	struct file_writer *w = NULL;
	struct err err = { "" };

	(void)mkdir(scratch("folder"), 0700);
	tap_is(file_writer_open(scratch("folder"), 3, -1, -1, &w, &err), -EISDIR,
		"a folder");
	tap_ok(strncmp(err.text, scratch("folder"), strlen(scratch("folder"))) == 0 &&
			strstr(err.text, ": is a directory") != NULL,
		"is named, and the reason");
	tap_is(file_writer_open(scratch("no/file"), 3, -1, -1, &w, &err), -ENOENT,
		"a folder that is not there");
	tap_ok(strstr(err.text, "cannot be written") != NULL, "likewise");
	tap_ok(w == NULL, "a failure returns nothing");
	scratch_empty();
}

/* --- devices and pipes --- */

static void test_devices(void)
{
	struct file_writer *w = NULL;
	struct err err = { "" };

	tap_is(file_writer_open("/dev/full", 3, -1, -1, &w, &err), -ENOSPC,
		"a full device");
	tap_ok(strncmp(err.text, "/dev/full: ", 11) == 0, "is named");
	w = open_or_fail("/dev/null");
	tap_ok(file_writer_publish(w, &err) == 0 &&
			file_writer_close(w, &nothing, &err) == 0,
		"a device is written to as it is");

	/* A pipe: the reader is a child, which finds a whole file. */
	(void)mkfifo(scratch("pipe"), 0600);
	(void)fflush(stdout);
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct file_reader *r;
		struct buf b = BUF_INIT(1 << 20);

		if (file_reader_open(scratch("pipe"), &r, NULL) != 0)
			_exit(2);
		dump_events(r, &b);
		_exit(has_line(buf_text(&b), "end, complete") ? 0 : 1);
	}
	w = open_or_fail(scratch("pipe"));
	(void)file_writer_string(w, "text", 4);
	tap_ok(file_writer_publish(w, &err) == 0 &&
			file_writer_close(w, &nothing, &err) == 0,
		"a pipe is written to as it is");
	tap_ok(waitpid(child, &status, 0) == child && status == 0,
		"and read at its other end");
	scratch_empty();
}

static bool standard_output(void)
{
	struct file_writer *w;
	int fd = open(scratch("stdout"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (dup2(fd, STDOUT_FILENO) < 0 ||
		file_writer_open("-", 3, -1, -1, &w, NULL) != 0 ||
		file_writer_publish(w, NULL) != 0 ||
		file_writer_close(w, &nothing, NULL) != 0)
		return false;
	/* The descriptor of the program's own is still open. */
	return fcntl(STDOUT_FILENO, F_GETFD) >= 0;
}

/* --- no room --- */

/* Random bytes, which cannot be compressed. */
static void add_strings(struct file_writer *w, uint32_t seed)
{
	char bytes[4096];

	for (int k = 0; k < 20; k++) {
		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * 1664525 + 1013904223;
			bytes[i] = (char)(seed >> 24);
		}
		(void)file_writer_string(w, bytes, sizeof(bytes));
	}
}

/* The file may grow to one chunk of strings, but not to two. */
static bool limit(void)
{
	struct rlimit r = { 100000, RLIM_INFINITY };

	return signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &r) == 0;
}

static bool failed_flush(void)
{
	struct file_writer *w = open_or_fail(scratch("small"));
	struct err err = { "" };
	struct buf b = BUF_INIT(DUMP_MAX_BYTES);
	struct stat st;
	bool right = true;

	if (w == NULL || !limit() || file_writer_publish(w, NULL) != 0)
		return false;
	add_segment(w, 1);
	add_strings(w, 1);
	right &= file_writer_flush(w, &err) == 0;
	uint64_t good = file_writer_size(w);

	add_segment(w, 2);
	add_strings(w, 2);
	right &= file_writer_flush(w, &err) == -EFBIG && err.text[0] != '\0';
	right &= stat(scratch("small"), &st) == 0 && (uint64_t)st.st_size == good &&
		 file_writer_size(w) == good;
	/* No more is taken, not even what would fit. */
	add_segment(w, 3);
	right &= file_writer_flush(w, &err) == -EFBIG;
	right &= file_writer_close(w, &nothing, &err) == -EFBIG;
	read_bytes(scratch("small"), &b);
	struct buf text = BUF_INIT(DUMP_MAX_BYTES);

	right &= dump_bytes(b.data, b.size, &text, &err) == 0 &&
		 has_line(buf_text(&text), "segment 1 ") &&
		 !has_line(buf_text(&text), "segment 2 ") &&
		 !has_line(buf_text(&text), "damaged") &&
		 !has_line(buf_text(&text), "end, complete");
	buf_done(&text);
	buf_done(&b);
	return right;
}

/* The same, where the definitions find room and the samples do not. */
static bool failed_samples(void)
{
	struct file_writer *w = open_or_fail(scratch("half"));
	struct rlimit r = { 400, RLIM_INFINITY };
	struct file_ticks ticks = { 1, 0, 1, 0, 1, 0, 0, 0, NULL, 0 };
	struct stat st;
	bool right = true;

	if (w == NULL || signal(SIGXFSZ, SIG_IGN) == SIG_ERR ||
		setrlimit(RLIMIT_FSIZE, &r) != 0 || file_writer_publish(w, NULL) != 0)
		return false;
	uint64_t good = file_writer_size(w);

	add_segment(w, 1);
	for (uint64_t i = 1; i < 1000; i++) {
		ticks.start_ns = i * i * i * 0x9e3779b97f4a7c15ull >> 8;
		file_writer_ticks(w, &ticks);
	}
	right &= file_writer_flush(w, NULL) == -EFBIG;
	right &= stat(scratch("half"), &st) == 0 && (uint64_t)st.st_size == good;
	file_writer_free(w);
	return right;
}

/* --- in memory --- */

static void test_memory(void)
{
	struct file_writer *w;
	struct buf bytes = BUF_INIT(0), text = BUF_INIT(DUMP_MAX_BYTES);
	struct err err = { "" };

	if (file_writer_open_memory(3, &w, &err) != 0)
		return;
	add_segment(w, 1);
	tap_ok(file_writer_flush(w, &err) == 0 && file_writer_size(w) > 56,
		"a file in memory grows");
	uint64_t size = file_writer_size(w);

	add_segment(w, 2);
	tap_is(file_writer_take(w, &nothing, &bytes, &err), 0, "its bytes are taken");
	tap_ok(bytes.size > size &&
			dump_bytes(bytes.data, bytes.size, &text, &err) == 0 &&
			has_line(buf_text(&text), "segment 1 ") &&
			has_line(buf_text(&text), "segment 2 ") &&
			has_line(buf_text(&text), "end, complete"),
		"and are a whole file");
	buf_done(&bytes);
	buf_done(&text);
}

static void test_settle(void)
{
	struct file_writer *w;
	struct buf bytes = BUF_INIT(DUMP_MAX_BYTES), text = BUF_INIT(DUMP_MAX_BYTES);
	struct err err = { "" };

	if (file_writer_open_memory(3, &w, &err) != 0)
		return;
	add_segment(w, 1);
	(void)file_writer_flush(w, &err);
	tap_is(file_writer_settle(w, scratch("no/file"), -1, -1, &err), -ENOENT,
		"no place for it");
	add_segment(w, 2);
	tap_is(file_writer_flush(w, &err), 0, "then it stays in memory");
	put("settled", "what was there");
	tap_is(file_writer_settle(w, scratch("settled"), -1, -1, &err), 0,
		"a place for it");
	tap_ok(holds("settled", "what was there"), "which it takes");
	tap_ok(file_writer_publish(w, &err) == 0 &&
			holds("settled.old", "what was there"),
		"when it is published");
	add_segment(w, 3);
	tap_is(file_writer_finish(w, &nothing, &err), 0, "it is ended");
	read_bytes(scratch("settled"), &bytes);
	tap_is((int64_t)file_writer_size(w), (int64_t)bytes.size, "its size is known");
	file_writer_free(w);
	tap_ok(dump_bytes(bytes.data, bytes.size, &text, &err) == 0 &&
			count_lines(buf_text(&text), "segment ") == 3 &&
			has_line(buf_text(&text), "end, complete"),
		"and all of it is in the file");
	buf_done(&bytes);
	buf_done(&text);
	scratch_empty();
}

int main(void)
{
	scratch_begin();
	test_temporary_name();
	test_not_published();
	test_rotation();
	test_owner();
	test_bad_places();
	test_devices();
	test_memory();
	test_settle();
	tap_ok(tap_child(standard_output) && is_sample_file("stdout"),
		"standard output");
	tap_ok(tap_child(failed_flush),
		"a flush that fails leaves the file as it was before");
	tap_ok(tap_child(failed_samples),
		"definitions without their samples are taken back");
	scratch_end();
	return tap_done();
}
