//! A whole machine: Debian's kernel on four virtual CPUs, recorded, reported, and priced in another
//! layout; and what goes wrong on the way.
//!
//! One test, because the host has room for one machine at a time. It needs qemu-system-x86_64 of
//! version 9 and a kernel. Without them it says NOT RUN on standard error, past the test harness,
//! and .ci/run repeats that line at its end.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::programs::{build, root, run, say_not_run};

/// Four CPUs of two packages of a small machine model, and a workload that moves real-time tasks about.
const MACHINE: [&str; 8] = [
    "vm",
    "run",
    "-k",
    "debian:6.12",
    "--smp",
    "4",
    "-m",
    "xeon-480",
];
const WORKLOAD: [&str; 6] = ["--", "fifo_pool", "-n", "20", "-b", "8000"];

struct Session<'d> {
    directory: &'d Path,
    cache: String,
}

impl Session<'_> {
    /// `hitm vm run` with further options.
    fn machine(&self, options: &[&str], workload: &[&str]) -> Output {
        let cache = ["--snapshot-cache", &self.cache];
        run(
            self.directory,
            &[&MACHINE, &cache[..], options, workload].concat(),
        )
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = run(self.directory, &[args, &["--format", "json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout).expect("a report is JSON")
    }

    /// Fails with this code, and says this.
    fn fails(&self, options: &[&str], workload: &[&str], code: i32, message: &str) {
        let output = self.machine(options, workload);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(message), "{options:?}: {said}");
    }
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn a_recorded_machine_is_named_and_priced_in_another_layout() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let session = Session {
        directory: directory.path(),
        // Kernels and snapshots outlive the test: the next run boots nothing.
        cache: cache().to_string_lossy().into_owned(),
    };
    let output = session.machine(&["-o", "a.hitm"], &WORKLOAD);
    if output.status.code() == Some(3) {
        return say_not_run("recording a machine", &text(&output));
    }
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("fifo_pool: 4 CPUs, 1 groups, 12 threads, 240 rounds done"),
        "{said}"
    );
    names(&session);
    caches(&session);
    calls(&session);
    own_walks(&session);
    layout(&session);
    page_cache(&session);
    program_of_the_host(&session);
    sleeps(&session);
    failures(&session);
}

fn cache() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    target.join("vm-cache")
}

fn names(session: &Session<'_>) {
    let report = session.json(&["report", "-i", "a.hitm"]);
    let share = report["of_machine"]["named_share"].as_f64().unwrap_or(0.0);
    assert!(
        share >= 0.9,
        "{share} of the HITMs have a name: {}",
        report["of_machine"]
    );
    assert!(report["of_machine"]["device_access_count"].as_u64() > Some(0));
    // Which lines cost most is a matter of the host's timing: locks are looked for among more of them.
    let more = session.json(&["report", "-i", "a.hitm", "--top", "100"]);
    let functions = more["lines"].to_string();
    assert!(functions.contains("_raw_spin_"), "no lock among the lines");
    let domain = session.json(&["report", "-i", "a.hitm", "--type", "root_domain"]);
    assert_eq!(domain["object_count"], 1, "one root domain");
    let line = line(&domain, "rto_mask");
    assert_eq!(line["line"], 3, "as compiled");
    let members = line["members"].to_string();
    assert!(members.contains("cpupri.pri_to_cpu[0].count"), "{members}");
    assert!(line["rows"].to_string().contains("cpupri_set"));
}

