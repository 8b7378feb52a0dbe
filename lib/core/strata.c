/* SPDX-License-Identifier: Apache-2.0 */
#include "core/strata.h"

/* xorshift64*: enough for drawing instants, and no more is needed. */
static uint64_t draw(struct strata *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return s->random * 0x2545f4914f6cdd1dull;
}

/* Put the tick anywhere in the stratum, every ns with the same chance (the bias
 * of the multiplication is below 2^-20 for strata up to an hour). */
static void place_tick(struct strata *s)
{
	uint64_t high = draw(s) >> 32;
	uint64_t length = (uint64_t)s->length;

	s->tick = s->start + (int64_t)((length >> 32) * high +
				       (((length & 0xffffffffu) * high) >> 32));
}

void strata_init(struct strata *s, uint64_t seed, int64_t now, int64_t length)
{
	*s = (struct strata){
		.random = seed * 2 + 1,
		.start = now,
		.length = length,
		.next_length = length,
	};
	/* A poor seed is spread over all bits before its first use. */
	for (int i = 0; i < 8; i++)
		(void)draw(s);
	place_tick(s);
}

int64_t strata_spacing(struct strata *s, int64_t mean)
{
	uint64_t high = draw(s) >> 32;

	return mean / 2 + (int64_t)((uint64_t)mean * high >> 32);
}

uint32_t strata_draw(struct strata *s, uint32_t n)
{
	return (uint32_t)((draw(s) >> 32) * n >> 32);
}

void strata_set_length(struct strata *s, int64_t length)
{
	s->next_length = length;
}

uint64_t strata_next(struct strata *s, int64_t now)
{
	uint64_t left_out = 0;

	s->start += s->length;
	s->length = s->next_length;
	if (now - s->start >= s->length) {
		left_out = (uint64_t)(now - s->start) / (uint64_t)s->length;
		s->start += (int64_t)left_out * s->length;
	}
	place_tick(s);
	return left_out;
}

void strata_restart(struct strata *s, int64_t now)
{
	s->start = now;
	s->length = s->next_length;
	place_tick(s);
}

int64_t strata_adapt(const struct strata_budget *b, int64_t length, int64_t elapsed,
	int64_t sampler_cpu, int64_t program_cpu)
{
	if (elapsed <= 0 || sampler_cpu <= 0)
		return length;

	int64_t budget = program_cpu / 1000 * b->program_ppm / 1000 +
			 elapsed / 1000 * b->core_ppm / 1000;

	if (budget < 1)
		budget = 1;
	/* The cost is that of the ticks: it goes down as the strata get longer. */
	int64_t wanted = length;

	if (sampler_cpu / budget >= 4)
		wanted = length * 4;
	else
		wanted = length * (sampler_cpu * 1024 / budget) / 1024;
	if (wanted < length / 2)
		wanted = length / 2;
	if (wanted > b->longest)
		wanted = b->longest;
	if (wanted < b->shortest)
		wanted = b->shortest;
	return wanted;
}
