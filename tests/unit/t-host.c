/* SPDX-License-Identifier: Apache-2.0 */
/* The machine, and the limits of processes on it. */
#include "proc/host.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "inject/probe.h"
#include "proc/limits.h"
#include "proc/process.h"
#include "tap.h"

static void test_kernel(void)
{
	static const struct {
		const char *release;
		uint32_t kernel;
	} cases[] = {
		{ "6.18.44", HOST_KERNEL(6, 18) },
		{ "5.10.0-30-amd64", HOST_KERNEL(5, 10) },
		{ "5.4.0-1103-aws", HOST_KERNEL(5, 4) },
		{ "4.18.0-513.el8.x86_64", HOST_KERNEL(4, 18) },
		{ "7.0-rc1", HOST_KERNEL(7, 0) },
		{ "10.2", HOST_KERNEL(10, 2) },
		{ "", 0 },
		{ "Linux 5.10", 0 },
		{ "5", 0 },
		{ "5.", 0 },
		{ "5.x", 0 },
		{ "99999.99999", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		tap_ok(host_kernel_parse(cases[i].release) == cases[i].kernel,
			"kernel '%s'", cases[i].release);
	tap_ok(HOST_KERNEL(5, 9) < HOST_KERNEL(5, 10) &&
			HOST_KERNEL(5, 16) < HOST_KERNEL(6, 1),
		"kernels compare");
}

static void test_yama(void)
{
	static const struct {
		const char *text;
		int scope;
	} cases[] = {
		{ "0\n", 0 },
		{ "1\n", 1 },
		{ "2", 2 },
		{ "3\n", 3 },
		{ "", -1 },
		{ "\n", -1 },
		{ "-1\n", -1 },
		{ "10\n", -1 },
		{ "on\n", -1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		tap_is(host_yama_parse(cases[i].text), cases[i].scope,
			"a scope of yama");
}

static void test_host(void)
{
	struct host h;
	struct utsname name;

	host_read(&h);
	tap_ok(uname(&name) == 0 && strcmp(name.release, h.release) == 0 &&
			h.kernel >= HOST_KERNEL(5, 10),
		"this kernel");
	tap_ok(h.proc_is_ours, "/proc is there");
	tap_is(h.uid, geteuid(), "this user");
	tap_is(h.yama_scope >= 0,
		access("/proc/sys/kernel/yama/ptrace_scope", F_OK) == 0,
		"yama is told where it is");
	h.capabilities = 1ull << CAP_SYS_PTRACE;
	tap_ok(host_may(&h, CAP_SYS_PTRACE) && !host_may(&h, CAP_SYS_ADMIN),
		"capabilities are bits");
	tap_str(host_capability_name(CAP_SYS_PTRACE), "CAP_SYS_PTRACE", "their names");
	tap_ok(host_capability_name(CAP_CHOWN) == NULL, "of those that matter");
}

static void test_probes(void)
{
	for (enum probe_call call = 0; call < PROBE_CALLS; call++) {
		int code = probe_call(call);

		/* A sandbox around the tests may refuse; nothing else may go wrong. */
		tap_ok(code == 0 || code == -EPERM || code == -ENOSYS || code == -EIO ||
				code == -EACCES,
			"%s: %s", probe_name(call), code == 0 ? "works" : "is refused");
		tap_ok(strpbrk(probe_key(call), " /-") == NULL, "its key is a word");
	}
	tap_ok(waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD, "no child is left");
}

static void test_limits(void)
{
	struct proc_tasks_limit tasks;
	struct proc_space_limit space;

	tap_ok(proc_threads_of_user(getuid()) >= 1, "this user has a thread");
	tap_ok(!proc_limits_tasks_full(0x7fffffff, 2, &tasks) &&
			!proc_limits_space_full(0x7fffffff, 1, &space),
		"a process that is not there is at no limit");

	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			(void)pause();
	struct rlimit small = { 1, RLIM_INFINITY };

	(void)getrlimit(RLIMIT_AS, &small);
	small.rlim_cur = 1;
	(void)prlimit(pid, RLIMIT_AS, &small, NULL);
	tap_ok(proc_limits_space_full(pid, 1, &space) && space.most == 1 &&
			space.used > 1,
		"a process that is past its limit of address space");
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

int main(void)
{
	test_kernel();
	test_yama();
	test_host();
	test_probes();
	test_limits();
	return tap_done();
}
