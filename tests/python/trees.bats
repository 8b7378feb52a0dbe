# SPDX-License-Identifier: Apache-2.0
# One recording follows a whole tree of processes, however they are made.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# The processes with samples in a function, in a recording.
processes_in() { # file function
    collapsed -i "$1" --per-thread | grep -E "(^|;)$2 \\(" | sed 's/;.*//' | sort -u | wc -l
}

# Record a program of ours by one way, attached before it makes any process; its last
# argument is then a file that it waits for.
record_by() { # way python app arguments... [-- option...]
    local way=$1 pid recorder command=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        command+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    rm -f go out err f
    if [ "$way" = spawn ]; then
        record "$@" -o f -- "${command[@]}" > out 2> err || return
    else
        "${command[@]}" go > out &
        pid=$!
        wait_until 30 has_line out ready || return
        "$PYSTACK" record "$@" -o f -p $pid 2> err &
        recorder=$!
        wait_until 30 has_line err 'Ctrl-C ends it' || return
        touch go
        wait $pid || return
        wait $recorder || return
    fi
    grep -qx DONE out
}

# Record one kind by one way: how many processes work in the function?
tree_has() { # python way kind function processes
    record_by "$2" "$1" "$apps/tree.py" "$3" -- -F 500 || return
    [ "$(processes_in f "$4")" = "$5" ] || {
        echo "$(processes_in f "$4") processes in $4, not $5"
        cat err
        return 1
    }
}

each_tree() { # kind function processes
    local version path way
    while read -r version path; do
        for way in spawn attach; do
            run tree_has "$path" $way "$@"
            [ "$status" -eq 0 ] || { echo "$version $way $1: $output"; return 1; }
        done
    done < <(some_pythons)
}

@test "fork" {
    each_tree fork in_child 1
}

@test "fork in a thread" {
    each_tree fork_in_thread in_child 1
}

@test "fork by C, of which Python does not know: only the thread that is left" {
    each_tree fork_in_c in_child 1
    grep -q ', 5 threads, ' err
    each_tree fork_in_c_in_thread in_child 1
    grep -q ', 6 threads, ' err
}

@test "fork and exec, vfork and exec" {
    each_tree run_by_fork in_program 1
    each_tree run in_program 1
}

@test "posix_spawn" {
    each_tree posix_spawn in_program 1
}

@test "a shell between" {
    each_tree system in_program 1
}

@test "an environment that was cleared" {
    each_tree cleared in_program 1
}

@test "a daemon, whose parent has ended" {
    each_tree daemon in_daemon 1
}

@test "exec: another segment of the same process" {
    each_tree execute in_program 1
    run "$PYSTACK" report --header-only -i f
    [[ $output == *"executed another program"* ]]
    [[ $output == *"# restarted process"* ]]
}

@test "multiprocessing: fork, spawn, forkserver" {
    each_tree pool in_worker 3
    each_tree spawn in_worker 3
    each_tree forkserver in_worker 3
}

@test "--no-inherit: the first process alone" {
    record -i -F 500 -o f -- /usr/bin/python3 "$apps/tree.py" pool > out 2> err
    grep -qx DONE out
    [ "$(processes_in f in_worker)" = 0 ]
    has_function f main
    # Nothing is said of what they run.
    grep -Eqx 'pystack: record: [0-9]+ child(ren)? not followed: by --no-inherit' err
}

@test "--no-inherit, attached: children are not said to be without Python" {
    record_by attach /usr/bin/python3 "$apps/tree.py" pool -- -i
    [ "$(processes_in f in_worker)" = 0 ]
    grep -Eqx 'pystack: record: [0-9]+ child(ren)? not followed: by --no-inherit' err
}

# Wherever the end meets one: not seen yet, about to say hello, or over.
@test "a child that is met as the recording ends is not said to be without Python" {
    local n
    for n in {1..9}; do
        record -d 0.$n -o f -- sh -c '
            "$0" -c "import time; time.sleep(0.2)" &
            for n in 1 2 3 4 5 6 7 8 9 10; do "$0" -c "import time; time.sleep(0.05)"; done
            wait' /usr/bin/python3 2> err
        ! grep -E 'without Python \([^)]*python' err || return 1
    done
}

