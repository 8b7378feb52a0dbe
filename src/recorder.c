/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of a recording:
 *   waiting     a command was started; no Python below it has shown itself yet
 *   recording   processes are followed, and new ones below them looked for
 *   over        nothing is sampled any more: the followed processes ended, the time was
 *		 up, or the file cannot be written; a command that was started is still
 *		 waited for, as its status becomes ours
 *
 * Each process of the tree is followed as soon as it is a Python that can be: by the
 * hello of its task, where the preload library has brought one, else by attaching to
 * it.  After an exec it is looked into again.
 */
#include "recorder.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/number.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "hello.h"
#include "inject/filter.h"
#include "msg.h"
#include "proc/events.h"
#include "proc/limits.h"
#include "proc/process.h"
#include "recorder-internal.h"
#include "target.h"
#include "tree.h"

enum {
	DRAIN_MIN_MS = 5,
	DRAIN_MAX_MS = 100,
	DRAIN_MUCH_BYTES = 64 << 10, /* drain sooner next time */
	ROUND_MS = 20,               /* where new processes are to be looked for */
	FLUSH_NS = 1000000000,
	NAMES_NS = 200000000,
	NAMES_SHARE = 50,
	DRAIN_NAMES_MS = 10, /* while threads come and go */
	/* The kernel's news: as soon as a fiftieth of the time allows. */
	EVENTS_APART_MIN_NS = 2000000,
	EVENTS_APART_MAX_NS = 15000000,
	EVENTS_SHARE = 50,
	WAKE_NS = 50000, /* what a round costs besides */
	/* For a hello, before a Python is attached to. */
	LOADING_GRACE_NS = 1000000000,
	HELLO_GRACE_NS = 20000000,
	MOST_TRIES = 20,
	EXIT_GRACE_MS = 2000,
	THREAD_END_MS = 200,     /* in which the end of its program is to show */
	TASK_END_MS = 50,        /* likewise, where both were killed */
	ADOPTION_NS = 100000000, /* for a task to become our child */
	COMMAND_LINE_BYTES = 4 << 20,
	LEAST_ROOM = 64,       /* below a limit on tasks */
	COUNT_USERS_EACH = 16, /* processes that are followed */
};

/* --- the beat: from a thread of its own, so that a slow disk does not look like a
 * dead recorder --- */

static void *beat_main(void *arg)
{
	struct recorder *r = arg;

	(void)pthread_mutex_lock(&r->beat_lock);
	while (!r->beat_stop) {
		struct timespec until;

		for (size_t i = 0; i < r->tree.count; i++)
			if (r->tree.list[i]->follow != NULL)
				follow_beat(r->tree.list[i]->follow);
		(void)clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		(void)pthread_cond_timedwait(&r->beat_wake, &r->beat_lock, &until);
	}
	(void)pthread_mutex_unlock(&r->beat_lock);
	return NULL;
}

static void set_follow(struct recorder *r, struct tree_process *p, struct follow *f)
{
	(void)pthread_mutex_lock(&r->beat_lock);
	r->follow_count += (f != NULL) - (p->follow != NULL);
	p->follow = f;
	if (f != NULL)
		follow_beat(f);
	(void)pthread_mutex_unlock(&r->beat_lock);
}

/* New processes move the list that the beat goes through. */
static void scan(struct recorder *r, int64_t now)
{
	(void)pthread_mutex_lock(&r->beat_lock);
	tree_scan(&r->tree, now);
	(void)pthread_mutex_unlock(&r->beat_lock);
	r->scan_missed = false;
}

static struct tree_process *add_process(
	struct recorder *r, pid_t pid, struct tree_process *parent)
{
	(void)pthread_mutex_lock(&r->beat_lock);
	struct tree_process *p = tree_add(&r->tree, pid, parent);

	(void)pthread_mutex_unlock(&r->beat_lock);
	return p;
}

static void stop_beat(struct recorder *r)
{
	(void)pthread_mutex_lock(&r->beat_lock);
	r->beat_stop = true;
	(void)pthread_cond_signal(&r->beat_wake);
	(void)pthread_mutex_unlock(&r->beat_lock);
	(void)pthread_join(r->beat_thread, NULL);
}

/* --- following a process --- */

/* The segment is over, the process is in state next. */
static void end_follow(struct recorder *r, struct tree_process *p,
	enum file_end_why why, uint64_t status, enum tree_state next)
{
	struct follow *f = p->follow;
	struct follow_stats stats;
	struct err err = { "" };

	set_follow(r, p, NULL);
	p->state = next;
	if (follow_end(f, why, status, &err) != 0)
		msg_error("process %d: %s", (int)p->pid, err.text);
	follow_stats_get(f, &stats);
	rec_add_stats(&r->stats, &stats);
	follow_free(f);
	/* The flight recorder of a program that others outlive. */
	if (r->o->output.overwrite && p->segment == 1 && next == TREE_GONE &&
		p->pid != r->child && r->follow_count != 0)
		r->snapshot_due = true;
	if (r->o->no_inherit)
		r->over = true;
}

static void end_all(struct recorder *r)
{
	for (size_t i = 0; i < r->tree.count; i++)
		if (r->tree.list[i]->follow != NULL)
			end_follow(r, r->tree.list[i], FILE_END_DETACHED, 0, TREE_LEFT);
	r->over = true;
}

