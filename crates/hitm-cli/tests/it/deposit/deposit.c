/* Threads take one lock in a function that the compiler puts into its caller. */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static inline __attribute__((always_inline)) void take(void)
{
	pthread_mutex_lock(&lock);
}

__attribute__((noinline)) static void deposit(void)
{
	take();
	pthread_mutex_unlock(&lock);
}

static void *work(void *unused)
{
	for (int i = 0; i < 3000; i++)
		deposit();
	return unused;
}

int main(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, work, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	return 0;
}
