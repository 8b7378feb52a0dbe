/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In front of each file of a core that is hosted (hosted.h; -include in local.mk): its
 * system calls go through a function of the test.
 */
#ifndef __ASSEMBLER__
#	include "core/sys.h"

long hosted_call(long n, long a, long b, long c, long d, long e, long f);

#	undef SYS6
#	define SYS6(n, a, b, c, d, e, f)                                              \
		hosted_call(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),  \
			(long)(f))
#endif
