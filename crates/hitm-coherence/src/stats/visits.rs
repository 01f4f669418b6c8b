//! Visits to a line: from an access that found it gone to the next one of the same thread that does.
//!
//! A visit would have been needed on any layout if it *met* others: if it read bytes that another thread has
//! written since this thread used them last, or wrote bytes that another thread has used since this thread
//! wrote them last. Else its cost comes from what else lies in the line. This is the classification of
//! essential and useless misses by M. Dubois, J. Skeppstedt, L. Ricciulli, K. Ramamurthy and P. Stenström,
//! "The Detection and Elimination of Useless Misses in Multiprocessors", ISCA 1993, with the right to write
//! counted as well.
//!
//! Accesses must come in the order in which the line saw them: samples and sums of hits have no visits.

use std::collections::BTreeMap;

use hitm_base::{Access, AccessOp, Cycles, LINE_SIZE, Outcome, ThreadId};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::{byte_mask, saturating_sum};

/// Kinds of visits to one line that are told apart by all their bytes; further ones by where they begin and
/// by what they meet.
const KINDS_MAX: usize = 1024;

/// A kind of visit. Bit i of a mask is byte i of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Visit {
    /// The bytes of the access that found the line gone.
    pub at: u64,
    /// Its operation.
    pub op: AccessOp,
    /// The bytes of the visit's first access that met others; 0 if none did.
    pub met: u64,
    /// The bytes that the visit read.
    pub read: u64,
    /// The bytes that it wrote.
    pub written: u64,
    /// The bytes that the thread used in its visit before.
    pub before: u64,
    /// The bytes that others have read since that began; if they did not come, those that they had read by then.
    pub others_read: u64,
    /// The bytes that others have written since.
    pub others_written: u64,
}

/// Visits of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VisitSum {
    /// Visits.
    pub count: u64,
    /// Those whose data, or whose right to write, came from another CPU.
    pub contended_count: u64,
    /// Cycles that their first accesses lost.
    pub lost: Cycles,
}

/// The visits to a line, by kind.
pub type Visits = BTreeMap<Visit, VisitSum>;

/// A visit that is not over.
#[derive(Debug, Clone, Copy)]
struct Open {
    visit: Visit,
    sum: VisitSum,
    /// The bytes of which it is known who used them before, when they are read and when they are written.
    /// Nobody looked who used a line before its first visit.
    known: (u64, u64),
}

/// What a thread and others have done to a line, as far as it matters to the thread's next access.
#[derive(Debug, Clone)]
struct Member {
    thread: ThreadId,
    /// Bytes that others have written since this thread used them.
    changed: u64,
    /// Bytes that others have used since this thread wrote them.
    used: u64,
    others_read: u64,
    others_written: u64,
    /// A visit has begun since others came.
    are_others_old: bool,
    /// The bytes of which the others know that this thread has read and written them in a phase.
    told: (u64, u64),
    told_phase: u64,
    open: Option<Open>,
    /// All bytes that it has read and written.
    own: (u64, u64),
    /// All bytes that others have used.
    seen: u64,
}

/// Finds the visits to one line.
#[derive(Debug, Clone, Default)]
pub(super) struct VisitFinder {
    members: Vec<Member>,
    index: IndexMap<ThreadId, usize, FxBuildHasher>,
    /// All bytes read and written so far.
    read: u64,
    written: u64,
    /// Number of accesses that found the line gone: in between nobody has to be told anything twice.
    phase: u64,
    kinds: IndexMap<Visit, VisitSum, FxBuildHasher>,
}

impl VisitFinder {
    /// The next access to the line. Locked operations read and write. Returns the memory that it takes more,
    /// in rows of a table.
    pub(super) fn add(&mut self, access: &Access, outcome: &Outcome) -> usize {
        let before = self.size_in_rows();
        let offset = (access.addr % LINE_SIZE) as u8;
        let bytes = byte_mask(offset, access.size.min(LINE_SIZE as u8 - offset));
        let read = if access.op == AccessOp::Store {
            0
        } else {
            bytes
        };
        let written = if access.op.is_write() { bytes } else { 0 };
        let member = self.member(access.thread);
        if outcome.is_handed_over() {
            self.phase += 1;
            let ended = self.members[member].begin(bytes, access.op, outcome);
            if let Some(ended) = ended {
                self.close(ended);
            }
        }
        let phase = self.phase;
        let is_news = self.members[member].use_bytes((read, written), phase);
        if is_news {
            self.tell(member, (read, written));
        }
        self.size_in_rows() - before
    }

