# SPDX-License-Identifier: Apache-2.0
"""Computes, with a second thread that waits, until a file "stop" appears.

usage: busy.py [STATUS]

Says that it runs by a file "ready".  Signals it gets are counted in a file "signals", a
line for each, and change nothing else.
"""
import os
import signal
import sys
import threading
import time


def note(number, frame):
    with open("signals", "a") as f:
        f.write("%d\n" % number)


def compute():
    for _ in range(2000):
        pass


def wait(over):
    over.wait()


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, note)
    over = threading.Event()
    thread = threading.Thread(target=wait, args=(over,), name="waiter")
    thread.start()
    with open("ready.new", "w") as f:
        f.write("%d\n" % os.getpid())
    os.rename("ready.new", "ready")
    while not os.path.exists("stop"):
        end = time.time() + 0.01
        while time.time() < end:
            compute()
    over.set()
    thread.join()
    sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


main()
