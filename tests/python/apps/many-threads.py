# SPDX-License-Identifier: Apache-2.0
"""So many threads, which wait; the main one, which is the first, computes until it is
ended, or says "no room" where there can be no more.

usage: many-threads.py COUNT
"""
import _thread
import sys
import time

lock = _thread.allocate_lock()
begun = []


def in_thread():
    begun.append(1)
    lock.acquire()


def in_main():
    while True:
        sum(range(100))


def main():
    count = int(sys.argv[1])
    _thread.stack_size(65536)
    lock.acquire()
    try:
        for _ in range(count):
            _thread.start_new_thread(in_thread, ())
    except RuntimeError:
        print("no room", flush=True)
        sys.exit()
    while len(begun) < count:
        time.sleep(0.01)
    print("ready", flush=True)
    in_main()


main()
