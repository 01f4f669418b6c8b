//! A program with threads to place: one keeps to one CPU, one makes threads and children all the time.

use hitm_test::process::{Child, Command, wait_for};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use crate::programs;

const SOURCE: &str = "
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *nap(void *time)
{
	usleep((useconds_t)(size_t)time);
	return 0;
}

static void *stay(void *cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((int)(size_t)cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
	for (;;)
		usleep(1000);
	return cpu;
}

static void *churn(void *unused)
{
	for (unsigned round = 0;; round++) {
		pthread_t thread;

		if (!pthread_create(&thread, 0, nap, (void *)(size_t)7000))
			pthread_detach(thread);
		if (round % 8 == 0 && !fork()) {
			usleep(300000);
			_exit(0);
		}
		while (waitpid(-1, 0, WNOHANG) > 0)
			;
		usleep(5000);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 2)
		return 2;
	pthread_create(&thread, 0, stay, (void *)(size_t)atoi(argv[1]));
	pthread_create(&thread, 0, churn, 0);
	for (;;)
		usleep(1000);
}
";

fn program() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let build = || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let source = directory.path().join("load.c");
        fs::write(&source, SOURCE).expect("a file in it");
        let program = programs::build(directory.path(), "load", &source, &[]);
        (directory, program)
    };
    &PROGRAM.get_or_init(build).1
}

const A_DAY: Duration = Duration::from_secs(86_400);

/// The running program.
pub(super) struct Load {
    child: Child,
    /// All CPUs, and the one that a thread keeps to.
    cpus: Vec<usize>,
    kept: usize,
    cpuset: Option<String>,
}

