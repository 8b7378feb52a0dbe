/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/xalloc.h"

enum {
	MAX_SEGMENTS = 256,
	MAX_DYNAMIC = 512,
	MAX_MEMORY_SYMBOLS = 1 << 18,
	MAX_NAME = 128,
};

static bool same_file(int fd, const struct proc_map *map)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == map->inode &&
	       major(st.st_dev) == map->device_major &&
	       minor(st.st_dev) == map->device_minor;
}

int elf_open_mapped(pid_t pid, const struct proc_map *map)
{
	_cleanup_free_ char *path = NULL;
	int fd;

	path = xasprintf("/proc/%d/map_files/%llx-%llx", (int)pid,
		(unsigned long long)map->start, (unsigned long long)map->end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	xfreep(&path);
	path = xasprintf("/proc/%d/root%s", (int)pid, map->path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && same_file(fd, map))
		return fd;
	fd_close(&fd);
	/* A deleted or replaced executable; overlay file systems show other numbers
	 * in maps than stat gives, so the link itself is the better witness. */
	xfreep(&path);
	path = xasprintf("/proc/%d/exe", (int)pid);
	_cleanup_free_ char *target = xmalloc(4096);
	ssize_t n = readlink(path, target, 4095);

	if (n > 0) {
		size_t size = strlen(map->path);

		/* " (deleted)" may follow. */
		if ((size_t)n >= size && memcmp(target, map->path, size) == 0 &&
			((size_t)n == size || target[size] == ' '))
			return (fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0 ? fd
									    : -errno;
	}
	xfreep(&path);
	path = xasprintf("/proc/%d/root%s", (int)pid, map->path);
	fd = map->deleted ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 ? fd : -ENOENT;
}

static void note(struct elf_symbol *symbols, size_t count, const char *name,
	uint64_t address, int *found)
{
	for (size_t i = 0; i < count; i++) {
		if (symbols[i].address != 0 || strcmp(symbols[i].name, name) != 0)
			continue;
		symbols[i].address = address;
		(*found)++;
	}
}

/* What has to be added to a symbol's value: from the first loaded segment. */
static bool load_bias(Elf *elf, const struct proc_map *first, uint64_t *ret)
{
	size_t segments;
	GElf_Phdr p;

	if (elf_getphdrnum(elf, &segments) != 0)
		return false;
	for (size_t i = 0; i < segments && i < MAX_SEGMENTS; i++) {
		if (gelf_getphdr(elf, (int)i, &p) == NULL || p.p_type != PT_LOAD)
			continue;
		/* The kernel maps whole pages. */
		*ret = first->start - first->offset - (p.p_vaddr - p.p_offset);
		return true;
	}
	return false;
}

static int symbols_of_section(Elf_Scn *section, const GElf_Shdr *head, Elf *elf,
	uint64_t bias, struct elf_symbol *symbols, size_t count)
{
	Elf_Data *data = elf_getdata(section, NULL);
	int found = 0;

	if (data == NULL || head->sh_entsize == 0)
		return 0;
	for (size_t i = 0; i < head->sh_size / head->sh_entsize; i++) {
		GElf_Sym sym;

		if (gelf_getsym(data, (int)i, &sym) == NULL)
			break;
		if (sym.st_shndx == SHN_UNDEF || sym.st_value == 0)
			continue;
		const char *name = elf_strptr(elf, head->sh_link, sym.st_name);

		if (name != NULL &&
			(name[0] == '_' || name[0] == 'P' || name[0] == 'p'))
			note(symbols, count, name, bias + sym.st_value, &found);
	}
	return found;
}

static void note_section(Elf *elf, const GElf_Shdr *head, uint64_t bias,
	struct elf_symbol *symbols, size_t count, int *found)
{
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return;
	const char *name = elf_strptr(elf, names, head->sh_name);

	if (name != NULL && name[0] == '.')
		note(symbols, count, name, bias + head->sh_addr, found);
}

static int symbols_of_file(
	int fd, const struct proc_map *first, struct elf_symbol *symbols, size_t count)
{
	uint64_t bias;
	int found = 0;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return -E_BADFORMAT;
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	if (elf == NULL)
		return -E_BADFORMAT;
	if (elf_kind(elf) != ELF_K_ELF || !load_bias(elf, first, &bias)) {
		(void)elf_end(elf);
		return -E_BADFORMAT;
	}
	for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s)) != NULL;) {
		GElf_Shdr head;

		if (gelf_getshdr(s, &head) == NULL)
			continue;
		if (head.sh_type == SHT_DYNSYM || head.sh_type == SHT_SYMTAB)
			found +=
				symbols_of_section(s, &head, elf, bias, symbols, count);
		else if ((head.sh_flags & SHF_ALLOC) != 0)
			note_section(elf, &head, bias, symbols, count, &found);
	}
	(void)elf_end(elf);
	return found;
}

