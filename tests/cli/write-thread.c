/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a sample file whose sampler was a thread of the program, and lost its handlers:
 * to a library whose name is as hostile as a name can be, and to nobody.  A second
 * process had a task, a third one was asked to copy by system calls alone.
 *
 * usage: write-thread FILE [waits]
 */
#include <stdio.h>
#include <string.h>

#include "file/writer.h"
#include "wire/ring.h"

enum { MS = 1000000 };

/* No UTF-8, an escape sequence, quotes, a line break. */
#define HOSTILE "/tmp/\xff\x1b[31m\"red\"\\\n.so"

static struct file_text text(const char *s)
{
	return (struct file_text){ s, strlen(s) };
}

static void write_segment(
	struct file_writer *w, uint32_t number, const char *isolation, const char *copy)
{
	struct file_attribute attributes[] = {
		{ text("arg"), text("python3") },
		{ text("arg"), text(HOSTILE) },
		{ text("isolation"), text(isolation) },
		{ text("copy"), text(copy != NULL ? copy : "") },
		{ text("cpu-timer"), text("10000000") },
	};
	struct file_segment s = {
		.segment = number,
		.id = { (uint8_t)number },
		.parent = number - 1,
		.why = number == 1 ? FILE_WHY_SPAWN : FILE_WHY_FORK,
		.pid = 100 + number,
		.mono_ns = 1000 * (uint64_t)MS,
		.real_ns = 1700000000000000000,
		.interval_ns = 10 * MS,
		.attributes = attributes,
		.attribute_count = number == 3    ? 5
				   : copy != NULL ? 4
						  : 3,
	};
	struct file_thread t = { number, number, 100 + number, 7, 0, text(HOSTILE) };

	file_writer_segment(w, &s);
	file_writer_thread(w, &t);
}

static void write_samples(struct file_writer *w, uint32_t segment)
{
	uint64_t late[] = { 1, 5, 6 };
	struct file_ticks ticks = { segment, 0, 10, 1000 * (uint64_t)MS, 10 * MS, 0, 0,
		0, late, segment == 2 ? 3 : 0 };
	struct file_ticks slow = { segment, 10, 2, 1200 * (uint64_t)MS, 50 * MS,
		FILE_TICKS_LIMITED, 0, 0, NULL, 0 };
	struct file_gap gaps[] = {
		{ segment, 1100 * (uint64_t)MS, 1150 * (uint64_t)MS, REC_GAP_MISSED },
		{ segment, 1150 * (uint64_t)MS, 1200 * (uint64_t)MS, REC_GAP_STOPPED },
	};
	struct file_cpu accounts[] = {
		{ segment, 0, 5 * MS, 1, 0, 3 * MS, 0 },
		{ segment, 10, 45 * MS, 4, 0, 13 * MS, 0 },
		{ segment, 12, 50 * MS, 6, 0, 23 * MS, 2 },
	};
	struct file_function f = {
		.file = file_writer_string(w, HOSTILE, strlen(HOSTILE)),
		.name = file_writer_string(w, "w\xc3\xb6rk", 5),
		.first_line = 10,
	};
	struct file_node n = { 0, 0, REC_NODE_PYTHON, file_writer_function(w, &f) };
	struct file_run run = { segment, file_writer_node(w, &n), 1,
		REC_RUNNING | REC_GIL, 0, 4 };
	struct file_run waits = { segment, run.node, FILE_NO_LINE, 0, 4, 6 };

	file_writer_ticks(w, &ticks);
	file_writer_run(w, segment, &run);
	file_writer_run(w, segment, &waits);
	/* The second one has accounts of the kernel's, and time without samples. */
	if (segment != 2)
		return;
	file_writer_ticks(w, &slow);
	for (size_t i = 0; i < 2; i++)
		file_writer_gap(w, &gaps[i]);
	for (size_t i = 0; i < 3; i++)
		file_writer_cpu(w, segment, &accounts[i]);
}

static void write_copy(struct file_writer *w, uint32_t segment, uint64_t ms,
	enum ring_copy_state state, uint32_t flags, uint64_t left_ms)
{
	struct file_copy c = {
		.segment = segment,
		.mono_ns = (1000 + ms) * MS,
		.state = state,
		.flags = flags,
		.warmup_ns = left_ms * MS,
	};

	if ((flags & RING_COPY_TAKEN_SEGV) != 0) {
		c.owner[0] = 0x7f0000001234;
		c.mapping[0] = text(HOSTILE);
	}
	file_writer_copy(w, &c);
}

static void write_timers(struct file_writer *w, uint32_t segment)
{
	struct file_timers t = {
		.segment = segment,
		.mono_ns = 1040 * (uint64_t)MS,
		.state = RING_TIMER_TAKEN,
		.blocked = 2,
		.owner = 0x7f0000005678,
		.mapping = text(HOSTILE),
	};

	file_writer_timers(w, &t);
}

static void write_end(struct file_writer *w, uint32_t segment, uint64_t copies)
{
	struct file_counter counters[] = {
		{ text("ticks"), 10 },
		{ text("copies"), copies },
		{ text("copied"), copies * 256 },
		{ text("copy-errors"), copies / 100 },
		{ text("timer-lost"), 0 },
	};
	struct file_segment_end e = { segment, FILE_END_EXIT, 0, 1100 * (uint64_t)MS,
		counters, sizeof(counters) / sizeof(counters[0]) };

	file_writer_segment_end(w, &e);
}

int main(int argc, char **argv)
{
	const uint32_t both = RING_COPY_CAN_PWRITE | RING_COPY_CAN_READV;
	const uint32_t taken = both | RING_COPY_WANTED | RING_COPY_FELL_BACK |
			       RING_COPY_TAKEN_SEGV | RING_COPY_TAKEN_BUS;
	struct file_summary summary = { .segments = 3, .samples = 30 };
	struct file_mark mark = { 1700000000050000000, text(HOSTILE) };
	struct file_writer *w;
	struct err err = { "" };

	if (argc < 2 || file_writer_open(argv[1], 1, -1, -1, &w, &err) != 0) {
		(void)fprintf(stderr, "write-thread: %s\n", err.text);
		return 1;
	}
	write_segment(w, 1, "thread", "fast");
	write_segment(w, 2, "task", NULL);
	write_segment(w, 3, "thread", "syscall");
	for (uint32_t i = 1; i <= 3; i++)
		write_samples(w, i);
	if (argc > 2) {
		write_copy(w, 1, 0, RING_COPY_BY_SYSCALL, both | RING_COPY_WANTED, 90);
	} else {
		write_copy(w, 1, 0, RING_COPY_WARMUP, both | RING_COPY_WANTED, 20);
		write_copy(w, 1, 20, RING_COPY_BY_LOAD, both | RING_COPY_WANTED, 0);
		write_copy(w, 1, 50, RING_COPY_BY_SYSCALL, taken, 0);
	}
	write_copy(w, 3, 0, RING_COPY_BY_SYSCALL, RING_COPY_CAN_READV, 0);
	write_timers(w, 3);
	file_writer_mark(w, &mark);
	write_end(w, 1, 1000);
	write_end(w, 2, 0);
	write_end(w, 3, 10);
	if (file_writer_publish(w, &err) != 0 ||
		file_writer_close(w, &summary, &err) != 0) {
		(void)fprintf(stderr, "write-thread: %s\n", err.text);
		return 1;
	}
	return 0;
}
