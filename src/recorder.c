/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of a recording:
 *   waiting     a command was started; no Python below it has shown itself yet
 *   recording   one process is followed
 *   over        nothing is sampled any more: the followed process ended, the time was
 *		 up, or the file cannot be written; a command that was started is still
 *		 waited for, as its status becomes ours
 */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "msg.h"
#include "paths.h"
#include "proc/process.h"
#include "target.h"

enum {
	DRAIN_MIN_MS = 5,
	DRAIN_MAX_MS = 100,
	DRAIN_MUCH_BYTES = 64 << 10, /* drain sooner next time */
	FLUSH_NS = 1000000000,
	NAMES_NS = 200000000,
	CHILDREN_NS = 250000000,
	MAX_STRANGERS = 64, /* children that are named at the end */
	SEARCH_FIRST_MS = 150,
	SEARCH_MAX_MS = 2000,
	EXIT_GRACE_MS = 2000,
	HELLO_MS = 1000,
};

/* A process that was seen and is not recorded. */
struct stranger {
	pid_t pid;
	char what[48];
};

struct recorder {
	const struct recorder_options *o;
	struct file_writer *writer;
	struct follow *follow;     /* while recording */
	struct follow_stats stats; /* of what was followed */
	bool followed;             /* something has been followed at all */
	uint32_t segments;
	uint32_t next_thread;
	bool over;
	bool failed;          /* the file could not be written */
	char found_kind[160]; /* why a Python that was found is not recorded */

	pid_t child; /* the command, 0 when attached */
	int child_status;
	bool child_ended;
	int listener;
	char *folder, *socket_path, *preload;
	bool reaper;

	int signals;
	struct target_signals given; /* for the command */
	bool interrupted;            /* attached: asked to end */
	bool passed_on[65];

	int64_t started_ns, follow_ns, flushed_ns, named_ns, children_ns, search_ns;
	int search_ms;
	int drain_ms;
	uint64_t last_pid; /* of /proc/loadavg */
	struct stranger strangers[MAX_STRANGERS];
	size_t stranger_count, more_strangers;
	pid_t searched[256]; /* processes already looked into */
	size_t searched_count;

	pthread_t beat_thread;
	pthread_mutex_t beat_lock;
	pthread_cond_t beat_wake;
	bool beat_stop;
};

/* --- the beat: from a thread of its own, so that a slow disk does not look like a
 * dead recorder --- */

static void *beat_main(void *arg)
{
	struct recorder *r = arg;

	(void)pthread_mutex_lock(&r->beat_lock);
	while (!r->beat_stop) {
		struct timespec until;

		if (r->follow != NULL)
			follow_beat(r->follow);
		(void)clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		(void)pthread_cond_timedwait(&r->beat_wake, &r->beat_lock, &until);
	}
	(void)pthread_mutex_unlock(&r->beat_lock);
	return NULL;
}

static void set_follow(struct recorder *r, struct follow *f)
{
	(void)pthread_mutex_lock(&r->beat_lock);
	r->follow = f;
	if (f != NULL)
		follow_beat(f);
	(void)pthread_mutex_unlock(&r->beat_lock);
}

static void stop_beat(struct recorder *r)
{
	(void)pthread_mutex_lock(&r->beat_lock);
	r->beat_stop = true;
	(void)pthread_cond_signal(&r->beat_wake);
	(void)pthread_mutex_unlock(&r->beat_lock);
	(void)pthread_join(r->beat_thread, NULL);
}

/* --- the file --- */

static void flush(struct recorder *r)
{
	struct err err;

	if (r->follow != NULL)
		follow_close_runs(r->follow);
	r->flushed_ns = clock_monotonic_ns();
	if (r->failed || file_writer_flush(r->writer, &err) == 0)
		return;
	r->failed = true;
	r->over = true;
	msg_error("%s: %s; what was recorded until now is kept%s", r->o->output,
		err.text, r->child != 0 ? ", the program goes on" : "");
}

/* --- following a process --- */

