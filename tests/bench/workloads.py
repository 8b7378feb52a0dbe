# SPDX-License-Identifier: Apache-2.0
"""Programs to be profiled, each with a fixed amount of work and an account of its own.

usage: workloads.py NAME SECONDS [--limit SECONDS] [--channel FOLDER]

SECONDS is nominal: it fixes how much is done, not how long that takes.  The result is
one JSON object: the time the work took (start-up is not in it), the CPU time, how much
of the work was done (less than 1 where --limit stopped it), what memory the process had
at the end, and the time spent in each function that is to be found again in a profile,
with what that may be off by (of "oracle", which function calls which).  Without
--channel it is printed.  With it, FOLDER has two FIFOs: the program writes a line to
`up` when it is ready, begins at a byte from `down`, writes the result to `up`, and ends
at a second byte.

The account is kept where the functions are called, by a clock: of the wall for one
busy thread, of the thread's CPU for several threads or processes.  What lies between
the function and the readings of the clock is measured and taken back to where it
belongs, (rest).  Everything a function makes it also frees before it returns: what the
return frees falls to the caller, for every profiler.
"""
import collections
import json
import os
import queue
import sys
import threading
import time
import traceback

# A sampler that lives in this process says here which of its tasks are its own, and
# what is to be done in a child of the pool before it ends.
sampler_tasks = []
at_child_end = []

WAITING = 200
CROWD = 1000
CROWD_BUSY = 4
CROWD_ROUNDS_A_JOB = 3
DEPTH = 400
DESCENTS = 20
NAP_SECONDS = 0.02
POOL_AT_ONCE = 2
PROBES = 300
TREE_DEPTH = 6
TREE_WAYS = 3

# Rounds in a second of an ordinary machine.
ROUNDS = 1000
NAPS = 45
TURNS = 300
POOLS = 2.5
TREES = 60000

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


# Two short calls of each in a round rather than a long one, as programs have them.
MIX = tuple(one for one in (
    (arithmetic, 4500), (objects, 1250), (texts, 550), (callers, 1300),
    (generator, 1100), (recursion, 11)) for _ in (1, 2))

# The same for the CPU clock.  It is a system call, and on a machine whose CPUs are all
# taken a thread is often made to wait at the end of one, and seen there by those that
# have waited: few of them, or the account disturbs what it is for.
LONG = 4
LONG_MIX = ((arithmetic, 36000), (objects, 10000), (texts, 4400), (callers, 10400),
            (generator, 8800), (recursion, 15))

# In turn, on a thread each: of some 2, 1 and 0.5 ms.
TURN_MIX = ((arithmetic, 30000), (objects, 8000), (texts, 3000))

# A process for each, with its number of calls: they live for some 10 to 100 ms.  As
# always more of them want a CPU than there are, few readings again.
POOL_MIX = ((arithmetic, 144000, 15), (objects, 40000, 16), (texts, 17600, 12),
            (callers, 41600, 9), (generator, 35200, 12), (recursion, 18, 20))


