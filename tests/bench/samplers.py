# SPDX-License-Identifier: Apache-2.0
"""pystack and its peers: how each is started, and what its profile says.

A sampler has a name, the rates it can be asked for, and a Python of its own or None for
that of the bench.  argv() is the command that runs the program under it.  account()
adds to a run what is known after its end: got_hz, sample_bytes, approximate_pct, and by
judge.py the errors.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import time

import judge
import pprof
import pythons
from processes import Failed, cpu_of, parent_of

EVENTS = {  # what stands against the account of each workload
    "busy": "wall", "shallow": "wall", "threads": "cpu", "twenty": "cpu",
    "turns": "cpu", "waiting": "wall", "crowd": "cpu", "deep": "wall", "idle": "wall",
    "pool": "cpu", "oracle": "wall",
}
RATES = ("100", "1000", "10000", "max")
TASK_SECONDS = 10


class Job:
    """A run to be made: what argv() and account() are told."""

    def __init__(self, workload, rate, python, folder, program):
        self.workload, self.rate, self.python = workload, rate, python
        self.event = EVENTS[workload]
        self.folder, self.program = folder, program
        self.output = os.path.join(folder, "profile")

    def outputs(self):
        return sorted(glob.glob(glob.escape(self.output) + "*"))

    def command(self, *more):
        """Of the program, options for Python in between."""
        return self.python.argv + list(more) + self.program


def running_seconds(run, job):
    """How long one thread ran, of those of the account."""
    return run["cpu"] if job.event == "cpu" else run["elapsed"]


def run_command(argv, **environment):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=dict(os.environ, **environment))
    if done.returncode != 0:
        raise Failed(done.stderr.decode(errors="replace").strip()[-80:])
    return done.stdout.decode(errors="replace")


class Sampler:
    name = ""
    rates = RATES[:3]
    python = None
    in_program = False

    def suits(self, workload):
        return True

    def ready(self, program):
        """Called when the program waits for its start."""

    def done(self):
        """CPU seconds so far of parts that are no child of the bench."""
        return 0.0

    def version(self):
        return ""

    def cleanup(self, run):
        """What the sampler leaves elsewhere."""


class Pystack(Sampler):
    name = "pystack"
    rates = RATES
    options = ()

    def __init__(self, path, python=None):
        self.path, self.python = path, python
        self.task = None

    def argv(self, job):
        return [self.path, "record", "-q", "-F", job.rate, "--no-adaptive",
                *self.options, "-o", job.output, "--"] + job.command()

    def version(self):
        return re.search(r"[0-9][^ ,]*", pythons.output_of(self.path, "--version"))

    def ready(self, program):
        end = time.monotonic() + TASK_SECONDS
        while True:
            self.task = self.find(program)
            if self.task is not None:
                return
            if time.monotonic() > end:
                raise Failed("no sampler came within %d s" % TASK_SECONDS)
            time.sleep(0.01)

    def done(self):
        return cpu_of(self.task)

    def event(self, job):
        return job.event

    def looks(self, total):
        """Random samples of a thread that runs all the time; total: counter by name."""
        return total("ticks")

    def processes(self, job):
        """The sampler's own counters by process, and those of the whole."""
        text = run_command([self.path, "report", "--stats", "-i", job.output])
        found, current = {}, {}
        for line in text.splitlines():
            header = re.match(r"# process (\d+)", line)
            value = re.match(r" *([0-9.]+)  (.*?)(?: \(ns\))?$", line)
            if header:
                current = found.setdefault(int(header.group(1)), {})
            elif value:
                current[value.group(2)] = float(value.group(1))
        return found, current

    def stacks(self, job):
        text = run_command([self.path, "script", "--format", "collapsed", "-e",
                            self.event(job), "-i", job.output])
        return judge.collapsed(text, judge.name_of)

    def account(self, run, job, child, lived):
        counters, last = self.processes(job)

        def total(name):
            return sum(one.get(name, 0) for one in counters.values())

        if total("samples") == 0:
            raise Failed("no samples: " + child.last_words())
        ticks, missed = total("ticks"), total("missed")
        seconds = sum((one["ticks"] + one["missed"]) * one["stratum"] / 1e9
                      for one in counters.values() if one.get("ticks"))
        if job.rate == "max":
            # Periods have no length; one thread's samples weigh the time between them.
            seconds = (last["wall of all threads, s"]
                       if job.workload in ("busy", "shallow", "deep") else lived)
        others = sum(one.get("sampler-cpu", 0) for pid, one in counters.items()
                     if pid != run["pid"])
        run["ends_cpu"] += (counters[run["pid"]].get("sampler-cpu", 0) / 1e9
                            + run["recorder_cpu"] - run["profiler_cpu"])
        run["profiler_cpu"] += others / 1e9
        run.update(
            got_hz=self.looks(total) / seconds,
            approximate_pct=100 * total("approximate") / total("samples"),
            late_pct=100 * total("late") / max(1, ticks),
            missed_pct=100 * missed / max(1, ticks + missed),
            lost=total("lost") + total("lost-threads"),
            sample_bytes=os.path.getsize(job.output) / total("samples"),
            counters=counters)
        shares = judge.shares_of(self.stacks(job), run["truth"])
        # One running thread a tick, as one of them holds the lock.
        run.update(judge.errors(run, shares,
                                run["got_hz"] * sum(shares.values()) / 1e6))
        if run["callers"]:
            text = run_command([self.path, "script", "-i", job.output])
            run["impossible"] = judge.impossible(certain_samples(text), run["callers"])


    @staticmethod
    def find(program):
        return find_task(program)


