# SPDX-License-Identifier: Apache-2.0
# Attaching to a program that stops, goes on, waits where nothing wakes it, or ends, at any
# moment of it: nobody is left held, and it stays in the state that others gave it.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    program=
    cgroup=
}

teardown() {
    if [ -n "$cgroup" ]; then
        echo THAWED > "$cgroup/freezer.state" 2>/dev/null || true
    fi
    [ -z "$program" ] || { kill -CONT "$program" 2>/dev/null; end_process "$program"; }
    [ -z "$cgroup" ] || rmdir "$cgroup" 2>/dev/null || true
}

start_healthy() { # python kind
    rm -f beat stop out f
    "$1" "$apps/healthy.py" "$2" beat stop > out &
    program=$!
    wait_until 30 test -e beat
}

beat_moved() {
    [ "$(cat beat)" != "$1" ]
}

ends_well() {
    wait_until 30 beat_moved "$(cat beat)" || return
    touch stop
    wait $program || return
    program=
    [ "$(cat out)" = DONE ]
}

is_in_state() { # pid letter
    grep -q "^State:[[:space:]]*$2" "/proc/$1/status"
}

is_not_held() { # pid
    ! grep -hE '^TracerPid:' /proc/"$1"/task/*/status | grep -q '[1-9]'
}

has_samples() {
    [ "$(collapsed -i "$1" 2>/dev/null | wc -l)" -gt 0 ]
}

mappings() { # pid
    grep -E ' r-xp | rw-s |pystack' "/proc/$1/maps"
}

# --- stopped ---

@test "stopped and let go on all the time, while it is attached to" {
    local version path i stopper
    while read -r version path; do
        start_healthy "$path" busy
        mappings $program > maps
        (
            while [ ! -e enough ]; do
                kill -STOP $program
                kill -CONT $program
                sleep 0.003
            done
        ) &
        stopper=$!
        for ((i = 0; i < 20; i++)); do
            # Refused when it is stopped at that moment, else recorded.
            run record -q -F 500 -d 0.05 -o f -p $program
            [ "$status" -eq 0 ] || [[ "$output" == *"it is stopped"* ]] ||
                { touch enough; echo "$version: $output"; return 1; }
        done
        touch enough
        wait $stopper
        rm enough
        kill -CONT $program
        is_not_held $program
        wait_until 10 is_not_mapped || { mappings $program; return 1; }
        ends_well
    done < <(some_pythons)
}

is_not_mapped() {
    mappings $program | diff maps - > /dev/null
}

@test "stopped while it is recorded: let go of, with nothing left, and it stays stopped" {
    local version path recorder
    while read -r version path; do
        start_healthy "$path" busy
        mappings $program > maps
        rm -f f
        "$PYSTACK" record -F 500 -o f -p $program 2> err &
        recorder=$!
        wait_until 20 has_samples f
        kill -STOP $program
        wait_until 10 is_in_state $program T
        kill -INT $recorder
        wait $recorder || { cat err; return 1; }
        wait_until 10 is_in_state $program T
        is_not_held $program
        is_not_mapped || { mappings $program; cat err; return 1; }
        [ -z "$(cat /proc/$program/task/*/children)" ]
        kill -CONT $program
        ends_well
    done < <(some_pythons)
}

# A library of ours in front of the recorder.
may_be_preloaded() {
    ! nm -D "$PYSTACK" | grep -q __asan_init || skip "a sanitizer wants to be the first"
}

@test "a stop that comes while a thread is held stays" {
    may_be_preloaded
    # The injector itself is stopped in the middle, the program then gets SIGSTOP.
    local version path i n
    while read -r version path; do
        start_healthy "$path" busy
        for n in 3 8 12 20; do
            env STOP_AT=$n LD_PRELOAD="$tools/die-at.so" "$tools/attach-cycles" \
                $program 1 > cycles 2>&1 &
            i=$!
            wait_until 20 is_in_state $i T || { cat cycles; return 1; }
            kill -STOP $program
            kill -CONT $i
            # Whether it got through is not the question, as nothing samples.
            wait $i || true
            wait_until 10 is_in_state $program T || { cat "/proc/$program/status"; return 1; }
            is_not_held $program
            kill -CONT $program
            wait_until 30 beat_moved "$(cat beat)"
        done
        ends_well
    done < <(some_pythons)
}

# --- hardened kernels ---

@test "its code may not be written through /proc: by the tracer's own way" {
    may_be_preloaded
    start_healthy /usr/bin/python3 sleep
    NO_LONG_WRITE=1 LD_PRELOAD="$tools/die-at.so" "$PYSTACK" record -q -F 500 -d 0.3 -o f \
        -p $program
    has_samples f
    ends_well
}

# --- uninterruptible ---

