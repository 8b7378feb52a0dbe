# SPDX-License-Identifier: Apache-2.0
# The sampler as a thread of the program: taken where no task can be had, or asked for, and
# as harmless.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    program= recorder=
}

teardown() {
    local pid
    for pid in $program $recorder; do
        end_process "$pid"
    done
}

isolations() { # file
    "$PYSTACK" report --header -i "$1" | sed -n 's/^# *isolation *: *//p' | sort -u |
        tr '\n' ' '
}

# Run apps/isolated.py under a recorder, by either way; its output in "out", its status in
# $status, the recorder's messages in "err".
run_isolated() { # python way isolation kind [seconds]
    rm -f out err f ready go
    status=0
    if [ "$2" = spawn ]; then
        "$PYSTACK" record --isolation="$3" -F 500 -o f -- \
            "$1" "$apps/isolated.py" "$4" "${5-1}" > out 2> err || status=$?
        return
    fi
    "$1" "$apps/isolated.py" "$4" "${5-1}" ready go > out 2> err.program &
    program=$!
    wait_until 30 test -e ready || return
    record_from_go err --isolation="$3" -F 500 -o f
}

is_recorded_as() { # python way wanted got
    run_isolated "$1" "$2" "$3" threads 0.5 || return
    [ "$status" -eq 0 ] && has_line out DONE || return
    [ "$(isolations f)" = "$4 " ] && has_function f in_main
}

@test "a thread, by both ways" {
    each_python_and_way is_recorded_as thread thread
}

@test "auto takes a task, by both ways" {
    each_python_and_way is_recorded_as auto task
}

# What refuses a clone without CLONE_THREAD.
threads_only=(errno:clone:0:!0x10000 errno:clone3,fork,vfork)

@test "auto takes a thread where a filter lets only threads be made, by both ways" {
    requires_root
    python3 "$apps/under.py" "${threads_only[@]}" -- "$apps/isolated.py" threads 2 ready \
        > out &
    program=$!
    wait_until 30 test -e ready
    "$PYSTACK" record -F 500 -o f -p $program 2> err
    wait $program
    program=
    has_line out DONE
    [ "$(isolations f)" = "thread " ]
    has_function f in_main
    grep -q "no sampler task can be had" err

    "$PYSTACK" record -F 500 -o g -- python3 "$apps/under.py" "${threads_only[@]}" exec -- \
        /usr/bin/python3 "$apps/isolated.py" threads 2 > out 2> err
    has_line out DONE
    has_function g in_main
    [ "$(isolations g)" = "task thread " ]
    [ "$(grep -c "no sampler task can be had" err)" -eq 1 ]
}

# quiet.py under conditions, until end_quiet.
start_quiet() { # condition...
    rm -f in out
    mkfifo in
    python3 "$apps/under.py" "$@" -- "$apps/quiet.py" 7 < in > out &
    program=$!
    exec 9> in
    wait_until 30 has_line out ready
}

end_quiet() {
    local code=0
    exec 9>&-
    wait $program || code=$?
    program=
    [ $code -eq 7 ] && has_line out DONE
}

@test "a filter that forbids what a thread of all things does without: auto takes a thread" {
    requires_root
    local call
    for call in kill:rt_sigaction errno:rt_sigaction; do
        start_quiet $call
        "$PYSTACK" record -q -F 500 -d 1 -o f -p $program 9>&-
        [ "$(isolations f)" = "thread " ]
        run "$PYSTACK" record --isolation=task -o g -p $program 9>&-
        [ "$status" -eq 125 ]
        [[ "$output" == *"rt_sigaction, which the sampler needs"* ]]
        [[ "$output" == *"--isolation=auto"* ]]
        end_quiet
    done
}

@test "filters of the recorder's own: tried, and a thread begins with the program" {
    # ptrace is refused, so nothing can be attached to.
    python3 "$apps/under.py" errno:101 exec -- "$PYSTACK" record --isolation=thread -F 500 \
        -o f -- /usr/bin/python3 "$apps/isolated.py" family 1 > out || [ $? -eq 7 ]
    [ "$(isolations f)" = "thread " ]
    has_function f in_main
    has_function f in_child
    # What would end it keeps it from beginning.
    python3 "$apps/under.py" kill:memfd_create errno:101 exec -- "$PYSTACK" record \
        --isolation=thread -o g -- /usr/bin/python3 "$apps/isolated.py" threads 0.3 > out
    has_line out DONE
    ! has_function g in_main
}

