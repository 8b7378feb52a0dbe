/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded loads: memory that can be read, that cannot, and faults that are not theirs.
 * The core's linker script gives the bounds of the fix-up table; here the linker's own
 * symbols do (tests/unit/local.mk).
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/arch.h"
#include "scratch.h"
#include "tap.h"

enum { PAGE = 4096 };

static volatile sig_atomic_t fixed, foreign, last_code;
static volatile unsigned char loaded;
static sigjmp_buf way_out;
static volatile sig_atomic_t jump;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	last_code = info->si_code;
	if (arch_fault_fix(sig, info, context)) {
		fixed++;
		return;
	}
	foreign++;
	if (jump)
		siglongjmp(way_out, 1);
}

static void install(void)
{
	struct sigaction a = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGSEGV, &a, NULL) != 0 || sigaction(SIGBUS, &a, NULL) != 0) {
		printf("Bail out! no handler\n");
		exit(1);
	}
}

/* Three pages: one that can be read, one that cannot, and one of no memory at all. */
static unsigned char *pages;

static void map_pages(void)
{
	pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) != 0 ||
		munmap(pages + 2 * PAGE, PAGE) != 0) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	for (int i = 0; i < PAGE; i++)
		pages[i] = (unsigned char)(i * 7 + 1);
}

