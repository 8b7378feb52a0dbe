#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Print the rows of lib/python/layouts.inc, one for each CPython 3.8 to 3.12 whose
# headers are found: gen-layouts.sh [INCLUDE-DIRECTORY...]
# Without arguments the directories of the pyenv versions and of /usr/include are used.
set -eu
here=$(dirname "$0")
cc=${CC:-cc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT INT TERM

if [ $# -eq 0 ]; then
    root=$(pyenv root 2>/dev/null || echo /nonexistent)
    set -- "$root"/versions/3.*/include/python3.* /usr/include/python3.*
fi
for minor in 8 9 10 11 12; do
    for dir in "$@"; do
        case $dir in */python3.$minor) ;; *) continue ;; esac
        [ -f "$dir/internal/pycore_pystate.h" ] || continue
        if "$cc" -w -I "$dir" -I "$dir/internal" -o "$tmp/gen" "$here/gen-layouts.c" \
            2>"$tmp/log"; then
            "$tmp/gen"
        else
            echo "gen-layouts.sh: $dir: $(head -n 1 "$tmp/log")" >&2
        fi
        break
    done
done
