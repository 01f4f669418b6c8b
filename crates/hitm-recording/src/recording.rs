//! A recording, read: what happened to each line, who the threads were, and names for addresses.

mod budget;
pub(crate) mod build_ids;
pub(crate) mod contended;
mod debuginfod;
mod diagnostics;
mod elements;
mod file;
mod frames;
mod kernel_objects;
mod labels;
mod locks;
mod machine;
mod names;
mod objects;
mod shared;
pub(crate) mod statistics;
mod traffic;
mod typed;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use hitm_base::{CodeAddr, Cycles, LINE_SIZE, Machine, ThreadId, grouped};
use hitm_coherence::stats::{Collector, Statistics};
use hitm_layout::layout_file::LayoutFile;
use hitm_trace::{
    Counter, End, EndReason, Header, LATER_MOVED_SLABS, Mapping, PROCESS_SHIFT, ProcessExit,
    ProcessStart, ReadError, Record, Recovery, SHARED_FIRST, ThreadExit, ThreadStart, TraceReader,
    WaitKind, Waits,
};
use thiserror::Error;

use crate::generated::GeneratedCode;
use crate::perf_data::ExtraNames;
pub use budget::Budget;
pub(crate) use debuginfod::end_in_time;
pub use file::RecordingFile;
use hitm_trace::Caveat;
pub use labels::{CodeLabel, DataLabel, without_numbers};
pub use locks::is_sync_type;
pub use locks::{SyncKind, SyncObject};
pub use machine::{KnownAs, PART_BYTES_MAX, TypePlace, VMALLOC_AREA};
pub use names::{AddressNames, InstancesOf};
pub use names::{element_name, is_of_c_library, symbolizer};
pub use objects::HeapBlock;
pub use objects::Objects;
pub use traffic::{holds, traffic};
pub use typed::TypedBlock;

/// A reason why a recording cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is no recording, or damaged beyond its last whole chunk.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Its place in the file, and the cause.
        source: Box<ReadError>,
    },
    /// The machine model inside the recording is not understood.
    #[error("{}: the recording's machine model is not understood", path.display())]
    Machine {
        /// The file.
        path: PathBuf,
        /// Its place in the file, and the cause.
        source: Box<hitm_base::machine::MachineError>,
    },
    /// Accesses without room in memory cannot be put aside.
    #[error("cannot sort accesses by their lines in a temporary file")]
    Temporary {
        /// The reason.
        source: std::io::Error,
    },
}

/// A thread of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedThread {
    /// Record of its start.
    pub start: ThreadStart,
    /// Its totals at its end; missing when the recording ended before.
    pub exit: Option<ThreadExit>,
}

/// A process of a recording, or one program of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedProcess {
    /// Record of its start.
    pub start: ProcessStart,
    /// Its end; missing when the recording ended before.
    pub exit: Option<ProcessExit>,
}

/// A recording, read to its end.
#[derive(Debug)]
pub struct Recording {
    /// Everything that it was made with.
    pub header: Header,
    /// The machine that it was priced on.
    pub machine: Machine,
    /// Counts and costs of each line.
    pub statistics: Statistics,
    /// The threads, by id.
    pub threads: Vec<RecordedThread>,
    /// The processes, in the order of their numbers. None in recordings before version 1.4.
    pub processes: Vec<RecordedProcess>,
    /// Places in `threads`.
    thread_index: BTreeMap<ThreadId, usize>,
    /// Places in `processes`, by their numbers.
    process_index: BTreeMap<u32, usize>,
    /// Time that threads waited for one another, by what for and where.
    waits: BTreeMap<(WaitKind, u64, CodeAddr, ThreadId), Waits>,
    /// Counters of the recorder, by name.
    counters: BTreeMap<String, u64>,
    /// Record of its end; missing when the file was cut short.
    pub end: Option<End>,
    /// Counts of what was read, and of what could not be.
    pub recovery: Recovery,
    /// In which layouts objects were priced that the kernel has in others.
    pub(crate) layouts: Vec<LayoutFile>,
    /// True if it has the threads' work between their accesses.
    pub has_work: bool,
    objects: objects::Objects,
    /// Accesses to lines with rows for which there was no room: they are among the sums only.
    accesses_without_row: u64,
    /// Of a kernel, HITMs on lines without rows and without a name.
    nameless: contended::Nameless,
    /// Memory left for the tables above.
    budget: budget::Budget,
    /// Names that the file itself brought along, as samples do.
    pub(crate) extra_names: ExtraNames,
    /// Functions that the program generated.
    generated: GeneratedCode,
}

