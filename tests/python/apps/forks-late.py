# SPDX-License-Identifier: Apache-2.0
"""Computes for some CPU time, forks, and computes in the child: forks-late.py BEFORE CHILD."""
import os
import sys
import time


def compute(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(100))


def in_child(seconds):
    compute(seconds)


compute(float(sys.argv[1]))
pid = os.fork()
if pid == 0:
    in_child(float(sys.argv[2]))
    os._exit(0)
os.waitpid(pid, 0)
print(pid)
