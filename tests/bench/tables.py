# SPDX-License-Identifier: Apache-2.0
"""Figures from runs, and how they are printed: as text, or as Markdown."""
import math
import statistics

import judge

SUMMARY_RATE = "1000"
CUT_AT = 4  # times the bare run: a peer may slow a program 20 times

COLUMNS = (  # title, unit or second line, width, key, format, in Markdown
    ("asked", "Hz", 5, "rate", "s", True),
    ("sampler", "", 12, "tool", "s", True),
    ("slow", "x", 6, "slow", ".3f", True),
    ("cpu", "x", 6, "program_cpu", ".3f", True),
    ("cpu", "%", 6, "cpu_pct", ".2f", True),
    ("rec", "%", 5, "recorder_pct", ".2f", False),
    ("all", "%", 6, "all_pct", ".2f", True),
    ("ends", "ms", 5, "ends_ms", ".0f", True),
    ("got", "Hz", 8, "got_hz", ".0f", True),
    ("cpu", "us/got", 6, "us_a_tick", ".1f", True),
    ("appr", "%", 5, "approximate_pct", ".2f", True),
    ("wrong", "%", 5, "impossible_pct", ".2f", True),
    ("late", "%", 5, "late_pct", ".2f", False),
    ("miss", "%", 5, "missed_pct", ".2f", False),
    ("lost", "", 5, "lost", ".0f", True),
    ("bytes/", "sample", 6, "sample_bytes", ".2f", True),
    ("RSS+", "KB", 6, "rss_kb", ".0f", True),
    ("ring", "KB", 5, "shared_kb", ".0f", False),
    ("rec", "MB", 5, "recorder_mb", ".1f", True),
    ("error", "pp", 5, "error_pp", ".2f", True),
    ("noise", "pp", 5, "noise_pp", ".2f", True),
    ("chance", "", 7, "chance", ".2g", True),
)
LEGEND = """\
slow    the program's time for its work over its bare time in the same round;
        cpu x: the same of its CPU time, which other users of the machine disturb less
cpu %   of the profiler, all its parts, while the program does its work: % of a core
rec     of it, the recorder or the peer as a process of its own; its largest size
all     cpu % and what the program uses more than bare: perf's work shows here alone;
        as noisy as cpu x
ends    CPU of the profiler before and after the work: start-up, last writing
got     ticks a second; of peers, samples a second of a thread that runs: more than
        asked where waiting threads are taken for running ones
us/got  the same CPU a tick: where CPUs are busy, some get fewer ticks than others
appr    samples marked approximate; of peers, those they call failed; of perf, those
        without a Python frame
wrong   impossible stacks shown as good, of all; 0 of n: below 3/n at 95 %
late, miss  ticks more than half a period late; periods without a tick, of all
lost    samples that could not be sent, the most of any run
RSS+    resident memory of the program over bare; ring: the shared part of it
error   mean difference to the program's own account, in points of its time;
        noise: what as many random samples would show
        perf counts CPU time, so where CPUs are busy it is off against a wall clock
chance  of a perfect sampler to be as far off, over all runs (chi-square over the
        functions); not at max, where samples are not independent, and worth little
        where no CPU is free: ticks are late then, and missed many at a time
jointly the same of all rows of a sampler together: their chi-squares and degrees of
        freedom added up, as the runs are independent; its goal stands there"""


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def sign_test_bounds(values):
    """Bounds of the median at 95 %, whatever the distribution; None below 6 values."""
    n, below, k = len(values), 0.0, 0
    while True:
        below += math.comb(n, k) / 2 ** n
        if 2 * below > 0.05:
            break
        k += 1
    return (sorted(values)[k - 1], sorted(values)[n - k]) if k > 0 else None


def both_of(runs, bare):
    """Rounds in which both went well."""
    return [(r, b) for r, b in zip(runs, bare)
            if isinstance(r, dict) and isinstance(b, dict)]


