// Locks of every kind in every unkind way. Each case leaves counts that the test knows.
//
// usage: lock_kinds CASE

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                        \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			exit(1);                                                \
		}                                                               \
	} while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static volatile int ready;

static void sleep_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

static struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_nsec += ms * 1000000;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

static pthread_t start(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, body, argument));
	return thread;
}

// 3 nested acquisitions of a recursive mutex, twice: 6 acquisitions, held for 2 x 20 ms.
static void recursive(void)
{
	pthread_mutex_t nested = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

	for (int i = 0; i < 2; i++) {
		for (int j = 0; j < 3; j++)
			CHECK(!pthread_mutex_lock(&nested));
		sleep_ms(20);
		for (int j = 0; j < 3; j++)
			CHECK(!pthread_mutex_unlock(&nested));
		CHECK(pthread_mutex_unlock(&nested) == EPERM);
	}
}

static void *die_holding(void *argument)
{
	CHECK(!pthread_mutex_lock(argument));
	return NULL;
}

// 3 acquisitions: a thread that dies, one that learns of it, one more.
static void robust(void)
{
	pthread_mutex_t lock;
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&lock, &attributes);
	pthread_join(start(die_holding, &lock), NULL);
	CHECK(pthread_mutex_lock(&lock) == EOWNERDEAD);
	CHECK(!pthread_mutex_consistent(&lock));
	CHECK(!pthread_mutex_unlock(&lock));
	CHECK(!pthread_mutex_lock(&lock));
	CHECK(!pthread_mutex_unlock(&lock));
}

static void *wait_for_ready(void *argument)
{
	(void)argument;
	CHECK(!pthread_mutex_lock(&mutex));
	while (!ready)
		CHECK(!pthread_cond_wait(&condition, &mutex));
	CHECK(!pthread_mutex_unlock(&mutex));
	return NULL;
}

// A wait of 50 ms in which the mutex is not held: 1 wait, 1 signal, 3 acquisitions of the mutex; 1 more wait
// that ends in time, with 2 acquisitions.
static void condition_wait(void)
{
	struct timespec until;
	pthread_t waiter = start(wait_for_ready, NULL);

	sleep_ms(50);
	CHECK(!pthread_mutex_lock(&mutex));
	ready = 1;
	CHECK(!pthread_cond_signal(&condition));
	CHECK(!pthread_mutex_unlock(&mutex));
	pthread_join(waiter, NULL);
	CHECK(!pthread_mutex_lock(&mutex));
	until = in_ms(CLOCK_REALTIME, 10);
	CHECK(pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT);
	CHECK(!pthread_mutex_unlock(&mutex));
}

static void unlock_mutex(void *argument)
{
	pthread_mutex_unlock(argument);
}

static void *wait_forever(void *argument)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock_mutex, &mutex);
	ready = 1;
	for (;;)
		pthread_cond_wait(&condition, &mutex);
	pthread_cleanup_pop(1);
	return argument;
}

// A thread is cancelled while it waits; the mutex is free afterwards.
static void cancelled(void)
{
	void *result;
	pthread_t thread = start(wait_forever, NULL);

	while (!ready)
		sleep_ms(1);
	sleep_ms(20);
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result));
	CHECK(result == PTHREAD_CANCELED);
	CHECK(!pthread_mutex_lock(&mutex));
	CHECK(!pthread_mutex_unlock(&mutex));
}

static void *hold_until_wanted(void *argument)
{
	CHECK(!pthread_mutex_lock(argument));
	ready = 1;
	while (ready == 1)
		sleep_ms(1);
	// On a busy host the other thread may take some of this to begin its wait.
	sleep_ms(60);
	CHECK(!pthread_mutex_unlock(argument));
	return NULL;
}

// 2 acquisitions, 1 contended with a wait; 3 refusals: trylock, timedlock, clocklock.
static void timed(void)
{
	struct timespec past = in_ms(CLOCK_REALTIME, 1), steady = in_ms(CLOCK_MONOTONIC, 1);
	pthread_t holder = start(hold_until_wanted, &mutex);

	while (!ready)
		sleep_ms(1);
	CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
	CHECK(pthread_mutex_timedlock(&mutex, &past) == ETIMEDOUT);
	CHECK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &steady) == ETIMEDOUT);
	past = in_ms(CLOCK_REALTIME, 10000);
	ready = 2;
	CHECK(!pthread_mutex_timedlock(&mutex, &past));
	CHECK(!pthread_mutex_unlock(&mutex));
	pthread_join(holder, NULL);
}

// 3 read acquisitions, nested; 2 writes; 1 refused write. 2 of the spin lock, 1 refused.
static void rwlock_and_spin(void)
{
	struct timespec until = in_ms(CLOCK_REALTIME, 1);

	CHECK(!pthread_rwlock_rdlock(&rwlock));
	CHECK(!pthread_rwlock_tryrdlock(&rwlock));
	CHECK(!pthread_rwlock_timedrdlock(&rwlock, &until));
	CHECK(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_rwlock_unlock(&rwlock));
	CHECK(!pthread_rwlock_wrlock(&rwlock));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	CHECK(!pthread_rwlock_trywrlock(&rwlock));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
	CHECK(!pthread_spin_lock(&spinlock));
	CHECK(pthread_spin_trylock(&spinlock) == EBUSY);
	CHECK(!pthread_spin_unlock(&spinlock));
	CHECK(!pthread_spin_trylock(&spinlock));
	CHECK(!pthread_spin_unlock(&spinlock));
}

