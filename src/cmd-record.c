/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/xalloc.h"
#include "cmd.h"
#include "control.h"
#include "msg.h"
#include "recorder.h"
#include "schedule.h"
#include "timer-probe.h"
#include "wire/ring.h"

enum {
	DEFAULT_HZ = 100,
	MAX_HZ = 50000,
	DEFAULT_MAX_STACK = 512,
	MOST_MAX_STACK = 4096,
	MOST_MAX_THREADS = RING_MOST_THREADS,
	DEFAULT_OVERHEAD_PPM = 10000,
	DEFAULT_LEVEL = 3,
	MOST_FILES = 100000,
};

#define DEFAULT_WARMUP_NS  15000000000
#define LEAST_SWITCH_NS    100000000
#define DEFAULT_TIMER_NS   10000000
#define LEAST_TIMER_NS     1000000
#define MOST_TIMER_NS      1000000000
#define LEAST_KEPT_NS      1000000000u
#define LEAST_KEPT_BYTES   (64u << 10)
#define DEFAULT_KEPT_NS    60000000000u
#define DEFAULT_KEPT_BYTES (64u << 20)

static struct recorder_options options = {
	.output = { .path = "pystack.data", .level = DEFAULT_LEVEL },
	.sampling = {
		.interval_ns = 1000000000 / DEFAULT_HZ,
		.adaptive = true,
		.max_stack = DEFAULT_MAX_STACK,
		.overhead_ppm = DEFAULT_OVERHEAD_PPM,
		.copy = RING_COPY_AUTO,
		.warmup_ns = DEFAULT_WARMUP_NS,
	},
};
static bool strict_freq, call_graph;
static bool rate_given, count_given, adaptive_given, limit_given;
static struct schedule schedule;
static const char *control_text;

static int set_pid(const char *value, struct err *err)
{
	uint64_t pid;

	if (parse_number(value, INT32_MAX, &pid) != 0 || pid == 0)
		return err_set(err, -EINVAL, "'%s' is not a process id", value);
	options.pid = (pid_t)pid;
	return 0;
}

static int set_exclude_child(const char *value, struct err *err)
{
	static regex_t expression;
	char why[128];

	if (options.exclude_child != NULL)
		return err_set(err, -EINVAL, "--exclude-child is given twice; use A|B");
	int r = regcomp(&expression, value, REG_EXTENDED | REG_NOSUB);

	if (r != 0) {
		(void)regerror(r, &expression, why, sizeof(why));
		return err_set(
			err, -EINVAL, "'%s' is no regular expression: %s", value, why);
	}
	options.exclude_child = &expression;
	return 0;
}

static int set_freq(const char *value, struct err *err)
{
	options.sampling.spin = strcmp(value, "max") == 0;
	if (options.sampling.spin)
		return 0;
	if (parse_rate(value, &options.sampling.interval_ns) != 0)
		return err_set(
			err, -EINVAL, "'%s' is not a rate (100, 49.5, 1k, max)", value);
	return 0;
}

static int set_count(const char *value, struct err *err)
{
	/* A bare number is perf's period: microseconds here. */
	uint64_t us;
	int r = parse_number(value, UINT32_MAX, &us);

	if (r == 0 && us != 0)
		options.sampling.interval_ns = (int64_t)us * 1000;
	else if (r == -ERANGE)
		return err_set(err, -EINVAL,
			"'%s' is not a number of microseconds from 1 to %u", value,
			UINT32_MAX);
	else if (parse_duration(value, &options.sampling.interval_ns) != 0)
		return err_set(
			err, -EINVAL, "'%s' is not an interval (1000us, 10ms)", value);
	return 0;
}

static int set_duration(const char *value, struct err *err)
{
	if (parse_duration(value, &options.duration_ns) != 0)
		return err_set(err, -EINVAL, "'%s' is not a time (10, 10s, 5m)", value);
	return 0;
}

static int set_max_stack(const char *value, struct err *err)
{
	uint64_t frames;

	if (parse_number(value, MOST_MAX_STACK, &frames) != 0 || frames == 0)
		return err_set(err, -EINVAL, "'%s' is not a number from 1 to %d", value,
			MOST_MAX_STACK);
	options.sampling.max_stack = (uint32_t)frames;
	return 0;
}

static int set_max_threads(const char *value, struct err *err)
{
	uint64_t threads;

	if (parse_number(value, MOST_MAX_THREADS, &threads) != 0 || threads == 0)
		return err_set(err, -EINVAL, "'%s' is not a number from 1 to %d", value,
			MOST_MAX_THREADS);
	options.sampling.max_threads = (uint32_t)threads;
	return 0;
}

static int set_overhead(const char *value, struct err *err)
{
	double percent;

	if (parse_percent(value, &percent) != 0 || percent < 0.01)
		return err_set(err, -EINVAL,
			"'%s' is not a percentage from 0.01 to 100", value);
	options.sampling.overhead_ppm = (uint32_t)(percent * 10000);
	return 0;
}

