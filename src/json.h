/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_JSON_H
#define SRC_JSON_H

/*
 * What commands print under --json: one object, in UTF-8 whatever the strings hold.  A
 * tree is built, printed and freed at once; adding never fails.
 *
 * What has no end is written piece by piece, and needs json_quote() alone.
 */

#include <stdbool.h>
#include <stddef.h>

struct cJSON; /* an object or an array; belongs to the one it was added to */

struct cJSON *json_new(void);
struct cJSON *json_add_object(struct cJSON *object, const char *name);
struct cJSON *json_add_array(struct cJSON *object, const char *name);
struct cJSON *json_append_object(struct cJSON *array);

/* value NULL or "": null. */
void json_add_text(struct cJSON *object, const char *name, const char *value);
/* Exact up to 2^53. */
void json_add_number(struct cJSON *object, const char *name, double value);
void json_add_flag(struct cJSON *object, const char *name, bool value);
void json_add_null(struct cJSON *object, const char *name);

/* "fix", a command, or "advice", words: the other one is null. */
void json_add_fix(struct cJSON *object, const char *fix, bool is_words);

/* Print a text in quotes on standard output, without building anything. */
void json_quote(const char *text);

/* Print it with a newline on standard output, and free it. */
void json_print(struct cJSON *object);

#endif
