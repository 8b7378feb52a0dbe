/* SPDX-License-Identifier: Apache-2.0 */
#include "paths.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"

static char *if_readable(char *path)
{
	char *real = access(path, R_OK) == 0 ? realpath(path, NULL) : NULL;

	free(path);
	return real;
}

char *paths_preload(void)
{
	const char *given = secure_getenv("PYSTACK_PRELOAD");
	char self[PATH_MAX];
	ssize_t n;

	if (given != NULL)
		return if_readable(xstrdup(given));
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n > 0) {
		self[n] = '\0';
		char *slash = strrchr(self, '/');

		if (slash != NULL)
			*slash = '\0';
		size_t size = strlen(self);

		/* BUILD/src/pystack: the library is
		 * BUILD/lib/preload/pystack-preload.so, and only a build tree has the
		 * core's image beside it. */
		if (size >= 4 && strcmp(self + size - 4, "/src") == 0) {
			char *image = xasprintf("%s/../lib/core/core.bin", self);
			bool built = access(image, F_OK) == 0;

			free(image);
			if (built)
				return if_readable(xasprintf(
					"%s/../lib/preload/pystack-preload.so", self));
		}
		/* Installed, and moved as a whole since (DESTDIR). */
		char *beside = if_readable(
			xasprintf("%s/../lib/pystack/pystack-preload.so", self));

		if (beside != NULL)
			return beside;
	}
	return if_readable(xstrdup(PKGLIBDIR "/pystack-preload.so"));
}