static int set_warmup(const char *value, struct err *err)
{
	if (parse_duration_or_none(value, &options.sampling.warmup_ns) != 0)
		return err_set(err, -EINVAL, "'%s' is not a time (15, 15s, 0s)", value);
	return 0;
}

static int set_level(const char *value, struct err *err)
{
	uint64_t level;

	if (parse_number(value, 22, &level) != 0 || level == 0)
		return err_set(
			err, -EINVAL, "'%s' is not a number from 1 to 22", value);
	options.output.level = (int)level;
	return 0;
}

/* The others are always recorded. */
static int set_event(const char *value, struct err *err)
{
	static const char name[] = "cpu-timer";
	const char *interval = value + sizeof(name) - 1;
	int64_t ns = DEFAULT_TIMER_NS;

	if (strcmp(value, "cpu") == 0 || strcmp(value, "wall") == 0 ||
		strcmp(value, "gil") == 0)
		return 0;
	if (strncmp(value, name, sizeof(name) - 1) != 0 ||
		(*interval != '\0' && *interval != ':'))
		return err_set(err, -EINVAL,
			"'%s' is not an event (cpu-timer; cpu, wall, gil, which are always "
			"recorded)",
			value);
	if (*interval == ':' && (parse_duration(interval + 1, &ns) != 0 ||
					ns < LEAST_TIMER_NS || ns > MOST_TIMER_NS))
		return err_set(err, -EINVAL,
			"'%s' is not a time from 1ms to 1s of CPU between two samples",
			interval + 1);
	options.sampling.timer_ns = (uint32_t)ns;
	return 0;
}

static int set_delay(const char *value, struct err *err)
{
	schedule_done(&schedule);
	options.schedule = &schedule;
	return schedule_parse(value, &schedule, err);
}

static int set_switch_output(const char *value, struct err *err)
{
	struct output_options *o = &options.output;
	uint64_t bytes = 0;
	int64_t ns = 0;

	if (value != NULL && strcmp(value, "signal") != 0 &&
		(parse_size_or_duration(value, &bytes, &ns) != 0 ||
			(ns != 0 && ns < LEAST_SWITCH_NS)))
		return err_set(err, -EINVAL,
			"'%s' is neither signal, a size (100M) nor a time of 0.1s or more (30s, 5m)",
			value);
	o->switching = true;
	o->switch_bytes = bytes;
	o->switch_ns = (uint64_t)ns;
	return 0;
}

static int set_max_files(const char *value, struct err *err)
{
	uint64_t count;

	if (parse_number(value, MOST_FILES, &count) != 0 || count == 0)
		return err_set(err, -EINVAL, "'%s' is not a number from 1 to %d", value,
			MOST_FILES);
	options.output.max_files = (unsigned)count;
	return 0;
}

static int set_max_size(const char *value, struct err *err)
{
	if (parse_size(value, &options.output.max_bytes) != 0)
		return err_set(err, -EINVAL, "'%s' is not a size (500K, 100M)", value);
	return 0;
}

/* One limit, or both: "60s", "64M", "60s,64M". */
static int set_overwrite(const char *value, struct err *err)
{
	struct output_options *o = &options.output;
	const char *comma = value != NULL ? strchr(value, ',') : NULL;
	uint64_t bytes[2] = { 0, 0 };
	int64_t ns[2] = { 0, 0 };
	int r = 0;

	o->overwrite = true;
	if (value != NULL && comma != NULL) {
		_cleanup_free_ char *first = xmemdup0(value, (size_t)(comma - value));

		r = parse_size_or_duration(first, &bytes[0], &ns[0]);
		if (r == 0)
			r = parse_size_or_duration(comma + 1, &bytes[1], &ns[1]);
		if (r == 0 && (ns[0] != 0) == (ns[1] != 0))
			r = -EINVAL;
	} else if (value != NULL) {
		r = parse_size_or_duration(value, &bytes[0], &ns[0]);
	}
	o->keep_bytes = bytes[0] + bytes[1];
	o->keep_ns = (uint64_t)(ns[0] + ns[1]);
	if (r != 0 || (o->keep_ns != 0 && o->keep_ns < LEAST_KEPT_NS) ||
		(o->keep_bytes != 0 && o->keep_bytes < LEAST_KEPT_BYTES))
		return err_set(err, -EINVAL,
			"'%s' is neither a time of 1s or more (60s), a size of 64K or more "
			"(64M), nor both (60s,64M)",
			value);
	if (value == NULL)
		o->keep_ns = DEFAULT_KEPT_NS;
	if (o->keep_bytes == 0)
		o->keep_bytes = DEFAULT_KEPT_BYTES;
	return 0;
}

