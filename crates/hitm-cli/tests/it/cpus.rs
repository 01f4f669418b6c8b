//! A program sees the modelled machine's CPUs, not the host's, and moves between them.

use hitm_test::process::Command;
use std::fs;
use std::path::Path;

use crate::programs::{build, has_compiler, hitm, report, run, say_not_run};

/// All that a C program can ask about CPUs.
const SEE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

static int lines(const char *path, const char *start)
{
	char line[65536];
	int count = 0;
	FILE *file = fopen(path, "r");

	while (file && fgets(line, sizeof line, file))
		count += !strncmp(line, start, strlen(start));
	if (file)
		fclose(file);
	return count;
}

static void text(const char *path)
{
	char bytes[256] = "";
	int fd = open(path, O_RDONLY);
	int count = fd < 0 ? 0 : read(fd, bytes, sizeof bytes - 1);

	printf("%s: %.*s", path, count, bytes);
	close(fd);
}

static void *inherited(void *unused)
{
	cpu_set_t set;

	(void)unused;
	pthread_getaffinity_np(pthread_self(), sizeof set, &set);
	printf("thread: %d, on %d\n", CPU_COUNT(&set), sched_getcpu());
	return 0;
}

int main(void)
{
	unsigned long words[128];
	unsigned cpu, node;
	cpu_set_t set;
	pthread_t thread;
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof words, words);
	int raw = 0;

	for (long i = 0; i < bytes / 8; i++)
		raw += __builtin_popcountl(words[i]);
	printf("raw: %d in %ld bytes\n", raw, bytes);
	sched_getaffinity(0, sizeof set, &set);
	printf("affinity: %d\n", CPU_COUNT(&set));
	printf("online: %ld %d\n", sysconf(_SC_NPROCESSORS_ONLN), get_nprocs());
	printf("configured: %ld %d\n", sysconf(_SC_NPROCESSORS_CONF), get_nprocs_conf());
	printf("cpuinfo: %d\n", lines("/proc/cpuinfo", "processor"));
	printf("stat: %d\n", lines("/proc/stat", "cpu") - 1);
	text("/sys/devices/system/cpu/online");
	text("/sys/devices/system/cpu/possible");
	text("/sys/devices/system/cpu/present");
	syscall(SYS_getcpu, &cpu, &node, 0);
	printf("getcpu: %d %u %u\n", sched_getcpu(), cpu, node);
	CPU_ZERO(&set);
	CPU_SET(24, &set);
	printf("to 24: %d", sched_setaffinity(0, sizeof set, &set));
	printf(", on %d\n", sched_getcpu());
	CPU_ZERO(&set);
	CPU_SET(95, &set);
	printf("to 95: %d", sched_setaffinity(0, sizeof set, &set));
	printf(", on %d\n", sched_getcpu());
	pthread_create(&thread, 0, inherited, 0);
	pthread_join(thread, 0);
	fflush(stdout);
	if (fork() == 0) {
		printf("fork ");
		inherited(0);
		fflush(stdout);
		execl("/usr/bin/nproc", "nproc", (char *)0);
	}
	wait(0);
	printf("status: %d\n", lines("/proc/self/status", "Cpus_allowed_list:\t24\n"));
	return 0;
}
"#;

/// Two threads that fight for a line on two CPUs, and for another line on two others.
const MOVES: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static struct { long a, b; } together __attribute__((aligned(64)));
static struct { long a, b; } apart __attribute__((aligned(64)));
static pthread_barrier_t barrier;
static int cpus[2][2];
static long iterations;

static void move(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) || sched_getcpu() != cpu)
		exit(3);
}