    fn size_in_rows(&self) -> usize {
        2 * self.members.len() + self.kinds.len()
    }

    /// The visits, those that were not over as well.
    pub(super) fn finish(mut self) -> Visits {
        let open = self.members.iter_mut().filter_map(|one| one.open.take());
        for open in open.collect::<Vec<_>>() {
            self.close(open);
        }
        self.kinds.into_iter().collect()
    }

    fn member(&mut self, thread: ThreadId) -> usize {
        let count = self.members.len();
        let member = *self.index.entry(thread).or_insert(count);
        if member == count {
            self.members.push(Member {
                thread,
                changed: self.written,
                used: self.read | self.written,
                others_read: self.read,
                others_written: self.written,
                are_others_old: false,
                told: (0, 0),
                told_phase: 0,
                open: None,
                own: (0, 0),
                seen: self.read | self.written,
            });
        }
        member
    }

    fn close(&mut self, Open { visit, sum, known }: Open) {
        let unknown = visit.read & !known.0 | visit.written & !known.1;
        if visit.met == 0 && unknown != 0 {
            return;
        }
        let is_told_apart = self.kinds.len() < KINDS_MAX || self.kinds.contains_key(&visit);
        let visit = match is_told_apart {
            true => visit,
            false => Visit {
                read: if visit.op == AccessOp::Store {
                    0
                } else {
                    visit.at
                },
                written: if visit.op.is_write() { visit.at } else { 0 },
                before: 0,
                others_read: 0,
                others_written: 0,
                ..visit
            },
        };
        self.kinds.entry(visit).or_default().merge(&sum);
    }

    fn tell(&mut self, member: usize, (read, written): (u64, u64)) {
        self.read |= read;
        self.written |= written;
        let teller = self.members[member].thread;
        for other in self.members.iter_mut().filter(|one| one.thread != teller) {
            other.changed |= written;
            other.used |= read | written;
            other.seen |= read | written;
            if std::mem::take(&mut other.are_others_old) {
                (other.others_read, other.others_written) = (0, 0);
            }
            other.others_read |= read;
            other.others_written |= written;
        }
    }
}

impl Member {
    /// Begins a visit, and ends the one before.
    fn begin(&mut self, at: u64, op: AccessOp, outcome: &Outcome) -> Option<Open> {
        let visit = Visit {
            at,
            op,
            met: 0,
            read: 0,
            written: 0,
            before: self
                .open
                .map_or(0, |open| open.visit.read | open.visit.written),
            others_read: self.others_read,
            others_written: self.others_written,
        };
        let sum = VisitSum {
            count: 1,
            contended_count: u64::from(outcome.source.is_contention()),
            lost: outcome.lost,
        };
        self.are_others_old = true;
        let (read, written) = self.own;
        let known = (self.seen | read | written, self.seen | written);
        self.open.replace(Open { visit, sum, known })
    }

    /// Uses bytes; returns true if the others do not know that in this phase.
    fn use_bytes(&mut self, (read, written): (u64, u64), phase: u64) -> bool {
        if let Some(Open { visit, .. }) = &mut self.open {
            if visit.met == 0 && (self.changed & read | self.used & written) != 0 {
                visit.met = read | written;
            }
            visit.read |= read;
            visit.written |= written;
        }
        self.own.0 |= read;
        self.own.1 |= written;
        self.changed &= !(read | written);
        self.used &= !written;
        if self.told_phase != phase {
            (self.told, self.told_phase) = ((0, 0), phase);
        }
        let is_news = read & !self.told.0 != 0 || written & !self.told.1 != 0;
        self.told.0 |= read;
        self.told.1 |= written;
        is_news
    }
}

impl VisitSum {
    /// Adds other visits.
    pub fn merge(&mut self, other: &VisitSum) {
        self.count += other.count;
        self.contended_count += other.contended_count;
        self.lost = saturating_sum(self.lost, other.lost);
    }
}
