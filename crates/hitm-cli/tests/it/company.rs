//! A process is alone until a thread or another process can see its memory: from then on all is looked at, also by code
//! that has run before.

use std::fs;

use crate::programs::{build, record_within, report};

/// Runs a function alone, gets company, and runs the same function with it, 20,000 times each, on one word.
const COMPANY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 20000, STACK = 64 << 10 };

static volatile long shared __attribute__((aligned(64)));
static volatile int has_ended;

static __attribute__((noinline)) void add(volatile long *at)
{
	for (int i = 0; i < TIMES; i++)
		(*at)++;
}

static void *adds(void *unused)
{
	add(&shared);
	return unused;
}

static int bare(void *unused)
{
	(void)unused;
	add(&shared);
	has_ended = 1;
	syscall(SYS_exit, 0);
	return 0;
}

static void with_process(volatile long *at)
{
	if (fork() == 0) {
		add(at);
		_exit(0);
	}
	add(at);
	wait(0);
}

int main(int argc, char **argv)
{
	static volatile long own;
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	const char kind = argv[argc - 1][0];
	pthread_t thread;

	/* A file that is shared and only read is no company. */
	if (kind == 't' || kind == 'b')
		mmap(0, 4096, PROT_READ, MAP_SHARED, open(argv[0], O_RDONLY), 0);
	add(&own);
	switch (kind) {
	case 't':
		pthread_create(&thread, 0, adds, 0);
		add(&shared);
		pthread_join(thread, 0);
		break;
	case 'b': /* A thread that no C library makes. */
		clone(bare, (char *)malloc(STACK) + STACK, flags, 0);
		add(&shared);
		while (!has_ended)
			usleep(1000);
		break;
	case 'm':
		with_process(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
		break;
	default: {
		const int segment = shmget(IPC_PRIVATE, 4096, 0600);

		with_process(shmat(segment, 0, 0));
		shmctl(segment, IPC_RMID, 0);
	}
	}
	return 0;
}
"#;

#[test]
fn whoever_comes_is_seen() {
    /// Of 80,000: the first to come may have run for a window.
    const SEEN_MIN: u64 = 60_000;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("company.c");
    fs::write(&source, COMPANY).expect("a file in it");
    build(directory.path(), "company", &source, &[]);
    for kind in ["thread", "bare thread", "mapping", "segment"] {
        let args = ["-o", "x.hitm", "--", "./company", kind];
        let output = record_within(directory.path(), &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{kind}: {said}");
        let report = report(&directory.path().join("x.hitm"));
        let seen = report["totals"]["access_count"].as_u64().expect("a count");
        assert!(seen > SEEN_MIN, "{kind}: {seen}");
        assert_eq!(report["lines"][0]["verdict"], "true-sharing", "{kind}");
        // Those of before are not counted.
        let private = report["run"]["private_access_count"].as_u64();
        assert!(private < Some(60_000), "{kind}: {private:?}");
    }
}
