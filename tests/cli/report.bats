# SPDX-License-Identifier: Apache-2.0
# pystack report: what it prints, from a recording whose parts are known, and what it
# does with files that are none.
load helpers

setup_file() {
    make_recording
}

report() {
    "$PYSTACK" report "$@"
}

# The rows of a table: those without "#".
rows() {
    grep -v '^#'
}

# The sum of the percentages in a column of a table.
sum_of_column() { # number
    rows | awk -v c="$1" '{ sub("%", "", $c); n += $c } END { printf "%.2f\n", n }'
}

# --- what was recorded ---

@test "the first lines tell what was recorded" {
    local told
    told=$(samples_told "$BATS_FILE_TMPDIR/messages")
    run -0 --separate-stderr report -i "$recording"
    [ -z "$stderr" ]
    [ "${lines[0]}" = "# $recording: format 1.0" ]
    [[ ${lines[1]} =~ ^"# started process "[0-9]+": $PYTHON $apps/known.py 0.6 3"$ ]]
    [[ ${lines[2]} =~ ^"#   CPython 3."[0-9]+\.[^,]+", 20"[0-9][0-9]-[0-9-]+" "[0-9:]+" UTC, "[0-9.]+" s, 500 Hz"$ ]]
    grep -q "^# samples: $told of [23] threads, [0-9]* lost, [0-9]* approximate ([0-9.]*%)\(, [0-9]* [a-z]*\)*, [0-9]* of [0-9]* ticks late\(, [0-9]* missed\)\{0,1\}$" <<< "$output"
    grep -q '^# cpu: [0-9.]* s running; waiting were [0-9.]*% of [0-9.]* s thread time (--event=wall shows them)$' <<< "$output"
}

@test "--header tells more, --header-only nothing else" {
    run -0 report -i "$recording" --header
    for word in host kernel exe isolation max-stack pystack; do
        grep -q "^#   $word *: ." <<< "$output"
    done
    grep -qx '#   end           : exited with status 3' <<< "$output"
    [ -n "$(rows <<< "$output")" ]
    run -0 report -i "$recording" --header-only
    grep -qx '#   end           : exited with status 3' <<< "$output"
    run -1 rows <<< "$output"
}

@test "--no-header leaves all but the titles of the columns" {
    run -0 report -i "$recording" --no-header
    [[ ${lines[1]} == "# Children    Self    Samples  Function "* ]]
    [ -z "$(grep -e samples: -e process -e CPython <<< "$output")" ]
}

@test "--stats prints the account of the sampler, and no profile" {
    run -0 report -i "$recording" --stats
    [[ ${lines[0]} =~ ^"# process "[0-9]+": exited with status 3"$ ]]
    local word
    for word in ticks samples late missed approximate lost walks 'sampler-cpu (ns)'; do
        grep -q "^ *[0-9]*  $word$" <<< "$output"
    done
    # What the process has of late ticks and missed ones its first thread has too, and it
    # ran, was ready to run or was blocked for as long as it lived, but for what was before
    # its first account.
    "$PYTHON" -c '
import sys
lines = sys.argv[1].splitlines()
counters = {l.split()[1]: int(l.split()[0]) for l in lines if l[:16].strip().isdigit()
            and len(l.split()) == 2}
titles = next(l for l in lines if l.startswith("#     tid"))
names = [n.strip() for n in titles.lstrip("# ").replace("on cpu", "on-cpu").replace(", s", "").split()]
row = dict(zip(names, next(l for l in lines if l.endswith("  MainThread")).split()))
assert int(row["late"]) <= counters["late"] and int(row["miss"]) <= counters["missed"], row
assert counters["missed"] - int(row["miss"]) <= 3, (row, counters)
took = sum(float(row[n]) for n in ("cpu", "delay", "blocked"))
missed = counters["missed"] * 0.002
assert abs(took - float(row["wall"]) - missed) < 0.05 + 0.1 * missed, (row, took, missed)
assert float(row["park"]) == 0' "$output"
    grep -q "^ *$(samples_told "$BATS_FILE_TMPDIR/messages")  samples read$" <<< "$output"
    grep -q "^ *$(stat -c %s "$recording")  bytes read$" <<< "$output"
    [ -z "$(grep hot <<< "$output")" ]
}