/// Slab caches have the types that their names, habits and the table of walks lead to.
fn caches(session: &Session<'_>) {
    let machine = ["vm", "caches", "-k", "debian:6.12", "--smp", "4"];
    let cache = ["--snapshot-cache", &session.cache];
    let output = run(session.directory, &[&machine[..], &cache].concat());
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let typed = |name: &str| {
        said.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.first() == Some(&name)).then(|| words[1].to_owned())
        })
    };
    for (cache, expected) in [
        ("TCP", "tcp_sock"),
        ("UDPv6", "udp6_sock"),
        ("UNIX", "unix_sock"),
        ("RAW", "raw_sock"),
        ("fs_cache", "fs_struct"),
        ("shmem_inode_cache", "shmem_inode_info"),
        ("skbuff_fclone_cache", "sk_buff_fclones"),
        ("task_struct", "task_struct"),
        ("kmalloc-512", "none"),
        ("names_cache", "none"),
    ] {
        assert_eq!(typed(cache).as_deref(), Some(expected), "{cache}: {said}");
    }
}

/// Each change of a CPU's priority leaves one vector and enters another.
fn calls(session: &Session<'_>) {
    let output = run(session.directory, &["export", "a.hitm", "--calls", "a.csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let table = std::fs::read_to_string(session.directory.join("a.csv")).expect("it is written");
    let member = "root_domain.cpupri.pri_to_cpu[].count.counter";
    let row = table.lines().find_map(|line| {
        let (calls, rest) = line.strip_prefix("cpupri_set,")?.split_once(',')?;
        let counts = rest.strip_prefix(member)?.strip_prefix(",0,0,")?;
        Some((
            calls.parse::<u64>().ok()?,
            counts.split(',').next()?.parse::<u64>().ok()?,
        ))
    });
    let (calls, locked) = row.unwrap_or_else(|| panic!("cpupri_set counts no CPUs: {table}"));
    // A line that only one CPU has used yet is private, and not in the table.
    assert!(
        calls > 50 && locked <= 2 * calls && locked > calls,
        "{calls} {locked}"
    );
}

/// Objects have the names and types of walks of one's own before those that hitm knows.
fn own_walks(session: &Session<'_>) {
    let own = "schema = 1\n\
               [[walk]]\nname = 'my_domain'\nobjects = 'runqueues[*].rd->'\n\
               [slab]\nnames_cache = 'path'\n";
    std::fs::write(session.directory.join("own.toml"), own).expect("it can be written");
    let output = session.machine(&["--walks", "own.toml", "-o", "walks.hitm"], &WORKLOAD);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report = session.json(&["report", "-i", "walks.hitm", "--top", "100"]);
    let lines = report["lines"].to_string();
    assert!(lines.contains("my_domain"), "{lines}");
    let machine = ["vm", "caches", "-k", "debian:6.12", "--smp", "4"];
    let options = ["--walks", "own.toml", "--snapshot-cache", &session.cache];
    let output = run(session.directory, &[&machine[..], &options].concat());
    let said = text(&output);
    let line = said.lines().find(|line| line.starts_with("names_cache "));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words.get(1), Some(&"path"), "{said}");
}

/// The line of a type that has a member.
fn line<'v>(report: &'v Value, member: &str) -> &'v Value {
    let has = |line: &&Value| {
        line["members"]
            .as_array()
            .is_some_and(|members| members.iter().any(|known| known == member))
    };
    let lines = report["lines"].as_array().expect("lines are a list");
    lines
        .iter()
        .find(has)
        .unwrap_or_else(|| panic!("no line has {member}: {report}"))
}

fn layout(session: &Session<'_>) {
    let file = root().join("layouts/root-domain-restructured.toml");
    let file = file.to_str().expect("the path is UTF-8");
    std::fs::write(session.directory.join("sighand.toml"), SIGHAND).expect("it can be written");
    let options = ["-l", file, "-l", "sighand.toml", "-o", "b.hitm"];
    let output = session.machine(&options, &WORKLOAD);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("moves 1 root_domain: 1 walked"), "{said}");
    assert!(
        said.contains("slabs of sighand_cache, and those of its later slabs"),
        "{said}"
    );
    let domain = session.json(&["report", "-i", "b.hitm", "--type", "root_domain"]);
    // In the file rto_mask is at 1856, rto_count where it was.
    assert_eq!(line(&domain, "rto_mask")["line"], 30);
    assert_eq!(line(&domain, "rto_count.counter")["line"], 1);
    // The same without the kernel: the recording, run again.
    let again = session.json(&["whatif", "-i", "a.hitm", "-l", file]);
    let moved = again["moves"]["moved_access_count"].as_u64().unwrap_or(0);
    assert!(moved > 100, "{}", again["moves"]);
    assert_eq!(again["moves"]["walked_object_count"], 1);
    slab_objects(session);
}

