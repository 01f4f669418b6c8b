//! The recorder's filter, once more, for lines whose contents were moved together or apart: an
//! access to a line that one thread alone uses is no access of the weave.
//!
//! The rules are those of the recorder (`hitm-qemu`, `first_touch` and `output`). A line is private
//! until a second thread touches it. If its owner has left it alone for [`HAND_OVER_EPOCHS`], that
//! thread takes it over, with its first access and its first write recorded. Else the line is
//! shared, until one thread has used it for [`REPRIVATISE_RUN`] accesses in a row.
//!
//! Not modelled, and why: lines that are only read, of which the recorder keeps each thread's first
//! read. The others hit its own caches, which costs nothing here either.

use hitm_base::{LineAddr, ThreadId};

/// Accesses in a row by one thread after which a shared line is that thread's alone again. Large
/// enough that a lock taken by turns stays shared, small against what a private line costs when
/// every access is recorded.
pub const REPRIVATISE_RUN: u32 = 256;

/// Windows for which the owner of a private line has left it alone when the line goes over to the
/// next thread that comes, instead of becoming shared. One is too few: within a window threads run
/// one after the other on the host, so that users of one line may look as if they took turns.
pub const HAND_OVER_EPOCHS: i32 = 2;

/// Answer of the filter for an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Private,
    Recorded,
    /// The access is recorded; until now the line was that thread's, which may have written to it.
    TakenFrom(ThreadId, bool),
}

