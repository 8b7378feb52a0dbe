# SPDX-License-Identifier: Apache-2.0
# pystack list: which processes, in which columns and order; what hinders, told shortly.
load helpers

list() {
    "$PYSTACK" list "$@"
}

# The row of a process, its columns apart by one blank.
row_of() { # pid [option ...]
    local pid=$1
    shift
    list "$@" 2>/dev/null | tr -s ' ' | sed 's/^ //' | grep "^$pid "
}

# The columns of the row but CPU, age and command: "PID USER PYTHON THREADS ATTACH".
facts_of() { # pid
    list --json > listed.json
    "$PYTHON" -c 'import json, sys
for p in json.load(open("listed.json"))["processes"]:
    if p["pid"] == int(sys.argv[1]):
        print(p["user"], p["python"], p["version"], p["threads"], p["verdict"])' "$1"
}

has_row() { # pid text
    row_of "$1" | grep -qF -- "$2"
}

comes_before() { # pid pid
    list --json > listed.json
    "$PYTHON" -c 'import json, sys
pids = [p["pid"] for p in json.load(open("listed.json"))["processes"]]
sys.exit(not pids.index(int(sys.argv[1])) < pids.index(int(sys.argv[2])))' "$1" "$2"
}

version() {
    "$1" -c 'import platform; print(platform.python_version())'
}

@test "a process has a row with user, version, threads, state and command line" {
    start_app busy.py
    run -0 --separate-stderr list
    [ "$(head -n 1 <<< "$output" | tr -s ' ' | sed 's/^ //')" = \
        "PID USER PYTHON THREADS %CPU AGE ATTACH COMMAND" ]
    COLUMNS=300 run -0 row_of "$started_pid"
    local pattern="^$started_pid $(id -un) $(version "$PYTHON") 2 [0-9.]+ [0-9]+[smhd] yes "
    [[ $output =~ $pattern ]]
    [[ $output == *" yes ${PYTHON##*/} $apps/busy.py" ]]
    touch stop
}

@test "who has used most of its life's CPU time comes first" {
    start_app busy.py
    local busy=$started_pid
    start "$PYTHON" -c 'import time; time.sleep(1000)'
    local quiet=$started_pid
    wait_until "$DEADLINE" has_row "$quiet" " yes "
    # At its start it, too, used the CPU all the time.
    wait_until "$DEADLINE" comes_before "$busy" "$quiet"
    list | sed 1d | awk '{ if (NR > 1 && $5 > before) exit 1; before = $5 }'
    touch stop
}

@test "--json is JSON and agrees with /proc" {
    start_app busy.py
    run -0 --separate-stderr list --json
    [ -z "$stderr" ]
    "$PYTHON" -m json.tool > /dev/null <<< "$output"
    echo "$output" > listed.json
    "$PYTHON" - "$started_pid" "$PYTHON" <<'END'
import json, os, platform, sys
pid = int(sys.argv[1])
found = json.load(open("listed.json"))
assert found["pystack"]
p, = [p for p in found["processes"] if p["pid"] == pid]
status = dict(line.split(":", 1) for line in open("/proc/%d/status" % pid))
assert p["uid"] == int(status["Uid"].split()[1])
assert p["parent"] == int(status["PPid"])
assert p["threads"] == int(status["Threads"])
assert p["version"] == platform.python_version()
assert p["python"] == "cpython"
assert p["executable"] == os.readlink("/proc/%d/exe" % pid)
assert p["attachable"] is True and p["verdict"] == "yes" and p["why"] is None
assert p["fix"] is None and p["advice"] is None and p["recorded"] is False
assert p["command"].endswith("busy.py") and p["command"].startswith(sys.argv[2])
assert 0 < p["age_seconds"] < 1000 and 0 < p["cpu_seconds"] <= p["age_seconds"] * 1.5
assert abs(p["cpu_percent"] - 100 * p["cpu_seconds"] / p["age_seconds"]) < 0.01
END
    touch stop
}

