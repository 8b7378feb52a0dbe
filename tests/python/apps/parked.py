# SPDX-License-Identifier: Apache-2.0
"""Forty threads that stand still, each at a place of its own kind; the truth about where
they stand is written to a file.

usage: parked.py TRUTH-FILE STOP-FILE [SECONDS]

TRUTH-FILE: one line a thread, "NAME\tfunction\tfile\tline\tfunction...", root first, with
qualified names where the version has them.  The program ends when STOP-FILE is there, or
after SECONDS (60).
"""
import os
import sys
import threading
import time

release = threading.Event()
COUNT = 40


def park():
    release.wait()


def deep(n):
    if n:
        deep(n - 1)
    else:
        park()


def generator():
    yield 1
    park()
    yield 2


def delegating():
    yield from generator()


async def coroutine():
    park()


class Thing:
    def method(self):
        park()

    @staticmethod
    def static():
        park()

    @classmethod
    def klass(cls):
        park()

    @property
    def prop(self):
        park()

    def __init__(self, where=None):
        if where == "init":
            park()

    def __getattr__(self, name):
        if name == "nowhere":
            park()
        raise AttributeError(name)

    def __call__(self):
        park()

    def __del__(self):
        if getattr(self, "parks", False):
            park()

    def __lt__(self, other):
        park()
        return True

    def __enter__(self):
        park()

    def __exit__(self, *a):
        pass

    def __iter__(self):
        park()
        return iter(())


def use(kind):
    if kind == "plain":
        park()
    elif kind == "deep":
        deep(30)
    elif kind == "generator":
        for _ in generator():
            pass
    elif kind == "delegating":
        list(delegating())
    elif kind == "coroutine":
        coroutine().send(None)
    elif kind == "method":
        Thing().method()
    elif kind == "static":
        Thing.static()
    elif kind == "class":
        Thing.klass()
    elif kind == "property":
        Thing().prop
    elif kind == "init":
        Thing("init")
    elif kind == "getattr":
        Thing().nowhere
    elif kind == "call":
        Thing()()
    elif kind == "del":
        thing = Thing()
        thing.parks = True
        del thing
    elif kind == "sort":
        sorted([Thing(), Thing()])
    elif kind == "key":
        sorted([1], key=lambda x: park())
    elif kind == "map":
        list(map(
            lambda x: park(),
            [1]))
    elif kind == "max":
        max([1, 2],
            key=lambda x: park())
    elif kind == "list":
        [park()
         for _ in range(1)]
    elif kind == "dict":
        {1: park()
         for _ in range(1)}
    elif kind == "genexpr":
        list(park()
             for _ in range(1))
    elif kind == "with":
        with Thing():
            pass
    elif kind == "iter":
        for _ in Thing():
            pass
    elif kind == "exec":
        exec(compile("\n" * 300 + "def far(park):\n    x = 1\n\n\n    park()\n\nfar(park)",
                     "/nowhere/exec'd file.py", "exec"), {"park": park})
    elif kind == "body":
        exec(compile("class Body:\n    x = 1\n    park()\n", "/nowhere/body.py", "exec"),
             {"park": park})
    elif kind == "local":
        def outer():
            def inner():
                park()
            inner()
        outer()
    elif kind == "unicode":
        exec(compile("def имя_名前_𐐀(park):\n    park()\nимя_名前_𐐀(park)\n",
                     "/нигде/módulo.py", "exec"), {"park": park})
    elif kind == "long":
        name = "f" + "x" * 3000
        exec(compile("def %s(park):\n    park()\n%s(park)\n" % (name, name),
                     "/nowhere/" + "d" * 2000 + ".py", "exec"), {"park": park})
    elif kind == "gaps":
        # Steps in the line table that fit into no byte, in both directions.
        exec(compile("\n" * 40000 + "def gaps(park, *a):\n    x = [1,\n" + "\n" * 3000 +
                     "    2]; x = (\n        x,\n" + "\n" * 200 + "        park()\n    )\n" +
                     "\n" * 70 + "gaps(park,\n     1,\n     2)\n",
                     "/nowhere/gaps.py", "exec"), {"park": park})
    elif kind in ("left", "right"):
        # Two files and functions of one name, called through a decorator of one name.
        exec(compile("def wrap(f):\n    def wrapper():\n        f()\n    return wrapper\n"
                     "@wrap\n@wrap\ndef step():\n    park()\nstep()\n",
                     "/nowhere/%s/utils.py" % kind, "exec"), {"park": park})
    elif kind == "try":
        try:
            raise ValueError
        except ValueError:
            park()
        finally:
            pass
    else:
        deep(int(kind))


KINDS = ["plain", "deep", "generator", "delegating", "coroutine", "method", "static",
         "class", "property", "init", "getattr", "call", "del", "sort", "key", "map",
         "max", "list", "dict", "genexpr", "with", "iter", "exec", "body", "local",
         "unicode", "long", "gaps", "left", "right", "try"]
KINDS += [str(n) for n in range(1, COUNT - len(KINDS) + 1)]


def start(kind):
    thread = threading.Thread(target=use, args=(kind,), name="at-" + kind)
    thread.daemon = True
    thread.start()
    return thread


def is_parked(frame):
    """Does this thread wait in park(), and has it come to rest there?"""
    while frame is not None:
        if frame.f_code is park.__code__:
            return True
        frame = frame.f_back
    return False


def describe(frame):
    rows = []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        rows.append("%s\t%s\t%d" % (name, code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return "\t".join(reversed(rows))


def snapshot(threads):
    frames = sys._current_frames()
    lines = []
    for thread in threads:
        frame = frames.get(thread.ident)
        if frame is None or not is_parked(frame):
            return None
        lines.append(thread.name + "\t" + describe(frame))
    return lines


def main():
    threads = [start(kind) for kind in KINDS]
    end = time.time() + (float(sys.argv[3]) if len(sys.argv) > 3 else 60)
    before = None
    while time.time() < end:
        lines = snapshot(threads)
        if lines is not None and lines == before:
            break
        before = lines
        time.sleep(0.05)
    with open(sys.argv[1] + ".new", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    while time.time() < end and not os.path.exists(sys.argv[2]):
        time.sleep(0.02)
    os._exit(0)


main()
