/* SPDX-License-Identifier: Apache-2.0 */
#include "timer-text.h"

#include <string.h>

#include "frame-text.h"
#include "wire/ring.h"

const char *timer_text_state(uint32_t state)
{
	static const char *const words[RING_TIMER_STATES] = {
		[RING_TIMER_NONE] = "none",
		[RING_TIMER_ON] = "on",
		[RING_TIMER_USED] = "used",
		[RING_TIMER_TAKEN] = "taken",
		[RING_TIMER_NO_READ] = "no-read",
		[RING_TIMER_NO_PROC] = "no-proc",
		[RING_TIMER_REFUSED] = "refused",
		[RING_TIMER_FILTERED] = "filtered",
	};

	return state < RING_TIMER_STATES ? words[state] : "?";
}

/* Some states come when there have been timers. */
static void add_since(struct buf *b, const struct model_segment *s)
{
	double since = ((double)s->timers.mono_ns - (double)s->mono_ns) / 1e9;

	if (s->timers.state == RING_TIMER_TAKEN ||
		s->timers.state == RING_TIMER_FILTERED)
		buf_printf(b, "none from %.3f s on: ", since > 0 ? since : 0);
	else
		buf_add_str(b, "none: ");
}

static void add_owner(struct buf *b, const struct model_timers *t)
{
	if (t->owner <= 1)
		return;
	buf_add_str(b, " (its handler is ");
	if (t->mapping != NULL && t->mapping[0] != '\0') {
		buf_add_str(b, "in ");
		frame_text_clean(b, t->mapping);
	} else {
		buf_printf(b, "at 0x%llx", (unsigned long long)t->owner);
	}
	buf_add_str(b, ")");
}

static void add_errno(struct buf *b, uint32_t detail)
{
	buf_printf(b, " (%s)", detail < 4096 ? strerror((int)detail) : "?");
}

bool timer_text_why(struct buf *b, const struct model_segment *s)
{
	const struct model_timers *t = &s->timers;

	if (!t->told || t->state == RING_TIMER_ON)
		return false;
	add_since(b, s);
	switch (t->state) {
	case RING_TIMER_NONE:
		buf_add_str(b, "the recording ended before they began");
		break;
	case RING_TIMER_USED:
		buf_add_str(b, t->owner == 1 ? "the program ignores SIGURG"
					     : "the program uses SIGURG");
		add_owner(b, t);
		break;
	case RING_TIMER_TAKEN:
		buf_add_str(b, t->owner == 0   ? "the program put SIGURG to its default"
			       : t->owner == 1 ? "the program set SIGURG to be ignored"
					       : "the program took SIGURG");
		add_owner(b, t);
		break;
	case RING_TIMER_NO_READ:
		buf_add_str(b, "process_vm_readv was refused");
		add_errno(b, t->detail);
		break;
	case RING_TIMER_NO_PROC:
		buf_add_str(b, "without /proc it could not be seen which threads block "
			       "SIGURG");
		break;
	case RING_TIMER_REFUSED:
		buf_add_str(b, "their handler could not be installed");
		add_errno(b, t->detail);
		break;
	case RING_TIMER_FILTERED:
		buf_add_str(b, "the program put a seccomp filter on its threads");
		break;
	default:
		buf_printf(b, "for a reason that this pystack does not know (%u)",
			t->state);
		break;
	}
	return true;
}
