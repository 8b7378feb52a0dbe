# SPDX-License-Identifier: Apache-2.0
"""A program that does one kind of work and checks itself while soak.py disturbs it.

usage: program.py KIND FOLDER SECONDS

KIND:
  sleep    threads in calls that wait for a time: none may come back early
  threads  threads that come and go beside some that wait
  forks    storms of children, of which each is reaped and none is a stranger
  asyncio  an event loop with timers, streams, executors and children
  memory   patterns in memory, files and pipes, signals that come all the time
  clock    a thread that looks at the clock as often as it can: gaps are stops

Files in FOLDER: "pid"; "beat", a number that grows; "broken", a line for all that is not
as it must be; "interrupted", a line "BEGIN END CALL" for each system call of a sleeper that
came back with EINTR (Python itself makes such a call again, so that only raw ones are
counted); "gaps", a line "END LENGTH" for each gap of the clock.  The program ends with
status 0 when FOLDER has a file "stop", or after SECONDS.
"""
import asyncio
import ctypes
import errno
import hashlib
import math
import mmap
import multiprocessing
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib

KIND, FOLDER, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
END = time.monotonic() + SECONDS
GAP = 0.002           # seconds; shorter ones are of no interest
SHORT = 0.0005        # a clock may be so much coarser than the timers
PATIENCE = 20.0       # for what must come, on a machine that others use too
libc = ctypes.CDLL(None, use_errno=True)
lock = threading.Lock()


def note(name, text):
    with lock, open(os.path.join(FOLDER, name), "a") as f:
        f.write(text + "\n")


def broken(text):
    note("broken", "%s: %s" % (KIND, text))


def over():
    return time.monotonic() > END or os.path.exists(os.path.join(FOLDER, "stop"))


def write_number(name, number):
    path = os.path.join(FOLDER, name)
    with open(path + ".new", "w") as f:
        f.write("%d\n" % number)
    os.rename(path + ".new", path)


# --- what is looked at after every round ---

def descriptors():
    found = []
    with lock:      # no note is being written
        for fd in os.listdir("/proc/self/fd"):
            try:
                found.append((int(fd), os.readlink("/proc/self/fd/" + fd)))
            except OSError:
                pass          # the one that listed them
    return sorted(found)


def signals():
    """Masks, without the two signals that the C library uses when it likes."""
    with open("/proc/self/status") as f:
        words = [line.split() for line in f if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    return [(name, int(value, 16) & ~(3 << 31)) for name, value in words]


def sum_of_roots(n):
    total = 0.0
    for i in range(1, n):
        total += math.sqrt(i) * 1.5
    return total


RIGHT_SUM = sum_of_roots(500)


def check_sum():
    """Vector registers must survive whatever is done to the thread."""
    total = sum_of_roots(500)
    if total != RIGHT_SUM:
        broken("a sum is %r, not %r" % (total, RIGHT_SUM))


def check_no_child():
    try:
        broken("a strange child: %r" % (os.waitpid(-1, os.WNOHANG),))
    except ChildProcessError:
        pass


# --- sleep ---

class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]

    @classmethod
    def of(cls, seconds):
        return cls(int(seconds), int(seconds % 1 * 1e9))


class RawCalls:
    """Calls that end after a time, made without Python's own retries."""

    def __init__(self):
        self.epoll = select.epoll()
        self.semaphore = ctypes.create_string_buffer(64)
        libc.sem_init(self.semaphore, 0, 0)
        self.sockets = socket.socketpair()

    def nanosleep(self, seconds):
        return libc.nanosleep(ctypes.byref(Timespec.of(seconds)), None)

    def poll(self, seconds):
        return libc.poll(None, 0, int(seconds * 1000))

    def select(self, seconds):
        value = (ctypes.c_long * 2)(0, int(seconds * 1e6))
        return libc.select(0, None, None, None, value)

    def epoll_wait(self, seconds):
        room = ctypes.create_string_buffer(64)
        return libc.epoll_wait(self.epoll.fileno(), room, 1, int(seconds * 1000))

    def sem_timedwait(self, seconds):
        until = Timespec.of(time.time() + seconds)
        return libc.sem_timedwait(self.semaphore, ctypes.byref(until))

    def recv(self, seconds):
        value = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        self.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        room = ctypes.create_string_buffer(8)
        return libc.recv(self.sockets[0].fileno(), room, 8, 0)


