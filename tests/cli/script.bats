# SPDX-License-Identifier: Apache-2.0
# pystack script: its formats, from a recording whose parts are known.
load helpers

setup_file() {
    make_recording
}

script() {
    "$PYSTACK" script "$@"
}

# The sum of the weights of collapsed stacks.
sum_of_weights() {
    awk '{ n += $NF } END { printf "%d\n", n }'
}

# A figure of report --stats in microseconds, from one in seconds.
microseconds_of() { # name
    "$PYSTACK" report -i "$recording" --stats |
        awk -v name="$1" 'substr($0, 19) == name { printf "%d\n", $1 * 1000000 }'
}

@test "text: entries of a line, a stack and an empty line" {
    script -i "$recording" | "$PYTHON" -c '
import re, sys
entry = re.compile(r"python[0-9.]* \d+/\d+ (MainThread|thread|the idle waiter)  \d+\.\d{6}:"
                   r"  (1 tick|\d+ ticks)  \d+\.\d{3} ms"
                   r"  (running|waiting)( gil)?( gil-wait)?( gc)?( starting| finalizing)?( approximate)?")
frame = re.compile(r"\t.+ \(.+?(:\d+)?\)|\t\[.+\]")
text = sys.stdin.read()
assert text.endswith("\n\n")
for part in text[:-2].split("\n\n"):
    first, *frames = part.split("\n")
    assert entry.fullmatch(first), first
    assert frames, first
    for line in frames:
        assert frame.fullmatch(line), line'
}

@test "text: the ticks are the samples" {
    run -0 --separate-stderr script -i "$recording"
    [ -z "$stderr" ]
    [ "$(sed -n 's/^[^	].*:  \([0-9]*\) ticks\{0,1\}  .*/\1/p' <<< "$output" |
        awk '{ n += $1 } END { print n }')" = "$(samples_told "$BATS_FILE_TMPDIR/messages")" ]
    diff <(script -i "$recording") <(script -i "$recording" --format=text)
}

@test "text: the line of each frame is the one that runs" {
    local call wait_line
    call=$(grep -n ' over.wait()' "$apps/known.py" | cut -d: -f1)
    script -i "$recording" | grep -qxF "	wait ($apps/known.py:$call)"
    wait_line=$(grep -n ' time.sleep(' "$apps/known.py" | cut -d: -f1)
    script -i "$recording" | grep -A 1 'MainThread .*  waiting' | grep -qxF "	main ($apps/known.py:$wait_line)"
}

@test "collapsed: the weights add up to the samples" {
    run -0 --separate-stderr script -i "$recording" --format=collapsed
    [ -z "$stderr" ]
    [ "$(sum_of_weights <<< "$output")" = "$(samples_told "$BATS_FILE_TMPDIR/messages")" ]
}

@test "collapsed: lines are stacks, root first, in order, each once" {
    script -i "$recording" --format=collapsed > stacks
    # A line ends in a number above 0, and is of frames with semicolons between them.
    run -1 grep -vE '^([^;]+ \([^;]+\)|\[[^;]*\])(;([^;]+ \([^;]+\)|\[[^;]*\]))* [1-9][0-9]*$' stacks
    LC_ALL=C sort -c <(sed 's/ [0-9]*$//' stacks)
    [ -z "$(sed 's/ [0-9]*$//' stacks | uniq -d)" ]
    grep -q '^<module> (.*known\.py:[0-9]*);main (.*);\(Box\.\)\{0,1\}outer (.*);hot (.*);spin (.*known\.py:[0-9]*) [0-9]*$' stacks
}

@test "collapsed is what the text adds up to" {
    script -i "$recording" | "$PYTHON" -c '
import re, sys
sums = {}
stack = []
for line in sys.stdin:
    line = line.rstrip("\n")
    if line.startswith("\t"):
        stack.append(line[1:].replace(";", ","))
    elif line == "":
        key = ";".join(reversed(stack))
        sums[key] = sums.get(key, 0) + ticks
    else:
        ticks = int(re.search(r":  (\d+) ticks?  ", line).group(1))
        stack = []
for key in sorted(sums, key=lambda k: k.encode()):
    print(key, sums[key])' > from-text
    script -i "$recording" --format=collapsed | diff from-text -
}

