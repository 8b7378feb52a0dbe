/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time of threads, and which of them run without holding the GIL.
 *
 * The kernel's figures are read lazily, in windows of at least 50 ms (the figure of
 * a running thread moves in steps of a scheduler tick, 4 ms).  The process clock
 * comes first: if it stood still, nobody ran.  Then the threads are read that can
 * have run: those seen with the GIL, those known to run without it.  Only if they
 * do not account for the process's time are all the others read, ever more rarely
 * while that finds nothing (threads that Python does not know of use it then).
 *
 * A thread whose CPU time goes on exceeding what it was seen to run with the GIL
 * runs outside it, in C code that released it: its state is then read at every tick.
 *
 * A checkpoint states the kernel's figure at a tick.  Between two of them a reader
 * spreads the CPU time over the ticks seen running, so none is sent before there
 * are such ticks; what remains at the end is shown as not sampled.
 */
#include "core/core-internal.h"

enum {
	WINDOW_NS = 50000000,
	UNEXPLAINED_NS = 8000000,
	FULL_LOOK_MAX_NS = 1000000000,
	ASK_FLOOR_NS = 20000000,
	ASK_STRATA = 16,
	CHECKPOINT_TICKS = 16,
	CHECKPOINT_NS = 1000000000,
	OPEN_READ = 0x80000, /* O_RDONLY | O_CLOEXEC */
	FILE_BYTES = 512,
	NEW_THREAD_SLACK_NS = 1000000,
};

/* "TID/file" below the task directory: a descriptor, or -errno. */
static int open_of_thread(struct core *c, uint32_t tid, const char *file)
{
	char path[32];
	char digits[10];
	unsigned n = 0, at = 0;

	if (c->task_directory < 0 || tid == 0)
		return -SYS_EPERM;
	do {
		digits[n++] = (char)('0' + tid % 10);
		tid /= 10;
	} while (tid != 0);
	while (n != 0)
		path[at++] = digits[--n];
	path[at++] = '/';
	while (*file != '\0')
		path[at++] = *file++;
	path[at] = '\0';
	return (int)sys_openat(c->task_directory, path, OPEN_READ);
}

void cpu_open(struct core *c, struct thread *t)
{
	t->schedstat = open_of_thread(c, t->tid, "schedstat");
	t->look = true;
}

void cpu_close(struct core *c, struct thread *t)
{
	(void)c;
	if (t->schedstat > 0)
		(void)sys_close(t->schedstat);
	if (t->stat > 0)
		(void)sys_close(t->stat);
	t->schedstat = t->stat = -1;
}

unsigned cpu_comm(struct core *c, uint32_t tid, char *text)
{
	int fd = open_of_thread(c, tid, "comm");
	long n = fd > 0 ? sys_pread(fd, text, COMM_BYTES) : 0;

	if (fd > 0)
		(void)sys_close(fd);
	/* A line. */
	return n > 1 ? (unsigned)n - 1 : 0;
}

static uint64_t number(const char **at, const char *end)
{
	uint64_t value = 0;

	while (*at < end && (**at < '0' || **at > '9'))
		(*at)++;
	while (*at < end && **at >= '0' && **at <= '9')
		value = value * 10 + (uint64_t)(*(*at)++ - '0');
	return value;
}

/* CPU ns and times put on a CPU; false when the thread is gone. */
static bool read_schedstat(struct thread *t, uint64_t *ret_cpu, uint64_t *ret_runs)
{
	char text[96];
	long n = t->schedstat > 0 ? sys_pread(t->schedstat, text, sizeof(text)) : -1;
	const char *at = text;

	if (n <= 0)
		return false;
	*ret_cpu = number(&at, text + n);
	(void)number(&at, text + n);
	*ret_runs = number(&at, text + n);
	return true;
}

/* What stands behind the name in a stat file: "S 1 2 ...".  The name may hold
 * anything, so the last parenthesis counts.  Returns how much there is. */
