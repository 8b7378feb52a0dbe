# SPDX-License-Identifier: Apache-2.0
# pystack doctor: what hinders, in which words, and that what it advises helps.
load helpers

doctor() {
    "$PYSTACK" doctor "$@"
}

# A fact out of the JSON in the file "facts", in Python's words: fact "process"]["pid"
fact() { # name
    "$PYTHON" -c "import json; print(json.load(open('facts'))[\"$1\"])"
}

# doctor --json of a process into "facts"; its status is kept.
facts() { # [argument ...]
    local status=0
    doctor --json "$@" > facts || status=$?
    "$PYTHON" -m json.tool facts > /dev/null || return
    return "$status"
}

# The text of a check, from the last output.
check_of() { # level name
    sed -n "s/^$1  *$2  *//p" <<< "$output"
}

idle() { # [program]
    start "${1:-$PYTHON}" -c 'import time; time.sleep(1000)'
}

verdict_is() { # pid verdict
    facts "$1" || true
    [ "$(fact 'process"]["verdict')" = "$2" ]
}

# The system calls that attaching begins with.
ptrace=101 process_vm_readv=310 kcmp=312 memfd_create=319 pidfd_open=434

@test "of the machine: one line a check, its level first; it would work" {
    local line
    run -0 --separate-stderr doctor
    [ -z "$stderr" ]
    for line in "${lines[@]}"; do
        [[ $line =~ ^(ok|warning|problem)\ +[a-z-]+\ +[^\ ] ]]
    done
    [[ $(check_of ok kernel) == "Linux $(uname -r) on $(uname -m) "* ]]
    [[ $(check_of ok preload) == *"pystack-preload.so brings the sampler into "* ]]
    [[ $(check_of ok isolation) == "task: "* ]]
    [[ $(check_of ok copy) == "plain loads "* ]]
    [[ ${lines[-1]} == "ok       record  "*"programs that pystack starts can be recorded"* ]]
}

@test "--json says the same, and agrees with /proc" {
    facts
    "$PYTHON" - "$PYSTACK" <<'END'
import json, os, platform, subprocess, sys
found = json.load(open("facts"))
host = found["host"]
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
assert found["works"] is True and found["pystack"]
assert host["kernel"] == platform.release() and host["machine"] == platform.machine()
assert host["uid"] == os.geteuid()
assert int(host["capabilities"], 16) == int(status["CapEff"], 16)
assert host["seccomp"] == int(status["Seccomp"])
scope = "/proc/sys/kernel/yama/ptrace_scope"
assert host["yama_ptrace_scope"] == (int(open(scope).read()) if os.path.exists(scope) else None)
assert host["calls"]["memfd_create"] and host["calls"]["clone"]
assert "process" not in found and "self_test" not in found
text = subprocess.run([sys.argv[1], "doctor"], stdout=subprocess.PIPE).stdout.decode()
lines = text.splitlines()
assert len(lines) == len(found["checks"])
for line, check in zip(lines, found["checks"]):
    assert line.split()[:2] == [check["level"], check["name"]], line
    assert check["text"] in line, line
END
}

@test "of a process that can be attached to: all about it, status 0" {
    start_app busy.py 4
    local pid=$started_pid
    run -0 --separate-stderr doctor "$pid"
    [ -z "$stderr" ]
    [ "$(check_of ok process)" = "$pid: $PYTHON $apps/busy.py 4" ]
    [[ $(check_of ok python) == "CPython $("$PYTHON" -c 'import platform; print(platform.python_version())'), found by the symbol _PyRuntime of the "*" /"*"; the version by "* ]]
    [ "$(check_of ok record)" = "process $pid can be recorded; run: pystack record -p $pid" ]
    ! grep -q '^problem' <<< "$output" || return
    # By option too.
    [ "$(doctor -p "$pid")" = "$output" ] || [ "$(doctor --pid="$pid")" = "$output" ]
    facts "$pid"
    "$PYTHON" - "$pid" <<'END'
import json, os, sys
pid = int(sys.argv[1])
p = json.load(open("facts"))["process"]
status = dict(line.split(":", 1) for line in open("/proc/%d/status" % pid))
assert p["pid"] == pid and p["exists"] and p["attachable"] and p["verdict"] == "yes"
assert p["uid"] == int(status["Uid"].split()[1]) and p["threads"] == 2
assert int(p["capabilities"], 16) == int(status["CapEff"], 16)
assert p["seccomp"] == int(status["Seccomp"]) and p["tracer"] == 0
assert p["inner_pid"] == int(status["NSpid"].split()[-1])
assert p["same_namespace"] == {"pid": True, "mount": True, "user": True}
python = p["python"]
assert python["kind"] == "cpython" and python["interpreter_started"]
assert python["version"] == "%d.%d.%d" % sys.version_info[:3]
assert python["version_by"] == ("symbol" if sys.version_info >= (3, 11) else "text")
maps = open("/proc/%d/maps" % pid).read()
assert python["object"] in maps
assert (p["way"], p["isolation"], p["copy"]) == ("attach", "task", "load")
END
    touch stop
    wait_for "$pid"
    [ "$status" = 4 ]
}

