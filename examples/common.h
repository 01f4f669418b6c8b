/* What the examples share: private work of a known size, threads that start together, and the time
 * that one iteration took. */
#ifndef HITM_EXAMPLES_COMMON_H
#define HITM_EXAMPLES_COMMON_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS_MAX = 64, CACHE_LINE = 64 };

struct options {
	long iterations; /* per thread */
	long work;       /* rounds of private work in an iteration */
	long threads;
};

static struct options options_from(int argc, char **argv, struct options defaults)
{
	struct options options = defaults;
	long *fields[] = { &options.iterations, &options.work, &options.threads };

	for (int i = 1; i < argc && i <= 3; i++)
		*fields[i - 1] = atol(argv[i]);
	if (options.iterations < 1 || options.work < 0 || options.threads < 1 ||
	    options.threads > THREADS_MAX) {
		fprintf(stderr, "usage: %s [ITERATIONS [WORK [THREADS]]]\n", argv[0]);
		exit(2);
	}
	return options;
}

/* One round: a dependent chain of three multiplications, a shift and an exclusive or (11 cycles on
 * current x86 cores, 10 instructions with the loop around it), and one store to the thread's own
 * stack. Three rounds and the loop around them are about 35 cycles. */
static inline uint64_t private_work(long rounds, uint64_t hash, volatile uint64_t *scratch)
{
	while (rounds-- > 0) {
		hash *= 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
		hash *= 0xbf58476d1ce4e5b9u;
		__asm__("" : "+r"(hash)); /* or the compiler makes one of two multiplications */
		hash *= 0x94d049bb133111ebu;
		*scratch = hash;
	}
	return hash;
}

typedef void (*thread_body)(long id, const struct options *options);

struct thread_start {
	pthread_barrier_t *ready;
	thread_body body;
	long id;
	struct options options; /* its own copy: reading it must not touch a shared line */
	double nanoseconds;
} __attribute__((aligned(2 * CACHE_LINE)));

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *start_thread(void *argument)
{
	struct thread_start *start = argument;
	struct options options = start->options;
	double began;

	pthread_barrier_wait(start->ready);
	began = now_ns();
	start->body(start->id, &options);
	start->nanoseconds = now_ns() - began;
	return NULL;
}

/* Runs `body` on every thread and prints the mean time of an iteration. */
static int run_threads(thread_body body, struct options options)
{
	static struct thread_start starts[THREADS_MAX];
	pthread_t threads[THREADS_MAX];
	pthread_barrier_t ready;
	double sum = 0;

	pthread_barrier_init(&ready, NULL, (unsigned)options.threads);
	for (long id = 0; id < options.threads; id++) {
		starts[id] = (struct thread_start){ &ready, body, id, options, 0 };
		if (pthread_create(&threads[id], NULL, start_thread, &starts[id]) != 0) {
			perror("pthread_create");
			return 1;
		}
	}
	for (long id = 0; id < options.threads; id++) {
		pthread_join(threads[id], NULL);
		sum += starts[id].nanoseconds;
	}
	printf("%.2f ns per iteration (mean of %ld threads)\n",
	       sum / (double)options.threads / (double)options.iterations, options.threads);
	return 0;
}

#endif
