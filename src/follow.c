/* SPDX-License-Identifier: Apache-2.0 */
#include "follow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "copy-text.h"
#include "decoder.h"
#include "inject/hush.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "thread-names.h"
#include "wire/isolation.h"

enum {
	DRAIN_BYTES = 256 << 10,
	RELEASE_BYTES = 64 << 10,
	LEAVE_WAIT_MS = 5000,
	START_WAIT_MS = 1000,
	MAX_ATTRIBUTES = 4096,
	COUNTERS_S = 5,
};

struct follow {
	pid_t pid;
	pid_t task;
	int task_pidfd; /* of a thread: its program's */
	bool task_gone; /* before it could be opened */
	bool thread;
	uint64_t start_ticks; /* of the thread */
	int connection;       /* -1 when attached */
	bool attached;
	struct inject_task injected; /* of a spawned one what hush_spawned() needs */
	struct python_found python;
	struct ring_reader ring;
	struct decoder *decoder;
	uint32_t timer_state;      /* enum ring_timer, as told */
	bool has_timers;           /* they were asked for */
	struct file_timers timers; /* as the file has it */
	char *timer_owner;         /* its mapping; NULL: not told yet */
	struct thread_names names;
	struct output_part *part, *next; /* next: it is to move there */
	uint32_t number, next_number;    /* of its segment in them */
	uint32_t segment, parent;        /* of the recording */
	struct file_segment about;       /* what all parts have of it */
	struct attributes *attributes;
	uint32_t cut_wanted;
	uint8_t *buffer;
	size_t kept; /* bytes of a cut record at the start of buffer */
	int64_t counters_ns;
	uint64_t counters_written[RING_COUNTERS];
	uint64_t counters_before[RING_COUNTERS]; /* in parts before this one */
	uint64_t lost_before;
	bool ended;
	struct follow_stats stats;
};

/* Names of the counters in the file, pystack-file(5). */
static const char *const counter_names[RING_COUNTERS] = {
	[RING_TICKS] = "ticks",
	[RING_LATE] = "late",
	[RING_MISSED] = "missed",
	[RING_SAMPLES] = "samples",
	[RING_APPROXIMATE] = "approximate",
	[RING_UNREADABLE] = "unreadable",
	[RING_LOST_FULL] = "lost",
	[RING_LOST_THREADS] = "lost-threads",
	[RING_NO_FRAMES] = "no-frames",
	[RING_WALKS] = "walks",
	[RING_EPOCHS] = "epochs",
	[RING_CPU_NS] = "sampler-cpu",
	[RING_PARKED_NS] = "parked",
	[RING_NO_SCHEDSTAT] = "no-schedstat",
	[RING_GIL_SWITCHES] = "gil-switches",
	[RING_STRATUM_NS] = "stratum",
	[RING_DISABLED_NS] = "disabled",
	[RING_TRUNCATED] = "truncated",
	[RING_PROGRAM_NS] = "program-cpu",
	[RING_LIMITED_NS] = "limited",
	[RING_COPY_CALLS] = "copies",
	[RING_COPY_BYTES] = "copied",
	[RING_COPY_ERRORS] = "copy-errors",
	[RING_COPY_FAULTS] = "copy-faults",
	[RING_TIMER_SAMPLES] = "timer-samples",
	[RING_TIMER_OVERRUNS] = "timer-overruns",
	[RING_TIMER_LOST] = "timer-lost",
	[RING_TIMER_YIELDED] = "timer-yielded",
	[RING_TIMER_INTERRUPTED] = "timer-interrupted",
	[RING_HELD_NS] = "held",
};

/* --- the ring --- */

