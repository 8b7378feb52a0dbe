# SPDX-License-Identifier: Apache-2.0
"""Thousands of short-lived code objects, so that their addresses are used again at once.

usage: reuse.py SECONDS

Generation K: function top_K calls middle_K calls bottom_K, all of file gen_K.py, the first
at line K.  Any mixture of numbers in a stack is that of a cache keyed by address.
"""
import gc
import sys
import time

SOURCE = """def top_%(k)d(spin):
    middle_%(k)d(spin)

def middle_%(k)d(spin):
    bottom_%(k)d(spin)

def bottom_%(k)d(spin):
    spin(0.002)
"""


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def live(k):
    names = {}
    exec(compile("\n" * (k - 1) + SOURCE % {"k": k}, "/made/gen_%d.py" % k, "exec"), names)
    names["top_%d" % k](spin)


def main():
    end = time.time() + float(sys.argv[1])
    k = 0
    while time.time() < end:
        k += 1
        live(k)
        if k % 10 == 0:
            gc.collect()
    print("DONE")


main()
