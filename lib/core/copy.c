/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading memory as a thread of the program, where a load that faults is met by the
 * program's handlers.  The states (enum ring_copy_state), and what is true in each:
 *
 *   BY_SYSCALL  every signal is blocked in this thread; nothing but system calls reads
 *               the program's memory.  If loads are wanted, the handlers are still to
 *               come, when the interpreter is up; or they were given up
 *   WARMUP      the same; the handlers are installed, and both were ours at each look
 *   BY_LOAD     SIGSEGV and SIGBUS are not blocked: both handlers were ours at the last
 *               look, and what is loaded lies in pages that a system call has read from
 *               within the last second
 *   STOPPED     no system call copies any more: every load fails, and the thread leaves
 *
 * What moves it: copy_orders(), copy_look(), which runs once a cycle, and a system call
 * that is refused, at any time.  Who falls back to BY_SYSCALL stays there: whoever took
 * a handler is left alone for good.
 *
 * A chunk is a snapshot, good until copy_forget().  Its words were read at one time,
 * and two loads from it prove nothing about the time between: that is why a second look
 * begins with copy_forget(), and why copy_bytes() reads memory each time.
 */
#include "core/copy-page.h"
#include "core/core-internal.h"
#include "core/pages.h"

enum {
	CALL_NONE = 0,
	CALL_PWRITEV,
	CALL_READV,

	PAGE = 4096,
	BULK = COPY_CHUNKS * COPY_CHUNK, /* offset of the page for longer copies */
	DATA_BYTES = BULK + PAGE,

	MAKE_SEALED = 0x3, /* MFD_CLOEXEC | MFD_ALLOW_SEALING */
	ADD_SEALS = 1033,  /* F_ADD_SEALS */
	SEALS = 0x7,       /* F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW */

	FLAG_SIGINFO = 0x4,
	FLAG_RESTORER = 0x04000000,
	FLAG_RESTART = 0x10000000,
	HANDLER_IGNORE = 1,
	SIGNALS_BYTES = 8,
	BLOCK = 0,
	UNBLOCK = 1,

	COVERED = 16,  /* pages of ours below each other */
	EXCHANGES = 8, /* before who goes on to put handlers there gets their way */

	/* Not of sys.h. */
	SHORT = 5, /* EIO: fewer bytes than wanted */
	DENIED = 13,
	BAD_ADDRESS = 14,
	BUSY = 16,
	TOO_BIG = 27,
};

#define KNOWN_NS 1000000000

static const uint8_t signals[COPY_SIGNALS] = { 11, 7 };

/* --- system calls --- */

struct iovec_raw {
	uint64_t base, size;
};

/* Returns 0 or a negative errno. */
static int call_once(
	struct core *c, uint32_t call, uint64_t at, uint64_t address, size_t size)
{
	struct copying *k = &c->copying;
	struct iovec_raw mine = { (uint64_t)(uintptr_t)k->data + at, size };
	struct iovec_raw theirs = { address, size };
	long n;

	n = call == CALL_PWRITEV
		    ? SYS5(__NR_pwritev, k->fd, &theirs, 1, at, 0)
		    : SYS6(__NR_process_vm_readv, k->tid, &mine, 1, &theirs, 1, 0);
	count(c, RING_COPY_CALLS, 1);
	if (n < 0)
		return (int)n;
	count(c, RING_COPY_BYTES, (uint64_t)n);
	return n == (long)size ? 0 : -SHORT;
}

/* Says a call that failed so that it always will?  What a filter answers with, not what
 * comes of an address, a signal, or a lack of memory. */
static bool is_refusal(int error)
{
	switch (-error) {
	case 0:
	case BAD_ADDRESS:
	case SHORT:
	case TOO_BIG: /* RLIMIT_FSIZE, or one that was set later */
	case SYS_EINTR:
	case SYS_EAGAIN:
	case SYS_ENOMEM:
		return false;
	default:
		return true;
	}
}

static uint32_t flag_of(uint32_t call)
{
	return call == CALL_PWRITEV ? RING_COPY_CAN_PWRITE : RING_COPY_CAN_READV;
}

