# SPDX-License-Identifier: Apache-2.0
# Recordings of programs that keep an account of their time.

app=$apps/accounts.py

# Sampling is on while the program says so: it knows to the ms what is recorded.
recorded() { # python options seconds steps
    rm -f commands answers out f
    mkfifo commands answers || return
    # shellcheck disable=SC2086 # several words each
    record -q $2 -D -1 --control=fifo:commands,answers -o f -- "$1" "$app" "$3" $4 \
        +enable +disable > out || { cat out; return 1; }
}

judge() {
    python3 "$here/judge-time.py" out f "$@"
}
