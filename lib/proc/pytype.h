/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROC_PYTYPE_H
#define PROC_PYTYPE_H

/* What a Python whose symbols were stripped tells by its objects. */

#include <stdint.h>

#include "proc/mem.h"
#include "python/layout.h"

/* PyCode_Type, by the code of the first frame of any thread; 0 when none has one. */
uint64_t pytype_of_code(
	struct proc_mem *mem, const struct py_layout *l, uint64_t runtime);

#endif
