#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What pystack costs and what its figures are worth, beside a bare sleep loop and,
where they are installed, beside other samplers.

Every figure is a median over rounds.  In a round each arm runs once, one after the
other, in an order that changes from round to round: the program bare, the program with
the sleep loop beside it, the program under each sampler.  Slowdowns are ratios within a
round, so that a machine that gets slower or busier over minutes does not show.  No
figure is judged here: on a machine that others use, only a reader can do that.

CPU time of a recorder is read from the process clock of its zombie, before it is
reaped: that clock leaves out the children it has waited for, so the program's CPU is
not in it.  The sampler of pystack is a process of its own; its CPU time is in the
recording.
"""
import argparse
import json
import math
import os
import platform
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PINNED = ("py-spy==0.4.3", "austin-dist==3.7.0")
SPANS = ("measured", "measured_idle")
REST = "(rest)"
PEERS_ARE_CUT_AT = 4  # times the bare run: a peer may slow a program 20 times
START_SECONDS = 60    # a thousand threads under a slow sampler
END_SECONDS = 60

WORKLOADS = {  # name: (title, event whose weights stand against the program's account)
    "busy": ("1 busy thread", "wall"),
    "threads": ("8 busy threads", "cpu"),
    "waiting": ("1 busy and 200 waiting threads", "wall"),
    "crowd": ("1,000 threads: 4 busy, the others serve a queue", "cpu"),
    "deep": ("1 busy thread, 400 frames deep", "wall"),
    "idle": ("a program that sleeps 20 ms of 21", "wall"),
}
RATES = ("100", "1000", "10000", "max")
QUICK = [("busy", r) for r in RATES] + [
    (w, "1000") for w in WORKLOADS if w != "busy"]

COLUMNS = (  # title, unit or second line, width, key, format
    ("asked", "Hz", 5, "rate", "s"),
    ("sampler", "", 10, "tool", "s"),
    ("slow", "x", 6, "slow", ".3f"),
    ("cpu", "x", 6, "program_cpu", ".3f"),
    ("cpu", "%", 6, "cpu_pct", ".2f"),
    ("rec", "%", 5, "recorder_pct", ".2f"),
    ("got", "Hz", 8, "got_hz", ".0f"),
    ("appr", "%", 5, "approximate_pct", ".2f"),
    ("late", "%", 5, "late_pct", ".2f"),
    ("miss", "%", 5, "missed_pct", ".2f"),
    ("lost", "", 5, "lost", ".0f"),
    ("bytes/", "sample", 6, "sample_bytes", ".2f"),
    ("RSS+", "KB", 6, "rss_kb", ".0f"),
    ("ring", "KB", 5, "shared_kb", ".0f"),
    ("rec", "MB", 5, "recorder_mb", ".1f"),
    ("error", "pp", 5, "error_pp", ".2f"),
    ("noise", "pp", 5, "noise_pp", ".2f"),
)
LEGEND = """\
slow    the program's time for its work over its bare time in the same round;
        cpu x: the same of its CPU time, which other users of the machine disturb less
cpu %   of the sampler, % of a core: the task of pystack over the time sampled, the
        bare loop, a peer as a whole over the run
