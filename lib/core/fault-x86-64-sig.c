/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine side of guarded loads: find the faulting instruction in the fix-up
 * table and go on behind it.  Runs in a signal handler: reads the context, writes
 * two registers of it, calls nothing.
 */
#include "core/arch.h"

struct fixup {
	int32_t instruction; /* relative to this word */
	int32_t resume;      /* relative to this word */
};

extern const struct fixup core_fixups_begin[] __attribute__((visibility("hidden")));
extern const struct fixup core_fixups_end[] __attribute__((visibility("hidden")));

/* Of the kernel's struct siginfo and struct ucontext, in 64-bit words; the
 * registers stand in the order of struct sigcontext. */
enum {
	SIGINFO_CODE_WORD32 = 2,
	SIGINFO_ADDRESS_WORD = 2,
	UCONTEXT_REGISTERS_WORD = 5,
	REGISTER_RSI = 9,
	REGISTER_RAX = 13,
	REGISTER_RCX = 14,
	REGISTER_RIP = 16,
};

int arch_fault_fix(int sig, const void *siginfo, void *ucontext)
{
	int32_t code = ((const int32_t *)siginfo)[SIGINFO_CODE_WORD32];
	uint64_t address = ((const uint64_t *)siginfo)[SIGINFO_ADDRESS_WORD];
	uint64_t *registers = (uint64_t *)ucontext + UCONTEXT_REGISTERS_WORD;
	uint64_t from = registers[REGISTER_RSI];

	(void)sig;
	/* Sent by kill() and the like, not by a fault. */
	if (code <= 0)
		return 0;
	for (const struct fixup *f = core_fixups_begin; f < core_fixups_end; f++) {
		uint64_t at = (uint64_t)(uintptr_t)&f->instruction +
			      (uint64_t)(int64_t)f->instruction;

		if (at != registers[REGISTER_RIP])
			continue;
		/* A load of up to 8 bytes, or of the rcx bytes still to be copied. */
		uint64_t size = *(const uint8_t *)(uintptr_t)at == 0xf3
					? registers[REGISTER_RCX]
					: 8;

		if (address - from >= size)
			return 0;
		registers[REGISTER_RAX] = 1;
		registers[REGISTER_RIP] =
			(uint64_t)(uintptr_t)&f->resume + (uint64_t)(int64_t)f->resume;
		return 1;
	}
	return 0;
}