static int try_call(
	struct core *c, uint32_t call, uint64_t at, uint64_t address, size_t size)
{
	struct copying *k = &c->copying;
	int error;

	if ((k->refused & 1u << call) != 0)
		return k->error;
	error = call_once(c, call, at, address, size);
	if (is_refusal(error)) {
		k->refused |= 1u << call;
		k->flags &= ~flag_of(call);
		k->error = error;
	} else if (error == 0) {
		k->flags |= flag_of(call);
	}
	return error;
}

static void tell(struct core *c);

RARE static void stop(struct core *c)
{
	struct copying *k = &c->copying;

	k->state = RING_COPY_STOPPED;
	/* Before the orders nobody can be told. */
	if (!k->ordered)
		return;
	tell(c);
	task_leave(c, RING_LEAVE_NO_COPY, -k->error);
}

/* The call in use has failed, and not by a bad address: is the other one better? */
RARE static bool by_the_other(
	struct core *c, uint64_t at, uint64_t address, size_t size)
{
	struct copying *k = &c->copying;
	uint32_t flags = k->flags, other = CALL_PWRITEV + CALL_READV - k->call;
	int error = try_call(c, other, at, address, size);

	if (k->refused == (1u << CALL_PWRITEV | 1u << CALL_READV)) {
		stop(c);
		return false;
	}
	/* Also when it only found the address to be a bad one. */
	if (error == 0 || (k->refused & 1u << k->call) != 0)
		k->call = other;
	if (k->ordered && k->flags != flags)
		tell(c);
	return error == 0;
}

/* Memory of the program, into data from `at` on. */
static bool copy_in(struct core *c, uint64_t at, uint64_t address, size_t size)
{
	struct copying *k = &c->copying;
	int error;

	if (k->state == RING_COPY_STOPPED)
		return false;
	error = try_call(c, k->call, at, address, size);
	if (error == 0 || (error != -BAD_ADDRESS && by_the_other(c, at, address, size)))
		return true;
	count(c, RING_COPY_ERRORS, 1);
	return false;
}

/* --- chunks --- */

static const uint8_t *chunk_at(struct core *c, uint64_t address)
{
	struct copying *k = &c->copying;
	uint64_t number = address / COPY_CHUNK;
	uint32_t i = (uint32_t)(number ^ number / COPY_CHUNKS) & (COPY_CHUNKS - 1);

	if (k->chunk[i].address != address || k->chunk[i].moment != c->copy_moment) {
		/* What is there goes, even if nothing comes. */
		k->chunk[i].address = 0;
		if (!copy_in(c, i * COPY_CHUNK, address, COPY_CHUNK))
			return NULL;
		k->chunk[i].address = address;
		k->chunk[i].moment = c->copy_moment;
	}
	return k->data + i * COPY_CHUNK;
}

static void put(void *to, const uint8_t *from, unsigned size)
{
	if (size == 8)
		__builtin_memcpy(to, from, 8);
	else if (size == 4)
		__builtin_memcpy(to, from, 4);
	else
		memcpy(to, from, size);
}

/* Over the end of a chunk. */
RARE static bool load_across(struct core *c, void *to, uint64_t address, unsigned size)
{
	uint64_t next = (address + size) & ~(uint64_t)(COPY_CHUNK - 1);
	unsigned first = (unsigned)(next - address);
	const uint8_t *from = chunk_at(c, next - COPY_CHUNK);

	if (from == NULL)
		return false;
	memcpy(to, from + COPY_CHUNK - first, first);
	from = chunk_at(c, next);
	if (from == NULL)
		return false;
	memcpy((uint8_t *)to + first, from, size - first);
	return true;
}

static bool load_chunk(struct core *c, void *to, uint64_t address, unsigned size)
{
	unsigned at = address % COPY_CHUNK;
	const uint8_t *from;

	if (at + size > COPY_CHUNK)
		return load_across(c, to, address, size);
	from = chunk_at(c, address - at);
	if (from == NULL)
		return false;
	put(to, from + at, size);
	return true;
}

