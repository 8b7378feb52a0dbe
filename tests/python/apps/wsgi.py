# SPDX-License-Identifier: Apache-2.0
"""A WSGI application whose every answer takes a few ms of work and names its process.

usage: wsgi.py SOCKET PROCESSES   asks the server at a Unix socket until so many processes
                                  have answered 100 times; prints their numbers
"""
import os
import socket
import sys
import time


def in_view():
    end = time.perf_counter() + 0.005
    while time.perf_counter() < end:
        pass


def application(environ, start_response):
    in_view()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"pid %d\n" % os.getpid()]


def ask(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while True:
            more = connection.recv(4096)
            if not more:
                break
            answer += more
    return int(answer.rsplit(b"pid ", 1)[1])


def main():
    counts = {}
    end = time.time() + 60
    while time.time() < end:
        try:
            pid = ask(sys.argv[1])
        except (OSError, IndexError):
            time.sleep(0.02)
            continue
        counts[pid] = counts.get(pid, 0) + 1
        often = [pid for pid in counts if counts[pid] >= 100]
        if len(often) >= int(sys.argv[2]):
            print(*often)
            return
    raise SystemExit("too few have answered: %r" % counts)


if __name__ == "__main__":
    main()
