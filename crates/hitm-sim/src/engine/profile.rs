//! Counts of a run: accesses by member, function and kind, in the words of `perf c2c`, and the
//! cycles of each function.
//!
//! Statistics only: nothing here decides a price or an order.

use std::collections::BTreeMap;

use hitm_base::{AccessOp, Cycles, DataSource, Machine};
use hitm_coherence::prefetch::prefetch;
use hitm_coherence::stats::{CpuSet, SourceCounts};
use indexmap::IndexSet;

use super::log::{BLOCK, Key, Sample, hit};
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

impl MemberKey {
    /// The key of a member.
    pub fn new(type_name: &str, path: &str, offset_bytes: u64) -> MemberKey {
        MemberKey {
            type_name: type_name.to_owned(),
            path: path.to_owned(),
            offset_bytes,
        }
    }
}

/// Accesses by one function to one member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileRow {
    /// Accesses by the source of their data.
    pub sources: SourceCounts,
    /// Number of accesses.
    pub count: u64,
    /// Sum of their latencies.
    pub latency_sum: Cycles,
    /// The largest.
    pub latency_max: Cycles,
    /// The smallest.
    pub latency_min: Cycles,
    /// The part of the sum spent in the line's queue.
    pub queued: Cycles,
    /// Accesses of lines that a core of another NUMA node had modified.
    pub node_hitm: u64,
    /// The CPUs that made them.
    pub cpus: CpuSet,
}

/// One row of [`Profile::rows`].
#[derive(Debug, Clone, Copy)]
pub struct ProfileEntry<'a> {
    /// The member that was accessed.
    pub member: &'a MemberKey,
    /// The function that accessed it.
    pub function: &'static str,
    /// Kind of access: load, posted store or locked operation.
    pub op: AccessOp,
    /// The counts.
    pub row: &'a ProfileRow,
}

/// The statistics of a run.
#[derive(Debug, Clone)]
pub struct Profile {
    sites: &'static [&'static str],
    members: IndexSet<MemberKey>,
    /// By (member, site, op): the row, `NO_ROW` where nothing was counted. In the low [`HIT_BITS`]
    /// how many hits in the core's L1 in their usual time. Of these there are most; the full row is
    /// three cache lines of the host. [`Profile::settled`] brings them into the row.
    cells: Vec<u64>,
    /// Latency of such a hit, by operation.
    hit_latencies: [Cycles; OPS],
    rows: Vec<ProfileRow>,
    /// By row: a bit for each CPU that made an access, in so many words; part of the row once it is
    /// settled.
    cpus: Vec<u64>,
    cpu_words: usize,
    keys: Vec<(u16, Site, AccessOp)>,
    work: Vec<Cycles>,
    calls: Vec<u64>,
    /// Objects in use, by type.
    objects: BTreeMap<String, u64>,
}

/// Cost of a store for its function and, when its line is there, for the store buffer.
pub(super) const STORE_HIT_LATENCY: Cycles = Cycles(1);

