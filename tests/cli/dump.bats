# SPDX-License-Identifier: Apache-2.0
# pystack dump: threads, names, lines; refusals.
load helpers

dump() {
    "$PYSTACK" dump "$@"
}

# The line at which a text stands in an app.
line_of() { # app text
    grep -nF "$2" "$apps/$1" | head -n 1 | cut -d: -f1
}

# Dump a process until a text is in it; the dump is in the file "dumped".
dump_until() { # pid text
    dump -p "$1" > dumped && grep -qF "$2" dumped
}

@test "all threads are printed with names, states and lines, the main thread first" {
    start_app busy.py
    wait_until "$DEADLINE" dump_until "$started_pid" '"waiter", waiting'
    [ "$(sed -n 1p dumped)" = "Process $started_pid: $PYTHON $apps/busy.py" ]
    [[ $(sed -n 2p dumped) =~ ^"CPython 3."[0-9]+\.[^\ ]+" ("/.*"), 2 threads"$ ]]
    [ -z "$(sed -n 3p dumped)" ]
    [[ $(sed -n 4p dumped) == "Thread $started_pid \"MainThread\", "* ]]
    [ "$(grep -c '^Thread ' dumped)" = 2 ]
    grep -qx "    main ($apps/busy.py:[0-9]*)" dumped
    grep -qx "    <module> ($apps/busy.py:$(grep -nx 'main()' "$apps/busy.py" | cut -d: -f1))" dumped
    # Of the thread that waits, every line is known.
    sed -n '/"waiter"/,$p' dumped > waiter
    grep -qx "    wait ($apps/busy.py:$(line_of busy.py ' over.wait()'))" waiter
    [[ $(tail -n 1 waiter) =~ ^"    "(Thread\.)?_bootstrap\ \(.*/threading\.py:[0-9]+\)$ ]]
    touch stop
}

@test "the thread that holds the lock is told" {
    start_app busy.py
    wait_until "$DEADLINE" dump_until "$started_pid" '"MainThread", running, holds the GIL'
    [ "$(grep -c 'holds the GIL' dumped)" = 1 ]
    touch stop
}

