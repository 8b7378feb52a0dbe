# SPDX-License-Identifier: Apache-2.0
# One program for each module.
unit_tests = \
	tests/unit/t-base \
	tests/unit/t-control \
	tests/unit/t-copy \
	tests/unit/t-core \
	tests/unit/t-core-inside \
	tests/unit/t-decoder \
	tests/unit/t-fault \
	tests/unit/t-file \
	tests/unit/t-file-damage \
	tests/unit/t-file-writer \
	tests/unit/t-filter \
	tests/unit/t-handlers \
	tests/unit/t-host \
	tests/unit/t-kept \
	tests/unit/t-walk \
	tests/unit/t-layout \
	tests/unit/t-limits \
	tests/unit/t-lines \
	tests/unit/t-looks \
	tests/unit/t-output \
	tests/unit/t-parse \
	tests/unit/t-preload \
	tests/unit/t-proc \
	tests/unit/t-profile \
	tests/unit/t-python \
	tests/unit/t-sigframe \
	tests/unit/t-standing \
	tests/unit/t-str \
	tests/unit/t-strata \
	tests/unit/t-timer \
	tests/unit/t-timer-handler \
	tests/unit/t-tree \
	tests/unit/t-unicode \
	tests/unit/t-vdso \
	tests/unit/t-verdict \
	tests/unit/t-wire
unit_scripts = \
	tests/unit/layouts.sh \
	tests/unit/lines.sh \
	tests/unit/valgrind.sh
check_PROGRAMS += $(unit_tests) tests/unit/lines-check
TESTS += $(unit_tests) $(unit_scripts)
dist_check_SCRIPTS += $(unit_scripts)
EXTRA_DIST += \
	tests/unit/dump.h \
	tests/unit/harmless.h \
	tests/unit/hosted.h \
	tests/unit/hosted-calls.h \
	tests/unit/offsets.h \
	tests/unit/pythons.h \
	tests/unit/records.h \
	tests/unit/scratch.h \
	tests/unit/tap.h \
	tests/unit/valgrind.supp

# valgrind.sh alone, which then fails where it cannot run.
.PHONY: check-valgrind
check-valgrind: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) -s $(unit_tests)
	$(AM_V_at)TOP_BUILDDIR='$(abs_builddir)' TOP_SRCDIR='$(abs_srcdir)' \
		$(SHELL) $(srcdir)/tests/unit/valgrind.sh --strict

tests_unit_lines_check_SOURCES = tests/unit/lines-check.c
tests_unit_lines_check_LDADD = $(LIBPYSTACK)
tests_unit_t_base_SOURCES = tests/unit/t-base.c
tests_unit_t_base_LDADD = $(LIBPYSTACK)
tests_unit_t_filter_SOURCES = tests/unit/t-filter.c
tests_unit_t_filter_LDADD = $(LIBPYSTACK)
tests_unit_t_limits_SOURCES = tests/unit/t-limits.c
tests_unit_t_limits_LDADD = $(LIBPYSTACK)
tests_unit_t_host_SOURCES = tests/unit/t-host.c
tests_unit_t_host_LDADD = $(LIBPYSTACK)
tests_unit_t_control_SOURCES = tests/unit/t-control.c src/control.c src/schedule.c
tests_unit_t_control_LDADD = $(LIBPYSTACK)
tests_unit_t_layout_SOURCES = tests/unit/t-layout.c
tests_unit_t_layout_LDADD = $(LIBPYSTACK)
tests_unit_t_lines_SOURCES = tests/unit/t-lines.c
tests_unit_t_lines_LDADD = $(LIBPYSTACK)
tests_unit_t_output_SOURCES = tests/unit/t-output.c src/output.c
tests_unit_t_output_LDADD = $(LIBPYSTACK)
tests_unit_t_parse_SOURCES = tests/unit/t-parse.c
tests_unit_t_parse_LDADD = $(LIBPYSTACK)
tests_unit_t_preload_SOURCES = tests/unit/t-preload.c lib/preload/entries.c
tests_unit_t_preload_LDADD = $(LIBPYSTACK)
tests_unit_t_str_SOURCES = tests/unit/t-str.c
tests_unit_t_str_LDADD = $(LIBPYSTACK)
tests_unit_t_strata_SOURCES = tests/unit/t-strata.c lib/core/strata.c
tests_unit_t_strata_LDADD = -lm
tests_unit_t_standing_SOURCES = tests/unit/t-standing.c lib/core/standing.c
tests_unit_t_standing_LDADD = -lpthread
tests_unit_t_timer_SOURCES = tests/unit/t-timer.c
tests_unit_t_timer_LDADD = -lpthread
tests_unit_t_unicode_SOURCES = tests/unit/t-unicode.c
tests_unit_t_unicode_LDADD = $(LIBPYSTACK)
tests_unit_t_vdso_SOURCES = tests/unit/t-vdso.c lib/core/vdso.c
tests_unit_t_vdso_LDADD =
tests_unit_t_wire_SOURCES = tests/unit/t-wire.c
tests_unit_t_wire_LDADD = $(LIBPYSTACK)
tests_unit_t_file_SOURCES = tests/unit/t-file.c
tests_unit_t_file_LDADD = $(LIBPYSTACK)
tests_unit_t_file_damage_SOURCES = tests/unit/t-file-damage.c
tests_unit_t_file_damage_LDADD = $(LIBPYSTACK)
tests_unit_t_file_writer_SOURCES = tests/unit/t-file-writer.c
tests_unit_t_file_writer_LDADD = $(LIBPYSTACK)
tests_unit_t_profile_SOURCES = tests/unit/t-profile.c
tests_unit_t_profile_LDADD = $(LIBPYSTACK)
tests_unit_t_decoder_SOURCES = tests/unit/t-decoder.c src/decoder.c
tests_unit_t_decoder_LDADD = $(LIBPYSTACK)
tests_unit_t_fault_SOURCES = tests/unit/t-fault.c lib/core/fault-x86-64-sig.c
# In the place of the core's linker script.
tests_unit_t_fault_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--defsym=core_fixups_begin=__start_core_fixups \
	-Wl,--defsym=core_fixups_end=__stop_core_fixups
