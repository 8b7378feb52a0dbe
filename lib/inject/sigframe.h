/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INJECT_SIGFRAME_H
#define INJECT_SIGFRAME_H

/*
 * A signal frame as the kernel would build it, by which a thread restores itself
 * with rt_sigreturn: all registers, the vector state, the signal mask.  Laid under
 * every borrowed call, so that the thread finds back even when nobody holds it.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* Room for the largest vector state (AMX: some 11 KiB) and the rest. */
#define SIGFRAME_MAX_BYTES 16384

/*
 * Build the frame for a stack that may be used below address `below`.
 * xstate: the NT_X86_XSTATE register set.  pretcode: code that calls rt_sigreturn.
 * Returns the size and, in *ret_address, where the frame must lie (below `below`);
 * 0 when it does not fit into SIGFRAME_MAX_BYTES.
 */
size_t sigframe_build(unsigned char *frame, uint64_t below,
	const struct user_regs_struct *regs, const unsigned char *xstate,
	size_t xstate_bytes, uint64_t mask, uint64_t pretcode, uint64_t *ret_address);

#endif
