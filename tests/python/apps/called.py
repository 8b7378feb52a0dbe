# SPDX-License-Identifier: Apache-2.0
"""Threads that are called all kinds of things, each running a function of its own:

  in_wide_N     names of 1, 2 and 4 bytes a character, of many and of strange ones
  in_renamed    gets another name while it runs
  in_raw        made without the threading module, without a name
  in_own        likewise, and gives itself a name of the kernel's
  in_pool       a thread of C, born with a name of the kernel's
  in_known      likewise, but threading comes to know it

usage: called.py STOP, a file whose coming ends it
"""
import _thread
import ctypes
import os
import sys
import threading
import time

NAMES = ["plain", "na\u00efve \u00fc", "\u540d\u524d-\u7dda", "snake \U0001f40d", "long" * 500,
         "red;blue", "tab\there"]
PR_SET_NAME = 15

libc = ctypes.CDLL(None)
stop = sys.argv[1]
threads = []


def burn():
    while not os.path.exists(stop):
        sum(range(1000))
        time.sleep(0.005)


def start(target, name=None):
    thread = threading.Thread(target=target, name=name)
    thread.start()
    threads.append(thread)
    return thread


def start_raw(target):
    """By the module below threading; what is returned can be waited for as a lock."""
    done = _thread.allocate_lock()
    done.acquire()

    def run():
        target()
        done.release()

    _thread.start_new_thread(run, ())
    threads.append(done)


def name_by_kernel(name):
    libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def in_renamed():
    burn()


def in_raw():
    burn()


def in_own():
    name_by_kernel("own-name")
    burn()


def in_pool():
    burn()


def in_known():
    threading.current_thread()
    burn()


def start_pool():
    """Threads of C get their name from the one that makes them, here."""
    callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    made = []
    for target, name in ((in_pool, "pool-7"), (in_known, "pool-8")):
        name_by_kernel(name)
        thread, function = ctypes.c_ulong(), callback(lambda _, target=target: target() or 0)
        libc.pthread_create(ctypes.byref(thread), None, function, None)
        made.append((thread, function))
    for thread, _ in made:
        libc.pthread_join(thread, None)


def main():
    print("ready", flush=True)
    for n, name in enumerate(NAMES):
        scope = {"burn": burn}
        exec("def in_wide_%d():\n    burn()" % n, scope)
        start(scope["in_wide_%d" % n], name)
    renamed = start(in_renamed, "before")
    start_raw(in_raw)
    start_raw(in_own)
    start_raw(start_pool)
    time.sleep(0.3)
    renamed.name = "after"
    for thread in threads:
        if isinstance(thread, threading.Thread):
            thread.join()
        else:
            thread.acquire()
    print("DONE")


main()
