/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the interpreter in a process: what a task offers, and a Python that runs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/xalloc.h"
#include "proc/mem.h"
#include "proc/python.h"
#include "pythons.h"
#include "tap.h"

enum { START_MS = 30000 };

/* --- an offer --- */

/* The head of a debug-offsets struct: enough for what refuses before the offsets. */
static void make_runtime(
	unsigned char *bytes, size_t size, uint64_t hex, uint64_t free_threaded)
{
	memset(bytes, 0, size);
	memcpy(bytes, "xdebugpy", 8);
	memcpy(bytes + 8, &hex, 8);
	memcpy(bytes + 16, &free_threaded, 8);
}

static void test_offers(void)
{
	static const struct {
		const char *what;
		uint32_t hex;
		const char *text;
		uint64_t published, free_threaded;
		enum python_kind kind;
		const char *version;
	} cases[] = {
		{ "a version by its number", 0x030b02f0, "", 0, 0, PYTHON_CPYTHON,
			"3.11.2" },
		{ "a version by its text", 0,
			"3.8.18 (default, Jan 1 2024, 10:00:00) \n[GCC]", 0, 0,
			PYTHON_CPYTHON, "3.8.18" },
		{ "of a branch", 0, "3.9.2+ (heads/3.9:abc, x)", 0, 0, PYTHON_CPYTHON,
			"3.9.2" },
		{ "of an alpha", 0, "3.10.0a7 (default, x)", 0, 0, PYTHON_CPYTHON,
			"3.10.0a0" },
		{ "3.12", 0x030c0100, "", 0, 0, PYTHON_CPYTHON, "3.12.1" },
		{ "2.7", 0, "2.7.18 (default, x)", 0, 0, PYTHON_TOO_OLD, "2.7.18" },
		{ "3.7", 0x030710f0, "", 0, 0, PYTHON_TOO_OLD, "3.7.16" },
		{ "3.16", 0x031000f0, "", 0x031000f0, 0, PYTHON_TOO_NEW, "3.16.0" },
		{ "a candidate of 3.15", 0x030f00c2, "", 0x030f00c2, 0, PYTHON_TOO_NEW,
			"3.15.0rc2" },
		{ "a free-threaded 3.13", 0x030d00f0, "", 0x030d00f0, 1,
			PYTHON_FREE_THREADED, "3.13.0" },
		{ "3.13 without offsets", 0x030d00f0, "", 0, 0, PYTHON_DAMAGED,
			"3.13.0" },
		{ "two versions", 0x030d00f0, "", 0x030e00f0, 0, PYTHON_DAMAGED,
			"3.13.0" },
		{ "no version", 0, "", 0, 0, PYTHON_DAMAGED, "" },
		{ "no version in the text", 0, "Python 3.8.18", 0, 0, PYTHON_DAMAGED,
			"" },
		{ "a version without its end", 0, "3.8.18", 0, 0, PYTHON_DAMAGED, "" },
		{ "a version of two parts", 0, "3.8 (x)", 0, 0, PYTHON_DAMAGED, "" },
		{ "version 4", 0, "4.0.0 (x)", 0, 0, PYTHON_DAMAGED, "" },
		{ "a negative one", 0, "-3.8.1 (x)", 0, 0, PYTHON_DAMAGED, "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned char bytes[PY_DEBUG_OFFSETS_BYTES];
		_cleanup_free_ char *text = xstrdup(cases[i].text);
		struct python_found f;
		char words[200];

		make_runtime(bytes, sizeof(bytes), cases[i].published,
			cases[i].free_threaded);
		if (cases[i].published == 0)
			bytes[0] = 0;
		python_from_offer(
			0x1000, 0x2000, bytes, sizeof(bytes), cases[i].hex, text, &f);
		bool right = f.kind == cases[i].kind &&
			     strcmp(f.version, cases[i].version) == 0 &&
			     f.runtime == 0x1000 && f.code_type == 0x2000;
		const char *refusal = python_refusal(&f, words, sizeof(words));

		/* Who cannot be sampled is told why, with the version if there is one.
		 */
		right &= (refusal == NULL) == (f.kind == PYTHON_CPYTHON);
		right &= refusal == NULL || strstr(refusal, f.version) != NULL;
		if (!tap_ok(right, "an offer: %s", cases[i].what))
			printf("# kind %d, version '%s'\n", (int)f.kind, f.version);
	}
	static const enum python_kind kinds[] = { PYTHON_NONE, PYTHON_STARTING,
		PYTHON_PYPY };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct python_found f = { .kind = kinds[i] };
		char words[200];

		tap_ok(python_refusal(&f, words, sizeof(words)) != NULL,
			"kind %d has its words", (int)kinds[i]);
	}
}

