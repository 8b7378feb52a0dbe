# SPDX-License-Identifier: Apache-2.0
"""Works until a file "stop" is there.  When a file "take" is there it takes the handlers
that it names with the library, "HOW SIGNAL" a line, makes faults of its own, and says in
a file "taken" how many of them were handled: taker.py LIBRARY

HOW is libc, raw, ignore or default; faults are made with the first two alone.
"""
import ctypes
import os
import signal
import sys

library = ctypes.CDLL(sys.argv[1])


def in_work():
    return sum(i * i for i in range(2000))


def take(lines):
    handled = 0
    for line in lines:
        how, name = line.split()
        number = getattr(signal, name)
        if how in ("ignore", "default"):
            result = library.take_with(number, how == "ignore")
        else:
            result = (library.take if how == "libc" else library.take_raw)(number)
        if result != 0:
            sys.exit("cannot take " + line)
        if name == "SIGSEGV" and how in ("libc", "raw"):
            handled = library.make_faults(100)
    return handled


def say(text):
    with open("new", "w") as f:
        f.write(text)
    os.rename("new", "taken")


def main():
    with open("ready", "w") as f:
        f.write(str(os.getpid()))
    taken = False
    while not os.path.exists("stop"):
        in_work()
        if not taken and os.path.exists("take"):
            taken = True
            with open("take") as f:
                say(str(take(f.read().splitlines())))
    if taken and len(sys.argv) > 2:
        # What was taken is still the library's.
        print(library.make_faults(100))


main()
