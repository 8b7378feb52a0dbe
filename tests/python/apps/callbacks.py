# SPDX-License-Identifier: Apache-2.0
"""A thread of C code works for 20 ms of CPU time and calls Python, which works for 20 ms,
again and again.

usage: callbacks.py LIBRARY COUNT

Prints "TRUTH function -/in_callback CPU CPU", the CPU time used in the calls, in ms.
"""
import ctypes
import sys
import time

used = 0


def cpu():
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def in_callback():
    global used
    start = cpu()
    while cpu() < start + 0.02:
        pass
    used += cpu() - start


def main():
    library = ctypes.CDLL(sys.argv[1])
    function = ctypes.CFUNCTYPE(None)(in_callback)
    library.callbacks_start(function, int(sys.argv[2]), 20000)
    library.callbacks_join()
    print("TRUTH function -/in_callback %.3f %.3f" % (used * 1e3, used * 1e3))


main()
