/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/xalloc.h"

enum { TEXT_BYTES = 4 << 20 };

struct cJSON *json_new(void)
{
	cJSON_Hooks hooks = { .malloc_fn = xmalloc, .free_fn = free };

	cJSON_InitHooks(&hooks);
	return cJSON_CreateObject();
}

struct cJSON *json_add_object(struct cJSON *object, const char *name)
{
	return cJSON_AddObjectToObject(object, name);
}

struct cJSON *json_add_array(struct cJSON *object, const char *name)
{
	return cJSON_AddArrayToObject(object, name);
}

struct cJSON *json_append_object(struct cJSON *array)
{
	struct cJSON *object = cJSON_CreateObject();

	(void)cJSON_AddItemToArray(array, object);
	return object;
}

/* Bytes that are no UTF-8 would make the whole output no JSON. */
static void add_utf8(struct buf *b, const char *text)
{
	for (size_t size = strlen(text); size != 0;) {
		size_t bytes;

		if (str_character(text, size, &bytes) == 0xfffd)
			buf_add_str(b, "\xef\xbf\xbd");
		else
			buf_add(b, text, bytes);
		text += bytes;
		size -= bytes;
	}
}

void json_add_text(struct cJSON *object, const char *name, const char *value)
{
	_cleanup_buf_ struct buf text = BUF_INIT(TEXT_BYTES);

	if (value == NULL || value[0] == '\0') {
		json_add_null(object, name);
		return;
	}
	add_utf8(&text, value);
	(void)cJSON_AddStringToObject(object, name, buf_text(&text));
}

void json_add_number(struct cJSON *object, const char *name, double value)
{
	(void)cJSON_AddNumberToObject(object, name, value);
}

void json_add_flag(struct cJSON *object, const char *name, bool value)
{
	(void)cJSON_AddBoolToObject(object, name, value);
}

void json_add_null(struct cJSON *object, const char *name)
{
	(void)cJSON_AddNullToObject(object, name);
}

void json_add_fix(struct cJSON *object, const char *fix, bool is_words)
{
	json_add_text(object, "fix", is_words ? NULL : fix);
	json_add_text(object, "advice", is_words ? fix : NULL);
}

/* One of those that JSON, or who looks at it on a terminal, would take for something
 * else: below space, quote, backslash, DEL and C1. */
static bool needs_escape(uint32_t c)
{
	return c < 0x20 || c == '"' || c == '\\' || (c >= 0x7f && c <= 0x9f);
}

void json_quote(const char *text)
{
	size_t left = strlen(text), plain = 0;

	(void)putchar('"');
	while (plain < left) {
		size_t bytes = 1;
		uint32_t c = (unsigned char)text[plain];

		if (c >= 0x80)
			c = str_character(text + plain, left - plain, &bytes);
		if (!needs_escape(c) && c != 0xfffd) {
			plain += bytes;
			continue;
		}
		(void)fwrite(text, 1, plain, stdout);
		/* What is no UTF-8 becomes the character that says so. */
		printf("\\u%04x", (unsigned)c);
		text += plain + bytes;
		left -= plain + bytes;
		plain = 0;
	}
	(void)fwrite(text, 1, left, stdout);
	(void)putchar('"');
}

void json_print(struct cJSON *object)
{
	char *text = cJSON_Print(object);

	(void)puts(text);
	free(text);
	cJSON_Delete(object);
}
