/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is concluded of a thread's signal mask while it waits in calls of all kinds: a
 * mask that is in force for a call alone is not taken for the thread's own.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "core/core-internal.h"
#include "tap.h"

enum { SIG = SIGURG, AGAIN_MS = 5000 };

/* --- what the rest of the core would say --- */

static long text_of(uint32_t tid, const char *name, char *text, size_t size)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/task/%u/%s", tid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long n = fd >= 0 ? read(fd, text, size) : -1;

	if (fd >= 0)
		(void)close(fd);
	return n;
}

static struct core core = { .copies = true };
static bool no_calls;

long cpu_status(struct core *c, uint32_t tid, char *text, size_t size)
{
	(void)c;
	return text_of(tid, "status", text, size);
}

long cpu_call(struct core *c, uint32_t tid, char *text, size_t size)
{
	(void)c;
	return no_calls ? -1 : text_of(tid, "syscall", text, size);
}

bool copy_bytes(struct core *c, void *to, uint64_t address, size_t size)
{
	(void)c;
	memcpy(to, (const void *)(uintptr_t)address, size);
	return true;
}

/* --- a thread that waits --- */

enum how {
	NAP,
	READ,
	POLL,
	PPOLL_BARE,
	PPOLL,
	PSELECT_BARE,
	PSELECT,
	EPOLL_BARE,
	EPOLL,
	SIGWAIT,
	SIGSUSPEND,
	BURN,
};

static struct {
	enum how how;
	bool blocks;
	atomic_uint tid;
	atomic_bool ends;
	int pipe[2];
} waiter;

/* Some ms of it, with all signals let in where the call takes a mask. */
static void wait_once(int epoll)
{
	const struct timespec some = { 0, 20000000 };
	struct epoll_event event;
	sigset_t none, all;
	char byte;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	switch (waiter.how) {
	case NAP:
		(void)nanosleep(&some, NULL);
		break;
	case READ:
		(void)!read(waiter.pipe[0], &byte, 1);
		break;
	case POLL:
		(void)poll(NULL, 0, 20);
		break;
	case PPOLL_BARE:
	case PPOLL:
		(void)ppoll(NULL, 0, &some, waiter.how == PPOLL ? &none : NULL);
		break;
	case PSELECT_BARE:
	case PSELECT:
		(void)pselect(0, NULL, NULL, NULL, &some,
			waiter.how == PSELECT ? &none : NULL);
		break;
	case EPOLL_BARE:
	case EPOLL:
		(void)epoll_pwait(
			epoll, &event, 1, 20, waiter.how == EPOLL ? &none : NULL);
		break;
	case SIGWAIT:
		(void)sigtimedwait(&all, NULL, &some);
		break;
	case SIGSUSPEND:
		(void)sigsuspend(&none);
		break;
	case BURN:
		break;
	}
}

static void on_signal(int sig)
{
	(void)sig;
}

static void *waits(void *arg)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIG);
	(void)sigaddset(&set, SIGUSR1);
	(void)pthread_sigmask(waiter.blocks ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
	atomic_store(&waiter.tid, (unsigned)gettid());
	while (!atomic_load(&waiter.ends))
		wait_once(epoll);
	(void)close(epoll);
	return arg;
}

static bool is_found(struct standing *s, enum mask mask)
{
	return standing_of(&core, atomic_load(&waiter.tid), SIG, s) && s->mask == mask;
}

/* Is this found within some seconds, and if not that, the other never? */
static void check(
	enum how how, bool blocks, enum mask wanted, enum mask never, const char *what)
{
	struct standing s;
	bool found = false, wrong = false;
	pthread_t thread;

	waiter.how = how;
	waiter.blocks = blocks;
	atomic_store(&waiter.tid, 0);
	atomic_store(&waiter.ends, false);
	if (pipe(waiter.pipe) != 0 || pthread_create(&thread, NULL, waits, NULL) != 0)
		return;
	while (atomic_load(&waiter.tid) == 0)
		(void)usleep(1000);
	for (int i = 0; i < AGAIN_MS && !found; i++) {
		found = is_found(&s, wanted);
		wrong |= s.mask == never && !found;
		(void)usleep(1000);
	}
	atomic_store(&waiter.ends, true);
	(void)!write(waiter.pipe[1], "", 1);
	(void)pthread_kill(thread, SIGUSR1);
	(void)pthread_join(thread, NULL);
	(void)close(waiter.pipe[0]);
	(void)close(waiter.pipe[1]);
	tap_ok(found && !wrong, "%s%s", what, blocks ? ", by one that blocks it" : "");
}

static void test_calls(void)
{
	static const struct {
		enum how how;
		const char *what;
	} bare[] = {
		{ NAP, "a nap" },
		{ READ, "a read" },
		{ POLL, "poll" },
		{ PPOLL_BARE, "ppoll without a mask" },
		{ PSELECT_BARE, "pselect without a mask" },
		{ EPOLL_BARE, "epoll_pwait without a mask" },
	};
	static const struct {
		enum how how;
		const char *what;
	} own[] = {
		{ PPOLL, "ppoll with a mask" },
		{ PSELECT, "pselect with a mask" },
		{ EPOLL, "epoll_pwait with a mask" },
		{ SIGWAIT, "sigtimedwait" },
		{ SIGSUSPEND, "sigsuspend" },
	};

	for (size_t i = 0; i < sizeof(bare) / sizeof(bare[0]); i++) {
		check(bare[i].how, false, MASK_OPEN, MASK_BLOCKED, bare[i].what);
		check(bare[i].how, true, MASK_BLOCKED, MASK_OPEN, bare[i].what);
	}
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		check(own[i].how, true, MASK_HIDDEN, MASK_OPEN, own[i].what);
	check(BURN, false, MASK_SEEMS_OPEN, MASK_OPEN, "one that runs");
	check(BURN, true, MASK_BLOCKED, MASK_OPEN, "one that runs");
	no_calls = true;
	check(NAP, false, MASK_SEEMS_OPEN, MASK_OPEN, "where calls are not told");
	no_calls = false;
}

static void test_others(void)
{
	struct standing s;
	sigset_t set, mask;

	(void)sigfillset(&set);
	(void)pthread_sigmask(SIG_BLOCK, &set, &mask);
	tap_ok(standing_of(&core, (uint32_t)gettid(), SIG, &s) && !s.pending,
		"nothing is pending");
	(void)kill(getpid(), SIG);
	tap_ok(standing_of(&core, (uint32_t)gettid(), SIG, &s) && s.pending,
		"and then it is, for the process");
	(void)signal(SIG, SIG_IGN);
	(void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
	(void)signal(SIG, SIG_DFL);
	tap_ok(!standing_of(&core, 0x7ffffff0, SIG, &s), "a thread that is not there");
}

int main(void)
{
	(void)signal(SIGUSR1, on_signal);
	test_calls();
	test_others();
	return tap_done();
}
