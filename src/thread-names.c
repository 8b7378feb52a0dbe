/* SPDX-License-Identifier: Apache-2.0 */
#include "thread-names.h"

#include <string.h>

#include "base/clock.h"
#include "proc/process.h"
#include "proc/pynames.h"

enum {
	/* A thread that the threading module does not know is not asked for again and
	 * again; at the last time the kernel is asked once more. */
	NAME_TRIES = 5,
	AGAIN_NS = 1000000000,
	AGAIN_SHARE =
		500, /* threads may be given new names: at most 1/500 of the time */
};

static bool may_have_name(const struct decoder_thread *t)
{
	return t->file_thread != 0 && !t->ended;
}

static bool is_asked_for(const struct decoder_thread *t)
{
	return may_have_name(t) && t->named != REC_NAME_THREADING &&
	       t->name_tries < NAME_TRIES;
}

static bool any_asked_for(struct decoder *d)
{
	struct decoder_thread *t;

	for (size_t i = 0; (t = decoder_thread_at(d, i)) != NULL; i++)
		if (is_asked_for(t))
			return true;
	return false;
}

/* The number here of a thread of another pid namespace; 0 when there is none. */
static pid_t tid_here(const struct thread_names *n, uint32_t tid)
{
	struct proc_ids ids = { 0 };
	struct proc_status status;
	pid_t found = 0;

	if (n->main_tid == (uint32_t)n->pid)
		return (pid_t)tid;
	if (proc_threads(n->pid, &ids) != 0)
		return 0;
	for (size_t i = 0; i < ids.count && found == 0; i++)
		if (proc_thread_status_read(n->pid, ids.id[i], &status) == 0 &&
			(uint32_t)status.inner_pid == tid)
			found = ids.id[i];
	proc_ids_done(&ids);
	return found;
}

/* The kernel's, if it is not what the main thread is called. */
static void name_by_kernel(
	const struct thread_names *n, struct decoder *d, struct decoder_thread *t)
{
	struct proc_stat main_thread, thread;
	pid_t tid = t->tid != n->main_tid ? tid_here(n, t->tid) : 0;

	if (tid != 0 && proc_stat_read(n->pid, tid, &thread) == 0 &&
		proc_stat_read(n->pid, 0, &main_thread) == 0 &&
		strcmp(thread.comm, main_thread.comm) != 0)
		decoder_name_thread(d, t, REC_NAME_KERNEL, thread.comm);
}

void thread_names_look(struct thread_names *n, struct decoder *d, bool at_once)
{
	int64_t start = clock_monotonic_ns();
	bool again = at_once || start >= n->next_ns;
	struct decoder_thread *t;

	if (!again && !any_asked_for(d))
		return;
	struct pynames *names = pynames_read(n->pid, n->python);

	for (size_t i = 0; (t = decoder_thread_at(d, i)) != NULL; i++) {
		bool asked_for = is_asked_for(t);

		if (!asked_for && !(again && may_have_name(t)))
			continue;
		const char *name = pynames_find(names, t->interpreter, t->python_id,
			t->tid == n->main_tid ? 0 : t->tid);

		t->name_tries += asked_for;
		if (name != NULL && name[0] != '\0')
			decoder_name_thread(d, t, REC_NAME_THREADING, name);
		else if (asked_for && t->name_tries == NAME_TRIES)
			name_by_kernel(n, d, t);
	}
	pynames_free(names);
	int64_t now = clock_monotonic_ns(), apart = (now - start) * AGAIN_SHARE;

	n->next_ns = now + (apart > AGAIN_NS ? apart : AGAIN_NS);
}
