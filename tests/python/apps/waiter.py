# SPDX-License-Identifier: Apache-2.0
"""Waits for children in every way there is, and must find its own alone.

usage: waiter.py handler|pending FOLDER

Makes rounds until FOLDER has a file "stop" and writes their number to "beat".  handler:
SIGCHLD is counted by a handler; pending: it is blocked and taken from a signalfd.  Each
child of its own is one signal, and there may be no other.  Prints DONE, or BROKEN and what.
"""
import ctypes
import os
import signal
import sys
import threading
import time

how, folder = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
NO_THREAD = 0x20000000      # __WNOTHREAD
broken = []
seen = own = 0


def wait_ways(flags):
    """Every wait without __WALL and __WCLONE, as a call that returns a pid or 0."""
    yield "waitpid(-1)", lambda: os.waitpid(-1, flags)[0]
    yield "waitpid(0)", lambda: os.waitpid(0, flags)[0]
    yield "waitpid(-group)", lambda: os.waitpid(-os.getpgrp(), flags)[0]
    yield "wait3", lambda: os.wait3(flags)[0]
    yield "wait4", lambda: os.wait4(-1, flags)[0]
    yield "__WNOTHREAD", lambda: os.waitpid(-1, flags | NO_THREAD)[0]
    yield "stopped", lambda: os.waitpid(-1, flags | os.WUNTRACED | os.WCONTINUED)[0]
    for kind, number in ((os.P_ALL, 0), (os.P_PGID, os.getpgrp())):
        yield "waitid", lambda k=kind, n=number: waitid(k, n, os.WEXITED | flags)
        yield "waitid, left", lambda k=kind, n=number: waitid_left(k, n, flags)
    if not flags:
        yield "wait", lambda: os.wait()[0]


def waitid(kind, number, flags):
    result = os.waitid(kind, number, flags)
    return result.si_pid if result else 0


def waitid_left(kind, number, flags):
    """With WNOWAIT, which leaves it to be reaped by its number."""
    pid = waitid(kind, number, os.WEXITED | os.WNOWAIT | flags)
    if pid:
        os.waitpid(pid, 0)
    return pid


def on_child(number, frame):
    global seen
    seen += 1


def start_child(status):
    global own
    own += 1
    pid = os.fork()
    if pid == 0:
        os._exit(status)
    return pid


def check_none():
    """There is no child: no wait blocks, and none finds one."""
    for flags in (0, os.WNOHANG):
        for name, call in wait_ways(flags):
            try:
                broken.append("%s: child %r" % (name, call()))
            except ChildProcessError:
                pass


def check_own():
    for name, call in wait_ways(0):
        pid = start_child(3)
        found = call()
        if found != pid:
            broken.append("%s: child %d instead of %d" % (name, found, pid))
        take_signals()


def signal_fd():
    mask = (ctypes.c_ulong * 16)(1 << (signal.SIGCHLD - 1))
    return libc.signalfd(-1, mask, os.O_NONBLOCK | os.O_CLOEXEC)


def take_signals():
    """Counts the ones that wait; the handler's come by themselves."""
    global seen
    while how == "pending":
        try:
            seen += len(os.read(fd, 128)) // 128
        except BlockingIOError:
            return


def write_beat(n):
    with open(folder + "/beat.new", "w") as f:
        f.write("%d\n" % n)
    os.rename(folder + "/beat.new", folder + "/beat")


def main():
    n = 0
    while not os.path.exists(folder + "/stop"):
        # In the first thread and in another, whose children they all are.
        check_none()
        check_own()
        thread = threading.Thread(target=check_none)
        thread.start()
        thread.join()
        take_signals()
        if seen != own:
            broken.append("%d SIGCHLD for %d children" % (seen, own))
        n += 1
        write_beat(n)
        if broken:
            break
        time.sleep(0.005)


signal.alarm(100)      # a wait that blocks is a failure too
if how == "pending":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    fd = signal_fd()
else:
    signal.signal(signal.SIGCHLD, on_child)
main()
for text in broken[:5]:
    print("BROKEN: " + text)
print("" if broken else "DONE")
