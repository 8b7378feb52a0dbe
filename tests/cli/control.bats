# SPDX-License-Identifier: Apache-2.0
# pystack record: commands while it lasts, sampling off, late starts.
load helpers

phases=$apps/phases.py

# Record the steps of phases.py, with "commands" and "answers" as its channel.  What it
# prints is in the file "output", messages in the file "messages".
commanded() { # [option ...] -- step ...
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    rm -f commands answers
    mkfifo commands answers
    "$PYSTACK" record --control=fifo:commands,answers -F 500 --no-adaptive "${options[@]}" \
        -- "$PYTHON" "$phases" "$@" > output 2> messages
}

# Start a recording that is commanded through descriptors 7 and 8 of this shell; it is
# $started_pid.
start_commanded() { # argument ...
    rm -f commands answers
    mkfifo commands answers
    start "$PYSTACK" record --control=fifo:commands,answers -F 500 --no-adaptive "$@" \
        > output 2> messages
    exec 7> commands 8< answers
}

# Send a command and expect an answer.
tell() { # command [answer]
    local answer
    echo "$1" >&7
    read -r -t "$DEADLINE" answer <&8
    [[ $answer == ${2:-ack} ]] || { echo "'$1' was answered by '$answer'" >&2; return 1; }
}

samples_of() { # function [file]
    "$PYSTACK" script --format=collapsed -i "${2:-pystack.data}" |
        awk -v f="$1" 'index($0, ";" f " ") || index($0, ";" f ";") { n += $NF } END { print n + 0 }'
}

# CPU time of a function in ms.
cpu_of() { # function [file]
    "$PYSTACK" script --format=collapsed --event=cpu -i "${2:-pystack.data}" |
        awk -v f="$1" 'index($0, ";" f " ") || index($0, ";" f ";") { n += $NF } END { print int(n / 1000) }'
}

# --- what is said ---

@test "each command is answered by a line" {
    commanded -- +ping alpha +disable +enable '+mark here I am' +snapshot +status \
        +stop +ping +status +enable '+mark late' +stop exit:7 || [ $? = 7 ]
    run -0 cat output
    [ "${lines[0]}" = ack ]
    [ "${lines[1]}" = ack ]
    [ "${lines[2]}" = ack ]
    [ "${lines[3]}" = ack ]
    [ "${lines[4]}" = ack ]
    [[ ${lines[5]} =~ ^status:\ sampling=on\ samples=[1-9][0-9]*\ lost=0\ processes=1\ followed=1\ threads=1\ bytes=[0-9]+\ overhead=[0-9.]+%\ seconds=[0-9.]+$ ]]
    [ "${lines[6]}" = ack ]
    [ "${lines[7]}" = ack ]
    [[ ${lines[8]} == "status: sampling=over samples="*" followed=0 "* ]]
    [ "${lines[9]}" = "error: the recording is over" ]
    [ "${lines[10]}" = "error: the recording is over" ]
    [ "${lines[11]}" = "error: the recording is over" ]
    [ "${#lines[@]}" = 12 ]
}

@test "what is no command is answered by an error, and told" {
    commanded -- +xyz '+ping me' +mark "+$(printf '%5000s' x)" +ping
    run -0 cat output
    [[ ${lines[0]} == "error: unknown command 'xyz' (enable, disable, snapshot, status, mark TEXT, ping, stop)" ]]
    [[ ${lines[1]} == "error: too much in 'ping me' "* ]]
    [[ ${lines[2]} == "error: a mark needs a text"* ]]
    [ "${lines[3]}" = "error: a line of more than 4096 bytes" ]
    [ "${lines[4]}" = ack ]
    [ "$(grep -c '^pystack: record: control: ' messages)" = 4 ]
    grep -qx "pystack: record: control: a line of more than 4096 bytes" messages
}

