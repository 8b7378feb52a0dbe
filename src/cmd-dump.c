/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cmd.h"
#include "frame-text.h"
#include "msg.h"
#include "proc/process.h"
#include "proc/pynames.h"
#include "proc/pystacks.h"

static pid_t pid;

static int set_pid(const char *value, struct err *err)
{
	uint64_t number;

	if (parse_number(value, INT32_MAX, &number) != 0 || number == 0)
		return err_set(err, -EINVAL, "'%s' is not a process id", value);
	pid = (pid_t)number;
	return 0;
}

static const struct opt dump_options[] = {
	{ 'p', "pid", "PID", "the process to look at", .set = set_pid },
	{ 0 },
};

static void print_clean(const char *text)
{
	struct buf b = BUF_INIT(4 << 20);

	frame_text_clean(&b, text);
	printf("%s", buf_text(&b));
	buf_done(&b);
}

/* A thread's number: the kernel's, and what the program knows it by. */
struct number {
	uint32_t outer, inner;
};

/* Of a process in another pid namespace, where they differ. */
struct numbers {
	struct number *list;
	size_t count, capacity;
	bool differ;
};

static void read_numbers(bool differ, struct numbers *ret)
{
	struct proc_ids threads;

	*ret = (struct numbers){ .differ = differ };
	if (!differ || proc_threads(pid, &threads) != 0)
		return;
	for (size_t i = 0; i < threads.count; i++) {
		struct proc_status st;

		if (proc_thread_status_read(pid, threads.id[i], &st) != 0)
			continue;
		ret->list = xgrow(
			ret->list, ret->count, &ret->capacity, sizeof(*ret->list));
		ret->list[ret->count++] = (struct number){
			.outer = (uint32_t)threads.id[i],
			.inner = (uint32_t)st.inner_pid,
		};
	}
	proc_ids_done(&threads);
}

/* 0: not known, as of a thread that has ended meanwhile. */
static uint32_t outer_number(const struct numbers *n, uint32_t inner)
{
	if (!n->differ)
		return inner;
	for (size_t i = 0; i < n->count; i++)
		if (n->list[i].inner == inner)
			return n->list[i].outer;
	return 0;
}

static const char *state_text(uint32_t tid)
{
	struct proc_stat st;

	if (tid == 0 || proc_stat_read(pid, (pid_t)tid, &st) != 0)
		return "";
	switch (st.state) {
	case 'R':
		return ", running";
	case 'D':
		return ", in an uninterruptible wait";
	case 'T':
	case 't':
		return ", stopped";
	default:
		return ", waiting";
	}
}

/* tid: the kernel's number for it. */
static void print_thread(const struct pystacks_thread *t, uint32_t tid,
	const struct pynames *names, uint32_t main_tid)
{
	const char *name = pynames_find(
		names, t->interpreter, t->python_id, t->tid == main_tid ? 0 : t->tid);

	printf("\nThread %u", tid);
	if (name != NULL) {
		printf(" \"");
		print_clean(name);
		printf("\"");
	}
	if (t->interpreter != 0)
		printf(" of interpreter %llu", (unsigned long long)t->interpreter);
	printf("%s%s%s\n", state_text(tid), t->holds_gil ? ", holds the GIL" : "",
		t->steady ? "" : ", changing while it was read: may be torn");
	for (size_t i = 0; i < t->count; i++) {
		const struct pystacks_frame *f = &t->frames[i];

		printf("    ");
		print_clean(f->name);
		printf(" (");
		print_clean(f->file);
		if (f->line > 0)
			printf(":%lld", (long long)f->line);
		printf(")\n");
	}
	if (t->count == 0)
		printf("    (no Python frame)\n");
}

static int run(int argc, char **argv)
{
	struct python_found found;
	struct pystacks *stacks;
	struct err err;
	char what[160];

	if (argc != 0)
		return opt_usage_error("unexpected argument '%s'", argv[0]);
	if (pid == 0)
		return opt_usage_error("name a process: pystack dump -p PID");
	int status = attach_find(pid, "dump", &found);

	if (status != STATUS_OK)
		return status;
	int code = pystacks_read(pid, &found, &stacks, &err);

	if (code != 0)
		return attach_refused(pid, "dump", code, err.text);
	struct pynames *names = pynames_read(pid, &found);
	struct proc_status of_process;
	uint32_t main_tid = (uint32_t)(proc_status_read(pid, &of_process) == 0
					       ? of_process.inner_pid
					       : pid);

	struct numbers numbers;

	read_numbers(main_tid != (uint32_t)pid || proc_same_namespace(pid, "pid") == 0,
		&numbers);
	proc_describe(pid, what, sizeof(what));
	printf("Process %d: ", (int)pid);
	print_clean(what);
	printf("\nCPython %s (", found.version);
	print_clean(found.object);
	printf("), %zu thread%s\n", stacks->count, stacks->count == 1 ? "" : "s");
	/* CPython lists the newest first; the oldest is the main thread. */
	for (size_t i = stacks->count; i-- > 0;) {
		const struct pystacks_thread *t = &stacks->threads[i];

		print_thread(t, outer_number(&numbers, t->tid), names, main_tid);
	}
	free(numbers.list);
	pynames_free(names);
	pystacks_free(stacks);
	return STATUS_OK;
}

const struct cmd cmd_dump = {
	.name = "dump",
	.summary = "print what all threads of a running process are doing now",
	.usage = "-p PID",
	.notes =
		"The process is only read: nothing is put into it and no thread is stopped.",
	.options = dump_options,
	.run = run,
};
