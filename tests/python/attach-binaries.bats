# SPDX-License-Identifier: Apache-2.0
# Attaching to Pythons whose file is not what it was, has no symbols, or holds more than a
# Python: what can be found is recorded truly, of the rest it is said why not.
load helpers
load parked

setup() {
    cd "$BATS_TEST_TMPDIR"
    program=
}

teardown() {
    [ -z "$program" ] || end_process "$program"
}

# Start a command that runs parked.py; its truth goes into the folder `io`.
start_parked() { # command...
    rm -rf io f
    mkdir io
    "$@" > out 2> err &
    program=$!
    wait_until 30 test -e io/truth || { cat err; return 1; }
}

is_true() {
    record -q -F 200 -d 0.4 -o f -p $program || return
    collapsed -i f --per-thread > stacks
    python3 "$here/compare-parked.py" io/truth stacks || return
    "$tools/attach-cycles" $program 5
}

# The text of a script that runs parked.py in an embedded Python.
parked_script() {
    echo "import sys
sys.argv = ['parked.py', 'io/truth', 'io/stop', '60']
exec(compile(open('$apps/parked.py', encoding='utf-8').read(), '$apps/parked.py', 'exec'))"
}

# --- files that are gone, or others ---

gone() { # python
    local real
    real=$(readlink -f "$1")
    cp "$real" ./python-copy
    PYTHONHOME=$(of_python "$1" prefix) start_parked ./python-copy "$apps/parked.py" \
        io/truth io/stop || return
    rm python-copy
    is_true || return
    # Another program, and then another Python, in its place.
    cp /bin/true python-copy
    is_true || return
    rm python-copy
    cp "$(readlink -f /usr/bin/python3)" python-copy
    is_true || return
    ends_well
    rm python-copy
}

@test "an executable that was deleted, then replaced by another program or version" {
    check_each gone
}

library_gone() { # python
    local library home
    find_library "$1" || { echo "without libpython.so"; return; }
    cp "$library" ./libpython-copy.so
    start_parked "$tools/host" ./libpython-copy.so "$home" "$(parked_script)" || return
    rm libpython-copy.so
    is_true || return
    cp /lib/x86_64-linux-gnu/libm.so.6 libpython-copy.so 2>/dev/null || echo > libpython-copy.so
    is_true || return
    ends_well
}

@test "a libpython that was deleted, then replaced by another library" {
    check_each library_gone
}

renamed() { # python
    local library home
    find_library "$1" || { echo "without libpython.so"; return; }
    strip -o ./libthing.so "$library"
    start_parked "$tools/host" ./libthing.so "$home" "$(parked_script)" || return
    is_true || return
    ends_well
}

@test "an embedded libpython, stripped and of another name" {
    command -v strip > /dev/null || skip "strip is not installed"
    check_each renamed
}

# --- programs that are linked with it ---

# Link ./linked with the static library of a Python.
link_static() { # python flags...
    local python=$1 library libs includes
    shift
    library=$(of_python "$python" LIBPL)/$(of_python "$python" LIBRARY)
    [ -f "$library" ] || { echo "without ${library##*/}"; return 1; }
    libs="$(of_python "$python" LIBS) $(of_python "$python" SYSLIBS)"
    includes=$(of_python "$python" INCLUDEPY)
    printf '#include <Python.h>
int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }\n' > linked.c
    # shellcheck disable=SC2086 # lists of options
    "$CC" "$@" -I"$includes" -o linked linked.c "$library" $libs > log 2>&1 ||
        { echo "without a way to link it: $(grep -m 1 -i error log)"; return 1; }
}

# Static programs cannot load all that parked.py needs: busy.py it is.
is_busy() { # python
    PYTHONHOME=$(of_python "$1" prefix) BUSY_STOP=stop ./linked -S "$apps/busy.py" 60 3 > out &
    program=$!
    wait_until 30 grep -q /linked /proc/$program/maps || return
    wait_until 30 record -q -d 0.1 -o f -p $program || return
    record -q -F 200 -d 0.4 -o f -p $program || return
    collapsed -i f > stacks
    grep -qE "in_busy \($apps/busy.py:(1[5-9]|20)\)" stacks || { cat stacks; return 1; }
    "$tools/attach-cycles" $program 5
}

