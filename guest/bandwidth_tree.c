// CPU hogs in a tree of control groups under cpu.max: what a machine full of containers looks like to
// the scheduler. Throttling and unthrottling walks over the run queues of every group on every CPU.
//
// usage: bandwidth_tree [-g GROUPS at the top, each with a quota] [-c CHILDREN of each] [-l LEAVES of each
//                       child] [-t HOGS in each leaf] [-q QUOTA in us of each period] [-p PERIOD in us]
//                       [-s time to run in ms]
// It prints how long it took until every hog was in its group, and how often the groups were throttled
// in the time after that, from cpu.stat. To move into a group takes a lock of the kernel, which a hog
// that is throttled may hold.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"

static long groups = 2, children = 2, leaves = 2, hogs = 2;
static long quota = 20000, period = 100000, run_ms = 300;

static void fail(const char *what)
{
	fprintf(stderr, "bandwidth_tree: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(const char *directory, const char *file, const char *text)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

static void make_group(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		fail(path);
}

// One hog: moves into its group, says so on the pipe, and runs until it is killed.
static void start_hog(const char *leaf, int in_place)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (child == 0) {
		put(leaf, "cgroup.procs", "0");
		if (write(in_place, "", 1) != 1)
			fail("write");
		for (volatile unsigned long i = 0;; i++)
			;
	}
}

static void make_tree(int in_place)
{
	char group[128], child[192], leaf[256], limit[64];

	put(ROOT, "cgroup.subtree_control", "+cpu");
	snprintf(limit, sizeof(limit), "%ld %ld", quota, period);
	for (long g = 0; g < groups; g++) {
		snprintf(group, sizeof(group), ROOT "/g%ld", g);
		make_group(group);
		put(group, "cpu.max", limit);
		put(group, "cgroup.subtree_control", "+cpu");
		for (long c = 0; c < children; c++) {
			snprintf(child, sizeof(child), "%s/c%ld", group, c);
			make_group(child);
			put(child, "cgroup.subtree_control", "+cpu");
			for (long l = 0; l < leaves; l++) {
				snprintf(leaf, sizeof(leaf), "%s/l%ld", child, l);
				make_group(leaf);
				for (long h = 0; h < hogs; h++)
					start_hog(leaf, in_place);
			}
		}
	}
}

// The sum of a line of cpu.stat over the groups at the top.
static unsigned long long stat_sum(const char *name)
{
	unsigned long long sum = 0, value;
	char path[128], line[128], key[64];

	for (long g = 0; g < groups; g++) {
		snprintf(path, sizeof(path), ROOT "/g%ld/cpu.stat", g);
		FILE *file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "%63s %llu", key, &value) == 2 && !strcmp(key, name))
				sum += value;
		if (file)
			fclose(file);
	}
	return sum;
}

// Builds the tree and waits until all hogs run in it.
static void start(void)
{
	long missing = groups * children * leaves * hogs;
	char byte;
	int ends[2];

	if (pipe(ends))
		fail("pipe");
	make_tree(ends[1]);
	while (missing--)
		if (read(ends[0], &byte, 1) != 1)
			fail("read");
}

static unsigned long long now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000ULL + time.tv_nsec / 1000;
}

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || value <= 0 || value > 100000000) {
		fprintf(stderr, "bandwidth_tree: '%s' is not a number above 0\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	unsigned long long begin, started, periods, throttled, throttled_us;
	struct timespec time;
	int option;

	while ((option = getopt(argc, argv, "g:c:l:t:q:p:s:")) != -1) {
		switch (option) {
		case 'g': groups = number(optarg); break;
		case 'c': children = number(optarg); break;
		case 'l': leaves = number(optarg); break;
		case 't': hogs = number(optarg); break;
		case 'q': quota = number(optarg); break;
		case 'p': period = number(optarg); break;
		case 's': run_ms = number(optarg); break;
		default: return 2;
		}
	}
	signal(SIGTERM, SIG_IGN);
	begin = now_us();
	start();
	started = now_us();
	periods = stat_sum("nr_periods");
	throttled = stat_sum("nr_throttled");
	throttled_us = stat_sum("throttled_usec");
	time.tv_sec = run_ms / 1000;
	time.tv_nsec = run_ms % 1000 * 1000000;
	nanosleep(&time, NULL);
	printf("bandwidth_tree: %ld hogs in %ld groups, all in place after %llu us; then %llu periods, "
	       "throttled %llu times for %llu us\n",
	       groups * children * leaves * hogs, groups * (1 + children * (1 + leaves)),
	       started - begin, stat_sum("nr_periods") - periods,
	       stat_sum("nr_throttled") - throttled, stat_sum("throttled_usec") - throttled_us);
	fflush(stdout);
	// Hogs that are throttled end as well.
	for (long g = 0; g < groups; g++) {
		char group[128];
		snprintf(group, sizeof(group), ROOT "/g%ld", g);
		put(group, "cgroup.kill", "1");
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
