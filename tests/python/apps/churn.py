# SPDX-License-Identifier: Apache-2.0
"""Threads that are over soon, so that the next one gets the id and the memory of the
last: those named red-N run in_red alone, those named blue-N in_blue.

usage: churn.py SECONDS
"""
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


def batch(work, name, size):
    threads = [threading.Thread(target=work, name=name) for _ in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    end = time.time() + float(sys.argv[1])
    n = 0
    while time.time() < end:
        n += 1
        batch(in_red, "red-%d" % n, 3)
        batch(in_blue, "blue-%d" % n, 5)
    print("DONE")


main()
