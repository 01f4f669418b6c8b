//! What was counted: accesses by member, function and kind, in the words of `perf c2c`, and the
//! cycles of each function.
//!
//! Statistics only: nothing here decides a price or an order.

use hitm_base::{AccessOp, Cycles, DataSource};
use hitm_coherence::stats::SourceCounts;
use indexmap::IndexSet;

use super::memory::Site;

/// A member as it is counted: all objects of one type together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberKey {
    /// Type of the object that was allocated.
    pub type_name: String,
    /// Path of the member in it; what a pointer leads to is written `member->`.
    pub path: String,
    /// Bytes from the start of the object, or of what the pointer leads to.
    pub offset_bytes: u64,
}

/// Accesses by one function to one member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileRow {
    /// Where the data came from.
    pub sources: SourceCounts,
    /// How many accesses.
    pub count: u64,
    /// Sum of their latencies.
    pub latency_sum: Cycles,
    /// The largest.
    pub latency_max: Cycles,
    /// The smallest.
    pub latency_min: Cycles,
    /// The part of the sum spent in the line's queue.
    pub queued: Cycles,
}

/// One row of [`Profile::rows`].
#[derive(Debug, Clone, Copy)]
pub struct ProfileEntry<'a> {
    /// What was accessed.
    pub member: &'a MemberKey,
    /// By which function.
    pub function: &'static str,
    /// How: load, posted store or locked operation.
    pub op: AccessOp,
    /// The counts.
    pub row: &'a ProfileRow,
}

/// What one access adds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) op: AccessOp,
    pub(super) source: DataSource,
    pub(super) latency: Cycles,
    pub(super) queued: Cycles,
}

/// The statistics of a run.
#[derive(Debug, Clone)]
pub struct Profile {
    sites: &'static [&'static str],
    members: IndexSet<MemberKey>,
    /// Row of (member, site, op), `NO_ROW` where nothing was counted.
    index: Vec<u32>,
    rows: Vec<ProfileRow>,
    keys: Vec<(u16, Site, AccessOp)>,
    work: Vec<Cycles>,
}

const OPS: usize = 3;
const NO_ROW: u32 = u32::MAX;

fn op_index(op: AccessOp) -> usize {
    match op {
        AccessOp::Load => 0,
        AccessOp::Store => 1,
        AccessOp::LockedRmw | AccessOp::Fence => 2,
    }
}

impl Profile {
    pub(super) fn new(sites: &'static [&'static str]) -> Profile {
        Profile {
            sites,
            members: IndexSet::new(),
            index: Vec::new(),
            rows: Vec::new(),
            keys: Vec::new(),
            work: vec![Cycles::ZERO; sites.len()],
        }
    }

    /// The number of a member, new or known.
    pub(super) fn member(&mut self, key: MemberKey) -> u16 {
        let (index, new) = self.members.insert_full(key);
        if new {
            let size = self.members.len() * self.sites.len() * OPS;
            self.index.resize(size, NO_ROW);
        }
        u16::try_from(index).expect("there are fewer than 65536 members")
    }

    #[inline]
    pub(super) fn add(&mut self, member: u16, site: Site, sample: Sample) {
        let cell = usize::from(member) * self.sites.len() + usize::from(site.0);
        let cell = cell * OPS + op_index(sample.op);
        let mut row = self.index[cell];
        if row == NO_ROW {
            row = self.rows.len() as u32;
            self.index[cell] = row;
            self.keys.push((member, site, sample.op));
            self.rows.push(ProfileRow {
                latency_min: Cycles::MAX,
                ..ProfileRow::default()
            });
        }
        let row = &mut self.rows[row as usize];
        row.sources.0[sample.source as usize] += 1;
        row.count += 1;
        row.latency_sum += sample.latency;
        row.latency_max = row.latency_max.max(sample.latency);
        row.latency_min = row.latency_min.min(sample.latency);
        row.queued += sample.queued;
    }

    #[inline]
    pub(super) fn add_work(&mut self, site: Site, span: Cycles) {
        self.work[usize::from(site.0)] += span;
    }

    /// Every row, in order of type, offset, function and kind.
    pub fn rows(&self) -> Vec<ProfileEntry<'_>> {
        let mut entries: Vec<ProfileEntry<'_>> = self
            .keys
            .iter()
            .zip(&self.rows)
            .map(|((member, site, op), row)| ProfileEntry {
                member: &self.members[usize::from(*member)],
                function: self.sites[usize::from(site.0)],
                op: *op,
                row,
            })
            .collect();
        entries.sort_by_key(|entry| {
            let member = entry.member;
            let place = (&member.type_name, member.offset_bytes, &member.path);
            (place, entry.function, entry.op)
        });
        entries
    }

    /// Cycles of each function that ran: its accesses and its own work, most first.
    pub fn functions(&self) -> Vec<(&'static str, Cycles)> {
        let mut sums = self.work.clone();
        for ((_, site, op), row) in self.keys.iter().zip(&self.rows) {
            // A posted store costs its function one cycle, whatever its line takes.
            let cost = match op {
                AccessOp::Store => Cycles(row.count),
                _ => row.latency_sum,
            };
            sums[usize::from(site.0)] += cost;
        }
        let mut functions: Vec<(&'static str, Cycles)> =
            self.sites.iter().copied().zip(sums).collect();
        functions.retain(|(_, sum)| *sum > Cycles::ZERO);
        functions.sort_by_key(|(name, sum)| (std::cmp::Reverse(*sum), *name));
        functions
    }

    /// Sum over the rows that `filter` accepts.
    pub fn total(&self, filter: impl Fn(&ProfileEntry<'_>) -> bool) -> ProfileRow {
        let mut sum = ProfileRow {
            latency_min: Cycles::MAX,
            ..ProfileRow::default()
        };
        for entry in self.rows().iter().filter(|entry| filter(entry)) {
            sum.sources.merge(&entry.row.sources);
            sum.count += entry.row.count;
            sum.latency_sum += entry.row.latency_sum;
            sum.latency_max = sum.latency_max.max(entry.row.latency_max);
            sum.latency_min = sum.latency_min.min(entry.row.latency_min);
            sum.queued += entry.row.queued;
        }
        sum
    }
}

impl ProfileRow {
    /// Mean latency in cycles, 0 when nothing was counted.
    pub fn latency_mean(&self) -> u64 {
        self.latency_sum.0.checked_div(self.count).unwrap_or(0)
    }
}
