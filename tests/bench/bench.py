#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What pystack costs and what its figures are worth, beside a bare sleep loop and, with
--peers, beside other samplers.

Every figure is a median over rounds.  In a round each arm runs once, one after the
other, in an order that changes from round to round: the program bare, the program with
the sleep loop beside it, the program under each sampler.  A sampler that needs another
Python is compared with bare runs of that one.  Slowdowns are ratios within a round, so
that a machine that gets slower or busier over minutes does not show.  No figure is
judged here: on a machine that others use, only a reader can do that.

CPU time is taken by the processes' clocks, from the moment the program is let go to
that when its work is done; what a profiler uses before and after stands apart.  The
clock of a process leaves out the children it has waited for, so the program's CPU is
not in that of the recorder that started it.
"""
import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the tree may be somebody else's

import goals
import pythons
import samplers
import tables
from processes import Channel, Child, Failed, end_programs

HERE = os.path.dirname(os.path.abspath(__file__))
START_SECONDS = 60    # a thousand threads under a slow sampler
END_SECONDS = 60

WORKLOADS = {
    "busy": "1 busy thread",
    "shallow": "1 busy thread, 4 frames deep, one function",
    "threads": "8 busy threads",
    "twenty": "20 busy threads",
    "turns": "3 threads that let each other run in turn",
    "waiting": "1 busy and 200 waiting threads",
    "crowd": "1,000 threads: 4 busy, the others serve a queue",
    "deep": "1 busy thread, 400 frames deep",
    "idle": "a program that sleeps 20 ms of 21",
    "pool": "processes that live for 10 to 100 ms, 2 at a time",
    "oracle": "364 functions with one caller each, a call or return every 50 ns",
}
RATES = samplers.RATES
ALL = [(w, r) for w in WORKLOADS for r in RATES
       if w != "shallow" and (w, r) != ("oracle", "max")] + [("shallow", "max")]
MAIN = [("busy", r) for r in RATES] + [("shallow", "max")] + [
    (w, "1000") for w in WORKLOADS if w not in ("busy", "shallow", "twenty")]
PEERS = ("py-spy", "austin", "ddtrace", "tachyon", "perf")


# --- runs ---

class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.loop = os.path.join(folder, "sleep-loop")
        self.number = 0
        self.bases = {}

    def close(self):
        for root, base in self.bases.items():
            if root:
                shutil.rmtree(base, ignore_errors=True)

    def build_loop(self):
        cc = os.environ.get("CC", "cc").split()
        argv = cc + ["-O2", "-o", self.loop, os.path.join(HERE, "sleep-loop.c")]
        if subprocess.run(argv).returncode != 0:
            sys.exit("bench: cannot compile sleep-loop.c with '%s'" % cc[0])

    def base(self, python):
        """A folder that the Python can see, with the programs in it."""
        if python.root not in self.bases:
            base = self.folder
            if python.root:
                base = tempfile.mkdtemp(prefix="pystack-bench-",
                                        dir=python.root + "/tmp")
            shutil.copy(os.path.join(HERE, "workloads.py"), base)
            self.bases[python.root] = base
        return self.bases[python.root]

    def run(self, python, workload, nominal, limit, rate=None, tool=None, loop=False):
        """One run of the program: bare, beside the loop, or under a sampler."""
        self.number += 1
        base = self.base(python)
        folder = os.path.join(base, "run-%d" % self.number)
        os.mkdir(folder)
        program = [python.inside(os.path.join(base, "workloads.py")), workload,
                   repr(nominal), "--limit", repr(limit), "--channel",
                   python.inside(folder)]
        job = samplers.Job(workload, rate, python, folder, program)
        argv = tool.argv(job) if tool else job.command()
        channel = Channel(folder)
        started = []
        run = {"processes": []}
        try:
            child = Child(argv, folder, "child")
            started.append(child)
            pid = channel.read(child, START_SECONDS)["ready"]
            run["pid"] = pid
            run.update(self.measure(channel, child, pid, limit, rate, tool, loop,
                                    started))
            channel.let_go_on()
            cpu, lived = child.wait(END_SECONDS)
            if run["done"] <= 0:
                raise Failed("nothing was done within %.0f s" % limit)
            if tool is not None:
                run["ends_cpu"] = cpu - run["recorder_cpu"]
                tool.account(run, job, child, lived)
                self.percentages(run, tool)
            return run
        finally:
            for one in started:
                one.end()
            end_programs(python.inside(folder))
            if tool is not None and "pid" in run:
                tool.cleanup(run)
            channel.close()
            shutil.rmtree(folder)

    def measure(self, channel, child, pid, limit, rate, tool, loop, started):
        """From the program's start to the end of its work."""
        beside = None
        if tool is not None:
            tool.ready(pid)
        if loop:
            beside = Child([self.loop, rate], os.path.dirname(child.stem), "loop")
            started.append(beside)
        before = (child.cpu(), tool.done() if tool else 0.0)
        channel.let_go_on()
        run = channel.read(child, limit + START_SECONDS)
        after = (child.cpu(), tool.done() if tool else 0.0)
        if beside is not None:
            beside.process.terminate()
            beside.wait(END_SECONDS)
            self.account_loop(run, json.loads(beside.text("out")))
        if tool is not None:
            run["recorder_cpu"] = after[0] - before[0]
            run["profiler_cpu"] = run["recorder_cpu"] + after[1] - before[1]
            run["recorder_mb"] = None if tool.in_program else child.peak_mb()
        return run

    @staticmethod
    def percentages(run, tool):
        run["cpu_pct"] = 100 * run["profiler_cpu"] / run["elapsed"]
        if not tool.in_program:
            run["recorder_pct"] = 100 * run["recorder_cpu"] / run["elapsed"]
        run["ends_ms"] = 1000 * run["ends_cpu"]

    @staticmethod
    def account_loop(run, tally):
        ticks, missed = tally["ticks"], tally["missed"]
        run.update(cpu_pct=100 * tally["cpu_ns"] / tally["elapsed_ns"],
                   got_hz=ticks / (tally["elapsed_ns"] / 1e9),
                   late_pct=100 * tally["late"] / max(1, ticks),
                   missed_pct=100 * missed / max(1, ticks + missed))