# Lines of it, without the padding of numbers.
stats_of() { # file
    "$PYSTACK" report -i "$1" --stats | sed 's/^ *//'
}

@test "--stats says of a thread how it read memory, and who took its handlers" {
    "$TOP_BUILDDIR/tests/cli/write-thread" thread.data
    LC_ALL=C.UTF-8 stats_of thread.data > stats
    sed -n '/^# process 101/,/^# process 102/p' stats > first
    sed -n '/^# process 102/,/^# process 103/p' stats > second
    sed -n '/^# process 103/,$p' stats > third
    grep -qxF "# isolation: thread" first
    grep -qxF "# copies: syscall; asked for: fast; works: pwritev, process_vm_readv" first
    grep -qxF "# copies: fast ones were given up" first
    grep -qxF $'# SIGSEGV: taken over by /tmp/\ufffd\ufffd[31m"red"\\\ufffd.so (0x7f0000001234)' first
    grep -qxF "# SIGBUS: taken over by SIG_DFL" first
    grep -qxF "1000  copies" first
    grep -qxF "256000  copied" first
    grep -qxF "10  copy-errors" first
    grep -qxF "0  timer-lost" first
    # Of a task there is nothing to say.
    [ -z "$(grep -E 'isolation|cop(y|ies)|timer|SIG' second)" ]
    grep -qxF "# copies: syscall; asked for: syscall (fast ones are turned off); works: process_vm_readv" third
    [ -z "$(grep -E '^# SIG|given up' third)" ]
}

@test "--stats says that fast copies wait for the interpreter" {
    "$TOP_BUILDDIR/tests/cli/write-thread" thread.data waits
    stats_of thread.data | grep -qxF "# copies: syscall until the interpreter is up; asked for: fast; works: pwritev, process_vm_readv"
    "$PYSTACK" script -i thread.data --format=jsonl | grep -q '"warmup_left_ns":90000000,'
}

@test "--stats of a task has no line on copies" {
    run -0 report -i "$recording" --stats
    [ -z "$(grep -E 'isolation|cop(y|ies)|timer' <<< "$output")" ]
}

@test "a long command line is cut, --header shows all of it" {
    local long
    long=$(printf 'word %.0s' {1..80})
    "$PYSTACK" record -q -o long -- "$PYTHON" -c 'pass' "$long" end
    run -0 report -i long
    [[ ${lines[1]} == "# started process "*": "*" -c pass word word "*"~" ]]
    [ "$(sed 's/^# started process [0-9]*: //' <<< "${lines[1]}" | wc -m)" -eq 241 ]
    run -0 report -i long --header
    [[ ${lines[1]} == "# started process "*": "*" -c pass word word "*" end" ]]
}

@test "that threads were ready and had no CPU is said" {
    local cpu others=()
    command -v taskset > /dev/null || skip "taskset is not here"
    cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
    for _ in 1 2 3; do
        taskset -c "$cpu" "$PYTHON" -c 'while True: pass' 3>&- &
        others+=($!)
    done
    run "$PYSTACK" record -q -o beside -- taskset -c "$cpu" "$PYTHON" -c '
import time
end = time.process_time() + 0.3
while time.process_time() < end:
    pass'
    kill "${others[@]}"
    wait "${others[@]}" || true
    [ "$status" -eq 0 ]
    run -0 report -i beside
    grep -qE '^# cpu: [0-9.]+ s more in which threads were ready and no CPU was free: ' <<< "$output"
    grep -qx '# cpu: recorded with -e cpu-timer they would not' <<< "$output"
    run -0 report -i beside -e wall
    [[ $output != *" no CPU was free"* ]]
}