static void *work(void *which)
{
	int me = which != 0;

	move(cpus[0][me]);
	pthread_barrier_wait(&barrier);
	for (long i = 0; i < iterations; i++)
		++*(volatile long *)(me ? &together.b : &together.a);
	move(cpus[1][me]);
	pthread_barrier_wait(&barrier);
	for (long i = 0; i < iterations; i++)
		++*(volatile long *)(me ? &apart.b : &apart.a);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	if (argc != 6)
		return 2;
	for (int i = 0; i < 4; i++)
		cpus[i / 2][i % 2] = atoi(argv[1 + i]);
	iterations = atol(argv[5]);
	pthread_barrier_init(&barrier, 0, 2);
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, work, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

const OPENMP: &str = r#"
#include <omp.h>
#include <stdio.h>
int main(void)
{
	int count = 0;
#pragma omp parallel
#pragma omp atomic
	count++;
	printf("%d\n", count == omp_get_num_procs() ? count : -1);
}
"#;

const GO: &str = r#"
package main
import ("fmt";"runtime")
func main() { fmt.Println(runtime.GOMAXPROCS(0)) }
"#;

const RUST: &str = r#"
fn main() {
    println!("{}", std::thread::available_parallelism().unwrap());
}
"#;

/// Output of a recorded program.
fn output(directory: &Path, options: &[&str], program: &str) -> String {
    let all = [&["record", "-o", "x.hitm"], options, &["--", program]].concat();
    let output = run(directory, &all);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm record fails: {error}");
    assert!(!error.contains("saw the host's CPUs"), "{error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Builds the C program into `directory`, with these options.
fn build_c(directory: &Path, name: &str, source: &str, options: &[&str]) -> bool {
    let file = format!("{name}.c");
    fs::write(directory.join(&file), source).expect("a temporary file");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-g", "-pthread", "-o", name, &file]);
    let status = compiler.args(options).current_dir(directory).status();
    status.expect("there is a C compiler").success()
}

/// Output of the C program on `count` CPUs, of which 24 is one and 95 is none.
fn seen(count: usize, online: &str, last_cpu: &str) -> String {
    let after = match last_cpu {
        "24" => "to 95: -1, on 24",
        _ => "to 95: 0, on 95",
    };
    let status = usize::from(last_cpu == "24");
    format!(
        "raw: {count} in 24 bytes
affinity: {count}
online: {count} {count}
configured: 192 192
cpuinfo: {count}
stat: {count}
/sys/devices/system/cpu/online: {online}
/sys/devices/system/cpu/possible: 0-191
/sys/devices/system/cpu/present: 0-191
getcpu: 0 0 0
to 24: 0, on 24
{after}
thread: 1, on {last_cpu}
fork thread: 1, on {last_cpu}
1
status: {status}
"
    )
}

/// By the C library, linked dynamically and statically, and by plain system calls; threads, children and
/// programs that take over inherit what was set.
#[test]
fn a_program_sees_the_cpus_that_it_was_given() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    assert!(build_c(directory, "see", SEE, &[]));
    assert!(build_c(directory, "see_static", SEE, &["-static"]));
    let default = seen(16, "0-3,24-27,48-51,72-75", "95");
    assert_eq!(output(directory, &[], "./see"), default);
    let eight = seen(8, "0-1,24-25,48-49,72-73", "24");
    assert_eq!(output(directory, &["--cpus", "8"], "./see"), eight);
    assert_eq!(output(directory, &["--cpus", "8"], "./see_static"), eight);
    let many = seen(64, "0-15,24-39,48-63,72-87", "24");
    assert_eq!(output(directory, &["--cpus", "64"], "./see"), many);
    let listed = ["--cpus", "0,5,24", "--threads-to", "compact"];
    assert_eq!(output(directory, &listed, "./see"), seen(3, "0,5,24", "24"));
    let report = report(&directory.join("x.hitm"));
    assert_eq!(report["run"]["program_cpu_count"], 3);
}

/// A shell that clears the environment, and a program behind it.
#[test]
fn programs_behind_others_see_them_too() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let mut command = Command::new(hitm());
    command.args(["record", "--cpus", "24", "-o", "x.hitm", "sh", "-c"]);
    command.arg("exec 3>&-; env -i /usr/bin/nproc; /usr/bin/taskset -c 24,48 /usr/bin/nproc");
    let output = command.current_dir(directory).output();
    let output = output.expect("hitm starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "24\n2\n");
    let error = run(directory, &["record", "--cpus", "193", "true"]);
    assert_eq!(error.status.code(), Some(2));
    let message = String::from_utf8_lossy(&error.stderr).into_owned();
    assert!(message.contains("--cpus 193: found 192 CPUs"), "{message}");
}

/// As google-benchmark compares them: CPUs have numbers without gaps, and no cache is shared by more of them than there
/// are.
#[test]
fn cpuinfo_and_caches_agree_with_the_model() {
    const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let read = |files: &[&str]| {
        let record = ["record", "--cpus", "8", "-o", "x.hitm", "--", "cat"];
        let output = run(directory, &[&record, files].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let info = read(&["/proc/cpuinfo"]);
    let of = |key: &str| -> Vec<String> {
        let values = info.lines().filter_map(|line| line.split_once(':'));
        let values = values.filter(|(name, _)| name.trim() == key);
        values.map(|(_, value)| value.trim().to_owned()).collect()
    };
    assert_eq!(of("processor"), ["0", "1", "2", "3", "4", "5", "6", "7"]);
    if info.contains("cpu MHz") {
        assert_eq!(of("cpu MHz"), ["2600.000"; 8]);
        assert_eq!(of("siblings"), ["2"; 8]);
    }
    if !Path::new(CACHES).join("index3").exists() {
        return say_not_run("caches of CPUs", "this host tells of none");
    }
    let paths = [
        "index0/size",
        "index0/shared_cpu_list",
        "index3/size",
        "index3/shared_cpu_list",
    ];
    let paths = paths.map(|path| format!("{CACHES}/{path}"));
    let seen = read(&paths.each_ref().map(String::as_str));
    assert_eq!(seen, "32K\n0\n61440K\n0-1\n");
}

#[test]
fn runtimes_start_a_thread_for_each_cpu() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let mut programs = vec!["rust"];
    fs::write(directory.join("rust.rs"), RUST).expect("a temporary file");
    build(directory, "rust", &directory.join("rust.rs"), &[]);
    match build_c(directory, "openmp", OPENMP, &["-fopenmp"]) {
        true => programs.push("openmp"),
        false => say_not_run("OpenMP", "the compiler has none"),
    }
    let go = directory.join("go.go");
    fs::write(&go, GO).expect("a temporary file");
    match has_compiler(&go) {
        true => {
            build(directory, "go", &go, &[]);
            programs.push("go");
        }
        false => say_not_run("GOMAXPROCS", "there is no Go"),
    }
    for count in ["8", "64"] {
        for program in &programs {
            let path = format!("./{program}");
            let output = output(directory, &["--cpus", count], &path);
            assert_eq!(output.trim(), count, "{program}");
        }
    }
}

/// Cycles lost on the lines `together` and `apart`.
fn lost_by_phase(directory: &Path, cpus: [&str; 4]) -> [f64; 2] {
    let args = [
        &["record", "-o", "x.hitm", "./moves"],
        &cpus[..],
        &["20000"],
    ]
    .concat();
    assert!(run(directory, &args).status.success());
    let report = report(&directory.join("x.hitm"));
    let lines = report["lines"].as_array().expect("a report has lines");
    ["together", "apart"].map(|name| {
        let of_name = lines.iter().filter(|line| line["name"] == name);
        of_name
            .filter_map(|line| line["lost_cycles"].as_f64())
            .sum()
    })
}

#[test]
fn threads_of_a_core_lose_nothing_until_they_move_to_two_packages() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    assert!(build_c(directory, "moves", MOVES, &[]));
    // On broadwell-4s 96 is the second thread of CPU 0's core, and 24 is in another package.
    let [on_core, on_packages] = lost_by_phase(directory, ["0", "96", "0", "24"]);
    let [packages_first, core_last] = lost_by_phase(directory, ["0", "24", "0", "96"]);
    assert!(on_packages > 100_000.0, "{on_packages}");
    assert!(on_core < on_packages / 50.0, "{on_core} {on_packages}");
    assert!(core_last < on_packages / 50.0, "{core_last} {on_packages}");
    let ratio = packages_first / on_packages;
    assert!(
        (0.75..1.33).contains(&ratio),
        "{packages_first} {on_packages}"
    );
    // The moves are recorded: run again, they happen at the same places.
    let again = run(directory, &["whatif", "-i", "x.hitm", "--format", "json"]);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
    let runs = &again["run"];
    assert!(runs["after"]["lost_cycles"].as_f64() > Some(100_000.0));
    assert_eq!(runs["after"], runs["before"]);
}
