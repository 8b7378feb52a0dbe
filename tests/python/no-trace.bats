# SPDX-License-Identifier: Apache-2.0
# The sampler task leaves no trace in the tree of processes, nothing of it shows in what the
# kernel keeps of the program, and nobody gains a right by it.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    requires_task "what a task of its own could leave; of a thread see isolation.bats"
}

teardown() {
    local pid
    for pid in "${program-}" "${recorder-}" "${victim-}"; do
        [ -z "$pid" ] || end_process "$pid"
    done
    cd "$BATS_TEST_TMPDIR"
    [ -z "${public-}" ] || rm -r "$public"
}

# Go to a folder that every user can reach.
public_folder() {
    public=$(mktemp -d /tmp/pystack-XXXXXX)
    chmod 777 "$public"
    cd "$public"
}

nobody() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

beat_moved() {
    [ "$(cat beat)" != "$1" ]
}

some_rounds() {
    for _ in 1 2; do
        wait_until 30 beat_moved "$(cat beat)" || return
    done
}

# The tasks that share the memory of a process: named pystack, with its command line.
tasks_of() { # pid
    local name
    for name in $(grep -lx pystack /proc/[0-9]*/comm 2>/dev/null); do
        cmp -s "${name%comm}cmdline" "/proc/$1/cmdline" && basename "${name%/comm}"
    done
    true
}

has_task() {
    [ -n "$(tasks_of "$1")" ]
}

has_no_task() {
    ! has_task "$1"
}

start_attached() { # option...
    rm -f err
    "$PYSTACK" record -F 1000 -o f "$@" -p $program 2> err &
    recorder=$!
    wait_until 30 has_line err 'Ctrl-C ends it'
}

end_recorder() {
    kill -INT $recorder
    wait $recorder
}

# --- waits ---

waits_spawned() { # python how
    rm -f beat stop
    "$PYSTACK" record -q -F 1000 -o f -- "$1" "$apps/waiter.py" "$2" . > out 2> err &
    recorder=$!
    wait_until 30 test -e beat || return
    program=$(pgrep -P $recorder -f waiter.py)
    some_rounds || return
    # Its task ends before it does: that shows neither.
    kill -KILL "$(tasks_of $program)"
    wait_until 30 has_line err 'was killed' || return
    some_rounds || return
    touch stop
    wait $recorder
}

waits_attached() { # python how
    rm -f beat stop
    "$1" "$apps/waiter.py" "$2" . > out 2>&1 &
    program=$!
    wait_until 30 test -e beat || return
    start_attached && some_rounds && end_recorder || return
    start_attached && some_rounds || return
    kill -KILL "$(tasks_of $program)"
    wait $recorder || return
    # A task whose recorder was killed leaves, and is not reaped.
    start_attached && some_rounds || return
    kill -KILL $recorder
    wait $recorder
    wait_until 30 has_no_task $program || return
    some_rounds || return
    touch stop
    wait $program
}

check_waits() { # python how
    local way
    for way in waits_spawned waits_attached; do
        run $way "$@"
        [ "$status" -eq 0 ] && [ "$(cat out)" = DONE ] || {
            echo "$*, $way: $output"
            cat out
            return 1
        }
    done
}

@test "no wait of the program sees the task, nor does SIGCHLD tell of it" {
    local version path
    while read -r version path; do
        check_waits "$path" handler
    done < <(some_pythons)
    check_waits /usr/bin/python3 pending
}

@test "with __WALL, which asks for such children: the task of an attached program alone" {
    printf '%s\n' 'import os, sys' 'open("ready", "w")' \
        'while not os.path.exists("stop"):' \
        '    try: found = os.waitpid(-1, os.WNOHANG | 0x40000000)' \
        '    except ChildProcessError: found = "none"' \
        '    open("new", "w").write("%s\n" % (found,)); os.rename("new", "found")' > app.py
    /usr/bin/python3 app.py &
    program=$!
    wait_until 30 has_line found none
    start_attached
    wait_until 30 has_line found '(0, 0)'
    end_recorder
    wait_until 30 has_line found none
    touch stop
    wait $program
    rm -f stop found
    "$PYSTACK" record -q -o f -- /usr/bin/python3 app.py &
    recorder=$!
    wait_until 30 has_line found none
    wait_until 30 has_samples_of app.py
    has_line found none
    touch stop
    wait $recorder
}