rec     CPU of the recorder over the run, % of a core; its largest resident size
got     ticks a second; of peers, samples a second of the busiest thread
appr    samples marked approximate; of peers, those they call failed
late, miss  ticks more than half a period late; periods without a tick, of all
lost    samples that could not be sent, the most of any run
RSS+    resident memory of the program over bare; ring: the shared part of it
error   mean difference to the program's own account, in points of its time;
        noise: what as many random samples would show (at max they are not random)"""


class Failed(Exception):
    pass


# --- processes ---

class Child:
    """A process of ours, by Popen, whose CPU time is read before it is reaped."""

    def __init__(self, argv, folder, name):
        self.stem = os.path.join(folder, name)
        environment = dict(os.environ, LC_ALL="C.UTF-8", PYTHONHASHSEED="0",
                           PYTHONDONTWRITEBYTECODE="1", TMPDIR=folder)
        with open(self.stem + ".out", "wb") as out, \
                open(self.stem + ".err", "wb") as err:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, env=environment)
        self.began = time.monotonic()
        self.pidfd = os.pidfd_open(self.process.pid)

    def wait(self, seconds):
        """CPU seconds, without those of its children, and seconds it lived."""
        ended, _, _ = select.select([self.pidfd], [], [], seconds)
        if not ended:
            raise Failed("did not end within %d s" % seconds)
        lived = time.monotonic() - self.began
        cpu = time.clock_gettime((~self.process.pid << 3) | 2)
        self.process.wait()
        return cpu, lived

    def peak_mb(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            found = re.search(r"^VmHWM:\s+(\d+) kB", f.read(), re.M)
        return int(found.group(1)) / 1024 if found else None

    def text(self, which):
        with open(self.stem + "." + which, errors="replace") as f:
            return f.read()

    def last_words(self):
        lines = [line for line in self.text("err").splitlines() if line.strip()]
        return lines[-1].strip()[:80] if lines else "no message"

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self.pidfd)


class Channel:
    """Two FIFOs to the program, whoever starts it (workloads.py)."""

    def __init__(self, folder):
        self.fds = []
        for name in ("up", "down"):
            path = os.path.join(folder, name)
            os.mkfifo(path)
            self.fds.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        self.text = b""

    def read(self, child, seconds):
        """The next message, or Failed when the child ends or the time is up."""
        end = time.monotonic() + seconds
        while b"\n" not in self.text:
            ready, _, _ = select.select([self.fds[0], child.pidfd], [], [],
                                        max(0.0, end - time.monotonic()))
            if self.fds[0] in ready:
                self.text += os.read(self.fds[0], 65536)
            elif ready:
                raise Failed("ended before the program did: " + child.last_words())
            else:
                raise Failed("the program was not heard of within %d s" % seconds)
        line, self.text = self.text.split(b"\n", 1)
        return json.loads(line)

    def let_go_on(self):
        os.write(self.fds[1], b".")

    def close(self):
        for fd in self.fds:
            os.close(fd)


# --- profiles against the program's account ---

def shares_of(stacks, truth):
    """Weights by function of the account, from (names root first, weight)."""
    shares = {}
    for names, weight in stacks:
        at = next((i for i, name in enumerate(names) if name in SPANS), None)
        if at is None:
            continue
        name = names[at + 1] if at + 1 < len(names) else REST
        name = name if name in truth else REST
        shares[name] = shares.get(name, 0) + weight
    return shares


def compare(run, shares, samples):
    """Error and noise in points: means over the functions of the account."""
    total, whole = sum(shares.values()), sum(run["truth"].values())
    if total == 0 or samples == 0:
        return
    true = {name: value / whole for name, value in run["truth"].items()}
    errors = [abs(shares.get(name, 0) / total - p) for name, p in true.items()]
    noises = [math.sqrt(2 / math.pi * max(0.0, p * (1 - p)) / samples)
              for p in true.values()]
    run["error_pp"] = 100 * statistics.mean(errors)
    run["error_max_pp"] = 100 * max(errors)
    run["noise_pp"] = 100 * statistics.mean(noises)


def collapsed(text, name_of, separator=" "):
    """(frames as name_of makes them, weight) of each line of collapsed stacks."""
    for line in text.splitlines():
        stack, found, weight = line.rpartition(separator)
        if found and weight.isdigit() and not line.startswith("#"):
            yield [name_of(frame) for frame in stack.split(";")], int(weight)


# --- samplers ---

class Pystack:
    name = "pystack"
    rates = RATES

    def __init__(self, path):
        self.path = path

    def argv(self, rate, output, workload):
        return [self.path, "record", "-q", "-F", rate, "--no-adaptive", "-o", output,
                "--"]

    def ask(self, *arguments):
        done = subprocess.run((self.path,) + arguments, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise Failed(done.stderr.decode(errors="replace").strip()[-80:])
        return done.stdout.decode(errors="replace")

    def counters(self, output):
        text = self.ask("report", "--stats", "-i", output)
        return {name: float(value) for value, name in
                re.findall(r"^ *([0-9.]+)  (.*?)(?: \(ns\))?$", text, re.M)}

    def account(self, run, rate, output, workload, child, cpu, lived):
        c = self.counters(output)
        if c.get("samples", 0) == 0:
            raise Failed("no samples: " + child.last_words())
        # At max periods have no length; start-up and end of a run are a few ms.
        seconds = (lived if rate == "max" else
                   (c["ticks"] + c["missed"]) * c["stratum"] / 1e9)
        event = WORKLOADS[workload][1]
        text = self.ask("script", "--format", "collapsed", "-e", event, "-i", output)
        shares = shares_of(collapsed(text, lambda f: f.split(" (")[0]), run["truth"])
        run.update(
            cpu_pct=100 * c["sampler-cpu"] / 1e9 / seconds,
            recorder_pct=100 * cpu / lived,
            got_hz=c["ticks"] / seconds,
            approximate_pct=100 * c["approximate"] / c["samples"],
            late_pct=100 * c["late"] / c["ticks"],
            missed_pct=100 * c["missed"] / (c["ticks"] + c["missed"]),
            lost=c["lost"] + c["lost-threads"],
            sample_bytes=os.path.getsize(output) / c["samples"],
            counters=c)
        # One running thread a tick, as one of them holds the lock.
        compare(run, shares, run["got_hz"] * sum(shares.values()) / 1e6)


class PySpy:
    rates = ("100", "1000", "10000")

    def __init__(self, path, *more):
        self.path, self.more = path, more
        self.name = "py-spy" + ("-nb" if more else "")

    def argv(self, rate, output, workload):
        # Without --idle a sleeping thread is not in its output.
        more = self.more + (("--idle",) if workload == "idle" else ())
        return [self.path, "record", "-t", "-f", "raw", "-r", rate, "-o", output, *more,
                "--"]

    def account(self, run, rate, output, workload, child, cpu, lived):
        with open(output, errors="replace") as f:
            stacks = list(collapsed(f.read(), lambda frame: frame.split(" (")[0]
                                    if not frame.startswith("thread") else frame))
        found = re.search(r"Samples: (\d+) Errors: (\d+)", child.text("err"))
        errors = int(found.group(2)) if found else 0
        peer_account(run, output, stacks, [1] * len(stacks), errors, cpu, lived)


class Austin:
    name = "austin"
    rates = ("100", "1000", "10000")

    def __init__(self, path):
        self.path = path

    def argv(self, rate, output, workload):
        # -t: without it, it gives up on a program that is slow to start.
        interval = "%dus" % (1000000 // int(rate))
        return [self.path, "-t", "2s", "-i", interval, "-o", output]

    def account(self, run, rate, output, workload, child, cpu, lived):
        with open(output, errors="replace") as f:
            stacks = list(collapsed(f.read(), lambda frame: frame.split(":")[-2]
                                    if frame.count(":") > 1 else frame))
        # Its weights are microseconds; each line is a sample.
        found = re.search(r"Error rate.*?(\d+)/(\d+)", child.text("err"))
        errors = int(found.group(1)) if found else 0
        peer_account(run, output, stacks, None, errors, cpu, lived)


def peer_account(run, output, stacks, counted, errors, cpu, lived):
    """counted: weights are numbers of samples; None: every line is one sample."""
    threads, samples, inside = {}, 0, 0
    for names, weight in stacks:
        n = weight if counted else 1
        # The process and the thread stand in front of the frames.
        key = tuple(n for n in names[:2] if n.startswith(("thread", "P", "T")))
        threads[key] = threads.get(key, 0) + n
        samples += n
        inside += n if any(name in SPANS for name in names) else 0
    if samples == 0:
        raise Failed("no samples")
    run.update(cpu_pct=100 * cpu / lived,
               got_hz=max(threads.values()) / lived,
               approximate_pct=100 * errors / (samples + errors),
               sample_bytes=os.path.getsize(output) / samples)
    compare(run, shares_of(stacks, run["truth"]), inside)


def find_peers(folder):
    if folder is None:
        return []
    places = [folder, os.path.join(folder, "bin")]

    def find(name):
        return shutil.which(name, path=os.pathsep.join(places))

    found = []
    if find("py-spy"):
        found += [PySpy(find("py-spy")), PySpy(find("py-spy"), "--nonblocking")]
    if find("austin"):
        found.append(Austin(find("austin")))
    if not found:
        sys.exit("bench: neither py-spy nor austin in %s (--install-peers puts them "
                 "there)" % folder)
    return found


def install_peers(python, folder):
    pip = [os.path.join(folder, "bin", "python"), "-m", "pip"]
    for argv in ([python, "-m", "venv", folder],
                 pip + ["install", "--quiet", "--disable-pip-version-check", *PINNED]):
        if subprocess.run(argv).returncode != 0:
            sys.exit("bench: cannot install the peers: '%s' failed" % " ".join(argv))


# --- runs ---

class Bench:
    def __init__(self, folder, python):
        self.folder, self.python = folder, python
        self.loop = os.path.join(folder, "sleep-loop")
        self.number = 0

    def build_loop(self):
        cc = os.environ.get("CC", "cc").split()
        argv = cc + ["-O2", "-o", self.loop, os.path.join(HERE, "sleep-loop.c")]
        if subprocess.run(argv).returncode != 0:
            sys.exit("bench: cannot compile sleep-loop.c with '%s'" % cc[0])

    def run(self, workload, nominal, limit, rate=None, tool=None, loop=False):
        """One run of the program: bare, beside the loop, or under a sampler."""
        self.number += 1
        folder = os.path.join(self.folder, "run-%d" % self.number)
        os.mkdir(folder)
        output = os.path.join(folder, "profile")
        argv = tool.argv(rate, output, workload) if tool else []
        argv += [self.python, os.path.join(HERE, "workloads.py"), workload,
                 repr(nominal), "--limit", repr(limit), "--channel", folder]
        channel = Channel(folder)
        started = []
        program = None
        try:
            child = Child(argv, folder, "child")
            started.append(child)
            program = os.pidfd_open(channel.read(child, START_SECONDS)["ready"])
            beside = None
            if loop:
                beside = Child([self.loop, rate], folder, "loop")
                started.append(beside)
            channel.let_go_on()
            run = channel.read(child, limit + START_SECONDS)
            if beside is not None:
                beside.process.terminate()
                beside.wait(END_SECONDS)
                self.account_loop(run, json.loads(beside.text("out")))
            if tool is not None:
                run["recorder_mb"] = child.peak_mb()
            channel.let_go_on()
            cpu, lived = child.wait(END_SECONDS)
            if run["done"] <= 0:
                raise Failed("nothing was done within %.0f s" % limit)
            if tool is not None:
                tool.account(run, rate, output, workload, child, cpu, lived)
            return run
        finally:
            for one in started:
                one.end()
            if program is not None:
                end_program(program)
            channel.close()
            shutil.rmtree(folder)

    @staticmethod
    def account_loop(run, tally):
        ticks, missed = tally["ticks"], tally["missed"]
        run.update(cpu_pct=100 * tally["cpu_ns"] / tally["elapsed_ns"],
                   got_hz=ticks / (tally["elapsed_ns"] / 1e9),
                   late_pct=100 * tally["late"] / max(1, ticks),
                   missed_pct=100 * missed / max(1, ticks + missed))


def end_program(pidfd):
    """A program that its sampler left behind; most have ended long ago."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.close(pidfd)


