# SPDX-License-Identifier: Apache-2.0
# Every CPython found, spawned and attached: the stacks and the shares of time are true.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# Does the file have samples of the last thread already?
has_stacks() {
    collapsed -i "$1" --per-thread 2>/dev/null | grep -q 'at-8 .*park '
}

# Record the parked program by a way, and compare.
check_parked() { # python way
    local app=$apps/parked.py pid
    rm -f truth stop f
    if [ "$2" = spawn ]; then
        record -q -F 200 -o f -- "$1" "$app" truth stop &
        pid=$!
        wait_until 30 test -e truth || return
        # The file has them once a second.
        wait_until 30 has_stacks f || return
        touch stop
        wait $pid || return
    else
        "$1" "$app" truth stop &
        pid=$!
        wait_until 30 test -e truth || return
        record -q -F 200 -d 0.4 -o f -p $pid || return
        touch stop
        wait $pid
    fi
    collapsed -i f --per-thread > stacks
    python3 "$here/compare-parked.py" truth stacks
}

check_all_parked() { # way
    local version path count=0
    while read -r version path; do
        run check_parked "$path" "$1"
        echo "# $version $1: $output" >&3
        [ "$status" -eq 0 ]
        count=$((count + 1))
    done < <(pythons)
    [ $count -gt 0 ] || skip "no CPython 3.8 to 3.15 found"
}

@test "40 parked threads: every function, file and line, spawned" {
    check_all_parked spawn
}

@test "40 parked threads: every function, file and line, attached" {
    check_all_parked attach
}

command_recorder() { # command
    local answer
    echo "$1" >&7
    read -r -t 60 answer <&8
    [ "$answer" = ack ]
}

# Samples in each function, and the time it says it spent there, as one line.
run_shares() { # name python way
    local pid recorder
    rm -f stop stop.go out f commands answers
    if [ "$3" = spawn ]; then
        SEED=$RANDOM record -q --no-adaptive -F 1000 -o f -- "$2" "$apps/shares.py" 2 > out
    else
        # The program's account and the recording are of the same time, however long the
        # recorder takes to begin and to end.
        SEED=$RANDOM "$2" "$apps/shares.py" 120 stop > out &
        pid=$!
        wait_until 30 has_line out ready
        mkfifo commands answers
        exec 7<> commands 8<> answers
        "$PYSTACK" record -q --no-adaptive -F 1000 -D -1 --control=fifo:commands,answers \
            -o f -p $pid 7>&- 8>&- &
        recorder=$!
        command_recorder enable
        touch stop.go
        sleep 2
        command_recorder disable
        touch stop
        wait $pid
        wait $recorder
        exec 7>&- 8>&-
    fi
    collapsed -i f > stacks
    python3 - "$1" <<'PY'
import re, sys
names = ("f50", "f30", "f20")
n = dict.fromkeys(names, 0)
for line in open("stacks", encoding="utf-8"):
    for name in names:
        if re.search(r"(^|;)%s \(" % name, line):
            n[name] += int(line.rsplit(" ", 1)[1])
words = [l for l in open("out") if l.startswith("TRUTH")][0].split()
t = dict(zip(words[1::2], words[2::2]))
print(sys.argv[1], *(n[x] for x in names), *(t[x] for x in names))
PY
}

@test "50/30/20 % of the time: one joint test over the matrix" {
    local version path way
    : > runs
    while read -r version path; do
        for way in spawn attach; do
            run_shares "$version-$way" "$path" $way >> runs
        done
    done < <(pythons)
    [ -s runs ] || skip "no CPython 3.8 to 3.15 found"
    run python3 "$here/judge-shares.py" runs
    sed 's/^/# /' <<< "$output" >&3
    [ "$status" -eq 0 ]
}
