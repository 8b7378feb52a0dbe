/* SPDX-License-Identifier: Apache-2.0 */
#include "opt.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/xalloc.h"
#include "cmd.h"
#include "msg.h"

enum {
	MAX_OPTIONS = 100,
	/* Values that getopt_long returns: the index of a row, or of its negation,
	 * above all characters. */
	ROW = 1000,
	NEGATED = 2000,
	HELP = 3000,
	LIST = 3001,
	HELP_COLUMN = 30,
};

static const char *current_command;

int opt_usage_error(const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	msg_error("%s; see 'pystack %s --help'", text != NULL ? text : "wrong usage",
		current_command);
	return STATUS_USAGE;
}

/* --- help --- */

static void print_row(const struct opt *o)
{
	char left[80];
	int n = 0;

	if (o->letter != 0)
		n += snprintf(left, sizeof(left), "  -%c, ", o->letter);
	else
		n += snprintf(left, sizeof(left), "      ");
	n += snprintf(left + n, sizeof(left) - (size_t)n, "--%s%s",
		o->negatable ? "[no-]" : "", o->name);
	if (o->value != NULL)
		(void)snprintf(left + n, sizeof(left) - (size_t)n, "%s=%s%s",
			o->value_optional ? "[" : "", o->value,
			o->value_optional ? "]" : "");
	if (strlen(left) < HELP_COLUMN - 1)
		printf("%-*s", HELP_COLUMN, left);
	else
		printf("%s\n%*s", left, HELP_COLUMN, "");
	/* Lines of the help text are broken where it says. */
	for (const char *at = o->help; *at != '\0';) {
		const char *end = strchrnul(at, '\n');

		printf("%.*s\n", (int)(end - at), at);
		if (*end == '\0')
			break;
		at = end + 1;
		printf("%*s", HELP_COLUMN, "");
	}
}

static void print_help(const struct cmd *cmd)
{
	printf("usage: pystack %s %s\n\n%s.\n", cmd->name, cmd->usage, cmd->summary);
	for (const struct opt *o = cmd->options; o->name != NULL || o->help != NULL;
		o++) {
		if (o->name == NULL)
			printf("\n%s:\n", o->help);
		else
			print_row(o);
	}
	printf("\n  -h, --help                  print this help\n");
	if (cmd->notes != NULL)
		printf("\n%s\n", cmd->notes);
}

static void print_list(const struct cmd *cmd)
{
	for (const struct opt *o = cmd->options; o->name != NULL || o->help != NULL;
		o++) {
		if (o->name == NULL)
			continue;
		printf("--%s%s\n", o->name,
			o->value != NULL && !o->value_optional ? "=" : "");
		if (o->negatable)
			printf("--no-%s\n", o->name);
		if (o->letter != 0)
			printf("-%c\n", o->letter);
	}
	printf("--help\n-h\n");
}

/* --- parsing --- */

/* What getopt_long wants, made from the table. */
struct tables {
	struct option longs[MAX_OPTIONS * 2];
	char shorts[MAX_OPTIONS * 3];
	char names[MAX_OPTIONS][40]; /* of the negations */
};

static void add_long(
	struct tables *t, size_t *n, const char *name, int has_value, int value)
{
	if (*n + 1 < sizeof(t->longs) / sizeof(t->longs[0]))
		t->longs[(*n)++] = (struct option){ name, has_value, NULL, value };
}

static void fill_tables(const struct cmd *cmd, struct tables *t)
{
	char *s = t->shorts;
	size_t n = 0;
	int row = 0;

	*s++ = cmd->stops_at_operand ? '+' : ':';
	if (cmd->stops_at_operand)
		*s++ = ':';
	for (const struct opt *o = cmd->options; o->name != NULL || o->help != NULL;
		o++, row++) {
		int has_value = o->value == NULL    ? no_argument
				: o->value_optional ? optional_argument
						    : required_argument;

		if (o->name == NULL)
			continue;
		add_long(t, &n, o->name, has_value, ROW + row);
		if (o->negatable) {
			(void)snprintf(
				t->names[row], sizeof(t->names[row]), "no-%s", o->name);
			add_long(t, &n, t->names[row], no_argument, NEGATED + row);
		}
		if (o->letter != 0) {
			*s++ = o->letter;
			for (int i = 0; i < has_value; i++)
				*s++ = ':';
		}
	}
	*s++ = 'h';
	add_long(t, &n, "help", no_argument, HELP);
	add_long(t, &n, "list-opts", no_argument, LIST);
}

static const struct opt *row_of(const struct cmd *cmd, int value)
{
	if (value >= NEGATED)
		return &cmd->options[value - NEGATED];
	if (value >= ROW)
		return &cmd->options[value - ROW];
	for (const struct opt *o = cmd->options; o->name != NULL || o->help != NULL;
		o++)
		if (o->name != NULL && o->letter == value)
			return o;
	return NULL;
}

/* Returns an exit status, 0 to go on. */
static int apply(const struct opt *o, int value, const char *text)
{
	struct err err = { "" };

	if (o->given != NULL)
		*o->given = true;
	if (o->flag != NULL) {
		*o->flag = value < NEGATED;
		return 0;
	}
	if (o->text != NULL) {
		*o->text = text;
		return 0;
	}
	if (o->word != NULL) {
		if (parse_word(text, o->value, o->word) == 0)
			return 0;
		return opt_usage_error(
			"option --%s: '%s' is none of %s", o->name, text, o->value);
	}
	if (o->set(text, &err) != 0)
		return opt_usage_error("option --%s: %s", o->name, err.text);
	return 0;
}

int opt_parse(const struct cmd *cmd, int argc, char **argv, int *ret_status)
{
	struct tables *t = xcalloc(1, sizeof(*t));
	int status = 0;

	current_command = cmd->name;
	fill_tables(cmd, t);
	optind = 0; /* glibc: start anew */
	opterr = 0;
	while (status == 0) {
		int at = optind > 0 ? optind : 1;
		int value = getopt_long(argc, argv, t->shorts, t->longs, NULL);

		if (value == -1)
			break;
		if (value == HELP || value == 'h') {
			print_help(cmd);
			status = -1;
		} else if (value == LIST) {
			print_list(cmd);
			status = -1;
		} else if (value == '?') {
			status = opt_usage_error("unknown or ambiguous option '%s'",
				at < argc ? argv[at] : "");
		} else if (value == ':') {
			status = opt_usage_error(
				"option '%s' needs a value", at < argc ? argv[at] : "");
		} else {
			status = apply(row_of(cmd, value), value, optarg);
		}
	}
	free(t);
	if (status != 0) {
		*ret_status = status < 0 ? STATUS_OK : status;
		return -1;
	}
	return optind;
}
