# SPDX-License-Identifier: Apache-2.0
"""Forks after a while, and both work until there is a file "stop": forks.py KIND

KIND: plain; enabled: with faulthandler turned on before the fork; toggled: on, and off.
"""
import faulthandler
import os
import sys
import time

kind = sys.argv[1]


def in_work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not os.path.exists("stop"):
        sum(range(2000))


in_work(0.2)
if kind != "plain":
    faulthandler.enable()
    in_work(0.1)
if kind == "toggled":
    faulthandler.disable()
    in_work(0.1)
pid = os.fork()
in_work(100)
if pid == 0:
    os._exit(3)
print(os.waitpid(pid, 0)[1] >> 8)
