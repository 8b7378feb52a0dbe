/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signal frame laid under borrowed calls: where its members lie, by the C library's
 * description of it, and that the kernel takes it.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "inject/sigframe.h"
#include "tap.h"

enum {
	XSTATE_BYTES = 832, /* x87, SSE and AVX */
	UCONTEXT = 8,       /* behind the return address */
	SW_RESERVED = 464,
};

/* Every register its own value. */
static struct user_regs_struct some_registers(void)
{
	struct user_regs_struct r;
	unsigned long long *word = (unsigned long long *)&r;

	for (size_t i = 0; i < sizeof(r) / sizeof(*word); i++)
		word[i] = 0x1000100010001000ull + i;
	r.cs = 0x33;
	r.ss = 0x2b;
	r.orig_rax = (unsigned long long)-1;
	return r;
}

static void fill_xstate(unsigned char *xstate)
{
	for (size_t i = 0; i < XSTATE_BYTES; i++)
		xstate[i] = (unsigned char)(i * 7 + 1);
	/* Where ptrace puts the enabled features. */
	memcpy(xstate + SW_RESERVED, "\x07\0\0\0\0\0\0\0", 8);
}

static uint32_t get_u32(const unsigned char *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static void test_registers(void)
{
	static unsigned char frame[SIGFRAME_MAX_BYTES], xstate[XSTATE_BYTES];
	struct user_regs_struct r = some_registers();
	uint64_t address = 0, mask;
	ucontext_t uc;

	fill_xstate(xstate);
	size_t size = sigframe_build(frame, 0x7ffc12345678, &r, xstate, sizeof(xstate),
		0x8000000000000201, 0x123456789abc, &address);

	if (!tap_ok(size > sizeof(xstate), "a frame is built"))
		return;
	memcpy(&uc, frame + UCONTEXT, sizeof(uc));
	const greg_t *g = uc.uc_mcontext.gregs;

	tap_ok(memcmp(frame, "\xbc\x9a\x78\x56\x34\x12\0\0", 8) == 0,
		"the return address");
	tap_ok(g[REG_R8] == (greg_t)r.r8 && g[REG_R9] == (greg_t)r.r9 &&
			g[REG_R10] == (greg_t)r.r10 && g[REG_R11] == (greg_t)r.r11 &&
			g[REG_R12] == (greg_t)r.r12 && g[REG_R13] == (greg_t)r.r13 &&
			g[REG_R14] == (greg_t)r.r14 && g[REG_R15] == (greg_t)r.r15,
		"registers r8 to r15");
	tap_ok(g[REG_RDI] == (greg_t)r.rdi && g[REG_RSI] == (greg_t)r.rsi &&
			g[REG_RBP] == (greg_t)r.rbp && g[REG_RBX] == (greg_t)r.rbx &&
			g[REG_RDX] == (greg_t)r.rdx && g[REG_RAX] == (greg_t)r.rax &&
			g[REG_RCX] == (greg_t)r.rcx && g[REG_RSP] == (greg_t)r.rsp &&
			g[REG_RIP] == (greg_t)r.rip && g[REG_EFL] == (greg_t)r.eflags,
		"the others");
	tap_ok((g[REG_CSGSFS] & 0xffff) == 0x33 && g[REG_CSGSFS] >> 48 == 0x2b,
		"cs and ss");
	memcpy(&mask, &uc.uc_sigmask, sizeof(mask));
	tap_ok(mask == 0x8000000000000201, "the signal mask");
	tap_ok(uc.uc_flags == 7 && uc.uc_link == NULL,
		"flags: vector state and ss are there");
	tap_ok((uc.uc_stack.ss_flags & ~(SS_ONSTACK | SS_DISABLE)) != 0,
		"no alternate stack that the kernel would take");

	const unsigned char *fp = frame + ((uintptr_t)uc.uc_mcontext.fpregs - address);

	tap_ok((uintptr_t)uc.uc_mcontext.fpregs % 64 == 0 && fp > frame &&
			fp + XSTATE_BYTES + 4 == frame + size,
		"the vector state is aligned and ends the frame");
	tap_ok(memcmp(fp, xstate, SW_RESERVED) == 0 &&
			memcmp(fp + 512, xstate + 512, XSTATE_BYTES - 512) == 0,
		"it is what ptrace gave");
	tap_ok(get_u32(fp + SW_RESERVED) == 0x46505853 &&
			get_u32(fp + SW_RESERVED + 4) == XSTATE_BYTES + 4 &&
			get_u32(fp + SW_RESERVED + 8) == 7 &&
			get_u32(fp + SW_RESERVED + 12) == 0 &&
			get_u32(fp + SW_RESERVED + 16) == XSTATE_BYTES &&
			get_u32(fp + XSTATE_BYTES) == 0x46505845,
		"with the description that a frame has");
}

/* For every place of the stack: below the red zone, aligned as at a call. */
static void test_alignment(void)
{
	static unsigned char frame[SIGFRAME_MAX_BYTES], xstate[XSTATE_BYTES];
	struct user_regs_struct r = some_registers();
	bool below = true, aligned = true, near = true;

	for (uint64_t stack = 0x7ffc00001000; stack < 0x7ffc00001000 + 130; stack++) {
		uint64_t address = 0;
		size_t size = sigframe_build(
			frame, stack, &r, xstate, sizeof(xstate), 0, 0, &address);

		below &= address + size <= stack - 128;
		aligned &= address % 16 == 8;
		near &= stack - 128 - (address + size) < 128;
	}
	tap_ok(below, "the red zone is spared");
	tap_ok(aligned, "the frame lies as the stack behind a call");
	tap_ok(near, "and as near as can be");
}

static void test_sizes(void)
{
	static unsigned char frame[SIGFRAME_MAX_BYTES], xstate[2 * SIGFRAME_MAX_BYTES];
	struct user_regs_struct r = some_registers();
	uint64_t address = 4711;
	size_t largest = 0;

	tap_is((int64_t)sigframe_build(frame, 1 << 20, &r, xstate, 0, 0, 0, &address),
		0, "no vector state");
	tap_is((int64_t)sigframe_build(frame, 1 << 20, &r, xstate, 511, 0, 0, &address),
		0, "too little of it");
	tap_is((int64_t)sigframe_build(
		       frame, 1 << 20, &r, xstate, SIGFRAME_MAX_BYTES, 0, 0, &address),
		0, "too much of it");
	tap_is((int64_t)address, 4711, "a failure returns no address");
	/* The AMX state of the largest processor there is fits. */
	tap_ok(sigframe_build(frame, 1 << 20, &r, xstate, 11008, 0, 0, &address) != 0,
		"the state of AMX");
	for (size_t bytes = 512; bytes < sizeof(xstate); bytes += 8) {
		size_t size = sigframe_build(
			frame, 1 << 20, &r, xstate, bytes, 0, 0, &address);

		if (size > largest)
			largest = size;
	}
	tap_ok(largest <= SIGFRAME_MAX_BYTES && largest > SIGFRAME_MAX_BYTES - 200,
		"never more than there is room for");
}

static void test_restart(void)
{
	static const struct {
		const char *what;
		long number, result;
		long rax; /* afterwards */
		int back; /* how far rip goes back */
	} cases[] = {
		{ "no system call", -1, -512, -512, 0 },
		{ "a call that is over", SYS_read, 5, 5, 0 },
		{ "a call that failed", SYS_read, -EINTR, -EINTR, 0 },
		{ "-ERESTARTSYS", SYS_read, -512, SYS_read, 2 },
		{ "-ERESTARTNOINTR", SYS_futex, -513, SYS_futex, 2 },
		{ "-ERESTARTNOHAND", SYS_pause, -514, SYS_pause, 2 },
		{ "-ENOIOCTLCMD is none of them", SYS_read, -515, -515, 0 },
		{ "-ERESTART_RESTARTBLOCK", SYS_nanosleep, -516, -EINTR, 0 },
		{ "the next number", SYS_read, -517, -517, 0 },
		{ "call number 0", 0, -512, 0, 2 },
	};
	static unsigned char frame[SIGFRAME_MAX_BYTES], xstate[XSTATE_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct user_regs_struct r = some_registers();
		uint64_t address;
		ucontext_t uc;

		r.orig_rax = (unsigned long long)cases[i].number;
		r.rax = (unsigned long long)cases[i].result;
		(void)sigframe_build(
			frame, 1 << 20, &r, xstate, sizeof(xstate), 0, 0, &address);
		memcpy(&uc, frame + UCONTEXT, sizeof(uc));
		tap_ok(uc.uc_mcontext.gregs[REG_RAX] == cases[i].rax &&
				uc.uc_mcontext.gregs[REG_RIP] ==
					(greg_t)r.rip - cases[i].back,
			"%s", cases[i].what);
	}
}

/* --- in a child --- */

/* What the borrowed call of the injector ends in. */
void sigframe_test_return(void);
__asm__(".text\n"
	".globl sigframe_test_return\n"
	".type sigframe_test_return, @function\n"
	"sigframe_test_return:\n"
	"	mov $15, %eax\n" /* rt_sigreturn */
	"	syscall\n"
	"	hlt\n"
	".size sigframe_test_return, . - sigframe_test_return\n");

enum { REGISTERS = 12 };

struct machine {
	uint64_t before[REGISTERS], after[REGISTERS];
	unsigned char vectors_before[16][16], vectors_after[16][16];
	unsigned char carry;
};

/* Load all registers, trap, and store them again. */
static void trap_once(struct machine *m)
{
	__asm__ volatile(
		"mov 0(%%rax), %%rbx\n mov 8(%%rax), %%rcx\n mov 16(%%rax), %%rdx\n"
		"mov 24(%%rax), %%rsi\n mov 32(%%rax), %%rdi\n mov 40(%%rax), %%r8\n"
		"mov 48(%%rax), %%r9\n mov 56(%%rax), %%r10\n mov 64(%%rax), %%r11\n"
		"mov 72(%%rax), %%r12\n mov 80(%%rax), %%r13\n mov 88(%%rax), %%r14\n"
		"movdqu 192(%%rax), %%xmm0\n movdqu 208(%%rax), %%xmm1\n"
		"movdqu 416(%%rax), %%xmm14\n movdqu 432(%%rax), %%xmm15\n"
		"stc\n"
		"int3\n"
		"setc 704(%%rax)\n"
		"mov %%rbx, 96(%%rax)\n mov %%rcx, 104(%%rax)\n mov %%rdx, 112(%%rax)\n"
		"mov %%rsi, 120(%%rax)\n mov %%rdi, 128(%%rax)\n mov %%r8, 136(%%rax)\n"
		"mov %%r9, 144(%%rax)\n mov %%r10, 152(%%rax)\n mov %%r11, 160(%%rax)\n"
		"mov %%r12, 168(%%rax)\n mov %%r13, 176(%%rax)\n mov %%r14, 184(%%rax)\n"
		"movdqu %%xmm0, 448(%%rax)\n movdqu %%xmm1, 464(%%rax)\n"
		"movdqu %%xmm14, 672(%%rax)\n movdqu %%xmm15, 688(%%rax)\n"
		:
		: "a"(m)
		: "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
		"r13", "r14", "xmm0", "xmm1", "xmm14", "xmm15", "cc", "memory");
}

_Static_assert(offsetof(struct machine, after) == 96, "as the code above has it");
_Static_assert(offsetof(struct machine, vectors_before) == 192, "likewise");
_Static_assert(offsetof(struct machine, vectors_after) == 448, "likewise");
_Static_assert(offsetof(struct machine, carry) == 704, "likewise");

/* Exit status 0 when everything is as it was, and SIGUSR2 is blocked. */
static void child_with_registers(void)
{
	struct machine m = { .carry = 0 };
	sigset_t mask;
	int wrong = 0;

	for (size_t i = 0; i < REGISTERS; i++)
		m.before[i] = 0x0123456789abcdefull * (i + 1);
	for (int i = 0; i < 16; i++)
		memset(m.vectors_before[i], i * 5 + 3, 16);
	trap_once(&m);
	wrong |= memcmp(m.before, m.after, sizeof(m.before)) != 0 ? 1 : 0;
	for (int i = 0; i < 16; i += i == 1 ? 13 : 1)
		wrong |= memcmp(m.vectors_before[i], m.vectors_after[i], 16) != 0 ? 2
										  : 0;
	wrong |= m.carry != 1 ? 4 : 0;
	(void)sigprocmask(SIG_BLOCK, NULL, &mask);
	wrong |= sigismember(&mask, SIGUSR2) != 1 || sigismember(&mask, SIGUSR1) != 0
			 ? 8
			 : 0;
	_exit(wrong);
}

/* Blocks in a read, which goes on as if nothing had been. */
static void child_in_read(int fd)
{
	char byte = 0;

	_exit(read(fd, &byte, 1) == 1 && byte == 'x' ? 0 : 1);
}

/* Throw the stopped child onto a frame of its own registers, with all of them spoilt.
 */
static bool throw_onto_frame(pid_t child, const struct user_regs_struct *regs)
{
	static unsigned char frame[SIGFRAME_MAX_BYTES], xstate[SIGFRAME_MAX_BYTES];
	struct user_regs_struct spoilt;
	struct user_fpregs_struct no_vectors = { .mxcsr = 0x1f80 };
	struct iovec state = { xstate, sizeof(xstate) };
	uint64_t address;

	if (ptrace(PTRACE_GETREGSET, child, (void *)NT_X86_XSTATE, &state) != 0)
		return false;
	size_t size = sigframe_build(frame, regs->rsp, regs, xstate, state.iov_len,
		1ull << (SIGUSR2 - 1), (uintptr_t)sigframe_test_return, &address);
	struct iovec from = { frame, size }, to = { (void *)(uintptr_t)address, size };

	if (size == 0 || process_vm_writev(child, &from, 1, &to, 1, 0) != (ssize_t)size)
		return false;
	spoilt = *regs;
	spoilt.rax = spoilt.rbx = spoilt.rcx = spoilt.rdx = spoilt.rsi = spoilt.rdi =
		0xdead;
	spoilt.rbp = spoilt.r8 = spoilt.r9 = spoilt.r10 = spoilt.r11 = spoilt.r12 =
		0xdead;
	spoilt.r13 = spoilt.r14 = spoilt.r15 = 0xdead;
	spoilt.eflags &= ~1ull;
	spoilt.orig_rax = (unsigned long long)-1;
	spoilt.rip = (uintptr_t)sigframe_test_return;
	spoilt.rsp = address + 8; /* the call has returned to pretcode */
	return ptrace(PTRACE_SETFPREGS, child, NULL, &no_vectors) == 0 &&
	       ptrace(PTRACE_SETREGS, child, NULL, &spoilt) == 0;
}

static int wait_for(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static void test_live_registers(void)
{
	struct user_regs_struct regs;

	(void)fflush(stdout);
	pid_t child = fork();

	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(77);
		child_with_registers();
	}
	int status = wait_for(child);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		tap_skip("a child on a frame", "ptrace is not allowed");
		return;
	}
	bool thrown = WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP &&
		      ptrace(PTRACE_GETREGS, child, NULL, &regs) == 0 &&
		      throw_onto_frame(child, &regs) &&
		      ptrace(PTRACE_CONT, child, NULL, NULL) == 0;

	if (!tap_ok(thrown, "a child is thrown onto a frame")) {
		(void)kill(child, SIGKILL);
		(void)wait_for(child);
		return;
	}
	status = wait_for(child);
	tap_ok(WIFEXITED(status), "and finds back");
	tap_is(WIFEXITED(status) ? WEXITSTATUS(status) : status, 0,
		"with its registers (1), vectors (2), flags (4) and the mask (8)");
	if (!WIFEXITED(status)) {
		(void)kill(child, SIGKILL);
		(void)wait_for(child);
	}
}

