# SPDX-License-Identifier: Apache-2.0
"""check-churn.py COLLAPSED: has every thread of a recording of apps/churn.py, one stack a
thread, the name that belongs to what it runs?  Of 100 samples 95 have one."""
import re
import sys

NAMES = {"red": r"red-\d+$", "blue": r"blue-\d+$", "grey": "thread$"}
LEAST = {"red": 20, "blue": 10, "grey": 5}


def main():
    count = dict.fromkeys(NAMES, 0)
    right = dict.fromkeys(NAMES, 0)
    wrong = 0
    for line in open(sys.argv[1], encoding="utf-8"):
        stack, weight = line.rstrip("\n").rsplit(" ", 1)
        work = re.search(r";in_(red|blue|grey) ", stack)
        if not work:
            continue
        kind, name = work[1], stack.split(";")[1].rsplit(" ", 1)[0]
        count[kind] += int(weight)
        if re.match(NAMES[kind], name):
            right[kind] += int(weight)
        elif name != "thread":
            wrong += int(weight)
            print("%s runs in_%s" % (name, kind))
    print(", ".join("%s %d of %d" % (k, right[k], count[k]) for k in NAMES), end=", ")
    print("%d wrong" % wrong)
    sys.exit(wrong != 0 or any(
        count[k] < LEAST[k] or right[k] < 0.95 * count[k] for k in NAMES))


main()
