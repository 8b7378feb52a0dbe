# SPDX-License-Identifier: Apache-2.0
"""New names all the time, of functions, files and threads: endless.py SECONDS.

Prints "names N growth KIB" of its own resident memory between a fifth of the time and the
end, then DONE.
"""
import sys
import threading
import time

PAD = "x" * 300


def resident_kib():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1])


def burn(seconds):
    end = time.time() + seconds
    while time.time() < end:
        pass


def live(k):
    name = "render_%d_%s" % (k, PAD)
    names = {}
    exec(compile("def %s(burn):\n    burn(0.001)\n" % name,
                 "/templates/%s/page_%d.html" % (PAD, k), "exec"), names)
    thread = threading.Thread(target=names[name], args=(burn,), name="task-%d-%s" % (k, PAD))
    thread.start()
    thread.join()


def main():
    seconds = float(sys.argv[1])
    start = time.time()
    k, before = 0, None
    while time.time() < start + seconds:
        live(k)
        k += 1
        if before is None and time.time() > start + seconds / 5:
            before = resident_kib()
    print("names %d growth %d" % (k, resident_kib() - before))
    print("DONE")


main()