@test "the process is not stopped, changed or touched" {
    start_app busy.py 4
    local n pid=$started_pid
    doctor "$pid" > /dev/null
    cut -d' ' -f1,2,6- "/proc/$pid/maps" > maps
    ls "/proc/$pid/fd" "/proc/$pid/task" > rest
    grep -E '^(Sig(Pnd|Blk|Ign|Cgt)|TracerPid|Seccomp)' "/proc/$pid/status" > signals
    for ((n = 0; n < 20; n++)); do
        doctor "$pid" > /dev/null
    done
    cut -d' ' -f1,2,6- "/proc/$pid/maps" | diff maps -
    ls "/proc/$pid/fd" "/proc/$pid/task" | diff rest -
    grep -E '^(Sig(Pnd|Blk|Ign|Cgt)|TracerPid|Seccomp)' "/proc/$pid/status" | diff signals -
    touch stop
    wait_for "$pid"
    [ "$status" = 4 ]
}

@test "every CPython is found, in the file that holds it, by symbol or text" {
    local path minor count=0
    for path in "$(pyenv root 2>/dev/null)"/versions/3.{8,9,1?}.*/bin/python3 /usr/bin/python3; do
        [ -x "$path" ] || continue
        idle "$path"
        wait_until "$DEADLINE" verdict_is "$started_pid" yes
        [ "$(fact 'process"]["python"]["version')" = "$("$path" -c 'import platform; print(platform.python_version())')" ]
        minor=$("$path" -c 'import sys; print(sys.version_info[1])')
        [ "$(fact 'process"]["python"]["version_by')" = "$([ "$minor" -ge 11 ] && echo symbol || echo text)" ]
        grep -qF " $(fact 'process"]["python"]["object')" "/proc/$started_pid/maps"
        count=$((count + 1))
    done
    [ $count -gt 0 ] || skip "no CPython here"
}

@test "a stopped process: the command it advises helps" {
    start_app busy.py
    kill -STOP "$started_pid"
    wait_until "$DEADLINE" grep -q '^State:.*T' "/proc/$started_pid/status"
    run -125 --separate-stderr doctor "$started_pid"
    [ -z "$stderr" ]
    [ "$(check_of problem state)" = "it is stopped by a signal; do: kill -CONT $started_pid" ]
    [[ ${lines[-1]} == "problem  record"*"process $started_pid cannot be recorded: it is stopped by a signal; do: kill -CONT $started_pid" ]]
    verdict_is "$started_pid" stopped
    grep -q '^State:.*T' "/proc/$started_pid/status"
    eval "$(fact 'process"]["fix')"
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
    touch stop
}

@test "a traced process: by whom" {
    requires strace
    start_app busy.py
    local program=$started_pid
    start strace -q -o /dev/null -p "$program"
    wait_until "$DEADLINE" verdict_is "$program" traced
    run -125 doctor "$program"
    [[ $(check_of problem state) == "it is traced by process $started_pid (strace "*"), and only one can trace it; do: end that debugger, or detach it" ]]
    [ "$(fact 'process"]["fix')" = None ]
    [ "$(fact 'process"]["advice')" = "end that debugger, or detach it" ]
    touch stop
    wait_for "$program"
}

