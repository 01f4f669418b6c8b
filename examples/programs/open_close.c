/* Threads that open and close a file: the kernel's table of files is one for all of them.
 *
 *   open_close [THREADS [ROUNDS]]      (2 threads, 1,000,000 rounds each)
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long rounds = 1000000;
static atomic_int has_failed;

static void *open_and_close(void *none)
{
	for (long i = 0; i < rounds; i++) {
		int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		if (file < 0)
			has_failed = 1;
		close(file);
	}
	return none;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int count = argc > 1 ? atoi(argv[1]) : 2;

	if (argc > 2)
		rounds = atol(argv[2]);
	if (count < 1 || count > 64) {
		fprintf(stderr, "open_close: %d threads, expected 1 to 64\n", count);
		return 2;
	}
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, open_and_close, NULL))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return has_failed;
}