static const struct opt record_options[] = {
	{ .help = "What to record" },
	{ 'p', "pid", "PID", "attach to a running process; Ctrl-C ends the recording",
		.set = set_pid },
	{ 'd', "duration", "TIME",
		"stop recording after TIME (10s, 5m); the program goes\non, and its status is "
		"still waited for",
		.set = set_duration },
	{ 'i', "no-inherit", NULL,
		"the first Python process alone, not those that come from\nit",
		.flag = &options.no_inherit },
	{ 0, "exclude-child", "REGEX",
		"no child whose command line matches it; what such a child\nstarts is recorded "
		"again",
		.set = set_exclude_child },
	{ 0, "force", NULL,
		"attach also under a seccomp filter that cannot be set\naside; it may end the "
		"program",
		.flag = &options.force },
	{ 'D', "delay", "TIME",
		"begin with sampling off, for TIME (500 or 500ms, 2s); -1:\nuntil it is "
		"enabled; A-B,C-D: on within these times alone",
		.set = set_delay },
	{ .help = "Sampling" },
	{ 'F', "freq", "HZ",
		"ticks a second (100): 49.5, 1k, or max: as fast as it\ngoes, which slows "
		"programs that map memory often",
		.set = set_freq, .given = &rate_given },
	{ 'c', "count", "TIME", "time between ticks instead of a rate: 10ms, 500us",
		.set = set_count, .given = &count_given },
	{ 0, "strict-freq", NULL,
		"refuse a rate above the highest, instead of lowering it",
		.flag = &strict_freq },
	{ 0, "adaptive", NULL,
		"lower the rate where the sampler would use more CPU\nthan its limit (on)",
		.flag = &options.sampling.adaptive, .negatable = true,
		.given = &adaptive_given },
	{ 0, "overhead-limit", "PCT",
		"that limit, in percent of the program's CPU time (1);\n0.2 % of a core is "
		"always allowed",
		.set = set_overhead, .given = &limit_given },
	{ 0, "max-stack", "N",
		"frames kept of a deeper stack, leaf side (512); it is\nalways read to the root",
		.set = set_max_stack },
	{ 0, "max-threads", "N",
		"threads looked at by a tick, by lot, if there are more\n(all); each of them "
		"then weighs more",
		.set = set_max_threads },
	{ 0, "oncpu", NULL, "threads that run alone: CPU and GIL time, no waiting",
		.flag = &options.sampling.oncpu },
	{ 'e', "event", "EVENT",
		"cpu-timer or cpu-timer:TIME: also a timer for each thread\non its CPU clock, "
		"every TIME of CPU it uses (10ms); takes\nSIGURG while nobody else uses it, "
		"and --isolation=thread",
		.set = set_event },
	{ 0, "isolation", "auto|task|thread",
		"what samples in the program: a task of its own, a thread\nof the program, or "
		"whichever can be had, in this order\n(auto)",
		.word = &options.isolation },
	{ 0, "copy", "auto|fast|syscall",
		"how a sampler that is a thread of the program reads its\nmemory: by system "
		"calls, or, as nothing but fast wants,\nby loads, whose faults it must handle",
		.word = &options.sampling.copy },
	{ 0, "warmup", "TIME",
		"with --copy=fast: by system calls for this long at\nfirst (15s)",
		.set = set_warmup },
	{ 'g', "call-graph", NULL,
		"accepted for perf's sake: stacks are always recorded",
		.flag = &call_graph },
	{ .help = "Output" },
	{ 'o', "output", "FILE",
		"file to write (pystack.data), - for standard output; one\nthat is there is kept "
		"as FILE.old",
		.text = &options.output.path },
	{ 'z', "compression-level", "N", "of Zstandard, 1 to 22 (3)",
		.set = set_level },
	{ 0, "switch-output", "signal|SIZE|TIME",
		"go on in another file at SIGUSR2, and every so many\nbytes (100M) or so often "
		"(30s); each is complete, those\nthat are done are called FILE.TIMESTAMP",
		.value_optional = true, .set = set_switch_output },
	{ 0, "switch-max-files", "N", "of those keep the last N",
		.set = set_max_files },
	{ 0, "max-size", "SIZE",
		"end the recording when so much is written (500M); the\nprogram goes on",
		.set = set_max_size },
	{ 0, "overwrite", "TIME|SIZE",
		"keep only the last part, in memory (60s, at most 64M;\nor \"30s,16M\"); written to "
		"FILE at the end, also when\nthe program crashes, and at SIGUSR2 to FILE.TIMESTAMP",
		.value_optional = true, .set = set_overwrite },
	{ .help = "Control" },
	{ 0, "control", "fifo:PATH[,PATH]|fd:N[,M]",
		"take commands from the first, answer on the second:\nenable, disable, "
		"snapshot, status, mark TEXT, ping, stop",
		.text = &control_text },
	{ .help = "Messages" },
	{ 'q', "quiet", NULL, "say nothing but errors", .flag = &options.quiet },
	{ 0 },
};

