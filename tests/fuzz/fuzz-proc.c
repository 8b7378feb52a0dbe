/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of /proc: each input as a maps, a stat and a status file. */
#include <string.h>

#include "base/xalloc.h"
#include "fuzz.h"
#include "proc/host.h"
#include "proc/limits.h"
#include "proc/maps.h"
#include "proc/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* The parsers see a text, which ends at its first NUL. */
	_cleanup_free_ char *all = xmemdup0(data, size);
	_cleanup_free_ char *text = xstrdup(all);
	struct proc_maps maps;
	struct proc_stat stat;
	struct proc_status status;

	proc_maps_parse(text, &maps);
	for (size_t i = 0; i < maps.count; i++) {
		const struct proc_map *m = &maps.map[i];

		fuzz_require(
			m->start <= m->end && m->path != NULL, "a mapping has an end");
		fuzz_require(
			m->start == m->end || proc_maps_at(&maps, m->start) != NULL,
			"a mapping is found by its address");
		fuzz_require(
			proc_maps_named(&maps, m->path) != NULL, "and by its name");
	}
	proc_maps_done(&maps);
	if (proc_stat_parse(text, &stat) == 0)
		fuzz_require(memchr(stat.comm, '\0', sizeof(stat.comm)) != NULL,
			"a name ends");
	proc_status_parse(text, &status);

	struct proc_limits limits;

	proc_limits_parse(text, &limits);
	_cleanup_free_ char *folder = proc_limits_pids_folder(text);

	fuzz_require(folder == NULL || folder[0] == '/', "a folder has a full path");
	(void)host_kernel_parse(text);
	(void)host_yama_parse(text);
	return 0;
}
