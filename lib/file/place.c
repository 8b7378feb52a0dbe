/* SPDX-License-Identifier: Apache-2.0 */
#include "file/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "file/reader.h"

enum { NOTHING_BYTES = 4096 /* a recording of nothing is smaller by far */ };

int place_open(const char *path, int64_t owner, int64_t group, char **ret_name,
	struct err *err)
{
	_cleanup_free_ char *name = xasprintf("%s.new-XXXXXX", path);
	int fd = mkostemp(name, O_CLOEXEC);

	if (fd < 0)
		return err_set(err, -errno, "%s: cannot be written: %s", path,
			strerror(errno));
	if ((owner >= 0 || group >= 0) && fchown(fd, (uid_t)owner, (gid_t)group) != 0) {
		int code = -errno;

		(void)close(fd);
		(void)unlink(name);
		return err_set(err, code, "%s: cannot be given to user %lld: %s", path,
			(long long)owner, strerror(-code));
	}
	*ret_name = name;
	name = NULL;
	return fd;
}

/* A recording to which no process came, and that is over: the file of another recorder
 * that is at work may have one yet. */
static bool has_nothing(const char *path, const struct stat *st)
{
	struct file_reader *reader;
	struct file_record record;
	struct err ignored;
	enum file_event event;
	bool segments = false;

	if (!S_ISREG(st->st_mode) || st->st_size > NOTHING_BYTES ||
		file_reader_open(path, &reader, &ignored) != 0)
		return false;
	while ((event = file_reader_next(reader, &record)) != FILE_EVENT_END)
		segments |= event == FILE_EVENT_RECORD && record.type == FILE_SEGMENT;
	bool nothing = !segments && file_reader_complete(reader) &&
		       file_reader_damage(reader) == NULL;

	file_reader_free(reader);
	return nothing;
}

int place_publish(const char *name, const char *path, struct err *err)
{
	_cleanup_free_ char *old = xasprintf("%s.old", path);
	struct stat st;

	if (lstat(path, &st) == 0 && !has_nothing(path, &st) && rename(path, old) != 0)
		return err_set(err, -errno, "%s: cannot be kept as %s: %s", path, old,
			strerror(errno));
	if (rename(name, path) != 0)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

int place_move(const char *from, const char *to)
{
	struct stat st;

	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* Not every file system can do that in one step. */
	if (lstat(to, &st) == 0)
		return -EEXIST;
	return rename(from, to) == 0 ? 0 : -errno;
}
