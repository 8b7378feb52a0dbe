# SPDX-License-Identifier: Apache-2.0
# pystack record: what signals do to it and to the program.
load helpers

signals_seen() {
    # 2 INT, 15 TERM, 1 HUP, 3 QUIT
    cat signals 2>/dev/null | sort -n | tr '\n' ' '
}

has_signal() {
    grep -qx "$1" signals
}

# Start a recording of an app; the app's process id is in the file "ready".
start_recorded() { # status
    rm -f ready stop
    start "$PYSTACK" record -- "$PYTHON" "$apps/busy.py" "$1" 2> messages
    wait_until "$DEADLINE" test -s ready
}

@test "started: TERM, HUP and QUIT are passed on, each once, and end nothing" {
    local number name
    start_recorded 20
    while read -r name number; do
        kill -"$name" "$started_pid"
        wait_until "$DEADLINE" has_signal "$number"
        kill -"$name" "$started_pid"
    done <<-END
	TERM 15
	HUP 1
	QUIT 3
	END
    is_running "$started_pid"
    touch stop
    wait_for "$started_pid"
    [ "$status" = 20 ]
    [ "$(signals_seen)" = "1 3 15 " ]
    grep -q '^\[ pystack record: wrote ' messages
}

@test "started: the program's clean-up after TERM is recorded" {
    start "$PYSTACK" record -- "$PYTHON" -c '
import os, signal, sys, time
def clean_up():
    time.sleep(0.5)
def stop(number, frame):
    clean_up()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
open("ready", "w").write("yes")
while True:
    time.sleep(0.1)' 2> messages
    wait_until "$DEADLINE" test -s ready
    kill -TERM "$started_pid"
    wait_for "$started_pid"
    [ "$status" = 0 ]
    "$PYSTACK" script --format=collapsed | grep -q ';clean_up '
}

@test "started: a program ended by a signal that was passed on gives 128 + N" {
    start "$PYSTACK" record -q -- "$PYTHON" -c '
import time
open("ready", "w").write("yes")
time.sleep(100)'
    wait_until "$DEADLINE" test -s ready
    kill -TERM "$started_pid"
    wait_for "$started_pid"
    [ "$status" = 143 ]
}

@test "started: INT is not passed on" {
    # As a shell does in a script, the background job gets INT ignored; undo that.
    start_recorded_with_int() {
        start "$PYTHON" -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$PYSTACK" record -- "$PYTHON" "$apps/busy.py" 6 2> messages
        wait_until "$DEADLINE" test -s ready
    }
    start_recorded_with_int
    kill -INT "$started_pid"
    kill -INT "$started_pid"
    # One that is passed on comes after them.
    kill -HUP "$started_pid"
    wait_until "$DEADLINE" has_signal 1
    touch stop
    wait_for "$started_pid"
    [ "$status" = 6 ]
    [ "$(signals_seen)" = "1 " ]
}

@test "started: Ctrl-C on a terminal reaches the program once, which is waited for" {
    run -20 "$PYTHON" "$apps/terminal.py" "$PYSTACK" record -- "$PYTHON" -c '
import sys, time
try:
    open("ready", "w").write("yes")
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.3)
    print("cleaned up")
    sys.exit(20)'
    [[ $output == *"cleaned up"* ]]
    [[ $output == *"[ pystack record: wrote "* ]]
}

@test "attached: INT, TERM, HUP and QUIT end the recording, with status 0" {
    local name program
    start_app busy.py
    program=$started_pid
    for name in INT TERM HUP QUIT; do
        start_attached "$program" -o "$name"
        kill -"$name" "$started_pid"
        wait_for "$started_pid"
        [ "$status" = 0 ]
        grep -q '^\[ pystack record: wrote ' messages
        "$PYSTACK" report -i "$name" --header-only | grep -qx '#   end           : let go while it ran'
    done
    [ -z "$(signals_seen)" ]
    touch stop
    wait_for "$program"
    [ "$status" = 0 ]
}