int follow_map(int fd, struct ring_reader *ret_reader, struct err *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (fstat(fd, &st) != 0 || st.st_size < (off_t)RING_HEADER_BYTES ||
		st.st_size > (64 << 20))
		return err_set(err, -E_BADFORMAT, "its ring has an impossible size");
	/* Whoever could shrink it could end this process by a SIGBUS. */
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
		return err_set(err, -E_BADFORMAT, "its ring is not sealed");
	void *at = mmap(
		NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return err_set(
			err, -errno, "its ring cannot be mapped: %s", strerror(errno));
	/* The task sets the magic number last. */
	int64_t end = clock_monotonic_ns() + LEAVE_WAIT_MS * 1000000ll;
	int r = ring_reader_init(ret_reader, at, (uint64_t)st.st_size);

	while (r == -2 && clock_monotonic_ns() < end) {
		clock_sleep_ns(200000);
		r = ring_reader_init(ret_reader, at, (uint64_t)st.st_size);
	}
	if (r != 0) {
		(void)munmap(at, (size_t)st.st_size);
		return err_set(err, -E_BADFORMAT,
			"its ring is of another version (check %d)", r);
	}
	return 0;
}

void follow_unmap(struct ring_reader *reader)
{
	if (reader->header != NULL)
		(void)munmap(reader->header, RING_HEADER_BYTES + reader->data_bytes);
	reader->header = NULL;
}

static void order(struct follow *f, enum ring_order what)
{
	__atomic_store_n(&f->ring.header->order, what, __ATOMIC_RELEASE);
}

/* Is it a thread that is stopped together with its program? */
static bool thread_stands(const struct follow *f)
{
	struct proc_stat st;

	return f->thread && proc_stat_read(f->pid, f->task, &st) == 0 &&
	       st.state == 'T';
}

void follow_enable(struct follow *f, bool on)
{
	order(f, on ? RING_ORDER_RUN : RING_ORDER_PARK);
}

static void give_orders(struct follow *f, const struct follow_options *o, bool disabled)
{
	struct ring_options *r = &f->ring.header->options;

	_Static_assert(
		sizeof(f->python.layout) <= sizeof(r->layout), "layout too large");
	r->interval_ns = (uint64_t)o->interval_ns;
	r->flags = (o->spin ? RING_OPT_SPIN : 0) |
		   (o->adaptive ? RING_OPT_ADAPTIVE : 0) |
		   (o->oncpu ? RING_OPT_ONCPU : 0);
	r->max_stack = o->max_stack;
	r->max_threads = o->max_threads;
	r->overhead_ppm = o->overhead_ppm;
	r->timer_ns = o->timer_ns;
	r->copy = o->copy;
	r->warmup_ns = (uint64_t)o->warmup_ns;
	r->runtime = f->python.runtime;
	r->code_type = f->python.code_type;
	memcpy(r->layout, &f->python.layout, sizeof(f->python.layout));
	follow_enable(f, !disabled);
}

/* --- how its memory is read --- */

/* What a handler lies in, of an address that is the program's word. */
static void name_mapping(uint64_t address, struct buf *name, void *context)
{
	const struct follow *f = context;
	struct proc_maps maps;
	struct err ignored;

	if (proc_maps_read(f->pid, &maps, &ignored) != 0)
		return;
	const struct proc_map *m = proc_maps_at(&maps, address);

	if (m != NULL)
		buf_add_str(name, m->path[0] != '\0' ? m->path : "[anonymous memory]");
	proc_maps_done(&maps);
}

struct follow_copy follow_copy_get(const struct follow *f)
{
	const struct ring_header *h = f->ring.header;
	uint32_t state = __atomic_load_n(&h->copy_state, __ATOMIC_RELAXED);
	uint32_t flags = __atomic_load_n(&h->copy_flags, __ATOMIC_RELAXED);

	return (struct follow_copy){
		.state = state < RING_COPY_STATES ? (enum ring_copy_state)state
						  : RING_COPY_STOPPED,
		.flags = flags & RING_COPY_FLAGS,
	};
}

/* The sampler's own clock, which is another one in a time namespace. */
static uint64_t sampler_ns(const struct follow *f)
{
	int64_t offset = decoder_clock_offset(f->decoder);

	return (uint64_t)(offset != 0 ? clock_real_ns() + offset
				      : clock_monotonic_ns());
}

/* Of a thread; a task reads in one way alone. */
static void tell_copy(struct follow *f)
{
	const struct ring_header *h = f->ring.header;
	struct follow_copy now = follow_copy_get(f);
	struct file_copy c = {
		.mono_ns = sampler_ns(f),
		.state = now.state,
		.flags = now.flags,
		.warmup_ns = __atomic_load_n(&h->copy_warmup_ns, __ATOMIC_RELAXED),
		.owner = { __atomic_load_n(&h->copy_owner[0], __ATOMIC_RELAXED),
			__atomic_load_n(&h->copy_owner[1], __ATOMIC_RELAXED) },
	};

	if (now.state != RING_COPY_DIRECT || decoder_copy(f->decoder) != NULL)
		decoder_tell_copy(f->decoder, &c);
}

/* --- its CPU timers --- */

static void write_timers(struct follow *f)
{
	struct file_timers t = f->timers;

	t.segment = f->number;
	t.mapping = (struct file_text){ f->timer_owner, strlen(f->timer_owner) };
	file_writer_timers(output_part_writer(f->part), &t);
}

/* What has become of them, where that is news. */
static void tell_timers(struct follow *f)
{
	const struct ring_header *h = f->ring.header;
	uint32_t state = __atomic_load_n(&h->timer_state, __ATOMIC_ACQUIRE);
	uint32_t blocked = h->timer_blocked;

	if (!f->has_timers || state >= RING_TIMER_STATES ||
		(f->timer_owner != NULL && state == f->timers.state &&
			blocked == f->timers.blocked))
		return;
	if (f->timer_owner == NULL || state != f->timers.state) {
		_cleanup_buf_ struct buf name = BUF_INIT(PATH_MAX);

		f->timers.mono_ns = sampler_ns(f);
		f->timers.owner = h->timer_owner;
		if (f->timers.owner > 1)
			name_mapping(f->timers.owner, &name, f);
		free(f->timer_owner);
		f->timer_owner = xstrdup(buf_text(&name));
	}
	f->timers.state = state;
	f->timers.detail = (uint32_t)h->timer_detail;
	f->timers.blocked = blocked;
	write_timers(f);
}

/* --- the segment --- */

struct attributes {
	struct file_attribute *list;
	size_t count, capacity;
	struct buf text; /* of the values */
};

static void add_attribute(
	struct attributes *a, const char *name, const char *value, size_t size)
{
	if (a->count >= MAX_ATTRIBUTES)
		return;
	a->list = xgrow(a->list, a->count, &a->capacity, sizeof(*a->list));
	/* The values are copied, as what they come from may go. */
	a->list[a->count++] = (struct file_attribute){
		.name = { name, strlen(name) },
		.value = { xmemdup0(value, size), size },
	};
}

static void add_text(struct attributes *a, const char *name, const char *value)
{
	if (value != NULL && value[0] != '\0')
		add_attribute(a, name, value, strlen(value));
}

static void add_number(struct attributes *a, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	add_text(a, name, text);
}

static void add_command_line(struct attributes *a, pid_t pid)
{
	_cleanup_buf_ struct buf words = BUF_INIT(4 << 20);

	if (proc_cmdline_read(pid, &words) != 0)
		return;
	for (const char *at = words.data, *end = at + words.size;
		at != NULL && at < end;) {
		size_t size = strnlen(at, (size_t)(end - at));

		add_attribute(a, "arg", at, size);
		at += size + 1;
	}
}

static void add_host(struct attributes *a)
{
	struct utsname name;
	_cleanup_buf_ struct buf boot = BUF_INIT(256);

	if (uname(&name) == 0) {
		add_text(a, "host", name.nodename);
		add_text(a, "kernel", name.release);
	}
	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", &boot) == 0 &&
		boot.size > 1)
		add_attribute(a, "boot", boot.data, boot.size - 1);
}