# A program that waits in vfork for a child, which waits for the pipe `hold`.
start_in_vfork() { # threads: main waits, or another
    [ -p hold ] || mkfifo hold
    cat > vfork.c << 'EOF'
#include <unistd.h>
int hold(void) {
    char c;
    int pid = vfork();
    if (pid == 0) {
        (void)!read(0, &c, 1);
        _exit(0);
    }
    return pid;
}
EOF
    "$CC" -shared -fPIC -o vfork.so vfork.c
    cat > vfork.py << 'EOF'
import ctypes, os, sys, threading
hold = ctypes.CDLL("./vfork.so").hold
def in_hold():
    hold()
    os.write(1, b"DONE\n")
def in_busy():
    while other.is_alive():
        sum(range(200))
if sys.argv[1] == "all":
    in_hold()
else:
    other = threading.Thread(target=in_hold)
    other.start()
    in_busy()
EOF
    /usr/bin/python3 vfork.py "$1" < hold > out &
    program=$!
    exec 9> hold
    wait_until 20 some_thread_is D
}

some_thread_is() { # state
    grep -q "^State:[[:space:]]*$1" /proc/$program/task/*/status
}

vfork_ends_well() {
    exec 9>&-
    wait $program || return
    program=
    [ "$(cat out)" = DONE ]
}

@test "all threads in an uninterruptible wait (vfork): refused in time, nobody is held" {
    local began=$SECONDS
    start_in_vfork all
    run record -o f -p $program
    echo "# $output" >&3
    [ "$status" -eq 125 ]
    [[ "$output" == *"uninterruptible wait"*"try again"* ]]
    [ $((SECONDS - began)) -lt 8 ]
    is_not_held $program
    vfork_ends_well
}

@test "one thread in an uninterruptible wait (vfork): another is borrowed" {
    start_in_vfork one
    record -q -F 500 -d 0.4 -o f -p $program
    has_function f in_busy
    is_not_held $program
    vfork_ends_well
}

@test "in a frozen cgroup: refused, and it goes on when thawed" {
    requires_root
    cgroup=/sys/fs/cgroup/freezer/pystack-test-$$
    mkdir "$cgroup" 2>/dev/null || { cgroup=; skip "no freezer of cgroup 1 here"; }
    start_healthy /usr/bin/python3 busy
    mappings $program > maps
    echo $program > "$cgroup/cgroup.procs"
    echo FROZEN > "$cgroup/freezer.state"
    wait_until 10 grep -q FROZEN "$cgroup/freezer.state"
    run record -o f -p $program
    echo "# $output" >&3
    [ "$status" -eq 125 ]
    [ ${#lines[@]} -eq 1 ]
    is_not_held $program
    echo THAWED > "$cgroup/freezer.state"
    is_not_mapped
    record -q -F 500 -d 0.3 -o f -p $program
    has_samples f
    ends_well
}

# --- ending ---

@test "it ends before each step of the injector: said so, at once" {
    may_be_preloaded
    local n i status
    for ((n = 1; n < 500; n++)); do
        start_healthy /usr/bin/python3 sleep
        status=0
        env STOP_AT=$n LD_PRELOAD="$tools/die-at.so" "$PYSTACK" record -q -d 0.1 -o f \
            -p $program 2> err &
        i=$!
        wait_until 20 is_stopped_or_over $i || { cat err; return 1; }
        if ! is_in_state $i T 2>/dev/null; then
            wait $i
            ends_well
            break
        fi
        kill -KILL $program
        # Its parent hears of that only when the tracer has.
        kill -CONT $i
        wait $i || status=$?
        wait $program 2>/dev/null || true
        program=
        # Refused, or recorded for no time.
        [ $status -eq 0 ] || [ $status -eq 125 ] || { cat err; return 1; }
        [ $status -eq 0 ] || grep -qE 'no such process|has ended|ended as it' err ||
            { echo "$n: status $status"; cat err; return 1; }
    done
    echo "# ended before each of $((n - 1)) steps" >&3
    [ $n -gt 20 ]
}

is_stopped_or_over() { # pid
    [ ! -e "/proc/$1" ] || is_in_state "$1" '[TZ]'
}

@test "a process that has ended and is not reaped: said so" {
    cat > parent.py << 'EOF'
import os, sys
child = os.fork()
if child == 0:
    os._exit(0)
print(child)
sys.stdout.flush()
sys.stdin.read()
EOF
    mkfifo in
    /usr/bin/python3 parent.py < in > out &
    program=$!
    exec 9> in
    wait_until 20 test -s out
    wait_until 20 is_in_state "$(cat out)" Z
    run -125 record -o f -p "$(cat out)"
    [[ "$output" == *"it has ended, and waits for its parent"* ]]
    exec 9>&-
    wait $program
    program=
}
