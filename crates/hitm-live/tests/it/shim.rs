//! The preloaded lock observer against programs that know what they did.

use hitm_test::process::Command;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;

use hitm_live::shim::{Launch, LockKind, LockUse, Observation, ShimError, check_program};
use hitm_test::program::built;

/// Programs, compiled once for all tests.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
        std::fs::create_dir_all(&directory).expect("the target directory can be written");
        compile(&directory, "hold_share", "hold_share.c", &[]);
        compile(&directory, "lock_kinds", "lock_kinds.c", &[]);
        compile(
            &directory,
            "hold_share_static",
            "hold_share.c",
            &["-static"],
        );
        compile(
            &directory,
            "liblock.so",
            "lock_library.c",
            &["-shared", "-fPIC"],
        );
        directory
    })
}

fn compile(directory: &Path, name: &str, source: &str, options: &[&str]) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let status = Command::new("cc")
        .args(["-O2", "-g", "-Wall", "-Wextra", "-pthread"])
        .args(options)
        .arg("-o")
        .arg(directory.join(name))
        .arg(sources.join(source))
        .status()
        .expect("the compiler starts");
    assert!(status.success(), "{source} does not compile");
}

/// Runs a program under the observer; returns how it ended, what it printed, and what was seen.
fn observe(name: &str, args: &[&str]) -> (ExitStatus, String, Observation) {
    let launch = Launch::prepare(built()).expect("the library is there");
    let mut command = Command::new(programs().join(name));
    command.args(args).stdin(Stdio::null());
    command.env("LOCK_LIBRARY", programs().join("liblock.so"));
    launch.observe(&mut command);
    let output = command.output().expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.is_empty(), "{name} {args:?}: {complaint}");
    (
        output.status,
        printed,
        launch.read().expect("a whole region"),
    )
}

/// Runs one case of `lock_kinds`, which must succeed and lose nothing.
fn case(name: &str) -> Observation {
    let (status, _, observation) = observe("lock_kinds", &[name]);
    assert!(status.success(), "{name}: {status}");
    let losses = observation.losses;
    assert_eq!(losses.acquisitions, 0, "{name}");
    assert_eq!(
        losses.threads + losses.processes + losses.modules,
        0,
        "{name}"
    );
    observation
}

/// The lock of a kind, of which there must be exactly one.
fn only(observation: &Observation, kind: LockKind) -> &LockUse {
    let mut found = observation.locks.iter().filter(|lock| lock.kind == kind);
    let lock = found.next().expect("a lock of the kind");
    assert!(found.next().is_none(), "{:?}", observation.locks);
    lock
}

const MILLISECOND: u64 = 1_000_000;

/// The share that the program says, and the observer's over all cycles and over contended ones.
fn shares(kind: &str, threads: &str, [inside, outside]: [&str; 2]) -> (f64, f64, Option<f64>) {
    let (status, printed, observation) =
        observe("hold_share", &[kind, threads, inside, outside, "400"]);
    assert!(status.success());
    let (acquisitions, held) = printed.trim().split_once(" acquisitions, held ").unwrap();
    let lock_kind = match kind {
        "mutex" => LockKind::Mutex,
        "write" => LockKind::Write,
        _ => LockKind::Spin,
    };
    let lock = only(&observation, lock_kind);
    assert_eq!(lock.acquisitions.to_string(), acquisitions);
    assert_eq!(lock.thread_count.to_string(), threads);
    assert_eq!(observation.losses.operations, 0);
    let truth = held.parse::<f64>().unwrap() / 1000.0;
    (truth, lock.hold_share_all().unwrap(), lock.hold_share())
}

