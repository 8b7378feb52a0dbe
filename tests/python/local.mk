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
check_PROGRAMS += tests/python/attach-cycles
tests_python_attach_cycles_SOURCES = tests/python/attach-cycles.c
tests_python_attach_cycles_LDADD = $(LIBPYSTACK)

# Preloaded into our own programs: no sanitizer in it.
check_PROGRAMS += tests/python/die-at.so
tests_python_die_at_so_SOURCES = tests/python/die-at.c
tests_python_die_at_so_CFLAGS = -std=gnu17 -fPIC -O1
tests_python_die_at_so_CPPFLAGS = -D_GNU_SOURCE
tests_python_die_at_so_LDFLAGS = -shared
tests_python_die_at_so_LDADD = -ldl

EXTRA_DIST += \
	tests/python/apps/healthy.py \
	tests/python/apps/reaper.py \
	tests/python/apps/surroundings.py \
	tests/python/attach.bats \
	tests/python/safety.bats
if HAVE_BATS
TESTS += \
	tests/python/attach.bats \
	tests/python/safety.bats
endif
