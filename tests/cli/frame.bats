# SPDX-License-Identifier: Apache-2.0
# The program around its commands: help, names, wrong usage.
load helpers

commands() {
    "$PYSTACK" --list-cmds
}

@test "without arguments the help is printed, with status 129" {
    run -129 --separate-stderr "$PYSTACK"
    [[ $output == "usage: pystack "* ]]
    [ -z "$stderr" ]
}

@test "--help and -h print all commands on standard output" {
    local option command
    for option in --help -h; do
        run -0 --separate-stderr "$PYSTACK" $option
        [ -z "$stderr" ]
        for command in $(commands); do
            grep -q "^  $command " <<< "$output"
        done
    done
}

@test "--version and -V tell the version and which pystack this is" {
    local option
    for option in --version -V; do
        run -0 --separate-stderr "$PYSTACK" $option
        [[ $output =~ ^"pystack "[0-9]+\.[0-9]+[^\ ]*", sampling profiler"$ ]]
        [ -z "$stderr" ]
    done
}

@test "--list-cmds has the commands, one a line" {
    local line
    run -0 --separate-stderr "$PYSTACK" --list-cmds
    [ -z "$stderr" ]
    for line in "${lines[@]}"; do
        [[ $line =~ ^[a-z]+$ ]]
    done
    for line in record report script dump list doctor; do
        grep -qx "$line" <<< "$output"
    done
}

@test "an unknown command is refused, the nearest one suggested" {
    local given wanted
    while read -r given wanted; do
        run -129 --separate-stderr "$PYSTACK" "$given"
        [ -z "$output" ]
        [ "$stderr" = "pystack: '$given' is not a command; did you mean '$wanted'?" ]
    done <<-END
	recrod record
	recor record
	reprot report
	dmup dump
	scrip script
	lsit list
	docter doctor
	END
}

@test "a command that is like no other gets no suggestion" {
    run -129 --separate-stderr "$PYSTACK" frobnicate
    [ -z "$output" ]
    [ "$stderr" = "pystack: 'frobnicate' is not a command; see 'pystack --help'" ]
}

@test "names of other programs' commands are answered with ours" {
    run -129 --separate-stderr "$PYSTACK" remote 1
    [ "$stderr" = "pystack: 'remote' is not a command; you may want: pystack dump -p PID" ]
    run -129 --separate-stderr "$PYSTACK" core core.1
    [[ $stderr == *"is a profiler and reads no core files"*"pystack dump -p PID" ]]
    run -129 --separate-stderr "$PYSTACK" attach 1
    [[ $stderr == *"you may want: pystack record -p PID" ]]
    run -129 --separate-stderr "$PYSTACK" ps
    [[ $stderr == *"you may want: pystack list" ]]
    run -129 --separate-stderr "$PYSTACK" run app.py
    [[ $stderr == *"you may want: pystack record -- COMMAND" ]]
    [ -z "$output" ]
}

@test "an unknown option before the command is refused" {
    local option
    for option in --nonsense -x -; do
        run -129 --separate-stderr "$PYSTACK" "$option"
        [ -z "$output" ]
        [ "$stderr" = "pystack: unknown option '$option'; see 'pystack --help'" ]
    done
}

@test "each command prints its help on standard output, with status 0" {
    local command option
    for command in $(commands); do
        for option in --help -h; do
            run -0 --separate-stderr "$PYSTACK" "$command" $option
            [[ $output == "usage: pystack $command "* ]]
            [ -z "$stderr" ]
        done
    done
}

@test "--help goes before what is wrong behind it, not before what is wrong before it" {
    run -0 "$PYSTACK" report --help --nonsense
    run -129 "$PYSTACK" report --nonsense --help
}

@test "each command lists its options, long ones and letters, those with values marked" {
    local command line
    for command in $(commands); do
        run -0 --separate-stderr "$PYSTACK" "$command" --list-opts
        [ -z "$stderr" ]
        for line in "${lines[@]}"; do
            [[ $line =~ ^(--[a-z][a-z-]*=?|-[A-Za-z])$ ]]
        done
        grep -qx -e --help <<< "$output"
        # Nothing twice.
        [ -z "$(sort <<< "$output" | uniq -d)" ]
    done
    run -0 "$PYSTACK" record --list-opts
    grep -qx -e --pid= <<< "$output"
    grep -qx -e -p <<< "$output"
    grep -qx -e --no-adaptive <<< "$output"
}