@test "collapsed: -e weighs by time, and adds up to the report's time" {
    local event name
    while read -r event name; do
        script -i "$recording" --format=collapsed -e "$event" | sum_of_weights > sum
        close_to "$(cat sum)" "$(microseconds_of "$name")" 1000
    done <<-END
	cpu cpu, s
	wall wall of all threads, s
	END
    # The lock's time is the main thread's, but for the moment in which the other one ends.
    script -i "$recording" --format=collapsed -e gil > gil
    [ "$(sum_of_weights < gil)" -gt 0 ]
    [ "$(grep ';wait ' gil | sum_of_weights)" -lt $(($(sum_of_weights < gil) / 20)) ]
}

@test "collapsed: what is at the leaves is the report's Self" {
    script -i "$recording" --format=collapsed -e wall |
        sed 's/^.*;//; s/ (.*) \([0-9]*\)$/ \1/' | grep -v '^\[' |
        awk '{ n = $NF; sub(/ [0-9]*$/, ""); sum[$0] += n; all += n }
            END { for (f in sum) if (100 * sum[f] / all >= 1) printf "%s %.1f\n", f, 100 * sum[f] / all }' |
        sort > leaves
    COLUMNS=1000 "$PYSTACK" report -i "$recording" -e wall --no-children --percent-limit=0 |
        grep -v '^#' | awk '{ n = $1; sub(/^ *[0-9.]*% *[0-9]*  /, ""); sub(/   *.*/, ""); sum[$0] += n }
            END { for (f in sum) if (sum[f] >= 1) printf "%s %.1f\n", f, sum[f] }' |
        sort > self
    paste -d' ' leaves self > both
    [ "$(wc -l < leaves)" = "$(wc -l < self)" ]
    awk '{ if ($1 != $3 || $2 - $4 > 0.11 || $4 - $2 > 0.11) exit 1 }' both
}

@test "collapsed: --per-thread puts process and thread in front" {
    local pid
    pid=$("$PYSTACK" report -i "$recording" | sed -n 's/^# started process \([0-9]*\).*/\1/p')
    run -0 script -i "$recording" --format=collapsed --per-thread
    [ "$(sum_of_weights <<< "$output")" = "$(samples_told "$BATS_FILE_TMPDIR/messages")" ]
    grep -q "^python3[0-9.]* $pid;MainThread $pid;<module> (.*known\.py:[0-9]*);main " <<< "$output"
    grep -q "^python3[0-9.]* $pid;the idle waiter [0-9]*;.*;wait (.*) [0-9]*$" <<< "$output"
    # Without the two frames it is what it is without the option.
    sed 's/^[^;]*;[^;]*;//; s/ \([0-9]*\)$/	\1/' <<< "$output" |
        awk -F'	' '{ sum[$1] += $2 } END { for (s in sum) print s " " sum[s] }' |
        LC_ALL=C sort > summed
    script -i "$recording" --format=collapsed | LC_ALL=C sort | diff summed -
}

@test "collapsed: semicolons in names are replaced" {
    run -0 script -i "$recording" --format=collapsed
    [[ $output == *$'main ('*$');semi,colon\ufffd]0,title\ufffd (/hard/\ufffd[31mred\ufffd,é.py:5);spin ('* ]]
}

@test "control characters never come out, other characters do, in any locale" {
    local format locale
    for format in text collapsed; do
        for locale in C C.UTF-8; do
            LC_ALL=$locale script -i "$recording" --format=$format > out
            grep -q 'größe_数 (/hard/' out
            LC_ALL=C run -1 grep -q '[^ -~	[:print:]-]' <(tr -d '\200-\377' < out)
            [ -z "$(LC_ALL=C tr -d '\t\n -~\200-\377' < out)" ]
        done
    done
}