# A Python that runs Pythons: the first by a shell, which runs one more; the second as
# it is.  All of them wait, and their last words are $mark-a to $mark-d.
start_family() {
    local wait='import time; time.sleep(1000)'
    mark=pystack-test-$$
    start "$PYTHON" -c "import subprocess, sys
wait = '$wait'
again = 'import subprocess, sys; subprocess.call([sys.executable, \"-c\", \"$wait\", \"$mark-c\"])'
a = subprocess.Popen(['sh', '-c', '\"\$0\" -c \"\$1\" $mark-b; true', sys.executable, again])
b = subprocess.Popen([sys.executable, '-c', wait, '$mark-d'])
a.wait(), b.wait()" "$mark-a"
    family=$started_pid
    wait_until "$DEADLINE" family_is_up
}

family_is_up() {
    [ "$(COLUMNS=1000 list | grep " yes .*$mark-[abcd]$" | wc -l)" = 4 ]
}

end_family() {
    local pid
    for pid in $(COLUMNS=1000 list | grep "$mark-[bcd]$" | awk '{ print $1 }'); do
        kill "$pid"
    done
    wait_for "$family"
}

# The tree of a family, without what differs.
family_tree() {
    COLUMNS=1000 list --tree |
        LC_ALL=C awk 'NR == 1 { at = index($0, "COMMAND") } { print substr($0, at) }' |
        sed -n "s/^\(.*\)python3[^ ]* -c .*$mark-\([a-d]\)$/\1\2/p"
}

@test "--tree shows which Python comes from which, over shells between them" {
    start_family
    family_tree > tree
    # The two children stand in the order of their CPU time.
    if [ "$(sed -n 2p tree)" = '├─ b' ]; then
        printf '%s\n' 'a' '├─ b' '│  └─ c' '└─ d' | diff tree -
    else
        printf '%s\n' 'a' '├─ d' '└─ b' '   └─ c' | diff tree -
    fi
    list --json > listed.json
    "$PYTHON" - "$family" "$mark" <<'END'
import json, sys
by_name = {p["command"].split()[-1]: p for p in json.load(open("listed.json"))["processes"]}
a, b, c, d = (by_name[sys.argv[2] + "-" + x] for x in "abcd")
assert a["pid"] == int(sys.argv[1])
assert b["python_parent"] == a["pid"] and b["parent"] != a["pid"]
assert c["python_parent"] == b["pid"] and d["python_parent"] == a["pid"]
END
    end_family
}

@test "a stopped process, and a traced one" {
    start_app busy.py
    kill -STOP "$started_pid"
    wait_until "$DEADLINE" has_row "$started_pid" " no: stopped "
    [ "$(facts_of "$started_pid")" = "$(id -un) cpython $(version "$PYTHON") 2 stopped" ]
    kill -CONT "$started_pid"
    wait_until "$DEADLINE" has_row "$started_pid" " yes "
    requires strace
    local program=$started_pid
    start strace -q -o /dev/null -p "$program"
    wait_until "$DEADLINE" has_row "$program" " no: traced "
    touch stop
    wait_for "$program"
    [ "$status" = 0 ]
}

@test "a recorded process says so; its sampler task has no row" {
    local way program
    for way in attached started; do
        if [ $way = attached ]; then
            start_app busy.py
            program=$started_pid
            start_attached "$program"
        else
            rm -f ready stop
            start "$PYSTACK" record -q -o f -- "$PYTHON" "$apps/busy.py"
            wait_until "$DEADLINE" test -s ready
            program=$(cat ready)
        fi
        wait_until "$DEADLINE" has_row "$program" " no: recorded "
        [ "$(COLUMNS=500 list | grep -cF "$(tr '\0' ' ' < "/proc/$program/cmdline" | sed 's/ $//; s|^[^ ]*/||')")" -ge 1 ]
        facts_of "$program" | grep -q ' recorded$'
        "$PYTHON" -c 'import json, sys
found = json.load(open("listed.json"))["processes"]
p, = [p for p in found if p["pid"] == int(sys.argv[1])]
assert p["recorded"] is True and "sampler task" in p["why"]
task = int(p["why"].split("sampler task ")[1].rstrip(")"))
assert task not in [p["pid"] for p in found]' "$program"
        touch stop
        wait_for "$started_pid"
        [ "$status" = 0 ]
    done
}

