# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += \
	doc/pystack.1 \
	doc/pystack-doctor.1 \
	doc/pystack-dump.1 \
	doc/pystack-file.5 \
	doc/pystack-list.1 \
	doc/pystack-record.1 \
	doc/pystack-report.1 \
	doc/pystack-script.1
EXTRA_DIST += doc/bench.md doc/design.md