/* Stop a child that blocks in a call, at a moment when it does; false after 10 s. */
static bool stop_in_call(pid_t child, long number, struct user_regs_struct *ret)
{
	int64_t end = clock_monotonic_ns() + 10 * 1000000000ll;

	while (clock_monotonic_ns() < end) {
		if (ptrace(PTRACE_INTERRUPT, child, NULL, NULL) != 0 ||
			!WIFSTOPPED(wait_for(child)) ||
			ptrace(PTRACE_GETREGS, child, NULL, ret) != 0)
			return false;
		if ((long)ret->orig_rax == number && (long)ret->rax == -512)
			return true;
		if (ptrace(PTRACE_CONT, child, NULL, NULL) != 0)
			return false;
		(void)usleep(1000);
	}
	return false;
}

static void test_live_restart(void)
{
	struct user_regs_struct regs;
	int fds[2];

	if (pipe(fds) != 0)
		return;
	(void)fflush(stdout);
	pid_t child = fork();

	if (child == 0)
		child_in_read(fds[0]);
	if (ptrace(PTRACE_SEIZE, child, NULL, NULL) != 0) {
		tap_skip("a read that goes on", "ptrace is not allowed");
		(void)kill(child, SIGKILL);
		(void)wait_for(child);
		return;
	}
	bool thrown = stop_in_call(child, SYS_read, &regs) &&
		      throw_onto_frame(child, &regs) &&
		      ptrace(PTRACE_DETACH, child, NULL, NULL) == 0;

	if (!tap_ok(thrown, "a child is thrown onto a frame while it reads"))
		(void)kill(child, SIGKILL);
	(void)!write(fds[1], "x", 1);
	tap_is(wait_for(child), 0, "and reads on as if nothing had been");
	(void)close(fds[0]);
	(void)close(fds[1]);
}

int main(void)
{
	test_registers();
	test_alignment();
	test_sizes();
	test_restart();
	test_live_registers();
	test_live_restart();
	return tap_done();
}
