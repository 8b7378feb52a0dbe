# SPDX-License-Identifier: Apache-2.0
# Attaching to programs that have given up calls (seccomp, PR_SET_MDWE) or have little room
# (limits of memory and of processes): sampled or refused with the reason, and unharmed in
# any case.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    open_to_everyone
    program=
}

teardown() {
    [ -z "$program" ] || end_process "$program"
    [ -z "${cgroup-}" ] || rmdir "$cgroup" 2>/dev/null || true
}

# Start quiet.py under conditions, with standard input from this shell; pid in $program.
start_quiet() { # python condition...
    local python=$1
    shift
    rm -f in out err f maps
    mkfifo in
    "$python" "$apps/under.py" "$@" -- "$apps/quiet.py" 7 < in > out 2> err &
    program=$!
    exec 9> in
    wait_until 30 has_line out ready || { cat err; return 1; }
    grep -v '\[heap\]' /proc/$program/maps > maps
}

# As it was: mappings, tasks, nobody traces it; then it ends with its own status.
is_unharmed() {
    local status=0
    wait_until 10 has_no_child $program || { echo "it has a child"; return 1; }
    grep -v '\[heap\]' /proc/$program/maps > maps.after
    diff maps maps.after || return
    [ "$(ls /proc/$program/task | wc -l)" -eq 1 ] || return
    grep -q '^TracerPid:[[:space:]]*0$' /proc/$program/status || return
    exec 9>&-
    wait $program || status=$?
    program=
    [ $status -eq 7 ] && has_line out DONE || { echo "it ended with $status"; return 1; }
}

has_no_child() {
    [ -z "$(cat "/proc/$1"/task/*/children)" ]
}

is_sampled() { # conditions...
    start_quiet /usr/bin/python3 "$@" || return
    record -q -F 500 -d 0.3 -o f -p $program || return
    has_function f in_quiet || { echo "no samples"; return 1; }
    is_unharmed
}

# Refused with words, at once.
is_refused() { # words conditions...
    local words=$1 status=0
    shift
    start_quiet /usr/bin/python3 "$@" || return
    record -F 500 -d 0.3 -o f -p $program > said 2>&1 || status=$?
    cat said
    [ $status -eq 125 ] && grep -q -- "$words" said && [ "$(grep -c . said)" -eq 1 ] || return
    [ ! -e f ] || return
    is_unharmed
}

each_sampled() { # condition...
    local condition
    for condition; do
        run is_sampled "$condition"
        [ "$status" -eq 0 ] || { echo "$condition: $output"; return 1; }
    done
}

may_set_filters_aside() {
    requires_root
    grep -q '^Seccomp:[[:space:]]*0' /proc/self/status ||
        skip "a filter of this shell's own forbids to set others aside"
}

# --- filters, with the right to set them aside ---

@test "a filter that kills for what the injector does: set aside" {
    may_set_filters_aside
    each_sampled kill:clone,clone3,fork,vfork kill:mmap:2:4 errno:clone trap:clone \
        kill-thread:clone kill:wait4
}

@test "a filter that kills for what the sampler can do without: left out" {
    may_set_filters_aside
    each_sampled kill:openat kill:kcmp kill:seccomp kill:chroot kill:capset kill:setsid \
        kill:munlock kill:prlimit64 kill:sched_setaffinity kill:prctl:0:32 kill:readlinkat \
        kill:kcmp,seccomp,chroot,capset,setsid,munlock,prlimit64,sched_setaffinity,openat \
        errno:kcmp,seccomp,chroot,capset,setsid trap:kcmp,seccomp,chroot \
        trace:kcmp,seccomp,chroot log:memfd_create,clone,mmap,kcmp
}

@test "a filter that kills or refuses what the sampler needs: refused, naming the call" {
    may_set_filters_aside
    local action call
    for action in kill kill-thread trap errno trace; do
        for call in close_range memfd_create pidfd_open ppoll; do
            run is_refused "seccomp filter .* $call, which the sampler needs" $action:$call
            [ "$status" -eq 0 ] || { echo "$action $call: $output"; return 1; }
        done
        echo "# $output" >&3
    done
    # What a thread does without is in isolation.bats.
    for call in prctl madvise munmap exit rt_sigprocmask; do
        run is_refused "seccomp filter .* $call, which the sampler needs" errno:$call
        [ "$status" -eq 0 ] || { echo "$call: $output"; return 1; }
    done
}

@test "several filters, of which the most severe counts" {
    may_set_filters_aside
    start_quiet /usr/bin/python3 log:kcmp errno:openat errno:kcmp kill:memfd_create log:prctl
    run record -o f -p $program
    echo "# $output" >&3
    [ "$status" -eq 125 ]
    [[ "$output" == *"would kill the sampler for memfd_create"* ]]
    is_unharmed
}

