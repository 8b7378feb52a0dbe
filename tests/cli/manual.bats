# SPDX-License-Identifier: Apache-2.0
# The manual pages and the completions agree with the program.
load helpers

pages=$TOP_SRCDIR/doc
completions=$TOP_SRCDIR/completions

# Options that the items of a page's lists are about: "--name" and "-x", one a line.
page_options() { # page
    sed -n 's/^\.It Fl //p' "$1" | sed 's/ Ns .*//' | tr ' ' '\n' | sed -n \
        -e 's/^\(-[a-z][a-z-]*\)$/-\1/p' -e 's/^\([A-Za-z]\)$/-\1/p' | sort
}

# All options that the text of a page names, wherever it does.
page_mentions() { # page
    grep '^\.' "$1" | grep -o ' Fl -\{0,1\}[A-Za-z][a-z-]*\|^\.Fl -\{0,1\}[A-Za-z][a-z-]*' |
        sed 's/^.*Fl /-/' | sort -u
}

# Options of a command as the program has them; --help and -h are on the first page.
program_options() { # command
    "$PYSTACK" "$1" --list-opts | sed -e 's/=$//' -e '/^--help$/d' -e '/^-h$/d' | sort
}

@test "each option of a command is in its manual page, and no other" {
    local command
    for command in $("$PYSTACK" --list-cmds); do
        program_options "$command" > program
        page_options "$pages/pystack-$command.1" > page
        diff program page
    done
}

@test "pages name no option that the program has not" {
    local command
    for command in $("$PYSTACK" --list-cmds); do
        program_options "$command" > program
        page_mentions "$pages/pystack-$command.1" > page
        run -0 comm -13 program page
        [ -z "$output" ]
    done
}

@test "letters and values of options are the same in help and page" {
    local command letter name value
    for command in $("$PYSTACK" --list-cmds); do
        "$PYSTACK" "$command" --help |
            sed -n 's/^  -\(.\), --\([a-z-]*\)\(\[*=*\).*/\1 \2 \3/p' > pairs
        while read -r letter name value; do
            [ "$letter" = h ] && continue
            grep -q "^\.It Fl $letter , -$name\( \|\$\)" "$pages/pystack-$command.1"
            if [ "$value" = "=" ]; then
                grep -q "^\.It Fl $letter , -$name Ns = Ns Ar " \
                    "$pages/pystack-$command.1"
            fi
        done < pairs
    done
}

@test "each command is in pystack(1) and has a page" {
    local command
    for command in $("$PYSTACK" --list-cmds); do
        grep -qx ".It Cm $command" "$pages/pystack.1"
        grep -q "^\.Xr pystack-$command 1" "$pages/pystack.1"
        [ -s "$pages/pystack-$command.1" ]
        grep -q "doc/pystack-$command.1" "$pages/local.mk"
    done
}

@test "pages are whole and without lint" {
    local page
    requires mandoc
    for page in "$pages"/*.[1-9]; do
        run -0 mandoc -Tlint -W warning "$page"
        [ -z "$output" ]
    done
    for page in "$pages"/*.1; do
        for section in NAME SYNOPSIS DESCRIPTION "EXIT STATUS" EXAMPLES "SEE ALSO"; do
            grep -qx ".Sh $section" "$page"
        done
    done
}

@test "commands in the examples of the pages are understood" {
    local page command arguments line
    for page in "$pages"/*.1; do
        # The options alone, up to a pipe, a redirection or the program to be run.
        sed -n 's/^\$ \(sudo \|ssh host \)\{0,1\}pystack \([a-z][a-z]*\)/\2/p' "$page" |
            sed 's/ *[|>].*//; s/ -- .*//' > examples
        while read -r command arguments; do
            # --help ends the command when all before it was right.
            eval "run -0 --separate-stderr \"\$PYSTACK\" $command $arguments --help"
            [[ $output == "usage: pystack $command "* ]]
        done < examples
    done
}

@test "man shows the page of a command" {
    requires man
    for command in "" $("$PYSTACK" --list-cmds); do
        run -0 man -l "$pages/pystack${command:+-}$command.1"
        [[ $output == *"pystack${command:+-}$command"* ]]
    done
}

# --- completion ---

# What bash offers for the words of a command line, the last one unfinished.
bash_offers() { # word ...
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _pystack
    printf '%s\n' "${COMPREPLY[@]}"
}

load_bash_completion() {
    # shellcheck source=/dev/null
    source "$completions/pystack"
    PATH=$(dirname "$PYSTACK"):$PATH
}

@test "bash completes commands" {
    load_bash_completion
    run -0 bash_offers pystack re
    [ "$output" = "record
report" ]
    run -0 bash_offers pystack ""
    local command
    for command in $("$PYSTACK" --list-cmds) help --version; do
        grep -qx -e "$command" <<< "$output"
    done
    run -0 bash_offers pystack help d
    [ "$output" = "dump
doctor" ]
    run -0 bash_offers pystack nonsense -
    [ -z "$output" ]
}

@test "bash completes all options of every command" {
    local command
    load_bash_completion
    for command in $("$PYSTACK" --list-cmds); do
        run -0 bash_offers pystack "$command" -
        [ "$(sort <<< "$output")" = "$("$PYSTACK" "$command" --list-opts | sort)" ]
    done
    run -0 bash_offers pystack record --fr
    [ "$output" = --freq= ]
}

@test "bash completes files behind -i and -o, and nothing behind other values" {
    load_bash_completion
    touch "one file" two.data
    run -0 bash_offers pystack report -i tw
    [ "$output" = two.data ]
    run -0 bash_offers pystack report --input = one
    [ "$output" = "one file" ]
    run -0 bash_offers pystack record --output =
    [ "$output" = "one file
two.data" ]
    run -0 bash_offers pystack record -F t
    [ -z "$output" ]
}

@test "bash completes Python processes behind -p" {
    load_bash_completion
    start_app busy.py
    run -0 bash_offers pystack record -p ""
    grep -qx "$started_pid" <<< "$output"
    run -0 bash_offers pystack dump --pid = "$started_pid"
    [ "$output" = "$started_pid" ]
    run -0 bash_offers pystack doctor "$started_pid"
    [ "$output" = "$started_pid" ]
    touch stop
}

@test "bash completes the program to be recorded and its files" {
    load_bash_completion
    touch app.py
    run -0 bash_offers pystack record -- bas
    grep -qx bash <<< "$output"
    run -0 bash_offers pystack record -F 10 bas
    grep -qx bash <<< "$output"
    run -0 bash_offers pystack record -F 10 -q -- python3 ap
    [ "$output" = app.py ]
    run -0 bash_offers pystack record --freq = 10 python3 ap
    [ "$output" = app.py ]
    # Options of that program are not ours.
    run -0 bash_offers pystack record python3 --fr
    [ -z "$output" ]
}

@test "fish completes commands, options and files" {
    requires fish
    export HOME=$PWD PATH=$(dirname "$PYSTACK"):$PATH
    touch two.data
    fish_offers() {
        fish --no-config -c "source '$completions/pystack.fish'; complete -C '$1'"
    }
    run -0 fish --no-execute "$completions/pystack.fish"
    run -0 fish_offers 'pystack re'
    [ "$output" = "record
report" ]
    run -0 fish_offers 'pystack record --fr'
    [ "$output" = --freq= ]
    run -0 fish_offers 'pystack report -i tw'
    [ "$output" = two.data ]
}

@test "the completion for zsh is valid" {
    requires zsh
    run -0 zsh -n "$completions/_pystack"
    [ -z "$output" ]
}