const OPS: usize = 3;
/// Bits of a cell for its hits; the rest, of which there are enough for a million rows, is the row.
const HIT_BITS: u32 = 44;
const NO_ROW: u64 = u64::MAX >> HIT_BITS;
const NO_CELL: u64 = NO_ROW << HIT_BITS;

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
            cells: Vec::new(),
            hit_latencies: [machine.caches.l1.latency, STORE_HIT_LATENCY, locked],
            rows: Vec::new(),
            cpus: Vec::new(),
            cpu_words: machine.topology.cpu_count().div_ceil(64),
            keys: Vec::new(),
            work: vec![Cycles::ZERO; sites.len()],
            calls: vec![0; sites.len()],
            objects: BTreeMap::new(),
        }
    }

    /// The member of a number.
    pub(super) fn member_key(&self, member: usize) -> Option<&MemberKey> {
        self.members.get_index(member)
    }

    /// The number of a member, new or known.
    pub(super) fn member(&mut self, key: MemberKey) -> u16 {
        let (index, new) = self.members.insert_full(key);
        if new {
            let size = self.members.len() * self.sites.len() * OPS;
            self.cells.resize(size, NO_CELL);
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

    /// Returns the number of objects of a type in use: those of a type are counted together.
    pub fn object_count(&self, type_name: &str) -> u64 {
        self.objects.get(type_name).copied().unwrap_or(0)
    }

    /// Counts a block of accesses, at most [`BLOCK`].
    pub(super) fn count(&mut self, keys: &[Key], samples: &[Sample]) {
        for key in keys {
            prefetch(&self.cells, key.cell as usize);
        }
        let mut rows = [0u32; BLOCK];
        // Samples that are more than a hit are collected without a branch, which would be
        // mispredicted.
        let mut others = [0u8; BLOCK];
        let mut other_count = 0;
        for (index, (row, key)) in rows.iter_mut().zip(keys).enumerate() {
            *row = self.add_hits(key.cell, u64::from(key.is_plain_hit));
            others[other_count % BLOCK] = index as u8;
            other_count += usize::from(!key.is_plain_hit);
            prefetch(&self.cpus, *row as usize * self.cpu_words);
        }
        for (row, key) in rows.iter().zip(keys) {
            self.note_cpu(*row, key.cpu);
        }
        let others = others.iter().take(other_count).copied().map(usize::from);
        for index in others {
            self.rows[rows[index % BLOCK] as usize].add(&samples[index], 1);
        }
    }

    /// Counts loads by a CPU, so many, that its L1 answered in the usual time.
    pub(super) fn count_loads(&mut self, member: u16, site: Site, cpu: u16, count: u64) {
        let row = self.add_hits(self.cell(member, site, AccessOp::Load), count);
        self.note_cpu(row, cpu);
    }

    /// Counts hits in the L1 in their usual time, if any; returns the row, which is new or known.
    #[inline]
    fn add_hits(&mut self, index: u32, count: u64) -> u32 {
        let mut cell = self.cells[index as usize];
        if cell >> HIT_BITS == NO_ROW {
            cell = self.add_row(index);
        }
        self.cells[index as usize] = cell + count;
        (cell >> HIT_BITS) as u32
    }

    #[inline]
    fn note_cpu(&mut self, row: u32, cpu: u16) {
        let cpu = usize::from(cpu);
        self.cpus[row as usize * self.cpu_words + cpu / 64] |= 1 << (cpu % 64);
    }

    #[inline]
    fn cell(&self, member: u16, site: Site, op: AccessOp) -> u32 {
        let cell = u32::from(member) * self.sites.len() as u32 + u32::from(site.0);
        cell * OPS as u32 + op_index(op) as u32
    }

    /// Returns the key under which an access is counted.
    #[inline]
    pub(super) fn key(&self, member: u16, site: Site, cpu: u16, sample: &Sample) -> Key {
        Key {
            cell: self.cell(member, site, sample.op),
            cpu,
            is_plain_hit: (sample.source == DataSource::L1)
                & (sample.latency == self.hit_latencies[op_index(sample.op)])
                & (sample.queued == Cycles::ZERO),
        }
    }

    /// Begins to count what has a cell but no row yet; returns the cell.
    #[cold]
    #[inline(never)]
    fn add_row(&mut self, cell: u32) -> u64 {
        let row = self.rows.len() as u64;
        assert!(row < NO_ROW, "there are fewer than a million rows");
        let ops = [AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw];
        let (cell, op) = (cell as usize / OPS, ops[cell as usize % OPS]);
        let (member, site) = (cell / self.sites.len(), cell % self.sites.len());
        self.keys.push((member as u16, Site(site as u16), op));
        self.cpus.resize(self.cpus.len() + self.cpu_words, 0);
        self.rows.push(ProfileRow {
            latency_min: Cycles::MAX,
            ..ProfileRow::default()
        });
        row << HIT_BITS
    }

    /// The statistics so far, whole.
    pub(super) fn settled(&self) -> Profile {
        let mut settled = self.clone();
        for cell in &mut settled.cells {
            let (row, hits) = (*cell >> HIT_BITS, *cell & ((1 << HIT_BITS) - 1));
            if row == NO_ROW {
                continue;
            }
            *cell -= hits;
            let (_, _, op) = self.keys[row as usize];
            let hit = hit(op, DataSource::L1, self.hit_latencies[op_index(op)]);
            settled.rows[row as usize].add(&hit, hits);
        }
        let cpus = settled.cpus.chunks(settled.cpu_words);
        for (row, words) in settled.rows.iter_mut().zip(cpus) {
            row.cpus = CpuSet::of_words(words);
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

    /// Number of calls of each function that was called.
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
            sum.node_hitm += entry.row.node_hitm;
            sum.cpus.merge(&entry.row.cpus);
        }
        sum
    }
}

impl ProfileRow {
    /// Counts `count` equal accesses.
    fn add(&mut self, sample: &Sample, count: u64) {
        if count == 0 {
            return;
        }
        self.sources.0[sample.source as usize] += count;
        self.count += count;
        self.latency_sum += Cycles(sample.latency.0 * count);
        self.latency_max = self.latency_max.max(sample.latency);
        self.latency_min = self.latency_min.min(sample.latency);
        self.queued += Cycles(sample.queued.0 * count);
        self.node_hitm += u64::from(sample.other_node) * count;
    }

    /// Mean latency in cycles, 0 when nothing was counted.
    pub fn latency_mean(&self) -> u64 {
        self.latency_sum.0.checked_div(self.count).unwrap_or(0)
    }
}
