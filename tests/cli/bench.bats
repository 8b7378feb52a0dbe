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