/// A structure that no walk leads to, on other lines than the kernel has it.
const SIGHAND: &str = r#"
schema = 1
name = "sighand-apart"
description = "siglock on a line of its own"
source = "made up for this test"

[[struct]]
name = "sighand_struct"
size_bytes = 2240
align_bytes = 64
members = [
  { name = "count", offset_bytes = 0, size_bytes = 4 },
  { name = "siglock", offset_bytes = 64, size_bytes = 4 },
  { name = "signalfd_wqh", offset_bytes = 128, size_bytes = 24 },
  { name = "action", offset_bytes = 192, size_bytes = 2048 },
]
"#;

/// Objects that only their slab cache tells: moved while the kernel runs, and in its recording.
fn slab_objects(session: &Session<'_>) {
    let handlers = session.json(&["report", "-i", "b.hitm", "--type", "sighand_struct"]);
    let is_lock = |line: &&Value| line["members"].to_string().contains("siglock");
    let lines = handlers["lines"].as_array().expect("lines are a list");
    let locks: Vec<&Value> = lines.iter().filter(is_lock).collect();
    assert!(!locks.is_empty(), "{handlers}");
    for lock in locks {
        assert_eq!(
            (&lock["line"], &lock["layout"]),
            (&2.into(), &"moved".into())
        );
    }
    assert_eq!(handlers["moved_count"], handlers["object_count"]);
    let again = session.json(&["whatif", "-i", "a.hitm", "-l", "sighand.toml"]);
    let moves = &again["moves"];
    assert!(moves["slab_object_count"].as_u64() > Some(0), "{moves}");
    assert!(moves["moved_access_count"].as_u64() > Some(0), "{moves}");
    assert_eq!(again["objects"][0]["kind"], "slab");
    let twice = run(
        session.directory,
        &["whatif", "-i", "b.hitm", "-l", "sighand.toml"],
    );
    assert!(
        text(&twice).contains("have moved already"),
        "{}",
        text(&twice)
    );
    let unknown = SIGHAND.replace("sighand_struct", "no_such_structure");
    std::fs::write(session.directory.join("unknown.toml"), unknown).expect("it can be written");
    let nothing = run(
        session.directory,
        &["whatif", "-i", "a.hitm", "-l", "unknown.toml"],
    );
    let said = text(&nothing);
    assert_eq!(nothing.status.code(), Some(2), "{said}");
    assert!(
        said.contains("nothing moves: no walk, slab cache or variable of the kernel"),
        "{said}"
    );
    assert!(said.contains("task_struct ("), "{said}");
}