class Arm:
    """A way to run the program, and what it is compared with."""

    def __init__(self, name, python, bare, **how):
        self.name, self.python, self.bare, self.how = name, python, bare, how


def short(python):
    return "%d.%d" % python.version


def arms_of(workload, rate, main, found, loop=True):
    """The bench's own Python first; of the others what is needed to compare with."""
    arms = [Arm("bare", main, "bare")]
    if loop:
        arms.append(Arm("sleep loop", main, "bare", loop=True))
    for sampler in found:
        if rate not in sampler.rates or not sampler.suits(workload):
            continue
        python = sampler.python or main
        own = python is main
        bare = "bare" if own else "bare " + short(python)
        if bare not in [arm.name for arm in arms]:
            arms.append(Arm(bare, python, bare))
            ours = samplers.Pystack(found[0].path, python)
            arms.append(Arm("pystack " + short(python), python, bare, tool=ours))
        name = sampler.name + ("" if own else " " + short(python))
        arms.append(Arm(name, python, bare, tool=sampler))
    return arms


def measure_row(bench, workload, rate, arms, seconds, pairs, progress):
    """Runs by arm, a list each; a run that failed is a string."""
    try:
        first = bench.run(arms[0].python, workload, seconds, 20 * seconds)
    except Failed as e:
        sys.exit("bench: %s does not run: %s" % (workload, e))
    # The nominal work is scaled to this machine once, then it is the same for all.
    nominal = seconds * seconds / max(first["elapsed"], seconds / 20)
    limit = tables.CUT_AT * seconds
    runs = {arm.name: [] for arm in arms}
    for pair in range(pairs):
        turn = pair % len(arms)
        for arm in arms[turn:] + arms[:turn]:
            progress("%s at %s: %d of %d, %s" % (
                workload, rate, pair + 1, pairs, arm.name))
            try:
                runs[arm.name].append(bench.run(
                    arm.python, workload, nominal, limit, rate, **arm.how))
            except (Failed, OSError, ValueError, KeyError,
                    subprocess.CalledProcessError) as e:
                runs[arm.name].append(str(e) or type(e).__name__)
    progress("")
    return runs


