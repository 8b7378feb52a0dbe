# SPDX-License-Identifier: Apache-2.0
"""What programs do with SIGSEGV and SIGBUS while they are recorded:
copies.py FOREIGN.SO KIND SECONDS [READY].  With READY it says so there, once what is to
happen before a recording has, and goes on when there is a file `go`."""
import ctypes
import faulthandler
import os
import signal
import sys
import time

lib = ctypes.CDLL(sys.argv[1])
kind, seconds = sys.argv[2], float(sys.argv[3])
SEGV, BUS = signal.SIGSEGV, signal.SIGBUS


def work(for_s):
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        sum(range(200))


def in_main(for_s):
    work(for_s)


def take(raw=0):
    print("take", lib.foreign_take(SEGV, raw), lib.foreign_take(BUS, raw))


def fault(times=1000):
    print("handled", lib.foreign_fault(times))


def deep(n):
    return n and deep(n - 1)


def grow_and_shrink(for_s):
    # Each time the stack takes another piece of memory, and gives it back.
    sys.setrecursionlimit(3000)
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        for depth in (100, 900, 300, 2000):
            deep(depth)


early = kind.startswith("early")
if early:
    take(kind == "early-raw")
if kind == "enabled":
    faulthandler.enable()
if len(sys.argv) > 4:
    open(sys.argv[4], "w").close()
    while not os.path.exists("go"):
        in_main(0.01)

if early:
    in_main(seconds)
    fault()
    in_main(seconds)
    print("fault", lib.foreign_fault(1))
elif kind in ("late", "late-raw"):
    in_main(seconds)
    take(kind == "late-raw")
    in_main(seconds)
    fault()
    print("stands", lib.foreign_stands(SEGV), lib.foreign_stands(BUS))
elif kind == "twice":
    for i in range(2):
        in_main(seconds / 2)
        take()
        in_main(seconds / 4)
        fault(10)
        print("back", lib.foreign_give_back(SEGV), lib.foreign_give_back(BUS))
    in_main(seconds / 2)
elif kind == "toggled":
    end = time.monotonic() + 2 * seconds
    while time.monotonic() < end:
        faulthandler.enable()
        work(0.003)
        faulthandler.disable()
        work(0.003)
elif kind == "unmapped":
    grow_and_shrink(2 * seconds)
elif kind in ("dies", "enabled"):
    in_main(2 * seconds)
elif kind == "hosted":
    in_main(seconds)
    fault()
    in_main(seconds)
elif kind == "asks":
    in_main(seconds)
    for s in (SEGV, BUS):
        saved = signal.getsignal(s)
        print(s.name, repr(saved))
        try:
            signal.signal(s, saved)
        except TypeError as error:
            print(error)
elif kind == "waits-for":
    # Nobody lets them in but the sampler, which has to pass them on.
    both = [SEGV, BUS]
    signal.pthread_sigmask(signal.SIG_BLOCK, both)
    in_main(seconds)
    for s in both * 3:
        os.kill(os.getpid(), s)
        got = signal.sigtimedwait(both, 20)
        print(got and (got.si_signo, got.si_code, got.si_pid == os.getpid()))
        in_main(0.05)
    print(signal.sigpending())
elif kind == "ignores":
    signal.signal(SEGV, signal.SIG_IGN)
    in_main(seconds)
    os.kill(os.getpid(), SEGV)
    in_main(seconds)
else:
    in_main(2 * seconds)
print("DONE", flush=True)
if kind in ("dies", "enabled", "twice", "toggled"):
    ctypes.string_at(0)
