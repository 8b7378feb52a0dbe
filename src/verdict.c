/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "json.h"

enum {
	/* What is mapped into the program, with room for the ring. */
	MAPPED_BYTES = 8 << 20,
	YAMA_CHILDREN_ONLY = 1,
	YAMA_CAPABILITY_ONLY = 2,
	YAMA_NOBODY = 3,
};

/* Refuse: a word for programs, a few for a column, a sentence. */
__attribute__((format(printf, 4, 5))) static void refuse(
	struct verdict *v, const char *code, const char *brief, const char *format, ...)
{
	va_list args;

	v->yes = false;
	v->code = code;
	v->brief = brief;
	va_start(args, format);
	(void)vsnprintf(v->why, sizeof(v->why), format, args);
	va_end(args);
}

__attribute__((format(printf, 2, 3))) static void fix_command(
	struct verdict *v, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(v->fix, sizeof(v->fix), format, args);
	va_end(args);
}

__attribute__((format(printf, 2, 3))) static void fix_words(
	struct verdict *v, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(v->fix, sizeof(v->fix), format, args);
	va_end(args);
	v->fix_is_words = true;
}

/* --- permission --- */

static bool is_refusal(int code)
{
	return code == -EACCES || code == -EPERM;
}

static bool owns(const struct look *l, const struct host *h)
{
	return l->status.uid == h->uid && l->status.effective_uid == h->uid &&
	       l->status.saved_uid == h->uid;
}

static bool has_group(const struct look *l, const struct host *h)
{
	return l->status.gid == h->gid && l->status.effective_gid == h->gid &&
	       l->status.saved_gid == h->gid;
}

/* Why the kernel says no to one without the right over all processes. */
static void explain_without_right(
	const struct look *l, const struct host *h, struct verdict *v)
{
	const char *code = "not-permitted", *brief = "no: not permitted";

	if (!owns(l, h))
		refuse(v, code, brief,
			"not permitted: it runs as user %u, pystack as %u",
			(unsigned)l->status.effective_uid, (unsigned)h->uid);
	else if (!has_group(l, h))
		refuse(v, code, brief,
			"not permitted: it runs in group %u, pystack in %u",
			(unsigned)l->status.effective_gid, (unsigned)h->gid);
	else if (!l->dumpable)
		refuse(v, code, brief,
			"not permitted: it has made itself unreadable (not dumpable), as "
			"programs do that change their user");
	else if ((l->status.permitted_capabilities & ~h->capabilities) != 0)
		refuse(v, code, brief,
			"not permitted: it holds capabilities that pystack does not have");
	else if (h->yama_scope >= YAMA_CHILDREN_ONLY)
		refuse(v, code, brief,
			"not permitted: kernel.yama.ptrace_scope is %d, %s",
			h->yama_scope,
			h->yama_scope == YAMA_CHILDREN_ONLY
				? "own processes only below pystack itself"
				: "which demands CAP_SYS_PTRACE");
	else if (l->same_user_namespace == 0)
		refuse(v, code, brief,
			"not permitted: it lives in another user namespace");
	else
		refuse(v, code, brief,
			"not permitted: a security module (AppArmor, SELinux) or a "
			"filter forbids it");
}

/* Of a container, to go out of it; false where this is the host. */
static bool fix_on_host(const struct look *l, const struct host *h, struct verdict *v)
{
	if (h->first_user_namespace && h->first_pid_namespace)
		return false;
	if (h->first_pid_namespace)
		fix_words(v, "on the host: sudo pystack record -p %d", (int)l->pid);
	else
		fix_words(v, "on the host: sudo pystack record -p PID, with its number "
			     "there");
	return true;
}

static void explain_refusal(
	const struct look *l, const struct host *h, struct verdict *v)
{
	if (h->yama_scope >= YAMA_NOBODY) {
		refuse(v, "not-permitted", "no: not permitted",
			"not permitted: kernel.yama.ptrace_scope is %d, so nobody may "
			"attach to any process until the next boot",
			h->yama_scope);
		fix_command(v, "pystack record -- COMMAND");
		return;
	}
	if (host_may(h, CAP_SYS_PTRACE)) {
		/* Its namespaces may not even be seen then. */
		bool beside = !h->first_user_namespace && l->same_user_namespace != 1;

		refuse(v, "not-permitted", "no: not permitted",
			"not permitted, though pystack has CAP_SYS_PTRACE: %s",
			beside || l->same_user_namespace == 0
				? "it lives in a user namespace that is not below this one"
				: "a security module (AppArmor, SELinux) forbids it");
		(void)fix_on_host(l, h, v);
		return;
	}
	if (h->uid == 0) {
		refuse(v, "not-permitted", "no: not permitted",
			"not permitted: root here does not have CAP_SYS_PTRACE, as in a "
			"container");
		fix_command(v, "docker run --cap-add SYS_PTRACE ...");
		return;
	}
	explain_without_right(l, h, v);
	fix_command(v, "sudo pystack record -p %d", (int)l->pid);
}

