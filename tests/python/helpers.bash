# SPDX-License-Identifier: Apache-2.0
# What the tests over Pythons share.
bats_require_minimum_version 1.5.0

here=$TOP_SRCDIR/tests/python
apps=$here/apps
tools=$TOP_BUILDDIR/tests/python

# Whole files can be run in a mode, by TEST_MODE: whatever is recorded, the sampler reads
# as that says, although nothing on this machine makes it do so.
#   task            a task of its own, by loads
#   thread-pwritev  a thread of the program, by pwritev: the other call is refused
#   thread-readv    the same, by process_vm_readv (but where it is attached)
#   thread-fast     a thread, by loads under our handlers, from the first tick on
#   thread-handled  the same, where every program has handlers of SIGSEGV and SIGBUS
#   thread-timer    a thread, with CPU timers
begin_mode() {
    local under="python3 $apps/under.py"
    export MODE_PYSTACK=$PYSTACK PYSTACK=$here/record-in-mode.sh MODE_UNDER=
    case $TEST_MODE in
    thread-pwritev) MODE_UNDER="$under errno:process_vm_readv exec --" ;;
    thread-readv) MODE_UNDER="$under errno:pwritev exec --" ;;
    thread-handled)
        export FOREIGN_AT_START=1
        export LD_PRELOAD=$tools/foreign.so${LD_PRELOAD:+:$LD_PRELOAD}
        ;;
    esac
}
[ -z "${TEST_MODE-}" ] || [ -n "${MODE_PYSTACK-}" ] || begin_mode

# Run something that is compared with what a recorder spawns: under its filter.
as_spawned() { # command argument...
    # shellcheck disable=SC2086 # several words
    ${MODE_UNDER-} "$@"
}

# What a test that has a way with each isolation goes through.
isolations_here() {
    case ${TEST_MODE-} in
    "") echo task thread ;;
    thread-*) echo thread ;;
    *) echo task ;;
    esac
}

# A test of what only a task of its own does.
requires_task() {
    [[ "$(isolations_here)" == task* ]] || skip "not in the mode $TEST_MODE: $1"
}

# Every CPython that pystack samples, found here: "VERSION PATH" a line.  Reruns take some, or
# the newest alone.
pythons() {
    if [ -n "${TEST_FEW_PYTHONS-}${TEST_ONE_PYTHON-}" ]; then
        some_pythons
    else
        all_pythons
    fi
}

all_pythons() {
    local root path
    root=$(pyenv root 2>/dev/null || echo /nonexistent)
    for path in "$root"/versions/3.*/bin/python3 /usr/bin/python3; do
        [ -x "$path" ] || continue
        "$path" -c 'import sys
v = sys.version_info
if (3, 8) <= v[:2] <= (3, 15) and sys.implementation.name == "cpython":
    print("%d.%d.%d" % v[:3], sys.executable)' 2>/dev/null
    done | sort -u -t. -k1,1n -k2,2n -k3,3n
}

# The oldest, the system's and the newest: for what is slow.
some_pythons() {
    [ -z "${TEST_ONE_PYTHON-}" ] || { all_pythons | tail -n 1; return; }
    { all_pythons | head -n 1; all_pythons | grep ' /usr/bin/'; all_pythons | tail -n 1; } |
        sort -u -t. -k1,1n -k2,2n -k3,3n
}

# Do that with each Python of a list (pythons, some_pythons), and show what is printed.
with_each() { # list command argument ...
    local version path list=$1 count=0
    shift
    while read -r version path; do
        run "$1" "$path" "${@:2}"
        sed "s/^/# $version /" <<< "$output" >&3
        [ "$status" -eq 0 ]
        count=$((count + 1))
    done < <("$list")
    [ $count -gt 0 ] || skip "no CPython 3.8 to 3.15 found"
}

