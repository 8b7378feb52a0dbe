# SPDX-License-Identifier: Apache-2.0
"""Works in in_quiet() without any system call but reading a pipe, until that ends:
quiet.py [STATUS]

To be run under filters that end it for nearly anything else.
"""
import os
import select
import sys


def in_quiet(poll):
    while not poll.poll(0):
        for _ in range(1000):
            sum(range(200))


def main():
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    os.write(1, b"ready\n")
    in_quiet(poll)
    os.write(1, b"DONE\n")
    os._exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


main()