has_samples_of() {
    collapsed -i f 2>/dev/null | grep -q "$1"
}

# Its children are not followed: a dead task of one that ends is an orphan like others.
reaper_attached() { # python
    rm -f beat stop
    "$1" -c 'import ctypes, runpy, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$apps/waiter.py" handler . > out 2>&1 &
    program=$!
    wait_until 30 test -e beat || return
    start_attached --no-inherit && some_rounds && end_recorder || return
    start_attached --no-inherit && some_rounds || return
    kill -KILL $recorder
    wait $recorder
    wait_until 30 has_no_task $program || return
    some_rounds || return
    start_attached --no-inherit && some_rounds && end_recorder || return
    touch stop
    wait $program
}

@test "a program that is its children's reaper is attached to: no strange child" {
    local version path
    while read -r version path; do
        run reaper_attached "$path"
        [ "$status" -eq 0 ] && [ "$(cat out)" = DONE ] || { echo "$output"; cat out; false; }
    done < <(some_pythons)
}

# --- a first process that does not reap ---

needs_namespaces() {
    requires_root
    unshare --pid --fork --mount-proc true 2>/dev/null || skip "no pid namespaces here"
}

# Runs a script under a PID 1 of a namespace of its own that knows of its own child alone.
# "dead" in it prints how many dead tasks there are.
under_first_process() { # script
    cat > script - <<'END'
py=/usr/bin/python3
look='sum(range(2000000))'
dead() {
    local n=0 line dir
    for dir in /proc/[0-9]*; do
        read -r line < $dir/stat || continue
        [[ $line != *"(pystack) Z"* ]] || n=$((n + 1))
    done 2>/dev/null
    echo "$1 $n"
}
await() { # command...: until it succeeds
    local end=$((SECONDS + 30))
    until "$@"; do [ $SECONDS -lt $end ] || exit 9; sleep 0.05; done 2>/dev/null
}
recording() { grep -q 'Ctrl-C ends it' err; }
no_task_lives() {
    local dir
    for dir in /proc/[0-9]*; do
        [[ $(cat $dir/stat 2>/dev/null) != *"(pystack) "[RSDT]* ]] || return 1
    done
}
END
    echo "$1" >> script
    unshare --pid --fork --mount-proc --kill-child \
        /usr/bin/python3 "$apps/first-process.py" script "$PYSTACK" > dead 2> errors ||
        { cat errors dead; return 1; }
    cat dead
}

@test "PID 1 does not reap: nothing stays of a program that was started" {
    needs_namespaces
    run -0 under_first_process '
        for i in 1 2 3 4 5; do "$1" record -q -o f -- $py -c "$look"; done
        dead started
        "$1" record -q -o f -- sh -c "$py -c \"$look\"; $py -c \"$look\"; exec $py -c \"$look\""
        dead shell
        "$1" record -q -o f -- $py -c "import os; os.kill(os.getpid(), 9)"
        dead killed
        "$1" record -q -d 0.1 -o f -- $py -c "import time; time.sleep(0.5)"
        dead duration
        "$1" record -q -o f -- $py -c "import os; os.execv(\"/bin/true\", [\"true\"])"
        dead exec'
    ! grep -v ' 0$' dead
    [ "$(wc -l < dead)" -eq 5 ]
}

@test "PID 1 does not reap: what stays of attached programs is what the manual says" {
    needs_namespaces
    run -0 under_first_process '
        start() { $py -c "import time; time.sleep(60)" & program=$!; }
        attach() { "$1" record -o f -p $program 2> err & recorder=$!; await recording; }
        start
        for i in 1 2 3; do "$1" record -q -o f -d 0.1 -p $program; done
        dead detached
        attach "$1"; kill -9 $recorder; wait $recorder; await no_task_lives
        dead recorder
        "$1" record -q -o f -d 0.1 -p $program
        dead again
        attach "$1"; kill -9 $program; wait $program $recorder; await no_task_lives
        dead program'
    # One at most of a program that was killed: at times there is none.
    diff <(printf '%s\n' 'detached 0' 'recorder 1' 'again 0' 'program 1') \
        <(sed 's/^program 0$/program 1/' dead)
}