# Each line by itself, as other programs read it; then what a check of all of them says.
jsonl_holds() { # file python
    local line
    while IFS= read -r line; do
        "$PYTHON" -m json.tool <<< "$line" > /dev/null || return 1
    done < "$1"
    "$PYTHON" -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
def of(kind):
    return [line for line in lines if line["type"] == kind]
exec(sys.argv[2])' "$1" "$2"
}

@test "jsonl: every line is an object; a header, segments, samples, stats, an end" {
    local samples
    samples=$(samples_told "$BATS_FILE_TMPDIR/messages")
    script -i "$recording" --format=jsonl > out
    jsonl_holds out "
kinds = [line['type'] for line in lines]
order = ['header', 'segment', 'sample', 'thread', 'stats', 'end']
mixed = [kind for kind in kinds if kind not in ('gap', 'rate')]
assert mixed == sorted(mixed, key=order.index) and kinds[2] == 'rate', kinds
assert kinds[-1 - len(of('thread')) - 1:] == ['thread'] * len(of('thread')) + ['stats', 'end']
assert len(of('segment')) == len(of('stats')) == 1
head, segment, stats, end = lines[0], lines[1], lines[-2], lines[-1]
assert (head['format'], head['version'], head['event'], head['unit']) == ('pystack-jsonl', 1, None, 'ticks')
assert segment['segment'] == stats['segment'] == 1 and segment['parent'] is None
assert segment['why'] == 'started' and segment['isolation'] == 'task' and segment['interval_ns'] == 2000000
assert segment['command'][-2:] == ['0.6', '3'] and segment['comm'].startswith('python')
assert sum(s['weight'] for s in of('sample')) == $samples == end['samples']
assert (stats['end'], stats['status'], stats['copy'], stats['isolation']) == ('exit', 3, None, 'task')
assert stats['counters']['samples'] == $samples
assert sum(t['samples'] for t in of('thread')) == $samples
assert segment['max_stack'] == 512 and segment['max_threads'] is None and not segment['spinning']
assert segment['overhead_limit_ppm'] in (None, 10000) and segment['cpu_timer_ns'] is None
assert [t['main'] for t in of('thread')].count(True) == 1
for t in of('thread'):
    assert t['samples'] == sum(s['ticks'] for s in of('sample') if s['tid'] == t['tid'])
    assert t['late'] == sum(s.get('late', 0) for s in of('sample') if s['tid'] == t['tid'])
    assert 0 <= t['missed'] <= stats['counters']['missed'] and t['late'] <= stats['counters']['late']
    lived = t['last_ns'] - t['first_ns']
    assert 0 <= lived <= stats['end_ns'] and t['missed_ns'] <= lived
    assert t['coarse'] or abs(t['cpu_ns'] + t['delay_ns'] + t['blocked_ns'] - lived) < 2e7 + lived / 10, t
assert end['complete'] and end['damage'] is None and end['bytes'] == $(stat -c %s "$recording")"
}

@test "jsonl: samples are those of the text format" {
    script -i "$recording" --format=jsonl > out
    script -i "$recording" > text
    jsonl_holds out '
def text_of(s):
    frames = "".join("\t%s\n" % (f["function"] if f["file"] is None else "%s (%s%s)" % (
        f["function"], f["file"], "" if f["line"] is None else ":%d" % f["line"])) for f in s["stack"])
    us = int(s["time_ns"] / 1000)
    return "%d/%d %s  %s%d.%06d:  %d tick%s  %.3f ms  %s\n%s\n" % (
        s["pid"], s["tid"], s["thread"] or "thread", "-" if us < 0 else "",
        abs(us) // 1000000, abs(us) % 1000000,
        s["ticks"], "s" * (s["ticks"] != 1), s["wall_ns"] / 1e6, " ".join(s["state"]), frames)
import re
def clean(text):
    return "".join(c if c >= " " and not 0x7f <= ord(c) <= 0x9f or c in "\n\t" else "\ufffd" for c in text)
mine = [clean(text_of(s)) for s in of("sample")]
theirs = [e + "\n\n" for e in open("text", encoding="utf-8").read().split("\n\n")[:-1]]
theirs = [re.sub("^[^ ]* ", "", e) for e in theirs]
assert len(mine) == len(theirs)
for a, b in zip(mine, theirs):
    assert a == b, (a, b)'
}

