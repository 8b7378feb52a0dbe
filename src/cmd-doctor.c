/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "checks.h"
#include "cmd.h"
#include "inject/probe.h"
#include "json.h"
#include "look.h"
#include "msg.h"
#include "selftest.h"
#include "term.h"
#include "verdict.h"

static pid_t pid;
static bool as_json, self_test;
static const char *python = "python3";

static int set_pid(const char *value, struct err *err)
{
	uint64_t number;

	if (parse_number(value, INT32_MAX, &number) != 0 || number == 0)
		return err_set(err, -EINVAL, "'%s' is not a process id", value);
	pid = (pid_t)number;
	return 0;
}

static int set_self_test(const char *value, struct err *err)
{
	if (value != NULL && value[0] == '\0')
		return err_set(err, -EINVAL, "'' is not a program");
	self_test = true;
	if (value != NULL)
		python = value;
	return 0;
}

static const struct opt doctor_options[] = {
	{ 'p', "pid", "PID", "the process to look at, as the argument is",
		.set = set_pid },
	{ 0, "self-test", "PYTHON",
		"start a Python (python3), attach to it, sample it, let\ngo, and prove that "
		"nothing is left in it",
		.value_optional = true, .set = set_self_test },
	{ 0, "json", NULL, "print one JSON object instead", .flag = &as_json },
	{ 0 },
};

/* All that was found out. */
struct findings {
	struct host host;
	struct look look;
	struct verdict_limits limits;
	struct verdict verdict;
	struct selftest test;
	struct checks checks;
	pid_t given; /* the process that was named; pid: the one that is meant */
	bool works;  /* recording would */
};

/* --- conclusions --- */

static bool may_attach_to_any(const struct host *h)
{
	bool capable = host_may(h, CAP_SYS_PTRACE);

	return probe_call(PROBE_PTRACE) == 0 && probe_call(PROBE_MEM_FILE) == 0 &&
	       (h->yama_scope < 2 || (h->yama_scope == 2 && capable));
}

/* It may have failed for want of a Python: what was found apart from it is told, but
 * not as something that was proved. */
static bool test_failed(const struct findings *f)
{
	return self_test && !f->test.passed;
}

static const char untested[] =
	"the self-test failed, see the problems above; but for it, ";

/* What can be recorded, in the end. */
static void conclude_host(struct findings *f, enum check_level worst)
{
	const struct host *h = &f->host;
	const char *running = ", and running ones of this user; others with sudo";

	if (worst == CHECK_PROBLEM) {
		(void)checks_add(&f->checks, CHECK_PROBLEM, "record",
			"programs cannot be recorded here, see the problems above");
		return;
	}
	if (!may_attach_to_any(h))
		running = "; running ones cannot";
	else if (host_may(h, CAP_SYS_PTRACE))
		running = ", and running ones of all users";
	else if (h->yama_scope == 1)
		running = ", running ones with sudo";
	bool failed = test_failed(f);

	(void)checks_add(&f->checks, failed ? CHECK_PROBLEM : CHECK_OK, "record",
		"%sprograms that pystack starts can be recorded%s",
		failed ? untested : "", running);
}

static void conclude_process(struct findings *f, enum check_level worst)
{
	struct checks *c = &f->checks;
	struct verdict *v = &f->verdict;

	if (v->yes && worst != CHECK_PROBLEM && test_failed(f)) {
		(void)checks_add(c, CHECK_PROBLEM, "record",
			"%sprocess %d can be recorded", untested, (int)pid);
		return;
	}
	if (v->yes && worst != CHECK_PROBLEM) {
		struct check *check = checks_add(
			c, CHECK_OK, "record", "process %d can be recorded", (int)pid);

		(void)snprintf(check->fix, sizeof(check->fix), "pystack record -p %d",
			(int)pid);
		return;
	}
	struct check *check = checks_add(c, CHECK_PROBLEM, "record",
		"process %d cannot be recorded: %s", (int)pid,
		v->yes ? "see the problems above" : v->why);

	memcpy(check->fix, v->fix, sizeof(check->fix));
	check->fix_is_words = v->fix_is_words;
}

/* A shell was named, perhaps, which runs what was meant: record takes that, too. */
static void go_below(struct findings *f)
{
	const struct look *l = &f->look;
	struct look below;

	if (l->code != 0 || !l->answered || l->python_code != 0 ||
		l->python.kind != PYTHON_NONE || l->program != 0 ||
		!look_below(pid, &below))
		return;
	(void)checks_add(&f->checks, CHECK_OK, "wrapper",
		"%d: %s, is no Python itself; what runs below it is recorded", (int)pid,
		l->command);
	pid = below.pid;
	look_at_one(pid, &f->look);
}

