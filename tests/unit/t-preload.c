/* SPDX-License-Identifier: Apache-2.0 */
/* What the preload library decides: which files it is given to (lib/preload/fit.c), and
 * the environment before and after (lib/preload/entries.c). */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/entries.h"
#include "preload/fit.h"
#include "scratch.h"
#include "tap.h"

enum { HEAD = 16384, ROUNDS = 20000, MOST = 16 };

static void write_file(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		tap_ok(false, "%s can be written", path);
	if (fd >= 0)
		(void)close(fd);
}

static enum fit fit_of_text(const char *text)
{
	const char *path = scratch("file");

	write_file(path, text, strlen(text));
	return fit_of_file(AT_FDCWD, path);
}

static void test_files(void)
{
	char text[600];

	/* With a sanitizer's library of its own it must not be given ours. */
	enum fit own = fit_of_file(AT_FDCWD, "/proc/self/exe");

	tap_ok(own == FIT_LOADS || (TAP_SANITIZED && own == FIT_BREAKS),
		"this program loads it");
	tap_ok(fit_of_text("#!/proc/self/exe\n") == own, "so does a script of it");
	tap_ok(fit_of_text("#! \t/proc/self/exe -x y\n") == own,
		"also with blanks and arguments");
	tap_ok(fit_of_text("#!/proc/self/exe") == FIT_IGNORES, "not cut off");
	tap_ok(fit_of_text("#!\n") == FIT_IGNORES, "a script of nothing");
	tap_ok(fit_of_text("#!/nonexistent\n") == FIT_IGNORES, "of what is not there");
	tap_ok(fit_of_text("exit 1\n") == FIT_IGNORES, "a text");
	tap_ok(fit_of_text("") == FIT_IGNORES, "an empty file");
	(void)snprintf(text, sizeof(text), "#!%s\n", scratch("file"));
	tap_ok(fit_of_text(text) == FIT_IGNORES, "a script of itself");
	tap_ok(fit_of_file(AT_FDCWD, scratch_folder) == FIT_IGNORES, "a folder");
	(void)mkfifo(scratch("fifo"), 0755);
	tap_ok(fit_of_file(AT_FDCWD, scratch("fifo")) == FIT_IGNORES,
		"a fifo, which is not waited for");
	(void)fit_of_text("#!/proc/self/exe\n");
	(void)chmod(scratch("file"), 04755);
	tap_ok(fit_of_file(AT_FDCWD, scratch("file")) == FIT_IGNORES,
		"what changes the user");
	(void)chmod(scratch("file"), 0755);
}

/* The start of this program, up to where nothing more is read of it. */
static size_t read_own_start(uint8_t *bytes)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, bytes, HEAD) : -1;

	if (fd >= 0)
		(void)close(fd);
	return n > 0 ? (size_t)n : 0;
}

static void test_damage(void)
{
	static uint8_t good[HEAD], bad[HEAD];
	size_t size = read_own_start(good);
	const char *path = scratch("damaged");
	bool loads = false;

	for (size_t n = 0; n < 1024 && n < size; n++) {
		write_file(path, good, n);
		loads |= fit_of_file(AT_FDCWD, path) == FIT_LOADS && n < 64;
	}
	tap_ok(!loads, "a program that is cut");
	memcpy(bad, good, size);
	bad[18] = 40; /* EM_ARM */
	write_file(path, bad, size);
	tap_ok(fit_of_file(AT_FDCWD, path) == FIT_BREAKS, "another machine's");
	memcpy(bad, good, size);
	bad[4] = 1; /* ELFCLASS32 */
	write_file(path, bad, size);
	tap_ok(fit_of_file(AT_FDCWD, path) == FIT_BREAKS, "of 32 bits");
	srandom(1);
	write_file(path, good, size);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	size_t known = 0;

	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < 3; k++) {
			size_t at = (size_t)random() % 1024;
			uint8_t byte = (uint8_t)random();

			(void)!pwrite(fd, &byte, 1, (off_t)at);
		}
		known += fit_of_descriptor(fd) <= FIT_BREAKS;
		(void)!pwrite(fd, good, 1024, 0);
	}
	(void)close(fd);
	tap_is((int64_t)known, ROUNDS, "damaged headers");
}

