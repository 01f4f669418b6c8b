/* The program that the recording slowdown is measured with: each of two threads walks a private
 * table of 4 MiB at random, increments an atomic counter on a shared line every 16th iteration and
 * takes a mutex every 256th. Prints the CPU time of the process. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TABLE_WORDS = (4 << 20) / 8, THREADS = 2 };

static atomic_ulong shared __attribute__((aligned(64)));
static pthread_mutex_t mutex __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static unsigned long guarded __attribute__((aligned(64)));
static long iterations = 20000000;

static void *walk(void *argument)
{
	uint64_t *table = calloc(TABLE_WORDS, sizeof(*table));
	uint64_t state = (uint64_t)(uintptr_t)argument * 2 + 1;
	uint64_t sum = 0;
	const long count = iterations;

	if (!table)
		abort();
	for (long i = 1; i <= count; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		uint64_t index = (state >> 40) % TABLE_WORDS;

		sum += table[index];
		table[index] = sum ^ state;
		if (i % 16 == 0)
			atomic_fetch_add_explicit(&shared, 1, memory_order_relaxed);
		if (i % 256 == 0) {
			pthread_mutex_lock(&mutex);
			guarded += sum & 1;
			pthread_mutex_unlock(&mutex);
		}
	}
	free(table);
	return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	struct timespec used;

	if (argc > 1)
		iterations = atol(argv[1]);
	for (long id = 0; id < THREADS; id++)
		pthread_create(&threads[id], NULL, walk, (void *)id);
	for (int id = 0; id < THREADS; id++)
		pthread_join(threads[id], NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	fprintf(stderr, "%.3f s of CPU time\n", (double)used.tv_sec + (double)used.tv_nsec / 1e9);
	return 0;
}