@test "what is no Python has no row" {
    start sleep 1000
    run -1 row_of "$started_pid"
    run -1 row_of $$
    # A name alone makes none.
    cp "$(command -v sleep)" python3
    start ./python3 1000
    wait_until "$DEADLINE" grep -q python3 "/proc/$started_pid/comm"
    run -1 row_of "$started_pid"
}

@test "Pythons that cannot be sampled are listed with the reason" {
    local old
    for old in "$(pyenv root 2>/dev/null)"/versions/{2.7,3.6,3.7}.*/bin/python; do
        [ -x "$old" ] || continue
        start "$old" -c 'import time; time.sleep(1000)'
        wait_until "$DEADLINE" has_row "$started_pid" " $(version "$old") 1 "
        has_row "$started_pid" " no: too old "
    done
    requires pypy3
    start pypy3 -c 'import time; time.sleep(1000)'
    wait_until "$DEADLINE" has_row "$started_pid" " PyPy 1 "
    has_row "$started_pid" " no: PyPy "
    [[ $(facts_of "$started_pid") == "$(id -un) pypy None "*" pypy" ]]
}

@test "every CPython that is here is told by its version" {
    local path count=0
    for path in "$(pyenv root 2>/dev/null)"/versions/3.{8,9,1?}.*/bin/python3; do
        [ -x "$path" ] || continue
        start "$path" -c 'import time; time.sleep(1000)'
        wait_until "$DEADLINE" has_row "$started_pid" " $(version "$path") 1 "
        wait_until "$DEADLINE" has_row "$started_pid" " yes "
        count=$((count + 1))
    done
    [ $count -gt 0 ] || skip "no CPython of pyenv here"
}

@test "a user sees others' processes, and that they are not permitted" {
    requires root nobody
    start_app busy.py
    local program=$started_pid
    start setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$PYTHON" -c 'import time; time.sleep(1000)'
    local own=$started_pid
    cd /
    wait_until "$DEADLINE" has_row "$own" " yes "
    run -0 --separate-stderr as_nobody "$PYSTACK" list
    tr -s ' ' <<< "$output" | grep -q "^ *$program root ? 2 .* no: not permitted "
    tr -s ' ' <<< "$output" | grep -q "^ *$own nobody $(version "$PYTHON") 1 .* yes "
    [ "$stderr" = "pystack: list: some may not be looked into by this user; sudo pystack list shows all" ]
    run -0 --separate-stderr as_nobody "$PYSTACK" list --json
    [ -z "$stderr" ]
    "$PYTHON" -c 'import json, sys
p, = [p for p in json.loads(sys.argv[1])["processes"] if p["pid"] == int(sys.argv[2])]
assert p["python"] == "unknown" and p["version"] is None
assert p["fix"] == "sudo pystack record -p " + sys.argv[2]' "$output" "$program"
    touch "$BATS_TEST_TMPDIR/stop"
}

@test "processes of other pid and user namespaces are listed" {
    requires root
    unshare --pid --fork --mount-proc true 2>/dev/null || skip "no pid namespace to be had"
    start unshare --pid --fork --kill-child --mount-proc "$PYTHON" -c 'import time; time.sleep(1000)' "pystack-test-$$"
    wait_until "$DEADLINE" eval "COLUMNS=500 list | grep -q ' yes .* pystack-test-$$\$'"
}

