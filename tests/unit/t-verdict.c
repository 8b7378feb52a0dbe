/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes can be attached to, on machines put together for it. */
#include "verdict.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>

#include "tap.h"

#define BIT(capability) (1ull << (capability))

/* A host of an ordinary user, and one of root. */
static const struct host user_host = {
	.release = "6.1.0",
	.kernel = HOST_KERNEL(6, 1),
	.yama_scope = 0,
	.proc_is_ours = true,
	.uid = 1000,
	.gid = 100,
	.first_pid_namespace = true,
	.first_user_namespace = true,
};
static const struct host root_host = {
	.release = "6.1.0",
	.kernel = HOST_KERNEL(6, 1),
	.yama_scope = 0,
	.proc_is_ours = true,
	.uid = 0,
	.capabilities = BIT(CAP_SYS_PTRACE) | BIT(CAP_SYS_ADMIN),
	.first_pid_namespace = true,
	.first_user_namespace = true,
};

/* A Python that can be attached to. */
static const struct look good = {
	.pid = 4711,
	.answered = true,
	.stat = { .comm = "python3", .state = 'S', .parent = 1, .threads = 1 },
	.status = { .uid = 1000,
		.effective_uid = 1000,
		.saved_uid = 1000,
		.gid = 100,
		.effective_gid = 100,
		.saved_gid = 100,
		.process = 4711,
		.size_kib = 100 << 10 },
	.command = "python3 app.py",
	.dumpable = true,
	.same_pid_namespace = 1,
	.same_user_namespace = 1,
	.same_mount_namespace = 1,
	.python = { .kind = PYTHON_CPYTHON, .version = "3.11.2" },
	.up = true,
};

static struct host host;
static struct look look;
static struct verdict_limits limits;

static void start(const struct host *h)
{
	host = *h;
	look = good;
	limits = (struct verdict_limits){ .process = { LIMIT_NONE, LIMIT_NONE,
						  LIMIT_NONE } };
}

/* What is said of it: the code, and whether texts hold these pieces. */
static void check(
	const char *what, const char *code, const char *in_why, const char *in_fix)
{
	struct verdict v;

	verdict_on(&look, &host, &limits, &v);
	bool ok = strcmp(v.code, code) == 0 && v.yes == (strcmp(code, "yes") == 0) &&
		  strstr(v.why, in_why) != NULL &&
		  (in_fix == NULL ? v.fix[0] == '\0' : strstr(v.fix, in_fix) != NULL);

	if (!tap_ok(ok, "%s: %s", what, code))
		printf("# %s; %s; %s\n", v.code, v.why, v.fix);
}

static void test_good(void)
{
	start(&user_host);
	check("an own process", "yes", "", NULL);
	start(&root_host);
	check("a user's process, for root", "yes", "", NULL);
	look.stat.state = 'D';
	check("in an uninterruptible wait", "yes", "", NULL);
	look.status.no_new_privs = true;
	check("with no_new_privs", "yes", "", NULL);
}

