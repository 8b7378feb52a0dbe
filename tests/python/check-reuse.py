# SPDX-License-Identifier: Apache-2.0
"""check-reuse.py COLLAPSED: does every stack of a recording of apps/reuse.py belong to one
generation, with the lines it has?"""
import re
import sys

# Lines after the first of the generation that a frame may be at.
LINES = {"top": (0, 1), "middle": (3, 4), "bottom": (6, 7)}
# An approximate stack may leave open at which line a frame called the next.
FRAME = re.compile(r"^(top|middle|bottom)_(\d+) \(/made/gen_(\d+)\.py(?::(\d+))?\)$")


def judge(frames):
    generations = set()
    for frame in frames:
        match = FRAME.match(frame)
        if not match:
            if "gen_" in frame and "<module>" not in frame:
                return "not a frame of any generation"
            continue
        name, k, file = match[1], int(match[2]), int(match[3])
        generations |= {k, file}
        if match[4] and int(match[4]) - k not in LINES[name]:
            return "a line that is none of %s's" % name
    return "generations %s" % generations if len(generations) > 1 else None


def main():
    wrong = count = 0
    for line in open(sys.argv[1], encoding="utf-8"):
        stack, weight = line.rstrip("\n").rsplit(" ", 1)
        count += int(weight)
        reason = judge(stack.split(";"))
        if reason:
            wrong += int(weight)
            print("%s: %s" % (reason, stack))
    print("%d samples, %d wrong" % (count, wrong))
    sys.exit(wrong != 0 or count < 500)


main()
