// Threads that fight for one lock whose holder suffers on purpose, and that count what it suffers.
//
//   holder KIND THREADS MILLISECONDS
//
// KIND: run (a long hold), fault (first touch of fresh memory inside the lock), sleep (a sleep inside the lock),
// spinfault (like fault, with a spin lock). Who preempts or throttles the process is not its business: it counts the
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

enum { HOLD_NS = 2000000, SLEEP_NS = 1000000, REST_NS = 20000, PAGES = 256, PAGE = 4096 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin;
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

// Touches fresh pages. Only these touches take faults, so the CPU time of the loop is theirs.
static void touch(void)
{
	long before = faults();
	char *memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t begin;

	if (memory == MAP_FAILED)
		exit(1);
	madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
	begin = now(CLOCK_THREAD_CPUTIME_ID);
	for (int page = 0; page < PAGES; page++)
		memory[page * PAGE] = 1;
	fault_ns += now(CLOCK_THREAD_CPUTIME_ID) - begin;
	munmap(memory, PAGES * PAGE);
	fault_count += faults() - before;
}

static void hold(void)
{
	uint64_t begin = wall(), ran = now(CLOCK_THREAD_CPUTIME_ID), slept = 0;

	if (is_kind("fault") || is_kind("spinfault")) {
		touch();
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
	int spins = is_kind("spinfault");

	(void)unused;
	while (wall() < end_ns) {
		if (spins)
			pthread_spin_lock(&spin);
		else
			pthread_mutex_lock(&mutex);
		hold();
		if (spins)
			pthread_spin_unlock(&spin);
		else
			pthread_mutex_unlock(&mutex);
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
	kind = argv[1];
	count = atoi(argv[2]);
	if (count < 1 || count > 64)
		return 2;
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
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
