/* SPDX-License-Identifier: Apache-2.0 */
#include "checks.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/xalloc.h"
#include "inject/probe.h"
#include "paths.h"
#include "proc/events.h"

void checks_done(struct checks *c)
{
	free(c->list);
	*c = (struct checks){ 0 };
}

struct check *checks_add(struct checks *c, enum check_level level, const char *name,
	const char *format, ...)
{
	va_list args;

	c->list = xgrow(c->list, c->count, &c->capacity, sizeof(*c->list));
	struct check *check = &c->list[c->count++];

	*check = (struct check){ .level = level, .name = name };
	va_start(args, format);
	(void)vsnprintf(check->text, sizeof(check->text), format, args);
	va_end(args);
	return check;
}

__attribute__((format(printf, 2, 3))) static void set_fix(
	struct check *check, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(check->fix, sizeof(check->fix), format, args);
	va_end(args);
}

/* A reason to refuse, as it stands in a verdict. */
static void add_verdict(struct checks *c, const char *name, const struct verdict *v)
{
	struct check *check = checks_add(c, CHECK_PROBLEM, name, "%s", v->why);

	memcpy(check->fix, v->fix, sizeof(check->fix));
	check->fix_is_words = v->fix_is_words;
}

enum check_level checks_worst(const struct checks *c)
{
	enum check_level worst = CHECK_OK;

	for (size_t i = 0; i < c->count; i++)
		if (c->list[i].level > worst)
			worst = c->list[i].level;
	return worst;
}

const char *checks_level_name(enum check_level level)
{
	static const char *const names[] = { "ok", "warning", "problem" };

	return names[level];
}

/* --- the machine --- */

static void check_kernel(struct checks *c, const struct host *h)
{
	if (h->kernel == 0)
		(void)checks_add(c, CHECK_WARNING, "kernel",
			"'%s' on %s: which version that is cannot be told; 5.10 or later "
			"is needed",
			h->release, h->machine);
	else if (h->kernel < HOST_KERNEL(5, 10))
		(void)checks_add(c, CHECK_PROBLEM, "kernel",
			"Linux %s on %s: 5.10 or later is needed", h->release,
			h->machine);
	else if (h->kernel < HOST_KERNEL(5, 16))
		(void)checks_add(c, CHECK_WARNING, "kernel",
			"Linux %s on %s: before 5.16 a process that dumps core takes "
			"along all that share its memory; the sampler task handles every "
			"signal that would make it dump",
			h->release, h->machine);
	else
		(void)checks_add(c, CHECK_OK, "kernel",
			"Linux %s on %s (5.10 or later is needed)", h->release,
			h->machine);
}

static void check_proc(struct checks *c, const struct host *h)
{
	if (h->proc_is_ours) {
		(void)checks_add(c, CHECK_OK, "proc", "/proc is mounted");
		return;
	}
	struct check *check = checks_add(c, CHECK_PROBLEM, "proc",
		"/proc is not mounted, or is that of another pid namespace: no process "
		"can be found");

	set_fix(check, "sudo mount -t proc proc /proc");
}

/* "CAP_SYS_PTRACE, CAP_SYS_ADMIN", or "none". */
static void name_capabilities(uint64_t set, char *text, size_t size)
{
	size_t n = 0;

	(void)snprintf(text, size, "none");
	for (int i = 0; i < 64; i++) {
		const char *name = (set >> i & 1) != 0 ? host_capability_name(i) : NULL;

		if (name != NULL && n < size)
			n += (size_t)snprintf(
				text + n, size - n, "%s%s", n != 0 ? ", " : "", name);
	}
}

static void check_capabilities(struct checks *c, const struct host *h)
{
	char held[160];
	struct check *check;

	name_capabilities(h->capabilities, held, sizeof(held));
	if (host_may(h, CAP_SYS_PTRACE)) {
		(void)checks_add(c, CHECK_OK, "capabilities",
			"%s: processes of all users may be "
			"attached to%s",
			held,
			verdict_may_suspend_seccomp(h)
				? ", also those with a seccomp filter"
				: ", but not those with a seccomp filter");
	} else if (h->uid == 0) {
		check = checks_add(c, CHECK_WARNING, "capabilities",
			"%s: root without CAP_SYS_PTRACE, as in "
			"a container, may attach to little",
			held);
		set_fix(check, "docker run --cap-add SYS_PTRACE ...");
	} else {
		(void)checks_add(c, CHECK_OK, "capabilities",
			"%s: for processes of other users, and "
			"those with a seccomp filter, use sudo",
			held);
	}
}