@test "a program of one thread, which waits" {
    start "$PYTHON" -c 'import threading, time
def rest():
    time.sleep(100)
rest()'
    wait_until "$DEADLINE" dump_until "$started_pid" 'rest ('
    grep -q '), 1 thread$' dumped
    tail -n 3 dumped | grep -qx "Thread $started_pid \"MainThread\", waiting"
    tail -n 2 dumped | diff <(echo '    rest (<string>:3)
    <module> (<string>:4)') -
}

@test "in another pid namespace: the numbers and states are those of this one" {
    requires root
    unshare --pid --fork --mount-proc true 2>/dev/null || skip "no pid namespace to be had"
    rm -f ready stop
    start unshare --pid --fork --kill-child --mount-proc "$PYTHON" "$apps/busy.py"
    wait_until "$DEADLINE" test -s ready
    local program
    program=$(pgrep -P "$started_pid")
    wait_until "$DEADLINE" dump_until "$program" '"waiter", waiting'
    grep -Eqx "Thread $program \"MainThread\", (running|waiting)(, holds the GIL)?(, changing .*)?" dumped
    # The other one is a thread of the process here, too.
    [ -d "/proc/$program/task/$(sed -n 's/^Thread \([0-9]*\) "waiter".*/\1/p' dumped)" ]
    touch stop
}

@test "the program is not disturbed, and keeps nothing" {
    start_app busy.py 4
    local n pid=$started_pid
    dump -p "$pid" > /dev/null
    cut -d' ' -f1,2,6- "/proc/$pid/maps" > maps
    ls "/proc/$pid/fd" "/proc/$pid/task" > rest
    for ((n = 0; n < 20; n++)); do
        dump -p "$pid" > /dev/null
    done
    cut -d' ' -f1,2,6- "/proc/$pid/maps" | diff maps -
    ls "/proc/$pid/fd" "/proc/$pid/task" | diff rest -
    touch stop
    wait_for "$pid"
    [ "$status" = 4 ]
}

@test "a stopped program can be dumped, and stays stopped" {
    start_app busy.py
    kill -STOP "$started_pid"
    wait_until "$DEADLINE" grep -q '^State:.*T' "/proc/$started_pid/status"
    run -0 --separate-stderr dump -p "$started_pid"
    [ -z "$stderr" ]
    [ "$(grep -c '^Thread .*, stopped' <<< "$output")" = 2 ]
    # Nothing moves, so nothing is torn.
    [[ $output != *"may be torn"* ]]
    grep -q '^State:.*T' "/proc/$started_pid/status"
}

@test "a program that is recorded or traced can be dumped" {
    start_app busy.py
    local program=$started_pid
    start_attached "$program"
    wait_until "$DEADLINE" dump_until "$program" '"waiter"'
    kill -INT "$started_pid"
    wait_for "$started_pid"
    [ "$status" = 0 ]
    requires strace
    start strace -q -o /dev/null -p "$program"
    wait_until "$DEADLINE" grep -q "^TracerPid:[[:space:]]*$started_pid$" "/proc/$program/status"
    run -0 dump -p "$program"
    [[ $output == *'"waiter"'* ]]
    touch stop
}

@test "control characters never come out, other characters do, in any locale" {
    local locale
    start "$PYTHON" -c 'import threading, time
threading.current_thread().name = "ma\x1b[31min; \u00e9"
names = {"time": time}
exec(compile("def gr\u00f6\u00dfe():\n    time.sleep(100)", "/x\x07\u6570.py", "exec"), names)
names["gr\u00f6\u00dfe"]()'
    for locale in C C.UTF-8; do
        LC_ALL=$locale wait_until "$DEADLINE" dump_until "$started_pid" 'größe ('
        grep -qxF $'    größe (/x\ufffd数.py:2)' dumped
        grep -qF $'"ma\ufffd[31min; é"' dumped
        [ -z "$(LC_ALL=C tr -d '\n -~\200-\377' < dumped)" ]
    done
}

@test "a process must be named: 129" {
    run -129 --separate-stderr dump
    [ -z "$output" ]
    [[ $stderr == "pystack: dump: name a process: pystack dump -p PID; see "* ]]
    local value
    for value in 0 -1 abc 99999999999 ""; do
        run -129 --separate-stderr dump --pid="$value"
        [ "$stderr" = "pystack: dump: option --pid: '$value' is not a process id; see 'pystack dump --help'" ]
    done
}

@test "processes that cannot be dumped: 125, and why" {
    local none
    none=$(cat /proc/sys/kernel/pid_max)
    run -125 --separate-stderr dump -p "$none"
    [ -z "$output" ]
    [ "$stderr" = "pystack: dump: cannot dump process $none: there is no such process" ]

    start sleep 1000
    wait_until "$DEADLINE" grep -q sleep "/proc/$started_pid/comm"
    run -125 --separate-stderr dump -p "$started_pid"
    [ -z "$output" ]
    [ "$stderr" = "pystack: dump: process $started_pid (sleep 1000) is not a Python process" ]

    export PYTHON apps
    start sh -c '"$PYTHON" "$apps/busy.py"; true'
    wait_until "$DEADLINE" test -s ready
    run -125 --separate-stderr dump -p "$started_pid"
    [[ $stderr == *"below it, process $(cat ready) runs CPython 3."*": try -p $(cat ready)" ]]
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "another user's process: 125, and the command that would help" {
    requires root nobody
    start_app busy.py
    cd /
    run -125 --separate-stderr as_nobody "$PYSTACK" dump -p "$started_pid"
    [ -z "$output" ]
    [ "$stderr" = "pystack: dump: cannot dump process $started_pid: not permitted; try: sudo pystack dump -p $started_pid" ]
    touch "$BATS_TEST_TMPDIR/stop"
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "output that cannot be written: status 1" {
    start_app busy.py
    export started_pid
    run -1 --separate-stderr bash -c '"$PYSTACK" dump -p "$started_pid" > /dev/full'
    [ "$stderr" = "pystack: dump: cannot write to standard output: No space left on device" ]
    run -1 --separate-stderr bash -c '"$PYSTACK" dump -p "$started_pid" >&-'
    [ "$stderr" = "pystack: dump: cannot write to standard output: it is closed" ]
    touch stop
}