class PystackThread(Pystack):
    """The same as a thread of the program."""
    rates = RATES[:3]

    def __init__(self, path, name, *options):
        super().__init__(path)
        self.name = name
        self.options = ("--isolation=thread",) + options

    @staticmethod
    def find(program):
        for path in glob.glob("/proc/%d/task/*/comm" % program):
            with open(path) as f:
                if f.read() == "pystack\n":
                    return os.path.dirname(path)
        return None

    def done(self):
        with open(self.task + "/schedstat") as f:
            return int(f.read().split()[0]) / 1e9


class PystackTimers(PystackThread):
    """And by the CPU timers of the program's threads, which its thread reads out."""

    def event(self, job):
        return "cpu-timer"

    def looks(self, total):
        return total("timer-samples")

    def suits(self, workload):
        # A timer of a thread that lives for 10 ms does not expire.
        return workload not in ("pool", "idle")


def as_threads(path):
    return [PystackThread(path, "thread, syscall", "--copy=syscall"),
            PystackThread(path, "thread, fast", "--copy=fast", "--warmup=0s"),
            PystackTimers(path, "thread, cpu-timer", "-e", "cpu-timer")]


def find_task(program):
    """A process of this name beside the program, in its memory."""
    # Started with the program it has the same parent; attached, it is its child.
    parents = (program, parent_of(program))
    memory = os.stat("/proc/%d/exe" % program)
    for path in glob.glob("/proc/[0-9]*"):
        pid = int(os.path.basename(path))
        try:
            with open(path + "/comm") as f:
                if f.read() != "pystack\n" or parent_of(pid) not in parents:
                    continue
            if os.path.samestat(os.stat(path + "/exe"), memory):
                return pid
        except OSError:
            continue  # it has ended
    return None


def certain_samples(text):
    """(names root first, ticks) of what `pystack script` does not call approximate."""
    for one in text.split("\n\n"):
        lines = one.strip("\n").split("\n")
        found = re.search(r":\s+(\d+) ticks?\s.*$", lines[0])
        if found and "approximate" not in found.group().split():
            yield ([judge.name_of(line.strip()) for line in reversed(lines[1:])],
                   int(found.group(1)))


class Peer(Sampler):
    def __init__(self, path, python=None):
        self.path, self.python = path, python

    def version(self):
        return re.search(r"[0-9][^ ,]*", pythons.output_of(self.path, "--version"))