static void check_yama(struct checks *c, const struct host *h)
{
	bool capable = host_may(h, CAP_SYS_PTRACE);
	struct check *check;

	switch (h->yama_scope) {
	case -1:
		(void)checks_add(c, CHECK_OK, "yama",
			"not active: nothing beyond the usual rights is asked for");
		break;
	case 0:
		(void)checks_add(c, CHECK_OK, "yama",
			"kernel.yama.ptrace_scope is 0: nothing beyond the usual rights "
			"is asked for");
		break;
	case 1:
	case 2:
		check = checks_add(c, capable ? CHECK_OK : CHECK_WARNING, "yama",
			"kernel.yama.ptrace_scope is %d: %s%s", h->yama_scope,
			h->yama_scope == 1
				? "own processes may be attached to only below pystack"
				: "to attach takes CAP_SYS_PTRACE",
			capable ? ", but for CAP_SYS_PTRACE, which is there" : "");
		if (!capable)
			set_fix(check, "sudo pystack record -p PID");
		break;
	default:
		check = checks_add(c, CHECK_WARNING, "yama",
			"kernel.yama.ptrace_scope is %d: nobody may attach to anything "
			"until the next boot; programs that pystack starts can be "
			"recorded, but not their children",
			h->yama_scope);
		set_fix(check, "pystack record -- COMMAND");
		break;
	}
}

static void check_seccomp(struct checks *c, const struct host *h)
{
	if (h->seccomp == 0)
		(void)checks_add(
			c, CHECK_OK, "seccomp", "pystack runs without a filter");
	else
		(void)checks_add(c, CHECK_WARNING, "seccomp",
			"pystack itself runs under a filter: of the processes that have "
			"one, only those that it has started can be attached to");
}

static void check_namespaces(struct checks *c, const struct host *h)
{
	if (h->first_pid_namespace && h->first_user_namespace)
		(void)checks_add(c, CHECK_OK, "namespaces",
			"the host's: the processes of all containers can be seen");
	else
		(void)checks_add(c, CHECK_OK, "namespaces",
			"of a container (%s%s%s): only the processes in it can be seen",
			h->first_pid_namespace ? "" : "pid",
			!h->first_pid_namespace && !h->first_user_namespace ? ", " : "",
			h->first_user_namespace ? "" : "user");
}

/* What it means that a call is refused. */
static void check_call(struct checks *c, enum probe_call call, int code, bool attaching)
{
	static const struct {
		enum check_level level;
		const char *means;
	} calls[PROBE_CALLS] = {
		[PROBE_PTRACE] = { CHECK_WARNING,
			"no running process can be attached to, nor children of a "
			"recorded one" },
		[PROBE_CLONE] = { CHECK_PROBLEM,
			"the sampler task cannot be made, and there is no other way to "
			"sample" },
		[PROBE_MEMFD] = { CHECK_PROBLEM, "the sampler task has no ring" },
		[PROBE_PIDFD] = { CHECK_PROBLEM,
			"the ends of programs and samplers are not noticed" },
		[PROBE_READ_MEMORY] = { CHECK_WARNING,
			"/proc/PID/mem is read instead, which does as well" },
		[PROBE_MEM_FILE] = { CHECK_WARNING,
			"no running process can be attached to" },
		[PROBE_KCMP] = { CHECK_WARNING,
			"whether a process is being recorded already cannot be told" },
	};
	enum check_level level = calls[call].level;

	if (attaching && (call == PROBE_PTRACE || call == PROBE_MEM_FILE))
		level = CHECK_PROBLEM;
	struct check *check = checks_add(c, level, "calls", "%s: %s: %s",
		probe_name(call), strerror(-code), calls[call].means);

	if (code == -EPERM || code == -ENOSYS)
		set_fix(check, "docker run --cap-add SYS_PTRACE --security-opt "
			       "seccomp=unconfined ...");
}

static void check_calls(struct checks *c, bool attaching)
{
	size_t before = c->count;

	for (enum probe_call call = 0; call < PROBE_CALLS; call++) {
		int code = probe_call(call);

		if (code != 0)
			check_call(c, call, code, attaching);
	}
	if (c->count == before)
		(void)checks_add(c, CHECK_OK, "calls",
			"ptrace, clone, memfd_create, pidfd_open, process_vm_readv, kcmp "
			"and /proc/PID/mem work");
}

static void check_events(struct checks *c)
{
	int fd = proc_events_open();

	if (fd >= 0)
		(void)checks_add(c, CHECK_OK, "events",
			"the kernel tells of new processes: children are followed at once");
	else
		(void)checks_add(c, CHECK_OK, "events",
			"the kernel does not tell of new processes here (it tells root, "
			"outside of containers): children are looked for in /proc");
	fd_close(&fd);
}

