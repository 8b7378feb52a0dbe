# SPDX-License-Identifier: Apache-2.0
# Every test speaks TAP: the unit tests by tests/unit/tap.h, commands and Pythons by bats.
TAP_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(srcdir)/build-aux/tap-driver.sh --comments
LOG_DRIVER = $(TAP_DRIVER)
TEST_EXTENSIONS = .bats .sh
BATS_LOG_DRIVER = $(TAP_DRIVER)
BATS_LOG_COMPILER = $(BATS) --tap
SH_LOG_DRIVER = $(TAP_DRIVER)
SH_LOG_COMPILER = $(SHELL)
AM_TESTS_ENVIRONMENT = \
	PYSTACK='$(abs_builddir)/src/pystack'; export PYSTACK; \
	PYSTACK_PRELOAD='$(abs_builddir)/lib/preload/pystack-preload.so'; export PYSTACK_PRELOAD; \
	TOP_BUILDDIR='$(abs_builddir)'; export TOP_BUILDDIR; \
	TOP_SRCDIR='$(abs_srcdir)'; export TOP_SRCDIR; \
	CC='$(CC)'; export CC; \
	ASAN_OPTIONS=detect_leaks=0; export ASAN_OPTIONS;

include tests/unit/local.mk
include tests/cli/local.mk
include tests/python/local.mk
include tests/fuzz/local.mk
include tests/bench/local.mk
include tests/soak/local.mk
