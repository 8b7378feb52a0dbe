# SPDX-License-Identifier: Apache-2.0
"""Two threads that compute until the file STOP is there: gil-waits.py STOP."""
import os
import sys
import threading

stop = False


def compute():
    while not stop:
        sum(range(1000))


def in_first():
    compute()


def in_second():
    compute()


threads = [threading.Thread(target=in_first), threading.Thread(target=in_second)]
for thread in threads:
    thread.start()
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    threads[0].join(0.02)
stop = True
