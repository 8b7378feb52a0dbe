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
 * Who has run lately may run without the GIL, in C code that released it: its state is
 * read at every tick at which it does not hold it, while that is cheap.  Where there
 * are too many for that, of those whose CPU time goes on exceeding what they were seen
 * to run with the GIL, less what they had it for without a CPU.  A thread that had the
 * GIL for longer than that may sleep with it: its state is read then, too.
 *
 * A checkpoint states the kernel's figure at a tick.  Between two of them a reader
 * spreads the CPU time over the ticks seen running, so none is sent before there
 * are such ticks; what remains at the end is shown as not sampled.
 *
 * Where schedstat is not to be had (a kernel without it, a container that hides it),
 * the CPU time of stat stands in, in steps of 10 ms.  A thread of the program can read
 * the others' CPU clocks instead, which are exact.
 */
#include "core/core-internal.h"

enum {
	WINDOW_NS = 50000000,
	WINDOW_MAX_NS = 250000000,
	PART_NS = 1000000, /* of the first window */
	PART_THREADS = 16,
	KERNEL_TICK_NS = 4000000, /* in whose steps figures move, as a rule */
	UNEXPLAINED_NS = 8000000,
	FULL_LOOK_MAX_NS = 2000000000,
	ASK_NS = 1000000000, /* from the last look at which it had run */
	ASK_TICKS = 4,       /* but for at least so many */
	ASK_CHEAP = 1500,    /* questions a second, 2 us each */
	ASK_MOST = 64,       /* at a tick */
	/* Of new threads that did not run when they were asked last. */
	VAIN_FREE = 1,
	VAIN_PRICE = 1000000000 / ASK_CHEAP,
	VAIN_ROOM = 64 * VAIN_PRICE,
	ASK_APART_NS = 20000,
	EXCESS_FLOOR_NS = 20000000,
	EXCESS_TICKS = 16,
	EXCESS_WINDOWS = 32,
	DOUBT_ANSWERS = 64,
	DOUBT_SHARE = 8,
	DOUBT_MOST = 3,
	DOUBT_NS = 1000000000,
	SLACK_FLOOR_NS = 10000000,
	SLACK_TICKS = 2,
	LATELY = 8, /* windows */
	SO_FAR_NS = 10000000,
	SO_FAR_MAX_NS = 1000000000,
	CHECKPOINT_TICKS = 16,
	CHECKPOINT_NS = 1000000000,
	CLOCKS_APART_NS = 5000, /* of two clocks that are read one after the other */
	OPEN_READ = 0x80000,    /* O_RDONLY | O_CLOEXEC */
	FILE_BYTES = 512,
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

/* From now on by stat, if it can be had. */
static bool turn_coarse(struct core *c, struct thread *t)
{
	if (t->stat < 0)
		t->stat = open_of_thread(c, t->tid, "stat");
	t->coarse = t->stat >= 0;
	if (t->coarse)
		count(c, RING_NO_SCHEDSTAT, 1);
	return t->coarse;
}

bool cpu_open(struct core *c, struct thread *t)
{
	t->schedstat = open_of_thread(c, t->tid, "schedstat");
	t->look = true;
	/* A new one may be over before it is looked at. */
	if (!c->older) {
		t->ask = t->untried = true;
		t->ask_until = c->now_ns + WINDOW_NS * 2;
	}
	if (t->schedstat >= 0 || (!c->thread && turn_coarse(c, t)))
		return true;
	if (t->schedstat == -SYS_ENOENT)
		return false;
	count(c, RING_NO_SCHEDSTAT, 1);
	return true;
}

void cpu_close(struct core *c, struct thread *t)
{
	(void)c;
	if (t->schedstat > 0)
		(void)sys_close(t->schedstat);
	if (t->stat > 0)
		(void)sys_close(t->stat);
	t->schedstat = t->stat = -1;
	t->coarse = false;
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

/* CPU time alone; false when the thread is gone. */
static bool read_coarse(struct thread *t)
{
	/* The state is the first of these fields, CPU time the 12th and 13th. */
	enum { NUMBERS_BEFORE = 10, CLOCK_TICK_NS = 10000000 };
	char text[FILE_BYTES];
	const char *at;
	long n = behind_name(t->stat, text, &at);
	const char *end = at + n;

	if (n <= 0)
		return false;
	for (int i = 0; i < NUMBERS_BEFORE; i++)
		(void)number(&at, end);
	t->cpu_ns = number(&at, end) * CLOCK_TICK_NS;
	t->cpu_ns += number(&at, end) * CLOCK_TICK_NS;
	return true;
}

struct account {
	uint64_t cpu, delay, count;
};

static bool read_schedstat(int fd, struct account *ret)
{
	char text[96];
	const char *at = text;
	long n = fd >= 0 ? sys_pread(fd, text, sizeof(text)) : -1;

	if (n < 0)
		return false;
	ret->cpu = number(&at, text + n);
	ret->delay = number(&at, text + n);
	ret->count = number(&at, text + n);
	return true;
}

int64_t cpu_own_delay(struct core *c)
{
	struct account a;

	if (!read_schedstat(c->self_stat_fd, &a) || a.count == 0)
		return -1;
	int64_t since = (int64_t)(a.delay - c->own_delay);

	c->own_delay = a.delay;
	return since;
}

/*
 * A thread reads the clocks of the others, which are exact; schedstat, where it can be
 * had, tells the rest, and that it is still the same thread.
 */
static bool read_clock(struct core *c, struct thread *t)
{
	enum { OF_A_THREAD = 6 };
	struct account a = { 0 };

	if (t->tid == 0 || (t->schedstat >= 0 && !read_schedstat(t->schedstat, &a)))
		return false;
	int64_t cpu = loop_clock((int)((~t->tid << 3) | OF_A_THREAD));

	(void)c;
	/* It has run; 0 is that of one that has gone. */
	if (cpu == 0)
		return false;
	t->cpu_ns = (uint64_t)cpu;
	t->delay_ns = a.delay;
	t->run_count = a.count;
	return true;
}

/* What the kernel says of a thread; false when it is gone, or says nothing. */
static bool read_account(struct core *c, struct thread *t)
{
	struct account a;

	if (c->thread)
		return read_clock(c, t);
	if (t->coarse)
		return read_coarse(t);
	if (!read_schedstat(t->schedstat, &a))
		return false;
	t->run_count = a.count;
	/* It has run; a kernel without this account, or a file that hides it, has it
	 * that it has not. */
	if (t->run_count == 0)
		return turn_coarse(c, t) && read_coarse(t);
	t->cpu_ns = a.cpu;
	t->delay_ns = a.delay;
	return true;
}

static char state_letter(int fd)
{
	char text[FILE_BYTES];
	const char *at;

	return behind_name(fd, text, &at) > 0 ? *at : '?';
}

/* A number of a stat file, so many behind the state; signs do not matter to number(),
 * which passes over all that is no digit.  0 when it cannot be read. */
static uint64_t stat_number(int fd, int nth)
{
	char text[FILE_BYTES];
	const char *at;
	long n = behind_name(fd, text, &at);
	const char *end = at + n;

	if (n <= 0)
		return 0;
	for (int i = 1; i < nth; i++)
		(void)number(&at, end);
	return number(&at, end);
}

uint64_t cpu_address_space(int stat_fd)
{
	enum { VSIZE = 20 };

	return stat_number(stat_fd, VSIZE);
}

RARE static long read_of_thread(
	struct core *c, uint32_t tid, const char *name, char *text, size_t size)
{
	int fd = open_of_thread(c, tid, name);
	long n = fd > 0 ? sys_pread(fd, text, size) : -1;

	if (fd > 0)
		(void)sys_close(fd);
	return n;
}

long cpu_status(struct core *c, uint32_t tid, char *text, size_t size)
{
	return read_of_thread(c, tid, "status", text, size);
}

long cpu_call(struct core *c, uint32_t tid, char *text, size_t size)
{
	return read_of_thread(c, tid, "syscall", text, size);
}

uint64_t cpu_start_ticks(struct core *c, uint32_t tid)
{
	enum { STARTTIME = 19 };
	int fd = open_of_thread(c, tid, "stat");
	uint64_t ticks = stat_number(fd, STARTTIME);

	if (fd > 0)
		(void)sys_close(fd);
	return ticks;
}

char cpu_main_state(struct core *c)
{
	return state_letter(c->stat_fd);
}

uint64_t cpu_thread_count(struct core *c)
{
	enum { NUM_THREADS = 17 };

	return stat_number(c->stat_fd, NUM_THREADS);
}

bool cpu_program_stopped(struct core *c)
{
	char state = cpu_main_state(c);

	return state == 'T' || state == 't';
}

int64_t cpu_of_program(struct core *c)
{
	/* The CPU clock of a process, by its id. */
	int64_t cpu = loop_clock((int)((~(uint32_t)c->args.program_pid << 3) | 2));

	/* A thread of it is not to count. */
	return c->thread ? cpu - loop_clock(CLOCK_OWN_CPU) : cpu;
}

int64_t cpu_since_window(struct core *c, int64_t since)
{
	int64_t most = (since - c->window_ns) * (c->thread_count - c->free_threads);

	return cpu_of_program(c) - c->window_cpu - (most > 0 ? most : 0);
}

bool cpu_may_run(const struct core *c, const struct thread *t)
{
	return c->now_ns < t->ask_until;
}

bool cpu_asks(const struct core *c, const struct thread *t)
{
	return cpu_may_run(c, t) && (t->ask || c->ask_all);
}

/* With ticks as fast as can be, not at every one. */
static bool on_cpu(struct core *c, struct thread *t)
{
	if (c->now_ns - t->asked_ns < ASK_APART_NS)
		return t->ran;
	if (t->stat < 0)
		t->stat = open_of_thread(c, t->tid, "stat");
	c->asked++;
	t->asked_ns = c->now_ns;
	t->ran = state_letter(t->stat) == 'R';
	return t->ran;
}

/*
 * Was it worth asking?  A thread that wakes again and again to ask for the GIL is ready
 * to run for longer than it runs, and that is no excess.
 */
static void weigh_answer(struct thread *t, bool runs)
{
	t->answers++;
	t->yes += runs;
	if (t->answers < DOUBT_ANSWERS)
		return;
	if (t->yes >= DOUBT_ANSWERS / DOUBT_SHARE) {
		t->doubt = 0;
	} else if (t->doubt == 0) {
		t->doubt = DOUBT_MOST;
		t->excess_ns = 0;
	}
	t->answers = t->yes = 0;
}

/*
 * Has it been asked often enough?  A thousand threads that are made at once, to wait
 * for work, would be asked for as long as their first window lasts.  Who runs is asked
 * again in any case.
 */
static bool in_vain(struct core *c, struct thread *t)
{
	if (!t->untried || t->ran)
		return false;
	if (t->vain < VAIN_FREE) {
		t->vain++;
		return false;
	}
	if (c->vain_room < VAIN_PRICE)
		return true;
	c->vain_room -= VAIN_PRICE;
	return false;
}

bool cpu_runs_outside(struct core *c, struct thread *t)
{
	if (!cpu_asks(c, t) || c->asked >= ASK_MOST || in_vain(c, t))
		return false;
	bool runs = on_cpu(c, t);

	if (!c->ask_all)
		weigh_answer(t, runs);
	return runs;
}

/* Who holds the GIL runs or is ready to, unless it was caught asleep with it. */
bool cpu_runs_inside(struct core *c, struct thread *t)
{
	return t->slack_ns < SLACK_FLOOR_NS + SLACK_TICKS * c->weight_ns ||
	       on_cpu(c, t);
}

/* Ticks seen running since the last checkpoint, those of the open run included.
 * With the tick in hand, if it is already part of the run. */
static uint64_t running_ticks(const struct core *c, const struct thread *t)
{
	uint64_t open =
		t->in_run && (t->state & REC_RUNNING) != 0 ? c->tick - t->run_first : 0;

	return t->running_ticks + open;
}

static bool put_account(struct core *c, const struct thread *t, unsigned more)
{
	struct record r;

	record_begin(&r, REC_CPU);
	record_number(&r, t->id);
	record_number(&r, c->tick - c->cut_base);
	record_number(&r, t->cpu_ns);
	record_number(&r, t->run_count);
	record_number(&r,
		(t->anew ? REC_CPU_ANEW : 0) | (t->coarse ? REC_CPU_COARSE : 0) | more);
	record_number(&r, t->delay_ns);
	record_number(&r, t->lost);
	return record_put(c, &r, RING_RESERVE);
}

static void send_checkpoint(struct core *c, struct thread *t)
{
	/* The runs before it must be told apart from those behind it. */
	run_close(c, t);
	if (!put_account(c, t, 0))
		return;
	t->anew = t->brief = false;
	t->checkpoint_cpu_ns = t->cpu_ns;
	t->checkpoint_ns = c->now_ns;
	t->running_ticks = 0;
}

/* Is it the first thread of a program that this task was in from the start? */
static bool since_start(const struct core *c, const struct thread *t)
{
	return c->recorder_is_socket && t->tid == (uint32_t)c->args.program_pid &&
	       c->tick == 0 && c->counters[RING_DISABLED_NS] == 0 &&
	       c->counters[RING_PARKED_NS] == 0;
}

/* Had its kernel thread another thread state before? */
static bool had_another(const struct core *c, const struct thread *t)
{
	for (uint32_t i = 0; i < MAX_ENDED; i++)
		if (c->ended[i] == t->tid)
			return true;
	return false;
}

/* Has it used more than there was time for since the last listing? */
static bool is_older(const struct core *c, const struct thread *t)
{
	return c->older || (int64_t)t->cpu_ns > c->now_ns - c->listed_before_ns ||
	       had_another(c, t);
}

/*
 * A new thread begins at 0, whatever it used so far.  Of one that is older than the
 * sampler, or than its thread state, what it used before is nobody's: C code that calls
 * Python now and then may have a new state each time.  What the first thread used while
 * the interpreter came up is counted, and no tick saw it; of a process that was forked
 * that is what it used until the sampler was there.
 */
void cpu_begin(struct core *c, struct thread *t)
{
	bool from_start = c->older && since_start(c, t);

	if (from_start) {
		t->cpu_ns = (uint64_t)c->first_program_cpu;
		send_checkpoint(c, t);
	}
	if (read_account(c, t) && !is_older(c, t))
		t->cpu_ns = t->run_count = t->delay_ns = 0;
	else
		t->anew = !from_start;
	bool brief = t->anew && !c->older;

	send_checkpoint(c, t);
	t->brief = brief;
	sample_attend(c, t);
}

/* As much of what was seen running as was on a CPU, if that is as it was of late: who
 * is ready to run is not on one all the time where others want it too. */
static int64_t confirmed(const struct core *c, int64_t seen)
{
	int64_t whole = c->lately_seen_ns / 1024;

	/* Both may be off by as much. */
	int64_t near = c->weight_ns + (c->young ? KERNEL_TICK_NS / 2 : 0);

	return c->lately_used_ns + near < c->lately_seen_ns
		       ? seen / 1024 * (c->lately_used_ns / whole)
		       : seen;
}

/*
 * Where the kernel knows the thread no more, by the ticks that saw it running since the
 * last look, up to what the whole program has used since then.  Returns false then.
 */
static bool last_look(struct core *c, struct thread *t)
{
	bool there = read_account(c, t);

	if (!there && t->seen_ns != 0) {
		int64_t seen = confirmed(c, t->seen_ns);
		int64_t cpu = cpu_of_program(c), most = cpu - c->window_cpu;

		t->cpu_ns += (uint64_t)(cpu != 0 && most < seen ? most : seen);
	}
	t->held_ns = t->seen_ns = 0;
	return there;
}

/*
 * Of one that was in Python for a moment, half a stratum is missing in front: what
 * ticks saw of it tells more than what it used behind that.
 */
void cpu_end(struct core *c, struct thread *t)
{
	bool there = true;

	if (t->brief)
		t->cpu_ns += (uint64_t)confirmed(c, t->seen_ns);
	else
		there = last_look(c, t);
	if (there)
		c->ended[c->ended_count++ % MAX_ENDED] = t->tid;
	send_checkpoint(c, t);
}

/* By how much the kernel's figures have grown since the last look, and what ticks saw.
 */
static void weigh_evidence(
	const struct core *c, struct thread *t, int64_t used, int64_t delay)
{
	int64_t above = EXCESS_FLOOR_NS + EXCESS_TICKS * c->weight_ns;

	t->excess_ns +=
		used + (delay >> t->doubt) - t->held_ns - t->excess_ns / EXCESS_WINDOWS;
	if (t->excess_ns < 0)
		t->excess_ns = 0;
	t->ask = t->excess_ns > (t->ask ? above / 2 : above);
	t->slack_ns += t->held_ns - used - delay - t->slack_ns / LATELY;
	if (t->slack_ns < 0)
		t->slack_ns = 0;
}

/*
 * A tick stands for its stratum, and the kernel's figures are read somewhere in it: for
 * what comes behind that, if the tick saw it running.
 */
static int64_t seen_behind(const struct core *c, const struct thread *t)
{
	int64_t end = c->strata.start + c->strata.length;
	bool running = t->in_run && (t->state & REC_RUNNING) != 0;

	return running && end > c->now_ns && end - c->now_ns < c->weight_ns
		       ? end - c->now_ns
		       : 0;
}

/* Read one thread's figures.  Returns the CPU time since the last look. */
static int64_t look_at(struct core *c, struct thread *t)
{
	uint64_t before = t->cpu_ns, delayed = t->delay_ns;

	t->look = t->untried = false;
	if (!read_account(c, t)) {
		c->relist = true;
		return 0;
	}
	int64_t used = (int64_t)(t->cpu_ns - before);

	if (used > 0)
		t->ask_until = c->now_ns + ASK_NS + ASK_TICKS * c->weight_ns;
	weigh_evidence(c, t, used, (int64_t)(t->delay_ns - delayed));
	if (cpu_asks(c, t))
		sample_attend(c, t);
	t->held_ns = 0;
	t->seen_ns = seen_behind(c, t);
	if (used != 0 &&
		(running_ticks(c, t) >= CHECKPOINT_TICKS ||
			(running_ticks(c, t) != 0 &&
				c->now_ns - t->checkpoint_ns >= CHECKPOINT_NS)))
		send_checkpoint(c, t);
	return used;
}

/* Ticks that the account does not know of would take nothing from it. */
void cpu_checkpoint_all(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id == 0)
			continue;
		if (t->seen_ns != 0)
			(void)look_at(c, t);
		if (t->cpu_ns != t->checkpoint_cpu_ns && running_ticks(c, t) != 0)
			send_checkpoint(c, t);
	}
}

