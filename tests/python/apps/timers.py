# SPDX-License-Identifier: Apache-2.0
"""Programs for CPU timers: timers.py KIND SECONDS [READY [GO [END]]].

READY is made when it begins, and GO waited for.  "pending" waits for END, too; some go on
until there is one.  The end is a line DONE.
"""
import ctypes
import os
import signal
import struct
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
kind, seconds = sys.argv[1], float(sys.argv[2])
got = []


def burn(s):
    end = time.thread_time() + s
    n = 0
    while time.thread_time() < end:
        for _ in range(200):
            n += 1
    return n


def burn_on(s):
    burn(s)
    while len(sys.argv) > 5 and not os.path.exists(sys.argv[5]):
        burn(0.01)


def in_a():
    burn(0.004)


def in_b():
    burn(0.006)
    in_c()


def in_c():
    burn(0.010)


def in_turns(s):
    end = time.thread_time() + s
    while time.thread_time() < end:
        in_a()
        in_b()


def in_thread(s, name):
    in_turns(s)
    burn_on(0)
    print("used", name, time.thread_time(), flush=True)


def in_handler(*_):
    got.append(1)


def shares():
    threads = [
        threading.Thread(target=in_thread, args=(seconds * part, "T%d" % part), name="T%d" % part)
        for part in (1, 2)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def in_signals(count):
    for _ in range(count):
        os.kill(os.getpid(), signal.SIGURG)
        burn(0.01)


def before():
    signal.signal(signal.SIGURG, in_handler)
    ready()
    in_signals(20)
    burn(seconds)
    print("got", len(got))


def during():
    burn(seconds)
    old = signal.signal(signal.SIGURG, in_handler)
    print("default", old == signal.SIG_DFL)
    burn(0.3)
    stray = len(got)
    in_signals(20)
    print("stray", stray, "got", len(got) - stray)
    signal.signal(signal.SIGURG, old)
    burn(0.2)


def profiled():
    """A profiler of its own, by the signal that is there for it."""
    signal.signal(signal.SIGPROF, in_handler)
    ready()
    signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
    burn(seconds)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    burn(0.1)
    print("got", len(got))


def unhandled():
    """What its own timer does to it."""
    burn(seconds)
    signal.setitimer(signal.ITIMER_PROF, 0.05)
    burn(20)


def to_defaults():
    """As pools do in a child: whatever the kernel lets be set."""
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, RuntimeError, ValueError):
            pass


def defaults():
    burn(seconds)
    to_defaults()
    burn(0.1)
    for i in range(5):
        pid = os.fork()
        if pid == 0:
            burn(0.1)
            to_defaults()
            burn(0.05)
            os._exit(i)
        print("child", os.waitpid(pid, 0)[1] == i << 8)


def ignored():
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    ready()
    burn(seconds)
    print("ignored", signal.getsignal(signal.SIGURG) == signal.SIG_IGN)


