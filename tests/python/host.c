/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is no Python and has one in it, or two, each in a thread of its own.
 *
 * usage: host [-e] LIBRARY HOME SCRIPT [LIBRARY HOME SCRIPT]
 *
 * -e: the main thread ends while the others go on.  A SCRIPT is the text of one.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct guest {
	const char *library, *home, *script;
	int mode;
	pthread_t thread;
};

static void fail(const char *what)
{
	fprintf(stderr, "host: %s\n", what);
	_exit(2);
}

static void *run(void *arg)
{
	struct guest *g = arg;
	void *library = dlopen(g->library, g->mode);

	if (library == NULL)
		fail(dlerror());
	void (*initialize)(int) = (void (*)(int))dlsym(library, "Py_InitializeEx");
	int (*simple)(const char *) =
		(int (*)(const char *))dlsym(library, "PyRun_SimpleString");

	if (initialize == NULL || simple == NULL)
		fail("no Python in it");
	(void)setenv("PYTHONHOME", g->home, 1);
	initialize(0);
	if (simple(g->script) != 0)
		fail("the script failed");
	return NULL;
}

int main(int argc, char **argv)
{
	struct guest guests[2];
	int end_main = argc > 1 && strcmp(argv[1], "-e") == 0, count = 0;

	for (int i = 1 + end_main; i + 2 < argc && count < 2; i += 3)
		guests[count++] =
			(struct guest){ argv[i], argv[i + 1], argv[i + 2], 0, 0 };
	for (int i = 0; i < count; i++) {
		/* The environment is one for both. */
		if (i != 0)
			sleep(1);
		/* Two would take each other's symbols. */
		guests[i].mode = RTLD_NOW | (count == 1 ? RTLD_GLOBAL
							: RTLD_LOCAL | RTLD_DEEPBIND);
		if (pthread_create(&guests[i].thread, NULL, run, &guests[i]) != 0)
			fail("no thread");
	}
	if (end_main)
		pthread_exit(NULL);
	for (int i = 0; i < count; i++)
		(void)pthread_join(guests[i].thread, NULL);
	/* Nobody finalizes them. */
	_exit(0);
}
