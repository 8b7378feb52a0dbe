/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/events.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	ANSWER_MS = 100,
	RECEIVE_BYTES = 1 << 20,
};

/* One datagram, in either direction. */
struct message {
	struct nlmsghdr header;
	char body[512];
};

/*
 * Let only what is of use through: new processes (not threads), execs, and the answer
 * to our request.  Numbers in a message are in the machine's order, a filter's are not.
 */
static int set_filter(int fd)
{
	enum {
		EVENT = NLMSG_LENGTH(sizeof(struct cn_msg)),
		WHAT = EVENT + offsetof(struct proc_event, what),
		CHILD = EVENT + offsetof(struct proc_event, event_data.fork.child_pid),
		GROUP = EVENT + offsetof(struct proc_event, event_data.fork.child_tgid),
	};
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WHAT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_NONE), 6, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_EXEC), 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_FORK), 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, CHILD),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, GROUP),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {
		.len = sizeof(code) / sizeof(code[0]),
		.filter = code,
	};

	return setsockopt(
		       fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0
		       ? 0
		       : -errno;
}

static int ask_to_listen(int fd, uint32_t request)
{
	struct message m = { 0 };
	struct cn_msg *c = NLMSG_DATA(&m.header);
	enum proc_cn_mcast_op listen = PROC_CN_MCAST_LISTEN;
	size_t size = NLMSG_LENGTH(sizeof(*c) + sizeof(listen));

	m.header.nlmsg_len = (uint32_t)size;
	m.header.nlmsg_type = NLMSG_DONE;
	c->id.idx = CN_IDX_PROC;
	c->id.val = CN_VAL_PROC;
	c->ack = request;
	c->len = sizeof(listen);
	memcpy(c->data, &listen, sizeof(listen));
	return send(fd, &m, size, 0) == (ssize_t)size ? 0 : -errno;
}

/* The event in a datagram of the given size; false when it is none of the kernel's. */
static bool event_of(const struct message *m, ssize_t size, struct proc_event *ret)
{
	const struct cn_msg *c = NLMSG_DATA(&m->header);
	size_t least = NLMSG_LENGTH(sizeof(*c)) + sizeof(*ret);

	/* Its length differs from kernel to kernel, by the largest of its events. */
	memset(ret, 0, sizeof(*ret));
	if (size < (ssize_t)NLMSG_LENGTH(sizeof(*c)) || c->id.idx != CN_IDX_PROC ||
		c->id.val != CN_VAL_PROC)
		return false;
	size_t data = (size_t)size - NLMSG_LENGTH(sizeof(*c));

	memcpy(ret, c->data, (size_t)size < least ? data : sizeof(*ret));
	return true;
}

/* One datagram from the kernel, with one more than the number of the request that it
 * answers, 0 for an event; 0 none, negative errno. */
static int receive(int fd, struct proc_event *ret, uint32_t *ret_answers)
{
	struct message m;
	struct sockaddr_nl from = { 0 };
	socklen_t length = sizeof(from);
	ssize_t n = recvfrom(
		fd, &m, sizeof(m), MSG_TRUNC, (struct sockaddr *)&from, &length);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	/* Any process may send to a netlink socket. */
	if (from.nl_pid != 0 || n > (ssize_t)sizeof(m) || !event_of(&m, n, ret))
		ret->what = PROC_EVENT_NONE;
	else
		*ret_answers = ((struct cn_msg *)NLMSG_DATA(&m.header))->ack;
	return 1;
}

/*
 * The kernel's answer to our request.  Where listening is not allowed it may stay
 * silent, and what comes then was meant for others: their answers, and their events, in
 * which processes have other numbers than in our pid namespace.
 */
static int await_answer(int fd, uint32_t request)
{
	int64_t end = clock_monotonic_ns() + ANSWER_MS * 1000000ll;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (int64_t left = ANSWER_MS; left > 0;
		left = (end - clock_monotonic_ns()) / 1000000) {
		struct proc_event answer = { 0 };
		uint32_t answers = 0;

		if (poll(&p, 1, (int)left) <= 0)
			break;
		if (receive(fd, &answer, &answers) > 0 && answers == request + 1 &&
			answer.what == PROC_EVENT_NONE)
			return answer.event_data.ack.err == 0 ? 0 : -EPERM;
	}
	return -EPERM;
}

int proc_events_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK,
		.nl_groups = CN_IDX_PROC };
	int bytes = RECEIVE_BYTES;
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		NETLINK_CONNECTOR);
	uint32_t request = (uint32_t)getpid() ^ (uint32_t)clock_monotonic_ns();
	int r = 0;

	if (fd < 0)
		return -errno;
	request &= INT32_MAX; /* so that one more is not 0, as in events */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		r = -errno;
	if (r == 0)
		r = set_filter(fd);
	if (r == 0)
		r = ask_to_listen(fd, request);
	if (r == 0)
		r = await_answer(fd, request);
	if (r != 0) {
		(void)close(fd);
		return r;
	}
	return fd;
}

bool proc_events_next(int fd, struct proc_news *ret)
{
	struct proc_event e = { 0 };
	uint32_t ignored;
	int n;

	while ((n = receive(fd, &e, &ignored)) > 0) {
		if (e.what == PROC_EVENT_FORK &&
			e.event_data.fork.child_pid == e.event_data.fork.child_tgid) {
			*ret = (struct proc_news){
				.kind = PROC_EVENT_FORKED,
				.pid = e.event_data.fork.child_tgid,
				.parent = e.event_data.fork.parent_tgid,
			};
			return true;
		}
		if (e.what == PROC_EVENT_EXEC) {
			*ret = (struct proc_news){
				.kind = PROC_EVENT_EXECUTED,
				.pid = e.event_data.exec.process_tgid,
			};
			return true;
		}
	}
	*ret = (struct proc_news){ .kind = PROC_EVENT_MISSED };
	return n == -ENOBUFS;
}
