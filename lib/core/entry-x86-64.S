/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of the core image and the few lines that cannot be C: the two
 * entries of abi.h at offsets 0 and 16, clone, the return from a handler, the end.
 */

	.section .text.entry, "ax"
	.globl	core_entry
	.hidden	core_entry
core_entry:
	jmp	core_call

	.balign	16
	/* A task cloned from outside begins here: its args are on the stack. */
	pop	%rdi
	xor	%ebp, %ebp
	and	$-16, %rsp
	call	core_task
	mov	%eax, %edi
	jmp	arch_exit

	.text
	/* Ends this thread alone.  Where a filter refuses even that, it waits for good:
	 * as a thread of the program it must neither fault nor end more than itself. */
arch_exit:
	mov	$60, %eax		/* exit */
	syscall
	mov	$34, %eax		/* pause */
	syscall
	jmp	arch_exit

	/* long arch_clone(flags, stack_top, run, arg) */
	.globl	arch_clone
	.hidden	arch_clone
arch_clone:
	mov	%rdx, %r9		/* run */
	mov	%rcx, %r8		/* arg, rcx is lost in the call; TLS of a
					 * thread, for what that is worth */
	and	$-16, %rsi
	xor	%edx, %edx		/* parent_tid */
	xor	%r10d, %r10d		/* child_tid */
	mov	$56, %eax		/* clone */
	syscall
	test	%rax, %rax
	jz	1f
	ret
1:	xor	%ebp, %ebp
	mov	%r8, %rdi
	call	*%r9
	mov	%eax, %edi
	jmp	arch_exit

	/* void arch_unmap_exit(address, bytes, status): the stack may lie there. */
	.globl	arch_unmap_exit
	.hidden	arch_unmap_exit
arch_unmap_exit:
	mov	%edx, %r12d
	mov	$11, %eax		/* munmap */
	syscall
	mov	%r12d, %edi
	jmp	arch_exit

	.globl	arch_sigreturn
	.hidden	arch_sigreturn
arch_sigreturn:
	mov	$15, %eax		/* rt_sigreturn */
	syscall
	hlt

	/*
	 * The handler of SIGURG, as it is copied into a page of its own (timer.h),
	 * with its state in the page behind: (signal, siginfo, ucontext).  What is not
	 * of our timers is ignored, as it is by default.  Who calls this as the
	 * handler that was there before, maybe without a siginfo, does not return to
	 * the lines below, and finds that it does nothing.  What is left of our timers
	 * when nobody takes samples any more is dropped.
	 */
	.section core_timer, "ax"
	.balign	64
core_timer_page:
	endbr64
	lea	3f(%rip), %rax
	cmp	%rax, (%rsp)
	jne	2f
	cmpl	$-2, 8(%rsi)		/* SI_TIMER */
	jne	2f
	push	%rbx
	lea	core_timer_page + 4096(%rip), %rbx
	lock incl 20(%rbx)		/* inside */
	mov	28(%rsi), %eax		/* upper half of the cookie */
	cmp	16(%rbx), %eax		/* secret; where it is 0, entry is */
	jne	1f
	mov	(%rbx), %rax		/* entry */
	test	%rax, %rax
	jz	1f
	mov	%rsi, %rdi
	mov	%rbx, %rsi
	call	*%rax
1:	lock decl 20(%rbx)
	pop	%rbx
2:	ret
	.org	core_timer_page + 96, 0xcc
3:	mov	$15, %rax		/* rt_sigreturn, as unwinders know it */
	syscall

	.section .note.GNU-stack, "", @progbits