/* --- from memory --- */

struct dynamic {
	uint64_t symbols, strings, strings_size;
};

static bool read_dynamic(struct proc_mem *mem, uint64_t base, struct dynamic *d)
{
	Elf64_Ehdr head;
	uint64_t bias = 0, dynamic = 0;
	bool loaded = false;

	if (proc_mem_read(mem, base, &head, sizeof(head)) != 0 ||
		memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
		head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phnum > MAX_SEGMENTS)
		return false;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		Elf64_Phdr p;

		if (proc_mem_read(mem, base + head.e_phoff + i * sizeof(p), &p,
			    sizeof(p)) != 0)
			return false;
		if (p.p_type == PT_LOAD && !loaded) {
			bias = base + p.p_offset - p.p_vaddr;
			loaded = true;
		} else if (p.p_type == PT_DYNAMIC) {
			dynamic = p.p_vaddr;
		}
	}
	if (!loaded || dynamic == 0)
		return false;
	*d = (struct dynamic){ 0 };
	for (unsigned i = 0; i < MAX_DYNAMIC; i++) {
		Elf64_Dyn e;

		if (proc_mem_read(mem, bias + dynamic + i * sizeof(e), &e, sizeof(e)) !=
				0 ||
			e.d_tag == DT_NULL)
			break;
		/* glibc relocates these words in place, musl does not. */
		uint64_t address =
			e.d_un.d_ptr >= bias ? e.d_un.d_ptr : bias + e.d_un.d_ptr;

		if (e.d_tag == DT_SYMTAB)
			d->symbols = address;
		else if (e.d_tag == DT_STRTAB)
			d->strings = address;
		else if (e.d_tag == DT_STRSZ)
			d->strings_size = e.d_un.d_val;
	}
	return d->symbols != 0 && d->strings != 0;
}

static int symbols_of_memory(struct proc_mem *mem, const struct proc_map *first,
	struct elf_symbol *symbols, size_t count)
{
	struct dynamic d;
	int found = 0;
	uint64_t base = first->start - first->offset;
	Elf64_Ehdr head;

	if (!read_dynamic(mem, base, &d) ||
		proc_mem_read(mem, base, &head, sizeof(head)) != 0)
		return -E_BADFORMAT;
	uint64_t bias = head.e_type == ET_EXEC ? 0 : base;

	/* The table ends where the strings begin, in every linker's order; a bound is
	 * kept in case it does not. */
	uint64_t most = d.strings > d.symbols
				? (d.strings - d.symbols) / sizeof(Elf64_Sym)
				: MAX_MEMORY_SYMBOLS;

	for (uint64_t i = 0; i < most && i < MAX_MEMORY_SYMBOLS; i++) {
		Elf64_Sym sym;
		char name[MAX_NAME] = "";

		if (proc_mem_read(
			    mem, d.symbols + i * sizeof(sym), &sym, sizeof(sym)) != 0)
			break;
		if (sym.st_shndx == SHN_UNDEF || sym.st_value == 0 ||
			sym.st_name >= d.strings_size)
			continue;
		(void)proc_mem_read_some(
			mem, d.strings + sym.st_name, name, sizeof(name) - 1);
		note(symbols, count, name, bias + sym.st_value, &found);
	}
	return found;
}

int elf_symbols(struct proc_mem *mem, const struct proc_maps *maps, size_t first,
	struct elf_symbol *symbols, size_t count)
{
	_cleanup_close_ int fd = elf_open_mapped(mem->pid, &maps->map[first]);

	if (fd >= 0) {
		int r = symbols_of_file(fd, &maps->map[first], symbols, count);

		if (r >= 0)
			return r;
	}
	return symbols_of_memory(mem, &maps->map[first], symbols, count);
}
