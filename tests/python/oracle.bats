# SPDX-License-Identifier: Apache-2.0
# A program whose every caller, callee and line is known, and that calls or returns every
# 100 ns: of a million stacks none may be impossible and shown as good, and the shares by
# depth must be those of a reader that looks at the top frame alone.  The million is taken
# as fast as can be, the shares at a usual rate: a million readings a second hold the
# program up so often that they move its own shares by 5 points.
load helpers

# Reruns want fewer, and no shares: TEST_ORACLE_STACKS.
stacks_wanted=1000000
approximate_most_pct=15
unreadable_most_pct=10
# By system calls: a reading each 40 us; the program calls and returns several times during
# each copy, and what was not seen several times in a row is not known.
case ${TEST_MODE-} in
thread-pwritev | thread-readv)
    stacks_wanted=30000 approximate_most_pct=95 unreadable_most_pct=30
    ;;
thread-fast | thread-handled) approximate_most_pct=30 unreadable_most_pct=20 ;;
esac
stacks_wanted=${TEST_ORACLE_STACKS-$stacks_wanted}
# A sampler that waits for stable moments is off by 10 to 30.
points_most=5
rounds_least=4
rounds_most=40

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# Rounds of recording, and of the reader, until there are enough stacks.  Under `run`
# nothing ends a function early but its own `return`.
check_oracle() { # python
    local round words stacks=0 impossible=0 approximate=0 unreadable=0
    : > depths
    for ((round = 1; round <= rounds_most; round++)); do
        record -q -F max -o f -- "$1" "$apps/oracle.py" truth 0.8 > out &&
            grep -qx DONE out || { echo "no recording"; cat out; return 1; }
        # What is impossible is counted below, over all rounds.
        "$tools/oracle-check" f truth > counts || [ $? -eq 1 ] || return
        grep '^#' counts || true
        read -r -a words < <(grep '^stacks' counts)
        stacks=$((stacks + words[1]))
        impossible=$((impossible + words[3]))
        approximate=$((approximate + words[5]))
        unreadable=$((unreadable + words[7]))
        if [ -n "${TEST_ORACLE_STACKS-}" ]; then
            [ $stacks -lt $stacks_wanted ] || break
            continue
        fi
        record -q -F 2000 --no-adaptive -o f -- "$1" "$apps/oracle.py" truth 1.5 > out &&
            "$tools/oracle-check" f truth > counts || return
        sed -n "s/^depth/$round recorded &/p" counts >> depths
        "$1" "$apps/oracle.py" truth 0.6 "$tools/naive-reader.so" \
            "$tools/print-layout" > out || return
        sed -n "s/^depth/$round naive &/p" out >> depths
        [ $stacks -lt $stacks_wanted ] || [ $round -lt $rounds_least ] || break
    done
    echo "stacks $stacks impossible $impossible approximate $approximate" \
        "unreadable $unreadable"
    [ $stacks -ge $stacks_wanted ] && [ $impossible -eq 0 ] &&
        [ $((approximate * 100)) -lt $((stacks * approximate_most_pct)) ] &&
        [ $((unreadable * 100)) -lt $((stacks * unreadable_most_pct)) ] || return
    [ -n "${TEST_ORACLE_STACKS-}" ] ||
        python3 "$here/compare-depths.py" depths $points_most
}

@test "a million stacks of known truth on each Python, none of them impossible" {
    local version path count=0 failed=
    while read -r version path; do
        run check_oracle "$path"
        sed "s/^/# $version /" <<< "$output" >&3
        [ "$status" -eq 0 ] || failed="$failed $version"
        count=$((count + 1))
    done < <(pythons)
    [ -z "$failed" ]
    [ $count -gt 0 ] || skip "no CPython 3.8 to 3.15 found"
}
