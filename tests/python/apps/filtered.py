# SPDX-License-Identifier: Apache-2.0
"""Runs a script under a seccomp filter that ends the process at many system calls:
filtered.py SCRIPT ARGUMENTS...

The filter lets pass what a single-threaded Python at work needs, and nothing by which a
process or a socket is made.
"""
import ctypes
import runpy
import struct
import sys

DENIED = [
    41,   # socket
    42,   # connect
    56,   # clone
    57,   # fork
    58,   # vfork
    59,   # execve
    319,  # memfd_create
    322,  # execveat
    434,  # pidfd_open
    435,  # clone3
]
LOAD_NUMBER = struct.pack("HBBI", 0x20, 0, 0, 0)
KILL_PROCESS = struct.pack("HBBI", 0x06, 0, 0, 0x80000000)
ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)


def install():
    program = LOAD_NUMBER
    for number in DENIED:
        program += struct.pack("HBBI", 0x15, 0, 1, number) + KILL_PROCESS
    program += ALLOW
    code = ctypes.create_string_buffer(program)
    filters = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filters, 0, 0) != 0:
        raise SystemExit("no filter: errno %d" % ctypes.get_errno())


install()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
