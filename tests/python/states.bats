# SPDX-License-Identifier: Apache-2.0
# What a thread was doing: states, phases, and recordings of a part of the threads.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
}

states() { # python arguments of record -- arguments of states.py
    local python=$1
    shift
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    record -q --no-adaptive -o f "${options[@]}" -- "$python" "$apps/states.py" "$@" \
        > out && grep -qx DONE out
}

# The share, in percent, of the weight of stacks that match.
share_of() { # event expression
    collapsed -i f -e "$1" | awk -v e="$2" '
        { n = $NF; sum += n; $NF = "" }
        $0 ~ e { part += n }
        END { printf "%.2f", sum ? 100 * part / sum : 0 }'
}

# A figure of --stats.
figure() { # name
    "$PYSTACK" report --stats -i f | awk -v n="$1" '$2 == n { print $1; exit }'
}

# Is a figure near another, within so much of itself or so much?
near() { # figure wanted relative absolute
    awk -v f="$1" -v w="$2" -v r="$3" -v a="$4" 'BEGIN {
        d = f > w ? f - w : w - f; exit !(d <= w * r || d <= a) }'
}

check_gc() { # python
    local truth got elsewhere
    states "$1" -F 1000 -- collect 1.5 || return
    truth=$(awk '/TRUTH/ { printf "%.2f", 100 * $2 }' out)
    got=$(share_of cpu 'collecting [^;]*;\[gc\]')
    elsewhere=$(share_of cpu 'computing .*\[gc\]')
    echo "[gc] $got % of $truth, $elsewhere under computing"
    near "$got" "$truth" 0 6 && near "$elsewhere" 0 0 0.5
}

@test "the collector is a node under the function that it came upon, and no other" {
    with_each pythons check_gc
}

check_finalizer() { # python
    local own over
    states "$1" -F 1000 -- finalize 1 || return
    own=$(share_of cpu '__del__')
    over=$(share_of cpu '__del__.*\[gc\]')
    echo "$own % in the finalizer, $over with [gc] on top"
    near "$own" 100 0 25 && near "$over" 0 0 20
}

@test "a finalizer that the collector calls is not the collector" {
    with_each pythons check_finalizer
}

check_phases() { # python
    local at_start=0 at_end tries
    # It takes some ms, in which the sampler may have no CPU.
    for tries in 1 2 3 4 5 6; do
        states "$1" -F 5000 -- end || return
        "$PYSTACK" script -i f > samples
        at_start=$(grep -c ' starting' samples)
        [ "$at_start" -eq 0 ] || break
    done
    at_end=$(awk '/ticks? .* finalizing/ { getline l1; getline l2
        if (l1 l2 ~ /__del__/) n++ } END { print n + 0 }' samples)
    echo "$at_start runs at the start, $at_end in the finalizer at the end"
    [ "$at_start" -ge 1 ] && [ "$at_end" -ge 1 ] || return
    # The program itself is in neither.
    ! grep -A 2 -E ' (starting|finalizing)' samples | grep -q 'computing' || return
    near "$(share_of cpu '__del__')" 72 0 22
}

@test "the interpreter's start and end are told, and what runs in them" {
    with_each pythons check_phases
}

# What the program used, without a sampler that is a thread of it.
used_without_us() {
    awk -v own="$(own_in_process f)" '/^CPU/ { print $2 - own }' out
}

check_oncpu() { # python
    local cpu
    states "$1" --oncpu -F 500 -- threads 1.5 || return
    cpu=$("$PYSTACK" report -i f --stats | awk '$2 == "cpu," { print $1 }')
    echo "cpu $cpu of $(awk '/^CPU/ { print $2 }' out)," \
        "computing $(share_of cpu computing) %, hashing $(share_of cpu hashing) %"
    near "$cpu" "$(used_without_us)" 0.1 0.06 || return
    near "$(share_of cpu computing)" 50 0 10 && near "$(share_of cpu hashing)" 50 0 10 ||
        return
    # They ran as they began.
    near "$(share_of cpu waiting)" 0 0 2
}

