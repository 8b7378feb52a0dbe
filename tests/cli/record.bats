# SPDX-License-Identifier: Apache-2.0
# pystack record: status, streams, files, refusals.  What signals do: signals.bats.
load helpers

# A line that ends every recording.
end_line='^\[ pystack record: wrote [0-9.]+ MB .* \([0-9]+ samples?, [0-9]+ process(es)?, [0-9]+ threads?, [0-9]+ lost, [0-9]+ approximate, [0-9]+ of [0-9]+ ticks late(, [0-9]+ (truncated|unreadable|missed))*(, [0-9.]+ s parked)?, overhead [0-9.]+% of a core\) \]$'

record() {
    "$PYSTACK" record "$@"
}

# --- the program's status ---

@test "the exit status is the program's" {
    local status
    for status in 0 1 3 125 255; do
        run -$status record -q -- "$PYTHON" -c "import sys; sys.exit($status)"
    done
    # Of a program that is no Python too.
    run -7 record -q -- sh -c 'exit 7'
}

@test "a program ended by signal N gives 128 + N" {
    local signal
    for signal in 15 9 11 6 10; do
        run -$((128 + signal)) record -q -- "$PYTHON" -c "
import os, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.kill(os.getpid(), $signal)"
    done
}

@test "options behind the program are the program's" {
    run -0 --separate-stderr record "$PYTHON" -c 'import sys; print(sys.argv[1:])' -q --help
    [ "$output" = "['-q', '--help']" ]
    run -0 --separate-stderr record -- "$PYTHON" -c 'import sys; print(sys.argv[1:])' -- -o x
    [ "$output" = "['--', '-o', 'x']" ]
}

# --- streams ---

@test "standard output is the program's alone, standard error gets one line more" {
    run -0 --separate-stderr record -- "$PYTHON" -c '
import sys, time
print("to output")
print("to error", file=sys.stderr)
time.sleep(0.3)'
    [ "$output" = "to output" ]
    [ "${#stderr_lines[@]}" = 2 ]
    [ "${stderr_lines[0]}" = "to error" ]
    [[ ${stderr_lines[1]} =~ $end_line ]]
}

@test "standard input is the program's" {
    run -0 --separate-stderr record -q -- "$PYTHON" -c 'print(input()[::-1])' <<< abc
    [ "$output" = cba ]
}

@test "-q is silent" {
    run -3 --separate-stderr record -q -- "$PYTHON" -c '
import sys
print("to error", file=sys.stderr)
sys.exit(3)'
    [ -z "$output" ]
    [ "$stderr" = "to error" ]
    run -0 --separate-stderr record -q --freq=100k -- "$PYTHON" -c pass
    [ -z "$output$stderr" ]
}

@test "the number of samples is the one that the file has" {
    run -0 --separate-stderr record -F 200 -- "$PYTHON" -c 'import time; time.sleep(0.5)'
    echo "$stderr" > messages
    local told
    told=$(samples_told messages)
    [ "$told" -gt 10 ]
    run -0 "$PYSTACK" script --format=collapsed
    [ "$(awk '{ n += $NF } END { print n }' <<< "$output")" = "$told" ]
    run -0 "$PYSTACK" report
    grep -q "^# samples: $told of 1 thread, 0 lost, " <<< "$output"
}

# --- the surroundings of the program ---

@test "the program's environment is as it was" {
    # The shell sets "_" to what it runs.
    local list='import os; print(*sorted(e for e in os.environ.items() if e[0] != "_"), sep="\n")'
    "$PYTHON" -c "$list" > before
    record -q -- "$PYTHON" -c "$list" > after
    diff before after
}

@test "the program has the descriptors it would have had" {
    local list='import os; print([f for f in os.listdir("/proc/self/fd")])'
    "$PYTHON" -c "$list" > before
    record -q -- "$PYTHON" -c "$list" > after
    diff before after
}

@test "the program sees no child of ours and gets no signal" {
    run -0 record -q -- "$PYTHON" -c '
import os, signal, time
got = []
signal.signal(signal.SIGCHLD, lambda *a: got.append(a))
time.sleep(0.3)
try:
    os.waitpid(-1, os.WNOHANG)
    print("a child")
except ChildProcessError:
    print("none", got)'
    [ "$output" = "none []" ]
}

@test "a preload library at a path with a blank is found all the same" {
    mkdir "a folder"
    cp "$PYSTACK_PRELOAD" "a folder/pystack-preload.so"
    export PYSTACK_PRELOAD="$PWD/a folder/pystack-preload.so"
    run -0 --separate-stderr record -- "$PYTHON" -c 'import time; time.sleep(0.3)'
    [[ $stderr =~ $end_line ]]
    [[ $stderr == *" 1 process, "* ]]
}

