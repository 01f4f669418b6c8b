// Threads that spin for one lock, and know for how long.
//
// usage: spins KIND THREADS MILLISECONDS
//
// KIND is `pthread`, `pausing` (a loop that looks and pauses), `looking` (one that only looks) or `trying` (one that
// only tries). Begins when its input ends, and ends when its threads have spun for so long together, by their CPU
// time, which it prints in nanoseconds.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INSIDE_NS = 200000, OUTSIDE_NS = 300000 };

static pthread_spinlock_t pthread_word;
static atomic_int word;
static atomic_long spun;
static long enough;
static int (*try)(void);
static void (*take)(void), (*give)(void);

static long cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int pthread_try(void)
{
	return !pthread_spin_trylock(&pthread_word);
}

static void pthread_take(void)
{
	pthread_spin_lock(&pthread_word);
}

static void pthread_give(void)
{
	pthread_spin_unlock(&pthread_word);
}

#if defined(__x86_64__)
#define PAUSE() __asm__ volatile("pause")
#else
#define PAUSE() __asm__ volatile("yield")
#endif

__attribute__((noinline)) static void pausing(void)
{
	while (atomic_exchange(&word, 1))
		while (atomic_load_explicit(&word, memory_order_relaxed))
			PAUSE();
}

__attribute__((noinline)) static void looking(void)
{
	while (atomic_exchange(&word, 1))
		while (atomic_load_explicit(&word, memory_order_relaxed))
			;
}

__attribute__((noinline)) static void trying(void)
{
	int free = 0;

	while (!atomic_compare_exchange_strong(&word, &free, 1))
		free = 0;
}

static int enter(void)
{
	return !atomic_exchange(&word, 1);
}

static void leave(void)
{
	atomic_store(&word, 0);
}

static void work(long ns)
{
	long end = cpu_ns() + ns;

	while (cpu_ns() < end)
		;
}

static void *run(void *unused)
{
	while (atomic_load(&spun) < enough) {
		// An attempt that succeeds waits for nobody; who watches its write stops it for a while nevertheless.
		if (!try()) {
			long begin = cpu_ns();

			take();
			atomic_fetch_add(&spun, cpu_ns() - begin);
		}
		work(INSIDE_NS);
		give();
		work(OUTSIDE_NS);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int count = argc == 4 ? atoi(argv[2]) : 0;

	if (count < 1 || count > 64 || (enough = atol(argv[3]) * 1000000L) <= 0) {
		fprintf(stderr, "usage: spins pthread|pausing|looking|trying THREADS MILLISECONDS\n");
		return 2;
	}
	take = !strcmp(argv[1], "pthread") ? pthread_take :
	       !strcmp(argv[1], "pausing") ? pausing :
	       !strcmp(argv[1], "looking") ? looking :
					     trying;
	try = take == pthread_take ? pthread_try : enter;
	give = take == pthread_take ? pthread_give : leave;
	pthread_spin_init(&pthread_word, 0);
	while (getchar() != EOF)
		;
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, run, NULL))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("%ld\n", atomic_load(&spun));
	return 0;
}
