# SPDX-License-Identifier: Apache-2.0
# Copies of the thread isolation: whatever a program does with SIGSEGV and SIGBUS, it goes on
# and ends as it does alone, and what took the place of our handlers is told.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    program=
    ulimit -c 0
}

teardown() {
    [ -z "$program" ] || end_process "$program"
}

app() { # python kind seconds [ready]
    "$1" "$apps/copies.py" "$tools/foreign.so" "${@:2}"
}

# Addresses are others each time.
same_text() {
    cmp -s <(sed -E 's/0x[0-9a-f]+/0x/g' "$1") <(sed -E 's/0x[0-9a-f]+/0x/g' "$2")
}

# Run apps/copies.py alone and under a recorder that attaches to it or spawns it: is its
# output the same, and its end?
as_alone() { # python way kind seconds option...
    local ready= status=0 alone=0
    rm -f f ready go
    [ "$2" = spawn ] || ready=ready
    touch go
    app "$1" "$3" "$4" $ready > alone.out 2> alone.err || alone=$?
    rm -f ready go
    if [ "$2" = spawn ]; then
        "$PYSTACK" record -q --isolation=thread -F 1000 "${@:5}" -o f -- \
            "$1" "$apps/copies.py" "$tools/foreign.so" "$3" "$4" > out 2> err ||
            status=$?
    else
        app "$1" "$3" "$4" $ready > out 2> err &
        program=$!
        wait_until 30 test -e ready || return
        record_from_go err.record --isolation=thread -F 1000 "${@:5}" -o f ||
            { cat err.record; return 1; }
    fi
    [ "$status" -eq "$alone" ] || { echo "status $status, alone $alone"; return 1; }
    same_text out alone.out || { echo "other output"; diff out alone.out; return 1; }
    # What a recorder says of a program's end by a signal is its own, and the shell says
    # something too.
    same_text <(grep -vE '^pystack:|: line [0-9]+: ' err) \
        <(grep -v ': line [0-9]*: ' alone.err) ||
        { echo "other errors"; diff err alone.err; return 1; }
}

account() {
    "$PYSTACK" report --stats -i f
}

says() { # what is to be in the account
    account > account
    grep -qE -- "$1" account || { echo "no '$1' in:"; grep -v '^#  ' account; return 1; }
}

says_not() {
    account > account
    ! grep -E -- "$1" account
}

fast=(--copy=fast --warmup=0s)

ends_fast() { # python way kind seconds
    as_alone "$@" "${fast[@]}" || return
    says '^# copies: fast' && says_not 'given up|taken over' || return
    has_function f in_main
}

taken() { # python way kind seconds option...
    as_alone "$@" || return
    says '^# copies: .*given up' && says 'taken over by .*foreign' || return
    has_function f in_main
}

@test "fast, in a program that has no handlers" {
    each_python_and_way ends_fast plain 0.3
}

@test "by system calls, in each program" {
    local kind
    for kind in plain early late toggled unmapped ignores; do
        run as_alone "$(some_pythons | tail -n 1 | cut -d' ' -f2)" spawn $kind 0.3
        [ "$status" -eq 0 ] || { echo "$kind: $output"; return 1; }
        says_not 'given up|taken over'
    done
}

# Python's signal module reads the table as the interpreter starts, and takes what is there
# for the program's.
finds_its_own() { # python option...
    as_alone "$1" spawn asks 0.2 --copy=fast "${@:2}" || return
    [ "$(grep -c '^SIG[A-Z]* <Handlers.SIG_DFL: 0>$' out)" = 2 ] || { cat out; return 1; }
}

@test "a started program finds its own actions, and can put them back" {
    with_each pythons finds_its_own --warmup=0s
    with_each some_pythons finds_its_own
}

# For a fifth of a second at least, whatever comes then: at its end Python turns it off.
was_fast() {
    "$PYSTACK" script -i f --format=jsonl | /usr/bin/python3 -c '
import json, sys
for o in map(json.loads, sys.stdin):
    if o["type"] == "stats":
        changes = [(c["mode"], c["time_ns"]) for c in o["copy"]["changes"]]
        print(changes)
        ends = [t for _, t in changes[1:]] + [1e18]
        sys.exit(not any(m == "fast" and e > t + 2e8 for (m, t), e in zip(changes, ends)))'
}

# Set before the signal module looks, so before our handlers come.
has_faulthandler() { # python
    local -x PYTHONFAULTHANDLER=1
    as_alone "$1" spawn asks 0.2 --copy=fast --warmup=0s || return
    [ "$(grep -c '^SIG[A-Z]* None$' out)" = 2 ] || { cat out; return 1; }
    as_alone "$1" spawn plain 0.6 "${fast[@]}" && was_fast || return
    dies "$1" spawn dies 0.3 "${fast[@]}" || return
    has_line err 'Fatal Python error: Segmentation fault'
}

@test "faulthandler that Python itself turns on is no takeover, and says what it has to" {
    with_each some_pythons has_faulthandler
}

