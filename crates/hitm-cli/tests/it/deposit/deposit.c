#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long balance;
static inline __attribute__((always_inline)) void take(void) { pthread_mutex_lock(&lock); }
__attribute__((noinline)) static void deposit(long amount)
{
	take();
	balance += amount;
	pthread_mutex_unlock(&lock);
}
static void *work(void *unused)
{
	for (int i = 0; i < 3000; i++)
		deposit(i);
	return unused;
}
int main(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, work, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	return balance == 0;
}
