//! Watches of words of programs that stay: the writes of all threads of a process, in turns.
//!
//! A thread is stopped at each write, for some microseconds. So each may write a number of times between two looks; when
//! one has, the turn of the word ends, and the next one begins with the next look.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use super::event::{self, Sight, Whom};
use super::{Seen, WATCHES_MAX, WatchedAccess, record};
use crate::clock::monotonic_ns;
use crate::procfs;
use crate::sampler::ring::Ring;

/// Writes of a thread between two looks. A write takes 1 to 12 us by host, so that is 3 % of a CPU at most.
const WRITES_MAX: u32 = 128;
/// Bytes of a thread's ring: twice what so many records take.
const RING_BYTES: usize = 128 << 10;
/// Threads that are watched for one word.
const THREADS_MAX: usize = 128;

/// A word of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchedWord {
    /// The process.
    pub pid: u32,
    /// The address in it.
    pub address: u64,
}

/// An event of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordEvent {
    /// From this moment on, in nanoseconds of `CLOCK_MONOTONIC`, no write is missed.
    Begins(u64),
    /// A thread has written, and stands behind the instruction.
    Writes(Box<Seen>),
    /// From this moment on writes are missed.
    Ends(u64),
}

/// Watches of words.
#[derive(Debug, Default)]
pub struct WordWatches {
    words: BTreeMap<WatchedWord, Word>,
    /// Threads that could not be watched, with the last reason.
    pub refused: Option<(u64, String)>,
}

#[derive(Debug)]
struct Word {
    bytes: u64,
    threads: BTreeMap<u32, Watch>,
    /// True within a turn.
    counts: bool,
    looked_ns: u64,
}

#[derive(Debug)]
struct Watch {
    ring: Ring,
    /// Writes after which it ends.
    left: u32,
}

/// Tells a BPF program of an event.
type Tell<'t> = &'t dyn Fn(BorrowedFd<'_>) -> io::Result<()>;

impl WordWatches {
    /// The words.
    pub fn words(&self) -> impl Iterator<Item = WatchedWord> + '_ {
        self.words.keys().copied()
    }

    /// Watches a word of so many bytes, from the next look on. Does nothing where no more words can be watched.
    pub fn add(&mut self, word: WatchedWord, bytes: u64) {
        let has_room = self.words.len() < WATCHES_MAX;
        let can_be = matches!(bytes, 1 | 2 | 4 | 8) && word.address.is_multiple_of(bytes);
        if has_room && can_be {
            self.words.entry(word).or_insert(Word {
                bytes,
                threads: BTreeMap::new(),
                counts: false,
                looked_ns: 0,
            });
        }
    }

    /// Leaves a word.
    pub fn remove(&mut self, word: WatchedWord) {
        self.words.remove(&word);
    }

    /// Passes what happened to `sink`, and begins turns. New watches are passed to `tell`.
    pub fn look(&mut self, tell: Tell<'_>, mut sink: impl FnMut(WatchedWord, WordEvent)) {
        for (word, of) in &mut self.words {
            of.drain(|event| sink(*word, event));
            if let Some((count, reason)) = of.follow(*word, tell) {
                let refused = self.refused.get_or_insert_default();
                *refused = (refused.0.max(count), reason);
            }
            if let Some(at) = of.arm() {
                sink(*word, WordEvent::Begins(at));
            }
        }
    }
}

impl Word {
    /// Passes the writes up to the moment at which the first thread had written too often.
    fn drain(&mut self, mut sink: impl FnMut(WordEvent)) {
        let mut writes = Vec::new();
        let mut end: Option<u64> = None;
        for watch in self.threads.values_mut() {
            let mut bytes = Vec::new();
            watch.ring.read(&mut bytes);
            let first = writes.len();
            let lost = record::parse(&bytes, |seen| writes.push(seen));
            watch.left = watch.left.saturating_sub((writes.len() - first) as u32);
            let last_ns = writes[first..].iter().map(|seen| seen.time_ns).max();
            let own = match (lost, last_ns) {
                (1.., _) => Some(self.looked_ns),
                (0, Some(last_ns)) if watch.left == 0 => Some(last_ns),
                _ => None,
            };
            end = end.into_iter().chain(own).min();
        }
        // An event that has reached its limit stays stopped on Linux 6.18, whatever is asked of it.
        self.threads.retain(|_, watch| watch.left > 0);
        if !self.counts {
            return;
        }
        writes.sort_by_key(|seen| seen.time_ns);
        let counted = writes
            .into_iter()
            .filter(|seen| end.is_none_or(|end| seen.time_ns <= end));
        counted.for_each(|seen| sink(WordEvent::Writes(Box::new(seen))));
        if let Some(end) = end {
            self.counts = false;
            sink(WordEvent::Ends(end));
        }
    }

    /// Opens watches of threads that have none, and leaves those that have ended. Returns the number of threads without
    /// one, and the last reason.
    fn follow(&mut self, word: WatchedWord, tell: Tell<'_>) -> Option<(u64, String)> {
        // A process that ended has no threads any more.
        let alive = procfs::threads(word.pid).unwrap_or_default();
        self.threads.retain(|tid, _| alive.contains(tid));
        let mut refused = None;
        for tid in alive {
            if self.threads.contains_key(&tid) {
                continue;
            }
            let opened = match self.threads.len() < THREADS_MAX {
                true => Watch::open(tid, [word.address, self.bytes], tell),
                false => Err(io::Error::other(format!(
                    "{THREADS_MAX} threads are the limit"
                ))),
            };
            match opened {
                Ok(watch) => drop(self.threads.insert(tid, watch)),
                // It ended between the listing and the open.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    let (count, reason) = refused.get_or_insert((0, String::new()));
                    (*count, *reason) = (*count + 1, error.to_string());
                }
            }
        }
        refused
    }

    /// Gives each thread its writes back. Returns the moment at which a turn begins, if one does.
    fn arm(&mut self) -> Option<u64> {
        let begins = !self.counts && !self.threads.is_empty();
        for watch in self
            .threads
            .values_mut()
            .filter(|watch| watch.left < WRITES_MAX)
        {
            event::arm(watch.ring.file(), WRITES_MAX - watch.left);
            watch.left = WRITES_MAX;
        }
        self.looked_ns = monotonic_ns();
        self.counts |= begins;
        begins.then_some(self.looked_ns)
    }
}

impl Watch {
    fn open(tid: u32, word: [u64; 2], tell: Tell<'_>) -> io::Result<Watch> {
        let opened = Sight::Programs.watch_bytes(Whom::Thread(tid), word, WatchedAccess::Write);
        let file = opened?;
        tell(file.as_fd())?;
        Ok(Watch {
            ring: Ring::of(file, RING_BYTES)?,
            left: 0,
        })
    }
}
