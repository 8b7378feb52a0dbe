# SPDX-License-Identifier: Apache-2.0
# CPU timers (-e cpu-timer): what they show is true, and the program does not notice.
load helpers

app=$apps/timers.py

setup() {
    cd "$BATS_TEST_TMPDIR"
    program= recorder= holder=
}

teardown() {
    local pid
    for pid in $holder $program $recorder; do
        end_process "$pid"
    done
}

# Run timers.py under a recorder, by either way: output in "out", status in $status, the
# recorder's messages in "err".
run_timed() { # python way kind seconds [event]
    local event=${5-cpu-timer}
    rm -f out err f ready go
    status=0
    if [ "$2" = spawn ]; then
        "$PYSTACK" record -e "$event" -o f -- "$1" "$app" "$3" "$4" > out 2> err ||
            status=$?
        return
    fi
    "$1" "$app" "$3" "$4" ready go > out &
    program=$!
    wait_until 30 test -e ready || return
    record_from_go err -e "$event" -o f
}

counter() { # file name
    "$PYSTACK" report --stats -i "$1" | awk -v name="$2" '$2 == name { n += $1 }
        END { print n + 0 }'
}

timed() { # file option...
    "$PYSTACK" script --format collapsed -e cpu-timer -i "$@"
}

# Of all: 20 % in in_a itself, 30 in in_b, 50 in in_c below in_b; of each thread its CPU time,
# but for what it used before it was seen and at its end.
has_true_shares() { # python way
    run_timed "$1" "$2" shares 1.2 || return
    [ "$status" -eq 0 ] && has_line out DONE || return
    local one two
    one=$(awk '$2 == "T1" { print $3 }' out)
    two=$(awk '$2 == "T2" { print $3 }' out)
    timed f --per-thread | awk -v one="$one" -v two="$two" '
        /;T1 / { t1 += $NF } /;T2 / { t2 += $NF }
        /;T[12] / { all += $NF }
        /in_a[ (;].*burn/ { a += $NF }
        /in_c[ (;].*burn/ { c += $NF; next }
        /in_b[ (;].*burn/ { b += $NF }
        END {
            t1 /= 1e6; t2 /= 1e6; all /= 1e6
            printf "%.2f of %.2f s, %.2f of %.2f; a %.1f b %.1f c %.1f %%\n", t1, one, t2,
                two, a / all / 1e4, b / all / 1e4, c / all / 1e4
            # 360 samples: 4 standard deviations.
            ok = t1 > one - 0.25 && t1 < one + 0.03 && t2 > two - 0.25 && t2 < two + 0.03
            ok = ok && a / all / 1e4 > 11 && a / all / 1e4 < 29
            ok = ok && b / all / 1e4 > 20 && b / all / 1e4 < 40
            exit !(ok && c / all / 1e4 > 39 && c / all / 1e4 < 61)
        }'
}

@test "shares and sums of threads" {
    each_python_and_way has_true_shares
}

@test "deep stacks: the leaf side is there, the rest is counted" {
    deep() {
        run_timed "$1" "$2" deep 0.5 || return
        has_line out DONE && timed f | grep -q '^\[truncated: 512+ frames\];.*in_deep.*burn' ||
            { timed f | head -c 300; return 1; }
        # A buffer has room for one or two of these; who has no CPU reads it late.
        [ "$(counter f timer-lost)" -lt "$(counter f timer-samples)" ]
    }
    each_python_and_way deep
    # Where there are timers to the end, that is all there is to say.
    [ "$("$PYSTACK" report -e cpu-timer -i f --header-only | grep -c '^# cpu-timer: ')" -eq 1 ]
    "$PYSTACK" report --stats -i f | grep -qx '# CPU timers: to the end'
}

keeps_its_handler() { # python way
    run_timed "$1" "$2" before 0.5 || return
    [ "$status" -eq 0 ] && has_line out DONE || return
    # One may have been on its way where timers were there before the handler.
    has_line out '^got 2[01]$' || return
    grep -qE "no CPU timers( from now on)?: the program (uses|has taken) SIGURG \(its handler is in /" err || return
    # The file knows it too.
    "$PYSTACK" report -e cpu-timer -i f --header-only > header || return
    grep -qE "^# cpu-timer: of process [0-9]+ none( from [0-9.]+ s on)?: the program (uses|took) SIGURG \(its handler is in /" header || {
        cat header
        return 1
    }
    "$PYSTACK" report --stats -i f | grep -q "^# CPU timers: none"
}

@test "a program that uses SIGURG keeps it, and that is said" {
    each_python_and_way keeps_its_handler
}

@test "a program that profiles itself by SIGPROF does so, and is recorded" {
    profiles() {
        run_timed "$1" "$2" profiled 0.5 || return
        [ "$status" -eq 0 ] && has_line out DONE || return
        [ "$(sed -n 's/^got //p' out)" -ge 20 ] && [ "$(counter f timer-samples)" -ge 10 ]
    }
    each_python_and_way profiles
}

@test "a SIGPROF that the program has no handler for ends it" {
    ends() {
        run_timed "$1" "$2" unhandled 0.4
        # As from the shell, by either way.
        [ "$status" -eq 155 ] && ! has_line out DONE && [ "$(counter f timer-samples)" -ge 10 ]
    }
    each_python_and_way ends
}

@test "a stack without a limit, which has memory laid out in another way" {
    (ulimit -s unlimited) || skip "the limit of the stack cannot be raised"
    unlimited() {
        ulimit -s unlimited
        run_timed "$1" "$2" shares 0.3 || return
        [ "$status" -eq 0 ] && has_line out DONE && [ "$(counter f timer-samples)" -ge 10 ] &&
            timed f | grep -q 'in_b.*in_c'
    }
    each_python_and_way unlimited
}

@test "a program that puts all signals to their defaults goes on" {
    resets() {
        run_timed "$1" "$2" defaults 0.2 || return
        [ "$status" -eq 0 ] && has_line out DONE && ! grep -q False out &&
            grep -q "no CPU timers from now on: the program has put SIGURG to its default" err
    }
    each_python_and_way resets
}

takes_it() { # python way
    run_timed "$1" "$2" during 0.5 || return
    [ "$status" -eq 0 ] && has_line out DONE && has_line out '^default True' || return
    # What runs out between its call and the next look: one of each thread at most.
    awk '/^stray/ { exit !($2 <= 1 && $4 == 20) }' out || return
    [ "$(counter f timer-yielded)" -eq 1 ] && [ "$(counter f timer-samples)" -ge 10 ] &&
        grep -q "no CPU timers from now on: the program has taken SIGURG" err || {
        echo "yielded $(counter f timer-yielded), samples $(counter f timer-samples)"
        return 1
    }
}

@test "a program takes SIGURG: timers stand aside, once and for all" {
    each_python_and_way takes_it
}

is_let_be() { # python way kind line
    run_timed "$1" "$2" "$3" 0.5 || return
    [ "$status" -eq 0 ] && has_line out DONE && has_line out "$4"
}

@test "SIGURG that is ignored stays so" {
    each_python_and_way is_let_be ignored "^ignored True"
}

@test "a thread that blocks SIGURG has no timer, and nothing pending" {
    each_python_and_way is_let_be blocked "^pending 0"
    [ "$(counter f timer-samples)" -eq 0 ]
    grep -q "1 thread.* block" err
    "$PYSTACK" report -e cpu-timer -i f --header-only > header
    grep -qE '^# cpu-timer: 1 thread of process [0-9]+ had none: SIGURG was blocked$' header
}

@test "a SIGURG that somebody sends does nothing, as without us" {
    goes_on() {
        run_timed "$1" "$2" sent 0.3
        [ "$status" -eq 0 ] && has_line out DONE && [ "$(counter f timer-samples)" -ge 10 ]
    }
    each_python_and_way goes_on
}

has_family() { # python way
    run_timed "$1" "$2" family 0.1 || return
    [ "$status" -eq 0 ] && has_line out '^child 0' && has_line out '^exec 0' &&
        has_line out DONE && timed f | grep -q in_child
}

@test "forked children have timers of their own, or none of ours" {
    each_python_and_way has_family
}

@test "threads that come and go, by hundreds" {
    churns() {
        run_timed "$1" "$2" churn 1.5 || return
        [ "$status" -eq 0 ] && has_line out DONE && timed f | grep -q 'in_brief.*burn'
    }
    each_python_and_way churns
}

@test "the program's status" {
    exits() {
        run_timed "$1" "$2" status 0.3
        [ "$status" -eq 7 ] && has_line out DONE
    }
    each_python_and_way exits
}

@test "alternate stacks stay where they are" {
    each_python_and_way is_let_be alternate "^stack True"
}

@test "no system call is cut short" {
    uncut() {
        run_timed "$1" "$2" calls 1.5 cpu-timer:1ms || return
        [ "$status" -eq 0 ] && has_line out DONE && has_line out '^calls True cut 0' || return
        [ "$(counter f timer-interrupted)" -eq 0 ] || return
        [ "$(counter f timer-samples)" -ge 5 ]
    }
    each_python_and_way uncut
}

@test "a system call that a signal of the program ends does end" {
    ends() {
        SLEEPER=$tools/sleeper.so run_timed "$1" "$2" interrupted 1.5 cpu-timer:1ms || return
        [ "$status" -eq 0 ] && has_line out DONE && has_line out '^hung \[0, 0, 0, 0\]'
    }
    each_python_and_way ends
}

@test "threads that block all signals but while they wait for them get none of ours" {
    none_astray() {
        SLEEPER=$tools/sleeper.so run_timed "$1" "$2" masked 1.5 cpu-timer:1ms || return
        [ "$status" -eq 0 ] && has_line out DONE && has_line out '^astray \[0, 0, 0\]' &&
            [ "$(counter f timer-interrupted)" -eq 0 ]
    }
    each_python_and_way none_astray
}

@test "a SIGURG that the program has pending stays" {
    stays() {
        run_timed "$1" "$2" pending 0.3 || return
        [ "$status" -eq 0 ] && has_line out DONE && has_line out '^pending 1'
    }
    each_python_and_way stays
    # Behind the end of a recording, too.
    rm -f ready go
    "$(newest)" "$app" pending 0.3 ready go end > out &
    program=$!
    wait_until 30 test -e ready
    touch go
    "$PYSTACK" record -q -e cpu-timer -d 1 -o f -p $program
    touch end
    wait $program
    program=
    has_line out '^pending 1'
}

@test "nine system calls under a timer of the same kind" {
    local call
    for call in ppoll poll select epoll nanosleep read futex accept semop; do
        "$tools/timer-calls" $call 0.7 1000 | sed 's/^/# /' >&3
        [ "${PIPESTATUS[0]}" -eq 0 ]
    done
}

state_of() { # pid
    grep -E '^(SigCgt|SigIgn|SigBlk|SigPnd|ShdPnd)' /proc/"$1"/status
    grep -c '^ID' /proc/"$1"/timers || true
}

has_state() { # pid file
    state_of "$1" | cmp -s - "$2"
}

has_timers() { # pid count
    [ "$(grep -c '^ID' /proc/"$1"/timers)" -ge "$2" ]
}

# Of no file, and executable.
code_pages() { # pid
    grep -c 'r-xp 00000000 00:00 0 *$' /proc/"$1"/maps || true
}

leaves_nothing() { # python
    rm -f out before
    "$1" "$app" many 100 ready > out &
    program=$!
    wait_until 30 has_line out many || return
    state_of $program > before
    local i pages
    for i in 1 2 3; do
        "$PYSTACK" record -e cpu-timer -o f -p $program 2> err &
        recorder=$!
        wait_until 30 has_timers $program 50 || { cat err; return 1; }
        kill -INT $recorder
        wait $recorder || return
        recorder=
        state_of $program > after
        diff before after || { cat err; return 1; }
        [ $i -ne 1 ] || pages=$(code_pages $program)
    done
    # The same pages each time.
    [ "$(code_pages $program)" -eq "$pages" ] || return

    "$PYSTACK" record -e cpu-timer -o f -p $program 2> err &
    recorder=$!
    wait_until 30 has_timers $program 50 || { cat err; return 1; }
    kill -KILL $recorder
    wait $recorder || true
    recorder=
    wait_until 30 has_state $program before || return
    is_running $program || return
    end_process $program
    program=
}

@test "detach, once more, and a recorder that is killed: timers and handler go" {
    with_each some_pythons leaves_nothing
}

newest() {
    some_pythons | tail -n 1 | cut -d ' ' -f 2
}

resident() {
    awk '/^Anonymous:/ { n += $2 } END { print n + 0 }' /proc/"$1"/smaps_rollup
}

begin_recording() { # messages option...
    "$PYSTACK" record "${@:2}" -o f -p $program 2> "$1" 7>&- &
    recorder=$!
}

end_recording() {
    kill -INT $recorder 2> /dev/null || true
    wait $recorder || return
    recorder=
}

goes_on_to_its_end() {
    local status=0
    touch end
    wait $program || status=$?
    program=
    [ "$status" -eq 0 ] && has_line out DONE || { echo "status $status"; return 1; }
}

stays="a thread of it may be in the handler of a CPU timer .* stays mapped"

stopped_inside() { # python
    rm -f out err ready end
    touch go
    "$1" "$app" deep 0.1 ready go end > out &
    program=$!
    wait_until 30 test -e ready || return
    begin_recording err -e cpu-timer:1ms
    wait_until 30 has_timers $program 1 || { cat err; return 1; }
    "$tools/hold-in-handler" stop $program || return
    end_recording && has_line err "$stays" || { cat err; return 1; }
    kill -CONT $program || return
    goes_on_to_its_end
}

# Not by with_each: what is left stopped has to be known to teardown.
@test "the recording ends while a thread is stopped in the handler: its code stays" {
    local version path
    while read -r version path; do
        stopped_inside "$path" || { echo "$version"; return 1; }
    done < <(some_pythons)
}

sampler_killed() { # python
    rm -f out err ready go end
    "$1" "$app" sieved 0.3 ready go end > out &
    program=$!
    wait_until 30 test -e ready || return
    local pages
    pages=$(code_pages $program)
    begin_recording err -e cpu-timer:1ms -F 1000 --no-adaptive
    wait_until 30 is_recorded_or_not $recorder err || return
    touch go
    wait $recorder || { cat err; return 1; }
    recorder=
    has_line err "the sampler thread was killed; the program goes on" || { cat err; return 1; }
    # The handler stays, and does nothing.
    [ "$(code_pages $program)" -le $((pages + 1)) ] || { cat err /proc/$program/maps; return 1; }
    goes_on_to_its_end || return

    status=0
    "$PYSTACK" record -e cpu-timer:1ms -F 1000 --no-adaptive -o f -- "$1" "$app" sieved 0.3 \
        > out 2> err || status=$?
    [ "$status" -eq 0 ] && has_line out DONE || { cat err; return 1; }
}

@test "the sampler is killed by a filter of the program: timers do no harm" {
    with_each some_pythons sampler_killed
}

has_tasks() { # pid count
    [ "$(ls /proc/"$1"/task | wc -l)" -ge "$2" ]
}

@test "a thread is held in the handler from one recording to the next" {
    local tid
    mkfifo gate
    touch go
    "$(newest)" "$app" shares 0.1 ready go end > out &
    program=$!
    wait_until 30 has_tasks $program 3
    tid=$(ls /proc/$program/task | grep -vx $program | head -n 1)
    begin_recording err -e cpu-timer:1ms
    wait_until 30 has_timers $program 3
    "$tools/hold-in-handler" hold "$tid" < gate > held &
    holder=$!
    exec 7> gate
    wait_until 30 has_line held held
    end_recording
    has_line err "$stays"

    begin_recording err -e cpu-timer:1ms
    wait_until 30 has_timers $program 2
    exec 7>&-
    wait $holder
    holder=
    end_recording
    # It counts itself out of the first one's, not of this one's.
    run ! has_line err "$stays"
    goes_on_to_its_end
}

@test "memory: 8 KiB a thread" {
    "$(newest)" "$app" many 60 ready > out &
    program=$!
    wait_until 30 has_line out many
    "$PYSTACK" record --isolation=thread -q -d 1.5 -o f -p $program
    local without with
    "$PYSTACK" record --isolation=thread -q -d 3 -o f -p $program &
    recorder=$!
    sleep 1
    without=$(resident $program)
    wait $recorder
    "$PYSTACK" record -e cpu-timer -q -d 3 -o f -p $program &
    recorder=$!
    wait_until 30 has_timers $program 140
    sleep 0.7
    with=$(resident $program)
    wait $recorder
    recorder=
    echo "# $without KiB without timers, $with with" >&3
    # 151 threads; what else differs from one recording to the next.
    [ $((with - without)) -le $((151 * 8 + 300)) ]
}

@test "sampling off: no timers" {
    mkfifo commands answers
    "$(newest)" "$app" many 60 ready > out &
    program=$!
    wait_until 30 test -e ready
    "$PYSTACK" record -q -e cpu-timer --control=fifo:commands,answers -o f -p $program &
    recorder=$!
    exec 7<> commands 8<> answers
    wait_until 30 has_timers $program 1
    echo disable >&7
    read -r -t 20 _ <&8
    run ! has_timers $program 1
    echo enable >&7
    read -r -t 20 _ <&8
    wait_until 30 has_timers $program 1
    echo stop >&7
    wait $recorder
    recorder=
    exec 7>&- 8>&-
    run ! has_timers $program 1
}

@test "with --isolation=task: an error; events and times that are none, too" {
    run "$PYSTACK" record -e cpu-timer --isolation=task -- true
    [ "$status" -eq 129 ]
    [[ "$output" == *"-e cpu-timer needs --isolation=thread"* ]]
    local event
    for event in cpu-timers cycles cpu-timer: cpu-timer:1us cpu-timer:2s cpu-timer:-5ms; do
        run "$PYSTACK" record -e $event -- true
        [ "$status" -eq 129 ]
    done
}

@test "a file without timers: an error" {
    "$PYSTACK" record -q -o f -- "$(newest)" -c 'for i in range(3000000): pass'
    run "$PYSTACK" report -e cpu-timer -i f
    [ "$status" -ne 0 ]
    [[ "$output" == *"f has no CPU timers: record with -e cpu-timer"* ]]
    run "$PYSTACK" script --format collapsed -e cpu-timer -i f
    [ "$status" -ne 0 ]
    [[ "$output" == *"has no CPU timers"* ]]
}
