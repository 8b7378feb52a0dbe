# SPDX-License-Identifier: Apache-2.0
# Over every CPython found: what needs a program to be sampled.
python_tests = \
	tests/python/attach.bats \
	tests/python/attach-binaries.bats \
	tests/python/attach-everywhere.bats \
	tests/python/attach-filters.bats \
	tests/python/attach-states.bats \
	tests/python/copies.bats \
	tests/python/cpu-timer.bats \
	tests/python/guests.bats \
	tests/python/isolation.bats \
	tests/python/matrix.bats \
	tests/python/names.bats \
	tests/python/no-trace.bats \
	tests/python/oracle.bats \
	tests/python/pauses.bats \
	tests/python/reruns.bats \
	tests/python/other-root.bats \
	tests/python/safety.bats \
	tests/python/services.bats \
	tests/python/starts.bats \
	tests/python/states.bats \
	tests/python/takeover.bats \
	tests/python/time.bats \
	tests/python/time-cpu.bats \
	tests/python/told.bats \
	tests/python/trees.bats \
	tests/python/waits.bats
EXTRA_DIST += \
	$(python_tests) \
	tests/python/accounts.bash \
	tests/python/apps/absl-app.py \
	tests/python/apps/accounts.py \
	tests/python/apps/attributes.py \
	tests/python/apps/busy.py \
	tests/python/apps/callbacks.py \
	tests/python/apps/called.py \
	tests/python/apps/churn.py \
	tests/python/apps/copies.py \
	tests/python/apps/deep.py \
	tests/python/apps/denied.py \
	tests/python/apps/endless.py \
	tests/python/apps/environments.py \
	tests/python/apps/executes.py \
	tests/python/apps/filtered.py \
	tests/python/apps/forks-late.py \
	tests/python/apps/gil-waits.py \
	tests/python/apps/first-process.py \
	tests/python/apps/forks.py \
	tests/python/apps/grpc-calls.py \
	tests/python/apps/guest.py \
	tests/python/apps/healthy.py \
	tests/python/apps/hostile.py \
	tests/python/apps/ignore-signals.py \
	tests/python/apps/interpreters.py \
	tests/python/apps/isolated.py \
	tests/python/apps/later-child.py \
	tests/python/apps/loader.py \
	tests/python/apps/many-interpreters.py \
	tests/python/apps/many-threads.py \
	tests/python/apps/oracle.py \
	tests/python/apps/parked.py \
	tests/python/apps/pool.py \
	tests/python/apps/quiet.py \
	tests/python/apps/reaper.py \
	tests/python/apps/refuses.py \
	tests/python/apps/reuse.py \
	tests/python/apps/shares.py \
	tests/python/apps/states.py \
	tests/python/apps/surroundings.py \
	tests/python/apps/taker.py \
	tests/python/apps/tasks.py \
	tests/python/apps/teardown.py \
	tests/python/apps/timers.py \
	tests/python/apps/tree.py \
	tests/python/apps/under.py \
	tests/python/apps/waiter.py \
	tests/python/apps/wanders.py \
	tests/python/apps/waits.py \
	tests/python/apps/wsgi.py \
	tests/python/check-churn.py \
	tests/python/check-reuse.py \
	tests/python/compare-depths.py \
	tests/python/compare-parked.py \
	tests/python/helpers.bash \
	tests/python/judge-shares.py \
	tests/python/judge-time.py \
	tests/python/parked.bash \
	tests/python/record-in-mode.sh
if HAVE_BATS
TESTS += $(python_tests)
endif

# All of these files in each mode (helpers.bash), over all Pythons: half an hour for each.
# reruns.bats, which is part of check, runs some of their tests.
MODES = thread-pwritev thread-readv thread-fast thread-handled
MODE_TESTS = \
	tests/python/guests.bats \
	tests/python/matrix.bats \
	tests/python/names.bats \
	tests/python/oracle.bats \
	tests/python/pauses.bats \
	tests/python/safety.bats \
	tests/python/states.bats \
	tests/python/time.bats \
	tests/python/time-cpu.bats
.PHONY: check-modes
check-modes:
	failed=; for mode in $(MODES); do \
		TEST_MODE=$$mode $(MAKE) check TESTS='$(MODE_TESTS)' || failed="$$failed $$mode"; \
		for test in $(MODE_TESTS:.bats=); do cp $$test.log $$test.$$mode.log; done; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

