/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/fit.h"

#include <linux/elf-em.h>
#include <linux/elf.h>
#include <linux/stat.h>
#include <stdbool.h>

#include "core/sys.h"
#include "preload/text.h"

enum {
	HEAD_BYTES = 256, /* as much of a script's first line as the kernel reads */
	MOST_INTERPRETERS = 4,
	MOST_SEGMENTS = 64,
	MOST_DYNAMIC = 512,
	NAME_BYTES = 32,
	FIT_DEEPER = -1, /* a script: ask of its interpreter */

	/* Not to wait for the other end of a fifo, nor to get a terminal. */
	OPEN_CALMLY = 0x80000 | 0x800 | 0x100, /* O_CLOEXEC | O_NONBLOCK | O_NOCTTY */
	HERE = -100,                           /* AT_FDCWD */
	EMPTY_PATH = 0x1000,                   /* AT_EMPTY_PATH */

	MODE_KIND = 0170000,
	MODE_FILE = 0100000,
	MODE_SET_ID = 06000,
};

struct fit_program {
	uint64_t offset, size; /* of the dynamic section, in the file */
	uint64_t names;        /* address of its strings */
	bool loaded_by_loader; /* it names a loader */
	Elf64_Half segments;
	uint64_t segments_offset;
};

static bool read_at(int fd, uint64_t offset, void *to, size_t size)
{
	return SYS4(__NR_pread64, fd, to, size, offset) == (long)size;
}

/* The interpreter's path in the first line of a script, made a string in place. */
static const char *script_interpreter(char *head, long size)
{
	char *at = head + 2, *end = head + size;

	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	char *path = at;

	while (at < end && *at != ' ' && *at != '\t' && *at != '\n' && *at != '\0')
		at++;
	if (at == end || at == path)
		return NULL;
	*at = '\0';
	return path;
}

static bool read_segment(
	int fd, const struct fit_program *d, unsigned i, Elf64_Phdr *ret)
{
	return read_at(fd, d->segments_offset + i * sizeof(*ret), ret, sizeof(*ret));
}

static bool find_dynamic(int fd, struct fit_program *d)
{
	Elf64_Phdr p = { 0 };

	for (unsigned i = 0; i < d->segments; i++) {
		if (!read_segment(fd, d, i, &p))
			return false;
		if (p.p_type == PT_INTERP)
			d->loaded_by_loader = true;
		if (p.p_type == PT_DYNAMIC) {
			d->offset = p.p_offset;
			d->size = p.p_filesz;
		}
	}
	return d->loaded_by_loader && d->size != 0;
}

/* Where in the file the byte lies that is loaded at an address; 0: nowhere. */
static uint64_t file_offset(int fd, const struct fit_program *d, uint64_t address)
{
	Elf64_Phdr p = { 0 };

	for (unsigned i = 0; i < d->segments; i++)
		if (read_segment(fd, d, i, &p) && p.p_type == PT_LOAD &&
			address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz)
			return address - p.p_vaddr + p.p_offset;
	return 0;
}

static bool is_sanitizer(int fd, uint64_t name_offset)
{
	static const char names[][14] = { "libasan.", "libtsan.", "liblsan.",
		"libubsan.", "libhwasan.", "libclang_rt." };
	char name[NAME_BYTES] = { 0 };

	/* The last name may end before that many bytes do. */
	if (SYS4(__NR_pread64, fd, name, sizeof(name) - 1, name_offset) <= 0)
		return false;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (text_begins(name, names[i]))
			return true;
	return false;
}

/* Go through the dynamic section: the first time for where the names are. */
static bool needs_sanitizer(int fd, struct fit_program *d)
{
	uint64_t count = d->size / sizeof(Elf64_Dyn), names = 0;
	Elf64_Dyn entry = { 0 };

	if (count > MOST_DYNAMIC)
		count = MOST_DYNAMIC;
	for (uint64_t i = 0; i < count; i++)
		if (read_at(fd, d->offset + i * sizeof(entry), &entry, sizeof(entry)) &&
			entry.d_tag == DT_STRTAB)
			names = file_offset(fd, d, entry.d_un.d_ptr);
	for (uint64_t i = 0; i < count && names != 0; i++) {
		if (!read_at(
			    fd, d->offset + i * sizeof(entry), &entry, sizeof(entry)) ||
			entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_NEEDED &&
			is_sanitizer(fd, names + entry.d_un.d_val))
			return true;
	}
	return false;
}

static enum fit fit_of_program(int fd, const Elf64_Ehdr *e)
{
	struct fit_program d = {
		.segments = e->e_phnum < MOST_SEGMENTS ? e->e_phnum : MOST_SEGMENTS,
		.segments_offset = e->e_phoff,
	};

	if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_machine != ARCH_ELF_MACHINE)
		return FIT_BREAKS;
	if (e->e_phentsize != sizeof(Elf64_Phdr) || !find_dynamic(fd, &d))
		return FIT_IGNORES;
	return needs_sanitizer(fd, &d) ? FIT_BREAKS : FIT_LOADS;
}

/* Of an open file; FIT_DEEPER when head begins with the path of its interpreter. */
static int fit_of_open(int fd, char *head, const char **ret_interpreter)
{
	struct statx st = { 0 };
	Elf64_Ehdr e;

	if (SYS5(__NR_statx, fd, "", EMPTY_PATH, STATX_TYPE | STATX_MODE, &st) < 0 ||
		(st.stx_mode & MODE_KIND) != MODE_FILE ||
		(st.stx_mode & MODE_SET_ID) != 0)
		return FIT_IGNORES;
	long n = SYS4(__NR_pread64, fd, head, HEAD_BYTES, 0);

	if (n > 2 && head[0] == '#' && head[1] == '!') {
		*ret_interpreter = script_interpreter(head, n);
		return *ret_interpreter != NULL ? FIT_DEEPER : FIT_IGNORES;
	}
	if (n < (long)sizeof(e) || !text_begins(head, ELFMAG))
		return FIT_IGNORES;
	memcpy(&e, head, sizeof(e));
	return fit_of_program(fd, &e);
}

static enum fit fit_of_interpreter(const char *path)
{
	char head[2][HEAD_BYTES];
	int fit = FIT_DEEPER;

	/* The path lies in what was read before. */
	for (int i = 0; i < MOST_INTERPRETERS && fit == FIT_DEEPER; i++) {
		int fd = (int)sys_openat(HERE, path, OPEN_CALMLY);

		if (fd < 0)
			return FIT_IGNORES;
		fit = fit_of_open(fd, head[i % 2], &path);
		(void)sys_close(fd);
	}
	return fit == FIT_DEEPER ? FIT_IGNORES : (enum fit)fit;
}

enum fit fit_of_descriptor(int fd)
{
	char head[HEAD_BYTES];
	const char *path;
	int fit = fit_of_open(fd, head, &path);

	return fit == FIT_DEEPER ? fit_of_interpreter(path) : (enum fit)fit;
}

enum fit fit_of_file(int directory, const char *path)
{
	int fd = (int)sys_openat(directory, path, OPEN_CALMLY);

	if (fd < 0)
		return FIT_IGNORES;
	enum fit fit = fit_of_descriptor(fd);

	(void)sys_close(fd);
	return fit;
}