static const char *layout_check(int number)
{
	static const char *const words[] = { "?", "the interpreter cannot be read",
		"a thread does not belong to its interpreter",
		"the list of threads is torn", "no thread has a frame of known form" };

	return words[number >= 1 && number <= 4 ? number : 0];
}

/* How a process ended is known only to its parent. */
static void process_ended(struct recorder *r, struct tree_process *p)
{
	if (r->child != p->pid)
		end_follow(r, p, FILE_END_GONE, 0, TREE_GONE);
	else if (r->child_ended && WIFSIGNALED(r->child_status))
		end_follow(r, p, FILE_END_SIGNAL, (uint64_t)WTERMSIG(r->child_status),
			TREE_GONE);
	else if (r->child_ended)
		end_follow(r, p, FILE_END_EXIT, (uint64_t)WEXITSTATUS(r->child_status),
			TREE_GONE);
}

/* It is another program now, maybe a Python again. */
static void process_executed(struct recorder *r, struct tree_process *p)
{
	tree_look_again(p, clock_monotonic_ns());
	if (r->o->no_inherit)
		msg_info(
			"process %d executed another program (%s), which is not followed",
			(int)p->pid, p->what);
	end_follow(r, p, FILE_END_EXEC, 0, r->o->no_inherit ? TREE_LEFT : TREE_SEEN);
	p->why = FILE_WHY_RESTART;
}

/*
 * A task that came by the preload library knows nothing of the program's seccomp
 * filters, which may have killed it; who attaches looks at them first.
 */
static bool attach_instead(struct recorder *r, struct tree_process *p)
{
	struct proc_status status;

	if (r->child == 0 || r->o->no_inherit || p->filtered ||
		proc_status_read(p->pid, &status) != 0 || status.seccomp == 0)
		return false;
	msg_info("process %d: its seccomp filter has killed the sampler task; trying "
		 "to attach instead",
		(int)p->pid);
	p->filtered = true;
	end_follow(r, p, FILE_END_SAMPLER, RING_LEAVE_NONE, TREE_SEEN);
	p->why = FILE_WHY_ATTACH;
	tree_look_again(p, clock_monotonic_ns());
	return true;
}

/* The thread has left as the program gave up rights, which it has kept: another one is
 * made that has what the program has now. */
static bool attach_anew(struct recorder *r, struct tree_process *p)
{
	if (r->o->no_inherit || !tree_lives(p))
		return false;
	p->filtered = true;
	end_follow(r, p, FILE_END_SAMPLER, RING_LEAVE_RIGHTS, TREE_SEEN);
	p->why = FILE_WHY_ATTACH;
	tree_look_again(p, clock_monotonic_ns());
	return true;
}

/*
 * A thread is gone without a word, or a task, as the first process of a pid namespace
 * takes all along at its end.  What a program's end takes away first is the threads,
 * then the memory, then the process: wait until it is seen which of the ends it is.
 * Returns true when it was an exec.
 */
static bool left_by_exec(const struct tree_process *p, bool thread)
{
	int64_t end = clock_monotonic_ns() +
		      (thread ? THREAD_END_MS : TASK_END_MS) * 1000000ll;
	int64_t no_memory_end = end + EXIT_GRACE_MS * 1000000ll;

	while (tree_lives(p)) {
		uint64_t mark = proc_image_mark(p->pid);
		int64_t now = clock_monotonic_ns();

		if (mark != 0 && mark != p->mark)
			return true;
		if (now > (mark != 0 ? end : no_memory_end))
			break;
		clock_sleep_ns(1000000);
	}
	return false;
}

/* Fast copies were asked for and cannot be had.  Of the first process that means that
 * the recording does not begin at all. */
static void say_no_handlers(struct recorder *r, struct tree_process *p, int detail)
{
	uint32_t taken = follow_copy_get(p->follow).flags &
			 (RING_COPY_TAKEN_SEGV | RING_COPY_TAKEN_BUS);
	bool first = p->segment == 1;

	msg_error(
		"%s process %d: --copy=fast needs the handlers of SIGSEGV and SIGBUS, "
		"and %s%s; --copy=auto needs none",
		first ? "cannot record" : "not recorded:", (int)p->pid,
		taken == 0 && detail == EBUSY   ? "others are put there at once"
		: taken == 0                    ? "they cannot be set: "
		: taken == RING_COPY_TAKEN_SEGV ? "another one of SIGSEGV stands there"
		: taken == RING_COPY_TAKEN_BUS  ? "another one of SIGBUS stands there"
						: "others stand there",
		taken == 0 && detail != EBUSY ? strerror(detail) : "");
	r->refused |= first;
	r->over |= first;
}

/*
 * Killed, a task says nothing; nor does it when the program was killed.  A thread never
 * can when its program ends or executes another one.  Returns false when the program
 * goes on without it, which is said.
 */
static bool left_without_a_word(struct recorder *r, struct tree_process *p)
{
	bool thread = follow_is_thread(p->follow);
	struct proc_status status;

	/* By a filter: at once, unless the program is about to end. */
	if (!thread && proc_status_read(p->pid, &status) == 0 && status.size_kib != 0 &&
		tree_lives(p) && attach_instead(r, p))
		return true;
	if (left_by_exec(p, thread)) {
		process_executed(r, p);
		return true;
	}
	if (!tree_lives(p)) {
		process_ended(r, p);
		return true;
	}
	if (attach_instead(r, p))
		return true;
	msg_error("process %d: the sampler %s was killed; the program goes on",
		(int)p->pid, thread ? "thread" : "task");
	return false;
}

