/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of a recording: what ends it, what is passed on to the command. */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "recorder-internal.h"

enum { REAP_NS = 1000000000 }; /* for all tasks to end */

void rec_set_up_signals(struct recorder *r)
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
	/* Nobody may be there to read an answer. */
	if (r->o->control != NULL)
		(void)sigaddset(&mask, SIGPIPE);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	(void)sigdelset(&mask, SIGPIPE);
	r->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A signal for the recording.  Spawned: the terminal has given the program its own
 * copy; what another process sent to us alone is passed on, once. */
static void on_signal(struct recorder *r, const struct signalfd_siginfo *s)
{
	int sig = (int)s->ssi_signo;

	if (sig == SIGUSR2) {
		r->snapshot_due = true;
		return;
	}
	if (r->child == 0) {
		r->over = true;
		return;
	}
	if (sig == SIGINT || s->ssi_code == SI_KERNEL || r->passed_on[sig] ||
		r->child_ended)
		return;
	r->passed_on[sig] = true;
	(void)kill(r->child, sig);
}

/* The command has ended.  It is not reaped yet: its task reads its last figures. */
static void command_has_ended(struct recorder *r, const siginfo_t *info)
{
	/* As wait() would have it. */
	r->child_status = info->si_code == CLD_EXITED   ? (info->si_status & 0xff) << 8
			  : info->si_code == CLD_DUMPED ? info->si_status | WCOREFLAG
							: info->si_status;
	r->child_ended = true;
}

/* All others that come to us are tasks and what is between them and their program. */
static void reap(struct recorder *r)
{
	for (;;) {
		siginfo_t info = { 0 };

		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) !=
				0 ||
			info.si_pid == 0)
			return;
		if (info.si_pid == r->child) {
			command_has_ended(r, &info);
			return;
		}
		(void)waitpid(info.si_pid, NULL, WNOHANG | __WALL);
	}
}

void rec_reap_command(struct recorder *r)
{
	(void)waitpid(r->child, NULL, 0);
}

/* Those that came to us: they have left, but may not have ended yet. */
void rec_reap_tasks(struct recorder *r)
{
	int64_t end = clock_monotonic_ns() + REAP_NS;

	for (size_t i = 0; i < r->task_count; i++)
		while (waitpid(r->tasks[i], NULL, WNOHANG | __WALL) == 0 &&
			clock_monotonic_ns() < end)
			clock_sleep_ns(200000);
}

void rec_read_signals(struct recorder *r)
{
	struct signalfd_siginfo s;

	while (read(r->signals, &s, sizeof(s)) == sizeof(s))
		if (s.ssi_signo != SIGCHLD)
			on_signal(r, &s);
	reap(r);
}
