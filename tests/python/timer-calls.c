/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a timer on a thread's CPU clock ever cut one of its system calls short?
 *
 *	timer-calls CALL SECONDS INTERVAL_US [stop]
 *
 * A thread that has such a timer (SIGURG to itself, SA_RESTART) works for some
 * microseconds, makes a call that blocks, and so on; INTERVAL_US 0: no timer.  With
 * `stop` it is stopped and continued all the time.  Prints
 *
 *	CALL calls signals expirations interrupted
 *
 * and ends with 1 if a call was interrupted.
 */
#ifndef _GNU_SOURCE
#	define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MANY = 200, /* descriptors, so that a call is in the kernel for a while */
	SHORT_NS = 30000,
};

static volatile uint64_t signals, expirations;
static int many[MANY], pipe_out, epoll, listener, semaphore, connector;
static uint32_t word;

static void on_timer(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	signals++;
	expirations += 1 + (uint64_t)info->si_overrun;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int call_ppoll(void)
{
	struct timespec ts = { .tv_nsec = SHORT_NS };
	struct pollfd fds[MANY];

	for (int i = 0; i < MANY; i++)
		fds[i] = (struct pollfd){ .fd = many[i], .events = POLLIN };
	return ppoll(fds, MANY, &ts, NULL);
}

static int call_poll(void)
{
	struct pollfd fds[MANY];

	for (int i = 0; i < MANY; i++)
		fds[i] = (struct pollfd){ .fd = many[i], .events = POLLIN };
	return poll(fds, MANY, 1);
}

static int call_select(void)
{
	struct timeval tv = { .tv_usec = SHORT_NS / 1000 };
	fd_set set;

	FD_ZERO(&set);
	for (int i = 0; i < MANY; i++)
		FD_SET(many[i], &set);
	return select(many[MANY - 1] + 1, &set, NULL, NULL, &tv);
}

static int call_epoll(void)
{
	struct timespec ts = { .tv_nsec = SHORT_NS };
	struct epoll_event event;

	return (int)syscall(SYS_epoll_pwait2, epoll, &event, 1, &ts, NULL, 0);
}

static int call_nanosleep(void)
{
	struct timespec ts = { .tv_nsec = SHORT_NS };

	return nanosleep(&ts, NULL);
}

static int call_read(void)
{
	char byte;

	return (int)read(many[0], &byte, 1);
}

static int call_futex(void)
{
	struct timespec ts = { .tv_nsec = SHORT_NS };
	int r = (int)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0);

	return r < 0 && errno == EINTR ? -1 : 0;
}

static int call_accept(void)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int call_semop(void)
{
	struct timespec ts = { .tv_nsec = SHORT_NS };
	struct sembuf take = { .sem_op = -1 };

	return semtimedop(semaphore, &take, 1, &ts);
}

static const struct {
	const char *name;
	int (*call)(void);
} calls[] = {
	{ "ppoll", call_ppoll },
	{ "poll", call_poll },
	{ "select", call_select },
	{ "epoll", call_epoll },
	{ "nanosleep", call_nanosleep },
	{ "read", call_read },
	{ "futex", call_futex },
	{ "accept", call_accept },
	{ "semop", call_semop },
};

/* Somebody has to write to the pipe, or connect. */
static void *other_side(void *arg)
{
	struct sockaddr_un address;
	socklen_t size = sizeof(address);
	struct timespec ts = { .tv_nsec = SHORT_NS };

	(void)getsockname(listener, (struct sockaddr *)&address, &size);
	for (;;) {
		(void)nanosleep(&ts, NULL);
		if (arg == (void *)call_read)
			(void)!write(pipe_out, "x", 1);
		connector = socket(AF_UNIX, SOCK_STREAM, 0);
		if (arg == (void *)call_accept)
			(void)connect(connector, (struct sockaddr *)&address, size);
		close(connector);
	}
	return NULL;
}

static void make_things(int (*call)(void))
{
	struct sockaddr_un any = { .sun_family = AF_UNIX };
	pthread_t thread;
	int ends[2];

	for (int i = 0; i < MANY; i++) {
		if (i % 64 == 0 && pipe(ends) != 0)
			exit(2);
		many[i] = dup(ends[0]);
		pipe_out = i < 64 ? ends[1] : pipe_out;
	}
	epoll = epoll_create1(0);
	for (int i = 0; i < MANY; i++) {
		struct epoll_event event = { .events = EPOLLIN };

		(void)epoll_ctl(epoll, EPOLL_CTL_ADD, many[i], &event);
	}
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	(void)bind(listener, (struct sockaddr *)&any, sizeof(any.sun_family));
	(void)listen(listener, 64);
	semaphore = semget(IPC_PRIVATE, 1, 0600);
	if (call == call_read || call == call_accept)
		pthread_create(&thread, NULL, other_side, (void *)call);
}

static void start_timer(long interval_us)
{
	struct sigaction act = { .sa_sigaction = on_timer,
		.sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = SIGURG };
	struct itimerspec every = { { 0, interval_us * 1000 },
		{ 0, interval_us * 1000 } };
	pid_t tid = (pid_t)syscall(SYS_gettid);
	int id;

	sigaction(SIGURG, &act, NULL);
	memcpy((char *)&event + 16, &tid, sizeof(tid));
	/* The CPU clock of a thread, as the kernel numbers it. */
	if (syscall(SYS_timer_create, (clockid_t)(~(unsigned)tid << 3 | 6), &event,
		    &id) != 0 ||
		syscall(SYS_timer_settime, id, 0, &every, NULL) != 0)
		exit(2);
}

static int run(int which, double seconds, long interval_us)
{
	uint64_t n = 0, interrupted = 0, random = 88172645463325252ull;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);

	if (interval_us > 0)
		start_timer(interval_us);
	for (; now_ns() < end; n++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		for (volatile uint64_t i = random % 4000; i > 0; i--)
			;
		if (calls[which].call() < 0 && errno == EINTR)
			interrupted++;
	}
	printf("%-9s %9lu %6lu %7lu %4lu\n", calls[which].name, n, signals, expirations,
		interrupted);
	fflush(stdout);
	(void)semctl(semaphore, 0, IPC_RMID);
	return interrupted != 0;
}

/* Stop it and let it go on, until it ends. */
static int stop_and_go(pid_t child)
{
	struct timespec apart = { .tv_nsec = 200000 };
	int status;

	for (;;) {
		(void)nanosleep(&apart, NULL);
		if (waitpid(child, &status, WNOHANG) == child)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
		(void)kill(child, SIGSTOP);
		(void)kill(child, SIGCONT);
	}
}

int main(int argc, char **argv)
{
	int which = -1;

	for (unsigned i = 0; argc > 3 && i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(argv[1], calls[i].name) == 0)
			which = (int)i;
	if (which < 0)
		return 2;
	if (argc > 4) {
		pid_t child = fork();

		if (child != 0)
			return stop_and_go(child);
	}
	make_things(calls[which].call);
	return run(which, strtod(argv[2], NULL), strtol(argv[3], NULL, 10));
}