/* The segment is over.  The ring's own word goes before what the recorder thinks. */
static void end_follow(struct recorder *r, enum file_end_why why, uint64_t status)
{
	struct follow *f = r->follow;
	struct err err = { "" };

	set_follow(r, NULL);
	if (follow_end(f, why, status, &err) != 0)
		msg_error("process %d: %s", (int)follow_pid(f), err.text);
	follow_stats_get(f, &r->stats);
	follow_free(f);
	r->over = true;
	flush(r);
}

static const char *layout_check(int number)
{
	static const char *const words[] = { "?", "the interpreter cannot be read",
		"a thread does not belong to its interpreter",
		"the list of threads is torn", "no thread has a frame of known form" };

	return words[number >= 1 && number <= 4 ? number : 0];
}

/* The task left by itself: say why, if that is not the program's end. */
static void task_left(struct recorder *r)
{
	int detail;
	enum ring_leave why = follow_why_left(r->follow, &detail);
	pid_t pid = follow_pid(r->follow);
	char what[64];

	switch (why) {
	case RING_LEAVE_EXITED:
		/* How it ended is known only to its parent. */
		if (r->child != pid)
			end_follow(r, FILE_END_GONE, 0);
		else if (r->child_ended)
			end_follow(r,
				WIFSIGNALED(r->child_status) ? FILE_END_SIGNAL
							     : FILE_END_EXIT,
				(uint64_t)(WIFSIGNALED(r->child_status)
						   ? WTERMSIG(r->child_status)
						   : WEXITSTATUS(r->child_status)));
		return;
	case RING_LEAVE_EXECED:
		proc_describe(pid, what, sizeof(what));
		msg_info(
			"process %d executed another program (%s), which is not followed",
			(int)pid, what);
		end_follow(r, FILE_END_EXEC, 0);
		return;
	case RING_LEAVE_BAD_LAYOUT:
		msg_error("process %d: its memory is not laid out as its version's: %s",
			(int)pid, layout_check(detail));
		break;
	case RING_LEAVE_SIGNAL:
		msg_error(
			"process %d: the sampler task ended by a fault (%s); the program "
			"goes on",
			(int)pid, strsignal(detail));
		break;
	case RING_LEAVE_SYSCALL:
		msg_error("process %d: the sampler cannot work there: %s", (int)pid,
			strerror(detail));
		break;
	case RING_LEAVE_NONE:
		msg_error(
			"process %d: the sampler task was killed; the program goes on",
			(int)pid);
		break;
	default:
		msg_error(
			"process %d: the sampler task left (reason %d)", (int)pid, why);
		break;
	}
	end_follow(r, FILE_END_SAMPLER, (uint64_t)why);
}

static int start_following(struct recorder *r, pid_t pid, int ring_fd, int connection,
	pid_t task, const struct inject_task *injected,
	const struct python_found *python, struct err *err)
{
	struct follow *f;
	int code = follow_start(pid, ring_fd, connection, task, injected, python,
		&r->o->sampling, r->writer, r->segments + 1, &r->next_thread, &f, err);

	if (code != 0)
		return code;
	r->segments++;
	r->followed = true;
	r->follow_ns = clock_monotonic_ns();
	set_follow(r, f);
	/* Orphans of the program are its own business from now on. */
	if (r->reaper)
		(void)prctl(PR_SET_CHILD_SUBREAPER, 0);
	return 0;
}

/* --- attaching --- */

static int attach(struct recorder *r, pid_t pid)
{
	struct python_found found;
	struct inject_task task;
	struct err err = { "" };
	char what[64];
	uint64_t mark = proc_image_mark(pid);
	int status = attach_find(pid, "record", &found);

	if (status != STATUS_OK)
		return status;
	int code = inject_start(pid, mark, &task, &err);

	if (code == 0)
		code = start_following(
			r, pid, task.ring_fd, -1, 0, &task, &found, &err);
	if (code != 0)
		return attach_refused(pid, "record", code, err.text);
	if (r->child != 0)
		return STATUS_OK;
	proc_describe(pid, what, sizeof(what));
	if (r->o->sampling.spin)
		msg_info(
			"recording process %d (%s), CPython %s, as fast as it goes; Ctrl-C ends "
			"it",
			(int)pid, what, found.version);
	else
		msg_info(
			"recording process %d (%s), CPython %s, at %.4g Hz; Ctrl-C ends it",
			(int)pid, what, found.version,
			1e9 / (double)r->o->sampling.interval_ns);
	return STATUS_OK;
}

