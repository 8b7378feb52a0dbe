/* SPDX-License-Identifier: Apache-2.0 */
#include "selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "follow.h"
#include "inject/inject.h"
#include "output.h"
#include "proc/maps.h"
#include "profile/profile.h"

enum {
	STATUS_WANTED = 7, /* with which the program ends */
	NOT_EXECUTED = 127,
	ANSWER_MS = 10000,
	EXIT_MS = 1000, /* between its last word and its end */
	WARM_NS = 200000000,
	SAMPLE_NS = 1000000000,
	ROUND_NS = 10000000,
	TICK_NS = 10000000, /* 100 a second, as record has it */
	MAX_STACK = 512,
	OVERHEAD_PPM = 10000,
	LEVEL = 1,
};

/*
 * The program.  A byte is an order: "r" computes until the next one, "p" does nothing,
 * "e" ends; each is answered by itself when it has been done.  A second thread waits
 * for a lock all the time.  It must run on every Python there is.
 */
static const char program[] =
	"import os, select, sys, threading\n"
	"def pystack_self_test_compute():\n"
	"    n = 0\n"
	"    for i in range(2000):\n"
	"        n += i & 3\n"
	"    return n\n"
	"def pystack_self_test_wait(lock):\n"
	"    lock.acquire()\n"
	"def main():\n"
	"    lock = threading.Lock()\n"
	"    lock.acquire()\n"
	"    thread = threading.Thread(target=pystack_self_test_wait, args=(lock,))\n"
	"    thread.start()\n"
	"    try:\n"
	"        while True:\n"
	"            order = os.read(0, 1)\n"
	"            if order == b'r':\n"
	"                while not select.select([0], [], [], 0)[0]:\n"
	"                    pystack_self_test_compute()\n"
	"            elif order != b'p':\n"
	"                break\n"
	"            os.write(1, order)\n"
	"    finally:\n"
	"        lock.release()\n"
	"        thread.join()\n"
	"    sys.exit(7)\n"
	"main()\n";

static const char known_function[] = "pystack_self_test_compute";

struct test {
	struct checks *checks;
	struct selftest *result;
	const char *python;
	pid_t pid;
	int orders, answers;
	sigset_t old_mask;
	char *folder;
};

/* Say what is wrong; returns false. */
__attribute__((format(printf, 3, 4))) static bool fail(
	struct test *t, const char *name, const char *format, ...)
{
	char text[sizeof(((struct check *)0)->text)];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)checks_add(t->checks, CHECK_PROBLEM, name, "%s", text);
	return false;
}

/* --- the program --- */

static void become_program(
	const struct test *t, const char *const *argv, int orders, int answers)
{
	int null = open("/dev/null", O_WRONLY);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(orders, 0);
	(void)dup2(answers, 1);
	(void)dup2(null, 2);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &t->old_mask, NULL);
	(void)execvp(argv[0], (char *const *)argv);
	_exit(NOT_EXECUTED);
}

static bool start(struct test *t, const char *const *argv)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) != 0)
		return fail(t, "test-start", "no pipe: %s", strerror(errno));
	if (pipe2(out, O_CLOEXEC) != 0) {
		(void)close(in[0]);
		(void)close(in[1]);
		return fail(t, "test-start", "no pipe: %s", strerror(errno));
	}
	t->pid = fork();
	if (t->pid == 0)
		become_program(t, argv, in[0], out[1]);
	(void)close(in[0]);
	(void)close(out[1]);
	t->orders = in[1];
	t->answers = out[0];
	return t->pid > 0 || fail(t, "test-start", "no process: %s", strerror(errno));
}

static bool order(struct test *t, char what)
{
	return fd_write_all(t->orders, &what, 1) == 0;
}

static bool has_answered(struct test *t, char what)
{
	struct pollfd p = { .fd = t->answers, .events = POLLIN };
	char answer;

	return poll(&p, 1, ANSWER_MS) > 0 && read(t->answers, &answer, 1) == 1 &&
	       answer == what;
}

