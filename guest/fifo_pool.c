// A token-passing pool of real-time threads: what a transcoder with SCHED_FIFO workers looks like to
// the scheduler.
//
// The CPUs are cut into groups. Each group has its own threads, pinned to the group's CPUs, and its
// own tokens: a thread waits for a token, works for a burst, and passes the token on to another
// thread of its group, at random. More threads than CPUs and fewer tokens than threads keep wake-ups,
// pushes and pulls coming.
//
// usage: fifo_pool [-c CPUS per group] [-t THREADS per group] [-k TOKENS per group] [-b BURST in loops]
//                  [-n rounds of each thread, on average]
// It prints the rounds that were done, in all and in a second of the machine's time, and fails when it may not have SCHED_FIFO.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PRIORITY 99
// A stack of the usual 8 MiB takes a page of tables of its own, which another CPU reads through when
// the thread ends.
#define STACK_BYTES (64 * 1024)

struct worker;

struct group {
	struct worker *workers;
	cpu_set_t cpus;
	// Rounds that are left to all of them together; the first who finds none wakes the others.
	atomic_long rounds_left;
	atomic_bool is_over;
};

struct worker {
	struct group *group;
	sem_t tokens;
	unsigned random;
};

static long cpus_per_group = 8, threads_per_group = 12, tokens_per_group = 10;
static long burst = 20000, rounds = 20;

// Different for each thread and round, so that the threads do not march in step.
static unsigned next_random(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 16;
}

static void work(unsigned long loops)
{
	for (volatile unsigned long i = 0; i < loops; i++)
		;
}

static void pass_token(struct worker *self)
{
	long own = self - self->group->workers;
	long other = (own + 1 + next_random(&self->random) % (threads_per_group - 1)) % threads_per_group;

	sem_post(&self->group->workers[other].tokens);
}

static void *worker(void *argument)
{
	struct worker *self = argument;
	struct group *group = self->group;

	for (;;) {
		while (sem_wait(&self->tokens) && errno == EINTR)
			;
		if (atomic_fetch_sub(&group->rounds_left, 1) <= 0)
			break;
		work(burst / 2 + next_random(&self->random) % (burst + 1));
		pass_token(self);
	}
	if (!atomic_exchange(&group->is_over, true)) {
		for (long i = 0; i < threads_per_group; i++)
			sem_post(&group->workers[i].tokens);
	}
	return NULL;
}

static void fail(const char *what, int error)
{
	fprintf(stderr, "fifo_pool: %s: %s\n", what, strerror(error));
	exit(1);
}

static void start_thread(struct worker *self, pthread_t *thread)
{
	struct sched_param param = { .sched_priority = PRIORITY };
	pthread_attr_t attributes;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
	pthread_attr_setschedparam(&attributes, &param);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setaffinity_np(&attributes, sizeof(cpu_set_t), &self->group->cpus);
	error = pthread_create(thread, &attributes, worker, self);
	if (error)
		fail("cannot start a thread", error);
}

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || value <= 0 || value > 1000000000) {
		fprintf(stderr, "fifo_pool: '%s' is not a number above 0\n", text);
		exit(2);
	}
	return value;
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "c:t:k:b:n:")) != -1) {
		switch (option) {
		case 'c': cpus_per_group = number(optarg); break;
		case 't': threads_per_group = number(optarg); break;
		case 'k': tokens_per_group = number(optarg); break;
		case 'b': burst = number(optarg); break;
		case 'n': rounds = number(optarg); break;
		default: exit(2);
		}
	}
	if (threads_per_group < 2) {
		fprintf(stderr, "fifo_pool: a token needs two threads to go between\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	read_options(argc, argv);

	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	long group_count = (cpus + cpus_per_group - 1) / cpus_per_group;
	long thread_count = group_count * threads_per_group;
	struct group *groups = calloc(group_count, sizeof(*groups));
	struct worker *workers = calloc(thread_count, sizeof(*workers));
	pthread_t *threads = calloc(thread_count, sizeof(*threads));
	struct sched_param param = { .sched_priority = PRIORITY };
	// As urgent as the threads, which would not let it finish what it starts.
	int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);

	if (error)
		fail("cannot be SCHED_FIFO", error);
	for (long g = 0; g < group_count; g++) {
		groups[g].workers = &workers[g * threads_per_group];
		groups[g].rounds_left = rounds * threads_per_group;
		for (long cpu = g * cpus_per_group; cpu < (g + 1) * cpus_per_group && cpu < cpus; cpu++)
			CPU_SET(cpu, &groups[g].cpus);
	}
	for (long i = 0; i < thread_count; i++) {
		workers[i] = (struct worker){ .group = &groups[i / threads_per_group], .random = i };
		sem_init(&workers[i].tokens, 0, 0);
		start_thread(&workers[i], &threads[i]);
	}

	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (long token = 0; token < group_count * tokens_per_group; token++) {
		struct group *group = &groups[token / tokens_per_group];

		sem_post(&group->workers[token % tokens_per_group % threads_per_group].tokens);
	}
	for (long i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);

	double seconds = (end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) / 1e9;

	printf("fifo_pool: %ld CPUs, %ld groups, %ld threads, %ld rounds done, %.0f a second\n", cpus,
	       group_count, thread_count, thread_count * rounds, thread_count * rounds / seconds);
	return 0;
}