bool copy_bytes(struct core *c, void *to, uint64_t address, size_t size)
{
	uint8_t *bytes = to;

	while (size != 0) {
		size_t n = PAGE - address % PAGE;

		if (n > size)
			n = size;
		if (!copy_in(c, BULK, address, n))
			return false;
		memcpy(bytes, c->copying.data + BULK, n);
		bytes += n;
		address += n;
		size -= n;
	}
	return true;
}

/* --- loads --- */

static uint64_t *known_slot(struct copying *k, uint64_t page)
{
	uint64_t number = page / PAGE;

	return &k->known[(number ^ number / COPY_PAGES) & (COPY_PAGES - 1)];
}

static bool load_there(struct copying *k, void *to, uint64_t address, unsigned size)
{
	uint64_t at = k->page + (size == 8          ? COPY_AT_LOAD64
					: size == 4 ? COPY_AT_LOAD32
						    : COPY_AT_LOAD8);
	copy_load_function *load = (copy_load_function *)(uintptr_t)at;
	struct copy_loaded l = load(address);

	put(to, (const uint8_t *)&l.value, size);
	return l.failed == 0;
}

/*
 * A load faults only where memory went away.  Where nothing is known of a page, or not
 * since long, a system call reads from it first, and it is that which is taken.
 */
static bool load_fast(struct core *c, void *to, uint64_t address, unsigned size)
{
	struct copying *k = &c->copying;
	uint64_t page = address & ~(uint64_t)(PAGE - 1);
	uint64_t *known = known_slot(k, page);

	if (*known == page && address - page <= PAGE - size) {
		if (load_there(k, to, address, size))
			return true;
		*known = 0;
		return false;
	}
	if (!load_chunk(c, to, address, size))
		return false;
	*known = page;
	return true;
}

bool copy_load(struct core *c, void *to, uint64_t address, unsigned size)
{
	return c->copying.state == RING_COPY_BY_LOAD ? load_fast(c, to, address, size)
						     : load_chunk(c, to, address, size);
}

/* --- beginning --- */

static long mask_signals(int how, uint64_t mask)
{
	return SYS4(__NR_rt_sigprocmask, how, &mask, NULL, SIGNALS_BYTES);
}

static uint64_t both_signals(void)
{
	return 1ull << (signals[COPY_SEGV] - 1) | 1ull << (signals[COPY_BUS] - 1);
}

/* A memfd that pwritev() writes to and that is read where it is mapped; where there can
 * be none, plain memory for the other call. */
static long map_data(struct core *c)
{
	struct copying *k = &c->copying;
	long at = -SYS_EPERM, fd = -SYS_EPERM;

	if ((c->args.avoid & CORE_AVOID_PWRITEV) == 0)
		fd = SYS2(__NR_memfd_create, "pystack-copy", MAKE_SEALED);
	if (fd >= 0 && SYS2(__NR_ftruncate, fd, DATA_BYTES) == 0) {
		(void)SYS3(__NR_fcntl, fd, ADD_SEALS, SEALS);
		at = SYS6(__NR_mmap, 0, DATA_BYTES, READ_WRITE, MAP_BOTH, fd, 0);
	}
	k->fd = sys_is_address(at) ? (int)fd : -1;
	if (k->fd >= 0)
		return at;
	k->refused |= 1u << CALL_PWRITEV;
	k->error = (int)(fd < 0 ? fd : at);
	if (fd >= 0)
		(void)sys_close((int)fd);
	return SYS6(__NR_mmap, 0, DATA_BYTES, READ_WRITE, MAP_OWN, -1, 0);
}

