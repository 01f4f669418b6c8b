//! `hitm live rt` on this host.

use hitm_test::process::Command;
use std::os::unix::process::CommandExt as _;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::programs::say_not_run;

fn live_rt(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    command.args(["live", "rt"]).args(args).stdin(Stdio::null());
    command
}

/// Runs the test; `None` where this host grants no real-time priorities.
fn run(args: &[&str]) -> Option<Output> {
    let output = live_rt(args).output().expect("hitm starts");
    if output.status.code() == Some(3) {
        say_not_run("hitm live rt", &String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(output)
}

#[test]
fn without_the_capability_it_says_what_is_missing() {
    const CAP_SYS_NICE: libc::c_ulong = 23;
    let mut command = live_rt(&["-l", "1"]);
    // SAFETY: system calls alone. A user without rights cannot drop the capability, and has none to lose.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_RTPRIO, &none);
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0);
            Ok(())
        });
    }
    let output = command.output().expect("hitm starts");
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("CAP_SYS_NICE"), "{error}");
    assert!(error.contains("RLIMIT_RTPRIO of "), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn it_runs_as_many_iterations_as_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("rt.json");
    let path = file.to_str().expect("UTF-8");
    let args = [
        "-l", "3", "-r", "2", "-s", "2", "-p", "5", "--json", path, "4",
    ];
    let Some(output) = run(&args) else { return };
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        text.starts_with("Iter:       0       1       2       3 \n"),
        "{text}"
    );
    assert_eq!(text.matches(" len:").count(), 3, "{text}");
    assert!(text.contains(" Task 3 (prio 8):\n"), "{text}");
    let json: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("written")).expect("JSON");
    let iterations = json["iterations"].as_array().expect("a list");
    assert_eq!(iterations.len(), 3);
    for sample in iterations
        .iter()
        .flat_map(|samples| samples.as_array().expect("a list"))
    {
        let micros = |key: &str| sample[key].as_u64().expect("a number");
        assert!(micros("length_us") >= micros("start_us") + 1999, "{sample}");
        assert!(micros("loops") > 0);
    }
    let passed = text.contains(" Passed!\n");
    assert_eq!(json["passed"], passed);
    assert_eq!(json["late"].as_array().expect("a list").is_empty(), passed);
}

/// On one CPU each thread waits for all higher ones, which is no failure.
#[test]
fn one_cpu_runs_threads_by_priority() {
    let mut command = live_rt(&[
        "-c", "-l", "2", "-r", "3", "-s", "1", "--format", "json", "3",
    ]);
    // SAFETY: system calls on plain memory.
    unsafe {
        command.pre_exec(|| {
            let mut all: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut all);
            let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &all));
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(first.unwrap_or(0), &mut one);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one);
            Ok(())
        });
    }
    let output = command.output().expect("hitm starts");
    if output.status.code() == Some(3) {
        say_not_run("hitm live rt", &String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert_eq!(output.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["cpus"].as_array().expect("a list").len(), 1);
    for samples in json["iterations"].as_array().expect("a list") {
        let start = |task: usize| samples[task]["start_us"].as_u64().expect("a number");
        assert!(
            start(0) > start(1) + 2000 && start(1) > start(2) + 2000,
            "{samples}"
        );
    }
}

#[test]
fn options_out_of_range_are_wrong_usage() {
    for args in [
        &["-p", "98"][..],
        &["0"],
        &["-D", "0"],
        &["-l", "0"],
        &["-D", "1", "-l", "2"],
    ] {
        let output = live_rt(args).output().expect("hitm starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