def measure(bench, rows, main, found, options, out):
    """Measure and print row by row; returns all of it for --json."""
    table, before = [], None
    out.head()
    for workload, rate in rows:
        if workload != before:
            out.begin(workload, WORKLOADS[workload])
        before = workload
        arms = arms_of(workload, rate, main, found)
        runs = measure_row(bench, workload, rate, arms, options.seconds,
                           options.pairs, progress_to(sys.stderr))
        for arm in arms:
            if arm.name == arm.bare:
                continue
            row = tables.figures(rate, arm.name, runs[arm.name], runs[arm.bare])
            out.row(row)
            table.append(dict(row, workload=workload))
        table[-1]["all_runs"] = runs
        sys.stdout.flush()
    out.end()
    return table


def measure_goals(bench, main, ours, options, out):
    """The same runs, printed beside what they are to be."""
    table = {}
    for key, (workload, rate, pairs) in goals.RUNS.items():
        many = key == goals.RUN_TIME
        arms = arms_of(workload, rate, main, [ours], loop=not many)
        runs = measure_row(bench, workload, rate, arms, options.seconds,
                           pairs if many and not options.pairs_given else options.pairs,
                           progress_to(sys.stderr))
        table[key] = {arm.name: tables.figures(rate, arm.name, runs[arm.name],
                                               runs[arm.bare])
                      for arm in arms if arm.name != arm.bare}
    out.goals(goals.lines(table))
    for key, row in table.items():
        if row["pystack"]["failures"]:
            print("%s: %d runs failed: %s" % (key, len(row["pystack"]["failures"]),
                                              row["pystack"]["failures"][0]))
    return [dict(row, workload=goals.RUNS[key][0], goal=key)
            for key, one in table.items() for row in one.values()]


def progress_to(stream):
    def say(text):
        if stream.isatty():
            stream.write("\r\033[K" + text)
            stream.flush()
    return say


# --- peers ---

def find_peers(options, main, ours):
    """What is measured, and lines on what cannot be."""
    folder = pythons.Folder(options.folder, main)
    wanted = options.peer or PEERS
    folder.install(wanted, lambda text: print("bench: " + text, file=sys.stderr))
    found, missing = [ours], []

    def take(peer, program, make):
        if peer not in wanted:
            return
        path, why = folder.find(peer, program)
        if path is None:
            missing.append("%s: %s" % (peer, why))
        else:
            found.extend(make(path))

    take("py-spy", "py-spy", lambda path: [samplers.PySpy(path),
                                           samplers.PySpy(path, "--nonblocking")])
    take("austin", "austin", lambda path: [samplers.Austin(path)])
    take("ddtrace", "ddtrace-run", lambda path: [
        samplers.DDTrace(folder, os.path.join(HERE, "with-ddtrace.py"))])
    tachyon = None
    if "tachyon" in wanted:
        tachyon, why = pythons.find_tachyon(options.python315, main)
        if tachyon is None:
            missing.append("tachyon: " + why)
        else:
            found.append(samplers.Tachyon(None, tachyon))
    if "perf" in wanted:
        path, python, why = pythons.find_perf(options.python_perf,
                                              [main] + [tachyon] * bool(tachyon))
        if python is None:
            missing.append("perf: " + why)
        else:
            found.append(samplers.Perf(path, python))
    return found, missing


# --- what the figures belong to ---

def processor():
    with open("/proc/cpuinfo") as f:
        found = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
    return found.group(1) if found else platform.machine()


def load():
    return "%.2f %.2f %.2f" % os.getloadavg()


def name_and_version(sampler):
    found = sampler.version()
    return sampler.name + (" " + found.group() if found else "")


def conditions(options, main, found, missing):
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "kernel": "%s %s" % (platform.system(), platform.release()),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": load(),
        "python": main.text,
        "samplers": [name_and_version(s) for s in found if not s.name.endswith("-nb")],
        "missing": missing,
        "command": " ".join([os.path.basename(sys.argv[0])] + sys.argv[1:]),
        "pairs": options.pairs,
        "seconds": options.seconds,
    }


def lines_on(c):
    return ["%s, %s, %d cores, load %s, %s" % (
                c["kernel"], c["processor"], c["cores"], c["load"], c["date"]),
            "CPython %s; %s" % (c["python"], ", ".join(c["samplers"])),
            "%s: %d rounds of about %.3g s each" % (
                c["command"], c["pairs"], c["seconds"])
            ] + ["not measured: " + one for one in c["missing"]]


