# SPDX-License-Identifier: Apache-2.0
# Sourced by checks that print TAP: each thing looked for is one test, and what was found
# is its failure.

tap_number=0

tap_empty() { # what is checked, what was found wrong
	tap_number=$((tap_number + 1))
	if [ -z "$2" ]; then
		echo "ok $tap_number - $1"
	else
		echo "not ok $tap_number - $1"
		echo "$2" | sed 's/^/# /'
	fi
}
