# SPDX-License-Identifier: Apache-2.0
"""A thread for each of some interpreters, running a function of its own there, while the
main thread runs in_main: 3.12 and later.

usage: interpreters.py own|shared SECONDS
"""
import sys
import threading
import time

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

SCRIPT = """
import time

def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def in_sub_%(n)d():
    burn(%(seconds)f)
"""

# 3.12 never ends where another thread than the main one has imported threading.
WITHOUT_THREAD = """
in_sub_%(n)d()
"""

WITH_THREAD = """
import threading

def in_thread_%(n)d():
    burn(%(seconds)f)

thread = threading.Thread(target=in_thread_%(n)d, name="inner-%(n)d")
thread.start()
in_sub_%(n)d()
thread.join()
"""


def create(own):
    if sys.version_info >= (3, 13):
        return interpreters.create("isolated" if own else "legacy")
    return interpreters.create(isolated=own)


def run(interpreter, n, seconds):
    threads = sys.version_info >= (3, 13)
    script = SCRIPT + (WITH_THREAD if threads else WITHOUT_THREAD)
    interpreters.run_string(interpreter, script % {"n": n, "seconds": seconds})


def in_main(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def main():
    own, seconds = sys.argv[1] == "own", float(sys.argv[2])
    threads, made = [], []
    for n in (1, 2):
        interpreter = create(own)
        made.append(interpreter)
        threads.append(
            threading.Thread(target=run, args=(interpreter, n, seconds), name="outer-%d" % n))
    for thread in threads:
        thread.start()
    in_main(seconds)
    for thread in threads:
        thread.join()
    for interpreter in made:
        interpreters.destroy(interpreter)
    print("DONE")


main()