@test "every call that the sampler makes is judged" {
    local call
    # Those of the program are compared with, by cases.
    for call in $(find "$TOP_SRCDIR/lib/core" -name '*.[ch]' ! -name 'copy-*' \
        -exec grep -hv '^[[:space:]]*case __NR_' {} + | grep -oE '__NR_[a-z0-9_]+' | sort -u); do
        call=${call#__NR_}
        case $call in
        # Spawned only, what the kernel does by itself, what takes the place of an exit
        # that is refused, and what --copy=fast needs besides.  The handlers of that
        # (copy-*) run in threads of the program.
        pause | mprotect | kill | rt_sigqueueinfo | rt_tgsigqueueinfo) continue ;;
        clone | wait4 | getppid | socket | connect | sendmsg | restart_syscall) continue ;;
        # Of --copy=fast: to begin with, and for a signal that ends the program.
        mprotect | tgkill | rt_tgsigqueueinfo | rt_sigqueueinfo | kill) continue ;;
        esac
        grep -q "{ \"$call\", SYS_$call," "$TOP_SRCDIR/lib/inject/filter.c" ||
            { echo "$call is not in lib/inject/filter.c"; return 1; }
    done
}

# --- without that right ---

start_quiet_of_nobody() { # condition...
    for_everyone
    mkdir -p -m 777 io
    start_quiet /usr/bin/python3 uid=65534 "$@"
}

user_record() { # option...
    as_nobody "$BATS_TEST_TMPDIR/bin/pystack" record -F 500 -d 0.3 -o io/f -p $program "$@"
}

requires_tracing() {
    requires_root
    [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ] ||
        skip "kernel.yama.ptrace_scope forbids it"
}

