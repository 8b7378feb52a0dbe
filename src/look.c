/* SPDX-License-Identifier: Apache-2.0 */
#include "look.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "inject/inject.h"
#include "proc/elf.h"
#include "proc/maps.h"
#include "proc/mem.h"

enum {
	ANSWER_MS = 2000, /* for one process to be read */
	ATOMIC_BYTES = 4096,
};

/* A pipe hands over whole what is no longer than that. */
_Static_assert(sizeof(struct look) <= ATOMIC_BYTES, "a look is one write");

/* --- the looking --- */

static bool sounds_like_python(const char *path)
{
	return strstr(path, "ython") != NULL || strstr(path, "pypy") != NULL;
}

/* Is one of the files mapped, or its name, that of a Python?  Everything else is not
 * searched for symbols: a host has thousands of processes. */
static bool may_be_python(const struct look *l)
{
	bool promising = sounds_like_python(l->exe) || sounds_like_python(l->stat.comm);
	char first[sizeof(l->command)];
	struct proc_maps maps;

	if (promising)
		return true;
	if (proc_maps_read(l->pid, &maps, NULL) != 0) {
		/* Of another user: the first word of the command line is all there is.
		 */
		(void)snprintf(first, sizeof(first), "%s", l->command);
		first[strcspn(first, " ")] = '\0';
		return sounds_like_python(first);
	}
	for (size_t i = 0; i < maps.count && !promising; i++)
		promising = sounds_like_python(maps.map[i].path);
	proc_maps_done(&maps);
	return promising;
}

/* The right to attach is that to write its memory: the kernel asks the same questions,
 * and opening changes nothing. */
static int try_memory(pid_t pid)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

/* The files of one that may not be read belong to root, whoever it runs as. */
static bool is_dumpable(pid_t pid, uid_t uid)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	return stat(path, &st) != 0 || st.st_uid == uid;
}

static bool is_narrow(pid_t pid)
{
	unsigned char ident[EI_NIDENT];
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd >= 0 && fd_read_full(fd, ident, sizeof(ident)) == sizeof(ident) &&
	       memcmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] == ELFCLASS32;
}

static void look_at_runtime(struct look *l)
{
	const struct python_found *f = &l->python;
	struct proc_maps maps;
	struct proc_mem mem;
	uint64_t head, value;

	proc_mem_init(&mem, l->pid);
	if (f->kind == PYTHON_CPYTHON)
		l->up = proc_mem_u64(&mem, f->runtime + f->layout.rt_interpreters_head,
				&head) &&
			head != 0;
	l->read_code = proc_mem_read(&mem, f->runtime, &value, sizeof(value));
	if (mem.by_file)
		l->read_code = -EPERM;
	proc_mem_done(&mem);
	if (proc_maps_read(l->pid, &maps, NULL) != 0)
		return;
	for (size_t i = 0; i < maps.count && !l->file_there; i++) {
		if (strcmp(maps.map[i].path, f->object) != 0)
			continue;
		_cleanup_close_ int fd = elf_open_mapped(l->pid, &maps.map[i]);

		l->file_there = fd >= 0;
	}
	proc_maps_done(&maps);
}

static void look_inside(struct look *l, bool thorough)
{
	long r = syscall(SYS_kcmp, getpid(), l->pid, KCMP_VM, 0, 0);

	l->kcmp_code = r < 0 ? -errno : 0;
	l->attach_code = try_memory(l->pid);
	l->dumpable = is_dumpable(l->pid, l->status.effective_uid);
	l->narrow = is_narrow(l->pid);
	l->same_pid_namespace = proc_same_namespace(l->pid, "pid");
	l->same_user_namespace = proc_same_namespace(l->pid, "user");
	l->same_mount_namespace = proc_same_namespace(l->pid, "mnt");
	if (l->status.tracer != 0)
		proc_describe(l->status.tracer, l->tracer, sizeof(l->tracer));
	l->python_code = python_find(l->pid, &l->python, NULL);
	/* pystack itself holds the texts that are searched for. */
	if (thorough && l->python_code == 0 && l->python.kind == PYTHON_NONE &&
		strcmp(l->stat.comm, "pystack") != 0 && python_left_traces(l->pid))
		l->python.kind = PYTHON_STRIPPED;
	if (l->python_code == 0 && l->python.runtime != 0)
		look_at_runtime(l);
}

/* What stands in /proc without a lock of the process's memory: this cannot hang. */
static void look_from_afar(pid_t pid, struct look *l)
{
	*l = (struct look){ .pid = pid };
	if (proc_stat_read(pid, 0, &l->stat) != 0 ||
		proc_status_read(pid, &l->status) != 0)
		l->code = -ESRCH;
}

static void look_closely(pid_t pid, bool pythons_only, struct look *l)
{
	look_from_afar(pid, l);
	l->answered = true;
	if (l->code != 0 || l->stat.kernel_thread)
		return;
	_cleanup_free_ char *exe = proc_exe(pid);

	if (exe != NULL)
		(void)snprintf(l->exe, sizeof(l->exe), "%s", exe);
	proc_describe(pid, l->command, sizeof(l->command));
	if (!pythons_only || may_be_python(l))
		look_inside(l, !pythons_only);
}

