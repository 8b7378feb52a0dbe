# SPDX-License-Identifier: Apache-2.0
# What a recording tells of itself: the rate and what it was lowered for, what was lost, late
# or not to be read, how long the program was held.  Each is made to happen, and is then in
# the last line, in the header and in the statistics alike.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    program= recorder=
}

teardown() {
    local pid
    for pid in "$recorder" "$program"; do
        [ -z "$pid" ] || kill -CONT "$pid" 2>/dev/null || true
        [ -z "$pid" ] || end_process "$pid"
    done
}

newest_python() {
    some_pythons | tail -n 1
}

# A counter of a file's first process, or of another one.
counter() { # file name [pid]
    "$PYSTACK" report --stats -i "$1" | awk -v name="$2" -v pid="${3-}" '
        $2 == "process" { here = pid == "" ? !seen++ : $3 == pid ":" }
        here && $2 == name { print $1; exit }'
}

# The number in front of a word of the last line of the recorder, or of the header.
told() { # word messages
    sed -nE "s/^.*(\(|, )([0-9]+)( of [0-9]+( [a-z]+)?)? ${1}[,)].*$/\2/p" "$2" | head -n 1
}

in_header() { # word file
    "$PYSTACK" report --header-only -i "$2" |
        sed -nE "s/^# samples: (.*, )?([0-9]+)( of [0-9]+( [a-z]+)?)? $1( .*|,.*)?$/\2/p"
}

# Everywhere alike, and not zero.
is_told() { # word counter messages file
    local last header count
    last=$(told "$1" "$3") header=$(in_header "$1" "$4") count=$(counter "$4" "$2")
    echo "$last $1"
    [ -n "$last" ] && [ "$last" -gt 0 ] && [ "$last" = "$header" ] && [ "$last" = "$count" ] ||
        { echo "header '$header', counter '$count'"; cat "$3"; return 1; }
}

# Start a program and attach to it; all end with finish.
attach_to() { # python option... -- script argument...
    local python=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    "$python" "$@" > out 2>&1 3>&- &
    program=$!
    "$PYSTACK" record "${options[@]}" -o f -p $program 2> messages 3>&- &
    recorder=$!
    wait_until 60 has_line messages "recording process" || return
    wait_until 30 task_runs
}

finish() {
    local ended=0
    kill -INT "$recorder"
    wait "$recorder" || ended=$?
    recorder=
    end_process "$program"
    program=
    return $ended
}

# The task has the command line of its program, which has a word of its own.
sampler() {
    local dir
    for dir in /proc/[0-9]*; do
        [ "$(cat "$dir/comm" 2>/dev/null)" = pystack ] || continue
        grep -qzF "$BATS_TEST_TMPDIR/" "$dir/cmdline" 2>/dev/null || continue
        [ "${dir##*/}" != "$recorder" ] || continue
        echo "${dir##*/}"
        return 0
    done
    return 1
}

task_runs() {
    [ "$("$tools/ring-state" "$(sampler)")" = running ]
}

task_is_parked() {
    [ "$("$tools/ring-state" "$(sampler)")" = parked ]
}

has_counted() { # counter
    [ "$("$tools/ring-state" "$(sampler)" "$1")" -gt 0 ]
}

# --- the rate ---