/* The task left by itself: say why, if that is not the program's end. */
static void task_left(struct recorder *r, struct tree_process *p)
{
	int detail;
	enum ring_leave why = follow_why_left(p->follow, &detail);

	switch (why) {
	case RING_LEAVE_EXITED:
		process_ended(r, p);
		return;
	case RING_LEAVE_EXECED:
		process_executed(r, p);
		return;
	case RING_LEAVE_BAD_LAYOUT:
		msg_error("process %d: its memory is not laid out as its version's: %s",
			(int)p->pid, layout_check(detail));
		break;
	case RING_LEAVE_RIGHTS:
		if (attach_anew(r, p))
			return;
		msg_info(
			"process %d: it has given up rights, so its sampler thread left",
			(int)p->pid);
		break;
	case RING_LEAVE_SIGNAL:
		msg_error(
			"process %d: the sampler task ended by a fault (%s); the program "
			"goes on",
			(int)p->pid, strsignal(detail));
		break;
	case RING_LEAVE_SYSCALL:
		/* The program's pidfd: it ended while the task came to be. */
		if (detail == ESRCH) {
			process_ended(r, p);
			return;
		}
		msg_error("process %d: the sampler cannot work there: %s", (int)p->pid,
			strerror(detail));
		break;
	case RING_LEAVE_NO_COPY:
		msg_error(
			"process %d: its memory cannot be read any more, by pwritev or "
			"by process_vm_readv (%s); what was recorded stays",
			(int)p->pid, strerror(detail));
		break;
	case RING_LEAVE_NO_HANDLERS:
		say_no_handlers(r, p, detail);
		break;
	case RING_LEAVE_NONE:
		if (left_without_a_word(r, p))
			return;
		break;
	default:
		msg_error("process %d: the sampler task left (reason %d)", (int)p->pid,
			why);
		break;
	}
	end_follow(r, p, FILE_END_SAMPLER, (uint64_t)why, TREE_LEFT);
	r->over |= r->follow_count == 0 && r->child == 0;
}

/* Tasks are processes too; not all are seen while they still bear their name. */
static void note_task(struct recorder *r, pid_t task)
{
	r->tasks = xgrow(r->tasks, r->task_count, &r->task_capacity, sizeof(*r->tasks));
	r->tasks[r->task_count++] = task;
}

/* The segment of the nearest ancestor that has one, 0 when none has. */
static uint32_t segment_above(const struct tree_process *p)
{
	for (p = p->parent; p != NULL; p = p->parent)
		if (p->segment != 0)
			return p->segment;
	return 0;
}

/*
 * Each task counts for the limits on the number of tasks, which the program is to find
 * as wide as without us: as many more as there are processes have to fit, or no further
 * children are followed.
 */
static void mind_limits(struct recorder *r, const struct tree_process *p)
{
	uint64_t room = r->follow_count > LEAST_ROOM ? r->follow_count : LEAST_ROOM;
	struct proc_tasks_limit cgroup;
	struct proc_limits limits;
	struct proc_status status;

	if (r->o->no_inherit || r->crowded)
		return;
	if (proc_limits_tasks_full(p->pid, room, &cgroup)) {
		r->crowded = true;
		msg_info(
			"no further children are followed: %s/pids.max is %llu, and %llu "
			"are taken",
			cgroup.folder, (unsigned long long)cgroup.most,
			(unsigned long long)cgroup.now);
		return;
	}
	/* To count them all takes a while. */
	proc_limits_read(p->pid, &limits);
	if (limits.processes == LIMIT_NONE || r->segments % COUNT_USERS_EACH != 1 ||
		proc_status_read(p->pid, &status) != 0 || status.uid == 0 ||
		proc_threads_of_user(status.uid) + room <= limits.processes)
		return;
	r->crowded = true;
	msg_info(
		"no further children are followed: the user of process %d may have %llu "
		"tasks (RLIMIT_NPROC), which are nearly taken",
		(int)p->pid, (unsigned long long)limits.processes);
}

/* Once, where it was not asked for. */
static void tell_thread(struct recorder *r, const struct tree_process *p)
{
	if (r->o->isolation != CORE_ISOLATION_AUTO || r->told_thread)
		return;
	r->told_thread = true;
	msg_info("process %d: no sampler task can be had there, so a thread of the "
		 "program samples (--isolation)",
		(int)p->pid);
}

static int start_following(struct recorder *r, struct tree_process *p,
	const struct follow_source *source, const struct python_found *python,
	struct err *err)
{
	struct follow_origin origin = {
		.segment = r->segments + 1,
		.parent = p->segment != 0 ? p->segment : segment_above(p),
		.why = p->why,
		.disabled = r->disabled,
	};
	struct follow *f;
	int code = follow_start(p->pid, source, python, &r->o->sampling,
		output_part(r->out), &origin, &r->next_thread, &f, err);

	if (code != 0)
		return code;
	if (!follow_is_thread(f))
		note_task(r, follow_task(f));
	else
		tell_thread(r, p);
	p->segment = ++r->segments;
	p->state = TREE_FOLLOWED;
	p->reason[0] = '\0';
	if (r->follow_ns == 0) {
		r->follow_ns = clock_monotonic_ns();
		rec_begin_schedule(r);
	}
	set_follow(r, p, f);
	mind_limits(r, p);
	return 0;
}

