/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_CMD_H
#define SRC_CMD_H

/*
 * Commands.  To add one:
 *  1. src/cmd-NAME.c with its options (opt.h) and one `const struct cmd cmd_NAME`;
 *  2. its line below, in the table of main.c and in src/local.mk;
 *  3. doc/pystack-NAME.1 with every option, in doc/local.mk;
 *  4. tests/cli/NAME.bats: status, standard output, standard error.
 * --help and completion follow from the table; tests/cli/manual.bats compares the
 * manual page with it.
 */

#include "opt.h"

struct cmd {
	const char *name;
	const char *summary;       /* one line, for `pystack --help` */
	const char *usage;         /* what follows the name; several lines allowed */
	const char *notes;         /* printed behind the options; NULL: nothing */
	const struct opt *options; /* ends with one that is all zero */
	bool stops_at_operand;     /* options behind the first operand are not ours */

	/* argv: the operands, from argv[0] on.  Returns the exit status. */
	int (*run)(int argc, char **argv);
};

extern const struct cmd cmd_record;
extern const struct cmd cmd_report;
extern const struct cmd cmd_script;
extern const struct cmd cmd_dump;
extern const struct cmd cmd_list;
extern const struct cmd cmd_doctor;

#endif