static void test_permission(void)
{
	start(&user_host);
	look.attach_code = -EACCES;
	look.status.uid = look.status.effective_uid = look.status.saved_uid = 33;
	check("of another user", "not-permitted", "user 33, pystack as 1000",
		"sudo pystack record -p 4711");
	look.python_code = -EACCES;
	check("nothing of it may be read", "not-permitted", "user 33", "sudo");

	start(&user_host);
	look.attach_code = -EACCES;
	look.status.saved_uid = 0;
	check("with another saved user", "not-permitted", "it runs as user", "sudo");

	start(&user_host);
	look.attach_code = -EACCES;
	look.status.saved_gid = 5;
	check("in another group", "not-permitted", "it runs in group", "sudo");

	start(&user_host);
	look.attach_code = -EACCES;
	look.dumpable = false;
	check("made unreadable", "not-permitted", "not dumpable", "sudo");

	start(&user_host);
	look.attach_code = -EACCES;
	look.status.permitted_capabilities = BIT(CAP_NET_ADMIN);
	check("with more capabilities", "not-permitted", "holds capabilities", "sudo");

	start(&user_host);
	look.attach_code = -EACCES;
	check("by a security module", "not-permitted", "AppArmor", "sudo");
	look.same_user_namespace = 0;
	check("in another user namespace", "not-permitted", "user namespace", "sudo");

	start(&root_host);
	host.capabilities = 0;
	look.attach_code = -EACCES;
	check("root of a container", "not-permitted", "CAP_SYS_PTRACE",
		"docker run --cap-add SYS_PTRACE");

	start(&root_host);
	look.attach_code = -EACCES;
	check("root, refused all the same", "not-permitted", "security module", NULL);
	host.first_user_namespace = false;
	look.same_user_namespace = 0;
	check("root of a user namespace beside it", "not-permitted",
		"not below this one", "on the host: sudo pystack record -p 4711");

	host.first_pid_namespace = false;
	look.same_user_namespace = -EACCES;
	check("and of a pid namespace, which may not be seen", "not-permitted",
		"not below this one", "with its number there");

	start(&user_host);
	look.attach_code = -ENOENT;
	check("gone meanwhile", "unreadable", "cannot be opened", NULL);
	look.attach_code = 0;
	look.python_code = -EIO;
	check("not to be read", "unreadable", "cannot be read", NULL);
}

static void test_yama(void)
{
	start(&user_host);
	look.attach_code = -EACCES;
	host.yama_scope = 1;
	check("yama 1", "not-permitted", "ptrace_scope is 1", "sudo pystack record");
	host.yama_scope = 2;
	check("yama 2", "not-permitted", "demands CAP_SYS_PTRACE", "sudo");
	host.yama_scope = 3;
	check("yama 3", "not-permitted", "until the next boot",
		"pystack record -- COMMAND");
	start(&root_host);
	look.attach_code = -EACCES;
	host.yama_scope = 3;
	check("yama 3 for root", "not-permitted", "until the next boot", "record --");
	start(&root_host);
	host.yama_scope = 2;
	check("yama 2 for root", "yes", "", NULL);
}