void copy_begin(struct core *c)
{
	struct copying *k = &c->copying;
	uint64_t probe = (uint64_t)(uintptr_t)c & ~(uint64_t)(COPY_CHUNK - 1);
	long at;

	if (!c->thread)
		return;
	*k = (struct copying){ .fd = -1, .state = RING_COPY_BY_SYSCALL };
	c->copies = true;
	c->copy_moment = 1;
	k->tid = (int32_t)SYS0(__NR_gettid);
	k->call = CALL_PWRITEV;
	if ((c->args.avoid & CORE_AVOID_READV) != 0) {
		k->refused |= 1u << CALL_READV;
		k->error = -SYS_EPERM;
	}
	at = map_data(c);
	if (!sys_is_address(at)) {
		k->error = (int)at;
		k->refused = 1u << CALL_PWRITEV | 1u << CALL_READV;
		stop(c);
		return;
	}
	k->data = (uint8_t *)at;
	if ((c->args.avoid & CORE_AVOID_UNLOCK) == 0)
		(void)SYS2(__NR_munlock, at, DATA_BYTES);
	(void)SYS3(__NR_madvise, at, DATA_BYTES, DONT_FORK);
	/* From what is surely there.  The other call is tried only if need be: under
	 * some filters a call too much is a program's end. */
	(void)copy_in(c, BULK, probe, COPY_CHUNK);
}

/* --- handlers --- */

static long action_get(unsigned which, struct copy_action *ret)
{
	*ret = (struct copy_action){ 0 };
	return SYS4(__NR_rt_sigaction, signals[which], NULL, ret, SIGNALS_BYTES);
}

/* Put one there; what was there before comes back. */
static long action_exchange(
	unsigned which, const struct copy_action *new, struct copy_action *ret_old)
{
	*ret_old = (struct copy_action){ 0 };
	return SYS4(__NR_rt_sigaction, signals[which], new, ret_old, SIGNALS_BYTES);
}

static bool is_ours(uint64_t page, const struct copy_action *a)
{
	return page != 0 && a->handler == page + COPY_AT_HANDLER &&
	       (a->flags & FLAG_SIGINFO) != 0;
}

static bool same_action(const struct copy_action *a, const struct copy_action *b)
{
	return a->handler == b->handler && a->flags == b->flags && a->mask == b->mask;
}

static struct copy_state *state_of_page(uint64_t page)
{
	return (struct copy_state *)(page + COPY_PAGE_BYTES);
}

/* Nobody's actions lead to them. */
static bool is_idle(struct core *c, uint64_t page)
{
	uint64_t at = page + COPY_PAGE_BYTES + offsetof(struct copy_state, idle);
	uint32_t idle;

	return copy_bytes(c, &idle, at, sizeof(idle)) && idle != 0;
}

static struct pages make_pages(void)
{
	return (struct pages){
		.name = 0x7079737461636b,
		.begin = core_page_begin,
		.end = core_page_end,
		.are_free = is_idle,
	};
}

/* Are these pages of ours, with the code that this image has? */
static bool is_page(struct core *c, uint64_t page)
{
	const struct pages p = make_pages();
	uint64_t magic;

	return page % PAGE == 0 && sane(page) &&
	       copy_bytes(c, &magic, page + COPY_PAGE_BYTES, sizeof(magic)) &&
	       magic == COPY_PAGE_MAGIC && pages_have_code(c, &p, page);
}

/* With the mask and the flags of the action that it covers, what goes there finds all
 * as it asked for.  Who ignores a signal is not to have calls cut short by it. */
static void make_action(
	uint64_t page, const struct copy_action *saved, struct copy_action *ret)
{
	bool handled = saved->handler > HANDLER_IGNORE;

	*ret = (struct copy_action){
		.handler = page + COPY_AT_HANDLER,
		/* SA_RESETHAND is done by ours, which must stay. */
		.flags = (handled ? saved->flags & 0x7fffffff : FLAG_RESTART) |
			 FLAG_SIGINFO | FLAG_RESTORER,
		.restorer = page + COPY_AT_RETURN,
		.mask = handled ? saved->mask : 0,
	};
}

/* What an action stands for that may be one of ours, of pages that are not used any
 * more: that which those pages cover. */
static void uncover(struct core *c, unsigned which, struct copy_action *a)
{
	uint64_t page = a->handler - COPY_AT_HANDLER;
	struct copy_action under;

	for (unsigned i = 0; i < COVERED && a->handler > HANDLER_IGNORE; i++) {
		uint64_t at = page + COPY_PAGE_BYTES +
			      offsetof(struct copy_state, saved) +
			      which * sizeof(under);

		if (!is_page(c, page) || !copy_bytes(c, &under, at, sizeof(under)))
			return;
		*a = under;
		page = under.handler - COPY_AT_HANDLER;
	}
}

