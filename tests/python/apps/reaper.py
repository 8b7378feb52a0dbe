# SPDX-License-Identifier: Apache-2.0
"""Becomes the reaper of its orphans, then waits for every child there may be: only its own
may come."""
import ctypes
import os
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None)

if len(sys.argv) == 1:
    # The setting survives exec: set it, and start over with the library loaded again.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
own = set()
for i in range(3):
    own.add(subprocess.Popen(["/bin/true"]).pid)
end = time.time() + 1
strange = []
while time.time() < end:
    try:
        pid, _ = os.waitpid(-1, os.WNOHANG)
        if pid and pid not in own:
            strange.append(pid)
    except ChildProcessError:
        pass
    time.sleep(0.01)
print("BROKEN: strange children %s" % strange if strange else "DONE")