/* --- a process for it --- */

struct worker {
	pid_t pid;
	int fd;
};

static void work(const pid_t *pids, size_t count, bool pythons_only, int fd)
{
	struct look l;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < count; i++) {
		look_closely(pids[i], pythons_only, &l);
		if (fd_write_all(fd, &l, sizeof(l)) != 0)
			break;
	}
	_exit(0);
}

static bool worker_start(
	struct worker *w, const pid_t *pids, size_t count, bool pythons_only)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	w->pid = fork();
	if (w->pid == 0) {
		(void)close(ends[0]);
		work(pids, count, pythons_only, ends[1]);
	}
	(void)close(ends[1]);
	w->fd = ends[0];
	if (w->pid < 0)
		fd_close(&w->fd);
	return w->pid > 0;
}

/* One that hangs in the kernel dies when it gets out of there; nobody waits for it. */
static void worker_end(struct worker *w, bool hangs)
{
	fd_close(&w->fd);
	if (hangs)
		(void)kill(w->pid, SIGKILL);
	for (int i = 0; i < 100; i++) {
		if (waitpid(w->pid, NULL, hangs ? WNOHANG : 0) == w->pid)
			return;
		clock_sleep_ns(1000000);
	}
}

/* The next look; false when it does not come in time, or the worker is gone. */
static bool worker_next(struct worker *w, struct look *ret)
{
	int64_t end = clock_monotonic_ns() + ANSWER_MS * 1000000ll;
	struct pollfd p = { .fd = w->fd, .events = POLLIN };

	for (;;) {
		int64_t left = (end - clock_monotonic_ns()) / 1000000;
		int n = left > 0 ? poll(&p, 1, (int)left) : 0;

		if (n > 0)
			return fd_read_full(w->fd, ret, sizeof(*ret)) ==
			       (ssize_t)sizeof(*ret);
		if (n == 0 || errno != EINTR)
			return false;
	}
}

/* Was it a Python, as far as can be told of one that does not answer? */
static bool is_wanted(const struct look *l, bool pythons_only)
{
	if (!pythons_only)
		return true;
	if (l->code != 0 || l->stat.kernel_thread)
		return false;
	if (!l->answered)
		return sounds_like_python(l->stat.comm);
	if (l->python_code == 0)
		return l->python.kind != PYTHON_NONE;
	/* Nothing may be read of it: by its name. */
	return (l->python_code == -EACCES || l->python_code == -EPERM) &&
	       may_be_python(l);
}

void look_at(const pid_t *pids, size_t count, bool pythons_only, look_function *take,
	void *context)
{
	struct worker w = { 0 };
	struct look l;

	for (size_t i = 0; i < count; i++) {
		if (w.pid <= 0 &&
			!worker_start(&w, pids + i, count - i, pythons_only)) {
			/* No process to be had: at the risk of having to wait. */
			look_closely(pids[i], pythons_only, &l);
		} else if (!worker_next(&w, &l)) {
			worker_end(&w, true);
			w.pid = 0;
			look_from_afar(pids[i], &l);
		}
		if (is_wanted(&l, pythons_only))
			take(&l, context);
	}
	if (w.pid > 0)
		worker_end(&w, false);
}

/* Another process that runs in the same memory. */
static pid_t sharer(pid_t pid)
{
	struct proc_ids all;
	pid_t found = 0;

	if (proc_all(&all) != 0)
		return 0;
	for (size_t i = 0; i < all.count && found == 0; i++)
		if (all.id[i] != pid && proc_share_memory(pid, all.id[i]))
			found = all.id[i];
	proc_ids_done(&all);
	return found;
}

static void keep(const struct look *l, void *context)
{
	*(struct look *)context = *l;
}

void look_at_one(pid_t pid, struct look *ret)
{
	look_at(&pid, 1, false, keep, ret);
	/* There, but not to be seen: the hidepid option of /proc. */
	if (ret->code == -ESRCH && kill(pid, 0) != 0 && errno == EPERM)
		ret->code = -EPERM;
	if (ret->code != 0)
		return;
	if (strcmp(ret->stat.comm, "pystack") == 0)
		ret->program = sharer(pid);
	else
		ret->task = inject_find_task(pid);
	if (ret->task != 0)
		ret->recorder = inject_find_recorder(pid, ret->task);
}

bool look_below(pid_t pid, struct look *ret)
{
	struct look found = { .pid = 0 };
	struct proc_ids all;
	size_t kept = 0;

	if (proc_all(&all) != 0)
		return false;
	for (size_t i = 0; i < all.count; i++)
		if (all.id[i] != pid && proc_is_below(all.id[i], pid))
			all.id[kept++] = all.id[i];
	/* The last one stays: the nearest most likely. */
	for (size_t i = 0; i < kept / 2; i++) {
		pid_t swapped = all.id[i];

		all.id[i] = all.id[kept - 1 - i];
		all.id[kept - 1 - i] = swapped;
	}
	look_at(all.id, kept, true, keep, &found);
	proc_ids_done(&all);
	if (found.pid == 0)
		return false;
	*ret = found;
	return true;
}
