/* SPDX-License-Identifier: Apache-2.0 */
#include "timer-probe.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/xalloc.h"

/* In the kernel's sigevent, behind the three words that signal.h names. */
enum { EVENT_TID_AT = 16 };

static volatile sig_atomic_t signals;

static void on_timer(int sig)
{
	(void)sig;
	signals++;
}

static int make_timer(int *ret_id)
{
	const struct itimerspec every_tick = { { 0, 1000000 }, { 0, 1 } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = SIGURG };
	pid_t tid = (pid_t)syscall(SYS_gettid);

	memcpy((char *)&event + EVENT_TID_AT, &tid, sizeof(tid));
	if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, ret_id) != 0)
		return -errno;
	if (syscall(SYS_timer_settime, *ret_id, 0, &every_tick, NULL) == 0)
		return 0;
	int code = -errno;

	(void)syscall(SYS_timer_delete, *ret_id);
	return code;
}

/*
 * Random bytes are made page by page, with a look at signals in between: some 20 ms of
 * them, over several ticks of the kernel.  Where timers run out in the interrupt of the
 * tick, the call ends before it is done.
 */
static bool is_cut_short(void)
{
	enum { BYTES = 4 << 20, TRIES = 64 };
	_cleanup_free_ char *bytes = xmalloc(BYTES);

	for (int i = 0; i < TRIES && signals < 4; i++) {
		ssize_t n = getrandom(bytes, BYTES, 0);

		if (n != BYTES)
			return true;
	}
	return false;
}

int timer_probe(struct err *err)
{
	struct sigaction action = { .sa_handler = on_timer, .sa_flags = SA_RESTART };
	struct sigaction before;
	sigset_t timer, mask;
	int id;
	int code = make_timer(&id);

	if (code != 0)
		return err_set(err, code, "no timer on a thread's CPU clock: %s",
			strerror(-code));
	(void)sigemptyset(&action.sa_mask);
	(void)sigemptyset(&timer);
	(void)sigaddset(&timer, SIGURG);
	(void)sigaction(SIGURG, &action, &before);
	(void)pthread_sigmask(SIG_UNBLOCK, &timer, &mask);
	bool cut = is_cut_short();

	(void)syscall(SYS_timer_delete, id);
	(void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
	/* Where it is ignored, by default or not, the kernel drops what is left of it.
	 */
	(void)sigaction(SIGURG, &before, NULL);
	if (cut)
		return err_set(err, -ENOTSUP,
			"on this kernel they would cut system calls of the program short "
			"(it lacks CONFIG_POSIX_CPU_TIMERS_TASK_WORK)");
	return 0;
}
