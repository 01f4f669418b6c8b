// A library with a lock of its own, which its constructor takes as well.

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((visibility("default"))) void lock_in_library(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void load(void)
{
	lock_in_library();
}
