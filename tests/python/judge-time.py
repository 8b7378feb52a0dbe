#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judge-time.py OUT FILE CHECK ...: is the time that a recording shows true?

OUT: what a program said of itself, in ms, as apps/accounts.py does; FILE: its recording.
PYSTACK: the command that reads it.  A line of figures for each check; status 1 if one is wrong.
Samples bear errors by their number, and by how long the thread waited for a CPU.

threads[:NAME:MS]       CPU of each thread of the truth, or of one: within 2 % or 10 ms
process                 CPU of the process, and of a sampler that is a thread of it: within
                        2 % or 20 ms, as each running thread's figure in the kernel may
                        be 4 ms old
pids                    the same of each process of the truth: within 10 ms, and more where it
                        waited for a CPU
together:PERCENT        the same of all processes of the truth together: within so much of
                        their CPU, and more where they waited for a CPU
wall:THREAD[:LESS:MS]   wall time: between the process's own, less a stratum and what was
                        missed, and OUTER, both less LESS ms, known within MS
lives:FUNCTION:MS       wall time of a function of all threads, which lasts for MS each
                        time: at each end a stratum more or less, at random
uses:FUNCTION:MS        the same of its CPU time
share:FUNCTION:THREAD   CPU of the function as a share of that of the thread, within the
                        error that so many samples have