/// Thread that touches a line, and the epoch of virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Toucher {
    pub(crate) thread: ThreadId,
    pub(crate) epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Untouched,
    Private(Owned),
    Shared {
        runner: ThreadId,
        run: u32,
        has_written: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owned {
    owner: ThreadId,
    is_written: bool,
    /// The weave has the line, and the owner's first write to it.
    is_known: bool,
    /// Epoch of the owner's last touch.
    epoch: u64,
}

impl Owned {
    /// The owner touches its line again.
    fn touch(mut self, by: Toucher, is_write: bool) -> (Use, Touch) {
        let is_first_write = is_write && self.is_known && !self.is_written;
        self.epoch = by.epoch;
        self.is_written |= is_write;
        let touch = match is_first_write {
            true => Touch::Recorded,
            false => Touch::Private,
        };
        (Use::Private(self), touch)
    }

    /// Another thread touches the line.
    fn give(self, by: Toucher, is_write: bool) -> (Use, Touch) {
        let is_left_alone = by.epoch >= self.epoch.saturating_add(HAND_OVER_EPOCHS as u64);
        let next = match is_left_alone {
            true => Use::Private(Owned {
                owner: by.thread,
                is_written: is_write,
                is_known: true,
                epoch: by.epoch,
            }),
            false => Use::Shared {
                runner: by.thread,
                run: 0,
                has_written: false,
            },
        };
        match self.is_known {
            true => (next, Touch::Recorded),
            false => (next, Touch::TakenFrom(self.owner, self.is_written)),
        }
    }
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

    /// Returns true if this filter decides about the line.
    pub(crate) fn covers(&self, line: LineAddr) -> bool {
        self.index(line).is_some()
    }

    /// Makes known who used the line before the recording had accesses to it, if nobody else is
    /// known to have.
    pub(crate) fn own(&mut self, line: LineAddr, owner: Toucher, is_written: bool) {
        let Some(index) = self.index(line) else {
            return;
        };
        if self.uses[index] == Use::Untouched {
            self.uses[index] = Use::Private(Owned {
                owner: owner.thread,
                is_written,
                is_known: false,
                epoch: owner.epoch,
            });
        }
    }

    /// Somebody touches the line.
    pub(crate) fn touch(&mut self, line: LineAddr, by: Toucher, is_write: bool) -> Touch {
        let Some(index) = self.index(line) else {
            return Touch::Recorded;
        };
        let (next, touch) = match self.uses[index] {
            Use::Untouched => {
                let owned = Owned {
                    owner: by.thread,
                    is_written: is_write,
                    is_known: false,
                    epoch: by.epoch,
                };
                (Use::Private(owned), Touch::Private)
            }
            Use::Private(owned) if owned.owner == by.thread => owned.touch(by, is_write),
            Use::Private(owned) => owned.give(by, is_write),
            shared @ Use::Shared { .. } => (shared, Touch::Recorded),
        };
        self.uses[index] = next;
        touch
    }

    /// An access of the weave to the line was priced, in that epoch.
    pub(crate) fn priced(&mut self, line: LineAddr, by: Toucher, is_write: bool) {
        let Some(index) = self.index(line) else {
            return;
        };
        let Use::Shared {
            runner,
            run,
            has_written,
        } = self.uses[index]
        else {
            return;
        };
        let (run, has_written) = match runner == by.thread {
            true => (run + 1, has_written || is_write),
            false => (1, is_write),
        };
        self.uses[index] = match run < REPRIVATISE_RUN {
            true => Use::Shared {
                runner: by.thread,
                run,
                has_written,
            },
            false => Use::Private(Owned {
                owner: by.thread,
                is_written: has_written,
                is_known: true,
                epoch: by.epoch,
            }),
        };
    }

    fn index(&self, line: LineAddr) -> Option<usize> {
        let index = line.0.checked_sub(self.first.0)?;
        (index < self.uses.len() as u64).then_some(index as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: LineAddr = LineAddr(1 << 40);

    fn at(thread: u32, epoch: u64) -> Toucher {
        let thread = ThreadId(thread);
        Toucher { thread, epoch }
    }

    fn taken_from(thread: u32, is_written: bool) -> Touch {
        Touch::TakenFrom(ThreadId(thread), is_written)
    }

    #[test]
    fn a_line_is_shared_from_the_second_thread_to_a_long_run_of_one() {
        let mut filter = Filter::new(LINE, 1);
        filter.own(LINE, at(0, 5), false);
        assert_eq!(filter.touch(LINE, at(0, 5), true), Touch::Private);
        assert_eq!(filter.touch(LINE, at(1, 6), false), taken_from(0, true));
        for _ in 0..REPRIVATISE_RUN {
            assert_eq!(filter.touch(LINE, at(1, 6), false), Touch::Recorded);
            filter.priced(LINE, at(1, 6), false);
        }
        assert_eq!(filter.touch(LINE, at(1, 6), false), Touch::Private);
        // The run had no write in it: the next one tells the weave that the line is dirty.
        assert_eq!(filter.touch(LINE, at(1, 6), true), Touch::Recorded);
        assert_eq!(filter.touch(LINE, at(1, 6), true), Touch::Private);
        assert_eq!(filter.touch(LINE, at(0, 6), true), Touch::Recorded);
        // Lines of the recording itself were filtered when it was made.
        assert_eq!(filter.touch(LineAddr(7), at(0, 6), false), Touch::Recorded);
    }

    #[test]
    fn a_line_left_alone_is_handed_over_with_its_first_access_and_first_write() {
        let mut filter = Filter::new(LINE, 1);
        assert_eq!(filter.touch(LINE, at(0, 3), true), Touch::Private);
        assert_eq!(filter.touch(LINE, at(1, 5), false), taken_from(0, true));
        assert_eq!(filter.touch(LINE, at(1, 5), false), Touch::Private);
        assert_eq!(filter.touch(LINE, at(1, 6), true), Touch::Recorded);
        assert_eq!(filter.touch(LINE, at(1, 6), true), Touch::Private);
        assert_eq!(filter.touch(LINE, at(2, 8), true), Touch::Recorded);
        assert_eq!(filter.touch(LINE, at(2, 8), true), Touch::Private);
        assert_eq!(filter.touch(LINE, at(0, 9), false), Touch::Recorded);
        assert_eq!(
            filter.touch(LINE, at(0, 99), false),
            Touch::Recorded,
            "too soon: shared"
        );
    }
}
