// Processes that start short-lived programs: fork, exec, exit, wait.
//
// usage: fork_storm [-t PARENTS] [-n CHILDREN of each]
// It prints the children that ran, in all and in a second of the machine's time.

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long parents, children = 8;

// The children run this program again, which then does nothing.
static int storm(const char *self)
{
	for (long i = 0; i < children; i++) {
		int status;
		pid_t child = fork();

		if (child < 0)
			return 1;
		if (child == 0) {
			execl(self, self, "-x", (char *)NULL);
			_exit(127);
		}
		if (waitpid(child, &status, 0) != child || status)
			return 1;
	}
	return 0;
}

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || value <= 0 || value > 100000000) {
		fprintf(stderr, "fork_storm: '%s' is not a number above 0\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	int option, status, failed = 0;

	parents = sysconf(_SC_NPROCESSORS_ONLN);
	while ((option = getopt(argc, argv, "t:n:x")) != -1) {
		switch (option) {
		case 't': parents = number(optarg); break;
		case 'n': children = number(optarg); break;
		case 'x': return 0;
		default: return 2;
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (long i = 0; i < parents; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(storm("/proc/self/exe"));
		failed |= child < 0;
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (failed) {
		fprintf(stderr, "fork_storm: a child failed\n");
		return 1;
	}
	double seconds = (end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) / 1e9;
	printf("fork_storm: %ld parents, %ld children, %.0f a second\n", parents, parents * children,
	       parents * children / seconds);
	return 0;
}
