# SPDX-License-Identifier: Apache-2.0
"""An application of absl, which turns faulthandler on: works, then dies of a fault."""
import ctypes
import faulthandler
import sys
import time

from absl import app


def in_work(end):
    n = 0
    while time.monotonic() < end:
        n += 1
    return n


def main(argv):
    in_work(time.monotonic() + float(argv[1]))
    print("faulthandler", faulthandler.is_enabled(), flush=True)
    ctypes.string_at(8)


if __name__ == "__main__":
    app.run(main, argv=sys.argv)
