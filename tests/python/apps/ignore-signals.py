# SPDX-License-Identifier: Apache-2.0
"""ignore-signals.py COMMAND...: run it with SIGHUP, SIGINT, SIGPIPE and the two signals of
the C library ignored.  Those its sigaction() refuses: the kernel is asked itself."""
import ctypes
import os
import sys

RT_SIGACTION = 13  # x86-64
IGNORE = 1


def main():
    action = (ctypes.c_uint64 * 4)(IGNORE)
    for number in (1, 2, 13, 32, 33):
        ctypes.CDLL(None).syscall(RT_SIGACTION, number, action, None, 8)
    os.execvp(sys.argv[1], sys.argv[1:])


main()
