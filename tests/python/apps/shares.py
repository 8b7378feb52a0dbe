# SPDX-License-Identifier: Apache-2.0
"""Spends 50, 30 and 20 % of its time in three functions, in pieces of random length, and
says how much it really was.

usage: shares.py SECONDS [STOP-FILE]

Prints "ready", then at the end "TRUTH f50 SECONDS f30 SECONDS f20 SECONDS".  With a
STOP-FILE it goes on until that is there, and counts only from when STOP-FILE.go is.
"""
import os
import random
import sys
import time

clock = time.perf_counter
spent = {"f50": 0.0, "f30": 0.0, "f20": 0.0}


def burn(until):
    n = 0
    while clock() < until:
        n += 1
    return n


def f50(s):
    burn(clock() + s)


def f30(s):
    burn(clock() + s)


def f20(s):
    burn(clock() + s)


def main():
    chance = random.Random(int(os.environ.get("SEED", "1")))
    stop = sys.argv[2] if len(sys.argv) > 2 else None
    end = clock() + float(sys.argv[1])
    print("ready", flush=True)
    counted = stop is None
    last = clock()
    while clock() < end and not (stop and os.path.exists(stop)):
        counted = counted or os.path.exists(stop + ".go")
        for _ in range(20):
            f, name = chance.choices(
                [(f50, "f50"), (f30, "f30"), (f20, "f20")], [5, 3, 2])[0]
            # Memoryless pieces: no rate is in step with them.
            f(chance.expovariate(1 / 0.0007))
            now = clock()
            if counted:
                spent[name] += now - last
            last = now
    print("TRUTH " + " ".join("%s %.6f" % x for x in sorted(spent.items())), flush=True)


if __name__ == "__main__":
    main()
