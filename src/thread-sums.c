/* SPDX-License-Identifier: Apache-2.0 */
#include "thread-sums.h"

/* The frame at the root of a stack. */
static enum model_frame_kind root_kind(const struct model *m, uint32_t stack)
{
	uint32_t at = stack;

	while (model_stack(m, at)->parent != 0)
		at = model_stack(m, at)->parent;
	return model_frame(m, model_stack(m, at)->frame)->kind;
}

void thread_sums_add(struct thread_sums *to, const struct model *m, uint32_t stack,
	uint32_t state, uint64_t ticks, int64_t wall_ns, int64_t cpu_ns)
{
	enum model_frame_kind root = stack != 0 ? root_kind(m, stack) : MODEL_PYTHON;

	to->ticks += ticks;
	to->wall_ns += wall_ns;
	to->cpu_ns += cpu_ns;
	if (root == MODEL_NOT_SAMPLED)
		to->not_sampled_ns += cpu_ns;
	if (root == MODEL_TRUNCATED)
		to->truncated += ticks;
	if (root == MODEL_UNREADABLE)
		to->unreadable += ticks;
	if ((state & REC_APPROXIMATE) != 0)
		to->approximate += ticks;
}

uint64_t thread_sums_parked_ns(const struct model_thread *t)
{
	return t->gap_ns[REC_GAP_PARKED] + t->gap_ns[REC_GAP_STOPPED];
}

int64_t thread_sums_blocked_ns(const struct model_thread *t)
{
	double left = (double)t->last_ns - (double)t->first_ns;

	if (!t->accounted || t->coarse || t->first_ns == 0)
		return -1;
	left -= (double)thread_sums_parked_ns(t);
	left -= (double)t->gap_ns[REC_GAP_DISABLED];
	left -= (double)t->cpu_ns + (double)t->delay_ns;
	return left > 0 ? (int64_t)left : 0;
}