# How each says that the time was up.
RAW = {"nanosleep": (0, 0), "poll": (0, 0), "select": (0, 0), "epoll_wait": (0, 0),
       "sem_timedwait": (-1, errno.ETIMEDOUT), "recv": (-1, errno.EAGAIN)}


def raw_sleeper(name, calls):
    call = getattr(calls, name)
    chance = random.Random(name)
    while not over():
        # Whole milliseconds, which all of them can.
        seconds = chance.randrange(1, 60) / 1000.0
        begin = time.monotonic()
        ctypes.set_errno(0)
        result = call(seconds)
        end, code = time.monotonic(), ctypes.get_errno() if result < 0 else 0
        if code == errno.EINTR:
            note("interrupted", "%.6f %.6f %s" % (begin, end, name))
        elif (result, code) != RAW[name]:
            broken("%s returned %d, %s" % (name, result, errno.errorcode.get(code, code)))
        elif end - begin < seconds - SHORT:
            broken("short: %s of %.4f s took %.4f s" % (name, seconds, end - begin))


def raw_reader(ends):
    """A read that waits for a byte, of which each must come once."""
    chance = random.Random("read")

    def write():
        for i in range(256):
            time.sleep(chance.random() * 0.02)
            os.write(ends[1], bytes([i]))

    while not over():
        writer = threading.Thread(target=write)
        writer.start()
        expected = 0
        while expected < 256:
            room = ctypes.create_string_buffer(8)
            begin = time.monotonic()
            result = libc.read(ends[0], room, 1)
            if result == 1 and room.raw[0] == expected:
                expected += 1
            elif result < 0 and ctypes.get_errno() == errno.EINTR:
                note("interrupted", "%.6f %.6f read" % (begin, time.monotonic()))
            else:
                broken("read returned %d (%r), not byte %d" % (result, room.raw, expected))
                return
        writer.join()


def python_sleeper(number, pair):
    chance = random.Random(number)
    event, guard = threading.Event(), threading.Lock()
    guard.acquire()
    calls = [
        ("time.sleep", time.sleep),
        ("select", lambda s: select.select([pair[0]], [], [], s)),
        ("Event.wait", event.wait),
        ("Lock.acquire", lambda s: guard.acquire(timeout=s)),
        ("Condition.wait", lambda s: wait_condition(s)),
    ]

    def wait_condition(seconds):
        condition = threading.Condition()
        with condition:
            condition.wait(seconds)

    while not over():
        name, call = chance.choice(calls)
        seconds = chance.random() * 0.05
        begin = time.monotonic()
        call(seconds)
        took = time.monotonic() - begin
        if took < seconds - SHORT:
            broken("short: %s of %.4f s took %.4f s" % (name, seconds, took))


def sleep_setup():
    targets = [(raw_sleeper, name, RawCalls()) for name in RAW]
    targets += [(python_sleeper, n, socket.socketpair()) for n in range(2)]
    targets.append((raw_reader, os.pipe()))
    for target, *arguments in targets:
        threading.Thread(target=target, args=arguments).start()
    sleep_setup.keep = targets      # their descriptors, to the end


def sleep_round():
    begin = time.monotonic()
    time.sleep(0.02)
    if time.monotonic() - begin < 0.02 - SHORT:
        broken("short: time.sleep in the main thread")
    check_sum()
    check_no_child()


# --- threads ---