/* What the sampler is, and, of a thread, what was asked of it. */
static void add_isolation(
	const struct follow *f, struct attributes *a, const struct follow_options *o)
{
	static const char *const copies[] = {
		[RING_COPY_AUTO] = "auto",
		[RING_COPY_FAST] = "fast",
		[RING_COPY_SYSCALL] = "syscall",
	};

	if (f->ring.header->offer.isolation != CORE_ISOLATION_THREAD) {
		add_text(a, "isolation", "task");
		return;
	}
	add_text(a, "isolation", "thread");
	add_text(a, "copy", copies[o->copy]);
	if (o->copy == RING_COPY_FAST)
		add_number(a, "warmup", (uint64_t)o->warmup_ns);
}

/* What is known of the process now; it may be gone when the next part begins. */
static void describe(struct follow *f, const struct follow_options *o,
	const struct follow_origin *origin)
{
	struct attributes *a = xcalloc(1, sizeof(*a));
	struct proc_stat st;
	struct proc_status status = { 0 };
	_cleanup_free_ char *exe = proc_exe(f->pid);
	struct file_segment s = {
		.why = origin->why,
		.pid = (uint32_t)f->pid,
		.interval_ns = o->spin ? 0 : (uint64_t)o->interval_ns,
		.flags = (o->adaptive ? FILE_SEGMENT_ADAPTIVE : 0) |
			 (o->spin ? FILE_SEGMENT_SPIN : 0) |
			 (o->oncpu ? FILE_SEGMENT_ONCPU : 0),
	};
	int64_t now = clock_monotonic_ns();

	if (getrandom(s.id, sizeof(s.id), GRND_NONBLOCK) != sizeof(s.id))
		memcpy(s.id, &now, sizeof(now));
	if (proc_status_read(f->pid, &status) == 0)
		s.inner_pid = (uint32_t)status.inner_pid;
	add_command_line(a, f->pid);
	add_text(a, "exe", exe);
	add_text(a, "python", f->python.version);
	add_host(a);
	if (proc_stat_read(f->pid, 0, &st) == 0)
		add_number(a, "clock",
			st.start_ticks *
				(1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK)));
	add_isolation(f, a, o);
	add_number(a, "max-stack", o->max_stack);
	if (o->max_threads != 0)
		add_number(a, "max-threads", o->max_threads);
	if (o->adaptive)
		add_number(a, "overhead-limit", o->overhead_ppm);
	if (o->timer_ns != 0)
		add_number(a, "cpu-timer", o->timer_ns);
	add_text(a, "pystack", PACKAGE_VERSION);
	s.attributes = a->list;
	s.attribute_count = (uint32_t)a->count;
	f->about = s;
	f->attributes = a;
}

