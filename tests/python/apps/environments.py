# SPDX-License-Identifier: Apache-2.0
"""Prints the environment of children that are made in several ways, and how large an
environment a program may be given."""
import os
import subprocess
import sys

SHOW = "import os; print(sorted(os.environ.items()))"


def show(title, text):
    print("%s: %s" % (title, text.decode().strip().replace("\n", " ")))


def output_of(spawn):
    reader, writer = os.pipe()
    pid = spawn([(os.POSIX_SPAWN_DUP2, writer, 1)])
    os.close(writer)
    with open(reader, "rb") as stream:
        text = stream.read()
    assert os.waitpid(pid, 0)[1] == 0
    return text


def fits(count):
    environment = {"FILLER_%06d" % i: "x" * 100000 for i in range(count // 100000)}
    environment["REST"] = "x" * (count % 100000)
    try:
        return subprocess.call(["/bin/true"], env=environment) == 0
    except OSError:
        return False


def largest_environment():
    """In bytes of the values."""
    good, bad = 0, 64 << 20
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good


def main():
    python = sys.executable
    show("inherited", subprocess.check_output(["env"]))
    show("cleared", subprocess.check_output([python, "-c", SHOW], env={}))
    for preload in ("", "libm.so.6", "libm.so.6 libdl.so.2:"):
        own = {"LD_PRELOAD": preload, "OTHER": "1"}
        show("preloads", subprocess.check_output([python, "-c", SHOW], env=own))
    show("shell", subprocess.check_output("env; exec env", shell=True))
    show("env -i", subprocess.check_output(["env", "-i", "A=B", "env"]))
    show("forked", subprocess.check_output(["env"], preexec_fn=lambda: None))
    show("system", os.popen("env").read().encode())
    if hasattr(os, "posix_spawn"):
        for call in (os.posix_spawn, os.posix_spawnp):
            show("posix_spawn", output_of(lambda actions: call(
                python, [python, "-c", SHOW], {"A": "B"}, file_actions=actions)))
    if len(sys.argv) > 1:
        show("given", subprocess.check_output(sys.argv[1:]))
    # Without the one that is different for each run.
    print(largest_environment())


main()