/* --- spawning --- */

static int make_socket(struct recorder *r)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *base = getenv("TMPDIR");

	if (base == NULL || base[0] != '/' || strlen(base) > 60)
		base = "/tmp";
	r->folder = xasprintf("%s/pystack-XXXXXX", base);
	if (mkdtemp(r->folder) == NULL) {
		msg_error("cannot make a folder in %s: %s", base, strerror(errno));
		free(r->folder);
		r->folder = NULL;
		return -1;
	}
	/* The program may run as another user by the time its task says hello. */
	(void)chmod(r->folder, 0711);
	r->socket_path = xasprintf("%s/hello", r->folder);
	(void)snprintf(
		address.sun_path, sizeof(address.sun_path), "%s", r->socket_path);
	r->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->listener < 0 ||
		bind(r->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
		chmod(r->socket_path, 0666) != 0 || listen(r->listener, 128) != 0) {
		msg_error("cannot listen at %s: %s", r->socket_path, strerror(errno));
		return -1;
	}
	/* LD_PRELOAD has no way to write a blank or a colon. */
	r->preload = paths_preload();
	if (r->preload != NULL && strpbrk(r->preload, " :") != NULL) {
		char *link = xasprintf("%s/pystack-preload.so", r->folder);

		if (symlink(r->preload, link) == 0) {
			free(r->preload);
			r->preload = link;
		} else {
			free(link);
		}
	}
	if (r->preload == NULL) {
		msg_error("cannot find pystack-preload.so beside this program or in %s",
			PKGLIBDIR);
		return -1;
	}
	return 0;
}

static void remove_socket(struct recorder *r)
{
	fd_close(&r->listener);
	if (r->folder != NULL) {
		char *link = xasprintf("%s/pystack-preload.so", r->folder);

		(void)unlink(link);
		free(link);
		(void)unlink(r->socket_path);
		(void)rmdir(r->folder);
	}
	free(r->folder);
	free(r->socket_path);
	free(r->preload);
	r->folder = r->socket_path = r->preload = NULL;
}

/* Does PID 1 reap orphans?  Known ones do; of another, such as a program that is a
 * container's only one, nobody knows. */
static bool first_process_reaps(void)
{
	static const char *const known[] = { "systemd", "init", "tini", "dumb-init",
		"docker-init", "catatonit", "s6-svscan", "runit", "busybox", "bash",
		"sh" };
	struct proc_stat st;

	if (proc_stat_read(1, 0, &st) != 0)
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(st.comm, known[i]) == 0)
			return true;
	return false;
}

static int spawn(struct recorder *r)
{
	struct err err;

	if (make_socket(r) != 0)
		return STATUS_CANNOT;
	r->reaper = getpid() != 1 && !first_process_reaps();
	if (r->reaper)
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	struct target_options t = {
		.argv = r->o->argv,
		.preload = r->preload,
		.socket_path = r->socket_path,
		.signals = &r->given,
	};
	int code = target_start(&t, &r->child, &err);

	if (code == 0) {
		r->search_ns = clock_monotonic_ns();
		r->search_ms = SEARCH_FIRST_MS;
		return STATUS_OK;
	}
	/* A common slip: the script without its interpreter. */
	size_t size = strlen(r->o->argv[0]);

	if (size > 3 && strcmp(r->o->argv[0] + size - 3, ".py") == 0 &&
		access(r->o->argv[0], R_OK) == 0)
		msg_error("%s; try: pystack record -- python3 %s", err.text,
			r->o->argv[0]);
	else
		msg_error("%s", err.text);
	return code == -ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN;
}

static void add_stranger(struct recorder *r, pid_t pid, const char *what)
{
	for (size_t i = 0; i < r->stranger_count; i++)
		if (r->strangers[i].pid == pid)
			return;
	if (r->stranger_count == MAX_STRANGERS) {
		r->more_strangers++;
		return;
	}
	struct stranger *s = &r->strangers[r->stranger_count++];

	s->pid = pid;
	if (what != NULL)
		(void)snprintf(s->what, sizeof(s->what), "%s", what);
	else
		proc_describe(pid, s->what, sizeof(s->what));
}

