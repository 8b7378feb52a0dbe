# SPDX-License-Identifier: Apache-2.0
"""A stack of many frames: deep.py DEPTH SECONDS."""
import sys
import threading
import time


def leaf():
    end = time.time() + float(sys.argv[2])
    while time.time() < end:
        pass


def down(n):
    if n:
        down(n - 1)
    else:
        leaf()


def main():
    depth = int(sys.argv[1])
    sys.setrecursionlimit(depth + 100)
    threading.stack_size(1 << 29)
    thread = threading.Thread(target=down, args=(depth,))
    thread.start()
    thread.join()
    print("DONE")


main()
