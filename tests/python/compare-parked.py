#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare-parked.py TRUTH COLLAPSED: do the stacks of a recording of apps/parked.py, made
with --per-thread, stand where the truth says?  Prints what differs; status 0 if nothing."""
import sys


def main():
    truth = {}
    for line in open(sys.argv[1], encoding="utf-8"):
        words = line.rstrip("\n").split("\t")
        truth[words[0]] = ["%s (%s:%s)" % tuple(words[i:i + 3])
                           for i in range(1, len(words), 3)]
    seen = {}
    for line in open(sys.argv[2], encoding="utf-8"):
        text, weight = line.rstrip("\n").rsplit(" ", 1)
        parts = text.split(";")
        name = parts[1].rsplit(" ", 1)[0]
        seen.setdefault(name, {})
        stack = tuple(parts[2:])
        seen[name][stack] = seen[name].get(stack, 0) + int(weight)
    bad = 0
    frames = 0
    for name, stack in truth.items():
        wanted = tuple(f.replace(";", ",") for f in stack)
        frames += len(wanted)
        if name not in seen:
            print("%s: no samples of this thread" % name)
            bad += 1
        elif wanted not in seen[name]:
            got = max(seen[name], key=seen[name].get)
            print("%s:\n  wanted %s\n  got    %s" % (name, wanted, got))
            bad += 1
    print("%d threads, %d frames, %d wrong" % (len(truth), frames, bad))
    return bad != 0 or len(truth) != 40


sys.exit(main())
