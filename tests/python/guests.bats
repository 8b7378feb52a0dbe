# SPDX-License-Identifier: Apache-2.0
# Programs with libraries in them that own signal handlers, alternate stacks, thread states
# or interruptible calls: started and attached, they keep what is theirs.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# Run apps/guest.py under record, let the late things happen in the middle of it.
run_guest() { # python kind way
    local recorder program status=0
    rm -f beat stop stop.late out err f
    if [ "$3" = spawn ]; then
        "$PYSTACK" record -F 2000 -o f -- "$1" "$apps/guest.py" "$tools/guest.so" "$2" \
            beat stop > out 2> err &
        recorder=$!
        wait_until 30 test -e beat || return
    else
        "$1" "$apps/guest.py" "$tools/guest.so" "$2" beat stop > out &
        program=$!
        wait_until 30 test -e beat || return
        "$PYSTACK" record -F 2000 -o f -p $program 2> err &
        recorder=$!
    fi
    wait_until 30 has_function f down || return
    touch stop.late
    for _ in 1 2 3; do
        wait_until 30 beat_moved "$(cat beat)" || return
    done
    if [ "$3" = attach ]; then
        kill -INT $recorder
        wait $recorder || return
        wait_until 30 beat_moved "$(cat beat)" || return
        touch stop
        wait $program || status=$?
    else
        touch stop
        wait $recorder || status=$?
    fi
    [ "$(cat out)" = DONE ] && [ $status -eq 0 ] || { cat out err; return 1; }
    has_function f down
}

beat_moved() {
    [ "$(cat beat)" != "$1" ]
}

# On every Python or, as each takes seconds, on some.
check_guest() { # kind pythons|some_pythons
    local version path way count=0
    while read -r version path; do
        for way in spawn attach; do
            run run_guest "$path" "$1" $way
            [ "$status" -eq 0 ] || echo "# $version $1 $way: $output" >&3
            [ "$status" -eq 0 ]
        done
        count=$((count + 1))
    done < <($2)
    [ $count -gt 0 ] || skip "no CPython 3.8 to 3.15 found"
}

@test "a library owns SIGSEGV and SIGBUS from the start" {
    check_guest handlers-early some_pythons
}

@test "a library takes SIGSEGV and SIGBUS while we sample" {
    check_guest handlers-late pythons
}

@test "a library takes SIGSEGV and SIGBUS twice" {
    check_guest handlers-twice some_pythons
}

@test "a library owns SIGSEGV and SIGBUS behind libc's back" {
    check_guest handlers-raw some_pythons
}

@test "threads with alternate signal stacks" {
    check_guest altstack pythons
}

@test "threads that get alternate signal stacks while we sample" {
    check_guest altstack-late some_pythons
}

@test "calls that a signal would interrupt are not interrupted" {
    check_guest waits pythons
}

@test "thread states without a frame: the other threads are sampled, and these wait" {
    check_guest states pythons
    # Short threads come and go without one; of five threads there is only the state.
    [ "$(collapsed -i f -e wall --per-thread | awk '/;\[no Python frame\] / {
            if ($NF > most) most = $NF; all[n++] = $NF }
        END { for (i = 0; i < n; i++) long += all[i] > most / 2; print long }')" -eq 3 ]
    # churn twice, the one that starts short threads, main, and the short ones.
    collapsed -i f --per-thread > stacks
    grep -v ' [0-9]*$' stacks && return 1
    run ! grep -E '^[^;]*;[^;]* [0-9]+$' stacks
}
