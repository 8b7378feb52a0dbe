# SPDX-License-Identifier: Apache-2.0
# Another's handlers of SIGSEGV and SIGBUS, set while a thread of the program samples with
# fast copies: they stay, the sampler goes on by system calls, and the recording says so.
load helpers

taker=$tools/taker.so
DEADLINE=60

setup() {
    cd "$BATS_TEST_TMPDIR"
    recorder=
}

teardown() {
    [ -n "${BATS_TEST_COMPLETED:-}" ] || cat messages >&2 || true
    touch stop
    [ -z "$recorder" ] || end_process "$recorder"
    [ ! -s ready ] || kill -KILL "$(cat ready)" 2>/dev/null || true
}

# What the file has of it by now: one word a change, MODE or MODE:SIGNAL=OWNER,...; that
# another system call has worked too is none.
changes() {
    "$PYSTACK" script -f --format=jsonl 2>/dev/null | /usr/bin/python3 -c '
import json, sys
for line in sys.stdin:
    o = json.loads(line)
    if o["type"] != "stats" or o["copy"] is None:
        continue
    for c in o["copy"]["changes"]:
        takers = ",".join("%s=%s" % (t["signal"], t["owner"]) for t in c["takeovers"])
        print(c["mode"] + (":" + takers if takers else ""))' | uniq
}

# The same from the warm-up on: how long the orders, or the interpreter, are in coming is not
# known.
since_handlers() {
    changes | sed -n '/^warmup$/,$p'
}

is_in() { # pattern
    # shellcheck disable=SC2053
    [[ $(changes | tail -n 1) == $1 ]]
}

# Start a recording of the app in that mode, and wait until it has come there.
record_taker() { # python mode option ...
    local python=$1 mode=$2
    shift 2
    rm -f stop take taken ready
    "$PYSTACK" record -F 200 --no-adaptive --isolation=thread "$@" -- \
        "$python" "$apps/taker.py" "$taker" again > out 2> messages &
    recorder=$!
    wait_until $DEADLINE test -s ready || return
    wait_until $DEADLINE is_in "$mode" || return
}

# Let it take handlers, and wait until the recording knows.
let_take() { # line ...
    printf '%s\n' "$@" > new-take && mv new-take take || return
    wait_until $DEADLINE test -s taken || return
    wait_until $DEADLINE is_in 'syscall:*' || return
}

# The program and the recording have ended well.
ends_well() {
    local status=0
    touch stop
    wait "$recorder" || status=$?
    recorder=
    [ $status -eq 0 ] || { echo "status $status"; cat messages; return 1; }
}

