/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding clock_gettime in the vdso: in this kernel's, and in ones that are cut, or
 * whose tables lead elsewhere.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

#include "core/core-internal.h"
#include "tap.h"

/* --- what the rest of the core would say --- */

static bool all_sane = true;

/* As in a thread: what cannot be read is no fault. */
bool copy_bytes(struct core *c, void *to, uint64_t address, size_t size)
{
	struct iovec mine = { to, size };
	struct iovec theirs = { (void *)(uintptr_t)address, size };

	(void)c;
	all_sane &= sane(address);
	return process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) == (ssize_t)size;
}

bool copy_load(struct core *c, void *to, uint64_t address, unsigned size)
{
	return copy_bytes(c, to, address, size);
}

/* --- */

enum { PAGE = 4096, FUNCTION = 0x800, BIAS = 0x10000 };

/* One like the kernel's, at an address of its own in it. */
struct image {
	Elf64_Ehdr head;
	Elf64_Phdr segments[4];
	Elf64_Dyn dynamic[4];
	Elf64_Sym symbols[3];
	uint32_t hash[2];
	char strings[64];
};

static uint8_t *page; /* nothing lies behind it */
static struct core core;

static uint64_t at(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static struct image *image(void)
{
	struct image *m = (struct image *)(void *)page;

	memset(page, 0, PAGE);
	m->head = (Elf64_Ehdr){ .e_phoff = offsetof(struct image, segments),
		.e_phnum = 4 };
	m->segments[0] = (Elf64_Phdr){ .p_type = PT_NOTE };
	m->segments[1] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_vaddr = BIAS };
	m->segments[2] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
		.p_offset = offsetof(struct image, dynamic) };
	/* The first that is loaded counts. */
	m->segments[3] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_vaddr = 5 * BIAS };
	m->dynamic[0] = (Elf64_Dyn){ .d_tag = DT_SYMTAB,
		.d_un.d_ptr = BIAS + offsetof(struct image, symbols) };
	m->dynamic[1] = (Elf64_Dyn){ .d_tag = DT_STRTAB,
		.d_un.d_ptr = BIAS + offsetof(struct image, strings) };
	m->dynamic[2] = (Elf64_Dyn){ .d_tag = DT_HASH,
		.d_un.d_ptr = BIAS + offsetof(struct image, hash) };
	m->hash[1] = 3;
	m->symbols[1] = (Elf64_Sym){ .st_name = 1, .st_value = 0x700 };
	m->symbols[2] = (Elf64_Sym){ .st_name = 21, .st_value = FUNCTION };
	memcpy(m->strings, "\0__vdso_clock_getres\0__vdso_clock_gettime", 42);
	return m;
}

/* What is found at an address. */
static uint64_t find(uint64_t address)
{
	memset(&core, 0, sizeof(core));
	core.copies = true;
	core.args.vdso = address;
	loop_find_vdso(&core);
	return core.vdso_clock_gettime;
}

static void test_kernels(void)
{
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
	struct timespec ts = { 0 }, now;
	uint64_t found = vdso != 0 ? find(vdso) : 0;

	if (vdso == 0) {
		tap_skip("that of this kernel", "there is none");
		return;
	}
	tap_ok(found > vdso, "that of this kernel");
	if (found == 0)
		return;
	int (*get)(clockid_t, struct timespec *);

	memcpy(&get, &found, sizeof(get));
	tap_ok(get(CLOCK_MONOTONIC, &ts) == 0 &&
			clock_gettime(CLOCK_MONOTONIC, &now) == 0 &&
			now.tv_sec - ts.tv_sec <= 60 && ts.tv_sec <= now.tv_sec,
		"tells the time");
}

static void test_made(void)
{
	struct image *m = image();

	tap_is((int64_t)find(at(page)), (int64_t)at(page) + FUNCTION,
		"one that is made");
	m->dynamic[2].d_tag = DT_NULL;
	tap_is((int64_t)find(at(page)), (int64_t)at(page) + FUNCTION,
		"without a hash table");
	m = image();
	m->hash[1] = 2;
	tap_is((int64_t)find(at(page)), 0, "a symbol behind the last");
	m = image();
	m->symbols[2].st_value = 0;
	tap_is((int64_t)find(at(page)), 0, "one that is not defined");
	m = image();
	m->strings[40] = 's';
	tap_is((int64_t)find(at(page)), 0, "another name");
	m = image();
	m->segments[2].p_type = PT_NOTE;
	tap_is((int64_t)find(at(page)), 0, "no dynamic segment");
	m = image();
	m->segments[1].p_type = PT_NOTE;
	m->segments[3].p_type = PT_NOTE;
	tap_is((int64_t)find(at(page)), 0, "none that is loaded");
	m = image();
	m->dynamic[0].d_tag = DT_NULL;
	tap_is((int64_t)find(at(page)), 0, "no symbols");
	m = image();
	m->head.e_phnum = 0xffff;
	m->segments[2].p_type = PT_NOTE;
	tap_is((int64_t)find(at(page)), 0, "more segments than there is memory");
	m = image();
	m->symbols[1].st_name = 0xfffffff0;
	tap_is((int64_t)find(at(page)), 0, "names that lie elsewhere");
	m = image();
	m->hash[1] = 0xffffffff;
	tap_is((int64_t)find(at(page)), (int64_t)at(page) + FUNCTION,
		"a wrong number of symbols");
	tap_is((int64_t)find(0), 0, "no vdso at all");
	tap_is((int64_t)find(at(page) + PAGE), 0, "one that is not there");
}

static void test_cut(void)
{
	static struct image whole;
	bool good = true;

	memcpy(&whole, image(), sizeof(whole));
	for (size_t size = 0; size < sizeof(whole); size++) {
		uint8_t *start = page + PAGE - size;
		uint64_t found;

		memcpy(start, &whole, size);
		found = find(at(start));
		good &= found == 0 || found == at(start) + FUNCTION;
	}
	tap_ok(good, "cut at each byte: found or not");

	srandom(1);
	for (unsigned i = 0; i < 20000; i++) {
		uint8_t *start = page + PAGE - sizeof(whole);

		memcpy(start, &whole, sizeof(whole));
		for (unsigned n = 1 + (unsigned)random() % 4; n > 0; n--)
			start[(unsigned)random() % sizeof(whole)] = (uint8_t)random();
		(void)find(at(start));
	}
	tap_ok(all_sane,
		"20000 changed at random: nothing is loaded from what is no address");
}

int main(void)
{
	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	if (page == MAP_FAILED || munmap(page + PAGE, PAGE) != 0) {
		printf("Bail out! no memory\n");
		return 1;
	}
	test_kernels();
	test_made();
	test_cut();
	return tap_done();
}
