# SPDX-License-Identifier: Apache-2.0
# Sampling off and on, and another file at the same time, over all Pythons.
load helpers

phases=$TOP_SRCDIR/tests/cli/apps/phases.py
check_parts=$TOP_BUILDDIR/tests/cli/check-parts

setup() {
    cd "$BATS_TEST_TMPDIR"
}

cpu_of() { # function file, in ms
    "$PYSTACK" script --format=collapsed --event=cpu -i "$2" |
        awk -v f="$1" 'index($0, ";" f " ") || index($0, ";" f ";") { n += $NF }
            END { print int(n / 1000) }'
}

# 0.4 s in alpha and in gamma each; nothing of beta, which ran while sampling was off.  A
# sampler that is a thread of the program has a part of its CPU time, and ends with it: what
# it had not said by then, up to 50 ms of 0.8 s, is lost.
is_split() { # python
    rm -f commands answers f.* whole
    mkfifo commands answers
    "$PYSTACK" record -q -F 500 --no-adaptive --control=fifo:commands,answers \
        --switch-output=0.2s -o f -- "$1" "$phases" alpha +disable beta +enable gamma \
        > output || return
    [ "$(cat output)" = $'ack\nack' ] || return
    "$check_parts" f.[0-9]* > checked || { cat checked; return 1; }
    cat f.[0-9]* > whole
    local alpha gamma least=330
    alpha=$(cpu_of alpha whole)
    gamma=$(cpu_of gamma whole)
    [ "$(cpu_of beta whole)" = 0 ] || { echo "beta was sampled"; return 1; }
    [[ "$(isolations_here)" == task* ]] || least=250
    awk -v a="$alpha" -v c="$gamma" -v least="$least" \
        'BEGIN { exit !(a > least && a < 470 && c > least && c < 470) }' ||
        { echo "alpha $alpha ms, gamma $gamma ms"; return 1; }
}

@test "what runs while sampling is off is in no figure, also over several files" {
    local version path count=0
    while read -r version path; do
        run is_split "$path"
        [ -z "$output" ] || echo "# $version $output" >&3
        [ "$status" -eq 0 ]
        count=$((count + 1))
    done < <(pythons)
    [ $count -gt 0 ] || skip "no CPython 3.8 to 3.15 found"
}