/* Is there more to say of it than its last checkpoint?  Also that ticks saw it ready to
 * run, and it got no CPU. */
static bool has_news(const struct core *c, const struct thread *t)
{
	return t->cpu_ns != t->checkpoint_cpu_ns || running_ticks(c, t) != 0;
}

/* Also what no tick saw: this is the last word on the time until now. */
void cpu_settle(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id == 0)
			continue;
		(void)last_look(c, t);
		if (has_news(c, t))
			send_checkpoint(c, t);
	}
	c->window_ns = c->now_ns;
	c->window_cpu = cpu_of_program(c);
}

/*
 * What it has used beyond what the ticks saw of it, as far as that fits into the time
 * since: no tick stands for that time.  To spread it over the stacks seen before would
 * be right of a thread that goes on.
 */
static void settle_gone(struct core *c, struct thread *t, int64_t since)
{
	uint64_t before = t->cpu_ns;
	int64_t seen = t->seen_ns, most = c->now_ns - since;

	(void)last_look(c, t);
	int64_t unseen = (int64_t)(t->cpu_ns - before) - seen;

	if (unseen > most)
		unseen = most;
	if (unseen > 0 && running_ticks(c, t) != 0) {
		t->cpu_ns -= (uint64_t)unseen;
		send_checkpoint(c, t);
		t->cpu_ns += (uint64_t)unseen;
	}
	if (has_news(c, t))
		send_checkpoint(c, t);
}

