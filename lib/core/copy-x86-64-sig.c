/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of the page (copy-page.h): handler, guarded loads, and what becomes of
 * signals that are not ours.  It is copied elsewhere, so nothing in here may refer to
 * anything outside of the section; the build checks that no relocation is left.
 *
 * The handler runs on any thread of the program, in any state: it writes nothing but
 * two registers and its own page, takes no lock, and keeps errno out of it.  What goes
 * to the action that was there before goes by a jump, with the registers and the stack
 * as the kernel made them: that handler returns to the kernel as if it had been called
 * by it, under the mask and on the stack that its own flags ask for, since those of
 * ours are the same.
 */
#include <asm/unistd.h>
#include <stddef.h>
#include <stdint.h>

#include "core/copy-page.h"

__asm__(".pushsection core_page, \"ax\"\n"
	"core_page_handler:\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	push %rsi\n"
	"	push %rdx\n"
	"	lea core_page_handler(%rip), %rcx\n"
	"	call core_page_decide\n"
	"	pop %rdx\n"
	"	pop %rsi\n"
	"	pop %rdi\n"
	"	test %rax, %rax\n"
	"	jz 1f\n"
	"	mov %rax, %r11\n"
	"	xor %eax, %eax\n"
	"	jmp *%r11\n"
	"1:	ret\n"
	"	.org core_page_handler + 48, 0xcc\n"
	/* The bytes by which unwinders know a signal's frame. */
	"	.byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0\n" /* mov $15, %rax */
	"	syscall\n"
	"	.org core_page_handler + 64, 0xcc\n"
	"	movq (%rdi), %rax\n"
	"	xor %edx, %edx\n"
	"	ret\n"
	"	.org core_page_handler + 72, 0xcc\n"
	"	movl (%rdi), %eax\n"
	"	xor %edx, %edx\n"
	"	ret\n"
	"	.org core_page_handler + 80, 0xcc\n"
	"	movzbl (%rdi), %eax\n"
	"	xor %edx, %edx\n"
	"	ret\n"
	"	.org core_page_handler + 88, 0xcc\n"
	"	mov $1, %edx\n"
	"	ret\n"
	"	.org core_page_handler + 96, 0xcc\n"
	".popsection\n");

enum {
	SIGNAL_BUS = 7,

	CODE_KERNEL = 0x80,    /* SI_KERNEL */
	CODE_MEMORY_LATER = 5, /* BUS_MCEERR_AO: not of the instruction it came upon */
	HANDLER_DEFAULT = 0,
	HANDLER_IGNORE = 1,
	FLAG_RESET = (int)0x80000000, /* SA_RESETHAND */

	/* Of the kernel's struct siginfo and ucontext, in words. */
	SIGINFO_CODE_WORD32 = 2,
	SIGINFO_ADDRESS_WORD = 2,
	SIGINFO_WORDS = 16,
	UCONTEXT_REGISTERS_WORD = 5,
	REGISTER_RDI = 8,
	REGISTER_RSP = 15,
	REGISTER_RIP = 16,
};

#define PAGE_CODE                                                                      \
	__attribute__((section("core_page"), used, noinline, no_stack_protector,       \
		no_sanitize("address", "undefined")))
#define PAGE_PART                                                                      \
	static inline __attribute__((always_inline, no_stack_protector,                \
		no_sanitize("address", "undefined")))

