# SPDX-License-Identifier: Apache-2.0
"""Four workers, each of which spends its time as shares.py does and writes what that
prints into a file worker.PID.

usage: pool.py SECONDS STOP-FILE [GO-FILE]

Prints ready, waits for GO-FILE, makes the workers, waits for them, prints DONE.
"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
go = sys.argv.pop() if len(sys.argv) > 3 else None


def worker(number):
    os.environ["SEED"] = str(number)
    os.dup2(os.open("worker.%d" % os.getpid(), os.O_WRONLY | os.O_CREAT), 1)
    import shares
    shares.main()


def main():
    print("ready", flush=True)
    while go and not os.path.exists(go):
        time.sleep(0.02)
    pids = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            try:
                worker(number)
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    print("DONE")


main()