void cpu_settle_gone(struct core *c, int64_t since)
{
	for (uint32_t i = 0; i < c->thread_count; i++)
		if (c->threads[i].id != 0)
			settle_gone(c, &c->threads[i], since);
	c->window_ns = c->now_ns;
	c->window_cpu = cpu_of_program(c);
}

void cpu_say_so_far(struct core *c)
{
	if (c->now_ns - c->so_far_ns < c->so_far_step)
		return;
	int64_t before = loop_clock(CLOCK_OWN_CPU);

	for (uint32_t i = 0; i < c->thread_count; i++) {
		/* Not to be taken for a look at the end of a window. */
		struct thread t = c->threads[i];

		if (t.id != 0 && read_account(c, &t) && has_news(c, &t))
			(void)put_account(c, &t, REC_CPU_SO_FAR);
	}
	loop_count_cpu(c);
	c->so_far_ns = c->now_ns;
	c->so_far_step =
		loop_step(SO_FAR_NS, loop_clock(CLOCK_OWN_CPU) - before, SO_FAR_MAX_NS);
}

void cpu_resume(struct core *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		if (t->id == 0)
			continue;
		(void)read_account(c, t);
		t->held_ns = t->seen_ns = 0;
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
	int64_t step =
		loop_step(c->full_look_step, c->full_look_price, FULL_LOOK_MAX_NS);

	if (c->now_ns - c->full_look_ns < step)
		return;
	c->full_look_ns = c->now_ns;
	c->unexplained_ns = 0;
	int64_t before = loop_clock(CLOCK_OWN_CPU);
	int64_t used = look_at_those(c, false);

	c->full_look_price = loop_clock(CLOCK_OWN_CPU) - before;
	if (used > UNEXPLAINED_NS / 2)
		c->full_look_step = 0;
	else if (c->full_look_step < FULL_LOOK_MAX_NS)
		c->full_look_step =
			c->full_look_step == 0 ? WINDOW_NS * 2 : c->full_look_step * 2;
}

