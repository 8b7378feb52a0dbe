/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"

void proc_mem_init(struct proc_mem *m, pid_t pid)
{
	*m = (struct proc_mem){ .pid = pid, .fd = -1 };
}

void proc_mem_done(struct proc_mem *m)
{
	fd_close(&m->fd);
}

/* One attempt by either way: the count or -errno. */
static ssize_t read_once(struct proc_mem *m, uint64_t address, void *to, size_t size)
{
	if (!m->by_file) {
		struct iovec local = { to, size };
		struct iovec remote = { (void *)(uintptr_t)address, size };
		ssize_t n = process_vm_readv(m->pid, &local, 1, &remote, 1, 0);

		if (n >= 0)
			return n;
		/* Refused or not there at all: not a matter of the address. */
		if (errno != EPERM && errno != ENOSYS)
			return -errno;
		m->by_file = true;
	}
	if (m->fd < 0) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)m->pid);
		m->fd = open(path, O_RDONLY | O_CLOEXEC);
		if (m->fd < 0)
			return -errno;
	}
	ssize_t n = pread(m->fd, to, size, (off_t)address);

	return n < 0 ? -errno : n;
}

size_t proc_mem_read_some(struct proc_mem *m, uint64_t address, void *to, size_t size)
{
	ssize_t n = read_once(m, address, to, size);

	return n < 0 ? 0 : (size_t)n;
}

int proc_mem_read(struct proc_mem *m, uint64_t address, void *to, size_t size)
{
	ssize_t n = read_once(m, address, to, size);

	if (n < 0)
		return (int)n;
	return (size_t)n == size ? 0 : -EFAULT;
}