@test "a user may not set it aside: refused, naming what would help" {
    requires_tracing
    start_quiet_of_nobody errno:chroot
    run user_record
    echo "# $output" >&3
    [ "$status" -eq 125 ]
    [ ${#lines[@]} -eq 1 ]
    [[ "$output" == *"seccomp filter"*CAP_SYS_ADMIN*--force* ]]
    is_unharmed
}

# The task that has ended stays to be reaped: the call for that is not made.
forget_dead_task() {
    has_no_child() {
        local child
        for child in $(cat "/proc/$1"/task/*/children); do
            grep -q '^State:[[:space:]]*Z' "/proc/$child/status" || return
        done
    }
}

@test "--force: sampled under filters that let it pass" {
    requires_tracing
    local condition
    forget_dead_task
    for condition in errno:chroot log:clone kill:wait4,prctl \
        kill:kcmp,seccomp,chroot,setsid,capset,sched_setaffinity; do
        start_quiet_of_nobody $condition
        [[ "$condition" != *prctl* ]] || condition=refused
        run user_record --force
        echo "# $condition: ${lines[-1]}" >&3
        if [ $condition = refused ]; then
            # The sampler needs it, and is killed; the program is not.
            [ "$status" -eq 125 ]
            [[ "$output" == *"sampler's task was killed as it started"* ]]
        else
            [ "$status" -eq 0 ]
            [ "$("$PYSTACK" script -f --format collapsed -i io/f | grep -c in_quiet)" -gt 0 ]
        fi
        is_unharmed
        rm -f io/f
    done
}

@test "--force: the sampler's task is killed: no core, and the program goes on" {
    requires_tracing
    local action
    forget_dead_task
    ulimit -c unlimited 2>/dev/null || true
    for action in kill trap kill-thread; do
        start_quiet_of_nobody $action:memfd_create
        run user_record --force
        echo "# $output" >&3
        [ "$status" -eq 125 ]
        [[ "$output" == *"killed as it started, by Bad system call"* ]]
        is_unharmed
        ! compgen -G 'core*' && ! compgen -G 'io/core*'
    done
}

@test "--force: a filter that refuses what is borrowed: a refusal, nothing stays" {
    requires_tracing
    forget_dead_task
    local call
    for call in clone mmap close_range ppoll; do
        start_quiet_of_nobody errno:$call
        run user_record --force
        echo "# $call: ${lines[-1]}" >&3
        # Where the task itself cannot go on, the recording ends with that.
        [ "$status" -eq 125 ] || [[ "$output" == *"sampler cannot work there"* ]]
        [[ "$output" != *"sudo"* ]]
        is_unharmed
        rm -f io/f
    done
}

@test "--force: a filter that kills for the borrowed call itself ends the program: it is said" {
    requires_tracing
    local status=0 began=$SECONDS
    start_quiet_of_nobody kill:clone
    run user_record --force
    echo "# $output" >&3
    [ "$status" -eq 125 ]
    [[ "$output" == *"its seccomp filter has ended it, for clone"* ]]
    [ $((SECONDS - began)) -lt 5 ]
    exec 9>&-
    wait $program || status=$?
    program=
    [ $status -eq 159 ]
}

# --- a filter of both, as in a container ---

# Run a command under conditions.
under() { # condition... -- command...
    python3 "$apps/under.py" "$@"
}

# A Python that starts another by fork: the child is attached to.
follows_under() { # condition
    cat > exec.py << 'EOF'
import os, sys
os.execvp(sys.argv[1], sys.argv[1:])
EOF
    cat > forks.py << 'EOF'
import os, sys, time
def in_child(end):
    while time.time() < end:
        sum(range(200))
if os.fork() == 0:
    in_child(time.time() + 1.5)
    os._exit(0)
os.wait()
EOF
    rm -f f
    under "$1" -- exec.py "$PYSTACK" record -F 500 -o f -- python3 forks.py > said 2>&1
}

@test "recorder and program under one filter: what it starts is followed, without rights" {
    requires_root
    local condition
    # Like that of a container runtime, and with calls that the sampler can do without.
    for condition in errno:chroot,kcmp log:clone kill:chroot,seccomp; do
        follows_under $condition || { cat said; return 1; }
        has_function f in_child || { echo "$condition:"; cat said; return 1; }
    done
}

@test "a filter of both that forbids what is needed: not followed, and said why" {
    requires_root
    follows_under kill:pidfd_open || { cat said; return 1; }
    ! has_function f in_child
    tail -n 1 said | sed 's/^/# /' >&3
    grep -q 'not followed: .*seccomp' said
}

@test "a filter more than the recorder has: not taken for its own" {
    requires_root
    local status=0
    follows_under errno:chroot || { cat said; return 1; }
    # After the exec nothing but attaching is left; that would end it.
    under errno:chroot -- exec.py "$PYSTACK" record -F 500 -o f -- /usr/bin/python3 \
        "$apps/under.py" kill:clone -- exec.py /usr/bin/python3 "$apps/busy.py" 2.5 3 \
        > said 2>&1 || status=$?
    tail -n 1 said | sed 's/^/# /' >&3
    [ $status -eq 3 ]
    ! has_function f in_busy
    grep -q 'is not recorded any more: .*seccomp filter' said
}

# --- PR_SET_MDWE ---

@test "a program whose memory is never both writable and executable (PR_SET_MDWE)" {
    local version path
    python3 "$apps/under.py" mdwe -- /dev/null 2> /dev/null ||
        skip "this kernel has no PR_SET_MDWE"
    while read -r version path; do
        start_quiet "$path" mdwe
        record -q -F 500 -d 0.3 -o f -p $program
        has_function f in_quiet
        is_unharmed
    done < <(some_pythons)
}

# --- limits ---

kib_of() { # field of the status
    awk -v field="$1:" '$1 == field { print $2 }' /proc/$program/status
}

# By a condition of under.py.
does_not_lock() {
    start_quiet /usr/bin/python3 "$1"
    local before during recorder
    before=$(kib_of VmLck)
    "$PYSTACK" record -q -F 500 -o f -p $program &
    recorder=$!
    wait_until 20 has_function f in_quiet
    during=$(kib_of VmLck)
    echo "# $before KiB locked, and $during while it is recorded" >&3
    # The code of the sampler is.
    [ $((during - before)) -le 96 ]
    kill -INT $recorder
    wait $recorder
    [ "$(kib_of VmLck)" -eq "$before" ]
    is_unharmed
}

@test "memory is locked as it is mapped (mlockall): that of the sampler does not count" {
    requires_root
    does_not_lock mlock
    does_not_lock mlock-new
}

@test "a small limit of locked memory: refused, naming it" {
    requires_root
    run is_refused 'RLIMIT_MEMLOCK.* prlimit --memlock=' mlock-new memlock=1000 uid=65534
    echo "# $output" >&3
    [ "$status" -eq 0 ]
}

@test "little address space is left: refused, naming the limit" {
    run is_refused 'RLIMIT_AS.* prlimit --as=' as=2000
    echo "# $output" >&3
    [ "$status" -eq 0 ]
    is_refused 'RLIMIT_AS' as=12000
    is_sampled as=40000
}

@test "as many processes as its user may have: refused, naming the limit" {
    requires_root
    run is_refused 'RLIMIT_NPROC, 1.* prlimit --nproc=' uid=65534 nproc=1
    echo "# $output" >&3
    [ "$status" -eq 0 ]
}

@test "its cgroup has no room for another task: refused, naming the file" {
    requires_root
    local folder
    for folder in /sys/fs/cgroup/pids /sys/fs/cgroup; do
        cgroup=$folder/pystack-test-$$
        mkdir "$cgroup" 2>/dev/null && [ -e "$cgroup/pids.max" ] && break
        rmdir "$cgroup" 2>/dev/null || true
        cgroup=
    done
    [ -n "$cgroup" ] || skip "no pids controller may be used here"
    start_quiet /usr/bin/python3
    echo $program > "$cgroup/cgroup.procs" || skip "it cannot be moved into a cgroup"
    echo 1 > "$cgroup/pids.max"
    run record -o f -p $program
    echo "# $output" >&3
    [ "$status" -eq 125 ]
    [[ "$output" == *"no room for the sampler's task (1 of 1)"*"$cgroup/pids.max" ]]
    echo 3 > "$cgroup/pids.max"
    record -q -F 500 -d 0.3 -o f -p $program
    has_function f in_quiet
    is_unharmed
}
