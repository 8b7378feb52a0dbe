# SPDX-License-Identifier: Apache-2.0
# The bench works: its table comes out, and its judge of truth finds what is false.  What
# it measures is judged nowhere here.
load helpers

bench=$TOP_SRCDIR/tests/bench
export PYTHONDONTWRITEBYTECODE=1

a_table() { # [option ...]
    "$PYTHON" "$bench/bench.py" --pystack "$PYSTACK" --python "$PYTHON" \
        --workload busy --rate 1000 --pairs 1 --seconds 0.2 --json runs.json "$@"
}

# A run of a workload: what it says of itself in "account", its stacks in "stacks".
record_workload() { # name seconds
    "$PYSTACK" record -q -F 1000 --no-adaptive -- \
        "$PYTHON" "$bench/workloads.py" "$@" > account || return
    "$PYSTACK" script --format=collapsed > stacks
}

judge() {
    "$PYTHON" "$bench/judge.py" account "$@"
}

setup_file() {
    "$PYTHON" -c 'import os; os.pidfd_open' 2>/dev/null || skip "needs Python 3.9"
}

@test "the table has a row for the bare loop and one for pystack, and the runs as JSON" {
    requires "${CC%% *}"
    run --separate-stderr a_table
    [ "$status" -eq 0 ]
    [[ "$output" == *$'\n1000  sleep loop '* ]]
    [[ "$output" == *$'\n1000  pystack '* ]]
    [[ "$output" == *$'\npystack: chance '*" jointly, over 1 row ("* ]]
    [[ "$output" != *" runs failed"* ]]
    "$PYTHON" -c '
import json, sys
rows = json.load(open("runs.json"))["rows"]
row, = [row for row in rows if row["tool"] == "pystack"]
for key in ("slow", "cpu_pct", "got_hz", "sample_bytes", "recorder_mb"):
    assert row[key] > 0, key'
}

@test "a peer that is not here is a line of the table as Markdown, and no failure" {
    requires "${CC%% *}"
    run --separate-stderr a_table --markdown --peer tachyon --python315 /nonexistent \
        --folder "$PWD/peers"
    [ "$status" -eq 0 ]
    [[ "$output" == *"- not measured: tachyon: '/nonexistent' is not a CPython"* ]]
    [[ "$output" == *$'\n| 1000 | pystack | '* ]]
    [ ! -e peers ]
}

@test "a true profile passes, and one with two functions exchanged does not" {
    record_workload busy 0.5
    run judge stacks
    [ "$status" -eq 0 ]
    [[ "$output" == *"as true as samples can be" ]]
    sed 's/;objects (/;OTHER (/; s/;generator (/;objects (/; s/;OTHER (/;generator (/' \
        stacks > false
    run judge false
    [ "$status" -eq 1 ]
    [[ "$output" == *"NOT TRUE" ]]
}

@test "a stack that the program cannot have is found" {
    "$PYTHON" "$bench/workloads.py" oracle 0.01 > account
    echo 'main (w.py:1);measured_oracle (w.py:2);t (w.py:3);t2 (w.py:4) 1000' > stacks
    run judge stacks
    [ "$status" -eq 0 ]
    [[ "$output" == *"impossible stacks: 0 of 1000"* ]]
    echo 'main (w.py:1);measured_oracle (w.py:2);t (w.py:3);t11 (w.py:4) 1' >> stacks
    run judge stacks
    [ "$status" -eq 1 ]
    [[ "$output" == *"impossible stacks: 1 of 1001"* ]]
}

# Made-up rows: the sum of chi-squares, and what its chance is by the book (95 % of
# chi-square are below 11.07 with 5 degrees of freedom, 99.9 % below 29.59 with 10).
@test "the joint test of all rows adds up what each row has, and finds who is off in each" {
    cat > joint.py <<'PY'
import sys

sys.path.insert(0, sys.argv[1])
import goals
import judge
import tables


def near(got, wanted):
    assert abs(got - wanted) < 0.02 * wanted, (got, wanted)


near(judge.chance(11.07, 5), 0.05)
near(judge.chance(29.59, 10), 0.001)
chi2, dof, chance = judge.joint([{"chi2": 5.07, "dof": 2}, {"chi2": 6.0, "dof": 3}, {},
                                 {"chi2": 0, "dof": 0}, {"chi2": None, "dof": None}])
assert abs(chi2 - 11.07) < 1e-9 and dof == 5
near(chance, 0.05)
assert judge.joint([]) == (0, 0, None) and judge.joint([{}])[2] is None

# Each row alone is nothing (p 0.03), all of them together are.
rows = [{"tool": tool, "rate": "1000", "chi2": chi2, "dof": 5}
        for tool, chi2 in (("pystack", 4.0), ("other", 12.4), ("sleep loop", 0))
        for _ in range(10)]
for row in rows:
    if row["tool"] == "sleep loop":
        del row["chi2"], row["dof"]
assert judge.chance(12.4, 5) > 0.025
print(*tables.joint_lines(rows), sep="\n")
print(*tables.joint_lines([dict(row, tool="pystack 3.15") for row in rows
                           if row["tool"] == "other"]), sep="\n")

table = {key: {"pystack": {"chi2": 40.0 if key == "pool" else 3.0, "dof": 4},
               "sleep loop": {}} for key in goals.RUNS}
del table["max"]["pystack"]["chi2"], table["max"]["pystack"]["dof"]
for line in goals.lines(table):
    if "perfect" in line[0]:
        print(line[1], "|", line[2], "|", line[4])
near(table["busy"]["pystack"]["joint"], judge.chance(40 + 3 * (len(table) - 2),
                                                     4 * (len(table) - 1)))
PY
    run "$PYTHON" joint.py "$bench"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} =~ ^'pystack: chance 0.'[0-9]+' jointly, over 10 rows (chi-square 40.0 of 50); goal > 0.001: met'$ ]]
    [[ ${lines[1]} =~ ^'other: chance '[0-9.]+e-[0-9]+' jointly, over 10 rows (chi-square 124.0 of 50)'$ ]]
    [[ ${lines[2]} == "pystack 3.15: chance "*"; goal > 0.001: MISSED" ]]
    [[ ${lines[3]} =~ ^'>= 0.001 | 0.'[0-9]+' | met'$ ]]
}