/*
 * Where PID 1 may not reap we are the reaper, but only for the moment in which a task
 * comes to us: other orphans are the program's own business.  The process between the
 * program and its task ends when there are orders (core_args.hold).
 */
static int adopt_and_follow(struct recorder *r, struct tree_process *p,
	const struct follow_source *source, const struct python_found *python,
	struct err *err)
{
	int64_t end = clock_monotonic_ns() + ADOPTION_NS;
	struct proc_stat st;

	if (!r->adopts || source->program != 0)
		return start_following(r, p, source, python, err);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	int code = start_following(r, p, source, python, err);

	/* The task of a program that is a reaper itself stays with the program. */
	while (code == 0 && proc_stat_read(source->task, 0, &st) == 0 &&
		st.parent != getpid() && st.parent != p->pid &&
		clock_monotonic_ns() < end)
		clock_sleep_ns(200000);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 0);
	return code;
}

/* --- attaching --- */

/* mark: of the image in which it was found. */
static int attach(struct recorder *r, struct tree_process *p, uint64_t mark,
	const struct python_found *found, struct err *err)
{
	struct inject_task task;
	unsigned flags =
		(r->o->force ? INJECT_FORCE : 0) |
		(r->child != 0 ? INJECT_DESCENDANT : 0) |
		(r->o->isolation == CORE_ISOLATION_TASK            ? INJECT_TASK
			: r->o->isolation == CORE_ISOLATION_THREAD ? INJECT_THREAD
								   : 0);
	int code = inject_start(p->pid, mark, flags, &task, err);

	if (code != 0)
		return code;
	p->mark = mark;
	struct follow_source source = { .ring_fd = task.ring_fd, .injected = &task };

	return start_following(r, p, &source, found, err);
}

/* The process that was named, or what runs below it. */
static int attach_first(struct recorder *r, pid_t named)
{
	struct python_found found;
	struct err err = { "" };
	char what[64];
	pid_t pid = named;
	uint64_t mark = proc_image_mark(pid);
	int status = r->o->no_inherit
			     ? attach_find(pid, "record", &found)
			     : attach_find_below(named, "record", &found, &pid);

	if (status != STATUS_OK)
		return status;
	struct tree_process *p = add_process(r, named, NULL);

	if (pid != named) {
		proc_describe(named, what, sizeof(what));
		msg_info(
			"process %d (%s) is not a Python: what runs below it is recorded",
			(int)named, what);
		scan(r, clock_monotonic_ns());
		mark = proc_image_mark(pid);
		p = tree_find(&r->tree, pid);
	}
	if (p == NULL)
		return attach_refused(pid, "record", -ESRCH, "");
	p->why = FILE_WHY_ATTACH;
	int code = attach(r, p, mark, &found, &err);

	if (code != 0)
		return attach_refused(pid, "record", code, err.text);
	/* Why it has left is said when it is found to. */
	if (!follow_await_start(p->follow))
		return STATUS_OK;
	proc_describe(pid, what, sizeof(what));
	if (r->o->sampling.spin)
		msg_info(
			"recording process %d (%s), CPython %s, as fast as it goes; Ctrl-C ends "
			"it",
			(int)pid, what, found.version);
	else
		msg_info(
			"recording process %d (%s), CPython %s, at %s Hz; Ctrl-C ends it",
			(int)pid, what, found.version,
			number_rate((uint64_t)r->o->sampling.interval_ns).text);
	return STATUS_OK;
}

/* --- spawning --- */

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

/* Filters that the command inherits: does a thread live under them? */
static void tell_filters(const struct recorder *r, struct target_options *t)
{
	struct proc_status status;
	struct err unsaid;

	if (r->o->isolation == CORE_ISOLATION_THREAD &&
		proc_status_read(getpid(), &status) == 0 && status.seccomp != 0 &&
		status.filters > 0 &&
		filters_try_own(CORE_ISOLATION_THREAD, &t->avoid, &unsaid) == 0)
		t->filters = status.filters;
}

