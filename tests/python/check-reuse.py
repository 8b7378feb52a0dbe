# SPDX-License-Identifier: Apache-2.0
"""check-reuse.py SAMPLES: does every stack of a recording of apps/reuse.py, as the command
script prints it, belong to one generation, with the lines it has?

A stack that is marked approximate may have been read while one generation came after the
other: of these one in a hundred of all samples may be a mixture, of the others none.
"""
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


def samples(path):
    """(ticks, is it approximate?, frames) of each."""
    for block in open(path, encoding="utf-8").read().split("\n\n"):
        lines = [line for line in block.split("\n") if line]
        match = re.search(r": +(\d+) ticks? .*", lines[0]) if lines else None
        if match:
            yield int(match[1]), "approximate" in match[0], [f.strip() for f in lines[1:]]


def main():
    wrong = mixed = count = 0
    for ticks, approximate, frames in samples(sys.argv[1]):
        count += ticks
        reason = judge(frames)
        if reason and approximate:
            mixed += ticks
        elif reason:
            wrong += ticks
            print("%s: %s" % (reason, ";".join(reversed(frames))))
    print("%d samples, %d wrong, %d approximate and mixed" % (count, wrong, mixed))
    sys.exit(wrong != 0 or mixed * 100 > count or count < 500)


main()