static void examine(struct findings *f)
{
	host_read(&f->host);
	checks_on_host(&f->checks, &f->host, pid != 0);
	if (pid != 0) {
		f->given = pid;
		look_at_one(pid, &f->look);
		go_below(f);
		if (f->look.code == 0)
			verdict_limits_read(&f->look, &f->limits);
		verdict_on(&f->look, &f->host, &f->limits, &f->verdict);
		if (f->look.code == 0)
			(void)checks_add(&f->checks, CHECK_OK, "process", "%d: %s",
				(int)pid, f->look.command);
		if (f->look.code == 0 && f->look.answered)
			checks_on_process(&f->checks, &f->look, &f->host, &f->limits);
	}
	/* A self-test that fails, for want of a Python maybe, says nothing of these. */
	enum check_level worst = checks_worst(&f->checks);

	if (self_test)
		selftest_run(python, &f->host, &f->checks, &f->test);
	if (pid != 0)
		conclude_process(f, worst);
	else
		conclude_host(f, worst);
	f->works = checks_worst(&f->checks) != CHECK_PROBLEM;
}

/* --- text --- */

static void print_checks(const struct checks *c)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct check *check = &c->list[i];
		_cleanup_buf_ struct buf line = BUF_INIT(64 << 10);

		str_clean(&line, check->text, strlen(check->text), term_is_ascii());
		if (check->fix[0] != '\0')
			buf_printf(&line, "; %s: %s",
				check->level == CHECK_OK ? "run" : "do", check->fix);
		printf("%-8s %-13s %s\n", checks_level_name(check->level), check->name,
			buf_text(&line));
	}
}

/* --- JSON --- */

static void add_bits(struct cJSON *o, const char *name, uint64_t bits)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%016llx", (unsigned long long)bits);
	json_add_text(o, name, text);
}

static void add_checks(struct cJSON *o, const struct checks *c)
{
	struct cJSON *array = json_add_array(o, "checks");

	for (size_t i = 0; i < c->count; i++) {
		struct cJSON *check = json_append_object(array);

		json_add_text(check, "name", c->list[i].name);
		json_add_text(check, "level", checks_level_name(c->list[i].level));
		json_add_text(check, "text", c->list[i].text);
		json_add_fix(check, c->list[i].fix, c->list[i].fix_is_words);
	}
}

static void add_calls(struct cJSON *o)
{
	struct cJSON *calls = json_add_object(o, "calls");

	for (enum probe_call call = 0; call < PROBE_CALLS; call++)
		json_add_flag(calls, probe_key(call), probe_call(call) == 0);
}

static void add_host(struct cJSON *o, const struct host *h)
{
	struct cJSON *host = json_add_object(o, "host");

	json_add_text(host, "kernel", h->release);
	json_add_text(host, "machine", h->machine);
	if (h->yama_scope < 0)
		json_add_null(host, "yama_ptrace_scope");
	else
		json_add_number(host, "yama_ptrace_scope", h->yama_scope);
	json_add_number(host, "uid", h->uid);
	add_bits(host, "capabilities", h->capabilities);
	json_add_number(host, "seccomp", h->seccomp);
	json_add_flag(host, "first_pid_namespace", h->first_pid_namespace);
	json_add_flag(host, "first_user_namespace", h->first_user_namespace);
	add_calls(host);
}

static void add_namespace(struct cJSON *o, const char *name, int same)
{
	if (same < 0)
		json_add_null(o, name);
	else
		json_add_flag(o, name, same != 0);
}

static void add_python(struct cJSON *o, const struct look *l)
{
	static const char *const kinds[] = { [PYTHON_NONE] = "none",
		[PYTHON_STARTING] = "starting",
		[PYTHON_CPYTHON] = "cpython",
		[PYTHON_TOO_OLD] = "cpython-too-old",
		[PYTHON_TOO_NEW] = "cpython-too-new",
		[PYTHON_FREE_THREADED] = "cpython-free-threaded",
		[PYTHON_DAMAGED] = "cpython-damaged",
		[PYTHON_PYPY] = "pypy",
		[PYTHON_IDLE] = "cpython-idle",
		[PYTHON_STRIPPED] = "cpython-stripped" };
	struct cJSON *p = json_add_object(o, "python");
	bool known = l->answered && l->python_code == 0;

	json_add_text(p, "kind", known ? kinds[l->python.kind] : NULL);
	json_add_text(p, "version", l->python.version);
	json_add_text(p, "object", l->python.object);
	json_add_text(p, "version_by",
		l->python.object[0] == '\0' ? NULL
		: l->python.by_text         ? "text"
					    : "symbol");
	json_add_flag(p, "object_readable", l->file_there);
	json_add_flag(p, "interpreter_started", l->up);
}

