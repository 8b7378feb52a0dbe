# SPDX-License-Identifier: Apache-2.0
# pystack record: several files, a size, a flight recorder.
load helpers

phases=$apps/phases.py
check_parts=$TOP_BUILDDIR/tests/cli/check-parts

record() {
    "$PYSTACK" record "$@"
}

# Files of the recording that bear a time, in order; in $parts.
list_parts() {
    parts=()
    local path
    for path in pystack.data.[0-9]*; do
        [[ $path =~ ^.*\.[0-9]{16}$ ]] && parts+=("$path")
    done
    return 0
}

# They are whole, follow each other without a gap, and hold what was told at the end.
parts_are_whole() { # number-at-least
    list_parts
    [ "${#parts[@]}" -ge "$1" ] || { echo "${#parts[@]} files"; return 1; }
    "$check_parts" "${parts[@]}" > checked || { cat checked; return 1; }
    local total
    total=$(sed -n 's/^total \([0-9]*\), .*/\1/p' checked)
    [ "$total" = "$(samples_told messages)" ] ||
        { cat checked messages; return 1; }
}

samples_of() { # function file
    "$PYSTACK" script --format=collapsed -i "$2" |
        awk -v f="$1" 'index($0, ";" f " ") || index($0, ";" f ";") { n += $NF } END { print n + 0 }'
}

# Start a recording whose program waits for a file "stop"; it is $started_pid.
start_waiting() { # option ...
    rm -f ready stop
    start "$PYSTACK" record -F 500 --no-adaptive "$@" -- "$PYTHON" "$phases" touch:ready \
        await:stop exit:3 2> messages
    wait_until "$DEADLINE" test -e ready
}

end_waiting() {
    touch stop
    wait_for "$started_pid"
    [ "$status" = 3 ]
}

# --- a row of files ---

@test "--switch-output: another file at USR2" {
    local option
    for option in --switch-output --switch-output=signal; do
        rm -f pystack.data*
        echo before > pystack.data
        start_waiting "$option"
        [ "$(cat pystack.data.old)" = before ]
        kill -USR2 "$started_pid"
        wait_until "$DEADLINE" grep -q '^\[ pystack record: Dump pystack.data\.[0-9]\{16\}: [0-9.]* MB, [0-9]* samples*, [0-9.]* s \]$' messages
        list_parts
        [ "${#parts[@]}" = 1 ]
        "$PYSTACK" report -i "${parts[0]}" --header | grep -q ' end  *: goes on in another file$'
        # The one in hand has the name.
        "$PYSTACK" report -f --header-only | grep -q "its beginning is not in this file"
        kill -USR2 "$started_pid"
        wait_until "$DEADLINE" eval '[ "$(grep -c Dump messages)" = 2 ]'
        end_waiting
        parts_are_whole 3
        [ "${#parts[@]}" = 3 ]
        [ ! -e pystack.data ]
        grep -q "^\[ pystack record: wrote [0-9.]* MB in 3 files, the last ${parts[2]} (" messages
    done
}

@test "--switch-output: by time" {
    run -0 --separate-stderr record -F 500 --no-adaptive --switch-output=0.2s -- \
        "$PYTHON" "$phases" alpha beta gamma
    echo "$stderr" > messages
    parts_are_whole 4
    # Each has its part of the program, and no function is in the wrong one.
    [ "$(samples_of gamma "${parts[0]}")" = 0 ]
    cat "${parts[@]:0:${#parts[@]}-2}" > first
    [ "$(samples_of alpha first)" -gt 0 ]
    [ "$(samples_of alpha "${parts[-2]}")" = 0 ]
    [ "$(samples_of gamma "${parts[-2]}")" -gt 0 ]
}

@test "--switch-output: by size" {
    # Many different stacks, so that there is something to write.
    run -0 --separate-stderr record -F 2000 --no-adaptive --switch-output=1500B -- \
        "$PYTHON" -c '
import time
end = time.process_time() + 3
while time.process_time() < end:
    for n in range(40):
        exec("def f%d():\n for _ in range(3000): pass\nf%d()" % (n, n))'
    echo "$stderr" > messages
    parts_are_whole 2
    [ "$(stat -c %s "${parts[0]}")" -ge 1500 ]
}

@test "--switch-output: a size that no file can have" {
    local start=$SECONDS
    run -0 --separate-stderr record -F 500 --no-adaptive --switch-output=10B -- \
        "$PYTHON" "$phases" alpha beta gamma
    echo "$stderr" > messages
    parts_are_whole 1
    # About one a second, not one a round.
    [ "${#parts[@]}" -le $((SECONDS - start + 3)) ]
}

