/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ARCH_H
#define CORE_ARCH_H

/*
 * All that the core knows of a processor: system calls, guarded loads, the
 * machine context of a signal.  A new architecture is a new arch-*.h and
 * entry-*.S, and nothing else.
 *
 * Each arch-*.h defines, with the contracts given here:
 *
 *   long arch_syscall(long number, long a, long b, long c, long d, long e, long f)
 *	The raw call: result or -errno.
 *
 *   bool arch_load64(uint64_t address, uint64_t *ret)
 *   bool arch_load32(uint64_t address, uint32_t *ret)
 *   bool arch_load8(uint64_t address, uint8_t *ret)
 *	Guarded loads: true and the value, or false when the address cannot be
 *	read, *ret is then undefined.  One instruction each that may fault, listed
 *	in the fix-up table.
 *	address must be canonical (below ARCH_USER_END).
 *
 *   bool arch_copy(void *to, uint64_t address, size_t size)
 *	The same for size bytes; on false the bytes at `to` are undefined.
 *
 *   int arch_fault_fix(int sig, const void *siginfo, void *ucontext)
 *	In a handler of SIGSEGV or SIGBUS: if the fault is a guarded load's and
 *	its address is within what was being loaded, let the load return false and
 *	return 1; else return 0.
 *
 *   uint64_t arch_stack_pointer(void)
 *   uint64_t arch_behind_eintr(const void *ucontext)
 *	Where a thread goes on whose registers say that a system call was interrupted;
 *	else 0.
 *   uint64_t arch_call_again(const void *ucontext)
 *	Where a thread goes on if that may be with a system call which the kernel has
 *	set up to be made again; else 0.  Its number and second argument:
 *   uint64_t arch_call_number(const void *ucontext)
 *   uint64_t arch_call_second(const void *ucontext)
 *   void arch_end_call(void *ucontext, long result)
 *	Let it go on behind that call, as if it had ended.
 *   uint64_t arch_signal_mask(const void *ucontext)
 *	The signals that are blocked in it, 1 << (number - 1).
 *   bool arch_is_call(const uint8_t *bytes)
 *	Do these ARCH_CALL_BYTES make a system call?
 *   void arch_pause(void)		a hint for a waiting loop
 *   long arch_clone(long flags, void *stack_top, long (*run)(void *), void *arg)
 *	clone; the child calls run(arg) on its stack and exits with its result, alone.
 *	A thread gets arg for its TLS.
 *	Returns the child's id or -errno in the parent.
 *   void arch_unmap_exit(uint64_t address, uint64_t bytes, int status)
 *	Unmap memory in which the own stack may lie, and end the task.
 *   ARCH_SIGRETURN: address of a piece of code that calls rt_sigreturn.
 *   ARCH_AUDIT: the AUDIT_ARCH_* value for seccomp.
 */

#if defined(__x86_64__)
#	include "core/arch-x86-64.h"
#else
#	error "no core/arch-*.h for this processor yet"
#endif

#endif
