/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "proc/process.h"

enum {
	SMALL_FILE_BYTES = 64 << 10,
	MOST_LEVELS = 64,
};

static const char cgroups[] = "/sys/fs/cgroup";

static int read_file(struct buf *b, const char *path)
{
	buf_clear(b);
	return fd_read_file(AT_FDCWD, path, b);
}

/* --- limits of the process --- */

/* The number behind a name at the start of a line; LIMIT_NONE for anything else. */
static uint64_t soft_limit(const char *text, const char *name)
{
	size_t size = strlen(name);
	unsigned long long value;

	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, name, size) == 0)
			return sscanf(line + size, "%llu", &value) == 1 ? value
									: LIMIT_NONE;
	}
	return LIMIT_NONE;
}

void proc_limits_parse(const char *text, struct proc_limits *ret)
{
	*ret = (struct proc_limits){
		.address_space = soft_limit(text, "Max address space"),
		.locked = soft_limit(text, "Max locked memory"),
		.processes = soft_limit(text, "Max processes"),
	};
}

void proc_limits_read(pid_t pid, struct proc_limits *ret)
{
	char path[64];
	_cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES);

	(void)snprintf(path, sizeof(path), "/proc/%d/limits", (int)pid);
	(void)read_file(&text, path);
	proc_limits_parse(buf_text(&text), ret);
}

bool proc_limits_space_full(pid_t pid, uint64_t bytes, struct proc_space_limit *ret)
{
	struct proc_limits limits;
	char path[64];
	unsigned long long pages;
	_cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES);

	proc_limits_read(pid, &limits);
	if (limits.address_space == LIMIT_NONE)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	if (read_file(&text, path) != 0 || sscanf(buf_text(&text), "%llu", &pages) != 1)
		return false;
	unsigned long long used = pages * 4096, most = limits.address_space;

	/* What the sampler takes, the program must not miss. */
	if (used < most && most - used >= 2 * bytes)
		return false;
	*ret = (struct proc_space_limit){ .used = used, .most = most };
	return true;
}

int proc_limits_room(pid_t pid, uint64_t bytes, struct err *err)
{
	struct proc_space_limit l;

	if (!proc_limits_space_full(pid, bytes, &l))
		return 0;
	return err_set(err, -ENOMEM,
		"its limit of address space (RLIMIT_AS, %llu MiB, of which it uses %llu) "
		"leaves too little room for the %llu MiB of the sampler; raise it first: "
		"prlimit --as=%llu --pid %d",
		(unsigned long long)l.most >> 20, (unsigned long long)l.used >> 20,
		(unsigned long long)bytes >> 20,
		(unsigned long long)l.used + 4 * (unsigned long long)bytes, (int)pid);
}

/* --- limits of its cgroup --- */

/* Does the list of controllers, up to the colon, hold this one? */
static bool has_controller(const char *list, const char *name)
{
	size_t size = strlen(name);
	const char *end = strchrnul(list, ':');

	for (const char *at = list; at < end; at = strpbrk(at, ",:") + 1)
		if (strncmp(at, name, size) == 0 &&
			(at[size] == ',' || at[size] == ':'))
			return true;
	return false;
}

char *proc_limits_pids_folder(const char *text)
{
	const char *unified = NULL;

	/* "8:pids:/path" of version 1 goes before "0::/path" of version 2. */
	for (const char *line = text; *line != '\0';) {
		const char *end = strchrnul(line, '\n'), *list = strchr(line, ':');
		const char *path = list != NULL ? strchr(list + 1, ':') : NULL;

		if (path != NULL && path < end && path[1] == '/') {
			int size = (int)(end - path - 1);

			if (has_controller(list + 1, "pids"))
				return xasprintf(
					"%s/pids%.*s", cgroups, size, path + 1);
			if (strncmp(line, "0::", 3) == 0)
				unified = path + 1;
		}
		line = *end != '\0' ? end + 1 : end;
	}
	if (unified == NULL)
		return NULL;
	return xasprintf(
		"%s%.*s", cgroups, (int)(strchrnul(unified, '\n') - unified), unified);
}

static bool number_in(const char *folder, const char *file, uint64_t *ret)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, file);
	_cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES);
	unsigned long long value;

	if (read_file(&text, path) != 0 || sscanf(buf_text(&text), "%llu", &value) != 1)
		return false;
	*ret = value;
	return true;
}

bool proc_limits_tasks_full(pid_t pid, uint64_t room, struct proc_tasks_limit *ret)
{
	char path[64];
	_cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES);

	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (read_file(&text, path) != 0)
		return false;
	_cleanup_free_ char *folder = proc_limits_pids_folder(buf_text(&text));

	/* Each level up to the root limits it. */
	for (int i = 0; folder != NULL && i < MOST_LEVELS; i++) {
		uint64_t most, now;
		char *slash = strrchr(folder, '/');

		if (strlen(folder) < sizeof(cgroups) - 1)
			break;
		if (number_in(folder, "pids.max", &most) &&
			number_in(folder, "pids.current", &now) &&
			(most < room || now > most - room)) {
			*ret = (struct proc_tasks_limit){ .now = now, .most = most };
			(void)snprintf(ret->folder, sizeof(ret->folder), "%s", folder);
			return true;
		}
		if (slash == NULL)
			break;
		*slash = '\0';
	}
	return false;
}

int proc_limits_tasks(pid_t pid, struct err *err)
{
	struct proc_tasks_limit l;

	if (!proc_limits_tasks_full(pid, LIMITS_TASK_ROOM, &l))
		return 0;
	return err_set(err, -EAGAIN,
		"its cgroup has no room for the sampler's task (%llu of %llu); raise the "
		"limit first: %s/pids.max",
		(unsigned long long)l.now, (unsigned long long)l.most, l.folder);
}

uint64_t proc_threads_of_user(uid_t uid)
{
	struct proc_ids all;
	uint64_t count = 0;

	if (proc_all(&all) != 0)
		return 0;
	for (size_t i = 0; i < all.count; i++) {
		struct proc_status status;
		struct proc_stat stat;

		if (proc_status_read(all.id[i], &status) == 0 && status.uid == uid &&
			proc_stat_read(all.id[i], 0, &stat) == 0)
			count += stat.threads;
	}
	proc_ids_done(&all);
	return count;
}