# A library's, by the C library: the app's faults are the library's before and after.
takes() { # python how
    record_taker "$1" fast --copy=fast --warmup=0s || return
    [ "$(since_handlers)" = "warmup
fast" ] || return
    let_take "$2 SIGSEGV" || return
    [ "$(cat taken)" = 100 ] || return
    ends_well || return
    [ "$(cat out)" = 100 ] || return
    [ "$(since_handlers)" = "warmup
fast
syscall:SIGSEGV=$taker" ] || return
    grep -q ', signals taken over by taker\.so, overhead' messages || return
    "$PYSTACK" report --stats > stats || return
    grep -qE "^# SIGSEGV: taken over by $taker \\(0x[0-9a-f]+\\)$" stats || return
    grep -q '^# copies: syscall; asked for: fast; works: ' stats || return
    grep -q '^# copies: fast ones were given up$' stats || return
    collapsed | grep -q ';in_work (' || return
}

takes_by_libc() {
    takes "$1" libc
}

takes_raw() {
    takes "$1" raw
}

@test "a handler that a library sets stays, its faults are its own, and it is named" {
    with_each some_pythons takes_by_libc
}

@test "the same by a system call of its own" {
    with_each some_pythons takes_raw
}

@test "both signals; and where nobody handles one, that is said" {
    record_taker /usr/bin/python3 fast --copy=fast --warmup=0s
    let_take "libc SIGBUS" "default SIGSEGV"
    wait_until $DEADLINE is_in "syscall:SIGSEGV=SIG_DFL,SIGBUS=$taker"
    [ "$(cat taken)" = 0 ]
    # The app makes faults no more.
    kill -KILL "$(cat ready)"
    wait "$recorder" || [ $? = 137 ]
    recorder=
    grep -q ', signals taken over by SIG_DFL, overhead' messages
}

@test "in the warm-up a takeover means that fast copies never begin" {
    record_taker /usr/bin/python3 warmup --copy=fast --warmup=1h
    let_take "libc SIGSEGV"
    ends_well
    [ "$(since_handlers)" = "warmup
syscall:SIGSEGV=$taker" ]
    [ "$(cat out)" = 100 ]
    run -0 "$PYSTACK" script --format=jsonl
    [[ $output == *'"warmup_left_ns":0,'* ]]
}

@test "what is left of the warm-up is told at the end" {
    record_taker /usr/bin/python3 warmup --copy=fast --warmup=1h
    ends_well
    run -0 "$PYSTACK" report --stats
    [[ $output =~ "# copies: warmup, 35"[0-9]{2}\.[0-9]{3}" s of the warm-up left; asked for: fast; works: " ]]
}

@test "with --copy=syscall and auto nobody's handlers matter" {
    local copy
    for copy in syscall auto; do
        record_taker /usr/bin/python3 syscall --copy=$copy
        echo "libc SIGSEGV" > new-take && mv new-take take
        wait_until $DEADLINE test -s taken
        [ "$(cat taken)" = 100 ]
        ends_well
        [ "$(changes)" = syscall ]
        [ "$(cat out)" = 100 ]
        [ -z "$(grep 'taken over' messages)" ]
    done
}

@test "a takeover is told in each part of a recording that goes on in another file" {
    record_taker /usr/bin/python3 fast --copy=fast --warmup=0s --switch-output
    let_take "libc SIGSEGV"
    kill -USR2 "$recorder"
    part_is_there() {
        compgen -G 'pystack.data.2*' > part
    }
    wait_until $DEADLINE part_is_there
    ends_well
    grep -q 'signals taken over by taker\.so' messages
    # The first part has them all, the second begins with the last.
    mv "$(head -n 1 part)" pystack.data
    [ "$(since_handlers)" = "warmup
fast
syscall:SIGSEGV=$taker" ]
    mv "$(compgen -G 'pystack.data.2*' | tail -n 1)" pystack.data
    [ "$(changes)" = "syscall:SIGSEGV=$taker" ]
}

# The last mode of each process, in the order in which they came, and what it has given up.
modes() {
    "$PYSTACK" script -f --format=jsonl 2>/dev/null | /usr/bin/python3 -c '
import json, sys
for line in sys.stdin:
    o = json.loads(line)
    if o["type"] == "stats" and o["copy"] is not None:
        print(o["copy"]["mode"], *sorted(t["signal"] for t in o["copy"]["takeovers"]),
            *["given up"] * o["copy"]["fell_back"])'
}

are_modes() { # text
    [ "$(modes)" = "$1" ]
}

# Fast is what was asked for: what becomes of it in one process is not the next one's.
child_begins_anew() { # kind parent's
    local status=0
    rm -f stop
    "$PYSTACK" record -F 200 --no-adaptive --isolation=thread --copy=fast --warmup=1500ms -- \
        /usr/bin/python3 "$apps/forks.py" "$1" > out 2> messages &
    recorder=$!
    wait_until $DEADLINE are_modes "$2
fast" || { modes; return 1; }
    ends_well && [ "$(cat out)" = 3 ] || return
    are_modes "$2
fast" || { modes; return 1; }
    "$PYSTACK" script --format=jsonl | grep -c '"type":"stats".*"wanted_fast":true' > wanted
    [ "$(cat wanted)" = 2 ]
}

@test "a fork in the warm-up: both come to fast copies" {
    child_begins_anew plain fast
}

@test "faulthandler turned on in the warm-up: the parent has given up, a child has not" {
    child_begins_anew enabled "syscall SIGBUS SIGSEGV given up"
}

@test "and off again: likewise" {
    child_begins_anew toggled "syscall SIGBUS SIGSEGV given up"
}

samples_are() { # file count
    [ "$("$PYSTACK" report --stats -f -i "$1" 2>/dev/null | awk '$2 == "samples" && $3 == "read" { print $1 }')" -ge "$2" ]
}

# Copies for each sample that the file has.
copies_each() { # file
    "$PYSTACK" report --stats -i "$1" | awk '$2 == "copies" { n = $1 }
        $2 == "samples" && $3 == "read" { s = $1 } END { print n / s }'
}

@test "counters begin anew in each part, the mode goes on" {
    local first second
    "$PYSTACK" record -F 200 --no-adaptive --isolation=thread --copy=syscall --switch-output -- \
        /usr/bin/python3 "$apps/taker.py" "$taker" > out 2> messages &
    recorder=$!
    wait_until $DEADLINE samples_are pystack.data 600
    kill -USR2 "$recorder"
    part_is_there() {
        compgen -G 'pystack.data.2*' > part
    }
    wait_until $DEADLINE part_is_there
    wait_until $DEADLINE samples_are pystack.data 60
    ends_well
    local parts=(pystack.data.2*)
    [ ${#parts[@]} = 2 ]
    first=$(copies_each "${parts[0]}")
    second=$(copies_each "${parts[1]}")
    echo "# $first and $second copies a sample" >&3
    # Of both parts together the second one has some ten times as many a sample.
    awk -v a="$first" -v b="$second" 'BEGIN { exit !(a > 1 && b > a / 3 && b < 3 * a) }'
    mv "${parts[1]}" pystack.data
    [ "$(changes)" = syscall ]
}

@test "handlers that cannot be had: 125, and why; the program goes on" {
    local status=0
    # rt_sigaction is refused from here on.
    /usr/bin/python3 "$apps/denied.py" 13 /usr/bin/python3 "$apps/taker.py" "$taker" &
    wait_until $DEADLINE test -s ready
    run -125 --separate-stderr record --isolation=thread --copy=fast -p "$(cat ready)"
    [[ $stderr == *"cannot record process $(cat ready): --copy=fast needs the handlers of SIGSEGV and SIGBUS, and they cannot be set: Operation not permitted; --copy=auto needs none"* ]]
    kill -0 "$(cat ready)"
    run -0 --separate-stderr record --isolation=thread -d 0.5 -p "$(cat ready)"
    touch stop
    wait "$!" || status=$?
    [ $status = 0 ]
}

@test "of a later process: a line, and the rest goes on" {
    "$PYSTACK" record --isolation=thread --copy=fast -- /usr/bin/python3 -c '
import subprocess, sys, time
end = time.monotonic() + 0.5
while time.monotonic() < end:
    pass
subprocess.run([sys.executable, sys.argv[1], "13", sys.executable, "-c", """
import time
end = time.monotonic() + 60
while time.monotonic() < end and "not recorded" not in open("messages").read():
    sum(range(10000))"""], check=True)' "$apps/denied.py" 2> messages
    grep -q 'not recorded: process [0-9]*: --copy=fast needs the handlers of SIGSEGV and SIGBUS, and they cannot be set: ' messages
    collapsed | grep -q '<module>'
}

@test "of a started program: 125 when it has ended, and what it did is untouched" {
    local status=0
    # It works until the line is there.
    /usr/bin/python3 "$apps/denied.py" 13 "$PYSTACK" record --isolation=thread --copy=fast -- \
        /usr/bin/python3 -c 'import time
end = time.monotonic() + 60
while time.monotonic() < end and "cannot record" not in open("messages").read():
    sum(range(10000))
print("whole")' > out 2> messages || status=$?
    [ $status = 125 ]
    [ "$(cat out)" = whole ]
    grep -q 'cannot record process [0-9]*: --copy=fast needs the handlers of SIGSEGV and SIGBUS, and they cannot be set: ' messages
    [ -z "$(grep 'no samples' messages)" ]
}

# pwritev, then process_vm_readv too.
@test "a way to read that is refused later gives way to the other" {
    "$PYSTACK" record -F 200 --no-adaptive --isolation=thread -- \
        /usr/bin/python3 "$apps/refuses.py" 296 > out 2> messages &
    recorder=$!
    wait_until $DEADLINE test -s ready
    wait_until $DEADLINE is_in syscall
    touch refuse
    second_works() {
        "$PYSTACK" report --stats -f 2>/dev/null | grep -q '; works: process_vm_readv$'
    }
    wait_until $DEADLINE second_works
    ends_well
    [ "$(cat out)" = whole ]
    [ -z "$(grep 'taken over' messages)" ]
}

# The tick may find it out, or the look at the program's rights, which have changed as well.
@test "no way to read left: the recording stops with a line, the program does not" {
    "$PYSTACK" record -F 20 --no-adaptive --isolation=thread -- \
        /usr/bin/python3 "$apps/refuses.py" 296,310 > out 2> messages &
    recorder=$!
    wait_until $DEADLINE test -s ready
    wait_until $DEADLINE has_function pystack.data in_work
    touch refuse
    wait_until $DEADLINE is_in stopped
    ends_well
    [ "$(cat out)" = whole ]
    grep -q 'its memory cannot be read any more, by pwritev or by process_vm_readv (Operation not permitted); what was recorded stays$' messages
    [ "$(changes)" = "syscall
stopped" ]
    run -0 "$PYSTACK" report --stats
    [[ $output == *"# copies: stopped; asked for: auto; works: no system call"* ]]
    collapsed | grep -q ';in_work ('
}

# A Python that has it: PYSTACK_TEST_LIBRARIES names one.
python_with() { # module
    local path
    for path in ${PYSTACK_TEST_LIBRARIES-} $(pythons | cut -d' ' -f2); do
        ! "$path" -c "import $1" 2>/dev/null || { echo "$path"; return; }
    done
    return 1
}

# Real libraries, recorded as a thread in each way to copy: the program's output and status
# are as without us, and the function is found in the files "f".
is_as_bare() { # function status python argument...
    local function=$1 expected=$2 options
    shift 2
    run -"$expected" --separate-stderr "$@"
    echo "$output" > bare
    for options in --copy=syscall --copy=fast\ --warmup=0s --copy=fast\ --warmup=200ms; do
        rm -f f
        run -"$expected" --separate-stderr record -F 200 --isolation=thread $options \
            -o f -- "$@"
        echo "# $options: $(tail -n 1 <<< "$stderr")" >&3
        [ "$output" = "$(cat bare)" ]
        [ "$("$PYSTACK" script -i f | grep -c "$function")" -gt 0 ]
    done
}

@test "PyTorch's data loader, whose workers set such handlers" {
    local python
    python=$(python_with torch) || skip "no Python with PyTorch (PYSTACK_TEST_LIBRARIES)"
    is_as_bare __getitem__ 0 "$python" "$apps/loader.py" 2
    "$PYSTACK" report -i f --stats > stats
    echo "# $(grep -c 'taken over by .*torch' stats) taken over" >&3
}

@test "absl, which turns faulthandler on; a fault ends the program as it would" {
    local python
    python=$(python_with absl) || skip "no Python with absl (PYSTACK_TEST_LIBRARIES)"
    ulimit -c 0
    is_as_bare in_work 139 "$python" "$apps/absl-app.py" 0.6
    [[ "$stderr" == *"Fatal Python error: Segmentation fault"*"absl-app.py"* ]]
}

@test "gRPC, whose threads of C call Python" {
    local python
    python=$(python_with grpc) || skip "no Python with gRPC (PYSTACK_TEST_LIBRARIES)"
    is_as_bare in_handler 0 "$python" "$apps/grpc-calls.py" 600
}
