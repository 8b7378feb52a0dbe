#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The core's objects, as far as they can be built into a program like any other, under
# valgrind's memcheck: each unit test that has some of them, as one test.
#
# usage: valgrind.sh            skip where there is no valgrind, in TAP
#        valgrind.sh --strict   end with status 77 there; t-core as well
#
# VALGRIND_TESTS names others.
set -u
# t-wire has the ring, t-preload what hooks share; the rest is lib/core.  Without:
#
#   t-handlers  loads by code that is copied to a page, which no suppression can name, and
#               compares signals as the kernel delivers them: valgrind makes frames, masks
#               and alternate stacks of its own
#   t-sigframe  throws a child onto a frame by ptrace: the registers are valgrind's then
#
# t-core and t-core-inside have all of lib/core, started as a thread of the C library in
# the place of a raw clone(), which valgrind does not follow.  What remains outside:
# memops.c, as libc's functions are used; of call.c the second clone (middle, hold,
# clone_twice); of task.c the filter (filter_calls), under which valgrind could not work;
# of entry-x86-64.S the entries, the clone and the unmapping of the arena.  tests/python
# runs them.  t-core, which has a Python beside it and takes as long as all others, is for
# --strict alone.
tests="t-copy t-core-inside t-fault t-kept t-looks t-preload t-strata t-timer t-timer-handler t-vdso
	t-walk t-wire"

give_up() { # reason
	if [ "${strict-}" ]; then
		echo "check-valgrind: $1" >&2
		exit 77
	fi
	echo "1..0 # SKIP $1"
	exit 0
}

strict=
[ "${1-}" != --strict ] || strict=yes
[ -z "$strict" ] || tests="$tests t-core"
tests=${VALGRIND_TESTS-$tests}
command -v valgrind >/dev/null || give_up "valgrind is not installed"
! nm -D "$TOP_BUILDDIR/tests/unit/t-copy" | grep -q __asan_init ||
	give_up "a sanitizer is built in, which cannot run under valgrind"
valgrind -q true >/dev/null 2>&1 || give_up "valgrind does not run here"
# Suppressions name functions that are inlined.
readelf -S "$TOP_BUILDDIR/tests/unit/t-copy" | grep -q '\.debug_info' ||
	give_up "the tests were built without -g"
# Valgrind 3.19 cannot read what clang 14 says, but with CFLAGS="-O2 -gdwarf-4".
! valgrind -q "$TOP_BUILDDIR/tests/unit/t-str" 2>&1 | grep -qi 'dwarf\|debug *info' ||
	give_up "valgrind cannot read the compiler's debug information"

tmp=$(mktemp -d "${TMPDIR:-/tmp}/pystack-test-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT INT TERM
# Registers as they are at each load, since a handler looks at them.  Threads take turns.
TEST_VALGRIND=1
export TEST_VALGRIND
count=0
failed=0
for test in $tests; do
	count=$((count + 1))
	if valgrind -q --error-exitcode=99 --fair-sched=try \
		--vex-iropt-register-updates=allregs-at-mem-access \
		--suppressions="$TOP_SRCDIR/tests/unit/valgrind.supp" --log-file="$tmp/log" \
		"$TOP_BUILDDIR/tests/unit/$test" >"$tmp/out" 2>"$tmp/err" &&
		[ ! -s "$tmp/log" ]; then
		echo "ok $count - $test: $(grep -c '^ok' "$tmp/out") checks"
		continue
	fi
	echo "not ok $count - $test"
	{ grep '^not ok\|^#' "$tmp/out"; cat "$tmp/err" "$tmp/log"; } | sed 's/^/# /' | head -n 200
	failed=1
done
echo "1..$count"
exit $failed
