/* THREADS threads, two hundred by default, that each count in a word of their own, eight of them in a line.
 *
 * cc -O2 -g -pthread -o many_threads many_threads.c; ./many_threads ITERATIONS
 */
#include <pthread.h>
#include <stdlib.h>

#ifndef THREADS
#define THREADS 200
#endif

static unsigned long counts[THREADS];
static long iterations;

static void *count(void *number)
{
	for (long i = 0; i < iterations; i++)
		__atomic_fetch_add(&counts[(long)number], 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(int arguments, char **argument)
{
	pthread_t threads[THREADS];

	iterations = arguments > 1 ? atol(argument[1]) : 1000;
	for (long number = 0; number < THREADS; number++)
		if (pthread_create(&threads[number], NULL, count, (void *)number) != 0)
			return 1;
	for (long number = 0; number < THREADS; number++)
		pthread_join(threads[number], NULL);
	return 0;
}
