/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "cmd.h"
#include "inject/inject.h"
#include "json.h"
#include "look.h"
#include "msg.h"
#include "proc/host.h"
#include "term.h"
#include "verdict.h"

enum {
	MAX_DEPTH = 64, /* drawn of a tree */
	NO_ROW = -1,
	COLUMNS = 8,
	COMMAND_LEAST = 20, /* columns of a command line, however narrow it gets */
};

/* One process of the table. */
struct row {
	struct look look;
	struct verdict verdict;
	double cpu_percent; /* over its life */
	double age_s;
	long parent; /* row of the nearest ancestor that has one; NO_ROW */
	char *user;
};

/* What the scan has seen of every process: enough to find ancestors. */
struct seen {
	pid_t pid, parent;
	bool sampler; /* named as our tasks are */
};

struct list {
	struct row *rows;
	size_t count, capacity;
	struct seen *seen;
	size_t seen_count, seen_capacity;
	struct hash_index by_pid; /* into seen */
	struct host host;
	bool refused; /* some may not be looked into */
};

static bool tree, as_json;

static const struct opt list_options[] = {
	{ 0, "tree", NULL, "show which comes from which", .flag = &tree },
	{ 0, "json", NULL, "print one JSON object instead", .flag = &as_json },
	{ 0 },
};

/* --- gathering --- */

static uint64_t hash_of_pid(pid_t pid)
{
	return hash_mix(0, (uint64_t)pid);
}

static uint64_t hash_of_seen(uint32_t entry, const void *context)
{
	return hash_of_pid(((const struct list *)context)->seen[entry].pid);
}

static const struct seen *find_seen(const struct list *l, pid_t pid)
{
	uint32_t at = (uint32_t)hash_of_pid(pid), entry;

	while (hash_index_next(&l->by_pid, &at, &entry))
		if (l->seen[entry].pid == pid)
			return &l->seen[entry];
	return NULL;
}

/* All processes that there are; those worth a look in ret_pids. */
static int scan(struct list *l, struct proc_ids *ret_pids)
{
	size_t kept = 0;
	int r = proc_all(ret_pids);

	if (r != 0)
		return r;
	for (size_t i = 0; i < ret_pids->count; i++) {
		pid_t pid = ret_pids->id[i];
		struct proc_stat st;

		if (proc_stat_read(pid, 0, &st) != 0)
			continue;
		l->seen = xgrow(
			l->seen, l->seen_count, &l->seen_capacity, sizeof(*l->seen));
		l->seen[l->seen_count] = (struct seen){
			.pid = pid,
			.parent = st.parent,
			.sampler = strcmp(st.comm, "pystack") == 0 && st.state != 'Z',
		};
		hash_index_add(&l->by_pid, hash_of_pid(pid), (uint32_t)l->seen_count,
			hash_of_seen, l);
		l->seen_count++;
		if (pid != getpid() && !st.kernel_thread && st.state != 'Z')
			ret_pids->id[kept++] = pid;
	}
	ret_pids->count = kept;
	return 0;
}

/* Of those that bear the name of a sampler task, the one in this process's memory; or a
 * thread of it. */
static void find_task(const struct list *l, struct look *look)
{
	bool named_so = strcmp(look->stat.comm, "pystack") == 0;

	for (size_t i = 0; i < l->seen_count; i++) {
		pid_t other = l->seen[i].pid;

		if (other == look->pid || l->seen[i].sampler == named_so ||
			!proc_share_memory(look->pid, other))
			continue;
		if (named_so)
			look->program = other;
		else
			look->task = other;
		return;
	}
	if (!named_so)
		look->task = inject_find_thread(look->pid);
}

/* From the file, as asking a name service could take long. */
static char *user_name(uid_t uid)
{
	FILE *file = fopen("/etc/passwd", "re");
	char *name = NULL;

	for (struct passwd *p; file != NULL && (p = fgetpwent(file)) != NULL;) {
		if (p->pw_uid != uid)
			continue;
		name = xstrdup(p->pw_name);
		break;
	}
	if (file != NULL)
		(void)fclose(file);
	return name != NULL ? name : xasprintf("%u", (unsigned)uid);
}