def arms_of(rate, samplers):
    arms = [("bare", {}), ("sleep loop", {"loop": True})]
    arms += [(s.name, {"tool": s}) for s in samplers if rate in s.rates]
    return arms


def measure_row(bench, workload, rate, samplers, seconds, pairs, progress):
    """Runs by arm, a list each; a run that failed is a string."""
    try:
        first = bench.run(workload, seconds, 20 * seconds)
    except Failed as e:
        sys.exit("bench: %s does not run: %s" % (workload, e))
    # The nominal work is scaled to this machine once, then it is the same for all.
    nominal = seconds * seconds / max(first["elapsed"], seconds / 20)
    limit = PEERS_ARE_CUT_AT * seconds
    arms = arms_of(rate, samplers)
    runs = {name: [] for name, _ in arms}
    for pair in range(pairs):
        turn = pair % len(arms)
        for name, how in arms[turn:] + arms[:turn]:
            progress("%s at %s: %d of %d, %s" % (workload, rate, pair + 1, pairs, name))
            try:
                runs[name].append(bench.run(workload, nominal, limit, rate, **how))
            except (Failed, OSError, ValueError) as e:
                runs[name].append(str(e) or type(e).__name__)
    progress("")
    return runs


# --- figures ---

def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def sign_test_bounds(values):
    """Bounds of the median at 95 %, whatever the distribution; None below 6 values."""
    n, below, k = len(values), 0.0, 0
    while True:
        below += math.comb(n, k) / 2 ** n
        if 2 * below > 0.05:
            break
        k += 1
    return (sorted(values)[k - 1], sorted(values)[n - k]) if k > 0 else None