@test "jsonl: with an event weights are its time" {
    local event us
    for event in cpu wall gil; do
        script -i "$recording" --format=jsonl -e "$event" > out
        us=$(script -i "$recording" --format=collapsed -e "$event" | sum_of_weights)
        jsonl_holds out "
assert (lines[0]['event'], lines[0]['unit']) == ('$event', 'ns')
assert all(s['weight'] > 0 for s in of('sample'))
total = sum(s['weight'] for s in of('sample'))
assert 0 <= total - $us * 1000 < 1000, total"
    done
}

@test "jsonl: text that is hostile, or no UTF-8, is JSON all the same" {
    "$TOP_BUILDDIR/tests/cli/write-thread" thread.data
    script -i thread.data --format=jsonl > out
    jsonl_holds out '
bad = "/tmp/\ufffd\x1b[31m\"red\"\\\n.so"
assert [s["command"][1] for s in of("segment")] == [bad] * 3
assert all(s["thread"] == s["stack"][0]["file"] == bad for s in of("sample"))
assert {s["stack"][0]["function"] for s in of("sample")} == {"w\xf6rk"}
assert {s["stack"][0]["line"] for s in of("sample")} == {11, None}
assert [m["text"] for m in of("mark")] == [bad]'
    # Nothing of it reaches a terminal as it is.
    [ -z "$(LC_ALL=C tr -d '\n -~\200-\377' < out)" ]
}

@test "jsonl: threads, gaps and rates" {
    "$TOP_BUILDDIR/tests/cli/write-thread" thread.data
    script -i thread.data --format=jsonl > out
    jsonl_holds out '
bad = "/tmp/\ufffd\x1b[31m\"red\"\\\n.so"
assert [(g["segment"], g["pid"], g["reason"], g["time_ns"], g["length_ns"]) for g in of("gap")] == [
    (2, 102, "missed", 100000000, 50000000), (2, 102, "stopped", 150000000, 50000000)]
assert [(r["segment"], r["time_ns"], r["interval_ns"], r["why"]) for r in of("rate")] == [
    (1, 0, 10000000, "asked"), (2, 0, 10000000, "asked"), (2, 200000000, 50000000, "overhead-limit"),
    (3, 0, 10000000, "asked")]
assert [s["late"] for s in of("sample") if "late" in s] == [1, 2]
assert [t["thread"] for t in of("thread")] == [bad] * 3
first, second, third = of("thread")
assert first["cpu_ns"] is first["delay_ns"] is first["runs"] is first["blocked_ns"] is first["first_ns"] is None
want = dict(segment=2, tid=102, interpreter=0, python_id=7, main=True, id=2, first_ns=0, last_ns=300000000, samples=10, late=3,
            lost=2, lost_ns=100000000, missed=5, missed_ns=50000000, parked_ns=0, stopped_ns=50000000,
            disabled_ns=0, wall_ns=100000000, cpu_ns=45000000, delay_ns=20000000, blocked_ns=185000000,
            runs=5, coarse=False)
for name in want:
    assert second[name] == want[name], (name, second)
assert [s["timers"] for s in of("stats")][:2] == [None, None]
assert [s["cpu_timer_ns"] for s in of("segment")] == [None, None, 10000000]
assert of("stats")[2]["timers"] == dict(state="taken", time_ns=40000000, blocked_threads=2, errno=0,
    handler="0x7f0000005678", owner=bad)'
    "$PYSTACK" report --stats -i thread.data > stats
    grep -qE '^ +102 +0\.100 +0\.045 +0\.005 +0\.020 +5 +10 +0 +0 +0 +2 +3 +5 +0\.050 +0\.185  ' stats
    "$PYSTACK" report -i thread.data > header
    grep -qx "#   about 0.100 s of threads' time whose samples had no room: not in the figures" header
}

