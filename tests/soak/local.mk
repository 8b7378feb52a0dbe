# SPDX-License-Identifier: Apache-2.0
# Never part of check: it takes as long as asked, and finds what is rare.
# `make soak SOAK_FLAGS="--seconds 3600 --seed 7"`; SOAK_FLAGS=--help tells what else there is.
SOAK_FLAGS =

soak: all
	PYSTACK_PRELOAD='$(abs_builddir)/lib/preload/pystack-preload.so' \
		$(srcdir)/tests/soak/soak.py --pystack src/pystack $(SOAK_FLAGS)
.PHONY: soak

EXTRA_DIST += \
	tests/soak/program.py \
	tests/soak/soak.py
