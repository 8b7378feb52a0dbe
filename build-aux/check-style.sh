#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What no compiler says: calls that are banned here, who may end the program or print,
# and the plain looks.  Prints TAP; run by `make check`.
#
# usage: check-style.sh [SOURCE-FOLDER]
set -eu
. "$(dirname "$0")/tap.sh"
top=${1:-${TOP_SRCDIR:-.}}
cd "$top"

sources() { # find's arguments
	find lib src tests build-aux -name '*.[chS]' "$@" 2>/dev/null | sort
}

# Calls of NAMES (an extended regular expression) in the files named on stdin, outside of
# comments that stand on lines of their own.
calls() {
	xargs grep -nE "(^|[^_[:alnum:]>.])($1)\(" 2>/dev/null |
		grep -vE '^[^:]*:[0-9]*:[[:space:]]*(/?\*|//)' || true
}

echo 1..8
tap_empty 'no call that cannot be bounded' \
	"$(sources | calls 'sprintf|vsprintf|strcpy|strcat|strtok|gets|alloca')"
tap_empty 'numbers are read in base/parse.c alone' \
	"$(sources \( -path 'lib/*' -o -path 'src/*' \) ! -path lib/base/parse.c |
		calls 'strto[a-z]+|ato[a-z]+')"
tap_empty 'memory comes from base/xalloc' \
	"$(sources \( -path 'lib/*' -o -path 'src/*' \) ! -path lib/base/xalloc.c |
		calls 'malloc|calloc|realloc|strdup|strndup|asprintf')"
tap_empty 'libraries print nothing and end nothing' \
	"$(sources -path 'lib/*' ! -path 'lib/base/xalloc.c' |
		calls 'printf|puts|fputs|perror|exit|_exit|abort')"
tap_empty 'lines without a text have at most 88 columns' \
	"$(# shellcheck disable=SC2016 # awk's own
	sources ! -name '*.inc' | xargs awk '
		{ line = $0; columns = 0
		  for (i = 1; i <= length(line); i++)
			columns += substr(line, i, 1) == "\t" ? 8 - columns % 8 : 1
		  if (columns > 88 && line !~ /"/) print FILENAME ":" FNR ": " columns " columns" }')"
tap_empty 'no space at the end of a line' \
	"$(grep -rnE '[[:space:]]+$' lib src build-aux/*.sh tests --include='*.[chS]' \
		--include='*.sh' --include='*.bats' --include='*.py' --include='local.mk' || true)"
tap_empty 'every file names its license' \
	"$(find lib src tests build-aux completions -type f \
		\( -name '*.[chS]' -o -name '*.sh' -o -name '*.bats' -o -name '*.py' \
		-o -name 'local.mk' -o -name '*.inc' \) \
		! -name tap-driver.sh -exec sh -c '
			head -n 3 "$1" | grep -q "SPDX-License-Identifier: Apache-2.0" || echo "$1"
		' sh {} \;)"
tap_empty 'nothing is left to be done later' \
	"$(grep -rnE '\b(TODO|XXX|HACK)\b' lib src doc completions tests/*/*.c 2>/dev/null || true)"