/* Let it rest: it then waits for an order, and nothing of it changes. */
static bool rest(struct test *t, bool from_running)
{
	return order(t, 'p') && (!from_running || has_answered(t, 'r')) &&
	       has_answered(t, 'p');
}

static bool has_exited(pid_t pid, int ms, int *ret_status)
{
	int64_t end = clock_monotonic_ns() + ms * 1000000ll;

	while (clock_monotonic_ns() < end) {
		if (waitpid(pid, ret_status, WNOHANG) == pid)
			return true;
		clock_sleep_ns(1000000);
	}
	return false;
}

/* --- what it is and has --- */

struct belongings {
	struct proc_maps maps;
	struct buf rest; /* threads, descriptors, children, signals as text */
};

/* Lines of a status file that begin with one of these. */
static void add_signals(struct buf *b, pid_t pid, pid_t tid)
{
	static const char *const names[] = { "TracerPid:", "SigPnd:", "ShdPnd:",
		"SigBlk:", "SigIgn:", "SigCgt:", "Seccomp:", "NoNewPrivs:" };
	_cleanup_buf_ struct buf text = BUF_INIT(64 << 10);
	char path[64];

	(void)snprintf(
		path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	(void)fd_read_file(AT_FDCWD, path, &text);
	for (const char *line = buf_text(&text); *line != '\0';) {
		const char *end = strchrnul(line, '\n');

		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strncmp(line, names[i], strlen(names[i])) == 0)
				buf_printf(b, "thread %d %.*s\n", (int)tid,
					(int)(end - line), line);
		line = *end != '\0' ? end + 1 : end;
	}
}

static void add_descriptors(struct buf *b, pid_t pid)
{
	for (int fd = 0; fd < 64; fd++) {
		char path[64], target[256];

		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
		ssize_t n = readlink(path, target, sizeof(target) - 1);

		if (n > 0)
			buf_printf(b, "descriptor %d %.*s\n", fd, (int)n, target);
	}
}

static bool belongings_read(struct test *t, struct belongings *ret)
{
	struct belongings b = { .rest = BUF_INIT(1 << 20) };
	struct proc_ids threads = { 0 }, children = { 0 };
	struct err err = { "" };

	if (proc_maps_read(t->pid, &b.maps, &err) != 0 ||
		proc_threads(t->pid, &threads) != 0 ||
		proc_children(t->pid, &children) != 0) {
		proc_maps_done(&b.maps);
		proc_ids_done(&threads);
		return fail(t, "test-left", "it cannot be looked at: %s", err.text);
	}
	for (size_t i = 0; i < threads.count; i++)
		add_signals(&b.rest, t->pid, threads.id[i]);
	add_descriptors(&b.rest, t->pid);
	for (size_t i = 0; i < children.count; i++)
		buf_printf(&b.rest, "child %d\n", (int)children.id[i]);
	proc_ids_done(&threads);
	proc_ids_done(&children);
	*ret = b;
	return true;
}

static void belongings_done(struct belongings *b)
{
	proc_maps_done(&b->maps);
	buf_done(&b->rest);
}

/* Heap and stack grow by themselves. */
static bool is_same_map(const struct proc_map *a, const struct proc_map *b)
{
	if (strcmp(a->path, b->path) != 0)
		return false;
	return strcmp(a->path, "[heap]") == 0 || strcmp(a->path, "[stack]") == 0 ||
	       (a->start == b->start && a->end == b->end &&
		       a->executable == b->executable && a->writable == b->writable);
}

/* The first mapping that was not there before. */
static const struct proc_map *new_map(
	const struct belongings *before, const struct belongings *after)
{
	for (size_t i = 0; i < after->maps.count; i++) {
		bool found = false;

		for (size_t j = 0; j < before->maps.count && !found; j++)
			found = is_same_map(&after->maps.map[i], &before->maps.map[j]);
		if (!found)
			return &after->maps.map[i];
	}
	return NULL;
}