/* The process whose memory a task shares, as this process sees it. */
static pid_t program_of(struct recorder *r, pid_t task, pid_t offered)
{
	struct proc_ids children;
	pid_t found = 0;

	if (proc_is_below(offered, r->child) &&
		syscall(SYS_kcmp, offered, task, KCMP_VM, 0, 0) == 0)
		return offered;
	/* Another pid namespace: the numbers differ. */
	pid_t at = r->child;

	for (int depth = 0; depth < 16 && at != 0 && found == 0; depth++) {
		if (syscall(SYS_kcmp, at, task, KCMP_VM, 0, 0) == 0)
			return at;
		if (proc_children(at, &children) != 0)
			return 0;
		at = 0;
		for (size_t i = 0; i < children.count; i++) {
			if (syscall(SYS_kcmp, children.id[i], task, KCMP_VM, 0, 0) == 0)
				found = children.id[i];
			at = children.id[i];
		}
		proc_ids_done(&children);
	}
	return found;
}

/* The ring's descriptor that comes with a hello; -1 when none does in time. */
static int receive_ring(int connection)
{
	struct pollfd p = { .fd = connection, .events = POLLIN };
	char byte;
	struct iovec vector = { &byte, 1 };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	int fd = -1;

	if (poll(&p, 1, HELLO_MS) <= 0 ||
		recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Somebody said hello: follow it, if it is the first. */
static void welcome(struct recorder *r, int connection)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct python_found python;
	struct ring_reader ring = { 0 };
	struct err err = { "" };
	char refusal[160];
	int ring_fd = receive_ring(connection);

	if (ring_fd < 0 ||
		getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
		follow_map(ring_fd, &ring, &err) != 0) {
		fd_close(&ring_fd);
		fd_close(&connection);
		return;
	}
	struct ring_offer offer = ring.header->offer;

	follow_unmap(&ring);
	offer.python_version[sizeof(offer.python_version) - 1] = '\0';
	python_from_offer(offer.runtime, offer.code_type, offer.runtime_bytes,
		sizeof(offer.runtime_bytes), offer.python_hex, offer.python_version,
		&python);
	pid_t pid = program_of(r, peer.pid, offer.pid);

	if (pid == 0 || r->followed || r->over) {
		/* Its task leaves when the connection ends. */
		if (pid != 0)
			add_stranger(r, pid, NULL);
	} else if (python.kind != PYTHON_CPYTHON) {
		(void)snprintf(r->found_kind, sizeof(r->found_kind), "process %d %s",
			(int)pid, python_refusal(&python, refusal, sizeof(refusal)));
		msg_error("%s; it runs on unrecorded", r->found_kind);
	} else if (start_following(r, pid, ring_fd, connection, peer.pid, NULL, &python,
			   &err) == 0) {
		return;
	} else {
		msg_error("cannot record process %d: %s", (int)pid, err.text);
		return;
	}
	fd_close(&ring_fd);
	fd_close(&connection);
}

static void accept_hellos(struct recorder *r)
{
	for (;;) {
		int connection = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);

		if (connection < 0)
			return;
		welcome(r, connection);
	}
}

/* --- Pythons that the preload library does not reach --- */

static bool searched_before(struct recorder *r, pid_t pid)
{
	for (size_t i = 0; i < r->searched_count; i++)
		if (r->searched[i] == pid)
			return true;
	return false;
}

/* Look into a process below the command.  True when the search can end. */
static bool look_into(struct recorder *r, pid_t pid)
{
	struct python_found found;
	struct err ignored;
	char refusal[160];
	bool last = r->search_ms >= SEARCH_MAX_MS;

	if (searched_before(r, pid) || python_find(pid, &found, &ignored) != 0 ||
		found.kind == PYTHON_NONE || found.kind == PYTHON_STARTING)
		return false;
	if (last && r->searched_count < sizeof(r->searched) / sizeof(r->searched[0]))
		r->searched[r->searched_count++] = pid;
	if (found.kind == PYTHON_CPYTHON)
		return last && attach(r, pid) == STATUS_OK;
	if (r->found_kind[0] == '\0') {
		(void)snprintf(r->found_kind, sizeof(r->found_kind), "process %d %s",
			(int)pid, python_refusal(&found, refusal, sizeof(refusal)));
		msg_error("%s; it runs on unrecorded", r->found_kind);
	}
	return false;
}