impl Load {
    pub(super) fn start() -> Load {
        let cpus = cpus_of(std::process::id());
        let kept = *cpus.last().expect("this process runs somewhere");
        let mut command = Command::new(program());
        // One load serves a thousand kills (`cargo xtask kills 1000 --place`).
        command.arg(kept.to_string()).within(A_DAY);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: one system call. A session of its own tells the program's children.
        unsafe {
            command.pre_exec(|| match libc::setsid() {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let child = command.spawn().expect("the load starts");
        let load = Load {
            cpuset: cpuset_of(child.id()),
            child,
            cpus,
            kept,
        };
        wait_for("the load's threads", || {
            let tasks = load.tasks();
            tasks.iter().any(|tid| cpus_of(*tid) == [load.kept]) && tasks.len() > 2
        });
        load
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn end(&mut self) {
        let session = self.child.id() as libc::pid_t;
        // SAFETY: the process group that `setsid` made.
        unsafe { libc::kill(-session, libc::SIGKILL) };
        let _ = self.child.wait();
    }

    /// Threads of the program itself.
    pub(super) fn tasks(&self) -> Vec<u32> {
        threads(self.pid())
    }

    /// Threads of the program and of its children, which are in its session.
    fn all_tasks(&self) -> Vec<u32> {
        let of_session = |pid: &u32| session_of(*pid) == Some(self.pid());
        let pids = numbers("/proc").into_iter().filter(of_session);
        pids.flat_map(threads).collect()
    }

    /// The first task that is not as it was: its mask, its cpuset.
    pub(super) fn difference(&self) -> Option<String> {
        let mut kept = 0;
        for tid in self.all_tasks() {
            let cpus = cpus_of(tid);
            // It has ended since, or is about to.
            if cpus.is_empty() || !is_running(tid) {
                continue;
            }
            if cpus == [self.kept] && cpus != self.cpus {
                kept += 1;
            } else if cpus != self.cpus {
                return Some(format!("task {tid} may run on {cpus:?}"));
            }
            let cpuset = cpuset_of(tid);
            if cpuset.is_some() && cpuset != self.cpuset {
                return Some(format!("task {tid} is in {cpuset:?}"));
            }
        }
        (kept != 1).then(|| format!("{kept} tasks may run on {} only", self.kept))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

/// A cpuset with the CPUs and the memory of the root.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: &str) -> Folder {
        let folder = PathBuf::from(path);
        let top = folder.parent().expect("a cpuset below the root").to_owned();
        fs::create_dir(&folder).expect("the cpuset is writable");
        for name in ["cpuset.mems", "cpuset.cpus"] {
            let text = fs::read_to_string(top.join(name)).expect("the root has it");
            fs::write(folder.join(name), text.trim()).expect("the cpuset takes it");
        }
        Folder(folder)
    }

    /// Moves a process, its children to come included.
    pub(super) fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("the cpuset takes it");
    }

    pub(super) fn remove(&self) {
        wait_for("an empty cpuset", || fs::remove_dir(&self.0).is_ok());
    }
}

/// Means that this host has and this user may use.
pub(super) fn backends() -> Vec<&'static str> {
    let cpuset = "/sys/fs/cgroup/cpuset/tasks\0";
    // SAFETY: a path that ends with its NUL byte.
    let is_writable = unsafe { libc::access(cpuset.as_ptr().cast(), libc::W_OK) == 0 };
    let cpuset = is_writable.then_some("cpuset-v1");
    ["affinity"].into_iter().chain(cpuset).collect()
}

/// Cgroups of placements.
pub(super) fn groups() -> BTreeSet<PathBuf> {
    let entries = fs::read_dir("/sys/fs/cgroup/cpuset")
        .into_iter()
        .flatten()
        .flatten();
    let is_ours = |path: &PathBuf| path.to_string_lossy().contains("/hitm-");
    entries.map(|entry| entry.path()).filter(is_ours).collect()
}

/// The CPUs on which a task may run; none when it has ended.
pub(super) fn cpus_of(tid: u32) -> Vec<usize> {
    let mut mask = [0u64; 128];
    let size = std::mem::size_of_val(&mask);
    // SAFETY: the kernel writes at most `size` bytes.
    let done =
        unsafe { libc::sched_getaffinity(tid as libc::pid_t, size, mask.as_mut_ptr().cast()) };
    let is_set = |cpu: &usize| mask[cpu / 64] >> (cpu % 64) & 1 != 0;
    (0..size * 8)
        .filter(|cpu| done == 0 && is_set(cpu))
        .collect()
}

fn cpuset_of(tid: u32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{tid}/cgroup")).ok()?;
    let line = groups.lines().find(|line| line.contains(":cpuset:"))?;
    Some(line.to_owned())
}

fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// Field of /proc/TID/stat by its number behind the name: state is 0, the parent 1, the session 3.
fn field(tid: u32, index: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(index).map(str::to_owned)
}

fn session_of(pid: u32) -> Option<u32> {
    field(pid, 3)?.parse().ok()
}

fn is_running(tid: u32) -> bool {
    field(tid, 0).is_some_and(|state| !matches!(state.as_str(), "Z" | "X"))
}

fn words_of(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// The guard of a tool, once it runs our program.
pub(super) fn guard_of(tool: u32) -> Option<u32> {
    numbers("/proc").into_iter().find(|pid| {
        field(*pid, 1) == Some(tool.to_string())
            && is_running(*pid)
            && words_of(*pid).iter().any(|word| word == "guard")
    })
}

/// Processes, tools or guards, that work with a folder of journals.
pub(super) fn processes_of(journals: &Path) -> Vec<u32> {
    let folder = journals.to_string_lossy().into_owned();
    let is_here = |pid: &u32| {
        *pid != std::process::id()
            && words_of(*pid).iter().any(|word| word.starts_with(&folder))
            && is_running(*pid)
    };
    numbers("/proc").into_iter().filter(is_here).collect()
}

/// Kills a tool and its guard, so that neither notices the other's death.
pub(super) fn kill_both(tool: u32, journals: &Path) {
    super::kill(tool, libc::SIGSTOP);
    if let Some(guard) = guard_of(tool) {
        super::kill(guard, libc::SIGKILL);
    }
    super::kill(tool, libc::SIGKILL);
    // One that it was just starting.
    for pid in processes_of(journals) {
        super::kill(pid, libc::SIGKILL);
    }
}

/// CRC-32C bit by bit: a second opinion on the checksums of journals.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = !0u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 != 0 {
                sum >> 1 ^ 0x82f6_3b78
            } else {
                sum >> 1
            };
        }
    }
    !sum
}
