# SPDX-License-Identifier: Apache-2.0
"""Executes a command under a filter that answers EPERM to some system calls:
denied.py NUMBER[,NUMBER...] COMMAND ARGUMENTS..."""
import ctypes
import os
import struct
import sys

LOAD_NUMBER = struct.pack("HBBI", 0x20, 0, 0, 0)
ANSWER_EPERM = struct.pack("HBBI", 0x06, 0, 0, 0x00050001)
ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)


def main():
    program = LOAD_NUMBER
    for number in sys.argv[1].split(","):
        program += struct.pack("HBBI", 0x15, 0, 1, int(number)) + ANSWER_EPERM
    program += ALLOW
    code = ctypes.create_string_buffer(program)
    filters = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filters, 0, 0) != 0:
        raise SystemExit("no filter: errno %d" % ctypes.get_errno())
    os.execvp(sys.argv[2], sys.argv[2:])


main()
