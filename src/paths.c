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

		/* BUILD/src/pystack: the library is
		 * BUILD/lib/preload/pystack-preload.so, and only a build tree has the
		 * core's image beside it. */
		if (slash != NULL && slash - self >= 4 &&
			strncmp(slash - 4, "/src", 4) == 0) {
			*slash = '\0';
			char *image = xasprintf("%s/../lib/core/core.bin", self);
			bool built = access(image, F_OK) == 0;

			free(image);
			if (built)
				return if_readable(xasprintf(
					"%s/../lib/preload/pystack-preload.so", self));
		}
	}
	return if_readable(xstrdup(PKGLIBDIR "/pystack-preload.so"));
}
