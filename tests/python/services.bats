# SPDX-License-Identifier: Apache-2.0
# Real services that are trees of processes, on the system's Python: one recording, one
# file, every worker's functions in it; and they end as they do without us.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    export PYTHONPATH=$apps PYTHONDONTWRITEBYTECODE=1
    service= recorder=
}

teardown() {
    [ -z "$service" ] || end_tree "$service"
    [ -z "$recorder" ] || end_process "$recorder"
}

end_tree() { # pid
    local child
    for child in $(pgrep -P "$1"); do
        end_tree "$child"
    done
    end_process "$1"
}

needs_module() {
    /usr/bin/python3 -c "import $1" 2>/dev/null || skip "the system's Python has no $1"
}

# Start the command beneath a recorder, or attach one to it; $service is its pid.
start_service() { # way command...
    local way=$1
    shift
    if [ "$way" = spawn ]; then
        "$PYSTACK" record -F 200 -o f -- "$@" > out 2>&1 &
        recorder=$!
        wait_until 30 command_of $recorder || return
        service=$(command_of $recorder)
    else
        "$@" > out 2>&1 &
        service=$!
        wait_until 30 grep -q libpython "/proc/$service/maps" ||
            wait_until 30 grep -q '/python3' "/proc/$service/maps"
        "$PYSTACK" record -F 200 -o f -p $service > record.err 2>&1 &
        recorder=$!
        wait_until 30 has_line record.err 'Ctrl-C ends it'
    fi
}

# What a recorder started, once it is one; its task may be a child of it too.
command_of() { # recorder
    local pid
    grep -qx pystack "/proc/$1/comm" || return
    for pid in $(pgrep -P "$1"); do
        grep -qx pystack "/proc/$pid/comm" || { echo "$pid"; return; }
    done
    return 1
}

# End it by a signal: its status is as it would be without us.
stop_service() { # signal status
    local status=0
    kill "-$1" "$service" || return
    wait_until 30 none_lives "$service" "$recorder" || return
    if grep -q . record.err 2>/dev/null; then
        wait "$service" || status=$?
        wait "$recorder" || return
    else
        wait "$recorder" || status=$?
    fi
    service= recorder=
    [ $status -eq "$2" ] || { echo "status $status"; cat out; return 1; }
}

# Samples in a function, of one process.
samples_of() { # pid function
    collapsed -i f --per-thread | grep -E "^[^;]* $1;" | grep -E ";$2 \\(" |
        awk '{ n += $NF } END { print n + 0 }'
}

each_has() { # function pid...
    local function=$1 pid
    shift
    for pid in "$@"; do
        [ "$(samples_of "$pid" "$function")" -ge 10 ] || {
            echo "process $pid: $(samples_of "$pid" "$function") samples in $function"
            cat out record.err 2>/dev/null
            return 1
        }
    done
}

segments() {
    "$PYSTACK" report --header-only -i f | grep -cE '^# [a-z]+ed (to )?process [0-9]+'
}

answers() { # processes
    /usr/bin/python3 "$apps/wsgi.py" sock "$1"
}

gunicorn_tree() { # way
    local first second killed
    rm -f f sock record.err
    start_service "$1" /usr/bin/python3 -m gunicorn -w 4 -b unix:sock wsgi || return
    first=$(answers 4) || return
    # All workers are replaced.
    kill -HUP "$service"
    wait_until 30 none_lives $first || return
    second=$(answers 4) || return
    # One is killed, and replaced.
    killed=${second%% *}
    kill -KILL "$killed"
    wait_until 30 none_lives "$killed" || return
    answers 4 > third || return
    stop_service TERM 0 || return
    each_has in_view $first $second $(cat third) || return
    [ "$(segments)" -eq 10 ] || { echo "$(segments) segments"; return 1; }
}

none_lives() { # pid...
    local pid
    for pid in "$@"; do
        ! is_running "$pid" || return 1
    done
}

@test "gunicorn: four workers, a reload, a worker that is killed" {
    needs_module gunicorn
    local way
    for way in spawn attach; do
        run gunicorn_tree $way
        [ "$status" -eq 0 ] || { echo "$way: $output"; return 1; }
    done
}

uwsgi_tree() { # way option...
    local way=$1 workers
    shift
    rm -f f sock record.err
    start_service "$way" uwsgi --plugin python3 --http-socket sock --master --processes 2 \
        --die-on-term --disable-logging --wsgi-file "$apps/wsgi.py" "$@" || return
    workers=$(answers 2) || return
    stop_service TERM 0 || return
    each_has in_view $workers || return
    # Also where the master is found after them.
    ! "$PYSTACK" report -i f | grep '^# executed process'
}

@test "uWSGI, with Python in it: forked before and after the application is loaded" {
    command -v uwsgi >/dev/null || skip "uWSGI is not installed"
    local way option
    for way in spawn attach; do
        for option in --no-orphans --lazy-apps --enable-threads; do
            run uwsgi_tree $way $option
            [ "$status" -eq 0 ] || { echo "$way $option: $output"; return 1; }
        done
    done
}

celery_tree() { # way
    local workers
    rm -rf f record.err queue done
    start_service "$1" /usr/bin/python3 -m celery -A tasks worker -P prefork -c 2 \
        --without-gossip --without-mingle -l ERROR || return
    workers=$(timeout 60 /usr/bin/python3 "$apps/tasks.py" 30) || return
    [ "$(wc -w <<< "$workers")" -eq 2 ] || { echo "one worker did it all"; return 1; }
    stop_service TERM 0 || return
    each_has in_task $workers
}

@test "Celery: a pool of two" {
    needs_module celery
    local way
    for way in spawn attach; do
        run celery_tree $way
        [ "$status" -eq 0 ] || { echo "$way: $output"; return 1; }
    done
}

@test "pytest-xdist: two workers" {
    needs_module xdist
    cat > test_work.py <<'EOF'
import os, time, pytest

def in_test():
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end:
        pass

@pytest.mark.parametrize("number", range(12))
def test_work(number):
    in_test()
    with open("pids", "a") as f:
        f.write("%d\n" % os.getpid())
EOF
    run record -F 200 -o f -- /usr/bin/python3 -m pytest -q -p no:cacheprovider -n 2
    [ "$status" -eq 0 ]
    [[ $output == *"12 passed"* ]]
    [ "$(sort -u pids | wc -l)" -eq 2 ]
    each_has in_test $(sort -u pids)
}
