//! Cgroups with programs that never sleep, and a `hitm live` that observes them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hitm_live::cgroups::{CpuStat, Hierarchy, Version};
use hitm_test::process::{Child, Command, wait_for};
use serde_json::Value;

use crate::programs::say_not_run;

/// Time for what takes milliseconds on an idle host.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longer than the periods of the tests' groups: a timer that counts none for so long is at rest.
const IDLE: Duration = Duration::from_millis(300);

/// A cgroup of the test, with what runs in it.
pub(crate) struct Group {
    hierarchy: Hierarchy,
    pub(crate) folder: PathBuf,
    /// Folders below it, a parent before its children.
    pub(crate) below: Vec<PathBuf>,
    pub(crate) hogs: Vec<Child>,
    /// One group at a time: a count of all timers is that of one group then.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Group {
    /// Makes a group with this quota; `None` where this user cannot.
    pub(crate) fn new(name: &str, quota_us: u64, period_us: u64) -> Option<Group> {
        // A test that failed holds nothing that others need.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
            _alone: alone,
        };
        group.set_weight()?;
        group.set_quota(quota_us, period_us)?;
        Some(group)
    }

    /// Gives it most of the CPUs' time: beside other tests, its quota is what stops it.
    fn set_weight(&self) -> Option<()> {
        match self.hierarchy.version() {
            Version::One => self.write("cpu.shares", "262144"),
            Version::Two => self.write("cpu.weight", "10000"),
        }
    }

    pub(crate) fn set_quota(&self, quota_us: u64, period_us: u64) -> Option<()> {
        self.set_quota_of(&self.folder, quota_us, period_us)
    }

    fn set_quota_of(&self, folder: &Path, quota_us: u64, period_us: u64) -> Option<()> {
        let write = |file: &str, text: &str| fs::write(folder.join(file), text).ok();
        match self.hierarchy.version() {
            Version::One => {
                write("cpu.cfs_period_us", &period_us.to_string())?;
                write("cpu.cfs_quota_us", &quota_us.to_string())
            }
            Version::Two => write("cpu.max", &format!("{quota_us} {period_us}")),
        }
    }

    fn write(&self, file: &str, text: &str) -> Option<()> {
        fs::write(self.folder.join(file), text).ok()
    }

    /// Makes a group below `parent` with so much of 20 ms.
    pub(crate) fn add_below(
        &mut self,
        parent: &Path,
        name: &str,
        quota_us: u64,
    ) -> Option<PathBuf> {
        if self.hierarchy.version() == Version::Two {
            fs::write(parent.join("cgroup.subtree_control"), "+cpu").ok()?;
        }
        let folder = parent.join(name);
        fs::create_dir(&folder).ok()?;
        self.below.push(folder.clone());
        self.set_quota_of(&folder, quota_us, 20_000)?;
        Some(folder)
    }

    /// Makes a group without a quota below `parent`: in version 2 only a leaf has tasks.
    pub(crate) fn add_leaf(&mut self, parent: &Path, name: &str) -> PathBuf {
        if self.hierarchy.version() == Version::Two {
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+cpu");
        }
        let folder = parent.join(name);
        fs::create_dir(&folder).expect("a group");
        self.below.push(folder.clone());
        folder
    }

    pub(crate) fn path(&self) -> &str {
        self.folder.to_str().expect("UTF-8")
    }

    /// Starts a program that never sleeps in `folder`.
    pub(crate) fn start_hog(&mut self, folder: &Path) {
        let mut hog = Command::new("sh");
        hog.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        let hog = hog.spawn().expect("a shell starts");
        let pid = hog.id().to_string();
        self.hogs.push(hog);
        fs::write(folder.join("cgroup.procs"), pid).expect("the group takes it");
    }

    pub(crate) fn start_hogs(&mut self, count: usize) {
        let folder = self.folder.clone();
        for _ in 0..count {
            self.start_hog(&folder);
        }
    }

    pub(crate) fn kill_hogs(&mut self) {
        for hog in &mut self.hogs {
            let _ = hog.kill();
        }
        for mut hog in self.hogs.drain(..) {
            let _ = hog.wait();
        }
    }

    /// The kernel's own counts.
    pub(crate) fn stat(&self) -> CpuStat {
        self.hierarchy.stat(&self.folder).expect("cpu.stat")
    }

    /// Waits until each hog has run for `each_ns`, and the group was throttled in so many more periods.
    pub(crate) fn wait_throttled(&self, periods: u64, each_ns: u64) {
        let enough = self.stat().throttled_periods + periods;
        let ran = || self.hogs.iter().map(|hog| run_ns(hog.id()));
        let before: Vec<u64> = ran().collect();
        wait_for("throttled periods", || {
            let all_ran = ran()
                .zip(&before)
                .all(|(now, before)| now >= before + each_ns);
            all_ran && self.stat().throttled_periods >= enough
        });
    }

    /// Waits until the group's timer has come to rest: it counts no period any more.
    pub(crate) fn wait_idle(&self) {
        let mut last = u64::MAX;
        wait_for("an idle group", || {
            let before = std::mem::replace(&mut last, self.stat().periods);
            sleep(IDLE);
            last == before
        });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill_hogs();
        // A timer that has not come to rest would be counted by the next test.
        let mut last = None;
        let begin = Instant::now();
        while let Ok(stat) = self.hierarchy.stat(&self.folder) {
            let before = last.replace(stat.periods);
            if before == last || begin.elapsed() > PATIENCE {
                break;
            }
            sleep(IDLE);
        }
        let folders = self.below.iter().rev().chain([&self.folder]);
        for folder in folders {
            // A killed process leaves its group a moment after its parent saw it end.
            let begin = Instant::now();
            while fs::remove_dir(folder).is_err() && begin.elapsed() < PATIENCE {
                sleep(Duration::from_millis(20));
            }
        }
    }
}