static void free_attributes(struct attributes *a)
{
	if (a == NULL)
		return;
	for (size_t i = 0; i < a->count; i++)
		free((char *)a->list[i].value.bytes);
	free(a->list);
	free(a);
}

/* Begin the segment in a part.  Returns its number there. */
static uint32_t write_segment(
	struct follow *f, struct output_part *part, enum file_segment_flags more)
{
	struct file_segment s = f->about;

	s.parent = output_part_find(part, f->parent);
	s.segment = output_part_add(part, f->segment);
	s.mono_ns = (uint64_t)clock_monotonic_ns();
	s.real_ns = (uint64_t)clock_real_ns();
	/* In a time namespace the task's clock is another. */
	if (f->decoder != NULL && decoder_clock_offset(f->decoder) != 0)
		s.mono_ns = s.real_ns + (uint64_t)decoder_clock_offset(f->decoder);
	s.flags |= more;
	file_writer_segment(output_part_writer(part), &s);
	return s.segment;
}

/* It may have been killed as it started. */
static void hold_task(struct follow *f)
{
	struct proc_stat st;

	f->task_pidfd = (int)syscall(SYS_pidfd_open, f->thread ? f->pid : f->task, 0);
	f->task_gone = f->task_pidfd < 0 && errno == ESRCH;
	if (!f->thread)
		return;
	int r = proc_stat_read(f->pid, f->task, &st);

	f->task_gone |= r == -ESRCH || r == -ENOENT;
	f->start_ticks = r == 0 ? st.start_ticks : 0;
}

