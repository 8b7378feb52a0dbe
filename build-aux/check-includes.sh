#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Modules depend downwards only: who may include whom, and which module alone may use a
# foreign library.  Prints TAP; run by `make check`.
#
# usage: check-includes.sh [SOURCE-FOLDER]
set -eu
. "$(dirname "$0")/tap.sh"
top=${1:-${TOP_SRCDIR:-.}}

# FROM: what it may include of other modules (whole modules or single headers).
arrows='
base:
wire:
python:
core:    wire python
preload: core/abi.h core/arch.h core/sys.h
proc:    base python
inject:  base proc core/abi.h
file:    base wire
profile: base file python wire
src:     base wire python proc inject file profile core/abi.h preload/entries.h preload/fit.h
'

# HEADER: who alone may include it.
libraries='
zstd.h:   file
libelf.h: proc
gelf.h:   proc
cJSON.h:  src
'

# "FROM FILE HEADER" for each #include "..." of a module's header.
own_includes() {
	for folder in lib/* src; do
		[ -d "$top/$folder" ] || continue
		(cd "$top/$folder" && grep -Hn '^[[:space:]]*#[[:space:]]*include' ./*.[chS] |
			sed -nE "s|^\./([^:]*:[0-9]*):[^\"]*\"([a-z]+/[^\"]*)\".*|${folder##*/} $folder/\1 \2|p")
	done
}

system_includes() {
	for folder in lib/* src; do
		[ -d "$top/$folder" ] || continue
		(cd "$top/$folder" && grep -Hn '^[[:space:]]*#[[:space:]]*include' ./*.[chS] |
			sed -nE "s|^\./([^:]*:[0-9]*):[^<]*<([^>]*)>.*|${folder##*/} $folder/\1 \2|p")
	done
}

wrong_arrows() {
	own_includes | awk -v table="$arrows" '
		BEGIN {
			rows = split(table, row, "\n")
			for (i = 1; i <= rows; i++) {
				n = split(row[i], word, "[: ]+")
				for (j = 2; j <= n; j++)
					allowed[word[1], word[j]] = 1
				if (n > 0) known[word[1]] = 1
			}
		}
		{
			split($3, part, "/")
			if (!($1 in known))
				print $2 ": module " $1 " is not in the table"
			else if (part[1] == $1)
				next
			else if ($3 ~ /-internal\.h$/)
				print $2 ": " $3 " is internal to " part[1]
			else if (!(($1, part[1]) in allowed) && !(($1, $3) in allowed))
				print $2 ": " $1 " may not include " $3
		}'
}

wrong_libraries() {
	system_includes | awk -v table="$libraries" '
		BEGIN {
			rows = split(table, row, "\n")
			for (i = 1; i <= rows; i++) {
				n = split(row[i], word, "[: ]+")
				if (n < 2) continue
				only[word[1]] = 1
				for (j = 2; j <= n; j++)
					allowed[word[1], word[j]] = 1
			}
		}
		($3 in only) && !(($3, $1) in allowed) { print $2 ": " $1 " may not use " $3 }
		$3 == "Python.h" { print $2 ": nothing here may include Python.h" }'
}

# What goes into other programs uses no libc: only headers without code behind them.
hosted_core() {
	system_includes | awk '
		($1 == "core" || $1 == "preload") &&
		$3 !~ /^(stddef|stdint|stdbool|stdarg|stdatomic|limits|elf|errno|signal|sched|fcntl)\.h$/ &&
		$3 !~ /^(linux|asm|sys)\// { print $2 ": " $1 " may not include <" $3 ">" }'
}

same_names() {
	(cd "$top" && find lib src -name '*.[ch]' | sed 's|.*/||' | sort | uniq -d |
		sed 's/^/two files are named /')
}

echo 1..4
tap_empty 'modules include downwards only' "$(wrong_arrows)"
tap_empty 'each foreign library has one user' "$(wrong_libraries)"
tap_empty 'the core and the preload library include no libc' "$(hosted_core)"
tap_empty 'file names are unique' "$(same_names)"
