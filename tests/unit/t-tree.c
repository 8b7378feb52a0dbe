/* SPDX-License-Identifier: Apache-2.0 */
/* src/tree.c with processes of its own, and the kernel's news of them
 * (lib/proc/events.c). */
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "proc/events.h"
#include "tap.h"
#include "tree.h"

enum { DEADLINE_NS = 1000000000 };

/* A child that lives until the descriptor is closed. */
static pid_t start_child(int *ret_end)
{
	int ends[2];

	if (pipe(ends) != 0)
		return -1;
	pid_t pid = fork();

	if (pid == 0) {
		char byte;

		(void)close(ends[1]);
		(void)!read(ends[0], &byte, 1);
		_exit(0);
	}
	(void)close(ends[0]);
	*ret_end = ends[1];
	return pid;
}

static void end_child(pid_t pid, int *end)
{
	fd_close(end);
	(void)waitpid(pid, NULL, 0);
}

static void test_scan(void)
{
	struct tree t;
	int end;

	tree_init(&t);
	struct tree_process *self = tree_add(&t, getpid(), NULL);

	tap_ok(self != NULL && tree_lives(self), "a process that lives");
	tap_ok(tree_add(&t, getpid(), NULL) == self, "is added once");
	pid_t pid = start_child(&end);

	tree_scan(&t, clock_monotonic_ns());
	struct tree_process *child = tree_find(&t, pid);

	tap_ok(child != NULL && child->parent == self && child->state == TREE_SEEN,
		"a child is found");
	tap_ok(tree_expects(&t), "which may become a Python yet");
	end_child(pid, &end);
	tap_ok(child != NULL && !tree_lives(child), "it has ended");
	tree_scan(&t, clock_monotonic_ns());
	tap_ok(tree_find(&t, pid) == NULL, "and is found no more");
	tap_ok(tree_add(&t, pid, self) == NULL, "nor added");
	tap_ok(tree_scan_is_due(&t, clock_monotonic_ns() + 2 * (int64_t)DEADLINE_NS),
		"after a second a scan is due in any case");
	tree_done(&t);
}

static void test_made(void)
{
	struct tree t;
	int end;

	tree_init(&t);
	struct tree_process *self = tree_add(&t, getpid(), NULL);
	pid_t between = start_child(&end);

	end_child(between, &end);
	pid_t pid = start_child(&end);

	tree_add_made(&t, between, getpid());
	tree_add_made(&t, pid, between);
	struct tree_process *p = tree_find(&t, pid);

	tap_ok(p != NULL && p->parent != NULL && p->parent->pid == between &&
			p->parent->state == TREE_GONE && p->parent->parent == self,
		"a process whose parent had ended before it was heard of");
	size_t count = t.count;

	tree_add_made(&t, between, getpid());
	tree_add_made(&t, pid, between);
	tap_is((int64_t)t.count, (int64_t)count, "news that come twice");
	tree_add_made(&t, pid, 1 << 30);
	tap_is((int64_t)t.count, (int64_t)count, "news of others");
	tree_set_ours(&t, pid);
	tap_ok(p != NULL && p->ours && p->state == TREE_GONE && p->parent->ours,
		"a task, with what it was cloned through");
	tap_ok(self != NULL && !self->ours, "and no more");
	end_child(pid, &end);
	tree_done(&t);
}

/* Numbers of processes are used again, where many are made within minutes. */
static void test_reused(void)
{
	enum { STRANGER = 1 << 30 };
	struct tree t;
	int ends[2];

	tree_init(&t);
	(void)tree_add(&t, getpid(), NULL);
	pid_t gone = start_child(&ends[0]);

	tree_add_made(&t, gone, getpid());
	end_child(gone, &ends[0]);
	pid_t early = start_child(&ends[0]), late = start_child(&ends[1]);

	tree_add_made(&t, early, gone);
	tap_ok(tree_find(&t, early) != NULL, "what one that has ended had made");
	tree_add_made(&t, gone, STRANGER);
	tree_add_made(&t, late, gone);
	tap_ok(tree_find(&t, late) == NULL && tree_find(&t, gone) == NULL,
		"not what a stranger makes who has its number now");
	tree_add_made(&t, early, STRANGER);
	tap_ok(tree_find(&t, early) != NULL, "one that lives keeps its number");
	tree_add_made(&t, late, getpid());
	tap_ok(tree_find(&t, late) != NULL, "and the number may come back");
	/* The later one has the other's pipe, too. */
	end_child(late, &ends[1]);
	end_child(early, &ends[0]);
	tree_done(&t);
}

/* Of many that have ended, those with something to tell stay. */
static void test_forget(void)
{
	enum { MANY = 5000 };
	struct tree t;

	tree_init(&t);
	struct tree_process *self = tree_add(&t, getpid(), NULL);

	for (int i = 0; i < MANY; i++)
		tree_add_made(&t, (1 << 30) + i, getpid());
	tap_ok(t.count < MANY && t.count + t.brief == MANY + 1,
		"%zu are kept and %zu counted", t.count, t.brief);
	tap_ok(tree_find(&t, getpid()) == self, "the one that lives is kept");
	tree_done(&t);
}

static bool hears(int fd, enum proc_event_kind kind, pid_t pid, pid_t parent)
{
	int64_t end = clock_monotonic_ns() + DEADLINE_NS;
	struct proc_news news;

	while (clock_monotonic_ns() < end) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		(void)poll(&p, 1, 50);
		while (proc_events_next(fd, &news))
			if (news.kind == kind && news.pid == pid &&
				(parent == 0 || news.parent == parent))
				return true;
	}
	return false;
}

static void test_events(void)
{
	int fd = proc_events_open(), end;

	if (fd < 0) {
		tap_skip("the kernel's news", "it does not tell here");
		return;
	}
	pid_t pid = start_child(&end);

	tap_ok(hears(fd, PROC_EVENT_FORKED, pid, getpid()), "a fork is told");
	end_child(pid, &end);
	pid = fork();
	if (pid == 0) {
		(void)execlp("true", "true", (char *)NULL);
		_exit(0);
	}
	tap_ok(hears(fd, PROC_EVENT_EXECUTED, pid, 0), "an exec is told");
	(void)waitpid(pid, NULL, 0);
	fd_close(&fd);
}

int main(void)
{
	test_scan();
	test_made();
	test_reused();
	test_forget();
	test_events();
	return tap_done();
}