@test "parts read one after the other are the whole" {
    run -0 --separate-stderr record -F 500 --no-adaptive --switch-output=0.2s -- \
        "$PYTHON" "$phases" alpha beta gamma
    echo "$stderr" > messages
    parts_are_whole 4
    cat "${parts[@]}" > whole
    run -0 --separate-stderr "$PYSTACK" report -i whole --sort=thread --no-children
    # One process, one thread, all of its time.
    [ "$(grep -c '^# started process' <<< "$output")" = 1 ]
    [[ $output != *"its beginning"* ]]
    [ "$(grep -c ' MainThread$' <<< "$output")" = 1 ]
    local cpu
    cpu=$(sed -n 's/^# cpu: \([0-9.]*\) s running.*/\1/p' <<< "$output")
    [ "$(sed -n 's/^# samples: \([0-9]*\) of 1 thread, .*/\1/p' <<< "$output")" = "$(samples_told messages)" ]
    # The program's 1.2 s and its start; and no CPU time twice.
    awk -v c="$cpu" 'BEGIN { exit !(c > 1.1 && c < 1.6) }'
    [[ $output != *"as seen by samples"* || $(sed -n 's/^# cpu: \([0-9]*\).*as seen.*/\1/p' <<< "$output") -lt 8 ]]
}

@test "--switch-output: a tree of processes" {
    run -0 --separate-stderr record -F 500 --no-adaptive --switch-output=0.1s -- \
        "$PYTHON" "$phases" fork:alpha pool:10 fork:fork:beta gamma
    echo "$stderr" > messages
    parts_are_whole 8
}

@test "--switch-output: attached, and with exec" {
    start "$PYTHON" "$phases" touch:ready await:stop exit:3
    local program=$started_pid
    wait_until "$DEADLINE" test -e ready
    record -F 500 --switch-output=0.2s -d 1 -p "$program" 2> messages
    is_running "$program"
    touch stop
    parts_are_whole 4
    rm pystack.data.*
    run -0 --separate-stderr record -F 500 --switch-output=0.1s -- "$PYTHON" -c '
import os, sys
os.execv(sys.executable, [sys.executable, sys.argv[1], "alpha"])' "$phases"
    echo "$stderr" > messages
    parts_are_whole 3
}

@test "--switch-output with -F max, with sampling off and on" {
    mkfifo commands answers
    record -F max --switch-output=0.1s --control=fifo:commands,answers -- \
        "$PYTHON" "$phases" alpha +disable beta +snapshot +enable gamma > output 2> messages
    [ "$(cat output)" = $'ack\nack\nack' ]
    parts_are_whole 4
    local part
    for part in "${parts[@]}"; do
        [ "$(samples_of beta "$part")" = 0 ]
    done
}

@test "--switch-output: no file after the other while sampling is off" {
    mkfifo commands answers
    record --switch-output=0.1s --control=fifo:commands,answers -- "$PYTHON" "$phases" \
        +disable alpha beta gamma > output 2> messages
    # The one in hand may yet be ended, as it has samples; those behind it have none.
    awk '/sampling is off/ { off = 1 } off && /Dump/ { n++ } END { exit !(off && n <= 1) }' messages
}

@test "--switch-max-files keeps the last ones, and files of others" {
    echo mine > pystack.data.2001010100000000
    run -0 --separate-stderr record -F 500 --switch-output=0.1s --switch-max-files=2 -- \
        "$PYTHON" "$phases" alpha beta gamma
    list_parts
    [ "${#parts[@]}" = 3 ]
    [ "$(cat pystack.data.2001010100000000)" = mine ]
    "$check_parts" -l "${parts[2]}" || true
    [ "$(samples_of alpha "${parts[1]}")" = 0 ]
    [ "$(samples_of gamma "${parts[2]}")" -gt 0 ] || [ "$(samples_of gamma "${parts[1]}")" -gt 0 ]
}

