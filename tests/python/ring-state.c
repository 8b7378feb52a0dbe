/* SPDX-License-Identifier: Apache-2.0 */
/* Print the state of a sampler task (enum ring_state) as its ring has it.
 *
 * usage: ring-state PID-OF-THE-TASK
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "wire/ring.h"

enum { FIRST_FDS = 32 };

int main(int argc, char **argv)
{
	struct ring_header h;
	char path[64];

	for (int i = 0; argc == 2 && i < FIRST_FDS; i++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", atoi(argv[1]), i);
		int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

		if (fd < 0)
			continue;
		ssize_t n = pread(fd, &h, sizeof(h), 0);

		(void)close(fd);
		if (n == sizeof(h) && h.magic == RING_MAGIC) {
			printf("%s\n", h.state == RING_PARKED    ? "parked"
				       : h.state == RING_RUNNING ? "running"
				       : h.state == RING_OFFERED ? "offered"
								 : "other");
			return 0;
		}
	}
	fprintf(stderr, "usage: ring-state PID of a sampler task\n");
	return 2;
}
