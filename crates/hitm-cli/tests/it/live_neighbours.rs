//! `hitm live neighbours` on this host, against the CPU time that the kernel counts for each task.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use hitm_live::cgroups::Hierarchy;
use hitm_test::process::{Command, wait_for};
use serde_json::Value;

use crate::groups::{Group, Watcher, group_or_say, hitm, json, run_ns};
use crate::programs::say_not_run;

/// A quota that is never used up: ten CPUs.
const ENOUGH_US: u64 = 1_000_000;
/// CPU time of each program while it is observed.
const EACH_NS: u64 = 700_000_000;

/// Starts a program that never sleeps in `folder`, on one CPU.
fn start_on(group: &mut Group, folder: &Path, cpu: usize) -> u32 {
    group.start_hog(folder);
    let pid = group.hogs.last().expect("it was started").id();
    // SAFETY: all zeroes is a valid set of CPUs, which outlives the call.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(cpu, &mut set);
        let size = size_of::<libc::cpu_set_t>();
        let tid = pid.cast_signed();
        assert_eq!(libc::sched_setaffinity(tid, size, &raw const set), 0);
    }
    pid
}

/// Stops programs or lets them go on. Who is stopped waits for no CPU: what is observed is what the test measures.
fn signal(pids: &[u32], signal: libc::c_int) {
    for pid in pids {
        // SAFETY: a signal to a process of this test.
        unsafe { libc::kill(pid.cast_signed(), signal) };
    }
    let has_taken_it = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the task is there");
        let state = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().next());
        (state == Some("T")) == (signal == libc::SIGSTOP)
    };
    wait_for("a signal", || pids.iter().all(has_taken_it));
}

/// CPU time of programs, and the moment at which it was read.
struct Moment {
    at: Instant,
    ran_ns: Vec<u64>,
    throttled_ns: u64,
}

impl Moment {
    fn now(pids: &[u32], limited: &Path) -> Moment {
        let stat = Hierarchy::find().and_then(|all| all.stat(limited));
        Moment {
            ran_ns: pids.iter().map(|pid| run_ns(*pid)).collect(),
            at: Instant::now(),
            throttled_ns: stat.expect("cpu.stat").throttled_ns,
        }
    }
}

/// The row of a group.
fn row<'a>(report: &'a Value, end: &str) -> &'a Value {
    let groups = report["groups"].as_array().expect("groups");
    let is_it = |row: &&Value| row["path"].as_str().is_some_and(|path| path.ends_with(end));
    let row = groups.iter().find(is_it);
    row.unwrap_or_else(|| panic!("no group {end}: {report}"))
}

/// A time of a row as a part of all its time.
fn part(row: &Value, ns: f64) -> f64 {
    ns / row["waited_ns"].as_f64().expect("nanoseconds")
}

/// The part while groups ran of which `is_it` holds.
fn part_of_takers(row: &Value, is_it: impl Fn(&str) -> bool) -> f64 {
    let takers = row["takers"].as_array().expect("takers");
    let those = takers
        .iter()
        .filter(|taker| taker["path"].as_str().is_some_and(&is_it));
    part(row, those.filter_map(|taker| taker["ns"].as_f64()).sum())
}

fn assert_close(what: &str, found: f64, truth: f64, report: &Value) {
    assert!(
        (found - truth).abs() < 0.05,
        "{what}: {found:.3}, in truth {truth:.3}: {report:#}"
    );
}

