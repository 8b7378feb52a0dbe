/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/auxvec.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "proc/mem.h"

enum {
	SMALL_FILE_BYTES = 64 << 10,
	CMDLINE_BYTES = 4 << 20,
	MAX_DEPTH = 4096,         /* of a chain of parents */
	KERNEL_THREAD = 0x200000, /* PF_KTHREAD of the flags in stat */
};

static int read_small(const char *path, struct buf *b)
{
	return fd_read_file(AT_FDCWD, path, b);
}

int proc_stat_parse(const char *text, struct proc_stat *ret)
{
	struct proc_stat s = { 0 };
	const char *open = strchr(text, '(');
	/* The name may hold parentheses: the last one closes it. */
	const char *close = strrchr(text, ')');
	unsigned long long start, user, system;
	unsigned flags, threads;
	int parent;

	if (open == NULL || close == NULL || close < open)
		return -E_BADFORMAT;
	size_t size = (size_t)(close - open) - 1;

	if (size >= sizeof(s.comm))
		size = sizeof(s.comm) - 1;
	memcpy(s.comm, open + 1, size);
	if (sscanf(close + 1,
		    " %c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %llu %llu %*d %*d %*d "
		    "%*d %u %*d %llu",
		    &s.state, &parent, &flags, &user, &system, &threads, &start) != 7)
		return -E_BADFORMAT;
	s.parent = parent;
	s.kernel_thread = (flags & KERNEL_THREAD) != 0;
	s.cpu_ticks = user + system;
	s.threads = threads;
	s.start_ticks = start;
	*ret = s;
	return 0;
}

int proc_stat_read(pid_t pid, pid_t tid, struct proc_stat *ret)
{
	char path[64];
	_cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES);

	if (tid != 0)
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid,
			(int)tid);
	else
		(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int r = read_small(path, &text);

	return r != 0 ? r : proc_stat_parse(buf_text(&text), ret);
}

int proc_wait_status(pid_t pid)
{
	char path[64];
	_cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES);
	struct proc_stat st;
	int status;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_small(path, &text) != 0 ||
		proc_stat_parse(buf_text(&text), &st) != 0 || !proc_has_ended(&st))
		return -1;
	/* It is the last word. */
	const char *last = strrchr(buf_text(&text), ' ');

	return last != NULL && sscanf(last, "%d", &status) == 1 ? status : -1;
}

/* Where the kernel put its random bytes for the program, 0 when that cannot be told. */
static uint64_t random_bytes_address(pid_t pid)
{
	char path[64];
	_cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES);
	uint64_t pair[2];

	(void)snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	if (read_small(path, &text) != 0)
		return 0;
	for (size_t at = 0; at + sizeof(pair) <= text.size; at += sizeof(pair)) {
		memcpy(pair, text.data + at, sizeof(pair));
		if (pair[0] == AT_RANDOM)
			return pair[1];
	}
	return 0;
}

uint64_t proc_image_mark(pid_t pid)
{
	uint64_t address = random_bytes_address(pid), random[2];
	struct proc_mem mem;

	if (address == 0)
		return 0;
	proc_mem_init(&mem, pid);
	int r = proc_mem_read(&mem, address, random, sizeof(random));

	proc_mem_done(&mem);
	if (r != 0)
		return 0;
	uint64_t mark = random[0] ^ random[1];

	return mark != 0 ? mark : 1;
}

/* Of what has ended, and of a kernel thread, there is none left. */
static bool has_memory(pid_t pid)
{
	char path[64];
	_cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES);
	unsigned long long pages;

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	return read_small(path, &text) == 0 &&
	       sscanf(buf_text(&text), "%llu", &pages) == 1 && pages != 0;
}

bool proc_share_memory(pid_t a, pid_t b)
{
	/* Two that have no memory are alike to kcmp: it is asked while they still had
	 * some. */
	return syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0) == 0 && has_memory(a);
}

/* The text behind "name:" at the start of a line, or NULL. */
static const char *field(const char *text, const char *name)
{
	size_t size = strlen(name);

	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, name, size) == 0 && line[size] == ':')
			return line + size + 1;
	}
	return NULL;
}

