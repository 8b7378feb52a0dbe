# SPDX-License-Identifier: Apache-2.0
"""Programs to be profiled, each with a fixed amount of work and an account of its own.

usage: workloads.py NAME SECONDS [--limit SECONDS] [--channel FOLDER]

SECONDS is nominal: it fixes how much is done, not how long that takes.  The result is
one JSON object: the time the work took (start-up is not in it), the CPU time, how much
of the work was done (less than 1 where --limit stopped it), what memory the process had
at the end, and the time spent in each function that is to be found again in a profile.
Without --channel it is printed.  With it, FOLDER has two FIFOs: the program writes a
line to `up` when it is ready, begins at a byte from `down`, writes the result to `up`,
and ends at a second byte.

The account is kept where the functions are called, by a clock: of the wall for one
busy thread, of the thread's CPU for several.  What the clock itself costs between two
readings is measured and taken back to where it belongs, (rest): reading the CPU of a
thread is a system call, and 24 of them a ms are 0.7 % of the time.  Everything a
function makes it also frees before it returns: what the return frees falls to the
caller, for every profiler.
"""
import collections
import json
import os
import queue
import sys
import threading
import time

WAITING = 200
CROWD = 1000
CROWD_BUSY = 4
CROWD_ROUNDS_A_JOB = 10
DEPTH = 400
DESCENTS = 20
NAP_SECONDS = 0.02

# Rounds in a second of an ordinary machine.
ROUNDS = 1000
NAPS = 45

REST = "(rest)"


# --- what is to be found again: functions of some 20 to 400 us ---

def arithmetic(n):
    x = 1
    for i in range(n):
        x = (x * 3 + i) & 0xffff
    return x


def objects(n):
    made = []
    for i in range(n):
        made.append((i, [i]))
    size = len(made)
    del made
    return size


def texts(n):
    text = ""
    for i in range(n):
        text = "%s-%d" % (text[-8:], i)
    return len(text)


def step(x, i):
    return (x + i) & 0xffff


def callers(n):
    x = 1
    for i in range(n):
        x = step(x, i)
    return x


def numbers(n):
    for i in range(n):
        yield i


def generator(n):
    x = 0
    for i in numbers(n):
        x += i
    return x


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def recursion(n):
    return fibonacci(n)


def job(n):
    return arithmetic(n)


MIX = ((arithmetic, 9000), (objects, 2500), (texts, 1100), (callers, 2600),
       (generator, 2200), (recursion, 11))


def cost_of(clock):
    """Seconds between two readings with nothing in between, as measured() reads it."""
    between = []
    for _ in range(501):
        before = clock()
        between.append(clock() - before)
    return sorted(between)[250]


class Account:
    """What was spent where, by a clock."""

    def __init__(self, clock):
        self.clock = clock
        self.spent = collections.defaultdict(float)
        self.calls = collections.defaultdict(int)
        self.total = 0.0
        self.rounds = 0

    def add(self, other):
        for name, value in other.spent.items():
            self.spent[name] += value
            self.calls[name] += other.calls[name]
        self.total += other.total
        self.rounds += other.rounds

    def truth(self):
        """Time by function, and what was spent between them."""
        cost = cost_of(self.clock)
        times = {name: value - self.calls[name] * cost
                 for name, value in self.spent.items()}
        times[REST] = self.total - sum(times.values())
        return times


