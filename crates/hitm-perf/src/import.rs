//! From samples to accesses of a recording.
//!
//! Fields that a sample lacks get values that change no count. Every access has one byte, and a
//! store without a level completed in its store buffer. Samples that cannot become an access are
//! counted by reason.
//!
//! Memory that processes share has an address in each of them. Where samples have physical addresses,
//! [`Importer::aliases`] finds lines that are one.

use std::collections::BTreeMap;

use hitm_base::{
    Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, LINE_SIZE, LineAddr, Outcome, ThreadId,
};
use hitm_trace::{COUNT_MAX, LATENCY_MAX};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::left_out::left_out;
use crate::spaces::Spaces;
use crate::{DataSrc, Sample, TaskId, tlb};

left_out! {
    /// Samples that are no access of a recording, by reason.
    Rejected:
    /// Neither load nor store.
    no_operation, "samples are neither loads nor stores";
    /// Without an address.
    no_address, "samples have no address";
    /// Loads that do not say where the data came from.
    no_source, "loads do not say where their data came from";
    /// With a time, a latency or an address that no recording may hold.
    out_of_range, "samples have a time, a latency or an address beyond all that can be";
    /// Of more threads than are kept.
    too_many_threads, "samples are of more threads than are kept";
    /// Samples that do not say on which CPU they were taken; they count, for CPU 0.
    no_cpu, "samples do not say on which CPU they were taken: counted for CPU 0";
    /// Samples of lines whose physical addresses are more than are compared; they count.
    not_compared, "samples are of lines whose physical addresses are more than are compared";
}

/// Threads that are numbered, some 200 bytes each. A machine runs as many in an hour of compiling.
const THREADS_MAX: usize = 1 << 17;

/// Lines whose physical addresses are compared, some 40 bytes each.
const PHYSICAL_MAX: usize = 1 << 20;

/// Entries of each cache of recent results, indexed by a few bits of the key. Threads and words
/// repeat, and a look-up costs as much as all other work on a sample.
const RECENT_COUNT: usize = 64;

type RecentWord = (DataSrc, Option<(AccessOp, Option<DataSource>)>);

#[derive(Debug)]
struct Recent {
    words: [RecentWord; RECENT_COUNT],
    threads: [Option<((TaskId, TaskId), ThreadId)>; RECENT_COUNT],
}

impl Default for Recent {
    fn default() -> Recent {
        let none = DataSrc::default();
        Recent {
            words: [(none, none.access()); RECENT_COUNT],
            threads: [None; RECENT_COUNT],
        }
    }
}

impl Recent {
    #[inline]
    fn access(&mut self, word: DataSrc) -> Option<(AccessOp, Option<DataSource>)> {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let slot = &mut self.words[(word.0.wrapping_mul(SPREAD) >> 58) as usize % RECENT_COUNT];
        if slot.0 != word {
            *slot = (word, word.access());
        }
        slot.1
    }
}

/// Turns samples into accesses, and numbers threads and processes as they appear.
#[derive(Debug, Default)]
pub struct Importer {
    /// The processes, and the tags that keep their addresses apart.
    pub spaces: Spaces,
    /// Samples that became no access, by reason.
    pub rejected: Rejected,
    /// Accesses whose samples say whether the address was found in a TLB.
    pub tlb_known_count: u64,
    /// The part of these that missed it.
    pub tlb_miss_count: u64,
    threads: IndexMap<(TaskId, TaskId), (CpuId, u64), FxBuildHasher>,
    cpu_max: Option<u16>,
    recent: Recent,
    /// Physical lines, by the line of the common space, in the order of appearance.
    physical: IndexMap<LineAddr, u64, FxBuildHasher>,
    aliases: Aliases,
    /// Set when `aliases` is complete, so that no physical address is compared.
    has_all_aliases: bool,
    /// Buffer of [`Importer::callers`].
    callers: Vec<CodeAddr>,
}

/// Returns true if a recording may hold the sample's numbers. The last line of the address space
/// holds nothing.
#[inline]
fn is_in_range(sample: &Sample) -> bool {
    sample.time_ns <= COUNT_MAX
        && sample.weight <= LATENCY_MAX
        && sample.addr < u64::MAX - LINE_SIZE
}

/// Lines with several addresses: each with the one that it is counted under.
pub type Aliases = BTreeMap<LineAddr, LineAddr>;

impl Importer {
    /// An importer that knows these processes already.
    pub fn of_spaces(spaces: Spaces) -> Importer {
        Importer {
            spaces,
            ..Importer::default()
        }
    }

    /// Counts lines under their aliases.
    pub fn with_aliases(self, aliases: Aliases) -> Importer {
        Importer { aliases, ..self }
    }

    /// Like [`Importer::with_aliases`], for samples that were read before: searches for no more
    /// aliases.
    pub fn with_all_aliases(self, aliases: Aliases) -> Importer {
        Importer {
            has_all_aliases: true,
            ..self.with_aliases(aliases)
        }
    }