/*
 * For that clock the kernel sums up all threads: 0.15 to 0.3 ms where they are a
 * thousand.  What it leads to costs as much again, and more.
 */
static int64_t priced_cpu_of_program(struct core *c, int64_t *ret_step)
{
	enum { WHOLE = 3 };
	int64_t before = loop_clock(CLOCK_OWN_CPU);
	int64_t cpu = cpu_of_program(c);
	int64_t price = loop_clock(CLOCK_OWN_CPU) - before;

	*ret_step = loop_step(WINDOW_NS, WHOLE * price, WINDOW_MAX_NS);
	return cpu;
}

/* What was seen and what was used of it, from now on also of the window that ended. */
static void weigh_window(struct core *c, int64_t used)
{
	/* The first tick ends the first one, and has seen next to nothing of it. */
	if (c->window_step != 0) {
		if (c->young)
			c->lately_seen_ns = c->lately_used_ns = 0;
		c->young = false;
		c->lately_seen_ns += c->window_seen_ns - c->lately_seen_ns / LATELY;
		c->lately_used_ns += used - c->lately_used_ns / LATELY;
	}
	c->window_seen_ns = 0;
}

/*
 * A program that is over within its first window is gone, more often than not, before
 * its last figures can be read.  There is only what it was seen to run then, and its
 * clock at the ticks before tells for how much of that it was only ready to run: half a
 * tick of the kernel late, on average.
 */
