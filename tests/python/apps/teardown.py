# SPDX-License-Identifier: Apache-2.0
"""A program whose interpreter has much to take down at its end.

usage: teardown.py OBJECTS

Its last function works for 60 ms of CPU time.  Prints "LAST CPU SO-FAR": what that one
used, and what the process has used by then, in ms.
"""
import gc
import sys
import time


def build(count):
    return [{"a": i, "b": [i, str(i)]} for i in range(count)]


def last():
    end = time.process_time() + 0.06
    while time.process_time() < end:
        pass


gc.disable()
sys.modules["kept"] = build(int(sys.argv[1]))
time.sleep(0.2)
before = time.process_time()
last()
behind = time.process_time()
print("LAST %.1f %.1f" % ((behind - before) * 1e3, behind * 1e3))
