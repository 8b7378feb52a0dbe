/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ARCH_X86_64_H
#define CORE_ARCH_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* User addresses of 4-level page tables; a guarded load never sees a higher one. */
#define ARCH_USER_END    0x7ffffffff000ull
#define ARCH_AUDIT       0xc000003eu /* AUDIT_ARCH_X86_64 */
#define ARCH_ELF_MACHINE 62          /* EM_X86_64 */

static inline long arch_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

/*
 * One row of the fix-up table: the instruction that may fault and where to go on,
 * both relative to the row's own words.  The address being loaded is always in
 * rsi, so that the handler can compare it with the fault's; rax is 0 and becomes 1
 * when the load failed.  (Not `asm goto`: with outputs gcc 12 drops it.)
 */
#define ARCH_FIXUP                                                                     \
	"2:\n"                                                                         \
	".pushsection core_fixups, \"a\"\n"                                            \
	".balign 4\n"                                                                  \
	".long 1b - .\n"                                                               \
	".long 2b - .\n"                                                               \
	".popsection\n"

static inline bool arch_load64(uint64_t address, uint64_t *ret)
{
	uint64_t value;
	uint32_t failed = 0;

	__asm__ volatile("1: movq (%%rsi), %0\n" ARCH_FIXUP
			 : "=&r"(value), "+a"(failed)
			 : "S"(address));
	*ret = value;
	return failed == 0;
}

static inline bool arch_load32(uint64_t address, uint32_t *ret)
{
	uint32_t value;
	uint32_t failed = 0;

	__asm__ volatile("1: movl (%%rsi), %0\n" ARCH_FIXUP
			 : "=&r"(value), "+a"(failed)
			 : "S"(address));
	*ret = value;
	return failed == 0;
}

static inline bool arch_load8(uint64_t address, uint8_t *ret)
{
	uint32_t value;
	uint32_t failed = 0;

	__asm__ volatile("1: movzbl (%%rsi), %0\n" ARCH_FIXUP
			 : "=&r"(value), "+a"(failed)
			 : "S"(address));
	*ret = (uint8_t)value;
	return failed == 0;
}

static inline bool arch_copy(void *to, uint64_t address, size_t size)
{
	uint32_t failed = 0;

	/* rsi moves with the copy, and rcx is what is left. */
	__asm__ volatile("1: rep movsb\n" ARCH_FIXUP
			 : "+D"(to), "+S"(address), "+c"(size), "+a"(failed)
			 :
			 : "memory");
	return failed == 0;
}

static inline uint64_t arch_stack_pointer(void)
{
	uint64_t sp;

	__asm__("mov %%rsp, %0" : "=r"(sp));
	return sp;
}

enum {
	ARCH_CALL_BYTES = 2, /* of the instruction that makes a system call */
	ARCH_CONTEXT_RSI = 5 + 9,
	ARCH_CONTEXT_RAX = 5 + 13,
	ARCH_CONTEXT_RCX = 5 + 14,
	ARCH_CONTEXT_RIP = 5 + 16,
	ARCH_CONTEXT_MASK = 5 + 32,
};

static inline uint64_t arch_behind_eintr(const void *context)
{
	const uint64_t *words = context;

	return words[ARCH_CONTEXT_RAX] == (uint64_t)-4 ? words[ARCH_CONTEXT_RIP] : 0;
}

/* rcx is where it would have gone on, had the call not been set up to be made again. */
static inline uint64_t arch_call_again(const void *context)
{
	const uint64_t *words = context;
	uint64_t at = words[ARCH_CONTEXT_RIP];

	return words[ARCH_CONTEXT_RCX] == at + ARCH_CALL_BYTES ? at : 0;
}

static inline uint64_t arch_call_number(const void *context)
{
	return ((const uint64_t *)context)[ARCH_CONTEXT_RAX];
}

static inline uint64_t arch_call_second(const void *context)
{
	return ((const uint64_t *)context)[ARCH_CONTEXT_RSI];
}

static inline void arch_end_call(void *context, long result)
{
	uint64_t *words = context;

	words[ARCH_CONTEXT_RIP] += ARCH_CALL_BYTES;
	words[ARCH_CONTEXT_RAX] = (uint64_t)result;
}

static inline uint64_t arch_signal_mask(const void *context)
{
	return ((const uint64_t *)context)[ARCH_CONTEXT_MASK];
}

static inline bool arch_is_call(const uint8_t *bytes)
{
	return bytes[0] == 0x0f && bytes[1] == 0x05;
}

static inline void arch_pause(void)
{
	__asm__ volatile("pause");
}

long arch_clone(long flags, void *stack_top, long (*run)(void *), void *arg)
	__attribute__((visibility("hidden")));

void arch_unmap_exit(uint64_t address, uint64_t bytes, int status)
	__attribute__((visibility("hidden"), noreturn));

extern const unsigned char arch_sigreturn[] __attribute__((visibility("hidden")));
#define ARCH_SIGRETURN ((uint64_t)(uintptr_t)arch_sigreturn)

int arch_fault_fix(int sig, const void *siginfo, void *ucontext)
	__attribute__((visibility("hidden")));

#endif
