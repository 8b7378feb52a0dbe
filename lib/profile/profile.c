/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/xalloc.h"

struct builder {
	struct profile *p;
	struct hash_index index;
};

static uint64_t hash_sample(uint32_t thread, uint32_t stack, uint32_t state)
{
	return hash_mix(((uint64_t)thread << 32) | stack, state);
}

static uint64_t hash_of_sample(uint32_t entry, const void *context)
{
	const struct profile_sample *s =
		&((const struct profile *)context)->samples[entry];

	return hash_sample(s->thread, s->stack, s->state);
}

static struct profile_sample *sample_of(
	struct builder *b, uint32_t thread, uint32_t stack, uint32_t state)
{
	struct profile *p = b->p;
	uint64_t hash = hash_sample(thread, stack, state);
	uint32_t at = (uint32_t)hash, entry;

	while (hash_index_next(&b->index, &at, &entry)) {
		struct profile_sample *s = &p->samples[entry];

		if (s->thread == thread && s->stack == stack && s->state == state)
			return s;
	}
	p->samples = xgrow(p->samples, p->count, &p->capacity, sizeof(*p->samples));
	entry = (uint32_t)p->count++;
	p->samples[entry] = (struct profile_sample){
		.thread = thread,
		.stack = stack,
		.state = state,
	};
	hash_index_add(&b->index, hash, entry, hash_of_sample, p);
	return &p->samples[entry];
}

static void add_run(struct model *m, const struct load_run *r, void *context)
{
	struct builder *b = context;
	struct profile_totals *t = &b->p->totals;
	struct profile_sample *s = sample_of(b, r->thread, r->stack, r->state);

	(void)m;
	s->ticks += r->ticks;
	s->timer_samples += r->timer_samples;
	s->timer_ns += r->timer_ns;
	t->timer_samples += r->timer_samples;
	t->timer_ns += r->timer_ns;
	if ((r->state & REC_APPROXIMATE) != 0)
		t->timer_approximate += r->timer_samples;
	s->wall_ns += r->wall_ns;
	s->cpu_ns += r->cpu_ns;
	t->ticks += r->ticks;
	t->wall_ns += r->wall_ns;
	t->cpu_ns += r->cpu_ns;
	if ((r->state & REC_APPROXIMATE) != 0)
		t->approximate_ticks += r->ticks;
	if ((r->state & REC_GIL) != 0)
		t->gil_ns += r->wall_ns;
	if ((r->state & REC_RUNNING) != 0) {
		t->running_ticks += r->ticks;
		t->running_ns += r->wall_ns;
		if (!r->cpu_scaled)
			t->cpu_unscaled_ns += r->cpu_ns;
		if (r->ticks == 0)
			t->cpu_not_sampled_ns += r->cpu_ns;
	}
}

int profile_load(const char *path, struct profile **ret_profile, struct err *err)
{
	struct profile *p = xcalloc(1, sizeof(*p));
	struct builder b = { .p = p };
	struct load_options o = { .cpu = true, .run = add_run, .context = &b };

	p->model = model_new();
	int code = load_file(p->model, path, &o, &p->result, err);

	hash_index_done(&b.index);
	if (code != 0) {
		profile_free(p);
		return code;
	}
	*ret_profile = p;
	return 0;
}

void profile_free(struct profile *p)
{
	if (p == NULL)
		return;
	model_free(p->model);
	free(p->samples);
	free(p);
}

int64_t profile_weight(const struct profile_sample *s, enum profile_event event)
{
	switch (event) {
	case PROFILE_CPU:
		return s->cpu_ns;
	case PROFILE_WALL:
		return s->wall_ns;
	case PROFILE_GIL:
		return (s->state & REC_GIL) != 0 ? s->wall_ns : 0;
	case PROFILE_CPU_TIMER:
		return s->timer_ns;
	case PROFILE_SAMPLES:
		return (int64_t)s->ticks;
	}
	return 0;
}

uint64_t profile_samples(const struct profile_sample *s, enum profile_event event)
{
	return event == PROFILE_CPU_TIMER ? s->timer_samples : s->ticks;
}

int64_t profile_total(const struct profile *p, enum profile_event event)
{
	switch (event) {
	case PROFILE_CPU:
		return p->totals.cpu_ns;
	case PROFILE_WALL:
		return p->totals.wall_ns;
	case PROFILE_GIL:
		return p->totals.gil_ns;
	case PROFILE_CPU_TIMER:
		return p->totals.timer_ns;
	case PROFILE_SAMPLES:
		return (int64_t)p->totals.ticks;
	}
	return 0;
}

bool profile_has_waiting(const struct profile *p)
{
	return model_has_waiting(p->model);
}

bool profile_has_timers(const struct profile *p)
{
	return model_has_timers(p->model) || p->totals.timer_samples != 0;
}

static const char *const event_names[] = { "cpu", "wall", "gil", "cpu-timer",
	"samples" };

int profile_event_parse(const char *name)
{
	for (int i = 0; i < PROFILE_SAMPLES; i++)
		if (strcmp(event_names[i], name) == 0)
			return i;
	return -1;
}

const char *profile_event_name(enum profile_event event)
{
	return event_names[event];
}