/// Two programs of one group and one of another on one CPU, and on the next one a program with a quota. A program that
/// never sleeps waits whenever it does not run, so the CPU times of all say who took whose.
#[test]
fn the_matrix_is_what_cpu_times_say() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        say_not_run("hitm live neighbours", "one CPU");
        return;
    }
    let Some(mut group) = group_or_say("neighbours", ENOUGH_US, 100_000) else {
        return;
    };
    let top = group.folder.clone();
    let limited = group
        .add_below(&top, "limited", 8_000)
        .expect("a group below");
    let [pair, single] = ["pair", "single"].map(|name| group.add_leaf(&top, name));
    let pids = [
        start_on(&mut group, &pair, 0),
        start_on(&mut group, &pair, 0),
        start_on(&mut group, &single, 0),
        start_on(&mut group, &limited, 1),
    ];
    let path = group.path().to_owned();
    let mut watcher =
        Watcher::start(&["live", "neighbours", "--cgroup", &path, "--format", "json"]);
    watcher.wait_attached();
    let begin = Moment::now(&pids, &limited);
    signal(&pids, libc::SIGCONT);
    wait_for("CPU time", || {
        let mut ran = pids.iter().zip(&begin.ran_ns);
        ran.all(|(pid, before)| run_ns(*pid) >= before + EACH_NS)
    });
    let end = Moment::now(&pids, &limited);
    signal(&pids, libc::SIGSTOP);
    let report = json(&watcher.end());
    let time = end.at.duration_since(begin.at).as_nanos() as f64;
    let ran: Vec<f64> = end
        .ran_ns
        .iter()
        .zip(&begin.ran_ns)
        .map(|(now, before)| (now - before) as f64)
        .collect();
    let of_pair = ran[0] + ran[1];

    let waited = 2.0 * time - of_pair;
    let row_of_pair = row(&report, "/pair");
    let own = part_of_takers(row_of_pair, |path| path.ends_with("/pair"));
    assert_close("pair, by itself", own, of_pair / waited, &report);
    let by_single = part_of_takers(row_of_pair, |path| path.ends_with("/single"));
    assert_close("pair, by single", by_single, 2.0 * ran[2] / waited, &report);

    let row_of_single = row(&report, "/single");
    let by_pair = part_of_takers(row_of_single, |path| path.ends_with("/pair"));
    assert_close(
        "single, by pair",
        by_pair,
        of_pair / (time - ran[2]),
        &report,
    );

    let row_of_limited = row(&report, "/limited");
    let quota = row_of_limited["quota_ns"].as_f64().expect("nanoseconds");
    let throttled = (end.throttled_ns - begin.throttled_ns) as f64;
    let truth = throttled / (time - ran[3]);
    assert_close(
        "limited, by its quota",
        part(row_of_limited, quota),
        truth,
        &report,
    );
    for lost in ["lost_places", "lost_tasks", "lost_rows"] {
        assert_eq!(report[lost], 0, "{report}");
    }
}

/// A group with a task that another one of the same group keeps from its CPU.
#[test]
fn a_process_has_its_own_tasks_and_others() {
    let Some(mut group) = group_or_say("neighbours-pid", ENOUGH_US, 100_000) else {
        return;
    };
    let top = group.folder.clone();
    let pids = [0, 0].map(|cpu| start_on(&mut group, &top, cpu));
    let pid = pids[0].to_string();
    let mut watcher = Watcher::start(&["live", "neighbours", "--pid", &pid, "--format", "json"]);
    watcher.wait_attached();
    let before = pids.map(run_ns);
    wait_for("CPU time", || {
        pids.iter()
            .zip(before)
            .all(|(pid, before)| run_ns(*pid) > before + EACH_NS / 4)
    });
    let report = json(&watcher.end());
    assert_eq!(
        report["groups"].as_array().map(Vec::len),
        Some(1),
        "{report}"
    );
    let row = &report["groups"][0];
    assert_eq!(row["own_ns"], 0, "{report}");
    let processes = row["processes"].as_array().expect("processes");
    assert!(
        processes.iter().any(|process| process["pid"] == pids[1]),
        "{report}"
    );
}

#[test]
fn what_is_not_there_is_wrong_usage() {
    for args in [
        &["--pid", "4194305"][..],
        &["--cgroup", "no/such"],
        &["--pid", "1", "--cgroup", "/"],
        &["--duration", "0s"],
    ] {
        let mut command: Command = hitm(&["live", "neighbours"]);
        let output = command.args(args).stderr(Stdio::piped()).output();
        let output = output.expect("hitm runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
}
