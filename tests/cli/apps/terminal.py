# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of its own and types Ctrl-C when a file "ready" is there.

usage: terminal.py COMMAND [ARGUMENT ...]

Prints what the command shows, and ends with its status.
"""
import os
import pty
import select
import signal
import sys
import time

pid, fd = pty.fork()
if pid == 0:
    # As from a login: whoever runs the tests may have them ignored.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
typed = False
end = time.time() + 60
while time.time() < end:
    if not typed and os.path.exists("ready"):
        os.write(fd, b"\x03")
        typed = True
    if select.select([fd], [], [], 0.05)[0]:
        try:
            data = os.read(fd, 4096)
        except OSError:
            break
        if not data:
            break
        os.write(1, data)
_, status = os.waitpid(pid, 0)
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
