# SPDX-License-Identifier: Apache-2.0
# Threads that wait are not read anew at each tick: what is shown of them must be where
# they are all the same, also where only a caller far from the leaf tells.
load helpers

threads=60
# Where the machine is too busy some ticks are missed, which are not in the account of the
# recording; to take a stack for unchanged too easily was off by 10.
points_most=4

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# Wall time by line in the recording against the program's own account.
compare_lines() {
    awk -v most=$points_most '
        FNR == NR { truth[$1] = $2; whole += $2; next }
        match($0, /by_turns \([^;]*:[0-9]+\);wait \(/) {
            line = substr($0, RSTART, RLENGTH)
            gsub(/^.*:|\);wait \(/, "", line)
            seen[line] += $NF
            total += $NF
        }
        END {
            for (line in seen)
                if (!(line in truth)) { printf "line %s waits nowhere\n", line; bad = 1 }
            for (line in truth) {
                got = 100 * seen[line] / (total ? total : 1)
                wanted = 100 * truth[line] / whole
                printf "line %s: %.2f %% of %.2f; ", line, got, wanted
                bad = bad || got - wanted > most || wanted - got > most
            }
            printf "%.1f s\n", total / 1e6
            exit bad || total / 1e6 < whole / 10
        }' truth stacks
}

check_waits() { # python
    record -q -F 1000 --no-adaptive -o f -- "$1" "$apps/waits.py" truth 2 $threads &&
        collapsed -e wall -i f > stacks && compare_lines
}

@test "60 threads that wait by turns: the line that waits has the time" {
    local version path count=0
    while read -r version path; do
        run check_waits "$path"
        echo "# $version: $output" >&3
        [ "$status" -eq 0 ]
        count=$((count + 1))
    done < <(pythons)
    [ $count -gt 0 ] || skip "no CPython 3.8 to 3.15 found"
}
