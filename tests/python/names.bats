# SPDX-License-Identifier: Apache-2.0
# Names, files and lines where caches and tables go wrong.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    program=
}

teardown() {
    [ -z "$program" ] || end_process "$program"
}

check_reuse() { # python
    record -q --no-adaptive -F 1000 -o f -- "$1" "$apps/reuse.py" 2 > out || return
    "$PYSTACK" script -i f > samples || return
    python3 "$here/check-reuse.py" samples
}

@test "code objects at addresses of others before: each stack is of one generation" {
    with_each pythons check_reuse
}

check_churn() { # python
    record -q --no-adaptive -F 500 -o f -- "$1" "$apps/churn.py" 2 > out || return
    grep -qx DONE out || return
    collapsed -i f --per-thread > stacks
    echo "$(sed -n 's/^shared/ids of several kinds:/p' out)," \
        "$(python3 "$here/check-churn.py" stacks)" || return
    python3 "$here/check-churn.py" stacks > /dev/null
}

@test "threads at addresses and under ids of others before: name and stack are of one thread" {
    with_each pythons check_churn
}

check_called() { # python
    local recorder
    called_names > wanted
    rm -f stop f
    "$PYSTACK" record -q -F 200 -o f -- "$1" "$apps/called.py" stop > out &
    recorder=$!
    wait_until 30 called_right f wanted
    touch stop
    wait $recorder || return
    grep -qx DONE out || return
    called f | diff wanted - || return
    echo "$(wc -l < wanted) names"
}

@test "names in all widths, new names, the kernel's names, and none" {
    with_each pythons check_called
}

make_visits() {
    cat > visits.c <<'C'
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void (*call)(void);
static int times;

static void *visit(void *name)
{
	prctl(PR_SET_NAME, name, 0, 0, 0);
	for (int i = 0; i < times; i++) {
		call();
		usleep(1000);
	}
	return NULL;
}

void begin(void (*f)(void), int n, pthread_t *ret, char *name)
{
	call = f;
	times = n;
	pthread_create(ret, NULL, visit, name);
}

void end(pthread_t thread)
{
	pthread_join(thread, NULL);
}
C
    "$CC" -shared -fPIC -o visits.so visits.c -lpthread || return
    cat > visits.py <<'PY'
import ctypes, time
visits = ctypes.CDLL("./visits.so")
visits.end.argtypes = [ctypes.c_ulong]

def in_visit():
    end = time.perf_counter() + 0.004
    while time.perf_counter() < end:
        pass

call = ctypes.CFUNCTYPE(None)(in_visit)
threads = [ctypes.c_ulong(), ctypes.c_ulong()]
for thread, name in zip(threads, (b"visitor-1", b"visitor-2")):
    visits.begin(call, 200, ctypes.byref(thread), name)
for thread in threads:
    visits.end(thread)
print("DONE")
PY
}

# Each visit has a thread state of its own; no more than one at a time has the GIL.
check_visits() { # python
    record --no-adaptive -F 500 -o f -- "$1" visits.py > out 2> err || return
    grep -qx DONE out && grep -q ' 3 threads,' err || return
    "$PYSTACK" report --no-children -s thread,tid -i f > report || return
    [ "$(grep -cE ' visitor-[12] +[0-9]+$' report)" -eq 2 ] || return
    awk '/^#   CPython/ { for (i = 1; i < NF; i++) if ($(i + 1) == "s,") all = $i }
        /^# cpu: .* s running/ && cpu == "" { cpu = $3 }
        END { printf "%.2f s running in %.2f s\n", cpu, all; exit !(cpu > 0.1 && cpu < 1.2 * all) }' \
        report
}

@test "threads of C that come into Python again and again: a row each, no time twice" {
    make_visits
    with_each pythons check_visits
}

# The interpreters of interpreters.py, each with functions of its own.
check_interpreters() { # python
    local kind wanted
    for kind in own shared; do
        record -q --no-adaptive -F 500 -o f -- "$1" "$apps/interpreters.py" $kind 1 > out ||
            return
        grep -qx DONE out || return
        "$PYSTACK" report --header-only -i f > header || return
        grep -qE '^# +interpreters +: 0 \(main\), [0-9]+, [0-9]+$' header || return
        "$PYSTACK" report --stats -i f > stats || return
        grep -qE '^ +3  interpreters: 0 \(main\), [0-9]+, [0-9]+$' stats || return
        collapsed -i f --per-thread > stacks
        grep -qE ';MainThread [0-9]+;.*;in_main ' stacks || return
        for n in 1 2; do
            grep -qE "interpreter [0-9]+\) [0-9]+;.*;in_sub_$n .*;burn " stacks || return
            ! grep -E ";in_sub_$n " stacks | grep -v '(interpreter' || return
        done
        "$PYSTACK" report -e wall -s interp,symbol --no-children -i f > rows || return
        grep -qE '^ .* 0 +in_main ' rows || return
        # 3.12 runs an interpreter under the ids of the thread that made it.
        if [[ $1 != *3.12* ]]; then
            for n in 1 2; do
                grep -qE ";outer-$n \(interpreter [0-9]+\) [0-9]+;.*;in_sub_$n " stacks ||
                    return
                grep -qE ";inner-$n \(interpreter [0-9]+\) [0-9]+;.*;in_thread_$n " stacks ||
                    return
            done
        fi
        echo -n "$kind GIL: $(wc -l < stacks) stacks; "
    done
}

