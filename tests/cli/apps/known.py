# SPDX-License-Identifier: Apache-2.0
"""A program of which is known where it spends its time.

usage: known.py SECONDS [STATUS]

The main thread computes for about SECONDS of CPU time, twice as long in hot() as in
warm(), and a little in functions whose names are hard to print.  A thread named
"the idle waiter" waits meanwhile.
"""
import sys
import threading
import time

HARD = """
def gr\u00f6\u00dfe_\u6570(seconds):
    spin(seconds)
def semi(seconds):
    spin(seconds)
"""


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(200):
            pass


def hot(seconds):
    spin(seconds)


def warm(seconds):
    spin(seconds)


class Box:
    def outer(self, seconds):
        for _ in range(4):
            hot(seconds / 8)
            warm(seconds / 16)


def wait(over):
    over.wait()


def renamed(code, name):
    try:
        return code.replace(co_name=name, co_qualname=name)
    except TypeError:
        return code.replace(co_name=name)


def main():
    seconds = float(sys.argv[1])
    over = threading.Event()
    waiter = threading.Thread(target=wait, args=(over,), name="the idle waiter")
    waiter.start()
    names = {"spin": spin}
    exec(compile(HARD, "/hard/\x1b[31mred\x07;\u00e9.py", "exec"), names)
    Box().outer(seconds)
    names["gr\u00f6\u00dfe_\u6570"](seconds / 8)
    semi = names["semi"]
    semi.__code__ = renamed(semi.__code__, "semi;colon\x1b]0;title\x07")
    semi(seconds / 8)
    # Names of threads are looked up once a second.
    time.sleep(1.2)
    over.set()
    waiter.join()
    sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)


main()