# The numbers that the program knows are others, and its end kills all that is in there.
in_namespace() { # python
    record -F 500 -o f -- unshare --mount --pid --fork --mount-proc \
        "$1" "$apps/tree.py" fork > out 2> err || return
    grep -qx DONE out || return
    [ "$(processes_in f in_child)" = 1 ] || return
    "$PYSTACK" script -i f --format jsonl | /usr/bin/python3 -c '
import json, sys
lines = [json.loads(line) for line in sys.stdin]
segments = [l for l in lines if l["type"] == "segment"]
assert [s["inner_pid"] for s in segments][0] == 1, segments
assert [s["why"] for s in segments] == ["started", "forked"], segments
ends = [l["end"] for l in lines if l["type"] == "stats"]
assert ends == ["gone", "gone"], ends
' || return
    # Nobody was left out, and no task is taken for a process of the program.
    [ "$(grep -vc '^\[ pystack record: .*, 2 processes, 2 threads, ' err)" = 0 ]
}

@test "a pid namespace of its own" {
    requires_root
    unshare --mount --pid --fork --mount-proc true 2> /dev/null || skip "no namespaces here"
    local version path
    while read -r version path; do
        for _ in 1 2 3; do
            run in_namespace "$path"
            [ "$status" -eq 0 ] || { echo "$version: $output"; cat err; return 1; }
        done
    done < <(some_pythons)
}

# Without ptrace: what the preload library brings by itself.
@test "by the preload library alone" {
    local kind version path
    while read -r version path; do
        # ptrace
        for kind in "fork in_child" "fork_in_thread in_child" "run in_program" \
            "run_by_fork in_program" "posix_spawn in_program" "cleared in_program" \
            "daemon in_daemon" "execute in_program"; do
            set -- $kind
            run tree_alone "$path" "$1" "$2" 1
            [ "$status" -eq 0 ] || { echo "$version $kind: $output"; return 1; }
        done
        for kind in pool spawn forkserver; do
            run tree_alone "$path" "$kind" in_worker 3
            [ "$status" -eq 0 ] || { echo "$version $kind: $output"; return 1; }
        done
    done < <(some_pythons)
}

tree_alone() { # python kind function processes
    /usr/bin/python3 "$apps/denied.py" 101 "$PYSTACK" record -F 500 -o f -- \
        /bin/sh -c '"$@"; exit $?' sh "$1" "$apps/tree.py" "$2" > out 2> err || return
    grep -qx DONE out || return
    [ "$(processes_in f "$3")" = "$4" ] || {
        echo "$(processes_in f "$3") processes in $3, not $4"
        cat err
        return 1
    }
}

@test "the environment of children, and how large it may be, are as without" {
    local version path clean
    clean=(env -i "PATH=$PATH" LANG=C.UTF-8 ${PYSTACK_PRELOAD:+"PYSTACK_PRELOAD=$PYSTACK_PRELOAD"})
    while read -r version path; do
        "${clean[@]}" "$path" "$apps/environments.py" > without
        "${clean[@]}" "$PYSTACK" record -o f -- "$path" "$apps/environments.py" > with 2> err
        diff without with
        "${clean[@]}" LD_PRELOAD= "$path" "$apps/environments.py" > without
        "${clean[@]}" LD_PRELOAD= "$PYSTACK" record -o f -- "$path" "$apps/environments.py" \
            > with 2> err
        diff without with
    done < <(some_pythons)
}

@test "a program with a sanitizer's library runs, as command and as child" {
    printf 'int main(void) { return 7; }\n' > one.c
    gcc -fsanitize=address -shared-libasan one.c -o one 2>/dev/null ||
        gcc -fsanitize=address one.c -o one 2>/dev/null || skip "no libasan here"
    ldd one | grep -q libasan || skip "it is not linked dynamically"
    run record -o f -- ./one
    [ "$status" -eq 7 ]
    run record -o f -- /usr/bin/python3 -c \
        'import subprocess as s, sys; sys.exit(s.call(["./one"]) + s.call("./one; exit $?", shell=True))'
    [ "$status" -eq 14 ]
    [[ $output != *ASan* ]]
}

