/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/hush.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "core/abi.h"
#include "proc/process.h"

enum {
	INSIDE_WAIT_MS = 1000, /* as long as a sampler waits itself */
	NAP_NS = 200000,
};

static bool read_state(int mem_fd, const struct inject_task *t, struct timer_state *ret)
{
	return pread(mem_fd, ret, sizeof(*ret), (off_t)(t->timer_page + TIMER_PAGE)) ==
	       sizeof(*ret);
}

/* The address came out of the program: what is written to must be what it is said to
 * be. */
static bool has_handler(int mem_fd, const struct inject_task *t)
{
	unsigned char code[TIMER_AT_RETURN];

	return pread(mem_fd, code, sizeof(code), (off_t)t->timer_page) ==
		       sizeof(code) &&
	       memmem(core_image, (size_t)(core_image_end - core_image), code,
		       sizeof(code)) != NULL;
}

static bool stop_entering(int mem_fd, const struct inject_task *t)
{
	const off_t at = (off_t)(t->timer_page + TIMER_PAGE +
				 offsetof(struct timer_state, entry));
	const uint64_t none = 0;

	return pwrite(mem_fd, &none, sizeof(none), at) == sizeof(none);
}

/* A later start takes pages over only when nobody is in them. */
static bool is_anothers(const struct timer_state *s, const struct inject_task *t)
{
	return s->core - t->arena >= t->arena_bytes;
}

static bool hush(int mem_fd, const struct inject_task *t)
{
	int64_t end = clock_monotonic_ns() + INSIDE_WAIT_MS * 1000000ll;
	struct timer_state s;

	if (!has_handler(mem_fd, t) || !read_state(mem_fd, t, &s))
		return false;
	if (is_anothers(&s, t))
		return true;
	if (s.entry != 0 && !stop_entering(mem_fd, t))
		return false;
	/* Who saw the old entry has been counted before. */
	while (read_state(mem_fd, t, &s)) {
		if (is_anothers(&s, t) || (s.entry == 0 && s.inside == 0))
			return true;
		if (clock_monotonic_ns() > end)
			return false;
		clock_sleep_ns(NAP_NS);
	}
	return false;
}

bool hush_timers(const struct inject_task *t)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)t->program);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);

	/* It is the memory of the program that was there as it was opened, whatever is
	 * executed meanwhile. */
	return fd >= 0 && proc_image_mark(t->program) == t->image_mark &&
	       t->image_mark != 0 && hush(fd, t);
}
