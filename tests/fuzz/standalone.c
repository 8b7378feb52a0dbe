/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over files given as arguments, without a fuzzer: what it once
 * stumbled over, and a few seeds.  A target that finds something aborts.
 */
#include <fcntl.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "fuzz.h"

enum { MAX_INPUT = 1 << 20 };

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		_cleanup_buf_ struct buf b = BUF_INIT(MAX_INPUT);
		int code = fd_read_file(AT_FDCWD, argv[i], &b);

		if (code != 0) {
			(void)fprintf(stderr, "%s: %s\n", argv[i], err_name(code));
			return 1;
		}
		/* Said first, so that it is known if the target ends the program. */
		(void)fprintf(stderr, "%s\n", argv[i]);
		(void)LLVMFuzzerTestOneInput((const uint8_t *)buf_text(&b), b.size);
	}
	return 0;
}
