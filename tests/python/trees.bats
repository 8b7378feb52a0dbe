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

# Record one kind by one way: how many processes work in the function?
tree_has() { # python way kind function processes
    local pid recorder
    rm -f go out err f
    if [ "$2" = spawn ]; then
        record -F 500 -o f -- "$1" "$apps/tree.py" "$3" > out 2> err || return
    else
        "$1" "$apps/tree.py" "$3" go > out &
        pid=$!
        wait_until 30 has_line out ready || return
        "$PYSTACK" record -F 500 -o f -p $pid 2> err &
        recorder=$!
        wait_until 30 has_line err 'Ctrl-C ends it' || return
        touch go
        wait $pid || return
        wait $recorder || return
    fi
    grep -qx DONE out || return
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
    grep -q 'children not followed' err
}