@test "--stats says how long a program was held, at its start and behind a fork" {
    cat > forks.py <<-'END'
	import os, time
	child = os.fork()
	end = time.process_time() + 0.1
	while time.process_time() < end:
	    pass
	if child:
	    os.waitpid(child, 0)
	END
    "$PYSTACK" record -q -F 300 -o forks -- "$PYTHON" forks.py
    stats_of forks > stats
    [ "$(grep -c '^# process' stats)" = 2 ]
    # Two clones take more than 1 us, and less than all of it.
    [ "$(awk '$2 == "held" && $3 == "(ns)" && $1 > 1000 && $1 < 1e10' stats | wc -l)" = 2 ]
    "$PYSTACK" script -i forks --format=jsonl | grep '"type":"stats"' > ends
    [ "$(grep -c '"held":[1-9]' ends)" = 2 ]
    # Nothing is said where nobody knows.
    "$TOP_BUILDDIR/tests/cli/write-thread" thread.data
    [ -z "$(stats_of thread.data | grep held)" ]
}

@test "functions that look alike are one row" {
    cat > alike.py <<-'END'
	import time
	pair = [lambda end: spin(end), lambda end: [spin(end)]]
	def spin(end):
	    while time.process_time() < end:
	        pass
	for i, f in enumerate(pair):
	    f(0.2 * (i + 1))
	for i in (1, 2):
	    exec(compile("x = %d\n%sspin(%f)" % (i, i * "\n", 0.4 + 0.2 * i), "made", "exec"))
	END
    "$PYSTACK" record -q -F 300 -o alike -- "$PYTHON" alike.py
    run -0 report -i alike
    [ "$(grep -c '  <lambda>  *[^ ]*alike\.py:2$' <<< "$output")" = 1 ]
    [ "$(grep -c '  <module>  *made:1$' <<< "$output")" = 1 ]
    run -0 report -i alike -g
    [ "$(grep -c ' <lambda>  [^ ]*alike\.py:2$' <<< "$output")" = 1 ]
    # Their lines differ.
    run -0 report -i alike -s srcline
    [ "$(grep -c '  [^ ]*alike\.py:2$' <<< "$output")" = 1 ]
    [ "$(grep -c '  made:[34]$' <<< "$output")" = 2 ]
}

@test "what became of CPU timers is said" {
    "$TOP_BUILDDIR/tests/cli/write-thread" thread.data
    run -0 report -i thread.data -e cpu-timer
    grep -qE '^# cpu-timer: of process 103 none from 0\.040 s on: the program took SIGURG \(its handler is in /tmp/.*"red".*\.so\)$' <<< "$output"
    grep -qx '# cpu-timer: 2 threads of process 103 had none: SIGURG was blocked' <<< "$output"
    [ -z "$(grep -a $'\e' <<< "$output")" ]
    stats_of thread.data > stats
    grep -qE '^# CPU timers: none from 0\.040 s on: the program took SIGURG .*; 2 threads had none, as they block SIGURG$' stats
    [ "$(grep -c 'CPU timers' stats)" = 1 ]
}

# --- the table ---