@test "a recorded process, its sampler task and its recorder" {
    start_app busy.py
    local program=$started_pid task
    start_attached "$program"
    verdict_is "$program" recorded
    task=$(fact 'process"]["sampler_task')
    [ "$(fact 'process"]["recorder')" = "$started_pid" ]
    [ "$(cat "/proc/$task/comm")" = pystack ]
    run -125 doctor "$program"
    [[ $(check_of problem state) == "it is being recorded already (by process $started_pid, sampler task $task); do: end that recording first" ]]
    run -125 doctor "$task"
    [[ ${lines[-1]} == *"it is the sampler task of process $program, which is being recorded" ]]
    run -125 doctor "$started_pid"
    [[ ${lines[-1]} == *"it is not a Python process"* ]]
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "another user's process: sudo is advised" {
    requires root nobody
    start_app busy.py
    local program=$started_pid
    cd /
    run -125 --separate-stderr as_nobody "$PYSTACK" doctor "$program"
    [ -z "$stderr" ]
    [[ $(check_of problem permission) == "not permitted: it runs as user 0, pystack as 65534; do: sudo pystack record -p $program" ]]
    ! grep -q '^problem  python' <<< "$output" || return
    touch "$BATS_TEST_TMPDIR/stop"
}

is_unreadable_python() { # pid
    grep -q '^python3' "/proc/$1/comm" && [ "$(stat -c %u "/proc/$1/maps")" = 0 ]
}

@test "a user's own process, and one that has made itself unreadable" {
    requires root nobody
    start setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$PYTHON" -c 'import time; time.sleep(1000)'
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
    cd /
    if [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ]; then
        run -0 as_nobody "$PYSTACK" doctor "$started_pid"
        [[ $(check_of ok permission) == "it runs as user 65534, pystack as 65534, which may attach to it" ]]
    fi
    start setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$PYTHON" -c 'import ctypes, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
time.sleep(1000)'
    wait_until "$DEADLINE" is_unreadable_python "$started_pid"
    run -125 as_nobody "$PYSTACK" doctor "$started_pid"
    [[ $(check_of problem permission) == *"not permitted"*"sudo pystack record -p $started_pid" ]]
    # Root may, as the kernel lets it.
    cd "$BATS_TEST_TMPDIR"
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
}

@test "root without CAP_SYS_PTRACE, as in a container" {
    requires root
    start setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$PYTHON" -c 'import time; time.sleep(1000)'
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
    run -125 setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace "$PYSTACK" doctor "$started_pid"
    [[ $(check_of problem permission) == *"root here does not have CAP_SYS_PTRACE, as in a container; do: docker run --cap-add SYS_PTRACE ..." ]]
    run -0 setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace "$PYSTACK" doctor
    [[ $(check_of warning capabilities) == *"root without CAP_SYS_PTRACE"* ]]
}

@test "a seccomp filter on the process: suspended, or refused" {
    requires root
    start "$PYTHON" "$apps/without-calls.py" 165 "$PYTHON" -c 'import time; time.sleep(1000)'
    wait_until "$DEADLINE" grep -q 'time.sleep(1000)$' <(tr '\0' '\n' < "/proc/$started_pid/cmdline") || true
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
    wait_until "$DEADLINE" grep -q '^Seccomp:.*2' "/proc/$started_pid/status"
    run -0 doctor "$started_pid"
    [[ $(check_of ok filter) == "it has a seccomp filter, which is set aside "*"no_new_privs is set"* ]]
    facts "$started_pid"
    "$PYTHON" -c 'import json
p = json.load(open("facts"))["process"]
assert (p["way"], p["isolation"], p["copy"]) == ("attach", None, None)'
    run -125 setpriv --bounding-set -sys_admin --inh-caps -sys_admin "$PYSTACK" doctor "$started_pid"
    [[ $(check_of problem filter) == *"takes CAP_SYS_ADMIN"*"do: sudo pystack record -p $started_pid" ]]
    [[ ${lines[-1]} == "problem  record"* ]]
}

@test "filters on pystack itself: which calls are refused and what that means" {
    idle
    run -0 "$PYTHON" "$apps/without-calls.py" $process_vm_readv,$kcmp "$PYSTACK" doctor
    [[ $(check_of warning calls) == *"process_vm_readv: Operation not permitted: /proc/PID/mem is read instead"* ]]
    [[ $(check_of warning calls) == *"kcmp: Operation not permitted: "* ]]
    [[ $(check_of warning seccomp) == "pystack itself runs under a filter"* ]]
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
    run -0 "$PYTHON" "$apps/without-calls.py" $process_vm_readv,$kcmp "$PYSTACK" doctor "$started_pid"
    [[ $(check_of ok reading) == "process_vm_readv is refused"* ]]
    run -0 "$PYTHON" "$apps/without-calls.py" $ptrace "$PYSTACK" doctor
    [[ $(check_of warning calls) == "ptrace: Operation not permitted: no running process can be attached to"*"--cap-add SYS_PTRACE"* ]]
    [ "$(check_of ok record)" = "programs that pystack starts can be recorded; running ones cannot" ]
    run -125 "$PYTHON" "$apps/without-calls.py" $ptrace "$PYSTACK" doctor "$started_pid"
    [[ $(check_of problem calls) == "ptrace: "* ]]
    [[ ${lines[-1]} == "problem  record"* ]]
    local call
    for call in $memfd_create $pidfd_open; do
        run -125 "$PYTHON" "$apps/without-calls.py" $call "$PYSTACK" doctor
        [[ $(check_of problem calls) == *"Operation not permitted"* ]]
    done
}

@test "a kernel that is too old" {
    requires setarch
    run -125 setarch --uname-2.6 "$PYSTACK" doctor
    [[ $(check_of problem kernel) == "Linux 2.6."*": 5.10 or later is needed" ]]
    [[ ${lines[-1]} == "problem  record"*"cannot be recorded here"* ]]
}

@test "without the preload library: a problem, but not for a running process" {
    idle
    run -125 env PYSTACK_PRELOAD="$PWD/nowhere.so" "$PYSTACK" doctor
    [[ $(check_of problem preload) == *"install pystack again, or set PYSTACK_PRELOAD" ]]
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
    run -0 env PYSTACK_PRELOAD="$PWD/nowhere.so" "$PYSTACK" doctor "$started_pid"
    [[ -n $(check_of warning preload) ]]
}

@test "another pid namespace: seen from outside, and from inside" {
    requires root
    unshare --pid --fork --mount-proc true 2>/dev/null || skip "no pid namespace to be had"
    start unshare --pid --fork --kill-child --mount-proc \
        "$PYTHON" -c 'import time; time.sleep(1000)' pystack-test-$$
    wait_until "$DEADLINE" pgrep -P "$started_pid" -f pystack-test-$$
    local inner
    inner=$(pgrep -P "$started_pid" -f pystack-test-$$)
    wait_until "$DEADLINE" verdict_is "$inner" yes
    [ "$(fact 'process"]["inner_pid')" = 1 ]
    [ "$(fact 'process"]["same_namespace"]["pid')" = False ]
    [ "$(fact 'process"]["same_namespace"]["user')" = True ]
    run -0 doctor "$inner"
    [[ $(check_of ok containers) == "it lives in namespaces of its own: pid (there it is process 1, "*" mount"* ]]
    # A wrapper is not what was meant.
    run -0 doctor "$started_pid"
    [[ $(check_of ok wrapper) == "$started_pid: unshare "*"is no Python itself; what runs below it is recorded" ]]
    [[ ${lines[-1]} == *"process $inner can be recorded; run: pystack record -p $inner" ]]
    facts "$started_pid"
    [ "$(fact 'process"]["given_pid') $(fact 'process"]["pid')" = "$started_pid $inner" ]
    run -0 unshare --pid --fork --mount-proc "$PYSTACK" doctor
    [[ $(check_of ok namespaces) == "of a container (pid): "* ]]
    run -125 unshare --pid --fork "$PYSTACK" doctor
    [[ $(check_of problem proc) == *"do: sudo mount -t proc proc /proc" ]]
}

@test "in a container, what the kernel tells others of the host is not for us" {
    requires root
    unshare --pid --fork --mount-proc true 2>/dev/null || skip "no pid namespace to be had"
    # A recorder that is told, and something to be told of.
    start_app busy.py
    start_attached "$started_pid"
    start bash -c 'while :; do /bin/true; done'
    local n
    for ((n = 0; n < 5; n++)); do
        run -0 unshare --pid --fork --mount-proc "$PYSTACK" doctor
        [[ $(check_of ok events) == "the kernel does not tell of new processes here "* ]]
    done
    touch stop
}

@test "a process that /proc hides" {
    requires root nobody
    idle
    local script='mount -t proc -o hidepid=2 proc /proc 2>/dev/null || exit 77
cd / && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$0" doctor "$1"'
    unshare --mount true 2>/dev/null || skip "no mount namespace to be had"
    run unshare --mount sh -c "$script" "$PYSTACK" "$started_pid"
    [ "$status" != 77 ] || skip "/proc cannot be mounted with hidepid here"
    [ "$status" = 125 ]
    [[ ${lines[-1]} == *"it is hidden by the hidepid option of /proc; do: sudo pystack record -p $started_pid" ]]
}

@test "no process, an ended one, one of the kernel, no Python" {
    local none
    none=$(cat /proc/sys/kernel/pid_max)
    run -125 --separate-stderr doctor "$none"
    [ -z "$stderr" ]
    [[ ${lines[-1]} == "problem  record"*"process $none cannot be recorded: there is no such process" ]]
    facts "$none" || [ $? = 125 ]
    [ "$(fact 'process"]["exists')" = False ]
    start sleep 1000
    wait_until "$DEADLINE" grep -q sleep "/proc/$started_pid/comm"
    run -125 doctor "$started_pid"
    [ "$(check_of problem python)" = "it is not a Python process" ]
    # A thread has a number of its own.
    start_app busy.py
    local thread
    thread=$(ls "/proc/$started_pid/task" | grep -vx "$started_pid")
    run -125 doctor "$thread"
    [[ ${lines[-1]} == *"it is a thread of process $started_pid; do: pystack doctor $started_pid" ]]
    touch stop
    # bash reaps its children at once; this one does not.
    start "$PYTHON" -c 'import os, time
pid = os.fork() or os._exit(0)
open("ended", "w").write(str(pid))
time.sleep(1000)'
    wait_until "$DEADLINE" test -s ended
    wait_until "$DEADLINE" verdict_is "$(cat ended)" ended
    [ ! -d /proc/2 ] || ! grep -qx kthreadd /proc/2/comm || verdict_is 2 kernel-thread
}

@test "Pythons that cannot be sampled" {
    local old
    for old in "$(pyenv root 2>/dev/null)"/versions/{2.7,3.7}.*/bin/python; do
        [ -x "$old" ] || continue
        idle "$old"
        wait_until "$DEADLINE" verdict_is "$started_pid" too-old
        run -125 doctor "$started_pid"
        [[ $(check_of problem python) == "it runs CPython "*"; pystack samples CPython 3.8 to 3.15" ]]
    done
    requires pypy3
    idle pypy3
    wait_until "$DEADLINE" verdict_is "$started_pid" pypy
}

@test "a limit on its memory: the command it advises helps" {
    requires root prlimit
    idle
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
    prlimit --pid "$started_pid" --as="$(awk '/VmSize/ { print ($2 + 1000) * 1024 }' "/proc/$started_pid/status"):"
    verdict_is "$started_pid" limit-memory
    run -125 doctor "$started_pid"
    [[ $(check_of problem limits) == *"its limit (RLIMIT_AS) is "*"; do: sudo prlimit --as="*" --pid $started_pid" ]]
    # The kernel agrees: there it is refused, and with the command it is not.
    run -125 "$PYSTACK" record -d 0.2 -o f -p "$started_pid"
    # Without CAP_SYS_RESOURCE only the soft limit may be raised.
    eval "$(fact 'process"]["fix' | sed 's/^sudo //; s/\(=[0-9]*\)/\1:/')"
    verdict_is "$started_pid" yes
    run -0 "$PYSTACK" record -d 0.2 -o f -p "$started_pid"
}

@test "a limit on its user's processes: the command it advises helps" {
    requires root prlimit
    # A user that nobody else here is.
    start setpriv --reuid=54321 --regid=54321 --clear-groups \
        prlimit --nproc=1: "$PYTHON" -c 'import time; time.sleep(1000)'
    wait_until "$DEADLINE" verdict_is "$started_pid" limit-processes
    run -125 doctor "$started_pid"
    [[ $(check_of problem limits) == "its user has 1 threads, and its limit (RLIMIT_NPROC) is 1; do: sudo prlimit --nproc="* ]]
    run -125 "$PYSTACK" record -d 0.2 -o f -p "$started_pid"
    # Not every root may do it; this user may, up to the hard limit.
    setpriv --reuid=54321 --regid=54321 --clear-groups \
        sh -c "$(fact 'process"]["fix' | sed 's/^sudo //; s/\(=[0-9]*\)/\1:/')"
    verdict_is "$started_pid" yes
    run -0 "$PYSTACK" record -d 0.2 -o f -p "$started_pid"
}

@test "a full control group: the command it advises helps" {
    requires root
    local group=
    for group in /sys/fs/cgroup/pids /sys/fs/cgroup; do
        [ -e "$group/cgroup.procs" ] || continue
        mkdir "$group/pystack-test-$$" 2>/dev/null && break
    done
    group=$group/pystack-test-$$
    [ -e "$group/pids.max" ] || { rmdir "$group" 2>/dev/null || true; skip "no control group for processes here"; }
    idle
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
    echo "$started_pid" > "$group/cgroup.procs"
    echo 1 > "$group/pids.max"
    verdict_is "$started_pid" limit-pids || true
    local verdict
    verdict=$(fact 'process"]["verdict')
    eval "$(fact 'process"]["fix' | sed 's/sudo //')"
    verdict_is "$started_pid" yes || true
    kill "$started_pid"
    wait_for "$started_pid"
    rmdir "$group"
    [ "$verdict" = limit-pids ]
    [ "$(fact 'process"]["verdict')" = yes ]
}

@test "a process that does not let itself be read" {
    requires root
    start "$TOP_BUILDDIR/tests/cli/python-mute"
    wait_until "$DEADLINE" eval "test -s ready || has_ended $started_pid"
    test -s ready || skip "no userfaultfd here"
    run -125 doctor "$started_pid"
    [[ ${lines[-1]} == *"its memory could not be read within two seconds: "* ]]
    verdict_is "$started_pid" no-answer
}

# --- the self-test ---

# Nothing of it stays: no program, no folder, no task.
left_of_self_test() {
    local pid
    for pid in $(pgrep -f pystack_self_test); do
        grep -qzxF "TMPDIR=$TMPDIR" "/proc/$pid/environ" 2>/dev/null && echo "$pid"
    done
    ls "$TMPDIR"
}

# A place where only its own things can be left.
make_place() {
    mkdir -m 1777 place
    export TMPDIR=$PWD/place
}

@test "--self-test on the oldest, the system's and the newest Python" {
    make_place
    local path count=0
    for path in $(
        { ls -d "$(pyenv root 2>/dev/null)"/versions/3.{8,9}.*/bin/python3 | head -n 1
          ls -d "$(pyenv root 2>/dev/null)"/versions/3.1?.*/bin/python3 | tail -n 1
          ls /usr/bin/python3; } 2>/dev/null); do
        run -0 --separate-stderr doctor --self-test="$path"
        [ -z "$stderr" ]
        [[ $(check_of ok test-start) == "$path, CPython "*", as process "* ]]
        [[ $(check_of ok test-attach) == "took "*" ms of which one thread was held" ]]
        [[ $(check_of ok test-detach) == *"the longest stop of all was "*" ms" ]]
        [[ $(check_of ok test-samples) == *" samples of 2 threads in a second, "* ]]
        [[ $(check_of ok test-left) == "nothing: "* ]]
        [[ $(check_of ok test-spawn) == "started by record, it ended with its own status: "* ]]
        [[ $(check_of ok test-end) == *"ended with its own status" ]]
        count=$((count + 1))
    done
    [ $count -gt 0 ]
    [ -z "$(left_of_self_test)" ]
}

@test "--self-test as JSON: samples, and how long it was held" {
    facts --self-test="$PYTHON"
    "$PYTHON" - "$PYTHON" <<'END'
import json, platform, sys
found = json.load(open("facts"))
test = found["self_test"]
assert found["works"] and test["passed"]
assert test["python"] == sys.argv[1] and test["version"] == platform.python_version()
assert 0 < test["known_samples"] < test["samples"]
assert 0 < test["held_at_start_ns"] < 10e9 and 0 < test["held_at_stop_ns"] < 10e9
assert {"test-start", "test-attach", "test-samples", "test-left", "test-end"} <= \
    {check["name"] for check in found["checks"] if check["level"] == "ok"}
END
}

@test "--self-test without a Python that will do fails, and says why" {
    make_place
    run -125 --separate-stderr doctor --self-test=./nowhere
    [ -z "$stderr" ]
    [ "$(check_of problem test-start)" = "there is no './nowhere' to be run; do: pystack doctor --self-test=/path/to/python3" ]
    mkdir empty
    run -125 env PATH="$PWD/empty" "$PYSTACK" doctor --self-test
    [[ $(check_of problem test-start) == "there is no 'python3' to be run"* ]]
    run -125 doctor --self-test=false
    [ "$(check_of problem test-start)" = "false ends at once" ]
    [[ ${lines[-1]} == "problem  record        the self-test failed, see the problems above; but for it, programs that pystack starts can be recorded"* ]]
    idle
    wait_until "$DEADLINE" verdict_is "$started_pid" yes
    run -125 doctor --self-test=false "$started_pid"
    [ "${lines[-1]}" = "problem  record        the self-test failed, see the problems above; but for it, process $started_pid can be recorded" ]
    [ "$(left_of_self_test)" = "" ]
    local old
    for old in "$(pyenv root 2>/dev/null)"/versions/3.7.*/bin/python3; do
        [ -x "$old" ] || continue
        run -125 doctor --self-test="$old"
        [[ $(check_of problem test-start) == *"it runs CPython 3.7."* ]]
    done
    requires pypy3
    run -125 doctor --self-test=pypy3
    [[ $(check_of problem test-start) == *"it runs PyPy; "* ]]
    [ -z "$(left_of_self_test)" ]
}

@test "--self-test under a filter fails, and leaves nothing" {
    make_place
    run -125 "$PYTHON" "$apps/without-calls.py" $ptrace "$PYSTACK" doctor --self-test="$PYTHON"
    [[ $(check_of problem test-attach) == *"not permitted"* ]]
    [[ $(check_of ok test-left) == "nothing: "* ]]
    [[ ${lines[-1]} == "problem  record        the self-test failed, "*"can be recorded; running ones cannot" ]]
    # What it starts can be recorded, and is.
    [[ $(check_of ok test-spawn) == "started by record, "* ]]
    [ -z "$(left_of_self_test)" ]
}

@test "--self-test as a user without rights" {
    requires root nobody
    [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" -le 1 ] || skip "yama forbids it"
    export TMPDIR
    TMPDIR=$(mktemp -d)
    chmod 1777 "$TMPDIR"
    cd /
    run -0 as_nobody "$PYSTACK" doctor --self-test="$PYTHON"
    [ -z "$(left_of_self_test)" ]
    rmdir "$TMPDIR"
    [[ $(check_of ok test-left) == "nothing: "* ]]
}

@test "wrong usage: 129" {
    local value
    for value in 0 -1 abc 99999999999 ""; do
        run -129 --separate-stderr doctor -- "$value"
        [ -z "$output" ]
        [ "$stderr" = "pystack: doctor: '$value' is not a process id; see 'pystack doctor --help'" ]
    done
    run -129 --separate-stderr doctor 1 2
    [[ $stderr == "pystack: doctor: unexpected argument '2'; see "* ]]
    run -129 --separate-stderr doctor -p 1 2
    [[ $stderr == *"one process only: '2' is too much; see "* ]]
    run -129 --separate-stderr doctor --self-test=
    [[ $stderr == *"option --self-test: '' is not a program; see "* ]]
}

@test "output that cannot be written: status 1" {
    run -1 --separate-stderr bash -c '"$PYSTACK" doctor > /dev/full'
    [ "$stderr" = "pystack: doctor: cannot write to standard output: No space left on device" ]
}
