# SPDX-License-Identifier: Apache-2.0

# --- what goes into other programs: the core image and the preload library ---

# Flags of theirs alone: no sanitizer, no fortification, no libc.
core_cppflags = -I$(srcdir)/lib
core_cflags = -std=gnu17 $(WARN_CFLAGS) $(CORE_CFLAGS)

# All of the core but memops.c: libc has that where the core is a part of a test.
core_sources = \
	lib/core/alive.c \
	lib/core/call.c \
	lib/core/copy.c \
	lib/core/copy-x86-64-sig.c \
	lib/core/cpu.c \
	lib/core/entry-x86-64.S \
	lib/core/fault-x86-64-sig.c \
	lib/core/intern.c \
	lib/core/kept.c \
	lib/core/loop.c \
	lib/core/names.c \
	lib/core/pages.c \
	lib/core/runs.c \
	lib/core/sample.c \
	lib/core/standing.c \
	lib/core/strata.c \
	lib/core/task.c \
	lib/core/threads.c \
	lib/core/timer.c \
	lib/core/timer-handler.c \
	lib/core/vdso.c \
	lib/core/walk.c

noinst_LIBRARIES += lib/core/libcore.a
lib_core_libcore_a_SOURCES = \
	$(core_sources) \
	lib/core/abi.h \
	lib/core/arch.h \
	lib/core/arch-x86-64.h \
	lib/core/copy-page.h \
	lib/core/core-internal.h \
	lib/core/memops.c \
	lib/core/memory.h \
	lib/core/pages.h \
	lib/core/strata.h \
	lib/core/sys.h \
	lib/core/timer.h \
	lib/wire/ring.c
lib_core_libcore_a_CPPFLAGS = $(core_cppflags)
lib_core_libcore_a_CFLAGS = $(core_cflags)
EXTRA_DIST += lib/core/core.ld

lib/core/core.so: lib/core/libcore.a $(srcdir)/lib/core/core.ld
	$(AM_V_CCLD)$(CC) -shared -nostdlib -Wl,-T,$(srcdir)/lib/core/core.ld \
		-Wl,-z,noexecstack -Wl,--no-undefined -Wl,-Bsymbolic -Wl,--build-id=none \
		-Wl,--hash-style=sysv -o $@ \
		-Wl,--whole-archive lib/core/libcore.a -Wl,--no-whole-archive
lib/core/core.bin: lib/core/core.so $(srcdir)/build-aux/check-core.sh
	$(AM_V_at)READELF="$(READELF)" NM="$(NM)" $(SHELL) $(srcdir)/build-aux/check-core.sh \
		core lib/core/core.so
	$(AM_V_at)READELF="$(READELF)" $(SHELL) $(srcdir)/build-aux/check-core.sh \
		page lib/core/libcore_a-copy-x86-64-sig.$(OBJEXT)
	$(AM_V_GEN)$(OBJCOPY) -O binary -j .text lib/core/core.so $@
CLEANFILES += lib/core/core.so lib/core/core.bin

preload_PROGRAMS += lib/preload/pystack-preload.so
lib_preload_pystack_preload_so_SOURCES = \
	lib/core/image.S lib/core/memops.c \
	lib/preload/entries.c lib/preload/entries.h \
	lib/preload/filters.c lib/preload/filters.h \
	lib/preload/fit.c lib/preload/fit.h \
	lib/preload/hooks.c lib/preload/hooks.h \
	lib/preload/preload.c \
	lib/preload/text.h
lib_preload_pystack_preload_so_CPPFLAGS = $(core_cppflags)
lib_preload_pystack_preload_so_CFLAGS = $(core_cflags)
lib_preload_pystack_preload_so_CCASFLAGS = -DCORE_IMAGE_CODE
lib_preload_pystack_preload_so_LDFLAGS = -shared -nostdlib -Wl,-z,noexecstack -Wl,-z,relro \
	-Wl,-z,now -Wl,--build-id=none -Wl,--unresolved-symbols=ignore-all
lib_preload_pystack_preload_so_LDADD =
lib/core/preload_pystack_preload_so-image.$(OBJEXT): lib/core/core.bin

# --- the libraries of the program ---

noinst_LIBRARIES += lib/libpystack.a
lib_libpystack_a_SOURCES = \
	lib/base/buf.c lib/base/buf.h \
	lib/base/clock.c lib/base/clock.h \
	lib/base/crc32c.c lib/base/crc32c.h \
	lib/base/err.c lib/base/err.h \
	lib/base/fd.c lib/base/fd.h \
	lib/base/hash.c lib/base/hash.h \
	lib/base/parse.c lib/base/parse.h \
	lib/base/str.c lib/base/str.h \
	lib/base/xalloc.c lib/base/xalloc.h \
	lib/core/image.S \
	lib/file/format.h \
	lib/file/place.c lib/file/place.h \
	lib/file/reader.c lib/file/reader.h \
	lib/file/writer.c lib/file/writer.h \
	lib/inject/borrow.c lib/inject/borrow.h \
	lib/inject/filter.c lib/inject/filter.h \
	lib/inject/hush.c lib/inject/hush.h \
	lib/inject/inject.c lib/inject/inject.h \
	lib/inject/probe.c lib/inject/probe.h \
	lib/inject/sigframe.c lib/inject/sigframe.h \
	lib/preload/fit.c \
	lib/proc/elf.c lib/proc/elf.h \
	lib/proc/events.c lib/proc/events.h \
	lib/proc/host.c lib/proc/host.h \
	lib/proc/limits.c lib/proc/limits.h \
	lib/proc/maps.c lib/proc/maps.h \
	lib/proc/mem.c lib/proc/mem.h \
	lib/proc/process.c lib/proc/process.h \
	lib/proc/pynames.c lib/proc/pynames.h \
	lib/proc/pystacks.c lib/proc/pystacks.h \
	lib/proc/python.c lib/proc/python.h \
	lib/proc/pymem.h \
	lib/proc/pytype.c lib/proc/pytype.h \
	lib/proc/pytext.c lib/proc/pytext.h \
	lib/profile/load.c lib/profile/load.h \
	lib/profile/model.c lib/profile/model.h \
	lib/profile/profile.c lib/profile/profile.h \
	lib/python/frame.h \
	lib/python/layout.c lib/python/layout.h lib/python/layouts.inc \
	lib/python/linetable.c lib/python/linetable.h \
	lib/python/object.h \
	lib/python/unicode.c lib/python/unicode.h \
	lib/wire/isolation.h \
	lib/wire/record.h \
	lib/wire/ring.c lib/wire/ring.h \
	lib/wire/varint.h
lib_libpystack_a_CPPFLAGS = $(AM_CPPFLAGS) $(ZSTD_CFLAGS) $(ELF_CFLAGS)
lib_libpystack_a_CFLAGS = $(AM_CFLAGS)
lib/core/libpystack_a-image.$(OBJEXT): lib/core/core.bin

LIBPYSTACK = lib/libpystack.a $(ZSTD_LIBS) $(ELF_LIBS) -lm -lpthread