# The shell in between ends late: other orphans are not for the recorder.
@test "PID 1 does not reap: the program's orphans go to it all the same" {
    needs_namespaces
    run -0 under_first_process '
        cat > app.py <<END
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        parent = os.getppid()
        while os.getppid() == parent: time.sleep(0.01)
        os.write(1, b"orphan %d\n" % os.getppid())
    else:
        time.sleep(0.3)
    os._exit(0)
os.wait()
time.sleep(0.3)
END
        "$1" record -q -o f -- $py app.py'
    grep -qx 'orphan 1' dead
}

# --- attributes ---

attributes_are_equal() { # python
    "$1" "$apps/attributes.py" alone alone
    "$PYSTACK" record -q -F 500 -o f -- "$1" "$apps/attributes.py" spawned spawned || return
    "$1" "$apps/attributes.py" attached attached &
    program=$!
    wait_until 30 record -q -F 500 -o f -p $program || return
    wait $program || return
    local way
    for way in spawned attached; do
        diff alone $way && diff alone.child $way.child || return
    done
    ! grep 'no task' alone* spawned* attached*
}

@test "group, session, scheduling, cgroup, limits, dumpable: as without us, children's too" {
    requires_root
    local version path
    while read -r version path; do
        run attributes_are_equal "$path"
        [ "$status" -eq 0 ] || { echo "$version: $output"; false; }
    done < <(some_pythons)
    echo "# $(wc -l < alone) lines compared" >&3
}

@test "the task: its name, a session of its own, every processor, no core dump" {
    taskset -c 0 /usr/bin/python3 "$apps/waiter.py" handler . > out &
    program=$!
    wait_until 30 test -e beat
    start_attached
    local task
    task=$(tasks_of $program)
    [ "$(ps -o comm=,pgid=,sid= -p "$task" | tr -s ' ')" = "pystack $task $task" ]
    [ "$(awk '/^Cpus_allowed_list/ { print $2 }' "/proc/$task/status")" = \
        "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)" ]
    [ "$(awk '/^Cpus_allowed_list/ { print $2 }' "/proc/$program/status")" = 0 ]
    grep -qE '^Max core file size +1 +1 ' "/proc/$task/limits"
    # A signal to all of the program's group does not reach it.
    [ "$(ps -o pgid= -p $program | tr -d ' ')" != "$task" ]
    end_recorder
    touch stop
    wait $program
    [ "$(cat out)" = DONE ]
}

# --- rights ---

is_locked_in() { # task
    local name
    for name in CapInh CapPrm CapEff CapBnd CapAmb; do
        grep -qE "^$name:[[:space:]]0+\$" "/proc/$1/status" || return
    done
    grep -qE '^NoNewPrivs:[[:space:]]1$' "/proc/$1/status" || return
    grep -qE '^Seccomp:[[:space:]]2$' "/proc/$1/status"
}

# Shut in the folder of its program's threads, without a descriptor of anything else.
is_shut_in() { # task program
    [ "$(readlink "/proc/$1/root")" = "/proc/$2/task" ] || return
    [ "$(readlink "/proc/$1/cwd")" = "/proc/$2/task" ] || return
    ! readlink "/proc/$1"/fd/* |
        grep -vE "^(/memfd:pystack-ring \(deleted\)|anon_inode:\[pidfd\]|socket:.*|/proc/[0-9]*/(task|stat|task/[0-9]*/(schedstat|stat)))\$"
}

@test "the task of a root program has no rights left, a child's neither" {
    requires_root
    local task child
    printf '%s\n' 'import os, time' 'pid = os.fork()' \
        'while not os.path.exists("stop"): time.sleep(0.01)' 'pid and os.wait()' > app.py
    "$PYSTACK" record -q -o f -- /usr/bin/python3 app.py &
    recorder=$!
    wait_until 30 pgrep -P $recorder python3
    program=$(pgrep -P $recorder python3)
    wait_until 30 pgrep -P "$program" python3
    child=$(pgrep -P "$program" python3)
    # Both have the same command line.
    wait_until 30 has_two_tasks "$program"
    for task in $(tasks_of "$program"); do
        wait_until 30 is_locked_in "$task"
        is_shut_in "$task" "$program" || is_shut_in "$task" "$child"
    done
    touch stop
    wait $recorder
}

