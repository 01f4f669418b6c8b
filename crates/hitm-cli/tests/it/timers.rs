//! Timers of recorded programs ring by the modelled machine's time.

use crate::clock::{assert_in_time, lines};

const TIMERS: &str = r#"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

static volatile long work, rings;
static pthread_mutex_t taken;

static struct itimerspec every(long first, long interval)
{
	return (struct itimerspec){ span(interval), span(first) };
}

static void run_until(clockid_t clock, long end)
{
	while (now(clock) < end)
		for (int i = 0; i < 5000; i++)
			work++;
}

static void note(int signal) { (void)signal; rings++; }

static void *reads(void *fd)
{
	uint64_t count;
	read(*(int *)fd, &count, sizeof(count));
	return 0;
}

static void *locks(void *unused)
{
	TIME("lock", 60 * MS, struct timespec end = span(now(CLOCK_REALTIME) + 60 * MS);
	     printf("is %d\n", pthread_mutex_timedlock(&taken, &end) == ETIMEDOUT));
	return unused;
}

static void waits(void)
{
	struct sembuf down = { 0, -1, 0 };
	struct timespec time = span(3000 * MS);
	pthread_mutexattr_t inherits;
	pthread_t thread;
	sigset_t usr1;
	int set = semget(IPC_PRIVATE, 1, 0600);

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	TIME("sigtimedwait", 3000 * MS,
	     printf("is %d\n", sigtimedwait(&usr1, 0, &time) < 0 && errno == EAGAIN));
	time = span(80 * MS);
	TIME("semtimedop", 80 * MS,
	     printf("is %d\n", semtimedop(set, &down, 1, &time) < 0 && errno == EAGAIN));
	semctl(set, 0, IPC_RMID);
	pthread_mutexattr_init(&inherits);
	pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&taken, &inherits);
	pthread_mutex_lock(&taken);
	pthread_create(&thread, 0, locks, 0);
	pthread_join(thread, 0);
}

static void intervals(void)
{
	struct itimerval tick = { { 0, 10000 }, { 0, 10000 } }, off = { 0 }, left;

	TIME("alarm", 2000 * MS, alarm(2); pause());
	alarm(7);
	usleep(1600000);
	printf("seconds 5 %u\n", alarm(0));
	/* Somebody runs: ticks come by its time. */
	rings = 0;
	setitimer(ITIMER_REAL, &tick, 0);
	run_until(CLOCK_MONOTONIC, now(CLOCK_MONOTONIC) + 45 * MS);
	getitimer(ITIMER_REAL, &left);
	setitimer(ITIMER_REAL, &off, 0);
	printf("ticks 4 %ld\n", rings);
	printf("is %d\n", left.it_interval.tv_usec == 10000 && left.it_value.tv_usec < 6000);
	/* Of CPU time, asleep or not. */
	rings = 0;
	setitimer(ITIMER_PROF, &tick, 0);
	usleep(500000);
	run_until(CLOCK_PROCESS_CPUTIME_ID, now(CLOCK_PROCESS_CPUTIME_ID) + 25 * MS);
	setitimer(ITIMER_PROF, &off, 0);
	printf("profile 2 %ld\n", rings);
}

static void timers(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
	struct itimerspec spec = every(300 * MS, 200 * MS);
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	pthread_t reader;
	uint64_t count;
	timer_t timer;

	rings = 0;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	TIME("timer", 700 * MS, timer_settime(timer, 0, &spec, 0); while (rings < 3) pause());
	timer_gettime(timer, &spec);
	printf("rest %ld %ld\n", 200 * MS, spec.it_value.tv_nsec);
	/* No time is too long, and nonsense is none. */
	spec = (struct itimerspec){ { 0, 0 }, { INT64_MAX, 999999999 } };
	printf("is %d\n", timer_settime(timer, 0, &spec, 0) == 0);
	timer_gettime(timer, &spec);
	printf("is %d\n", spec.it_value.tv_sec > 1000000000);
	spec.it_value.tv_nsec = 1000 * MS;
	printf("is %d\n", timer_settime(timer, 0, &spec, 0) < 0 && errno == EINVAL);
	timer_delete(timer);
	rings = 0;
	timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer);
	spec = every(10 * MS, 0);
	timer_settime(timer, 0, &spec, 0);
	run_until(CLOCK_THREAD_CPUTIME_ID, now(CLOCK_THREAD_CPUTIME_ID) + 15 * MS);
	printf("own 1 %ld\n", rings);
	spec = every(50 * MS, 20 * MS);
	TIME("fd", 70 * MS, timerfd_settime(fd, 0, &spec, 0); read(fd, &count, 8); read(fd, &count, 8));
	usleep(90000);
	read(fd, &count, 8);
	printf("missed 4 %ld\n", (long)count);
	spec = every(now(CLOCK_MONOTONIC) + 400 * MS, 0);
	TIME("until", 400 * MS, timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, 0);
	     pthread_create(&reader, 0, reads, &fd); pthread_join(reader, 0));
}

int main(void)
{
	struct sigaction action = { .sa_handler = note };
	int signals[] = { SIGALRM, SIGPROF, SIGUSR2 }, status;
	unsigned int left;

	setvbuf(stdout, 0, _IONBF, 0);
	for (int i = 0; i < 3; i++)
		sigaction(signals[i], &action, 0);
	waits();
	intervals();
	timers();
	/* setitimer's timer outlives an exec, but not a fork. */
	alarm(3);
	if (fork() == 0) {
		printf("child 0 %u\n", alarm(1));
		execl("/bin/sleep", "sleep", "3600", (char *)0);
	}
	left = alarm(0);
	wait(&status);
	printf("parent 3 %u\n", left);
	printf("killed %d %d\n", SIGALRM, WTERMSIG(status));
	return 0;
}
"#;

#[test]
fn timers_ring_by_the_machines_time() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let lines = lines(directory.path(), "timers", TIMERS, &[]);
    let expected = [
        "sigtimedwait",
        "semtimedop",
        "lock",
        "alarm",
        "seconds",
        "ticks",
        "profile",
        "timer",
        "rest",
        "own",
        "fd",
        "missed",
        "until",
        "child",
        "parent",
        "killed",
    ];
    assert_in_time(&lines, &expected);
    let is_counted = |line: &&String| {
        let count = line.split(' ').next_back().expect("a word");
        count.len() < 4
    };
    for line in lines.iter().filter(is_counted) {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words[0] == "is" || words[1] == words[2], "{lines:#?}");
    }
}