# Of another program: there is an interpreter when that wants one.
in_host() { # python
    local library home script="import sys
sys.argv = ['copies.py', '$tools/foreign.so', 'plain', '1']
exec(compile(open('$apps/copies.py').read(), 'copies.py', 'exec'))"
    find_library "$1" || { echo "without libpython.so"; return; }
    "$PYSTACK" record -q --isolation=thread -F 1000 "${fast[@]}" -o f -- \
        "$tools/host" "$library" "$home" "$script" > out 2> err || { cat err; return 1; }
    has_line out DONE && says '^# copies: fast' && says_not 'given up|taken over' &&
        has_function f in_main
}

@test "fast, in a Python that a program has in it" {
    with_each some_pythons in_host
}

attached_early() { # python raw
    as_alone "$1" attach "$2" 0.3 "${fast[@]}" || return
    has_line out 'handled 1000' && has_line out DONE || return
    says '^# copies: fast' && says_not 'given up|taken over'
}

@test "a handler that was there before gets the program's 1,000 faults, fast goes on" {
    local version path kind
    while read -r version path; do
        for kind in early early-raw; do
            run attached_early "$path" $kind
            [ "$status" -eq 0 ] || { echo "$version, $kind: $output"; return 1; }
        done
    done < <(some_pythons)
}

@test "one that comes later keeps its place; who it is is told" {
    each_python_and_way taken late 0.3 "${fast[@]}"
}

@test "by a raw system call" {
    each_python_and_way taken late-raw 0.3 "${fast[@]}"
}

# The top of a deeper stack that a thread leaves behind is touched ahead of the next tick.
met_once() { # python
    local ticks errors
    cat > leaves.py <<'EOF'
import threading, time

def deep(n):
    if n:
        deep(n - 1)
    else:
        time.sleep(0.3)

def in_main(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

threading.Thread(target=deep, args=(8,)).start()
in_main(1.2)
EOF
    "$PYSTACK" record -q -F 500 --no-adaptive --isolation=thread "${fast[@]}" -o f -- \
        "$1" leaves.py || return
    account > account
    ticks=$(awk '$2 == "ticks" { print $1 }' account)
    errors=$(awk '$2 == "copy-errors" { print $1 }' account)
    [ "$ticks" -ge 40 ] || { echo "$ticks ticks"; return 1; }
    [ "$errors" -le 5 ] || { echo "$errors errors in $ticks ticks"; return 1; }
}

@test "what a thread has left behind is met once, not at each tick" {
    with_each some_pythons met_once
}

@test "in the warm-up" {
    each_python_and_way taken late 0.3 --copy=fast --warmup=60s
}

@test "twice, and given back; then the program dies of a fault" {
    each_python_and_way taken twice 0.4 "${fast[@]}"
}

dies() { # python way kind seconds option...
    as_alone "$@" || return
    [ "$(tail -n 1 out)" = DONE ]
}

@test "a program that dies of SIGSEGV does so" {
    each_python_and_way dies dies 0.3 "${fast[@]}"
}

# With -X faulthandler or by a call: before, where it is attached to, or behind our start.
@test "faulthandler says what it has to say" {
    each_python_and_way dies enabled 0.3 "${fast[@]}"
    has_line err 'Fatal Python error: Segmentation fault'
}

@test "faulthandler turned on and off while it is recorded, again and again" {
    each_python_and_way dies toggled 0.3 "${fast[@]}"
    each_python_and_way dies toggled 0.3 --copy=fast --warmup=100ms
}

unmaps() { # python way
    as_alone "$1" "$2" unmapped 0.5 -F max "${fast[@]}" || return
    says '^# copies: fast'
}

@test "memory that goes away under the sampler" {
    each_python_and_way unmaps
}

ignores() { # python way option...
    as_alone "$1" "$2" ignores 0.3 "${@:3}" && has_line out DONE
}

@test "a program that ignores SIGSEGV goes on to" {
    each_python_and_way ignores "${fast[@]}"
}

waits_for() { # python way option...
    as_alone "$1" "$2" waits-for 0.3 "${@:3}" || return
    [ "$(grep -c '^(\(11\|7\), 0, True)$' out)" = 6 ] && has_line out '^set()$' || { cat out; return 1; }
    says_not 'taken over'
}

@test "a program that waits for a SIGSEGV that somebody sends gets it" {
    each_python_and_way waits_for "${fast[@]}"
    each_python_and_way waits_for --copy=syscall
}

unlimited() { # python way
    (ulimit -s unlimited && ends_fast "$1" "$2" plain 0.3)
}

@test "a stack without a limit, which has memory laid out in another way" {
    (ulimit -s unlimited) || skip "the limit of the stack cannot be raised"
    each_python_and_way unlimited
}

hosted() { # python
    local status=0
    LD_PRELOAD=$tools/foreign.so FOREIGN_AT_START=1 "$PYSTACK" record -q \
        --isolation=thread -F 1000 "${fast[@]}" -o f -- \
        "$1" "$apps/copies.py" "$tools/foreign.so" hosted 0.3 > out 2> err || status=$?
    [ "$status" -eq 0 ] && has_line out 'handled 1000' && has_line out DONE
}

@test "handlers of a host, that are there before Python is" {
    ! nm -D "$PYSTACK" | grep -q __asan_init || skip "a sanitizer wants to be the first"
    with_each some_pythons hosted
}