/* The number behind a name, 0 when there is none. */
static uint64_t number_of(const char *text, const char *name)
{
	const char *at = field(text, name);
	unsigned long long number;

	return at != NULL && *at != '\n' && sscanf(at, "%llu", &number) == 1 ? number
									     : 0;
}

/* A set of bits, in hexadecimal. */
static uint64_t bits_of(const char *text, const char *name)
{
	const char *at = field(text, name);
	unsigned long long bits;

	return at != NULL && *at != '\n' && sscanf(at, "%llx", &bits) == 1 ? bits : 0;
}

/* Real, effective and saved; all three the first where there is only one. */
static void ids_of(const char *text, const char *name, uint32_t ret[3])
{
	const char *at = field(text, name);
	int n = at != NULL ? sscanf(at, "%u %u %u", &ret[0], &ret[1], &ret[2]) : 0;

	if (n == 1 || n == 2)
		ret[1] = ret[2] = ret[0];
}

void proc_status_parse(const char *text, struct proc_status *ret)
{
	struct proc_status s = { 0 };
	uint32_t users[3] = { 0 }, groups[3] = { 0 };
	const char *at;
	int number;

	ids_of(text, "Uid", users);
	ids_of(text, "Gid", groups);
	s.uid = users[0];
	s.effective_uid = users[1];
	s.saved_uid = users[2];
	s.gid = groups[0];
	s.effective_gid = groups[1];
	s.saved_gid = groups[2];
	s.process = (pid_t)number_of(text, "Tgid");
	s.capabilities = bits_of(text, "CapEff");
	s.permitted_capabilities = bits_of(text, "CapPrm");
	s.no_new_privs = number_of(text, "NoNewPrivs") != 0;
	s.locked_kib = number_of(text, "VmLck");
	s.size_kib = number_of(text, "VmSize");
	at = field(text, "TracerPid");
	if (at != NULL && sscanf(at, "%d", &number) == 1)
		s.tracer = number;
	at = field(text, "Seccomp");
	if (at != NULL && sscanf(at, "%d", &number) == 1)
		s.seccomp = number;
	at = field(text, "Seccomp_filters");
	s.filters = at != NULL && sscanf(at, "%d", &number) == 1 ? number : -1;
	/* One number a namespace, the innermost last. */
	at = field(text, "NSpid");
	for (int used;
		at != NULL && *at != '\n' && sscanf(at, "%d%n", &number, &used) == 1;
		at += used)
		s.inner_pid = number;
	at = field(text, "x86_Thread_features");
	if (at != NULL) {
		const char *end = strchrnul(at, '\n');
		const char *shstk = strstr(at, "shstk");

		s.shadow_stack = shstk != NULL && shstk < end;
	}
	*ret = s;
}

static int read_status(const char *path, struct proc_status *ret)
{
	_cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES);
	int r = read_small(path, &text);

	if (r == 0)
		proc_status_parse(buf_text(&text), ret);
	return r;
}

int proc_status_read(pid_t pid, struct proc_status *ret)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return read_status(path, ret);
}

int proc_thread_status_read(pid_t pid, pid_t tid, struct proc_status *ret)
{
	char path[64];

	(void)snprintf(
		path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	return read_status(path, ret);
}

int proc_cmdline_read(pid_t pid, struct buf *b)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	return read_small(path, b);
}

static bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

void proc_describe(pid_t pid, char *text, size_t size)
{
	_cleanup_buf_ struct buf words = BUF_INIT(CMDLINE_BYTES);
	struct proc_stat st;

	if (size == 0)
		return;
	text[0] = '\0';
	if (proc_cmdline_read(pid, &words) == 0 && words.size != 0) {
		size_t n = words.size;

		while (n != 0 &&
			(is_control(words.data[n - 1]) || words.data[n - 1] == ' '))
			n--;
		bool cut = n >= size;

		if (cut)
			n = size > 1 ? size - 2 : 0;
		/* Not within a character. */
		while (cut && n != 0 && ((unsigned char)words.data[n] & 0xc0) == 0x80)
			n--;
		for (size_t i = 0; i < n; i++)
			text[i] = is_control(words.data[i]) ? ' ' : words.data[i];
		if (cut && size > 1)
			text[n++] = '~';
		text[n] = '\0';
	} else if (proc_stat_read(pid, 0, &st) == 0) {
		(void)snprintf(text, size, "[%s]", st.comm);
	}
}