static int spawn(struct recorder *r)
{
	struct err err;

	if (hello_open(&r->hello, &err) != 0) {
		msg_error("%s", err.text);
		return STATUS_CANNOT;
	}
	r->adopts = getpid() != 1 && !first_process_reaps();
	struct target_options t = {
		.argv = r->o->argv,
		.preload = r->hello.preload,
		.socket_path = r->hello.socket_path,
		.alone = r->o->no_inherit,
		.files = &r->files,
		.adopts = r->adopts,
		.isolation = r->o->isolation == CORE_ISOLATION_TASK     ? "task"
			     : r->o->isolation == CORE_ISOLATION_THREAD ? "thread"
									: NULL,
		.signals = &r->given,
	};
	tell_filters(r, &t);
	int code = target_start(&t, &r->child, &err);

	if (code == 0) {
		struct tree_process *p = add_process(r, r->child, NULL);

		if (p != NULL)
			p->why = FILE_WHY_SPAWN;
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

static void read_events(struct recorder *r)
{
	struct proc_news news;

	r->events_ns = clock_monotonic_ns();
	(void)pthread_mutex_lock(&r->beat_lock);
	while (!r->scan_missed && proc_events_next(r->events, &news)) {
		struct tree_process *p;

		switch (news.kind) {
		case PROC_EVENT_FORKED:
			tree_add_made(&r->tree, news.pid, news.parent);
			break;
		case PROC_EVENT_EXECUTED:
			p = tree_find(&r->tree, news.pid);
			if (p != NULL && p->follow == NULL) {
				p->state = TREE_SEEN;
				p->reason[0] = '\0';
				tree_look_again(p, r->events_ns);
			}
			break;
		default:
			r->scan_missed = true;
			break;
		}
	}
	(void)pthread_mutex_unlock(&r->beat_lock);
	int64_t apart = (clock_monotonic_ns() - r->events_ns + WAKE_NS) * EVENTS_SHARE;

	r->events_apart_ns = apart < EVENTS_APART_MIN_NS   ? EVENTS_APART_MIN_NS
			     : apart > EVENTS_APART_MAX_NS ? EVENTS_APART_MAX_NS
							   : apart;
}

/*
 * Is it the program of a task that said hello?  The memory they share is also that of
 * the process through which the task was cloned, and of a vfork child: the number that
 * the program has in its own pid namespace tells it from these, and from the task.
 */
static bool is_program(pid_t pid, const struct hello_guest *g)
{
	struct proc_status status;

	return pid != g->task && proc_share_memory(pid, g->task) &&
	       proc_status_read(pid, &status) == 0 && status.inner_pid == g->offer.pid;
}

/* The process of this tree whose task said hello, NULL when none is known. */
static struct tree_process *known_program_of(
	struct recorder *r, const struct hello_guest *g)
{
	struct tree_process *p = tree_find(&r->tree, g->offer.pid);

	if (g->program != 0)
		return tree_find(&r->tree, g->program);
	if (p != NULL && is_program(p->pid, g))
		return p;
	/* Another pid namespace: the numbers differ. */
	for (size_t i = r->tree.count; i-- > 0;) {
		p = r->tree.list[i];
		if (p->state != TREE_GONE && is_program(p->pid, g))
			return p;
	}
	return NULL;
}

/* Any process whose task this is, 0 when it has ended. */
static pid_t program_anywhere(const struct hello_guest *g)
{
	struct proc_ids all;
	pid_t found = 0;

	if (g->program != 0)
		return g->program;
	if (is_program(g->offer.pid, g))
		return g->offer.pid;
	if (proc_all(&all) != 0)
		return 0;
	for (size_t i = all.count; i-- > 0 && found == 0;)
		if (is_program(all.id[i], g))
			found = all.id[i];
	proc_ids_done(&all);
	return found;
}

/* The process whose task said hello, as this process sees it; NULL when it has ended.
 */
static struct tree_process *program_of(struct recorder *r, const struct hello_guest *g)
{
	struct tree_process *p = known_program_of(r, g);

	if (p != NULL)
		return p;
	if (r->events >= 0)
		read_events(r);
	if (r->events < 0 || r->scan_missed)
		scan(r, clock_monotonic_ns());
	p = known_program_of(r, g);
	if (p != NULL)
		return p;
	/* A daemon, whose parent has ended before it was seen. */
	pid_t pid = program_anywhere(g);

	return pid != 0 ? add_process(r, pid, r->tree.list[0]) : NULL;
}

static void refuse(
	struct recorder *r, struct tree_process *p, const struct python_found *python)
{
	char text[160];
	const char *why = python_refusal(python, text, sizeof(text));

	p->state = TREE_LEFT;
	(void)snprintf(p->reason, sizeof(p->reason), "%s", why);
	if (r->found_kind[0] != '\0')
		return;
	(void)snprintf(r->found_kind, sizeof(r->found_kind), "process %d %s",
		(int)p->pid, why);
	msg_error("%s; it runs on unrecorded", r->found_kind);
}

/* May processes be followed that are not yet? */
static bool wants_more(const struct recorder *r)
{
	return !r->over && !r->crowded && (!r->o->no_inherit || r->segments == 0);
}

/* The nearest ancestor that is or was recorded, NULL when there is none. */
static const struct tree_process *recorded_above(const struct tree_process *p)
{
	for (p = p->parent; p != NULL && p->segment == 0; p = p->parent)
		continue;
	return p;
}

/*
 * Does it run the program of the Python above it, by fork alone?  mark: of its own.  A
 * program that loads Python and forks at once may be found after its children are.
 */
static bool is_forked(const struct tree_process *p, uint64_t mark)
{
	const struct tree_process *from = recorded_above(p), *above = p->parent;

	if (mark == 0)
		return false;
	return (from != NULL && from->mark == mark) ||
	       (above != NULL && above->segment == 0 &&
		       proc_image_mark(above->pid) == mark);
}

/* How a process that was found has become what it is. */
static void tell_origin(const struct recorder *r, struct tree_process *p, uint64_t mark)
{
	if (p->why == 0)
		p->why = is_forked(p, mark) ? FILE_WHY_FORK
			 : r->segments == 0 ? FILE_WHY_SPAWN
					    : FILE_WHY_EXEC;
	p->mark = mark;
}

/* Is it a child that is not wanted?  Then it is let alone from now on. */
static bool is_excluded(const struct recorder *r, struct tree_process *p)
{
	_cleanup_buf_ struct buf words = BUF_INIT(COMMAND_LINE_BYTES);

	if (r->o->exclude_child == NULL || p->parent == NULL ||
		proc_cmdline_read(p->pid, &words) != 0)
		return false;
	for (size_t i = 0; i + 1 < words.size; i++)
		if (words.data[i] == '\0')
			words.data[i] = ' ';
	if (regexec(r->o->exclude_child, buf_text(&words), 0, NULL, 0) != 0)
		return false;
	p->state = TREE_LEFT;
	(void)snprintf(p->reason, sizeof(p->reason), "excluded");
	return true;
}

/* Somebody said hello. */
static void welcome(struct recorder *r, struct hello_guest *g)
{
	struct python_found python;
	struct err err = { "" };
	struct tree_process *p = program_of(r, g);

	if (g->program == 0)
		note_task(r, g->task);
	if (p != NULL) {
		p->brief = false;
		p->found = TREE_PYTHON;
	}
	python_from_offer(g->offer.runtime, g->offer.code_type, g->offer.runtime_bytes,
		sizeof(g->offer.runtime_bytes), g->offer.python_hex,
		g->offer.python_version, &python);
	if (p != NULL && p->follow != NULL) {
		/* By an exec: the former program's task may not have seen it yet. */
		if (follow_has_left(p->follow))
			task_left(r, p);
		else if (!proc_share_memory(p->pid, follow_task(p->follow)))
			process_executed(r, p);
	}
	/* Where it is not taken, its task leaves when the connection ends. */
	if (p != NULL && p->follow == NULL && wants_more(r) && !is_excluded(r, p)) {
		struct follow_source source = {
			.ring_fd = g->ring_fd,
			.connection = g->connection,
			.task = g->task,
			.program = g->program,
		};

		tell_origin(r, p, proc_image_mark(p->pid));
		if (python.kind != PYTHON_CPYTHON) {
			refuse(r, p, &python);
		} else if (adopt_and_follow(r, p, &source, &python, &err) == 0) {
			return;
		} else {
			msg_error(
				"cannot record process %d: %s", (int)p->pid, err.text);
			p->state = TREE_LEFT;
			(void)snprintf(p->reason, sizeof(p->reason), "%s", err.text);
			return;
		}
	}
	fd_close(&g->ring_fd);
	fd_close(&g->connection);
}

static void accept_hellos(struct recorder *r)
{
	struct hello_guest g;

	while (hello_accept(&r->hello, &g))
		welcome(r, &g);
}

/* --- processes that no hello comes from --- */

/* Try to attach to one that can be. */
static void attach_to_found(struct recorder *r, struct tree_process *p, uint64_t mark,
	const struct python_found *found)
{
	struct err err = { "" };
	int code;

	tell_origin(r, p, mark);
	code = attach(r, p, mark, found, &err);
	if (code == 0)
		return;
	/* Why it was not followed while it lived says more than that it has ended. */
	if (code != -ESRCH || p->reason[0] == '\0')
		(void)snprintf(p->reason, sizeof(p->reason), "%s",
			code == -EPERM || code == -EACCES ? "not permitted" : err.text);
	if (code != -EPERM && code != -EACCES && ++p->tries < MOST_TRIES)
		return;
	p->state = TREE_LEFT;
	if (p->segment == 0 || code == -ESRCH)
		return;
	/* Of others the end tells. */
	msg_info("process %d (%s) is not recorded any more: %s", (int)p->pid, p->what,
		p->reason);
	p->reason[0] = '\0';
}

/* May a hello yet come from a Python? */
static bool may_say_hello(const struct recorder *r, struct tree_process *p, int64_t now)
{
	if (p->filtered)
		return false;
	switch (hello_outlook(&r->hello, p->pid)) {
	case HELLO_LOADING:
		return now - p->image_ns < LOADING_GRACE_NS;
	case HELLO_LOADED:
		if (p->loaded_ns < p->image_ns)
			p->loaded_ns = now;
		return now - p->loaded_ns < HELLO_GRACE_NS;
	default:
		return false;
	}
}

static void look_into(struct recorder *r, struct tree_process *p, int64_t now)
{
	struct python_found found = { .kind = PYTHON_NONE };
	struct proc_stat st;
	struct err ignored;

	p->look_ns = now + p->step_ns;
	if (!tree_read(p, &st)) {
		p->state = TREE_GONE;
		return;
	}
	if (strcmp(st.comm, "pystack") == 0) {
		tree_set_ours(&r->tree, p->pid);
		return;
	}
	uint64_t mark = proc_image_mark(p->pid);

	/* A vfork child runs in its parent's memory until it executes something. */
	if (p->parent != NULL && proc_share_memory(p->pid, p->parent->pid))
		return;
	p->brief = false;
	bool looked = python_find(p->pid, &found, &ignored) == 0;

	if (looked)
		p->found = found.kind == PYTHON_NONE ? TREE_NO_PYTHON : TREE_PYTHON;
	if (!looked || found.kind == PYTHON_NONE || found.kind == PYTHON_STARTING ||
		found.kind == PYTHON_IDLE) {
		/* It may execute a Python at any time, which may be told by the kernel,
		 * or load one, but less and less likely. */
		if (found.kind == PYTHON_NONE && p->step_ns < TREE_STEP_MAX_NS)
			p->step_ns *= r->events >= 0 ? 8 : 2;
		return;
	}
	/* What was read may be half of one program and half of the next, or of one
	 * whose libraries are being mapped. */
	if (proc_image_mark(p->pid) != mark ||
		(found.kind == PYTHON_DAMAGED && ++p->tries < MOST_TRIES))
		return;
	if (is_excluded(r, p))
		return;
	if (found.kind != PYTHON_CPYTHON)
		refuse(r, p, &found);
	else if (!may_say_hello(r, p, now))
		attach_to_found(r, p, mark, &found);
}

static void look_for_more(struct recorder *r, int64_t now)
{
	if (r->over)
		return;
	if (r->events >= 0 ? r->scan_missed : tree_scan_is_due(&r->tree, now))
		scan(r, now);
	for (size_t i = 0; i < r->tree.count && wants_more(r); i++) {
		struct tree_process *p = r->tree.list[i];

		if (p->state == TREE_SEEN && now >= p->look_ns)
			look_into(r, p, now);
	}
}

/* --- the loop --- */

/* Returns the bytes taken from the ring; *cut is set after a cut. */
static int64_t drain_one(struct recorder *r, struct tree_process *p, bool *cut)
{
	struct err err;
	int64_t n = follow_drain(p->follow, cut, &err);

	if (n >= 0)
		return n;
	msg_error("process %d: %s; its recording ends here", (int)p->pid, err.text);
	end_follow(r, p, FILE_END_SAMPLER, 0, TREE_LEFT);
	return 0;
}

/* Threads that are over soon are to be named while they live, for at most a fiftieth of
 * the time. */
static void name_threads(struct recorder *r, int64_t now)
{
	for (size_t i = 0; i < r->tree.count; i++)
		if (r->tree.list[i]->follow != NULL)
			follow_name_threads(r->tree.list[i]->follow, false);
	int64_t apart = (clock_monotonic_ns() - now) * NAMES_SHARE;

	r->name_next_ns = now + (apart < NAMES_NS ? apart : NAMES_NS);
}

static void tell_timers(const struct tree_process *p)
{
	_cleanup_buf_ struct buf words = BUF_INIT(8192);

	if (follow_timer_news(p->follow, &words))
		msg_info("process %d: %s", (int)p->pid, buf_text(&words));
}

static void drain(struct recorder *r, int64_t now)
{
	uint64_t threads = 0;
	int64_t most = 0;
	bool cut = false;

	r->drained_ns = now;
	for (size_t i = 0; i < r->tree.count; i++) {
		struct tree_process *p = r->tree.list[i];

		if (p->follow == NULL)
			continue;
		int64_t n = drain_one(r, p, &cut);

		if (p->follow != NULL)
			tell_timers(p);

		most = n > most ? n : most;
		if (p->follow != NULL)
			threads += follow_thread_count(p->follow);
	}
	bool new_threads = threads > r->thread_count;

	r->thread_count = threads;
	if (now > r->name_next_ns && (new_threads || now - r->named_ns > NAMES_NS)) {
		name_threads(r, now);
		r->named_ns = now;
	}
	if (new_threads && r->drain_ms > DRAIN_NAMES_MS)
		r->drain_ms = DRAIN_NAMES_MS;
	int longer = r->drain_ms + r->drain_ms / 4 + 1;

	if (most > DRAIN_MUCH_BYTES)
		r->drain_ms =
			r->drain_ms / 2 < DRAIN_MIN_MS ? DRAIN_MIN_MS : r->drain_ms / 2;
	else
		r->drain_ms = longer < DRAIN_MAX_MS ? longer : DRAIN_MAX_MS;
	if ((cut && now - r->flushed_ns > FLUSH_NS / 2) ||
		now - r->flushed_ns > FLUSH_NS * 2 || output_should_flush(r->out)) {
		rec_flush(r);
	}
}

/* A shell that was named itself may start another Python at any time. */
static bool wrapper_lives(const struct recorder *r)
{
	const struct tree_process *first = r->tree.list[0];

	return first->segment == 0 && tree_lives(first);
}

/* Attached: until nothing is followed any more, nor about to be. */
static bool is_finished(struct recorder *r)
{
	if (r->child == 0)
		return r->follow_count == 0 &&
		       (r->over || r->crowded ||
			       (!tree_expects(&r->tree) && !wrapper_lives(r)));
	return r->child_ended && r->follow_count == 0;
}

static void see_ends(struct recorder *r)
{
	for (size_t i = 0; i < r->tree.count; i++) {
		struct tree_process *p = r->tree.list[i];

		if (p->follow != NULL && follow_has_left(p->follow))
			task_left(r, p);
	}
}

/* The command has ended: its task has seen that too, or will at once.  Once a zombie is
 * reaped nobody can ask for its CPU time any more. */
static void on_child_end(struct recorder *r)
{
	int64_t end = clock_monotonic_ns() + EXIT_GRACE_MS * 1000000ll;

	/* A hello may be waiting still, of a program that was over at once. */
	accept_hellos(r);
	struct tree_process *p = tree_find(&r->tree, r->child);

	if (p != NULL && p->follow != NULL)
		while (!follow_has_left(p->follow) && clock_monotonic_ns() < end)
			clock_sleep_ns(200000);
	rec_reap_command(r);
	see_ends(r);
	/* A process that outlives the command is let go. */
	if (r->follow_count != 0)
		end_all(r);
}

/* No longer than until a process is to be looked into, or looked for. */
static int ms_to_next_look(struct recorder *r, int ms)
{
	int64_t now = clock_monotonic_ns();

	if (!wants_more(r))
		return ms;
	if ((r->events < 0 || now - r->events_ns <= r->events_apart_ns) &&
		ms > ROUND_MS)
		ms = ROUND_MS;
	for (size_t i = 0; i < r->tree.count; i++) {
		int64_t left = (r->tree.list[i]->look_ns - now) / 1000000 + 1;

		if (r->tree.list[i]->state == TREE_SEEN && left < ms)
			ms = left > 1 ? (int)left : 1;
	}
	return ms;
}

/* Until a signal, a hello, the end of a task, or the next thing to do. */
static void wait_for_events(struct recorder *r)
{
	size_t count = 4;
	struct pollfd *fds = xcalloc(count + r->follow_count, sizeof(*fds));
	int ms = r->follow_count != 0 ? r->drain_ms : r->over ? 1000 : DRAIN_MAX_MS;

	fds[0] = (struct pollfd){ .fd = r->signals, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = r->hello.listener, .events = POLLIN };
	/* On a busy machine most are of others: not each of them wakes us. */
	bool ask = !r->over && clock_monotonic_ns() - r->events_ns > r->events_apart_ns;

	fds[2] = (struct pollfd){ .fd = ask ? r->events : -1, .events = POLLIN };
	for (size_t i = 0; i < r->tree.count; i++)
		if (r->tree.list[i]->follow != NULL)
			fds[count++] = (struct pollfd){
				.fd = follow_poll_fd(r->tree.list[i]->follow),
				.events = POLLIN,
			};
	fds[3] = (struct pollfd){ .fd = rec_control_fd(r), .events = POLLIN };
	ms = rec_control_sleep(r, clock_monotonic_ns(), ms_to_next_look(r, ms));
	(void)poll(fds, count, ms);
	if (fds[0].revents != 0)
		rec_read_signals(r);
	if (fds[2].revents != 0)
		read_events(r);
	if (fds[1].revents != 0)
		accept_hellos(r);
	free(fds);
}

static void one_round(struct recorder *r)
{
	wait_for_events(r);

	int64_t now = clock_monotonic_ns();

	if (r->wait != WAIT_NOTHING || now - r->drained_ns >= r->drain_ms * 1000000ll)
		drain(r, now);
	see_ends(r);
	if (r->over || r->crowded)
		hello_close(&r->hello);
	if (r->o->duration_ns != 0 && r->follow_ns != 0 && !r->over &&
		now - r->follow_ns >= r->o->duration_ns) {
		r->over = true;
		if (r->child != 0)
			msg_info("the time is up; the program goes on");
	}
	rec_look_at_size(r, now);
	rec_control_round(r, now);
	if (r->over && !r->closed) {
		end_all(r);
		rec_close_output(r);
	}
	look_for_more(r, now);
	if (r->child_ended)
		on_child_end(r);
}

static int finish(struct recorder *r, int status)
{
	rec_close_output(r);
	rec_say_end(r);
	output_free(r->out);
	if (r->refused)
		return STATUS_CANNOT;
	/* The program's own status goes before our troubles. */
	if (r->child != 0)
		return target_exit_status(r->child_status);
	return r->failed ? STATUS_FAILED : status;
}

/* A large tree takes more descriptors than most are given at first. */
static void raise_files(struct recorder *r)
{
	struct rlimit more;

	(void)getrlimit(RLIMIT_NOFILE, &r->files);
	more = r->files;
	more.rlim_cur = more.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &more);
}

int recorder_run(const struct recorder_options *options)
{
	struct recorder r = {
		.o = options,
		.hello = { .listener = -1 },
		.disabled = options->schedule != NULL,
		.sampled = options->schedule == NULL,
		.drain_ms = DRAIN_MAX_MS / 4,
		.beat_lock = PTHREAD_MUTEX_INITIALIZER,
		.beat_wake = PTHREAD_COND_INITIALIZER,
	};
	struct err err;

	/* First of all: a signal that comes early would leave the file's first name. */
	rec_set_up_signals(&r);
	if (output_open(&options->output, &r.out, &err) != 0) {
		msg_error("%s", err.text);
		return STATUS_CANNOT;
	}
	raise_files(&r);
	tree_init(&r.tree);
	r.events = options->no_inherit ? -ENOSYS : proc_events_open();
	r.scan_missed = true;
	r.started_ns = r.flushed_ns = clock_monotonic_ns();
	if (pthread_create(&r.beat_thread, NULL, beat_main, &r) != 0) {
		msg_error("cannot start a thread");
		return STATUS_CANNOT;
	}
	int status = options->pid != 0 ? attach_first(&r, options->pid) : spawn(&r);

	if (status == STATUS_OK && output_publish(r.out, &err) != 0)
		/* Too late to refuse: say it, and let the program go on. */
		rec_fail(&r, err.text);
	if (status != STATUS_OK) {
		stop_beat(&r);
		output_free(r.out);
		hello_close(&r.hello);
		tree_done(&r.tree);
		return status;
	}
	while (!is_finished(&r))
		one_round(&r);
	stop_beat(&r);
	hello_close(&r.hello);
	fd_close(&r.events);
	rec_reap_tasks(&r);
	status = finish(&r, status);
	tree_done(&r.tree);
	free(r.tasks);
	return status;
}
