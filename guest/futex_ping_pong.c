// Pairs of threads that wake each other in turn through one futex each way.
//
// usage: futex_ping_pong [-p PAIRS] [-n ROUNDS of each pair]
// It prints the round trips in all and in a second of the machine's time.

#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Whose turn it is. Each pair has lines of its own.
struct pair {
	_Alignas(128) atomic_int turn;
};

struct player {
	struct pair *pair;
	int own;
};

static long pairs, rounds = 100;

static void *play(void *argument)
{
	struct player *self = argument;
	atomic_int *turn = &self->pair->turn;

	for (long i = 0; i < rounds; i++) {
		while (atomic_load(turn) != self->own)
			syscall(SYS_futex, turn, FUTEX_WAIT_PRIVATE, !self->own, NULL, NULL, 0);
		atomic_store(turn, !self->own);
		syscall(SYS_futex, turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || value <= 0 || value > 100000000) {
		fprintf(stderr, "futex_ping_pong: '%s' is not a number above 0\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	int option;

	pairs = (sysconf(_SC_NPROCESSORS_ONLN) + 1) / 2;
	while ((option = getopt(argc, argv, "p:n:")) != -1) {
		switch (option) {
		case 'p': pairs = number(optarg); break;
		case 'n': rounds = number(optarg); break;
		default: return 2;
		}
	}
	struct pair *all = aligned_alloc(128, pairs * sizeof(*all));
	struct player *players = calloc(2 * pairs, sizeof(*players));
	pthread_t *threads = calloc(2 * pairs, sizeof(*threads));

	if (!all || !players || !threads)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (long i = 0; i < 2 * pairs; i++) {
		if (i % 2 == 0)
			atomic_init(&all[i / 2].turn, 0);
		players[i] = (struct player){ &all[i / 2], i % 2 };
		if (pthread_create(&threads[i], NULL, play, &players[i])) {
			fprintf(stderr, "futex_ping_pong: cannot start a thread\n");
			return 1;
		}
	}
	for (long i = 0; i < 2 * pairs; i++)
		pthread_join(threads[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	double seconds = (end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) / 1e9;
	printf("futex_ping_pong: %ld pairs, %ld round trips, %.0f a second\n", pairs, pairs * rounds,
	       pairs * rounds / seconds);
	return 0;
}
