/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/entries.h"

#include "core/abi.h"
#include "core/sys.h"
#include "preload/text.h"

static const char library_name[] = "pystack-preload.so";
static const char spawn_name[] = "PYSTACK_SPAWN=";
static const char preload_name[] = "LD_PRELOAD=";
static const char alone_word[] = "alone:";
static const char adopted_word[] = "adopted:";
static const char task_word[] = "task:";
static const char thread_word[] = "thread:";
static const char filters_word[] = "filters=";

enum { NUMBERS_BYTES = 32 };

enum {
	HERE = -100, /* AT_FDCWD */
	MAY_READ = 4,
	EXISTS = 0,
};

/* Written before main, read by any thread and in children of a vfork. */
static struct {
	bool alone, adopted;
	enum core_isolation isolation;
	uint32_t filters, avoid;
	const char *socket;
	bool ended;
	char spawn[sizeof(spawn_name) + sizeof(alone_word) + sizeof(adopted_word) +
		   sizeof(thread_word) + sizeof(filters_word) + NUMBERS_BYTES +
		   CORE_SOCKET_PATH_BYTES];
	char preload[sizeof(preload_name) + ENTRIES_PATH_BYTES];
} kept;

static char *find(char *const *environment, const char *name)
{
	for (char *const *e = environment; e != NULL && *e != NULL; e++)
		if (text_begins(*e, name))
			return *e;
	return NULL;
}

static void drop(char **environment, const char *name)
{
	char **to = environment;

	for (char **e = environment; *e != NULL; e++)
		if (!text_begins(*e, name))
			*to++ = *e;
	*to = NULL;
}

/* The end of the component of a list of paths. */
static char *component_end(char *at)
{
	while (*at != '\0' && *at != ':' && *at != ' ')
		at++;
	return at;
}

/* Does the component [from, to) end in "/pystack-preload.so"? */
static bool is_this_library(const char *from, const char *to)
{
	size_t n = sizeof(library_name) - 1;

	return (size_t)(to - from) > n && to[-(long)n - 1] == '/' &&
	       text_begins(to - n, library_name);
}

static void keep_library(const char *from, const char *to)
{
	size_t n = sizeof(preload_name) - 1;

	if ((size_t)(to - from) >= ENTRIES_PATH_BYTES)
		return;
	memcpy(kept.preload, preload_name, n);
	memcpy(kept.preload + n, from, (size_t)(to - from));
	kept.preload[n + (size_t)(to - from)] = '\0';
}

/* The first component of a list of paths that is this library; NULL when none is. */
static char *find_library(char *value, char **ret_end)
{
	for (char *at = value; *at != '\0';) {
		char *end = component_end(at);

		*ret_end = end;
		if (is_this_library(at, end))
			return at;
		at = *end != '\0' ? end + 1 : end;
	}
	return NULL;
}

/* Take this library out of LD_PRELOAD, with the separator it was added by, and the
 * entry with it when it was alone. */
static void take_library(char **environment)
{
	char *entry = find(environment, preload_name);
	char *value, *from, *to;

	if (entry == NULL)
		return;
	value = entry + sizeof(preload_name) - 1;
	while ((from = find_library(value, &to)) != NULL) {
		keep_library(from, to);
		if (from == value && *to == '\0') {
			drop(environment, preload_name);
			return;
		}
		if (from != value)
			from--;
		else
			to++;
		memmove(from, to, text_length(to) + 1);
	}
}

static bool pass_word(const char **at, const char *word)
{
	if (!text_begins(*at, word))
		return false;
	*at += text_length(word);
	return true;
}

static uint32_t take_number(const char **at)
{
	uint32_t value = 0;

	while (**at >= '0' && **at <= '9')
		value = value * 10 + (uint32_t)(*(*at)++ - '0');
	if (**at == ',' || **at == ':')
		(*at)++;
	return value;
}

bool entries_take(char **environment)
{
	char *entry = find(environment, spawn_name);

	if (entry == NULL)
		return false;
	text_copy(kept.spawn, sizeof(kept.spawn), entry);
	kept.socket = kept.spawn + sizeof(spawn_name) - 1;
	kept.alone = pass_word(&kept.socket, alone_word);
	kept.adopted = pass_word(&kept.socket, adopted_word);
	kept.isolation = CORE_ISOLATION_AUTO;
	kept.filters = kept.avoid = 0;
	if (pass_word(&kept.socket, task_word))
		kept.isolation = CORE_ISOLATION_TASK;
	else if (pass_word(&kept.socket, thread_word))
		kept.isolation = CORE_ISOLATION_THREAD;
	if (pass_word(&kept.socket, filters_word)) {
		kept.filters = take_number(&kept.socket);
		kept.avoid = take_number(&kept.socket);
	}
	drop(environment, spawn_name);
	/* Who reads /proc/PID/environ sees that it was taken. */
	entry[0] = ENTRIES_TAKEN;
	take_library(environment);
	return true;
}

bool entries_adopted(void)
{
	return kept.adopted;
}

enum core_isolation entries_isolation(void)
{
	return kept.isolation;
}

long entries_filters(uint32_t *ret_avoid)
{
	*ret_avoid = kept.avoid;
	return (long)kept.filters;
}

const char *entries_socket(void)
{
	return kept.socket;
}

void entries_found_python(void)
{
	kept.ended = kept.alone;
}

static bool may_access(const char *path, int how)
{
	return SYS3(__NR_faccessat, HERE, path, how) == 0;
}

bool entries_go_on(void)
{
	return !kept.ended && kept.preload[0] != '\0' &&
	       may_access(entries_socket(), EXISTS) &&
	       may_access(kept.preload + sizeof(preload_name) - 1, MAY_READ);
}

size_t entries_room(char *const *environment)
{
	char *preload = find(environment, preload_name);
	size_t count = 0;

	while (environment != NULL && environment[count] != NULL)
		if (++count > ENTRIES_MOST)
			return 0;
	if (preload != NULL &&
		text_length(preload) + sizeof(kept.preload) > ENTRIES_TEXT_BYTES)
		return 0;
	return count + 3;
}

void entries_put(
	char *const *environment, char **list, char text[static ENTRIES_TEXT_BYTES])
{
	const char *ours = kept.preload + sizeof(preload_name) - 1;
	bool preload = false;
	size_t n = 0;

	for (char *const *e = environment; e != NULL && *e != NULL; e++) {
		if (text_begins(*e, spawn_name))
			continue;
		list[n] = *e;
		if (!preload && text_begins(*e, preload_name)) {
			char *value = *e + sizeof(preload_name) - 1, *end;

			preload = true;
			if (find_library(value, &end) == NULL) {
				text_copy(text, ENTRIES_TEXT_BYTES, *e);
				text_add(text, ENTRIES_TEXT_BYTES, ":");
				text_add(text, ENTRIES_TEXT_BYTES, ours);
				list[n] = text;
			}
		}
		n++;
	}
	if (!preload)
		list[n++] = kept.preload;
	list[n++] = kept.spawn;
	list[n] = NULL;
}
