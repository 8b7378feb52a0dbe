/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_DUMP_H
#define TESTS_UNIT_DUMP_H

/* All that a reader returns of a sample file, as text: a line for each event. */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "file/reader.h"

enum { DUMP_MAX_BYTES = 256 << 20 };

static inline void dump_text(struct buf *b, const struct file_text *t)
{
	buf_add_str(b, " '");
	buf_add(b, t->bytes, t->size);
	buf_add_str(b, "'");
}

static inline void dump_counters(
	struct buf *b, const struct file_counter *counters, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		dump_text(b, &counters[i].name);
		buf_printf(b, "=%" PRIu64, counters[i].value);
	}
}

static inline void dump_segment(struct buf *b, const struct file_segment *s)
{
	buf_printf(b, "segment %u id ", s->segment);
	for (int i = 0; i < FILE_ID_BYTES; i++)
		buf_printf(b, "%02x", s->id[i]);
	buf_printf(b,
		" parent %u why %u pid %u/%u mono %" PRIu64 " real %" PRIu64
		" interval %" PRIu64 " flags %u",
		s->parent, s->why, s->pid, s->inner_pid, s->mono_ns, s->real_ns,
		s->interval_ns, s->flags);
	for (uint32_t i = 0; i < s->attribute_count; i++) {
		dump_text(b, &s->attributes[i].name);
		dump_text(b, &s->attributes[i].value);
	}
}

static inline void dump_ticks(struct buf *b, const struct file_ticks *t)
{
	buf_printf(b,
		"ticks %u first %" PRIu64 " count %" PRIu64 " start %" PRIu64
		" length %" PRIu64 " flags %u",
		t->segment, t->first, t->count, t->start_ns, t->length_ns, t->flags);
	if (t->subset_of != 0)
		buf_printf(b, " subset %u of %u", t->subset, t->subset_of);
	buf_add_str(b, " late");
	for (uint32_t i = 0; i < t->late_count; i++)
		buf_printf(b, " %" PRIu64, t->late[i]);
}

static inline void dump_line(struct buf *b, int64_t line)
{
	if (line == FILE_NO_LINE)
		buf_add_str(b, "none");
	else
		buf_printf(b, "%" PRId64, line);
}

static inline void dump_run(struct buf *b, const struct file_run *r)
{
	buf_printf(b, "run %u node %u line ", r->thread, r->node);
	dump_line(b, r->line);
	buf_printf(b, " state %u first %" PRIu64 " ticks %" PRIu64, r->state, r->first,
		r->ticks);
}

