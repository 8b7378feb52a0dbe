#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records programs for as long as asked, while recorders, tasks and programs are ended,
killed and stopped at random moments, and looks whether anybody is harmed by it.

A cycle is one program (program.py): it is started under a recorder or attached to, some
times over, and each round one thing happens.  After each round the program must go on
unharmed, the recorder must have ended as it should, its file must be readable, and nothing
may be left but what pystack-record(1) says; after the program's end nothing at all.

What a cycle does follows from --seed and its number; `--cycle N` repeats one alone.  The
moments are real time, so that what it does to a race is another matter.

Status 1 if there was a crash, a hang, something left, or a sleep that was cut short.
"""
import argparse
import ctypes
import glob
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("sleep", "threads", "forks", "asyncio", "memory", "clock")
RATES = ("100", "100", "1000", "1000", "5000", "20000", "max")
PROGRAM_SECONDS = 120
PATIENCE = 30.0         # for what should take milliseconds, on a busy machine
SETTLE = 10.0           # for a task to see that it is to go
EARLY = 0.02            # within it a recorder is putting its task in
LATER = 0.4
PARK = 6.0              # longer than a task waits for a silent recorder
AROUND = 0.05           # seconds before and after a disturbance that are put down to it
PROGRESS = 30.0
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
WALL = 0x40000000
libc = ctypes.CDLL(None)

# What a recorder may say; the first group tells that something is wrong.
FAULTS = ("ended by a fault", "not laid out", "is damaged", "not left", "cannot work there",
          "task left (reason", "Sanitizer", "Assertion", "runtime error:")
KINDS_OF_TROUBLE = ("crashes", "hangs", "leftovers", "short sleeps")


class Trouble(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Interrupted(Exception):
    pass


# --- /proc ---

def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def stat_of(pid):
    """Name and state, or two empty texts."""
    found = re.match(rb"\d+ \((.*)\) (\S)", read("/proc/%d/stat" % pid), re.S)
    return (found.group(1).decode(), found.group(2).decode()) if found else ("", "")


def lives(pid):
    return stat_of(pid)[1] not in ("", "Z", "X")


def children_of(pid):
    return [int(child) for path in glob.glob("/proc/%d/task/*/children" % pid)
            for child in read(path).split()]


def mappings(pid):
    """Of ours in a program: images, and what else is kept out of forks."""
    images, others = [], []
    for entry in re.split(rb"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", read("/proc/%d/smaps" % pid)):
        words = entry.split(b"\n", 1)[0].split()
        if len(words) < 5:
            continue
        flags = re.search(rb"(?m)^VmFlags:(.*)$", entry)
        kept_out = flags is not None and b"dc" in flags.group(1).split()
        anonymous = len(words) == 5
        if anonymous and words[1].startswith(b"r-x"):
            images.append(words[0].decode())
        elif kept_out and not (len(words) > 5 and words[5].startswith(b"[v")):
            others.append(b" ".join(words).decode())
    return images, others


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result or time.monotonic() > end:
            return result
        time.sleep(0.003)


# --- one recorder ---

class Recorder:
    """Started in a cycle's folder, with a folder for temporary files of its own."""

    def __init__(self, cycle, arguments):
        number = len(cycle.recorders)
        self.cycle = cycle
        self.output = os.path.join(cycle.folder, "data-%d" % number)
        self.tmp = os.path.join(cycle.folder, "tmp-%d" % number)
        self.messages = os.path.join(cycle.folder, "messages-%d" % number)
        self.killed = False
        os.mkdir(self.tmp)
        argv = [cycle.options.pystack, "record", "-o", self.output] + arguments
        cycle.log(" ".join(argv))
        with open(self.messages, "wb") as err:
            self.begin = time.monotonic()
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                env=dict(os.environ, TMPDIR=self.tmp))
        cycle.recorders.append(self)

    def said(self, text):
        return text in read(self.messages).decode(errors="replace")

    def is_recording(self):
        return self.said("Ctrl-C ends it")

    def await_recording(self):
        """False when it ended instead."""
        wait_for(lambda: self.is_recording() or self.process.poll() is not None, PATIENCE)
        if self.process.poll() is None and not self.is_recording():
            raise Trouble("hangs", "a recorder does not get into the program")
        return self.is_recording()

    def signal(self, number):
        self.cycle.log("recorder %d: signal %d" % (self.process.pid, number))
        if self.process.poll() is None:
            self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.killed = True

    def await_end(self):
        """Its status."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Trouble("hangs", "a recorder does not end") from None
        self.cycle.log("recorder %d: status %d" % (self.process.pid, status))
        self.cycle.recorded.append((self.begin, time.monotonic()))
        self.check_messages()
        if not self.killed:
            left = os.listdir(self.tmp)
            left += glob.glob(self.output + ".new-*")
            if left:
                raise Trouble("leftovers", "files of a recorder: %r" % left)
        self.check_file(status)
        return status

    def check_messages(self):
        for line in read(self.messages).decode(errors="replace").splitlines():
            if any(fault in line for fault in FAULTS):
                raise Trouble("crashes", line)
            self.cycle.count("said: " + re.sub(r"[0-9]+", "N", line)[:70], 1)

    def check_file(self, status):
        if not os.path.exists(self.output):
            if status == 0:
                raise Trouble("leftovers", "a recorder made no file")
            return
        for command in (["report", "--stats"], ["report", "--stdio"], ["script"]):
            done = subprocess.run([self.cycle.options.pystack] + command + ["-i", self.output],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if done.returncode != 0:
                raise Trouble("crashes", "%s of a file: status %d: %s" % (
                    command[0], done.returncode, done.stderr.decode(errors="replace")))
            for held in re.findall(rb"(?m)^ *(\d+)  held", done.stdout):
                self.cycle.longest("held", int(held) / 1e6)
        self.cycle.count("files read", 1)


# --- one program ---

class Cycle:
    def __init__(self, options, number, top):
        self.options, self.number = options, number
        self.chance = random.Random("%s/%d" % (options.seed, number))
        self.folder = os.path.join(top, "c%d" % number)
        os.mkdir(self.folder)
        self.python = self.chance.choice(options.python)
        self.kind = self.chance.choice(options.kind)
        self.counts, self.most = {}, {}
        self.recorders, self.recorded = [], []
        self.program = None         # started by us: its Popen
        self.pid = 0
        self.stray_statuses = {}    # of those that came to us as orphans
        self.kills, self.stops = [], []     # times of what a sleeper may feel
        self.images_allowed = self.others_allowed = self.dead_allowed = 0
        self.was_killed = False

    def log(self, text):
        with open(os.path.join(self.folder, "log"), "a") as f:
            f.write("%.4f %s\n" % (time.monotonic(), text))

    def count(self, what, n):
        self.counts[what] = self.counts.get(what, 0) + n

    def longest(self, what, value):
        self.most[what] = max(self.most.get(what, 0), value)

    # --- processes ---

    def mine(self):
        """Processes that bear this cycle's folder in their command line."""
        token = self.folder.encode() + b"\0"
        inside = self.folder.encode() + b"/"
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                line = read("/proc/%s/cmdline" % name)
                if token in line or inside in line:
                    found.append(int(name))
        return found

    def tasks(self):
        recorders = [r.process.pid for r in self.recorders]
        return [pid for pid in self.mine()
                if pid not in recorders and stat_of(pid)[0] == "pystack" and lives(pid)]

    def dead_tasks(self):
        return [c for c in children_of(self.pid) if stat_of(c) == ("pystack", "Z")]

    def reap_strays(self):
        known = [r.process.pid for r in self.recorders]
        known += [self.program.pid] if self.program else []
        for pid in children_of(os.getpid()):
            if pid in known or stat_of(pid)[1] != "Z":
                continue
            name = stat_of(pid)[0]
            try:
                found, status = os.waitpid(pid, WALL | os.WNOHANG)
            except ChildProcessError:
                continue
            if found == 0:      # its other threads are still there
                continue
            self.stray_statuses[pid] = status
            if name == "pystack":
                self.count("dead tasks left to their reaper", 1)

    def program_argv(self):
        return [self.python, os.path.join(HERE, "program.py"), self.kind, self.folder,
                str(PROGRAM_SECONDS)]

    def await_program(self):
        """Until it has told its number, or is not there at all: false then."""
        starters = [r.process for r in self.recorders] + [self.program]

        def told():
            self.reap_strays()
            text = read(os.path.join(self.folder, "pid"))
            over = all(p is None or p.poll() is not None for p in starters)
            return int(text) if text else -1 if over and not self.mine() else 0
        pid = wait_for(told, PATIENCE)
        if pid == 0:
            raise Trouble("hangs", "the program does not start")
        if pid > 0:
            self.pid = pid
            wait_for(lambda: self.beat() > 0 or not lives(pid), PATIENCE)
        return pid > 0

    def beat(self):
        return int(read(os.path.join(self.folder, "beat")) or 0)

    def program_status(self):
        """Of the program that has ended, as subprocess has it; None if nobody knows."""
        if self.program is not None:
            return self.program.wait(PATIENCE)

        def is_known():
            self.reap_strays()
            return self.pid in self.stray_statuses or not stat_of(self.pid)[1]
        wait_for(is_known, PATIENCE)
        status = self.stray_statuses.get(self.pid)
        if status is None:
            return None
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    # --- what must hold ---

    def check_broken(self):
        text = read(os.path.join(self.folder, "broken")).decode(errors="replace").strip()
        if text:
            kind = "short sleeps" if ": short: " in text else "crashes"
            raise Trouble(kind, "the program found: " + text[:600])

    def check_lives(self):
        """The program goes on as if nothing had been."""
        if not lives(self.pid):
            raise Trouble("crashes", "the program has ended: status %s" %
                          self.program_status())
        before = self.beat()
        if not wait_for(lambda: self.beat() > before or not lives(self.pid), PATIENCE):
            raise Trouble("hangs", "the program stands still")
        if not lives(self.pid):
            raise Trouble("crashes", "the program has ended: status %s" %
                          self.program_status())
        self.check_broken()
        if b"TracerPid:\t0\n" not in read("/proc/%d/status" % self.pid):
            raise Trouble("leftovers", "the program is traced still")

    def check_left(self):
        """No task, and no more of other things than is documented."""
        if not wait_for(lambda: not self.tasks(), SETTLE):
            raise Trouble("leftovers", "tasks: %r" % self.tasks())
        if self.kind != "forks":
            # A child may just be in between.
            strays = [p for p in self.mine() if p != self.pid and lives(p) and
                      stat_of(p)[0] not in ("sh",) and self.kind != "asyncio"]
            if strays:
                raise Trouble("leftovers", "processes: %r" % [
                    (p, stat_of(p)) for p in strays])
        dead = self.dead_tasks()
        if len(dead) > self.dead_allowed:
            raise Trouble("leftovers", "%d dead tasks, not %d" % (
                len(dead), self.dead_allowed))
        images, others = mappings(self.pid)
        if len(images) > self.images_allowed or len(others) > self.others_allowed:
            raise Trouble("leftovers", "mappings: %r, %r; allowed: %d, %d" % (
                images, others, self.images_allowed, self.others_allowed))
        self.longest("images left in a program", len(images))
        self.reap_strays()

    def check_sleeps(self):
        """System calls may only have been interrupted by what we did ourselves."""
        kills = list(self.kills)
        for line in read(os.path.join(self.folder, "interrupted")).decode().splitlines():
            begin, end, name = line.split()
            begin, end = float(begin), float(end)
            if any(begin < b + AROUND and end > a - AROUND for a, b in self.stops):
                self.count("calls interrupted by a SIGSTOP of ours", 1)
                continue
            excuse = [k for k in kills if begin - AROUND < k < end + AROUND]
            if not excuse:
                raise Trouble("short sleeps", "%s from %.4f to %.4f was interrupted" % (
                    name, begin, end))
            kills.remove(excuse[0])
            self.count("calls interrupted by a killed injector", 1)

    def measure_gaps(self):
        for line in read(os.path.join(self.folder, "gaps")).decode().splitlines():
            end, length = map(float, line.split())
            begin = end - length
            if any(begin < b + AROUND and end > a - AROUND for a, b in self.stops):
                continue
            beside = any(begin < b and end > a for a, b in self.recorded)
            which = "recorded" if beside else "alone"
            self.longest("gap " + which, length * 1e3)
            self.count("gaps " + which, 1)

    # --- rounds of an attached recorder; each returns whether the program is to go on ---

    def attach(self, *arguments):
        rate = self.chance.choice(RATES)
        options = ["-F", rate] + (["--no-inherit"] if self.chance.random() < 0.2 else [])
        options += ["--max-stack", "8"] if self.chance.random() < 0.1 else []
        return Recorder(self, options + list(arguments) + ["-p", str(self.pid)])

    def expect(self, recorder, statuses=(0,)):
        """It ends with one of these, or had refused."""
        status = recorder.await_end()
        if status == 125 and not recorder.is_recording():
            self.count("refused", 1)
        elif status not in statuses:
            raise Trouble("crashes", "a recorder ended with status %d" % status)
        else:
            self.count("recordings", 1)
            # Whoever gets in reaps what others have left, if that was dead by then.
            if status == 0 and recorder.is_recording():
                self.dead_allowed = 0

    def note_killed(self, recorder):
        self.kills.append(time.monotonic())
        # The task may run for the instant until it sees it.
        self.images_allowed += 1
        self.dead_allowed += 1
        if not recorder.is_recording():
            self.others_allowed += 2
        self.count("recorders killed", 1)

    def pause(self, longest):
        time.sleep(self.chance.random() * longest)

    def round_detach(self):
        recorder = self.attach()
        if recorder.await_recording():
            self.pause(LATER)
            recorder.signal(self.chance.choice(
                [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]))
        self.expect(recorder)
        return True

    def round_duration(self):
        self.expect(self.attach("-d", "%.3f" % (0.01 + self.chance.random() * LATER)))
        return True

    def round_early_signal(self):
        recorder = self.attach()
        self.pause(EARLY)
        number = self.chance.choice([signal.SIGINT, signal.SIGTERM])
        recorder.signal(number)
        # Before it has set up its signals, the signal ends it.
        self.expect(recorder, (0, -number))
        return True

    def kill_recorder(self, longest):
        recorder = self.attach()
        self.pause(longest)
        recorder.signal(signal.SIGKILL)
        self.note_killed(recorder)
        self.expect(recorder, (-signal.SIGKILL, 125))
        return True

    def round_kill_early(self):
        return self.kill_recorder(EARLY)

    def round_kill(self):
        return self.kill_recorder(LATER)

    def round_kill_task(self):
        recorder = self.attach()
        if recorder.await_recording():
            self.pause(LATER)
            self.kill_tasks()
            if not self.counts.get("tasks killed") or self.kind == "forks":
                recorder.signal(signal.SIGINT)
        self.expect(recorder)
        return True

    def kill_tasks(self):
        for pid in self.tasks():
            self.log("task %d: killed" % pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.count("tasks killed", 1)

    def round_kill_both(self):
        recorder = self.attach()
        self.pause(LATER)
        acts = [lambda: recorder.signal(signal.SIGKILL), self.kill_tasks]
        self.chance.shuffle(acts)
        for act in acts:
            act()
        self.note_killed(recorder)
        self.others_allowed += 2    # the ring and the arena of a task that cannot tidy
        self.expect(recorder, (-signal.SIGKILL, 0, 125))
        return True

    def round_stop_recorder(self):
        recorder = self.attach()
        if recorder.await_recording():
            recorder.signal(signal.SIGSTOP)
            time.sleep(PARK if self.chance.random() < 0.1 else 0.1)
            recorder.signal(signal.SIGCONT)
            self.pause(LATER)
            recorder.signal(signal.SIGINT)
        self.expect(recorder)
        return True

    def round_stop_program(self):
        recorder = self.attach()
        self.pause(EARLY * 2)
        begin = time.monotonic()
        self.log("program: stopped")
        os.kill(self.pid, signal.SIGSTOP)
        self.pause(LATER)
        os.kill(self.pid, signal.SIGCONT)
        self.stops.append((begin, time.monotonic()))
        if recorder.await_recording():
            recorder.signal(signal.SIGINT)
        self.expect(recorder)
        return True

    def round_two(self):
        recorders = [self.attach(), self.attach()]
        self.pause(EARLY)
        begun = [r for r in recorders if r.await_recording()]
        if len(begun) > 1:
            self.count("two recorders at once", 1)
        for recorder in begun:
            recorder.signal(signal.SIGINT)
        for recorder in recorders:
            self.expect(recorder)
        return True

    def round_end(self):
        recorder = self.attach()
        self.pause(LATER)
        self.stop_program()
        self.expect(recorder)
        return False

    def kill_program(self, longest):
        recorder = self.attach()
        self.pause(longest)
        self.end_program_by(signal.SIGKILL)
        self.expect(recorder)
        return False

    def round_kill_program_early(self):
        return self.kill_program(EARLY)

    def round_kill_program(self):
        return self.kill_program(LATER)

    ATTACHED = ("detach", "detach", "duration", "early_signal", "kill_early", "kill_early",
                "kill_early", "kill", "kill_task", "kill_both", "stop_recorder",
                "stop_program", "two", "end", "kill_program_early", "kill_program")

    # --- the round of a recorder that starts the program ---

    SPAWNED = ("kill_early", "kill", "kill", "kill_task", "duration", "kill_program", "end",
               "signal", "stop_recorder")

    def spawn(self, act):
        argv = self.program_argv()
        if self.chance.random() < 0.3:
            argv = ["/bin/sh", "-c", '"$@"; exit $?', "sh"] + argv
        options = ["-F", self.chance.choice(RATES)]
        if act == "duration":
            options += ["-d", "%.3f" % (0.01 + self.chance.random() * LATER)]
        return Recorder(self, options + ["--"] + argv)

    def start_spawned(self):
        """Start it and do one thing; returns whether it is to go on."""
        act = self.chance.choice(self.SPAWNED)
        self.log("spawn, " + act)
        self.count("spawned", 1)
        recorder = self.spawn(act)
        if act == "kill_early":
            self.pause(EARLY)
            recorder.signal(signal.SIGKILL)
            self.note_killed(recorder)
            self.expect(recorder, (-signal.SIGKILL,))
            return self.await_program()
        if not self.await_program():
            raise Trouble("crashes", "a recorder does not start its program: status %s" %
                          recorder.await_end())
        self.pause(LATER)
        if act == "kill":
            recorder.signal(signal.SIGKILL)
            self.note_killed(recorder)
            self.expect(recorder, (-signal.SIGKILL,))
            return True
        if act == "kill_task":
            self.kill_tasks()
            # They have nobody who could unmap what is theirs.
            self.others_allowed += 2
        elif act == "stop_recorder":
            recorder.signal(signal.SIGSTOP)
            time.sleep(0.1)
            recorder.signal(signal.SIGCONT)
        elif act == "signal":
            recorder.signal(signal.SIGINT)      # for the program alone: nothing happens
            self.pause(LATER)
        if act != "kill_program":
            self.check_lives()
        if act == "kill_program":
            self.end_program_by(signal.SIGKILL)
            self.expect(recorder, (128 + signal.SIGKILL,))
        else:
            self.stop_program()
            self.expect(recorder)
        return False

    # --- the whole ---

    def stop_program(self):
        self.log("program: asked to end")
        with open(os.path.join(self.folder, "stop"), "w"):
            pass

    def end_program_by(self, number):
        self.log("program: signal %d" % number)
        os.kill(self.pid, number)
        self.was_killed = True

    def start_alone(self):
        with open(os.path.join(self.folder, "out"), "wb") as out:
            self.program = subprocess.Popen(self.program_argv(), stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out)
        if not self.await_program():
            raise Trouble("crashes", "the program did not start")

    def rounds(self):
        for _ in range(self.chance.randint(1, 6)):
            if self.kind == "clock":
                self.pause(1.0)
            act = self.chance.choice(self.ATTACHED)
            self.log("attached, " + act)
            self.count("rounds", 1)
            if not getattr(self, "round_" + act)():
                return False
            self.check_lives()
            self.check_left()
        return True

    def check_end(self):
        if not wait_for(lambda: not lives(self.pid), PATIENCE):
            raise Trouble("hangs", "the program does not end")
        status = self.program_status()
        if status is not None and status != (-signal.SIGKILL if self.was_killed else 0):
            raise Trouble("crashes", "the program ended with status %d" % status)
        if not self.was_killed and not os.path.exists(os.path.join(self.folder, "done")):
            raise Trouble("crashes", "the program did not get to its end")
        self.check_broken()

        def nothing_is_left():
            self.reap_strays()
            return not self.mine()
        if not wait_for(nothing_is_left, SETTLE):
            raise Trouble("leftovers", "after the program's end: %r" % [
                (pid,) + stat_of(pid) for pid in self.mine()])

    def run(self):
        self.log("%s %s" % (self.python, self.kind))
        spawned = self.chance.random() < 0.4
        if spawned:
            goes_on = self.start_spawned()
            if goes_on:
                self.check_lives()
                self.check_left()
        else:
            self.start_alone()
            goes_on = True
        if goes_on and self.rounds():
            self.stop_program()
        if self.pid:
            self.check_end()
        self.check_sleeps()
        self.measure_gaps()
        if self.kind == "clock":
            self.count("seconds recorded", sum(b - a for a, b in self.recorded))

    def end(self):
        """Whatever happened, nothing that was started outlives the cycle."""
        end = time.monotonic() + PATIENCE
        while True:
            self.reap_strays()
            for r in self.recorders:
                r.process.poll()
            if self.program is not None:
                self.program.poll()
            mine = self.mine()
            if not mine or time.monotonic() > end:
                return
            for pid in mine:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)


