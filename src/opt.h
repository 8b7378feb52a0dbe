/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_OPT_H
#define SRC_OPT_H

/*
 * Options of a command, defined once in a table: parsing, --help, --list-opts and,
 * through it, completion follow from it.
 */

#include <stdbool.h>

#include "base/err.h"

struct cmd;

struct opt {
	char letter;       /* 0: none */
	const char *name;  /* long name; NULL: the row is a heading, its text in help */
	const char *value; /* what stands for its value in --help; NULL: takes none */
	const char *help;
	bool value_optional;
	bool negatable; /* --no-NAME too; the flag is then set to false */
	bool *given;    /* NULL, or set to true when it is */

	/* One of the four. */
	bool *flag;
	const char **text;
	unsigned *word; /* which of those that value has, as in "A|B|C", from 0 */
	/* Check and keep the value; err's text completes "option --NAME: ". */
	int (*set)(const char *value, struct err *err);
};

/*
 * Parse argv (argv[0] is the command's name).  Returns the index of the first operand
 * (operands are moved behind the options), or -1 when the command ends here, with
 * *ret_status the exit status: --help was asked for, or something was wrong, which has
 * been said.
 */
int opt_parse(const struct cmd *cmd, int argc, char **argv, int *ret_status);

/* Say that the command was called wrongly; returns the exit status. */
__attribute__((format(printf, 1, 2))) int opt_usage_error(const char *format, ...);

#endif
