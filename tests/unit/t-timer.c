/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffer between the handler of a CPU timer and the sampler: what one puts in the
 * other takes out, whole and in order, also over its end and while both are at it.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/timer.h"
#include "tap.h"

static struct timer_buffer buffer;

/* A sample of n frames that all follow from a number. */
static bool put(struct timer_buffer *b, uint32_t number, uint32_t n)
{
	struct timer_sample s = { .stored = n,
		.missing = number & 0xffff,
		.overruns = number,
		.complete = (number & 1) != 0 };

	if (timer_room(b) < TIMER_HEAD_WORDS + n)
		return false;
	for (uint32_t i = 0; i < n; i++)
		timer_set(b, TIMER_HEAD_WORDS + i, (uint64_t)number << 32 | i);
	timer_publish(b, &s);
	return true;
}

static bool is_sample(
	const struct timer_buffer *b, const struct timer_sample *s, uint32_t number)
{
	bool good = s->overruns == number && s->missing == (number & 0xffff) &&
		    s->complete == ((number & 1) != 0);

	for (uint32_t i = 0; i < s->stored; i++)
		good &= timer_frame(b, i) == ((uint64_t)number << 32 | i);
	return good;
}

static void test_words(void)
{
	const uint64_t code = 0x7ffffffffff8;
	uint64_t w = timer_word(code, 12345);

	tap_ok(timer_word_code(w) == code && timer_word_instr(w) == 12345,
		"the highest address and an instruction in a word");
	tap_ok(timer_word_instr(timer_word(code, TIMER_INSTR_NONE)) == TIMER_INSTR_NONE,
		"not begun");
	tap_ok(timer_word_instr(timer_word(8, 0x12345678)) == TIMER_INSTR_BAD &&
			timer_word_code(timer_word(8, 0x12345678)) == 8,
		"an instruction that cannot be does not change the address");
}

static void test_order(void)
{
	struct timer_sample s;
	uint32_t in = 0, out = 0, full = 0;
	bool good = true;

	memset(&buffer, 0, sizeof(buffer));
	tap_ok(!timer_next(&buffer, &s), "nothing is in an empty buffer");
	/* Sizes and places of every kind. */
	while (out < 100000) {
		uint32_t n = in * 7919 % (TIMER_FRAMES + 1);

		if (in % 3 != 2 && put(&buffer, in, n)) {
			in++;
			continue;
		}
		full++;
		if (!timer_next(&buffer, &s)) {
			good &= in == out;
			good &= put(&buffer, in, n);
			in++;
			continue;
		}
		good &= s.stored == out * 7919 % (TIMER_FRAMES + 1) &&
			is_sample(&buffer, &s, out);
		timer_consume(&buffer, &s);
		out++;
	}
	tap_ok(good && full != 0, "100000 samples come out as they went in");
}

static void test_full(void)
{
	struct timer_sample s;
	uint32_t n = 0;

	memset(&buffer, 0, sizeof(buffer));
	while (put(&buffer, n, 10))
		n++;
	tap_is(n, TIMER_WORDS / (TIMER_HEAD_WORDS + 10), "so many of 10 frames fit");
	tap_ok(timer_next(&buffer, &s) && is_sample(&buffer, &s, 0),
		"what does not fit leaves what is there");
	timer_skip(&buffer);
	tap_ok(!timer_next(&buffer, &s) && timer_room(&buffer) == TIMER_WORDS,
		"all can be passed over");
}

/* The memory is the program's. */
static void test_hostile(void)
{
	struct timer_sample s;
	bool any = false;

	memset(&buffer, 0xff, sizeof(buffer));
	buffer.tail = 0;
	any |= timer_next(&buffer, &s);
	buffer.head = TIMER_WORDS;
	any |= timer_next(&buffer, &s);
	buffer.head = TIMER_WORDS + 1;
	any |= timer_next(&buffer, &s);
	buffer.head = 1;
	any |= timer_next(&buffer, &s);
	buffer.head = 100;
	buffer.words[0] = 99;
	any |= timer_next(&buffer, &s);
	tap_ok(!any, "heads and counts that cannot be are no samples");
	tap_is((long)timer_room(&buffer), TIMER_WORDS - 100,
		"room is never more than all");
	buffer.head = (uint64_t)-5;
	tap_is((long)timer_room(&buffer), 0, "nor less than none");
}

/* Two threads that wait for each other by spinning take their time under valgrind,
 * which runs one at once. */
static uint32_t samples = 2000000;

static void *produce(void *arg)
{
	for (uint32_t i = 0; i < samples;)
		i += put(&buffer, i, i % 29);
	return arg;
}

static void test_both(void)
{
	pthread_t producer;
	struct timer_sample s;
	bool good = true;

	memset(&buffer, 0, sizeof(buffer));
	if (pthread_create(&producer, NULL, produce, NULL) != 0) {
		tap_ok(false, "a thread");
		return;
	}
	for (uint32_t i = 0; i < samples;) {
		if (!timer_next(&buffer, &s))
			continue;
		good &= s.stored == i % 29 && is_sample(&buffer, &s, i);
		timer_consume(&buffer, &s);
		i++;
	}
	(void)pthread_join(producer, NULL);
	tap_ok(good, "%u samples from one thread to another", samples);
}

int main(void)
{
	if (tap_valgrind())
		samples = 2000;
	tap_ok(sizeof(struct timer_buffer) <= 8192, "8 KiB a thread: %zu bytes",
		sizeof(struct timer_buffer));
	test_words();
	test_order();
	test_full();
	test_hostile();
	test_both();
	return tap_done();
}