/* The first line in which the two texts differ. */
static const char *new_line(const char *before, const char *after)
{
	while (*after != '\0') {
		size_t size = strcspn(after, "\n");

		if (strcspn(before, "\n") != size || memcmp(before, after, size) != 0)
			return after;
		before += size + (before[size] == '\n');
		after += size + (after[size] == '\n');
	}
	return *before != '\0' ? before : NULL;
}

static bool compare(
	struct test *t, const struct belongings *before, const struct belongings *after)
{
	const struct proc_map *map = new_map(before, after);
	const char *line = new_line(buf_text(&before->rest), buf_text(&after->rest));

	if (map != NULL)
		return fail(t, "test-left", "a mapping is left: %llx-%llx %s",
			(unsigned long long)map->start, (unsigned long long)map->end,
			map->path);
	if (line != NULL)
		return fail(t, "test-left", "something is not as it was: %.*s",
			(int)strcspn(line, "\n"), line);
	(void)checks_add(t->checks, CHECK_OK, "test-left",
		"nothing: mappings, threads, descriptors, signal table and children of "
		"the program are as they were");
	return true;
}

/* --- the recording --- */

static bool let_it_run(struct test *t, struct follow *f)
{
	int64_t end = clock_monotonic_ns() + SAMPLE_NS;
	struct err err = { "" };
	int detail;

	while (clock_monotonic_ns() < end) {
		bool cut = false;

		follow_beat(f);
		if (follow_drain(f, &cut, &err) < 0)
			return fail(t, "test-samples", "%s", err.text);
		if (follow_has_left(f))
			return fail(t, "test-samples",
				"the sampler task left by itself (reason %d)",
				(int)follow_why_left(f, &detail));
		clock_sleep_ns(ROUND_NS);
	}
	return true;
}

/* Attach, sample for a while, let go. */
static bool record(
	struct test *t, const struct python_found *python, struct output_part *part)
{
	static const struct follow_options options = {
		.interval_ns = TICK_NS,
		.adaptive = true,
		.max_stack = MAX_STACK,
		.overhead_ppm = OVERHEAD_PPM,
	};
	static const struct follow_origin origin = { .segment = 1,
		.why = FILE_WHY_ATTACH };
	struct inject_task task;
	struct follow_stats stats;
	struct err err = { "" };
	uint32_t next_thread = 0;
	struct follow *f;
	int64_t begun = clock_monotonic_ns();

	if (inject_start(t->pid, 0, INJECT_DESCENDANT, &task, &err) != 0)
		return fail(t, "test-attach", "%s", err.text);
	struct follow_source source = { .ring_fd = task.ring_fd, .injected = &task };

	t->result->start_held_ns = task.held_ns;
	if (follow_start(t->pid, &source, python, &options, part, &origin, &next_thread,
		    &f, &err) != 0)
		return fail(t, "test-attach", "%s", err.text);
	(void)checks_add(t->checks, CHECK_OK, "test-attach",
		"took %.1f ms, for %.2f ms of which one thread was held",
		(double)(clock_monotonic_ns() - begun) / 1e6,
		(double)task.held_ns / 1e6);
	bool ok = let_it_run(t, f);

	if (follow_end(f, FILE_END_DETACHED, 0, &err) != 0)
		ok = fail(t, "test-detach", "%s", err.text);
	follow_stats_get(f, &stats);
	follow_free(f);
	t->result->stop_held_ns = stats.held_ns - t->result->start_held_ns;
	if (ok)
		(void)checks_add(t->checks, CHECK_OK, "test-detach",
			"one thread was held for %.2f ms; the longest stop of all was "
			"%.2f ms",
			(double)t->result->stop_held_ns / 1e6,
			(double)(t->result->stop_held_ns > t->result->start_held_ns
					 ? t->result->stop_held_ns
					 : t->result->start_held_ns) /
				1e6);
	return ok;
}

static bool has_function(const struct model *m, uint32_t stack, const char *name)
{
	for (; stack != 0; stack = model_stack(m, stack)->parent) {
		const struct model_frame *f =
			model_frame(m, model_stack(m, stack)->frame);

		if (f->kind == MODEL_PYTHON &&
			strcmp(model_function(m, f->function)->name, name) == 0)
			return true;
	}
	return false;
}