static bool look_below(struct recorder *r, pid_t pid, int depth)
{
	struct proc_ids children;
	bool done = look_into(r, pid);

	if (done || depth == 0 || proc_children(pid, &children) != 0)
		return done;
	for (size_t i = 0; i < children.count && !done; i++)
		done = look_below(r, children.id[i], depth - 1);
	proc_ids_done(&children);
	return done;
}

/* Nobody said hello yet: statically linked Pythons and old ones do not. */
static void search(struct recorder *r, int64_t now)
{
	if (r->child == 0 || r->followed || r->over ||
		now - r->search_ns < r->search_ms * 1000000ll)
		return;
	(void)look_below(r, r->child, 8);
	r->search_ns = now;
	if (r->search_ms < SEARCH_MAX_MS)
		r->search_ms *= 2;
}

/* --- children of the program, which are not followed --- */

/* The last task id given out, from /proc/loadavg: unchanged, nothing was created. */
static uint64_t last_pid(void)
{
	_cleanup_buf_ struct buf text = BUF_INIT(256);
	uint64_t id = 0;

	if (fd_read_file(AT_FDCWD, "/proc/loadavg", &text) != 0)
		return 0;
	const char *blank = strrchr(buf_text(&text), ' ');

	if (blank != NULL && sscanf(blank, "%lu", &id) != 1)
		id = 0;
	return id;
}

static void count_children(struct recorder *r, int64_t now)
{
	struct proc_ids children;

	if (r->follow == NULL || now - r->children_ns < CHILDREN_NS)
		return;
	r->children_ns = now;
	uint64_t last = last_pid();

	if (last == r->last_pid)
		return;
	r->last_pid = last;
	if (proc_children(follow_pid(r->follow), &children) != 0)
		return;
	for (size_t i = 0; i < children.count; i++) {
		struct proc_stat st;

		if (proc_stat_read(children.id[i], 0, &st) == 0 && st.state != 'Z' &&
			strcmp(st.comm, "pystack") != 0)
			add_stranger(r, children.id[i], NULL);
	}
	proc_ids_done(&children);
}

/* --- signals --- */

static void set_up_signals(struct recorder *r)
{
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGINT);
	(void)sigaddset(&mask, SIGTERM);
	(void)sigaddset(&mask, SIGHUP);
	(void)sigaddset(&mask, SIGQUIT);
	(void)sigaddset(&mask, SIGCHLD);
	(void)sigaddset(&mask, SIGUSR2);
	/* A blocked signal that is ignored is dropped: as in any script's background
	 * job, SIGINT may come to us ignored.  The command gets back what we got. */
	target_signals_save(&r->given);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	r->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A signal for the recording.  Spawned: the terminal has given the program its own
 * copy; what another process sent to us alone is passed on, once. */
static void on_signal(struct recorder *r, const struct signalfd_siginfo *s)
{
	int sig = (int)s->ssi_signo;

	if (sig == SIGUSR2) {
		flush(r);
		msg_info("%s: flushed, %.3f MB so far", r->o->output,
			(double)file_writer_size(r->writer) / 1e6);
		return;
	}
	if (r->child == 0) {
		if (r->interrupted) {
			/* A second time: at once. */
			if (r->follow != NULL)
				end_follow(r, FILE_END_DETACHED, 0);
		}
		r->interrupted = true;
		r->over = true;
		return;
	}
	if (sig == SIGINT || s->ssi_code == SI_KERNEL || r->passed_on[sig] ||
		r->child_ended)
		return;
	r->passed_on[sig] = true;
	(void)kill(r->child, sig);
}

static void reap(struct recorder *r)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
		if (pid == r->child) {
			r->child_status = status;
			r->child_ended = true;
		}
	}
}

static void read_signals(struct recorder *r)
{
	struct signalfd_siginfo s;

	while (read(r->signals, &s, sizeof(s)) == sizeof(s))
		if (s.ssi_signo != SIGCHLD)
			on_signal(r, &s);
	reap(r);
}

/* --- the loop --- */

