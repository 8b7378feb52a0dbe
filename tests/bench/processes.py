# SPDX-License-Identifier: Apache-2.0
"""Processes that the bench starts, their CPU time, and the line to the program."""
import glob
import json
import os
import re
import select
import signal
import subprocess
import time


class Failed(Exception):
    pass


def cpu_of(pid):
    """CPU seconds of a process, without those of its children; it may be a zombie."""
    return time.clock_gettime((~pid << 3) | 2)


def parent_of(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"^PPid:\s+(\d+)", f.read(), re.M).group(1))


class Child:
    """A process of ours, by Popen, whose CPU time is read before it is reaped."""

    def __init__(self, argv, folder, name):
        self.stem = os.path.join(folder, name)
        # What a sampler keeps in a user's home goes the same way as the rest.
        environment = dict(os.environ, LC_ALL="C.UTF-8", PYTHONHASHSEED="0",
                           PYTHONDONTWRITEBYTECODE="1", TMPDIR=folder, HOME=folder)
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
        cpu = cpu_of(self.process.pid)
        self.process.wait()
        return cpu, lived

    def cpu(self):
        return cpu_of(self.process.pid)

    def peak_mb(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            found = re.search(r"^VmHWM:\s+(\d+) kB", f.read(), re.M)
        return int(found.group(1)) / 1024 if found else None

    def text(self, which):
        with open(self.stem + "." + which, errors="replace") as f:
            return f.read()

    def last_words(self):
        text = re.sub(r"\033\[[0-9;]*m", "", self.text("err") + self.text("out"))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        telling = [line for line in lines
                   if re.search("error|fail|cannot|not |no ", line, re.I)]
        return (telling or lines or ["no message"])[-1][:80]

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self.pidfd)


def end_programs(folder):
    """Those that a sampler left behind: the folder of the run is in their arguments."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            pidfd = os.pidfd_open(int(path.split("/")[2]))
        except OSError:
            continue
        try:
            # What is held cannot be another process of the same number any more.
            with open(path, "rb") as f:
                ours = folder.encode() in f.read().split(b"\0")
            if ours:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except OSError:
            pass  # it has ended
        finally:
            os.close(pidfd)


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
                raise Failed("ended with status %d before the program did: %s" % (
                    child.process.wait(), child.last_words()))
            else:
                raise Failed("the program was not heard of within %d s" % seconds)
        line, self.text = self.text.split(b"\n", 1)
        return json.loads(line)

    def let_go_on(self):
        os.write(self.fds[1], b".")

    def close(self):
        for fd in self.fds:
            os.close(fd)
