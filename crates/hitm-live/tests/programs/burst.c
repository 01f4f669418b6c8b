// Threads that wake together and each work for a while, again and again: a load of bursts.
//
// usage: burst PERIOD_MS THREADS WORK_US SECONDS
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS_MAX = 256 };

static uint64_t period_ns, work_ns, begin_ns, end_ns;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

// Uses CPU time, however often the thread is stopped meanwhile.
static void work(void)
{
	uint64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + work_ns;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		for (volatile int i = 0; i < 1000; i++)
			;
}

static void *run(void *unused)
{
	uint64_t next = begin_ns + period_ns;

	while (next < end_ns) {
		struct timespec at = {next / 1000000000, next % 1000000000};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		work();
		// A burst that came too late is left out.
		while (next < clock_ns(CLOCK_MONOTONIC))
			next += period_ns;
	}
	return unused;
}

int main(int count, char **words)
{
	pthread_t threads[THREADS_MAX];
	int number = count == 5 ? atoi(words[2]) : 0;

	if (number < 1 || number > THREADS_MAX || atoi(words[1]) < 1) {
		fprintf(stderr, "usage: burst PERIOD_MS THREADS WORK_US SECONDS\n");
		return 2;
	}
	period_ns = strtoull(words[1], NULL, 10) * 1000000;
	work_ns = strtoull(words[3], NULL, 10) * 1000;
	begin_ns = clock_ns(CLOCK_MONOTONIC);
	end_ns = begin_ns + strtoull(words[4], NULL, 10) * 1000000000;
	for (int i = 0; i < number; i++)
		if (pthread_create(&threads[i], NULL, run, NULL))
			return 1;
	for (int i = 0; i < number; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