@test "the copies of a thread: one of two calls is enough, none is refused" {
    requires_root
    local calls
    for calls in pwritev process_vm_readv pwritev,process_vm_readv; do
        start_quiet kill:$calls
        run "$PYSTACK" record --isolation=thread -F 500 -d 1 -o f -p $program 9>&-
        if [[ $calls == *,* ]]; then
            [ "$status" -eq 125 ]
            [[ "$output" == *"which the sampler needs"* ]]
        else
            [ "$status" -eq 0 ]
            has_function f in_quiet
        fi
        end_quiet
    done
}

main_exits() { # python way kind
    run_isolated "$1" "$2" thread "$3" 1 || return
    [ "$status" -eq 0 ] && has_line out DONE && has_function f in_thread
}

@test "the main thread ends, then the last one: so does the program" {
    each_python_and_way main_exits exit-raw
    each_python_and_way main_exits exit-libc
}

goes_on() { # python way
    run_isolated "$1" "$2" thread family 0.8 || return
    [ "$status" -eq 7 ] || { echo "status $status"; return 1; }
    printf '%s\n' 'child 3' 'grandchild 5' 'spawned 6' 'no other' | diff - out || return
    local function
    for function in in_main in_child in_grandchild in_exec; do
        has_function f $function || { echo "no $function"; return 1; }
    done
    [ "$(isolations f)" = "thread " ]
}

@test "forks, children and exec: statuses as without us, all of it recorded" {
    each_python_and_way goes_on
}

gets_its_signals() { # python way
    rm -f out ready
    if [ "$2" = spawn ]; then
        "$PYSTACK" record --isolation=thread -q -F 500 -o f -- \
            "$1" "$apps/isolated.py" signals > out &
        recorder=$!
        wait_until 30 has_line out ready || return
        program=$(pgrep -P $recorder -f isolated.py | head -n 1)
    else
        "$1" "$apps/isolated.py" signals > out &
        program=$!
        wait_until 30 has_line out ready || return
        "$PYSTACK" record --isolation=thread -q -F 500 -o f -p $program &
        recorder=$!
    fi
    wait_until 30 has_thread $program || return
    kill -USR1 $program
    kill -TERM $program
    wait $recorder || return
    recorder=
    wait $program 2>/dev/null || true
    program=
    has_line out '^1 1 True$' && has_line out DONE
}

# The sampler's thread of a process.
thread_of() {
    local dir
    for dir in /proc/"$1"/task/*; do
        [ "${dir##*/}" != "$1" ] && [ "$(cat "$dir/comm" 2>/dev/null)" = pystack ] || continue
        echo "${dir##*/}"
    done
}

has_thread() {
    [ -n "$(thread_of "$1")" ]
}

has_no_thread() {
    [ -z "$(thread_of "$1")" ]
}

@test "signals to the program are the program's, those that it blocks and waits for too" {
    each_python_and_way gets_its_signals
}

sees_its_threads() { # python way
    run_isolated "$1" "$2" thread threads 0.3 || return
    printf '%s\n' "['MainThread'] 1" "['pystack']" DONE | diff - out
}

@test "the program's own list of threads has none of ours, the kernel's has one" {
    each_python_and_way sees_its_threads
}

gives_up_rights() { # python way
    run_isolated "$1" "$2" thread users 0.5 || return
    [ "$status" -eq 0 ] && has_line out '(65534, 65534, 65534) (65534, 65534, 65534)' &&
        has_line out '^others 0$' && has_line out DONE && has_function f in_main
}

# Our thread would stay root: it leaves, and another one is made.
@test "the program gives up being root" {
    requires_root
    each_python_and_way gives_up_rights
}

sets_a_filter() { # python way
    run_isolated "$1" "$2" thread filter 0.5 || return
    [ "$status" -eq 0 ] && has_line out '^filter 0$' && has_line out DONE &&
        has_function f in_main
}

@test "the program puts a filter on all its threads" {
    each_python_and_way sets_a_filter
}

cpu_of() { # file thread
    "$PYSTACK" report --stats -i "$1" | awk -v name="$2" '$NF == name { print $2; exit }'
}

has_true_sums() { # python way
    run_isolated "$1" "$2" thread shares 1.2 || return
    local a b
    read -r _ a b < <(grep '^used' out)
    "$PYSTACK" script --format collapsed -e cpu --per-thread -i f | awk -v a="$a" -v b="$b" '
        /;in_a / { x += $NF } /;in_b / { y += $NF }
        END { x /= 1e6; y /= 1e6; printf "%.3f of %.3f, %.3f of %.3f s\n", x, a, y, b
              exit !(x > a * 0.9 && x < a * 1.05 && y > b * 0.9 && y < b * 1.05) }'
}

@test "CPU time of threads, by their clocks" {
    each_python_and_way has_true_sums
}