/* Is what the file says what the program did?  name: of the check. */
static bool read_back(struct test *t, const char *name, const char *path,
	uint64_t *ret_samples, uint64_t *ret_known)
{
	uint64_t samples = 0, known = 0;
	struct profile *p;
	struct err err = { "" };

	if (profile_load(path, &p, &err) != 0)
		return fail(t, name, "%s", err.text);
	for (size_t i = 0; i < p->count; i++) {
		samples += p->samples[i].ticks;
		if (has_function(p->model, p->samples[i].stack, known_function))
			known += p->samples[i].ticks;
	}
	profile_free(p);
	*ret_samples = samples;
	*ret_known = known;
	if (known != 0)
		return true;
	return fail(t, name, "%llu samples, none of the function that ran all the time",
		(unsigned long long)samples);
}

static bool record_to_file(struct test *t, const struct python_found *python)
{
	_cleanup_free_ char *path = xasprintf("%s/test.data", t->folder);
	const struct output_options options = { .path = path, .level = LEVEL };
	struct output_written ignored;
	struct output *out;
	struct err err = { "" };

	if (output_open(&options, &out, &err) != 0)
		return fail(t, "test-samples", "%s", err.text);
	if (!record(t, python, output_part(out))) {
		output_free(out);
		return false;
	}
	int r = output_publish(out, &err);

	if (r == 0)
		r = output_close(out, false, &ignored, &err);
	output_free(out);
	if (r != 0)
		return fail(t, "test-samples", "%s: %s", path, err.text);
	bool ok = read_back(
		t, "test-samples", path, &t->result->samples, &t->result->known);

	(void)unlink(path);
	if (ok)
		(void)checks_add(t->checks, CHECK_OK, "test-samples",
			"%llu samples of 2 threads in a second, %llu of the function that "
			"ran",
			(unsigned long long)t->result->samples,
			(unsigned long long)t->result->known);
	return ok;
}

/* --- the whole --- */

/* The program runs and is one that can be attached to. */
static bool find_python(struct test *t, const struct host *h, struct look *ret)
{
	struct verdict v;
	int status;

	if (!rest(t, false)) {
		if (!has_exited(t->pid, EXIT_MS, &status))
			return fail(t, "test-start", "%s does not answer", t->python);
		t->pid = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_EXECUTED) {
			(void)fail(t, "test-start", "there is no '%s' to be run",
				t->python);
			struct check *c = &t->checks->list[t->checks->count - 1];

			(void)snprintf(c->fix, sizeof(c->fix),
				"pystack doctor --self-test=/path/to/python3");
			return false;
		}
		return fail(t, "test-start", "%s ends at once", t->python);
	}
	look_at_one(t->pid, ret);
	verdict_on(ret, h, NULL, &v);
	if (ret->python.kind == PYTHON_CPYTHON)
		(void)snprintf(t->result->version, sizeof(t->result->version), "%s",
			ret->python.version);
	/* A filter is this process's own, inherited, and let pass if it can be. */
	if (!v.yes && strcmp(v.code, "seccomp") != 0)
		return fail(t, "test-start", "%s: %s", t->python, v.why);
	(void)checks_add(t->checks, CHECK_OK, "test-start",
		"%s, CPython %s, as process %d", t->python, ret->python.version,
		(int)t->pid);
	return true;
}

/* name: of the check that it is part of. */
static bool end_program(struct test *t, const char *name)
{
	int status;

	if (!order(t, 'e') || !has_exited(t->pid, ANSWER_MS, &status))
		return fail(t, name, "the program does not end when it is told to");
	t->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_WANTED)
		return true;
	return fail(t, name, "the program ended by %s %d, not by status %d",
		WIFEXITED(status) ? "status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
		STATUS_WANTED);
}

