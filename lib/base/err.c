/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *format, ...)
{
	if (err != NULL) {
		va_list args;

		va_start(args, format);
		(void)vsnprintf(err->text, sizeof(err->text), format, args);
		va_end(args);
	}
	return code;
}

const char *err_name(int code)
{
	switch (-code) {
	case E_TRUNCATED:
		return "ends in the middle";
	case E_BADFORMAT:
		return "not in the expected format";
	case E_UNSUPPORTED:
		return "not supported";
	case E_TOOBIG:
		return "too big";
	case E_GONE:
		return "no longer there";
	case E_REFUSED:
		return "refused, as it would not be safe";
	case E_TIMEOUT:
		return "timed out";
	default:
		return strerror(-code);
	}
}
