/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/xalloc.h"
#include "core/abi.h"

enum { STACK_BYTES = 64 << 10 };

static int result_of(long r)
{
	return r < 0 ? -errno : 0;
}

/* There is no process 0: the kernel says so, unless a filter answers before. */
static int probe_ptrace(void)
{
	int r = result_of(ptrace(PTRACE_SEIZE, 0, 0, 0));

	return r == -ESRCH ? 0 : r;
}

static int end_at_once(void *unused)
{
	(void)unused;
	return 0;
}

static int probe_clone(void)
{
	_cleanup_free_ char *stack = xmalloc(STACK_BYTES);
	pid_t pid =
		clone(end_at_once, stack + STACK_BYTES, (int)CORE_CLONE_FLAGS, NULL);

	if (pid < 0)
		return -errno;
	while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	return 0;
}

static int probe_memfd(void)
{
	_cleanup_close_ int fd =
		memfd_create("pystack-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	return result_of(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
}

static int probe_pidfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int r = result_of(fd);

	fd_close(&fd);
	return r;
}

static int probe_read_memory(void)
{
	int from = 1, to = 0;
	struct iovec local = { &to, sizeof(to) }, remote = { &from, sizeof(from) };

	return result_of(process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
}

static int probe_mem_file(void)
{
	_cleanup_close_ int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	int from = 1, to = 0;

	if (fd < 0)
		return -errno;
	return result_of(pread(fd, &to, sizeof(to), (off_t)(uintptr_t)&from));
}

static int probe_kcmp(void)
{
	return result_of(syscall(SYS_kcmp, getpid(), getpid(), KCMP_VM, 0, 0));
}

int probe_call(enum probe_call call)
{
	static int (*const probes[PROBE_CALLS])(void) = {
		[PROBE_PTRACE] = probe_ptrace,
		[PROBE_CLONE] = probe_clone,
		[PROBE_MEMFD] = probe_memfd,
		[PROBE_PIDFD] = probe_pidfd,
		[PROBE_READ_MEMORY] = probe_read_memory,
		[PROBE_MEM_FILE] = probe_mem_file,
		[PROBE_KCMP] = probe_kcmp,
	};

	return probes[call]();
}

static const struct {
	const char *name, *key;
} words[PROBE_CALLS] = {
	[PROBE_PTRACE] = { "ptrace", "ptrace" },
	[PROBE_CLONE] = { "clone", "clone" },
	[PROBE_MEMFD] = { "memfd_create", "memfd_create" },
	[PROBE_PIDFD] = { "pidfd_open", "pidfd_open" },
	[PROBE_READ_MEMORY] = { "process_vm_readv", "process_vm_readv" },
	[PROBE_MEM_FILE] = { "/proc/PID/mem", "mem_file" },
	[PROBE_KCMP] = { "kcmp", "kcmp" },
};

const char *probe_name(enum probe_call call)
{
	return words[call].name;
}

const char *probe_key(enum probe_call call)
{
	return words[call].key;
}
