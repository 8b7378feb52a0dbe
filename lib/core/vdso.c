/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding clock_gettime in the vdso: a small shared object that the kernel maps,
 * whose tables are read as they lie, unrelocated.
 */
#include <linux/auxvec.h>
#include <linux/elf.h>

#include "core/core-internal.h"

enum { MAX_SYMBOLS = 64 };

/* The tables that a look-up needs, as addresses. */
struct tables {
	uint64_t symbols, strings, hash;
};

/* Whatever stands in the tables, which are the program's memory. */
static bool load_at(struct core *c, void *to, uint64_t address, size_t size)
{
	return sane(address) && load_bytes(c, to, address, size);
}

static bool find_tables(struct core *c, uint64_t base, struct tables *t)
{
	Elf64_Ehdr head = { 0 };
	Elf64_Phdr segment = { 0 };
	Elf64_Dyn entry = { 0 };
	uint64_t dynamic = 0, bias = 0;
	bool loaded = false;

	if (!load_at(c, &head, base, sizeof(head)))
		return false;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		uint64_t at = base + head.e_phoff + i * sizeof(segment);

		if (!load_at(c, &segment, at, sizeof(segment)))
			return false;
		if (segment.p_type == PT_LOAD && !loaded) {
			bias = base + segment.p_offset - segment.p_vaddr;
			loaded = true;
		} else if (segment.p_type == PT_DYNAMIC) {
			dynamic = base + segment.p_offset;
		}
	}
	*t = (struct tables){ 0 };
	for (unsigned i = 0; loaded && dynamic != 0 && i < MAX_SYMBOLS; i++) {
		if (!load_at(c, &entry, dynamic + i * sizeof(entry), sizeof(entry)) ||
			entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_SYMTAB)
			t->symbols = bias + entry.d_un.d_ptr;
		else if (entry.d_tag == DT_STRTAB)
			t->strings = bias + entry.d_un.d_ptr;
		else if (entry.d_tag == DT_HASH)
			t->hash = bias + entry.d_un.d_ptr;
	}
	return t->symbols != 0 && t->strings != 0;
}

void loop_find_vdso(struct core *c)
{
	static const char wanted[] = "__vdso_clock_gettime";
	struct tables t;
	uint32_t symbols = MAX_SYMBOLS;
	Elf64_Sym symbol;
	char name[sizeof(wanted)];

	if (!sane(c->args.vdso) || !find_tables(c, c->args.vdso, &t))
		return;
	/* The second word of the hash table is the number of symbols; newer kernels
	 * have none, and the symbols are few. */
	if (t.hash != 0 && (!load32(c, t.hash + 4, &symbols) || symbols > MAX_SYMBOLS))
		symbols = MAX_SYMBOLS;
	for (uint32_t i = 1; i < symbols; i++) {
		if (!load_at(c, &symbol, t.symbols + i * sizeof(symbol),
			    sizeof(symbol)) ||
			!load_at(c, name, t.strings + symbol.st_name, sizeof(name)))
			return;
		if (memcmp(name, wanted, sizeof(wanted)) == 0 && symbol.st_value != 0) {
			c->vdso_clock_gettime = c->args.vdso + symbol.st_value;
			return;
		}
	}
}
