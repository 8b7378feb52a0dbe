#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pystack, whose recordings are in the mode that TEST_MODE names (helpers.bash).  What a
# test's own options say goes before.
under=()
if [ "$1" = record ]; then
    case $TEST_MODE in
    task) options=(--isolation=task) ;;
    thread-pwritev | thread-readv) options=(--isolation=thread --copy=syscall) ;;
    thread-fast | thread-handled) options=(--isolation=thread --copy=fast --warmup=0s) ;;
    thread-timer) options=(--isolation=thread -e cpu-timer) ;;
    *) echo "there is no mode '$TEST_MODE'" >&2 && exit 2 ;;
    esac
    set -- record "${options[@]}" "${@:2}"
    # Under filters of its own nobody reads those of a program that runs already.
    [[ " $* " == *" -p "* ]] || read -r -a under <<< "${MODE_UNDER-}"
fi
[ ${#under[@]} -eq 0 ] || exec "${under[@]}" "$MODE_PYSTACK" "$@"
exec "$MODE_PYSTACK" "$@"