static bool attach_and_compare(struct test *t, const struct host *h)
{
	struct belongings before = { .maps = { 0 } }, after = { .maps = { 0 } };
	struct look l;
	bool ok;

	/* Nothing of the user's own: no startup file, no environment of Python's. */
	const char *const argv[] = { t->python, "-I", "-S", "-c", program, NULL };

	if (!start(t, argv) || !find_python(t, h, &l))
		return false;
	/* What it does for the first time it may allocate for. */
	if (!order(t, 'r'))
		return fail(t, "test-start", "the program does not answer");
	clock_sleep_ns(WARM_NS);
	if (!rest(t, true))
		return fail(t, "test-start", "the program does not answer");
	if (!belongings_read(t, &before))
		return false;
	ok = order(t, 'r') && record_to_file(t, &l.python);
	if (!rest(t, true)) {
		belongings_done(&before);
		return fail(t, "test-end", "the program does not answer any more");
	}
	if (!belongings_read(t, &after)) {
		belongings_done(&before);
		return false;
	}
	ok = compare(t, &before, &after) && ok;
	belongings_done(&before);
	belongings_done(&after);
	if (!end_program(t, "test-end"))
		return false;
	(void)checks_add(t->checks, CHECK_OK, "test-end",
		"the program answered all the time and ended with its own status");
	return ok;
}

/* The other way in: started by record, which this program is too. */
static bool record_from_start(struct test *t)
{
	_cleanup_free_ char *path = xasprintf("%s/spawn.data", t->folder);
	const char *const argv[] = { "/proc/self/exe", "record", "-q", "-o", path, "--",
		t->python, "-I", "-S", "-c", program, NULL };
	uint64_t samples = 0, known = 0;
	bool ok;

	if (!start(t, argv))
		return false;
	if (!order(t, 'r'))
		return fail(t, "test-spawn", "the program does not answer");
	clock_sleep_ns(SAMPLE_NS);
	ok = end_program(t, "test-spawn") &&
	     read_back(t, "test-spawn", path, &samples, &known);
	(void)unlink(path);
	if (ok)
		(void)checks_add(t->checks, CHECK_OK, "test-spawn",
			"started by record, it ended with its own status: %llu samples, "
			"%llu of the function that ran",
			(unsigned long long)samples, (unsigned long long)known);
	return ok;
}

/* Whatever is left of a step that failed. */
static void clean_up(struct test *t)
{
	int status;

	fd_close(&t->orders);
	fd_close(&t->answers);
	if (t->pid <= 0)
		return;
	(void)kill(t->pid, SIGKILL);
	(void)has_exited(t->pid, ANSWER_MS, &status);
	t->pid = 0;
}

static char *folder_template(void)
{
	const char *where = getenv("TMPDIR");

	if (where == NULL || where[0] != '/')
		where = "/tmp";
	return xasprintf("%s/pystack-doctor-XXXXXX", where);
}

void selftest_run(const char *python, const struct host *h, struct checks *c,
	struct selftest *ret)
{
	struct selftest result = { .passed = false };
	struct test t = { .checks = c,
		.result = &result,
		.python = python,
		.orders = -1,
		.answers = -1,
		.folder = folder_template() };
	void (*old_action)(int);
	sigset_t all;

	(void)snprintf(result.python, sizeof(result.python), "%s", python);
	/* An end by a signal would leave the program held, or the folder there. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &t.old_mask);
	/* One that waits until it may come would come at the end. */
	old_action = signal(SIGPIPE, SIG_IGN);
	if (mkdtemp(t.folder) == NULL) {
		(void)fail(&t, "test-start", "%s: %s", t.folder, strerror(errno));
	} else {
		result.passed = attach_and_compare(&t, h);
		clean_up(&t);
		if (result.version[0] != '\0')
			result.passed = record_from_start(&t) && result.passed;
		(void)rmdir(t.folder);
	}
	clean_up(&t);
	free(t.folder);
	(void)signal(SIGPIPE, old_action);
	(void)sigprocmask(SIG_SETMASK, &t.old_mask, NULL);
	*ret = result;
}
