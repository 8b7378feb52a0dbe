# SPDX-License-Identifier: Apache-2.0
"""What the sampler may change when it is a thread of the program, and must not.

usage: isolated.py KIND [SECONDS [READY-FILE [GO-FILE]]]

Works in in_main() for SECONDS (1) and prints what KIND is about, "DONE" at the end:
exit-raw, exit-libc  the main thread ends once it is sampled, in_thread() goes on for so
                     long
family               in_child() of a fork, in_grandchild() of a process that is executed,
                     in_exec() behind an exec, each for SECONDS once the sampler is
                     there; statuses 3, 5 and 7
signals              counts SIGTERM, SIGCHLD and SIGUSR1 until all came, the last of
                     which is blocked and waited for
threads              what threading and /proc know of its threads
users                gives up being root, in all its threads
filter               puts a seccomp filter on all its threads
shares               in_a() and in_b() in two threads, the CPU time of each
"""
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
kind = sys.argv[1]
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(500))


def say(*words):
    print(*words, flush=True)


def until_joined(others=1):
    """Until the sampler's thread is there as well; it may not come."""
    end = time.monotonic() + 30
    while len(os.listdir("/proc/self/task")) <= others and time.monotonic() < end:
        spin(0.02)


def in_main(seconds=seconds):
    spin(seconds)


leaving = []


def in_thread():
    while not leaving:
        spin(0.05)
    spin(seconds)
    say("DONE")


def main_exits():
    threading.Thread(target=in_thread, daemon=True).start()
    until_joined(2)
    time.sleep(0.2)
    leaving.append(True)
    if kind == "exit-raw":
        libc.syscall(60, 0)
    else:
        libc.pthread_exit(None)


CODE = """import os, sys, time
def %s():
    end = time.monotonic() + 30
    while len(os.listdir("/proc/self/task")) < 2 and time.monotonic() < end:
        sum(range(500))
    end = time.monotonic() + %s
    while time.monotonic() < end:
        sum(range(500))
%s()
sys.exit(%d)
"""


def in_child():
    until_joined()
    spin(seconds)


def family():
    pid = os.fork()
    if pid == 0:
        in_child()
        os._exit(3)
    in_main()
    say("child", os.waitpid(pid, 0)[1] >> 8)
    code = CODE % ("in_grandchild", seconds, "in_grandchild", 5)
    say("grandchild", subprocess.run([sys.executable, "-c", code]).returncode)
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "raise SystemExit(6)"],
                         os.environ)
    say("spawned", os.waitpid(pid, 0)[1] >> 8)
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        say("no other")
    code = CODE % ("in_exec", seconds, "in_exec", 7)
    os.execv(sys.executable, [sys.executable, "-c", code])


def signals():
    got = {signal.SIGTERM: 0, signal.SIGCHLD: 0}
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    for number in got:
        signal.signal(number, lambda n, frame: got.__setitem__(n, got[n] + 1))
    say("ready")
    child = subprocess.Popen(["/bin/true"])
    end = time.monotonic() + 30
    while 0 in got.values() and time.monotonic() < end:
        in_main(0.01)
    child.wait()
    waited = signal.sigtimedwait([signal.SIGUSR1], 30)
    say(*(int(n > 0) for n in got.values()), waited and waited.si_signo == signal.SIGUSR1)


def threads():
    in_main()
    say([t.name for t in threading.enumerate()], threading.active_count())
    tasks = os.listdir("/proc/self/task")
    names = sorted(open("/proc/self/task/%s/comm" % t).read().strip() for t in tasks
                   if int(t) != os.getpid())
    say(names)


def foreign_threads():
    """Threads that are not of this user."""
    count = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/status" % task) as status:
                count += "Uid:\t%d\t" % os.getuid() not in status.read()
        except OSError:
            pass
    return count


def users():
    pool = threading.Thread(target=spin, args=(seconds,))
    pool.start()
    spin(seconds / 2)
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    say(os.getresuid(), os.getresgid())
    end = time.monotonic() + 10
    while foreign_threads() and time.monotonic() < end:
        in_main(0.05)
    say("others", foreign_threads())
    in_main()
    pool.join()


def put_filter():
    spin(seconds / 2)
    code = ctypes.create_string_buffer(b"\x06\0\0\0\0\0\xff\x7f")
    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]
    row = Filter(1, ctypes.addressof(code))
    libc.prctl(38, 1, 0, 0, 0)
    # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC
    say("filter", libc.syscall(317, 1, 1, ctypes.byref(row)))
    in_main()


def shares():
    used = {}

    def in_a():
        while time.thread_time() < seconds / 2:
            sum(range(500))
        used["a"] = time.thread_time()

    def in_b():
        while time.thread_time() < seconds / 4:
            sum(range(500))
        used["b"] = time.thread_time()
    workers = [threading.Thread(target=f, name=f.__name__) for f in (in_a, in_b)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    time.sleep(0.3)
    say("used", used["a"], used["b"])


if len(sys.argv) > 3:
    open(sys.argv[3], "w").close()
while len(sys.argv) > 4 and not os.path.exists(sys.argv[4]):
    time.sleep(0.01)
{"exit-raw": main_exits, "exit-libc": main_exits, "family": family, "signals": signals,
 "threads": threads, "users": users, "filter": put_filter, "shares": shares}[kind]()
say("DONE")
