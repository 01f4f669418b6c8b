//! The facts of a recording that perf.data has no place for: the machine model, blocks of the heap, and how long
//! threads ran. An export has them as a recording without accesses, in a section that perf passes over.

use std::collections::BTreeMap;

use hitm_base::{Access, Cycles, Machine, Outcome, ThreadId};
use hitm_perf::read::FEATURE_LEN_MAX;
use hitm_trace::{
    Header, HeapObject, ReadError, Record, Region, RegionKind, ThreadExit, ThreadStart,
    TraceReader, Visitor, WriteError,
};

use crate::BlockWriter;
use crate::recording::{Budget, HeapBlock, Objects};

/// The facts of a file's own section, nothing where it has none.
#[derive(Debug, Default)]
pub(super) struct OwnFacts {
    /// The machine model and its text.
    pub(super) machine: Option<OwnMachine>,
    objects: Objects,
    budget: Budget,
    tids: BTreeMap<ThreadId, u32>,
    /// Totals of threads, by tid.
    exits: BTreeMap<u32, ThreadExit>,
    /// The reason for which the section cannot be read.
    failure: Option<ReadError>,
}

/// A machine model and its text.
#[derive(Debug)]
pub(super) struct OwnMachine {
    pub(super) machine: Machine,
    pub(super) toml: String,
}

/// Returns the section of a recording with these records; none if a file cannot hold it.
pub(super) fn encode(header: &Header, records: impl Iterator<Item = Record>) -> Option<Vec<u8>> {
    let write = || -> Result<Vec<u8>, WriteError> {
        let mut section = Vec::new();
        let mut writer = BlockWriter::new(&mut section, header)?;
        records.for_each(|record| writer.push(&record));
        writer.finish()?;
        Ok(section)
    };
    let section = write().ok();
    section.filter(|section| section.len() as u64 <= FEATURE_LEN_MAX)
}

/// The record of a heap block.
pub(super) fn heap_record(block: &HeapBlock) -> Record {
    Record::HeapObject(HeapObject {
        range: block.range,
        time: Cycles::ZERO,
        thread: ThreadId(0),
        stack: block.stack.to_vec(),
        told_type: block.told_type,
    })
}

/// Returns true if a region is known by the calls that mapped it, for which perf has no place.
pub(super) fn has_site(region: &Region) -> bool {
    matches!(&region.kind, RegionKind::AnonymousMap { stack } if !stack.is_empty())
}

impl OwnFacts {
    /// Reads a section; what cannot be read is left out, and [`OwnFacts::notes`] says so.
    pub(super) fn decode(section: &[u8]) -> OwnFacts {
        let mut facts = OwnFacts::default();
        if !section.is_empty() {
            facts.failure = facts.read(section).err();
        }
        facts
    }

    fn read(&mut self, section: &[u8]) -> Result<(), ReadError> {
        let mut reader = TraceReader::new(section)?;
        let toml = reader.header().machine_toml.clone();
        let machine = Machine::from_toml(&toml, "machine model").ok();
        self.machine = machine.map(|machine| OwnMachine { machine, toml });
        reader.visit(self).map(|_| ())
    }

    /// Totals of the thread with this tid, zeros where they are not known.
    pub(super) fn totals_of(&self, tid: u32) -> ThreadExit {
        let known = self.exits.get(&tid).copied();
        known.unwrap_or(ThreadExit {
            thread: ThreadId(0),
            time: Cycles::ZERO,
            insns: 0,
            accesses: 0,
            stall: Cycles::ZERO,
            contention_stall: Cycles::ZERO,
        })
    }

    /// Records of memory: blocks of the heap, and anonymous mappings with the calls that made them.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let regions = self.objects.regions.iter().cloned().map(Record::Region);
        regions.chain(self.objects.heap_blocks().map(heap_record))
    }

    /// Sentences on what is missing.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        let failure = self.failure.as_ref();
        let failure =
            failure.map(|error| format!("the section of hitm's own cannot be read: {error}"));
        failure.into_iter().chain(self.budget.describe())
    }
}

impl Visitor for OwnFacts {
    fn access(&mut self, _: &Access, _: &Outcome) {}

    fn record(&mut self, record: Record) {
        match record {
            Record::ThreadStart(ThreadStart { thread, tid, .. }) => {
                let bytes = size_of::<ThreadId>() + size_of::<ThreadExit>();
                if self.budget.admits("threads", bytes) {
                    self.tids.insert(thread, tid);
                }
            }
            Record::ThreadExit(exit) => {
                if let Some(tid) = self.tids.get(&exit.thread) {
                    self.exits.insert(*tid, exit);
                }
            }
            Record::HeapObject(object) => self.objects.add_heap(object, &mut self.budget),
            Record::Region(region) if has_site(&region) => {
                self.objects.add_region(region, &mut self.budget);
            }
            _ => {}
        }
    }
}