@test "no weights of an event that the recording has not" {
    local format what
    "$PYSTACK" record -q --oncpu -F 300 -o oncpu -- "$PYTHON" "$apps/known.py" 0.2 0
    what="oncpu has no time of waiting threads (it was recorded with --oncpu): --event=cpu or gil"
    for format in collapsed jsonl; do
        run -1 --separate-stderr script -i oncpu --format=$format -e wall
        [ -z "$output" ]
        [ "$stderr" = "pystack: script: $what" ]
        run -0 script -i oncpu --format=$format -e gil
        run -0 script -i oncpu --format=$format
    done
    run -1 --separate-stderr "$PYSTACK" report -i oncpu -e wall
    [ "$stderr" = "pystack: report: $what" ]
}

@test "jsonl: stats say how a thread read memory, and who took its handlers" {
    "$TOP_BUILDDIR/tests/cli/write-thread" thread.data
    script -i thread.data --format=jsonl > out
    jsonl_holds out '
first, second, third = of("stats")
assert [s["isolation"] for s in of("stats")] == ["thread", "task", "thread"]
c = first["copy"]
assert (c["asked"], c["mode"], c["user_disabled"], c["wanted_fast"], c["fell_back"]) == ("fast", "syscall", False, True, True)
assert c["capable"] == ["pwritev", "process_vm_readv"] and c["warmup_left_ns"] == 0
segv, bus = c["takeovers"]
assert (segv["signal"], segv["handler"]) == ("SIGSEGV", "0x7f0000001234") and segv["owner"].endswith(".so")
assert (bus["signal"], bus["owner"]) == ("SIGBUS", "SIG_DFL")
assert [(x["time_ns"], x["mode"], len(x["takeovers"])) for x in c["changes"]] == [
    (0, "warmup", 0), (20000000, "fast", 0), (50000000, "syscall", 2)]
assert first["counters"]["copies"] == 1000 and first["counters"]["copy-errors"] == 10
assert second["copy"] is None
c = third["copy"]
assert (c["asked"], c["mode"], c["user_disabled"], c["wanted_fast"]) == ("syscall", "syscall", True, False)
assert c["capable"] == ["process_vm_readv"] and c["takeovers"] == [] and len(c["changes"]) == 1'
}

@test "jsonl: a file that is cut is told of in its last line, with status 1" {
    local size
    size=$(stat -c %s "$recording")
    head -c $((size - 3)) "$recording" > cut
    run -1 --separate-stderr script --format=jsonl -i cut
    echo "$output" > out
    jsonl_holds out 'assert not lines[-1]["complete"] and "the file ends here" in lines[-1]["damage"]'
    run -0 script --format=jsonl -f -i cut
}

