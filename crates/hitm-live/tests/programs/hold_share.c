// Threads that hold one lock for a known share of their time, and say for which.
//
// usage: hold_share mutex|write|spin THREADS INSIDE_NS OUTSIDE_NS MILLISECONDS
// A stretch outside is half to one and a half times as long, by chance: threads of one pace do not meet.
// It prints the acquisitions and the share held, in thousandths: sums of stretches that the threads time
// themselves, without what they wait. A stretch in which a thread was preempted counts as long as it should
// have been.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static char kind;
static uint64_t inside, outside;
static atomic_int is_over;

struct sums {
	uint64_t acquisitions, held, free;
};

static uint64_t ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	uint64_t value;
	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value));
	return value;
#endif
}

// Busy for so long; answers for how long it was.
static uint64_t work(uint64_t length)
{
	uint64_t start = ticks(), now;

	do
		now = ticks();
	while (now - start < length);
	return now - start < 2 * length ? now - start : length;
}

static void acquire(void)
{
	switch (kind) {
	case 'm': pthread_mutex_lock(&mutex); break;
	case 'w': pthread_rwlock_wrlock(&rwlock); break;
	default: pthread_spin_lock(&spinlock);
	}
}

static void release(void)
{
	switch (kind) {
	case 'm': pthread_mutex_unlock(&mutex); break;
	case 'w': pthread_rwlock_unlock(&rwlock); break;
	default: pthread_spin_unlock(&spinlock);
	}
}

static void *cycle(void *argument)
{
	struct sums *sums = argument;
	uint64_t random = (uintptr_t)argument | 1;

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		acquire();
		sums->held += work(inside);
		release();
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		sums->free += work(outside / 2 + random % (outside + 1));
		sums->acquisitions++;
	}
	return NULL;
}

static uint64_t nanos(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	kind = argv[1][0];
	int threads = atoi(argv[2]);
	struct timespec duration = { 0, 10000000 };
	uint64_t start = ticks(), start_nanos = nanos();

	nanosleep(&duration, NULL);
	double rate = (double)(ticks() - start) / (nanos() - start_nanos);
	inside = atoi(argv[3]) * rate;
	outside = atoi(argv[4]) * rate;
	pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
	struct sums *sums = aligned_alloc(128, threads * 128);
	pthread_t ids[threads];

	memset(sums, 0, threads * 128);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, cycle, (char *)sums + i * 128))
			return 1;
	long millis = atol(argv[5]);
	duration = (struct timespec){ millis / 1000, millis % 1000 * 1000000 };
	nanosleep(&duration, NULL);
	atomic_store(&is_over, 1);
	struct sums all = { 0, 0, 0 };
	for (int i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		struct sums *one = (void *)((char *)sums + i * 128);
		all.acquisitions += one->acquisitions;
		all.held += one->held;
		all.free += one->free;
	}
	printf("%lu acquisitions, held %lu\n", all.acquisitions, 1000 * all.held / (all.held + all.free));
	return 0;
}
