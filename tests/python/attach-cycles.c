/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches to a process and detaches again, many times, and looks whether everything is
 * as before.
 *
 * usage: attach-cycles PID CYCLES [thread]
 *
 * Each cycle lets the sampler take some ticks.  Compared before the first and after
 * the last cycle: mappings (but for the heap and other memory that the program itself
 * grows), descriptors, children, signal masks and actions.  Prints one line: "cycles N
 * refused N held MEDIAN us max MAX us". Status 1 when something differs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "inject/inject.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/python.h"
#include "wire/ring.h"

enum {
	TICKS = 3,
	INTERVAL_NS = 200000,
	WAIT_S = 10,
	MAX_REFUSED_IN_A_ROW = 20,
};

/* What must be the same: one text. */
static void describe(pid_t pid, struct buf *b)
{
	static const char *const lines[] = { "SigBlk", "SigIgn", "SigCgt", "ShdPnd",
		"Seccomp:", "NoNewPrivs", "TracerPid" };
	struct proc_maps maps;
	struct proc_ids children;
	struct buf status = BUF_INIT(1 << 20);
	char path[64];

	if (proc_maps_read(pid, &maps, NULL) == 0) {
		for (size_t i = 0; i < maps.count; i++)
			if (maps.map[i].executable || maps.map[i].shared)
				buf_printf(b, "map %llx-%llx %s\n",
					(unsigned long long)maps.map[i].start,
					(unsigned long long)maps.map[i].end,
					maps.map[i].path);
		proc_maps_done(&maps);
	}
	if (proc_children(pid, &children) == 0) {
		for (size_t i = 0; i < children.count; i++)
			buf_printf(b, "child %d\n", (int)children.id[i]);
		proc_ids_done(&children);
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	(void)fd_read_file(-100, path, &status);
	for (char *at = status.data, *end; at != NULL && *at != '\0'; at = end + 1) {
		end = strchrnul(at, '\n');
		for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
			if (strncmp(at, lines[i], strlen(lines[i])) == 0)
				buf_printf(b, "%.*s\n", (int)(end - at), at);
		if (*end == '\0')
			break;
	}
	for (int fd = 0; fd < 64; fd++) {
		char target[256];

		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
		ssize_t n = readlink(path, target, sizeof(target));

		if (n > 0)
			buf_printf(b, "fd %d %.*s\n", fd, (int)n, target);
	}
	buf_done(&status);
}

/* Describe what stays: seen twice in a row, some ms apart. */
static void settle(pid_t pid, struct buf *b)
{
	int64_t end = clock_monotonic_ns() + WAIT_S * 1000000000ll;
	struct buf again = BUF_INIT(4 << 20);
	bool same;

	do {
		buf_clear(b);
		buf_clear(&again);
		describe(pid, b);
		clock_sleep_ns(5000000);
		describe(pid, &again);
		same = strcmp(buf_text(b), buf_text(&again)) == 0;
	} while (!same && clock_monotonic_ns() < end);
	buf_done(&again);
}

static void give_orders(struct ring_reader *ring, const struct python_found *python)
{
	struct ring_options *o = &ring->header->options;

	o->interval_ns = INTERVAL_NS;
	o->max_stack = 128;
	o->runtime = python->runtime;
	o->code_type = python->code_type;
	memcpy(o->layout, &python->layout, sizeof(python->layout));
	__atomic_store_n(&ring->header->order, RING_ORDER_RUN, __ATOMIC_RELEASE);
}

/* Let it sample; then order it to leave.  False when it did not sample in time. */
static bool let_sample(int ring_fd, const struct python_found *python)
{
	uint64_t bytes = RING_HEADER_BYTES + RING_DATA_BYTES;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0);
	struct ring_reader ring;
	int64_t end = clock_monotonic_ns() + WAIT_S * 1000000000ll;

	if (at == MAP_FAILED)
		return false;
	while (ring_reader_init(&ring, at, bytes) != 0 && clock_monotonic_ns() < end)
		clock_sleep_ns(100000);
	give_orders(&ring, python);
	while (ring_counter_get(ring.header, RING_TICKS) < TICKS &&
		clock_monotonic_ns() < end)
		clock_sleep_ns(100000);
	bool sampled = ring_counter_get(ring.header, RING_TICKS) >= TICKS;

	__atomic_store_n(&ring.header->order, RING_ORDER_LEAVE, __ATOMIC_RELEASE);
	while (__atomic_load_n(&ring.header->state, __ATOMIC_ACQUIRE) != RING_LEFT &&
		clock_monotonic_ns() < end)
		clock_sleep_ns(100000);
	(void)munmap(at, bytes);
	return sampled;
}

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	struct buf before = BUF_INIT(4 << 20), after = BUF_INIT(4 << 20);
	struct python_found python;
	struct err err = { "" };
	int refused = 0, in_a_row = 0, bad = 0;

	bool thread = argc == 4 && strcmp(argv[3], "thread") == 0;

	if (argc != 3 && !thread) {
		fprintf(stderr, "usage: attach-cycles PID CYCLES [thread]\n");
		return 2;
	}
	pid_t pid = atoi(argv[1]);
	int cycles = atoi(argv[2]);
	int64_t *held = xcalloc((size_t)cycles, sizeof(*held));

	if (python_find(pid, &python, &err) != 0 || python.kind != PYTHON_CPYTHON) {
		printf("# no Python: %s\n", err.text);
		return 1;
	}
	settle(pid, &before);
	for (int i = 0; i < cycles && bad == 0; i++) {
		struct inject_task task;

		if (inject_start(pid, 0, thread ? INJECT_THREAD : 0, &task, &err) !=
			0) {
			/* At times no thread is at a safe place: that is an answer. */
			refused++;
			i--;
			if (++in_a_row > MAX_REFUSED_IN_A_ROW) {
				printf("# cannot attach: %s\n", err.text);
				bad = 1;
			}
			continue;
		}
		in_a_row = 0;
		if (!let_sample(task.ring_fd, &python)) {
			printf("# cycle %d: no ticks\n", i);
			bad = 1;
		}
		if (inject_stop(&task, &err) != 0) {
			printf("# cycle %d: %s\n", i, err.text);
			bad = 1;
		}
		held[i] = task.held_ns;
	}
	/* What the program itself does at times, such as blocking all signals while it
	 * starts a thread, passes. */
	int64_t end = clock_monotonic_ns() + WAIT_S * 1000000000ll;

	do {
		buf_clear(&after);
		describe(pid, &after);
	} while (strcmp(buf_text(&before), buf_text(&after)) != 0 &&
		 clock_monotonic_ns() < end);
	if (strcmp(buf_text(&before), buf_text(&after)) != 0) {
		printf("# before:\n%s# after:\n%s", buf_text(&before),
			buf_text(&after));
		bad = 1;
	}
	qsort(held, (size_t)cycles, sizeof(*held), compare_times);
	printf("cycles %d refused %d held %lld us max %lld us\n", cycles, refused,
		(long long)held[cycles / 2] / 1000, (long long)held[cycles - 1] / 1000);
	free(held);
	buf_done(&before);
	buf_done(&after);
	return bad;
}
