//! What was counted: accesses by member, function and kind, in the words of `perf c2c`, and the
//! cycles of each function.
//!
//! Statistics only: nothing here decides a price or an order.

use std::collections::BTreeMap;

use hitm_base::{AccessOp, Cycles, DataSource, Machine};
use hitm_coherence::stats::{CpuSet, SourceCounts};
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
    /// The CPUs that made them.
    pub cpus: CpuSet,
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
    /// By row: hits in the core's L1 in their usual time, of which there are most, and which would
    /// touch three cache lines of the host in the full row; then a bit for each CPU that made an
    /// access. [`Profile::settled`] brings both into the row.
    hits: Vec<u64>,
    /// What they take, by operation.
    hit_latencies: [Cycles; OPS],
    rows: Vec<ProfileRow>,
    /// Words of `hits` for each row.
    hit_words: usize,
    keys: Vec<(u16, Site, AccessOp)>,
    work: Vec<Cycles>,
    calls: Vec<u64>,
    /// Objects in use, by type.
    objects: BTreeMap<String, u64>,
}

/// What a store costs its function and, when its line is there, the store buffer.
pub(super) const STORE_HIT_LATENCY: Cycles = Cycles(1);

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
    pub(super) fn new(sites: &'static [&'static str], machine: &Machine) -> Profile {
        let locked = machine.core.locked_hit;
        Profile {
            sites,
            members: IndexSet::new(),
            index: Vec::new(),
            hits: Vec::new(),
            hit_latencies: [machine.caches.l1.latency, STORE_HIT_LATENCY, locked],
            rows: Vec::new(),
            hit_words: 1 + machine.topology.cpu_count().div_ceil(64),
            keys: Vec::new(),
            work: vec![Cycles::ZERO; sites.len()],
            calls: vec![0; sites.len()],
            objects: BTreeMap::new(),
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

    /// Counts an object of a type.
    pub(super) fn add_object(&mut self, type_name: &str) {
        *self.objects.entry(type_name.to_owned()).or_default() += 1;
    }

    /// Counts an object that has this member.
    pub(super) fn add_object_with(&mut self, member: u16) {
        let type_name = self.members[usize::from(member)].type_name.clone();
        self.add_object(&type_name);
    }

    /// How many objects of a type were in use: those of a type are counted together.
    pub fn object_count(&self, type_name: &str) -> u64 {
        self.objects.get(type_name).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn add(&mut self, (member, site): (u16, Site), cpu: usize, sample: Sample) {
        let op = op_index(sample.op);
        let row = self.row((member, site, op), sample.op);
        let first = row * self.hit_words;
        self.hits[first + 1 + cpu / 64] |= 1 << (cpu % 64);
        let is_plain = (sample.source == DataSource::L1)
            & (sample.latency == self.hit_latencies[op])
            & (sample.queued == Cycles::ZERO);
        if is_plain {
            self.hits[first] += 1;
        } else {
            self.rows[row].add(sample, 1);
        }
    }

    #[inline]
    fn row(&mut self, (member, site, op_index): (u16, Site, usize), op: AccessOp) -> usize {
        let cell = usize::from(member) * self.sites.len() + usize::from(site.0);
        let cell = cell * OPS + op_index;
        match self.index[cell] {
            NO_ROW => self.new_row(cell, (member, site, op)),
            row => row as usize,
        }
    }

    #[cold]
    #[inline(never)]
    fn new_row(&mut self, cell: usize, key: (u16, Site, AccessOp)) -> usize {
        let row = self.rows.len();
        self.index[cell] = row as u32;
        self.keys.push(key);
        self.hits.resize(self.hits.len() + self.hit_words, 0);
        self.rows.push(ProfileRow {
            latency_min: Cycles::MAX,
            ..ProfileRow::default()
        });
        row
    }

    /// The statistics so far, whole.
    pub(super) fn settled(&self) -> Profile {
        let mut settled = self.clone();
        let counted = settled.hits.chunks_mut(settled.hit_words);
        let rows = settled.rows.iter_mut().zip(counted);
        for ((row, counted), (_, _, op)) in rows.zip(&self.keys) {
            let sample = Sample {
                op: *op,
                source: DataSource::L1,
                latency: self.hit_latencies[op_index(*op)],
                queued: Cycles::ZERO,
            };
            row.add(sample, std::mem::take(&mut counted[0]));
            row.cpus = CpuSet::of_words(&counted[1..]);
        }
        settled
    }

    /// Cycles that all CPUs together stood still for lines: what loads and locked operations took
    /// beyond a hit. Posted stores are not waited for.
    pub fn stall_sum(&self) -> Cycles {
        let rows = self.keys.iter().zip(&self.rows);
        let waited = rows.filter(|((_, _, op), _)| *op != AccessOp::Store);
        let stall = |((_, _, op), row): (&(u16, Site, AccessOp), &ProfileRow)| {
            let hits = self.hit_latencies[op_index(*op)].0 * row.count;
            row.latency_sum.0.saturating_sub(hits)
        };
        Cycles(waited.map(stall).sum())
    }

    #[inline]
    pub(super) fn add_work(&mut self, site: Site, span: Cycles) {
        self.work[usize::from(site.0)] += span;
    }

    #[inline]
    pub(super) fn add_call(&mut self, site: Site) {
        self.calls[usize::from(site.0)] += 1;
    }

    /// How often each function was called that was.
    pub fn calls(&self) -> BTreeMap<&'static str, u64> {
        let all = self.sites.iter().copied().zip(self.calls.iter().copied());
        all.filter(|(_, count)| *count > 0).collect()
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
            sum.cpus.merge(&entry.row.cpus);
        }
        sum
    }
}

impl ProfileRow {
    /// Counts `count` equal accesses.
    fn add(&mut self, sample: Sample, count: u64) {
        if count == 0 {
            return;
        }
        self.sources.0[sample.source as usize] += count;
        self.count += count;
        self.latency_sum += Cycles(sample.latency.0 * count);
        self.latency_max = self.latency_max.max(sample.latency);
        self.latency_min = self.latency_min.min(sample.latency);
        self.queued += Cycles(sample.queued.0 * count);
    }

    /// Mean latency in cycles, 0 when nothing was counted.
    pub fn latency_mean(&self) -> u64 {
        self.latency_sum.0.checked_div(self.count).unwrap_or(0)
    }
}