def measured(account, rounds, ends, between=None):
    """The part that the account covers; a profile finds it by this name."""
    clock, spent, calls = account.clock, account.spent, account.calls
    begin = clock()
    for number in range(rounds):
        if time.perf_counter() > ends:
            break
        for function, n in MIX:
            # Two short calls rather than a long one, as programs have them.
            for _ in (1, 2):
                before = clock()
                function(n // 2 if function is not recursion else n)
                spent[function.__name__] += clock() - before
                calls[function.__name__] += 1
        account.rounds += 1
        if between is not None:
            between(number)
    account.total += clock() - begin


def nap():
    time.sleep(NAP_SECONDS)


def act():
    return arithmetic(9000)


def measured_idle(account, rounds, ends):
    clock, spent, calls = account.clock, account.spent, account.calls
    begin = clock()
    for _ in range(rounds):
        if time.perf_counter() > ends:
            break
        for function in (nap, act):
            before = clock()
            function()
            spent[function.__name__] += clock() - before
            calls[function.__name__] += 1
        account.rounds += 1
    account.total += clock() - begin


# --- threads ---

def start_threads(count, function, *args):
    """One after another, each seen to run: a thousand let go at once fight for the GIL
    for seconds, or do not, as luck has it."""
    started = []
    for _ in range(count):
        up = threading.Event()
        t = threading.Thread(target=run_thread, args=(up, function) + args, daemon=True)
        t.start()
        up.wait()
        started.append(t)
    return started


def run_thread(up, function, *args):
    up.set()
    function(*args)


def wait_for(event):
    event.wait()


def serve(jobs):
    while True:
        n = jobs.get()
        job(n)
        jobs.task_done()


def worker(go, account, rounds, ends, between=None):
    go.wait()
    measured(account, rounds, ends[0], between)


class Workers:
    """Threads that wait for a word, then do their share each."""

    def __init__(self, count, rounds, between=None):
        self.go = threading.Event()
        self.ends = [0.0]
        self.accounts = [Account(time.thread_time) for _ in range(count)]
        self.threads = []
        for account in self.accounts:
            self.threads += start_threads(1, worker, self.go, account, rounds,
                                          self.ends, between)

    def run(self, account, ends):
        self.ends[0] = ends
        self.go.set()
        for t in self.threads:
            t.join()
        for one in self.accounts:
            account.add(one)


# --- the programs: each takes the nominal seconds and returns the number of rounds,
# --- the clock of its account, and what does the work ---

def busy(seconds):
    rounds = int(ROUNDS * seconds)
    return rounds, time.perf_counter, lambda account, ends: measured(
        account, rounds, ends)


def threads(seconds):
    count = 8
    rounds = max(1, int(ROUNDS * seconds / count))
    workers = Workers(count, rounds)
    return rounds * count, time.thread_time, workers.run


def waiting(seconds):
    start_threads(WAITING, wait_for, threading.Event())
    return busy(seconds)


def crowd(seconds):
    jobs = queue.Queue()
    start_threads(CROWD - CROWD_BUSY, serve, jobs)

    def hand_out(number):
        if number % CROWD_ROUNDS_A_JOB == 0:
            jobs.put(900)

    rounds = max(1, int(ROUNDS * seconds / CROWD_BUSY))
    workers = Workers(CROWD_BUSY, rounds, hand_out)

    def run(account, ends):
        workers.run(account, ends)
        jobs.join()

    return rounds * CROWD_BUSY, time.thread_time, run


def descend(depth, function, *args):
    if depth > 1:
        return descend(depth - 1, function, *args)
    return function(*args)


def deep(seconds):
    each = max(1, int(ROUNDS * seconds / DESCENTS))

    def run(account, ends):
        for _ in range(DESCENTS):
            descend(DEPTH, measured, account, each, ends)

    return each * DESCENTS, time.perf_counter, run


def idle(seconds):
    rounds = max(1, int(NAPS * seconds))
    return rounds, time.perf_counter, lambda account, ends: measured_idle(
        account, rounds, ends)


PROGRAMS = {p.__name__: p for p in (busy, threads, waiting, crowd, deep, idle)}


# --- running one ---

def memory():
    """Resident KiB by kind."""
    sizes = {}
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(("VmRSS:", "RssAnon:", "RssFile:", "RssShmem:")):
                sizes[line.split(":")[0]] = int(line.split()[1])
    return sizes


class Channel:
    def __init__(self, folder):
        self.up = self.down = None
        if folder is not None:
            self.up = os.open(os.path.join(folder, "up"), os.O_WRONLY)
            self.down = os.open(os.path.join(folder, "down"), os.O_RDONLY)

    def say(self, what):
        if self.up is not None:
            os.write(self.up, (json.dumps(what) + "\n").encode())

    def wait(self):
        if self.down is not None:
            os.read(self.down, 1)


def main(arguments):
    options = {"--limit": "1e9", "--channel": None}
    while len(arguments) > 2 and arguments[-2] in options:
        options[arguments[-2]] = arguments[-1]
        arguments = arguments[:-2]
    if len(arguments) != 2 or arguments[0] not in PROGRAMS:
        sys.exit("usage: workloads.py %s SECONDS [--limit SECONDS] [--channel FOLDER]"
                 % "|".join(PROGRAMS))
    channel = Channel(options["--channel"])
    rounds, clock, run = PROGRAMS[arguments[0]](float(arguments[1]))
    account = Account(clock)
    channel.say({"ready": os.getpid()})
    channel.wait()

    cpu, begin = time.process_time(), time.perf_counter()
    run(account, begin + float(options["--limit"]))
    elapsed, cpu = time.perf_counter() - begin, time.process_time() - cpu

    result = {"elapsed": elapsed, "cpu": cpu, "done": account.rounds / rounds,
              "memory": memory(), "truth": account.truth()}
    channel.say(result)
    channel.wait()
    if channel.up is None:
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
