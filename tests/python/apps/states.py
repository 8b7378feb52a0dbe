# SPDX-License-Identifier: Apache-2.0
"""Programs in known states: states.py NAME [SECONDS]

collect   half of the time in the collector, half not; prints the seconds of each
finalize  the collector calls a finalizer of Python code
end       the interpreter's end takes some time, in Python code
threads   20 threads wait, one computes, one hashes without the lock
share     two threads hash without the lock on one CPU
"""
import gc
import hashlib
import os
import sys
import threading
import time

WAITING = 20


class Knot:
    def __init__(self):
        self.self = self


def computing(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))


def collecting(seconds):
    spent = 0
    knots = [Knot() for _ in range(100000)]
    while spent < seconds:
        began = time.thread_time()
        gc.collect()
        spent += time.thread_time() - began
    return spent, len(knots)


def collect(seconds):
    gc.disable()
    began = time.thread_time()
    spent, _ = collecting(seconds / 2)
    computing(seconds / 2)
    print("TRUTH %.6f" % (spent / (time.thread_time() - began)))


def step(n):
    return n + 1


class Slow(Knot):
    def __del__(self):
        end = time.thread_time() + 0.3
        n = 0
        while time.thread_time() < end:
            n = step(n)
            n = step(n) - step(n)


def finalize(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        Slow()
        gc.collect()


class Last:
    def __del__(self):
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            step(1)


def hashing(seconds, account):
    data = b"x" * (1 << 18)
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(data).digest()
    account.append(time.thread_time())


def waiting(done):
    done.wait()


def join_all(threads):
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def many(seconds):
    done = threading.Event()
    idle = [threading.Thread(target=waiting, args=(done,)) for _ in range(WAITING)]
    account = []
    for t in idle:
        t.start()
    join_all([threading.Thread(target=computing, args=(seconds / 2,)),
              threading.Thread(target=hashing, args=(seconds / 2, account))])
    done.set()
    for t in idle:
        t.join()


def share(seconds):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    account = []
    join_all([threading.Thread(target=hashing, args=(seconds / 2, account))
              for _ in range(2)])


def main():
    global last
    name, seconds = sys.argv[1], float(sys.argv[2] if len(sys.argv) > 2 else 1)
    if name == "end":
        last = Last()
        computing(0.1)
    else:
        {"collect": collect, "finalize": finalize, "threads": many,
         "share": share}[name](seconds)
    print("CPU %.6f" % time.process_time())
    print("DONE")


main()
