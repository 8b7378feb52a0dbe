# SPDX-License-Identifier: Apache-2.0
"""Runs a workload with the stack engine of ddtrace in it, and nothing else of ddtrace:
at a fixed rate, all threads, whole stacks, memory read directly.

usage: with-ddtrace.py HZ OUTPUT workloads.py [ARGUMENT ...]

OUTPUT.PID.N.pprof is the profile, of each process of a pool one; OUTPUT.cost has the
CPU seconds of import and start, and those of the end.
"""
import json
import os
import sys
import time

os.environ["DD_INSTRUMENTATION_TELEMETRY_ENABLED"] = "false"
os.environ["DD_TRACE_ENABLED"] = "false"

FRAMES = 512
ALL_THREADS = 1 << 20


def tasks():
    return set(os.listdir("/proc/self/task"))


def start(hz, output):
    from ddtrace.internal.datadog.profiling import ddup, stack
    from ddtrace.profiling.collector import threading as registry
    ddup.config(service="bench", env="bench", version="1", tags={}, max_nframes=FRAMES,
                timeline_enabled=False, output_filename=output)
    ddup.start()
    before = tasks()
    stack.set_adaptive_sampling(False)
    stack.set_max_threads(ALL_THREADS)
    stack.set_max_frames(FRAMES)
    stack.set_fast_copy(True)
    stack._stack._set_fast_copy_warmup_seconds(0.0)
    if not stack.start(1 / hz):
        sys.exit("with-ddtrace: the stack engine does not start")
    stack.set_interval(1 / hz)
    registry.init_stack()
    return ddup, stack, tasks() - before


def main():
    hz, output = float(sys.argv[1]), sys.argv[2]
    before = time.process_time()
    ddup, stack, own = start(hz, output)
    cost = {"start": time.process_time() - before}

    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[3])))
    import workloads
    workloads.sampler_tasks += own
    # Nothing writes the profile of a process that is gone by os._exit.
    workloads.at_child_end.append(ddup.upload)
    workloads.main(sys.argv[4:])

    before = time.process_time()
    stack.stop()
    ddup.upload()
    cost["end"] = time.process_time() - before
    with open(output + ".cost", "w") as f:
        json.dump(cost, f)


main()
