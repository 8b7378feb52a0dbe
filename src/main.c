/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pystack: a sampling profiler for Python, in the style of perf.
 *
 * Map of this folder:
 *   main.c              commands, global options, the last check of standard output
 *   cmd.h cmd-*.c       one command each
 *   opt.[ch]            option tables
 *   msg.[ch]            messages
 *   look.[ch]           what there is to know of a process before it is attached to
 *   verdict.[ch]        whether it can be, and what would help
 *   json.[ch]           results as JSON
 *   target.[ch]         the command to be recorded: start, status
 *   recorder.[ch] rec-*.c  a recording from start to end
 *   control.[ch]        commands from outside, while it lasts
 *   output.[ch]         the files it goes into, one or more
 *   decoder.[ch]        records of a ring to records of the file
 *   view-text.[ch]      reports as text
 *   term.[ch]           width, pager, what a terminal may see
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "msg.h"
#include "term.h"

static const struct cmd *const commands[] = {
	&cmd_record,
	&cmd_report,
	&cmd_script,
	&cmd_dump,
	&cmd_list,
	&cmd_doctor,
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(void)
{
	printf("usage: pystack [--version] [--help] COMMAND [ARGUMENTS]\n\n"
	       "A sampling profiler for Python programs, with the habits of perf.\n\n");
	for (int i = 0; i < COMMANDS; i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
	printf("\nThe first five minutes:\n"
	       "  pystack record -- python3 app.py    run a program and record it\n"
	       "  pystack record -p PID               record a running one until Ctrl-C\n"
	       "  pystack report                      show where the time went\n"
	       "  pystack dump -p PID                 what are its threads doing right now?\n"
	       "  pystack list                        which Pythons run here?\n"
	       "  pystack doctor [PID]                can it be recorded, and if not why?\n"
	       "\n'pystack COMMAND --help' lists the options of a command; "
	       "'pystack help COMMAND'\nopens its manual page.\n");
}

static const struct cmd *find_command(const char *name)
{
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

/* Insertions, deletions, changes and swaps of neighbours that make a into b. */
static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	size_t rows[3][32];

	if (n > 30 || m > 30)
		return 99;
	for (size_t j = 0; j <= m; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *row = rows[i % 3], *above = rows[(i + 2) % 3],
		       *two_above = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);

			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				a[i - 2] == b[j - 1] && two_above[j - 2] + 1 < best)
				best = two_above[j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[n % 3][m];
}

/* Names that people who come from elsewhere try first. */
static const char *other_name(const char *name)
{
	static const char *const names[][2] = {
		{ "remote", "dump -p PID" },
		{ "core", NULL },
		{ "attach", "record -p PID" },
		{ "ps", "list" },
		{ "run", "record -- COMMAND" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i][0], name) == 0)
			return names[i][1] != NULL ? names[i][1] : "dump -p PID";
	return NULL;
}

static int unknown_command(const char *name)
{
	const char *near = NULL, *other = other_name(name);
	size_t least = 3;

	for (int i = 0; i < COMMANDS; i++) {
		size_t d = distance(name, commands[i]->name);

		if (d < least) {
			least = d;
			near = commands[i]->name;
		}
	}
	if (strcmp(name, "core") == 0)
		msg_error("this pystack is a profiler and reads no core files; "
			  "of a live process: pystack dump -p PID");
	else if (other != NULL)
		msg_error(
			"'%s' is not a command; you may want: pystack %s", name, other);
	else if (near != NULL)
		msg_error("'%s' is not a command; did you mean '%s'?", name, near);
	else
		msg_error("'%s' is not a command; see 'pystack --help'", name);
	return STATUS_USAGE;
}

static int open_manual(const char *name)
{
	char page[64];

	(void)snprintf(page, sizeof(page), "pystack%s%s", name != NULL ? "-" : "",
		name != NULL ? name : "");
	(void)execlp("man", "man", page, (char *)NULL);
	msg_error("cannot run man: %s; 'pystack%s%s --help' tells the options",
		strerror(errno), name != NULL ? " " : "", name != NULL ? name : "");
	return STATUS_FAILED;
}

static int run_command(const struct cmd *cmd, int argc, char **argv)
{
	int status = STATUS_OK;

	msg_set_command(cmd->name);
	int first = opt_parse(cmd, argc, argv, &status);

	if (first < 0)
		return status;
	return cmd->run(argc - first, argv + first);
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		print_help();
		return STATUS_USAGE;
	}
	const char *name = argv[1];

	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		print_help();
		return STATUS_OK;
	}
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
		printf("pystack %s, sampling profiler\n", PACKAGE_VERSION);
		return STATUS_OK;
	}
	if (strcmp(name, "--list-cmds") == 0) {
		for (int i = 0; i < COMMANDS; i++)
			printf("%s\n", commands[i]->name);
		return STATUS_OK;
	}
	if (strcmp(name, "help") == 0) {
		if (argc > 2 && find_command(argv[2]) == NULL)
			return unknown_command(argv[2]);
		return open_manual(argc > 2 ? argv[2] : NULL);
	}
	if (name[0] == '-') {
		msg_error("unknown option '%s'; see 'pystack --help'", name);
		return STATUS_USAGE;
	}
	const struct cmd *cmd = find_command(name);

	if (cmd == NULL)
		return unknown_command(name);
	return run_command(cmd, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	/* A standard descriptor that is closed must not become a data file's. */
	term_open_standard_descriptors();
	int status = run(argc, argv);

	return term_finish_stdout(status);
}
