# SPDX-License-Identifier: Apache-2.0
# Attaching and detaching leaves nothing behind and disturbs nothing, whatever happens to
# the injector in the middle.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# Start apps/healthy.py; its pid is then in $healthy.
start_healthy() { # python kind
    rm -f beat stop out
    "$1" "$apps/healthy.py" "$2" beat stop > out &
    healthy=$!
    wait_until 30 test -e beat
}

# It must go on, and then end well.
end_healthy() {
    local before
    before=$(cat beat)
    wait_until 30 beat_moved "$before"
    touch stop
    wait $healthy
    [ "$(cat out)" = DONE ]
}

beat_moved() {
    [ "$(cat beat)" != "$1" ]
}

cycles_of() { # kind
    local version path count=0
    while read -r version path; do
        start_healthy "$path" "$1"
        run "$tools/attach-cycles" $healthy 200
        echo "# $version $1: $output" >&3
        [ "$status" -eq 0 ]
        end_healthy
        count=$((count + 1))
    done < <(pythons)
    [ $count -gt 0 ] || skip "no CPython 3.8 to 3.15 found"
}

@test "200 attach and detach cycles: a busy program" {
    cycles_of busy
}

@test "200 attach and detach cycles: a program in select" {
    cycles_of select
}

@test "200 attach and detach cycles: a program in sleep" {
    cycles_of sleep
}

@test "200 attach and detach cycles: a program in epoll" {
    cycles_of epoll
}

@test "200 attach and detach cycles: a program of many threads that come and go" {
    cycles_of threads
}

@test "200 attach and detach cycles: SIGSEGV and SIGBUS blocked" {
    cycles_of segv-blocked
}

@test "200 attach and detach cycles: faulthandler turned on and off all the time" {
    cycles_of faulthandler
}

# Kill the injector before its n-th step, for every n until it gets through.
kill_at_each_step() { # kind
    local version path n
    while read -r version path; do
        start_healthy "$path" "$1"
        for ((n = 1; n < 500; n++)); do
            run env DIE_AT=$n LD_PRELOAD="$tools/die-at.so" "$tools/attach-cycles" $healthy 1
            [ "$status" -eq 137 ] || break
            is_running $healthy
        done
        echo "# $version $1: killed at $((n - 1)) steps, then $output" >&3
        [ "$status" -eq 0 ]
        [ "$n" -gt 20 ]
        grep -q '^TracerPid:[[:space:]]*0$' /proc/$healthy/status
        # All are blocked for an instant wherever a thread is started.
        wait_until 10 grep -q '^SigBlk:[[:space:]]*0*$' /proc/$healthy/status
        end_healthy
    done < <(some_pythons)
}

@test "the injector killed at each step: a busy program" {
    kill_at_each_step busy
}

@test "the injector killed at each step: a sleeping program" {
    kill_at_each_step sleep
}

@test "the injector killed at each step: a program in epoll" {
    kill_at_each_step epoll
}

@test "the injector killed at each step: many threads" {
    kill_at_each_step threads
}

@test "a second recorder of the same process is refused, and the first goes on" {
    start_healthy /usr/bin/python3 busy
    "$PYSTACK" record -q -o first -p $healthy 2> first.err &
    local first=$!
    wait_until 20 has_samples first
    run record -o second -p $healthy
    [ "$status" -eq 125 ]
    [[ "$output" == *"already being recorded"* ]]
    kill -INT $first
    wait $first
    end_healthy
    has_samples first
}

has_samples() {
    [ "$(collapsed -i "$1" 2>/dev/null | wc -l)" -gt 0 ]
}

@test "a traced process is refused and named" {
    command -v strace >/dev/null || skip "strace is not installed"
    start_healthy /usr/bin/python3 busy
    strace -q -o /dev/null -e trace=none -p $healthy &
    local tracer=$!
    wait_until 20 grep -q '^TracerPid:[[:space:]]*[1-9]' /proc/$healthy/status
    run record -o f -p $healthy
    [ "$status" -eq 125 ]
    [[ "$output" == *"already traced by process $tracer (strace"* ]]
    kill -INT $tracer
    wait $tracer || true
    end_healthy
}

@test "a stopped process is refused and left stopped" {
    start_healthy /usr/bin/python3 busy
    kill -STOP $healthy
    wait_until 20 grep -q '^State:[[:space:]]*T' /proc/$healthy/status
    run record -o f -p $healthy
    [ "$status" -eq 125 ]
    [[ "$output" == *"it is stopped; let it go on first: kill -CONT $healthy"* ]]
    grep -q '^State:[[:space:]]*T' /proc/$healthy/status
    kill -CONT $healthy
    end_healthy
}


# Without random addresses, so that what was mapped for the first program lies where the
# second one has memory.
executed() { # python
    local pid recorder
    rm -f first second go stop out err f
    setarch -R "$1" "$apps/executes.py" former > out &
    pid=$!
    wait_until 30 test -e first || return
    "$PYSTACK" record --no-inherit -o f -p $pid 2> err &
    recorder=$!
    wait_until 30 has_line err 'Ctrl-C ends it' || return
    # It is to see that late, when there is something to be damaged.
    kill -STOP $recorder
    touch go
    wait_until 30 test -e second || return
    kill -CONT $recorder
    wait_until 30 has_line err 'executed another program' || return
    kill -INT $recorder 2>/dev/null
    wait $recorder
    touch stop
    wait $pid || { echo "the program ended with $?"; return 1; }
    grep -qx DONE out
}

@test "a program that executes another while attached: nothing of that is unmapped" {
    local version path
    setarch -R true || skip "addresses cannot be made fixed here"
    while read -r version path; do
        run executed "$path"
        [ "$status" -eq 0 ] || { echo "$version: $output"; cat err out; return 1; }
    done < <(pythons)
}
