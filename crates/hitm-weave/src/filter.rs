//! The recorder's filter, once more, for lines whose contents were moved together or apart: an
//! access to a line that one thread alone uses is no access of the weave.
//!
//! The rules are those of the recorder (`hitm-qemu`, `first_touch` and `output`): a line is private
//! until a second thread touches it, and private again after [`REPRIVATISE_RUN`] accesses in a row
//! by one thread.

use hitm_base::{LineAddr, ThreadId};

/// Accesses in a row by one thread after which a shared line is that thread's alone again. Large
/// enough that a lock taken by turns stays shared, small against what a private line costs when
/// every access is recorded.
pub const REPRIVATISE_RUN: u32 = 256;

/// What the filter says of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Private,
    Shared,
    /// Until now the line was that thread's, which may have written to it.
    BecameShared(ThreadId, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Untouched,
    Private { owner: ThreadId, is_written: bool },
    Shared { runner: ThreadId, run: u32 },
}

/// The lines from a first one on.
#[derive(Debug)]
pub(crate) struct Filter {
    first: LineAddr,
    uses: Vec<Use>,
}

impl Filter {
    /// `count` lines from `first` on, which nobody has touched.
    pub(crate) fn new(first: LineAddr, count: usize) -> Filter {
        Filter {
            first,
            uses: vec![Use::Untouched; count],
        }
    }

    /// Whether this filter decides about the line.
    pub(crate) fn covers(&self, line: LineAddr) -> bool {
        self.index(line).is_some()
    }

    /// Makes known who used the line before the recording had accesses to it, if nobody else is
    /// known to have.
    pub(crate) fn own(&mut self, line: LineAddr, owner: ThreadId, is_written: bool) {
        let Some(index) = self.index(line) else {
            return;
        };
        if self.uses[index] == Use::Untouched {
            self.uses[index] = Use::Private { owner, is_written };
        }
    }

    /// `thread` touches the line.
    pub(crate) fn touch(&mut self, line: LineAddr, thread: ThreadId, is_write: bool) -> Touch {
        let Some(index) = self.index(line) else {
            return Touch::Shared;
        };
        let (next, touch) = match self.uses[index] {
            Use::Untouched => (private(thread, is_write), Touch::Private),
            Use::Private { owner, is_written } if owner == thread => {
                (private(thread, is_written || is_write), Touch::Private)
            }
            Use::Private { owner, is_written } => {
                let shared = Use::Shared {
                    runner: thread,
                    run: 0,
                };
                (shared, Touch::BecameShared(owner, is_written))
            }
            shared @ Use::Shared { .. } => (shared, Touch::Shared),
        };
        self.uses[index] = next;
        touch
    }

    /// An access of the weave to the line was priced.
    pub(crate) fn priced(&mut self, line: LineAddr, thread: ThreadId) {
        let Some(index) = self.index(line) else {
            return;
        };
        if let Use::Shared { runner, run } = &mut self.uses[index] {
            *run = if *runner == thread { *run + 1 } else { 1 };
            *runner = thread;
            if *run >= REPRIVATISE_RUN {
                self.uses[index] = private(thread, true);
            }
        }
    }

    fn index(&self, line: LineAddr) -> Option<usize> {
        let index = line.0.checked_sub(self.first.0)?;
        (index < self.uses.len() as u64).then_some(index as usize)
    }
}

fn private(owner: ThreadId, is_written: bool) -> Use {
    Use::Private { owner, is_written }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shared_from_the_second_thread_to_a_long_run_of_one() {
        let (line, a, b) = (LineAddr(1 << 40), ThreadId(0), ThreadId(1));
        let mut filter = Filter::new(line, 1);
        filter.own(line, a, false);
        assert_eq!(filter.touch(line, a, true), Touch::Private);
        assert_eq!(filter.touch(line, b, false), Touch::BecameShared(a, true));
        for _ in 0..REPRIVATISE_RUN {
            assert_eq!(filter.touch(line, b, false), Touch::Shared);
            filter.priced(line, b);
        }
        assert_eq!(filter.touch(line, b, false), Touch::Private);
        assert_eq!(filter.touch(line, a, false), Touch::BecameShared(b, true));
        // Lines of the recording itself were filtered when it was made.
        assert_eq!(filter.touch(LineAddr(7), a, false), Touch::Shared);
    }
}
