# SPDX-License-Identifier: Apache-2.0
# Attaching to programs of other users, in other namespaces and under other roots, as seen
# from outside and from within: every function, file and line is right, and afterwards all
# is as it was.
load helpers
load parked

setup() {
    cd "$BATS_TEST_TMPDIR"
    open_to_everyone
    program=
}

teardown() {
    local dir
    [ -z "$program" ] || end_process "$program"
    for dir in "$BATS_TEST_TMPDIR"/root; do
        ! mountpoint -q "$dir" 2>/dev/null || umount -R -l "$dir"
    done
}

# The process below $1 that runs parked.py, as this namespace numbers it.
parked_below() {
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        if grep -qz parked.py "/proc/$child/cmdline" &&
            ! grep -qz -e '^bwrap$' -e '^unshare$' "/proc/$child/cmdline"; then
            echo "$child"
            return
        fi
        parked_below "$child" && return
    done
    return 1
}

# Start parked.py by a command that ends where its arguments go; its pid is in $pid.  The
# folder `io`, which anyone may write to, takes the truth.
start_parked() { # command...
    rm -rf io f
    mkdir -m 777 io
    "$@" io/truth io/stop 60 > out 2> err &
    program=$!
    wait_until 30 test -e io/truth || { cat err; return 1; }
    pid=$program
    ! grep -q -e bwrap -e unshare -e '^sh$' "/proc/$program/comm" ||
        pid=$(parked_below $program)
}

# Record it for a moment: it is as it says, and unharmed.
is_true_of() { # pid
    record -q -F 200 -d 0.4 -o f -p "$1" || return
    collapsed -i f --per-thread > stacks
    python3 "$here/compare-parked.py" io/truth stacks || return
    "$tools/attach-cycles" "$1" 5
}

# --- other users ---

of_another_user() { # python
    local task
    start_parked "$1" "$apps/under.py" uid=65534 -- "$apps/parked.py" || return
    is_true_of $pid || return
    [ "$(stat -c '%u %a' f)" = '0 600' ] || return
    # While it is recorded: the task has the program's user, and no privileges.
    "$PYSTACK" record -q -o f -p $pid &
    local recorder=$!
    wait_until 20 sampler_of $pid || return
    task=$(sampler_of $pid)
    wait_until 20 grep -q '^NoNewPrivs:[[:space:]]*1' "$task/status" || return
    grep -E '^Uid|^CapEff' "$task/status" > of_task
    kill -INT $recorder
    wait $recorder || return
    grep -qE '^Uid:\s+65534\s+65534' of_task && grep -qE '^CapEff:\s+0+$' of_task || return
    ends_well
}

