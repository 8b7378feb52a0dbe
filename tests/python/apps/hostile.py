# SPDX-License-Identifier: Apache-2.0
"""A root program that gives up its rights and then tries to get them back by the task that
shares its memory: it writes its own code over that of the task.

usage: hostile.py FOLDER VICTIM [stay]

VICTIM is the number of a process of root.  It waits for a file "go" in FOLDER, becomes user
65534 (stay: remains what it is), writes the code, for which the task should stand still, and
says so by a file "written".  What each attempt of the task returned goes to "result": a line
"NAME RESULT" each, RESULT as the kernel gives it.  What it tries must fail, but for the first
line, "ran 1", which says that the task has run the code at all.
"""
import ctypes
import mmap
import os
import struct
import sys
import time

folder, victim = sys.argv[1], int(sys.argv[2])
HERE, CLOEXEC, X32 = -100, 0x80000, 0x40000000
NOBODY = 65534
ROOT = os.getuid() == 0
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Page:
    """Memory for texts and results, whose address the code knows."""

    def __init__(self):
        self.map = mmap.mmap(-1, 65536)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.used = 8192

    def text(self, text):
        at = self.used
        self.map[at:at + len(text) + 1] = text.encode() + b"\0"
        self.used += len(text) + 1 + 7 & ~7
        return self.address + at

    def result(self, number):
        return struct.unpack_from("q", self.map, number * 8)[0]


def attempts(page):
    """(name, call number, arguments); none of these may be of any use."""
    text = page.text
    shadow, shell = text("/etc/shadow"), text("/bin/sh")
    own = "%d/" % os.getpid()
    new = text("/tmp/pystack-was-here")
    yield "setuid", 105, (0,)
    yield "setresuid", 117, (0, 0, 0)
    yield "setgid", 106, (0,)
    yield "capset", 126, (0, 0)
    yield "open", 2, (shadow, 0)
    yield "open by x32", 2 | X32, (shadow, 0)
    yield "openat2", 437, (HERE, shadow, text("\0" * 24), 24)
    yield "openat for writing", 257, (HERE, shadow, 2)
    yield "openat, create", 257, (HERE, new, 0o102 | CLOEXEC, 0o600)
    yield "creat", 85, (new, 0o600)
    # What the filter lets through meets the folder it is shut in.
    for path in ("/etc/shadow", "../../../etc/shadow", own + "root/etc/shadow",
                 own + "cwd/etc/shadow", own + "fd/0", "/proc/1/root/etc/shadow",
                 "/proc/%d/mem" % victim, "%d/mem" % victim, own + "exe"):
        # Another user's program may open these itself.
        if not ROOT and path.endswith(("fd/0", "exe")):
            continue
        yield "openat %s" % path, 257, (HERE, text(path), CLOEXEC)
        yield "openat 2 %s" % path, 257, (2, text(path), CLOEXEC)
    yield "kill", 62, (victim, 9)
    yield "tgkill", 234, (victim, victim, 9)
    yield "pidfd_open", 434, (victim, 0)
    yield "ptrace", 101, (0x4206, victim, 0, 0)
    yield "process_vm_readv", 310, (victim, page.address, 1, page.address, 1, 0)
    yield "execve", 59, (shell, 0, 0)
    yield "execveat", 322, (HERE, shell, 0, 0, 0)
    yield "clone", 56, (17, 0, 0, 0, 0)
    yield "fork", 57, ()
    yield "vfork", 58, ()
    yield "clone3", 435, (page.address, 64)
    yield "unshare", 272, (0x10000000,)
    yield "setns", 308, (1, 0)
    yield "chroot", 161, (text("/"),)
    yield "fchdir", 81, (2,)
    yield "mount", 165, (0, text("/"), 0, 0x1000, 0)
    yield "socket", 41, (1, 1, 0)
    yield "connect", 42, (0, page.address, 110)
    yield "sendmsg", 46, (5, page.address, 0)
    yield "write", 1, (0, page.address, 1)
    yield "memfd_create", 319, (new, 0)
    yield "mmap", 9, (0, 4096, 7, 0x22, -1, 0)
    yield "mprotect", 10, (page.address, 4096, 7)
    yield "prctl", 157, (4, 1, 0, 0, 0)
    yield "seccomp", 317, (1, 0, 0)
    yield "bpf", 321, (0, page.address, 64)
    yield "io_uring_setup", 425, (1, page.address)
    yield "unlink", 87, (new,)
    yield "chmod", 90, (shadow, 0o777)


def load(code, number):
    """mov $number, register"""
    return bytes(code) + struct.pack("<Q", number & (1 << 64) - 1)


ARGUMENTS = ([0x48, 0xbf], [0x48, 0xbe], [0x48, 0xba], [0x49, 0xba], [0x49, 0xb8],
             [0x49, 0xb9])      # rdi, rsi, rdx, r10, r8, r9
RAX = [0x48, 0xb8]
SYSCALL, INT80 = b"\x0f\x05", b"\xcd\x80"
GET_TIME, EXIT = 228, 60


def call(page, index, number, arguments, way=SYSCALL):
    """Makes a system call and stores what it returns."""
    code = b"".join(load(r, a) for r, a in zip(ARGUMENTS, arguments))
    code += load(RAX, number) + way
    # mov %rax, (address)
    return code + b"\x48\xa3" + struct.pack("<Q", page.address + index * 8)


def payload(page, tries):
    """All attempts; then the word 0 says that it was here, and the task ends."""
    code = b""
    for index, (_, number, arguments) in enumerate(tries):
        code += call(page, index + 1, number, arguments)
    # setuid of the 32-bit calls
    code += call(page, len(tries) + 1, 213, (), INT80)
    code += call(page, 0, GET_TIME, (1, page.address + 4096))
    code += load(RAX, 1) + b"\x48\xa3" + struct.pack("<Q", page.address)
    return code + load(RAX, EXIT) + SYSCALL


def code_of_task():
    """Where the task's code lies: in the preload library or in memory without a name."""
    for line in open("/proc/self/maps"):
        words = line.split()
        if words[1].startswith("r-x") and (
                len(words) == 5 or words[5].endswith("pystack-preload.so")):
            return [int(x, 16) for x in words[0].split("-")]
    raise SystemExit("the code of the task is not there")


def overwrite(page, tries):
    """Wherever it returns to from its system call, it slides down to our code."""
    start, end = code_of_task()
    code = payload(page, tries)
    if libc.mprotect(start, end - start, 7) != 0:
        raise SystemExit("the code of the task cannot be written")
    ctypes.memmove(end - len(code), code, len(code))
    ctypes.memset(start, 0x90, end - start - len(code))


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def main():
    page = Page()
    with open(folder + "/ready", "w") as f:
        f.write("%d\n" % os.getpid())
    wait_for(lambda: os.path.exists(folder + "/go"))
    if sys.argv[3:] != ["stay"]:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    tries = list(attempts(page))
    overwrite(page, tries)
    with open(folder + "/written", "w"):
        pass
    wait_for(lambda: page.result(0) == 1)
    with open(folder + "/result", "w") as f:
        f.write("ran %d\n" % page.result(0))
        for index, (name, _, _) in enumerate(tries):
            f.write("%s %d\n" % (name, page.result(index + 1)))
        f.write("setuid by int 0x80 %d\n" % page.result(len(tries) + 1))


main()
