# SPDX-License-Identifier: Apache-2.0
"""Does what it is told, in functions whose names are known.

usage: phases.py STEP ...

alpha, beta, gamma: compute for 0.4 s of CPU time in a function of that name.
+COMMAND: write it to the named pipe "commands" and print what comes through "answers".
fork:STEP: a child does that, and is waited for.
pool:N: N children, one after the other, each of which computes for a moment.
touch:FILE, await:FILE, kill:SIGNAL, exit:STATUS, fds: print open descriptors.
"""
import os
import signal
import sys
import time

pipes = []


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        for _ in range(500):
            pass


def alpha():
    spin(0.4)


def beta():
    spin(0.4)


def gamma():
    spin(0.4)


def command(text):
    if not pipes:
        pipes.append(open("commands", "w"))
        pipes.append(open("answers", "r"))
    pipes[0].write(text + "\n")
    pipes[0].flush()
    print(pipes[1].readline(), end="", flush=True)


def fork(name):
    pid = os.fork()
    if pid == 0:
        step(name)
        os._exit(0)
    os.waitpid(pid, 0)


def step(name):
    what, _, value = name.partition(":")
    if name.startswith("+"):
        command(name[1:])
    elif what == "fork":
        fork(value)
    elif what == "pool":
        for _ in range(int(value)):
            fork("moment")
    elif what == "moment":
        spin(0.05)
    elif what == "touch":
        open(value, "w").close()
    elif what == "await":
        while not os.path.exists(value):
            spin(0.005)
            time.sleep(0.005)
    elif what == "kill":
        os.kill(os.getpid(), getattr(signal, value))
    elif what == "exit":
        sys.exit(int(value))
    elif what == "fds":
        print(sorted(map(int, os.listdir("/proc/self/fd")))[:-1], flush=True)
    else:
        {"alpha": alpha, "beta": beta, "gamma": gamma}[what]()


for each in sys.argv[1:]:
    step(each)
