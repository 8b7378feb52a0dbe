# SPDX-License-Identifier: Apache-2.0
# Commands as their users meet them: status, standard output, standard error.
cli_tests = \
	tests/cli/frame.bats \
	tests/cli/manual.bats

if HAVE_BATS
TESTS += $(cli_tests)
endif
EXTRA_DIST += \
	$(cli_tests) \
	tests/cli/helpers.bash \
	tests/cli/apps/busy.py \
	tests/cli/apps/known.py \
	tests/cli/apps/terminal.py