@test "killed at any moment of a switch, every file can be read" {
    local i path
    for i in {1..15}; do
        rm -f pystack.data* ready stop
        start "$PYSTACK" record -F 1000 --switch-output=0.1s -- "$PYTHON" "$phases" \
            touch:ready await:stop 2> messages
        wait_until "$DEADLINE" grep -q Dump messages
        # An instant of its own each time, many of them at a switch.
        sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
        kill -KILL "$started_pid"
        wait_for "$started_pid"
        touch stop
        list_parts
        [ "${#parts[@]}" -ge 1 ]
        # What has a time in its name is whole; the last one is as far as it came.
        "$check_parts" -l "${parts[@]}" $([ ! -e pystack.data ] || echo pystack.data) ||
            return
        for path in "${parts[@]}"; do
            run -0 --separate-stderr "$PYSTACK" report -i "$path"
            [ -z "$stderr" ]
        done
        [ ! -e pystack.data ] || "$PYSTACK" report -f > report
    done
}

@test "the folder goes: the recording ends with an error, the program goes on" {
    mkdir folder
    start_waiting --switch-output -o folder/data
    rm -r folder
    kill -USR2 "$started_pid"
    wait_until "$DEADLINE" grep -q 'folder/data: cannot be renamed to .*: No such file or directory; what was recorded until now is kept, the program goes on$' messages
    is_running "$started_pid"
    end_waiting
}

@test "the disk is full at a switch: what was written stays, the program goes on" {
    requires tmpfs
    cat > on-small-disk <<-'END'
	mount -t tmpfs -o size=64k tmpfs disk || exit 77
	"$PYSTACK" record -F 1000 --switch-output=0.2s -o disk/data -- "$PYTHON" "$1" \
	    alpha beta gamma alpha beta gamma touch:through exit:4 2> messages &
	recorder=$!
	until grep -q Dump messages || ! kill -0 $recorder; do sleep 0.02; done
	dd if=/dev/zero of=disk/filler bs=1k count=100 2> /dev/null
	wait $recorder
	status=$?
	rm disk/filler
	for path in disk/data.[0-9]*; do
	    "$PYSTACK" report -i "$path" > /dev/null || exit 76
	done
	exit $status
	END
    mkdir disk
    export PYTHON
    run -4 unshare -m bash ./on-small-disk "$phases"
    [ -e through ]
    grep -q 'No space left on device' messages
}

# Tasks of a program: processes of our name in its memory.
task_of() { # word of the command line
    local pid
    for pid in $(pgrep -f -- "$1"); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != pystack ] ||
            [ "/proc/$pid/exe" -ef "$PYSTACK" ] || echo "$pid"
    done
}

@test "a task that is frozen does not hold up the others, nor loses its samples" {
    start "$PYSTACK" record -F 500 --switch-output -- "$PYTHON" "$phases" \
        "touch:$BATS_TEST_TMPDIR/ready" await:stop exit:3 2> messages
    wait_until "$DEADLINE" test -e ready
    local task
    task=$(task_of "touch:$BATS_TEST_TMPDIR/ready")
    [ -n "$task" ]
    kill -STOP "$task"
    kill -USR2 "$started_pid"
    wait_until "$DEADLINE" grep -q Dump messages
    kill -CONT "$task"
    kill -USR2 "$started_pid"
    wait_until "$DEADLINE" eval '[ "$(grep -c Dump messages)" = 2 ]'
    end_waiting
    list_parts
    "$check_parts" "${parts[@]}" > checked || true
    [ "$(sed -n 's/^total \([0-9]*\), .*/\1/p' checked)" = "$(samples_told messages)" ]
    local part
    for part in "${parts[@]}"; do
        "$PYSTACK" report -i "$part" > report
    done
}

# --- a size ---

@test "--max-size: the recording ends, the program goes on" {
    run -6 --separate-stderr record -F 2000 --max-size=3000 -- "$PYTHON" "$phases" \
        alpha beta gamma alpha beta gamma alpha beta gamma touch:through exit:6
    [ -e through ]
    [[ $stderr == *"pystack: record: pystack.data: --max-size is reached, the recording ends; the program goes on"* ]]
    local size
    size=$(stat -c %s pystack.data)
    [ "$size" -ge 3000 ]
    [ "$size" -le 12000 ]
    "$check_parts" pystack.data
    "$PYSTACK" report > report
    start "$PYTHON" "$phases" touch:ready await:stop exit:3
    local program=$started_pid
    wait_until "$DEADLINE" test -e ready
    run -0 --separate-stderr record -F 2000 --max-size=2K -p "$program"
    [[ $stderr == *"--max-size is reached, the recording ends"* ]]
    is_running "$program"
    touch stop
    wait_for "$program"
    [ "$status" = 3 ]
}