char *proc_exe(pid_t pid)
{
	char path[64], target[4096];

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	return n < 0 ? NULL : xmemdup0(target, (size_t)n);
}

void proc_ids_done(struct proc_ids *ids)
{
	free(ids->id);
	*ids = (struct proc_ids){ 0 };
}

static void add_id(struct proc_ids *ids, pid_t id)
{
	ids->id = xgrow(ids->id, ids->count, &ids->capacity, sizeof(*ids->id));
	ids->id[ids->count++] = id;
}

/* The entries of a folder that are numbers. */
static int numbers_in(const char *path, struct proc_ids *ret)
{
	struct proc_ids ids = { 0 };
	DIR *folder = opendir(path);

	if (folder == NULL)
		return -errno;
	for (struct dirent *e; (e = readdir(folder)) != NULL;) {
		uint64_t id;

		if (parse_number(e->d_name, INT32_MAX, &id) == 0)
			add_id(&ids, (pid_t)id);
	}
	(void)closedir(folder);
	*ret = ids;
	return 0;
}

int proc_all(struct proc_ids *ret)
{
	return numbers_in("/proc", ret);
}

int proc_threads(pid_t pid, struct proc_ids *ret)
{
	char path[64];
	struct proc_ids ids = { 0 };

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	int r = numbers_in(path, &ids);

	if (r != 0)
		return r;
	for (size_t i = 0; i < ids.count; i++)
		if (ids.id[i] == pid) {
			ids.id[i] = ids.id[0];
			ids.id[0] = pid;
		}
	*ret = ids;
	return 0;
}

pid_t proc_find_thread(pid_t pid, pid_t inner)
{
	struct proc_ids threads;
	pid_t found = 0;
	int r = proc_threads(pid, &threads);

	if (r != 0)
		return r == -ESRCH || r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < threads.count && found == 0; i++) {
		struct proc_status st;

		if (proc_thread_status_read(pid, threads.id[i], &st) == 0 &&
			st.inner_pid == inner)
			found = threads.id[i];
	}
	proc_ids_done(&threads);
	return found;
}

bool proc_thread_is_over(pid_t pid, pid_t tid, uint64_t start_ticks)
{
	struct proc_stat st;
	int r = proc_stat_read(pid, tid, &st);

	if (r != 0)
		return r == -ESRCH || r == -ENOENT;
	return proc_has_ended(&st) || st.start_ticks != start_ticks;
}

int proc_children(pid_t pid, struct proc_ids *ret)
{
	struct proc_ids threads, ids = { 0 };
	int r = proc_threads(pid, &threads);

	if (r != 0)
		return r;
	for (size_t i = 0; i < threads.count; i++) {
		char path[64];
		_cleanup_buf_ struct buf text = BUF_INIT(1 << 20);

		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children",
			(int)pid, (int)threads.id[i]);
		if (read_small(path, &text) != 0)
			continue;
		const char *at = buf_text(&text);

		for (int id, used; sscanf(at, "%d%n", &id, &used) == 1; at += used)
			add_id(&ids, id);
	}
	proc_ids_done(&threads);
	*ret = ids;
	return 0;
}

bool proc_is_below(pid_t descendant, pid_t ancestor)
{
	struct proc_stat st;

	for (int depth = 0; depth < MAX_DEPTH && descendant > 0; depth++) {
		if (descendant == ancestor)
			return true;
		if (proc_stat_read(descendant, 0, &st) != 0)
			return false;
		descendant = st.parent;
	}
	return false;
}

int proc_same_namespace(pid_t pid, const char *kind)
{
	char own[64], other[64];
	struct stat ours, theirs;

	(void)snprintf(own, sizeof(own), "/proc/self/ns/%s", kind);
	(void)snprintf(other, sizeof(other), "/proc/%d/ns/%s", (int)pid, kind);
	if (stat(own, &ours) != 0 || stat(other, &theirs) != 0)
		return -errno;
	return ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

bool proc_same_pid_namespace(pid_t pid)
{
	return proc_same_namespace(pid, "pid") > 0;
}