static int check_rate(void)
{
	struct follow_options *s = &options.sampling;

	if (rate_given && count_given)
		return opt_usage_error("options --freq and --count exclude each other");
	if (s->spin && adaptive_given && s->adaptive)
		return opt_usage_error(
			"options --freq=max and --adaptive exclude each other");
	if (limit_given && (s->spin || !s->adaptive))
		return opt_usage_error(
			"options %s and --overhead-limit exclude each other",
			s->spin ? "--freq=max" : "--no-adaptive");
	if (s->spin) {
		s->adaptive = false;
		msg_info(
			"-F max keeps a core busy and disturbs programs that map memory often");
		return 0;
	}
	if (s->interval_ns >= 1000000000 / MAX_HZ)
		return 0;
	if (strict_freq)
		return opt_usage_error("the highest rate is %d Hz", MAX_HZ);
	msg_info("the rate is lowered to the highest, %d Hz (-F max goes further)",
		MAX_HZ);
	s->interval_ns = 1000000000 / MAX_HZ;
	return 0;
}

/* Files that cannot be, together or here. */
static int check_output(void)
{
	const struct output_options *o = &options.output;
	const char *several = o->overwrite ? "--overwrite" : "--switch-output";

	if (o->overwrite && (o->switch_bytes != 0 || o->switch_ns != 0))
		return opt_usage_error(
			"--overwrite writes at a signal and at the end, so it goes with no "
			"--switch-output by size or time");
	if (o->overwrite && o->max_bytes != 0)
		return opt_usage_error(
			"--overwrite has its own size, so it goes with no --max-size");
	if (o->max_files != 0 && !o->overwrite && !o->switching)
		return opt_usage_error(
			"--switch-max-files goes with --switch-output or --overwrite");
	if ((o->overwrite || o->switching) && strcmp(o->path, "-") == 0)
		return opt_usage_error(
			"%s makes several files, which standard output cannot be",
			several);
	if (strcmp(o->path, "-") == 0 && isatty(STDOUT_FILENO))
		return opt_usage_error(
			"standard output is a terminal, which takes no recording; name a file "
			"or a pipe");
	return 0;
}

/* CPU timers are made by a thread of the program alone. */
static int check_timers(void)
{
	struct err err;

	if (options.sampling.timer_ns == 0)
		return 0;
	if (options.isolation == CORE_ISOLATION_TASK)
		return opt_usage_error(
			"-e cpu-timer needs --isolation=thread: a task cannot make timers "
			"of the program's threads");
	options.isolation = CORE_ISOLATION_THREAD;
	if (timer_probe(&err) == 0)
		return 0;
	msg_error("no CPU timers (-e cpu-timer): %s", err.text);
	return STATUS_CANNOT;
}

static int check_control(void)
{
	struct err err;

	if (options.schedule != NULL && schedule.count == 0 && control_text == NULL)
		return opt_usage_error(
			"--delay=-1 needs --control: nothing else can turn sampling on");
	if (control_text == NULL)
		return 0;
	int code = control_open(control_text, &options.control, &err);

	if (code == -EINVAL)
		return opt_usage_error("option --control: %s", err.text);
	if (code != 0) {
		msg_error("--control: %s", err.text);
		return STATUS_CANNOT;
	}
	return 0;
}

static int run(int argc, char **argv)
{
	msg_set_quiet(options.quiet);
	int status = check_rate();

	if (status == 0)
		status = check_output();
	if (status != 0)
		return status;
	if (options.pid != 0 && argc != 0)
		return opt_usage_error("give either -p PID or a command");
	if (options.pid == 0 && argc == 0)
		return opt_usage_error(
			"nothing to record: give a command (pystack record -- "
			"python3 app.py) or -p PID");
	if (options.pid == getpid())
		return opt_usage_error("pystack cannot record itself");
	options.argv = argv;
	status = check_timers();
	if (status == 0)
		status = check_control();
	if (status == 0)
		status = recorder_run(&options);
	control_free(options.control);
	schedule_done(&schedule);
	return status;
}

const struct cmd cmd_record = {
	.name = "record",
	.summary =
		"run a program, or attach to one, and record where it spends its time",
	.usage = "[OPTIONS] [--] COMMAND [ARGUMENTS]\n"
		 "       pystack record [OPTIONS] -p PID",
	.notes =
		"The exit status is the command's (128 + N for signal N); 125: the recording "
		"cannot\nbe made, 126: the command cannot be executed, 127: it is not found, 129: "
		"wrong\nusage.  Attached: 0.",
	.options = record_options,
	.stops_at_operand = true,
	.run = run,
};
