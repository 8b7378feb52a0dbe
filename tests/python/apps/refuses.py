# SPDX-License-Identifier: Apache-2.0
"""Works; when a file "refuse" is there, has a filter on all its threads that answers
EPERM to the system calls given, and works on until a file "stop" is there:
refuses.py NUMBER[,NUMBER...]"""
import ctypes
import os
import struct
import sys

LOAD_NUMBER = struct.pack("HBBI", 0x20, 0, 0, 0)
ANSWER_EPERM = struct.pack("HBBI", 0x06, 0, 0, 0x00050001)
ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
SECCOMP, SET_MODE_FILTER, ON_ALL_THREADS = 317, 1, 1


def refuse(numbers):
    program = LOAD_NUMBER
    for number in numbers:
        program += struct.pack("HBBI", 0x15, 0, 1, number) + ANSWER_EPERM
    program += ALLOW
    code = ctypes.create_string_buffer(program)
    filters = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.prctl(38, 1, 0, 0, 0) != 0
        or libc.syscall(SECCOMP, SET_MODE_FILTER, ON_ALL_THREADS, filters) != 0
    ):
        raise SystemExit("no filter: errno %d" % ctypes.get_errno())


def in_work():
    return sum(i * i for i in range(2000))


def main():
    with open("ready", "w") as f:
        f.write(str(os.getpid()))
    refused = False
    while not os.path.exists("stop"):
        in_work()
        if not refused and os.path.exists("refuse"):
            refused = True
            refuse([int(number) for number in sys.argv[1].split(",")])
    print("whole")


main()
