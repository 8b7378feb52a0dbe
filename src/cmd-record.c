/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cmd.h"
#include "msg.h"
#include "recorder.h"

enum {
	DEFAULT_HZ = 100,
	MAX_HZ = 50000,
	DEFAULT_MAX_STACK = 512,
	MOST_MAX_STACK = 4096,
	DEFAULT_OVERHEAD_PPM = 10000,
	DEFAULT_LEVEL = 3,
};

static struct recorder_options options = {
	.output = "pystack.data",
	.level = DEFAULT_LEVEL,
	.sampling = {
		.interval_ns = 1000000000 / DEFAULT_HZ,
		.adaptive = true,
		.max_stack = DEFAULT_MAX_STACK,
		.overhead_ppm = DEFAULT_OVERHEAD_PPM,
	},
};
static bool strict_freq, rate_given, count_given, call_graph;

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
	rate_given = true;
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
	count_given = true;
	/* A bare number is perf's period: microseconds here. */
	uint64_t us;

	if (parse_number(value, UINT32_MAX, &us) == 0 && us != 0)
		options.sampling.interval_ns = (int64_t)us * 1000;
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

static int set_overhead(const char *value, struct err *err)
{
	double percent;

	if (parse_percent(value, &percent) != 0 || percent < 0.01)
		return err_set(err, -EINVAL,
			"'%s' is not a percentage from 0.01 to 100", value);
	options.sampling.overhead_ppm = (uint32_t)(percent * 10000);
	return 0;
}

static int set_level(const char *value, struct err *err)
{
	uint64_t level;

	if (parse_number(value, 22, &level) != 0 || level == 0)
		return err_set(
			err, -EINVAL, "'%s' is not a number from 1 to 22", value);
	options.level = (int)level;
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
	{ .help = "Sampling" },
	{ 'F', "freq", "HZ",
		"ticks a second (100): 49.5, 1k, or max: as fast as it\ngoes, which slows "
		"programs that map memory often",
		.set = set_freq },
	{ 'c', "count", "TIME", "time between ticks instead of a rate: 10ms, 500us",
		.set = set_count },
	{ 0, "strict-freq", NULL,
		"refuse a rate above the highest, instead of lowering it",
		.flag = &strict_freq },
	{ 0, "adaptive", NULL,
		"lower the rate where the sampler would use more CPU\nthan its limit (on)",
		.flag = &options.sampling.adaptive, .negatable = true },
	{ 0, "overhead-limit", "PCT",
		"that limit, in percent of the program's CPU time (1);\n0.2 % of a core is "
		"always allowed",
		.set = set_overhead },
	{ 0, "max-stack", "N",
		"frames kept of a deeper stack, leaf side (512); it is\nalways read to the root",
		.set = set_max_stack },
	{ 'g', "call-graph", NULL,
		"accepted for perf's sake: stacks are always recorded",
		.flag = &call_graph },
	{ .help = "Output" },
	{ 'o', "output", "FILE",
		"file to write (pystack.data), - for standard output; one\nthat is there is kept "
		"as FILE.old",
		.text = &options.output },
	{ 'z', "compression-level", "N", "of Zstandard, 1 to 22 (3)",
		.set = set_level },
	{ 'q', "quiet", NULL, "say nothing but errors", .flag = &options.quiet },
	{ 0 },
};

static int check_rate(void)
{
	struct follow_options *s = &options.sampling;

	if (rate_given && count_given)
		return opt_usage_error("options --freq and --count exclude each other");
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

static int run(int argc, char **argv)
{
	msg_set_quiet(options.quiet);
	int status = check_rate();

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
	return recorder_run(&options);
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