def parse_arguments():
    p = argparse.ArgumentParser(
        description="Measure what pystack costs, beside a bare sleep loop and other "
        "samplers.",
        epilog="One row with bounds: --workload busy --rate 1000 --pairs 31")
    p.add_argument("--pystack", default="src/pystack", metavar="FILE",
                   help="the program to measure (%(default)s)")
    p.add_argument("--python", default="python3", metavar="FILE",
                   help="the Python to run the programs with (%(default)s)")
    p.add_argument("--workload", action="append", choices=list(WORKLOADS),
                   help="measure only this one; may be given again")
    p.add_argument("--rate", action="append", choices=RATES,
                   help="measure only this rate; may be given again")
    p.add_argument("--pairs", type=int, metavar="N",
                   help="rounds for each row (5); 6 or more give bounds")
    p.add_argument("--seconds", type=float, metavar="S",
                   help="length of a run, about (2)")
    p.add_argument("--quick", action="store_true",
                   help="2 rounds of 1 s: under 3 minutes without peers, about 7 with "
                   "them")
    p.add_argument("--full", action="store_true",
                   help="every workload at every rate")
    p.add_argument("--goals", action="store_true",
                   help="the figures that have a goal, beside it and the bare loop")
    p.add_argument("--peers", action="store_true",
                   help="measure the peers too, those that can be had: %s"
                   % ", ".join(PEERS))
    p.add_argument("--threads", action="store_true",
                   help="also pystack as a thread of the program: by system calls, "
                        "by loads, with CPU timers")
    p.add_argument("--peer", action="append", choices=PEERS,
                   help="only this one of them; may be given again")
    p.add_argument("--folder", metavar="DIR", default=pythons.default_folder(),
                   help="where peers are installed, in a virtual environment "
                   "(%(default)s)")
    p.add_argument("--python315", metavar="FILE",
                   help="a CPython 3.15, for its profiling.sampling")
    p.add_argument("--python-perf", metavar="FILE",
                   help="a CPython 3.12 or later, for perf")
    p.add_argument("--markdown", action="store_true", help="print tables for a page")
    p.add_argument("--json", metavar="FILE", help="write every run to FILE")
    o = p.parse_args()
    o.pairs_given = o.pairs is not None
    o.pairs = (2 if o.quick else 5) if o.pairs is None else o.pairs
    o.seconds = (1.0 if o.quick else 2.0) if o.seconds is None else o.seconds
    if o.pairs < 1 or not 0.1 <= o.seconds <= 600:
        p.error("--pairs is 1 or more, --seconds 0.1 to 600")
    if o.goals and (o.peers or o.peer or o.workload or o.rate or o.full):
        p.error("--goals chooses what is measured itself, and no peers")
    return o


def choose_rows(options):
    wanted = options.workload or WORKLOADS
    rows = [row for row in (ALL if options.full or options.rate else MAIN)
            if row[0] in wanted and (not options.rate or row[1] in options.rate)]
    if not rows and not options.rate:
        rows = [row for row in ALL if row[0] in wanted and row[1] == "1000"]
    rows.sort(key=lambda row: list(WORKLOADS).index(row[0]))
    if not rows:
        sys.exit("bench: no row is left")
    return rows


def main():
    options = parse_arguments()
    python = pythons.must_find(options.python)
    options.pystack = os.path.abspath(options.pystack)
    if not os.access(options.pystack, os.X_OK):
        sys.exit("bench: no pystack at %s (build first, or give --pystack)"
                 % options.pystack)
    ours = samplers.Pystack(options.pystack)
    found, missing = [ours], []
    # An end by SIGTERM goes the same way as one by Ctrl-C: everything is taken down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.peers or options.peer:
        found, missing = find_peers(options, python, ours)
    if options.threads:
        found[1:1] = samplers.as_threads(options.pystack)
    out = tables.Markdown() if options.markdown else tables.Text()
    with tempfile.TemporaryDirectory(prefix="pystack-bench-") as folder:
        bench = Bench(folder)
        try:
            bench.build_loop()
            about = conditions(options, python, found, missing)
            out.about(lines_on(about))
            sys.stdout.flush()
            if options.goals:
                table = measure_goals(bench, python, ours, options, out)
            else:
                table = measure(bench, choose_rows(options), python, found, options,
                                out)
                out.joint(list(tables.joint_lines(table)))
                out.legend()
                out.summary(table, WORKLOADS)
        finally:
            bench.close()
    print("\nload at the end: %s" % load())
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"conditions": about, "rows": table}, f, indent=1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