/* arch_syscall() need not be inlined, and may be instrumented. */
PAGE_PART long call(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

/*
 * The default action, put back.  What the kernel raises for an instruction comes again
 * when that runs again, and what does not is sent again, to this thread, with all that
 * is told of it: it is taken when the handler returns, at the same instruction.
 */
PAGE_PART void let_die(struct copy_state *s, int sig, const void *info, int again)
{
	struct copy_action *saved = &s->saved[sig == SIGNAL_BUS ? COPY_BUS : COPY_SEGV];
	volatile struct copy_action action;
	long pid, tid;

	action.handler = HANDLER_DEFAULT;
	action.flags = saved->handler == HANDLER_DEFAULT ? saved->flags : 0;
	action.restorer = saved->restorer;
	action.mask = saved->mask;
	if (call(__NR_rt_sigaction, sig, (long)&action, 0, 8) < 0)
		/* Not allowed any more: it would come here for ever. */
		(void)call(__NR_exit_group, 128 + sig, 0, 0, 0);
	if (!again)
		return;
	pid = call(__NR_getpid, 0, 0, 0, 0);
	tid = call(__NR_gettid, 0, 0, 0, 0);
	if (call(__NR_rt_tgsigqueueinfo, pid, tid, sig, (long)info) < 0)
		(void)call(__NR_tgkill, pid, tid, sig, 0);
}

/* Something else came to the thread that loads.  None of the program's handlers may run
 * there: it would take it for a thread of its own. */
PAGE_PART void not_here(struct copy_state *s, int sig, const uint64_t *info, int code)
{
	/* A fault that is none of a load's: our own.  It ends this thread alone. */
	if (code > 0 && !(sig == SIGNAL_BUS && code == CODE_MEMORY_LATER))
		for (;;)
			(void)call(__NR_exit, 128 + sig, 0, 0, 0);
	unsigned which = sig == SIGNAL_BUS ? COPY_BUS : COPY_SEGV;

	for (unsigned i = 0; i < SIGINFO_WORDS; i++)
		((volatile uint64_t *)s->stray[which].info)[i] = info[i];
	__atomic_store_n(&s->stray[which].signal, (uint32_t)sig, __ATOMIC_RELEASE);
}

/* Returns the handler to go on in, or 0: it is done. */
PAGE_CODE static uint64_t core_page_decide(
	int sig, const void *info, void *context, uint64_t page)
{
	struct copy_state *s = (struct copy_state *)(page + COPY_PAGE_BYTES);
	uint64_t *registers = (uint64_t *)context + UCONTEXT_REGISTERS_WORD;
	uint64_t at = registers[REGISTER_RIP] - page;
	struct copy_action *saved = &s->saved[sig == SIGNAL_BUS ? COPY_BUS : COPY_SEGV];
	uint64_t handler;
	/* Of an action without SA_SIGINFO nothing is told: ours always has it. */
	int code = ((const int32_t *)info)[SIGINFO_CODE_WORD32];

	/* Sent by kill() and the like, not by a fault, is not above 0. */
	if (code > 0 &&
		(at == COPY_AT_LOAD64 || at == COPY_AT_LOAD32 || at == COPY_AT_LOAD8) &&
		((const uint64_t *)info)[SIGINFO_ADDRESS_WORD] -
				registers[REGISTER_RDI] <
			8) {
		s->faults++;
		registers[REGISTER_RIP] = page + COPY_AT_FAILED;
		return 0;
	}
	if (registers[REGISTER_RSP] - s->stack < s->stack_bytes && s->sampler != 0 &&
		call(__NR_gettid, 0, 0, 0, 0) == s->sampler) {
		not_here(s, sig, info, code);
		return 0;
	}

	handler = (saved->flags & (uint32_t)FLAG_RESET) != 0 &&
				  saved->handler > HANDLER_IGNORE
			  ? __atomic_exchange_n(
				    &saved->handler, HANDLER_DEFAULT, __ATOMIC_ACQ_REL)
			  : __atomic_load_n(&saved->handler, __ATOMIC_ACQUIRE);
	if (handler > HANDLER_IGNORE)
		return handler;

	int sent = code <= 0 || (sig == SIGNAL_BUS && code == CODE_MEMORY_LATER);

	if (handler == HANDLER_IGNORE && sent)
		return 0;
	let_die(s, sig, info, sent || code == CODE_KERNEL);
	return 0;
}
