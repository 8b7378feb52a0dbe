# SPDX-License-Identifier: Apache-2.0
"""So many interpreters, a thread in each, which waits as the main thread does, until the
file STOP is there: 3.12 and later.

usage: many-interpreters.py COUNT STOP
"""
import os
import sys
import threading
import time

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

SCRIPT = """
import os, time

def in_sub(stop):
    while not os.path.exists(stop):
        time.sleep(0.02)

in_sub(%r)
"""


def create():
    if sys.version_info >= (3, 13):
        return interpreters.create("legacy")
    return interpreters.create(isolated=False)


def run(stop):
    # In its own thread: 3.12 runs it under the ids of the one that has made it.
    interpreter = create()
    interpreters.run_string(interpreter, SCRIPT % stop)
    interpreters.destroy(interpreter)


def in_main(stop):
    while not os.path.exists(stop):
        time.sleep(0.02)


def main():
    count, stop = int(sys.argv[1]), sys.argv[2]
    threads = [threading.Thread(target=run, args=(stop,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    in_main(stop)
    for thread in threads:
        thread.join()
    print("DONE")


main()
