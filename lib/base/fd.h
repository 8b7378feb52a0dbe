/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FD_H
#define BASE_FD_H

/* Descriptors: closing by scope, whole reads and writes. */

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

/* close(*fd) unless negative, for __attribute__((cleanup)); keeps errno. */
void fd_closep(int *fd);
#define _cleanup_close_ __attribute__((cleanup(fd_closep)))

/* Close *fd unless negative and set it to -1. */
void fd_close(int *fd);

/* Write all of it, over short writes and EINTR.  Returns 0 or -errno. */
int fd_write_all(int fd, const void *bytes, size_t size);

/* Read up to size bytes, until the end of the file.  Returns the count or -errno. */
ssize_t fd_read_full(int fd, void *bytes, size_t size);

/*
 * Append the whole file to b.  Returns 0, -errno, or -E_TOOBIG past the maximum
 * of b.  path is relative to the directory at_fd (AT_FDCWD: the current one).
 */
int fd_read_file(int at_fd, const char *path, struct buf *b);

#endif