def figures(rate, name, runs, bare):
    """One line of the table, from the runs of an arm and the bare runs beside them."""
    both = [(r, b) for r, b in zip(runs, bare)
            if isinstance(r, dict) and isinstance(b, dict)]
    failures = [r for r in runs if not isinstance(r, dict)]
    row = {"rate": rate, "tool": name, "runs": len(runs), "failures": failures}
    if not both:
        return row
    for key in (c[3] for c in COLUMNS[2:]):
        row[key] = median([r.get(key) for r, _ in both])
    lost = [r["lost"] for r, _ in both if "lost" in r]
    row["lost"] = max(lost) if lost else None
    for key, of in (("slow", "elapsed"), ("program_cpu", "cpu")):
        ratios = [(r[of] / r["done"]) / (b[of] / b["done"]) for r, b in both]
        row[key] = median(ratios)
        row[key + "_ratios"] = ratios
        row[key + "_bounds"] = sign_test_bounds(ratios)
    row["error_max_pp"] = median([r.get("error_max_pp") for r, _ in both])
    row["cut"] = sum(r["done"] < 1 for r, _ in both)
    if name != "sleep loop":
        for key, kind in (("rss_kb", "VmRSS"), ("shared_kb", "RssShmem")):
            row[key] = median([r["memory"][kind] - b["memory"][kind] for r, b in both])
    return row


