// Threads that increment one atomic counter, or read beside those that write.
//   increments counter THREADS INCREMENTS    each looks once a millisecond if all are there, then increments
//   increments in-order THREADS INCREMENTS   a barrier lets them go, in the order in which they came
//   increments readers ITERATIONS            four threads lock and store, four read, on the same two lines
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LINE _Alignas(64)

static LINE atomic_ulong counter;
static LINE atomic_long ready;
static LINE atomic_int go;
static pthread_barrier_t barrier;
static int in_order;
static long rounds;

static void *increment(void *arg) {
	atomic_fetch_add(&ready, 1);
	if (in_order)
		pthread_barrier_wait(&barrier);
	while (!atomic_load(&go))
		poll(NULL, 0, 1);
	for (long i = 0; i < rounds; i++)
		atomic_fetch_add(&counter, 1);
	return arg;
}

static struct {
	LINE volatile long lock;
	volatile long of_lockers[3], first[4];
	LINE volatile long unused, written;
	volatile long of_others[2], second[4];
} lines;

// The loops keep their counters and what they read on the stack, as without optimisation.
static void *lock(void *arg) {
	for (volatile long i = 0; i < rounds; i++) {
		__atomic_exchange_n(&lines.lock, 1, __ATOMIC_SEQ_CST);
		lines.lock++;
		lines.written = 1;
	}
	return arg;
}

static void *look(void *arg) {
	volatile long member = (long)arg, seen[2], work[3];
	for (volatile long i = 0; i < rounds; i++) {
		work[0] = i;
		work[1] = work[0];
		work[2] = work[1];
		seen[0] = lines.first[member];
		seen[1] = lines.second[member];
	}
	(void)seen[0], (void)seen[1], (void)work[2];
	return arg;
}

static void start(pthread_t *thread, void *(*body)(void *), long arg) {
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	if (pthread_create(thread, &attr, body, (void *)arg))
		exit(3);
}

int main(int argc, char **argv) {
	int counts = argc == 4;
	in_order = counts && !strcmp(argv[1], "in-order");
	atomic_store(&go, in_order);
	long threads = counts ? atol(argv[2]) : 8;
	rounds = atol(argv[argc - 1]);
	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	pthread_t *all = calloc((size_t)threads, sizeof *all);
	for (long i = 0; i < threads; i++)
		start(all + i, counts ? increment : i < 4 ? lock : look, i % 4);
	while (counts && !in_order && atomic_load(&ready) < threads)
		poll(NULL, 0, 1);
	atomic_store(&go, 1);
	for (long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return counts && atomic_load(&counter) != (unsigned long)(threads * rounds);
}
