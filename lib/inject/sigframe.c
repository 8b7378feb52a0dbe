/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/sigframe.h"

#include <errno.h>
#include <string.h>

/* Layout of struct rt_sigframe on x86-64 (Linux: arch/x86/include/asm/sigframe.h and
 * uapi/asm/sigcontext.h). */
enum {
	UC_FP_XSTATE = 1,
	UC_SIGCONTEXT_SS = 2,
	UC_STRICT_RESTORE_SS = 4,
	/* No such alternate stack flag: the kernel then leaves the thread's own. */
	INVALID_STACK_FLAGS = 0x7fffffff,

	SW_RESERVED_OFFSET = 464, /* in the legacy area of the vector state */
	FP_XSTATE_MAGIC1 = 0x46505853,
	FP_XSTATE_MAGIC2 = 0x46505845,
	LEGACY_BYTES = 512,

	RED_ZONE_BYTES = 128,
	/* The kernel's own error numbers for calls it restarts. */
	ERESTARTSYS = 512,
	ERESTARTNOINTR = 513,
	ERESTARTNOHAND = 514,
	ERESTART_RESTARTBLOCK = 516,
	SYSCALL_BYTES = 2,
};

struct frame_context {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t fpstate;
	uint64_t reserved[8];
};

struct frame_head {
	uint64_t pretcode;
	uint64_t uc_flags;
	uint64_t uc_link;
	uint64_t stack_sp;
	uint32_t stack_flags, stack_pad;
	uint64_t stack_size;
	struct frame_context context;
	uint64_t mask;
	unsigned char info[128];
};

/* What the kernel would do on the way out if it were to restart the call. */
static void restart_call(struct frame_context *c, const struct user_regs_struct *regs)
{
	long number = (long)regs->orig_rax, result = (long)regs->rax;

	if (number < 0)
		return;
	switch (-result) {
	case ERESTARTSYS:
	case ERESTARTNOINTR:
	case ERESTARTNOHAND:
		c->rax = regs->orig_rax;
		c->rip = regs->rip - SYSCALL_BYTES;
		break;
	case ERESTART_RESTARTBLOCK:
		/* rt_sigreturn forgets how: the sleep or poll sees a signal's EINTR. */
		c->rax = (uint64_t)-EINTR;
		break;
	default:
		break;
	}
}

static void put_u32(unsigned char *p, uint32_t value)
{
	memcpy(p, &value, sizeof(value));
}

size_t sigframe_build(unsigned char *frame, uint64_t below,
	const struct user_regs_struct *regs, const unsigned char *xstate,
	size_t xstate_bytes, uint64_t mask, uint64_t pretcode, uint64_t *ret_address)
{
	size_t vector = xstate_bytes + 4; /* and the second magic number */
	uint64_t fpstate = (below - RED_ZONE_BYTES - vector) & ~63ull;
	uint64_t address = ((fpstate - sizeof(struct frame_head)) & ~15ull) - 8;
	size_t size = (size_t)(fpstate + vector - address);
	uint64_t features;

	if (xstate_bytes < LEGACY_BYTES || size > SIGFRAME_MAX_BYTES)
		return 0;
	struct frame_head h = {
		.pretcode = pretcode,
		.uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
		.stack_flags = INVALID_STACK_FLAGS,
		.mask = mask,
		/* clang-format off */
		.context = {
			.r8 = regs->r8, .r9 = regs->r9, .r10 = regs->r10,
			.r11 = regs->r11, .r12 = regs->r12, .r13 = regs->r13,
			.r14 = regs->r14, .r15 = regs->r15, .rdi = regs->rdi,
			.rsi = regs->rsi, .rbp = regs->rbp, .rbx = regs->rbx,
			.rdx = regs->rdx, .rax = regs->rax, .rcx = regs->rcx,
			.rsp = regs->rsp, .rip = regs->rip, .eflags = regs->eflags,
			.cs = (uint16_t)regs->cs, .ss = (uint16_t)regs->ss,
			.fpstate = fpstate,
		},
		/* clang-format on */
	};

	restart_call(&h.context, regs);
	memset(frame, 0, size);
	memcpy(frame, &h, sizeof(h));

	unsigned char *state = frame + (fpstate - address);

	memcpy(state, xstate, xstate_bytes);
	/* ptrace shows the enabled features where a frame has its own description. */
	memcpy(&features, xstate + SW_RESERVED_OFFSET, sizeof(features));
	put_u32(state + SW_RESERVED_OFFSET, FP_XSTATE_MAGIC1);
	put_u32(state + SW_RESERVED_OFFSET + 4, (uint32_t)vector);
	memcpy(state + SW_RESERVED_OFFSET + 8, &features, sizeof(features));
	put_u32(state + SW_RESERVED_OFFSET + 16, (uint32_t)xstate_bytes);
	memset(state + SW_RESERVED_OFFSET + 20, 0,
		LEGACY_BYTES - SW_RESERVED_OFFSET - 20);
	put_u32(state + xstate_bytes, FP_XSTATE_MAGIC2);
	*ret_address = address;
	return size;
}
