//! Time as recorded programs see it: the modelled machine's, whatever the host does meanwhile.

use std::path::Path;
use std::process::Output;

use crate::programs::{build, record_within};

/// Begin of programs that print what they measure, in nanoseconds or counts, each with what they asked for.
const PRELUDE: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000L

static long now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1000 * MS + time.tv_nsec;
}

static struct timespec span(long nanos)
{
	return (struct timespec){ nanos / (1000 * MS), nanos % (1000 * MS) };
}

#define TIME(name, asked, ...) do { \
	long begin = now(CLOCK_MONOTONIC); \
	__VA_ARGS__; \
	printf("%s %ld %ld\n", name, (long)(asked), now(CLOCK_MONOTONIC) - begin); \
} while (0)
"#;

const TIMED: &str = r#"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <x86intrin.h>

static volatile long work, done;
static int ends[2];
static pthread_t first;

static void *later(void *what)
{
	struct timespec milli = span(MS);
	nanosleep(&milli, 0);
	if (what)
		pthread_kill(first, SIGUSR1);
	else
		write(ends[1], "x", 1);
	return 0;
}

static void *naps(void *unused)
{
	struct timespec nap = span(MS / 10);
	for (int i = 0; i < 20; i++)
		nanosleep(&nap, 0);
	done = 1;
	return unused;
}

static void note(int signal) { work += signal; }

int main(void)
{
	pthread_t thread;
	struct epoll_event event;
	struct timespec time = span(300 * MS), rest = span(0);
	struct timeval third = { 0, 30000 };
	struct pollfd end;
	long begin;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	struct sigaction action = { .sa_handler = note };
	int all = epoll_create1(0);

	setvbuf(stdout, 0, _IONBF, 0);
	pipe(ends);
	first = pthread_self();
	end = (struct pollfd){ .fd = ends[0], .events = POLLIN };
	sigaction(SIGUSR1, &action, 0);
	TIME("nanosleep", 300 * MS, nanosleep(&time, 0));
	TIME("sleep", 5000 * MS, sleep(5));
	TIME("poll", 50 * MS, poll(0, 0, 50));
	TIME("select", 30 * MS, select(0, 0, 0, 0, &third));
	TIME("epoll", 20 * MS, epoll_wait(all, &event, 1, 20));
	pthread_mutex_lock(&mutex);
	TIME("cond", 40 * MS, time = span(now(CLOCK_REALTIME) + 40 * MS);
	     pthread_cond_timedwait(&never, &mutex, &time));
	TIME("until", 1000 * MS, time = span(now(CLOCK_MONOTONIC) + 1000 * MS);
	     clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, 0));
	/* Ends before its time: something is there to read, or a signal comes. */
	pthread_create(&thread, 0, later, 0);
	TIME("ready", MS, printf("is %d\n", poll(&end, 1, 10000)));
	pthread_join(thread, 0);
	pthread_create(&thread, 0, later, &end);
	time = span(10000 * MS);
	TIME("signal", MS, printf("is %d\n", nanosleep(&time, &rest) < 0 && errno == EINTR));
	TIME("rest", MS, nanosleep(&(struct timespec){ 0, MS }, 0));
	printf("left %ld %ld\n", 9999 * MS, rest.tv_sec * 1000 * MS + rest.tv_nsec);
	pthread_join(thread, 0);
	/* Beside a thread that runs, time is that thread's. */
	pthread_create(&thread, 0, naps, 0);
	TIME("beside", 2 * MS, while (!done) work++);
	pthread_join(thread, 0);
	TIME("child", 70 * MS, if (fork() == 0) { usleep(70000); _exit(0); } wait(0));
	begin = now(CLOCK_PROCESS_CPUTIME_ID);
	TIME("idle", 100 * MS, usleep(100000));
	printf("cpu 0 %ld\n", now(CLOCK_PROCESS_CPUTIME_ID) - begin);
	begin = __rdtsc();
	for (long i = 0; i < 1000000; i++)
		work++;
	printf("cycles %ld\n", (long)__rdtsc() - begin);
	return 0;
}
"#;

/// Records a program for at most four minutes; the lines that it prints.
pub(crate) fn lines(directory: &Path, name: &str, text: &str, options: &[&str]) -> Vec<String> {
    let source = directory.join(format!("{name}.c"));
    std::fs::write(&source, [PRELUDE, text].concat()).expect("a temporary file");
    build(directory, name, &source, &[]);
    let program = format!("./{name}");
    let args = [options, &["-o", "x.hitm", "--", &program]].concat();
    let Output {
        status,
        stdout,
        stderr,
    } = record_within(directory, &args);
    let said = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(0), "{said}");
    let text = String::from_utf8(stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

/// Holds what a program printed against what it had asked for: lines of these names, answers that are 1, and cycles.
pub(crate) fn assert_in_time(lines: &[String], expected: &[&str]) {
    // Cost of a call, with a wake's way, and a window of a thread that runs.
    const LATE_MAX: i64 = 60_000;
    let mut names = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["is", answer] => assert_eq!(answer, "1", "{lines:#?}"),
            [name, asked, measured] => {
                let [asked, measured] = [asked, measured].map(|text| text.parse::<i64>());
                let late = measured.expect("a number") - asked.expect("a number");
                assert!((-LATE_MAX..LATE_MAX).contains(&late), "{name}: {lines:#?}");
                names.push(name);
            }
            ["cycles", count] => {
                let count: u64 = count.parse().expect("a number");
                assert!((3_000_000..12_000_000).contains(&count), "{lines:#?}");
            }
            _ => panic!("{lines:#?}"),
        }
    }
    assert_eq!(names, expected);
}

#[test]
fn sleeps_and_time_outs_have_their_lengths_to_the_microsecond() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let lines = lines(directory.path(), "timed", TIMED, &[]);
    let expected = [
        "nanosleep",
        "sleep",
        "poll",
        "select",
        "epoll",
        "cond",
        "until",
        "ready",
        "signal",
        "rest",
        "left",
        "beside",
        "child",
        "idle",
        "cpu",
    ];
    assert_in_time(&lines, &expected);
}

#[test]
fn by_the_hosts_clock_time_is_the_hosts() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let lines = lines(directory.path(), "timed", TIMED, &["--clock", "host"]);
    let measured = |line: &String| {
        let [_, asked, measured] = line.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((asked.parse::<i64>().ok()?, measured.parse::<i64>().ok()?))
    };
    let sleeps = lines.iter().filter(|line| line.contains("sleep"));
    let sleeps: Vec<(i64, i64)> = sleeps.filter_map(measured).collect();
    assert_eq!(sleeps.len(), 2, "{lines:#?}");
    // No host wakes threads to the nanosecond.
    assert!(
        sleeps.iter().all(|(asked, measured)| measured > asked),
        "{lines:#?}"
    );
}
