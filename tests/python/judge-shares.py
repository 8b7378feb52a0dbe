#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judge-shares.py RUNS: one joint test over recordings of apps/shares.py.

RUNS has a line a run: "NAME n50 n30 n20 t50 t30 t20", samples seen and seconds spent.
Prints each run's chi-square, the joint p and the pooled bias of each function in sigmas.
Status 1 when p < 1e-6: an unbiased sampler comes there once in a million times.
"""
import math
import sys


def survival(x, dof):
    """P(chi-square with an even number of degrees of freedom > x)."""
    term, total = 1.0, 0.0
    for k in range(dof // 2):
        if k:
            term *= x / 2 / k
        total += term
    return math.exp(-x / 2) * total


def main():
    chi2, dof = 0.0, 0
    pooled = [[0.0, 0.0, 0.0] for _ in range(3)]
    for line in open(sys.argv[1]):
        words = line.split()
        n = [int(x) for x in words[1:4]]
        t = [float(x) for x in words[4:7]]
        total, time = sum(n), sum(t)
        if total < 300:
            print("%s: only %d samples" % (words[0], total))
            return 1
        expected = [total * x / time for x in t]
        one = sum((a - b) ** 2 / b for a, b in zip(n, expected))
        chi2 += one
        dof += 2
        for i in range(3):
            share = t[i] / time
            pooled[i][0] += n[i]
            pooled[i][1] += expected[i]
            pooled[i][2] += total * share * (1 - share)
        print("%-24s %6d samples  %5.2f %5.2f %5.2f %%  of %5.2f %5.2f %5.2f  chi2 %.2f" % (
            (words[0], total) + tuple(100.0 * x / total for x in n)
            + tuple(100.0 * x / time for x in t) + (one,)))
    p = survival(chi2, dof)
    print("joint: chi2 %.2f of %d degrees of freedom, p %.3g" % (chi2, dof, p))
    print("pooled bias: " + ", ".join("%s %+.2f sigma" % (name, (a - b) / math.sqrt(v))
                                      for name, (a, b, v) in zip(("f50", "f30", "f20"), pooled)))
    return p < 1e-6


sys.exit(main())