int follow_start(pid_t pid, const struct follow_source *source,
	const struct python_found *python, const struct follow_options *options,
	struct output_part *part, const struct follow_origin *origin,
	uint32_t *next_thread, struct follow **ret_follow, struct err *err)
{
	struct follow *f = xcalloc(1, sizeof(*f));
	int ring_fd = source->ring_fd;

	f->pid = pid;
	f->task = source->task;
	f->attached = source->injected != NULL;
	f->thread = f->attached ? source->injected->thread : source->program != 0;
	f->connection = f->attached ? -1 : source->connection;
	f->task_pidfd = -1;
	f->part = part;
	f->segment = origin->segment;
	f->parent = origin->parent;
	f->python = *python;
	f->has_timers = options->timer_ns != 0;
	f->buffer = xmalloc(DRAIN_BYTES);
	if (f->attached) {
		f->injected = *source->injected;
		f->task = source->injected->task;
		f->stats.held_ns = source->injected->held_ns;
	} else {
		f->injected.task_pidfd = f->injected.ring_fd = -1;
	}
	int r = follow_map(ring_fd, &f->ring, err);

	if (!f->attached)
		fd_close(&ring_fd);
	if (r != 0) {
		follow_free(f);
		return r;
	}
	if (!f->attached) {
		f->injected.program = pid;
		f->injected.image_mark = proc_image_mark(pid);
		f->injected.arena = f->ring.header->offer.arena;
		f->injected.arena_bytes = f->ring.header->offer.arena_bytes;
	}
	hold_task(f);
	describe(f, options, origin);
	f->number = write_segment(f, part, 0);
	f->decoder = decoder_new(output_part_writer(part), f->number, next_thread,
		(enum py_linetable_kind)python->layout.linetable_kind);
	if (python->layout.gc_frame != PY_NONE)
		decoder_trust_gc(f->decoder);
	decoder_set_namer(f->decoder, name_mapping, f);
	f->names = (struct thread_names){ .pid = pid, .python = &f->python };
	give_orders(f, options, origin->disabled);
	*ret_follow = f;
	return 0;
}

void follow_beat(struct follow *f)
{
	__atomic_fetch_add(&f->ring.header->recorder_beat, 1, __ATOMIC_RELAXED);
}

/* --- records --- */

static void read_counters(struct follow *f)
{
	for (unsigned i = 0; i < RING_COUNTERS; i++)
		f->stats.counters[i] = ring_counter_get(f->ring.header, i);
}

/* What is not, holds for a part as it does for all of the recording. */
static bool is_sum(unsigned counter)
{
	return counter != RING_STRATUM_NS && counter != RING_LOST_THREADS;
}

/* Fill list with the counters; returns how many.  all: also those that are 0. */
static uint32_t list_counters(struct follow *f, struct file_counter *list, bool all)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < RING_COUNTERS; i++) {
		uint64_t value = f->stats.counters[i];

		if (!all && value == f->counters_written[i])
			continue;
		/* Not known is not nothing. */
		if (i == RING_HELD_NS && value == 0)
			continue;
		list[n++] = (struct file_counter){
			.name = { counter_names[i], strlen(counter_names[i]) },
			.value = is_sum(i) ? value - f->counters_before[i] : value,
		};
		f->counters_written[i] = value;
	}
	return n;
}

/* Now and then, so that a file that is never closed tells its losses too. */
static void write_counters(struct follow *f)
{
	struct file_counter list[RING_COUNTERS];
	int64_t now = clock_monotonic_ns();

	if (now - f->counters_ns < COUNTERS_S * 1000000000ll)
		return;
	f->counters_ns = now;
	if (follow_copy_get(f).state == RING_COPY_WARMUP)
		tell_copy(f);
	read_counters(f);
	uint32_t n = list_counters(f, list, false);

	if (n != 0)
		file_writer_counters(output_part_writer(f->part), f->number, list, n);
}

/* The pages of the ring that lie in a run of its bytes count as the program's memory,
 * which need not keep what was read. */
static void drop_pages(const struct ring_reader *r, uint64_t from, uint64_t to)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t first = (from + page - 1) & ~(page - 1), end = to & ~(page - 1);

	if (first < end)
		(void)madvise(
			(void *)(uintptr_t)(r->data + first), end - first, MADV_REMOVE);
}

/* Not a little at a time: whole pages can be dropped only before the writer has them.
 */
static void release(struct ring_reader *r)
{
	uint64_t from = r->released & (r->data_bytes - 1);
	uint64_t to = from + (r->tail - r->released);

	if (r->tail - r->released < RELEASE_BYTES)
		return;
	drop_pages(r, from, to < r->data_bytes ? to : r->data_bytes);
	if (to > r->data_bytes)
		drop_pages(r, 0, to - r->data_bytes);
	ring_release(r);
}