@test "without a second pipe nothing is answered, and the status is printed" {
    mkfifo commands
    start "$PYSTACK" record --control=fifo:commands -- "$PYTHON" "$phases" touch:ready \
        await:stop 2> messages
    wait_until "$DEADLINE" test -e ready
    echo status > commands
    wait_until "$DEADLINE" grep -q '^pystack: record: status: sampling=on ' messages
    printf 'ping\nnonsense\n' > commands
    wait_until "$DEADLINE" grep -q "control: unknown command 'nonsense'" messages
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "answers that nobody reads are dropped, and nothing waits for them" {
    mkfifo commands answers
    start "$PYSTACK" record --control=fifo:commands,answers -F 500 -- "$PYTHON" \
        "$phases" touch:ready await:stop 2> messages
    wait_until "$DEADLINE" test -e ready
    exec 7> commands
    # More answers than a pipe takes; it takes them all the same.
    for _ in {1..40}; do
        yes ping | head -n 1000 >&7
    done
    echo 'mark the end' >&7
    wait_until "$DEADLINE" grep -qx 'pystack: record: answers to commands are dropped: nobody reads them' messages
    echo stop >&7
    wait_until "$DEADLINE" grep -q 'the recording is stopped' messages
    exec 7>&-
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
    [ "$(grep -c dropped messages)" = 1 ]
    "$PYSTACK" report | grep -q '^# mark at .* s: the end$'
}

@test "a flood of commands does not keep the recorder from its work" {
    mkfifo commands answers
    start "$PYSTACK" record --control=fifo:commands,answers -F 500 --no-adaptive -- \
        "$PYTHON" "$phases" touch:ready alpha alpha exit:3 2> messages
    wait_until "$DEADLINE" test -e ready
    local recorder=$started_pid
    start bash -c 'yes ping > commands'
    wait_for "$recorder"
    [ "$status" = 3 ]
    [ "$(samples_of alpha)" -gt 50 ]
    "$PYSTACK" report --stats | awk '/ lost$/ { exit $1 != 0 }'
}

@test "writers come and go, lines come in pieces" {
    start_commanded -- "$PYTHON" "$phases" touch:ready await:stop
    exec 7>&-
    local answer
    for piece in p in 'g
pi' 'ng
'; do
        printf '%s' "$piece" > commands
    done
    for _ in 1 2; do
        read -r -t "$DEADLINE" answer <&8
        [ "$answer" = ack ]
    done
    exec 8<&-
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "descriptors: pipes and a socket, which the program does not get" {
    run -0 "$PYTHON" - "$PYSTACK" "$PYTHON" "$phases" <<'END'
import os, socket, subprocess, sys
pystack, python, phases = sys.argv[1:]
for kind in "pipes", "socket":
    if kind == "pipes":
        (a, b), (c, d) = os.pipe(), os.pipe()
        given, spec = [a, d], "fd:%d,%d" % (a, d)
        to, back = os.fdopen(b, "w"), os.fdopen(c)
    else:
        mine, its = socket.socketpair()
        given, spec = [its.fileno()], "fd:%d,%d" % (its.fileno(), its.fileno())
        to, back = mine.makefile("w"), mine.makefile("r")
    command = [pystack, "record", "-q", "--control=" + spec, "--", python, phases, "fds",
               "touch:ready", "await:stop"]
    p = subprocess.Popen(command, pass_fds=given, stdout=subprocess.PIPE, text=True)
    print(p.stdout.readline(), end="")
    for line in "ping", "disable", "enable", "stop":
        to.write(line + "\n")
        to.flush()
        print(back.readline(), end="")
    open("stop", "w").close()
    print(p.wait())
    os.remove("stop")
END
    [ "${lines[0]}" = "[0, 1, 2]" ]
    [ "${lines[5]}" = 0 ]
    [ "${lines[6]}" = "[0, 1, 2]" ]
    [ "${lines[11]}" = 0 ]
    [ "$(grep -c '^ack$' <<< "$output")" = 8 ]
}

@test "a channel that cannot be is refused before anything is started" {
    local spec
    touch file
    for spec in unix:x fifo: 'fifo:a,' fd: fd:x fd:0 fd:1,2 ''; do
        run -129 --separate-stderr "$PYSTACK" record "--control=$spec" -- touch started
        [ "${#stderr_lines[@]}" = 1 ]
        [[ $stderr == "pystack: option --control: "*"; see 'pystack record --help'" ||
            $stderr == "pystack: record: option --control: "*"; see 'pystack record --help'" ]]
    done
    for spec in fifo:none fifo:file fd:99; do
        run -125 --separate-stderr "$PYSTACK" record "--control=$spec" -- touch started
        [ "${#stderr_lines[@]}" = 1 ]
        [[ $stderr == "pystack: record: --control: "* ]]
    done
    [ ! -e started ]
    [ ! -e pystack.data ]
}

# --- marks ---

@test "marks are in the file, at their time, and cannot harm a terminal" {
    commanded -- alpha $'+mark one\e[31m' beta '+mark two'
    run -0 --separate-stderr "$PYSTACK" report
    [[ $output == *"# mark at "*" s: one"* ]]
    [[ $output != *$'\e'* ]]
    [ "$(grep -c '^# mark at [0-9.]* s: ' <<< "$output")" = 2 ]
    # In script they stand between the samples; a stratum begins before its tick, so
    # that the first of beta may stand before the mark.
    "$PYSTACK" script | awk '
        /^\[mark\]  [0-9.]*:  one/ { one = 1; if (!alpha || beta > 1) bad = 1 }
        /^\[mark\]  [0-9.]*:  two/ { two = 1; if (!beta) bad = 1 }
        /^\talpha / { alpha++; if (one) bad = 1 }
        /^\tbeta / { beta++ }
        END { exit !(one && two && !bad) }'
}

@test "of many marks the report shows ten" {
    local steps=() i
    for i in {1..12}; do steps+=("+mark no. $i"); done
    commanded -- "${steps[@]}"
    run -0 --separate-stderr "$PYSTACK" report
    [[ $output == *": no. 10"* && $output != *": no. 11"* ]]
    [[ $output == *"# 2 more marks (--header shows them)"* ]]
    "$PYSTACK" report --header | grep -q ': no. 12$'
}

# --- off and on ---

# Of 0.4 s each in alpha and gamma; what is between is not to be seen.
is_split() {
    local alpha gamma
    alpha=$(cpu_of alpha)
    gamma=$(cpu_of gamma)
    [ "$(samples_of beta)" = 0 ] || { echo "beta was sampled"; return 1; }
    # One window of 50 ms at an end may be unaccounted for.
    close_to "$alpha" 400 60 && close_to "$gamma" 400 60 ||
        { echo "alpha $alpha ms, gamma $gamma ms"; return 1; }
}

@test "while sampling is off nothing is seen, and shares are those of the rest" {
    commanded -- alpha +disable beta +enable gamma
    [ "$(cat output)" = $'ack\nack' ]
    is_split
    run -0 --separate-stderr "$PYSTACK" report
    grep -q '^#   [0-9.]* s with sampling off: not in the figures$' <<< "$output"
    "$PYSTACK" report --stats | awk '/ lost$/ || / parked / { bad += $1 != 0 }
        / disabled / { n = $1 } / of it not sampled/ { left = $1 }
        END { exit !(!bad && n > 3e8 && left < 0.05) }'
    grep -qx 'pystack: record: sampling is off' messages
    grep -qx 'pystack: record: sampling is on' messages
}

@test "off and on a hundred times" {
    local steps=() i
    for i in {1..50}; do steps+=(+disable +disable +enable +enable); done
    commanded -- alpha "${steps[@]}" +disable beta +enable gamma
    [ "$(grep -vcx ack output)" = 0 ]
    is_split
}

@test "a child that comes while sampling is off is not sampled until it is on" {
    commanded -- alpha +disable fork:beta +enable gamma
    is_split
    commanded -- +disable pool:5 +enable alpha
    [ "$(samples_of spin)" -gt 0 ]
    [ "$(samples_of fork)" = 0 ]
}

@test "off when the program ends: the pause is told, the samples before are there" {
    commanded -- alpha +disable beta
    [ "$(samples_of beta)" = 0 ]
    [ "$(samples_of alpha)" -gt 0 ]
    "$PYSTACK" report | grep -q 's with sampling off'
}

@test "off while the recorder is killed: the program goes on" {
    start_commanded -- "$PYTHON" "$phases" touch:ready await:stop touch:ended
    wait_until "$DEADLINE" test -e ready
    tell disable
    kill -KILL "$started_pid"
    wait_for "$started_pid"
    exec 7>&- 8<&-
    touch stop
    wait_until "$DEADLINE" test -e ended
    "$PYSTACK" report -f > report
}

@test "off at the highest and at a low rate" {
    commanded -F max -- alpha +disable beta +enable gamma
    [ "$(samples_of beta)" = 0 ]
    [ "$(samples_of alpha)" -gt 0 ]
    # Ticks are 20 s apart: answers come all the same.
    local start=$SECONDS
    commanded -F 0.05 -- +disable +enable +snapshot +disable +enable
    [ "$(grep -cx ack output)" = 5 ]
    [ $((SECONDS - start)) -lt "$DEADLINE" ]
}

@test "off in a program that is stopped, and on again" {
    start_commanded -- "$PYTHON" "$phases" touch:ready await:stop
    wait_until "$DEADLINE" test -e ready
    local program
    program=$(pgrep -P "$started_pid" -f phases.py | head -n 1)
    kill -STOP "$program"
    wait_until "$DEADLINE" grep -q '^State:.*T' "/proc/$program/status"
    tell disable
    tell snapshot
    tell enable
    kill -CONT "$program"
    tell stop
    exec 7>&- 8<&-
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "attached: off, on, snapshot, stop" {
    start "$PYTHON" "$phases" touch:ready await:stop exit:9
    local program=$started_pid
    wait_until "$DEADLINE" test -e ready
    start_commanded -p "$program"
    tell disable
    tell 'mark quiet'
    tell enable
    tell snapshot
    "$PYSTACK" report -f | grep -q 's with sampling off: not in the figures'
    tell status 'status: sampling=on *'
    tell stop
    exec 7>&- 8<&-
    wait_for "$started_pid"
    [ "$status" = 0 ]
    is_running "$program"
    "$PYSTACK" report | grep -q '^# mark at .* s: quiet$'
    touch stop
    wait_for "$program"
    [ "$status" = 9 ]
}

# --- snapshots and the end ---

@test "a snapshot has all until then" {
    commanded -- alpha +snapshot touch:taken await:looked &
    started+=($!)
    wait_until "$DEADLINE" test -e taken
    local samples
    samples=$(samples_of alpha)
    # 0.4 s at 500 Hz; on a busy machine some ticks are missed.
    [ "$samples" -gt 20 ]
    touch looked
    wait "${started[-1]}"
    [ "$(samples_of alpha)" = "$samples" ]
    grep -q '^pystack: record: pystack.data: flushed, [0-9.]* MB so far$' messages
}

@test "stop: the file is whole when that is answered, the program goes on" {
    commanded -- alpha +stop beta touch:stopped await:looked exit:5 &
    started+=($!)
    wait_until "$DEADLINE" test -e stopped
    run -0 --separate-stderr "$PYSTACK" report
    [ "${lines[0]}" = "# pystack.data: format 1.0" ]
    [ -z "$stderr" ]
    [ "$(samples_of beta)" = 0 ]
    touch looked
    wait "${started[-1]}" || [ $? = 5 ]
    grep -qx 'pystack: record: the recording is stopped; the program goes on' messages
    grep -q '^\[ pystack record: wrote ' messages
}

# --- a late start ---

@test "--delay: off in the beginning" {
    local delay
    for delay in 300 300ms 0.3s; do
        run -0 --separate-stderr "$PYSTACK" record -F 500 -D "$delay" -- "$PYTHON" "$phases" beta alpha alpha
        [ "${stderr_lines[0]}" = "pystack: record: sampling is off for the first 0.3 s" ]
        [ "${stderr_lines[1]}" = "pystack: record: sampling is on" ]
        # On a busy machine it is turned on late.
        "$PYSTACK" report | awk '/^#   [0-9.]+ s with sampling off: not in the figures$/ { off = $2 }
            END { exit !(off >= 0.2 && off < 3) }'
        [ "$(samples_of alpha)" -gt 0 ]
    done
}

@test "--delay longer than the program: no samples, and why" {
    run -0 --separate-stderr "$PYSTACK" record -D 1h -- "$PYTHON" "$phases" alpha
    [[ $stderr == *"(0 samples, 1 process, "* ]]
    [[ $stderr == *"pystack: record: no samples: sampling was off until the end"* ]]
    run -0 --separate-stderr "$PYSTACK" report
    [[ $output == *"sampling was off"* ]]
}

@test "--delay with ranges: on within them alone" {
    run -0 --separate-stderr "$PYSTACK" record -F 500 -D 100-200,300-400 -- "$PYTHON" "$phases" alpha alpha
    [ "$(grep -c 'sampling is on$' <<< "$stderr")" = 2 ]
    [ "$(grep -c 'sampling is off$' <<< "$stderr")" = 2 ]
    local wall
    wall=$("$PYSTACK" script --format=collapsed --event=wall | awk '{ n += $NF } END { print int(n / 1000) }')
    # On a busy machine ticks are missed, and what is then weighs nothing.
    [ "$wall" -gt 0 ] && [ "$wall" -le 300 ]
}

@test "--delay=-1: until it is enabled" {
    commanded -D -1 -- beta +enable alpha
    [ "$(samples_of beta)" = 0 ]
    [ "$(samples_of alpha)" -gt 0 ]
    grep -qx 'pystack: record: sampling is off until it is enabled' messages
}

@test "a command goes before the schedule" {
    commanded -D 100-200 -- +enable alpha alpha
    [ "$(samples_of alpha)" -gt 100 ]
    commanded -D 300 -- +disable alpha alpha
    [ "$(samples_of alpha)" = 0 ]
}

@test "--delay with -d and with -p" {
    start "$PYTHON" "$phases" touch:ready await:stop
    local program=$started_pid
    wait_until "$DEADLINE" test -e ready
    run -0 --separate-stderr "$PYSTACK" record -D 200 -d 0.5 -p "$program"
    "$PYSTACK" report | grep -q '^#   0.[12][0-9]* s with sampling off'
    touch stop
    wait_for "$program"
}

@test "--delay: what is none" {
    local delay
    for delay in x -2 10- 20-10 10-20,15-30 '' ','; do
        run -129 --separate-stderr "$PYSTACK" record "--delay=$delay" -- touch started
        [[ $stderr == "pystack: record: option --delay: '$delay' is neither a time "* ]]
    done
    run -129 --separate-stderr "$PYSTACK" record -D -1 -- touch started
    [[ $stderr == "pystack: record: --delay=-1 needs --control: nothing else can turn sampling on; see "* ]]
    [ ! -e started ]
}
