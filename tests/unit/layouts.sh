#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The generated rows of lib/python/layouts.inc against the headers that are here.
set -u
rows=$TOP_SRCDIR/lib/python/layouts.inc
tmp=$(mktemp -d "${TMPDIR:-/tmp}/pystack-test-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT INT TERM

# Print the row of 3.MINOR that stands in a file.
row() {
	awk -v wanted="PY_VERSION_OF(3, $2)," '
		$0 == "\t{" { text = ""; found = 0 }
		{ text = text $0 "\n" }
		index($0, wanted) { found = 1 }
		$0 == "\t}," && found { printf "%s", text }' "$1"
}

if ! sh "$TOP_SRCDIR/build-aux/gen-layouts.sh" >"$tmp/generated" 2>"$tmp/log"; then
	sed 's/^/# /' "$tmp/log"
fi
count=0
failed=0
for minor in 8 9 10 11 12; do
	count=$((count + 1))
	row "$rows" $minor >"$tmp/ours"
	row "$tmp/generated" $minor >"$tmp/theirs"
	if [ ! -s "$tmp/ours" ]; then
		echo "not ok $count - there is a row of 3.$minor"
		failed=1
	elif [ ! -s "$tmp/theirs" ]; then
		echo "ok $count - row of 3.$minor # SKIP its headers are not here"
	elif diff "$tmp/ours" "$tmp/theirs" >"$tmp/diff"; then
		echo "ok $count - row of 3.$minor is what its headers say"
	else
		echo "not ok $count - row of 3.$minor is what its headers say"
		sed 's/^/# /' "$tmp/diff"
		failed=1
	fi
done
echo "1..$count"
exit $failed
