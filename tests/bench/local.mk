# SPDX-License-Identifier: Apache-2.0
# Never part of check: what it shows depends on the machine and on who else uses it; that
# it works at all is tested by tests/cli/bench.bats.
# `make bench BENCH_FLAGS=--quick`; BENCH_FLAGS=--help tells what else there is.
BENCH_FLAGS =

bench: all
	$(srcdir)/tests/bench/bench.py --pystack src/pystack $(BENCH_FLAGS)
.PHONY: bench

EXTRA_DIST += \
	tests/bench/bench.py \
	tests/bench/goals.py \
	tests/bench/judge.py \
	tests/bench/pprof.py \
	tests/bench/processes.py \
	tests/bench/pythons.py \
	tests/bench/samplers.py \
	tests/bench/sleep-loop.c \
	tests/bench/tables.py \
	tests/bench/with-ddtrace.py \
	tests/bench/workloads.py
