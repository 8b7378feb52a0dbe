# SPDX-License-Identifier: Apache-2.0
"""Works in in_busy() for some time, then says where it is: busy.py SECONDS [STATUS].

With BUSY_STOP in the environment it ends when a file of that name is there, too.
"""
import os
import sys
import time


def in_busy(seconds):
    stop = os.environ.get("BUSY_STOP")
    end = time.time() + seconds
    while time.time() < end and not (stop and os.path.exists(stop)):
        sum(range(200))


in_busy(float(sys.argv[1]))
print(sys.prefix)
sys.stdout.flush()
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
