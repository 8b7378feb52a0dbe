# SPDX-License-Identifier: Apache-2.0
# Whatever happens to the program, the sampler task or the recorder: the others end well
# and the file reads.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    isolation=$(isolations_here | cut -d' ' -f1)
}

# What a failed test has left must not outlive it.
teardown() {
    local pid
    for pid in "${program-}" "${recorder-}"; do
        [ -z "$pid" ] || end_process "$pid"
    done
}

has_samples() {
    [ "$(collapsed -i "$1" 2>/dev/null | wc -l)" -gt 0 ]
}

beat_moved() {
    [ "$(cat beat)" != "$1" ]
}

# The sampler task of a process: a task named pystack that runs the program's own
# executable.  Or its thread of that name.
task_of() {
    local dir
    if [ $isolation = thread ]; then
        for dir in /proc/"$1"/task/*; do
            [ "$(cat "$dir/comm" 2>/dev/null)" = pystack ] || continue
            basename "$dir"
            return 0
        done
        return 1
    fi
    for dir in /proc/[0-9]*; do
        [ "$(cat "$dir/comm" 2>/dev/null)" = pystack ] || continue
        [ "$(readlink "$dir/exe")" = "$(readlink "/proc/$1/exe")" ] || continue
        grep -qz healthy.py "$dir/cmdline" || continue
        basename "$dir"
        return 0
    done
    return 1
}

# Start apps/healthy.py under a recorder, by a way; pids in $recorder and $program.
start_recorded() { # python kind way
    rm -f beat stop out err f
    if [ "$3" = spawn ]; then
        "$PYSTACK" record --isolation=$isolation -F 500 -o f -- \
            "$1" "$apps/healthy.py" "$2" beat stop > out 2> err &
        recorder=$!
        wait_until 30 test -e beat
        program=$(pgrep -P $recorder -f "healthy.py $2" | head -n 1)
    else
        "$1" "$apps/healthy.py" "$2" beat stop > out &
        program=$!
        wait_until 30 test -e beat
        "$PYSTACK" record --isolation=$isolation -F 500 -o f -p $program 2> err &
        recorder=$!
    fi
    wait_until 30 has_samples f
}

# The program goes on and ends well.
program_ends_well() {
    wait_until 30 beat_moved "$(cat beat)"
    touch stop
    wait_until 30 has_line out DONE
}

each_way() { # function, called with python and way
    local version path way
    while read -r version path; do
        for way in spawn attach; do
            "$1" "$path" $way || { echo "failed on $version, $way"; cat err; return 1; }
        done
    done < <(some_pythons)
}

# By both ways, as a task and as a thread, or as the mode says.
each_isolation() { # function, called with python and way
    for isolation in $(isolations_here); do
        each_way "$1" || { echo "as a $isolation"; return 1; }
    done
}

task_gets() { # signal python way [what the recorder says while the program goes on]
    start_recorded "$2" busy "$3"
    kill -"$1" "$(task_of $program)"
    [ -z "${4-}" ] || wait_until 20 has_line err "$4"
    program_ends_well
    wait $recorder
    has_samples f
}

task_segv() { task_gets SEGV "$@"; }
task_term() { task_gets TERM "$@"; }
task_kill() { task_gets KILL "$@" 'the sampler task was killed; the program goes on'; }

@test "the task is sent SIGSEGV: it ends, the program does not" {
    requires_task "a thread has the program's signals"
    each_way task_segv
}

@test "the task is sent SIGTERM: nothing happens" {
    requires_task "a thread has the program's signals"
    each_way task_term
}

@test "the task is sent SIGKILL: the program goes on, the recorder says so, the file reads" {
    requires_task "a thread has the program's signals"
    each_way task_kill
}

recorder_killed() { # python way
    start_recorded "$1" busy "$2"
    local task
    task=$(task_of $program)
    kill -KILL $recorder
    wait $recorder || [ $? -eq 137 ]
    # It notices and leaves; a task that was attached the program has to reap, and does not.
    wait_until 20 task_is_gone "$task"
    program_ends_well
    has_samples f
}

task_is_gone() {
    ! is_running "$1"
}

@test "the recorder is killed: the task leaves, the program goes on, the file reads" {
    each_isolation recorder_killed
}

sampler_is() { # state
    [ "$("$tools/ring-state" "$(task_of $program)")" = "$1" ]
}

recorder_stopped() { # python way
    start_recorded "$1" busy "$2"
    kill -STOP $recorder
    wait_until 60 sampler_is parked
    wait_until 30 beat_moved "$(cat beat)"
    kill -CONT $recorder
    program_ends_well
    wait $recorder
    "$PYSTACK" report --stats -i f > stats
    awk '/parked/ { n = $1 } END { exit !(n > 0) }' stats
}

# On, or to the end of the program.
@test "the recorder is stopped: the sampler parks and goes on after" {
    for isolation in $(isolations_here); do
        recorder_stopped /usr/bin/python3 spawn
        recorder_stopped /usr/bin/python3 attach
    done
}

program_killed() { # python way
    start_recorded "$1" busy "$2"
    kill -KILL $program
    local status=0
    wait $recorder || status=$?
    [ "$2" = attach ] || [ $status -eq 137 ]
    [ "$2" = spawn ] || [ $status -eq 0 ]
    has_samples f
    "$PYSTACK" report -i f > /dev/null
}

@test "the program is killed: the recorder ends with its status, the file reads" {
    each_isolation program_killed
}

program_dumps() { # python way
    ulimit -c unlimited 2>/dev/null || true
    start_recorded "$1" busy "$2"
    kill -ABRT $program
    local status=0
    wait $recorder || status=$?
    [ "$2" = attach ] || [ $status -eq 134 ]
    [ "$2" = spawn ] || [ $status -eq 0 ]
    has_samples f
}

@test "the program dumps core: the recorder ends with its status, the file reads" {
    each_isolation program_dumps
}

@test "what the program and its children can see is as without us" {
    # Environment, descriptors, signals, children, limits: compared with a bare run.  The
    # kernel counts a thread of ours.
    local version path
    while read -r version path; do
        as_spawned "$path" "$apps/surroundings.py" bare
        for isolation in $(isolations_here); do
            "$PYSTACK" record --isolation=$isolation -q -o f -- \
                "$path" "$apps/surroundings.py" recorded
            [ $isolation = task ] || sed -i 's/^\(Threads:.\)2$/\11/' recorded
            run diff bare recorded
            echo "# $version, $isolation: $(wc -l < bare) lines compared" >&3
            [ "$status" -eq 0 ] || { echo "$output"; return 1; }
        done
    done < <(pythons)
}

@test "signals that were ignored stay ignored, those of the C library too" {
    as_spawned python3 "$apps/ignore-signals.py" /usr/bin/python3 \
        "$apps/surroundings.py" bare
    for isolation in $(isolations_here); do
        python3 "$apps/ignore-signals.py" "$PYSTACK" record --isolation=$isolation -q -o f \
            -- /usr/bin/python3 "$apps/surroundings.py" recorded
        [ $isolation = task ] || sed -i 's/^\(Threads:.\)2$/\11/' recorded
        diff bare recorded
    done
    # 1, 2, 13, 32, 33 and what Python ignores itself.
    [[ $(grep '^SigIgn' recorded) =~ 1[89a-f]...[1357]00[37]$ ]]
}

@test "a program that is its children's reaper finds no strange child" {
    for isolation in $(isolations_here); do
        "$PYSTACK" record --isolation=$isolation -q -o f -- \
            /usr/bin/python3 "$apps/reaper.py" > out
        [ "$(cat out)" = DONE ]
    done
}

memory_stays() { # isolation
    isolation=$1
    start_recorded /usr/bin/python3 sleep attach
    kill -INT $recorder
    wait $recorder
    local before after
    before=$(awk '/^VmRSS/ { print $2 }' /proc/$program/status)
    for _ in 1 2 3 4 5; do
        "$PYSTACK" record --isolation=$isolation -q -d 0.2 -o f -p $program
    done
    after=$(awk '/^VmRSS/ { print $2 }' /proc/$program/status)
    echo "# $isolation: before $before KiB, after $after KiB" >&3
    [ $((after - before)) -lt 200 ]
    program_ends_well
}

@test "resident memory after detach is what it was before attach" {
    for isolation in $(isolations_here); do
        memory_stays $isolation
    done
}

sleeps_out() { # isolation
    local recorder program wall
    rm -f f
    "$PYSTACK" record --isolation="$1" -F 500 -o f -- python3 "$apps/busy.py" 8 > out 2> err &
    recorder=$!
    wait_until 20 has_function f in_busy
    program=$(pgrep -P $recorder -f busy.py | head -n 1)
    [ -n "$program" ] || return
    kill -STOP $recorder $program
    sleep 2
    kill -CONT $program $recorder
    wait $recorder
    wall=$(collapsed -e wall -i f | awk '{ n += $NF } END { printf "%d", n / 1000 }')
    echo "# $wall ms of wall time in 8 s with 2 s of sleep" >&3
    [ "$wall" -lt 6700 ]
    [ "$wall" -gt 3000 ]
}

@test "program and recorder sleep for two seconds, as on a laptop: in no figure" {
    for isolation in $(isolations_here); do
        sleeps_out $isolation
    done
}
