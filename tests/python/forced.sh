#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pystack, each of whose recordings has the isolation that TEST_ISOLATION names.
if [ "$1" = record ]; then
    shift
    set -- record --isolation="$TEST_ISOLATION" "$@"
fi
exec "$FORCED_PYSTACK" "$@"
