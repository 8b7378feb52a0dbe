/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_PATHS_H
#define SRC_PATHS_H

/*
 * Where the preload library is: PYSTACK_PRELOAD if that is set, else in the build tree
 * this program runs from, else where it was installed.  Owned; NULL when nowhere.
 */
char *paths_preload(void);

#endif