static void lock_times(int times)
{
	for (int i = 0; i < times; i++) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
}

// The mutex 5 times in this process, which holds it while it forks; 7 times in a child that was not there
// when it was taken; 9 times in a program that a child runs.
static void fork_and_exec(const char *self)
{
	int status;

	lock_times(4);
	pthread_mutex_lock(&mutex);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pthread_mutex_unlock(&mutex);
		lock_times(7);
		_exit(0);
	}
	pthread_mutex_unlock(&mutex);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	child = vfork();
	if (child == 0) {
		execl(self, self, "nine", (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static pthread_key_t key;

static void lock_at_end(void *argument)
{
	(void)argument;
	lock_times(1);
}

static void *lock_twice(void *argument)
{
	lock_times(1);
	pthread_setspecific(key, &key);
	return argument;
}

// 3000 threads, each locks once while it lives and once in a destructor; at most 8 at a time.
static void many_threads(void)
{
	pthread_t threads[8];

	pthread_key_create(&key, lock_at_end);
	for (int i = 0; i < 3000; i += 8) {
		for (int j = 0; j < 8; j++)
			threads[j] = start(lock_twice, NULL);
		for (int j = 0; j < 8; j++)
			pthread_join(threads[j], NULL);
	}
}

static volatile sig_atomic_t in_handler;

static void handler(int signal)
{
	static pthread_mutex_t others[2000];
	static int next;

	(void)signal;
	// A lock that no thread has seen before, in each signal.
	if (next < 2000 && !pthread_mutex_trylock(&others[next])) {
		pthread_mutex_unlock(&others[next++]);
		in_handler++;
	}
}

// Signals come while a thread takes locks, of which new ones come up all the time.
static void signals(void)
{
	static pthread_mutex_t locks[1000];
	struct itimerspec every = { { 0, 200000 }, { 0, 200000 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	struct timespec end = in_ms(CLOCK_MONOTONIC, 300), now;
	timer_t timer;

	signal(SIGALRM, handler);
	CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
	CHECK(!timer_settime(timer, 0, &every, NULL));
	for (int i = 0;; i++) {
		pthread_mutex_lock(&locks[i / 16 % 1000]);
		pthread_mutex_unlock(&locks[i / 16 % 1000]);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec > end.tv_nsec))
			break;
	}
	timer_delete(timer);
	CHECK(in_handler > 0);
}

static pthread_mutex_t two[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static atomic_int waiting;

static void *lock_at_once(void *lock)
{
	atomic_fetch_add(&waiting, 1);
	while (atomic_load(&waiting) < 2)
		;
	CHECK(!pthread_mutex_lock(lock));
	CHECK(!pthread_mutex_unlock(lock));
	return NULL;
}

// In 100 processes, one after the other, two threads take their first locks at the same time: 200 locks.
static void first_locks(void)
{
	for (int i = 0; i < 100; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (!child) {
			pthread_t other = start(lock_at_once, &two[1]);
			lock_at_once(&two[0]);
			pthread_join(other, NULL);
			_exit(0);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && !status);
	}
}

// Threads that have locked a thousand times.
static atomic_int underway;

static void *lock_until_killed(void *argument)
{
	lock_times(1000);
	atomic_fetch_add(&underway, 1);
	for (;;)
		lock_times(1000);
	return argument;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	const char *name = argv[1];

	if (!strcmp(name, "recursive"))
		recursive();
	else if (!strcmp(name, "robust"))
		robust();
	else if (!strcmp(name, "condition"))
		condition_wait();
	else if (!strcmp(name, "cancelled"))
		cancelled();
	else if (!strcmp(name, "timed"))
		timed();
	else if (!strcmp(name, "rwlock_and_spin"))
		rwlock_and_spin();
	else if (!strcmp(name, "fork_and_exec"))
		fork_and_exec("/proc/self/exe");
	else if (!strcmp(name, "nine"))
		lock_times(9);
	else if (!strcmp(name, "many_threads"))
		many_threads();
	else if (!strcmp(name, "first_locks"))
		first_locks();
	else if (!strcmp(name, "signals"))
		signals();
	else if (!strcmp(name, "exit") || !strcmp(name, "kill")) {
		// The process ends while threads take locks.
		for (int i = 0; i < 3; i++)
			start(lock_until_killed, NULL);
		while (atomic_load(&underway) < 3)
			sleep_ms(1);
		if (!strcmp(name, "kill"))
			kill(getpid(), SIGKILL);
	} else if (!strcmp(name, "dlopen")) {
		// The library's constructor and function lock once each.
		void *library = dlopen(getenv("LOCK_LIBRARY"), RTLD_NOW);
		CHECK(library);
		void (*function)(void) = dlsym(library, "lock_in_library");
		CHECK(function);
		function();
		dlclose(library);
	} else
		return 2;
	return 0;
}