# --- workers: each a process of its own, so that orphans are known to be its cycle's ---

def work(options, top, first, step, until, pipe):
    number = first
    while time.monotonic() < until:
        cycle = Cycle(options, number, top)
        begin = time.monotonic()
        report = {"cycle": number, "kind": cycle.kind, "python": cycle.python}
        try:
            cycle.run()
        except Trouble as e:
            report["trouble"] = [e.kind, str(e)]
        except Interrupted:
            report["over"] = True
        except Exception:
            report["trouble"] = ["crashes", "of this script: " + traceback.format_exc()]
        finally:
            cycle.end()
        report.update(counts=cycle.counts, most=cycle.most, folder=cycle.folder,
                      seconds=time.monotonic() - begin)
        if "trouble" not in report:
            shutil.rmtree(cycle.folder, ignore_errors=True)
        os.write(pipe, json.dumps(report).encode() + b"\n")
        if "over" in report or options.cycle is not None:
            return
        number += step


def on_term(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Interrupted


def start_worker(options, top, first, step, until):
    ends = os.pipe()
    pid = os.fork()
    if pid != 0:
        os.close(ends[1])
        return pid, ends[0]
    status = 1
    try:
        os.setpgid(0, 0)    # Ctrl-C is for the one that started us
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, on_term)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        work(options, top, first, step, until, ends[1])
        status = 0
    except Interrupted:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