# The folder of the sampler: a task that is a child of the process, or a thread of it.
sampler_of() {
    local child folder
    for child in $(cat "/proc/$1"/task/*/children 2>/dev/null); do
        set -- "$@" "/proc/$child"
    done
    for folder in "${@:2}" "/proc/$1"/task/*; do
        [ "$(cat "$folder/comm" 2>/dev/null)" != pystack ] || { echo "$folder"; return; }
    done
    return 1
}

@test "a program of another user, as the superuser" {
    requires_root
    check_each of_another_user
}

@test "a user, to a program of his own" {
    requires_root
    [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ] ||
        skip "kernel.yama.ptrace_scope forbids it"
    for_everyone
    start_parked setpriv --reuid 65534 --regid 65534 --clear-groups /usr/bin/python3 \
        "$apps/parked.py" || skip "nobody cannot run it: $(head -n 1 err)"
    cd io
    as_nobody ../bin/pystack record -q -F 200 -d 0.4 -o f -p $pid
    cd ..
    collapsed -f -i io/f --per-thread > stacks
    python3 "$here/compare-parked.py" io/truth stacks
    ends_well
}

@test "a user, to a program of another: refused, with the command that helps" {
    requires_root
    for_everyone
    start_parked /usr/bin/python3 "$apps/parked.py"
    cp /proc/$pid/maps maps
    run -125 --separate-stderr as_nobody bin/pystack record -o io/f -p $pid
    echo "# $stderr" >&3
    [ "$(grep -c . <<< "$stderr")" -eq 1 ]
    [[ "$stderr" == *"not permitted"*"sudo pystack record -p $pid"* ]]
    diff maps /proc/$pid/maps
    ends_well
}

@test "the superuser without CAP_SYS_PTRACE, as in a container: refused, naming it" {
    requires_root
    start_parked /usr/bin/python3 "$apps/under.py" uid=65534 -- "$apps/parked.py"
    run -125 --separate-stderr setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace \
        "$PYSTACK" record -o f -p $pid
    echo "# $stderr" >&3
    [[ "$stderr" == *"CAP_SYS_PTRACE"*"--cap-add SYS_PTRACE"* ]]
    ends_well
}

unreadable() { # python
    start_parked "$1" "$apps/under.py" undumpable -- "$apps/parked.py" || return
    is_true_of $pid || return
    # The record file of the task must not have made it readable.
    [ "$(stat -c %u /proc/$pid/maps)" = 0 ] || return
    ends_well
}

@test "a program that made itself unreadable (PR_SET_DUMPABLE), as the superuser" {
    requires_root
    check_each unreadable
}

# --- namespaces ---

in_namespaces() { # python
    start_parked unshare --user --map-root-user --pid --fork --kill-child --mount-proc \
        --uts --ipc --net "$1" "$apps/parked.py" || return
    is_true_of $pid || return
    ends_well
}

@test "in namespaces for users, processes, mounts and more (unshare)" {
    requires_root
    unshare --user --map-root-user --pid --fork --mount-proc true ||
        skip "no user namespaces here"
    check_each in_namespaces
}

without_proc() { # python
    start_parked unshare --mount --pid --fork --kill-child sh -c \
        'mount -t tmpfs none /proc && exec "$@"' sh "$1" "$apps/parked.py" || return
    is_true_of $pid || return
    ends_well
}

@test "in a pid namespace without /proc" {
    requires_root
    unshare --mount --pid --fork true || skip "no namespaces here"
    check_each without_proc
}

# A file that only the program's own root has.
in_sandbox() { # python
    start_parked bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /mnt \
        --ro-bind "$apps" /mnt/only-inside --bind "$PWD/io" "$PWD/io" --unshare-all \
        --die-with-parent --chdir "$PWD" "$1" /mnt/only-inside/parked.py || return
    is_true_of $pid || return
    grep -q '/mnt/only-inside/parked.py:' stacks || return
    ends_well
}

has_bwrap() {
    command -v bwrap > /dev/null || skip "bubblewrap is not installed"
    bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all true 2> /dev/null ||
        skip "bwrap cannot make a sandbox here"
}

@test "in a sandbox of bubblewrap, with files that only it has" {
    requires_root
    has_bwrap
    check_each in_sandbox
}

@test "both in one sandbox, the recorder as its superuser" {
    requires_root
    has_bwrap
    for_everyone
    mkdir -m 777 io
    cat > both << 'EOF'
set -e
/usr/bin/python3 /mnt/parked.py io/truth io/stop 60 &
pid=$!
until [ -e io/truth ]; do sleep 0.05; done
bin/pystack record -q -F 200 -d 0.4 -o io/f -p $pid
touch io/stop
wait $pid
EOF
    as_nobody bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /mnt --unshare-all \
        --ro-bind "$apps/parked.py" /mnt/parked.py --bind "$PWD/io" "$PWD/io" --uid 0 \
        --gid 0 --cap-add CAP_SYS_PTRACE --chdir "$PWD" sh both 2> err ||
        skip "bwrap cannot do that as a user here: $(head -n 1 err)"
    collapsed -f -i io/f --per-thread > stacks
    python3 "$here/compare-parked.py" io/truth stacks
}

@test "the superuser of a user namespace, to a program outside of it: refused" {
    requires_root
    as_nobody unshare --user --map-root-user true || skip "no user namespaces here"
    for_everyone
    start_parked /usr/bin/python3 "$apps/parked.py"
    run -125 --separate-stderr as_nobody unshare --user --map-root-user \
        bin/pystack record -o io/f -p $pid
    echo "# $stderr" >&3
    [[ "$stderr" == *"not permitted, though pystack has CAP_SYS_PTRACE; for more: pystack doctor $pid" ]]
    ends_well
}

# --- other roots ---

in_chroot() { # python
    mkdir -p root only-here
    cp "$apps"/parked.py only-here
    start_parked unshare --mount --propagation private sh -c '
        mount --rbind / root && mount --bind only-here root/mnt || exit
        cd / && exec chroot "$0" "$@"' "$PWD/root" sh -c 'cd "$0" && exec "$@"' "$PWD" "$1" \
        /mnt/parked.py || return
    is_true_of $pid || return
    grep -q '(/mnt/parked.py:' stacks || return
    ends_well
}

@test "under another root (chroot), with files that only it has" {
    requires_root
    unshare --mount --propagation private true || skip "no mount namespaces here"
    check_each in_chroot
}

@test "a Python of musl" {
    local path
    path=$(for path in /usr/local/bin/python3*musl* /opt/*/bin/python3; do
        ! ldd "$path" 2>/dev/null | grep -q musl || echo "$path"
    done | head -n 1)
    [ -n "$path" ] || skip "there is no Python of musl here; see other-root.bats"
    start_parked "$path" "$apps/parked.py"
    is_true_of $pid
    ends_well
}