# Behind the first 2 s, in which it comes down, what was used is within the limit; by a
# factor, as a window tells of the one before.
stays_within() { # python
    local part
    rm -f f.* out
    "$PYSTACK" record -q -F 5000 --switch-output=2s -o f -- "$1" "$apps/busy.py" 6.5 \
        > out || return
    local parts=(f.[0-9]*)
    [ ${#parts[@]} -ge 3 ] || { ls; return 1; }
    "$PYSTACK" report --stats -i "${parts[0]}" > stats
    grep -E '^# rate: 5000 Hz for [0-9.]+ s; less, down to [0-9.]+ Hz, for [0-9.]+ s: more would have cost over 1% of the program.s CPU$' \
        stats || { cat stats; return 1; }
    for part in "${parts[@]}"; do
        "$PYSTACK" report --header-only -i "$part" |
            grep -E ', 5000 Hz lowered to [0-9.]+ Hz for the overhead limit$' || return
    done
    for part in "${parts[@]:1}"; do
        echo "$(counter "$part" sampler-cpu) $(counter "$part" program-cpu)" \
            "$("$PYSTACK" report --header-only -i "$part" |
                sed -nE 's/^#   CPython .*, ([0-9.]+) s, .*$/\1/p')"
    done > spent
    cat spent
    awk '{ sampler += $1; program += $2; elapsed += $3 * 1e9 }
        END {
            allowed = program / 100 + elapsed / 500
            printf "sampler %.1f ms, allowed %.1f\n", sampler / 1e6, allowed / 1e6
            exit !(NR >= 2 && program > 0 && sampler > 0 && sampler < 3 * allowed)
        }' spent
}

@test "the rate is lowered, for a reason that is told, and the sampler stays within its limit" {
    with_each newest_python stays_within
}

# The child has a sampler of its own, and nothing of what its parent's has counted.
begins_anew() { # python
    local child parent
    record -q -F 5000 -o f -- "$1" "$apps/forks-late.py" 1.5 0.6 > out || return
    child=$(cat out)
    "$PYSTACK" report --stats -i f > stats
    parent=$(sed -nE 's/^# process ([0-9]+):.*/\1/p' stats | grep -vx "$child")
    for pid in $parent $child; do
        echo "$pid $(counter f ticks "$pid") $(counter f limited "$pid")" \
            "$(counter f program-cpu "$pid")" \
            "$(awk -v pid="$pid" '$2 == "process" { here = $3 == pid ":" }
                here && /^# rate: 5000 Hz for/ { rate = $6 }
                here && $2 == "samples" && NF == 2 { n = $1 }
                here && /^# +tid / { rows = 1; next }
                here && rows && $1 ~ /^[0-9]+$/ && NF > 11 { sum += $7 }
                END { print rate, n, sum }' stats)"
    done > histories
    cat histories
    # Of 0.6 s of CPU time; the first of it at the full rate, as far as there was a CPU.
    awk '$6 == 0 || $6 != $7 { wrong = 1 }
        NR == 1 { parent = $3 > 2e8 && $4 > 1.2e9 }
        NR == 2 { child = $4 > 0 && $4 < 1e9 && $5 > 0.05 && $2 > 50 && $2 >= $6 }
        END { exit !(NR == 2 && parent && child && !wrong) }' histories ||
        { cat stats; return 1; }
}

@test "a fork child begins at the full rate, and counts from nothing" {
    requires_task "a thread's program is told in another way"
    with_each newest_python begins_anew
}

# --- what is lost, late, parked, unreadable, held ---

# Where it gets little of a CPU it may be parked, after 5 s, before the ring is full.
fills_and_parks() {
    kill -STOP "$recorder"
    wait_until 60 task_is_parked || return
    # So long it is parked at least.
    sleep 0.3
    kill -CONT "$recorder"
    wait_until 60 task_runs && has_counted lost
}

@test "samples are lost when the recorder stands, then the sampler is parked: both are told" {
    requires_task "the ring is that of a task"
    local python
    python=$(newest_python)
    attach_to "${python#* }" -F max -- "$apps/wanders.py" "$PWD/"
    wait_until 120 fills_and_parks
    finish
    is_told lost lost messages f
    grep -E ', [0-9.e+-]+ s parked, overhead' messages
    [ "$(counter f parked)" -gt 100000000 ]
    # When it was, too: of a full ring the last room is for that.
    "$PYSTACK" report --header-only -i f | grep -E '^#   [0-9.]+ s with the recorder silent: not in the figures$'
    # Of whom: the last column of a thread.
    "$PYSTACK" report --stats -i f | awk '/^# +tid/ { here = 1; next } here && $11 > 0 { n++ }
        END { exit !n }'
}

stand_and_go_on() {
    local task
    task=$(sampler)
    kill -STOP "$task"
    sleep 0.1
    kill -CONT "$task"
    sleep 0.05
    has_counted late
}

@test "ticks that come late are told, and that the program was held to attach" {
    requires_task "a thread cannot be stopped alone"
    local python before after
    python=$(newest_python)
    before=$(date +%s%N)
    attach_to "${python#* }" -F 100 --no-adaptive -- "$apps/busy.py" 300 0 "$PWD/"
    wait_until 60 stand_and_go_on
    finish
    after=$(date +%s%N)
    is_told late late messages f
    is_told missed missed messages f
    [ "$(counter f held)" -gt 0 ]
    [ "$(counter f held)" -lt $((after - before)) ]
}

has_unreadable() { # python
    record -F max -o f -- "$1" "$apps/oracle.py" truth 0.8 > out 2> messages &&
        grep -q ' unreadable[,)]' messages
}

@test "stacks of which nothing can be trusted are told" {
    local python
    python=$(newest_python)
    wait_until 60 has_unreadable "${python#* }"
    is_told unreadable unreadable messages f
}