static uint64_t at(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* Valgrind leaves out a load of what nobody uses. */
static void use(const void *what)
{
	__asm__ volatile("" : : "r"(what) : "memory");
}

/* All three loads from there, and a copy: do all of them succeed (1), none (0)? */
static int loads(uint64_t address)
{
	uint64_t v64;
	uint32_t v32;
	uint8_t v8, bytes[16];
	int good = arch_load64(address, &v64) + arch_load32(address, &v32) +
		   arch_load8(address, &v8) + arch_copy(bytes, address, sizeof(bytes));

	use(&v64);
	use(&v32);
	use(&v8);
	return good == 4 ? 1 : good == 0 ? 0 : -1;
}

static void test_good(void)
{
	uint64_t v64 = 0;
	uint32_t v32 = 0;
	uint8_t v8 = 0, bytes[300];

	tap_ok(arch_load64(at(pages + 8), &v64) && memcmp(&v64, pages + 8, 8) == 0,
		"8 bytes");
	tap_ok(arch_load32(at(pages + 8), &v32) && memcmp(&v32, pages + 8, 4) == 0,
		"4 bytes");
	tap_ok(arch_load8(at(pages + 8), &v8) && v8 == pages[8], "1 byte");
	tap_ok(arch_load64(at(pages + 3), &v64) && memcmp(&v64, pages + 3, 8) == 0,
		"8 bytes that are not aligned");
	tap_ok(arch_load64(at(pages + PAGE - 8), &v64), "the last 8 of a page");
	tap_ok(arch_load8(at(pages + PAGE - 1), &v8) && v8 == pages[PAGE - 1],
		"the last byte");
	tap_ok(arch_copy(bytes, at(pages + 5), sizeof(bytes)) &&
			memcmp(bytes, pages + 5, sizeof(bytes)) == 0,
		"a copy");
	tap_ok(arch_copy(bytes, at(pages + PAGE - 300), 300),
		"a copy of the last bytes");
	tap_ok(arch_copy(bytes, at(pages + PAGE), 0),
		"a copy of nothing, from nowhere");
	tap_is(fixed + foreign, 0, "nothing of that faults");
}

static void test_bad(void)
{
	const struct {
		const char *what;
		uint64_t address;
	} cases[] = {
		{ "memory without rights", at(pages + PAGE) },
		{ "its last bytes", at(pages + 2 * PAGE - 1) },
		{ "no memory", at(pages + 2 * PAGE) },
		{ "address 0", 0 },
		{ "address 8", 8 },
		{ "the last address of all", ARCH_USER_END - 16 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fixed = foreign = 0;
		tap_is(loads(cases[i].address), 0, cases[i].what);
		tap_ok(fixed == 4 && foreign == 0, "four faults are put right");
	}
}

/* Loads that begin in good memory and end in bad. */
static void test_across(void)
{
	uint64_t v64;
	uint32_t v32;
	uint8_t bytes[64] = { 0 };
	/* Under valgrind the last byte's fault comes when rcx is 0 already. */
	const size_t copies = sizeof(bytes) - 1 - tap_valgrind();
	bool failed = true;

	fixed = foreign = 0;
	for (uint64_t back = 1; back < 8; back++) {
		failed &= !arch_load64(at(pages + PAGE) - back, &v64);
		use(&v64);
	}
	for (uint64_t back = 1; back < 4; back++) {
		failed &= !arch_load32(at(pages + PAGE) - back, &v32);
		use(&v32);
	}
	tap_ok(failed && fixed == 10 && foreign == 0, "loads over the end of a page");

	failed = true;
	for (size_t back = 1; back <= copies; back++) {
		memset(bytes, 0, sizeof(bytes));
		failed &= !arch_copy(bytes, at(pages + PAGE) - back, sizeof(bytes));
		/* What could be read was, and nothing behind it was written. */
		failed &= memcmp(bytes, pages + PAGE - back, back) == 0 &&
			  bytes[back] == 0;
	}
	tap_ok(failed && fixed == 10 + (int)copies && foreign == 0,
		"copies over the end of a page");

	static uint8_t large[3 * PAGE];

	tap_ok(!arch_copy(large, at(pages), sizeof(large)) &&
			memcmp(large, pages, PAGE) == 0,
		"a copy that goes on for pages");
}

/* Behind the end of a file that is mapped: SIGBUS. */
static void test_bus(void)
{
	int fd = open(scratch("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	uint64_t v64;
	uint8_t bytes[32];

	if (fd < 0 || ftruncate(fd, 100) != 0)
		return;
	unsigned char *p = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);

	fixed = foreign = 0;
	tap_ok(arch_load64(at(p + 1000), &v64) && v64 == 0,
		"the rest of a file's last page");
	tap_ok(!arch_load64(at(p + PAGE), &v64) &&
			!arch_load64(at(p + PAGE - 4), &v64) &&
			!arch_copy(bytes, at(p + PAGE - 4), sizeof(bytes)),
		"behind a file's end");
	tap_ok(fixed == 3 && foreign == 0, "SIGBUS is put right as well");
	if (p != MAP_FAILED)
		(void)munmap(p, 2 * PAGE);
	(void)close(fd);
}

static void test_sent(void)
{
	fixed = foreign = 0;
	(void)kill(getpid(), SIGSEGV);
	tap_ok(foreign == 1 && fixed == 0 && last_code == SI_USER, "kill: not ours");
	(void)syscall(SYS_tgkill, getpid(), gettid(), SIGSEGV);
	tap_ok(foreign == 2 && fixed == 0 && last_code == SI_TKILL, "tgkill: not ours");
	union sigval value = { .sival_int = 0 };

	if (tap_valgrind()) {
		tap_skip("sigqueue: not ours", "it comes late under valgrind");
		return;
	}
	(void)sigqueue(getpid(), SIGBUS, value);
	tap_ok(foreign == 3 && fixed == 0 && last_code == SI_QUEUE,
		"sigqueue: not ours");
}

static void test_foreign(void)
{
	fixed = foreign = 0;
	jump = 1;
	if (sigsetjmp(way_out, 1) == 0) {
		/* A load like any other of the program's. */
		loaded = *(volatile unsigned char *)(pages + PAGE);
		tap_ok(false, "a load without a guard faults");
	}
	tap_ok(foreign == 1 && fixed == 0, "a fault of the program's own is not ours");
	if (sigsetjmp(way_out, 1) == 0) {
		*(volatile unsigned char *)(pages + PAGE) = 1;
		tap_ok(false, "a store faults");
	}
	tap_ok(foreign == 2 && fixed == 0, "nor is a store");
	jump = 0;
	tap_is(loads(at(pages + PAGE)), 0, "and then loads are guarded as before");
}

/* --- by hand --- */

extern const int32_t core_fixups_begin[] __attribute__((visibility("hidden")));
extern const int32_t core_fixups_end[] __attribute__((visibility("hidden")));

/* What the handler would make of a fault at a guarded instruction. */
static int judge(size_t row, uint64_t from, uint64_t count, uint64_t address, int code,
	ucontext_t *uc)
{
	siginfo_t info = { .si_signo = SIGSEGV, .si_code = code };
	const int32_t *fixup = &core_fixups_begin[2 * row];

	info.si_addr = (void *)(uintptr_t)address;
	memset(uc, 0, sizeof(*uc));
	uc->uc_mcontext.gregs[REG_RIP] =
		(greg_t)(at(fixup) + (uint64_t)(int64_t)fixup[0]);
	uc->uc_mcontext.gregs[REG_RSI] = (greg_t)from;
	uc->uc_mcontext.gregs[REG_RCX] = (greg_t)count;
	return arch_fault_fix(SIGSEGV, &info, uc);
}

static void test_judgement(void)
{
	size_t rows = (size_t)(core_fixups_end - core_fixups_begin) / 2;
	bool load = true, copy = true, resumes = true, sent = true, other = true;
	unsigned copies = 0;

	for (size_t i = 0; i < rows; i++) {
		const int32_t *fixup = &core_fixups_begin[2 * i];
		const unsigned char *code = (const unsigned char *)fixup + fixup[0];
		bool is_copy = *code == 0xf3; /* rep movsb */
		ucontext_t uc;

		copies += is_copy;
		sent &= judge(i, 0x1000, 64, 0x1000, SI_USER, &uc) == 0 &&
			judge(i, 0x1000, 64, 0x1000, SI_TKILL, &uc) == 0;
		if (is_copy)
			copy &= judge(i, 0x1000, 64, 0x1000, SEGV_MAPERR, &uc) == 1 &&
				judge(i, 0x1000, 64, 0x103f, SEGV_MAPERR, &uc) == 1 &&
				judge(i, 0x1000, 64, 0x1040, SEGV_MAPERR, &uc) == 0 &&
				judge(i, 0x1000, 64, 0x0fff, SEGV_MAPERR, &uc) == 0;
		else
			load &= judge(i, 0x1000, 64, 0x1000, SEGV_ACCERR, &uc) == 1 &&
				judge(i, 0x1000, 64, 0x1007, SEGV_ACCERR, &uc) == 1 &&
				judge(i, 0x1000, 64, 0x1008, SEGV_ACCERR, &uc) == 0 &&
				judge(i, 0x1000, 64, 0x0fff, SEGV_ACCERR, &uc) == 0;
		(void)judge(i, 0x1000, 64, 0x1000, SEGV_MAPERR, &uc);
		resumes &= uc.uc_mcontext.gregs[REG_RAX] == 1 &&
			   (uint64_t)uc.uc_mcontext.gregs[REG_RIP] ==
				   at(&fixup[1]) + (uint64_t)(int64_t)fixup[1];
		/* An instruction beside it. */
		siginfo_t info = { .si_signo = SIGSEGV, .si_code = SEGV_MAPERR };

		uc.uc_mcontext.gregs[REG_RIP] = (greg_t)(at(code) + 1);
		other &= arch_fault_fix(SIGSEGV, &info, &uc) == 0;
	}
	tap_ok(rows > 4 && copies > 0, "the table has %zu loads, %u of them copies",
		rows, copies);
	tap_ok(load, "a load is ours within its 8 bytes");
	tap_ok(copy, "a copy within what is left of it");
	tap_ok(sent, "neither when the signal was sent");
	tap_ok(other, "nor at another instruction");
	tap_ok(resumes, "it goes on behind the load, which has failed");
}

int main(void)
{
	scratch_begin();
	install();
	map_pages();
	test_good();
	test_bad();
	test_across();
	test_bus();
	test_sent();
	test_foreign();
	test_judgement();
	scratch_end();
	return tap_done();
}
