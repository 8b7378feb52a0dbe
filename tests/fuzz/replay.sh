#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target over its seeds, and over all that a fuzzer has stumbled over.
set -u
corpus=$TOP_SRCDIR/tests/fuzz/corpus
log=$(mktemp "${TMPDIR:-/tmp}/pystack-test-XXXXXX") || exit 1
trap 'rm -f "$log"' EXIT INT TERM

count=0
failed=0
for folder in "$corpus"/*/; do
	name=$(basename "$folder")
	count=$((count + 1))
	set -- "$folder"*
	if "$TOP_BUILDDIR/tests/fuzz/fuzz-$name" "$@" >"$log" 2>&1; then
		echo "ok $count - fuzz-$name over $# inputs"
	else
		echo "not ok $count - fuzz-$name"
		tail -n 30 "$log" | sed 's/^/# /'
		failed=1
	fi
done
echo "1..$count"
exit $failed