/// The hold share agrees with the program's own account, with and without contention.
#[test]
fn hold_shares_are_true() {
    for kind in ["mutex", "write", "spin"] {
        for threads in ["1", "2", "4", "8"] {
            if kind == "spin" && threads > "2" {
                continue; // On few CPUs they spin while the holder waits for one.
            }
            for lengths in [["20000", "30000"], ["20000", "5000"]] {
                let (truth, all, contended) = shares(kind, threads, lengths);
                let say = format!("{kind} {threads} {lengths:?}: {truth} {all} {contended:?}");
                assert!((all - truth).abs() < 0.05, "{say}");
                assert!(threads != "1" || contended.is_none(), "{say}");
                if threads == "1" || kind == "spin" {
                    continue; // Spinners of few CPUs meet in a window or two.
                }
                let contended = contended.unwrap_or(0.0);
                assert!((contended - truth).abs() < 0.05, "{say}");
            }
        }
    }
}

#[test]
fn nested_acquisitions_are_one_hold() {
    let observation = case("recursive");
    let lock = only(&observation, LockKind::Mutex);
    assert_eq!((lock.acquisitions, lock.contended), (6, 0));
    // Twice 20 ms asleep: held all that time, but run for next to none of it.
    assert!(lock.held_ns >= 40 * MILLISECOND, "{lock:?}");
    assert!(lock.held_max_ns >= 20 * MILLISECOND, "{lock:?}");
    assert!(lock.ran_held_ns < 15 * MILLISECOND, "{lock:?}");
}

#[test]
fn a_dead_owners_mutex_is_acquired() {
    let observation = case("robust");
    let lock = only(&observation, LockKind::Mutex);
    assert_eq!((lock.acquisitions, lock.handovers), (3, 1));
    assert_eq!(lock.thread_count, 2);
}

#[test]
fn a_wait_for_a_condition_is_no_hold() {
    let observation = case("condition");
    let mutex = only(&observation, LockKind::Mutex);
    let condition = only(&observation, LockKind::Condition);
    assert_eq!((condition.acquisitions, condition.signals), (2, 1));
    assert_eq!(mutex.acquisitions, 5);
    assert!(condition.wait_ns >= 40 * MILLISECOND, "{condition:?}");
    assert!(mutex.held_ns < 30 * MILLISECOND, "{mutex:?}");
}

#[test]
fn cancellation_passes_through() {
    let observation = case("cancelled");
    let mutex = only(&observation, LockKind::Mutex);
    assert_eq!(mutex.acquisitions, 2);
    assert_eq!(observation.losses.stale_holds, 0);
}

#[test]
fn attempts_that_fail_are_refusals() {
    let observation = case("timed");
    let lock = only(&observation, LockKind::Mutex);
    assert_eq!((lock.acquisitions, lock.contended, lock.refused), (2, 1, 3));
    assert_eq!(lock.handovers, 1);
    assert!(lock.wait_ns >= 5 * MILLISECOND, "{lock:?}");
    assert!(lock.wait_site.is_some());
}

#[test]
fn readers_writers_and_spinners_are_told_apart() {
    let observation = case("rwlock_and_spin");
    let counts = |kind| {
        let lock = only(&observation, kind);
        (lock.acquisitions, lock.refused)
    };
    assert_eq!(counts(LockKind::Read), (3, 0));
    assert_eq!(counts(LockKind::Write), (2, 1));
    assert_eq!(counts(LockKind::Spin), (2, 1));
}

#[test]
fn children_and_their_programs_are_processes_of_their_own() {
    let observation = case("fork_and_exec");
    let counts: Vec<(usize, u64)> = observation
        .locks
        .iter()
        .map(|lock| (lock.process, lock.acquisitions))
        .collect();
    assert_eq!(counts, [(0, 5), (1, 7), (2, 9)]);
    let [parent, child, program] = &observation.processes[..] else {
        panic!("{:?}", observation.processes);
    };
    assert_eq!((child.parent, program.parent), (parent.pid, parent.pid));
    assert_eq!(parent.comm, "lock_kinds");
    assert_eq!(observation.losses.loaded, 2, "the parent and the program");
}

