#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Check what goes into other programs: check-core.sh core FILE | preload FILE
# check-core.sh page OBJECT: leads the part that is copied elsewhere nowhere?
set -eu
kind=$1
file=$2
readelf=${READELF:-readelf}
nm=${NM:-nm}
bad=0

fail() {
    echo "check-core.sh: $file: $*" >&2
    bad=1
}

if [ "$kind" = page ]; then
    "$readelf" -SW "$file" | grep -q ' core_page ' || fail "has no section core_page"
    if "$readelf" -SW "$file" | grep -q ' \.rela\{0,1\}core_page '; then
        fail "has relocations in its section core_page"
    fi
    exit $bad
fi

# The budget is raised on purpose, never in passing.
case $kind in
core) budget=90112 ;;
preload) budget=102400 ;;
*) echo "usage: check-core.sh core|preload|page FILE" >&2; exit 2 ;;
esac

if "$readelf" -dW "$file" | grep -q '(NEEDED)'; then
    fail "needs another library"
fi
if "$readelf" -dW "$file" | grep -q '(TEXTREL)'; then
    fail "has relocations in its code"
fi
if "$readelf" -lW "$file" | awk '$1 == "LOAD" && / RWE /' | grep -q .; then
    fail "has a segment that is both writable and executable"
fi
if "$readelf" -lW "$file" | awk '$1 == "GNU_STACK" && / RWE /' | grep -q .; then
    fail "wants an executable stack"
fi
if "$readelf" -lW "$file" | grep -q ' TLS '; then
    fail "has thread-local storage"
fi
size=0
for bytes in $("$readelf" -lW "$file" | awk '$1 == "LOAD" { print $5 }'); do
    size=$((size + bytes))
done
if [ "$size" -gt "$budget" ]; then
    fail "has $size bytes, more than its budget of $budget"
fi
case $kind in
core)
    undefined=$("$nm" -u "$file")
    [ -z "$undefined" ] || fail "has undefined symbols: $undefined"
    if "$readelf" -rW "$file" | grep -q 'R_'; then
        fail "has relocations"
    fi
    ;;
preload)
    undefined=$("$nm" -Du "$file" | awk '$1 != "w" && $1 != "v"')
    [ -z "$undefined" ] || fail "has imports that are not weak: $undefined"
    hooks=' execl execle execlp execv execve execveat execvp execvpe fexecve posix_spawn posix_spawnp '
    exported=$("$nm" -D --defined-only "$file" | awk -v hooks="$hooks" '!index(hooks, " " $3 " ")')
    [ -z "$exported" ] || fail "exports symbols that are no hooks: $exported"
    ;;
esac
exit $bad