def blocked():
    """Once its timer is gone nothing is pending; before it there was none."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    ready()
    burn(seconds)
    print("pending", len(signal.sigpending()))


def pending():
    """One that it has sent itself, for when it asks; threads are looked at meanwhile."""
    burn(seconds)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    os.kill(os.getpid(), signal.SIGURG)
    burn(seconds)
    while len(sys.argv) > 5 and not os.path.exists(sys.argv[5]):
        time.sleep(0.01)
    print("pending", len(signal.sigpending()))


sleeper = os.environ.get("SLEEPER")


def interrupted():
    """Calls that the program's own signals end: of higher and lower numbers, to the thread
    and to the process."""
    reads = ctypes.CDLL(sleeper).sleeper_reads
    reads.argtypes = [ctypes.c_double, ctypes.c_int, ctypes.c_int]
    hung = [reads(seconds, number, to_process)
            for number, to_process in ((28, 0), (10, 1), (34, 0), (10, 0))]
    print("hung", hung)


def masked():
    """Threads that block all signals but in the calls by which they wait for some; others,
    so that each is looked at more seldom."""
    for _ in range(4):
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
    calls = ctypes.CDLL(sleeper).sleeper_masked
    calls.argtypes = [ctypes.c_double, ctypes.c_int]
    print("astray", [calls(seconds, which) for which in range(3)])


def sent():
    burn(seconds)
    in_signals(20)
    burn(seconds)


def in_child():
    burn(0.1)


def family():
    for i in range(8):
        pid = os.fork()
        if pid == 0:
            in_child()
            os._exit(i)
        assert os.waitpid(pid, 0)[1] == i << 8
        burn(0.02)
    pid = os.fork()
    if pid == 0:
        # A handler into nothing would end it by another one.
        os.kill(os.getpid(), signal.SIGURG)
        os._exit(0)
    print("child", os.waitpid(pid, 0)[1])
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", "kill -URG $$"])
    print("exec", os.waitpid(pid, 0)[1])


def in_brief():
    burn(0.02)


def churn():
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end:
        threads = [threading.Thread(target=in_brief) for _ in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        count += len(threads)
    print("threads", count)


def many():
    """Many threads at once, each of which uses some CPU time."""
    end = time.monotonic() + seconds

    def some():
        while time.monotonic() < end:
            burn(0.0005)
            time.sleep(0.02)

    threads = [threading.Thread(target=some) for _ in range(150)]
    for t in threads:
        t.start()
    print("many", flush=True)
    for t in threads:
        t.join()


class Stack(ctypes.Structure):
    _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


def alternate():
    """An alternate stack stays, and is used."""
    size = 65536
    memory = ctypes.create_string_buffer(b"\xa5" * size, size)
    mine, now = Stack(ctypes.addressof(memory), 0, size), Stack()
    assert libc.sigaltstack(ctypes.byref(mine), None) == 0
    burn(seconds)
    assert libc.sigaltstack(None, ctypes.byref(now)) == 0
    print("stack", (now.sp, now.size) == (mine.sp, mine.size), "used",
          size - len(memory.raw) + memory.raw.count(b"\xa5") < size)
    off, none = Stack(None, 2, 0), Stack()
    burn(0.05)
    assert libc.sigaltstack(ctypes.byref(off), ctypes.byref(none)) == 0


def calls():
    """Calls that would say EINTR, were they cut short."""

    class Pollfd(ctypes.Structure):
        _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]

    r, _ = os.pipe()
    fds = (Pollfd * 100)(*[Pollfd(os.dup(r), 1, 0) for _ in range(100)])
    ts = (ctypes.c_long * 2)(0, 100000)
    n = cut = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        burn(0.00005)
        for call in (lambda: libc.ppoll(fds, 100, ts, None), lambda: libc.poll(fds, 100, 1),
                     lambda: libc.nanosleep(ts, None)):
            n += 1
            cut += call() < 0
    print("calls", n > 100, "cut", cut)


def deep():
    sys.setrecursionlimit(5000)

    def in_deep(n, s):
        if n > 0:
            return in_deep(n - 1, s)
        burn_on(s)

    def in_deeper(n):
        if n > 0:
            return in_deeper(n - 1)
        burn(0)

    # Attaching needs some of the stack behind it.
    in_deeper(1200)
    in_deep(900, seconds)


def sieved():
    """From now on whoever calls ppoll is ended, and alone: of this program the sampler."""
    burn(seconds)
    rows = ((0x20, 0, 0, 0), (0x15, 0, 1, 271), (6, 0, 0, 0), (6, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    filters = struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code))
    assert libc.prctl(38, ctypes.c_ulong(1), 0, 0, 0) == 0
    # SECCOMP_SET_MODE_FILTER, with SECCOMP_FILTER_FLAG_TSYNC.
    assert libc.syscall(317, ctypes.c_ulong(1), ctypes.c_ulong(1), filters) == 0
    burn_on(seconds)


def ready():
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w"):
            pass
    while len(sys.argv) > 4 and not os.path.exists(sys.argv[4]):
        time.sleep(0.01)


if kind not in ("before", "profiled", "ignored", "blocked"):
    ready()
if kind == "status":
    burn(seconds)
    print("DONE", flush=True)
    sys.exit(7)
globals()[kind]()
print("DONE", flush=True)