#[test]
fn threads_beyond_the_records_share_them() {
    let observation = case("many_threads");
    let lock = only(&observation, LockKind::Mutex);
    assert_eq!(lock.acquisitions, 6000);
    assert_eq!(lock.thread_count, 3000);
    assert_eq!(observation.losses.operations, 0);
    assert!(
        observation.threads.len() < 600,
        "{}",
        observation.threads.len()
    );
    let users: u64 = observation.threads.iter().map(|thread| thread.users).sum();
    assert_eq!(users, 3000);
}

/// Threads begin while the region is read.
#[test]
fn a_running_program_is_read_whole() {
    let launch = Launch::prepare(built()).expect("the library is there");
    let mut read_count = 0;
    for _ in 0..20 {
        let mut command = Command::new(programs().join("hold_share"));
        command.args(["mutex", "64", "1000", "1000", "20"]);
        command.stdout(Stdio::null());
        launch.observe(&mut command);
        let mut child = command.spawn().expect("the program starts");
        while child.try_wait().expect("a child").is_none() {
            launch.read().expect("a region");
            read_count += 1;
        }
    }
    assert!(read_count > 20, "{read_count} looks");
    assert!(launch.read().expect("a region").threads.len() > 64);
}

#[test]
fn signal_handlers_may_lock() {
    let observation = case("signals");
    assert!(
        observation.locks.len() > 1000,
        "{}",
        observation.locks.len()
    );
}

#[test]
fn an_end_with_threads_under_way_loses_nothing() {
    let observation = case("exit");
    let lock = only(&observation, LockKind::Mutex);
    assert!(
        lock.acquisitions > 1000 && lock.thread_count == 3,
        "{lock:?}"
    );
    let (status, _, observation) = observe("lock_kinds", &["kill"]);
    assert!(!status.success());
    let lock = only(&observation, LockKind::Mutex);
    assert!(
        lock.acquisitions > 1000 && lock.thread_count == 3,
        "{lock:?}"
    );
}

#[test]
fn call_sites_lie_in_files() {
    let observation = case("dlopen");
    let lock = only(&observation, LockKind::Mutex);
    assert_eq!(lock.acquisitions, 2);
    let module = lock.call_site.module.clone().expect("glibc 2.35 or later");
    assert!(module.path.ends_with("/liblock.so"), "{module:?}");
    assert!(module.offset < 0x10000, "{module:?}");
    let observation = case("nine");
    let site = &only(&observation, LockKind::Mutex).call_site;
    let module = site.module.clone().expect("the program itself");
    assert!(module.path.ends_with("/lock_kinds"), "{module:?}");
}

/// The second of two threads needs the number of the program's record while the first one writes it.
#[test]
fn first_locks_at_the_same_time_have_their_call_sites() {
    let observation = case("first_locks");
    assert_eq!(observation.locks.len(), 200);
    for lock in &observation.locks {
        assert!(lock.call_site.module.is_some(), "{lock:?}");
    }
}

#[test]
fn a_static_program_is_refused_and_runs_unseen() {
    let program = programs().join("hold_share_static");
    let refused = check_program(&program);
    assert!(matches!(refused, Err(ShimError::Static(_))), "{refused:?}");
    check_program(&programs().join("lock_kinds")).unwrap();
    let args = ["mutex", "1", "1000", "1000", "10"];
    let (status, _, observation) = observe("hold_share_static", &args);
    assert!(status.success());
    assert_eq!(observation.losses.loaded, 0);
    assert_eq!(observation, Observation::default());
}

#[test]
fn without_a_region_programs_run_as_ever() {
    for region in ["", "/nowhere", "/dev/null", "/proc/self/exe"] {
        let mut command = Command::new(programs().join("lock_kinds"));
        command.arg("nine").env("HITM_LOCKS", region);
        command.env("LD_PRELOAD", built().join("libhitm_locks.so"));
        let output = command.output().expect("the program starts");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{region}: {output:?}"
        );
    }
}