static void drain(struct recorder *r, int64_t now)
{
	struct err err;
	bool cut = false;

	if (r->follow == NULL)
		return;
	int64_t n = follow_drain(r->follow, &cut, &err);

	if (n < 0) {
		msg_error("process %d: %s; its recording ends here",
			(int)follow_pid(r->follow), err.text);
		end_follow(r, FILE_END_SAMPLER, 0);
		return;
	}
	if (n > DRAIN_MUCH_BYTES)
		r->drain_ms =
			r->drain_ms / 2 < DRAIN_MIN_MS ? DRAIN_MIN_MS : r->drain_ms / 2;
	else if (r->drain_ms < DRAIN_MAX_MS)
		r->drain_ms++;
	if (now - r->named_ns > NAMES_NS) {
		r->named_ns = now;
		follow_name_threads(r->follow);
	}
	if ((cut && now - r->flushed_ns > FLUSH_NS / 2) ||
		now - r->flushed_ns > FLUSH_NS * 2 ||
		file_writer_should_flush(r->writer))
		flush(r);
}

static bool is_finished(struct recorder *r)
{
	if (r->child == 0)
		return r->over;
	return r->child_ended && r->follow == NULL;
}

/* The command has ended: its task has seen that too, or will at once. */
static void on_child_end(struct recorder *r)
{
	int64_t end = clock_monotonic_ns() + EXIT_GRACE_MS * 1000000ll;

	/* A hello may be waiting still, of a program that was over at once. */
	if (!r->followed)
		accept_hellos(r);
	if (r->follow == NULL)
		return;
	if (follow_pid(r->follow) == r->child)
		while (!follow_has_left(r->follow) && clock_monotonic_ns() < end)
			clock_sleep_ns(200000);
	if (follow_has_left(r->follow))
		task_left(r);
	/* A process that outlives the command is let go. */
	if (r->follow != NULL)
		end_follow(r, FILE_END_DETACHED, 0);
}

static void one_round(struct recorder *r)
{
	struct pollfd fds[3] = {
		{ .fd = r->signals, .events = POLLIN },
		{ .fd = r->listener, .events = POLLIN },
		{ .fd = r->follow != NULL ? follow_poll_fd(r->follow) : -1,
			.events = POLLIN },
	};
	int ms = r->follow != NULL ? r->drain_ms : r->over ? 1000 : DRAIN_MAX_MS;

	(void)poll(fds, 3, ms);
	int64_t now = clock_monotonic_ns();

	if (fds[0].revents != 0)
		read_signals(r);
	if (fds[1].revents != 0)
		accept_hellos(r);
	drain(r, now);
	if (r->follow != NULL && follow_has_left(r->follow))
		task_left(r);
	if (r->follow != NULL && r->o->duration_ns != 0 &&
		now - r->follow_ns >= r->o->duration_ns) {
		r->over = true;
		if (r->child != 0)
			msg_info("the time is up; the program goes on");
	}
	if (r->follow != NULL && r->over)
		end_follow(r, FILE_END_DETACHED, 0);
	search(r, now);
	count_children(r, now);
	if (r->child_ended)
		on_child_end(r);
}

/* --- the end --- */

static void say_strangers(struct recorder *r)
{
	struct buf names = BUF_INIT(4096);
	size_t count = r->stranger_count + r->more_strangers, shown = 0;

	if (count == 0)
		return;
	for (size_t i = 0; i < r->stranger_count && shown < 4; i++, shown++)
		buf_printf(
			&names, "%s%s", shown != 0 ? ", " : "", r->strangers[i].what);
	if (count > shown)
		buf_printf(&names, ", and %zu more", count - shown);
	msg_info("%zu %s not followed (%s)", count, count == 1 ? "child" : "children",
		buf_text(&names));
	buf_done(&names);
}

static void say_why_empty(struct recorder *r)
{
	double ran_ms = (double)(clock_monotonic_ns() - r->started_ns) / 1e6;

	if (r->followed) {
		if (r->stats.counters[RING_TICKS] == 0)
			msg_info(
				"no samples: the program ran for %.0f ms, and ticks are %.3g ms "
				"apart",
				ran_ms, (double)r->o->sampling.interval_ns / 1e6);
		else
			msg_info(
				"no samples: at none of %llu ticks had a thread a Python frame",
				(unsigned long long)r->stats.counters[RING_TICKS]);
	} else if (r->found_kind[0] == '\0' && r->child != 0) {
		msg_info(
			"no samples: no Python process showed itself below '%s' within %.0f ms",
			r->o->argv[0], ran_ms);
	}
}

