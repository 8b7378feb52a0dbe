/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/xalloc.h"
#include "tap.h"

static const char some_limits[] =
	"Limit                     Soft Limit           Hard Limit           Units     \n"
	"Max cpu time              unlimited            unlimited            seconds   \n"
	"Max processes             96365                96365                processes \n"
	"Max locked memory         8388608              8388608              bytes     \n"
	"Max address space         123456789            unlimited            bytes     \n";

static void test_parse(void)
{
	struct proc_limits l;

	proc_limits_parse(some_limits, &l);
	tap_ok(l.address_space == 123456789 && l.locked == 8388608 &&
			l.processes == 96365,
		"limits of a text");
	proc_limits_parse(
		"Max address space         unlimited   unlimited  bytes\n", &l);
	tap_ok(l.address_space == LIMIT_NONE && l.locked == LIMIT_NONE &&
			l.processes == LIMIT_NONE,
		"none, and those that are not there");
	proc_limits_parse("", &l);
	tap_ok(l.address_space == LIMIT_NONE, "an empty text");
	proc_limits_parse("Max address space", &l);
	tap_ok(l.address_space == LIMIT_NONE, "a cut one");
}

/* Text of /proc/PID/cgroup and the folder in which tasks are counted. */
static const struct {
	const char *name, *text, *folder;
} groups[] = {
	{ "version 2", "0::/system.slice/x.service\n",
		"/sys/fs/cgroup/system.slice/x.service" },
	{ "version 1", "9:name=systemd:/\n8:pids:/a/b\n0::/\n",
		"/sys/fs/cgroup/pids/a/b" },
	{ "version 1 behind version 2", "0::/x\n3:pids:/y\n", "/sys/fs/cgroup/pids/y" },
	{ "several controllers", "4:cpu,pids:/z", "/sys/fs/cgroup/pids/z" },
	{ "one that begins like it", "4:pidsmore:/z\n0::/w\n", "/sys/fs/cgroup/w" },
	{ "a colon in the path", "0::/a:b\n", "/sys/fs/cgroup/a:b" },
	{ "none", "4:cpu:/z\n", NULL },
	{ "nothing", "", NULL },
	{ "no colons", "abc\n", NULL },
	{ "one colon", "0:\n", NULL },
	{ "a path that is none", "0::x\n", NULL },
};

static void test_folders(void)
{
	for (unsigned i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		_cleanup_free_ char *folder = proc_limits_pids_folder(groups[i].text);
		const char *wanted = groups[i].folder;

		if (wanted == NULL || folder == NULL)
			tap_ok(wanted == folder, "folder of a cgroup: %s",
				groups[i].name);
		else
			tap_str(folder, wanted, groups[i].name);
	}
}

static bool has_room(void *bytes)
{
	struct err err = { "" };
	struct rlimit limit = { 64 << 20, RLIM_INFINITY };

	if (setrlimit(RLIMIT_AS, &limit) != 0)
		return false;
	return proc_limits_room(getpid(), *(uint64_t *)bytes, &err) ==
	       (*(uint64_t *)bytes > 40 << 20 ? -ENOMEM : 0);
}

static void test_room(void)
{
	struct err err = { "" };
	uint64_t little = 1 << 20, much = 60 << 20;

	tap_is(proc_limits_room(getpid(), 1, &err), 0, "room where there is no limit");
	if (TAP_SANITIZED) {
		tap_skip("room below a limit", "the sanitizer has taken it all");
		return;
	}
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(!has_room(&little) || !has_room(&much));
	tap_ok(waitpid(pid, &status, 0) == pid && status == 0,
		"room for little below a limit, and none for much");
}

int main(void)
{
	struct err err = { "" };

	test_parse();
	test_folders();
	test_room();
	tap_is(proc_limits_tasks(1 << 30, &err), 0, "tasks of no process");
	return tap_done();
}
