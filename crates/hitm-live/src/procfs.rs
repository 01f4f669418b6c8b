//! Facts about tasks from /proc.
//!
//! A task may end at any time; a question about it then returns `None` or an error of
//! [`io::ErrorKind::NotFound`]. A [`TaskId`] holds the task's start time, because numbers are
//! reused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Unique identity of a task: its number and its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The kernel's number of the task (the TID of a thread).
    pub tid: u32,
    /// Clock ticks from boot to the task's start: field 22 of proc_pid_stat(5).
    pub start_ticks: u64,
}

impl TaskId {
    /// Present owner of the number `tid`.
    pub fn of(tid: u32) -> Option<TaskId> {
        let start_ticks = Stat::of(tid)?.start_ticks;
        Some(TaskId { tid, start_ticks })
    }

    /// Returns true while the task runs or sleeps, false when its number is free or another task's.
    pub fn is_alive(self) -> bool {
        TaskId::of(self.tid) == Some(self)
    }
}

/// `PF_KTHREAD` of include/linux/sched.h: field 9 of proc_pid_stat(5).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// `SCHED_DEADLINE`: such a task keeps the CPUs of its root domain.
const DEADLINE_POLICY: u32 = 6;

/// Fields of /proc/TID/stat that are used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The task's name, at most 15 bytes.
    pub comm: String,
    /// `R` runs or wants to, `S` and `D` sleep, `Z` and `X` have ended.
    pub state: char,
    /// Parent of the task's process.
    pub parent: u32,
    /// Its process group; 0 outside of our PID namespace.
    pub group: u32,
    /// Its session; 0 outside of our PID namespace.
    pub session: u32,
    /// True for a thread of the kernel.
    pub is_kernel: bool,
    /// Its nice value, -20 to 19.
    pub nice: i8,
    /// CPU time in clock ticks, in programs and in the kernel; of a process that of all its threads.
    pub cpu_ticks: u64,
    /// Clock ticks from boot to the task's start.
    pub start_ticks: u64,
    /// The CPU that it ran on last.
    pub cpu: u16,
    /// True if its policy is `SCHED_DEADLINE`.
    pub is_deadline: bool,
}

impl Stat {
    /// Reads the fields of a thread; none when it has ended.
    pub fn of(tid: u32) -> Option<Stat> {
        // A name may hold any bytes.
        let line = fs::read(format!("/proc/{tid}/stat")).ok()?;
        Stat::parse(&String::from_utf8_lossy(&line))
    }

    /// Returns true for a task that has not ended. A zombie has.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    /// CPU time, in programs and in the kernel; of a process that of all its threads.
    pub fn cpu_time(&self) -> Duration {
        /// `USER_HZ` of Linux on x86-64 and 64-bit Arm (include/asm-generic/param.h).
        const TICKS_A_SECOND: u64 = 100;
        const NS: u64 = 1_000_000_000 / TICKS_A_SECOND;
        Duration::from_nanos(self.cpu_ticks.saturating_mul(NS))
    }

    /// Parses a line of proc_pid_stat(5). A name may hold blanks and brackets, so the last bracket
    /// ends it.
    pub fn parse(line: &str) -> Option<Stat> {
        let (before, rest) = line.rsplit_once(") ")?;
        let (_, comm) = before.split_once(" (")?;
        // The first field is number 3.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        // A session of a process outside of our PID namespace is 0 or -1.
        let id = |number| field(number).map(|text| text.parse().unwrap_or(0));
        let number = |number| field(number)?.parse::<u64>().ok();
        let flags = number(9)?;
        Some(Stat {
            comm: comm.to_owned(),
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            group: id(5)?,
            session: id(6)?,
            is_kernel: flags & KERNEL_THREAD != 0,
            nice: field(19)?.parse().ok()?,
            cpu_ticks: number(14)?.saturating_add(number(15)?),
            start_ticks: number(22)?,
            cpu: field(39)?.parse().ok()?,
            is_deadline: field(41)?.parse() == Ok(DEADLINE_POLICY),
        })
    }
}

/// Reads the name of a task, without its line end.
///
/// # Errors
/// The task is gone, or /proc is not readable.
pub fn comm(tid: u32) -> io::Result<String> {
    let name = fs::read(format!("/proc/{tid}/comm"))?;
    let name = String::from_utf8_lossy(&name);
    Ok(name.trim_end_matches('\n').to_owned())
}

/// Reads the threads of process `pid`, in the order of their numbers.
///
/// # Errors
/// The process is gone, or /proc is not readable.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// Process of a thread; none when it has ended.
pub fn process_of(tid: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Every process, in the order of their numbers.
///
/// # Errors
/// /proc is not readable.
pub fn processes() -> io::Result<Vec<u32>> {
    numbers(Path::new("/proc"))
}

/// Reads the cgroups of process `pid` as (controllers, path): one for each hierarchy, the unified
/// one without controllers.
///
/// # Errors
/// The process is gone, or /proc is not readable.
pub fn cgroups(pid: u32) -> io::Result<Vec<(String, PathBuf)>> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    Ok(parse_cgroups(&text))
}

pub(crate) fn parse_cgroups(text: &str) -> Vec<(String, PathBuf)> {
    let fields = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    fields
        .map(|(controllers, path)| (controllers.to_owned(), PathBuf::from(path)))
        .collect()
}

/// A mount.
pub(crate) struct Mounted<'a> {
    /// The folder of its file system that is mounted.
    pub(crate) root: PathBuf,
    pub(crate) point: PathBuf,
    /// Type of its file system.
    pub(crate) kind: &'a str,
    /// Options of its file system.
    pub(crate) options: &'a str,
}