static void check_preload(struct checks *c, bool attaching)
{
	_cleanup_free_ char *path = paths_preload();

	if (path != NULL) {
		(void)checks_add(c, CHECK_OK, "preload",
			"%s brings the sampler into programs that pystack starts",
			path);
		return;
	}
	struct check *check = checks_add(c, attaching ? CHECK_WARNING : CHECK_PROBLEM,
		"preload",
		"the library for programs that pystack starts, pystack-preload.so, is "
		"not where it was installed");

	(void)snprintf(check->fix, sizeof(check->fix),
		"install pystack again, or set PYSTACK_PRELOAD");
	check->fix_is_words = true;
}

/* What would be used, and why. */
static void check_ways(struct checks *c, bool attaching)
{
	if (attaching)
		(void)checks_add(c, CHECK_OK, "way",
			"attach, as it runs already: one of its threads is borrowed for a "
			"few system calls, for a millisecond or so");
	else
		(void)checks_add(c, CHECK_OK, "way",
			"what pystack starts brings the sampler along, and so do its "
			"children; what runs already is attached to");
	(void)checks_add(c, CHECK_OK, "isolation",
		"task: a process of its own in the program's memory, with its own signal "
		"handlers and descriptors; where none can be had, thread: one of the "
		"program, with its own descriptors");
	(void)checks_add(c, CHECK_OK, "copy",
		"plain loads by a task: its own handler mends the fault of a stale "
		"pointer, so no system call is needed for a frame; by a thread, system "
		"calls (record --copy)");
}

void checks_on_host(struct checks *c, const struct host *h, bool attaching)
{
	check_kernel(c, h);
	check_proc(c, h);
	check_capabilities(c, h);
	check_yama(c, h);
	check_seccomp(c, h);
	check_namespaces(c, h);
	check_calls(c, attaching);
	check_events(c);
	check_preload(c, attaching);
	check_ways(c, attaching);
}

/* --- a process --- */

static void check_python(struct checks *c, const struct look *l)
{
	const struct python_found *f = &l->python;
	struct verdict v = { .yes = true };

	if (verdict_python(l, &v)) {
		add_verdict(c, "python", &v);
		return;
	}
	if (f->kind != PYTHON_CPYTHON)
		return;
	/* " (deleted)" may follow. */
	size_t size = strlen(f->object);
	bool in_executable = strncmp(f->object, l->exe, size) == 0 &&
			     (l->exe[size] == '\0' || l->exe[size] == ' ');

	(void)checks_add(c, CHECK_OK, "python",
		"CPython %s, found by the %s of the %s %s%s%s; the version by %s",
		f->version, f->stripped ? "section .PyRuntime" : "symbol _PyRuntime",
		in_executable ? "executable" : "library", f->object,
		l->same_mount_namespace == 0 ? " (of its own root)" : "",
		l->file_there ? "" : " (in memory: the file is gone)",
		f->by_text ? "the text that Py_GetVersion() gives" : "Py_Version");
	if (f->other_version[0] != '\0')
		(void)checks_add(c, CHECK_WARNING, "python",
			"CPython %s runs in it too (%s), and will not be recorded",
			f->other_version, f->other_object);
	if (!l->up)
		(void)checks_add(c, CHECK_PROBLEM, "interpreter",
			"no Python interpreter has started in it yet");
	else
		(void)checks_add(c, CHECK_OK, "interpreter", "has started");
}

static void check_permission(
	struct checks *c, const struct look *l, const struct host *h)
{
	struct verdict v = { .yes = true };

	if (verdict_permission(l, h, &v))
		add_verdict(c, "permission", &v);
	else
		(void)checks_add(c, CHECK_OK, "permission",
			"it runs as user %u, pystack as %u, which may attach to it",
			(unsigned)l->status.effective_uid, (unsigned)h->uid);
}

static void check_state(struct checks *c, const struct look *l)
{
	struct verdict v = { .yes = true };
	const char *words = "sleeping";

	if (verdict_state(l, &v)) {
		add_verdict(c, "state", &v);
		return;
	}
	if (l->stat.state == 'D') {
		(void)checks_add(c, CHECK_WARNING, "state",
			"its main thread is in an uninterruptible wait; another thread "
			"is borrowed if there is one");
		return;
	}
	if (l->stat.state == 'R')
		words = "running";
	(void)checks_add(c, CHECK_OK, "state",
		"%s; not stopped, not traced, not being recorded", words);
}

