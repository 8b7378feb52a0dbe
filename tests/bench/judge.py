#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A profile against the account that the program kept of itself (workloads.py).

usage: judge.py ACCOUNT STACKS

ACCOUNT is what workloads.py prints, STACKS has collapsed stacks of the same run,
counted in samples.  Prints the share of each function in both, the error beside the
noise of a perfect sampler, and the chance that a perfect one is as far off.  Status 1
when that is less than one in a million and a function is off by more than 5 points, or
when a stack is impossible: where no CPU is free, ticks come late or are missed, and so
in crowds, so that a good sampler too is a few points off.
"""
import json
import math
import statistics
import sys

SPANS = ("measured", "measured_idle", "measured_turns", "measured_oracle")
REST = "(rest)"
LEAST_SAMPLES = 30
LEAST_EXPECTED = 5     # in a cell of the chi-square test
NEVER = 1e-6
POINTS = 5
JOINT_LEAST = 1e-3     # of pystack, over all programs together


def collapsed(text, name_of):
    """(frames as name_of makes them, root first, weight) of each line."""
    for line in text.splitlines():
        stack, found, weight = line.rpartition(" ")
        if found and weight.isdigit() and not line.startswith("#"):
            yield [name_of(frame) for frame in stack.split(";")], int(weight)


def name_of(frame):
    """Of "name (file:line)"."""
    return frame.split(" (")[0]


def span_at(names):
    return next((i for i, name in enumerate(names) if name in SPANS), None)


def shares_of(stacks, truth):
    """Weights by function of the account, from (names root first, weight)."""
    shares = {}
    for names, weight in stacks:
        at = span_at(names)
        if at is None:
            continue
        name = names[at + 1] if at + 1 < len(names) else REST
        name = name if name in truth else REST
        shares[name] = shares.get(name, 0) + weight
    return shares


def errors(run, shares, samples):
    """Of the shares to the true ones, in points; noise is that of as many random
    samples.  Nothing where there is nothing to compare."""
    total, whole = sum(shares.values()), sum(run["truth"].values())
    if total <= 0 or samples < LEAST_SAMPLES or whole <= 0 or len(run["truth"]) < 2:
        return {}
    true = {name: max(0.0, value) / whole for name, value in run["truth"].items()}
    seen = {name: shares.get(name, 0) / total for name in true}
    off = [abs(seen[name] - p) for name, p in true.items()]
    noise = [math.sqrt(2 / math.pi * p * (1 - min(1.0, p)) / samples)
             for p in true.values()]
    chi2, cells = chi_square([(samples * seen[name], samples * p,
                               samples * run["unsure"][name] / whole)
                              for name, p in true.items()])
    return {"shares": seen, "true": true, "error_pp": 100 * statistics.mean(off),
            "error_max_pp": 100 * max(off), "noise_pp": 100 * statistics.mean(noise),
            "chi2": chi2, "dof": max(0, cells - 1)}


def chi_square(found):
    """Of (samples seen, expected, by how many that may be wrong): chi-square and its
    number of cells, the small ones put together."""
    cells, small = [], (0.0, 0.0, 0.0)
    for cell in found:
        if cell[1] < LEAST_EXPECTED:
            small = tuple(map(sum, zip(small, cell)))
        else:
            cells.append(cell)
    if small[1] > 0 and cells:
        least = min(range(len(cells)), key=lambda i: cells[i][1])
        if small[1] < LEAST_EXPECTED:
            small = tuple(map(sum, zip(small, cells.pop(least))))
        cells.append(small)
    chi2 = sum((seen - e) ** 2 / (e + wrong ** 2) for seen, e, wrong in cells)
    return chi2, len(cells)


def chance(chi2, dof):
    """P(chi-square with dof degrees of freedom > chi2): the upper incomplete gamma
    function, by its series or its continued fraction."""
    if dof <= 0:
        return None
    a, x = dof / 2, chi2 / 2
    if x <= 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        k = a
        while term > total * 1e-15:
            k += 1
            term *= x / k
            total += term
        return max(0.0, 1 - front * total)
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    value = d
    for i in range(1, 10000):
        an = -i * (i - a)
        b += 2
        d = 1 / (an * d + b or tiny)
        c = b + an / c or tiny
        value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return front * value


def joint(rows):
    """(chi-square, degrees of freedom, chance) of all rows that have them: runs are
    independent, so both add up, and a sampler that is a little off in each is found."""
    chi2 = sum(row.get("chi2") or 0 for row in rows if row.get("dof"))
    dof = sum(row.get("dof") or 0 for row in rows)
    return chi2, dof, chance(chi2, dof)


def impossible(stacks, callers):
    """(samples with a call that the program cannot make, samples judged), of stacks
    below the span; a function of the tree below none of it is one too."""
    bad = judged = 0
    for names, weight in stacks:
        # From the leaf up to what is no function of the tree.
        chain = [name for name in names if name in callers or name in SPANS]
        if not any(name in callers for name in chain):
            continue
        judged += weight
        pairs = zip([None] + chain, chain)
        if any(name in callers and caller != callers[name] for caller, name in pairs):
            bad += weight
    return bad, judged


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    with open(sys.argv[1]) as f:
        run = json.load(f)
    with open(sys.argv[2]) as f:
        stacks = list(collapsed(f.read(), name_of))
    good = True
    if run["callers"]:
        bad, judged = impossible(stacks, run["callers"])
        print("impossible stacks: %d of %d" % (bad, judged))
        good = bad == 0 and judged > 0
    shares = shares_of(stacks, run["truth"])
    total, whole = sum(shares.values()), sum(run["truth"].values())
    if total == 0:
        sys.exit("judge: no stack of the program's work in %s" % sys.argv[2])
    for name, value in sorted(run["truth"].items(), key=lambda one: -one[1]):
        print("%-12s %6.2f %%  true %6.2f %%" % (
            name, 100 * shares.get(name, 0) / total, 100 * value / whole))
    found = errors(run, shares, total)
    if found:
        p = chance(found["chi2"], found["dof"])
        print("error %.2f pp, noise %.2f pp, %d samples, p %.3g" % (
            found["error_pp"], found["noise_pp"], total, 1 if p is None else p))
        good = good and (p is None or p >= NEVER or found["error_max_pp"] <= POINTS)
    print("as true as samples can be" if good else "NOT TRUE")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
