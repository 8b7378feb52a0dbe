/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach.h"
#include "base/buf.h"
#include "base/parse.h"
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

static const char *state_text(const struct pystacks_thread *t)
{
	struct proc_stat st;

	if (t->tid == 0 || proc_stat_read(pid, (pid_t)t->tid, &st) != 0)
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

static void print_thread(
	const struct pystacks_thread *t, const struct pynames *names, uint32_t main_tid)
{
	const char *name = pynames_find(
		names, t->interpreter, t->python_id, t->tid == main_tid ? 0 : t->tid);

	printf("\nThread %u", t->tid);
	if (name != NULL) {
		printf(" \"");
		print_clean(name);
		printf("\"");
	}
	if (t->interpreter != 0)
		printf(" of interpreter %llu", (unsigned long long)t->interpreter);
	printf("%s%s%s\n", state_text(t), t->holds_gil ? ", holds the GIL" : "",
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

	proc_describe(pid, what, sizeof(what));
	printf("Process %d: ", (int)pid);
	print_clean(what);
	printf("\nCPython %s (", found.version);
	print_clean(found.object);
	printf("), %zu thread%s\n", stacks->count, stacks->count == 1 ? "" : "s");
	/* CPython lists the newest first; the oldest is the main thread. */
	for (size_t i = stacks->count; i-- > 0;)
		print_thread(&stacks->threads[i], names, main_tid);
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