static void test_python(void)
{
	static const struct {
		enum python_kind kind;
		const char *code, *why, *fix;
	} cases[] = {
		{ PYTHON_NONE, "not-python", "not a Python process", NULL },
		{ PYTHON_STARTING, "starting", "not started", NULL },
		{ PYTHON_TOO_OLD, "too-old", "3.7.16", NULL },
		{ PYTHON_TOO_NEW, "too-new", "newer", "newer pystack" },
		{ PYTHON_FREE_THREADED, "free-threaded", "free-threaded", NULL },
		{ PYTHON_DAMAGED, "damaged", "laid out", NULL },
		{ PYTHON_PYPY, "pypy", "PyPy", NULL },
		{ PYTHON_IDLE, "idle", "without symbols", NULL },
		{ PYTHON_STRIPPED, "stripped", "stripped", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		start(&user_host);
		look.python.kind = cases[i].kind;
		if (cases[i].kind == PYTHON_TOO_OLD)
			(void)snprintf(look.python.version, 8, "3.7.16");
		/* That it is stopped, or another's, is not what stands in the way. */
		look.stat.state = 'T';
		check("a Python that cannot be sampled", cases[i].code, cases[i].why,
			cases[i].fix);
	}
	start(&user_host);
	look.up = false;
	check("no interpreter yet", "no-interpreter", "has started", NULL);
}

static void test_state(void)
{
	start(&root_host);
	look.stat.state = 'T';
	check("stopped", "stopped", "stopped", "kill -CONT 4711");
	look.status.tracer = 99;
	(void)snprintf(look.tracer, sizeof(look.tracer), "strace");
	look.stat.state = 't';
	check("stopped by a tracer", "traced", "process 99 (strace)", "detach");
	start(&root_host);
	look.task = 50;
	check("recorded", "recorded", "sampler task 50", "end that recording");
	start(&root_host);
	look.status.shadow_stack = true;
	check("a shadow stack", "shadow-stack", "shadow stack", "GLIBC_TUNABLES");
	start(&root_host);
	look.narrow = true;
	check("a 32-bit program", "32-bit", "32-bit", NULL);
	start(&root_host);
	look.status.process = 4000;
	check("a thread", "thread", "of process 4000", "pystack doctor 4000");
	start(&root_host);
	look.program = 12;
	check("a sampler task", "sampler", "of process 12", NULL);
	start(&root_host);
	look.stat.state = 'Z';
	look.stat.threads = 2;
	check("its main thread ended", "main-ended", "others go on", NULL);
	look.stat.threads = 1;
	check("ended", "ended", "waits for its parent, process 1", NULL);
	start(&root_host);
	look.stat.kernel_thread = true;
	check("of the kernel", "kernel-thread", "kernel", NULL);
	start(&root_host);
	look.answered = false;
	check("no answer", "no-answer", "two seconds", NULL);
	start(&root_host);
	look.code = -ESRCH;
	check("not there", "gone", "no such process", NULL);
	look.code = -EPERM;
	check("not to be seen", "hidden", "hidepid", "sudo");
}

static void test_seccomp(void)
{
	start(&user_host);
	look.status.seccomp = 2;
	check("a filter, for a user", "seccomp", "CAP_SYS_ADMIN", "sudo");
	look.status.seccomp = 1;
	check("strict mode", "seccomp", "strict mode", NULL);
	start(&root_host);
	look.status.seccomp = 2;
	check("a filter, for root", "yes", "", NULL);
	host.seccomp = 2;
	check("a filter on both", "seccomp", "no filter itself", "sudo");
	host.seccomp = 0;
	host.capabilities = BIT(CAP_SYS_PTRACE);
	check("a filter, without CAP_SYS_ADMIN", "seccomp", "CAP_SYS_ADMIN", "sudo");
	host.capabilities |= BIT(CAP_SYS_ADMIN);
	host.first_user_namespace = false;
	check("a filter, as root of a user namespace", "seccomp", "of the host",
		"on the host: sudo");
}

static void test_limits(void)
{
	start(&root_host);
	limits.process.processes = 10;
	limits.user_threads = 10;
	check("its user's processes are at their limit", "limit-processes",
		"RLIMIT_NPROC", "prlimit --nproc=18 --pid 4711");
	look.status.uid = 0;
	check("the same of root", "yes", "", NULL);
	look.status.uid = 1000;
	look.status.capabilities = BIT(CAP_SYS_RESOURCE);
	check("the same with CAP_SYS_RESOURCE", "yes", "", NULL);
	look.status.capabilities = 0;
	limits.user_threads = 9;
	check("room for one more", "yes", "", NULL);

	start(&root_host);
	limits.tasks_full = true;
	limits.tasks = (struct proc_tasks_limit){
		.most = 5, .now = 4, .folder = "/sys/fs/cgroup/x"
	};
	check("its group is full", "limit-pids", "4 of 5", "/sys/fs/cgroup/x/pids.max");

	start(&root_host);
	limits.space_full = true;
	limits.space =
		(struct proc_space_limit){ .used = 100 << 20, .most = 101 << 20 };
	check("no room in its address space", "limit-memory", "RLIMIT_AS",
		"prlimit --as=138412032 --pid 4711");

	struct verdict v;

	verdict_on(&look, &host, NULL, &v);
	tap_ok(v.yes, "limits may be left out");
}

int main(void)
{
	test_good();
	test_permission();
	test_yama();
	test_python();
	test_state();
	test_seccomp();
	test_limits();
	return tap_done();
}
