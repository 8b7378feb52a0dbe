/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks like a CPython of which memory has to be searched for its version, and a page
 * of that memory never comes: who reads it waits until this process has ended.
 *
 * Says "ready" in a file of that name and sleeps.  Status 77: not possible here.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64 };

/* What a search for the runtime finds. */
char _PyRuntime[PAGES * PAGE] __attribute__((aligned(PAGE)));
char PyCode_Type[PAGE] __attribute__((aligned(PAGE)));
const char *Py_GetVersion(void);

const char *Py_GetVersion(void)
{
	return _PyRuntime;
}

int main(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { (unsigned long)_PyRuntime, sizeof(_PyRuntime) },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	FILE *ready;

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0 ||
		ioctl(fd, UFFDIO_REGISTER, &range) != 0)
		return 77;
	ready = fopen("ready", "we");
	if (ready == NULL || fprintf(ready, "%d\n", (int)getpid()) < 0 ||
		fclose(ready) != 0)
		return 1;
	for (;;)
		(void)pause();
}