@test "--max-size on standard output, and of all files together" {
    record -F 2000 --max-size=3000 -o - -- "$PYTHON" "$phases" alpha beta gamma alpha \
        beta gamma alpha beta gamma > piped 2> messages
    grep -q -e '--max-size is reached' messages
    "$check_parts" piped
    record -F 2000 --max-size=5000 --switch-output=0.2s -- "$PYTHON" "$phases" alpha \
        beta gamma alpha beta gamma alpha beta gamma 2> messages
    grep -q -e '--max-size is reached' messages
    parts_are_whole 2
}

# --- the flight recorder ---

@test "--overwrite: the last part of a program that crashes" {
    run -139 --separate-stderr record -F 500 --overwrite=1s -- "$PYTHON" -c '
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
runpy.run_path(sys.argv[0] if False else sys.argv.pop(1))' "$phases" \
        alpha alpha alpha alpha beta gamma kill:SIGSEGV
    [[ $stderr == *"pystack: record: pystack.data has the last "*" s: "*" sample"* ]]
    "$check_parts" -l pystack.data > /dev/null || true
    [ "$(samples_of gamma pystack.data)" -gt 0 ]
    local old new
    old=$(samples_of alpha pystack.data)
    new=$(( $(samples_of beta pystack.data) + $(samples_of gamma pystack.data) ))
    # 1.6 s of alpha went before; at most some 0.4 s of it are in the last second.
    [ "$old" -lt "$new" ]
    "$PYSTACK" report | grep -q 'its beginning is not in this file'
    "$PYSTACK" report --header | grep -q 'end  *: ended by signal 11$'
}

@test "--overwrite: nothing is written before it is asked for" {
    echo before > pystack.data
    start_waiting --overwrite=10s
    [ "$(cat pystack.data)" = before ]
    kill -USR2 "$started_pid"
    wait_until "$DEADLINE" grep -q '^\[ pystack record: Dump pystack.data\.[0-9]\{16\}: ' messages
    list_parts
    [ "${#parts[@]}" = 1 ]
    "$PYSTACK" report -i "${parts[0]}" > report
    [ "$(cat pystack.data)" = before ]
    end_waiting
    [ "$(cat pystack.data.old)" = before ]
    "$PYSTACK" report > report
    # It has all there was, as that was less than 10 s.
    [ "$("$PYSTACK" script --format=collapsed | awk '{ n += $NF } END { print n }')" = "$(samples_told messages)" ]
    grep -q 'in 2 files, the last pystack.data (' messages
}

@test "--overwrite: snapshots by command, of the window as it then is" {
    mkfifo commands answers
    record -F 500 --overwrite=1s,1M --control=fifo:commands,answers --switch-max-files=1 -- \
        "$PYTHON" "$phases" alpha +snapshot beta beta beta beta beta gamma +snapshot +status \
        > output 2> messages
    grep -q '^status: sampling=on .* kept=[1-9][0-9]* ' output
    list_parts
    [ "${#parts[@]}" = 1 ]
    [ "$(samples_of alpha "${parts[0]}")" = 0 ]
    [ "$(samples_of gamma "${parts[0]}")" -gt 0 ]
}

@test "--overwrite: a snapshot that cannot be written is told, and the recording goes on" {
    mkdir folder
    mkfifo commands answers
    start_waiting --overwrite -o folder/data --control=fifo:commands,answers
    exec 7> commands 8< answers
    mv folder moved
    echo snapshot >&7
    local answer
    read -r -t "$DEADLINE" answer <&8
    [ "$answer" = "error: the output cannot be written" ]
    grep -qx 'pystack: record: folder/data: cannot be written: No such file or directory; the recording goes on' messages
    mv moved folder
    echo snapshot >&7
    read -r -t "$DEADLINE" answer <&8
    [ "$answer" = ack ]
    exec 7>&- 8<&-
    end_waiting
    [ "$(samples_of spin folder/data)" -gt 0 ]
}

@test "--overwrite: memory is bounded by size" {
    mkfifo commands answers
    run -0 --separate-stderr record -F 2000 --no-adaptive --overwrite=256K \
        --control=fifo:commands,answers -- "$PYTHON" -c '
import os, time
commands, answers = open("commands", "w"), open("answers")
most = samples = 0
name = "first"
end = time.time() + 25
while samples < 9000 and time.time() < end:
    for _ in range(200):
        exec("def f%s():\n for _ in range(9000): pass\nf%s()" % (name, name))
        name = os.urandom(60).hex()
    commands.write("status\n")
    commands.flush()
    line = answers.readline()
    most = max(most, int(line.split("kept=")[1].split()[0]))
    samples = int(line.split("samples=")[1].split()[0])
print(most)'
    # And what one second has, which is up to some 130 KB here, of 600 in all.
    [ "$output" -le 400000 ]
    [ "$output" -gt 30000 ]
    [ "$(stat -c %s pystack.data)" -le 400000 ]
    "$PYSTACK" report > report
    run -1 grep -q '\bffirst\b' report
}

