/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, ns. */
int64_t clock_monotonic_ns(void);
/* CLOCK_REALTIME, ns since 1970. */
int64_t clock_real_ns(void);
/* CPU time of this process, ns. */
int64_t clock_process_cpu_ns(void);
/* Sleep for about ns; a signal may end it early. */
void clock_sleep_ns(int64_t ns);

#endif