bool verdict_permission(const struct look *l, const struct host *h, struct verdict *ret)
{
	if (is_refusal(l->python_code) || is_refusal(l->attach_code)) {
		explain_refusal(l, h, ret);
		return true;
	}
	if (l->attach_code == 0)
		return false;
	refuse(ret, "unreadable", "no: unreadable", "its memory cannot be opened: %s",
		err_name(l->attach_code));
	return true;
}

/* --- the rest --- */

bool verdict_python(const struct look *l, struct verdict *ret)
{
	static const struct {
		const char *code, *brief;
	} kinds[] = {
		[PYTHON_NONE] = { "not-python", "no: not Python" },
		[PYTHON_STARTING] = { "starting", "no: starting" },
		[PYTHON_CPYTHON] = { "yes", "yes" },
		[PYTHON_TOO_OLD] = { "too-old", "no: too old" },
		[PYTHON_TOO_NEW] = { "too-new", "no: too new" },
		[PYTHON_FREE_THREADED] = { "free-threaded", "no: free-threaded" },
		[PYTHON_DAMAGED] = { "damaged", "no: damaged" },
		[PYTHON_PYPY] = { "pypy", "no: PyPy" },
		[PYTHON_IDLE] = { "idle", "no: idle" },
		[PYTHON_STRIPPED] = { "stripped", "no: stripped" },
	};
	char text[200];
	const char *why;

	if (l->python_code != 0) {
		/* Where it is not permitted, that is the reason. */
		if (is_refusal(l->python_code))
			return false;
		refuse(ret, "unreadable", "no: unreadable", "it cannot be read: %s",
			err_name(l->python_code));
		return true;
	}
	why = python_refusal(&l->python, text, sizeof(text));
	if (why == NULL)
		return false;
	refuse(ret, kinds[l->python.kind].code, kinds[l->python.kind].brief, "it %s",
		why);
	if (l->python.kind == PYTHON_TOO_NEW)
		fix_words(ret, "use a newer pystack");
	return true;
}

bool verdict_may_suspend_seccomp(const struct host *h)
{
	/* The kernel wants it in the first user namespace, from one without a filter.
	 */
	return host_may(h, CAP_SYS_ADMIN) && h->first_user_namespace && h->seccomp == 0;
}

bool verdict_seccomp(const struct look *l, const struct host *h, struct verdict *ret)
{
	if (l->status.seccomp == SECCOMP_MODE_STRICT) {
		refuse(ret, "seccomp", "no: seccomp strict",
			"it is in seccomp's strict mode, in which no task could be started");
		return true;
	}
	if (l->status.seccomp == 0 || verdict_may_suspend_seccomp(h))
		return false;
	refuse(ret, "seccomp", "no: seccomp filter",
		"it has a seccomp filter, which must be set aside while a thread of it is "
		"borrowed; that takes CAP_SYS_ADMIN of the host%s (record --force tries in "
		"spite of it)",
		h->seccomp != 0 ? ", and pystack must have no filter itself" : "");
	if (!fix_on_host(l, h, ret))
		fix_command(ret, "sudo pystack record -p %d", (int)l->pid);
	return true;
}

/* In the order in which one would have to deal with them. */
bool verdict_state(const struct look *l, struct verdict *ret)
{
	if (l->status.tracer != 0) {
		refuse(ret, "traced", "no: traced",
			"it is traced by process %d (%s), and only one can trace it",
			(int)l->status.tracer, l->tracer);
		fix_words(ret, "end that debugger, or detach it");
		return true;
	}
	if (l->stat.state == 'T' || l->stat.state == 't') {
		refuse(ret, "stopped", "no: stopped", "it is stopped by a signal");
		fix_command(ret, "kill -CONT %d", (int)l->pid);
		return true;
	}
	if (l->task != 0) {
		char by[64] = "";

		if (l->recorder != 0)
			(void)snprintf(
				by, sizeof(by), "process %d, ", (int)l->recorder);
		refuse(ret, "recorded", "no: recorded",
			"it is being recorded already (by %ssampler task %d)", by,
			(int)l->task);
		fix_words(ret, "end that recording first");
		return true;
	}
	return false;
}

