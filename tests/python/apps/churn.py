# SPDX-License-Identifier: Apache-2.0
"""Threads that are over soon, so that the next one gets the id and the memory of the
last: those named red-N run in_red alone, those named blue-N in_blue, and in_grey is run
by those that have no name.  Says how many ids were used by more than one kind.

usage: churn.py SECONDS
"""
import _thread
import sys
import threading
import time


def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def in_red():
    burn(0.008)


def in_blue():
    burn(0.003)


def in_grey(done):
    ids.setdefault(threading.get_ident(), set()).add("grey")
    burn(0.003)
    done.release()


def batch(work, name, size):
    threads = [threading.Thread(target=work, name=name) for _ in range(size)]
    for thread in threads:
        thread.start()
        ids.setdefault(thread.ident, set()).add(work)
    for thread in threads:
        thread.join()


def batch_of_grey(size):
    locks = [_thread.allocate_lock() for _ in range(size)]
    for lock in locks:
        lock.acquire()
        _thread.start_new_thread(in_grey, (lock,))
    for lock in locks:
        lock.acquire()


ids = {}


def main():
    print("ready", flush=True)
    end = time.time() + float(sys.argv[1])
    n = 0
    while time.time() < end:
        n += 1
        batch(in_red, "red-%d" % n, 3)
        batch_of_grey(3)
        batch(in_blue, "blue-%d" % n, 5)
    print("shared", sum(len(kinds) > 1 for kinds in ids.values()))
    print("DONE")


main()
