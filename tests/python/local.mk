# SPDX-License-Identifier: Apache-2.0
# Over every CPython found: what needs a program to be sampled.
check_PROGRAMS += tests/python/oracle-check
tests_python_oracle_check_SOURCES = tests/python/oracle-check.c
tests_python_oracle_check_LDADD = $(LIBPYSTACK)

EXTRA_DIST += \
	tests/python/apps/oracle.py
EXTRA_DIST += \
	tests/python/apps/parked.py \
	tests/python/apps/shares.py \
	tests/python/compare-parked.py \
	tests/python/helpers.bash \
	tests/python/judge-shares.py \
	tests/python/matrix.bats
if HAVE_BATS
TESTS += \
	tests/python/matrix.bats
endif