/* Asked for behind the CPU time of each process: with one of before all of them, a
 * young one would have used more than there was. */
static double uptime(void)
{
	struct timespec up;

	(void)clock_gettime(CLOCK_BOOTTIME, &up);
	return (double)up.tv_sec + (double)up.tv_nsec / 1e9;
}

static void add_row(const struct look *look, void *context)
{
	struct list *l = context;
	double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
	struct row row = { .look = *look, .parent = NO_ROW };

	if (look->python_code == 0)
		find_task(l, &row.look);
	/* Not a program: in --tree and elsewhere it would stand for its program twice.
	 */
	if (row.look.program != 0)
		return;
	verdict_on(&row.look, &l->host, NULL, &row.verdict);
	l->refused |= look->python_code != 0;
	row.user = user_name(look->status.effective_uid);
	row.age_s = uptime() - (double)look->stat.start_ticks * tick_s;
	/* Its start is known to the tick. */
	if (row.age_s < tick_s)
		row.age_s = tick_s;
	row.cpu_percent = 100 * (double)look->stat.cpu_ticks * tick_s / row.age_s;
	l->rows = xgrow(l->rows, l->count, &l->capacity, sizeof(*l->rows));
	l->rows[l->count++] = row;
}

static int by_cpu(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->cpu_percent != y->cpu_percent)
		return x->cpu_percent < y->cpu_percent ? 1 : -1;
	return x->look.pid < y->look.pid ? -1 : x->look.pid > y->look.pid;
}

static long row_of(const struct list *l, pid_t pid)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->rows[i].look.pid == pid)
			return (long)i;
	return NO_ROW;
}

/* Shells and the like between two Pythons are passed over. */
static void find_parents(struct list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct seen *s = find_seen(l, l->rows[i].look.pid);

		for (int depth = 0; depth < 4096 && s != NULL && s->parent != 0 &&
				    l->rows[i].parent == NO_ROW;
			depth++) {
			l->rows[i].parent = row_of(l, s->parent);
			s = find_seen(l, s->parent);
		}
	}
}

static int gather(struct list *l)
{
	struct proc_ids pids;
	int r = scan(l, &pids);

	if (r != 0)
		return r;
	look_at(pids.id, pids.count, true, add_row, l);
	proc_ids_done(&pids);
	if (l->count != 0)
		qsort(l->rows, l->count, sizeof(*l->rows), by_cpu);
	find_parents(l);
	return 0;
}

static void list_done(struct list *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->rows[i].user);
	free(l->rows);
	free(l->seen);
	hash_index_done(&l->by_pid);
}

/* --- texts --- */

static const char *kind_name(const struct look *l)
{
	if (!l->answered || l->python_code != 0)
		return "unknown";
	if (l->python.kind == PYTHON_PYPY)
		return "pypy";
	return l->python.kind == PYTHON_FREE_THREADED ? "cpython-free-threaded"
						      : "cpython";
}

static void version_text(const struct look *l, char *text, size_t size)
{
	const struct python_found *f = &l->python;

	if (f->kind == PYTHON_PYPY)
		(void)snprintf(text, size, "PyPy");
	else
		(void)snprintf(text, size, "%.40s%s",
			f->version[0] != '\0' ? f->version : "?",
			f->kind == PYTHON_FREE_THREADED ? "t" : "");
}

