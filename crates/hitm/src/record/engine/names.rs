//! Numbers of recorded processes and threads, which may be in pid namespaces of their own, as /proc has them.
//!
//! /proc itself may be of a namespace around this process.

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

/// The pid, in /proc, of the process whose first thread is named `mark`; it takes itself for `own_pid`.
/// None if it is not to be seen from here.
pub(super) fn find(own_pid: u32, mark: &str) -> Option<u32> {
    let has_mark = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim_end() == mark)
    };
    // In one namespace with this process, it is where it says.
    [own_pid]
        .into_iter()
        .chain(numbers_in("/proc"))
        .find(has_mark)
}

/// The number that this process knows the process `pid` of /proc by; none if it is gone.
pub(in crate::record) fn as_seen_here(pid: u32) -> Option<u32> {
    static OWN_DEPTH: OnceLock<usize> = OnceLock::new();
    let depth = OWN_DEPTH.get_or_init(|| names_of("/proc/self/status").len());
    match depth {
        0 | 1 => Some(pid),
        depth => names_of(&format!("/proc/{pid}/status"))
            .get(depth - 1)
            .copied(),
    }
}

/// The threads of a process.
#[derive(Debug)]
pub(super) struct Threads {
    pid: u32,
    /// Numbers that it has, one in each namespace from that of /proc down.
    depth: usize,
    /// Numbers of its threads in its own namespace, by those in /proc.
    own: BTreeMap<u32, u32>,
}

impl Threads {
    /// Of the process `pid`.
    pub(super) fn of(pid: u32) -> Threads {
        Threads {
            pid,
            depth: names_of(&format!("/proc/{pid}/status")).len(),
            own: BTreeMap::new(),
        }
    }

    /// Returns true if the process has the numbers of /proc.
    fn is_here(&self) -> bool {
        self.depth <= 1
    }

    /// The number of the thread that the process knows as `own_tid`; none if there is no such thread.
    pub(super) fn tid(&mut self, own_tid: u32) -> Option<u32> {
        if self.is_here() {
            return Some(own_tid);
        }
        let folder = format!("/proc/{}/task", self.pid);
        let mut former = std::mem::take(&mut self.own);
        for tid in numbers_in(&folder) {
            let known = former.remove(&tid);
            let own = known.or_else(|| names_of(&format!("{folder}/{tid}/status")).pop());
            self.own.extend(own.map(|own| (tid, own)));
        }
        let mut all = self.own.iter();
        all.find_map(|(tid, own)| (*own == own_tid).then_some(*tid))
    }

    /// The pid of the child that the thread `tid` of the process has forked and knows as `own_pid`; none if it
    /// is gone.
    pub(super) fn child(&self, tid: u32, own_pid: u32) -> Option<u32> {
        if self.is_here() {
            return Some(own_pid);
        }
        let children = fs::read_to_string(format!("/proc/{}/task/{tid}/children", self.pid));
        let children: Vec<u32> = match &children {
            Ok(children) => children
                .split(' ')
                .filter_map(|pid| pid.parse().ok())
                .collect(),
            // A kernel without CONFIG_PROC_CHILDREN.
            Err(_) => numbers_in("/proc").collect(),
        };
        let names = |pid: &u32| names_of(&format!("/proc/{pid}/status"));
        let mut children = children.into_iter();
        children.find(|pid| names(pid).get(self.depth - 1) == Some(&own_pid))
    }
}

/// A process's or thread's numbers in its namespaces, from that of /proc down (proc(5), `NSpid`); none if it
/// is gone.
fn names_of(status: &str) -> Vec<u32> {
    let status = fs::read_to_string(status).unwrap_or_default();
    let mut lines = status.lines();
    let names = lines.find_map(|line| line.strip_prefix("NSpid:"));
    let names = names.unwrap_or_default().split_ascii_whitespace();
    names.filter_map(|name| name.parse().ok()).collect()
}

/// The entries of a folder of /proc that are numbers.
fn numbers_in(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// `sleep` under this name of a program, killed at the end.
    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().expect("it sleeps");
            self.0.wait().expect("it is killed");
        }
    }

    #[test]
    fn a_process_is_found_by_its_mark_wherever_it_takes_itself_to_be() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mark = format!("mark-{}", std::process::id());
        let program = folder.path().join(&mark);
        std::os::unix::fs::symlink("/bin/sleep", &program).expect("a link");
        let child = Command::new(program)
            .arg("600")
            .stdin(Stdio::null())
            .spawn();
        let child = Sleeper(child.expect("it starts"));
        let pid = child.0.id();
        // Linux lets the parent go on before the program has its name.
        let limit = Instant::now() + Duration::from_secs(60);
        while find(pid, &mark).is_none() && Instant::now() < limit {
            std::thread::yield_now();
        }
        assert_eq!(find(pid, &mark), Some(pid));
        assert_eq!(find(1, &mark), Some(pid));
        assert_eq!(find(pid, "another"), None);
        assert_eq!(as_seen_here(pid), Some(pid));
    }

    #[test]
    fn threads_are_known_by_what_the_process_calls_them() {
        let pid = std::process::id();
        let mut here = Threads::of(pid);
        assert_eq!((here.tid(5), here.child(pid, 6)), (Some(5), Some(6)));
        // As if this process were in a namespace of that depth: its own numbers are the last ones.
        let depth = here.depth + 1;
        let mut inside = Threads { depth, ..here };
        assert_eq!(inside.tid(pid), Some(pid));
        assert_eq!(inside.tid(u32::MAX), None);
        assert_eq!(inside.child(pid, u32::MAX), None);
    }
}
