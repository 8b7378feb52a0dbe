# SPDX-License-Identifier: Apache-2.0
"""Makes a process that ends at once, and says its number in the file `gone`; once there is
a file `go` a Python that works for a while, as a later child of the same recording."""
import os
import subprocess
import sys
import time

WORK = """
import time
def in_later_child():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        pass
in_later_child()
"""

with subprocess.Popen(["true"]) as child:
    pass
with open("gone.new", "w") as f:
    f.write("%d\n" % child.pid)
os.rename("gone.new", "gone")
while not os.path.exists("go"):
    time.sleep(0.01)
subprocess.run([sys.executable, "-c", WORK], check=True)
