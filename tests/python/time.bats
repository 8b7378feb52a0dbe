# SPDX-License-Identifier: Apache-2.0
# The time that is shown is true: what programs say of themselves, by the kernel's clocks, and
# what their recordings show.
load helpers
load accounts

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# The same, of a program that runs already.
attached() { # python options seconds steps
    local pid
    rm -f commands answers out f
    mkfifo commands answers || return
    # shellcheck disable=SC2086 # several words each
    "$1" "$app" "$3" $4 +enable +disable > out 3>&- &
    pid=$!
    # shellcheck disable=SC2086
    if wait_until 30 has_line out ready &&
        record -q $2 -D -1 --control=fifo:commands,answers -o f -p $pid; then
        wait $pid
    else
        end_process $pid
        return 1
    fi
}

# The system's, or the only one.
system_python() {
    some_pythons | { grep ' /usr/bin/' || some_pythons; } | head -n 1
}

stay() { # python
    recorded "$1" "" 1.2 "computing hashing packing resting mixed" &&
        judge threads process
}

@test "each thread has the CPU time that the kernel gives it" {
    with_each pythons stay
}

began_before() { # python
    attached "$1" "" 1 "before:0.3 computing hashing resting" && judge threads process
}

@test "of threads that began before an attach only what they use since is shown" {
    with_each some_pythons began_before
}

# 5 threads work for 1 ms every 100 ms each: to give CPU time to what is seen at the end of
# a window would give the work 5 %.
seldom() { # python options hidden
    recorded "$1" "--no-adaptive $2" 4 "bursts bursts bursts bursts bursts resting" &&
        judge threads share:in_python:bursts time:in_python:bursts "hidden:$3"
}

@test "who works for 1 ms of 100 has its CPU time, and who sleeps has none of it, at 100 Hz" {
    with_each system_python seldom "-F 100" 75
}

@test "who works for 1 ms of 100 has its CPU time, and who sleeps has none of it, at 1 kHz" {
    with_each system_python seldom "-F 1000" 15
}

lives() { # python
    recorded "$1" "--no-adaptive" 1.5 "resting computing brief" &&
        judge wall:resting wall:computing wall:brief-starter lives:in_brief:30
}

@test "each thread has all of the time from its start to its end, but while sampling is off" {
    with_each some_pythons lives
}

# The sampler sees a stop some 0.1 s late.
is_stopped() { # python
    recorded "$1" "--no-adaptive" 0.9 "resting stop:0.5" && judge wall:resting:500:150
}

@test "the time in which a program is stopped is nobody's" {
    with_each some_pythons is_stopped
}

# A load in step with the sampler, or one that the rate follows.
in_step() { # python kind
    local options
    for options in "-F 100" "-F 1000" "-F 100 --no-adaptive" "-F 1000 --no-adaptive"; do
        echo "$options:"
        recorded "$1" "$options" 1.3 "$2" || return
        judge threads "time:in_first:$2" "time:${3:-in_rest}:$2" || return
    done
}

@test "load that steps from idle to busy and back: shares are true at any rate" {
    with_each system_python in_step stepping
}

@test "two places that take turns with the interval of the sampler: shares are true" {
    with_each system_python in_step alternating in_second
}

@test "work in the first half of each interval: shares are true" {
    with_each system_python in_step halves
}

holds() { # python
    recorded "$1" "" 1.5 "holding computing packing" &&
        judge gil:in_hold:holding threads:packing
}

@test "the time with the GIL is that of the C code which keeps it" {
    with_each some_pythons holds
}
