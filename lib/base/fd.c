/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"

void fd_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void fd_closep(int *fd)
{
	int saved = errno;

	fd_close(fd);
	errno = saved;
}

int fd_write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size != 0) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

ssize_t fd_read_full(int fd, void *bytes, size_t size)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = read(fd, (char *)bytes + got, size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int fd_read_file(int at_fd, const char *path, struct buf *b)
{
	_cleanup_close_ int fd = openat(at_fd, path, O_RDONLY | O_CLOEXEC);
	char piece[16384];

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = fd_read_full(fd, piece, sizeof(piece));

		if (n < 0)
			return (int)n;
		buf_add(b, piece, (size_t)n);
		if (b->overflow)
			return -E_TOOBIG;
		if ((size_t)n < sizeof(piece))
			return 0;
	}
}