static void age_text(double s, char *text, size_t size)
{
	static const struct {
		double s;
		char letter;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	size_t i = 0;

	while (i < 3 && s < units[i].s)
		i++;
	(void)snprintf(text, size, "%llu%c", (unsigned long long)(s / units[i].s),
		units[i].letter);
}

static void command_text(const struct row *r, struct buf *b)
{
	if (r->look.command[0] == '\0')
		buf_printf(b, "[%s]", r->look.stat.comm);
	else
		buf_add_str(b, r->look.command);
}

/* The folder of a program is not what tells one from another. */
static const char *without_folder(const char *command)
{
	const char *start = command;

	for (const char *at = command; *at != '\0' && *at != ' '; at++)
		if (*at == '/')
			start = at + 1;
	return start;
}

/* --- the table --- */

enum column { PID, USER, PYTHON, THREADS, CPU, AGE, ATTACH, COMMAND };

static const char *const titles[COLUMNS] = { "PID", "USER", "PYTHON", "THREADS", "%CPU",
	"AGE", "ATTACH", "COMMAND" };
static const bool to_the_right[COLUMNS] = {
	[PID] = true, [THREADS] = true, [CPU] = true, [AGE] = true
};

/* The cells of a row, but for the command. */
static void fill_cells(const struct row *r, char cells[COLUMNS][64])
{
	(void)snprintf(cells[PID], 64, "%d", (int)r->look.pid);
	(void)snprintf(cells[USER], 64, "%.32s", r->user);
	version_text(&r->look, cells[PYTHON], 64);
	(void)snprintf(cells[THREADS], 64, "%u", (unsigned)r->look.stat.threads);
	(void)snprintf(cells[CPU], 64, "%.1f", r->cpu_percent);
	age_text(r->age_s, cells[AGE], 64);
	(void)snprintf(cells[ATTACH], 64, "%.40s", r->verdict.brief);
}

static void measure(const struct list *l, size_t widths[COLUMNS])
{
	for (int c = 0; c < COMMAND; c++)
		widths[c] = strlen(titles[c]);
	for (size_t i = 0; i < l->count; i++) {
		char cells[COLUMNS][64];

		fill_cells(&l->rows[i], cells);
		for (int c = 0; c < COMMAND; c++) {
			size_t width = strlen(cells[c]);

			if (width > widths[c])
				widths[c] = width;
		}
	}
}

/* What hangs on the lines of a tree before a row of this depth. */
struct branch {
	bool last[MAX_DEPTH];
	size_t depth;
};

static void add_branch(struct buf *b, const struct branch *branch)
{
	bool ascii = term_is_ascii();

	for (size_t i = 1; i < branch->depth; i++)
		buf_add_str(b, branch->last[i] ? "   " : ascii ? "|  " : "│  ");
	if (branch->depth == 0)
		return;
	if (branch->last[branch->depth])
		buf_add_str(b, ascii ? "`- " : "└─ ");
	else
		buf_add_str(b, ascii ? "|- " : "├─ ");
}

static void print_cells(const size_t widths[COLUMNS], const char cells[COLUMNS][64])
{
	for (int c = 0; c < COMMAND; c++)
		printf(to_the_right[c] ? "%*s  " : "%-*s  ", (int)widths[c], cells[c]);
}

static void print_row(
	const struct row *r, const size_t widths[COLUMNS], const struct branch *branch)
{
	_cleanup_buf_ struct buf line = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20);
	char cells[COLUMNS][64];
	size_t used = 0, room;

	for (int c = 0; c < COMMAND; c++)
		used += widths[c] + 2;
	room = term_width() > used + COMMAND_LEAST ? term_width() - used
						   : COMMAND_LEAST;
	fill_cells(r, cells);
	print_cells(widths, cells);
	add_branch(&line, branch);
	command_text(r, &text);
	const char *command = without_folder(buf_text(&text));

	str_clean(&line, command, strlen(command), term_is_ascii());
	printf("%.*s\n", (int)str_fit(buf_text(&line), line.size, room),
		buf_text(&line));
}

/* Is there a row below with the same parent? */
static bool is_last_child(const struct list *l, size_t row)
{
	for (size_t i = row + 1; i < l->count; i++)
		if (l->rows[i].parent == l->rows[row].parent)
			return false;
	return true;
}