static bool same(char *const *a, const char *const *b)
{
	size_t i = 0;

	for (; a[i] != NULL && b[i] != NULL; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return a[i] == NULL && b[i] == NULL;
}

/* Put the entries into an environment and take them out again. */
static void round_trip(const char *what, const char *const *environment, size_t count)
{
	char copies[MOST][200], *list[MOST + 3], text[ENTRIES_TEXT_BYTES];
	char *before[MOST + 1] = { NULL };

	for (size_t i = 0; i < count; i++) {
		(void)snprintf(copies[i], sizeof(copies[i]), "%s", environment[i]);
		before[i] = copies[i];
	}
	tap_ok(entries_room(before) == count + 3, "room for %s", what);
	entries_put(before, list, text);
	size_t n = 0;

	while (list[n] != NULL)
		n++;
	tap_ok(n >= count + 1 && n <= count + 2 && same(before, environment),
		"they are put into %s", what);
	/* What a loader would hand to the new program. */
	char *given[MOST + 3];

	for (size_t i = 0; i <= n; i++)
		given[i] = list[i] != NULL ? strdup(list[i]) : NULL;
	tap_ok(entries_take(given) && same(given, environment), "and taken out of %s",
		what);
}

static void test_entries(void)
{
	char first[] = "A=1", last[] = "Z=2", preload[300], spawn[300];
	char *environment[] = { first, preload, spawn, last, NULL };
	static const char *const nothing[] = { NULL };
	static const char *const plain[] = { "A=1", "B=", NULL };
	static const char *const other[] = { "A=1", "LD_PRELOAD=/x/y.so", "B=2", NULL };
	static const char *const odd[] = { "LD_PRELOAD=/x/y.so  z.so::", NULL };
	static const char *const empty[] = { "LD_PRELOAD=", "B=2", NULL };
	static const char *const mine[] = { "LD_PRELOAD=/my/pystack-preload.so.old",
		NULL };

	tap_ok(!entries_take((char *[]){ first, NULL }), "nothing to take");
	(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s/pystack-preload.so",
		scratch_folder);
	(void)snprintf(spawn, sizeof(spawn), "PYSTACK_SPAWN=%s", scratch("socket"));
	tap_ok(entries_take(environment) &&
			same(environment, (const char *[]){ "A=1", "Z=2", NULL }),
		"the entries are taken out");
	tap_ok(spawn[0] == ENTRIES_TAKEN, "who looks from outside sees that");
	tap_ok(strcmp(entries_socket(), scratch("socket")) == 0, "the socket is known");
	tap_ok(!entries_go_on(), "a recorder that is gone needs nothing");
	write_file(scratch("socket"), "", 0);
	tap_ok(!entries_go_on(), "nor is a library that is not there given on");
	write_file(scratch("pystack-preload.so"), "", 0);
	tap_ok(entries_go_on(), "else they go on");
	round_trip("an empty environment", nothing, 0);
	round_trip("a plain environment", plain, 2);
	round_trip("one with another library", other, 3);
	round_trip("one with an odd list of libraries", odd, 1);
	round_trip("one with an empty list", empty, 2);
	round_trip("one with a library of a like name", mine, 1);
}

static void test_bounds(void)
{
	static char *many[ENTRIES_MOST + 3];
	static char entry[] = "A=1", large[4096] = "LD_PRELOAD=";

	for (size_t i = 0; i < ENTRIES_MOST; i++)
		many[i] = entry;
	tap_is((int64_t)entries_room(many), ENTRIES_MOST + 3, "a large environment");
	many[ENTRIES_MOST] = entry;
	tap_is((int64_t)entries_room(many), 0, "one that is too large");
	memset(large + strlen(large), 'x', sizeof(large) - strlen(large) - 1);
	tap_is((int64_t)entries_room((char *[]){ large, NULL }), 0,
		"a list of libraries that is too long");
	tap_is((int64_t)entries_room(NULL), 3, "no environment at all");
	char *list[3], text[ENTRIES_TEXT_BYTES];

	entries_put(NULL, list, text);
	tap_ok(list[0] != NULL && list[1] != NULL && list[2] == NULL, "becomes one");
}

static void test_alone(void)
{
	char spawn[300];

	(void)snprintf(spawn, sizeof(spawn), "PYSTACK_SPAWN=alone:adopted:%s",
		scratch("socket"));
	tap_ok(entries_take((char *[]){ spawn, NULL }) &&
			strcmp(entries_socket(), scratch("socket")) == 0,
		"one Python alone");
	tap_ok(entries_adopted(), "by a recorder that is a reaper");
	tap_ok(entries_go_on(), "what is above it gives them on");
	entries_found_python();
	tap_ok(!entries_go_on(), "it does not");
}

/* What a recorder wants to be started, and what it knows of its filters. */
static void test_isolation(void)
{
	static const struct {
		const char *words;
		enum core_isolation isolation;
		long filters;
		uint32_t avoid;
	} cases[] = {
		{ "", CORE_ISOLATION_AUTO, 0, 0 },
		{ "task:", CORE_ISOLATION_TASK, 0, 0 },
		{ "adopted:thread:", CORE_ISOLATION_THREAD, 0, 0 },
		{ "alone:adopted:thread:filters=12,4096:", CORE_ISOLATION_THREAD, 12,
			4096 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char spawn[300];
		uint32_t avoid = 1;

		(void)snprintf(spawn, sizeof(spawn), "PYSTACK_SPAWN=%s%s",
			cases[i].words, scratch("socket"));
		tap_ok(entries_take((char *[]){ spawn, NULL }) &&
				strcmp(entries_socket(), scratch("socket")) == 0 &&
				entries_isolation() == cases[i].isolation &&
				entries_filters(&avoid) == cases[i].filters &&
				avoid == cases[i].avoid,
			"\"%s\" is understood", cases[i].words);
	}
}

int main(void)
{
	scratch_begin();
	test_files();
	test_damage();
	test_entries();
	test_bounds();
	test_alone();
	test_isolation();
	scratch_end();
	return tap_done();
}
