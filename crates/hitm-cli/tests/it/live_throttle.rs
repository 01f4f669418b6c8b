//! `hitm live throttle` and `hitm live wakeups` on this host. Groups with a quota need root and the cpu controller;
//! where these or BPF programs are missing, tests say so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hitm_live::cgroups::{Hierarchy, Version};
use serde_json::Value;

use crate::programs::say_not_run;

/// The tracepoints that the programs are attached to, at least.
const LINKS: usize = 4;

/// A cgroup of the test, with what runs in it.
struct Group {
    hierarchy: Hierarchy,
    folder: PathBuf,
    /// Folders below it, a parent before its children.
    below: Vec<PathBuf>,
    hogs: Vec<Child>,
}

impl Group {
    /// Makes a group with this quota; `None` where this user cannot.
    fn new(name: &str, quota_us: u64, period_us: u64) -> Option<Group> {
        let hierarchy = Hierarchy::find().ok()?;
        let folder = hierarchy
            .root()
            .join(format!("test-throttle-{name}-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let group = Group {
            hierarchy,
            folder,
            below: Vec::new(),
            hogs: Vec::new(),
        };
        match group.hierarchy.version() {
            Version::One => {
                group.write("cpu.cfs_period_us", &period_us.to_string())?;
                group.write("cpu.cfs_quota_us", &quota_us.to_string())?;
            }
            Version::Two => group.write("cpu.max", &format!("{quota_us} {period_us}"))?,
        }
        Some(group)
    }

    fn write(&self, file: &str, text: &str) -> Option<()> {
        fs::write(self.folder.join(file), text).ok()
    }

    fn path(&self) -> &str {
        self.folder.to_str().expect("UTF-8")
    }

    /// Starts a program that never sleeps in `folder`.
    fn start_hog(&mut self, folder: &Path) {
        let mut hog = Command::new("sh");
        hog.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        let hog = hog.spawn().expect("a shell starts");
        let pid = hog.id().to_string();
        self.hogs.push(hog);
        fs::write(folder.join("cgroup.procs"), pid).expect("the group takes it");
    }

    fn start_hogs(&mut self, count: usize) {
        let folder = self.folder.clone();
        for _ in 0..count {
            self.start_hog(&folder);
        }
    }

    fn kill_hogs(&mut self) {
        for hog in &mut self.hogs {
            let _ = hog.kill();
        }
        for mut hog in self.hogs.drain(..) {
            let _ = hog.wait();
        }
    }

    fn periods(&self) -> u64 {
        self.hierarchy.stat(&self.folder).expect("cpu.stat").periods
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill_hogs();
        let folders = self.below.iter().rev().chain([&self.folder]);
        for folder in folders {
            // A killed process leaves its group a moment after its parent saw it end.
            let begin = Instant::now();
            while fs::remove_dir(folder).is_err() && begin.elapsed() < Duration::from_secs(5) {
                sleep(Duration::from_millis(20));
            }
        }
    }
}

fn group_or_say(name: &str, quota_us: u64, period_us: u64) -> Option<Group> {
    if let Err(why) = hitm_live::bpf_available() {
        say_not_run("hitm live throttle", &why);
        return None;
    }
    let group = Group::new(name, quota_us, period_us);
    if group.is_none() {
        say_not_run(
            "hitm live throttle",
            "no cgroup with a quota can be made here",
        );
    }
    group
}

fn hitm(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    command.args(args).stdin(Stdio::null());
    command
}

fn json(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Waits until the process has as many BPF links as programs: it sees everything from now on.
fn wait_for_links(pid: u32) {
    let begin = Instant::now();
    let is_link = |path: PathBuf| path.to_string_lossy().contains("bpf");
    loop {
        let files = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        let links = files.filter_map(|file| fs::read_link(file.path()).ok());
        let links =
            links.filter(|link| is_link(link.clone()) && link.to_string_lossy().contains("link"));
        if links.count() >= LINKS {
            // The last ones follow within a moment.
            return sleep(Duration::from_millis(300));
        }
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "the programs are not attached"
        );
        sleep(Duration::from_millis(20));
    }
}

/// Walks of period timers as the tracepoint itself counts them, while perf runs.
struct PerfCount(Child);

impl PerfCount {
    /// `None` where perf or the tracepoint is missing.
    fn start() -> Option<PerfCount> {
        let symbols = fs::read_to_string("/proc/kallsyms").ok()?;
        let timer = symbols
            .lines()
            .find(|line| line.ends_with(" sched_cfs_period_timer"))?;
        let filter = format!("function==0x{}", timer.split(' ').next()?);
        let event = [
            "-x,",
            "-a",
            "-e",
            "timer:hrtimer_expire_entry",
            "--filter",
            &filter,
        ];
        let counts = |seconds: &str| {
            let mut perf = Command::new("perf");
            perf.arg("stat").args(event).args(["sleep", seconds]);
            perf.stdin(Stdio::null()).stderr(Stdio::piped());
            perf
        };
        let works = counts("0.01")
            .output()
            .is_ok_and(|output| output.status.success());
        works.then(|| PerfCount(counts("100").spawn().expect("perf starts")))
    }

