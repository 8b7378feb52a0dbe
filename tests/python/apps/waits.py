# SPDX-License-Identifier: Apache-2.0
"""Many threads that wait at one place, called from two lines of one function by turns.

usage: waits.py TRUTH SECONDS THREADS

The GIL is handed on several times a ms, and how a waiting thread stands differs in
nothing but the instruction of one caller.  TRUTH gets a line for each of the two lines:
its number, and the seconds spent there by all threads."""
import sys
import threading
import time

SHORT, LONG = 0.003, 0.009


def wait(seconds):
    time.sleep(seconds)


def by_turns(ends, spent):
    clock = time.perf_counter
    before = clock()
    while before < ends:
        wait(SHORT)
        between = clock()
        wait(LONG)
        after = clock()
        spent[0] += between - before
        spent[1] += after - between
        before = after


def main(truth, seconds, count):
    first = by_turns.__code__.co_firstlineno
    spent = [[0.0, 0.0] for _ in range(count)]
    ends = time.perf_counter() + seconds
    threads = [threading.Thread(target=by_turns, args=(ends, one)) for one in spent]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with open(truth, "w") as f:
        for which, line in enumerate((first + 4, first + 6)):
            f.write("%d %.6f\n" % (line, sum(one[which] for one in spent)))


main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
