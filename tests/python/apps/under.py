# SPDX-License-Identifier: Apache-2.0
"""Runs a script under conditions that make it hard to be attached to:

under.py CONDITION... -- SCRIPT ARGUMENTS...

ACTION:CALL,CALL...  a seccomp filter that does ACTION (kill, kill-thread, trap, errno, log,
                     trace) at these calls, given by number or name
ACTION:CALL:N:VALUE  the same at this call when its argument N (from 0) has bits of VALUE;
                     !VALUE: when it has none of them
mdwe                 PR_SET_MDWE: no memory that is writable and executable, ever
mlock, mlock-new     mlockall(MCL_CURRENT | MCL_FUTURE), or for what is mapped from now on
undumpable           PR_SET_DUMPABLE 0
subreaper            PR_SET_CHILD_SUBREAPER
memlock=KIB, as=KIB  these limits, beyond what is locked or mapped now
nproc=N              this limit
uid=N                become this user (given up as a whole)
exec                 execute SCRIPT, a command, instead of running it
"""
import ctypes
import os
import resource
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)

CALLS = {
    "mmap": 9, "munmap": 11, "rt_sigaction": 13, "rt_sigprocmask": 14, "pread64": 17,
    "madvise": 28, "clone": 56, "fork": 57, "vfork": 58, "exit": 60, "wait4": 61,
    "fcntl": 72, "ftruncate": 77, "setsid": 112, "prctl": 157, "exit_group": 231,
    "openat": 257, "ppoll": 271, "prlimit64": 302, "kcmp": 312, "seccomp": 317,
    "memfd_create": 319, "pidfd_open": 434, "clone3": 435, "close_range": 436,
    "capset": 126, "chroot": 161, "fchdir": 81, "sched_setaffinity": 203,
    "process_vm_readv": 310, "pwritev": 296, "unshare": 272,
    "clock_gettime": 228, "execve": 59, "readlinkat": 267, "close": 3, "munlock": 150,
}
ACTIONS = {"kill": 0x80000000, "kill-thread": 0, "trap": 0x30000, "errno": 0x50001,
           "log": 0x7FFC0000, "trace": 0x7FF00000}
ALLOW = 0x7FFF0000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06


def must(result, what):
    if result != 0:
        sys.exit("under.py: %s: %s" % (what, os.strerror(ctypes.get_errno())))


def prctl(option, value, what, third=0):
    must(libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(third), 0, 0), what)


def code(*rows):
    return b"".join(struct.pack("HBBI", *row) for row in rows)


def number(call):
    return CALLS[call] if call in CALLS else int(call)


def install(text):
    parts = text.split(":")
    action = ACTIONS[parts[0]]
    program = code((LOAD, 0, 0, 0))
    if len(parts) == 4:
        at, bits = int(parts[2]), int(parts[3].lstrip("!"), 0)
        none = parts[3].startswith("!")
        program += code((EQUAL, 0, 3, number(parts[1])), (LOAD, 0, 0, 16 + 8 * at),
                        (ANY_BIT, none, not none, bits), (RETURN, 0, 0, action))
    else:
        for call in parts[1].split(","):
            program += code((EQUAL, 0, 1, number(call)), (RETURN, 0, 0, action))
    program += code((RETURN, 0, 0, ALLOW))
    buffer = ctypes.create_string_buffer(program)
    filters = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    prctl(38, 1, "no_new_privs")
    must(libc.prctl(22, 2, filters, 0, 0), "seccomp")


def in_status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1])
    sys.exit("under.py: no %s" % name)


def limit(what, beyond):
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        hard = max(hard, beyond)
    resource.setrlimit(what, (beyond, hard))


def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    # Else it cannot be looked into by that user.
    prctl(4, 1, "dumpable")


def apply(text):
    name, _, value = text.partition("=")
    if ":" in text:
        install(text)
    elif text == "mdwe":
        prctl(65, 1, "MDWE")
    elif text == "mlock":
        must(libc.mlockall(3), "mlockall")
    elif text == "mlock-new":
        must(libc.mlockall(2), "mlockall")
    elif text == "undumpable":
        prctl(4, 0, "dumpable")
    elif text == "subreaper":
        prctl(36, 1, "subreaper")
    elif name == "memlock":
        limit(resource.RLIMIT_MEMLOCK, (in_status("VmLck") + int(value)) << 10)
    elif name == "as":
        limit(resource.RLIMIT_AS, (in_status("VmSize") + int(value)) << 10)
    elif name == "nproc":
        limit(resource.RLIMIT_NPROC, int(value))
    elif name == "uid":
        become(int(value))
    else:
        sys.exit("under.py: what is %s?" % text)


# Loaded before it is forbidden to.
import faulthandler, math, unicodedata, select, signal, threading, time  # noqa: E401, F401

end = sys.argv.index("--")
conditions = sys.argv[1:end]
sys.argv = sys.argv[end + 1:]
script = None
if "exec" not in conditions:
    with open(sys.argv[0], "rb") as source:
        script = compile(source.read(), sys.argv[0], "exec")
for condition in conditions:
    if condition != "exec":
        apply(condition)
if "exec" in conditions:
    os.execvp(sys.argv[0], sys.argv)
exec(script, {"__name__": "__main__"})