static long behind_name(int fd, char *text, const char **ret_at)
{
	long n = fd >= 0 ? sys_pread(fd, text, FILE_BYTES) : -1;

	for (long i = n - 3; i > 0; i--)
		if (text[i] == ')') {
			*ret_at = text + i + 2;
			return n - i - 2;
		}
	return 0;
}

static char state_letter(int fd)
{
	char text[FILE_BYTES];
	const char *at;

	return behind_name(fd, text, &at) > 0 ? *at : '?';
}

uint64_t cpu_address_space(int stat_fd)
{
	/* The state is the first of these fields, the size the 21st; signs do not
	 * matter to number(), which passes over all that is no digit. */
	enum { NUMBERS_BEFORE = 19 };
	char text[FILE_BYTES];
	const char *at;
	long n = behind_name(stat_fd, text, &at);
	const char *end = at + n;

	if (n <= 0)
		return 0;
	for (int i = 0; i < NUMBERS_BEFORE; i++)
		(void)number(&at, end);
	return number(&at, end);
}

uint64_t cpu_start_ticks(struct core *c, uint32_t tid)
{
	/* The 20th behind the name. */
	enum { NUMBERS_BEFORE = 18 };
	int fd = open_of_thread(c, tid, "stat");
	char text[FILE_BYTES];
	const char *at;
	long n = behind_name(fd, text, &at);
	const char *end = at + n;

	if (fd > 0)
		(void)sys_close(fd);
	if (n <= 0)
		return 0;
	for (int i = 0; i < NUMBERS_BEFORE; i++)
		(void)number(&at, end);
	return number(&at, end);
}

char cpu_main_state(struct core *c)
{
	return state_letter(c->stat_fd);
}

bool cpu_program_stopped(struct core *c)
{
	char state = cpu_main_state(c);

	return state == 'T' || state == 't';
}

int64_t cpu_of_program(struct core *c)
{
	/* The CPU clock of a process, by its id. */
	return loop_clock((int)((~(uint32_t)c->args.program_pid << 3) | 2));
}

bool cpu_runs_outside(struct core *c, struct thread *t)
{
	if (!t->ask)
		return false;
	if (t->stat < 0)
		t->stat = open_of_thread(c, t->tid, "stat");
	return state_letter(t->stat) == 'R';
}

/* Ticks seen running since the last checkpoint, those of the open run included.
 * With the tick in hand, if it is already part of the run. */
static uint64_t running_ticks(struct core *c, const struct thread *t)
{
	uint64_t open =
		t->in_run && (t->state & REC_RUNNING) != 0 ? c->tick - t->run_first : 0;

	return t->running_ticks + open;
}

static void send_checkpoint(struct core *c, struct thread *t)
{
	struct record r;

	/* The runs before it must be told apart from those behind it. */
	run_close(c, t);
	record_begin(&r, REC_CPU);
	record_number(&r, t->id);
	record_number(&r, c->tick - c->cut_base);
	record_number(&r, t->cpu_ns);
	record_number(&r, t->run_count);
	if (t->anew)
		record_number(&r, REC_CPU_ANEW);
	if (!record_put(c, &r, false))
		return;
	t->anew = t->brief = false;
	t->checkpoint_cpu_ns = t->cpu_ns;
	t->checkpoint_ns = c->now_ns;
	t->running_ticks = 0;
}

/*
 * A new thread begins at 0, whatever it used so far.  One that is older than the
 * sampler, or that has used more than there was time for since the last tick, begins
 * where it stands: only its thread state is new, as of a thread of C that comes into
 * Python again and again.
 */
