//! What only the host's kernel knows of recorded processes and threads.

/// A process or thread in the eyes of the kernel (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Its state as a letter.
    pub state: char,
    /// Time at which it began, by the host's clock: tells two processes of one pid apart.
    pub began: u64,
}

impl Status {
    /// Returns true for what has ended and waits for its parent.
    pub fn is_dead(self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// The host's kernel and the board, as far as a session asks. Processes may be in pid namespaces and know other
/// numbers than the host.
pub trait Host {
    /// The pid of the process of this name on the board, which takes itself for `own_pid`; none if it is not
    /// to be seen.
    fn find(&mut self, process: u32, own_pid: u32) -> Option<u32>;

    /// The number of the thread that the process `pid` knows as `own_tid`; none if there is no such thread.
    fn thread(&mut self, pid: u32, own_tid: u32) -> Option<u32>;

    /// The pid of the child that the thread `tid` of the process `pid` has forked and knows as `own_pid`; none
    /// if it is gone.
    fn child(&mut self, pid: u32, tid: u32, own_pid: u32) -> Option<u32>;

    /// A process or thread; none when it is gone.
    fn status(&self, id: u32) -> Option<Status>;

    /// Returns true if there are requests that were not served. A thread that waits for an answer sleeps like
    /// one in a system call, and has asked before: look here after [`Host::is_asleep`].
    fn has_requests(&self) -> bool;

    /// Returns true if a thread sleeps in the kernel, or is gone.
    fn is_asleep(&self, tid: u32) -> bool {
        let status = self.status(tid);
        status.is_none_or(|status| !matches!(status.state, 'R' | 'D'))
    }

    /// Returns true if the process that began at that time is gone.
    fn is_gone(&self, pid: u32, began: u64) -> bool {
        let status = self.status(pid);
        status.is_none_or(|status| status.is_dead() || status.began != began)
    }
}