int64_t follow_drain(struct follow *f, bool *ret_cut, struct err *err)
{
	int64_t drained = 0;

	for (;;) {
		int64_t n = ring_peek(&f->ring, f->buffer, DRAIN_BYTES);

		if (n < 0)
			return err_set(err, -E_BADFORMAT, "its ring is damaged");
		if (n == 0)
			break;
		bool cut = false;
		int64_t used =
			decoder_feed(f->decoder, f->buffer, (size_t)n, &cut, err);

		if (used < 0)
			return used;
		*ret_cut |= cut;
		if (cut && decoder_has_stopped(f->decoder))
			follow_move_now(f);
		if (used == 0)
			break;
		ring_take(&f->ring, (uint64_t)used);
		release(&f->ring);
		drained += used;
	}
	if (*ret_cut)
		write_counters(f);
	return drained;
}

void follow_close_runs(struct follow *f)
{
	if (f->decoder != NULL)
		decoder_close_runs(f->decoder);
}

/* What the handler at an address of the program belongs to. */
static void add_owner(struct buf *words, pid_t pid, uint64_t handler)
{
	struct proc_maps maps;
	struct err unsaid;

	if (handler <= 1 || proc_maps_read(pid, &maps, &unsaid) != 0)
		return;
	const struct proc_map *m = proc_maps_at(&maps, handler);

	if (m != NULL && m->path[0] == '/')
		buf_printf(words, " (its handler is in %s)", m->path);
	proc_maps_done(&maps);
}

bool follow_timer_news(struct follow *f, struct buf *words)
{
	const struct ring_header *h = f->ring.header;
	uint32_t state = __atomic_load_n(&h->timer_state, __ATOMIC_ACQUIRE);
	uint64_t owner = h->timer_owner;

	if (state == f->timer_state || state >= RING_TIMER_STATES)
		return false;
	f->timer_state = state;
	tell_timers(f);
	switch ((enum ring_timer)state) {
	case RING_TIMER_USED:
		buf_add_str(words, "no CPU timers: the program ");
		buf_add_str(words, owner == 1 ? "ignores SIGURG" : "uses SIGURG");
		add_owner(words, f->pid, owner);
		break;
	case RING_TIMER_TAKEN:
		buf_printf(words, "no CPU timers from now on: the program has %s",
			owner == 0   ? "put SIGURG to its default"
			: owner == 1 ? "set SIGURG to be ignored"
				     : "taken SIGURG");
		add_owner(words, f->pid, owner);
		break;
	case RING_TIMER_NO_READ:
		buf_printf(words, "no CPU timers: process_vm_readv is refused (%s)",
			strerror(h->timer_detail));
		break;
	case RING_TIMER_NO_PROC:
		buf_add_str(words,
			"no CPU timers: without /proc it cannot be seen which "
			"threads block SIGURG");
		break;
	case RING_TIMER_REFUSED:
		buf_printf(words,
			"no CPU timers: their handler cannot be installed (%s)",
			strerror(h->timer_detail));
		break;
	case RING_TIMER_FILTERED:
		buf_add_str(words, "no CPU timers from now on: the program has put a "
				   "seccomp filter on its threads");
		break;
	default:
		return false;
	}
	return true;
}

bool follow_has_left(const struct follow *f)
{
	struct pollfd p = { .fd = f->task_pidfd, .events = POLLIN };

	if (__atomic_load_n(&f->ring.header->state, __ATOMIC_ACQUIRE) == RING_LEFT)
		return true;
	/* Killed, it says nothing. */
	if (f->thread)
		return f->task_gone ||
		       proc_thread_is_over(f->pid, f->task, f->start_ticks);
	return f->task_gone || (f->task_pidfd >= 0 && poll(&p, 1, 0) > 0);
}

bool follow_await_start(const struct follow *f)
{
	int64_t end = clock_monotonic_ns() + START_WAIT_MS * 1000000ll;

	while (!follow_has_left(f)) {
		if (__atomic_load_n(&f->ring.header->state, __ATOMIC_ACQUIRE) >
				RING_OFFERED ||
			clock_monotonic_ns() > end)
			return true;
		clock_sleep_ns(200000);
	}
	return false;
}