class PySpy(Peer):
    def __init__(self, path, *more):
        super().__init__(path)
        self.more = list(more)
        self.name = "py-spy" + ("-nb" if more else "")

    def argv(self, job):
        # Without --idle a sleeping thread is not in its output.
        more = self.more + (["--idle"] if job.workload == "idle" else [])
        more += ["--subprocesses"] if job.workload == "pool" else []
        return [self.path, "record", "-t", "-f", "raw", "-r", job.rate, "-o",
                job.output] + more + ["--"] + job.command()

    def account(self, run, job, child, lived):
        with open(job.output, errors="replace") as f:
            stacks = list(judge.collapsed(f.read(), lambda frame: frame.split(" (")[0]
                                          if not frame.startswith("thread") else frame))
        found = re.search(r"Samples: (\d+) Errors: (\d+)", child.text("err"))
        errors = int(found.group(2)) if found else 0
        peer_account(run, job, [(n, w, w) for n, w in stacks], errors)


class Austin(Peer):
    name = "austin"

    def argv(self, job):
        # -t: without it, it gives up on a program that is slow to start; -s leaves out
        # threads that wait, -C takes children along.
        interval = "%dus" % (1000000 // int(job.rate))
        more = ["-s"] if job.event == "cpu" else []
        more += ["-C"] if job.workload == "pool" else []
        return [self.path, "-t", "10s", "-i", interval, "-o", job.output] + \
            more + job.command()

    def account(self, run, job, child, lived):
        with open(job.output, errors="replace") as f:
            stacks = list(judge.collapsed(f.read(), lambda frame: frame.split(":")[-2]
                                          if frame.count(":") > 1 else frame))
        # Its weights are microseconds; each line is a sample.
        found = re.search(r"Error rate.*?(\d+)/(\d+)", child.text("err"))
        errors = int(found.group(1)) if found else 0
        peer_account(run, job, [(n, w, 1) for n, w in stacks], errors)


class DDTrace(Sampler):
    """Its stack engine alone, in the program: with-ddtrace.py."""
    name = "ddtrace"
    in_program = True

    def __init__(self, folder, script):
        self.folder, self.script = folder, script

    def version(self):
        return re.search(r"[0-9][^ ]*$", pythons.PINNED["ddtrace"][0].split("==")[1])

    def argv(self, job):
        return [self.folder.bin("python"), self.script, job.rate, job.output] + \
            job.program

    def account(self, run, job, child, lived):
        with open(job.output + ".cost") as f:
            cost = json.load(f)
        run["profiler_cpu"] = run["sampler_cpu"]
        run["ends_cpu"] = cost["start"] + cost["end"]
        stacks = []
        for path in job.outputs():
            if path.endswith(".pprof"):
                data = subprocess.run([self.folder.bin("python"), "-c", UNPACK, path],
                                      stdout=subprocess.PIPE, check=True).stdout
                stacks += [([str(thread)] + names, values, thread)
                           for names, values, thread in pprof.read(data)]
        kind = "cpu-time" if job.event == "cpu" else "wall-time"
        # Waiting threads are sampled too, with no CPU; they do not count.
        busy = [(names, values[kind],
                 values["cpu-samples" if kind == "cpu-time" else "wall-samples"])
                for names, values, _ in stacks]
        peer_account(run, job, busy, 0, sum(v["wall-samples"] for _, v, _ in stacks),
                     [p for p in job.outputs() if p.endswith(".pprof")],
                     all_threads=True)


UNPACK = """\
import sys, zstandard
with open(sys.argv[1], "rb") as f:
    sys.stdout.buffer.write(zstandard.ZstdDecompressor().stream_reader(f).read())
"""


class Tachyon(Peer):
    """profiling.sampling of CPython 3.15."""
    name = "tachyon"

    def version(self):
        return re.search(r".*", self.python.text)

    def argv(self, job):
        more = ["--subprocesses"] if job.workload == "pool" else []
        return self.python.argv + [
            "-m", "profiling.sampling", "run", "-r", job.rate, "-a", "--mode",
            job.event, "--collapsed", "-o", self.python.inside(job.output)
        ] + more + job.program

    def account(self, run, job, child, lived):
        stacks = []
        for path in job.outputs():
            with open(path, errors="replace") as f:
                stacks += judge.collapsed(f.read(), lambda frame: frame.split(":")[-2]
                                          if frame.count(":") > 1 else frame)
        found = re.search(r"Error rate: ([0-9.]+)", child.text("out"))
        peer_account(run, job, [(n, w, w) for n, w in stacks], 0)
        run["approximate_pct"] = float(found.group(1)) if found else None


class Perf(Peer):
    """perf record: by frame pointers and the trampoline of CPython 3.12, where Python
    is built with them; else by DWARF and what 3.13 writes for it, for perf inject."""
    name = "perf"

    def suits(self, workload):
        """It has no samples of what sleeps."""
        return workload != "idle"

    def argv(self, job):
        how, option = (("fp", "perf") if self.python.frame_pointers else
                       ("dwarf", "perf_jit"))
        return [self.path, "record", "-q", "-k", "1", "-F", job.rate, "-e", "cpu-clock",
                "--call-graph", how, "-o", job.output, "--"] + job.command("-X", option)

    @staticmethod
    def made(run, name):
        """What Python writes for perf, of the program and its children."""
        return ["/tmp/perf-%d.map" % pid if name == "map" else "/tmp/jit-%d.dump" % pid
                for pid in [run["pid"]] + run["processes"]]

    def account(self, run, job, child, lived):
        read = job.output
        if self.python.frame_pointers:
            for path in self.made(run, "map"):
                # perf looks for it in its own root.
                if self.python.root and os.path.exists(self.python.root + path):
                    shutil.copy(self.python.root + path, path)
        else:
            read = os.path.join(job.folder, "injected")
            run_command([self.path, "inject", "-i", job.output, "--jit", "-o", read],
                        HOME=job.folder)
        text = run_command([self.path, "script", "-i", read, "--no-inline", "-F",
                            "comm,pid,tid,time,ip,sym"], HOME=job.folder)
        stacks, broken = [], 0
        for one in text.split("\n\n"):
            found = re.match(r"\n*.*?\s(\d+/\d+)\s", one)
            names = [m.group(1) for m in re.finditer(r"\spy::(.*?):", one)]
            if found and names:
                stacks.append((["T" + found.group(1)] + names[::-1], 1, 1))
            elif found:
                broken += 1
        peer_account(run, job, stacks, broken, outputs=[job.output])

    def cleanup(self, run):
        for path in self.made(run, "map") + self.made(run, "dump"):
            for root in {"", self.python.root}:
                try:
                    os.unlink(root + path)
                except OSError:
                    pass


def peer_account(run, job, stacks, failed, samples=None, outputs=None,
                 all_threads=False):
    """stacks: (process and thread, then names root first; weight; samples).  With
    all_threads a thread has a sample at each tick, whether it runs or not."""
    threads, inside = {}, 0
    for names, _, n in stacks:
        if judge.span_at(names) is not None:
            # The process and the thread stand in front of the frames.
            key = tuple(name for name in names[:2] if name.isdigit()
                        or name.startswith(("thread", "P", "T", "tid")))
            threads[key] = threads.get(key, 0) + n
            inside += n
    total = samples or sum(n for _, _, n in stacks)
    if total == 0:
        raise Failed("no samples")
    # Samples of unequal weight are worth less.
    weights = [weight / n for _, weight, n in stacks for _ in range(n) if n]
    worth = (sum(weights) ** 2 / (len(weights) * sum(w * w for w in weights))
             if any(weights) else 1.0)
    seconds = running_seconds(run, job)
    busiest = max(threads.values(), default=0)
    if job.event == "wall":
        running = busiest
    elif all_threads and job.workload != "pool":
        running = busiest * min(1.0, seconds / run["elapsed"])
    else:
        # In CPU time one thread at a time has a sample.
        running = inside
    run.update(got_hz=running / seconds,
               approximate_pct=100 * failed / (total + failed),
               sample_bytes=sum(map(os.path.getsize, outputs or job.outputs())) / total)
    weighed = [(names, weight) for names, weight, _ in stacks]
    run.update(judge.errors(run, judge.shares_of(weighed, run["truth"]),
                            running * worth))
    if run["callers"]:
        run["impossible"] = judge.impossible([(n, c) for n, _, c in stacks],
                                             run["callers"])