@test "each option of the help is listed, and each listed one in the help" {
    local command
    for command in $(commands); do
        "$PYSTACK" "$command" --list-opts | sed -n 's/^--\([^=]*\).*/\1/p' | sort > listed
        "$PYSTACK" "$command" --help |
            sed -n 's/^  \(-.,\|   \) --\(\[no-\]\)\{0,1\}\([a-z-]*\).*/\2\3/p' |
            sed 's/^\[no-\]\(.*\)/\1\nno-\1/' | sort > helped
        diff listed helped
    done
}

@test "an unknown option of a command is refused" {
    local command
    for command in $(commands); do
        run -129 --separate-stderr "$PYSTACK" "$command" --nonsense
        [ -z "$output" ]
        [[ $stderr == "pystack: $command: "*"'--nonsense'; see 'pystack $command --help'" ]]
        run -129 --separate-stderr "$PYSTACK" "$command" -Q
        [ -z "$output" ]
        [[ $stderr == "pystack: $command: "*"-Q"*"; see 'pystack $command --help'" ]]
    done
}

@test "a long option may be shortened while it is the only one" {
    run -129 --separate-stderr "$PYSTACK" record --fre=nonsense true
    [[ $stderr == *"option --freq: 'nonsense' is not a rate"* ]]
    # --count, --compression-level, --call-graph
    run -129 --separate-stderr "$PYSTACK" record --c=1 true
    [ -z "$output" ]
    [[ $stderr == *"ambiguous option"*"--c=1"* ]]
}

@test "an option that needs a value is refused without one" {
    local option
    for option in --freq -F --pid -p --output -o; do
        run -129 --separate-stderr "$PYSTACK" record "$option"
        [ -z "$output" ]
        [[ $stderr == "pystack: record: option '$option' needs a value; see "* ]]
    done
    run -129 --separate-stderr "$PYSTACK" report --input
    [[ $stderr == *"option '--input' needs a value"* ]]
}

@test "an option that takes no value is refused with one" {
    run -129 --separate-stderr "$PYSTACK" report --stats=yes
    [ -z "$output" ]
    [[ $stderr == *"'--stats=yes'"* ]]
}

@test "commands without operands refuse them" {
    local command
    for command in report script dump list; do
        run -129 --separate-stderr "$PYSTACK" "$command" something
        [ -z "$output" ]
        [[ $stderr == "pystack: $command: unexpected argument 'something'"* ]]
    done
}

@test "help COMMAND opens a manual page" {
    mkdir bin
    printf '#!/bin/sh\necho "man $*"\n' > bin/man
    chmod +x bin/man
    PATH=$PWD/bin:$PATH
    run -0 "$PYSTACK" help
    [ "$output" = "man pystack" ]
    run -0 "$PYSTACK" help record
    [ "$output" = "man pystack-record" ]
    run -129 --separate-stderr "$PYSTACK" help recrod
    [[ $stderr == *"did you mean 'record'?" ]]
}

@test "help without man says so" {
    mkdir empty
    run -1 --separate-stderr env PATH="$PWD/empty" "$PYSTACK" help
    [[ $stderr == "pystack: cannot run man: "* ]]
}

@test "help and version fail when they cannot be printed" {
    run -1 --separate-stderr bash -c '"$PYSTACK" --help > /dev/full'
    [[ $stderr == "pystack: cannot write to standard output: No space left on device" ]]
    run -1 --separate-stderr bash -c '"$PYSTACK" --version >&-'
    [[ $stderr == "pystack: cannot write to standard output: it is closed" ]]
}

@test "make install by DESTDIR: the program runs from there, with all that belongs to it" {
    run -0 env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS \
        make -C "$TOP_BUILDDIR" -s install DESTDIR="$PWD/root"
    local installed
    installed=$(find root -path '*/bin/pystack')
    [ -x "$installed" ]
    [ -n "$(find root -name pystack-record.1)" ]
    [ -n "$(find root -name pystack-file.5)" ]
    [ -n "$(find root -path '*/bash-completion/*/pystack')" ]
    run -0 --separate-stderr env -u PYSTACK_PRELOAD "$installed" record -o f -- \
        "$PYTHON" -c 'import time; time.sleep(0.3)'
    [[ $stderr == *" 1 process, "* ]]
    run -0 "$installed" report -e wall -i f
    [[ $output == *"<module>"* ]]
}