check_PROGRAMS += \
	tests/python/attach-cycles \
	tests/python/callbacks.so \
	tests/python/die-at.so \
	tests/python/foreign.so \
	tests/python/guest.so \
	tests/python/hold-in-handler \
	tests/python/host \
	tests/python/naive-reader.so \
	tests/python/oracle-check \
	tests/python/print-layout \
	tests/python/ring-state \
	tests/python/sleeper.so \
	tests/python/taker.so \
	tests/python/timer-calls
tests_python_hold_in_handler_SOURCES = tests/python/hold-in-handler.c
tests_python_timer_calls_SOURCES = tests/python/timer-calls.c
tests_python_timer_calls_LDADD = -lpthread
tests_python_attach_cycles_SOURCES = tests/python/attach-cycles.c
tests_python_attach_cycles_LDADD = $(LIBPYSTACK)
tests_python_oracle_check_SOURCES = tests/python/oracle-check.c
tests_python_oracle_check_LDADD = $(LIBPYSTACK)
tests_python_print_layout_SOURCES = tests/python/print-layout.c
tests_python_print_layout_LDADD = $(LIBPYSTACK)
tests_python_ring_state_SOURCES = tests/python/ring-state.c

# Loaded into other programs: no sanitizer in these.
loaded_cppflags = -D_GNU_SOURCE
loaded_cflags = -std=gnu17 $(WARN_CFLAGS) -fPIC -O2
tests_python_sleeper_so_SOURCES = tests/python/sleeper.c
tests_python_sleeper_so_CPPFLAGS = $(loaded_cppflags)
tests_python_sleeper_so_CFLAGS = $(loaded_cflags)
tests_python_sleeper_so_LDFLAGS = -shared
tests_python_sleeper_so_LDADD =
tests_python_taker_so_SOURCES = tests/python/taker.c
tests_python_taker_so_CPPFLAGS = $(loaded_cppflags)
tests_python_taker_so_CFLAGS = $(loaded_cflags)
tests_python_taker_so_LDFLAGS = -shared
tests_python_taker_so_LDADD =
tests_python_callbacks_so_SOURCES = tests/python/callbacks.c
tests_python_callbacks_so_CPPFLAGS = $(loaded_cppflags)
tests_python_callbacks_so_CFLAGS = $(loaded_cflags)
tests_python_callbacks_so_LDFLAGS = -shared
tests_python_callbacks_so_LDADD = -lpthread
tests_python_die_at_so_SOURCES = tests/python/die-at.c
tests_python_die_at_so_CPPFLAGS = $(loaded_cppflags)
tests_python_die_at_so_CFLAGS = $(loaded_cflags)
tests_python_die_at_so_LDFLAGS = -shared
tests_python_die_at_so_LDADD = -ldl
tests_python_foreign_so_SOURCES = tests/python/foreign.c
tests_python_foreign_so_CPPFLAGS = $(loaded_cppflags)
tests_python_foreign_so_CFLAGS = $(loaded_cflags)
tests_python_foreign_so_LDFLAGS = -shared
tests_python_foreign_so_LDADD =
tests_python_guest_so_SOURCES = tests/python/guest.c
tests_python_guest_so_CPPFLAGS = $(loaded_cppflags)
tests_python_guest_so_CFLAGS = $(loaded_cflags)
tests_python_guest_so_LDFLAGS = -shared
tests_python_guest_so_LDADD = -ldl -lpthread
# It loads others.
tests_python_host_SOURCES = tests/python/host.c
tests_python_host_CPPFLAGS = $(loaded_cppflags)
tests_python_host_CFLAGS = $(loaded_cflags)
tests_python_host_LDFLAGS = -Wl,--as-needed
tests_python_host_LDADD = -ldl -lpthread
tests_python_naive_reader_so_SOURCES = tests/python/naive-reader.c
tests_python_naive_reader_so_CPPFLAGS = $(loaded_cppflags)
tests_python_naive_reader_so_CFLAGS = $(loaded_cflags)
tests_python_naive_reader_so_LDFLAGS = -shared
tests_python_naive_reader_so_LDADD = -lpthread
