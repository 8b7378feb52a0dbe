# SPDX-License-Identifier: Apache-2.0
"""What pystack is to cost at most, and the runs that tell."""

import judge

RUN_TIME = "run time"
RUNS = {  # name: (workload, rate, rounds where they are not those of the command line)
    "busy": ("busy", "1000", None),
    "threads": ("threads", "1000", None),
    "deep": ("deep", "1000", None),
    "waiting": ("waiting", "1000", None),
    "crowd": ("crowd", "1000", None),
    "twenty": ("twenty", "1000", None),
    "turns": ("turns", "1000", None),
    "idle": ("idle", "1000", None),
    "pool": ("pool", "1000", None),
    "10 kHz": ("busy", "10000", None),
    "max": ("shallow", "max", None),
    RUN_TIME: ("busy", "1000", 31),
}
AT_MOST, AT_LEAST = "<=", ">="
# What the goals for CPU take the bare loop to cost, in % of a core: they count 11 us for
# a wake-up, which takes 25 to 40 on a virtual machine.
LOOP, LOOP_10_KHZ = 1.1, 12
FIGURES = (  # title, run, key, how it is printed, goal and the loop that it assumes
    ("1 kHz, 1 busy thread: CPU %", "busy", "cpu_pct", "%.2f", (AT_MOST, 1.5, LOOP)),
    ("1 kHz, 8 busy threads: CPU %", "threads", "cpu_pct", "%.2f", (AT_MOST, 2, LOOP)),
    ("1 kHz, 400 frames deep: CPU %", "deep", "cpu_pct", "%.2f", (AT_MOST, 2, LOOP)),
    ("1 kHz, 1 busy and 200 waiting: CPU %", "waiting", "cpu_pct", "%.2f",
     (AT_MOST, 1.7, LOOP)),
    ("1 kHz, 1,000 threads, few run: CPU %", "crowd", "cpu_pct", "%.2f",
     (AT_MOST, 3, LOOP)),
    ("10 kHz, 1 busy thread: CPU %", "10 kHz", "cpu_pct", "%.2f",
     (AT_MOST, 14, LOOP_10_KHZ)),
    ("10 kHz: ticks, % of the bare loop's", "10 kHz", "ticks_pct", "%.1f",
     (AT_LEAST, 98)),
    ("-F max, 1 shallow thread: samples a second", "max", "got_hz", "%.0f",
     (AT_LEAST, 1000000)),
    ("1 kHz: run time over bare, lower 95 % bound", RUN_TIME, "slow_low", "%.4f",
     (AT_MOST, 1.01)),
    ("  its median", RUN_TIME, "slow", "%.4f", None),
    ("all at 1 and 10 kHz: chance of perfect samples", "busy", "joint", "%.2g",
     (AT_LEAST, judge.JOINT_LEAST)),
    ("1 thread: bytes a sample on disk", "busy", "sample_bytes", "%.2f", (AT_MOST, 7)),
    ("20 threads: bytes a sample on disk", "twenty", "sample_bytes", "%.2f",
     (AT_MOST, 2)),
    ("1 thread: memory added to the program, KB", "busy", "rss_kb", "%.0f",
     (AT_MOST, 2048)),
    ("1,000 threads: the same", "crowd", "rss_kb", "%.0f", (AT_MOST, 2048)),
    ("1 thread: memory of the recorder, MB", "busy", "recorder_mb", "%.1f",
     (AT_MOST, 10)),
    ("1,000 threads: the same", "crowd", "recorder_mb", "%.1f", (AT_MOST, 10)),
)


def verdict(value, loop, goal):
    """Where a goal for CPU is missed, also how it stands to the loop of this machine."""
    if value is None:
        return "not measured"
    if goal is None:
        return ""
    how, bound, *assumed = goal
    if value <= bound if how == AT_MOST else value >= bound:
        return "met"
    if not assumed or not loop:
        return "MISSED"
    return "MISSED (%.2f times the loop, for %.2f)" % (value / loop, bound / assumed[0])


def add_derived(table):
    ours, loop = table["10 kHz"]["pystack"], table["10 kHz"]["sleep loop"]
    if ours.get("got_hz") and loop.get("got_hz"):
        ours["ticks_pct"] = 100 * ours["got_hz"] / loop["got_hz"]
    table["busy"]["pystack"]["joint"] = judge.joint(
        [one.get("pystack", {}) for one in table.values()])[2]
    bounds = table[RUN_TIME]["pystack"].get("slow_bounds")
    table[RUN_TIME]["pystack"]["slow_low"] = bounds[0] if bounds else None


def lines(table):
    """(title, goal, figure, figure of the bare loop, verdict) of each; table has rows
    by run and arm."""
    add_derived(table)
    for title, run, key, form, goal in FIGURES:
        values = [table[run].get(arm, {}).get(key) for arm in ("pystack", "sleep loop")]
        shown = ["" if value is None else form % value for value in values]
        yield (title, "%s %.8g" % goal[:2] if goal else "", *shown,
               verdict(*values, goal))