# The most memory that a conversion of a file takes, in KB.
memory_of() { # file
    "$PYTHON" -c '
import os, resource, subprocess, sys
subprocess.run([os.environ["PYSTACK"], "script", "-i", sys.argv[1], "--format=jsonl", "-o", "out"], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$1"
}

@test "jsonl: samples are passed on, not gathered" {
    local before samples
    [[ $(ldd "$PYSTACK") != *libasan* ]] || skip "a sanitizer keeps what was freed"
    samples=$(script -i "$recording" --format=jsonl | grep -c '"type":"sample"')
    for n in {1..10}; do cat "$recording"; done > some
    for n in {1..500}; do cat "$recording"; done > many
    before=$(memory_of some)
    # Names and stacks are kept once; processes and their counters for each recording.
    [ "$(memory_of many)" -lt $((before + 16000)) ]
    [ "$(grep -c '"type":"sample"' out)" = $((500 * samples)) ]
    [ "$(stat -c %s out)" -gt 32000000 ]
}

@test "-o writes a file, in the place of another" {
    local format
    for format in text collapsed jsonl; do
        echo "what was here" > out
        run -0 --separate-stderr script -i "$recording" --format=$format -o out
        [ -z "$output$stderr" ]
        script -i "$recording" --format=$format | diff out -
    done
    run -1 --separate-stderr script -i "$recording" -o no/such/folder/out
    [ "$stderr" = "pystack: script: no/such/folder/out: No such file or directory" ]
    run -1 --separate-stderr script -i "$recording" -o .
    [ "$stderr" = "pystack: script: .: Is a directory" ]
    run -1 --separate-stderr script -i "$recording" -o /dev/full
    [[ $stderr == *"No space left on device" ]]
}

@test "- is standard input" {
    diff <(script -i - < "$recording") <(script -i "$recording")
    diff <(script -i - --format=collapsed < "$recording") <(script -i "$recording" --format=collapsed)
}

@test "wrong usage: 129" {
    local options
    while read -r options; do
        # shellcheck disable=SC2086
        run -129 --separate-stderr script -i "$recording" $options
        [ -z "$output" ]
        [[ $stderr == "pystack: script: "*"; see 'pystack script --help'" ]]
    done <<-'END'
	--format=nonsense
	--format=
	--format=collapsed --event=nonsense
	--event=cpu
	--per-thread
	--format=jsonl --per-thread
	--format=jsonl --event=nonsense
	--format=text --event=wall
	--format=text --per-thread
	END
}

@test "files that are none: status 1, and what they are" {
    local format
    : > empty
    head -c 5000 /dev/urandom > random
    for format in text collapsed jsonl; do
        run -1 --separate-stderr script --format=$format
        [ "$stderr" = "pystack: script: pystack.data: No such file or directory" ]
        run -1 --separate-stderr script --format=$format -i empty
        [ "$stderr" = "pystack: script: empty: is empty" ]
        run -1 --separate-stderr script --format=$format -i random
        [ "$stderr" = "pystack: script: random: is not a pystack sample file" ]
        run -1 --separate-stderr script --format=$format -i .
        [ "$stderr" = "pystack: script: .: is a directory" ]
        [ -z "$output" ]
    done
}

@test "a file that is cut is printed as far as it goes, with status 1, with -f 0" {
    local format size
    size=$(stat -c %s "$recording")
    head -c $((size - 3)) "$recording" > cut
    for format in text collapsed; do
        run -1 --separate-stderr script --format=$format -i cut
        [[ $stderr == "pystack: script: cut: read up to byte "*" only: "*": the file ends here" ]]
        diff <(echo "$output") <(script --format=$format -i "$recording" | sed '${/^$/d}')
        run -0 --separate-stderr script --format=$format -f -i cut
        [[ $stderr == *"read up to byte "* ]]
    done
}

@test "root is asked to mean it for another user's file" {
    requires root
    cp "$recording" theirs
    chown 1234 theirs
    run -1 --separate-stderr script -i theirs
    [ -z "$output" ]
    [[ $stderr == "pystack: script: theirs: belongs to another user (1234); "* ]]
    run -0 script -f -i theirs
}

@test "output that cannot be written: status 1; a reader that goes away: silence" {
    run -1 --separate-stderr bash -c '"$PYSTACK" script -i "$recording" > /dev/full'
    [ "$stderr" = "pystack: script: cannot write to standard output: No space left on device" ]
    run -1 --separate-stderr bash -c '"$PYSTACK" script -i "$recording" >&-'
    [ "$stderr" = "pystack: script: cannot write to standard output: it is closed" ]
    # More than a pipe holds, so that the end of the reader is met for certain.
    for n in {1..100}; do cat "$recording"; done > many
    run -0 --separate-stderr bash -c '"$PYSTACK" script -i many | head -n 1; echo "${PIPESTATUS[0]}"'
    [ "${lines[1]}" = 141 ]
    [ -z "$stderr" ]
}
