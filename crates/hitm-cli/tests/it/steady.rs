//! A recording shows the program's behaviour, not the host's.

use hitm_test::process::{Child, Command};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;

use crate::programs::{hitm, report};

/// Two threads, two members of one struct, and a mutex every so many times.
const MUTEX: &str = r#"
#include <pthread.h>
#include <stdlib.h>

static long iterations, every;
static struct { long a, b; } packed __attribute__((aligned(64)));
static pthread_mutex_t lock __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static long sum __attribute__((aligned(64)));

static void *work(void *which)
{
	volatile long *mine = which ? &packed.b : &packed.a;

	for (long i = 1; i <= iterations; i++) {
		++*mine;
		if (i % every == 0) {
			pthread_mutex_lock(&lock);
			sum++;
			pthread_mutex_unlock(&lock);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	iterations = atol(argv[1]);
	every = atol(argv[2]);
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, work, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// Work for the host that has nothing to do with the recording.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Load {
        let spin = |_| {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            command.stdin(Stdio::null());
            command.spawn().expect("there is a shell")
        };
        Load((0..count).map(spin).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Keeps a command on the first CPU that it may use.
fn keep_on_one_cpu(command: &mut Command) {
    // SAFETY: system calls with a mask that they fill or read.
    unsafe {
        command.pre_exec(|| {
            let size = size_of::<libc::cpu_set_t>();
            let mut mask: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size, &raw mut mask);
            let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &mask));
            libc::CPU_ZERO(&mut mask);
            libc::CPU_SET(first.unwrap_or(0), &mut mask);
            match libc::sched_setaffinity(0, size, &raw const mask) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

/// Cycles lost in a recording of the program.
fn lost_cycles(directory: &Path, is_on_one_cpu: bool) -> f64 {
    let mut command = Command::new(hitm());
    command.args(["record", "-o", "x.hitm", "./mutex", "30000", "64"]);
    command.current_dir(directory).stderr(Stdio::null());
    if is_on_one_cpu {
        keep_on_one_cpu(&mut command);
    }
    assert!(command.status().expect("hitm starts").success());
    let report = report(&directory.join("x.hitm"));
    report["totals"]["lost_cycles"].as_f64().expect("a number")
}

/// A busy host, and one CPU or all of them: threads that sleep on a mutex, and those that have just been
/// created, are waited for.
#[test]
fn the_host_does_not_decide_what_is_lost() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    fs::write(directory.join("mutex.c"), MUTEX).expect("a temporary file");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-g", "-pthread", "-o", "mutex", "mutex.c"]);
    assert!(
        compiler
            .current_dir(directory)
            .status()
            .expect("there is a C compiler")
            .success()
    );
    let mut lost = Vec::new();
    for load in [0, 6] {
        let _load = Load::start(load);
        for is_on_one_cpu in [false, true, false, true] {
            lost.push(lost_cycles(directory, is_on_one_cpu));
        }
    }
    let mean = lost.iter().sum::<f64>() / lost.len() as f64;
    assert!(mean > 1e6, "the threads fight: {lost:?}");
    // A thread that is not waited for loses nearly all. With a mutex every 16th time the two loops have two
    // rhythms, and the host decides which (docs/models/recording.md).
    for one in &lost {
        assert!((one / mean - 1.0).abs() < 0.05, "{lost:?}");
    }
}