bool verdict_machine(const struct look *l, struct verdict *ret)
{
	if (l->status.shadow_stack) {
		refuse(ret, "shadow-stack", "no: shadow stack",
			"it runs with a shadow stack, which is not supported");
		fix_words(ret, "start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
		return true;
	}
	if (l->narrow) {
		refuse(ret, "32-bit", "no: 32-bit",
			"it is a 32-bit program, which is not supported");
		return true;
	}
	return false;
}

/* Reasons that no permission and no command would change. */
static void judge_nature(const struct look *l, struct verdict *v)
{
	if (l->code == -EPERM) {
		refuse(v, "hidden", "no: hidden",
			"it is hidden by the hidepid option of /proc");
		fix_command(v, "sudo pystack record -p %d", (int)l->pid);
	} else if (l->code != 0) {
		refuse(v, "gone", "no: gone", "there is no such process");
	} else if (l->stat.state == 'Z' && l->stat.threads > 1) {
		refuse(v, "main-ended", "no: main ended",
			"its main thread has ended, while others go on");
	} else if (l->stat.state == 'Z' || l->stat.state == 'X') {
		refuse(v, "ended", "no: ended",
			"it has ended and waits for its parent, process %d",
			(int)l->stat.parent);
	} else if (l->stat.kernel_thread) {
		refuse(v, "kernel-thread", "no: of the kernel",
			"it is a thread of the kernel");
	} else if (!l->answered) {
		refuse(v, "no-answer", "no: no answer",
			"its memory could not be read within two seconds: it hangs in the "
			"kernel, or lies on a disk that does not answer");
	} else if (l->status.process != 0 && l->status.process != l->pid) {
		refuse(v, "thread", "no: a thread", "it is a thread of process %d",
			(int)l->status.process);
		fix_command(v, "pystack doctor %d", (int)l->status.process);
	} else if (l->program != 0) {
		refuse(v, "sampler", "no: a sampler",
			"it is the sampler task of process %d, which is being recorded",
			(int)l->program);
	}
}

void verdict_limits_read(const struct look *l, struct verdict_limits *ret)
{
	struct verdict_limits v = { .user_threads = 0 };

	proc_limits_read(l->pid, &v.process);
	if (v.process.processes != LIMIT_NONE)
		v.user_threads = proc_threads_of_user(l->status.uid);
	v.tasks_full = proc_limits_tasks_full(l->pid, LIMITS_TASK_ROOM, &v.tasks);
	v.space_full = proc_limits_space_full(l->pid, MAPPED_BYTES, &v.space);
	*ret = v;
}

static bool ignores_process_limit(const struct look *l)
{
	return l->status.uid == 0 ||
	       (l->status.capabilities >> CAP_SYS_RESOURCE & 1) != 0 ||
	       (l->status.capabilities >> CAP_SYS_ADMIN & 1) != 0;
}

bool verdict_limit(
	const struct look *l, const struct verdict_limits *limits, struct verdict *ret)
{
	const struct proc_tasks_limit *tasks = &limits->tasks;
	uint64_t most = limits->process.processes;

	if (limits->tasks_full) {
		refuse(ret, "limit-pids", "no: pids.max",
			"its control group has no room for the sampler's task: %llu of "
			"%llu processes (%s/pids.max)",
			(unsigned long long)tasks->now, (unsigned long long)tasks->most,
			tasks->folder);
		fix_command(ret, "echo %llu | sudo tee %.100s/pids.max",
			(unsigned long long)tasks->now + 8, tasks->folder);
		return true;
	}
	if (most != LIMIT_NONE && !ignores_process_limit(l) &&
		limits->user_threads >= most) {
		refuse(ret, "limit-processes", "no: RLIMIT_NPROC",
			"its user has %llu threads, and its limit (RLIMIT_NPROC) is %llu",
			(unsigned long long)limits->user_threads,
			(unsigned long long)most);
		fix_command(ret, "sudo prlimit --nproc=%llu --pid %d",
			(unsigned long long)limits->user_threads + 8, (int)l->pid);
		return true;
	}
	if (limits->space_full) {
		refuse(ret, "limit-memory", "no: RLIMIT_AS",
			"it has %llu MiB of address space, its limit (RLIMIT_AS) is %llu, "
			"and the sampler takes 8 and must leave as much",
			(unsigned long long)limits->space.used >> 20,
			(unsigned long long)limits->space.most >> 20);
		fix_command(ret, "sudo prlimit --as=%llu --pid %d",
			(unsigned long long)limits->space.used + 4ull * MAPPED_BYTES,
			(int)l->pid);
		return true;
	}
	return false;
}

void verdict_on(const struct look *l, const struct host *h,
	const struct verdict_limits *limits, struct verdict *ret)
{
	struct verdict v = { .yes = true, .code = "yes", .brief = "yes" };

	judge_nature(l, &v);
	/* What nothing can change comes first, then in the order of an attach. */
	if (!v.yes || verdict_python(l, &v) || verdict_permission(l, h, &v) ||
		verdict_state(l, &v) || verdict_machine(l, &v) ||
		verdict_seccomp(l, h, &v) ||
		(limits != NULL && verdict_limit(l, limits, &v))) {
		*ret = v;
		return;
	}
	if (!l->up)
		refuse(&v, "no-interpreter", "no: starting",
			"no Python interpreter has started in it yet");
	*ret = v;
}

void verdict_json(const struct verdict *v, struct cJSON *object)
{
	json_add_flag(object, "attachable", v->yes);
	json_add_text(object, "verdict", v->code);
	json_add_text(object, "why", v->why);
	json_add_fix(object, v->fix, v->fix_is_words);
}
