# SPDX-License-Identifier: Apache-2.0
"""Threads of several kinds, that keep accounts of their time.

usage: accounts.py SECONDS STEP ...

KIND: a thread of that name, while the seconds last.  computing: Python code; hashing,
packing: C code that lets go of the GIL; resting: sleeps; mixed: 5 ms of Python, 5 ms of C
without the GIL, again and again; seldom-packing: 5 ms of C without the GIL, 45 of sleep;
bursts: 1 ms of work every 100 ms; brief: starts threads named brief, one after the other,
each of 30 ms; holding: C code that keeps the GIL; sitting: 50 ms of Python, then as much
sleep in C that keeps the GIL; stepping: idle and busy for 0.4 s, in turns; alternating: two
places, 10 ms each; halves: work in the first half of each 10 ms; waking: sleeps to the next
multiple of 10 ms, and works for 1.
+COMMAND: write it to the named pipe "commands" and wait for the answer; the threads are
there before, begin to work when the first one was answered and, unless there is an
"ending" among the steps, stay until the last one was.
before:SECONDS: work for that long before; stop:SECONDS: have the process stopped for that
long, after a third of the seconds.  fork:N: N children, that compute and fork another each,
print "TRUTH pid PID CPU QUEUED" and end at once.  moments:N: N children, one after the other,
that compute for 12 ms, print the same of all their time, and end at once.

Prints "TRUTH thread NAME CPU WALL", "TRUTH function THREAD/NAME CPU WALL" and "TRUTH
process CPU WALL OUTER", in ms, of what was used since work began; OUTER is with the commands.
"TRUTH queued NAME MS 0": so long was the thread ready and had no CPU.
"""
import ctypes
import hashlib
import os
import subprocess
import sys
import threading
import time
import zlib

wall = time.perf_counter
data = os.urandom(1 << 20)
piece = data[:1 << 15]
ready, done = threading.Semaphore(0), threading.Semaphore(0)
go, over = threading.Event(), threading.Event()
lock = threading.Lock()
threads, functions, queues, pipes = {}, {}, {}, []
holds_gil = ctypes.PyDLL(None)


def cpu():
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def queued():
    """How long this thread was ready and had no CPU."""
    with open("/proc/thread-self/schedstat") as f:
        return int(f.read().split()[1]) / 1e9


def in_python(seconds):
    end = wall() + seconds
    while wall() < end:
        pass


def in_brief(seconds):
    in_python(seconds)


def in_first(until):
    while wall() < until:
        pass


def in_second(until):
    while wall() < until:
        pass


def in_hash():
    hashlib.sha256(data).digest()


def in_pack(seconds):
    end = wall() + seconds
    while wall() < end:
        zlib.compress(piece, 6)


def in_rest(seconds):
    time.sleep(seconds)


def in_hold(count):
    sum(range(count))


def in_sit(seconds):
    holds_gil.usleep(int(seconds * 1e6))


def add(table, name, used, passed):
    with lock:
        before = table.get(name, (0, 0))
        table[name] = (before[0] + used, before[1] + passed)


def account(function, *args):
    used, passed = cpu(), wall()
    function(*args)
    name = threading.current_thread().name + "/" + function.__name__
    add(functions, name, cpu() - used, wall() - passed)


def computing():
    account(in_python, 0.005)


def hashing():
    account(in_hash)


def packing():
    account(in_pack, 0.005)


def seldom_packing():
    account(in_pack, 0.005)
    account(in_rest, 0.045)


def resting():
    account(in_rest, 0.02)


def mixed():
    account(in_python, 0.005)
    account(in_pack, 0.005)


def bursts():
    account(in_python, 0.001)
    account(in_rest, 0.099)


def holding():
    account(in_hold, 20000000)
    account(in_rest, 0.05)


def sitting():
    account(in_python, 0.05)
    account(in_sit, 0.05)


def stepping():
    account(in_rest, 0.4)
    end = wall() + 0.4
    while wall() < end:
        account(in_first, wall() + 0.003)
        account(in_second, wall() + 0.004)


def period(n):
    """The end of the n-th next period of 10 ms."""
    return (int(wall() * 100) + n) / 100.0