# A check of each Python that tells its interpreters apart.
with_each_from_312() { # command, which gets the python
    local version path count=0
    while read -r version path; do
        case $version in 3.[89].* | 3.1[01].*) continue ;; esac
        run "$1" "$path"
        echo "# $version $output" >&3
        [ "$status" -eq 0 ]
        count=$((count + 1))
    done < <(pythons)
    [ $count -gt 0 ] || skip "no CPython 3.12 or later found"
}

@test "interpreters are listed, and threads say in which they are" {
    with_each_from_312 check_interpreters
}

# New interpreters stand in front in the list, the main one is the last.
shows_all_interpreters() { # file
    "$PYSTACK" report --header-only -i "$1" 2>/dev/null |
        grep -E 'interpreters +: 0 \(main\), .* and 73 more' &&
        collapsed -i "$1" --per-thread 2>/dev/null |
        grep -E ';MainThread [0-9]+;.*;in_main '
}

dumps_all_interpreters() { # pid
    "$PYSTACK" dump -p "$1" > dump && grep -q in_main dump && [ "$(grep -c in_sub dump)" = 80 ]
}

check_many_interpreters() { # python
    local recorder recorded=0 ended=0
    rm -f stop f
    : > out
    "$1" "$apps/many-interpreters.py" 80 stop > out 3>&- &
    program=$!
    wait_until 60 has_line out ready || return
    "$PYSTACK" record -F 200 -o f -p $program 2> err 3>&- &
    recorder=$!
    wait_until 60 shows_all_interpreters f || ended=$?
    wait_until 60 dumps_all_interpreters $program || ended=$?
    touch stop
    wait $program || ended=$?
    wait $recorder || recorded=$?
    [ $recorded = 0 ] && [ $ended = 0 ] && grep -qx DONE out && ! grep 'left out' err ||
        { cat out err; return 1; }
}

@test "of 80 interpreters each is there, and so is the main one" {
    with_each_from_312 check_many_interpreters
}

# There is room for 8192 threads and the main one, which is the last of the list.
@test "of more threads than there is room for the main one is there, and the others are counted" {
    local python
    python=$(some_pythons | tail -n 1)
    [ -n "$python" ] || skip "no CPython 3.8 to 3.15 found"
    "${python#* }" "$apps/many-threads.py" 8250 > out 2> err 3>&- &
    program=$!
    wait_until 60 grep -E 'ready|no room' out
    if grep -q 'no room' out; then
        end_process $program
        skip "there can be no 8,250 threads here"
    fi
    record -d 1 -o f -p $program 2> messages || cat messages
    end_process $program
    program=
    cat messages
    grep -qE '8193 threads, .*, 58 threads left out[,)]' messages
    run -0 "$PYSTACK" report -i f --header-only
    grep -qx '# 58 threads beyond what is recorded .* (8192, in 1024 .*): not in the figures' \
        <<< "$output"
    "$PYSTACK" report -i f --stats | grep -qE '^ +58  lost-threads$'
    collapsed -i f --event=wall > stacks
    grep -q 'in_main' stacks
}

# Stacks deeper than the limit lose their root, keep their leaf and say how much.
check_deep() { # python
    local bytes
    record -q -F 200 -o f -- "$1" "$apps/deep.py" 20000 1.5 > out || return
    grep -qx DONE out || return
    collapsed -i f > stacks
    grep -qE '\[truncated: [0-9]+\+ frames\];.*;down \(.*:18\);leaf \(.*deep.py:1[01]\) [0-9]+$' \
        stacks || return
    "$PYSTACK" report --stdio -g -i f > report || return
    grep -q 'truncated' report || return
    bytes=$(stat -c %s f)
    echo "$bytes bytes, $(awk '{ n += $NF } END { print n }' stacks) samples"
    [ "$bytes" -lt 200000 ]
}

@test "a stack of 20,000 frames is cut at its root, with a mark, and read in no time" {
    with_each pythons check_deep
}

# Memory that we keep in the program is bounded, whatever names it has; the recorder's too.
check_endless() { # python
    local bare growth recorder peak
    bare=$("$1" "$apps/endless.py" 2 | sed -n 's/^names .* growth //p')
    "$PYSTACK" record -q -F 1000 -o f -- "$1" "$apps/endless.py" 8 > out &
    recorder=$!
    while is_running $recorder; do
        peak=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/$recorder/status \
            2>/dev/null) || true
        [ -z "$peak" ] || echo "$peak" > peak
        sleep 0.1
    done
    wait $recorder || return
    growth=$(sed -n 's/^names .* growth //p' out)
    echo "$(sed -n 's/ growth.*//p' out), bare growth $bare KiB," \
        "with us $growth KiB, recorder $(cat peak) KiB"
    grep -qx DONE out && [ $((growth - bare)) -lt 5000 ] && [ "$(cat peak)" -lt 60000 ]
}

@test "names without end: neither the program nor the recorder grows" {
    with_each pythons check_endless
}

@test "files of one name in two folders stay apart in the report" {
    mkdir -p left right
    for side in left right; do
        printf 'import time\n\ndef step(end):\n    while time.time() < end:\n        pass\n' \
            > $side/utils.py
        touch $side/__init__.py
    done
    cat > main.py <<'PY'
import time
import left.utils, right.utils
left.utils.step(time.time() + 0.5)
right.utils.step(time.time() + 0.5)
PY
    record -q -F 500 -o f -- python3 main.py
    run -0 "$PYSTACK" report --stdio -i f
    grep -E 'step +.*left/utils.py:3' <<< "$output"
    grep -E 'step +.*right/utils.py:3' <<< "$output"
    run -0 "$PYSTACK" report --stdio --no-children -s srcfile -i f
    grep -E 'left/utils.py' <<< "$output"
    grep -E 'right/utils.py' <<< "$output"
}