/// Writers of one file share mostly its pages, which have the file's name.
fn page_cache(session: &Session<'_>) {
    let output = session.machine(&["-o", "file.hitm"], &["--", "file_copy", "-n", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report = session.json(&["report", "-i", "file.hitm"]);
    let of_machine = &report["of_machine"];
    assert!(
        of_machine["named_share"].as_f64() >= Some(0.9),
        "{of_machine}"
    );
}

/// A program that lies where the guest would have its own /tmp. How much its threads share is up to the
/// guest, which may run two of them on one CPU; that they are started is seen on their CPUs.
fn program_of_the_host(session: &Session<'_>) {
    let source = root().join("examples/false_sharing.c");
    let program = build(session.directory, "false_sharing", &source, &[]);
    let program = program.to_str().expect("the path is UTF-8");
    let output = session.machine(&["-o", "own.hitm"], &["--", program, "20000"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("ns per iteration"), "{said}");
    let of_machine = &session.json(&["report", "-i", "own.hitm"])["of_machine"];
    assert!(
        of_machine["program_hitm_count"].as_u64() > Some(0),
        "{of_machine}"
    );
}

/// Part of the threads' time, 0 to 1, that sleeps may differ from the kernel's own count: a thread that was woken is
/// asleep until it has a CPU, and threads lose CPUs to others, too.
const TOLERANCE: f64 = 0.05;

/// Threads sleep for the lock of their memory map, as long as the kernel says itself.
fn sleeps(session: &Session<'_>) {
    let source = session.directory.join("guest_waits.c");
    std::fs::write(&source, include_str!("guest_waits.c")).expect("a temporary file");
    let program = build(session.directory, "guest_waits", &source, &[]);
    let program = program.to_str().expect("the path is UTF-8");
    let output = session.machine(&["-o", "sleeps.hitm"], &["--", program, "rwsem", "4", "30"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let line = said.lines().find(|line| line.starts_with("rwsem: "));
    let numbers = line.unwrap_or_default().split(' ');
    let numbers: Vec<f64> = numbers.filter_map(|word| word.parse().ok()).collect();
    let [asleep_ns, all_ns] = numbers[..] else {
        panic!("{said}");
    };
    // No walk leads to them and no cache is named after them: the code that uses them says what they are. CPUs
    // that become idle and busy again count themselves there.
    let shared = ["--type", "sched_domain_shared"];
    let shared = session.json(&[&["report", "-i", "sleeps.hitm"][..], &shared].concat());
    assert!(shared["object_count"].as_u64() > Some(0), "{shared}");
    let report = session.json(&["report", "-i", "sleeps.hitm"]);
    let waiting = &report["waiting"];
    let khz = report["run"]["clock_khz"].as_f64().expect("a clock");
    let rows = waiting["rows"].as_array().expect("rows");
    let of_lock = rows.iter().filter(|row| {
        let name = row["name"].as_str().unwrap_or_default();
        row["kind"] == "asleep" && name.ends_with(".mmap_lock")
    });
    let cycles: f64 = of_lock.filter_map(|row| row["cycles"].as_f64()).sum();
    let found = cycles * 1e6 / khz / all_ns;
    let expected = asleep_ns / all_ns;
    assert!(expected > 0.2, "they hardly sleep: {said}");
    assert!(
        (found - expected).abs() < TOLERANCE,
        "asleep {found:.3}, expected {expected:.3}: {waiting:#}"
    );
}

fn failures(session: &Session<'_>) {
    let hangs = ["--", "fifo_pool", "-n", "1000000"];
    session.fails(
        &["--timeout", "4", "-o", "c.hitm"],
        &hangs,
        2,
        "did not end within 4 s",
    );
    let kept = session.json(&["report", "-i", "c.hitm"]);
    assert!(
        kept["totals"]["access_count"].as_u64() > Some(1000),
        "the recording is kept"
    );
    let options = ["--append", "rdinit=/nothing init=/nothing"];
    session.fails(&options, &WORKLOAD, 2, "Kernel panic");
    let options = ["--append", "maxcpus=2"];
    session.fails(&options, &WORKLOAD, 2, "brought up 2 of 4 CPUs");
    session.fails(&["-o", "/dev/full"], &WORKLOAD, 2, "No space left");
    session.fails(
        &["--qemu", "/nothing/qemu"],
        &WORKLOAD,
        3,
        "/nothing/qemu cannot be run",
    );
    session.fails(
        &["--qemu", "/usr/bin/qemu-x86_64"],
        &WORKLOAD,
        3,
        "QEMU 9 or newer",
    );
    let large = session.directory.join("large");
    std::fs::write(&large, vec![0u8; 100 << 20]).expect("there is room for 100 MiB");
    let workload = ["--", large.to_str().expect("the path is UTF-8")];
    session.fails(&["--memory", "256"], &workload, 2, "file system has 10");
    session.fails(&[], &["--", "no-such-program"], 2, "it is not in PATH");
}
