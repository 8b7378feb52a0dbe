/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of a process: its texts, and those of this test's own. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "proc/elf.h"
#include "proc/maps.h"
#include "proc/mem.h"
#include "proc/process.h"
#include "tap.h"

/* --- maps --- */

/* The text in a block of its exact size. */
static void parse_maps(const char *text, struct proc_maps *maps)
{
	_cleanup_free_ char *copy = xstrdup(text);

	proc_maps_parse(copy, maps);
}

static void test_maps_lines(void)
{
	static const struct {
		const char *line;
		struct proc_map m; /* path NULL: the line does not fit */
	} cases[] = {
		{ "00400000-00401000 r-xp 00001000 fd:0a 1234 /usr/bin/python3.11",
			{ 0x400000, 0x401000, 0x1000, 1234, 0xfd, 0x0a, true, false,
				true, false, (char *)"/usr/bin/python3.11", false } },
		{ "7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0                          [stack]",
			{ 0x7ffe00000000, 0x7ffe00021000, 0, 0, 0, 0, true, true, false,
				false, (char *)"[stack]", false } },
		{ "7f0000000000-7f0000001000 ---p 00000000 00:00 0 ",
			{ 0x7f0000000000, 0x7f0000001000, 0, 0, 0, 0, false, false,
				false, false, (char *)"", false } },
		{ "7f0000000000-7f0000001000 rw-s 00000000 00:01 9 /memfd:core (deleted)",
			{ 0x7f0000000000, 0x7f0000001000, 0, 9, 0, 1, true, true, false,
				true, (char *)"/memfd:core", true } },
		{ "1000-2000 r--p ffffffffffff0000 08:102 18446744073709551615 /a b  c",
			{ 0x1000, 0x2000, 0xffffffffffff0000, UINT64_MAX, 8, 0x102,
				true, false, false, false, (char *)"/a b  c", false } },
		{ "1000-2000 r--p 0 08:02 5 /odd (deleted) (deleted)",
			{ 0x1000, 0x2000, 0, 5, 8, 2, true, false, false, false,
				(char *)"/odd (deleted)", true } },
		{ "1000-2000 r--p 0 08:02 5 (deleted)",
			{ 0x1000, 0x2000, 0, 5, 8, 2, true, false, false, false,
				(char *)"(deleted)", false } },
		{ "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
			{ 0xffffffffff600000, 0xffffffffff601000, 0, 0, 0, 0, false,
				false, true, false, (char *)"[vsyscall]", false } },
		{ "1000-1000 r--p 0 08:02 5 /empty",
			{ 0x1000, 0x1000, 0, 5, 8, 2, true, false, false, false,
				(char *)"/empty", false } },
		{ "2000-1000 r--p 0 08:02 5 /backwards", { .path = NULL } },
		{ "1000-2000 r-p 0 08:02 5 /short", { .path = NULL } },
		{ "1000-2000 r-xpz 0 08:02 5 /long", { .path = NULL } },
		{ "1000-2000", { .path = NULL } },
		{ "1000-2000 r--p", { .path = NULL } },
		{ "1000-2000 r--p 0 08:02", { .path = NULL } },
		{ "1000 2000 r--p 0 08:02 5 /x", { .path = NULL } },
		{ "xyz", { .path = NULL } },
		{ "VmFlags: rd wr", { .path = NULL } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct proc_map *w = &cases[i].m;
		struct proc_maps maps;

		parse_maps(cases[i].line, &maps);
		if (w->path == NULL) {
			tap_ok(maps.count == 0, "passed over: '%s'", cases[i].line);
		} else {
			const struct proc_map *m = maps.map;

			tap_ok(maps.count == 1 && m->start == w->start &&
					m->end == w->end && m->offset == w->offset &&
					m->inode == w->inode &&
					m->device_major == w->device_major &&
					m->device_minor == w->device_minor &&
					m->readable == w->readable &&
					m->writable == w->writable &&
					m->executable == w->executable &&
					m->shared == w->shared &&
					m->deleted == w->deleted &&
					strcmp(m->path, w->path) == 0,
				"'%s'", cases[i].line);
		}
		proc_maps_done(&maps);
	}
}

static void test_maps_text(void)
{
	static const char text[] = "1000-2000 r--p 0 08:02 5 /a\n"
				   "\n"
				   "nonsense\n"
				   "2000-3000 r-xp 1000 08:02 5 /a\n"
				   "5000-6000 rw-p 0 00:00 0 \n"
				   "6000-7000 r--p 0 08:02 6 /b";
	struct proc_maps maps;
	static const struct {
		uint64_t address;
		int index; /* -1: none */
	} cases[] = { { 0, -1 }, { 0xfff, -1 }, { 0x1000, 0 }, { 0x1fff, 0 },
		{ 0x2000, 1 }, { 0x3000, -1 }, { 0x4fff, -1 }, { 0x5000, 2 },
		{ 0x6fff, 3 }, { 0x7000, -1 }, { UINT64_MAX, -1 } };
	bool right = true;

	parse_maps(text, &maps);
	tap_is((int64_t)maps.count, 4, "lines that do not fit are passed over");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		right &= proc_maps_at(&maps, cases[i].address) ==
			 (cases[i].index < 0 ? NULL : &maps.map[cases[i].index]);
	tap_ok(right, "the mapping of an address");
	tap_ok(proc_maps_named(&maps, "/a") == &maps.map[0] &&
			proc_maps_named(&maps, "/b") == &maps.map[3] &&
			proc_maps_named(&maps, "/") == NULL &&
			proc_maps_named(&maps, "") == &maps.map[2],
		"the mapping of a name");
	proc_maps_done(&maps);
	tap_ok(maps.count == 0 && maps.map == NULL, "done");
	parse_maps("", &maps);
	tap_is((int64_t)maps.count, 0, "no text");
	proc_maps_done(&maps);

	/* Every prefix of a text, in a block of its own. */
	for (size_t size = 0; size < sizeof(text); size++) {
		_cleanup_free_ char *cut = xmemdup0(text, size);

		proc_maps_parse(cut, &maps);
		right &= maps.count <= 4;
		proc_maps_done(&maps);
	}
	tap_ok(right, "cut anywhere");
}

static void test_maps_own(void)
{
	struct proc_maps maps;
	struct err err = { "" };
	int on_stack = 0;
	static int in_data;

	if (!tap_is(proc_maps_read(getpid(), &maps, &err), 0, "own mappings"))
		return;
	const struct proc_map *code = proc_maps_at(&maps, (uintptr_t)test_maps_own);
	const struct proc_map *data = proc_maps_at(&maps, (uintptr_t)&in_data);
	const struct proc_map *stack = proc_maps_named(&maps, "[stack]");

	tap_ok(code != NULL && code->executable && code->readable && !code->writable &&
			strstr(code->path, "t-proc") != NULL,
		"this function lies in this program");
	tap_ok(data != NULL && data->writable && !data->executable,
		"its data can be written");
	tap_ok(stack != NULL && (uintptr_t)&on_stack >= stack->start &&
			(uintptr_t)&on_stack < stack->end,
		"its stack");
	proc_maps_done(&maps);
	tap_ok(proc_maps_read(0x7fffffff, &maps, &err) < 0 &&
			strncmp(err.text, "/proc/2147483647/maps: ", 23) == 0,
		"a process that is not there is named");
}

/* --- stat --- */

#define STAT_TAIL                                                                      \
	" S 77 1 1 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0 987654321 1000000 500 18446744073709551615"

static void test_stat(void)
{
	static const struct {
		const char *what, *text, *comm;
		char state;
		int64_t parent;
		uint64_t start;
	} cases[] = {
		{ "plain", "4711 (python3)" STAT_TAIL, "python3", 'S', 77, 987654321 },
		{ "a name with blanks", "4711 (Web Content)" STAT_TAIL, "Web Content",
			'S', 77, 987654321 },
		{ "a name with parentheses", "4711 ((sd-pam))" STAT_TAIL, "(sd-pam)",
			'S', 77, 987654321 },
		{ "a name like the rest", "4711 (a) R 1 (b)" STAT_TAIL, "a) R 1 (b",
			'S', 77, 987654321 },
		{ "an empty name", "4711 ()" STAT_TAIL, "", 'S', 77, 987654321 },
		{ "a name with a newline", "4711 (a\nb)" STAT_TAIL, "a\nb", 'S', 77,
			987654321 },
		{ "a name of 64 bytes",
			"1 (kworker/u16:3-events_unbound_and_more_than_that_0123456789abcdef)" STAT_TAIL,
			"kworker/u16:3-events_unbound_and_more_than_that_0123456789abcdef",
			'S', 77, 987654321 },
		{ "a longer name is cut",
			"1 (kworker/u16:3-events_unbound_and_more_than_that_0123456789abcdef+x)" STAT_TAIL,
			"kworker/u16:3-events_unbound_and_more_than_that_0123456789abcdef",
			'S', 77, 987654321 },
		{ "a zombie", "9 (x) Z 1 9 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0",
			"x", 'Z', 1, 5 },
		{ "the largest start",
			"9 (x) R 0 9 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 "
			"18446744073709551615",
			"x", 'R', 0, UINT64_MAX },
	};
	static const char *const bad[] = {
		"", "4711", "4711 (python3", "4711 python3) S 1", "4711 )python3( S 1",
		"4711 (python3)", "4711 (python3) S", "4711 (python3) S x",
		"4711 (python3) S 77 1 1 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0",
		"4711 (python3) S 77 1 1 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0 start"
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ char *text = xstrdup(cases[i].text);
		struct proc_stat s;

		tap_ok(proc_stat_parse(text, &s) == 0 &&
				strcmp(s.comm, cases[i].comm) == 0 &&
				s.state == cases[i].state &&
				s.parent == cases[i].parent &&
				s.start_ticks == cases[i].start,
			"stat: %s", cases[i].what);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		_cleanup_free_ char *text = xstrdup(bad[i]);
		struct proc_stat s = { .parent = 99 };

		tap_ok(proc_stat_parse(text, &s) == -E_BADFORMAT && s.parent == 99,
			"stat: '%s' is none", bad[i]);
	}
}

static void test_stat_numbers(void)
{
	struct proc_stat s;

	tap_ok(proc_stat_parse("4711 (python3)" STAT_TAIL, &s) == 0 && s.threads == 3 &&
			s.cpu_ticks == 11 && !s.kernel_thread,
		"stat: threads, CPU time of user and system, no kernel thread");
	tap_ok(proc_stat_parse("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 5 0 0 20 0 "
			       "1 0 42 0 0",
		       &s) == 0 &&
			s.kernel_thread && s.cpu_ticks == 5 && s.threads == 1,
		"stat: a thread of the kernel");
}

static void test_stat_own(void)
{
	struct proc_stat s, t;

	(void)prctl(PR_SET_NAME, "a) R (1");
	tap_ok(proc_stat_read(getpid(), 0, &s) == 0 && strcmp(s.comm, "a) R (1") == 0 &&
			s.state == 'R' && s.parent == getppid() && s.start_ticks > 0,
		"own stat, under a name that is hard to read");
	tap_ok(proc_stat_read(getpid(), getpid(), &t) == 0 &&
			t.start_ticks == s.start_ticks,
		"and that of the main thread");
	tap_ok(proc_stat_read(0x7fffffff, 0, &s) < 0, "a process that is not there");
	tap_ok(proc_stat_read(getpid(), 0x7fffffff, &s) < 0,
		"a thread that is not there");
}

/* --- status --- */

static void test_status(void)
{
	static const char text[] = "Name:\tTracerPid: 5\n"
				   "Umask:\t0022\n"
				   "State:\tS (sleeping)\n"
				   "Tgid:\t4700\n"
				   "Pid:\t4711\n"
				   "TracerPid:\t815\n"
				   "Uid:\t1000\t1001\t1002\t1003\n"
				   "Gid:\t2000\t2001\t2002\t2003\n"
				   "NSpid:\t4711\t52\t1\n"
				   "NSpgid:\t99\t98\n"
				   "VmSize:\t   12345 kB\n"
				   "VmLck:\t      16 kB\n"
				   "CapInh:\t0000000000000001\n"
				   "CapPrm:\t000001ffffffffff\n"
				   "CapEff:\t0000000000080000\n"
				   "CapBnd:\t0000000000000003\n"
				   "NoNewPrivs:\t1\n"
				   "Seccomp:\t2\n"
				   "Seccomp_filters:\t7\n"
				   "x86_Thread_features:\tshstk wrss\n"
				   "x86_Thread_features_locked:\tshstk wrss\n";
	struct proc_status s;

	proc_status_parse(text, &s);
	tap_ok(s.uid == 1000 && s.gid == 2000, "status: the real user and group");
	tap_is(s.tracer, 815, "who traces it, whatever its name");
	tap_is(s.inner_pid, 1, "the innermost process id");
	tap_is(s.seccomp, 2, "seccomp, not the number of its filters");
	tap_ok(s.shadow_stack, "a shadow stack");
	tap_ok(s.effective_uid == 1001 && s.saved_uid == 1002,
		"the effective and the saved user");
	tap_ok(s.effective_gid == 2001 && s.saved_gid == 2002, "and group");
	tap_is(s.process, 4700, "whose thread it is");
	tap_ok(s.permitted_capabilities == 0x1ffffffffff && s.capabilities == 1 << 19,
		"capabilities: permitted and effective");
	tap_ok(s.no_new_privs, "no_new_privs");
	tap_ok(s.size_kib == 12345 && s.locked_kib == 16, "sizes of its memory");
	proc_status_parse(
		"Uid:\t7\nCapEff:\nCapPrm:\tx\nVmSize:\n9\nNoNewPrivs:\t0\n", &s);
	tap_ok(s.effective_uid == 7 && s.saved_uid == 7 && s.capabilities == 0 &&
			s.permitted_capabilities == 0 && s.size_kib == 0 &&
			!s.no_new_privs,
		"status: numbers that are not there");

	static const struct {
		const char *what, *text;
		struct proc_status s;
	} cases[] = {
		{ "nothing", "", { 0 } },
		{ "empty lines", "\n\n\n", { 0 } },
		{ "a line without an end", "TracerPid:\t7", { .tracer = 7 } },
		{ "one namespace", "NSpid:\t12\n", { .inner_pid = 12 } },
		{ "no number", "NSpid:\nTracerPid:\tx\nUid:\t-\n", { 0 } },
		{ "a name that only begins so", "TracerPidX:\t7\nUids:\t5\n", { 0 } },
		{ "a name behind something", " TracerPid:\t7\n", { 0 } },
		{ "a shadow stack that is off",
			"x86_Thread_features:\t\n"
			"x86_Thread_features_locked:\tshstk\n",
			{ 0 } },
		{ "the largest user", "Uid:\t4294967295\n", { .uid = UINT32_MAX } },
		{ "the first of two lines counts", "Seccomp:\t1\nSeccomp:\t2\n",
			{ .seccomp = 1 } },
		{ "carriage returns", "Seccomp:\t1\r\nTracerPid:\t3\r\n",
			{ .seccomp = 1, .tracer = 3 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ char *copy = xstrdup(cases[i].text);
		const struct proc_status *w = &cases[i].s;

		memset(&s, 0x5a, sizeof(s));
		proc_status_parse(copy, &s);
		tap_ok(s.uid == w->uid && s.gid == w->gid && s.tracer == w->tracer &&
				s.inner_pid == w->inner_pid &&
				s.seccomp == w->seccomp &&
				s.shadow_stack == w->shadow_stack,
			"status: %s", cases[i].what);
	}
	tap_ok(proc_status_read(getpid(), &s) == 0 && s.uid == getuid() &&
			s.gid == getgid() && s.inner_pid != 0,
		"own status");
	tap_ok(proc_status_read(0x7fffffff, &s) < 0, "of a process that is not there");
}

/* --- namespaces --- */

static void test_namespaces(void)
{
	tap_ok(proc_same_namespace(getpid(), "pid") == 1 &&
			proc_same_namespace(getpid(), "mnt") == 1,
		"a process is in its own namespaces");
	tap_ok(proc_same_namespace(getpid(), "nonsense") < 0, "of no such kind");
	tap_ok(proc_same_namespace(0x7fffffff, "pid") < 0, "of no such process");
}

/* --- processes --- */

static void *wait_there(void *argument)
{
	int *fds = argument;
	char byte;

	(void)!write(fds[1], "x", 1);
	(void)!read(fds[2], &byte, 1);
	return NULL;
}

static void test_processes(void)
{
	_cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
	struct proc_ids ids;
	char text[200], byte;
	int fds[4];
	pthread_t thread;

	tap_ok(proc_cmdline_read(getpid(), &b) == 0 && b.size > 6 &&
			b.data[b.size - 1] == '\0' && strstr(b.data, "t-proc") != NULL,
		"own command line");
	proc_describe(getpid(), text, sizeof(text));
	tap_ok(strstr(text, "t-proc") != NULL, "and its text");
	proc_describe(getpid(), text, 4);
	tap_is((int64_t)strlen(text), 3, "cut to what there is room for");
	tap_is(text[2], '~', "and marked");
	text[0] = 'x';
	proc_describe(getpid(), text, 0);
	tap_is(text[0], 'x', "or to nothing");
	proc_describe(0x7fffffff, text, sizeof(text));
	tap_str(text, "", "no process has no text");

	_cleanup_free_ char *exe = proc_exe(getpid()), *none = proc_exe(0x7fffffff);

	tap_ok(exe != NULL && exe[0] == '/' && none == NULL, "own program");
	if (pipe(fds) != 0 || pipe(fds + 2) != 0)
		return;
	if (pthread_create(&thread, NULL, wait_there, fds) == 0) {
		(void)!read(fds[0], &byte, 1);
		tap_ok(proc_threads(getpid(), &ids) == 0 && ids.count >= 2 &&
				ids.id[0] == getpid(),
			"own threads, the main one first");
		proc_ids_done(&ids);
		(void)!write(fds[3], "x", 1);
		(void)pthread_join(thread, NULL);
	}
	(void)fflush(stdout);
	pid_t child = fork();

	if (child == 0) {
		(void)!read(fds[2], &byte, 1);
		_exit(0);
	}
	bool found = false;
	int r = proc_children(getpid(), &ids);

	for (size_t i = 0; r == 0 && i < ids.count; i++)
		found |= ids.id[i] == child;
	/* The file of children is there only where the kernel was made with it. */
	if (access("/proc/self/task", F_OK) == 0 && r == 0 && ids.count == 0)
		tap_skip("own children", "this kernel does not list them");
	else
		tap_ok(found, "own children");
	if (r == 0)
		proc_ids_done(&ids);
	tap_ok(proc_is_below(child, getpid()) && proc_is_below(getpid(), getpid()) &&
			!proc_is_below(getpid(), child) &&
			!proc_is_below(0x7fffffff, getpid()),
		"who is below whom");
	tap_ok(proc_same_pid_namespace(child) && !proc_same_pid_namespace(0x7fffffff),
		"in the same namespace");
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	tap_ok(proc_threads(0x7fffffff, &ids) < 0 &&
			proc_children(0x7fffffff, &ids) < 0,
		"a process that is not there");
}

/* --- memory --- */

static void test_memory(bool by_file)
{
	struct proc_mem m;
	unsigned char *p = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t base = (uintptr_t)p, v64 = 0;
	unsigned char got[8192];
	uint32_t v32 = 0;
	const char *how = by_file ? "by /proc/PID/mem" : "by process_vm_readv";

	if (p == MAP_FAILED || munmap(p + 2 * 4096, 4096) != 0)
		return;
	for (int i = 0; i < 8192; i++)
		p[i] = (unsigned char)(i * 11 >> 2);
	proc_mem_init(&m, getpid());
	m.by_file = by_file;
	tap_ok(proc_mem_read(&m, base + 100, got, 8000) == 0 &&
			memcmp(got, p + 100, 8000) == 0,
		"own memory, %s", how);
	tap_ok(proc_mem_u64(&m, base + 3, &v64) && memcmp(&v64, p + 3, 8) == 0 &&
			proc_mem_u32(&m, base + 3, &v32) && memcmp(&v32, p + 3, 4) == 0,
		"words of it");
	tap_is(proc_mem_read(&m, base + 8190, got, 4), -EFAULT,
		"all or nothing, over an end");
	tap_ok(proc_mem_read_some(&m, base + 8190, got, 4) == 2 && got[0] == p[8190] &&
			got[1] == p[8191],
		"or as much as there is");
	tap_is((int64_t)proc_mem_read_some(&m, base + 8192, got, 4), 0, "or none");
	static const uint64_t bad[] = { 0, 8, 1ull << 47, 1ull << 63, UINT64_MAX - 3,
		UINT64_MAX };
	bool refused = true;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused &= proc_mem_read(&m, bad[i], got, 16) < 0 &&
			   proc_mem_read_some(&m, bad[i], got, 16) == 0 &&
			   !proc_mem_u64(&m, bad[i], &v64);
	tap_ok(refused, "addresses where nothing is");
	proc_mem_done(&m);
	tap_is(m.fd, -1, "done");
	proc_mem_done(&m);
	proc_mem_init(&m, 0x7fffffff);
	m.by_file = by_file;
	tap_ok(proc_mem_read(&m, base, got, 8) < 0, "a process that is not there");
	proc_mem_done(&m);
	(void)munmap(p, 2 * 4096);
}

/* --- symbols --- */

/* Found by name, as a Python's are; the loader of symbols passes over names that do
 * not begin as those do. */
int pystack_test_symbol(void);
int pystack_test_symbol(void)
{
	return 1;
}

static void test_symbols(void)
{
	struct elf_symbol symbols[] = { { .name = "pystack_test_symbol" },
		{ .name = "pystack_no_symbol" }, { .name = "_start" } };
	struct proc_maps maps;
	struct proc_mem mem;

	if (proc_maps_read(getpid(), &maps, NULL) != 0)
		return;
	size_t first = 0;
	const struct proc_map *own =
		proc_maps_at(&maps, (uintptr_t)pystack_test_symbol);

	while (first < maps.count && strcmp(maps.map[first].path, own->path) != 0)
		first++;
	proc_mem_init(&mem, getpid());
	int found = elf_symbols(&mem, &maps, first, symbols, 3);

	tap_ok(found == 2 && symbols[0].address == (uintptr_t)pystack_test_symbol &&
			symbols[1].address == 0 && symbols[2].address != 0,
		"symbols of this program");
	/* The vDSO has no file: it is read from memory. */
	const struct proc_map *vdso = proc_maps_named(&maps, "[vdso]");
	struct elf_symbol in_vdso[] = { { .name = "__vdso_clock_gettime" } };

	if (vdso != NULL)
		tap_ok(elf_symbols(&mem, &maps, (size_t)(vdso - maps.map), in_vdso,
			       1) == 1 &&
				in_vdso[0].address > vdso->start &&
				in_vdso[0].address < vdso->end,
			"symbols from memory, without a file");
	const struct proc_map *stack = proc_maps_named(&maps, "[stack]");

	if (stack != NULL)
		tap_ok(elf_symbols(
			       &mem, &maps, (size_t)(stack - maps.map), in_vdso, 1) < 0,
			"the stack has no symbols");
	proc_mem_done(&mem);
	proc_maps_done(&maps);
}

/* A child that has ended and is not reaped. */
static pid_t ended_child(void)
{
	pid_t pid = fork();
	siginfo_t info;

	if (pid == 0)
		_exit(0);
	(void)waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	return pid;
}

static void test_shared_memory(void)
{
	pid_t first = ended_child(), second = ended_child();
	pid_t child = vfork();

	/* It runs in this memory, until it ends. */
	if (child == 0)
		_exit(proc_share_memory(getppid(), getpid()) ? 0 : 1);
	int status = -1;

	(void)waitpid(child, &status, 0);
	tap_ok(status == 0, "a vfork child runs in its parent's memory");
	tap_ok(!proc_share_memory(getpid(), 1), "others do not");
	tap_ok(!proc_share_memory(first, second) && !proc_share_memory(getpid(), first),
		"nor do those that have ended, which have none");
	(void)waitpid(first, NULL, 0);
	(void)waitpid(second, NULL, 0);
}

int main(void)
{
	test_maps_lines();
	test_maps_text();
	test_maps_own();
	test_stat();
	test_stat_numbers();
	test_stat_own();
	test_status();
	test_namespaces();
	test_processes();
	test_memory(false);
	test_memory(true);
	test_symbols();
	test_shared_memory();
	tap_ok(proc_image_mark(getpid()) != 0 &&
			proc_image_mark(getpid()) == proc_image_mark(getpid()),
		"the mark of a program stays the same");
	tap_ok(proc_image_mark(1 << 30) == 0, "and there is none of no process");
	return tap_done();
}
