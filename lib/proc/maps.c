/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/xalloc.h"

enum { MAPS_MAX_BYTES = 64 << 20 };

static const char deleted_mark[] = " (deleted)";

/* One line, without its newline; false when it does not fit. */
static bool parse_line(const char *line, size_t size, struct proc_map *m)
{
	_cleanup_free_ char *text = xmemdup0(line, size);
	unsigned long long start, end, offset, inode;
	unsigned major, minor;
	char perms[5];
	int at = 0;

	if (sscanf(text, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, perms,
		    &offset, &major, &minor, &inode, &at) != 7 ||
		end < start || strlen(perms) != 4)
		return false;
	*m = (struct proc_map){
		.start = start,
		.end = end,
		.offset = offset,
		.inode = inode,
		.device_major = major,
		.device_minor = minor,
		.readable = perms[0] == 'r',
		.writable = perms[1] == 'w',
		.executable = perms[2] == 'x',
		.shared = perms[3] == 's',
		.path = xstrdup(text + at),
	};
	size_t length = strlen(m->path), mark = sizeof(deleted_mark) - 1;

	if (length > mark && strcmp(m->path + length - mark, deleted_mark) == 0) {
		m->path[length - mark] = '\0';
		m->deleted = true;
	}
	return true;
}

void proc_maps_parse(const char *text, struct proc_maps *ret_maps)
{
	struct proc_maps m = { 0 };

	while (*text != '\0') {
		const char *end = strchrnul(text, '\n');
		struct proc_map map;

		if (parse_line(text, (size_t)(end - text), &map)) {
			m.map = xgrow(m.map, m.count, &m.capacity, sizeof(*m.map));
			m.map[m.count++] = map;
		}
		text = *end != '\0' ? end + 1 : end;
	}
	*ret_maps = m;
}

int proc_maps_read(pid_t pid, struct proc_maps *ret_maps, struct err *err)
{
	char path[64];
	_cleanup_buf_ struct buf text = BUF_INIT(MAPS_MAX_BYTES);

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	int r = fd_read_file(AT_FDCWD, path, &text);

	if (r != 0)
		return err_set(err, r, "%s: %s", path, err_name(r));
	proc_maps_parse(buf_text(&text), ret_maps);
	return 0;
}

void proc_maps_done(struct proc_maps *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->map[i].path);
	free(m->map);
	*m = (struct proc_maps){ 0 };
}

const struct proc_map *proc_maps_at(const struct proc_maps *m, uint64_t address)
{
	for (size_t i = 0; i < m->count; i++)
		if (address >= m->map[i].start && address < m->map[i].end)
			return &m->map[i];
	return NULL;
}

const struct proc_map *proc_maps_named(const struct proc_maps *m, const char *path)
{
	for (size_t i = 0; i < m->count; i++)
		if (strcmp(m->map[i].path, path) == 0)
			return &m->map[i];
	return NULL;
}
