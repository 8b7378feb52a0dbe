# SPDX-License-Identifier: Apache-2.0
"""A program whose every caller, callee and line is known, and that calls and returns
about every 100 ns: where a torn stack would show.

usage: oracle.py TRUTH-FILE SECONDS [READER LAYOUT-PROGRAM]

A tree of functions of several kinds; each has one caller and is called at one line.
TRUTH-FILE gets lines "CALLEE CALLER LINE FIRST LAST": the line in the caller at which it
calls, and the first and last line of the callee itself; the caller of the root is "-".
With READER (naive-reader.so) a thread reads the running function all the time; then lines
"depth D N" tell how often it was found at which depth of the tree.
"""
from __future__ import print_function
import sys
import time

DEPTH = 6
WAYS = 3


class Source(object):
    """Lines of the generated module, and the truth about them."""

    def __init__(self):
        self.lines = []
        self.truth = []
        self.number = 0

    def add(self, text):
        self.lines.append(text)
        return len(self.lines)

    def name(self, kind):
        self.number += 1
        return "%s%d" % (kind, self.number)

    def make(self, depth):
        """Write a function with all below it; returns its name, the text of a call and
        its qualified name."""
        kinds = ["plain", "gen", "init", "method", "spread"]
        kind = kinds[self.number % len(kinds)] if depth else "plain"
        below = [self.make(depth - 1) for _ in range(WAYS)] if depth else []
        name = self.name(kind)
        qualified, call = name, "%s(a)" % name
        pad = ""
        if kind in ("init", "method"):
            self.add("class %s(object):" % name)
            pad = "    "
            inner = "__init__" if kind == "init" else "run"
            qualified = "%s.%s" % (name, inner)
            call = "%s(a)" % name if kind == "init" else "%s().run(a)" % name
            first = self.add(pad + "def %s(self, a):" % inner)
        else:
            first = self.add("def %s(a):" % name)
        if kind == "gen":
            call = "list(%s(a))" % name
        calls = []
        for child in below:
            if kind == "spread":
                # The call of several lines stands at its first one or, in some versions,
                # at that of the arguments: give it nothing else on those lines.
                self.add(pad + "    b = a + 1")
                line = self.add(pad + "    a = b if " + child[1] + " is child else b")
            elif kind == "gen":
                self.add(pad + "    yield a")
                line = self.add(pad + "    " + child[1])
            else:
                line = self.add(pad + "    " + child[1])
            calls.append((child, line))
        if kind == "init":
            last = self.add(pad + "    self.a = a")
        elif kind == "gen":
            last = self.add(pad + "    yield a")
        else:
            last = self.add(pad + "    return a")
        for child, line in calls:
            self.truth.append((child[2], qualified, line) + child[3])
        return name, call, qualified, (first, last)


class NaiveReader(object):
    def __init__(self, library, layout_program):
        import ctypes
        import os
        import subprocess
        words = subprocess.check_output([layout_program, str(os.getpid())]).split()
        state = ctypes.pythonapi.PyThreadState_Get
        state.restype = ctypes.c_void_p
        self.ctypes = ctypes
        self.library = ctypes.CDLL(library)
        layout = (ctypes.c_int32 * 8)(*(int(w) for w in words))
        if self.library.naive_start(ctypes.c_void_p(state()), layout) != 0:
            raise SystemExit("no thread for the naive reader")

    def print_depths(self, module, truth):
        array = self.ctypes.c_uint64 * 4096
        codes, counts = array(), array()
        n = self.library.naive_stop(codes, counts, 4096)
        known = depths_of_codes(module, truth)
        depths = {}
        for i in range(n):
            depth = known.get(codes[i])
            if depth:
                depths[depth] = depths.get(depth, 0) + counts[i]
        for depth, count in sorted(depths.items()):
            print("depth %d %d" % (depth, count))


def depths_of_codes(module, truth):
    """The depth in the tree of each code object's address, by name and first line."""
    callers = dict((callee, caller) for callee, caller, _, _, _ in truth)
    lines = dict(((first + 1, callee.split(".")[-1]), callee)
                 for callee, _, _, first, _ in truth)

    def depth_of(name):
        return 0 if name == "-" else 1 + depth_of(callers[name])

    depths = {}
    waiting = [module]
    while waiting:
        code = waiting.pop()
        name = lines.get((code.co_firstlineno, code.co_name))
        if name:
            depths[id(code)] = depth_of(name)
        waiting += [c for c in code.co_consts if isinstance(c, type(code))]
    return depths


def main():
    source = Source()
    root = source.make(DEPTH - 1)
    source.truth.append((root[2], "-", 0) + root[3])
    text = "child = object()\n" + "\n".join(source.lines) + "\n"
    path = "/oracle/generated.py"
    with open(sys.argv[1], "w") as f:
        for callee, caller, line, first, last in source.truth:
            f.write("%s %s %d %d %d\n" % (callee, caller, line + 1 if line else 0,
                                          first + 1, last + 1))
    names = {}
    module = compile(text, path, "exec")
    exec(module, names)
    run = names[root[0]]
    if root[0].startswith(("init", "method", "gen")):
        raise SystemExit("the root has to be a plain function")
    reader = NaiveReader(sys.argv[3], sys.argv[4]) if len(sys.argv) > 4 else None
    end = time.time() + float(sys.argv[2])
    while time.time() < end:
        for _ in range(20):
            run(1)
    if reader:
        reader.print_depths(module, source.truth)
    print("DONE")


main()