void cpu_begin(struct core *c, struct thread *t)
{
	int64_t most = c->now_ns - c->last_tick_ns + NEW_THREAD_SLACK_NS;
	uint64_t cpu, runs;

	/* What it used between two thread states is no Python's. */
	t->anew = c->older || !read_schedstat(t, &cpu, &runs) || cpu > (uint64_t)most;
	bool brief = t->anew && !c->older;

	if (t->anew)
		(void)read_schedstat(t, &t->cpu_ns, &t->run_count);
	send_checkpoint(c, t);
	t->brief = brief;
}

/*
 * The last word.  Of one that was in Python for a moment, half a stratum is missing in
 * front: what it was seen at tells more than what it used behind that.
 */
void cpu_finish(struct core *c, struct thread *t)
{
	(void)read_schedstat(t, &t->cpu_ns, &t->run_count);
	t->anew |= t->brief;
	send_checkpoint(c, t);
}

void cpu_checkpoint_all(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id != 0 && t->cpu_ns != t->checkpoint_cpu_ns &&
			running_ticks(c, t) != 0)
			send_checkpoint(c, t);
	}
}

/* Read one thread's figures.  Returns the CPU time since the last look. */
static int64_t look_at(struct core *c, struct thread *t)
{
	uint64_t before = t->cpu_ns;
	int64_t ask_above = ASK_FLOOR_NS + ASK_STRATA * c->strata.length;

	t->look = false;
	if (!read_schedstat(t, &t->cpu_ns, &t->run_count)) {
		c->relist = true;
		return 0;
	}
	int64_t used = (int64_t)(t->cpu_ns - before);

	t->excess_ns += used - t->held_ns - t->excess_ns / 16;
	if (t->excess_ns < 0)
		t->excess_ns = 0;
	t->held_ns = 0;
	t->ask = t->excess_ns > (t->ask ? ask_above / 2 : ask_above);
	if (used != 0 &&
		(running_ticks(c, t) >= CHECKPOINT_TICKS ||
			(running_ticks(c, t) != 0 &&
				c->now_ns - t->checkpoint_ns >= CHECKPOINT_NS)))
		send_checkpoint(c, t);
	return used;
}

/* Also what no tick saw: this is the last word on the time until now. */
void cpu_settle(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id == 0)
			continue;
		(void)look_at(c, t);
		if (t->cpu_ns != t->checkpoint_cpu_ns)
			send_checkpoint(c, t);
	}
	c->window_ns = c->now_ns;
	c->window_cpu = cpu_of_program(c);
}

void cpu_resume(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id == 0)
			continue;
		(void)read_schedstat(t, &t->cpu_ns, &t->run_count);
		t->anew = true;
		send_checkpoint(c, t);
	}
	c->window_ns = c->now_ns;
	c->window_cpu = cpu_of_program(c);
}

/* Read all threads with the look mark set as given. */
static int64_t look_at_those(struct core *c, bool marked)
{
	int64_t used = 0;

	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id != 0 && t->look == marked)
			used += look_at(c, t);
	}
	return used;
}

/* Somebody ran who was not looked at. */
static void look_at_all(struct core *c)
{
	if (c->now_ns - c->full_look_ns < c->full_look_step)
		return;
	c->full_look_ns = c->now_ns;
	if (look_at_those(c, false) > UNEXPLAINED_NS / 2)
		c->full_look_step = 0;
	else if (c->full_look_step < FULL_LOOK_MAX_NS)
		c->full_look_step =
			c->full_look_step == 0 ? WINDOW_NS * 2 : c->full_look_step * 2;
}

void cpu_tick(struct core *c)
{
	if (c->now_ns - c->window_ns < WINDOW_NS)
		return;
	c->window_ns = c->now_ns;

	int64_t cpu = cpu_of_program(c);
	int64_t used = cpu - c->window_cpu;

	c->window_cpu = cpu;
	if (used <= 0) {
		if (cpu_program_stopped(c))
			c->stopped_since = c->now_ns;
		return;
	}
	int64_t explained = look_at_those(c, true);

	if (used - explained > UNEXPLAINED_NS)
		look_at_all(c);
}
