//! `hitm live locks` of a program whose holders of a lock suffer on purpose, beside what the program counts itself.
//!
//! Other work on the host preempts holders as well, in both accounts.

use std::path::Path;
use std::process::Stdio;

use hitm_test::process::{Child, Command};
use serde_json::Value;

use crate::groups::{Group, Watcher, group_or_say};
use crate::programs::{build, root, say_not_run};

/// A quota that is never used up: ten CPUs.
const ENOUGH_US: u64 = 1_000_000;
const PERIOD_US: u64 = 100_000;
/// Points by which a share may differ from the truth.
const POINTS: f64 = 0.10;

/// Shares of the time that others waited.
#[derive(Debug, Default)]
struct Shares {
    running: f64,
    /// Preempted or throttled: the program cannot tell.
    off: f64,
    faulting: f64,
    asleep: f64,
}

struct Seen {
    truth: Shares,
    found: Shares,
    throttled: f64,
    lock: Value,
}

fn number(row: &Value, key: &str) -> f64 {
    row[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no {key}: {row}"))
}

fn truth(printed: &[u8]) -> Shares {
    let counted: Value = serde_json::from_slice(printed).expect("JSON");
    let share = |key| number(&counted, key) / number(&counted, "held_ns");
    let (off, faulting, asleep) = (share("off_ns"), share("fault_ns"), share("asleep_ns"));
    Shares {
        running: 1.0 - off - faulting - asleep,
        off,
        faulting,
        asleep,
    }
}

fn found(holders: &Value) -> (Shares, f64) {
    let states = [
        "running_ns",
        "preempted_ns",
        "throttled_ns",
        "minor_fault_ns",
        "major_fault_ns",
        "asleep_ns",
        "waking_ns",
        "unknown_ns",
    ];
    let all: f64 = states.iter().map(|key| number(holders, key)).sum();
    let share = |key| number(holders, key) / all;
    let shares = Shares {
        running: share("running_ns"),
        off: share("preempted_ns") + share("throttled_ns"),
        faulting: share("minor_fault_ns"),
        asleep: share("asleep_ns") + share("waking_ns"),
    };
    (shares, share("throttled_ns"))
}

/// Starts the program, which waits for the end of its input.
fn start(folder: &Path, kind: &str, threads: u32) -> Child {
    let source = root().join("crates/hitm-live/tests/programs/holder.c");
    let program = build(folder, "holder", &source, &[]);
    let mut command = Command::new(program);
    command.args([kind, &threads.to_string(), "2000"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Runs the program in a group and returns both accounts; none where holders cannot be seen.
fn observe(group: &Group, kind: &str, threads: u32, pin: bool) -> Option<Seen> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut program = start(folder.path(), kind, threads);
    let pid = program.id();
    std::fs::write(group.folder.join("cgroup.procs"), pid.to_string()).expect("the group takes it");
    if pin {
        on_first_cpu(pid);
    }
    let pid = pid.to_string();
    let mut watcher = Watcher::start(&["live", "locks", "-p", &pid, "--format", "json"]);
    watcher.wait_attached();
    drop(program.stdin.take());
    let printed = program.wait_with_output().expect("it ends");
    let output = watcher.0.wait_with_output().expect("hitm ends with it");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let missing = report["run"]["missing"].to_string();
    if missing.contains("holders") {
        say_not_run("hitm live locks: holders", &missing);
        return None;
    }
    // A starved hitm reads the program's mappings too late for the variable's name: the word is the one that was waited
    // for most with a known holder.
    let locks = report["locks"].as_array().expect("locks").iter();
    let class = match kind.starts_with("spin") {
        true => "spin_loop",
        false => "futex",
    };
    let known = locks.filter(|lock| lock["class"] == class && lock["holders"].is_object());
    let running = |lock: &&Value| lock["holders"]["running_ns"].as_u64();
    let lock = known.max_by_key(running);
    let lock = lock.unwrap_or_else(|| panic!("no lock: {report:#}"));
    let (found, throttled) = found(&lock["holders"]);
    Some(Seen {
        truth: truth(&printed.stdout),
        found,
        throttled,
        lock: lock.clone(),
    })
}

fn on_first_cpu(pid: u32) {
    // SAFETY: all zeroes is a valid set of CPUs, which outlives the call.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(0, &mut set);
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(
            libc::sched_setaffinity(pid.cast_signed(), size, &raw const set),
            0
        );
    }
}

#[track_caller]
fn assert_close(seen: &Seen) {
    let (truth, found) = (&seen.truth, &seen.found);
    eprintln!("in truth {truth:.3?}, found {found:.3?}");
    for (name, truth, found) in [
        ("running", truth.running, found.running),
        ("preempted or throttled", truth.off, found.off),
        ("faulting", truth.faulting, found.faulting),
        ("asleep", truth.asleep, found.asleep),
    ] {
        assert!(
            (truth - found).abs() < POINTS,
            "{name}: {found:.3}, in truth {truth:.3}: {:#}",
            seen.lock
        );
    }
}

fn group(name: &str, quota_us: u64) -> Option<Group> {
    group_or_say(&format!("holders-{name}"), quota_us, PERIOD_US)
}

#[test]
fn a_long_hold_is_running() {
    let Some(group) = group("run", ENOUGH_US) else {
        return;
    };
    for threads in [2, 8] {
        let Some(seen) = observe(&group, "run", threads, false) else {
            return;
        };
        assert_close(&seen);
        assert!(seen.found.running > 0.3, "{:#}", seen.lock);
    }
}

/// A program of the same group on the same CPU takes its turns in the middle of holds, and is named for that.
fn preempted(name: &str, kind: &str) -> Option<Seen> {
    let mut group = group(name, ENOUGH_US)?;
    let top = group.folder.clone();
    group.start_hog(&top);
    let hog = group.hogs[0].id();
    on_first_cpu(hog);
    let seen = observe(&group, kind, 3, true)?;
    assert_close(&seen);
    let takers = seen.lock["holders"]["takers"].as_array().expect("takers");
    assert!(
        takers.iter().any(|taker| taker["pid"] == hog),
        "{:#}",
        seen.lock
    );
    Some(seen)
}

#[test]
fn a_preempted_holder_is_told_with_who_has_its_cpu() {
    if let Some(seen) = preempted("preempted", "run") {
        assert!(seen.found.off > 0.3, "{:#}", seen.lock);
    }
}

#[test]
fn a_holder_in_page_faults_is_told() {
    let Some(group) = group("faults", ENOUGH_US) else {
        return;
    };
    let Some(seen) = observe(&group, "fault", 4, false) else {
        return;
    };
    assert_close(&seen);
    assert!(seen.found.faulting > 0.3, "{:#}", seen.lock);
}

#[test]
fn a_throttled_holder_is_told() {
    let Some(group) = group("throttled", 30_000) else {
        return;
    };
    let before = group.stat();
    let Some(seen) = observe(&group, "run", 3, true) else {
        return;
    };
    let grown = group.stat().since(before);
    assert_close(&seen);
    // On one CPU the group's time is the holder's. The program runs for two seconds.
    let truth = grown.throttled_ns as f64 / 2e9;
    assert!(truth > 0.3, "{truth}");
    assert!(
        (seen.throttled - truth).abs() < POINTS,
        "{:.3}, by cpu.stat {truth:.3}: {:#}",
        seen.throttled,
        seen.lock
    );
}

#[test]
fn a_holder_that_sleeps_is_told() {
    let Some(group) = group("asleep", ENOUGH_US) else {
        return;
    };
    let Some(seen) = observe(&group, "sleep", 3, false) else {
        return;
    };
    assert_close(&seen);
    assert!(seen.found.asleep > 0.2, "{:#}", seen.lock);
}

/// Debug registers tell who has a spin lock of the program's own.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_holder_of_a_spin_lock_in_page_faults_is_told() {
    let Some(group) = group("spin-faults", ENOUGH_US) else {
        return;
    };
    // The other CPU is hitm's, which looks at writes many times a second.
    let Some(seen) = observe(&group, "spinfault", 2, true) else {
        return;
    };
    assert_close(&seen);
    assert!(seen.found.faulting > 0.1, "{:#}", seen.lock);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_preempted_holder_of_a_spin_lock_is_told() {
    preempted("spin-preempted", "spinrun");
}

/// Threads that spin use the group's quota up, too.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_throttled_holder_of_a_spin_lock_is_told() {
    let Some(group) = group("spin-throttled", 30_000) else {
        return;
    };
    let Some(seen) = observe(&group, "spinrun", 3, true) else {
        return;
    };
    assert_close(&seen);
    assert!(seen.throttled > 0.1, "{:#}", seen.lock);
}