impl Recording {
    /// Reads all that `reader` has left of a recording. `machine` is the one that its header has as
    /// text, or one to take in its place. `progress` gets the number of bytes that have been read.
    pub fn read<R: Read>(
        reader: &mut TraceReader<R>,
        machine: Machine,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Recording, ReadError> {
        let header = reader.header().clone();
        let mut recording = Recording::of_header(header, machine);
        let mut shards = statistics::shards(Collector::default);
        let take = &mut |record| recording.take(record);
        let found = statistics::pass(reader, &mut shards, take, progress)?;
        recording.statistics = statistics::joined(shards, found.calls.finish());
        recording.has_work = found.has_work;
        recording.recovery = reader.recovery();
        Ok(recording)
    }

    fn of_header(header: Header, machine: Machine) -> Recording {
        Recording::of_parts(header, machine, Statistics::default())
    }

    /// A recording of which nothing else is known yet.
    pub(crate) fn of_parts(header: Header, machine: Machine, statistics: Statistics) -> Recording {
        Recording {
            header,
            machine,
            statistics,
            layouts: Vec::new(),
            has_work: false,
            threads: Vec::new(),
            processes: Vec::new(),
            thread_index: BTreeMap::new(),
            process_index: BTreeMap::new(),
            waits: BTreeMap::new(),
            counters: BTreeMap::new(),
            end: None,
            recovery: Recovery::default(),
            objects: objects::Objects::default(),
            accesses_without_row: 0,
            nameless: contended::Nameless::default(),
            budget: budget::Budget::default(),
            extra_names: ExtraNames::default(),
            generated: GeneratedCode::default(),
        }
    }

    /// Takes the names of generated code that are kept for the recording of `len` bytes at `path`.
    fn read_generated(&mut self, path: &Path, len: u64) {
        self.generated = GeneratedCode::beside(path, len, &mut self.budget);
    }

    /// Names for the recording's addresses, from the files that were mapped.
    pub fn names(&self) -> AddressNames<'_> {
        AddressNames::new(self)
    }

    /// The files that were mapped, in order.
    pub fn mappings(&self) -> &[Mapping] {
        &self.objects.mappings
    }

    /// Returns the sources of names, to add more.
    pub(crate) fn names_mut(&mut self) -> (&mut Vec<Mapping>, &mut ExtraNames) {
        (&mut self.objects.mappings, &mut self.extra_names)
    }

    /// Of a recorded kernel, HITMs on lines that have neither rows nor a name: how many each instruction
    /// had, and the address of one of them.
    pub fn nameless_hitms(&self) -> impl Iterator<Item = (CodeAddr, u64, u64)> {
        let nameless = self.nameless.iter();
        nameless.map(|(code, hitms)| (*code, hitms.count, hitms.addr))
    }

    /// Places that were accessed: address and bytes. Of contended lines without rows each word.
    pub fn places(&self) -> impl Iterator<Item = (u64, u8)> {
        const WORD_BYTES: u8 = 8;
        let statistics = &self.statistics;
        let listed = statistics.lines.iter().flat_map(|(line, stats)| {
            let keys = stats.rows.keys();
            keys.map(|key| (line.first_byte() + u64::from(key.offset), key.size))
        });
        let others = statistics.rest.handed.keys().flat_map(|line| {
            let words = (0..LINE_SIZE).step_by(WORD_BYTES.into());
            words.map(|word| (line.first_byte() + word, WORD_BYTES))
        });
        listed.chain(others)
    }

