#!/bin/sh
# Print the version: of a release tarball from its own file, of a checkout from git.
# SPDX-License-Identifier: Apache-2.0
top=$(dirname "$0")/..
base=0.1.0
if [ -f "$top/.tarball-version" ]; then
    tr -d '\n' < "$top/.tarball-version"
elif rev=$(git -C "$top" rev-parse --short=10 HEAD 2>/dev/null); then
    printf '%s-g%s' "$base" "$rev"
else
    printf '%s' "$base"
fi