def cell(value, form, width):
    if value is None:
        return " " * width
    if form == "s":
        return value.ljust(width)
    text = format(value, form)
    while len(text) > width and "." in text:
        text = text[:-1].rstrip(".")
    return text.rjust(width)


def title_lines():
    for i in (0, 1):
        yield " ".join(c[i].ljust(c[2]) if c[4] == "s" else c[i].rjust(c[2])
                       for c in COLUMNS).rstrip()


def print_row(row):
    print(" ".join(cell(row.get(c[3]), c[4], c[2]) for c in COLUMNS).rstrip())
    indent = " " * 6
    for key, title in (("slow", "slow"), ("program_cpu", "cpu x")):
        if row.get(key + "_bounds"):
            print("%s%s: %.4f, 95 %% bounds %.4f to %.4f (sign test, %d pairs)" % (
                indent, title, row[key], *row[key + "_bounds"],
                len(row[key + "_ratios"])))
    if row.get("cut"):
        print("%s%d of %d runs cut at %d times the bare time" % (
            indent, row["cut"], row["runs"], PEERS_ARE_CUT_AT))
    if row["failures"]:
        print("%s%d of %d runs failed: %s" % (
            indent, len(row["failures"]), row["runs"], row["failures"][0]))


def measure(bench, rows, samplers, options):
    """Measure and print row by row; returns all of it for --json."""
    table, before = [], None
    for line in title_lines():
        print(line)
    for workload, rate in rows:
        if workload != before:
            print("\n%s: %s" % (workload, WORKLOADS[workload][0]))
        before = workload
        runs = measure_row(bench, workload, rate, samplers, options.seconds,
                           options.pairs, progress_to(sys.stderr))
        for name in runs:
            if name == "bare":
                continue
            row = figures(rate, name, runs[name], runs["bare"])
            print_row(row)
            table.append(dict(row, workload=workload))
        table[-1]["all_runs"] = runs
        sys.stdout.flush()
    return table