enum ring_leave follow_why_left(const struct follow *f, int *ret_detail)
{
	*ret_detail = 0;
	if (__atomic_load_n(&f->ring.header->state, __ATOMIC_ACQUIRE) != RING_LEFT)
		return RING_LEAVE_NONE;
	*ret_detail = f->ring.header->leave_detail;
	uint32_t why = f->ring.header->leave;

	return why < RING_LEAVE_COUNT ? (enum ring_leave)why : RING_LEAVE_NONE;
}

uint64_t follow_thread_count(const struct follow *f)
{
	return decoder_stats(f->decoder)->threads;
}

void follow_name_threads(struct follow *f, bool at_once)
{
	f->names.main_tid = (uint32_t)f->ring.header->offer.pid;
	thread_names_look(&f->names, f->decoder, at_once);
}

/* --- the end --- */

/* Wait until the task has left; false when it does not. */
static bool await_leaving(struct follow *f)
{
	int64_t end = clock_monotonic_ns() + LEAVE_WAIT_MS * 1000000ll;
	struct err ignored;
	bool cut = false;

	while (!follow_has_left(f)) {
		/* A thread that is stopped with its program is made to go on by the
		 * injector. */
		if (clock_monotonic_ns() > end || (f->attached && thread_stands(f)))
			return false;
		/* It may have much to write before it goes. */
		(void)follow_drain(f, &cut, &ignored);
		clock_sleep_ns(200000);
	}
	return true;
}

static void sum_up(struct follow *f)
{
	const struct decoder_stats *s = decoder_stats(f->decoder);

	f->stats.samples = s->samples;
	f->stats.lost = s->lost + f->stats.counters[RING_LOST_FULL];
	f->stats.threads = s->threads;
	f->stats.timer_blocked = f->ring.header->timer_blocked;
	if (!f->attached)
		f->stats.held_ns = (int64_t)f->stats.counters[RING_HELD_NS];
}

/* Who took the sampler's handlers, if anybody did. */
static void sum_up_takeover(struct follow *f)
{
	static const uint32_t taken[] = { RING_COPY_TAKEN_SEGV, RING_COPY_TAKEN_BUS };
	const struct file_copy *c = decoder_copy(f->decoder);

	f->stats.takeovers = 0;
	for (size_t i = 0; i < 2 && c != NULL && f->stats.takeovers == 0; i++) {
		_cleanup_buf_ struct buf owner = BUF_INIT(PATH_MAX * 4);

		if ((c->flags & taken[i]) == 0)
			continue;
		const char *path = decoder_owner(f->decoder, i);
		const char *slash = strrchr(path, '/');

		copy_text_owner(&owner, c->owner[i], slash != NULL ? slash + 1 : path);
		f->stats.takeovers = 1;
		(void)snprintf(
			f->stats.owner, sizeof(f->stats.owner), "%s", buf_text(&owner));
	}
}

static void tell_lost(struct follow *f)
{
	output_part_lost(f->part, f->stats.lost - f->lost_before);
	f->lost_before = f->stats.lost;
}

static void write_end(struct follow *f, enum file_end_why why, uint64_t status)
{
	struct file_counter list[RING_COUNTERS + 1];
	uint32_t n = list_counters(f, list, true);

	if (f->attached && why != FILE_END_CONTINUED)
		list[n++] = (struct file_counter){
			.name = { "held", 4 },
			.value = (uint64_t)f->stats.held_ns,
		};
	struct file_segment_end end = {
		.segment = f->number,
		.why = why,
		.status = status,
		.mono_ns = (uint64_t)clock_monotonic_ns(),
		.counters = list,
		.counter_count = n,
	};

	tell_copy(f);
	tell_timers(f);
	sum_up_takeover(f);
	file_writer_segment_end(output_part_writer(f->part), &end);
	tell_lost(f);
}

/* It was killed: the signals of its timers are for nothing, and the next sampler of
 * this program finds their handler free. */