@test "--exclude-child: not these, but what comes from them" {
    local way
    for way in spawn attach; do
        run excludes $way
        [ "$status" -eq 0 ] || { echo "$way: $output"; return 1; }
    done
    run record --exclude-child '(' -- true
    [ "$status" -eq 129 ]
    [[ $output == *"'(' is no regular expression"* ]]
}

excludes() { # way
    record_by "$1" /usr/bin/python3 "$apps/tree.py" nested -- \
        -F 500 --exclude-child 'tree\.py.*marked' || return
    [ "$(processes_in f in_marked)" = 0 ] || { echo "the excluded one is there"; return 1; }
    [ "$(processes_in f in_program)" = 1 ] || { echo "its child is not"; cat err; return 1; }
    has_line err ': excluded'
}

@test "-p of a shell: what runs below it, now and later" {
    local shell recorder
    export BUSY_STOP=stop
    bash -c '/usr/bin/python3 "$0/busy.py" 60; /usr/bin/python3 "$0/tree.py" fork; :' \
        "$apps" > out &
    shell=$!
    wait_until 30 python_below $shell
    "$PYSTACK" record -F 500 -o f -p $shell 2> err &
    recorder=$!
    wait_until 30 has_line err 'Ctrl-C ends it'
    grep -q "process $shell (bash .*) is not a Python: what runs below it is recorded" err
    wait_until 30 has_function f in_busy
    touch stop
    wait $shell
    wait $recorder
    grep -qx DONE out
    [ "$(processes_in f in_child)" = 1 ]
}

@test "-p of a shell: refused for --no-inherit, and where no Python is below" {
    local shell
    export BUSY_STOP=stop
    bash -c '/usr/bin/python3 "$0/busy.py" 60; :' "$apps" > out &
    shell=$!
    wait_until 30 python_below $shell
    run record --no-inherit -o f -p $shell
    touch stop
    wait $shell
    [ "$status" -eq 125 ]
    [[ $output == *"below it, process "*" runs CPython "*": try -p "* ]]
    rm stop
    bash -c 'while ! [ -e stop ]; do read -rt 0.05 <> <(:); done; :' &
    shell=$!
    run record -o f -p $shell
    touch stop
    wait $shell
    [ "$status" -eq 125 ]
    [[ $output == *"process $shell (bash "*") is not a Python process"* ]]
}

python_below() { # pid
    local child
    child=$(pgrep -P "$1") && grep -q '^python3' "/proc/$child/comm"
}

# Samples of each worker in each function, and the time it says it spent there.
run_pool() { # name python way
    rm -f stop worker.*
    touch stop.go
    record_by "$3" "$2" "$apps/pool.py" 3 stop -- --no-adaptive -F 250 || return
    grep -q ', 5 processes, ' err || { cat err >&2; return 1; }
    collapsed -i f --per-thread > stacks
    python3 - "$1" <<'PY'
import glob, re, sys
names = ("f50", "f30", "f20")
for path in sorted(glob.glob("worker.*")):
    pid = path.split(".")[1]
    n = dict.fromkeys(names, 0)
    for line in open("stacks", encoding="utf-8"):
        for name in names:
            if re.match(r"\S+ %s;.*;%s \(" % (pid, name), line):
                n[name] += int(line.rsplit(" ", 1)[1])
    words = [l for l in open(path) if l.startswith("TRUTH")][0].split()
    t = dict(zip(words[1::2], words[2::2]))
    print(sys.argv[1], *(n[x] for x in names), *(t[x] for x in names))
PY
}

@test "a pool of four workers: each one's functions with the right shares" {
    local version path way
    : > runs
    while read -r version path; do
        for way in spawn attach; do
            run_pool "$version-$way" "$path" $way >> runs
        done
    done < <(some_pythons)
    [ "$(wc -l < runs)" -ge 8 ]
    run python3 "$here/judge-shares.py" runs
    sed 's/^/# /' <<< "$output" >&3
    [ "$status" -eq 0 ]
}

# How many of a kind the end of a recording tells of.
told() { # what
    sed -nE "s/.*[^0-9]([0-9]+) $1.*/\1/p" err | head -n 1
}

@test "200 processes that come and go: each has a segment or a reason" {
    local followed others brief
    record_by spawn /usr/bin/python3 "$apps/tree.py" storm -- -F 500
    count_told spawn
    [ "$followed" -ge 150 ]
    record_by attach /usr/bin/python3 "$apps/tree.py" storm -- -F 500
    count_told attach
}

