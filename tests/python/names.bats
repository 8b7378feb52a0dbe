# SPDX-License-Identifier: Apache-2.0
# Names, files and lines where caches and tables go wrong.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
}

each_python() { # function that takes a path
    local version path count=0
    while read -r version path; do
        run "$1" "$path"
        echo "# $version $output" >&3
        [ "$status" -eq 0 ]
        count=$((count + 1))
    done < <(pythons)
    [ $count -gt 0 ] || skip "no CPython 3.8 to 3.15 found"
}

check_reuse() { # python
    record -q --no-adaptive -F 1000 -o f -- "$1" "$apps/reuse.py" 2 > out || return
    collapsed -i f > stacks
    python3 "$here/check-reuse.py" stacks
}

@test "code objects at addresses of others before: each stack is of one generation" {
    each_python check_reuse
}

check_churn() { # python
    local named wrong
    record -q --no-adaptive -F 500 -o f -- "$1" "$apps/churn.py" 2 > out || return
    grep -qx DONE out || return
    collapsed -i f --per-thread > stacks
    named=$(grep -cE '^[^;]*;(red|blue)-' stacks)
    wrong=$(grep -cE '^[^;]*;(red-.*;in_blue |blue-.*;in_red )' stacks)
    echo "$named stacks of named threads, $wrong of another thread"
    [ "$named" -ge 5 ] && [ "$wrong" -eq 0 ]
}

@test "threads at addresses of others before: name and stack are of one thread" {
    each_python check_churn
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
    each_python check_deep
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
    each_python check_endless
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