static void look_at_part(struct core *c)
{
	if (!c->young || c->now_ns - c->part_ns < PART_NS ||
		c->thread_count > PART_THREADS)
		return;
	int64_t cpu = cpu_of_program(c);

	if (cpu == 0)
		return;
	c->part_ns = c->now_ns;
	c->lately_used_ns = cpu - c->window_cpu + KERNEL_TICK_NS / 2;
	c->lately_seen_ns = c->window_seen_ns;
}

/* Can all be asked who may run?  Now and then everybody is doubted less. */
static void count_who_may_run(struct core *c)
{
	bool doubted = c->now_ns - c->doubted_ns > DOUBT_NS;
	int64_t count = 0;

	for (uint32_t i = 0; i < c->thread_count; i++) {
		struct thread *t = &c->threads[i];

		count += t->id != 0 && cpu_may_run(c, t);
		t->doubt -= doubted && t->doubt != 0;
	}
	if (doubted)
		c->doubted_ns = c->now_ns;
	c->ask_all =
		c->weight_ns > 0 && count * (1000000000 / c->weight_ns) <= ASK_CHEAP;
	for (uint32_t i = 0; c->ask_all && i < c->thread_count; i++)
		if (c->threads[i].id != 0 && cpu_may_run(c, &c->threads[i]))
			sample_attend(c, &c->threads[i]);
}

void cpu_tick(struct core *c)
{
	c->asked = 0;
	c->vain_room += c->weight_ns;
	if (c->vain_room > VAIN_ROOM)
		c->vain_room = VAIN_ROOM;
	if (c->now_ns - c->window_ns < c->window_step) {
		look_at_part(c);
		return;
	}
	c->window_ns = c->now_ns;

	int64_t step;
	int64_t cpu = priced_cpu_of_program(c, &step);
	int64_t used = cpu - c->window_cpu;

	weigh_window(c, used);
	c->window_cpu = cpu;
	c->window_step = step;
	if (used <= (c->thread ? CLOCKS_APART_NS : 0)) {
		if (cpu_program_stopped(c))
			c->stopped_since = c->now_ns;
		return;
	}
	int64_t explained = look_at_those(c, true);

	/* Little by little, too: a thread may use 1 ms of each window. */
	c->unexplained_ns += used - explained;
	if (c->unexplained_ns < 0)
		c->unexplained_ns = 0;
	if (c->unexplained_ns > UNEXPLAINED_NS)
		look_at_all(c);
	count_who_may_run(c);
}