busy_ends_well() {
    local status=0
    touch stop
    wait $program || status=$?
    program=
    rm stop
    [ $status -eq 3 ] || { echo "the program ended with $status"; return 1; }
}

exporting() { # python
    link_static "$1" -no-pie -Wl,--export-dynamic || return 0
    strip linked
    is_busy "$1" || return
    busy_ends_well
}

@test "linked into a program at a fixed address, stripped" {
    command -v strip > /dev/null || skip "strip is not installed"
    check_each exporting
}

static() { # python
    link_static "$1" -static || return 0
    is_busy "$1" || return
    busy_ends_well
}

@test "a static program" {
    check_each static
}

static_stripped() { # python
    link_static "$1" -static || return 0
    strip linked
    if "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 10))'; then
        is_busy "$1" || return
    else
        PYTHONHOME=$(of_python "$1" prefix) BUSY_STOP=stop \
            ./linked -S "$apps/busy.py" 60 3 > out &
        program=$!
        wait_until 30 grep -q /linked /proc/$program/maps || return
        cp /proc/$program/maps maps
        record -o f -p $program 2> err
        [ $? -eq 125 ] || return
        grep -q 'symbols were stripped; before CPython 3.10' err || { cat err; return 1; }
        echo "refused: $(cat err)"
    fi
    busy_ends_well
}

@test "a static program, stripped: sampled from 3.10 on, else it is said what would help" {
    command -v strip > /dev/null || skip "strip is not installed"
    check_each static_stripped
}

# --- more than a Python ---

embedded() { # python
    local library home
    find_library "$1" || { echo "without libpython.so"; return; }
    start_parked "$tools/host" "$library" "$home" "$(parked_script)" || return
    is_true || return
    ends_well
}

@test "embedded in a thread of another program" {
    check_each embedded
}

main_ended() { # python
    local library home
    find_library "$1" || { echo "without libpython.so"; return; }
    start_parked "$tools/host" -e "$library" "$home" "$(parked_script)" || return
    wait_until 30 grep -q '^State:.*Z' /proc/$program/status || return
    record -o f -p $program 2> err
    [ $? -eq 125 ] || return
    cat err
    grep -q 'its main thread has ended while .* others go on, which is not supported' err ||
        return
    ends_well
}

@test "its main thread has ended: refused, and it goes on" {
    check_each main_ended
}

@test "two Pythons in one program: it is said which one is recorded" {
    local version path libraries=() homes=() library home
    while read -r version path; do
        find_library "$path" || continue
        libraries+=("$library")
        homes+=("$home")
    done < <(pythons)
    [ ${#libraries[@]} -ge 2 ] || skip "no two libpythons found"
    local script='
import os, time
def in_FUNCTION():
    while not os.path.exists("stop"):
        sum(range(200))
open("up-FUNCTION", "w").close()
in_FUNCTION()'
    "$tools/host" "${libraries[0]}" "${homes[0]}" "${script//FUNCTION/old}" \
        "${libraries[-1]}" "${homes[-1]}" "${script//FUNCTION/new}" > out 2>&1 &
    program=$!
    wait_until 30 test -e up-new
    run record -F 200 -d 0.5 -o f -p $program
    echo "# ${lines[0]}" >&3
    [ "$status" -eq 0 ]
    [[ "$output" == *"runs two Pythons: CPython "*" is looked at, and "*" is not"* ]]
    if [[ "$output" == *"(${libraries[0]}) is looked at"* ]]; then
        has_function f in_old
        ! has_function f in_new
    else
        has_function f in_new
        ! has_function f in_old
    fi
    "$tools/attach-cycles" $program 5
    touch stop
    wait $program
    program=
}