static void hush_spawned(struct follow *f)
{
	const struct ring_header *h = f->ring.header;

	f->injected.timer_page = __atomic_load_n(&h->timer_page, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&h->state, __ATOMIC_ACQUIRE) != RING_LEFT &&
		f->injected.timer_page != 0)
		(void)hush_timers(&f->injected);
}

int follow_end(
	struct follow *f, enum file_end_why why, uint64_t status, struct err *err)
{
	struct err ignored;
	bool cut = false;
	int r = 0;

	/* While the program may still be there to be asked. */
	(void)follow_drain(f, &cut, &ignored);
	if (why != FILE_END_EXEC)
		follow_name_threads(f, true);
	order(f, RING_ORDER_LEAVE);
	bool left = await_leaving(f);

	if (f->attached) {
		r = inject_await(&f->injected, err);
		left = r == 0;
	}
	(void)follow_drain(f, &cut, &ignored);
	if (f->next != NULL)
		follow_move_now(f);
	if (__atomic_load_n(&f->ring.header->state, __ATOMIC_ACQUIRE) != RING_LEFT)
		decoder_end_unsaid(f->decoder, clock_real_ns());
	decoder_close_runs(f->decoder);
	read_counters(f);
	if (f->attached && left) {
		f->injected.timer_page =
			__atomic_load_n(&f->ring.header->timer_page, __ATOMIC_ACQUIRE);
		r = inject_stop(&f->injected, err);
	} else if (!f->attached && left) {
		hush_spawned(f);
	} else if (!f->attached) {
		r = err_set(err, -E_TIMEOUT, "the sampler %s %d has not left",
			f->thread ? "thread" : "task", (int)f->task);
	}
	if (f->attached)
		f->stats.held_ns = f->injected.held_ns;
	sum_up(f);
	write_end(f, why, status);
	f->ended = true;
	return r;
}

/* --- moving to another part --- */

void follow_want_cut(struct follow *f)
{
	__atomic_store_n(
		&f->ring.header->cut_wanted, ++f->cut_wanted, __ATOMIC_RELEASE);
}

bool follow_is_cut(const struct follow *f)
{
	return decoder_cut_served(f->decoder) == f->cut_wanted;
}

bool follow_obeys(const struct follow *f)
{
	const struct ring_header *h = f->ring.header;
	uint32_t state = __atomic_load_n(&h->state, __ATOMIC_ACQUIRE);

	if ((state != RING_PARKED && state != RING_RUNNING) || thread_stands(f))
		return true;
	return (h->order == RING_ORDER_PARK) == (state == RING_PARKED);
}

void follow_move(struct follow *f, struct output_part *part)
{
	f->next = part;
	f->next_number = write_segment(f, part, FILE_SEGMENT_CONTINUED);
	follow_want_cut(f);
	decoder_stop_at_cut(f->decoder, f->cut_wanted);
}

bool follow_is_moving(const struct follow *f)
{
	return f->next != NULL;
}

void follow_move_now(struct follow *f)
{
	decoder_close_runs(f->decoder);
	read_counters(f);
	sum_up(f);
	write_end(f, FILE_END_CONTINUED, 0);
	for (unsigned i = 0; i < RING_COUNTERS; i++)
		f->counters_before[i] = f->stats.counters[i];
	f->part = f->next;
	f->number = f->next_number;
	f->next = NULL;
	decoder_move(f->decoder, output_part_writer(f->part), f->number);
	if (f->timer_owner != NULL)
		write_timers(f);
}

pid_t follow_task(const struct follow *f)
{
	return f->task;
}

bool follow_is_thread(const struct follow *f)
{
	return f->thread;
}

int follow_poll_fd(const struct follow *f)
{
	return f->task_pidfd;
}

void follow_stats_get(struct follow *f, struct follow_stats *ret)
{
	if (!f->ended) {
		read_counters(f);
		sum_up(f);
	}
	*ret = f->stats;
}

void follow_free(struct follow *f)
{
	if (f == NULL)
		return;
	fd_close(&f->connection);
	fd_close(&f->task_pidfd);
	inject_abandon(&f->injected);
	follow_unmap(&f->ring);
	decoder_free(f->decoder);
	free_attributes(f->attributes);
	free(f->timer_owner);
	free(f->buffer);
	free(f);
}