@test "without the preload library nothing is started" {
    export PYSTACK_PRELOAD=$PWD/nothing.so
    run -125 --separate-stderr record -- touch started
    [[ $stderr == "pystack: record: cannot find pystack-preload.so "* ]]
    [ ! -e started ]
}

@test "no folder stays in TMPDIR" {
    mkdir tmp
    TMPDIR=$PWD/tmp
    # A socket's path has little room.
    [ ${#TMPDIR} -le 60 ] || skip "the path of the test's folder is too long"
    export TMPDIR
    run -0 record -q -- "$PYTHON" -c 'import os; print(len(os.listdir(os.environ["TMPDIR"])))'
    [ "$output" = 1 ]
    [ -z "$(ls -A tmp)" ]
}

# --- commands that cannot be run ---

@test "a command that is not found: 127" {
    run -127 --separate-stderr record no-such-command
    [ -z "$output" ]
    [ "$stderr" = "pystack: record: no-such-command: not found" ]
    run -127 --separate-stderr record ./no/such/command
    [ ! -e pystack.data ]
}

@test "a command that cannot be executed: 126" {
    touch file
    run -126 --separate-stderr record ./file
    [ "$stderr" = "pystack: record: ./file: Permission denied" ]
    run -126 --separate-stderr record /
    [ "$stderr" = "pystack: record: /: Permission denied" ]
    [ ! -e pystack.data ]
}

@test "a script without its interpreter: what to type" {
    touch app.py
    run -127 --separate-stderr record app.py
    [ "$stderr" = "pystack: record: app.py: not found; try: pystack record -- python3 app.py" ]
    run -126 --separate-stderr record ./app.py
    [[ $stderr == *"; try: pystack record -- python3 ./app.py" ]]
    # Not where there is no such file.
    run -127 --separate-stderr record other.py
    [ "$stderr" = "pystack: record: other.py: not found" ]
}

@test "neither a command nor a process, or both: 129" {
    run -129 --separate-stderr record
    [ -z "$output" ]
    [[ $stderr == *"nothing to record: give a command (pystack record -- python3 app.py) or -p PID"* ]]
    run -129 --separate-stderr record -p $$ true
    [[ $stderr == *"give either -p PID or a command"* ]]
    [ ! -e pystack.data ]
}

# --- the file ---

@test "the file of before is kept as .old, one generation" {
    record -q -- "$PYTHON" -c 'pass # one'
    [ ! -e pystack.data.old ]
    record -q -- "$PYTHON" -c 'pass # two'
    record -q -- "$PYTHON" -c 'pass # three'
    "$PYSTACK" report | grep -q '# three$'
    "$PYSTACK" report -i pystack.data.old | grep -q '# two$'
    [ "$(ls)" = "pystack.data
pystack.data.old" ]
    ln -s nowhere other
    record -q -o other -- true
    [ "$(readlink other.old)" = nowhere ]
    echo foreign > third
    record -q -o third -- true
    [ "$(cat third.old)" = foreign ]
}

@test "slips do not cost the recording before them" {
    local how
    for how in "" --switch-output --overwrite; do
        # shellcheck disable=SC2086
        record -q $how -- "$PYTHON" -c 'import time; time.sleep(0.3) # good'
        # No Python comes from these: the second one replaces the first.
        run -0 record -q -- true
        run -0 record -q -- true
        [ "$(ls pystack.data*)" = "pystack.data
pystack.data.old" ] || [ "$how" = --switch-output ]
        "$PYSTACK" report | grep -q 'no Python process was recorded'
        [ "$how" = --switch-output ] || "$PYSTACK" report -i pystack.data.old | grep -q '# good$'
        rm pystack.data*
    done
}

@test "the file of a recorder at work is kept, though nothing is in it yet" {
    rm -f go
    start "$PYSTACK" record -q -- sh -c 'until [ -e go ]; do sleep 0.1; done; exec "$0" -c "import time; time.sleep(0.3) # late"' "$PYTHON"
    local first=$started_pid
    wait_until "$DEADLINE" test -e pystack.data
    record -q -- true
    touch go
    wait_for "$first"
    [ "$status" = 0 ]
    "$PYSTACK" report -i pystack.data.old | grep -q '# late$'
}

@test "only the owner can read the file" {
    umask 0
    record -q -- true
    [ "$(stat -c %a pystack.data)" = 600 ]
}

@test "the recording of a refused command replaces nothing" {
    record -q -- "$PYTHON" -c 'pass # kept'
    run -127 record no-such-command
    run -126 record /
    run -125 record -p "$(cat /proc/sys/kernel/pid_max)"
    run -129 record -F nonsense true
    [ "$(ls)" = pystack.data ]
    "$PYSTACK" report | grep -q '# kept$'
}

@test "standard output that is a terminal takes no recording" {
    requires script
    run on_terminal sh -c '"$0" record -o - -- touch started; echo "status $?"' "$PYSTACK"
    [ "${#lines[@]}" = 2 ]
    [[ ${lines[0]} == "pystack: record: standard output is a terminal, which takes no recording; "*"; see 'pystack record --help'" ]]
    [ "${lines[1]}" = 'status 129' ]
    [ ! -e started ]
}

@test "-o names a file, a folder is refused" {
    run -0 record -q -o named -- true
    [ "$(ls)" = named ]
    run -125 --separate-stderr record -o "$PWD" -- touch started
    [ "$stderr" = "pystack: record: $PWD: is a directory; name a file" ]
    run -125 --separate-stderr record -o no/such/folder/file -- touch started
    [ "$stderr" = "pystack: record: no/such/folder/file: cannot be written: No such file or directory" ]
    [ ! -e started ]
}

@test "a folder that cannot be written to: 125, and nothing is started" {
    requires nobody
    cd /
    run -125 --separate-stderr as_nobody "$PYSTACK" record -- touch "$BATS_TEST_TMPDIR/started"
    [ "$stderr" = "pystack: record: pystack.data: cannot be written: Permission denied" ]
    [ ! -e "$BATS_TEST_TMPDIR/started" ]
}

@test "another user without any rights can record a program of his" {
    requires nobody
    cd /
    run -4 --separate-stderr as_nobody "$PYSTACK" record -o /dev/null -- \
        "$PYTHON" -c 'import sys, time; time.sleep(0.2); sys.exit(4)'
    [[ $stderr =~ $end_line ]]
    [[ $stderr == *" 1 process, "* ]]
}

@test "without any rights children are found by looking for them" {
    requires nobody
    cd /
    run -0 --separate-stderr as_nobody "$PYSTACK" record -o /dev/null -- "$PYTHON" -c '
import os, sys, subprocess, time
if os.fork() == 0:
    time.sleep(0.5)
    os._exit(0)
subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)"], check=True)
os.wait()'
    [[ $stderr =~ $end_line ]]
    [[ $stderr == *" 3 processes, "* ]]
}

@test "-o - writes the recording to standard output" {
    record -q -o - -- "$PYTHON" -c 'import time; time.sleep(0.3)' > out
    [ "$(ls)" = out ]
    "$PYSTACK" report -i out -e wall | grep -q ' <module> *<string>:1$'
    record -q -o - -- "$PYTHON" -c 'import time; time.sleep(0.3)' |
        "$PYSTACK" report -i - -e wall | grep -q ' <module> *<string>:1$'
}

@test "a named pipe is written to as it is" {
    mkfifo pipe
    cat pipe > out 3>&- &
    record -q -o pipe -- "$PYTHON" -c 'import time; time.sleep(0.3)'
    wait $!
    [ -p pipe ]
    "$PYSTACK" report -i out -e wall | grep -q ' <module> *<string>:1$'
}

@test "for root, the file belongs to the user behind sudo" {
    requires root
    SUDO_UID=1234 SUDO_GID=4321 record -q -o both -- true
    [ "$(stat -c %u:%g:%a both)" = 1234:4321:600 ]
    SUDO_UID=1234 record -q -o user -- true
    [ "$(stat -c %u user)" = 1234 ]
    SUDO_UID=nonsense record -q -o none -- true
    [ "$(stat -c %u none)" = 0 ]
}

@test "a full disk: the program goes on, its status is ours, what was written is read" {
    requires tmpfs
    mkdir small
    # One page is left: the header fits, a recording does not.
    cat > in-small <<-'END'
	mount -t tmpfs -o size=16k tmpfs small && cd small
	head -c 12288 /dev/zero > fill
	"$PYSTACK" record -F 5000 --no-adaptive -o full.data -- "$PYTHON" "$1"
	echo "status $?"
	cp full.data ..
	END
    cat > app.py <<-'END'
	import os, random, sys, time
	def step(n):
	    if n:
	        step(n - 1) if random.random() < 0.5 else other(n - 1)
	    else:
	        time.sleep(0.0001)
	def other(n):
	    step(n)
	end = time.time() + 60
	while time.time() < end and not os.path.exists("../stop"):
	    step(random.randrange(60))
	print("went on", os.path.exists("../stop"))
	sys.exit(6)
	END
    export PYTHON
    start unshare -m bash in-small "$PWD/app.py" > out 2> err
    wait_until 50 grep -q 'No space left' err
    touch stop
    wait_for "$started_pid"
    [ "$(cat out)" = "went on True
status 6" ]
    grep -qx 'pystack: record: full.data: No space left on device; what was recorded until now is kept, the program goes on' err
    run -0 --separate-stderr "$PYSTACK" report -i full.data
    [[ $output == *"not closed: still being written, or cut off"* ]]
    # The end line tells what is in the file, and what is not.
    tells_what_is_written err full.data
    # Here the header alone fits.
    [ "$(samples_told err)" = 0 ]
    [[ $output == *"The file has no samples: it is still being written, or was cut off"* ]]
}

# Do the samples that the last line tells agree with the file, and is the rest told?
tells_what_is_written() { # messages file
    local told
    told=$(samples_told "$1")
    grep -Eq '^\[ pystack record: .* [0-9]+ ticks late, [1-9][0-9]* not written' "$1" &&
        [ "$told" = "$("$PYSTACK" script -i "$2" --format jsonl | "$PYTHON" -c '
import json, sys
print(sum(s["ticks"] for s in map(json.loads, sys.stdin) if s["type"] == "sample"))')" ]
}

@test "a disk that fills up: the samples that are told are those in the file" {
    requires tmpfs
    mkdir small
    cat > in-small <<-'END'
	mount -t tmpfs -o size=256k tmpfs small && cd small
	status=0
	"$PYSTACK" record "$@" -z 1 -F 2k --no-adaptive -o full.data || status=$?
	echo "status $status"
	cp full.data* ..
	END
    cat > app.py <<-'END'
	import os, random, time
	def step(n):
	    if n:
	        step(n - 1) if random.random() < 0.5 else other(n - 1)
	def other(n):
	    step(n)
	open("ready", "w").write("ready")
	end = time.time() + 60
	while time.time() < end and not os.path.exists("stop"):
	    step(random.randrange(60))
	END
    rm -f ready stop
    start "$PYTHON" app.py
    wait_until "$DEADLINE" test -s ready
    run -0 --separate-stderr unshare -m bash in-small -p "$started_pid"
    [ "$output" = "status 1" ]
    echo "$stderr" > err
    grep -q 'full.data: No space left on device; what was recorded until now is kept' err
    tells_what_is_written err full.data
    [ "$(samples_told err)" -gt 0 ]
    touch stop
}

@test "no room even for the header: 125, and nothing is started" {
    run -125 --separate-stderr record -o /dev/full -- touch started
    [ "$stderr" = "pystack: record: /dev/full: No space left on device" ]
    [ ! -e started ]
}

# --- values of options ---

@test "good values are taken" {
    local options
    while read -r options; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr record -q $options -- true
        [ -z "$stderr" ]
    done <<-'END'
	-F 100
	-F 49.5
	-F 1k
	-F 2kHz
	-F 97hz
	--freq=0.5
	--freq=50k --strict-freq
	-c 1000
	-c 10ms
	-c 500us
	--count=1s
	-d 10
	-d 1.5s
	-d 200ms
	-d 2m
	--duration=1h
	--max-stack=1
	--count=4294967295
	--max-stack=4096
	--max-threads=1
	--max-threads=8192
	--overhead-limit=0.01
	--overhead-limit=100
	--no-adaptive
	--adaptive
	-z 1
	-z 22
	-g
	--call-graph
	END
}

@test "bad values are refused, by the option's long name: 129" {
    local option value
    while read -r option value; do
        run -129 --separate-stderr record "--$option=$value" -- touch started
        [ -z "$output" ]
        [[ $stderr == "pystack: record: option --$option: '$value' is not a"*"; see 'pystack record --help'" ]]
    done <<-'END'
	freq 0
	freq -1
	freq abc
	freq 10x
	freq 0x10
	freq inf
	freq nan
	freq 1e99
	count 0
	count -5
	count abc
	count 10parsecs
	count 4294967296
	count 99999999999999999999
	duration 0
	duration -1
	duration abc
	duration 10y
	max-stack 0
	max-stack 4097
	max-stack 1.5
	max-stack x
	max-threads 0
	max-threads -1
	max-threads 8193
	max-threads abc
	max-threads 1.5
	overhead-limit 0
	overhead-limit 101
	overhead-limit -1
	overhead-limit 5x
	overhead-limit nan
	compression-level 0
	compression-level 23
	compression-level x
	warmup -1
	warmup nan
	warmup NaN
	warmup inf
	warmup infinity
	warmup 1e99
	warmup later
	warmup 10parsecs
	pid 0
	pid -1
	pid abc
	pid 99999999999
	END
    run -129 record --freq= -- touch started
    run -129 record --max-threads= -- touch started
    run -129 record --pid= -- touch started
    run -129 record --warmup= -- touch started
    [ ! -e started ]
}

@test "a word that is none of the option's is refused, and the words named: 129" {
    local value
    for value in "" slow FAST auto,fast 'auto|fast' 1; do
        run -129 --separate-stderr record "--copy=$value" -- touch started
        [ -z "$output" ]
        [ "$stderr" = "pystack: record: option --copy: '$value' is none of auto|fast|syscall; see 'pystack record --help'" ]
    done
    [ ! -e started ]
}

# What they are for: tests/python/takeover.bats.
@test "how a thread would copy is accepted where the sampler is a task" {
    local option
    for option in --copy=auto --copy=fast --copy=syscall --warmup=0 --warmup=0s \
        --warmup=1.5s --warmup=2m; do
        run -3 --separate-stderr record "$option" -- "$PYTHON" "$apps/known.py" 0.1 3
        [[ $stderr =~ $end_line ]]
    done
}

@test "a rate above the highest is lowered, or refused when strict" {
    run -0 --separate-stderr record -F 200k -- true
    [[ ${stderr_lines[0]} == "pystack: record: the rate is lowered to the highest, 50000 Hz"* ]]
    run -129 --separate-stderr record -F 200k --strict-freq -- touch started
    [[ $stderr == *"the highest rate is 50000 Hz"* ]]
    run -129 --separate-stderr record -c 1us --strict-freq -- touch started
    [ ! -e started ]
}

@test "a rate and an interval exclude each other" {
    run -129 --separate-stderr record -F 100 -c 10ms -- touch started
    [[ $stderr == *"options --freq and --count exclude each other"* ]]
    [ ! -e started ]
}

@test "a limit where the rate is held, or as high as can be, is refused" {
    local options
    while read -r options; do
        # shellcheck disable=SC2086
        run -129 --separate-stderr record $options -- touch started
        options=$(sed 's/=5//; s/ / and /' <<< "$options")
        [ "$stderr" = "pystack: record: options $options exclude each other; see 'pystack record --help'" ]
    done <<-'END'
	--freq=max --adaptive
	--freq=max --overhead-limit=5
	--no-adaptive --overhead-limit=5
	END
    run -129 record -F max --no-adaptive --overhead-limit=5 -- touch started
    run -129 record --overhead-limit=5 --adaptive --no-adaptive -- touch started
    [ ! -e started ]
    # The last one counts.
    run -0 record --overhead-limit=5 --no-adaptive --adaptive -- true
    run -0 record -F max --no-adaptive -- true
    run -0 record -F max --overhead-limit=5 -F 100 -- true
}

@test "-F max says what it does" {
    run -0 --separate-stderr record -F max -- "$PYTHON" -c 'import time; time.sleep(0.2)'
    [[ ${stderr_lines[0]} == "pystack: record: -F max keeps a core busy and disturbs programs that map memory often" ]]
    run -0 "$PYSTACK" report
    [[ $output == *", as fast as it went"* ]]
}

@test "the rate and the interval reach the file" {
    record -q -F 250 -- "$PYTHON" -c 'import time; time.sleep(0.1)'
    "$PYSTACK" report --header-only | grep -q ', 250 Hz'
    record -q -c 2ms -- "$PYTHON" -c 'import time; time.sleep(0.1)'
    "$PYSTACK" report --header-only | grep -q ', 500 Hz'
    # A bare number is in microseconds.
    record -q -c 5000 -- "$PYTHON" -c 'import time; time.sleep(0.1)'
    "$PYSTACK" report --header-only | grep -q ', 200 Hz'
}

one_sample() {
    record -c 200ms -- "$PYTHON" -c 'import time; time.sleep(0.25)' 2> messages
    grep -q '(1 sample, 1 process, 1 thread, ' messages
}

@test "of one there is no plural" {
    wait_until "$DEADLINE" one_sample
    ! grep -q '(1 samples' messages || false
}

@test "rates are written as people write them" {
    local rate
    for rate in 10000 12345 0.9; do
        run -0 --separate-stderr record -F "$rate" --no-adaptive -- "$PYTHON" -c \
            'import time; time.sleep(0.1)'
        "$PYSTACK" report --header-only | grep -q ", $rate Hz\$"
    done
    start_app busy.py
    start_attached "$started_pid" -F 10k -d 1
    grep -q ', at 10000 Hz; Ctrl-C ends it$' messages
    wait_for "$started_pid"
    touch stop
    run -0 "$PYSTACK" report --header-only
    [[ $output =~ ", 10000 Hz lowered to "[0-9.]+" Hz for the overhead limit" ]]
    run -0 "$PYSTACK" report --stats
    [[ $output =~ "# rate: 10000 Hz for "[0-9.]+" s; less, down to "[0-9.]+" Hz, for " ]]
    run -0 --separate-stderr record -c 1111111ms -- "$PYTHON" -c pass
    [[ $stderr == *", and ticks are 1111111 ms apart"* ]]
}

@test "the header tells the limit of the overhead, or that there is none" {
    local app='import time; time.sleep(0.1)'
    record -q -- "$PYTHON" -c "$app"
    "$PYSTACK" report --header-only | grep -qx "#   overhead-limit: 1% of the program's CPU"
    record -q --overhead-limit=0.05 -- "$PYTHON" -c "$app"
    "$PYSTACK" report --header-only | grep -qx "#   overhead-limit: 0.05% of the program's CPU"
    record -q --no-adaptive -- "$PYTHON" -c "$app"
    "$PYSTACK" report --header-only | grep -qx '#   overhead-limit: none (--no-adaptive)'
    record -q -F max -- "$PYTHON" -c "$app"
    "$PYSTACK" report --header-only | grep -qx '#   overhead-limit: none (-F max)'
}

@test "--max-stack keeps the leaf's side" {
    record -q -F 500 --max-stack=3 -- "$PYTHON" -c '
import time
def down(n):
    if n:
        down(n - 1)
    else:
        time.sleep(0.4)
down(40)'
    run -0 "$PYSTACK" script --format=collapsed
    grep -q '^\[truncated: [0-9]*+ frames\];down (<string>:5);down (<string>:5);down (<string>:7) [0-9]*$' <<< "$output"
}

@test "-d ends the recording of a program that was started, not the program" {
    run -5 --separate-stderr record -d 0.3 -- "$PYTHON" -c '
import sys, time
time.sleep(1)
print("went on")
sys.exit(5)'
    [ "$output" = "went on" ]
    [ "${stderr_lines[0]}" = "pystack: record: the time is up; the program goes on" ]
    [[ ${stderr_lines[1]} =~ $end_line ]]
    "$PYSTACK" report --header-only | grep -qx '#   end           : let go while it ran'
}

@test "-d lets an attached program go" {
    start_app busy.py
    run -0 --separate-stderr record -d 0.3 -p "$started_pid"
    [ -z "$output" ]
    [[ ${stderr_lines[0]} == "pystack: record: recording process $started_pid ("*"), CPython 3."*", at 100 Hz; Ctrl-C ends it" ]]
    [[ ${stderr_lines[1]} =~ $end_line ]]
    is_running "$started_pid"
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

# --- what is followed ---

@test "the Python below a shell is recorded, the shell's status is ours" {
    run -3 --separate-stderr record -- sh -c '"$0" -c "import time; time.sleep(0.3)"; exit 3' "$PYTHON"
    [[ $stderr == *" 1 process, "* ]]
    "$PYSTACK" report -e wall | grep -q "^# started process [0-9]*: $PYTHON -c import time"
}

@test "the Python behind env and the like is recorded" {
    run -0 --separate-stderr record -- env -u NOTHING A=b "$PYTHON" -c 'import time; time.sleep(0.2)'
    [[ $stderr == *" 1 process, "* ]]
    run -0 --separate-stderr record -- nice "$PYTHON" -c 'import time; time.sleep(0.2)'
    [[ $stderr == *" 1 process, "* ]]
}

@test "all Pythons below the command are recorded, with --no-inherit the first" {
    local two='
"$0" -c "import time; time.sleep(0.3) # first"
"$0" -c "import time; time.sleep(0.3) # second"'
    run -0 --separate-stderr record -- sh -c "$two" "$PYTHON"
    [[ ${stderr_lines[0]} == *" 2 processes, "* ]]
    "$PYSTACK" report | grep -q '# first$'
    "$PYSTACK" report | grep -q '# second$'
    run -0 --separate-stderr record --no-inherit -- sh -c "$two" "$PYTHON"
    [[ ${stderr_lines[0]} == *" 1 process, "* ]]
    "$PYSTACK" report | grep -q '# first$'
}

@test "children of the program are counted and named, the program's waits are undisturbed" {
    run -0 --separate-stderr record -- "$PYTHON" -c '
import subprocess, sys
for n in range(2):
    subprocess.run(["sleep", "1"], check=True)
subprocess.run(["/bin/sh", "-c", "sleep 1; true"], check=True)
print("done")'
    [ "$output" = "done" ]
    [ "${stderr_lines[1]}" = "pystack: record: 4 children not followed: without Python (sleep, sh)" ]
    run -0 --separate-stderr record -- "$PYTHON" -c '
import subprocess
subprocess.run(["sleep", "1"], check=True)'
    [ "${stderr_lines[1]}" = "pystack: record: 1 child not followed: without Python (sleep)" ]
}

@test "a long command line is cut with a mark" {
    start_app busy.py "$(printf 'x%.0s' {1..100})"
    start_attached "$started_pid" -d 0.1
    wait_for "$started_pid"
    grep -Eq "^pystack: record: recording process [0-9]+ \($PYTHON .*~\), CPython " messages
    touch stop
}

@test "a program that executes another is left there" {
    local execute='
import os, time
time.sleep(0.3)
os.execv("/bin/sh", ["sh", "-c", "sleep 0.3; exit 4"])'
    run -4 --separate-stderr record -- "$PYTHON" -c "$execute"
    [[ ${stderr_lines[0]} =~ $end_line ]]
    "$PYSTACK" report --header-only | grep -qx '#   end           : executed another program'
    run -4 --separate-stderr record --no-inherit -- "$PYTHON" -c "$execute"
    [[ ${stderr_lines[0]} == "pystack: record: process "*" executed another program (sh -c sleep 0.3; exit 4), which is not followed" ]]
    [[ ${stderr_lines[1]} =~ $end_line ]]
    "$PYSTACK" report --header-only | grep -qx '#   end           : executed another program'
}

@test "a command without any Python: no samples, and the reason" {
    run -0 --separate-stderr record -- sleep 0.1
    [ "${#stderr_lines[@]}" = 2 ]
    [[ ${stderr_lines[0]} =~ $end_line ]]
    [[ ${stderr_lines[1]} == "pystack: record: no samples: no Python process showed itself below 'sleep' within "*" ms" ]]
    run -0 --separate-stderr "$PYSTACK" report
    [[ $output == *"# The file has no samples: no Python process was recorded."* ]]
    [ -z "$stderr" ]
}

@test "a recording without samples says why, and can be opened" {
    # An interval of 100 s, and a program of 100 ms.
    run -0 --separate-stderr record -F 0.01 -- "$PYTHON" -c 'import time; time.sleep(0.1)'
    [[ ${stderr_lines[0]} =~ $end_line ]]
    [[ ${stderr_lines[0]} == *"(0 samples, 1 process, "* ]]
    [[ ${stderr_lines[1]} == "pystack: record: no samples: the program ran for "*" ms, and ticks are 100000 ms apart" ]]
    run -0 --separate-stderr "$PYSTACK" report
    [[ $output == *"# The file has no samples: the program ended before the first tick"* ]]
    [ -z "$stderr" ]
    run -0 --separate-stderr "$PYSTACK" script
    [ -z "$output$stderr" ]
    run -0 --separate-stderr "$PYSTACK" script --format=collapsed
    [ -z "$output$stderr" ]
}

@test "a Python before 3.8 is named in one line and runs on" {
    local version path found=0
    for version in 2.7 3.6 3.7; do
        for path in "$(pyenv root 2>/dev/null)/versions/$version".*/bin/python; do
            [ -x "$path" ] || continue
            found=1
            run -9 --separate-stderr record -- "$path" -c '
import sys, time
time.sleep(0.3)
sys.stdout.write("ran\n")
sys.exit(9)'
            [ "$output" = ran ]
            [[ ${stderr_lines[0]} == "pystack: record: process "*" runs CPython $version."*"; pystack samples CPython 3.8 to 3.15; it runs on unrecorded" ]]
            [[ ${stderr_lines[1]} =~ $end_line ]]
            [ "${#stderr_lines[@]}" = 2 ]

            start "$path" -c 'import time; time.sleep(60)'
            wait_until "$DEADLINE" grep -q "lib" "/proc/$started_pid/maps"
            wait_until "$DEADLINE" attach_is_refused_by_version "$started_pid"
            run -125 --separate-stderr record -p "$started_pid"
            [[ $stderr == "pystack: record: process $started_pid ("*") runs CPython $version."*"; pystack samples CPython 3.8 to 3.15" ]]
            is_running "$started_pid"
        done
    done
    [ $found = 1 ] || skip "no Python before 3.8 is here"
}

attach_is_refused_by_version() {
    "$PYSTACK" record -p "$1" 2>&1 | grep -q 'pystack samples CPython'
}

# --- attaching ---

@test "attached: messages on standard error, status 0, also when the program ends" {
    start_app busy.py 5
    local program=$started_pid
    start_attached "$program" > out
    wait_until "$DEADLINE" has_samples
    touch stop
    wait_for "$program"
    [ "$status" = 5 ]
    wait_for "$started_pid"
    [ "$status" = 0 ]
    [ ! -s out ]
    [ "$(wc -l < messages)" = 2 ]
    [[ $(tail -n 1 messages) =~ $end_line ]]
    "$PYSTACK" report --header-only | grep -q "^# attached to process $program: "
}

@test "an attached recording leaves nothing in the program" {
    start_app busy.py
    local pid=$started_pid
    # What Python itself maps while it runs must have come to rest.
    record -q -d 0.2 -p "$pid"
    cut -d' ' -f1,2,6- "/proc/$pid/maps" > maps
    ls "/proc/$pid/fd" "/proc/$pid/task" > rest
    grep -e SigPnd -e SigBlk -e SigIgn -e SigCgt -e Seccomp -e NoNewPrivs -e Cap "/proc/$pid/status" >> rest
    record -q -d 0.3 -p "$pid"
    cut -d' ' -f1,2,6- "/proc/$pid/maps" | diff maps -
    (
        ls "/proc/$pid/fd" "/proc/$pid/task"
        grep -e SigPnd -e SigBlk -e SigIgn -e SigCgt -e Seccomp -e NoNewPrivs -e Cap "/proc/$pid/status"
    ) | diff rest -
    [ -z "$(ps -o pid= --ppid "$pid")" ]
    touch stop
}

@test "the program can be attached to again and again" {
    local n
    start_app busy.py
    for n in 1 2 3 4 5 6 7 8; do
        run -0 --separate-stderr record -F 1000 -d 0.05 -p "$started_pid"
        [[ ${stderr_lines[1]} =~ $end_line ]]
    done
    is_running "$started_pid"
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "a second recording of the same process is refused" {
    start_app busy.py
    local program=$started_pid
    start_attached "$program" -o first
    run -125 --separate-stderr record -o second -p "$program"
    [[ $stderr == "pystack: record: cannot record process $program: it is already being recorded (by process $started_pid, sampler task "*")" ]]
    [ ! -e second ]
    kill -INT "$started_pid"
    wait_for "$started_pid"
    [ "$status" = 0 ]
    touch stop
}

@test "a process that is not there: 125" {
    local none
    none=$(cat /proc/sys/kernel/pid_max)
    run -125 --separate-stderr record -p "$none"
    [ "$stderr" = "pystack: record: cannot record process $none: there is no such process" ]
}

@test "its own process: 129" {
    run -129 --separate-stderr sh -c 'exec "$PYSTACK" record -p $$'
    [[ $stderr == *"pystack cannot record itself"* ]]
}

@test "a process that is not Python is named: 125" {
    start sleep 1000
    wait_until "$DEADLINE" grep -q sleep "/proc/$started_pid/comm"
    run -125 --separate-stderr record -p "$started_pid"
    [ "$stderr" = "pystack: record: process $started_pid (sleep 1000) is not a Python process" ]
}

@test "of a shell whose child is Python the child is named: 125" {
    export PYTHON apps
    start sh -c '"$PYTHON" "$apps/busy.py"; true'
    wait_until "$DEADLINE" test -s ready
    run -125 --separate-stderr record -i -p "$started_pid"
    [[ $stderr == "pystack: record: process $started_pid (sh -c "*") is not a Python process; below it, process $(cat ready) runs CPython 3."*": try -p $(cat ready)" ]]
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "the number of a thread: the process is named: 125" {
    start "$PYTHON" -c 'import os, threading, time
def say():
    with open("tid", "w") as f: f.write(str(threading.get_native_id()))
    os.rename("tid", "ready")
    while not os.path.exists("stop"): time.sleep(0.02)
t = threading.Thread(target=say); t.start(); t.join()'
    wait_until "$DEADLINE" test -s ready
    run -125 --separate-stderr record -p "$(cat ready)"
    [ "$stderr" = "pystack: record: cannot record process $(cat ready): it is a thread of process $started_pid; try -p $started_pid" ]
    touch stop
    wait_for "$started_pid"
}

@test "a stopped process is refused, with what would help" {
    start_app busy.py
    kill -STOP "$started_pid"
    wait_until "$DEADLINE" grep -q '^State:.*T' "/proc/$started_pid/status"
    run -125 --separate-stderr record -p "$started_pid"
    [ "$stderr" = "pystack: record: cannot record process $started_pid: it is stopped; let it go on first: kill -CONT $started_pid" ]
    kill -CONT "$started_pid"
    run -0 record -q -d 0.1 -p "$started_pid"
    touch stop
    wait_for "$started_pid"
    [ "$status" = 0 ]
}

@test "a traced process is refused, its tracer named" {
    requires strace
    start_app busy.py
    local program=$started_pid
    start strace -q -o /dev/null -p "$program"
    wait_until "$DEADLINE" grep -q "^TracerPid:[[:space:]]*$started_pid$" "/proc/$program/status"
    run -125 --separate-stderr record -p "$program"
    [[ $stderr == "pystack: record: cannot record process $program: it is already traced by process $started_pid (strace "*")" ]]
    touch stop
}

@test "another user's process: 125, and the command that would help" {
    requires root nobody
    start_app busy.py
    cd /
    run -125 --separate-stderr as_nobody "$PYSTACK" record -o /dev/null -p "$started_pid"
    [ "$stderr" = "pystack: record: cannot record process $started_pid: not permitted; try: sudo pystack record -p $started_pid" ]
    is_running "$started_pid"
    touch "$BATS_TEST_TMPDIR/stop"
    wait_for "$started_pid"
    [ "$status" = 0 ]
}