static void say_end(struct recorder *r, uint64_t bytes)
{
	const uint64_t *c = r->stats.counters;
	double elapsed = (double)(clock_monotonic_ns() - r->started_ns);
	double own = (double)c[RING_CPU_NS] + (double)clock_process_cpu_ns();

	msg_line(
		"[ pystack record: wrote %.3f MB %s (%llu samples, %u process%s, %llu "
		"thread%s, %llu lost, %llu approximate, %llu late, overhead %.2f%% of a core) ]",
		(double)bytes / 1e6, r->o->output, (unsigned long long)r->stats.samples,
		r->segments, r->segments == 1 ? "" : "es",
		(unsigned long long)r->stats.threads, r->stats.threads == 1 ? "" : "s",
		(unsigned long long)r->stats.lost,
		(unsigned long long)c[RING_APPROXIMATE],
		(unsigned long long)c[RING_LATE],
		elapsed > 0 ? 100 * own / elapsed : 0);
	if (r->stats.samples == 0)
		say_why_empty(r);
	say_strangers(r);
}

static int finish(struct recorder *r, int status)
{
	struct err err;
	struct file_summary summary = {
		.segments = r->segments,
		.samples = r->stats.samples,
		.lost = r->stats.lost,
		.mono_ns = (uint64_t)clock_monotonic_ns(),
	};

	flush(r);
	uint64_t bytes = file_writer_size(r->writer);

	if (r->failed) {
		file_writer_free(r->writer);
	} else if (file_writer_close(r->writer, &summary, &err) != 0) {
		msg_error("%s: %s", r->o->output, err.text);
		r->failed = true;
	}
	r->writer = NULL;
	say_end(r, bytes);
	/* The program's own status goes before our troubles. */
	if (r->child != 0)
		return target_exit_status(r->child_status);
	return r->failed ? STATUS_FAILED : status;
}

/* The user behind sudo gets the file. */
static void owner_of_file(int64_t *uid, int64_t *gid)
{
	const char *user = getenv("SUDO_UID"), *group = getenv("SUDO_GID");
	uint64_t value;

	*uid = *gid = -1;
	if (geteuid() != 0)
		return;
	if (user != NULL && parse_number(user, INT32_MAX, &value) == 0)
		*uid = (int64_t)value;
	if (*uid >= 0 && group != NULL && parse_number(group, INT32_MAX, &value) == 0)
		*gid = (int64_t)value;
}

int recorder_run(const struct recorder_options *options)
{
	struct recorder r = {
		.o = options,
		.listener = -1,
		.drain_ms = DRAIN_MAX_MS / 4,
		.beat_lock = PTHREAD_MUTEX_INITIALIZER,
		.beat_wake = PTHREAD_COND_INITIALIZER,
	};
	struct err err;
	int64_t uid, gid;

	owner_of_file(&uid, &gid);
	if (file_writer_open(
		    options->output, options->level, uid, gid, &r.writer, &err) != 0) {
		msg_error("%s", err.text);
		return STATUS_CANNOT;
	}
	set_up_signals(&r);
	r.started_ns = r.flushed_ns = clock_monotonic_ns();
	if (pthread_create(&r.beat_thread, NULL, beat_main, &r) != 0) {
		msg_error("cannot start a thread");
		return STATUS_CANNOT;
	}
	int status = options->pid != 0 ? attach(&r, options->pid) : spawn(&r);

	if (status == STATUS_OK && file_writer_publish(r.writer, &err) != 0) {
		/* Too late to refuse: say it, and let the program go on. */
		msg_error("%s", err.text);
		r.failed = r.over = true;
	}
	if (status != STATUS_OK) {
		stop_beat(&r);
		file_writer_free(r.writer);
		remove_socket(&r);
		return status;
	}
	while (!is_finished(&r))
		one_round(&r);
	stop_beat(&r);
	remove_socket(&r);
	return finish(&r, status);
}
