// Two threads that wake each other by a futex word.
//
// usage: ping_pong TURNS
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_uint turn;
static unsigned int turns;

static void play(unsigned int own)
{
	for (unsigned int i = 0; i < turns; i++) {
		while (atomic_load(&turn) != own)
			syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, 1 - own, 0, 0, 0);
		atomic_store(&turn, 1 - own);
		syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	}
}

static void *second(void *unused)
{
	play(1);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 2 || (turns = atoi(argv[1])) == 0) {
		fprintf(stderr, "usage: ping_pong TURNS\n");
		return 2;
	}
	if (pthread_create(&thread, NULL, second, NULL))
		return 1;
	play(0);
	return pthread_join(thread, NULL);
}