def progress_to(stream):
    def say(text):
        if stream.isatty():
            stream.write("\r\033[K" + text)
            stream.flush()
    return say


# --- what the figures belong to ---

def output_of(*argv):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout.decode(errors="replace").strip()


def find_python(name):
    """The interpreter itself, not a script that looks for one."""
    text = output_of(name, "-c", "import platform, sys; print(sys.executable); "
                     "print(platform.python_version())").splitlines()
    if len(text) != 2:
        sys.exit("bench: '%s' is not a Python" % name)
    return text


def processor():
    with open("/proc/cpuinfo") as f:
        found = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
    return found.group(1) if found else platform.machine()


def load():
    return "%.2f %.2f %.2f" % os.getloadavg()


def version_of(sampler):
    found = re.search(r"[0-9][^ ,]*", output_of(sampler.path, "--version"))
    return sampler.name + (" " + found.group() if found else "")


def conditions(options, python, samplers):
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "kernel": "%s %s" % (platform.system(), platform.release()),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": load(),
        "python": python[1],
        "samplers": [version_of(s) for s in samplers if not s.name.endswith("-nb")],
        "command": " ".join(sys.argv),
        "pairs": options.pairs,
        "seconds": options.seconds,
    }


def print_conditions(c):
    print("%s, %s, %d cores, load %s, %s" % (
        c["kernel"], c["processor"], c["cores"], c["load"], c["date"]))
    print("CPython %s; %s" % (c["python"], ", ".join(c["samplers"])))
    print("%s\n%d pairs of about %.3g s each\n" % (
        c["command"], c["pairs"], c["seconds"]))


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
                   help="3 rounds of 1 s, fewer rows: under 3 minutes without peers")
    p.add_argument("--peers", metavar="DIR",
                   help="measure py-spy and austin too, from DIR or DIR/bin; they need "
                   "CPython 3.11 as --python")
    p.add_argument("--install-peers", metavar="DIR",
                   help="make a virtual environment in DIR with %s and %s, then "
                   "measure them too" % PINNED)
    p.add_argument("--json", metavar="FILE", help="write every run to FILE")
    o = p.parse_args()
    o.pairs = o.pairs or (3 if o.quick else 5)
    o.seconds = o.seconds or (1.0 if o.quick else 2.0)
    if o.pairs < 1 or not 0.1 <= o.seconds <= 600:
        p.error("--pairs is 1 or more, --seconds 0.1 to 600")
    return o


def choose_rows(options):
    rows = QUICK if options.quick else [(w, r) for w in WORKLOADS for r in RATES]
    if options.workload and options.rate:
        rows = [(w, r) for w in WORKLOADS for r in RATES]
    rows = [(w, r) for w, r in rows
            if (not options.workload or w in options.workload)
            and (not options.rate or r in options.rate)]
    if not rows:
        sys.exit("bench: no row is left")
    return rows


def main():
    options = parse_arguments()
    rows = choose_rows(options)
    python = find_python(options.python)
    options.pystack = os.path.abspath(options.pystack)
    if not os.access(options.pystack, os.X_OK):
        sys.exit("bench: no pystack at %s (build first, or give --pystack)"
                 % options.pystack)
    if options.install_peers:
        install_peers(python[0], options.install_peers)
    samplers = [Pystack(options.pystack)]
    samplers += find_peers(options.peers or options.install_peers)
    # An end by SIGTERM goes the same way as one by Ctrl-C: everything is taken down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="pystack-bench-") as folder:
        bench = Bench(folder, python[0])
        bench.build_loop()
        about = conditions(options, python, samplers)
        print_conditions(about)
        table = measure(bench, rows, samplers, options)
    print("\nload at the end: %s\n\n%s" % (load(), LEGEND))
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"conditions": about, "rows": table}, f, indent=1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