tests_unit_t_fault_LDADD =
tests_unit_t_copy_SOURCES = tests/unit/t-copy.c lib/core/copy-x86-64-sig.c
tests_unit_t_copy_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--defsym=core_page_begin=__start_core_page \
	-Wl,--defsym=core_page_end=__stop_core_page
tests_unit_t_copy_LDADD =
hosted_core = $(core_sources) src/decoder.c
hosted_cppflags = $(AM_CPPFLAGS) -include $(srcdir)/tests/unit/hosted-calls.h
hosted_ldflags = $(tests_unit_t_copy_LDFLAGS) \
	-Wl,--defsym=core_fixups_begin=__start_core_fixups \
	-Wl,--defsym=core_fixups_end=__stop_core_fixups \
	-Wl,--defsym=core_timer_begin=__start_core_timer \
	-Wl,--defsym=core_timer_end=__stop_core_timer \
	-Wl,--wrap=arch_clone -Wl,--wrap=arch_unmap_exit -Wl,--wrap=alive_init
tests_unit_t_core_SOURCES = tests/unit/t-core.c $(hosted_core)
tests_unit_t_core_CPPFLAGS = $(hosted_cppflags)
tests_unit_t_core_LDFLAGS = $(hosted_ldflags) -Wl,--wrap=copy_begin
tests_unit_t_core_LDADD = $(LIBPYSTACK)
tests_unit_t_core_inside_SOURCES = tests/unit/t-core-inside.c $(hosted_core)
tests_unit_t_core_inside_CPPFLAGS = $(hosted_cppflags)
tests_unit_t_core_inside_LDFLAGS = $(hosted_ldflags)
tests_unit_t_core_inside_LDADD = $(LIBPYSTACK)
tests_unit_t_handlers_SOURCES = tests/unit/t-handlers.c lib/core/copy.c \
	lib/core/copy-x86-64-sig.c lib/core/pages.c
tests_unit_t_handlers_LDFLAGS = $(tests_unit_t_copy_LDFLAGS)
tests_unit_t_handlers_LDADD = -lpthread
tests_unit_t_kept_SOURCES = tests/unit/t-kept.c lib/core/kept.c
tests_unit_t_kept_LDADD =
tests_unit_t_walk_SOURCES = tests/unit/t-walk.c lib/core/walk.c \
	lib/core/fault-x86-64-sig.c
tests_unit_t_walk_LDFLAGS = $(tests_unit_t_fault_LDFLAGS)
tests_unit_t_walk_LDADD =
tests_unit_t_looks_SOURCES = tests/unit/t-looks.c \
	lib/core/copy-x86-64-sig.c lib/core/cpu.c lib/core/intern.c lib/core/kept.c \
	lib/core/names.c lib/core/pages.c lib/core/runs.c lib/core/strata.c \
	lib/core/threads.c lib/core/walk.c lib/wire/ring.c
tests_unit_t_looks_LDFLAGS = $(tests_unit_t_copy_LDFLAGS)
tests_unit_t_looks_LDADD =
tests_unit_t_sigframe_SOURCES = tests/unit/t-sigframe.c
tests_unit_t_sigframe_LDADD = $(LIBPYSTACK)
tests_unit_t_proc_SOURCES = tests/unit/t-proc.c
tests_unit_t_proc_LDADD = $(LIBPYSTACK)
tests_unit_t_timer_handler_SOURCES = tests/unit/t-timer-handler.c
tests_unit_t_timer_handler_LDADD =
tests_unit_t_python_SOURCES = tests/unit/t-python.c
tests_unit_t_python_LDADD = $(LIBPYSTACK)
tests_unit_t_tree_SOURCES = tests/unit/t-tree.c src/tree.c
tests_unit_t_tree_LDADD = $(LIBPYSTACK)
tests_unit_t_verdict_SOURCES = tests/unit/t-verdict.c src/verdict.c src/json.c
tests_unit_t_verdict_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
tests_unit_t_verdict_LDADD = $(LIBPYSTACK) $(JSON_LIBS)
