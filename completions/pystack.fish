# SPDX-License-Identifier: Apache-2.0
# Completion of pystack for fish.  Commands and options come from the program itself,
# so there is nothing to keep in step here.

# Is the command this one?  Without an argument: is there none yet?
function __pystack_command_is
    set -l words (commandline -opc)
    test "$words[2]" = "$argv[1]"
end

function __pystack_options
    set -l words (commandline -opc)
    test (count $words) -ge 2 -a "$words[2]" != help
    and $words[1] $words[2] --list-opts 2>/dev/null
end

# Is the word before the cursor's one of these?
function __pystack_behind
    contains -- (commandline -opc)[-1] $argv
end

# Has the program to be recorded begun?
function __pystack_in_program
    __pystack_command_is record; and contains -- -- (commandline -opc)
end

complete -c pystack -f
complete -c pystack -n __pystack_command_is -a '(pystack --list-cmds) help --help --version'
complete -c pystack -n '__pystack_command_is help' -a '(pystack --list-cmds)'
complete -c pystack -n 'not __pystack_in_program' -a '(__pystack_options)'
complete -c pystack -n '__pystack_behind -i -o --input --output' -F
complete -c pystack -n '__pystack_behind -p --pid' -a '(__fish_complete_pids)'
complete -c pystack -n '__pystack_command_is record' -F
complete -c pystack -n '__pystack_command_is doctor' -a '(__fish_complete_pids)'
