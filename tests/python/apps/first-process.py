# SPDX-License-Identifier: Apache-2.0
"""The first process of a pid namespace, which reaps nobody but the shell it starts, like
the program of a container that knows of its own children only.

usage: first-process.py SCRIPT [ARGUMENT ...]

Ends with the status of the script, to which it is PID 1.
"""
import os
import sys

pid = os.fork()
if pid == 0:
    os.execv("/bin/bash", ["bash"] + sys.argv[1:])
_, status = os.waitpid(pid, 0)
os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