@test "the table has the functions of the program, the heaviest first" {
    run -0 report -i "$recording"
    # Names are qualified from CPython 3.11 on.
    grep -q '^ *[0-9.]*% *[0-9.]*% *[0-9]*  \(Box\.\)\{0,1\}outer  *.*known\.py:[0-9]*$' <<< "$output"
    local order
    order=$(rows <<< "$output" | awk '$5 ~ /known\.py/ && $4 ~ /^(main|hot|warm)$/ { print $4 }')
    [ "$order" = "main
hot
warm" ]
    rows <<< "$output" | awk '{ sub("%", "", $1); print $1 }' > shares
    sort -rn shares | diff shares -
}

@test "the Self column adds up to all, under every key" {
    local key
    for key in symbol file srcline thread tid pid comm state sym dso \
        thread,symbol pid,tid,state comm,file,srcline; do
        report -i "$recording" -s $key --percent-limit=0 > table
        close_to "$(sum_of_column 2 < table)" 100 0.5
        report -i "$recording" -s $key --percent-limit=0 --no-children -e wall > table
        close_to "$(sum_of_column 1 < table)" 100 0.5
    done
}

@test "Children is never less than Self, nor more than all" {
    report -i "$recording" --percent-limit=0 | rows |
        awk '{ sub("%", "", $1); sub("%", "", $2); if ($1 + 0 < $2 + 0 || $1 + 0 > 100) exit 1 }'
}

@test "--no-children leaves the column out and sorts by Self" {
    run -0 report -i "$recording" --no-children
    [ -z "$(grep Children <<< "$output")" ]
    [[ $(rows <<< "$output" | head -n 1) == *" spin "* ]]
    rows <<< "$output" | awk '{ sub("%", "", $1); print $1 }' > shares
    sort -rn shares | diff shares -
}

@test "keys choose the rows" {
    run -0 report -i "$recording" -s thread -e wall --no-children
    [[ $(rows <<< "$output" | grep -c 'the idle waiter') == 1 ]]
    [[ $output == *MainThread* ]]
    run -0 report -i "$recording" -s pid
    [ "$(rows <<< "$output" | awk '{ print $4 }')" = "$(sed -n 's/^# started process \([0-9]*\).*/\1/p' <<< "$output")" ]
    run -0 report -i "$recording" -s comm
    [ "$(rows <<< "$output" | awk '{ print $4 }')" = "$(basename "$PYTHON")" ]
    run -0 report -i "$recording" -s state -e wall
    [[ $output == *"  waiting"* ]]
    [[ $output == *"  running+gil"* ]]
    run -0 report -i "$recording" -s srcline
    [[ $output == *"known.py:$(grep -n ' hot(seconds / 8)' "$apps/known.py" | cut -d: -f1)"* ]]
    run -0 report -i "$recording" -s file,symbol
    [[ $(grep Function <<< "$output") == *"File "*"Function "*"File:Line" ]]
}

@test "--percent-limit leaves rows out, and tells how many" {
    local all shown
    all=$(report -i "$recording" --percent-limit=0 | rows | wc -l)
    run -0 report -i "$recording" --percent-limit=20
    rows <<< "$output" | awk '{ sub("%", "", $1); if ($1 + 0 < 20) exit 1 }'
    shown=$(rows <<< "$output" | wc -l)
    [ "$shown" -lt "$all" ]
    [[ ${lines[-1]} =~ ^"# $((all - shown)) more row"s?", "([0-9.]+)"% self"$ ]]
    close_to "$(sum_of_column 2 <<< "$output")" "$(awk -v n="${BASH_REMATCH[1]}" 'BEGIN { print 100 - n }')" 0.5
}

@test "-n prints so many rows, 0 all of them" {
    local n
    for n in 1 3; do
        run -0 report -i "$recording" -n $n
        [ "$(rows <<< "$output" | wc -l)" = $n ]
        [[ ${lines[-1]} == "# "*" more row"* ]]
    done
    diff <(report -i "$recording") <(report -i "$recording" --limit=0)
}

@test "events: wall is all threads' time, cpu and gil are parts of it" {
    local wall cpu gil span missed
    run -0 report -i "$recording" -e wall
    wall=$(sed -n 's/^# wall: \([0-9.]*\) s of all threads together, running or waiting$/\1/p' <<< "$output")
    # Two threads for nearly all of the time.
    span=$(sed -n 's/^#   CPython .*, \([0-9.]*\) s, 500 Hz.*/\1/p' <<< "$output")
    missed=$(sed -n 's/^#   \([0-9.]*\) s missed, .*/\1/p' <<< "$output")
    awk -v wall="$wall" -v span="$span" -v missed="${missed:-0}" \
        'BEGIN { exit !(wall > span - missed && wall < 2.1 * span) }'
    [[ $output == *"  wait "* ]]
    run -0 report -i "$recording" -e cpu
    cpu=$(sed -n 's/^# cpu: \([0-9.]*\) s running.*/\1/p' <<< "$output")
    run -0 report -i "$recording" -e gil
    gil=$(sed -n 's/^# gil: \([0-9.]*\) s in which a thread held the global interpreter lock$/\1/p' <<< "$output")
    # The program computes for 0.6 s of CPU time.
    awk -v cpu="$cpu" 'BEGIN { exit !(cpu >= 0.55) }'
    awk -v a="$cpu" -v b="$gil" -v wall="$wall" 'BEGIN { exit !(a < wall && b > 0 && b < wall) }'
    # Who waits has none of either.
    [ -z "$(grep '  wait ' <<< "$output")" ]
}

@test "a recording without a moment of an event says so" {
    "$PYSTACK" record -q -F 300 -o idle -- "$PYTHON" -c 'import time; time.sleep(0.3)'
    run -0 report -i idle -e gil
    # The start of Python may have been seen with the lock.
    [[ $output == *"# No sample has any gil time; --event=wall shows all "*" samples."* ]] ||
        [ -n "$(rows <<< "$output")" ]
}

@test "names of files are shortened from the left, --full-paths leaves them" {
    run -0 report -i "$recording" --full-paths
    [[ $output == *"  $apps/known.py:"* ]]
    [ ${#apps} -gt 25 ] || skip "the path of the tests is short"
    run -0 report -i "$recording"
    [ -z "$(rows <<< "$output" | grep -F "$apps/known.py")" ]
    [[ $output == *known.py:* ]]
}

@test "names are cut to the width, with a mark" {
    COLUMNS=80 run -0 report -i "$recording" -s thread,symbol -e wall
    [[ $output == *"~ "* ]]
    COLUMNS=200 run -0 report -i "$recording" -s thread,symbol -e wall
    [ -z "$(rows <<< "$output" | grep '~ ')" ]
    # What is no width is as if it were not there.
    diff <(COLUMNS=nonsense report -i "$recording") <(report -i "$recording")
}

# --- the tree ---

@test "-g prints the tree of calls, whose sums hold" {
    run -0 report -i "$recording" -g --percent-limit=0
    grep -q '^# *Total  *Self  Call tree$' <<< "$output"
    rows <<< "$output" > tree
    # Each branch is itself and the branches below it.
    run -0 "$PYTHON" - tree <<-'END'
	import re, sys
	stack, sums, roots = [], {}, 0.0
	rows = []
	for line in open(sys.argv[1], encoding="utf-8"):
	    total, own, blanks, depth, name = re.match(
	        r" *([\d.]+)% +([\d.]+)%  ( *)(?:\[(\d+)\] )?(.*)", line).groups()
	    level = int(depth) if depth else len(blanks) // 2
	    rows.append([level, float(total), float(own), 0.0, 0, name])
	for i, row in enumerate(rows):
	    for above in reversed(rows[:i]):
	        if above[0] == row[0] - 1:
	            above[3] += row[1]
	            above[4] += 1
	            break
	for level, total, own, below, count, name in rows:
	    assert abs(total - own - below) <= 0.01 * (count + 2), (total, own, below, name)
	assert abs(sum(r[1] for r in rows if r[0] == 0) - 100) < 0.5
	END
}

@test "-g leaves out what is below half a percent, unless told otherwise" {
    report -i "$recording" -g | rows | awk '{ sub("%", "", $1); if ($1 + 0 < 0.5) exit 1 }'
    report -i "$recording" -g --percent-limit=30 | rows | awk '{ sub("%", "", $1); if ($1 + 0 < 30) exit 1 }'
    report -i "$recording" -g --percent-limit=30 | grep -q 'main'
}

# --- input ---

@test "- is standard input, pystack.data is read if nothing is named" {
    cp "$recording" pystack.data
    report | tail -n +2 > named
    report -i - < pystack.data | tail -n +2 | diff named -
}

@test "two recordings in one file add up" {
    local told
    cat "$recording" "$recording" > both
    told=$(samples_told "$BATS_FILE_TMPDIR/messages")
    run -0 --separate-stderr report -i both
    [ -z "$stderr" ]
    grep -q "^# samples: $((2 * told)) of " <<< "$output"
    [ "$(grep -c '^# started process' <<< "$output")" = 2 ]
}

@test "files that are none: status 1, and what they are" {
    run -1 --separate-stderr report
    [ -z "$output" ]
    [ "$stderr" = "pystack: report: pystack.data: No such file or directory (record first: pystack record -- python3 app.py)" ]
    run -1 --separate-stderr report -i other
    [ "$stderr" = "pystack: report: other: No such file or directory" ]
    run -1 --separate-stderr report -i .
    [ "$stderr" = "pystack: report: .: is a directory" ]
    : > empty
    run -1 --separate-stderr report -i empty
    [ "$stderr" = "pystack: report: empty: is empty" ]
    head -c 5000 /dev/urandom > random
    run -1 --separate-stderr report -i random
    [ "$stderr" = "pystack: report: random: is not a pystack sample file" ]
    echo "print('hello')" > app.py
    run -1 --separate-stderr report -i app.py
    [ "$stderr" = "pystack: report: app.py: is not a pystack sample file" ]
    run -1 --separate-stderr report -i - < /dev/null
    [ "$stderr" = "pystack: report: -: is empty" ]
    # -f does not make a file of them.
    run -1 report -f -i random
}

@test "a file cut at its end is shown whole, and said to be cut" {
    local size told
    size=$(stat -c %s "$recording")
    told=$(samples_told "$BATS_FILE_TMPDIR/messages")
    head -c $((size - 3)) "$recording" > cut
    run -1 --separate-stderr report -i cut
    [[ $stderr == "pystack: report: cut: read up to byte "*" only: chunk at byte "*": the file ends here" ]]
    [[ ${lines[0]} == "# cut: format 1.0, not closed: still being written, or cut off" ]]
    grep -q "^# samples: $told of " <<< "$output"
    run -0 --separate-stderr report -f -i cut
    [[ $stderr == *"read up to byte "* ]]
    grep -q "^# samples: $told of " <<< "$output"
}

@test "a file cut anywhere is shown as far as it goes" {
    local size told at last=0 seen
    size=$(stat -c %s "$recording")
    told=$(samples_told "$BATS_FILE_TMPDIR/messages")
    for ((at = 1; at < size; at += size / 40 + 1)); do
        head -c $at "$recording" > cut
        run --separate-stderr report -i cut
        [ "$status" = 1 ] || grep -q 'not closed' <<< "$output"
        [ "$status" -le 1 ]
        # Never fewer than from a shorter piece.
        seen=$(sed -n 's/^# samples: \([0-9]*\) of .*/\1/p' <<< "$output")
        [ "${seen:-0}" -ge "$last" ]
        [ "${seen:-0}" -le "$told" ]
        last=${seen:-0}
    done
    [ "$last" -gt 0 ]
}

@test "a file with a wrong byte is read up to it" {
    local size at
    size=$(stat -c %s "$recording")
    for at in $((size / 4)) $((size / 2)) $((size * 3 / 4)); do
        {
            head -c $at "$recording"
            head -c 1 <(tail -c +$((at + 1)) "$recording") | tr '\000-\377' '\001-\377\000'
            tail -c +$((at + 2)) "$recording"
        } > wrong
        [ "$(stat -c %s wrong)" = "$size" ]
        run -1 --separate-stderr report -i wrong
        [[ $stderr == "pystack: report: wrong: read up to byte "*" only: "* ]]
        run -0 report -f -i wrong
    done
}

@test "root is asked to mean it for another user's file" {
    requires root
    cp "$recording" theirs
    chown 1234 theirs
    run -1 --separate-stderr report -i theirs
    [ -z "$output" ]
    [ "$stderr" = "pystack: report: theirs: belongs to another user (1234); -f reads it all the same" ]
    run -0 report -f -i theirs
    SUDO_UID=1234 run -0 report -i theirs
    SUDO_UID=1235 run -1 report -i theirs
}

@test "bad values of options: 129" {
    local option value
    while read -r option value; do
        run -129 --separate-stderr report -i "$recording" "$option=$value"
        [ -z "$output" ]
        [[ $stderr == "pystack: report: option $option: "*"; see 'pystack report --help'" ]]
    done <<-END
	--event nonsense
	--event samples
	--sort nonsense
	--sort symbol,nonsense
	--percent-limit -1
	--percent-limit 101
	--percent-limit x
	--percent-limit nan
	--limit -1
	--limit x
	END
    run -129 report -i "$recording" --sort=
    run -129 report -i "$recording" -s symbol,file,srcline,thread,tid,pid,comm,state,interp,symbol
}

# --- output ---

@test "output that cannot be written: status 1" {
    run -1 --separate-stderr bash -c '"$PYSTACK" report -i "$recording" > /dev/full'
    [ "$stderr" = "pystack: report: cannot write to standard output: No space left on device" ]
    run -1 --separate-stderr bash -c '"$PYSTACK" report -i "$recording" >&-'
    [ "$stderr" = "pystack: report: cannot write to standard output: it is closed" ]
}

@test "a reader that goes away ends it without a word" {
    run -0 --separate-stderr bash -c '"$PYSTACK" report -i "$recording" | true; echo "${PIPESTATUS[0]}"'
    [ "$output" = 141 ] || [ "$output" = 0 ]
    [ -z "$stderr" ]
}

@test "control characters never come out, other characters do, in any locale" {
    local locale
    for locale in C C.UTF-8 POSIX; do
        LC_ALL=$locale COLUMNS=150 run -0 report -i "$recording"
        [[ $output == *"größe_数"* ]]
        [[ $output == *$'semi;colon\ufffd]0;title\ufffd'* ]]
        [[ $output == *$'/hard/\ufffd[31mred\ufffd;é.py:'* ]]
        LC_ALL=C run -1 grep -q '[[:cntrl:]]' <<< "$output"
    done
}

@test "on a terminal without UTF-8, characters beyond ASCII become question marks" {
    requires script
    export PYSTACK_PAGER=
    stty_wide='stty cols 150'
    LC_ALL=C run -0 on_terminal sh -c "$stty_wide; \"\$PYSTACK\" report -i \"\$recording\""
    [[ $output == *" gr??e_? "* ]] || [[ $output == *"gr"*"?"*"e_?"* ]]
    LC_ALL=C run -1 grep -q '[^ -~]' <<< "$output"
    LC_ALL=C.UTF-8 run -0 on_terminal sh -c "$stty_wide; \"\$PYSTACK\" report -i \"\$recording\""
    [[ $output == *"größe_数"* ]]
    LC_ALL=C run -1 grep -q '[[:cntrl:]]' <<< "$output"
}

@test "the pager is for terminals only" {
    requires script
    export PYSTACK_PAGER='sed s/^/paged:/' PAGER='sed s/^/other:/'
    run -0 report -i "$recording"
    [ -z "$(grep paged: <<< "$output")" ]
    run -0 on_terminal "$PYSTACK" report -i "$recording"
    [[ ${lines[0]} == "paged:# "* ]]
    unset PYSTACK_PAGER
    run -0 on_terminal "$PYSTACK" report -i "$recording"
    [[ ${lines[0]} == "other:# "* ]]
    export PYSTACK_PAGER=
    run -0 on_terminal "$PYSTACK" report -i "$recording"
    [[ ${lines[0]} == "# "* ]]
}
