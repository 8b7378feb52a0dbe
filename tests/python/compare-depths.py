# SPDX-License-Identifier: Apache-2.0
"""Compare shares by depth over rounds: compare-depths.py FILE MOST

FILE has lines "ROUND naive|recorded depth D WEIGHT".  Where CPUs are scarce the program
stands still for a while in each round, and whatever it is at weighs more; how much that
moves a share is read off the rounds themselves.  Fails when the mean shares of a depth
differ by more than MOST points and four standard errors.
"""
import collections
import statistics
import sys


def main():
    most = float(sys.argv[2])
    weights = collections.defaultdict(lambda: collections.Counter())
    for line in open(sys.argv[1]):
        number, who, _, depth, weight = line.split()
        weights[who, number][int(depth)] += int(weight)
    depths = sorted({depth for counts in weights.values() for depth in counts})
    means, errors = {}, {}
    for who in ("naive", "recorded"):
        rounds = [[100.0 * counts[d] / sum(counts.values()) for d in depths]
                  for (name, _), counts in weights.items() if name == who]
        if len(rounds) < 3:
            sys.exit("only %d rounds of %s" % (len(rounds), who))
        means[who] = [statistics.mean(shares) for shares in zip(*rounds)]
        errors[who] = [statistics.stdev(shares) / len(rounds) ** 0.5
                       for shares in zip(*rounds)]
        print("%-8s %s  +- %s in %d rounds" % (
            who, " ".join("%.1f" % m for m in means[who]),
            " ".join("%.1f" % e for e in errors[who]), len(rounds)))
    wrong = []
    for i, depth in enumerate(depths):
        off = abs(means["naive"][i] - means["recorded"][i])
        error = (errors["naive"][i] ** 2 + errors["recorded"][i] ** 2) ** 0.5
        if off > most + 4 * error:
            wrong.append("depth %d is off by %.1f points +- %.1f" % (depth, off, error))
    sys.exit("; ".join(wrong) or 0)


main()
