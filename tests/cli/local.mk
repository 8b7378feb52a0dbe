# SPDX-License-Identifier: Apache-2.0
# Commands as their users meet them: status, standard output, standard error.
check_PROGRAMS += tests/cli/check-parts tests/cli/write-thread
tests_cli_write_thread_SOURCES = tests/cli/write-thread.c
tests_cli_write_thread_LDADD = $(LIBPYSTACK)
tests_cli_check_parts_SOURCES = tests/cli/check-parts.c
tests_cli_check_parts_LDADD = $(LIBPYSTACK)

cli_tests = \
	tests/cli/bench.bats \
	tests/cli/control.bats \
	tests/cli/doctor.bats \
	tests/cli/dump.bats \
	tests/cli/frame.bats \
	tests/cli/list.bats \
	tests/cli/manual.bats \
	tests/cli/record.bats \
	tests/cli/report.bats \
	tests/cli/script.bats \
	tests/cli/signals.bats \
	tests/cli/switch.bats

if HAVE_BATS
TESTS += $(cli_tests)
endif
EXTRA_DIST += \
	$(cli_tests) \
	tests/cli/helpers.bash \
	tests/cli/apps/busy.py \
	tests/cli/apps/known.py \
	tests/cli/apps/phases.py \
	tests/cli/apps/terminal.py \
	tests/cli/apps/without-calls.py

# A program that looks like a Python and whose memory cannot be read; no sanitizer in it.
check_PROGRAMS += tests/cli/python-mute
tests_cli_python_mute_SOURCES = tests/cli/python-mute.c
tests_cli_python_mute_CPPFLAGS = -D_GNU_SOURCE
tests_cli_python_mute_CFLAGS = -std=gnu17 $(WARN_CFLAGS)
tests_cli_python_mute_LDFLAGS =