static void check_machine(struct checks *c, const struct look *l)
{
	struct verdict v = { .yes = true };

	if (verdict_machine(l, &v))
		add_verdict(c, "machine", &v);
	else
		(void)checks_add(c, CHECK_OK, "machine",
			"a 64-bit program without a shadow stack");
}

static void check_filter(struct checks *c, const struct look *l, const struct host *h)
{
	struct verdict v = { .yes = true };
	const char *privileges =
		l->status.no_new_privs ? " (no_new_privs is set: no hindrance)" : "";

	if (verdict_seccomp(l, h, &v))
		add_verdict(c, "filter", &v);
	else if (l->status.seccomp == 0)
		(void)checks_add(c, CHECK_OK, "filter", "it has no seccomp filter%s",
			privileges);
	else
		(void)checks_add(c, CHECK_OK, "filter",
			"it has a seccomp filter, which is set aside while a thread of it "
			"is borrowed, and holds for the sampler task%s",
			privileges);
}

static void check_its_capabilities(
	struct checks *c, const struct look *l, const struct host *h)
{
	char held[160];

	name_capabilities(l->status.capabilities, held, sizeof(held));
	(void)checks_add(c, CHECK_OK, "privileges",
		"it holds, of the capabilities that matter: %s%s", held,
		(l->status.permitted_capabilities & ~h->capabilities) == 0
			? ""
			: " (and more than pystack does)");
}

static void check_its_namespaces(struct checks *c, const struct look *l)
{
	if (l->same_pid_namespace < 0) {
		(void)checks_add(c, CHECK_OK, "containers",
			"which namespaces it lives in may not be seen");
		return;
	}
	if (l->same_pid_namespace && l->same_user_namespace &&
		l->same_mount_namespace) {
		(void)checks_add(c, CHECK_OK, "containers",
			"it lives in the same namespaces as pystack");
		return;
	}
	char inner[80] = "";

	if (!l->same_pid_namespace)
		(void)snprintf(inner, sizeof(inner),
			" (there it is process %d, and cannot see the death of the recorder)",
			(int)l->status.inner_pid);
	(void)checks_add(c, CHECK_OK, "containers",
		"it lives in namespaces of its own:%s%s%s%s; its files are read in its own "
		"root",
		l->same_pid_namespace ? "" : " pid", inner,
		l->same_mount_namespace ? "" : " mount",
		l->same_user_namespace ? "" : " user");
}

static void check_reading(struct checks *c, const struct look *l)
{
	if (l->attach_code != 0 || l->python.runtime == 0)
		return;
	if (l->read_code == 0)
		(void)checks_add(c, CHECK_OK, "reading",
			"process_vm_readv reads its memory, for what the recorder looks "
			"up itself");
	else
		(void)checks_add(c, CHECK_OK, "reading",
			"process_vm_readv is refused (%s); /proc/%d/mem is read instead",
			strerror(-l->read_code), (int)l->pid);
	if (l->kcmp_code != 0)
		(void)checks_add(c, CHECK_WARNING, "kcmp",
			"%s: whether it is being recorded already cannot be told",
			strerror(-l->kcmp_code));
}

static void check_limits(
	struct checks *c, const struct look *l, const struct verdict_limits *limits)
{
	struct verdict v = { .yes = true };
	uint64_t locked = limits->process.locked;

	if (verdict_limit(l, limits, &v))
		add_verdict(c, "limits", &v);
	else if (l->status.locked_kib != 0 && l->status.uid != 0 &&
		 locked != LIMIT_NONE &&
		 l->status.locked_kib + (8 << 10) > locked / 1024)
		(void)checks_add(c, CHECK_WARNING, "limits",
			"it locks %llu MB in memory and may lock %llu: if new memory is "
			"locked too (mlockall), the 7 MB of the sampler are refused",
			(unsigned long long)l->status.locked_kib / 1024,
			(unsigned long long)locked >> 20);
	else
		(void)checks_add(c, CHECK_OK, "limits",
			"RLIMIT_NPROC, pids.max and RLIMIT_AS leave room for a task and 7 "
			"MB of address space");
	(void)checks_add(c, CHECK_OK, "mdwe",
		"whether it forbids itself new code (PR_SET_MDWE) cannot be seen from "
		"outside; it would not hinder: the sampler's code is never mapped writable");
}

void checks_on_process(struct checks *c, const struct look *l, const struct host *h,
	const struct verdict_limits *limits)
{
	check_python(c, l);
	check_permission(c, l, h);
	check_state(c, l);
	check_machine(c, l);
	check_filter(c, l, h);
	check_its_capabilities(c, l, h);
	check_its_namespaces(c, l);
	check_reading(c, l);
	check_limits(c, l, limits);
}
