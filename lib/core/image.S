/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core image as bytes: for the program, which copies it into processes, as
 * constants; for the preload library (CORE_IMAGE_CODE), which runs it where it lies,
 * as code.
 */
#ifdef CORE_IMAGE_CODE
	.section .text.core_image, "ax"
#else
	.section .rodata.core_image, "a"
#endif
	.balign	64
	.globl	core_image
	.hidden	core_image
core_image:
	.incbin	"lib/core/core.bin"
	.globl	core_image_end
	.hidden	core_image_end
core_image_end:

	.section .note.GNU-stack, "", @progbits