def short_thread(results, n):
    local = threading.local()
    local.n = n
    check_sum()
    time.sleep(n % 3 / 1000.0)
    results.append(local.n)


def threads_setup():
    for _ in range(40):
        threading.Thread(target=time.sleep, args=(SECONDS + 100,), daemon=True).start()


def threads_round():
    results = []
    threads = [threading.Thread(target=short_thread, args=(results, n)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sorted(results) != list(range(20)):
        broken("threads returned %r" % (results,))
    check_no_child()


# --- forks ---

def in_child(n):
    """What a child makes of its number, some with a child of their own."""
    check_sum()
    if n % 4 == 0:
        pid = os.fork()
        if pid == 0:
            os._exit(n + 100)
        _, status = os.waitpid(pid, 0)
        if status != (n + 100) << 8:
            return 99
    if n % 3 == 0:
        time.sleep(0.05)
    return n


def storm():
    children = {}
    for n in range(8):
        pid = os.fork()
        if pid == 0:
            code = 98
            try:
                code = in_child(n)
            finally:
                os._exit(code)
        children[pid] = n
    while children:
        pid, status = os.waitpid(-1, 0)
        n = children.pop(pid, None)
        if n is None or status != n << 8:
            broken("child %d (number %s) ended with status %#x" % (pid, n, status))
    check_no_child()


def run_children():
    out = subprocess.check_output([sys.executable, "-S", "-E", "-c", "print(6 * 7)"])
    if out.strip() != b"42":
        broken("a child printed %r" % out)
    status = subprocess.call(["/bin/sh", "-c", "exit 7"])
    if status != 7:
        broken("a shell ended with %d" % status)
    pid = os.posix_spawn(sys.executable,
                         [sys.executable, "-S", "-E", "-c", "raise SystemExit(5)"], os.environ)
    _, status = os.waitpid(pid, 0)
    if status != 5 << 8:
        broken("a spawned child ended with %#x" % status)


def square(n):
    return n * n


def run_pool():
    with multiprocessing.get_context("fork").Pool(3) as pool:
        result = pool.map(square, range(50))
        pool.close()
        pool.join()
    if result != [n * n for n in range(50)]:
        broken("a pool returned %r" % (result,))


def forks_round(rounds=[0]):
    rounds[0] += 1
    storm()
    if rounds[0] % 3 == 0:
        run_children()
    if rounds[0] % 7 == 0:
        run_pool()
    check_no_child()


# --- asyncio ---

async def timer(seconds):
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await asyncio.sleep(seconds)
    # The loop itself counts in milliseconds.
    if loop.time() - begin < seconds - 0.0015:
        broken("short: asyncio.sleep of %.4f s took %.4f s" % (seconds, loop.time() - begin))


async def echo(reader, writer):
    while True:
        data = await reader.read(4096)
        if not data:
            break
        writer.write(data)
        await writer.drain()
    writer.close()


async def talk(path):
    reader, writer = await asyncio.open_unix_connection(path)
    sent, got = hashlib.sha256(), hashlib.sha256()
    for _ in range(20):
        data = os.urandom(2000)
        sent.update(data)
        writer.write(data)
        got.update(await reader.readexactly(len(data)))
    if sent.digest() != got.digest():
        broken("a stream returned something else")
    writer.close()


async def asyncio_rounds(beat):
    # Short: a socket's path has little room.
    path = os.path.relpath(os.path.join(FOLDER, "echo"))
    server = await asyncio.start_unix_server(echo, path)
    loop = asyncio.get_running_loop()
    while not over():
        works = [timer(n / 500.0) for n in range(1, 10)] + [talk(path) for _ in range(3)]
        works.append(loop.run_in_executor(None, check_sum))
        await asyncio.wait_for(asyncio.gather(*works), PATIENCE)
        child = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", "echo asked; exit 3", stdout=subprocess.PIPE)
        out, _ = await asyncio.wait_for(child.communicate(), PATIENCE)
        if (out, child.returncode) != (b"asked\n", 3):
            broken("a child printed %r and ended with %r" % (out, child.returncode))
        beat()
    server.close()
    await server.wait_closed()


# --- memory ---

class Patterns:
    def __init__(self):
        self.chance = random.Random(1)
        self.blocks = [self.block() for _ in range(64)]
        self.file = open(os.path.join(FOLDER, "data"), "w+b", buffering=0)
        self.pipe = os.pipe()
        self.sent = self.received = 0
        self.ticks = 0

    def block(self):
        data = bytearray(self.chance.getrandbits(8) for _ in range(512)) * 64
        return data, zlib.crc32(data)

    def on_signal(self, number, frame):
        self.ticks += 1
        check_sum()

    def check(self):
        for data, crc in self.blocks:
            if zlib.crc32(data) != crc:
                broken("a block of memory has changed")
        for i in range(4):
            self.blocks[self.chance.randrange(64)] = self.block()

    def check_mapping(self):
        area = mmap.mmap(-1, 6 << 20)
        area[:] = b"\xa5" * (6 << 20)
        if zlib.crc32(area) != zlib.crc32(b"\xa5" * (6 << 20)):
            broken("a mapping has changed")
        area.close()

    def check_file(self):
        data = os.urandom(8192)
        self.file.seek(0)
        self.file.write(data)
        self.file.seek(0)
        if self.file.read(8192) != data:
            broken("a file has something else in it")

    def check_pipe(self):
        for _ in range(50):
            os.write(self.pipe[1], struct.pack("q", self.sent))
            self.sent += 1
        for _ in range(50):
            number, = struct.unpack("q", os.read(self.pipe[0], 8))
            if number != self.received:
                broken("a pipe gave %d, not %d" % (number, self.received))
            self.received = number + 1


def down(n):
    return down(n - 1) + 1 if n else 0


def memory_setup():
    memory_setup.patterns = Patterns()
    signal.signal(signal.SIGALRM, memory_setup.patterns.on_signal)
    signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
    memory_round()


def memory_round():
    p = memory_setup.patterns
    p.check()
    p.check_mapping()
    p.check_file()
    p.check_pipe()
    if down(300) != 300 or sum(x * x for x in range(100)) != 328350:
        broken("a result is wrong")
    before, end = p.ticks, time.monotonic() + PATIENCE
    while p.ticks == before and time.monotonic() < end:
        check_sum()
    if p.ticks == before:
        broken("the interval timer stands still")


# --- clock ---

def clock_round():
    end = time.perf_counter() + 0.2
    last = time.perf_counter()
    while last < end:
        now = time.perf_counter()
        if now - last > GAP:
            note("gaps", "%.6f %.6f" % (time.monotonic(), now - last))
            now = time.perf_counter()
        last = now


# --- rounds ---

KINDS = {  # what is done first, what in each round
    "sleep": (sleep_setup, sleep_round),
    "threads": (threads_setup, threads_round),
    "forks": (lambda: None, forks_round),
    "memory": (memory_setup, memory_round),
    "clock": (lambda: None, clock_round),
}


class Beat:
    def __init__(self):
        self.number = 0
        self.before = signals(), descriptors()

    def __call__(self):
        self.number += 1
        write_number("beat", self.number)
        now = signals(), descriptors()
        # An event loop has descriptors that come and go.
        if now != self.before and KIND != "asyncio":
            broken("not as before: %r, now %r" % (self.before, now))
            self.before = now


def main():
    write_number("pid", os.getpid())
    if KIND == "asyncio":
        asyncio.run(asyncio_rounds(Beat()))
    else:
        setup, make_round = KINDS[KIND]
        setup()
        beat = Beat()
        while not over():
            make_round()
            beat()
    if KIND == "memory":
        signal.setitimer(signal.ITIMER_REAL, 0)
    with open(os.path.join(FOLDER, "done"), "w"):
        pass


if __name__ == "__main__":
    main()
