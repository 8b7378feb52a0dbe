# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += src/pystack
src_pystack_SOURCES = \
	src/attach.c src/attach.h \
	src/checks.c src/checks.h \
	src/cmd-doctor.c \
	src/cmd-dump.c \
	src/cmd-list.c \
	src/cmd-record.c \
	src/cmd-report.c \
	src/cmd-script.c \
	src/cmd.h \
	src/control.c src/control.h \
	src/copy-text.c src/copy-text.h \
	src/decoder.c src/decoder.h \
	src/follow.c src/follow.h \
	src/frame-text.c src/frame-text.h \
	src/hello.c src/hello.h \
	src/input.c src/input.h \
	src/interpreters.c src/interpreters.h \
	src/json.c src/json.h \
	src/look.c src/look.h \
	src/main.c \
	src/msg.c src/msg.h \
	src/opt.c src/opt.h \
	src/output.c src/output.h \
	src/paths.c src/paths.h \
	src/rec-control.c \
	src/rec-end.c \
	src/rec-output.c \
	src/rec-signals.c \
	src/recorder-internal.h \
	src/recorder.c src/recorder.h \
	src/schedule.c src/schedule.h \
	src/selftest.c src/selftest.h \
	src/target.c src/target.h \
	src/term.c src/term.h \
	src/thread-names.c src/thread-names.h \
	src/thread-sums.c src/thread-sums.h \
	src/timer-probe.c src/timer-probe.h \
	src/timer-text.c src/timer-text.h \
	src/tree.c src/tree.h \
	src/verdict.c src/verdict.h \
	src/view-jsonl.c src/view-jsonl.h \
	src/view-stats.c src/view-stats.h \
	src/view-text.c src/view-text.h
src_pystack_CPPFLAGS = $(AM_CPPFLAGS) -DPKGLIBDIR='"$(pkglibdir)"' $(JSON_CFLAGS)
src_pystack_LDADD = $(LIBPYSTACK) $(JSON_LIBS)
