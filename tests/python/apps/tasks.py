# SPDX-License-Identifier: Apache-2.0
"""A Celery application whose queue is a folder here.

usage: tasks.py COUNT   sends so many tasks and waits for their results; prints the
                        processes that ran them
"""
import os
import sys
import time

from celery import Celery

for folder in ("queue", "done"):
    os.makedirs(folder, exist_ok=True)
app = Celery(
    "tasks",
    broker="filesystem://",
    backend="file://" + os.path.abspath("done"),
    broker_transport_options={"data_folder_in": "queue", "data_folder_out": "queue"},
)


def in_task():
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:
        pass


@app.task
def work():
    in_task()
    return os.getpid()


def main():
    # By the name that the worker knows it by.
    results = [app.send_task("tasks.work") for _ in range(int(sys.argv[1]))]
    print(*sorted({result.get(timeout=60) for result in results}))


if __name__ == "__main__":
    main()