parked() { # more than that many ns
    "$PYSTACK" report --stats -i f | awk -v min="$1" '
        / parked / { n = $1 } END { exit !(n > min) }'
}

@test "a stop of the program is told as that, not as ticks that were missed" {
    "$PYSTACK" record --isolation=thread -F 500 -o f -- \
        /usr/bin/python3 "$apps/isolated.py" threads 60 ready > out 2> err &
    recorder=$!
    wait_until 30 test -e ready
    program=$(pgrep -P $recorder -f isolated.py | head -n 1)
    wait_until 30 has_function f in_main
    kill -STOP $program
    sleep 1.5
    kill -CONT $program
    # What a thread has not said when its program ends is lost.
    wait_until 30 parked 0
    kill -TERM $program
    wait $recorder || [ $? -eq 143 ]
    recorder= program=
    "$PYSTACK" report --stats -i f > stats
    grep -E 'parked|missed' stats | sed 's/^/# /' >&3
    awk '/parked/ { n = $1 } END { exit !(n > 1.3e9 && n < 2.5e9) }' stats
    # It would be 750; some are where all CPUs are taken.
    awk '/missed/ { n = $1 } END { exit !(n < 500) }' stats
}

# Now and then there is next to nothing to be told.
@test "what a thread could not tell as its program was killed is said" {
    local i untold=
    for i in 1 2 3 4 5; do
        rm -f ready f
        "$PYSTACK" record -q --isolation=thread -F 500 -o f -- \
            /usr/bin/python3 "$apps/isolated.py" threads 60 ready > out &
        recorder=$!
        wait_until 30 test -e ready
        program=$(pgrep -P $recorder -f isolated.py | head -n 1)
        wait_until 30 has_function f in_main
        kill -KILL $program
        wait $recorder || [ $? -eq 137 ]
        recorder= program=
        untold=$("$PYSTACK" report -i f |
            grep -E '^#   0\.[0-9]+ s at the end untold, as the sampler ended too') ||
            continue
        break
    done
    [ -n "$untold" ]
}

recorder_is_killed() { # python way
    rm -f beat stop out f
    if [ "$2" = spawn ]; then
        "$PYSTACK" record --isolation=thread -q -F 500 -o f -- \
            "$1" "$apps/healthy.py" busy beat stop > out &
        recorder=$!
        wait_until 30 test -e beat || return
        program=$(pgrep -P $recorder -f healthy.py | head -n 1)
    else
        "$1" "$apps/healthy.py" busy beat stop > out &
        program=$!
        wait_until 30 test -e beat || return
        "$PYSTACK" record --isolation=thread -q -F 500 -o f -p $program &
        recorder=$!
    fi
    # At any moment: the tenth of a second in which it begins, or later.
    sleep 0.0$((RANDOM % 10))
    [ $((RANDOM % 2)) -eq 0 ] || wait_until 30 has_thread $program || return
    kill -KILL $recorder
    wait $recorder 2>/dev/null || true
    recorder=
    wait_until 40 has_no_thread $program || return
    touch stop
    wait_until 30 has_line out DONE
    wait $program 2>/dev/null || true
    program=
}

@test "the recorder is killed: the thread leaves, the program goes on" {
    local i
    for i in 1 2 3; do
        each_python_and_way recorder_is_killed
    done
}

@test "a second recorder finds the thread of the first" {
    /usr/bin/python3 "$apps/isolated.py" threads 3 ready > out &
    program=$!
    wait_until 30 test -e ready
    "$PYSTACK" record --isolation=thread -q -o f -p $program &
    recorder=$!
    wait_until 30 has_thread $program
    run "$PYSTACK" record -o g -p $program
    [ "$status" -eq 125 ]
    [[ "$output" == *"already being recorded (by process $recorder, sampler task "* ]]
    wait $recorder
    wait $program
    recorder= program=
    has_function f in_main
}

attaches_and_detaches() { # python
    rm -f beat stop out
    "$1" "$apps/healthy.py" "$2" beat stop > out &
    program=$!
    wait_until 30 test -e beat || return
    "$tools/attach-cycles" $program 50 thread || return
    touch stop
    wait $program || return
    program=
    [ "$(cat out)" = DONE ]
}

@test "50 attach and detach cycles leave nothing" {
    local kind
    for kind in busy sleep threads segv-blocked; do
        with_each some_pythons attaches_and_detaches $kind
    done
}

@test "what --isolation takes" {
    run "$PYSTACK" record --isolation=process -- true
    [ "$status" -eq 129 ]
    [[ "$output" == *"'process' is none of auto|task|thread"* ]]
}
