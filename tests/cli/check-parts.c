/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are files the parts of one recording, in this order?  Each must be whole and readable
 * alone; a process that goes on in another file must do so with the next tick, at the
 * time at which the last one ended.
 *
 * usage: check-parts [-l] FILE ...    -l: the last one need not be whole
 *
 * Prints the number of samples of each file, then "total N, P processes" with the
 * number of different ones.  Status 1 and a line for each fault if there is one.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "file/reader.h"

enum {
	MOST_PROCESSES = 4096,
	MOST_SEGMENTS = 65537,
	MOST_GAPS = 100000,
	SPIN_SLACK_NS = 5000000, /* the length of spinning ticks is a mean */
};

/* A process image, over all files. */
struct process {
	uint8_t id[FILE_ID_BYTES];
	uint64_t tick, end_ns; /* behind its last stratum; 0: it has none yet */
	bool open;             /* its last part says that it goes on */
};

/* Time without ticks, of the chunk in hand and some before it; strata of a chunk come
 * before the gaps between them. */
struct gap {
	const struct process *process;
	uint64_t from_ns, to_ns;
};

/* Strata that do not follow those before, to be explained by a gap. */
struct hole {
	const struct process *process;
	uint64_t tick, from_ns, to_ns, slack_ns;
};

static struct process processes[MOST_PROCESSES];
static size_t process_count;
static struct process *of_segment[MOST_SEGMENTS]; /* of the file in hand */
static struct gap gaps[MOST_GAPS];
static struct hole holes[MOST_GAPS];
static size_t gap_count, hole_count;
static const char *path;
static bool faulty;

__attribute__((format(printf, 1, 2))) static void fault(const char *format, ...)
{
	va_list args;

	faulty = true;
	printf("%s: ", path);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

static void begin_segment(const struct file_segment *s)
{
	bool continued = (s->flags & FILE_SEGMENT_CONTINUED) != 0;
	struct process *p = NULL;

	for (size_t i = 0; i < process_count && p == NULL; i++)
		if (memcmp(processes[i].id, s->id, FILE_ID_BYTES) == 0)
			p = &processes[i];
	if (continued != (p != NULL))
		fault("process %u %s", s->pid,
			continued ? "goes on, but never began"
				  : "begins for the second time");
	if (p != NULL && !p->open)
		fault("process %u goes on after its end", s->pid);
	if (p == NULL && process_count < MOST_PROCESSES) {
		p = &processes[process_count++];
		memcpy(p->id, s->id, FILE_ID_BYTES);
	}
	if (p != NULL)
		p->open = false;
	of_segment[s->segment] = p;
}

static void add_ticks(const struct file_ticks *t)
{
	struct process *p = of_segment[t->segment];

	if (p == NULL)
		return;
	if (t->first != p->tick)
		fault("ticks from %" PRIu64 " follow those up to %" PRIu64, t->first,
			p->tick);
	if (p->end_ns != 0 && t->start_ns != p->end_ns && hole_count < MOST_GAPS)
		holes[hole_count++] =
			(struct hole){ p, t->first, p->end_ns, t->start_ns,
				(t->flags & FILE_TICKS_MEAN) != 0 ? SPIN_SLACK_NS : 0 };
	p->tick = t->first + t->count;
	p->end_ns = t->start_ns + t->count * t->length_ns;
}

static void add_gap(const struct file_gap *g)
{
	if (gap_count < MOST_GAPS)
		gaps[gap_count++] =
			(struct gap){ of_segment[g->segment], g->from_ns, g->to_ns };
}

static bool is_explained(const struct hole *h)
{
	uint64_t apart =
		h->to_ns > h->from_ns ? h->to_ns - h->from_ns : h->from_ns - h->to_ns;

	for (size_t i = 0; i < gap_count; i++)
		if (gaps[i].process == h->process && h->to_ns >= gaps[i].to_ns &&
			h->to_ns - gaps[i].to_ns <= h->slack_ns)
			return true;
	return apart <= h->slack_ns;
}

static void look_at_holes(void)
{
	for (size_t i = 0; i < hole_count; i++)
		if (!is_explained(&holes[i]))
			fault("ticks from %" PRIu64 " begin %" PRId64
			      " ns after those before, without a gap",
				holes[i].tick,
				(int64_t)(holes[i].to_ns - holes[i].from_ns));
	hole_count = 0;
}

static void on_record(const struct file_record *r, uint64_t *samples)
{
	switch (r->type) {
	case FILE_SEGMENT:
		begin_segment(&r->segment);
		break;
	case FILE_SEGMENT_END:
		if (of_segment[r->segment_end.segment] != NULL)
			of_segment[r->segment_end.segment]->open =
				r->segment_end.why == FILE_END_CONTINUED;
		break;
	case FILE_TICKS:
		add_ticks(&r->ticks);
		break;
	case FILE_GAP:
		add_gap(&r->gap);
		break;
	case FILE_RUNS:
		*samples += r->run.ticks;
		break;
	case FILE_SUMMARY:
		if (r->summary.samples != *samples)
			fault("%" PRIu64 " samples, %" PRIu64 " says its summary",
				*samples, r->summary.samples);
		break;
	default:
		break;
	}
}

static uint64_t read_file(bool last)
{
	struct file_reader *r;
	struct file_record record;
	enum file_event event;
	struct err err;
	uint64_t samples = 0;

	if (file_reader_open(path, &r, &err) != 0) {
		fault("%s", err.text);
		return 0;
	}
	memset(of_segment, 0, sizeof(of_segment));
	while ((event = file_reader_next(r, &record)) != FILE_EVENT_END)
		if (event == FILE_EVENT_RECORD)
			on_record(&record, &samples);
		else if (event == FILE_EVENT_FLUSH)
			look_at_holes();
	if (!last && file_reader_damage(r) != NULL)
		fault("%s", file_reader_damage(r));
	if (!last && !file_reader_complete(r))
		fault("is not whole");
	file_reader_free(r);
	printf("%" PRIu64 " samples in %s\n", samples, path);
	return samples;
}

int main(int argc, char **argv)
{
	bool cut = argc > 1 && strcmp(argv[1], "-l") == 0;
	uint64_t total = 0;

	for (int i = 1 + cut; i < argc; i++) {
		path = argv[i];
		total += read_file(cut && i == argc - 1);
	}
	for (size_t i = 0; i < process_count && !cut; i++)
		if (processes[i].open)
			fault("a process should go on");
	printf("total %" PRIu64 ", %zu processes\n", total, process_count);
	return faulty;
}
