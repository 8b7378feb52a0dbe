/* SPDX-License-Identifier: Apache-2.0 */
/* What everything stands on: buffers, hashing, checksums, descriptors, errors. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/xalloc.h"
#include "scratch.h"
#include "tap.h"

/* --- buffers --- */

static void test_buf_maximum(void)
{
	struct buf b = BUF_INIT(10);

	tap_str(buf_text(&b), "", "an empty buffer has a text");
	buf_add(&b, "0123456789", 10);
	tap_ok(b.size == 10 && !b.overflow, "the maximum fits");
	buf_add_byte(&b, 'x');
	tap_ok(b.size == 10 && b.overflow, "one more does not");
	tap_str(buf_text(&b), "0123456789", "and leaves what is there");
	buf_add(&b, "", 0);
	tap_is((int64_t)b.size, 10, "nothing fits always");

	buf_clear(&b);
	tap_ok(b.size == 0 && !b.overflow && b.data != NULL,
		"clearing keeps the memory");
	tap_str(buf_text(&b), "", "and no text");
	buf_add_str(&b, "1234567");
	buf_add_str(&b, "abcd");
	tap_ok(b.overflow && b.size == 7, "what does not fit is left out as a whole");
	buf_add_str(&b, "abc");
	tap_ok(b.overflow && b.size == 10,
		"what fits is added behind that, the mark stays");
	buf_clear(&b);
	buf_printf(&b, "%d-%s", 12345, "abcde");
	tap_ok(b.overflow && b.size == 0, "printed text that is too long is left out");
	buf_printf(&b, "%d-%s", 12345, "abcd");
	tap_str(buf_text(&b), "12345-abcd", "printed text");
	buf_done(&b);
	tap_ok(b.data == NULL && b.size == 0 && b.max == 10,
		"done, and ready for more");
	buf_done(&b);

	struct buf none = BUF_INIT(0);

	buf_add_byte(&none, 1);
	tap_ok(none.overflow && none.data == NULL,
		"a buffer for nothing takes nothing");
	buf_add(&none, NULL, SIZE_MAX);
	tap_ok(none.size == 0, "the largest size there is does not fit");
}

static void test_buf_growth(void)
{
	_cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
	bool same = true, ended = true;

	for (int i = 0; i < 50000; i++) {
		buf_add_byte(&b, (unsigned)i * 7);
		ended &= b.data[b.size] == '\0';
	}
	for (int i = 0; i < 50000; i++)
		same &= (unsigned char)b.data[i] == (unsigned char)(i * 7);
	tap_ok(same && b.size == 50000, "bytes one by one");
	tap_ok(ended, "there always is a NUL behind them");
}