def figures(rate, name, runs, bare):
    """One line of the table, from the runs of an arm and the bare runs beside them."""
    both = both_of(runs, bare)
    failures = [r for r in runs if not isinstance(r, dict)]
    row = {"rate": rate, "tool": name, "runs": len(runs), "failures": failures}
    if not both:
        return row
    for key in (c[3] for c in COLUMNS[2:]):
        row[key] = median([r.get(key) for r, _ in both])
    lost = [r["lost"] for r, _ in both if "lost" in r]
    row["lost"] = max(lost) if lost else None
    row["us_a_tick"] = median([1e4 * r["cpu_pct"] / r["got_hz"] for r, _ in both
                               if r.get("got_hz")])
    for key, of in (("slow", "elapsed"), ("program_cpu", "cpu")):
        ratios = [(r[of] / r["done"]) / (b[of] / b["done"]) for r, b in both
                  if b[of] > 0]
        row[key] = median(ratios)
        row[key + "_ratios"] = ratios
        row[key + "_bounds"] = sign_test_bounds(ratios)
    row["all_pct"] = median([
        100 * (r.get("profiler_cpu", 0) + r["cpu"] - b["cpu"] * r["done"] / b["done"])
        / r["elapsed"] for r, b in both if "profiler_cpu" in r])
    row["error_max_pp"] = median([r.get("error_max_pp") for r, _ in both])
    row["cut"] = sum(r["done"] < 1 for r, _ in both)
    row["judged"] = sum(r["impossible"][1] for r, _ in both if "impossible" in r)
    if row["judged"]:
        row["impossible_pct"] = (100 / row["judged"]
                                 * sum(r["impossible"][0] for r, _ in both))
    if rate != "max":
        row["chi2"] = sum(r.get("chi2", 0) for r, _ in both)
        row["dof"] = sum(r.get("dof", 0) for r, _ in both)
        row["chance"] = judge.chance(row["chi2"], row["dof"])
    if "memory" in both[0][0] and not name.startswith("sleep loop"):
        for key, kind in (("rss_kb", "VmRSS"), ("shared_kb", "RssShmem")):
            row[key] = median([r["memory"][kind] - b["memory"][kind] for r, b in both])
    return row


def joint_lines(table):
    """One for each sampler whose figures were compared with the program's account."""
    for tool in dict.fromkeys(row["tool"] for row in table):
        rows = [row for row in table if row["tool"] == tool and row.get("dof")]
        chi2, dof, chance = judge.joint(rows)
        if chance is None:
            continue
        verdict = ""
        if tool.startswith("pystack"):
            verdict = "; goal > %.3g: %s" % (
                judge.JOINT_LEAST, "met" if chance > judge.JOINT_LEAST else "MISSED")
        yield "%s: chance %.2g jointly, over %d row%s (chi-square %.1f of %d)%s" % (
            tool, chance, len(rows), "" if len(rows) == 1 else "s", chi2, dof, verdict)


def notes_of(row):
    for key, title in (("slow", "slow"), ("program_cpu", "cpu x")):
        if row.get(key + "_bounds"):
            yield "%s: %.4f, 95 %% bounds %.4f to %.4f (sign test, %d pairs)" % (
                title, row[key], *row[key + "_bounds"], len(row[key + "_ratios"]))
    if row.get("judged"):
        yield "%d stacks judged" % row["judged"]
    if row.get("cut"):
        yield "%d of %d runs cut at %d times the bare time" % (
            row["cut"], row["runs"], CUT_AT)
    if row["failures"]:
        yield "%d of %d runs failed: %s" % (
            len(row["failures"]), row["runs"], row["failures"][0])


def cost_cell(row):
    """perf works in the program's time, so what that uses more is taken for it."""
    if row.get("tool", "").startswith("perf"):
        return "" if row.get("all_pct") is None else "%.1f" % row["all_pct"]
    if row.get("us_a_tick") is None:
        return "" if row.get("cpu_pct") is None else "%.1f" % row["cpu_pct"]
    return "%.1f (%.0f)" % (row["cpu_pct"], row["us_a_tick"])


