/* SPDX-License-Identifier: Apache-2.0 */
#include "hello.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "follow.h"
#include "paths.h"
#include "preload/entries.h"
#include "proc/process.h"

enum {
	HELLO_MS = 1000,
	LONGEST_FOLDER = 60, /* a socket's path has little room */
	ENVIRONMENT_BYTES = 4 << 20,
};

/* LD_PRELOAD has no way to write a blank or a colon: then by a link. */
static char *preload_path(const char *folder)
{
	char *path = paths_preload();

	if (path == NULL || strpbrk(path, " :") == NULL)
		return path;
	char *link = xasprintf("%s/pystack-preload.so", folder);

	if (symlink(path, link) != 0) {
		free(link);
		return path;
	}
	free(path);
	return link;
}

int hello_open(struct hello *h, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *base = getenv("TMPDIR");

	*h = (struct hello){ .listener = -1 };
	if (base == NULL || base[0] != '/' || strlen(base) > LONGEST_FOLDER)
		base = "/tmp";
	h->folder = xasprintf("%s/pystack-XXXXXX", base);
	if (mkdtemp(h->folder) == NULL) {
		int code = -errno;

		free(h->folder);
		h->folder = NULL;
		return err_set(err, code, "cannot make a folder in %s: %s", base,
			strerror(-code));
	}
	/* The program may run as another user by the time its task says hello. */
	(void)chmod(h->folder, 0711);
	h->socket_path = xasprintf("%s/hello", h->folder);
	(void)snprintf(
		address.sun_path, sizeof(address.sun_path), "%s", h->socket_path);
	h->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h->listener < 0 ||
		bind(h->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
		chmod(h->socket_path, 0666) != 0 || listen(h->listener, 128) != 0)
		return err_set(err, -errno, "cannot listen at %s: %s", h->socket_path,
			strerror(errno));
	h->preload = preload_path(h->folder);
	if (h->preload == NULL)
		return err_set(err, -ENOENT,
			"cannot find pystack-preload.so beside this program or in %s",
			PKGLIBDIR);
	return 0;
}

void hello_close(struct hello *h)
{
	fd_close(&h->listener);
	if (h->folder != NULL) {
		char *link = xasprintf("%s/pystack-preload.so", h->folder);

		(void)unlink(link);
		free(link);
		(void)unlink(h->socket_path != NULL ? h->socket_path : "");
		(void)rmdir(h->folder);
	}
	free(h->folder);
	free(h->socket_path);
	free(h->preload);
	*h = (struct hello){ .listener = -1 };
}

enum hello_outlook hello_outlook(const struct hello *h, pid_t pid)
{
	static const char name[] = "PYSTACK_SPAWN=";
	_cleanup_buf_ struct buf entries = BUF_INIT(ENVIRONMENT_BYTES);
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	if (h->listener < 0 || fd_read_file(AT_FDCWD, path, &entries) != 0)
		return HELLO_NEVER;
	const char *text = buf_text(&entries), *end = text + entries.size;

	for (const char *at = text; at < end; at += strlen(at) + 1) {
		const char *socket = strchr(at, '/');

		if (at[0] != '\0' && strncmp(at + 1, name + 1, sizeof(name) - 2) == 0 &&
			socket != NULL && strcmp(socket, h->socket_path) == 0)
			return at[0] == ENTRIES_TAKEN ? HELLO_LOADED : HELLO_LOADING;
	}
	return HELLO_NEVER;
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

/* Take what it brings; false when that is no task's. */
static bool receive(struct hello_guest *g)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct ring_reader ring = { 0 };
	struct err ignored;

	g->ring_fd = receive_ring(g->connection);
	if (g->ring_fd < 0 ||
		getsockopt(g->connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
		follow_map(g->ring_fd, &ring, &ignored) != 0)
		return false;
	g->task = peer.pid;
	g->offer = ring.header->offer;
	follow_unmap(&ring);
	/* A thread speaks as its process. */
	if (g->offer.isolation == CORE_ISOLATION_THREAD) {
		g->program = peer.pid;
		g->task = proc_find_thread(peer.pid, g->offer.tid);
	}
	g->offer.python_version[sizeof(g->offer.python_version) - 1] = '\0';
	return g->task > 0;
}

bool hello_accept(struct hello *h, struct hello_guest *ret)
{
	for (;;) {
		*ret = (struct hello_guest){ .connection = -1, .ring_fd = -1 };
		if (h->listener >= 0)
			ret->connection =
				accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);
		if (ret->connection < 0)
			return false;
		if (receive(ret))
			return true;
		fd_close(&ret->ring_fd);
		fd_close(&ret->connection);
	}
}
