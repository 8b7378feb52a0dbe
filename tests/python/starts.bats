# SPDX-License-Identifier: Apache-2.0
# The ways in which a Python gets started in real life, and what else the preload library
# comes by on the way to it.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# Record a command that runs apps/busy.py to status 3; what it printed is in `out`.
records() { # command...
    local status=0
    record -q -F 500 -o f -- "$@" > out || status=$?
    [ $status -eq 3 ] && has_function f in_busy ||
        { echo "$*: status $status, $(cat out)"; return 1; }
}

# All ways to start one Python.
check_starts() { # python
    local app=$apps/busy.py prefix folder
    rm -rf "ve link" ve_copy shim tool renamed
    if "$1" -m venv --without-pip --symlinks "ve link"; then
        "$1" -m venv --without-pip --copies ve_copy || return
        for folder in "ve link" ve_copy; do
            records "$folder/bin/python" "$app" 0.3 3 || return
            [ "$(cat out)" = "$PWD/$folder" ] || { cat out; return 1; }
        done
        (
            . ve_copy/bin/activate
            records python "$app" 0.3 3
        ) || return
    else
        echo "without venv"
    fi
    printf '#!/bin/sh\nFOO=bar exec "%s" "$@"\n' "$1" > shim
    chmod +x shim
    records ./shim "$app" 0.3 3 || return
    printf '#!/bin/sh\n"%s" "$@"\nexit $?\n' "$1" > shim
    records ./shim "$app" 0.3 3 || return
    { echo "#!$1"; cat "$app"; } > tool
    chmod +x tool
    records ./tool 0.3 3 || return
    records env "$1" "$app" 0.3 3 || return
    ln -s "$1" renamed
    records ./renamed "$app" 0.3 3 || return
    (
        PATH=$PWD:$PATH
        records renamed "$app" 0.3 3
    )
}

@test "virtual environments, shims, shebangs, env, PATH" {
    local version path count=0
    while read -r version path; do
        run check_starts "$path"
        [ -z "$output" ] || echo "# $version $output" >&3
        [ "$status" -eq 0 ]
        count=$((count + 1))
    done < <(some_pythons)
    [ $count -gt 0 ] || skip "no CPython 3.8 to 3.15 found"
}

# The same command, bare and recorded: output and status are equal.
same_as_bare() { # command...
    local bare=0 recorded=0
    "$@" > bare.out 2> bare.err || bare=$?
    record -q -o f -- "$@" > recorded.out 2> recorded.err || recorded=$?
    diff bare.out recorded.out && diff bare.err recorded.err && [ $bare -eq $recorded ] ||
        { echo "status $bare and $recorded"; return 1; }
}

make_hello() { # compiler, flags...
    printf '#include <stdio.h>\n#include <dirent.h>
int main(void) {
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(d)) n++;
    printf("hello %%d\\n", n);
    return 7;
}\n' > hello.c
    "$@" -o hello hello.c 2> log
}

@test "a static program is left alone" {
    make_hello "$CC" -static || skip "no static libc: $(head -n 1 log)"
    same_as_bare sh -c './hello; ./hello; python3 -c "print(1)"'
}

@test "a program of musl is left alone" {
    command -v musl-gcc > /dev/null || skip "musl-gcc is not installed"
    make_hello musl-gcc
    same_as_bare sh -c './hello; python3 -c "print(1)"'
}

@test "a program that is no Python is left alone" {
    make_hello "$CC"
    same_as_bare sh -c './hello; python3 -c "print(1)"'
}

@test "a setuid program is left alone" {
    requires_root
    make_hello "$CC"
    chmod 755 "$BATS_TEST_TMPDIR"
    install -m 4755 hello setuid-hello
    same_as_bare setpriv --reuid 65534 --clear-groups ./setuid-hello
}

@test "LD_PRELOAD of the user's stays in front and is what the program sees" {
    ! nm -D "$PYSTACK" | grep -q __asan_init || skip "a sanitizer wants to be the first"
    printf 'int nothing_here;\n' > mine.c
    "$CC" -shared -fPIC -o mine.so mine.c
    LD_PRELOAD=$PWD/mine.so same_as_bare python3 -c '
import os
print(os.environ["LD_PRELOAD"])
print([l.split("/")[-1] for l in open("/proc/self/maps") if "mine.so" in l][:1])'
}

@test "a program that ends at once: its status, a file that opens" {
    local status code
    for code in 0 3; do
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            status=0
            record -q -o f -- python3 -S -E -c "raise SystemExit($code)" || status=$?
            [ $status -eq $code ]
            "$PYSTACK" report --stdio -i f > report
        done
    done
    record -q -o f -- true
    run -0 --separate-stderr "$PYSTACK" report --stdio -i f
}

# Start busy.py by a command; its pid is then in $program.
start_busy() { # command...
    rm -f stop
    BUSY_STOP=stop "$@" 60 > out &
    program=$!
}

attaches() {
    record -q -F 500 -d 0.5 -o f -p $program && has_function f in_busy
}

@test "an interpreter whose file has been deleted or replaced" {
    local real
    real=$(readlink -f /usr/bin/python3)
    [ -x "$real" ] || skip "no system Python"
    cp "$real" ./python-copy
    PYTHONHOME=/usr start_busy ./python-copy "$apps/busy.py"
    wait_until 20 grep -q python-copy /proc/$program/maps
    rm python-copy
    wait_until 20 attaches
    printf 'something else\n' > python-copy
    attaches
    touch stop
    wait $program
}

@test "a program under a seccomp filter: sampled or refused, and it lives" {
    start_busy python3 "$apps/filtered.py" "$apps/busy.py"
    wait_until 20 grep -q '^Seccomp:[[:space:]]*2' /proc/$program/status
    run record -q -F 500 -d 0.5 -o f -p $program
    echo "# $output" >&3
    if [ "$status" -ne 0 ]; then
        [ "$status" -eq 125 ]
        [[ "$output" == *seccomp* ]]
    else
        has_function f in_busy
    fi
    is_running $program
    touch stop
    wait $program
}

@test "PyPy is named in one line, and runs on" {
    command -v pypy3 > /dev/null || skip "pypy3 is not installed"
    run -3 --separate-stderr record -o f -- pypy3 "$apps/busy.py" 0.5 3
    echo "# $stderr" >&3
    [[ "$stderr" == *PyPy* ]]
    start_busy pypy3 "$apps/busy.py"
    wait_until 20 grep -q pypy /proc/$program/maps
    run -125 record -o f -p $program
    [[ "$output" == *PyPy* ]]
    touch stop
    wait $program
}