    /// Returns lines whose samples had one physical line under different addresses, each with the
    /// address that appeared first. Lines of memory that `is_private` to its process are left out:
    /// a page that one process freed and another one got is not shared.
    pub fn aliases(&self, is_private: impl Fn(LineAddr) -> bool) -> Aliases {
        let mut first: BTreeMap<u64, LineAddr> = BTreeMap::new();
        let mut aliases = Aliases::new();
        for (line, physical) in &self.physical {
            if is_private(*line) {
                continue;
            }
            let same = *first.entry(*physical).or_insert(*line);
            if same != *line {
                aliases.insert(*line, same);
            }
        }
        aliases
    }

    /// Returns the access of a sample and its outcome. A sample that is none is counted by reason.
    #[inline]
    pub fn access(&mut self, sample: &Sample) -> Option<(Access, Outcome)> {
        let Some((op, source)) = self.recent.access(sample.data_src) else {
            self.rejected.no_operation += 1;
            return None;
        };
        if sample.addr == 0 {
            self.rejected.no_address += 1;
            return None;
        }
        if !is_in_range(sample) {
            self.rejected.out_of_range += 1;
            return None;
        }
        let source = match (source, op) {
            (Some(source), _) => source,
            (None, AccessOp::Store) => DataSource::StoreBuffer,
            (None, _) => {
                self.rejected.no_source += 1;
                return None;
            }
        };
        let cpu = match u16::try_from(sample.cpu) {
            Ok(cpu) => cpu,
            Err(_) => {
                self.rejected.no_cpu += 1;
                0
            }
        };
        let Some(thread) = self.thread(sample, CpuId(cpu)) else {
            self.rejected.too_many_threads += 1;
            return None;
        };
        self.cpu_max = self.cpu_max.max(Some(cpu));
        let translated = sample.data_src.tlb();
        self.tlb_known_count += u64::from(translated & (tlb::HIT | tlb::MISS) != 0);
        self.tlb_miss_count += u64::from(translated & tlb::MISS != 0);
        let addr = self.address(sample);
        let latency = Cycles(sample.weight);
        // Plain stores are posted: no CPU waited.
        let stall = if op == AccessOp::Store {
            Cycles::ZERO
        } else {
            latency
        };
        let access = Access {
            thread,
            cpu: CpuId(cpu),
            time: Cycles(sample.time_ns),
            addr,
            size: 1,
            op,
            code: CodeAddr(self.spaces.pack(sample.process(), sample.ip)),
        };
        let outcome = Outcome::by_source(source, latency, Cycles::ZERO, stall);
        Some((access, outcome))
    }

    /// The return addresses of a sample's call chain in the common space.
    pub fn callers(&mut self, sample: &Sample, callers: &[u64]) -> &[CodeAddr] {
        self.callers.clear();
        for addr in callers {
            let addr = self.spaces.pack(sample.process(), *addr);
            self.callers.push(CodeAddr(addr));
        }
        &self.callers
    }

    /// Address in the common space. Learns the physical line of a sample that has one.
    #[inline]
    fn address(&mut self, sample: &Sample) -> u64 {
        let addr = self.spaces.pack(sample.process(), sample.addr);
        if sample.phys_addr == 0 {
            return addr;
        }
        let line = LineAddr::of(addr);
        if !self.has_all_aliases {
            self.compare(line, sample.phys_addr / LINE_SIZE);
        }
        match self.aliases.get(&line) {
            Some(same) => same.first_byte() + addr % LINE_SIZE,
            None => addr,
        }
    }

    fn compare(&mut self, line: LineAddr, physical: u64) {
        if self.physical.len() < PHYSICAL_MAX {
            self.physical.entry(line).or_insert(physical);
        } else if !self.physical.contains_key(&line) {
            self.rejected.not_compared += 1;
        }
    }

    /// The thread's number; none when there are too many.
    #[inline]
    fn thread(&mut self, sample: &Sample, cpu: CpuId) -> Option<ThreadId> {
        let ids = (sample.process(), sample.thread());
        let slot = &mut self.recent.threads[sample.tid as usize % RECENT_COUNT];
        if let Some((last, thread)) = *slot
            && last == ids
        {
            return Some(thread);
        }
        let known = self.threads.get_index_of(&ids);
        if known.is_none() && self.threads.len() == THREADS_MAX {
            return None;
        }
        let first = (cpu, sample.time_ns);
        let index = known.unwrap_or_else(|| self.threads.insert_full(ids, first).0);
        let thread = ThreadId(index as u32);
        *slot = Some((ids, thread));
        Some(thread)
    }

    /// Threads by number: process and thread, first CPU and first time.
    pub fn threads(&self) -> impl Iterator<Item = ((TaskId, TaskId), (CpuId, u64))> + '_ {
        self.threads.iter().map(|(ids, first)| (*ids, *first))
    }

    /// Smallest number of CPUs that holds every sample's CPU.
    pub fn cpu_count_min(&self) -> u32 {
        self.cpu_max.map_or(0, |cpu| u32::from(cpu) + 1)
    }
}