def rest_until(end):
    account(in_rest, max(0, end - wall()))


def alternating():
    start = period(1)
    account(in_first, start)
    account(in_second, start + 0.01)


def halves():
    end = period(1)
    account(in_first, end - 0.005)
    rest_until(end)


def waking():
    rest_until(period(1))
    account(in_first, wall() + 0.001)


def one_brief():
    account(in_brief, 0.03)


def brief():
    thread = threading.Thread(target=one_brief, name="brief")
    thread.start()
    thread.join()


def work(kind, seconds, before):
    end = wall() + before
    while wall() < end:
        kind()
    ready.release()
    go.wait()
    used, passed, waited = cpu(), wall(), queued()
    while wall() < passed + seconds:
        kind()
    add(queues, threading.current_thread().name, queued() - waited, 0)
    add(threads, threading.current_thread().name, cpu() - used, wall() - passed)
    done.release()
    over.wait()


def command(text):
    if not pipes:
        pipes.append(open("commands", "w"))
        pipes.append(open("answers", "r"))
    pipes[0].write(text + "\n")
    pipes[0].flush()
    if pipes[1].readline() != "ack\n":
        raise SystemExit("no answer to " + text)


def stopped(seconds, pause):
    """A child stops the process, so that it also goes on."""
    script = "sleep %f; kill -STOP %d; sleep %f; kill -CONT %d" % (
        seconds, os.getpid(), pause, os.getpid())
    return subprocess.Popen(["sh", "-c", script])


def fork(seconds, generations):
    """Each has a task some ms after it has begun: it rests until then."""
    pid = os.fork()
    if pid != 0:
        return os.waitpid(pid, 0)
    time.sleep(0.1)
    used, waited = time.process_time(), queued()
    in_python(seconds)
    if generations > 1:
        fork(seconds, generations - 1)
    in_python(seconds)
    used, waited = time.process_time() - used, queued() - waited
    os.write(1, b"TRUTH pid %d %.3f %.3f\n" % (os.getpid(), used * 1e3, waited * 1e3))
    os._exit(0)


def moment():
    pid = os.fork()
    if pid != 0:
        return os.waitpid(pid, 0)
    in_python(0.012)
    os.write(1, b"TRUTH pid %d %.3f %.3f\n" % (
        os.getpid(), time.process_time() * 1e3, queued() * 1e3))
    os._exit(0)


def is_kind(step):
    return step[0] != "+" and ":" not in step and step != "ending"


def main():
    seconds = float(sys.argv[1])
    steps = sys.argv[2:]
    kinds = [s for s in steps if is_kind(s)]
    commands = [s[1:] for s in steps if s[0] == "+"]
    numbers = dict(s.split(":") for s in steps if ":" in s)
    before = float(numbers.get("before", 0))
    for _ in range(int(numbers.get("fork", 0))):
        fork(seconds, 2)
    for _ in range(int(numbers.get("moments", 0))):
        moment()
    started = [threading.Thread(target=work, args=(globals()[k.replace("-", "_")], seconds,
                                                   before),
                                name="brief-starter" if k == "brief" else k) for k in kinds]
    print("ready", flush=True)
    for thread in started:
        thread.start()
        ready.acquire()
    pause = float(numbers.get("stop", 0))
    child = stopped(seconds / 3, pause) if pause else None
    outer = wall()
    if commands:
        command(commands[0])
    used, passed, own = time.process_time(), wall(), cpu()
    if "ending" in steps:
        over.set()
    go.set()
    for _ in started:
        done.acquire()
    if "ending" in steps:
        for thread in started:
            thread.join()
    used, passed, own = time.process_time() - used, wall() - passed, cpu() - own
    if len(commands) > 1:
        command(commands[1])
    outer = wall() - outer
    over.set()
    if child:
        child.wait()
    add(threads, "MainThread", own, passed)
    print("TRUTH process %.3f %.3f %.3f" % (used * 1e3, passed * 1e3, outer * 1e3))
    for word, table in (("thread", threads), ("function", functions), ("queued", queues)):
        for name, (used, passed) in sorted(table.items()):
            print("TRUTH %s %s %.3f %.3f" % (word, name, used * 1e3, passed * 1e3))


main()