time:FUNCTION:THREAD    the same of its wall time, among all functions in the truth
gil:FUNCTION:THREAD     the same of the time with the GIL: the truth is its wall time
most:FUNCTION:THREAD:PERCENT  at most that much of the thread's CPU
hidden:PERCENT          at most that much of all CPU is [cpu not sampled]
"""
import math
import os
import re
import subprocess
import sys

# An unbiased figure is that far off once in 150,000 times.
SIGMAS = 4.5
HIDDEN = "[cpu not sampled]"
FRAME = re.compile(r"^(\S+) \(")


def pystack(*args):
    command = [os.environ["PYSTACK"]] + list(args)
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


class Truth:
    def __init__(self, path):
        self.thread, self.function, self.pid, self.process = {}, {}, {}, []
        self.queued = {}
        for line in open(path):
            words = line.split()
            if words[:2] == ["TRUTH", "process"]:
                self.process = [float(w) for w in words[2:]]
            elif words[:1] == ["TRUTH"]:
                getattr(self, words[1])[words[2]] = [float(w) for w in words[3:]]


class Stack:
    """What one stack of one thread weighs, in ms; samples."""

    def __init__(self, text):
        words = text.split(";")
        self.pid = words[0].rsplit(" ", 1)[1]
        self.thread = words[1].rsplit(" ", 1)[0]
        self.names = [m[1] if m else f for f in words[2:] for m in [FRAME.match(f)]]
        self.weight = {"cpu": 0, "wall": 0, "gil": 0, "samples": 0}


class Recording:
    def __init__(self, path):
        self.stacks = {}
        for event in ("cpu", "wall", "gil", "samples"):
            args = [] if event == "samples" else ["--event", event]
            text = pystack("script", "-i", path, "--format", "collapsed", "--per-thread",
                           *args)
            for line in text.splitlines():
                stack, weight = line.rsplit(" ", 1)
                entry = self.stacks.setdefault(stack, Stack(stack))
                entry.weight[event] = int(weight) / (1 if event == "samples" else 1e3)
        header = pystack("report", "-i", path, "--header-only")
        missed = re.search(r"([0-9.]+) s missed", header)
        self.missed = float(missed[1]) * 1e3 if missed else 0
        # A sampler that is a thread of the program is in what the kernel says of that.
        self.own, pid = {}, None
        for line in pystack("report", "-i", path, "--stats").splitlines():
            match = re.match(r"# process (\d+)|# isolation: (thread)| +(\d+)  sampler-cpu", line)
            if match and match[1]:
                pid = match[1]
            elif match and match[3]:
                used = int(match[3]) / 1e6
            elif match:
                self.own[pid] = self.own.get(pid, 0) + used

    def sum(self, event, thread=None, function=None, pid=None):
        return sum(s.weight[event] for s in self.stacks.values()
                   if thread in (None, s.thread) and pid in (None, s.pid)
                   and (function is None or function in s.names))

    def stratum(self, thread=None):
        return self.sum("wall", thread) / (self.sum("samples", thread) or 1)

    def count(self, thread):
        """So many samples of one weight would be as good: less, where strata differ."""
        squares = sum(s.weight["wall"] ** 2 / s.weight["samples"]
                      for s in self.stacks.values()
                      if s.thread == thread and s.weight["samples"])
        return self.sum("wall", thread) ** 2 / (squares or 1)


class Judge:
    def __init__(self, truth, recording):
        self.truth, self.recording, self.wrong = truth, recording, 0

    def of(self, thread, function):
        return self.truth.function[thread + "/" + function]

    def say(self, good, text):
        print(("" if good else "WRONG: ") + text)
        self.wrong += not good

    def close(self, name, shown, used, least="10"):
        most = max(0.02 * used, float(least))
        self.say(abs(shown - used) <= most, "%s: cpu %.1f ms of %.1f, %+.1f within %.1f" % (
            name, shown, used, shown - used, most))

    def threads(self, only=None, least="10"):
        for name, (used, _) in self.truth.thread.items():
            if only in (None, name):
                self.close(name, self.recording.sum("cpu", name), used, least)

    def process(self):
        r = self.recording
        self.close("process", r.sum("cpu") + sum(r.own.values()), self.truth.process[0], "20")

    def pids(self):
        # Of its last 60 ms samples tell, which also see who is ready.
        for pid, (used, waited) in self.truth.pid.items():
            queue = waited / (used + waited or 1)
            shown = self.recording.sum("cpu", pid=pid) + self.recording.own.get(pid, 0)
            self.close(pid, shown, used, 10 + 60 * queue)

    def together(self, percent):
        used = sum(u for u, _ in self.truth.pid.values())
        queue = sum(w for _, w in self.truth.pid.values())
        shown = sum(self.recording.sum("cpu", pid=pid) + self.recording.own.get(pid, 0)
                    for pid in self.truth.pid)
        most = used * float(percent) / 100 + queue
        self.say(abs(shown - used) <= most,
                 "%d processes: cpu %.1f ms of %.1f, %+.1f within %.1f" % (
                     len(self.truth.pid), shown, used, shown - used, most))

    def wall(self, thread, less="0", within="0"):
        _, inner, outer = self.truth.process
        r = self.recording
        shown = r.sum("wall", thread)
        least = inner - r.stratum(thread) - r.missed - float(less) - float(within)
        most = outer - float(less) + float(within)
        self.say(least <= shown <= most, "%s: wall %.1f ms of %.1f to %.1f, missed %.1f" % (
            thread, shown, least, most, r.missed))

    def lives(self, function, each, event="wall", behind=0):
        r = self.recording
        both = [v for n, v in self.truth.function.items() if n.endswith("/" + function)]
        shown = r.sum(event, None, function)
        lived = sum(v[event == "wall"] for v in both)
        ends = 2 * sum(v[1] for v in both) / float(each)
        most = SIGMAS * r.stratum() * math.sqrt(ends / 6) + ends / 2 * (1 + behind)
        self.say(lived - most - r.missed <= shown <= lived + most,
                 "%s: %s %.1f ms of %.1f, %+.1f within %.1f, missed %.1f" % (
                     function, event, shown, lived, shown - lived, most, r.missed))

    # The kernel's figure of a running thread is some ms old, and that of one that has
    # ended since cannot be had any more.
    def uses(self, function, each):
        self.lives(function, each, "cpu", behind=3)

    def compare(self, what, function, thread, shown, whole, share, samples):
        error = math.sqrt(max(share * (1 - share), 1e-9) / max(samples, 1))
        got = shown / whole if whole else 0
        # Where others want the CPU too, a thread that has none is ready all the same,
        # and a tick may be late: by no more than that.
        ready = self.truth.thread[thread][0]
        waited = self.truth.queued.get(thread, [0])[0]
        queue = waited / (ready + waited or 1)
        enough = samples >= 5 or queue > 0.2
        self.say(enough and abs(got - share) < SIGMAS * error + queue,
                 "%s: %s %.1f ms, %.2f %% of %.2f, %+.1f sigma of %d samples, queued %.1f %%"
                 % (thread, what + " of " + function, shown, got * 100, share * 100,
                    (got - share) / error, samples, queue * 100))

    def share(self, function, thread):
        r = self.recording
        whole = r.sum("cpu", thread) - r.sum("cpu", thread, HIDDEN)
        self.compare("cpu", function, thread, r.sum("cpu", thread, function), whole,
                     self.of(thread, function)[0] / self.truth.thread[thread][0],
                     r.count(thread) * whole / r.sum("wall", thread))

    def time(self, function, thread, event="wall"):
        r = self.recording
        whole = r.sum("wall", thread, "account")
        lived = sum(passed for name, (_, passed) in self.truth.function.items()
                    if name.startswith(thread + "/"))
        self.compare(event, function, thread, r.sum(event, thread, function), whole,
                     self.of(thread, function)[1] / lived,
                     r.count(thread) * whole / r.sum("wall", thread))

    def gil(self, function, thread):
        self.time(function, thread, "gil")

    def most(self, function, thread, percent):
        shown = self.recording.sum("cpu", thread, function)
        whole = self.recording.sum("cpu", thread)
        self.say(shown * 100 <= whole * float(percent), "%s: cpu of %s %.1f ms of %.1f" % (
            thread, function, shown, whole))

    def hidden(self, percent):
        shown = self.recording.sum("cpu", None, HIDDEN)
        whole = self.recording.sum("cpu")
        self.say(shown * 100 <= whole * float(percent),
                 "cpu not sampled: %.1f ms of %.1f" % (shown, whole))


def main():
    judge = Judge(Truth(sys.argv[1]), Recording(sys.argv[2]))
    for check in sys.argv[3:]:
        name, *args = check.split(":")
        getattr(judge, name)(*args)
    sys.exit(judge.wrong != 0)


main()