# Every one of the 201 is told of.
count_told() { # way
    followed=$(told 'process(es)?,') others=$(told 'child(ren)? not')
    brief=$(told 'child(ren)? ended')
    echo "# $1: $followed followed, ${others:-0} with a reason, ${brief:-0} unseen" >&3
    [ $((followed + others + brief)) -ge 201 ]
}

# The samplers' tasks count as well: the program is to have the room that it has without.
# A shell of the given number; it makes a Python.  False: another process had the number.
start_as() { # number file
    echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid
    bash -c 'read -r _ < "$1.begin"
        /usr/bin/python3 -c "import time; time.sleep(60)" & echo $! > "$1.pid"; wait' \
        stranger "$2" &
    stranger=$!
    [ $stranger -eq "$1" ] || { end_process $stranger; return 1; }
}

@test "a stranger that gets the number of a process that has ended is not recorded" {
    requires_root
    [ -w /proc/sys/kernel/ns_last_pid ] || skip "no ns_last_pid in this kernel"
    # All processes of the machine get numbers of late ones then; t-tree has the rule.
    [ -n "${PYSTACK_TEST_NUMBERS-}" ] || skip "where PYSTACK_TEST_NUMBERS is set, and nothing else runs"
    local recorder stranger python
    mkfifo s.begin
    "$PYSTACK" record -q -o f -- /usr/bin/python3 "$apps/later-child.py" 2> err &
    recorder=$!
    wait_until 30 test -e gone
    # The recorder has seen the end of that process when its list of all is read anew.
    wait_until 30 has_function f '<module>'
    wait_until 30 start_as "$(cat gone)" s
    echo go > s.begin
    wait_until 30 test -s s.pid
    python=$(cat s.pid)
    touch go
    wait_until 30 has_function f in_later_child
    wait $recorder
    end_process $stranger
    kill -KILL "$python"
    "$PYSTACK" report --header-only -i f > header
    grep -E '^# [a-z]+ed process' header
    [ "$(grep -cE '^# [a-z]+ed (to )?process [0-9]+' header)" -eq 2 ]
    ! grep -E "process $python:" header || false
    ! grep -q "$python" err || false
}

@test "a narrow limit on tasks: children are not followed, and all can be made" {
    local folder cgroup way pid recorder
    [ "$(id -u)" = 0 ] || skip "needs root"
    for folder in /sys/fs/cgroup/pids /sys/fs/cgroup; do
        cgroup=$folder/pystack-trees-$$
        mkdir "$cgroup" 2>/dev/null && [ -e "$cgroup/pids.max" ] && break
        rmdir "$cgroup" 2>/dev/null || true
        cgroup=
    done
    [ -n "$cgroup" ] || skip "no pids controller may be used here"
    for way in spawn attach; do
        run narrow_tree "$cgroup" $way
        echo 1000 > "$cgroup/pids.max"
        [ "$status" -eq 0 ] || { echo "$way: $output"; cat err; rmdir "$cgroup"; return 1; }
    done
    wait_until 30 rmdir "$cgroup"
}

narrow_tree() { # cgroup way
    local pid recorder
    rm -f go out err f
    if [ "$2" = spawn ]; then
        # The recorder takes some, the program is one, its task another, and it has four
        # children at a time.
        echo 10 > "$1/pids.max"
        (inside "$1" "$PYSTACK" record -o f -- /usr/bin/python3 "$apps/tree.py" storm) \
            > out 2> err || return
    else
        inside "$1" /usr/bin/python3 "$apps/tree.py" storm go > out &
        pid=$!
        wait_until 30 has_line out ready || return
        echo 7 > "$1/pids.max"
        "$PYSTACK" record -o f -p $pid 2> err &
        recorder=$!
        wait_until 30 has_line err 'Ctrl-C ends it' || return
        touch go
        wait $pid || return
        wait $recorder || return
    fi
    grep -qx DONE out && grep -q "no further children are followed: .*pids.max is" err
}

# In place of the shell that it is called in.
inside() { # cgroup command...
    exec /bin/sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$@"
}