@test "attached: Ctrl-C on the terminal ends the recording, not the program" {
    start_app busy.py
    # The program runs elsewhere; the file "ready" is there already, so wait for ours.
    mv ready program
    cat > once-recording <<-'END'
	"$PYSTACK" record -p "$1" 2>&1 | while read -r line; do
	    echo "$line"
	    case $line in *"Ctrl-C ends it"*) echo yes > ready ;; esac
	done
	exit "${PIPESTATUS[0]}"
	END
    run -0 "$PYTHON" "$apps/terminal.py" bash -c 'trap : INT; . ./once-recording' x "$started_pid"
    is_running "$started_pid"
    [ -z "$(signals_seen)" ]
    [ -s pystack.data ]
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "attached: an INT that was ignored ends the recording all the same" {
    start_app busy.py
    local program=$started_pid
    start sh -c 'trap "" INT; exec "$PYSTACK" record -p "$1" 2>messages' x "$program"
    wait_until "$DEADLINE" grep -q 'Ctrl-C ends it' messages
    grep -q '^SigIgn:.*[2367abef]$' "/proc/$started_pid/status"
    kill -INT "$started_pid"
    wait_for "$started_pid"
    [ "$status" = 0 ]
    grep -q '^\[ pystack record: wrote ' messages
    touch stop
}

@test "the program gets the signal mask and the ignored signals that we got" {
    run -0 "$PYTHON" -c '
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
show = """
import signal
print(signal.getsignal(signal.SIGTERM) == signal.SIG_IGN,
      signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGUSR1})"""
os.execv(sys.argv[1], [sys.argv[1], "record", "-q", "--", sys.executable, "-c", show])' "$PYSTACK"
    [ "$output" = "True True" ]
}

@test "USR2 writes what there is, and tells the size" {
    start_recorded 0
    kill -USR2 "$started_pid"
    wait_until "$DEADLINE" grep -q '^pystack: record: pystack.data: flushed, [0-9.]* MB so far$' messages
    is_running "$started_pid"
    "$PYSTACK" report --header-only | grep -q "process $(cat ready): "
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "started: a recorder that is killed leaves the program running and the file readable" {
    # A recorder that is killed leaves its socket behind.
    [ ${#BATS_TEST_TMPDIR} -gt 60 ] || export TMPDIR=$BATS_TEST_TMPDIR
    start_recorded 9
    wait_until "$DEADLINE" has_samples
    kill -KILL "$started_pid"
    wait_for "$started_pid"
    [ "$status" = 137 ]
    local program
    program=$(cat ready)
    is_running "$program"
    run -0 --separate-stderr "$PYSTACK" report
    [[ ${lines[0]} == "# pystack.data: "*", not closed: still being written, or cut off" ]]
    [[ $output == *" main "* ]]
    [ -z "$stderr" ]
    touch stop
    wait_until "$DEADLINE" has_ended "$program"
}

@test "attached: a recorder that is killed leaves the program running and the file readable" {
    start_app busy.py 8
    local program=$started_pid
    start_attached "$program"
    wait_until "$DEADLINE" has_samples
    kill -KILL "$started_pid"
    wait_for "$started_pid"
    run -0 --separate-stderr "$PYSTACK" report
    [[ $output == *" main "* ]]
    # The sampler leaves by itself; then the program can be recorded again.
    wait_until "$DEADLINE" "$PYSTACK" record -q -d 0.1 -p "$program"
    touch stop
    wait_for "$program"
    [ "$status" = 8 ]
}

@test "a recorder that was stopped goes on" {
    start_recorded 7
    kill -STOP "$started_pid"
    wait_until "$DEADLINE" grep -q '^State:.*T' "/proc/$started_pid/status"
    kill -CONT "$started_pid"
    touch stop
    wait_for "$started_pid"
    [ "$status" = 7 ]
    grep -q '^\[ pystack record: wrote ' messages
}

@test "a program that was stopped: the time is told, and in no figure" {
    start_recorded 0
    local program
    program=$(cat ready)
    wait_until "$DEADLINE" has_samples
    kill -STOP "$program"
    sleep 0.5
    kill -CONT "$program"
    wait_until "$DEADLINE" tells_of_stop
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
    tells_of_stop
}

tells_of_stop() {
    "$PYSTACK" report -f | grep -q '^#   [0-9.]* s stopped by a signal: not in the figures$'
}