static void add_number_or_null(struct cJSON *o, const char *name, bool has, uint64_t v)
{
	if (has && v != LIMIT_NONE)
		json_add_number(o, name, (double)v);
	else
		json_add_null(o, name);
}

static void add_limits(struct cJSON *o, const struct verdict_limits *v)
{
	struct cJSON *limits = json_add_object(o, "limits");

	add_number_or_null(limits, "processes", true, v->process.processes);
	add_number_or_null(limits, "user_threads", v->process.processes != LIMIT_NONE,
		v->user_threads);
	add_number_or_null(limits, "address_space", true, v->process.address_space);
	json_add_flag(limits, "pids_max_reached", v->tasks_full);
	json_add_flag(limits, "address_space_reached", v->space_full);
}

static void add_process(struct cJSON *o, const struct findings *f)
{
	struct cJSON *p = json_add_object(o, "process"), *same;
	const struct look *l = &f->look;
	char state[2] = { l->stat.state, '\0' };

	json_add_number(p, "pid", pid);
	json_add_number(p, "given_pid", f->given);
	json_add_flag(p, "exists", l->code == 0);
	verdict_json(&f->verdict, p);
	if (l->code != 0)
		return;
	json_add_text(p, "command", l->command);
	json_add_text(p, "executable", l->exe);
	json_add_number(p, "uid", l->status.effective_uid);
	json_add_text(p, "state", state);
	json_add_number(p, "tracer", l->status.tracer);
	json_add_number(p, "sampler_task", l->task);
	json_add_number(p, "recorder", l->recorder);
	json_add_number(p, "threads", l->stat.threads);
	json_add_number(p, "inner_pid", l->status.inner_pid);
	json_add_number(p, "seccomp", l->status.seccomp);
	json_add_flag(p, "no_new_privs", l->status.no_new_privs);
	json_add_flag(p, "shadow_stack", l->status.shadow_stack);
	json_add_flag(p, "dumpable", l->dumpable);
	add_bits(p, "capabilities", l->status.capabilities);
	json_add_flag(p, "may_attach", l->answered && l->attach_code == 0);
	json_add_flag(
		p, "process_vm_readv", l->python.runtime != 0 && l->read_code == 0);
	json_add_flag(p, "kcmp", l->kcmp_code == 0);
	same = json_add_object(p, "same_namespace");
	add_namespace(same, "pid", l->same_pid_namespace);
	add_namespace(same, "mount", l->same_mount_namespace);
	add_namespace(same, "user", l->same_user_namespace);
	add_python(p, l);
	add_limits(p, &f->limits);
	json_add_text(p, "way", "attach");
	/* Whether a filter lets a task be made is found out only with it stopped. */
	json_add_text(p, "isolation", l->status.seccomp == 0 ? "task" : NULL);
	json_add_text(p, "copy", l->status.seccomp == 0 ? "load" : NULL);
}

static void add_test(struct cJSON *o, const struct selftest *t)
{
	struct cJSON *test = json_add_object(o, "self_test");

	json_add_flag(test, "passed", t->passed);
	json_add_text(test, "python", t->python);
	json_add_text(test, "version", t->version);
	json_add_number(test, "samples", (double)t->samples);
	json_add_number(test, "known_samples", (double)t->known);
	json_add_number(test, "held_at_start_ns", (double)t->start_held_ns);
	json_add_number(test, "held_at_stop_ns", (double)t->stop_held_ns);
}

static void print_json(const struct findings *f)
{
	struct cJSON *object = json_new();

	json_add_text(object, "pystack", PACKAGE_VERSION);
	json_add_flag(object, "works", f->works);
	add_host(object, &f->host);
	if (pid != 0)
		add_process(object, f);
	if (self_test)
		add_test(object, &f->test);
	add_checks(object, &f->checks);
	json_print(object);
}

static int run(int argc, char **argv)
{
	struct findings f = { .works = false };
	struct err err = { "" };

	if (argc > 1)
		return opt_usage_error("unexpected argument '%s'", argv[1]);
	if (argc == 1 && pid != 0)
		return opt_usage_error("one process only: '%s' is too much", argv[0]);
	if (argc == 1 && set_pid(argv[0], &err) != 0)
		return opt_usage_error("%s", err.text);
	examine(&f);
	if (as_json)
		print_json(&f);
	else
		print_checks(&f.checks);
	checks_done(&f.checks);
	return f.works ? STATUS_OK : STATUS_CANNOT;
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.summary = "say whether recording works here, or why not and what would help",
	.usage = "[OPTIONS] [PID]",
	.notes =
		"A process is only looked at: it is neither stopped nor changed.  Status: 0 "
		"when\nrecording would work, 125 when it would not.",
	.options = doctor_options,
	.run = run,
};
