# SPDX-License-Identifier: Apache-2.0
# CPU time that is hard to give to the right one: what has ended, runs without the GIL, sleeps
# with it, or has more than one thread state.
load helpers
load accounts

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# They are never looked at while they live.
brief() { # python
    recorded "$1" "--no-adaptive" 2 "resting brief" && judge uses:in_brief:30
}

@test "threads that live for 30 ms have their CPU time" {
    with_each some_pythons brief
}

# The last look is up to 50 ms before their end: what is added up since are samples, and on
# a busy machine some of them are missing.
ends() { # python
    recorded "$1" "-F 1000 --no-adaptive" 1 "ending computing hashing resting" &&
        judge threads:computing:40 threads:hashing:40
}

@test "threads that end have the CPU time of their last moments" {
    with_each some_pythons ends
}

# Each process is recorded to its very end; what it says of itself begins later.
forks() { # python
    rm -f out f
    record -q -F 1000 --no-adaptive -o f -- "$1" "$app" 0.3 fork:2 > out &&
        judge pids
}

@test "each process of a tree has the CPU time that it used until its end" {
    with_each some_pythons forks
}

# They are gone before they are looked at once: what there is are samples.
moments() { # python
    rm -f out f
    record -q -F 1000 --no-adaptive -o f -- "$1" "$app" 0 moments:40 > out &&
        judge together:10
}

@test "processes that live for 12 ms have their CPU time" {
    with_each some_pythons moments
}

mixes() { # python options
    recorded "$1" "$2" 2 mixed && judge threads share:in_python:mixed share:in_pack:mixed
}

@test "half of the work with the GIL, half without: the shares of CPU time are true" {
    with_each some_pythons mixes ""
}

@test "half of the work with the GIL, half without, at 1 kHz" {
    with_each some_pythons mixes "-F 1000"
}

# It takes the GIL for some us each time.
lets_go() { # python
    recorded "$1" --no-adaptive 2 "seldom-packing resting" &&
        judge threads share:in_pack:seldom-packing hidden:40
}

@test "5 ms of work without the GIL, each 50: CPU time is that of the work" {
    with_each some_pythons lets_go
}

sleeps() { # python
    recorded "$1" "" 2 sitting &&
        judge threads gil:in_sit:sitting most:in_sit:sitting:15
}

@test "C code that sleeps with the GIL has the time with it, and little CPU time" {
    with_each some_pythons sleeps
}

calls_back() { # python
    record -q --no-adaptive -o f -- "$1" "$apps/callbacks.py" "$tools/callbacks.so" 20 \
        > out && judge uses:in_callback:20
}

@test "a C thread that calls Python again and again has its CPU time once" {
    with_each some_pythons calls_back
}

wakes() { # python
    recorded "$1" "-F 1000 --no-adaptive" 2 waking && judge time:in_first:waking
}

@test "work for 1 ms at each multiple of 10 is seen, and not what comes after it" {
    with_each some_pythons wakes
}

# Ready to run with the GIL, it looks as if it ran; what each file ends with is ticks that
# the kernel's account has next to nothing for.
@test "a program that gets next to no CPU time: none is made up, in no file" {
    [ "$(nproc)" -ge 2 ] || skip "needs two CPUs"
    local program hog before used shown cpu
    cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
    taskset -c "$cpu" /usr/bin/python3 -c 'open("ready", "w").close()
while True: pass' &
    program=$!
    wait_until 30 test -e ready
    taskset -c "$cpu" /usr/bin/python3 -c 'while True: pass' &
    hog=$!
    renice -n 19 -p $program > renice.out
    before=$(cut -d' ' -f1 "/proc/$program/schedstat")
    record -q -F 500 --no-adaptive -d 2 --switch-output=0.15s -o f -p $program
    used=$((($(cut -d' ' -f1 "/proc/$program/schedstat") - before) / 1000000))
    end_process $program
    end_process $hog
    shown=$(for part in f.*; do
        collapsed --event=cpu -i "$part"
    done | awk '{ n += $NF } END { print int(n / 1000) }')
    echo "# $shown ms of $used, in $(ls f.* | wc -l) files" >&3
    [ "$used" -lt 500 ] || skip "it had $used ms of CPU time"
    [ "$shown" -le $((used + 10)) ]
}

# The ticks of a stack are some 6, one more or less; the rest of the window that they share
# with what comes before and behind may have had more CPU time, or less.
takes_down() { # python options
    local missed most=3
    [ -z "$2" ] || most=30
    # Where the sampler gets no CPU, it sees too little to judge by.
    for _ in 1 2 3 4 5 6; do
        # shellcheck disable=SC2086 # several words
        record -q --no-adaptive $2 -o f -- "$1" "$apps/teardown.py" 1000000 > out || return
        missed=$("$PYSTACK" report --stats -i f | awk '$2 == "missed" { print $1 }')
        [ "$missed" -gt $most ] || break
    done
    [ "$missed" -le $most ] || { echo "not judged: $missed ticks missed"; return; }
    collapsed -e cpu -i f | awk -v words="$(grep LAST out)" '
        { n = $NF / 1000; all += n; leaf = $0
          sub(/ [0-9]+$/, "", leaf); sub(/.*;/, "", leaf)
          if (leaf !~ /^\[/) python += n
          if (leaf ~ /^\[no Python frame\]/) bare += n
          if ($0 ~ /;last /) last += n }
        END { split(words, w)
          printf "last %d ms of %d, python %d of %d, no frame %d of %d\n", last, w[2],
              python, w[3], bare, all - w[3]
          exit !(last < w[2] + 40 && python < w[3] + 40 && all - w[3] > 60 &&
              bare > (all - w[3]) * 0.6 - 40) }'
}

@test "what the interpreter uses to take itself down is not the last function's" {
    with_each pythons takes_down ""
    with_each some_pythons takes_down "-F 1000"
}
