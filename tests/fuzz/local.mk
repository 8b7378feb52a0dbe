# SPDX-License-Identifier: Apache-2.0
# One program for each parser of foreign input.  `make check` replays the corpus; with
# CC=clang and --enable-fuzzing each is a fuzzer:
#	tests/fuzz/fuzz-ring -max_total_time=300 /tmp/corpus tests/fuzz/corpus/ring
fuzz_programs = \
	tests/fuzz/fuzz-file \
	tests/fuzz/fuzz-lines \
	tests/fuzz/fuzz-offsets \
	tests/fuzz/fuzz-parse \
	tests/fuzz/fuzz-proc \
	tests/fuzz/fuzz-ring
check_PROGRAMS += $(fuzz_programs) tests/fuzz/make-corpus
TESTS += tests/fuzz/replay.sh
dist_check_SCRIPTS += tests/fuzz/replay.sh
EXTRA_DIST += tests/fuzz/corpus

if FUZZING
fuzz_main = tests/fuzz/fuzz.h
fuzz_ldflags = $(AM_LDFLAGS) -fsanitize=fuzzer
else
fuzz_main = tests/fuzz/fuzz.h tests/fuzz/standalone.c
fuzz_ldflags = $(AM_LDFLAGS)
endif

tests_fuzz_fuzz_file_SOURCES = tests/fuzz/fuzz-file.c $(fuzz_main)
tests_fuzz_fuzz_file_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_file_LDADD = $(LIBPYSTACK)
tests_fuzz_fuzz_lines_SOURCES = tests/fuzz/fuzz-lines.c $(fuzz_main)
tests_fuzz_fuzz_lines_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_lines_LDADD = $(LIBPYSTACK)
tests_fuzz_fuzz_offsets_SOURCES = tests/fuzz/fuzz-offsets.c $(fuzz_main)
tests_fuzz_fuzz_offsets_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_offsets_LDADD = $(LIBPYSTACK)
tests_fuzz_fuzz_parse_SOURCES = tests/fuzz/fuzz-parse.c src/control.c src/schedule.c \
	$(fuzz_main)
tests_fuzz_fuzz_parse_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_parse_LDADD = $(LIBPYSTACK)
tests_fuzz_fuzz_proc_SOURCES = tests/fuzz/fuzz-proc.c $(fuzz_main)
tests_fuzz_fuzz_proc_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_proc_LDADD = $(LIBPYSTACK)
tests_fuzz_fuzz_ring_SOURCES = tests/fuzz/fuzz-ring.c src/decoder.c $(fuzz_main)
tests_fuzz_fuzz_ring_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_ring_LDADD = $(LIBPYSTACK)
tests_fuzz_make_corpus_SOURCES = tests/fuzz/make-corpus.c
tests_fuzz_make_corpus_LDADD = $(LIBPYSTACK)