def error_cell(row):
    if row.get("error_pp") is None:
        return ""
    return "%.2f (%.2f)" % (row["error_pp"], row["noise_pp"])


def impossible_cell(row):
    if row.get("impossible_pct") is None:
        return ""
    return "%.1f of %d" % (row["impossible_pct"], row["judged"])


SUMMARIES = (
    ("CPU of the profiler, % of a core (microseconds a tick)", cost_cell),
    ("Mean error, points (noise)", error_cell),
    ("Impossible stacks shown as good, %", impossible_cell),
)


class Text:
    def begin(self, workload, title):
        print("\n%s: %s" % (workload, title))

    def head(self):
        for i in (0, 1):
            print(" ".join(c[i].ljust(c[2]) if c[4] == "s" else c[i].rjust(c[2])
                           for c in COLUMNS).rstrip())

    @staticmethod
    def cell(value, form, width):
        if value is None:
            return " " * width
        if form == "s":
            return value.ljust(width)
        text = format(value, form)
        while len(text) > width and "." in text and "e" not in text:
            text = text[:-1].rstrip(".")
        return text.rjust(width)

    def row(self, row):
        print(" ".join(self.cell(row.get(c[3]), c[4], c[2]) for c in COLUMNS).rstrip())
        for note in notes_of(row):
            print(" " * 6 + note)

    def end(self):
        pass

    def about(self, lines):
        print("\n".join(lines) + "\n")

    def joint(self, lines):
        print("\n" + "\n".join(lines))

    def legend(self):
        print("\n" + LEGEND)

    def summary(self, table, titles):
        """It is on the screen already."""

    def goals(self, rows):
        form = "%-46s %10s %10s %10s  %s"
        print(form % ("", "goal", "figure", "bare loop", ""))
        for row in rows:
            print((form % row).rstrip())


class Markdown:
    """The same for a page: a table for each workload, its notes below it."""

    def __init__(self):
        self.notes = []

    def about(self, lines):
        print("\n".join("- " + line for line in lines if line))

    def head(self):
        pass

    def line(self, cells):
        print("| " + " | ".join(cells) + " |")

    def begin(self, workload, title):
        self.end()
        print("\n**%s**: %s\n" % (workload, title))
        chosen = [c for c in COLUMNS if c[5]]
        self.line([" ".join((c[0] + " " + c[1]).split()).replace("/ ", "/")
                   for c in chosen])
        self.line(["---" if c[4] == "s" else "--:" for c in chosen])

    def row(self, row):
        self.line([format(row[c[3]], c[4]) if row.get(c[3]) is not None else ""
                   for c in COLUMNS if c[5]])
        self.notes += ["%s at %s: %s" % (row["tool"], row["rate"], note)
                       for note in notes_of(row)]

    def end(self):
        if self.notes:
            print("\n" + "\n".join("- " + note for note in self.notes))
        self.notes = []

    def joint(self, lines):
        print("\n" + "\n".join("- " + line for line in lines))

    def legend(self):
        self.end()
        print("\n```\n%s\n```" % LEGEND)

    def summary(self, table, titles):
        """The questions asked first, at the usual rate: a row for each program."""
        rows = [row for row in table if row["rate"] == SUMMARY_RATE]
        tools = list(dict.fromkeys(row["tool"] for row in rows))
        for title, cell_of in SUMMARIES:
            print("\n**%s, at %s Hz**\n" % (title, SUMMARY_RATE))
            self.line(["program"] + tools)
            self.line(["---"] + ["--:"] * len(tools))
            for workload in dict.fromkeys(row["workload"] for row in rows):
                found = {row["tool"]: row for row in rows
                         if row["workload"] == workload}
                cells = [cell_of(found.get(tool, {})) for tool in tools]
                if any(cells):
                    self.line([titles[workload]] + cells)

    def goals(self, rows):
        print()
        self.line(["", "goal", "figure", "bare loop", ""])
        self.line(["---", "--:", "--:", "--:", "---"])
        for row in rows:
            self.line(row)
