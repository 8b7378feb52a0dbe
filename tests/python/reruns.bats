# SPDX-License-Identifier: Apache-2.0
# The fallbacks, each of them forced (helpers.bash): the tests of safety, truth, names and time
# that others run as things are here, again in each mode.  These are some of the tests, over
# some of the Pythons; `make check-modes` runs all.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    export TEST_FEW_PYTHONS=1 TEST_ORACLE_STACKS=20000
}

# "FILE REGEX" a line: what is run again.
chosen() { # mode
    cat <<'END'
guests ^(a library takes SIGSEGV and SIGBUS twice|threads with alternate|calls that a|thread states)
END
    [ "$1" != thread-timer ] || return 0
    cat <<'END'
oracle ^a million stacks
names ^(code objects|threads) at addresses
time ^each thread has the CPU time
time ^the time with the GIL
states ^the collector
safety ^(the recorder is killed|what the program and its children|a program that is its)
END
}

# Bats in bats: without what the outer one tells its own tests, and what it finds printed
# if it is not good.  What is skipped all the same would be no rerun.
rerun() { # mode
    local file regex log one failed=
    while read -r file regex; do
        log=$file.log
        # Each of these waits for things to happen in a program, by either way.
        one=
        [ "$file" != guests ] || one=1
        env -u BATS_RUN_TMPDIR TMPDIR="$PWD" TEST_MODE="$1" TEST_ONE_PYTHON=$one \
            bats --tap -f "$regex" "$here/$file.bats" \
            > "$log" 2>&1 3>&- < /dev/null || failed="$failed $file"
        grep -q '^ok' "$log" && ! grep -q '# skip' "$log" || failed="$failed $file"
        if [[ $failed == *" $file" ]]; then
            sed "s/^/# $1 $file: /" "$log" >&3
        else
            sed -n "s/^ok [0-9]* /# $1 $file: /p" "$log" >&3
        fi
    done < <(chosen "$1")
    [ -z "$failed" ] || { echo "failed:$failed"; return 1; }
}

@test "a thread of the program, that copies by pwritev alone" {
    rerun thread-pwritev
}

@test "a thread of the program, that copies by process_vm_readv alone" {
    rerun thread-readv
}

@test "a thread of the program, that loads under our handlers" {
    rerun thread-fast
}

@test "a thread that loads, where the program had handlers of its own before" {
    rerun thread-handled
}

@test "a thread, with CPU timers" {
    rerun thread-timer
}
