# SPDX-License-Identifier: Apache-2.0
# Over every CPython found: what needs a program to be sampled.
check_PROGRAMS += tests/python/oracle-check
tests_python_oracle_check_SOURCES = tests/python/oracle-check.c
tests_python_oracle_check_LDADD = $(LIBPYSTACK)

EXTRA_DIST += \
	tests/python/apps/oracle.py