/* --- a process --- */

struct child {
	pid_t pid;
	int out;
	char version[32];
};

/* Start a Python that says its version when it is up, and then waits. */
static bool start(const char *python, struct child *c)
{
	static const char code[] =
		"import os,sys\n"
		"os.write(1, ('%d.%d.%d' % sys.version_info[:3]).encode())\n"
		"os.read(0, 1)\n";
	int in[2], out[2];
	size_t got = 0;

	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return false;
	(void)fflush(stdout);
	c->pid = fork();
	if (c->pid == 0) {
		(void)dup2(in[0], STDIN_FILENO);
		(void)dup2(out[1], STDOUT_FILENO);
		(void)execl(python, python, "-E", "-s", "-S", "-c", code, (char *)NULL);
		_exit(127);
	}
	/* The other end of its input stays open: it ends when it is killed, or with us.
	 */
	(void)close(in[0]);
	(void)close(out[1]);
	c->out = out[0];
	struct pollfd p = { .fd = c->out, .events = POLLIN };

	/* The version comes in one write. */
	if (poll(&p, 1, START_MS) == 1) {
		ssize_t n = read(c->out, c->version, sizeof(c->version) - 1);

		got = n > 0 ? (size_t)n : 0;
	}
	c->version[got] = '\0';
	return got != 0;
}

static void stop(struct child *c)
{
	(void)kill(c->pid, SIGKILL);
	(void)waitpid(c->pid, NULL, 0);
	(void)close(c->out);
}

/* The chain from the runtime to the code type holds: the layout is that of the process.
 */
static bool leads_somewhere(pid_t pid, const struct python_found *f)
{
	const struct py_layout *l = &f->layout;
	struct proc_mem m;
	uint64_t interp = 0, thread = 0, back = 0, type = 0;

	proc_mem_init(&m, pid);
	bool good = proc_mem_u64(&m, f->runtime + l->rt_interpreters_head, &interp) &&
		    interp != 0 &&
		    proc_mem_u64(&m, interp + l->is_threads_head, &thread) &&
		    thread != 0 && proc_mem_u64(&m, thread + l->ts_interp, &back) &&
		    back == interp &&
		    proc_mem_u64(&m, f->code_type + l->ob_type, &type) && type != 0;

	proc_mem_done(&m);
	return good;
}

static void test_python(const char *python)
{
	struct child c;
	struct python_found f;
	struct err err = { "" };
	char words[200];

	if (!start(python, &c)) {
		tap_skip(python, "does not start");
		stop(&c);
		return;
	}
	int code = python_find(c.pid, &f, &err);

	if (code == -EACCES || code == -EPERM) {
		tap_skip(python, "its memory must not be read");
		stop(&c);
		return;
	}
	tap_ok(code == 0 && strcmp(f.version, c.version) == 0, "%s is found as %s",
		python, c.version);
	unsigned major = 0, minor = 0;

	(void)sscanf(c.version, "%u.%u", &major, &minor);
	uint32_t version = PY_VERSION_OF(major, minor);

	if (version < PY_VERSION_OF(3, 8)) {
		tap_ok(f.kind == PYTHON_TOO_OLD, "and is too old");
	} else if (f.kind == PYTHON_FREE_THREADED) {
		tap_ok(version >= PY_VERSION_OF(3, 13), "and is free-threaded");
	} else {
		tap_ok(f.kind == PYTHON_CPYTHON && f.layout.version == version &&
				python_refusal(&f, words, sizeof(words)) == NULL,
			"and can be sampled");
		tap_ok(f.object[0] == '/', "the object is named: %s", f.object);
		tap_ok(leads_somewhere(c.pid, &f),
			"its layout leads from the runtime to threads");
	}
	stop(&c);
}

static void test_other_processes(void)
{
	struct python_found f = { .kind = PYTHON_PYPY };
	struct err err = { "" };

	tap_ok(python_find(getpid(), &f, &err) == 0 && f.kind == PYTHON_NONE,
		"this program has no interpreter");
	f.kind = PYTHON_PYPY;
	tap_ok(python_find(0x7fffffff, &f, &err) < 0 && err.text[0] != '\0' &&
			f.kind == PYTHON_PYPY,
		"and a process that is not there cannot be looked into");
}

int main(void)
{
	static char paths[PYTHONS_MAX][PYTHONS_PATH];
	size_t count = pythons_find(paths);

	test_offers();
	test_other_processes();
	if (count == 0)
		tap_skip("a Python that runs", "none is here");
	for (size_t i = 0; i < count; i++)
		test_python(paths[i]);
	return tap_done();
}