# --- the figures ---

class Totals:
    def __init__(self):
        self.cycles, self.counts, self.most, self.longest_cycle = 0, {}, {}, 0
        self.troubles = {kind: 0 for kind in KINDS_OF_TROUBLE}
        self.pythons = {}

    def add(self, report):
        self.cycles += "over" not in report
        self.longest_cycle = max(self.longest_cycle, report["seconds"])
        self.pythons[report["python"]] = self.pythons.get(report["python"], 0) + 1
        for name, n in report["counts"].items():
            self.counts[name] = self.counts.get(name, 0) + n
        for name, value in report["most"].items():
            self.most[name] = max(self.most.get(name, 0), value)
        if "trouble" in report:
            kind, text = report["trouble"]
            self.troubles[kind] += 1
            print("cycle %d (%s, %s): %s: %s\n    see %s" % (
                report["cycle"], report["kind"], report["python"], kind, text,
                report["folder"]), flush=True)

    def progress(self, seconds):
        print("%5.0f s: %d cycles, %s; load %s" % (
            seconds, self.cycles, self.verdict(), read("/proc/loadavg").split()[0].decode()),
            flush=True)

    def verdict(self):
        return ", ".join("%d %s" % (self.troubles[kind], kind) for kind in KINDS_OF_TROUBLE)

    def show(self, seconds):
        said = {k: n for k, n in self.counts.items() if k.startswith("said: ")}
        print("\nWhat recorders said (N: a number):")
        for text, n in sorted(said.items(), key=lambda item: -item[1]):
            print("%8d  %s" % (n, text[6:]))
        print("\n%d cycles in %.0f s, over %d Pythons:" % (
            self.cycles, seconds, len(self.pythons)))
        for name, n in sorted(self.counts.items()):
            if not name.startswith(("said: ", "gaps ", "seconds ")):
                print("%8d  %s" % (n, name))
        print("%8.1f  ms: the longest that a program was held for a recording, in all"
              % self.most.get("held", 0))
        for which in ("recorded", "alone"):
            print("%8.1f  ms: the longest gap of a spinning clock, %s" % (
                self.most.get("gap " + which, 0), which))
        print("%8d  image(s) of killed recorders in one program, at most"
              % self.most.get("images left in a program", 0))
        print("\n" + self.verdict())


