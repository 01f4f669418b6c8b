//! Threads that fork while others run code that the emulator has not seen yet.

use std::fs;
use std::thread;

use crate::programs::{self, record_within, report};

/// Eight threads, each of which starts programs by vfork, beside others that begin and end.
const FORKING: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static long counts[2];

static void *count(void *number)
{
	for (int i = 0; i < 3000; i++)
		__atomic_add_fetch(&counts[(long)number], 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void *start_programs(void *program)
{
	for (int i = 0; i < 4; i++) {
		pid_t child = vfork();

		if (!child) {
			execl(program, program, "child", (char *)0);
			_exit(1);
		}
		waitpid(child, 0, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t forking[8], counting[2];

	if (argc > 1)
		return 0;
	for (int i = 0; i < 8; i++)
		pthread_create(&forking[i], 0, start_programs, argv[0]);
	for (long i = 0; i < 2; i++)
		pthread_create(&counting[i], 0, count, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(counting[i], 0);
	for (int i = 0; i < 8; i++)
		pthread_join(forking[i], 0);
	return 0;
}
"#;

/// Recordings that run at once: each finds the host busy.
const AT_ONCE: usize = 3;

#[test]
fn threads_that_fork_beside_others_wait_for_nothing_and_lose_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("forking.c");
    fs::write(&source, FORKING).expect("a temporary file");
    let program = programs::build(directory.path(), "forking", &source, &[]);
    let program = program.to_str().expect("a temporary path is UTF-8");
    let check = |number: usize| {
        let recording = format!("{number}.hitm");
        let args = ["-o", &recording, "--", program];
        let recorded = record_within(directory.path(), &args);
        assert!(recorded.status.success(), "{recorded:?}");
        let report = report(&directory.path().join(recording));
        assert_eq!(report["run"]["complete"], true);
        let processes = report["processes"].as_array().expect("several processes");
        // Each child is one process before its exec and one after it.
        assert_eq!(processes.len(), 1 + 8 * 4 * 2);
        let threads = report["threads"].as_array().expect("threads");
        assert_eq!(threads.len(), processes.len() + 8 + 2);
    };
    thread::scope(|scope| {
        for number in 0..AT_ONCE {
            scope.spawn(move || check(number));
        }
    });
}