    /// The file that holds an instruction, by its address as a report shows it.
    pub fn file_shown_at(&self, code: u64) -> Option<&str> {
        let in_process = |addr: u64| addr & ((1 << PROCESS_SHIFT) - 1);
        let mut mappings = self.objects.mappings.iter().rev();
        let holds = |mapping: &&Mapping| {
            let start = in_process(mapping.range.start());
            mapping.executable && in_process(code).wrapping_sub(start) < mapping.range.len()
        };
        mappings.find(holds).map(|mapping| mapping.path.as_str())
    }

    /// A reader of the mapped files' symbols and types.
    pub fn symbolizer(&self) -> hitm_layout::Symbolizer<'static> {
        symbolizer(self.objects.mappings.iter())
    }

    /// The heap blocks that were shared, by address.
    pub fn heap_blocks(&self) -> impl Iterator<Item = &HeapBlock> {
        self.objects.heap_blocks()
    }

    /// The heap block that holds the byte at `addr`.
    pub fn heap_block_at(&self, addr: u64) -> Option<&HeapBlock> {
        self.objects.heap_at(addr)
    }

    /// The value of a counter, 0 when the recorder did not write it.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Says what became of slabs that the kernel made later, in a recording with another layout.
    fn moved_slabs(&self) -> Option<String> {
        match self.counters.get(LATER_MOVED_SLABS)? {
            0 => None,
            count => Some(format!(
                "slabs of the structures with another layout that the kernel made while it ran: {}; their objects are \
                 priced in that layout, too",
                grouped(*count)
            )),
        }
    }

    /// Counters of the recorder, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&str, u64)> {
        let counters = self.counters.iter();
        counters.map(|(name, value)| (name.as_str(), *value))
    }

    /// Returns true if the file is whole and each process is in it to its end, or to the end that the user asked for.
    pub fn is_complete(&self) -> bool {
        let ends = self.processes.iter().filter_map(|process| process.exit);
        let mut reasons = ends
            .map(|exit| exit.reason)
            .chain(self.end.map(|end| end.reason));
        self.recovery.is_complete() && self.end.is_some() && !reasons.any(EndReason::is_loss)
    }

    /// Sentences about processes that are not recorded to their ends.
    fn losses(&self) -> impl Iterator<Item = String> {
        self.processes.iter().filter_map(|process| {
            let EndReason::Lost { loss } = process.exit?.reason else {
                return None;
            };
            let ProcessStart { program, pid, .. } = &process.start;
            let text = format!("{program} (pid {pid}) is not recorded to its end: {loss}");
            Some(text)
        })
    }

    /// Returns messages that a reader of the report needs: how the recording went.
    pub fn diagnostics(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(sampled) = &self.header.sampled {
            found.extend(sampled.notes.iter().cloned());
        }
        if let Some(damage) = &self.recovery.reason {
            found.push(format!(
                "the file is damaged ({damage}): {} bytes are missing",
                self.recovery.missing_bytes
            ));
        }
        match self.end.map(|end| end.reason) {
            None => found.push("the recording was cut short: the last window is missing".into()),
            Some(EndReason::Signalled { signal }) => {
                found.push(format!(
                    "signal {signal} ended the program: its last window is missing"
                ));
            }
            Some(EndReason::Stopped) => found.push("the recording was stopped by request".into()),
            Some(_) => {}
        }
        found.extend(self.losses());
        found.extend(self.moved_slabs());
        found.extend(self.generated.notes());
        let hints = self.processes.iter().filter_map(|process| {
            let start = &process.start;
            self.generated.hint(start.process, &start.program)
        });
        let hints: BTreeSet<&str> = hints.collect();
        found.extend(hints.into_iter().map(str::to_owned));
        found.extend(self.budget.describe());
        if self.accesses_without_row > 0 {
            found.push(format!(
                "{} accesses to contended lines are in the totals only: there are too many different ones",
                self.accesses_without_row
            ));
        }
        let unknown_calls = self.counter("accesses_without_callers");
        let without_calls = unknown_calls.saturating_add(self.statistics.calls.left_out);
        if without_calls > 0 {
            found.push(format!(
                "the call chains of {without_calls} accesses are not shown: there are too many different ones"
            ));
        }
        let unrecordable = self.counter("unrecordable_records");
        if unrecordable > 0 {
            found.push(format!(
                "{unrecordable} records had numbers that no recording may hold: they are missing"
            ));
        }
        let children = self.counter("forked_children_not_recorded");
        if children > 0 {
            found.push(format!(
                "{children} forked child processes were not recorded"
            ));
        }
        let caveats = Caveat::ALL.into_iter();
        let caveats = caveats.filter(|caveat| self.counter(caveat.counter()) > 0);
        found.extend(caveats.map(|caveat| caveat.text().to_owned()));
        for (name, count) in &self.counters {
            let text = name.strip_prefix("not_followed:");
            if let Some((why, program)) = text.and_then(|text| text.split_once(':')) {
                found.push(format!("{program} ran unrecorded, {count} times ({why})"));
            }
        }
        let has_run = |thread: &RecordedThread| thread.exit.is_some_and(|exit| exit.insns > 0);
        if self.header.sampled.is_none() && self.end.is_some() && !self.threads.iter().any(has_run)
        {
            found.push("nothing was recorded: no instruction of a followed process".into());
        }
        found
    }

    /// Takes a record of the file, in its order.
    pub(crate) fn take(&mut self, record: Record) {
        match record {
            Record::ThreadStart(start) => self.take_start(start),
            Record::ThreadExit(exit) => {
                if let Some(thread) = self.thread_mut(exit.thread) {
                    thread.exit = Some(exit);
                }
            }
            Record::Waits(waits) => self.take_waits(waits),
            Record::ProcessStart(start) => self.take_process(start),
            Record::ProcessExit(exit) => {
                if let Some(index) = self.process_index.get(&exit.process) {
                    self.processes[*index].exit = Some(exit);
                }
            }
            Record::Counters(counters) => {
                for counter in counters {
                    self.count(counter);
                }
            }
            Record::End(end) => self.end = Some(end),
            Record::Mapping(mapping) => self.objects.add_mapping(mapping, &mut self.budget),
            Record::HeapObject(object) => self.objects.add_heap(object, &mut self.budget),
            Record::Region(region) => self.objects.add_region(region, &mut self.budget),
            Record::Access { .. } | Record::ThreadPlaced(_) => {}
            Record::Layout(text) => self.take_layout(&text),
            Record::Work(_) | Record::Turn(_) | Record::Callers(_) => {}
        }
    }

    fn take_start(&mut self, start: ThreadStart) {
        if !self
            .budget
            .admits("threads", size_of::<RecordedThread>() + start.name.len())
        {
            return;
        }
        match self.thread_mut(start.thread) {
            Some(thread) => thread.start.name = start.name, // It was renamed.
            None => {
                self.thread_index.insert(start.thread, self.threads.len());
                self.threads.push(RecordedThread { start, exit: None });
            }
        }
    }

    fn take_waits(&mut self, waits: Waits) {
        let place = (waits.kind, waits.word, waits.code, waits.thread);
        let is_known = self.waits.contains_key(&place);
        if is_known || self.budget.admits("waits", 2 * size_of::<Waits>()) {
            self.waits.insert(place, waits);
        }
    }

    fn take_process(&mut self, start: ProcessStart) {
        let bytes = size_of::<RecordedProcess>() + start.program.len();
        // Their numbers have 13 bits: more come from a hostile file only.
        let is_known = self.processes.len() < SHARED_FIRST as usize;
        if is_known && self.budget.admits("processes", bytes) {
            let index = self.process_index.entry(start.process);
            index.or_insert(self.processes.len());
            self.processes.push(RecordedProcess { start, exit: None });
        }
    }

    /// Cycles that a thread ran or waited for memory; its time in system calls is not the memory's.
    pub fn cycles_of(&self, thread: &RecordedThread) -> Cycles {
        let Some(exit) = thread.exit else {
            return Cycles::ZERO;
        };
        let cpi_milli = u128::from(self.machine.core.cpi_milli);
        let ran = u128::from(exit.insns) * cpi_milli / 1000;
        let ran = u64::try_from(ran).unwrap_or(u64::MAX);
        Cycles(ran.saturating_add(exit.stall.0))
    }

    /// The latest clock of a thread.
    pub fn end_time(&self) -> Cycles {
        let exits = self.threads.iter().filter_map(|thread| thread.exit);
        exits.map(|exit| exit.time).max().unwrap_or(Cycles::ZERO)
    }

    /// The cycles of all threads.
    pub fn thread_cycles(&self) -> Cycles {
        let threads = self.threads.iter().map(|thread| self.cycles_of(thread).0);
        Cycles(threads.fold(0, u64::saturating_add))
    }

    /// Time that threads waited for one another, by what for and where.
    pub fn waits(&self) -> impl Iterator<Item = &Waits> {
        self.waits.values()
    }

    /// The process with this number.
    pub(crate) fn process(&self, number: u32) -> Option<&RecordedProcess> {
        self.processes.get(*self.process_index.get(&number)?)
    }

    /// The thread with this number.
    pub(crate) fn thread(&self, thread: ThreadId) -> Option<&RecordedThread> {
        self.threads.get(*self.thread_index.get(&thread)?)
    }

    fn thread_mut(&mut self, thread: ThreadId) -> Option<&mut RecordedThread> {
        let index = *self.thread_index.get(&thread)?;
        self.threads.get_mut(index)
    }

    fn count(&mut self, counter: Counter) {
        if let Some(value) = self.counters.get_mut(&counter.name) {
            *value = value.saturating_add(counter.value);
        } else if self
            .budget
            .admits("counters", size_of::<Counter>() + counter.name.len())
        {
            self.counters.insert(counter.name, counter.value);
        }
    }

    fn take_layout(&mut self, text: &str) {
        // What is parsed takes more than its text: a member of ten bytes is an entry of a hundred.
        const PARSED_BYTES: usize = 16;
        if self
            .budget
            .admits("layout files", text.len().saturating_mul(PARSED_BYTES))
        {
            self.layouts.extend(LayoutFile::parse(text, "layout"));
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::CpuId;
    use hitm_trace::COUNT_MAX;

    use super::*;

    /// Found by fuzzing: instructions at the limit of the format times cycles per instruction.
    #[test]
    fn cycles_of_threads_stop_at_the_largest_number() {
        let toml = hitm_base::machine::preset("broadwell-4s").unwrap();
        let mut machine = Machine::from_toml(toml, "broadwell-4s").unwrap();
        machine.core.cpi_milli = 100_000;
        let mut recording = Recording::of_header(hitm_test::recording::header(), machine);
        for thread in [ThreadId(0), ThreadId(7)] {
            recording.take(Record::ThreadStart(ThreadStart {
                thread,
                tid: 1,
                cpu: CpuId(0),
                time: Cycles::ZERO,
                name: "a".into(),
                seat: 0,
                process: 0,
            }));
            recording.take(Record::ThreadExit(ThreadExit {
                thread,
                time: Cycles(COUNT_MAX),
                insns: COUNT_MAX,
                accesses: 0,
                stall: Cycles(COUNT_MAX),
                contention_stall: Cycles::ZERO,
            }));
        }
        let last = recording.thread(ThreadId(7)).unwrap();
        assert_eq!(recording.cycles_of(last), Cycles(u64::MAX));
        assert_eq!(recording.thread_cycles(), Cycles(u64::MAX));
    }
}
