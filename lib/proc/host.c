/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/host.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "proc/process.h"

enum {
	/* Fixed by the kernel (PROC_PID_INIT_INO, PROC_USER_INIT_INO). */
	FIRST_PID_NAMESPACE = 0xeffffffc,
	FIRST_USER_NAMESPACE = 0xeffffffd,
};

uint32_t host_kernel_parse(const char *release)
{
	unsigned major, minor;

	if (sscanf(release, "%5u.%5u", &major, &minor) != 2 || major > 0xffff ||
		minor > 0xffff)
		return 0;
	return HOST_KERNEL(major, minor);
}

int host_yama_parse(const char *text)
{
	return text[0] >= '0' && text[0] <= '9' && (text[1] == '\0' || text[1] == '\n')
		       ? text[0] - '0'
		       : -1;
}

static int read_yama(void)
{
	_cleanup_buf_ struct buf text = BUF_INIT(64);

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", &text) != 0)
		return -1;
	return host_yama_parse(buf_text(&text));
}

/* Is /proc there, and of the pid namespace that this process lives in? */
static bool proc_is_ours(void)
{
	char target[32];
	struct statfs fs;
	ssize_t n = readlink("/proc/self", target, sizeof(target) - 1);
	int pid;

	if (statfs("/proc", &fs) != 0 || fs.f_type != PROC_SUPER_MAGIC || n <= 0)
		return false;
	target[n] = '\0';
	return sscanf(target, "%d", &pid) == 1 && pid == (int)getpid();
}

static bool is_namespace(const char *path, ino_t number)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_ino == number;
}

void host_read(struct host *ret)
{
	struct host h = { .yama_scope = read_yama() };
	struct utsname name;
	struct proc_status status = { 0 };

	if (uname(&name) == 0) {
		(void)snprintf(h.release, sizeof(h.release), "%s", name.release);
		(void)snprintf(h.machine, sizeof(h.machine), "%s", name.machine);
	}
	h.kernel = host_kernel_parse(h.release);
	h.proc_is_ours = proc_is_ours();
	h.uid = geteuid();
	h.gid = getegid();
	(void)proc_status_read(getpid(), &status);
	h.capabilities = status.capabilities;
	h.seccomp = status.seccomp;
	h.first_pid_namespace = is_namespace("/proc/self/ns/pid", FIRST_PID_NAMESPACE);
	h.first_user_namespace =
		is_namespace("/proc/self/ns/user", FIRST_USER_NAMESPACE);
	*ret = h;
}

bool host_may(const struct host *h, int capability)
{
	return (h->capabilities >> capability & 1) != 0;
}

const char *host_capability_name(int capability)
{
	switch (capability) {
	case CAP_SYS_PTRACE:
		return "CAP_SYS_PTRACE";
	case CAP_SYS_ADMIN:
		return "CAP_SYS_ADMIN";
	case CAP_NET_ADMIN:
		return "CAP_NET_ADMIN";
	default:
		return NULL;
	}
}