@test "--oncpu: threads that run alone, and all their CPU time" {
    with_each some_pythons check_oncpu
    run "$PYSTACK" report -i f -e wall
    [ "$status" -eq 1 ]
    [[ "$output" == *"recorded with --oncpu"* ]]
    [ "${#lines[@]}" -eq 1 ]
    run "$PYSTACK" report -i f
    [[ "$output" == *"waiting was not recorded"* ]]
    run "$PYSTACK" report -i f -e gil --no-children
    [ "$status" -eq 0 ]
    [[ "$output" == *computing* ]]
}

check_subset() { # python
    local ticks samples wall all cpu
    states "$1" --max-threads 5 -F 1000 -- threads 2 || return
    ticks=$(figure ticks) samples=$(figure samples)
    all=$("$PYSTACK" report -i f --stats | awk '/wall of all/ { print $1 }')
    cpu=$("$PYSTACK" report -i f --stats | awk '$2 == "cpu," { print $1 }')
    # Of the 20 that wait, each was drawn as often as the others.
    "$PYSTACK" report -i f --stats | awk '/\(waiting\)|Thread-/ && $3 < 0.2 {
        n++; sum += $2; if ($2 > most) most = $2; if (n == 1 || $2 < least) least = $2 }
        END { print n, sum / n, least, most }' > waiting
    read -r n mean least most < waiting
    echo "$samples samples of $ticks ticks, $all s of wall, $cpu of" \
        "$(awk '/^CPU/ { print $2 }' out) s of CPU; $n waited $least to $most s"
    [ "$samples" -le $((ticks * 5 + ticks / 20 + 100)) ] && [ "$n" -eq 20 ] || return
    # 1 of 4 drawn, some 1000 times: the deviation is a twentieth of it.
    near "$least" "$mean" 0.3 0 && near "$most" "$mean" 0.3 0 || return
    near "$cpu" "$(used_without_us)" 0.05 0.06 || return
    near "$(share_of cpu computing)" 50 0 12
}

@test "--max-threads: a random subset, which weighs what all do" {
    with_each some_pythons check_subset
    run "$PYSTACK" report -i f --header-only
    [[ "$output" == *"of at most 5 threads at a time"* ]]
}

check_delay() { # python
    local ok
    states "$1" -F 200 -- share 2 || return
    "$PYSTACK" report -i f --stats | awk '/hashing|Thread-/ { print $2, $3, $5, $6 }' > rows
    tr '\n' ';' < rows
    # Two that want one CPU: each waits for it as long as it has it, or longer, where
    # others want it as well (and the sampler, whose missed ticks are no wall time).
    awk '{ n++; if ($2 + $3 < 0.8 * $1 || $3 < 0.25 * $1 || $4 < 2) bad = 1 }
         END { exit !(n == 2 && !bad) }' rows
}

@test "--stats: how long threads were ready and had no CPU" {
    with_each some_pythons check_delay
}

check_program_cpu() { # python
    local got
    states "$1" -F 100 -- threads 0.6 || return
    got=$(figure program-cpu | awk '{ printf "%.3f", $1 / 1e9 }')
    echo "program $got of $(awk '/^CPU/ { print $2 }' out) s;" \
        "$("$PYSTACK" report -i f --stats | grep overhead)"
    near "$got" "$(awk '/^CPU/ { print $2 }' out)" 0.1 0.05
}

@test "--stats: the program's CPU time and the recording's own" {
    with_each some_pythons check_program_cpu
    run "$PYSTACK" report -i f --stats
    [[ "$output" == *"% of a core (recorder "*" s and sampler "* ]]
}

@test "--stats: which samples are to be taken with care, thread by thread" {
    local row
    record -q -F 200 --max-stack 5 -o f -- /usr/bin/python3 "$apps/deep.py" 100 0.5 > out
    row=$("$PYSTACK" report -i f --stats | grep MainThread)
    echo "# $row" >&3
    # Columns: samples, approximate, truncated, unreadable, lost.
    [ "$(awk '{ print ($9 > 0 && $9 <= $7) }' <<< "$row")" -eq 1 ]
    [ "$(figure truncated)" -gt 0 ]
    run "$PYSTACK" report -i f --header-only
    [[ "$output" == *" truncated"* ]]
}

