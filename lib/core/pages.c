/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pages.h"
#include "core/core-internal.h"

enum {
	PLACES = 16, /* at which those of an earlier start are looked for */
};

static uint64_t code_bytes(const struct pages *p)
{
	return (uint64_t)(p->end - p->begin);
}

RARE bool pages_have_code(struct core *c, const struct pages *p, uint64_t address)
{
	uint64_t bytes = code_bytes(p);
	uint8_t piece[64];

	if (address % PAGES_CODE != 0 || !sane(address))
		return false;
	for (uint64_t at = 0; at < bytes; at += sizeof(piece)) {
		uint64_t left = bytes - at;
		size_t n = left < sizeof(piece) ? left : sizeof(piece);

		if (!load_bytes(c, piece, address + at, n) ||
			memcmp(piece, p->begin + at, n) != 0)
			return false;
	}
	return true;
}

/*
 * Where they may lie: at places that follow from that of the vdso, which a later start
 * finds again, a fork child too, and who does not know it does not guess.
 */
RARE static uint64_t place(const struct core *c, const struct pages *p, unsigned number)
{
	const uint64_t first = 0x100000000000, places = 0x300000000000 / PAGES_BYTES;
	uint64_t h = mix(mix(p->name, c->args.vdso), number);

	return first + (h ^ h >> 32) % places * PAGES_BYTES;
}

/* No page is ever writable and executable at once. */
RARE static long fill(const struct pages *p, uint64_t address)
{
	memcpy((void *)address, p->begin, code_bytes(p));
	long r = SYS3(__NR_mprotect, address, PAGES_CODE, READ_RUN);

	if (r >= 0 && p->wiped)
		r = SYS3(__NR_madvise, address + PAGES_CODE, PAGES_CODE, WIPE_ON_FORK);
	return r;
}

RARE long pages_find(struct core *c, const struct pages *p)
{
	long at = -SYS_EEXIST;

	for (unsigned i = 0; c->args.vdso != 0 && i < PLACES && at == -SYS_EEXIST;
		i++) {
		uint64_t wanted = place(c, p, i);

		at = SYS6(__NR_mmap, wanted, PAGES_BYTES, READ_WRITE,
			MAP_OWN | MAP_THERE, -1, 0);
		if (at == -SYS_EEXIST && pages_have_code(c, p, wanted) &&
			p->are_free(c, wanted))
			return (long)wanted;
	}
	if (at == -SYS_EEXIST)
		at = SYS6(__NR_mmap, 0, PAGES_BYTES, READ_WRITE, MAP_OWN, -1, 0);
	if (!sys_is_address(at))
		return at;
	long r = fill(p, (uint64_t)at);

	if (r >= 0)
		return at;
	(void)SYS2(__NR_munmap, at, PAGES_BYTES);
	return r;
}
