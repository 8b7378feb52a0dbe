# SPDX-License-Identifier: Apache-2.0
# What the tests of the commands share.  Variables from the makefile: PYSTACK,
# PYSTACK_PRELOAD, TOP_BUILDDIR, TOP_SRCDIR.  PYTHON may name another Python.
bats_require_minimum_version 1.5.0

: "${PYSTACK:?is set by make check}" "${TOP_SRCDIR:?is set by make check}"
: "${PYTHON:=/usr/bin/python3}"
apps=$TOP_SRCDIR/tests/cli/apps
# Long enough for a machine that does other things too; nothing waits it out.
DEADLINE=30

# Processes that the test in hand has started.
started=()

setup() {
    cd "$BATS_TEST_TMPDIR"
    unset PYSTACK_PAGER PAGER COLUMNS SUDO_UID SUDO_GID
}

teardown() {
    local pid
    [ -n "${BATS_TEST_COMPLETED:-}" ] || show_what_is_known
    for pid in "${started[@]}"; do
        kill -CONT "$pid" 2>/dev/null || true
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
}

# Of a test that failed, the last command's status and what it printed.
show_what_is_known() {
    echo "status: ${status:-}"
    sed 's/^/output: /' <<< "${output:-}"
    sed 's/^/stderr: /' <<< "${stderr:-}"
    [ ! -s messages ] || sed 's/^/messages: /' messages
}

# Start a command in the background; its process id is in $started_pid.
start() {
    "$@" 3>&- &
    started_pid=$!
    started+=("$started_pid")
}

# An app that says "ready" in a file of that name, with its process id, and ends when a
# file "stop" appears.
start_app() { # app [argument ...]
    local app=$1
    shift
    rm -f ready stop
    start "$PYTHON" "$apps/$app" "$@"
    wait_until "$DEADLINE" test -s ready
}

# Wait until a command succeeds, for so many seconds at most.
wait_until() { # seconds command [argument ...]
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$end" ]; then
            echo "waited in vain for: $*" >&2
            return 1
        fi
        sleep 0.02
    done
}

# The status of a process that was started here, in $status.
wait_for() { # pid
    status=0
    wait "$1" || status=$?
}

is_running() { # pid
    kill -0 "$1" 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status"
}

has_ended() { # pid
    ! is_running "$1"
}

# Start an attached recording of a process and wait until it runs; it is $started_pid.
# Its messages are in the file "messages".
start_attached() { # pid [option ...]
    local pid=$1
    shift
    start "$PYSTACK" record "$@" -p "$pid" 2>messages
    wait_until "$DEADLINE" grep -q 'Ctrl-C ends it' messages
}

# The file being recorded has samples of the function that is always on the stack.
has_samples() {
    "$PYSTACK" script -f --format=collapsed 2>/dev/null | grep -q '<module> .*;main '
}

# Things a test needs that are not everywhere; it is skipped without them.
requires() { # thing ...
    local thing
    for thing in "$@"; do
        case $thing in
        root)
            [ "$(id -u)" = 0 ] || skip "needs root"
            ;;
        nobody)
            [ "$(id -u)" != 0 ] || as_nobody test -x "$PYSTACK" 2>/dev/null ||
                skip "another user cannot run the program from here"
            ;;
        tmpfs)
            [ "$(id -u)" = 0 ] || skip "needs root, to mount a small tmpfs"
            unshare -m mount -t tmpfs tmpfs "$BATS_TEST_TMPDIR" 2>/dev/null ||
                skip "no tmpfs can be mounted here"
            ;;
        *)
            command -v "$thing" >/dev/null || skip "$thing is not installed"
            ;;
        esac
    done
}

# Run a command as a user without any rights, if this one is root.
as_nobody() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}

# A recording of the app known.py in $recording, made once for each test file.
make_recording() {
    recording=$BATS_FILE_TMPDIR/known.data
    "$PYSTACK" record -F 500 --no-adaptive -o "$recording" -- \
        "$PYTHON" "$apps/known.py" 0.6 3 2>"$BATS_FILE_TMPDIR/messages" || [ $? = 3 ]
    export recording
}

# The number of samples that the last line of a recording tells, from a file.
samples_told() { # file
    sed -n 's/^\[ pystack record: .*(\([0-9]*\) samples*, .*) \]$/\1/p' "$1"
}

# Do two numbers differ by no more than this?
close_to() { # number number difference
    awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN { exit !(a - b <= d && b - a <= d) }'
}

# Run a command on a terminal of its own; "run on_terminal" gives what it shows.
on_terminal() { # command [argument ...]
    local line
    printf -v line '%q ' "$@"
    SHELL=/bin/bash script -qec "$line" /dev/null </dev/null | tr -d '\r'
}