# The same, spawned and attached to: commands get the Python and the way.  What they leave in
# "out" and "err" is shown when one fails.
each_python_and_way() { # command argument...
    local version path way
    while read -r version path; do
        for way in spawn attach; do
            run "$1" "$path" $way "${@:2}"
            [ "$status" -eq 0 ] ||
                { echo "$version, $way: $output"; cat out err; return 1; }
            [ -z "$output" ] || sed "s/^/# $version $way: /" <<< "$output" >&3
        done
    done < <(some_pythons)
}

# Run a command until it succeeds, for at most SECONDS.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ]; then
            echo "waited in vain for: $*" >&2
            return 1
        fi
        sleep 0.05
    done
}

of_python() { # python variable
    "$1" -c 'import sys, sysconfig
print(sys.base_prefix if sys.argv[1] == "prefix" else sysconfig.get_config_var(sys.argv[1]) or "")' "$2"
}

# The shared library of a Python, in $library; its home in $home.
find_library() { # python
    library=$(of_python "$1" LIBDIR)/$(of_python "$1" INSTSONAME)
    home=$(of_python "$1" prefix)
    [ -f "$library" ] && [[ "$library" == *.so* ]]
}

is_recorded_or_not() { # recorder messages
    grep -qs "recording process" "$2" || ! is_running "$1"
}

# Attach to $program, which waits for a file `go` until it is recorded, and wait for both;
# its end in $status, the recorder's messages in FILE.
record_from_go() { # file option...
    local recorder recorded=0 messages=$1
    shift
    # What a recorder before this one has said is not to be read.
    rm -f "$messages"
    "$PYSTACK" record "$@" -p "$program" 2> "$messages" &
    recorder=$!
    wait_until 30 is_recorded_or_not $recorder "$messages" || return
    touch go
    wait "$program" || status=$?
    program=
    wait $recorder || recorded=$?
    return $recorded
}

has_line() {
    grep -q -- "$2" "$1"
}

# End a process that this test started, and wait for it.
end_process() {
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

is_running() {
    kill -0 "$1" 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status"
}

# Must a reason be given why this cannot be tested here?
requires_root() {
    [ "$(id -u)" = 0 ] || skip "needs root"
}

record() {
    "$PYSTACK" record "$@"
}

# Is the function in a recording, finished or not?
has_function() { # file function
    collapsed -i "$1" 2>/dev/null | grep -qE "(^|;)$2 \\("
}

# What a recording has of a stack, one a line with its count.
collapsed() {
    "$PYSTACK" script --format collapsed "$@"
}

# What called.py's threads are called: "NAME FUNCTION" a line.
called_names() {
    {
        printf '%s\n' 'plain in_wide_0' 'naïve ü in_wide_1' '名前-線 in_wide_2' \
            'snake 🐍 in_wide_3' 'red,blue in_wide_5' 'tab�here in_wide_6' \
            'after in_renamed' 'thread in_raw' 'own-name in_own' 'pool-7 in_pool' \
            'Dummy-1 in_known'
        printf 'long%.0s' {1..500}
        echo ' in_wide_4'
    } | sort
}

# The same, by a recording.
called() { # file
    collapsed -i "$1" --per-thread 2>/dev/null |
        sed -nE 's/^[^;]*;(.*) [0-9]+;.*;(in_[a-z_0-9]+) .*/\1 \2/p' | sort -u
}

called_right() { # file wanted
    called "$1" | cmp -s - "$2"
}

# What the process says that it used has our own CPU time in it, if the sampler is a thread
# of it, in s: no recording shows that.
own_in_process() { # file
    local ns=0
    ! "$PYSTACK" report -i "$1" --header-only | grep -q 'isolation *: *thread' ||
        ns=$("$PYSTACK" report -i "$1" --stats | awk '/ sampler-cpu / { n += $1 } END { print n }')
    awk -v ns="$ns" 'BEGIN { printf "%.3f", ns / 1e9 }'
}

# Users without rights can come by what is in the test's folder.
open_to_everyone() {
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR"
}

# A pystack for users without rights, bin/pystack, wherever it was built.
for_everyone() {
    mkdir -p -m 755 bin
    cp "$PYSTACK" bin/pystack
    chmod 755 bin/pystack
}

as_nobody() {
    setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}
