/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc says of a thread that a signal may be sent to: whether it blocks it, and
 * which filters its system calls meet.
 */
#include "core/core-internal.h"

enum { STATUS_BYTES = 4096, CALL_BYTES = 256 };

/* Where the C library blocks even its own two signals it is in the middle of something,
 * such as making a thread: no program can block these by it. */
#define LIBRARY_SIGNALS (3ull << 31)

/* The number behind a name that begins a line of a status file; false: it is not there.
 */
RARE static bool status_field(
	const char *text, long size, const char *name, unsigned base, uint64_t *ret)
{
	for (long at = 0; at < size; at++) {
		unsigned n = 0;

		if (at != 0 && text[at - 1] != '\n')
			continue;
		while (name[n] != '\0' && at + (long)n < size &&
			text[at + n] == name[n])
			n++;
		if (name[n] != '\0')
			continue;
		*ret = 0;
		for (at += n; at < size && text[at] != '\n'; at++) {
			char digit = text[at];

			if (digit >= '0' && digit <= '9')
				*ret = *ret * base + (uint64_t)(digit - '0');
			else if (base == 16 && digit >= 'a' && digit <= 'f')
				*ret = *ret * base + (uint64_t)(digit - 'a') + 10;
			else if (digit == '/')
				return true;
		}
		return true;
	}
	return false;
}

/* A system call that a thread waits in. */
struct waiting {
	uint64_t number;
	uint64_t args[6];
};

/* "NUMBER 0xARG ...", "running", or "-1 ..." of one that waits elsewhere.  False: it is
 * in none, or that cannot be read. */
RARE static bool waits_in(struct core *c, uint32_t tid, struct waiting *ret)
{
	char text[CALL_BYTES];
	long n = cpu_call(c, tid, text, sizeof(text)), at = 0;

	*ret = (struct waiting){ 0 };
	if (n <= 0 || text[0] < '0' || text[0] > '9')
		return false;
	for (; at < n && text[at] >= '0' && text[at] <= '9'; at++)
		ret->number = ret->number * 10 + (uint64_t)(text[at] - '0');
	for (unsigned i = 0; i < 6; i++) {
		for (at += 3; at < n && text[at] > ' '; at++)
			ret->args[i] =
				ret->args[i] * 16 +
				(uint64_t)(text[at] <= '9' ? text[at] - '0'
							   : text[at] - 'a' + 10);
	}
	return at <= n;
}

/* Does it wait with a mask that is in force for this call alone? */
RARE static bool has_own_mask(struct core *c, const struct waiting *w)
{
	uint64_t mask = 0;

	switch (w->number) {
	case __NR_rt_sigtimedwait:
	case __NR_rt_sigsuspend:
		return true;
	case __NR_ppoll:
		return w->args[3] != 0;
	case __NR_epoll_pwait:
	case __NR_epoll_pwait2:
	case __NR_io_uring_enter:
		return w->args[4] != 0;
	case __NR_pselect6:
	case __NR_io_pgetevents:
		/* To a pointer, and a size. */
		return w->args[5] != 0 &&
		       (!load_bytes(c, &mask, w->args[5], sizeof(mask)) || mask != 0);
	default:
		return false;
	}
}

bool standing_of(struct core *c, uint32_t tid, int sig, struct standing *ret)
{
	const uint64_t bit = 1ull << (sig - 1);
	char text[STATUS_BYTES];
	long n = cpu_status(c, tid, text, sizeof(text));
	uint64_t blocked, pending;
	struct waiting call;

	*ret = (struct standing){ 0 };
	if (n <= 0 || !status_field(text, n, "SigBlk:\t", 16, &blocked) ||
		!status_field(text, n, "ShdPnd:\t", 16, &pending) ||
		!status_field(text, n, "SigQ:\t", 10, &ret->queued))
		return false;
	ret->pending = (pending & bit) != 0;
	if ((blocked & bit) != 0)
		ret->mask = (blocked & LIBRARY_SIGNALS) == LIBRARY_SIGNALS
				    ? MASK_PASSING
				    : MASK_BLOCKED;
	else if (!waits_in(c, tid, &call))
		ret->mask = MASK_SEEMS_OPEN;
	else
		ret->mask = has_own_mask(c, &call) ? MASK_HIDDEN : MASK_OPEN;
	/* Without seccomp in the kernel neither is there; the number of filters is told
	 * since 5.9. */
	if (!status_field(text, n, "Seccomp:\t", 10, &ret->mode))
		ret->mode = 0;
	return status_field(text, n, "Seccomp_filters:\t", 10, &ret->filters) ||
	       ret->mode == 0;
}