@test "a process that does not let itself be read costs two seconds, not the list" {
    requires root
    rm -f ready
    start "$TOP_BUILDDIR/tests/cli/python-mute"
    local mute=$started_pid
    wait_until "$DEADLINE" eval "test -s ready || has_ended $mute"
    test -s ready || skip "no userfaultfd here"
    start "$PYTHON" -c 'import time; time.sleep(1000)'
    wait_until "$DEADLINE" has_row "$started_pid" " yes "
    has_row "$mute" " no: no answer "
    has_row "$started_pid" " yes "
    run -0 list --json
    [[ $output == *'"no-answer"'* ]]
    # Who tried to read it does not stay.
    wait_until "$DEADLINE" eval '[ -z "$(pgrep -f "$PYSTACK list")" ]'
}

@test "control characters never come out, and JSON is JSON whatever is in a command line" {
    start bash -c 'exec "$0" -c "import time; time.sleep(1000)" "$1"' "$PYTHON" $'a\e[31m\xff\xc3\xa9\u202e'
    wait_until "$DEADLINE" has_row "$started_pid" " yes "
    COLUMNS=500 row_of "$started_pid" > row
    grep -qF $'a [31m\ufffdé\ufffd' row
    [ -z "$(LC_ALL=C tr -d '\n -~\200-\377' < row)" ]
    list --json > listed.json
    "$PYTHON" -m json.tool < listed.json > /dev/null
}

@test "rows fit the width that there is" {
    start "$PYTHON" -c 'import time; time.sleep(1000)' "$(printf 'x%.0s' {1..500})"
    wait_until "$DEADLINE" has_row "$started_pid" " yes "
    list > listed
    [ "$(wc -L < listed)" -le 100 ]
    COLUMNS=160 list > listed
    [ "$(wc -L < listed)" -le 160 ]
    grep -q 'xxxxxxxxxx$' listed
}

@test "no process is disturbed" {
    start_app busy.py 4
    local n pid=$started_pid
    list > /dev/null
    cut -d' ' -f1,2,6- "/proc/$pid/maps" > maps
    ls "/proc/$pid/fd" "/proc/$pid/task" > rest
    for ((n = 0; n < 20; n++)); do
        list > /dev/null
    done
    cut -d' ' -f1,2,6- "/proc/$pid/maps" | diff maps -
    ls "/proc/$pid/fd" "/proc/$pid/task" | diff rest -
    touch stop
    wait_for "$pid"
    [ "$status" = 4 ]
}

@test "wrong usage: 129" {
    run -129 --separate-stderr list 4711
    [ "$stderr" = "pystack: list: unexpected argument '4711'; see 'pystack list --help'" ]
    run -129 --separate-stderr list --tree --json
    [ -z "$output" ]
    [[ $stderr == *"--tree and --json exclude each other"* ]]
}

@test "output that cannot be written: status 1" {
    run -1 --separate-stderr bash -c '"$PYSTACK" list --json > /dev/full'
    [ "$stderr" = "pystack: list: cannot write to standard output: No space left on device" ]
}

@test "without a Python: no table, status 0" {
    requires root
    unshare --pid --fork --mount-proc true 2>/dev/null || skip "no pid namespace to be had"
    run -0 --separate-stderr unshare --pid --fork --mount-proc "$PYSTACK" list
    [ -z "$output" ]
    [ "$stderr" = "pystack: list: no Python process is to be seen here" ]
    run -0 unshare --pid --fork --mount-proc "$PYSTACK" list --json
    [[ $output == *'"processes":'*'[]'* ]]
}

@test "without /proc, or with that of others: status 1, and what to do" {
    requires root
    unshare --pid --fork --mount-proc true 2>/dev/null || skip "no pid namespace to be had"
    run -1 --separate-stderr unshare --pid --fork "$PYSTACK" list
    [ -z "$output" ]
    [ "$stderr" = "pystack: list: /proc is not mounted, or is that of another pid namespace; try: sudo mount -t proc proc /proc" ]
}
