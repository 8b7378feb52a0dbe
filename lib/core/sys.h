/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_SYS_H
#define CORE_SYS_H

/*
 * System calls of the core, raw: each returns what the kernel returns, -errno on
 * failure.  Only kernel headers; there is no errno.
 */

#include <asm/unistd.h>
#include <linux/time_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arch.h"

#define SYS6(n, a, b, c, d, e, f)                                                      \
	arch_syscall(                                                                  \
		n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define SYS5(n, a, b, c, d, e) SYS6(n, a, b, c, d, e, 0)
#define SYS4(n, a, b, c, d)    SYS6(n, a, b, c, d, 0, 0)
#define SYS3(n, a, b, c)       SYS6(n, a, b, c, 0, 0, 0)
#define SYS2(n, a, b)          SYS6(n, a, b, 0, 0, 0, 0)
#define SYS1(n, a)             SYS6(n, a, 0, 0, 0, 0, 0)
#define SYS0(n)                SYS6(n, 0, 0, 0, 0, 0, 0)

/* errno values that are looked for. */
enum {
	SYS_EPERM = 1,
	SYS_ENOENT = 2,
	SYS_ESRCH = 3,
	SYS_EINTR = 4,
	SYS_EAGAIN = 11,
	SYS_ENOMEM = 12,
	SYS_EACCES = 13,
	SYS_EEXIST = 17,
	SYS_EINVAL = 22,
	SYS_ENOSYS = 38,
	SYS_EINPROGRESS = 115,
};

/* Protection and kinds of mappings, as the kernel's headers lack some. */
enum {
	READ_WRITE = 0x3,
	READ_RUN = 0x5,
	MAP_BOTH = 0x1,       /* MAP_SHARED */
	MAP_OWN = 0x2 | 0x20, /* MAP_PRIVATE | MAP_ANONYMOUS */
	MAP_THERE = 0x100000, /* MAP_FIXED_NOREPLACE */
	DONT_FORK = 10,       /* MADV_DONTFORK */
	WIPE_ON_FORK = 18,    /* MADV_WIPEONFORK */
};

/* Is what mmap() returned an address?  Else it is a negative errno. */
static inline bool sys_is_address(long r)
{
	return r >= 0 || r <= -4096;
}

/* struct pollfd and its bits (poll.h is libc's). */
struct sys_pollfd {
	int32_t fd;
	int16_t events;
	int16_t revents;
};

enum {
	SYS_POLLIN = 1,
	SYS_POLLERR = 8,
	SYS_POLLHUP = 16,
	SYS_POLLNVAL = 32,
};

static inline long sys_ppoll(struct sys_pollfd *fds, unsigned count, int64_t timeout_ns)
{
	struct __kernel_timespec ts = {
		.tv_sec = timeout_ns / 1000000000,
		.tv_nsec = timeout_ns % 1000000000,
	};

	return SYS5(__NR_ppoll, fds, count, timeout_ns < 0 ? NULL : &ts, NULL, 0);
}

static inline long sys_close(int fd)
{
	return SYS1(__NR_close, fd);
}

static inline long sys_openat(int directory, const char *path, int flags)
{
	return SYS4(__NR_openat, directory, path, flags, 0);
}

static inline long sys_pread(int fd, void *bytes, size_t size)
{
	return SYS4(__NR_pread64, fd, bytes, size, 0);
}

/* Ends this task or thread, never more; does not come back.  Where a filter refuses
 * that, it waits for good. */
static inline void sys_exit(int status)
{
	for (;;) {
		(void)SYS1(__NR_exit, status);
		(void)SYS0(__NR_pause);
	}
}

/* The libc functions a compiler may call by itself, and that the core uses. */
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);

#endif