has_two_tasks() {
    [ "$(tasks_of "$1" | wc -l)" -eq 2 ]
}

@test "its rights are gone before the recorder has answered" {
    requires_root
    cat > recorder.py <<'END'
import os, socket, struct, subprocess, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.path.abspath("hello"))
listener.listen(1)
child = subprocess.Popen(
    ["/usr/bin/python3", "-c", "input()"], stdin=subprocess.PIPE,
    env={"LD_PRELOAD": sys.argv[1], "PYSTACK_SPAWN": os.path.abspath("hello")})
listener.settimeout(30)
connection, _ = listener.accept()
pid, = struct.unpack_from("i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
print(pid, child.pid, flush=True)
while not os.path.exists("stop"):
    time.sleep(0.01)
child.communicate(b"\n")
END
    public_folder       # a socket's path has little room
    cp "$BATS_TEST_TMPDIR/recorder.py" .
    python3 recorder.py "$PYSTACK_PRELOAD" > pids &
    recorder=$!
    wait_until 30 test -s pids
    local task
    read -r task program < pids
    wait_until 30 is_locked_in "$task"
    is_shut_in "$task" "$program"
    [ "$("$tools/ring-state" "$task")" = offered ]
    touch stop
    wait $recorder
}

# Run apps/hostile.py by a way: what did the task get when it tried?
escalates() { # python way [stay]
    local task
    rm -rf h && mkdir h && chmod 777 h
    rm -f /tmp/pystack-was-here
    [ -z "${victim-}" ] || end_process "$victim"
    sleep 300 > /dev/null 2>&1 3>&- &
    victim=$!
    if [ "$2" = spawn ]; then
        "$PYSTACK" record -q -o f -- "$1" "$apps/hostile.py" h $victim "${@:3}" 2> err &
        recorder=$!
        wait_until 30 test -s h/ready || return
    else
        "$1" "$apps/hostile.py" h $victim "${@:3}" 2> err &
        program=$!
        wait_until 30 test -s h/ready || return
        start_attached || return
    fi
    wait_until 30 has_samples_of main || return
    # Not while it runs in what is being overwritten.
    task=$(tasks_of "$(cat h/ready)")
    kill -STOP "$task" || return
    touch h/go
    wait_until 30 test -e h/written || return
    kill -CONT "$task" || return
    [ "$2" = spawn ] || wait $program || return
    wait $recorder || return
    cat h/result
    grep -qx 'ran 1' h/result || return
    is_running $victim || return
    [ ! -e /tmp/pystack-was-here ] || return
    [ "$(wc -l < h/result)" -gt 50 ] || return
    # Every one failed.
    ! sed 1d h/result | grep -v -- ' -[0-9]*$'
}

@test "a root program that drops to another user gets nothing back by the task's code" {
    requires_root
    local version path way
    while read -r version path; do
        for way in spawn attach; do
            run escalates "$path" $way
            [ "$status" -eq 0 ] || { echo "$version, $way: $output"; cat err; false; }
            run escalates "$path" $way stay
            [ "$status" -eq 0 ] || { echo "$version, $way, stays: $output"; cat err; false; }
        done
    done < <(some_pythons)
}

# It cannot be shut in a folder, and may read what its user may, but that is all.
@test "the task of another user's program can read, and nothing else" {
    requires_root
    public_folder
    nobody test -x "$PYSTACK" || skip "another user cannot run the program from here"
    cp "$apps/hostile.py" .
    # Everything by that user: two commands in place of pystack and of a Python.
    local run='exec setpriv --reuid=65534 --regid=65534 --clear-groups'
    printf '#!/bin/sh\n%s "%s" "$@"\n' "$run" "$PYSTACK" > pystack
    printf '#!/bin/sh\n%s /usr/bin/python3 "$@"\n' "$run" > python
    chmod +x pystack python
    apps=$PWD PYSTACK=$PWD/pystack
    run escalates /usr/bin/python3 spawn stay
    [ "$status" -eq 0 ] || { echo "started: $output"; cat err; false; }
    run escalates ./python attach stay
    [ "$status" -eq 0 ] || { echo "attached: $output"; cat err; false; }
}