impl Mounted<'_> {
    /// Returns true if it is a hierarchy of cgroups of version 1 with a controller.
    pub(crate) fn controls(&self, controller: &str) -> bool {
        self.kind == "cgroup" && self.options.split(',').any(|option| option == controller)
    }
}

/// Mounts of a text of proc_pid_mountinfo(5).
pub(crate) fn parse_mounts(text: &str) -> impl Iterator<Item = Mounted<'_>> {
    text.lines().filter_map(|line| {
        let (of_mount, of_system) = line.split_once(" - ")?;
        let mut place = of_mount.split(' ').skip(3).map(unescaped);
        let mut words = of_system.split(' ');
        Some(Mounted {
            root: place.next()?,
            point: place.next()?,
            kind: words.next()?,
            options: words.nth(1).unwrap_or_default(),
        })
    })
}

/// Decodes blanks and backslashes, which are octal: `\040`.
fn unescaped(field: &str) -> PathBuf {
    let mut text = String::new();
    let mut rest = field;
    while let Some((before, code)) = rest.split_once('\\') {
        text.push_str(before);
        let byte = code
            .get(..3)
            .and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match byte {
            Some(byte) => {
                text.push(char::from(byte));
                rest = &code[3..];
            }
            None => {
                text.push('\\');
                rest = code;
            }
        }
    }
    text.push_str(rest);
    PathBuf::from(text)
}

/// Numbers of a text, one a line: tasks of a cgroup.
pub(crate) fn tids(text: &str) -> impl Iterator<Item = u32> {
    text.lines().filter_map(|line| line.trim().parse().ok())
}

fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads the nanoseconds for which a task was ready and did not run, and the times that it ran:
/// fields 2 and 3 of /proc/TID/schedstat.
pub fn run_delays(tid: u32) -> Option<[u64; 2]> {
    let [_, delay, runs] = schedstat(tid)?;
    Some([delay, runs])
}

/// Reads a task's nanoseconds of running, its nanoseconds of being ready without running, and its
/// times on a CPU.
pub fn schedstat(tid: u32) -> Option<[u64; 3]> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    parse_schedstat(&text)
}

fn parse_schedstat(text: &str) -> Option<[u64; 3]> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// Reads the times that a task left its CPU by itself.
pub fn voluntary_switches(tid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

/// Reads the autogroup of process `pid`, as `/autogroup-7`, and its nice value: the group that it competes in when it
/// is in no cgroup. None where the kernel has none.
pub fn autogroup(pid: u32) -> Option<(String, i8)> {
    let enabled = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok()?;
    let text = fs::read_to_string(format!("/proc/{pid}/autogroup")).ok()?;
    (enabled.trim() == "1").then(|| parse_autogroup(&text))?
}

/// Reads `/autogroup-7 nice 0`.
fn parse_autogroup(text: &str) -> Option<(String, i8)> {
    let mut words = text.split_ascii_whitespace();
    Some((words.next()?.to_owned(), words.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_scheduler() {
        assert_eq!(parse_schedstat("100 20 3\n"), Some([100, 20, 3]));
        assert_eq!(parse_schedstat("100\n"), None);
    }

    #[test]
    fn autogroups_have_nice_values() {
        let told = parse_autogroup("/autogroup-7 nice -5\n");
        assert_eq!(told, Some(("/autogroup-7".to_owned(), -5)));
        assert_eq!(parse_autogroup("/autogroup-7\n"), None);
    }

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let line = |flags: &str, policy: &str| {
            format!(
                "7 (a) b (c) S 3 5 6 0 -1 {flags} 1 2 3 4 5 6 7 8 20 -7 1 0 4242 9 9 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 {policy} 0\n"
            )
        };
        let kernel = Stat::parse(&line("69238880", "6")).unwrap();
        assert_eq!((kernel.group, kernel.session, kernel.cpu), (5, 6, 1));
        assert!(kernel.is_kernel && kernel.is_deadline);
        let line = line("4194560", "0");
        let stat = Stat::parse(&line).unwrap();
        assert!(!stat.is_kernel && !stat.is_deadline);
        assert_eq!(
            (
                stat.comm.as_str(),
                stat.state,
                stat.parent,
                stat.nice,
                stat.start_ticks
            ),
            ("a) b (c", 'S', 3, -7, 4242)
        );
        assert!(stat.is_alive());
        let ended = Stat::parse(&line.replace(") S ", ") Z ")).unwrap();
        assert!(!ended.is_alive());
    }

    #[test]
    fn cut_lines_have_no_start() {
        assert_eq!(Stat::parse("7 (a) S 3 7 7"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn paths_of_cgroups_may_hold_colons() {
        let groups = parse_cgroups("4:cpuset:/a:b\n0::/init\n");
        let expected = [("cpuset", "/a:b"), ("", "/init")]
            .map(|(controllers, path)| (controllers.to_owned(), PathBuf::from(path)));
        assert_eq!(groups, expected);
    }

    #[test]
    fn this_process_is_its_own() {
        let pid = std::process::id();
        let task = TaskId::of(pid).unwrap();
        assert!(task.is_alive());
        let other = TaskId {
            start_ticks: task.start_ticks + 1,
            ..task
        };
        assert!(!other.is_alive());
        assert!(threads(pid).unwrap().contains(&pid));
        assert!(processes().unwrap().contains(&pid));
    }
}
