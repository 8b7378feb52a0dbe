# SPDX-License-Identifier: Apache-2.0
"""The Pythons that programs are run with, and the folder with the peers."""
import glob
import json
import os
import shutil
import subprocess
import sys

PINNED = {  # peer: what pip is asked for
    "py-spy": ["py-spy==0.4.3"],
    "austin": ["austin-dist==3.7.0"],
    "ddtrace": ["ddtrace==4.16.0", "zstandard==0.25.0"],
}
PIP_SECONDS = 600
TACHYON = (3, 15)
TRAMPOLINE = (3, 12)
PERF_JIT = (3, 13)

QUESTION = """\
import platform, sys, sysconfig
flags = sysconfig.get_config_var("CFLAGS") or ""
print(sys.executable, platform.python_version(), sys.implementation.name,
      "-fno-omit-frame-pointer" in flags, sep="\\n")
"""


def output_of(*argv):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout.decode(errors="replace").strip()


class Python:
    """An interpreter itself, not a script that looks for one; maybe in another root."""

    def __init__(self, executable, text, frame_pointers, root=""):
        self.root, self.text, self.frame_pointers = root, text, frame_pointers
        self.version = tuple(int(part) for part in text.split(".")[:2])
        self.argv = (["chroot", root] if root else []) + [executable]
        self.executable = executable

    def inside(self, path):
        """A path as the program sees it."""
        return path[len(self.root):]


def find_python(name, root=""):
    """None if that is not a CPython."""
    words = (["chroot", root] if root else []) + [name, "-c", QUESTION]
    lines = output_of(*words).splitlines()
    if len(lines) != 4 or lines[2] != "cpython":
        return None
    return Python(lines[0], lines[1], lines[3] == "True", root)


def find_tachyon(path, main):
    """(Python with profiling.sampling, None), or (None, why not)."""
    root = os.environ.get("PYSTACK_TEST_ROOT", "").rstrip("/")
    found = [main if main.version >= TACHYON else None]
    if path:
        found = [find_python(path)]
        if found[0] is None:
            return None, "'%s' is not a CPython" % path
    elif shutil.which("python3.15"):
        found.append(find_python("python3.15"))
    if not any(found) and root:
        if not os.path.exists(root + "/proc/self/stat"):
            return None, "no /proc is mounted in PYSTACK_TEST_ROOT"
        found = [find_python("/usr/bin/python3.15", root)]
    for python in found:
        if python is not None and output_of(
                *python.argv, "-c", "import profiling.sampling as m; print(m)"):
            return python, None
    return None, ("no CPython 3.15 with profiling.sampling here (--python315, or "
                  "PYSTACK_TEST_ROOT for one in another root)")


def find_perf(path, others):
    """(perf, Python it can read, None), or (None, None, why not).  Best is one with
    frame pointers; without them 3.13 and later write what DWARF needs."""
    perf = shutil.which("perf")
    if perf is None:
        return None, None, "no perf on the path"
    names = [path] if path else ["python3.%d" % minor for minor in (15, 14, 13, 12)]
    root = output_of("pyenv", "root")
    if root and not path:
        names += sorted(glob.glob(root + "/versions/3.1[2-9].*/bin/python3"),
                        reverse=True)
    found = [] if path else others
    found += [find_python(name) for name in names if shutil.which(name)]
    found = [python for python in found if python is not None]
    for python in found:
        if python.version >= TRAMPOLINE and python.frame_pointers:
            return perf, python, None
    for python in found:
        if python.version >= PERF_JIT:
            return perf, python, None
    return None, None, ("no CPython 3.12 with frame pointers here, and none from 3.13 "
                        "on (--python-perf)")


class Folder:
    """A virtual environment for the peers; nothing else on the machine is changed."""

    def __init__(self, path, python):
        self.path = os.path.join(path, "cpython-" + python.text)
        self.python = python
        self.list = os.path.join(self.path, "installed.json")
        self.reasons = {}

    def bin(self, name):
        return os.path.join(self.path, "bin", name)

    def installed(self):
        try:
            with open(self.list) as f:
                return json.load(f)
        except (OSError, ValueError):
            return {}

    def run(self, *argv):
        """None, or the last line of what went wrong."""
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=PIP_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as e:
            return str(e)
        if done.returncode == 0:
            return None
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        return (lines or ["status %d" % done.returncode])[-1]

    def install(self, peers, say):
        """What is pinned and is not there yet; why one is not stands in reasons."""
        there = self.installed()
        wanted = [p for p in peers if p in PINNED and there.get(p) != PINNED[p]]
        if not wanted:
            return
        if not os.path.exists(self.bin("python")):
            say("making a virtual environment in %s" % self.path)
            failure = self.run(self.python.executable, "-m", "venv", self.path)
            if failure:
                self.reasons = {p: "no virtual environment: " + failure for p in wanted}
                return
        for peer in wanted:
            say("installing %s" % " ".join(PINNED[peer]))
            failure = self.run(self.bin("python"), "-m", "pip", "install", "--quiet",
                               "--no-input", "--disable-pip-version-check",
                               *PINNED[peer])
            if failure:
                self.reasons[peer] = failure
                continue
            there[peer] = PINNED[peer]
            with open(self.list, "w") as f:
                json.dump(there, f)

    def find(self, peer, program):
        """(path, None), or (None, why not)."""
        if peer in self.reasons:
            return None, "cannot be installed: " + self.reasons[peer][:100]
        path = self.bin(program)
        return (path, None) if os.path.exists(path) else (None, "not in " + self.path)


def default_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "pystack-bench")


def must_find(name):
    python = find_python(name)
    if python is None:
        sys.exit("bench: '%s' is not a CPython" % name)
    return python
