# SPDX-License-Identifier: Apache-2.0
"""A program that notices when it is disturbed.

usage: healthy.py KIND BEAT-FILE STOP-FILE [SECONDS]

KIND: busy, select, sleep, epoll, threads (some 60, coming and going), segv-blocked,
faulthandler (toggled all the time).  Writes a growing number into BEAT-FILE.  Ends with
"DONE" and status 0 when STOP-FILE is there or after SECONDS (120); with "BROKEN: ..." and 1
when a sleep was short, a call interrupted, a result wrong, a signal mask or action
changed, or a child appeared.
"""
import faulthandler
import math
import os
import select
import signal
import sys
import threading
import time

kind, beat_file, stop_file = sys.argv[1:4]
end = time.time() + (float(sys.argv[4]) if len(sys.argv) > 4 else 120)
broken = []


def over():
    return time.time() > end or os.path.exists(stop_file)


# A sampler that loads has handlers of SIGBUS and SIGSEGV there, while it does: the one
# thing that a program may see of it.
OURS = 0x440 if os.environ.get("TEST_MODE") == "thread-fast" else 0


def signals():
    found = []
    for line in open("/proc/self/status"):
        name, _, value = line.partition(":")
        if name in ("SigBlk", "SigIgn"):
            found.append((name, value.strip()))
        elif name == "SigCgt":
            found.append((name, "%016x" % (int(value, 16) & ~OURS)))
    return found


def sum_of_roots():
    total = 0.0
    for i in range(1, 2000):
        total += math.sqrt(i) * 1.5
    return total


right_sum = sum_of_roots()


def check_float():
    """Vector registers must survive whatever is done to the thread."""
    total = sum_of_roots()
    if total != right_sum:
        broken.append("a sum is %r" % total)


def check_sleep(call, seconds):
    start = time.monotonic()
    try:
        call()
    except InterruptedError:
        broken.append("interrupted")
    took = time.monotonic() - start
    if took < seconds - 0.0005:
        broken.append("slept %.4f instead of %.4f s" % (took, seconds))


def some_thread():
    check_float()
    check_sleep(lambda: time.sleep(0.01), 0.01)


def spin(seconds):
    until = time.time() + seconds
    while time.time() < until:
        check_float()


def make_rounds():
    if kind in ("busy", "segv-blocked"):
        spin(0.02)
    elif kind == "select":
        check_sleep(lambda: select.select([], [], [], 0.02), 0.02)
    elif kind == "sleep":
        check_sleep(lambda: time.sleep(0.02), 0.02)
    elif kind == "epoll":
        poll = make_rounds.__dict__.setdefault("poll", select.epoll())
        check_sleep(lambda: poll.poll(0.02), 0.019)
    elif kind == "faulthandler":
        for _ in range(50):
            faulthandler.enable()
            faulthandler.disable()
        spin(0.005)
    elif kind == "threads":
        threads = [threading.Thread(target=some_thread) for _ in range(20)]
        for thread in threads:
            thread.start()
        check_float()
        for thread in threads:
            thread.join()


def main():
    if kind == "segv-blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGSEGV, signal.SIGBUS])
    if kind == "threads":
        for _ in range(40):
            threading.Thread(target=time.sleep, args=(end - time.time() + 100,),
                             daemon=True).start()
    before = signals()
    beat = 0
    while not over() and not broken:
        make_rounds()
        beat += 1
        with open(beat_file + ".new", "w") as f:
            f.write("%d\n" % beat)
        os.rename(beat_file + ".new", beat_file)
        if kind != "faulthandler" and signals() != before:
            broken.append("signals %s -> %s" % (before, signals()))
        try:
            child = os.waitpid(-1, os.WNOHANG)
            broken.append("a child: %r" % (child,))
        except ChildProcessError:
            pass
    for text in broken[:5]:
        print("BROKEN: " + text)
    print("DONE" if not broken else "")
    sys.stdout.flush()
    os._exit(1 if broken else 0)


main()
