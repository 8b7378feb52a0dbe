# SPDX-License-Identifier: Apache-2.0
"""Runs a command under a seccomp filter that refuses some system calls, as containers
do: without-calls.py NUMBER[,NUMBER] COMMAND [ARGUMENT ...]
"""
import ctypes
import os
import struct
import sys

PROGRAM = [(0x20, 0, 0, 0)]
for number in sys.argv[1].split(","):
    PROGRAM += [(0x15, 0, 1, int(number)), (0x06, 0, 0, 0x50000 | 1)]
PROGRAM.append((0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in PROGRAM))
filters = struct.pack("HxxxxxxP", len(PROGRAM), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filters, 0, 0) != 0:
    raise SystemExit("no filter: errno %d" % ctypes.get_errno())
os.execvp(sys.argv[2], sys.argv[2:])
