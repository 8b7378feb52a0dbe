# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2086,SC2154
# Tests that attach to apps/parked.py, which runs as $program until there is a file io/stop.

ends_well() {
    local status=0
    touch io/stop
    wait $program || status=$?
    program=
    [ $status -eq 0 ] || { echo "the program ended with $status"; return 1; }
}

# A function that says "without ..." has no such Python to try.
check_each() { # function, called with a python
    local version path count=0
    while read -r version path; do
        run "$1" "$path"
        echo "# $version: ${lines[0]-}" >&3
        [[ "${lines[0]-}" != without\ * ]] || continue
        [ "$status" -eq 0 ] || { echo "$version: $output"; return 1; }
        count=$((count + 1))
    done < <(some_pythons)
    [ $count -gt 0 ] || skip "no such CPython found"
}
