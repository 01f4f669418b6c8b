//! `hitm live locks` on real programs of this host.

use hitm_test::process::Command;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::programs::{build, hitm, root, say_not_run};

/// Four threads and one mutex, held for 40 % of the time.
const HOLD_SHARE: [&str; 5] = ["mutex", "4", "20000", "30000", "1000"];

fn hold_share(directory: &Path) -> PathBuf {
    let source = root().join("crates/hitm-live/tests/programs/hold_share.c");
    build(directory, "hold_share", &source, &[])
}

fn live_locks(hitm: &Path, options: &[&str], program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(hitm);
    command.args(["live", "locks"]).args(options).arg("--");
    command.arg(program).args(args).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The program's own output, and the report after it.
fn parts(output: &Output) -> (String, Value) {
    let text = text(&output.stdout);
    let (printed, json) = text.split_at(text.find('{').expect("an object"));
    (
        printed.to_owned(),
        serde_json::from_str(json).expect("JSON"),
    )
}

fn texts(run: &Value, key: &str) -> Vec<String> {
    let texts = run["run"][key].as_array().expect("a list").iter();
    texts
        .map(|text| text.as_str().expect("text").to_owned())
        .collect()
}

fn has(run: &Value, key: &str, part: &str) -> bool {
    texts(run, key).iter().any(|text| text.contains(part))
}

/// Lets `command` have no right that samples, BPF programs or names of the kernel need. A user without rights has
/// none to lose.
fn without_rights(command: &mut Command) {
    const CAPABILITIES: [libc::c_ulong; 4] = [21, 34, 38, 39]; // SYS_ADMIN, SYSLOG, PERFMON, BPF
    // SAFETY: system calls alone.
    unsafe {
        command.pre_exec(|| {
            for capability in CAPABILITIES {
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
            Ok(())
        });
    }
}

/// Returns true where a user without rights may sample the kernel's part of own threads.
fn everybody_samples() -> bool {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    paranoid.is_ok_and(|text| text.trim().parse::<i32>().is_ok_and(|level| level < 2))
}

#[track_caller]
fn check_share(printed: &str, lock: &Value) {
    let (acquisitions, held) = printed.trim().split_once(" acquisitions, held ").unwrap();
    assert_eq!(
        lock["acquisition_count"].to_string(),
        acquisitions,
        "{lock}"
    );
    let truth = held.parse::<f64>().unwrap() / 1000.0;
    let share = lock["hold_share"].as_f64().expect("it is contended");
    assert!(
        (share - truth).abs() < 0.05,
        "{share}, in truth {truth}: {lock}"
    );
    let needed = (1.0 / share - 0.05).ceil();
    assert_eq!(lock["needed_cpus"].as_f64(), Some(needed), "{lock}");
    // JSON has four digits of each.
    let bound = lock["bound"].as_f64().expect("it is contended");
    assert!((bound * share - 1.0).abs() < 0.001, "{lock}");
    assert_eq!(
        (&lock["kind"], &lock["variable"]),
        (&"mutex".into(), &"mutex".into())
    );
    assert_eq!(lock["thread_count"], 4);
    assert!(lock["contended_count"].as_u64() > Some(0), "{lock}");
    assert!(lock["handover_count"].as_u64() > Some(0), "{lock}");
    assert!(lock["wait_ns"].as_u64() > Some(0), "{lock}");
    for key in ["call_site", "wait_site"] {
        let site = lock[key].as_str().unwrap();
        assert!(site.contains(" hold_share.c:"), "{lock}");
    }
}

#[test]
fn the_share_of_a_programs_own_lock_is_true() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = hold_share(folder.path());
    let file = folder.path().join("live");
    let path = file.to_str().expect("UTF-8");
    let options = ["--format", "json", "--record", path];
    let output = live_locks(hitm(), &options, &program, &HOLD_SHARE).output();
    let output = output.expect("hitm starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (printed, json) = parts(&output);
    let locks = json["program"]["locks"].as_array().expect("a list");
    assert_eq!(locks.len(), 1, "{json}");
    check_share(&printed, &locks[0]);
    assert!(has(&json, "layers", "preloaded"), "{json}");

    // The file says the same, and text has the lock as well.
    let report = |options: &[&str]| {
        let mut report = Command::new(hitm());
        report.args(["report", "-i", path]).args(options);
        let output = report.output().expect("hitm starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let again: Value = serde_json::from_str(&report(&["--format", "json"])).expect("JSON");
    assert_eq!(again, json);
    let shown = report(&[]);
    assert!(shown.contains("== The program's own locks"), "{shown}");
    assert!(shown.contains(" 4 mutex "), "{shown}");
    assert!(shown.contains("hold_share.c:"), "{shown}");
}

#[test]
fn without_rights_the_exact_layer_is_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = hold_share(folder.path());
    let mut command = live_locks(hitm(), &["--format", "json"], &program, &HOLD_SHARE);
    without_rights(&mut command);
    let output = command.output().expect("hitm starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (printed, json) = parts(&output);
    check_share(&printed, &json["program"]["locks"][0]);
    assert!(has(&json, "missing", "tracepoints of locks: "), "{json}");
    if !everybody_samples() {
        assert!(has(&json, "missing", "samples: "), "{json}");
        assert_eq!(texts(&json, "layers").len(), 1, "{json}");
    }
}

#[test]
fn a_program_that_takes_no_library_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = root().join("crates/hitm-live/tests/programs/hold_share.c");
    let program = folder.path().join("hold_share_static");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread", "-static", "-o"]);
    let built = compiler.arg(&program).arg(source).status();
    assert!(built.expect("the compiler starts").success());
    let output = live_locks(hitm(), &["--format", "json"], &program, &HOLD_SHARE).output();
    let output = output.expect("hitm starts");
    if output.status.code() == Some(3) {
        let error = text(&output.stderr);
        assert!(error.contains("is linked statically"), "{error}");
        return say_not_run("samples of a static program", &error);
    }
    let (_, json) = parts(&output);
    assert_eq!(json["program"], Value::Null);
    assert!(has(&json, "missing", "is linked statically"), "{json}");
    if !has(&json, "layers", "futex(2)") {
        return say_not_run(
            "futexes of a static program",
            &json["run"]["missing"].to_string(),
        );
    }
    let locks = json["locks"].as_array().expect("a list").iter();
    let futexes = locks.filter(|lock| lock["class"] == "futex");
    let waited = futexes.max_by_key(|lock| lock["wait_count"].as_u64());
    let lock = waited.expect("its threads sleep for one mutex");
    assert!(lock["wait_count"].as_u64() > Some(10), "{lock}");
    assert!(lock["slept_ns"].as_u64() > Some(1_000_000), "{lock}");
    let object = lock["object"].as_str().expect("its address");
    assert!(object.ends_with(" (hold_share_stat)"), "{lock}");
    // Its word names the owner.
    let number = |key: &str| lock[key].as_f64().expect("a number");
    let off = (number("hold_share") - 0.4).abs();
    assert!(off < 4.0 * number("hold_share_error"), "{lock}");
    assert_eq!(lock["thread_count"], 4, "{lock}");
}

#[test]
fn without_its_library_and_without_rights_nothing_is_left() {
    if everybody_samples() {
        return say_not_run("nothing observes", "everybody may sample here");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = hold_share(folder.path());
    let alone = folder.path().join("hitm");
    std::fs::copy(hitm(), &alone).expect("room for a program");
    let mut command = live_locks(&alone, &[], &program, &HOLD_SHARE);
    without_rights(&mut command);
    let output = command.output().expect("hitm starts");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("libhitm_locks.so is not in "), "{error}");
    assert!(output.stdout.is_empty(), "the program was ended");
}

/// Returns true if a process samples each CPU it can, or has ended: it mapped the rings of its clocks, which it does
/// last. Other events have no ring.
fn is_sampling(process: u32) -> bool {
    let Ok(mapped) = std::fs::read_to_string(format!("/proc/{process}/maps")) else {
        return true;
    };
    let rings = mapped.lines().filter(|line| line.ends_with("[perf_event]"));
    // SAFETY: a plain system call.
    let cpus = match unsafe { libc::geteuid() } {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        _ => 1,
    };
    mapped.is_empty() || rings.count() >= cpus
}

/// Looks, and again where a busy host kept hitm from reading the samples in time: it says that they are lost.
fn spinning(look: impl Fn() -> Option<(f64, Value)>) -> Option<(f64, Value)> {
    let mut seen = look()?;
    for _ in 0..2 {
        let count = |key: &str| seen.1["run"][key].as_u64().expect("a count");
        if count("lost_count") * 50 < count("sample_count") {
            break;
        }
        seen = look()?;
    }
    Some(seen)
}

fn spins(folder: &Path) -> PathBuf {
    let source = root().join("crates/hitm-live/tests/programs/spins.c");
    build(folder, "spins", &source, &[])
}

/// Looks at threads that spin until they have done so for a second of CPU time. Returns nanoseconds that they spun by
/// their own account, and what hitm saw; none where it cannot sample.
fn look_at_spinning(program: &Path, kind: &str) -> Option<(f64, Value)> {
    let mut spins = Command::new(program);
    spins.args([kind, "3", "1000"]).stdin(Stdio::piped());
    let mut spins = spins.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut look = Command::new(hitm());
    // Only the end of the process ends it in time.
    look.args(["live", "locks", "-F", "1999", "--format", "json"]);
    look.args(["-d", "3600s", "-p"]);
    look.arg(spins.id().to_string()).stdin(Stdio::null());
    let look = look.stdout(Stdio::piped()).stderr(Stdio::piped());
    let look = look.spawn().expect("hitm starts");
    hitm_test::process::wait_for("a clock", || is_sampling(look.id()));
    // The end of its input lets it begin.
    drop(spins.stdin.take());
    let printed = spins.wait_with_output().expect("it ends");
    let output = look.wait_with_output().expect("hitm ends with it");
    let error = text(&output.stderr);
    if output.status.code() == Some(3) {
        say_not_run("spinning by pid", &error);
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{error}");
    let spun: f64 = text(&printed.stdout).trim().parse().expect("a number");
    let json = serde_json::from_slice(&output.stdout).expect("JSON");
    Some((spun, json))
}

/// A kind of spinning, and the lock that three threads spin for.
struct Spinning {
    kind: &'static str,
    class: &'static str,
    name: &'static str,
    word: &'static str,
}

impl Spinning {
    const PTHREAD: Spinning = Spinning {
        kind: "pthread",
        class: "pthread_spinlock",
        name: "in pthread_spin_lock",
        word: "pthread_word ",
    };

    const fn of_its_own(kind: &'static str, name: &'static str) -> Spinning {
        Spinning {
            kind,
            class: "spin_loop",
            name,
            word: "word ",
        }
    }

    /// Checks the first lock beside the time that the program counted.
    fn check(&self, spun: f64, json: &Value) {
        let kind = self.kind;
        let locks = json["locks"].as_array().expect("a list");
        let lock = locks.first().unwrap_or_else(|| panic!("{kind}: {json}"));
        assert_eq!(
            (&lock["class"], &lock["name"]),
            (&self.class.into(), &self.name.into()),
            "{kind}: {json}"
        );
        let object = lock["object"].as_str().expect("a word");
        assert!(object.starts_with(self.word), "{kind}: {object}");
        assert!(object.ends_with(" (spins)"), "{kind}: {object}");
        let waited = lock["waited_ns"].as_f64().expect("a time");
        assert!(
            (waited / spun - 1.0).abs() < 0.1,
            "{kind}: {waited} of {spun}: {json}"
        );
        assert_eq!(lock["thread_count"], 3, "{kind}: {json}");
        assert_eq!(lock["hold_share"], Value::Null, "{kind}: {json}");
        let lost = lock["wasted_cpus"].as_f64().expect("CPUs");
        let run_ns = json["run"]["duration_ns"].as_f64().expect("a time");
        // JSON has four digits of it.
        assert!((lost - waited / run_ns).abs() < 0.001, "{kind}: {json}");
    }
}

#[test]
fn threads_that_spin_are_seen_by_pid() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = spins(folder.path());
    for spins in [
        Spinning::PTHREAD,
        Spinning::of_its_own("pausing", "in pausing"),
        Spinning::of_its_own("looking", "in looking"),
        Spinning::of_its_own("trying", "in trying"),
    ] {
        let Some((spun, json)) = spinning(|| look_at_spinning(&program, spins.kind)) else {
            return;
        };
        spins.check(spun, &json);
    }
}

/// The library that counts a program's own locks leaves spinning as it is.
#[test]
fn spinning_of_a_started_program_is_cpu_time_lost() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = spins(folder.path());
    for spins in [
        Spinning::PTHREAD,
        Spinning::of_its_own("pausing", "in pausing"),
    ] {
        let look = || {
            let options = ["-F", "1999", "--format", "json"];
            let args = [spins.kind, "3", "1000"];
            let output = live_locks(hitm(), &options, &program, &args).output();
            let (printed, json) = parts(&output.expect("hitm starts"));
            if json["run"]["sample_count"] == 0 {
                say_not_run("spinning of a program", &json["run"]["missing"].to_string());
                return None;
            }
            Some((printed.trim().parse().expect("a number"), json))
        };
        let Some((spun, json)) = spinning(look) else {
            return;
        };
        spins.check(spun, &json);
    }
}

/// Writers of one file, started by a shell: samples see how they spin, tracepoints how they sleep.
#[test]
fn waits_of_a_programs_children_in_the_kernel_are_seen() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let loads = build(folder.path(), "loads", &root().join("guest/loads.c"), &[]);
    let script = format!(
        "{} file-copy --threads 4 --seconds 3 --blocks 400 --folder {}; exit 7",
        loads.display(),
        folder.path().display()
    );
    let shell = Path::new("/bin/sh");
    let options = ["--format", "json", "-F", "1999"];
    let output = live_locks(hitm(), &options, shell, &["-c", &script]).output();
    let output = output.expect("hitm starts");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let (_, json) = parts(&output);
    for reason in texts(&json, "missing") {
        if reason.starts_with("samples: ") {
            return say_not_run("hitm live locks", &reason);
        }
    }
    let locks = json["locks"].as_array().expect("a list").iter();
    let inodes: Vec<&Value> = locks
        .filter(|lock| lock["name"] == "inode's i_rwsem")
        .collect();
    assert!(!inodes.is_empty(), "{json}");
    assert!(inodes.iter().all(|lock| lock["class"] == "rwsem"), "{json}");
    if !has(&json, "layers", "tracepoints") {
        let reasons = texts(&json, "missing");
        return say_not_run("waits by BPF", reasons.first().map_or("", String::as_str));
    }
    let slept = |lock: &&&Value| lock["wait_count"].as_u64() > Some(0);
    let slept = inodes
        .iter()
        .find(slept)
        .unwrap_or_else(|| panic!("nobody slept: {json}"));
    assert_eq!(slept["slept_ns"], slept["wait_ns"], "{slept}");
    assert!(slept["longest_ns"].as_u64() > Some(0), "{slept}");
    let addresses = slept["addresses"].as_array().expect("a list");
    let first = addresses[0].as_str().expect("text");
    assert!(first.starts_with("0xffff"), "{slept}");
    let callers = slept["callers"].as_array().expect("a list").iter();
    let traced: u64 = callers
        .filter_map(|caller| caller["wait_ns"].as_u64())
        .sum();
    assert!(traced > 0, "{slept}");
}