static void test_buf_varints(void)
{
	static const struct {
		uint64_t value;
		size_t size;
		const char *bytes;
	} cases[] = {
		{ 0, 1, "\x00" },
		{ 1, 1, "\x01" },
		{ 127, 1, "\x7f" },
		{ 128, 2, "\x80\x01" },
		{ 300, 2, "\xac\x02" },
		{ 16383, 2, "\xff\x7f" },
		{ 16384, 3, "\x80\x80\x01" },
		{ UINT32_MAX, 5, "\xff\xff\xff\xff\x0f" },
		{ INT64_MAX, 9, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f" },
		{ UINT64_MAX, 10, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" },
	};
	static const struct {
		int64_t value;
		uint64_t folded;
	} folds[] = { { 0, 0 }, { -1, 1 }, { 1, 2 }, { -2, 3 }, { 63, 126 },
		{ -64, 127 }, { INT64_MAX, UINT64_MAX - 1 },
		{ INT64_MIN, UINT64_MAX } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_buf_ struct buf b = BUF_INIT(100);

		buf_add_uvarint(&b, cases[i].value);
		tap_ok(b.size == cases[i].size &&
				memcmp(b.data, cases[i].bytes, b.size) == 0,
			"varint of %llu", (unsigned long long)cases[i].value);
	}
	for (size_t i = 0; i < sizeof(folds) / sizeof(folds[0]); i++) {
		_cleanup_buf_ struct buf a = BUF_INIT(100), b = BUF_INIT(100);

		buf_add_svarint(&a, folds[i].value);
		buf_add_uvarint(&b, folds[i].folded);
		tap_ok(a.size == b.size && memcmp(a.data, b.data, a.size) == 0,
			"signed varint of %lld", (long long)folds[i].value);
	}
	_cleanup_buf_ struct buf full = BUF_INIT(9);

	buf_add_uvarint(&full, UINT64_MAX);
	tap_ok(full.overflow && full.size == 0, "a varint is never cut");
}

/* --- hashing --- */

enum { ENTRIES = 5000 };

struct table {
	uint64_t hashes[ENTRIES];
};

static uint64_t hash_of(uint32_t entry, const void *context)
{
	return ((const struct table *)context)->hashes[entry];
}

/* Is the entry found, and by how many steps? */
static bool find(const struct hash_index *x, const struct table *t, uint32_t wanted,
	uint32_t *ret_steps)
{
	uint32_t at = (uint32_t)t->hashes[wanted], entry, steps = 0;

	while (hash_index_next(x, &at, &entry)) {
		steps++;
		if (entry == wanted) {
			*ret_steps = steps;
			return true;
		}
	}
	*ret_steps = steps;
	return false;
}

static void fill(struct hash_index *x, struct table *t, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		hash_index_add(x, t->hashes[i], i, hash_of, t);
}

static bool all_found(const struct hash_index *x, const struct table *t, uint32_t count)
{
	bool all = true;
	uint32_t steps;

	for (uint32_t i = 0; i < count; i++)
		all &= find(x, t, i, &steps);
	return all;
}

static void test_hash_index(void)
{
	struct hash_index x = { 0 };
	struct table *t = xcalloc(1, sizeof(*t));
	uint32_t steps, at = 0, entry = 77;

	tap_ok(!hash_index_next(&x, &at, &entry) && entry == 77,
		"an empty index has nothing");
	for (uint32_t i = 0; i < ENTRIES; i++)
		t->hashes[i] = hash_mix(1, i);
	fill(&x, t, ENTRIES);
	tap_is(x.count, ENTRIES, "entries are counted");
	tap_ok((x.capacity & (x.capacity - 1)) == 0 && x.capacity >= 2 * ENTRIES - 2,
		"the table is a power of two and at most half full");
	tap_ok(all_found(&x, t, ENTRIES), "all are found after growing");
	hash_index_clear(&x);
	tap_ok(x.count == 0 && !find(&x, t, 3, &steps), "none is found after clearing");
	fill(&x, t, 10);
	tap_ok(all_found(&x, t, 10), "a cleared index is used again");
	hash_index_done(&x);
	tap_ok(x.slots == NULL && x.capacity == 0, "done");

	/* The last slot, so that the search goes on at the first one. */
	for (uint32_t i = 0; i < ENTRIES; i++)
		t->hashes[i] = UINT32_MAX;
	fill(&x, t, 500);
	tap_ok(all_found(&x, t, 500), "entries of one hash are found, over the end");
	/* The same low bits, which choose the slot. */
	hash_index_done(&x);
	for (uint32_t i = 0; i < ENTRIES; i++)
		t->hashes[i] = (uint64_t)i << 32;
	fill(&x, t, 500);
	tap_ok(all_found(&x, t, 500), "entries that differ in the high half only");
	hash_index_done(&x);
	hash_index_clear(&x);
	hash_index_done(&x);
	free(t);
}

static void test_hash_bytes(void)
{
	enum { COUNT = 20000 };
	uint64_t *seen = xcalloc(COUNT, sizeof(*seen));
	char zeros[32] = { 0 };
	int equal = 0;

	tap_ok(hash_bytes("abc", 3) == hash_bytes("abcd", 3), "only the bytes count");
	tap_ok(hash_bytes(zeros, 7) != hash_bytes(zeros, 8),
		"zeros of other length differ");
	tap_ok(hash_bytes(zeros, 0) == hash_bytes("x", 0), "no bytes at all");
	for (int i = 0; i < COUNT; i++) {
		char text[32];
		int n = snprintf(text, sizeof(text), "function_%d", i);

		seen[i] = hash_bytes(text, (size_t)n);
	}
	for (int i = 1; i < COUNT; i++)
		equal += seen[i] == seen[i - 1];
	tap_is(equal, 0, "names that differ in a digit have other hashes");
	free(seen);
}

/* --- checksums --- */

static void test_crc32c(void)
{
	unsigned char bytes[32];

	tap_is(crc32c("123456789", 9), 0xe3069283u, "CRC-32C of 123456789");
	tap_is(crc32c("", 0), 0, "of nothing");
	memset(bytes, 0, sizeof(bytes));
	tap_is(crc32c(bytes, sizeof(bytes)), 0x8a9136aau, "of 32 zeros (RFC 3720)");
	memset(bytes, 0xff, sizeof(bytes));
	tap_is(crc32c(bytes, sizeof(bytes)), 0x62a8ab43u, "of 32 ones (RFC 3720)");
	for (int i = 0; i < 32; i++)
		bytes[i] = (unsigned char)i;
	tap_is(crc32c(bytes, sizeof(bytes)), 0x46dd794eu, "of 0 to 31 (RFC 3720)");
}

/* --- descriptors --- */

static void on_alarm(int sig)
{
	(void)sig;
}

/* A writer and a reader of more than a pipe holds, while signals interrupt both. */
static void test_fd_interrupted(void)
{
	enum { SIZE = 3 << 20 };
	unsigned char *bytes = xmalloc(SIZE), *got = xmalloc(SIZE + 1);
	struct sigaction a = { .sa_handler = on_alarm };
	struct itimerval often = { { 0, 500 }, { 0, 500 } },
			 off = { { 0, 0 }, { 0, 0 } };
	int fds[2], status = -1;

	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(i * 31 >> 3);
	(void)sigaction(SIGALRM, &a, NULL);
	if (!tap_ok(pipe(fds) == 0, "a pipe"))
		return;
	pid_t child = fork();

	if (child == 0) {
		(void)close(fds[0]);
		(void)setitimer(ITIMER_REAL, &often, NULL);
		_exit(fd_write_all(fds[1], bytes, SIZE) == 0 ? 0 : 1);
	}
	(void)close(fds[1]);
	(void)setitimer(ITIMER_REAL, &often, NULL);
	ssize_t n = fd_read_full(fds[0], got, SIZE + 1);

	(void)setitimer(ITIMER_REAL, &off, NULL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	tap_ok(status == 0, "all is written over short writes and signals");
	tap_ok(n == SIZE && memcmp(bytes, got, SIZE) == 0, "and all is read");
	(void)close(fds[0]);
	free(bytes);
	free(got);
}

static void test_fd_failures(void)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC), fds[2], bad = -1;
	char byte = 1;

	tap_is(fd_write_all(full, "x", 1), -ENOSPC, "a full device");
	tap_is(fd_write_all(full, "x", 0), 0, "nothing can be written always");
	errno = 5;
	fd_closep(&full);
	tap_ok(full == -1 && errno == 5, "closing by scope keeps errno");
	fd_closep(&full);
	tap_is(fd_write_all(bad, "x", 1), -EBADF, "a descriptor that is none");
	tap_is(fd_read_full(bad, &byte, 1), -EBADF, "nor is it read");
	(void)signal(SIGPIPE, SIG_IGN);
	if (pipe(fds) != 0)
		return;
	fd_close(&fds[0]);
	tap_is(fd_write_all(fds[1], "x", 1), -EPIPE, "a pipe that nobody reads");
	fd_close(&fds[1]);
	tap_is(fds[1], -1, "closed is marked");
}

static void write_file(const char *path, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char *bytes = xcalloc(1, size);

	memset(bytes, 'z', size);
	(void)fd_write_all(fd, bytes, size);
	free(bytes);
	fd_close(&fd);
}

static void test_fd_read_file(void)
{
	/* Around the size of one piece, and of two. */
	static const size_t sizes[] = { 0, 1, 16383, 16384, 16385, 32768, 40000 };
	int at = open(scratch_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		_cleanup_buf_ struct buf b = BUF_INIT(sizes[i] + 1);
		_cleanup_buf_ struct buf less = BUF_INIT(sizes[i] / 2);

		write_file(scratch("file"), sizes[i]);
		buf_add_byte(&b, 'a');
		tap_ok(fd_read_file(at, "file", &b) == 0 && b.size == sizes[i] + 1 &&
				b.data[0] == 'a',
			"a file of %zu bytes is added, up to the maximum", sizes[i]);
		if (sizes[i] != 0)
			tap_is(fd_read_file(at, "file", &less), -E_TOOBIG,
				"or is too big");
	}
	_cleanup_buf_ struct buf b = BUF_INIT(100);

	tap_is(fd_read_file(at, "missing", &b), -ENOENT, "a file that is not there");
	tap_is(fd_read_file(AT_FDCWD, scratch_folder, &b), -EISDIR, "a folder");
	fd_close(&at);
}

/* --- errors, memory, time --- */

static void test_err(void)
{
	struct err err = { "before" };
	char *text = xmalloc(2000);

	memset(text, 'e', 1999);
	text[1999] = '\0';
	tap_is(err_set(NULL, -5, "%s", text), -5, "no room for words: the code alone");
	tap_is(err_set(&err, -E_GONE, "%s is gone", text), -E_GONE,
		"the code is returned");
	tap_ok(strlen(err.text) == sizeof(err.text) - 1, "a text too long is cut");
	tap_is(err_set(&err, -1, "process %d", 7), -1, "words");
	tap_str(err.text, "process 7", "are kept");
	free(text);

	tap_str(err_name(-ENOENT), strerror(ENOENT), "a name for an errno");
	for (int code = E_TRUNCATED; code <= E_TIMEOUT; code++) {
		bool own = strncmp(err_name(-code), "Unknown", 7) != 0;

		for (int other = E_TRUNCATED; other < code; other++)
			own &= strcmp(err_name(-code), err_name(-other)) != 0;
		tap_ok(own, "code %d has a name of its own", code);
	}
}

static void test_xalloc(void)
{
	int *array = NULL;
	size_t capacity = 0;
	bool kept = true;

	for (size_t i = 0; i < 1000; i++) {
		array = xgrow(array, i, &capacity, sizeof(*array));
		kept &= capacity > i;
		array[i] = (int)i;
	}
	for (int i = 0; i < 1000; i++)
		kept &= array[i] == i;
	tap_ok(kept, "an array grows and keeps what it holds");
	free(array);

	_cleanup_free_ char *copy = xmemdup0("a\0b", 3),
			    *text = xasprintf("%d%s", 5, "x");
	_cleanup_free_ char *empty = xmemdup0(NULL, 0);

	tap_ok(memcmp(copy, "a\0b", 4) == 0, "a copy has a NUL behind it");
	tap_str(text, "5x", "printed memory");
	tap_str(empty, "", "a copy of nothing");
}

static int hook_fd;

static void hook(void)
{
	(void)!write(hook_fd, "hook\n", 5);
}

static void test_out_of_memory(void)
{
	volatile size_t size = SIZE_MAX / 4;
	char said[200] = "";
	int fds[2], status;

	if (TAP_SANITIZED) {
		tap_skip(
			"without memory", "the sanitizer's allocator ends the program");
		return;
	}
	if (pipe(fds) != 0)
		return;
	pid_t child = fork();

	if (child == 0) {
		(void)dup2(fds[1], STDERR_FILENO);
		hook_fd = fds[1];
		xalloc_on_failure(hook);
		(void)xmalloc(size);
		_exit(77);
	}
	fd_close(&fds[1]);
	(void)fd_read_full(fds[0], said, sizeof(said) - 1);
	fd_close(&fds[0]);
	(void)waitpid(child, &status, 0);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 1,
		"without memory it ends with 1");
	tap_str(said, "hook\npystack: out of memory\n", "after the hook, and says so");
}

static void test_clock(void)
{
	int64_t a = clock_monotonic_ns(), cpu = clock_process_cpu_ns();

	clock_sleep_ns(-1);
	clock_sleep_ns(1000000);
	tap_ok(clock_monotonic_ns() >= a + 1000000, "a sleep takes its time");
	tap_ok(cpu > 0 && clock_process_cpu_ns() >= cpu, "CPU time grows");
	tap_ok(clock_real_ns() > 1600000000ll * 1000000000, "it is later than 2020");
}

int main(void)
{
	scratch_begin();
	test_buf_maximum();
	test_buf_growth();
	test_buf_varints();
	test_hash_index();
	test_hash_bytes();
	test_crc32c();
	test_fd_interrupted();
	test_fd_failures();
	test_fd_read_file();
	test_err();
	test_xalloc();
	test_out_of_memory();
	test_clock();
	scratch_end();
	return tap_done();
}
