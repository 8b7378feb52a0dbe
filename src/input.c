/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "msg.h"
#include "profile/profile.h"

bool input_allowed(const char *path, bool force)
{
	const char *user = getenv("SUDO_UID");
	uint64_t sudo_uid = 0;
	struct stat st;

	if (force || strcmp(path, "-") == 0 || geteuid() != 0 || stat(path, &st) != 0 ||
		st.st_uid == 0)
		return true;
	if (user != NULL && parse_number(user, UINT32_MAX, &sudo_uid) == 0 &&
		st.st_uid == sudo_uid)
		return true;
	msg_error("%s: belongs to another user (%u); -f reads it all the same", path,
		(unsigned)st.st_uid);
	return false;
}

int input_check_event(const char *path, const struct model *m, int event, bool timers,
	struct err *err)
{
	if (event == PROFILE_WALL && !model_has_waiting(m))
		return err_set(err, -E_UNSUPPORTED,
			"%s has no time of waiting threads (it was recorded with --oncpu): "
			"--event=cpu or gil",
			path);
	if (event == PROFILE_CPU_TIMER && !timers && !model_has_timers(m))
		return err_set(err, -E_UNSUPPORTED,
			"%s has no CPU timers: record with -e cpu-timer", path);
	return 0;
}

int input_account(const char *path, const struct load_result *result, bool force)
{
	if (result->damage[0] == '\0')
		return STATUS_OK;
	msg_error("%s: read up to byte %llu only: %s", path,
		(unsigned long long)result->bytes, result->damage);
	return force ? STATUS_OK : STATUS_FAILED;
}
