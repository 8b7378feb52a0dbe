/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRELOAD_FIT_H
#define PRELOAD_FIT_H

/*
 * May a program be given the preload library?  Read from its file, by raw system calls
 * and without memory of its own, so that it can be asked anywhere, also in the child
 * of a vfork.
 */

enum fit {
	FIT_LOADS,   /* dynamically linked, for this machine */
	FIT_IGNORES, /* statically linked or privileged, or what it is cannot be told */
	FIT_BREAKS,  /* it would complain, or end: another machine's, or with a
		      * sanitizer,  whose library must be the first */
};

/* Of the file at path, relative to the directory (-100, AT_FDCWD: the current one); of
 * a script that names its interpreter, of that. */
enum fit fit_of_file(int directory, const char *path);

/* Likewise of an open file. */
enum fit fit_of_descriptor(int fd);

#endif
