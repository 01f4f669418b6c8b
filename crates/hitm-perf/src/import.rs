//! From samples to accesses of a recording.
//!
//! What a sample does not have is given a value that changes no count: every access has one byte;
//! a store that does not say what it hit completed in its store buffer. What cannot be an access is
//! counted by reason.

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::Sample;
use crate::spaces::Spaces;

/// Samples that are no access of a recording, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rejected {
    /// Neither load nor store.
    pub no_operation: u64,
    /// Without an address.
    pub no_address: u64,
    /// Loads that do not say where the data came from.
    pub no_source: u64,
    /// Samples that do not say on which CPU they were taken; they count, for CPU 0.
    pub no_cpu: u64,
}

impl Rejected {
    /// Each count that is not zero, in words.
    pub fn describe(&self) -> Vec<String> {
        let counts = [
            (self.no_operation, "samples are neither loads nor stores"),
            (self.no_address, "samples have no address"),
            (
                self.no_source,
                "loads do not say where their data came from",
            ),
            (
                self.no_cpu,
                "samples do not say on which CPU they were taken: counted for CPU 0",
            ),
        ];
        let seen = counts.into_iter().filter(|(count, _)| *count > 0);
        seen.map(|(count, words)| format!("{count} {words}"))
            .collect()
    }
}

/// Turns samples into accesses, and numbers threads and processes as they appear.
#[derive(Debug, Default)]
pub struct Importer {
    /// The processes.
    pub spaces: Spaces,
    /// What was rejected.
    pub rejected: Rejected,
    threads: IndexMap<(u32, u32), (CpuId, u64), FxBuildHasher>,
    cpu_max: Option<u16>,
}

impl Importer {
    /// One that knows these processes already.
    pub fn of_spaces(spaces: Spaces) -> Importer {
        Importer {
            spaces,
            ..Importer::default()
        }
    }

    /// The access of a sample and its outcome; `None` when it is none, which is counted.
    #[inline]
    pub fn access(&mut self, sample: &Sample) -> Option<(Access, Outcome)> {
        let Some((op, source)) = sample.data_src.access() else {
            self.rejected.no_operation += 1;
            return None;
        };
        if sample.addr == 0 {
            self.rejected.no_address += 1;
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
        self.cpu_max = self.cpu_max.max(Some(cpu));
        let entry = self.threads.entry((sample.pid, sample.tid));
        let thread = ThreadId(entry.index() as u32);
        entry.or_insert((CpuId(cpu), sample.time_ns));
        let latency = Cycles(sample.weight);
        // Plain stores are posted: nobody waited.
        let stall = if op == AccessOp::Store {
            Cycles::ZERO
        } else {
            latency
        };
        let access = Access {
            thread,
            cpu: CpuId(cpu),
            time: Cycles(sample.time_ns),
            addr: self.spaces.pack(sample.pid, sample.addr),
            size: 1,
            op,
            code: CodeAddr(self.spaces.pack(sample.pid, sample.ip)),
        };
        let outcome = Outcome {
            source,
            latency,
            queued: Cycles::ZERO,
            stall,
        };
        Some((access, outcome))
    }

    /// The threads by number: process and thread, first CPU and first time.
    pub fn threads(&self) -> impl Iterator<Item = ((u32, u32), (CpuId, u64))> + '_ {
        self.threads.iter().map(|(ids, first)| (*ids, *first))
    }

    /// How many CPUs there must be.
    pub fn cpu_count_min(&self) -> u32 {
        self.cpu_max.map_or(0, |cpu| u32::from(cpu) + 1)
    }
}
