# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += \
	doc/pystack-file.5
EXTRA_DIST += doc/design.md
