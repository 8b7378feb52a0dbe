# SPDX-License-Identifier: Apache-2.0
"""Writes down what a program and its children can see of their surroundings.

usage: surroundings.py FILE
"""
import os
import resource
import signal
import subprocess
import sys
import threading

LOOK = "import os; print(sorted(os.environ.items())); print(sorted(os.listdir('/proc/self/fd')))"
VARIES = ("_", "SHLVL", "BATS_", "FUNCNAME")


def environment(env):
    return [(k, v) for k, v in sorted(env.items()) if not k.startswith(VARIES)]


def descriptors():
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue
        found[int(fd)] = target.split(":")[0]
    return sorted(found.items())


# A sampler that loads has handlers of these there, while it does: as is documented.
OURS = ("SIGBUS", "SIGSEGV") if os.environ.get("TEST_MODE") == "thread-fast" else ()


def status():
    keys = ("SigQ", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm",
            "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Threads", "Groups", "Uid", "Gid",
            "Umask", "TracerPid", "Cpus_allowed_list", "CoreDumping")
    return [line.strip() for line in open("/proc/self/status")
            if line.split(":")[0] in keys and not line.startswith("SigQ")
            and not (OURS and line.startswith("SigCgt"))]


def main():
    lines = []
    say = lambda *words: lines.append(" ".join(map(str, words)))
    say("environment", environment(os.environ))
    say("descriptors", descriptors())
    for line in status():
        say(line)
    for name in dir(signal):
        if name.startswith("SIG") and not name.startswith("SIG_"):
            number = getattr(signal, name)
            if isinstance(number, signal.Signals) and name not in OURS:
                say(name, signal.getsignal(number))
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            say(name, resource.getrlimit(getattr(resource, name)))
    say("affinity", sorted(os.sched_getaffinity(0)), "policy", os.sched_getscheduler(0),
        "nice", os.nice(0), "cwd", os.getcwd(), "session", os.getsid(0) == os.getppid(),
        "threads", threading.active_count())
    say("oom", open("/proc/self/oom_score_adj").read().strip())
    say("flags", sys.flags, "path", sys.path[1:], "prefix", sys.prefix)
    say("modules", sorted(m for m in sys.modules if "." not in m))
    for flag in (os.WNOHANG, os.WNOHANG | 0x40000000):     # __WALL
        try:
            say("child", os.waitpid(-1, flag))
        except ChildProcessError as e:
            say("no child", e.errno)
    children = open("/proc/self/task/%d/children" % os.getpid()).read().split()
    say("children", children)
    out = subprocess.check_output(["/bin/sh", "-c", "env; ls /proc/self/fd"]).decode()
    say("shell", sorted(l for l in out.split("\n") if not l.startswith(VARIES)
                        and not l.isdigit()))
    out = subprocess.check_output([sys.executable, "-c", LOOK], close_fds=False).decode()
    say("python", [l for l in out.split("\n") if "BATS_" not in l])
    # After a fork nothing of ours is in the child either, but what its own task has, which
    # may be mapping it right now: the kernel then tells of a mapping twice at times.
    pid = os.fork()
    if pid == 0:
        rings = {l.split("-")[0] for l in open("/proc/self/maps") if "pystack-ring" in l}
        os._exit(max(len(rings) - 1, 0))
    say("forked", os.waitpid(pid, 0)[1])
    with open(sys.argv[1], "w") as f:
        f.write("\n".join(lines) + "\n")


main()
