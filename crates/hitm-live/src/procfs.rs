//! What /proc tells of tasks.
//!
//! A task may end between two looks, so each question about one answers `None` or an error of
//! [`io::ErrorKind::NotFound`] then. A [`TaskId`] holds the task's start time, since numbers are used again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A task that no other task is taken for: its number and when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The kernel's number of the task (the TID of a thread).
    pub tid: u32,
    /// Clock ticks from boot to the task's start: field 22 of proc_pid_stat(5).
    pub start_ticks: u64,
}

impl TaskId {
    /// The task that has the number `tid` now.
    pub fn of(tid: u32) -> Option<TaskId> {
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
        let start_ticks = Stat::parse(&stat)?.start_ticks;
        Some(TaskId { tid, start_ticks })
    }

    /// Returns true while the task runs or sleeps, false when its number is free or another task's.
    pub fn is_alive(self) -> bool {
        TaskId::of(self.tid) == Some(self)
    }
}

/// The fields of /proc/TID/stat that we use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The task's name, at most 15 bytes.
    pub comm: String,
    /// The process that it belongs to is a child of this one.
    pub parent: u32,
    /// Clock ticks from boot to the task's start.
    pub start_ticks: u64,
}

impl Stat {
    /// Reads one line of proc_pid_stat(5). A name may hold blanks and brackets, so the last bracket ends it.
    pub fn parse(line: &str) -> Option<Stat> {
        let (before, rest) = line.rsplit_once(") ")?;
        let (_, comm) = before.split_once(" (")?;
        let mut fields = rest.split(' ');
        // Fields 3 (state) and 4; `nth` goes on behind what it took, so 17 more lead to field 22.
        let parent = fields.nth(1)?.parse().ok()?;
        let start_ticks = fields.nth(17)?.trim_end().parse().ok()?;
        Some(Stat {
            comm: comm.to_owned(),
            parent,
            start_ticks,
        })
    }
}

/// The name of a task, without its line end.
///
/// # Errors
/// The task is gone, or /proc is not readable.
pub fn comm(tid: u32) -> io::Result<String> {
    let name = fs::read(format!("/proc/{tid}/comm"))?;
    let name = String::from_utf8_lossy(&name);
    Ok(name.trim_end_matches('\n').to_owned())
}

/// The threads of process `pid`, in the order of their numbers.
///
/// # Errors
/// The process is gone, or /proc is not readable.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// Every process, in the order of their numbers.
///
/// # Errors
/// /proc is not readable.
pub fn processes() -> io::Result<Vec<u32>> {
    numbers(Path::new("/proc"))
}

/// The process that thread `tid` belongs to.
///
/// # Errors
/// The thread is gone, or /proc is not readable.
pub fn process_of(tid: u32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    let pid = line.and_then(|pid| pid.trim().parse().ok());
    pid.ok_or_else(|| io::Error::other(format!("/proc/{tid}/status: no Tgid")))
}

/// The cgroups of process `pid` as (controllers, path): one hierarchy each, the unified one without controllers.
///
/// # Errors
/// The process is gone, or /proc is not readable.
pub fn cgroups(pid: u32) -> io::Result<Vec<(String, PathBuf)>> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    Ok(parse_cgroups(&text))
}

fn parse_cgroups(text: &str) -> Vec<(String, PathBuf)> {
    let fields = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    fields
        .map(|(controllers, path)| (controllers.to_owned(), PathBuf::from(path)))
        .collect()
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

/// For how many nanoseconds a task was ready and did not run, and how often it ran: fields 2 and 3 of
/// /proc/TID/schedstat.
pub fn run_delays(tid: u32) -> Option<[u64; 2]> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    parse_schedstat(&text)
}

fn parse_schedstat(text: &str) -> Option<[u64; 2]> {
    let mut words = text.split_ascii_whitespace().skip(1);
    Some([words.next()?.parse().ok()?, words.next()?.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_field_is_the_delay() {
        assert_eq!(parse_schedstat("100 20 3\n"), Some([20, 3]));
        assert_eq!(parse_schedstat("100\n"), None);
    }

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(
            (stat.comm.as_str(), stat.parent, stat.start_ticks),
            ("a) b (c", 3, 4242)
        );
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
        assert_eq!(process_of(pid).unwrap(), pid);
        assert!(processes().unwrap().contains(&pid));
    }
}