static void print_tree(const struct list *l, long parent, const size_t widths[COLUMNS],
	struct branch *branch)
{
	for (size_t i = 0; i < l->count; i++) {
		if (l->rows[i].parent != parent)
			continue;
		branch->last[branch->depth] = is_last_child(l, i);
		print_row(&l->rows[i], widths, branch);
		if (branch->depth + 1 < MAX_DEPTH) {
			branch->depth++;
			print_tree(l, (long)i, widths, branch);
			branch->depth--;
		}
	}
}

static void print_table(const struct list *l)
{
	struct branch branch = { .depth = 0 };
	size_t widths[COLUMNS];
	char cells[COLUMNS][64];

	measure(l, widths);
	for (int c = 0; c < COMMAND; c++)
		(void)snprintf(cells[c], sizeof(cells[c]), "%.20s", titles[c]);
	print_cells(widths, cells);
	printf("%s\n", titles[COMMAND]);
	if (tree)
		print_tree(l, NO_ROW, widths, &branch);
	for (size_t i = 0; i < l->count && !tree; i++)
		print_row(&l->rows[i], widths, &branch);
}

/* --- JSON --- */

static void add_json(const struct list *l, const struct row *r, struct cJSON *o)
{
	_cleanup_buf_ struct buf command = BUF_INIT(1 << 20);
	const struct look *k = &r->look;

	command_text(r, &command);
	json_add_number(o, "pid", k->pid);
	if (r->parent == NO_ROW)
		json_add_null(o, "python_parent");
	else
		json_add_number(o, "python_parent", l->rows[r->parent].look.pid);
	json_add_number(o, "parent", k->stat.parent);
	json_add_number(o, "uid", k->status.effective_uid);
	json_add_text(o, "user", r->user);
	json_add_text(o, "python", kind_name(k));
	json_add_text(o, "version", k->python.version);
	json_add_text(o, "executable", k->exe);
	json_add_number(o, "threads", k->stat.threads);
	json_add_number(o, "cpu_percent", r->cpu_percent);
	json_add_number(o, "cpu_seconds",
		(double)k->stat.cpu_ticks / (double)sysconf(_SC_CLK_TCK));
	json_add_number(o, "age_seconds", r->age_s);
	verdict_json(&r->verdict, o);
	json_add_flag(o, "recorded", k->task != 0);
	json_add_text(o, "command", buf_text(&command));
}

static void print_json(const struct list *l)
{
	struct cJSON *object = json_new(), *processes;

	json_add_text(object, "pystack", PACKAGE_VERSION);
	processes = json_add_array(object, "processes");
	for (size_t i = 0; i < l->count; i++)
		add_json(l, &l->rows[i], json_append_object(processes));
	json_print(object);
}

static int run(int argc, char **argv)
{
	struct list l = { .count = 0 };

	if (argc != 0)
		return opt_usage_error("unexpected argument '%s'", argv[0]);
	if (tree && as_json)
		return opt_usage_error(
			"options --tree and --json exclude each other: the objects "
			"have \"python_parent\"");
	host_read(&l.host);
	if (!l.host.proc_is_ours) {
		msg_error(
			"/proc is not mounted, or is that of another pid namespace; try: "
			"sudo mount -t proc proc /proc");
		return STATUS_FAILED;
	}
	int r = gather(&l);

	if (r != 0) {
		msg_error("cannot read /proc: %s", err_name(r));
		list_done(&l);
		return STATUS_FAILED;
	}
	if (as_json)
		print_json(&l);
	else if (l.count != 0)
		print_table(&l);
	else
		msg_info("no Python process is to be seen here");
	if (!as_json && l.refused && l.host.uid != 0)
		msg_info("some may not be looked into by this user; sudo pystack list "
			 "shows all");
	list_done(&l);
	return STATUS_OK;
}

const struct cmd cmd_list = {
	.name = "list",
	.summary = "list the Python processes that run here, and which can be recorded",
	.usage = "[--tree | --json]",
	.notes =
		"%CPU is of the whole life of a process.  'pystack doctor PID' tells more of "
		"one:\nwhy it cannot be attached to, and what would change that.",
	.options = list_options,
	.run = run,
};
