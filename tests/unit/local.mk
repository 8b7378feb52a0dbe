# SPDX-License-Identifier: Apache-2.0
# One program for each module.
unit_tests = \
	tests/unit/t-strata
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
EXTRA_DIST += tests/unit/tap.h

tests_unit_t_strata_SOURCES = tests/unit/t-strata.c lib/core/strata.c
tests_unit_t_strata_LDADD = -lm