# --- all ---

def find_pythons():
    """Every CPython that pystack samples, by its path."""
    root = subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.decode().strip() \
        if shutil.which("pyenv") else ""
    paths = sorted(glob.glob(root + "/versions/3.*/bin/python3")) if root else []
    return [p for p in paths + ["/usr/bin/python3"] if can_be_sampled(p)]


def can_be_sampled(path):
    test = "import sys; v = sys.version_info; sys.exit(not (3, 8) <= v[:2] <= (3, 15) " \
        "or sys.implementation.name != 'cpython')"
    return os.access(path, os.X_OK) and subprocess.call([path, "-c", test]) == 0


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--seconds", type=float, default=600, metavar="S",
                   help="how long (%(default)s)")
    p.add_argument("--seed", default="1", help="of all that is random (%(default)s)")
    p.add_argument("--pystack", default="src/pystack", metavar="FILE",
                   help="the program to test (%(default)s)")
    p.add_argument("--python", action="append", metavar="FILE",
                   help="a Python to run programs with; may be given again (all there are)")
    p.add_argument("--kind", action="append", choices=KINDS,
                   help="a kind of program; may be given again (all)")
    p.add_argument("--jobs", type=int, default=2, metavar="N",
                   help="programs at a time (%(default)s)")
    p.add_argument("--cycle", type=int, metavar="N", help="this cycle alone")
    o = p.parse_args()
    o.python = o.python or find_pythons()
    o.kind = o.kind or list(KINDS)
    o.pystack = os.path.abspath(o.pystack)
    o.jobs = 1 if o.cycle is not None else o.jobs
    if not os.access(o.pystack, os.X_OK):
        p.error("no pystack at %s (build first, or give --pystack)" % o.pystack)
    if not o.python:
        p.error("no CPython 3.8 to 3.15 found; give --python")
    if o.jobs < 1 or o.seconds <= 0:
        p.error("--jobs and --seconds are more than 0")
    return o