pub(crate) fn group_or_say(name: &str, quota_us: u64, period_us: u64) -> Option<Group> {
    if let Err(why) = hitm_live::bpf_available() {
        say_not_run("hitm live of a group", &why);
        return None;
    }
    let group = Group::new(name, quota_us, period_us);
    if group.is_none() {
        say_not_run(
            "hitm live of a group",
            "no cgroup with a quota can be made here",
        );
    }
    group
}

pub(crate) fn hitm(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    command.args(args).stdin(Stdio::null());
    command
}

pub(crate) fn json(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// CPU time of a task: the first field of its schedstat.
pub(crate) fn run_ns(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("the task is there");
    let first = text.split(' ').next();
    first.and_then(|ns| ns.parse().ok()).expect("nanoseconds")
}

/// A `hitm live` that observes until it is told to end, so that no test depends on the time that a busy host takes.
pub(crate) struct Watcher(pub(crate) Child);

impl Watcher {
    pub(crate) fn start(args: &[&str]) -> Watcher {
        let mut command = hitm(args);
        command.args(["-d", "60m"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Watcher(command.spawn().expect("hitm starts"))
    }

    /// Waits until its programs are attached: then it gives up what loading them took.
    pub(crate) fn wait_attached(&mut self) {
        const CAP_SYS_ADMIN: u64 = 1 << 21;
        let path = format!("/proc/{}/status", self.0.id());
        self.wait("programs", || {
            let status = fs::read_to_string(&path).unwrap_or_default();
            let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
            let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
            effective.is_some_and(|effective| effective & CAP_SYS_ADMIN == 0)
        });
    }

    /// Waits until it sleeps: then its counts begin.
    pub(crate) fn wait_asleep(&mut self) {
        let path = format!("/proc/{}/wchan", self.0.id());
        self.wait("sleep", || {
            fs::read_to_string(&path).is_ok_and(|function| function.contains("nanosleep"))
        });
    }

    fn wait(&mut self, what: &str, holds: impl Fn() -> bool) {
        wait_for(what, || {
            let ended = self.0.try_wait().expect("it is our child");
            assert!(ended.is_none(), "hitm ended early: {ended:?}");
            holds()
        });
    }

    /// Reads what it writes until a line has `text`.
    pub(crate) fn wait_line(&mut self, text: &str) {
        let mut output = BufReader::new(self.0.stdout.take().expect("a pipe"));
        let mut line = String::new();
        let begin = Instant::now();
        while !line.contains(text) {
            assert!(begin.elapsed() < PATIENCE, "no {text:?} in two minutes");
            line.clear();
            let read = output.read_line(&mut line).expect("UTF-8");
            assert!(read > 0, "hitm ended without {text:?}");
        }
        // What it writes from now on is not read, and nothing waits for room in the pipe.
        drop(output);
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn end(self) -> Output {
        // SAFETY: a signal to a process of this test.
        unsafe { libc::kill(self.0.id() as libc::pid_t, libc::SIGINT) };
        self.0.wait_with_output().expect("hitm ends")
    }
}