/* Are both still ours?  Who took one first is told. */
static bool still_ours(struct core *c)
{
	static const uint32_t taken[] = { RING_COPY_TAKEN_SEGV, RING_COPY_TAKEN_BUS };
	struct copying *k = &c->copying;
	struct copy_action a;
	bool both = true;

	for (unsigned i = 0; i < COPY_SIGNALS; i++) {
		if (action_get(i, &a) >= 0 && is_ours(k->page, &a))
			continue;
		both = false;
		if ((k->flags & taken[i]) == 0)
			k->owner[i] = a.handler;
		k->flags |= taken[i];
	}
	return both;
}

/* Returns 0, or a negative errno. */
static int cover(struct core *c, unsigned which, const struct copy_action *before)
{
	struct copying *k = &c->copying;
	struct copy_action *saved = &state_of_page(k->page)->saved[which];
	struct copy_action expected = *before, action, old;

	for (unsigned i = 0; i < EXCHANGES; i++) {
		long r;

		*saved = expected;
		uncover(c, which, saved);
		make_action(k->page, saved, &action);
		r = action_exchange(which, &action, &old);
		if (r < 0)
			return (int)r;
		if (is_ours(k->page, &old) || same_action(&old, &expected))
			return 0;
		/* Another one came between the two: it is what has to be covered. */
		expected = old;
	}
	return -BUSY;
}

/*
 * Take one out, if it is ours, by exchange: what comes out in its place, as it came in
 * after the look, is put back.  Returns true when nothing but ours was met.
 */
static bool uncover_action(struct core *c, unsigned which)
{
	const struct copying *k = &c->copying;
	struct copy_action put_in, out;

	if (action_get(which, &out) < 0 || !is_ours(k->page, &out))
		return false;
	put_in = state_of_page(k->page)->saved[which];
	if (action_exchange(which, &put_in, &out) < 0)
		return false;
	if (is_ours(k->page, &out))
		return true;
	for (unsigned i = 0; i < EXCHANGES; i++) {
		struct copy_action last = put_in;

		put_in = out;
		if (action_exchange(which, &put_in, &out) < 0 ||
			same_action(&out, &last))
			break;
	}
	return false;
}

static void take_out(struct core *c)
{
	struct copying *k = &c->copying;
	struct copy_state *s = state_of_page(k->page);
	bool segv, bus;

	(void)mask_signals(BLOCK, both_signals());
	__atomic_store_n(&s->sampler, 0, __ATOMIC_RELEASE);
	segv = uncover_action(c, COPY_SEGV);
	bus = uncover_action(c, COPY_BUS);
	s->idle = segv && bus && k->owner[0] == 0 && k->owner[1] == 0 &&
		  (k->flags & (RING_COPY_TAKEN_SEGV | RING_COPY_TAKEN_BUS)) == 0;
}

/* Returns 0, or a negative errno. */
static int get_both(struct copy_action ret[COPY_SIGNALS])
{
	for (unsigned i = 0; i < COPY_SIGNALS; i++) {
		long n = action_get(i, &ret[i]);

		if (n < 0)
			return (int)n;
	}
	return 0;
}

/* Those that another start has left there, or a parent, if both actions lead there. */
static uint64_t page_of(struct core *c, const struct copy_action now[COPY_SIGNALS])
{
	uint64_t page = now[0].handler - COPY_AT_HANDLER;

	return is_ours(page, &now[0]) && is_ours(page, &now[1]) && is_page(c, page)
		       ? page
		       : 0;
}

/* Free to use, and still idle.  Returns an address, or a negative errno. */
static long find_page(struct core *c)
{
	const struct pages p = make_pages();
	long at = pages_find(c, &p);

	if (sys_is_address(at)) {
		state_of_page((uint64_t)at)->magic = COPY_PAGE_MAGIC;
		state_of_page((uint64_t)at)->idle = 1;
	}
	return at;
}