def collect(workers, totals, begin):
    """Until all workers have ended."""
    texts = {fd: b"" for _, fd in workers}
    shown = begin
    while texts:
        ready, _, _ = select.select(list(texts), [], [], 1.0)
        for fd in ready:
            data = os.read(fd, 1 << 16)
            lines = (texts[fd] + data).split(b"\n")
            texts[fd] = lines.pop()
            for line in lines:
                totals.add(json.loads(line))
            if not data:
                del texts[fd]
        if time.monotonic() - shown > PROGRESS:
            shown = time.monotonic()
            totals.progress(shown - begin)


def on_interrupt(number, frame):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)       # once is enough
    raise KeyboardInterrupt


def main():
    options = parse_arguments()
    totals = Totals()
    begin = time.monotonic()
    top = tempfile.mkdtemp(prefix="pystack-soak-")
    first = options.cycle if options.cycle is not None else 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_interrupt)
    print("seed %s, %d Pythons, %s" % (options.seed, len(options.python), options.pystack),
          flush=True)
    workers = [start_worker(options, top, first + i, options.jobs, begin + options.seconds)
               for i in range(options.jobs)]
    failed = interrupted = False
    try:
        collect(workers, totals, begin)
    except KeyboardInterrupt:
        interrupted = True
        print("soak: interrupted", file=sys.stderr)
        for pid, _ in workers:
            os.kill(pid, signal.SIGTERM)
        collect(workers, totals, begin)
    finally:
        for pid, _ in workers:
            failed |= os.waitpid(pid, 0)[1] != 0
    totals.show(time.monotonic() - begin)
    failed |= any(totals.troubles.values())
    if not failed:
        shutil.rmtree(top, ignore_errors=True)
    return 1 if failed else 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