@test "--overwrite: the program that was named ends, a child goes on" {
    run -0 --separate-stderr "$PYTHON" - "$PYSTACK" "$PYTHON" "$phases" <<'END'
import os, subprocess, sys, time
pystack, python, phases = sys.argv[1:]
program = subprocess.Popen([python, "-c", """
import os, time
if os.fork() == 0:
    os.closerange(0, 3)
    while not os.path.exists('stop'):
        sum(range(10000))
    os._exit(0)
open('ready', 'w').close()
while not os.path.exists('end'):
    sum(range(10000))
os._exit(0)"""])
while not os.path.exists("ready"):
    time.sleep(0.01)
recorder = subprocess.Popen([pystack, "record", "-F", "200", "--overwrite=10s", "-p", str(program.pid)],
                            stderr=subprocess.PIPE, text=True)
while "Ctrl-C ends it" not in recorder.stderr.readline():
    pass
time.sleep(1)
open("end", "w").close()
program.wait()
line = recorder.stderr.readline()
print(line, end="")
open("stop", "w").close()
print(recorder.stderr.read(), end="")
print(recorder.wait())
END
    [[ ${lines[0]} == "[ pystack record: Dump pystack.data."* ]]
    [[ $output == *"pystack.data has the last "* ]]
    list_parts
    "$PYSTACK" report -i "${parts[0]}" > report
}

@test "--overwrite: attached, with -d, and a program that is no Python" {
    start "$PYTHON" "$phases" touch:ready await:stop exit:3
    local program=$started_pid
    wait_until "$DEADLINE" test -e ready
    record -q -F 500 --overwrite -d 0.5 -p "$program"
    [ "$(samples_of spin pystack.data)" -gt 0 ]
    touch stop
    wait_for "$program"
    [ "$status" = 3 ]
    run -5 --separate-stderr record --overwrite -o none -- sh -c 'exit 5'
    run -0 --separate-stderr "$PYSTACK" report -i none
    [[ $output == *"no Python process was recorded"* ]]
}

@test "--overwrite: USR2 before anything is recorded" {
    start "$PYSTACK" record --overwrite -- sh -c 'touch ready; until [ -e stop ]; do sleep 0.02; done' 2> messages
    wait_until "$DEADLINE" test -e ready
    kill -USR2 "$started_pid"
    wait_until "$DEADLINE" grep -q Dump messages
    list_parts
    "$PYSTACK" report -i "${parts[0]}" > report
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

# --- what cannot be ---

@test "options that exclude each other, or lack one" {
    local options
    while read -r options; do
        # shellcheck disable=SC2086
        run -129 --separate-stderr record $options -- touch started
        [ "${#stderr_lines[@]}" = 1 ]
        [[ $stderr == "pystack: record: "*"; see 'pystack record --help'" ]]
    done <<-'END'
	--overwrite --switch-output=1s
	--overwrite --switch-output=1M
	--overwrite --max-size=1M
	--switch-max-files=3
	--overwrite -o -
	--switch-output -o -
	--switch-output=x
	--switch-output=
	--switch-output=100
	--switch-output=10ms
	--switch-output=1s --switch-max-files=0
	--switch-output=1s --switch-max-files=x
	--max-size=0
	--max-size=x
	--max-size=
	--overwrite=x
	--overwrite=
	--overwrite=60
	--overwrite=10ms
	--overwrite=1K
	--overwrite=1s,2s
	--overwrite=1M,2M
	--overwrite=1s,
	--overwrite=1s,1M,1M
	END
    for options in --overwrite --switch-output; do
        run -125 --separate-stderr record $options -o /dev/null -- touch started
        [[ $stderr == "pystack: record: /dev/null: is no file; $options needs one to name others after" ]]
        run -125 --separate-stderr record $options -o no/folder -- touch started
        [[ $stderr == "pystack: record: no/folder: cannot be written: No such file or directory" ]]
    done
    [ ! -e started ]
}

@test "--overwrite with --switch-output=signal is what it does anyway" {
    run -0 --separate-stderr record --overwrite --switch-output=signal -- "$PYTHON" "$phases" alpha
    [ "$(samples_of alpha pystack.data)" -gt 0 ]
}
