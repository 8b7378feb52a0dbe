/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program: kills it by SIGKILL right before its call number DIE_AT of
 * ptrace, or of pwrite (which writes into another process's memory); or stops it before
 * its call number STOP_AT.  What it had begun by then stays as it is.  With
 * NO_LONG_WRITE pwrite fails for more than 16 KiB, as for code where the kernel is
 * hardened.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int calls;

static void count_call(void)
{
	const char *die_at = getenv("DIE_AT"), *stop_at = getenv("STOP_AT");

	calls++;
	if (die_at != NULL && calls == atoi(die_at))
		(void)kill(getpid(), SIGKILL);
	if (stop_at != NULL && calls == atoi(stop_at))
		(void)syscall(
			SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGSTOP);
}

long ptrace(int request, ...);
ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset);

long ptrace(int request, ...)
{
	static long (*real)(int, pid_t, void *, void *);
	va_list args;

	if (real == NULL)
		real = (long (*)(int, pid_t, void *, void *))dlsym(RTLD_NEXT, "ptrace");
	va_start(args, request);
	pid_t pid = va_arg(args, pid_t);
	void *address = va_arg(args, void *);
	void *data = va_arg(args, void *);
	va_end(args);
	count_call();
	return real(request, pid, address, data);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	static ssize_t (*real)(int, const void *, size_t, off_t);

	if (real == NULL)
		real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(
			RTLD_NEXT, "pwrite");
	count_call();
	if (size > 16384 && getenv("NO_LONG_WRITE") != NULL) {
		errno = EIO;
		return -1;
	}
	return real(fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset)
{
	return pwrite(fd, bytes, size, offset);
}