/*
 * What can be known before: may actions be set, and is there room?  The kernel looks at
 * the size of a set of signals first, and a filter at the number of the call, so a size
 * that there is not asks without setting anything.  Returns 0, or a negative errno.
 */
static int prepare(struct core *c)
{
	struct copy_action now[COPY_SIGNALS];
	int r = get_both(now);
	long at;

	if (r != 0)
		return r;
	for (unsigned i = 0; i < COPY_SIGNALS; i++) {
		long n = SYS4(__NR_rt_sigaction, signals[i], &now[i], NULL, 0);

		if (n < 0 && n != -SYS_EINVAL)
			return (int)n;
	}
	at = find_page(c);
	if (!sys_is_address(at))
		return (int)at;
	c->copying.spare = (uint64_t)at;
	return 0;
}

/* Returns 0, or a negative errno. */
static int install(struct core *c)
{
	struct copying *k = &c->copying;
	struct copy_action before[COPY_SIGNALS];
	int r = get_both(before);
	struct copy_state *s;

	if (r != 0)
		return r;
	/* Those that are there are taken over as they are. */
	uint64_t page = page_of(c, before);

	if (page == 0)
		page = k->spare;
	if (page == 0) {
		long at = find_page(c);

		if (!sys_is_address(at))
			return (int)at;
		page = (uint64_t)at;
	}
	k->page = page;
	s = state_of_page(page);
	s->idle = 0;
	s->stray[0].signal = s->stray[1].signal = 0;
	s->stack = core_stack_base(c->args.arena);
	s->stack_bytes = CORE_STACK_BYTES;
	k->faults = s->faults;
	for (unsigned i = 0; i < COPY_SIGNALS && r == 0; i++)
		if (!is_ours(page, &before[i]))
			r = cover(c, i, &before[i]);
	if (r == 0 && !still_ours(c))
		r = -BUSY;
	if (r != 0)
		take_out(c);
	else
		__atomic_store_n(&s->sampler, k->tid, __ATOMIC_RELEASE);
	return r;
}

/* --- states --- */

static void tell(struct core *c)
{
	struct copying *k = &c->copying;
	struct ring_header *h = c->ring.header;
	struct record r;

	h->copy_state = k->state;
	h->copy_flags = k->flags;
	h->copy_owner[0] = k->owner[0];
	h->copy_owner[1] = k->owner[1];
	if (k->state != RING_COPY_WARMUP && !k->awaits)
		h->copy_warmup_ns = 0;
	record_begin(&r, REC_COPY);
	record_number(&r, k->state);
	record_number(&r, k->flags);
	record_number(&r, k->owner[0]);
	record_number(&r, k->owner[1]);
	record_number(&r, (uint64_t)loop_now(c));
	(void)record_put(c, &r, 0);
}

RARE static _Noreturn void go_without(struct core *c, int error)
{
	c->copying.flags |= RING_COPY_FELL_BACK;
	tell(c);
	task_leave(c, RING_LEAVE_NO_HANDLERS, -error);
}

RARE static void begin_warmup(struct core *c)
{
	struct copying *k = &c->copying;
	int r;

	k->awaits = false;
	r = install(c);
	if (r != 0)
		go_without(c, r);
	k->state = RING_COPY_WARMUP;
	k->fast_at_ns = loop_now(c) + (int64_t)c->options.warmup_ns;
	if (c->options.warmup_ns > INT64_MAX / 2)
		k->fast_at_ns = INT64_MAX;
	tell(c);
}

/*
 * Python's signal module reads, once, what actions there are, and takes what it finds
 * for the program's: a handler that it does not know is None to whoever asks, and
 * cannot be put back.  By the time that the interpreter is up it has done so.
 */
void copy_orders(struct core *c)
{
	struct copying *k = &c->copying;
	int r;

	if (!c->copies)
		return;
	k->ordered = true;
	if (c->options.copy == RING_COPY_FAST)
		k->flags |= RING_COPY_WANTED;
	if (k->state == RING_COPY_STOPPED)
		stop(c);
	if (c->options.copy != RING_COPY_FAST) {
		tell(c);
		return;
	}
	c->ring.header->copy_warmup_ns = c->options.warmup_ns;
	if (sample_is_up(c)) {
		begin_warmup(c);
		return;
	}
	r = prepare(c);
	if (r != 0)
		go_without(c, r);
	k->awaits = true;
	tell(c);
}

