# SPDX-License-Identifier: Apache-2.0
# Pythons of another root file system, attached to from outside: versions that this system
# has not, under another C library.  PYSTACK_TEST_ROOT names its folder, for example a
# newer Debian by debootstrap; without it this is skipped.
load helpers

setup() {
    root=${PYSTACK_TEST_ROOT-}
    [ -n "$root" ] || skip "PYSTACK_TEST_ROOT names no other root file system"
    requires_root
    cd "$BATS_TEST_TMPDIR"
    inside=$(mktemp -d "$root/tmp/pystack-XXXXXX")
    cp "$apps"/*.py "$inside"
}

teardown() {
    [ -z "${inside-}" ] || rm -rf "$inside"
}

check_parked_inside() { # python, as it is named inside
    local folder=${inside#"$root"} pid
    rm -f "$inside/truth" "$inside/stop" f
    chroot "$root" "$1" "$folder/parked.py" "$folder/truth" "$folder/stop" &
    pid=$!
    wait_until 30 test -e "$inside/truth" || return
    record -q -F 200 -d 0.4 -o f -p $pid || return
    touch "$inside/stop"
    wait $pid
    collapsed -i f --per-thread > stacks
    python3 "$here/compare-parked.py" "$inside/truth" stacks
}

@test "40 parked threads in another root file system: every function, file and line" {
    local path count=0
    for path in "$root"/usr/bin/python3.*[0-9]; do
        run check_parked_inside "${path#"$root"}"
        echo "# ${path##*/}: $output" >&3
        [ "$status" -eq 0 ]
        count=$((count + 1))
    done
    [ $count -gt 0 ]
}

# Shares of time, loosely: the joint test over the matrix is the strict one.
check_shares_inside() {
    local folder=${inside#"$root"} pid
    rm -f "$inside"/stop* "$inside/out" f
    chroot "$root" "$1" "$folder/shares.py" 60 "$folder/stop" > "$inside/out" &
    pid=$!
    wait_until 30 has_line "$inside/out" ready || return
    touch "$inside/stop.go"
    record -q --no-adaptive -F 1000 -d 2 -o f -p $pid || return
    touch "$inside/stop"
    wait $pid
    collapsed -i f | awk '
        { n = $NF; all += n
          for (i = 1; i <= 3; i++) if ($0 ~ ("(^|;)f" (i == 1 ? 50 : i == 2 ? 30 : 20) " \\(")) s[i] += n }
        END { printf "%.1f %.1f %.1f %%\n", 100 * s[1] / all, 100 * s[2] / all, 100 * s[3] / all
              exit !(s[1] > 0.44 * all && s[1] < 0.56 * all && s[2] > 0.24 * all && s[2] < 0.36 * all) }'
}

@test "50/30/20 % of the time in another root file system" {
    local path
    for path in "$root"/usr/bin/python3.*[0-9]; do
        run check_shares_inside "${path#"$root"}"
        echo "# ${path##*/}: $output" >&3
        [ "$status" -eq 0 ]
    done
}

# Names of threads of a few ms, and of all kinds.
check_names_inside() {
    local folder=${inside#"$root"} pid recorder
    rm -f f "$inside"/stop "$inside/out"
    chroot "$root" "$1" "$folder/churn.py" 3 > "$inside/out" &
    pid=$!
    wait_until 30 has_line "$inside/out" ready || return
    record -q --no-adaptive -F 500 -o f -p $pid || return
    wait $pid
    grep -qx DONE "$inside/out" || return
    collapsed -i f --per-thread > stacks
    python3 "$here/check-churn.py" stacks || return
    called_names > wanted
    rm f
    chroot "$root" "$1" "$folder/called.py" "$folder/stop" > "$inside/out" &
    pid=$!
    wait_until 30 has_line "$inside/out" ready || return
    "$PYSTACK" record -q -F 200 -o f -p $pid &
    recorder=$!
    wait_until 30 called_right f wanted
    touch "$inside/stop"
    wait $pid
    wait $recorder || return
    called f | diff wanted -
}

@test "names of threads in another root file system" {
    local path
    for path in "$root"/usr/bin/python3.*[0-9]; do
        run check_names_inside "${path#"$root"}"
        echo "# ${path##*/}: $output" >&3
        [ "$status" -eq 0 ]
    done
}

# Two threads that compute: one of them waits for the GIL.  3.15 has a word for that.
check_gil_waits_inside() {
    local folder=${inside#"$root"} pid
    rm -f "$inside/stop" "$inside/out" f
    chroot "$root" "$1" "$folder/gil-waits.py" "$folder/stop" > "$inside/out" &
    pid=$!
    wait_until 30 has_line "$inside/out" ready || return
    record -q --no-adaptive -F 500 -d 1 -o f -p $pid || return
    touch "$inside/stop"
    wait $pid
    "$PYSTACK" script -i f > samples
    echo "$(grep -c ' gil-wait' samples) samples wait"
    case $1 in
    *3.15) grep -q ' waiting gil-wait' samples && ! grep ' running gil gil-wait' samples ;;
    *) ! grep ' gil-wait' samples ;;
    esac
}

@test "3.15 tells who waits for the GIL, and for no other that is claimed" {
    local path new=
    for path in "$root"/usr/bin/python3.*[0-9]; do
        run check_gil_waits_inside "${path#"$root"}"
        echo "# ${path##*/}: $output" >&3
        [ "$status" -eq 0 ]
        [[ $path != *3.15 ]] || new=1
    done
    [ -n "$new" ] || skip "there is no CPython 3.15 in $root"
}