    fn stop(self) -> u64 {
        let pid = self.0.id().cast_signed();
        // SAFETY: the process is a child that nobody has waited for.
        unsafe { libc::kill(pid, libc::SIGINT) };
        let output = self.0.wait_with_output().expect("perf ends");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text
            .lines()
            .find(|line| line.contains("hrtimer_expire_entry"));
        let count = line.and_then(|line| line.split(',').next()?.parse().ok());
        count.unwrap_or_else(|| panic!("no count of perf: {text}"))
    }
}

/// At least 95 % of the time of each task has a cause.
fn assert_assigned(report: &Value) {
    let tasks = report["tasks"].as_array().expect("tasks");
    for task in tasks {
        let causes = &task["causes"];
        let ns = |name: &str| causes[name].as_u64().expect("nanoseconds");
        assert!(ns("total_ns") > 0, "{task}");
        assert!(ns("unassigned_ns") * 20 <= ns("total_ns"), "{task}");
    }
}

#[test]
fn three_hogs_and_the_tracepoint_s_own_count() {
    let Some(mut group) = group_or_say("hogs", 4_000, 20_000) else {
        return;
    };
    let perf = PerfCount::start();
    let args = [
        "live",
        "throttle",
        "--cgroup",
        group.path(),
        "-d",
        "5s",
        "--format",
        "json",
    ];
    let watcher = hitm(&args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("hitm starts");
    wait_for_links(watcher.id());
    group.start_hogs(3);
    sleep(Duration::from_secs(2));
    group.kill_hogs();
    let report = json(&watcher.wait_with_output().expect("hitm ends"));
    let walks = report["period_timer"]["count"].as_u64().expect("a count");
    match perf.map(PerfCount::stop) {
        // Groups of other programs have timers as well.
        Some(count) if report["limited_groups"] == 1 => assert_eq!(walks, count),
        Some(_) => say_not_run("the tracepoint's own count", "other groups have quotas"),
        None => say_not_run(
            "the tracepoint's own count",
            "perf cannot count tracepoints here",
        ),
    }
    // A timer without anything to do counts no period, and one that was late counts several.
    assert!(
        walks.abs_diff(group.periods()) <= 3,
        "{walks} walks, {} periods",
        group.periods()
    );
    let rows = report["period_timer"]["histogram"]
        .as_array()
        .expect("rows");
    let counted: u64 = rows.iter().filter_map(|row| row["count"].as_u64()).sum();
    assert_eq!(counted, walks);
    assert_eq!(report["tasks"].as_array().map(Vec::len), Some(3));
    assert_eq!(report["counts"]["lost_events"], 0);
    assert_assigned(&report);
    let throttled = &report["groups"][0];
    let (queues, stat) = (&throttled["queues_ns"], &throttled["cpu_stat_throttled_ns"]);
    let (queues, stat) = (queues.as_f64().expect("ns"), stat.as_f64().expect("ns"));
    assert!(
        (queues / stat - 1.0).abs() < 0.1,
        "{queues} of queues, {stat} in cpu.stat"
    );
    let folder = group.folder.clone();
    drop(group);
    assert!(!folder.exists());
}

#[test]
fn a_tree_of_a_hundred_groups_is_throttled_by_its_top() {
    let Some(mut group) = group_or_say("tree", 10_000, 50_000) else {
        return;
    };
    for number in 0..99 {
        // Ten groups below the top, each with up to nine below it.
        let parent = match number {
            0..10 => group.folder.clone(),
            _ => group.below[(number - 10) % 10].clone(),
        };
        let folder = parent.join(format!("g{number}"));
        fs::create_dir(&folder).expect("a group");
        group.below.push(folder);
    }
    for leaf in 20..28 {
        let folder = group.below[leaf].clone();
        group.start_hog(&folder);
    }
    let path = group.path().to_owned();
    let args = [
        "live", "throttle", "--cgroup", &path, "-d", "1500ms", "--format", "json",
    ];
    let report = json(&hitm(&args).output().expect("hitm runs"));
    assert_eq!(report["groups"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["groups"][0]["quota_us"], 10_000);
    assert!(
        report["tasks"]
            .as_array()
            .is_some_and(|tasks| tasks.len() >= 6)
    );
    assert_assigned(&report);
    let args = [
        "live", "throttle", "--cgroup", &path, "-d", "500ms", "--trace",
    ];
    let output = hitm(&args).output().expect("hitm runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    // One queue is that of the top and of the 99 groups below it.
    assert!(
        text.contains("unthrottled_rqs=1, unthrottled_cfs_rq=100, "),
        "{text}"
    );
}

#[test]
fn the_kernel_s_counters_are_named_as_such() {
    let Some(mut group) = Group::new("counters", 4_000, 20_000) else {
        say_not_run(
            "hitm live throttle --counters",
            "no cgroup with a quota can be made here",
        );
        return;
    };
    group.start_hogs(2);
    let args = [
        "live",
        "throttle",
        "--cgroup",
        group.path(),
        "-d",
        "500ms",
        "--counters",
        "--format",
        "json",
    ];
    let report = json(&hitm(&args).output().expect("hitm runs"));
    assert_eq!(report["source"], "counters");
    let row = &report["groups"][0];
    assert!(row["throttled_periods"].as_u64() > Some(5), "{row}");
    assert!(row["run_delay_ns"].as_u64() > Some(100_000_000), "{row}");
}

#[test]
fn what_is_not_there_is_wrong_usage() {
    for args in [
        ["live", "wakeups", "--pid", "4194305"],
        ["live", "wakeups", "--cgroup", "no/such"],
        ["live", "throttle", "--cgroup", "no/such"],
        ["live", "throttle", "--duration", "0s"],
    ] {
        if args[2] == "--cgroup" && Hierarchy::find().is_err() {
            say_not_run("groups that are not there", "no cpu controller");
            continue;
        }
        let output = hitm(&args).output().expect("hitm runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn run_delays_stand_in_for_wakeups() {
    let pid = std::process::id().to_string();
    let args = [
        "live",
        "wakeups",
        "--pid",
        &pid,
        "-d",
        "300ms",
        "--counters",
        "--format",
        "json",
    ];
    let report = json(&hitm(&args).output().expect("hitm runs"));
    assert_eq!(report["source"], "schedstat");
    assert!(
        report["tasks"]
            .as_array()
            .is_some_and(|tasks| !tasks.is_empty())
    );
}
