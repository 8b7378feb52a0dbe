# SPDX-License-Identifier: Apache-2.0
"""Waits for a file "go", executes itself, fills much memory and watches over it until there
is a file "stop".  Prints DONE when it was left alone."""
import mmap
import os
import sys
import time

SIZES = [4096] * 4000 + [64 << 20]  # the small ones fill what gaps there are


def wait_for(name):
    end = time.time() + 60
    while not os.path.exists(name) and time.time() < end:
        time.sleep(0.01)


def main():
    # As many characters of arguments as before: without random addresses, the stack
    # begins at the same one.
    if sys.argv[1] == "former":
        open("first", "w").close()
        wait_for("go")
        os.execv(sys.executable, [sys.executable, sys.argv[0], "second"])
    memories = [mmap.mmap(-1, size) for size in SIZES]
    for memory in memories:
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = at // mmap.PAGESIZE % 251
    open("second", "w").close()
    wait_for("stop")
    for memory in memories:
        for at in range(0, len(memory), mmap.PAGESIZE):
            assert memory[at] == at // mmap.PAGESIZE % 251
    print("DONE")


main()