/* System calls from here on, for good. */
RARE static void fall_back(struct core *c)
{
	struct copying *k = &c->copying;

	(void)mask_signals(BLOCK, both_signals());
	k->state = RING_COPY_BY_SYSCALL;
	k->flags |= RING_COPY_FELL_BACK;
	tell(c);
}

/*
 * What was sent to the program and came to this thread, as no other one would have it,
 * is sent again with all that is told of it, once none can come here any more.
 */
RARE static void send_on(struct core *c)
{
	struct copy_state *s = state_of_page(c->copying.page);

	for (unsigned i = 0; i < COPY_SIGNALS; i++) {
		int sig = (int)__atomic_exchange_n(
			&s->stray[i].signal, 0, __ATOMIC_ACQ_REL);

		if (sig != 0 && SYS3(__NR_rt_sigqueueinfo, c->args.program_pid, sig,
					s->stray[i].info) < 0)
			(void)SYS2(__NR_kill, c->args.program_pid, sig);
	}
}

static bool has_stray(const struct copy_state *s)
{
	return __atomic_load_n(&s->stray[0].signal, __ATOMIC_ACQUIRE) != 0 ||
	       __atomic_load_n(&s->stray[1].signal, __ATOMIC_ACQUIRE) != 0;
}

static void forget_known(struct copying *k, int64_t now)
{
	memset(k->known, 0, sizeof(k->known));
	k->known_at_ns = now;
}

/* The warm-up is over, and both are ours. */
RARE static void go_fast(struct core *c, int64_t now)
{
	struct copying *k = &c->copying;

	if (mask_signals(UNBLOCK, both_signals()) < 0) {
		fall_back(c);
		return;
	}
	forget_known(k, now);
	k->state = RING_COPY_BY_LOAD;
	tell(c);
}

/* Whoever takes one is likely to take the other one, a moment later. */
static void look_for_the_other(struct core *c)
{
	const uint32_t both = RING_COPY_TAKEN_SEGV | RING_COPY_TAKEN_BUS;
	struct copying *k = &c->copying;
	uint32_t before = k->flags;

	if (k->state != RING_COPY_BY_SYSCALL || k->page == 0 ||
		(before & RING_COPY_FELL_BACK) == 0 || (before & both) == both)
		return;
	(void)still_ours(c);
	if (k->flags != before)
		tell(c);
}

void copy_look(struct core *c)
{
	struct copying *k = &c->copying;
	struct copy_state *s;
	int64_t now;

	if (k->awaits && sample_is_up(c)) {
		begin_warmup(c);
		return;
	}
	if (k->state != RING_COPY_WARMUP && k->state != RING_COPY_BY_LOAD) {
		look_for_the_other(c);
		return;
	}
	s = state_of_page(k->page);
	count(c, RING_COPY_FAULTS, s->faults - k->faults);
	k->faults = s->faults;
	if (!still_ours(c) || has_stray(s)) {
		fall_back(c);
		send_on(c);
		return;
	}
	now = loop_now(c);
	if (k->state == RING_COPY_BY_LOAD) {
		if (now - k->known_at_ns >= KNOWN_NS)
			forget_known(k, now);
		return;
	}
	if (now >= k->fast_at_ns)
		go_fast(c, now);
	else
		c->ring.header->copy_warmup_ns = (uint64_t)(k->fast_at_ns - now);
}

void copy_end(struct core *c)
{
	struct copying *k = &c->copying;

	if (!c->copies)
		return;
	if (k->page != 0) {
		take_out(c);
		send_on(c);
		k->page = 0;
	}
	k->state = RING_COPY_STOPPED;
	if (k->data != NULL)
		(void)SYS2(__NR_munmap, k->data, DATA_BYTES);
	if (k->fd >= 0)
		(void)sys_close(k->fd);
	k->data = NULL;
	k->fd = -1;
}
