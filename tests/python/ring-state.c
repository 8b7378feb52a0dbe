/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Print the state of a sampler task (enum ring_state) as its ring has it, or with
 * "lost" or "late" that counter.
 *
 * usage: ring-state PID-OF-THE-TASK [COUNTER]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/ring.h"

enum { FIRST_FDS = 32 };

static void print_state(const struct ring_header *h)
{
	printf("%s\n", h->state == RING_PARKED    ? "parked"
		       : h->state == RING_RUNNING ? "running"
		       : h->state == RING_OFFERED ? "offered"
						  : "other");
}

static void print_counter(const struct ring_header *h, const char *name)
{
	printf("%llu\n", (unsigned long long)
				 h->counters[strcmp(name, "lost") == 0 ? RING_LOST_FULL
								       : RING_LATE]);
}

int main(int argc, char **argv)
{
	struct ring_header h;
	char path[64];

	for (int i = 0; argc >= 2 && i < FIRST_FDS; i++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", atoi(argv[1]), i);
		int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

		if (fd < 0)
			continue;
		ssize_t n = pread(fd, &h, sizeof(h), 0);

		(void)close(fd);
		if (n == sizeof(h) && h.magic == RING_MAGIC) {
			if (argc > 2)
				print_counter(&h, argv[2]);
			else
				print_state(&h);
			return 0;
		}
	}
	fprintf(stderr, "usage: ring-state PID-OF-A-SAMPLER-TASK [lost|late]\n");
	return 2;
}
