// Threads that fight for one lock whose holder suffers on purpose, and that count what it suffers.
//
//   holder KIND THREADS MILLISECONDS
//
// KIND: run (a long hold), fault (first touch of fresh memory inside the lock: a free list whose buffers nobody has
// touched), huge (the same in huge pages), sleep (a sleep inside the lock); spinrun, spinfault and spinhuge are the same
// with a spin lock. Who preempts or throttles the process is not its business: it counts the
// time inside the lock in which its clock moves and the thread's CPU time does not.
// Waits for the end of its input before it begins. Prints a line of JSON: nanoseconds inside the lock, of them off the
// CPU, in faults, asleep; and the faults that the kernel counted there.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { HOLD_NS = 2000000, SLEEP_NS = 1000000, REST_NS = 20000, PAGES = 256, PAGE = 4096, POOL = 64 * PAGES };
enum { HUGE_PAGE = 2 << 20 };

struct buffer {
	struct buffer *next;
	char rest[PAGE - sizeof(void *)];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int spin_word, spins;
// All of these belong to the holder.
static struct buffer *pool, *free_list;
static int carved;
static const char *kind;
static uint64_t end_ns;
// Of the holder alone.
static uint64_t held_ns, off_ns, fault_ns, asleep_ns, fault_count, holds;

static uint64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static uint64_t wall(void)
{
	return now(CLOCK_MONOTONIC);
}

static int is_kind(const char *name)
{
	return !strcmp(kind, name);
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

static void run_for(uint64_t ns)
{
	uint64_t begin = now(CLOCK_THREAD_CPUTIME_ID);

	while (now(CLOCK_THREAD_CPUTIME_ID) - begin < ns)
		;
}

// Carves buffers that nobody has touched and puts them on the free list. Only this takes faults, so the CPU time of the
// loop is theirs.
static void carve(void)
{
	long before = faults();
	uint64_t begin;

	if (carved == POOL) {
		madvise(pool, POOL * PAGE, MADV_DONTNEED);
		free_list = 0;
		carved = 0;
	}
	begin = now(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < PAGES; i++) {
		pool[carved].next = free_list;
		free_list = &pool[carved++];
	}
	fault_ns += now(CLOCK_THREAD_CPUTIME_ID) - begin;
	fault_count += faults() - before;
}

static void take(void)
{
	if (!spins)
		pthread_mutex_lock(&mutex);
	else
		while (__atomic_exchange_n(&spin_word, 1, __ATOMIC_ACQUIRE))
			while (__atomic_load_n(&spin_word, __ATOMIC_RELAXED))
#ifdef __x86_64__
				__builtin_ia32_pause();
#else
				__asm__ volatile("yield");
#endif
}

static void give(void)
{
	if (spins)
		__atomic_store_n(&spin_word, 0, __ATOMIC_RELEASE);
	else
		pthread_mutex_unlock(&mutex);
}

static void hold(void)
{
	uint64_t begin = wall(), ran = now(CLOCK_THREAD_CPUTIME_ID), slept = 0;

	if (is_kind("fault") || is_kind("huge")) {
		carve();
		run_for(HOLD_NS / 20);
	} else {
		run_for(HOLD_NS);
	}
	if (is_kind("sleep")) {
		struct timespec nap = {.tv_nsec = SLEEP_NS};

		slept = wall();
		nanosleep(&nap, 0);
		slept = wall() - slept;
	}
	begin = wall() - begin;
	ran = now(CLOCK_THREAD_CPUTIME_ID) - ran;
	held_ns += begin;
	asleep_ns += slept;
	off_ns += begin > ran + slept ? begin - ran - slept : 0;
	holds++;
}

static void *work(void *unused)
{
	(void)unused;
	while (wall() < end_ns) {
		take();
		hold();
		give();
		run_for(REST_NS);
	}
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int count;

	if (argc != 4)
		return 2;
	spins = !strncmp(argv[1], "spin", 4);
	kind = argv[1] + (spins ? 4 : 0);
	count = atoi(argv[2]);
	if (count < 1 || count > 64)
		return 2;
	pool = mmap(0, POOL * PAGE + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pool == MAP_FAILED)
		return 1;
	pool = (void *)(((uintptr_t)pool + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
	madvise(pool, POOL * PAGE, is_kind("huge") ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	while (getchar() != EOF)
		;
	end_ns = wall() + (uint64_t)atoi(argv[3]) * 1000000;
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], 0, work, 0);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], 0);
	printf("{\"holds\": %lu, \"held_ns\": %lu, \"off_ns\": %lu, \"fault_ns\": %lu, \"asleep_ns\": %lu, \"faults\": %lu}\n",
	       holds, held_ns, off_ns, fault_ns, asleep_ns, fault_count);
	return 0;
}