static inline void dump_record(struct buf *b, const struct file_record *r)
{
	switch (r->type) {
	case FILE_SEGMENT:
		dump_segment(b, &r->segment);
		break;
	case FILE_SEGMENT_END:
		buf_printf(b, "segment-end %u why %u status %" PRIu64 " mono %" PRIu64,
			r->segment_end.segment, r->segment_end.why,
			r->segment_end.status, r->segment_end.mono_ns);
		dump_counters(b, r->segment_end.counters, r->segment_end.counter_count);
		break;
	case FILE_STRING:
		buf_printf(b, "string %u", r->id);
		dump_text(b, &r->string);
		break;
	case FILE_FUNCTION:
		buf_printf(b,
			"function %u file %u name %u line %" PRId64 " table %" PRIx64
			" flags %u",
			r->id, r->function.file, r->function.name,
			r->function.first_line, r->function.table_hash,
			r->function.flags);
		break;
	case FILE_NODE:
		buf_printf(b, "node %u caller %u call ", r->id, r->node.caller);
		dump_line(b, r->node.call_line);
		buf_printf(b, " kind %u ref %u", r->node.kind, r->node.ref);
		break;
	case FILE_THREAD:
		buf_printf(b,
			"thread %u segment %u tid %u python %" PRIx64
			" interpreter %" PRIu64,
			r->thread.thread, r->thread.segment, r->thread.tid,
			r->thread.python_id, r->thread.interpreter);
		dump_text(b, &r->thread.name);
		break;
	case FILE_THREAD_END:
		buf_printf(b, "thread-end %u tick %" PRIu64, r->thread_end.thread,
			r->thread_end.tick);
		break;
	case FILE_TICKS:
		dump_ticks(b, &r->ticks);
		break;
	case FILE_RUNS:
		dump_run(b, &r->run);
		break;
	case FILE_CPU:
		buf_printf(b, "cpu %u tick %" PRIu64 " ns %" PRIu64 " runs %" PRIu64,
			r->cpu.thread, r->cpu.tick, r->cpu.cpu_ns, r->cpu.run_count);
		if (r->cpu.flags != 0)
			buf_printf(b, " flags %u", r->cpu.flags);
		if (r->cpu.delay_ns != 0)
			buf_printf(b, " delay %" PRIu64, r->cpu.delay_ns);
		if (r->cpu.lost != 0)
			buf_printf(b, " lost %" PRIu64, r->cpu.lost);
		break;
	case FILE_TIMER:
		buf_printf(b, "timer %u node %u line ", r->timer.thread, r->timer.node);
		dump_line(b, r->timer.line);
		buf_printf(b,
			" state %u tick %" PRIu64 " ns %" PRIu64 " samples %" PRIu64,
			r->timer.state, r->timer.tick, r->timer.cpu_ns,
			r->timer.samples);
		break;
	case FILE_PHASE:
		buf_printf(b, "phase %u is %u from %" PRIu64, r->phase.segment,
			r->phase.phase, r->phase.tick);
		break;
	case FILE_COPY:
		buf_printf(b,
			"copy %u at %" PRIu64 " state %u flags %u warmup %" PRIu64,
			r->copy.segment, r->copy.mono_ns, r->copy.state, r->copy.flags,
			r->copy.warmup_ns);
		for (size_t i = 0; i < 2; i++) {
			buf_printf(b, " owner %" PRIx64, r->copy.owner[i]);
			dump_text(b, &r->copy.mapping[i]);
		}
		break;
	case FILE_TIMERS:
		buf_printf(b,
			"timers %u at %" PRIu64
			" state %u detail %u blocked %u owner %" PRIx64,
			r->timers.segment, r->timers.mono_ns, r->timers.state,
			r->timers.detail, r->timers.blocked, r->timers.owner);
		dump_text(b, &r->timers.mapping);
		break;
	case FILE_GAP:
		buf_printf(b, "gap %u from %" PRIu64 " to %" PRIu64 " reason %u",
			r->gap.segment, r->gap.from_ns, r->gap.to_ns, r->gap.reason);
		break;
	case FILE_CLOCK:
		buf_printf(b, "clock %u mono %" PRIu64 " real %" PRIu64,
			r->clock.segment, r->clock.mono_ns, r->clock.real_ns);
		break;
	case FILE_COUNTERS:
		buf_printf(b, "counters %u", r->counters.segment);
		dump_counters(b, r->counters.counters, r->counters.count);
		break;
	case FILE_MARK:
		buf_printf(b, "mark %" PRIu64, r->mark.real_ns);
		dump_text(b, &r->mark.text);
		break;
	case FILE_SUMMARY:
		buf_printf(b,
			"summary segments %" PRIu64 " samples %" PRIu64 " lost %" PRIu64
			" mono %" PRIu64,
			r->summary.segments, r->summary.samples, r->summary.lost,
			r->summary.mono_ns);
		if (r->summary.elapsed_ns != 0)
			buf_printf(b, " elapsed %" PRIu64 " cpu %" PRIu64,
				r->summary.elapsed_ns, r->summary.recorder_cpu_ns);
		break;
	default:
		buf_printf(b, "type %u?", (unsigned)r->type);
		break;
	}
}

/* Append all events of the reader; "end", or "end, complete" or "damaged: ...". */
static inline void dump_events(struct file_reader *r, struct buf *b)
{
	static const char *const events[] = { [FILE_EVENT_HEADER] = "header\n",
		[FILE_EVENT_EPOCH] = "epoch\n",
		[FILE_EVENT_FLUSH] = "flush\n" };
	struct file_record record;
	enum file_event event;

	while ((event = file_reader_next(r, &record)) != FILE_EVENT_END) {
		if (event == FILE_EVENT_RECORD) {
			dump_record(b, &record);
			buf_add_byte(b, '\n');
		} else {
			buf_add_str(b, events[event]);
		}
	}
	if (file_reader_damage(r) != NULL)
		buf_printf(b, "damaged: %s\n", file_reader_damage(r));
	buf_printf(b, "end%s\n", file_reader_complete(r) ? ", complete" : "");
}

/* Append the dump of a file in memory, in a block of its exact size; 0 or the code of
 * opening it. */
static inline int dump_bytes(
	const void *bytes, size_t size, struct buf *b, struct err *err)
{
	_cleanup_free_ char *copy = xmalloc(size);
	struct file_reader *r;

	if (size != 0)
		memcpy(copy, bytes, size);
	int code = file_reader_open_bytes(copy, size, &r, err);

	if (code != 0)
		return code;
	dump_events(r, b);
	file_reader_free(r);
	return 0;
}

/* The bytes of a file. */
static inline void read_bytes(const char *path, struct buf *b)
{
	if (fd_read_file(AT_FDCWD, path, b) != 0)
		printf("# cannot read %s\n", path);
}

/* Does text have a line that begins so? */
static inline bool has_line(const char *text, const char *start)
{
	for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, start, strlen(start)) == 0)
			return true;
	}
	return false;
}

static inline size_t count_lines(const char *text, const char *start)
{
	size_t count = 0;

	for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
		at += *at == '\n';
		count += strncmp(at, start, strlen(start)) == 0;
	}
	return count;
}

#endif
