# SPDX-License-Identifier: Apache-2.0
"""Makes processes in one of many ways; each works for a while in a function of its own.

usage: tree.py KIND [GO-FILE]

With GO-FILE it prints ready and waits for that first.  Prints DONE when all its children have ended well.
"""
import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
import time

WORK_S = 0.25
CODE = """
import time
def in_program():
    end = time.process_time() + %s
    while time.process_time() < end:
        pass
in_program()
""" % WORK_S
PROGRAM = [sys.executable, "-c", CODE]


def work():
    end = time.process_time() + WORK_S
    while time.process_time() < end:
        pass


def in_child():
    work()


def in_daemon():
    work()


def in_worker(number):
    work()


def fork():
    pid = os.fork()
    if pid == 0:
        in_child()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def fork_in_thread():
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()


def fork_in_c():
    """Python's own hooks are not called: the child's thread states are its parent's."""
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        in_child()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def fork_in_c_in_thread():
    thread = threading.Thread(target=fork_in_c)
    thread.start()
    thread.join()


def daemon():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            in_daemon()
            os.write(writer, b"well")
        os._exit(0)
    os.wait()
    os.close(writer)
    assert os.read(reader, 4) == b"well"


def run(**keywords):
    subprocess.check_call(PROGRAM, **keywords)


def run_by_fork():
    # A function to be called in the child rules vfork out.
    run(preexec_fn=lambda: None)


def cleared():
    run(env={})


def posix_spawn():
    pid = os.posix_spawn(sys.executable, PROGRAM, os.environ)
    assert os.waitpid(pid, 0)[1] == 0


def system():
    os.environ["CODE"] = CODE
    assert os.system('"%s" -c "$CODE"; true' % sys.executable) == 0


def in_short():
    end = time.monotonic() + 0.03
    while time.monotonic() < end:
        pass


def storm():
    """200 processes that come and go, a few at a time."""
    pids = []
    for number in range(200):
        pid = os.fork()
        if pid == 0:
            in_short()
            os._exit(0)
        pids.append(pid)
        if len(pids) == 4:
            for pid in pids:
                assert os.waitpid(pid, 0)[1] == 0
            pids = []


def nested():
    subprocess.check_call([sys.executable, __file__, "marked"], stdout=subprocess.DEVNULL)


def in_marked():
    work()


def marked():
    in_marked()
    run()


def execute():
    print("DONE")
    sys.stdout.flush()
    os.execv(sys.executable, PROGRAM)


def pool(method):
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=in_worker, args=(n,)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def main():
    kind = sys.argv[1]
    if len(sys.argv) > 2:
        print("ready")
        sys.stdout.flush()
        end = time.time() + 60
        while not os.path.exists(sys.argv[2]) and time.time() < end:
            time.sleep(0.02)
    if kind in ("spawn", "forkserver"):
        pool(kind)
    elif kind == "pool":
        pool("fork")
    else:
        globals()[kind]()
    print("DONE")


if __name__ == "__main__":
    main()
