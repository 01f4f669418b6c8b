//! Recorded processes and threads as /proc has them.

use std::collections::BTreeMap;
use std::fs;

use hitm_weave::board::Board;
use hitm_weave::session::{Host, Status};

use super::names::{self, Threads};

/// Numbers of threads in the processes that were found, by pid.
pub(super) type Names = BTreeMap<u32, Threads>;

/// This host and the board, as far as the session asks.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) board: &'a Board,
    pub(super) names: &'a mut Names,
}

impl Host for Seen<'_> {
    fn find(&mut self, process: u32, own_pid: u32) -> Option<u32> {
        let pid = names::find(own_pid, &self.board.mark_of(process))?;
        self.names.insert(pid, Threads::of(pid));
        Some(pid)
    }

    fn thread(&mut self, pid: u32, own_tid: u32) -> Option<u32> {
        self.names.get_mut(&pid)?.tid(own_tid)
    }

    fn child(&mut self, pid: u32, tid: u32, own_pid: u32) -> Option<u32> {
        self.names.get(&pid)?.child(tid, own_pid)
    }

    fn status(&self, id: u32) -> Option<Status> {
        status(id)
    }

    fn has_requests(&self) -> bool {
        self.board.has_requests()
    }
}

/// State of a process or thread, and the time at which it began, from proc(5); none when it is gone.
pub(super) fn status(id: u32) -> Option<Status> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    Some(Status {
        state: fields.next()?.chars().next()?,
        began: fields.nth(18)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_ended_is_dead_until_it_is_waited_for() {
        let own = status(std::process::id()).expect("this process runs");
        assert!(!own.is_dead());
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("it starts");
        let pid = child.id();
        while !status(pid).expect("nobody waits for it").is_dead() {
            std::thread::yield_now();
        }
        child.wait().expect("it has ended");
        assert_eq!(status(pid), None);
    }
}
