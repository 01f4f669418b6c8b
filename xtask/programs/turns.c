/* What the cost of waiting for a turn is measured with: each of two threads does 100,000 times something to what
 * both share, and 100 stores to what is its own. The first argument says what: lock, atomic or plain. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 100000, STORES = 100, THREADS = 2 };

static pthread_mutex_t mutex __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static volatile long shared __attribute__((aligned(64)));
static char kind = 'l';

static void *take_turns(void *argument)
{
	volatile long *own = argument;

	for (int i = 0; i < TIMES; i++) {
		switch (kind) {
		case 'l':
			pthread_mutex_lock(&mutex);
			shared++;
			pthread_mutex_unlock(&mutex);
			break;
		case 'a':
			__atomic_fetch_add(&shared, 1, __ATOMIC_SEQ_CST);
			break;
		default:
			shared++;
		}
		for (int j = 0; j < STORES; j++)
			own[j]++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	if (argc > 1)
		kind = argv[1][0];
	for (int id = 0; id < THREADS; id++) {
		long *own = aligned_alloc(4096, 4096);

		if (!own)
			abort();
		memset(own, 0, 4096);
		pthread_create(&threads[id], NULL, take_turns, own);
	}
	for (int id = 0; id < THREADS; id++)
		pthread_join(threads[id], NULL);
	return 0;
}
