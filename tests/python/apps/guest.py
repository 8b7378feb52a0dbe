# SPDX-License-Identifier: Apache-2.0
"""A program with libraries in it that own what a profiler might want.

usage: guest.py LIBRARY KIND BEAT-FILE STOP-FILE

KIND:
  handlers-early, handlers-late, handlers-twice, handlers-raw: SIGSEGV and SIGBUS belong to
      the library, from the start, from the middle on, both, by raw system calls;
  altstack, altstack-late: each thread has an alternate signal stack of the library's;
  states: threads that have a Python thread state and never a frame, some of which end
      and leave it behind;
  waits: threads in system calls that a signal would interrupt.
All of them create and free frames, code, generators and stacks as fast as they can, so
that a sampler reads memory that goes away.  "Late" is when STOP-FILE + ".late" is there.
Ends with DONE and 0, or with BROKEN and 1.
"""
import ctypes
import os
import sys
import threading
import time

library = ctypes.CDLL(sys.argv[1])
kind, beat_file, stop_file = sys.argv[2:5]
broken = []
end = time.time() + 100


def over():
    return time.time() > end or os.path.exists(stop_file)


def down(n):
    return down(n - 1) if n else sum(range(20))


def count_to(n):
    for i in range(n):
        yield i


def work(k):
    """Frames, code and generators that are gone a moment later."""
    source = "def made_%d(down):\n    return [f(12) for f in (down,)]\n" % k
    names = {}
    exec(compile(source, "<made>", "exec"), names)
    names["made_%d" % k](down)
    generators = [count_to(3) for _ in range(50)]
    for generator in generators:
        next(generator)
    down(150)


def churn():
    if kind == "altstack":
        library.guest_take_altstack()
    late = kind == "altstack-late"
    k = 0
    while not over():
        work(k)
        k += 1
        if late and os.path.exists(stop_file + ".late"):
            library.guest_take_altstack()
            late = False
    if kind.startswith("altstack") and not late and not library.guest_has_altstack():
        broken.append("the alternate stack is not the library's")


def wait():
    wrong = 0
    while not over():
        wrong += library.guest_wait_calls(200)
    if wrong:
        broken.append("%d calls were cut short" % wrong)


def short_threads():
    """Each has a stack and a chunk of frames that are unmapped when it ends."""
    while not over():
        thread = threading.Thread(target=down, args=(100,))
        thread.start()
        thread.join()


def beat():
    n = 0
    late = kind in ("handlers-late", "handlers-twice")
    while not over():
        n += 1
        with open(beat_file + ".new", "w") as f:
            f.write("%d\n" % n)
        os.rename(beat_file + ".new", beat_file)
        if late and os.path.exists(stop_file + ".late"):
            library.guest_take_signals(0)
            late = False
        time.sleep(0.02)
    if kind.startswith("handlers") and not late and not library.guest_has_signals():
        broken.append("the signals are not the library's")


def main():
    if kind in ("handlers-early", "handlers-twice", "handlers-raw"):
        library.guest_take_signals(int(kind == "handlers-raw"))
    if kind == "states" and (
        library.guest_leave_states(5) != 0 or library.guest_start_states(3) != 0
    ):
        broken.append("no thread states")
    targets = [churn, churn, short_threads] + [wait] * (3 if kind == "waits" else 0)
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    beat()
    for thread in threads:
        thread.join()
    for text in broken:
        print("BROKEN: " + text)
    print("DONE" if not broken else "")
    sys.stdout.flush()
    os._exit(1 if broken else 0)


main()