def middle(values):
    return sorted(values)[len(values) // 2]


def probe(clock, function, n):
    first = clock()
    function(n)
    return first, clock()


def cost_of(clock):
    """Seconds of a caller that its account gives to the function it calls: from its
    reading of the clock to the call, and from the return to the next reading, as cold
    as they are after work."""
    between, around = [], []
    for number in range(PROBES):
        before = clock()
        between.append(clock() - before)
        function, n = MIX[number % len(MIX)]
        before = clock()
        first, last = probe(clock, function, n // 4 + 4)
        around.append(clock() - last + first - before)
    # The probe's own readings lie in between.
    return max(0.0, middle(around) - middle(between))


class Account:
    """What was spent where, by a clock."""

    def __init__(self, clock):
        self.clock = clock
        self.spent = collections.defaultdict(float)
        self.calls = collections.defaultdict(int)
        self.total = 0.0
        self.rounds = 0
        self.sampler = 0.0
        self.processes = []
        self.callers = {}

    def add(self, other):
        for name, value in other.spent.items():
            self.spent[name] += value
            self.calls[name] += other.calls[name]
        self.total += other.total
        self.rounds += other.rounds
        self.sampler += other.sampler

    def truth(self):
        """Time by function and what was spent between them; and by how much each may be
        wrong, as what lies between a function and the clock is half known."""
        cost = cost_of(self.clock) if self.calls else 0.0
        times = {name: value - self.calls[name] * cost
                 for name, value in self.spent.items()}
        unsure = {name: self.calls[name] * cost / 2 for name in times}
        times[REST] = self.total - sum(times.values())
        unsure[REST] = sum(unsure.values())
        return times, unsure


def measured(account, rounds, ends, between=None, mix=MIX):
    """The part that the account covers; a profile finds it by this name."""
    clock, spent, calls = account.clock, account.spent, account.calls
    begin = clock()
    for number in range(rounds):
        if time.perf_counter() > ends:
            break
        for function, n in mix:
            before = clock()
            function(n)
            after = clock()
            spent[function.__name__] += after - before
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
            after = clock()
            spent[function.__name__] += after - before
            calls[function.__name__] += 1
        account.rounds += 1
    account.total += clock() - begin


def measured_turns(account, rounds, ends, part, batons):
    """One function, each time it is this thread's turn; then it is the next one's."""
    clock, spent, calls = account.clock, account.spent, account.calls
    function, n = TURN_MIX[part]
    mine, others = batons[part], batons[(part + 1) % len(batons)]
    begin = clock()
    for _ in range(rounds):
        mine.acquire()
        if time.perf_counter() > ends:
            others.release()
            break
        before = clock()
        function(n)
        after = clock()
        spent[function.__name__] += after - before
        calls[function.__name__] += 1
        others.release()
        account.rounds += 1
    account.total += clock() - begin


def measured_oracle(account, rounds, ends, root):
    begin = account.clock()
    while account.rounds < rounds and time.perf_counter() < ends:
        for _ in range(20):
            root(1)
        account.rounds += 20
    account.total += account.clock() - begin


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
    measured(account, rounds, ends[0], between, LONG_MIX)


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


def shallow(seconds):
    """As little of a stack as there can be."""
    rounds = int(ROUNDS * seconds)

    def run(account, ends):
        for _ in range(rounds):
            if time.perf_counter() > ends:
                break
            arithmetic(20000)
            account.rounds += 1

    return rounds, time.perf_counter, run


def twenty(seconds):
    return threads(seconds, 20)


def threads(seconds, count=8):
    rounds = max(1, int(ROUNDS * seconds / count / LONG))
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

    rounds = max(1, int(ROUNDS * seconds / CROWD_BUSY / LONG))
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


def take_turns(go, part, account, rounds, ends, batons):
    go.wait()
    measured_turns(account, rounds, ends[0], part, batons)


def turns(seconds):
    """Threads of which one runs at a time, as the one before lets it."""
    rounds = max(1, int(TURNS * seconds))
    go, ends = threading.Event(), [0.0]
    batons = [threading.Semaphore(int(i == 0)) for i in range(len(TURN_MIX))]
    accounts = [Account(time.thread_time) for _ in TURN_MIX]
    started = []
    for part, own in enumerate(accounts):
        started += start_threads(1, take_turns, go, part, own, rounds, ends, batons)

    def run(account, until):
        ends[0] = until
        go.set()
        for t in started:
            t.join()
        for own in accounts:
            account.add(own)

    return rounds * len(TURN_MIX), time.thread_time, run


def in_child(function, n, rounds, ends, pipe):
    """A process of the pool: does its work, sends its account and is gone."""
    account = Account(time.thread_time)
    measured(account, rounds, ends, mix=((function, n),))
    before = time.process_time()
    for end_sampler in at_child_end:
        end_sampler()
    sampler = time.process_time() - before
    if sampler_tasks:
        others = set(os.listdir("/proc/self/task")) - {str(os.getpid())}
        sampler += sum(seconds_of_task(task) for task in others)
    os.write(pipe, json.dumps([account.spent, account.calls, account.total,
                               account.rounds, sampler]).encode())


def start_child(function, n, rounds, ends):
    """The process and what its account comes out of."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid != 0:
        os.close(write_end)
        return pid, read_end
    try:
        in_child(function, n, rounds, ends, write_end)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def end_child(account, children):
    """Wait for any, and take over its account."""
    pid, _ = os.wait()
    pipe = children.pop(pid)
    text = os.read(pipe, 65536)
    os.close(pipe)
    own = Account(account.clock)
    if text:
        (own.spent, own.calls, own.total, own.rounds,
         own.sampler) = json.loads(text)
    account.add(own)


def pool(seconds):
    """Processes that live for a moment, two at a time, each with work of its own."""
    sets = max(1, int(POOLS * seconds))

    def run(account, ends):
        children = {}
        for function, n, rounds in POOL_MIX * sets:
            pid, pipe = start_child(function, n, rounds, ends)
            children[pid] = pipe
            account.processes.append(pid)
            if len(children) == POOL_AT_ONCE:
                end_child(account, children)
        while children:
            end_child(account, children)

    return sets * sum(rounds for _, _, rounds in POOL_MIX), time.thread_time, run


def grow_tree(lines, callers, name, depth):
    """Write a function with all it calls, each of which has no other caller."""
    below = ["%s%d" % (name, way) for way in range(TREE_WAYS)] if depth > 1 else []
    for child in below:
        callers[child] = name
        grow_tree(lines, callers, child, depth - 1)
    lines.append("def %s(a):" % name)
    lines += ["    a = %s(a)" % child for child in below]
    lines.append("    return a + 1")


def oracle(seconds):
    """A call or a return every 50 ns or so, where stacks that mix two moments show."""
    lines, callers = [], {"t": "measured_oracle"}
    grow_tree(lines, callers, "t", TREE_DEPTH)
    made = {}
    exec(compile("\n".join(lines), os.path.abspath(__file__), "exec"), made)
    rounds = max(20, int(TREES * seconds) // 20 * 20)

    def run(account, ends):
        account.callers = callers
        measured_oracle(account, rounds, ends, made["t"])

    return rounds, time.perf_counter, run


PROGRAMS = {p.__name__: p for p in (
    busy, shallow, threads, twenty, turns, waiting, crowd, deep, idle, pool, oracle)}


# --- running one ---

def memory():
    """Resident KiB by kind."""
    sizes = {}
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(("VmRSS:", "RssAnon:", "RssFile:", "RssShmem:")):
                sizes[line.split(":")[0]] = int(line.split()[1])
    return sizes


def seconds_of_task(task):
    with open("/proc/self/task/%s/schedstat" % task) as f:
        return int(f.read().split()[0]) / 1e9


def processor_seconds():
    """Of this process and the children it has waited for; and of a sampler in it."""
    times = os.times()
    sampler = sum(seconds_of_task(task) for task in sampler_tasks)
    children = times.children_user + times.children_system
    return time.process_time() + children - sampler, sampler


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
        sys.exit("usage: workloads.py NAME SECONDS [--limit SECONDS] "
                 "[--channel FOLDER]\nnames: " + " ".join(PROGRAMS))
    channel = Channel(options["--channel"])
    rounds, clock, run = PROGRAMS[arguments[0]](float(arguments[1]))
    account = Account(clock)
    channel.say({"ready": os.getpid()})
    channel.wait()

    before, begin = processor_seconds(), time.perf_counter()
    run(account, begin + float(options["--limit"]))
    elapsed, after = time.perf_counter() - begin, processor_seconds()

    truth, unsure = account.truth()
    result = {"elapsed": elapsed, "cpu": after[0] - before[0] - account.sampler,
              "sampler_cpu": after[1] - before[1] + account.sampler,
              "done": account.rounds / rounds, "memory": memory(), "truth": truth,
              "unsure": unsure,
              "processes": account.processes, "callers": account.callers}
    channel.say(result)
    channel.wait()
    if channel.up is None:
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