@test "no schedstat: CPU time comes from stat, and it is said" {
    requires_root
    requires_task "a thread reads the others' CPU clocks"
    unshare -m true 2>/dev/null || skip "no mount namespaces here"
    cat > hidden.sh << 'EOF'
python3 -c "
import time
end = time.thread_time() + 1.5
print('up', flush=True)
while time.thread_time() < end:
    sum(range(1000))
" > up &
program=$!
until grep -q up up; do sleep 0.01; done
mount --bind /dev/null /proc/$program/task/$program/schedstat || exit 77
"$PYSTACK" record -q --no-adaptive -F 200 -o f -p $program
wait $program
EOF
    run unshare -m bash hidden.sh
    [ "$status" -ne 77 ] || skip "files of /proc cannot be hidden here"
    [ "$status" -eq 0 ]
    [ "$(figure no-schedstat)" -eq 1 ]
    run "$PYSTACK" report -i f
    echo "# $(grep 'cpu:' <<< "$output" | tr '\n' ' ')" >&3
    [[ "$output" == *"in steps of 10 ms"* ]]
    near "$(awk '/cpu:.*running/ { print $3 }' <<< "$output")" 1.5 0.1 0
}

@test "the ring: what was read of it is no memory of the program any more" {
    record -q -F max -o f -- /usr/bin/python3 -c "
import time
end = time.monotonic() + 2
while time.monotonic() < end:
    sum(range(20))
print(next(line.split()[1] for line in open('/proc/self/status') if 'RssShmem' in line))
" > out
    echo "# $(cat out) kB of $(figure samples) samples" >&3
    [ "$(cat out)" -lt 600 ]
}

# It has asked for the prompt before that: then nothing runs until the next line comes.
prompt_at() { # file
    echo "import time; n = open('$1', 'w').write('%f\n' % time.monotonic())" >&9
    wait_until 30 grep -q . "$1"
}

# $way spawn: from the start to the end; attach: for a second, in the middle.
at_prompt() { # python way
    local program recorder status=0
    rm -f lines began over out err f
    mkfifo lines || return
    exec 9<> lines
    if [ "$2" = spawn ]; then
        "$PYSTACK" record --no-adaptive -o f -- "$1" -q -i < lines > out 2> err 9>&- &
        recorder=$!
        prompt_at began || return
        sleep 1
        prompt_at over || return
        echo 'exit()' >&9
        wait $recorder || status=$?
    else
        "$1" -q -i < lines > out 2>&1 9>&- &
        program=$!
        prompt_at began &&
            "$PYSTACK" record --no-adaptive -d 1 -o f -p $program 2> err || status=$?
        echo "0 1" | tr ' ' '\n' > took
        end_process $program
    fi
    exec 9>&-
    [ $status -eq 0 ] || { cat out err; return 1; }
    [ "$2" = attach ] || cat began over > took
    awk '{ t[NR] = $1 } END { print t[2] - t[1] }' took > seconds
    "$PYSTACK" script -i f -e wall --format collapsed |
        awk '/^\[no Python frame\] / { n += $NF } END { print n / 1e6 }' > shown
    echo "$2: $(cat shown) of $(cat seconds) s; $(figure no-frames) of $(figure samples)" \
        "samples at $(figure ticks) ticks"
    # It starts and ends without a frame as well; of a tick that was missed there is nothing.
    awk -v s="$(cat shown)" -v t="$(cat seconds)" -v missed="$(figure missed)" \
        'BEGIN { exit !(s + missed / 100 > t * 0.9 - 0.05) }' || return
    near "$(figure samples)" "$(figure ticks)" 0.1 5 || return
    [ "$2" = attach ] || return 0
    near "$(cat shown)" "$(awk -v n="$(figure ticks)" 'BEGIN { print n / 100 }')" 0.02 0 ||
        return
    # Nothing runs there.
    near "$("$PYSTACK" report -i f --stats | awk '$2 == "cpu," { print $1 }')" 0 0 0.02 ||
        return
    grep -q 'at none of [0-9]* ticks had a thread a Python frame' err || { cat err; return 1; }
}

@test "a Python at its prompt: its time is that without a frame" {
    with_each pythons at_prompt attach
    with_each pythons at_prompt spawn
}
