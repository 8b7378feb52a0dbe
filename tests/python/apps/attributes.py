# SPDX-License-Identifier: Apache-2.0
"""Writes down what the kernel keeps of a process, at its start, when it has changed some of
it, and of a forked child.

usage: attributes.py FILE alone|spawned|attached

attached: before the first look it waits until it has a child called pystack, and so does
its child, whichever way it was started.  Children alone are followed by attaching to them.
"""
import ctypes
import glob
import os
import resource
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
out, way = sys.argv[1:3]
lines = []
PRCTL = {"dumpable": 3, "keep capabilities": 7, "seccomp": 21, "securebits": 27,
         "timer slack": 30, "no new privileges": 39, "huge pages off": 42}
IOPRIO_GET, SCHED_BATCH = 252, 3


def name_of(pid):
    try:
        with open("/proc/%s/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


def has_task():
    """A task holds a pidfd of its program, and is a child of it or of another reaper."""
    wanted = "Pid:\t%d\n" % os.getpid()
    for path in glob.glob("/proc/[0-9]*/fdinfo/1"):
        try:
            with open(path) as f:
                if wanted in f and name_of(path.split("/")[2]) == "pystack":
                    return True
        except OSError:
            pass
    return False


def await_task():
    end = time.monotonic() + 30
    while not has_task():
        if time.monotonic() > end:
            lines.append("no task came")
            return
        time.sleep(0.01)


def relative(pid):
    """The number of a group or session, the same in every run of one shell."""
    return {os.getpid(): "own", parent: "first's"}.get(pid, pid)


def file_of(name):
    with open("/proc/self/" + name) as f:
        return f.read().split()


def look(when):
    say = lambda *words: lines.append(" ".join([when] + [str(w) for w in words]))
    say("group", relative(os.getpgrp()), "session", relative(os.getsid(0)))
    say("affinity", sorted(os.sched_getaffinity(0)))
    say("nice", os.getpriority(os.PRIO_PROCESS, 0), "policy", os.sched_getscheduler(0),
        os.sched_getparam(0).sched_priority)
    say("I/O priority", libc.syscall(IOPRIO_GET, 1, 0))
    for name in ("cgroup", "oom_score_adj", "coredump_filter", "personality", "loginuid"):
        try:
            say(name, file_of(name))
        except OSError as e:
            say(name, e.errno)
    for name, number in PRCTL.items():
        say(name, libc.prctl(number, 0, 0, 0, 0))
    for name in sorted(dir(resource)):
        if name.startswith("RLIMIT_"):
            say(name, resource.getrlimit(getattr(resource, name)))
    say("name", name_of("self"), "threads", len(os.listdir("/proc/self/task")))
    say("ids", os.getresuid(), os.getresgid(), os.getgroups(), "cwd", os.getcwd())
    for kind in sorted(os.listdir("/proc/self/ns")):
        say("namespace", kind, os.readlink("/proc/self/ns/" + kind))
    say([l for l in open("/proc/self/status") if l.startswith(("Cap", "NoNew", "Seccomp"))])


def change():
    """Each must take effect, and on the program."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.nice(3)
    os.sched_setscheduler(0, SCHED_BATCH, os.sched_param(0))
    with open("/proc/self/oom_score_adj", "w") as f:
        f.write("321")
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
    libc.prctl(4, 0, 0, 0, 0)       # PR_SET_DUMPABLE
    if os.getpgrp() != os.getpid():
        os.setsid()


parent = os.getpid()
if way == "attached":
    await_task()
look("first")
pid = os.fork()
if pid == 0:
    if way != "alone":
        await_task()
    look("child")
    with open(out + ".child", "w") as f:
        f.write("\n".join(lines) + "\n")
    os._exit(0)
lines.append("child %#x" % os.waitpid(pid, 0)[1])
change()
look("changed")
with open(out, "w") as f:
    f.write("\n".join(lines) + "\n")
