//! Reads perf.data: files and streams ("pipe mode"), of either byte order, compressed or not.
//!
//! Samples go to the caller as they come; records about processes and mappings are collected and
//! come back as a [`World`] at the end. The crate linux-perf-data reads the format too, but drops
//! the weight and the data source of a sample, and does not say where an error is.
//!
//! Invariants: a size or count in the file is believed only as far as there are bytes. Memory is
//! bounded by the distinct processes, mappings and events that the file really has. Records that
//! cannot be used are counted by reason ([`Unused`]).

mod attr;
mod bytes;
mod chain;
mod compressed;
mod error;
mod events;
mod header;
mod info;
mod sample;
mod side;
mod stream;

use std::collections::BTreeMap;
use std::io::{Read, Seek};

pub use attr::{Attr, Registers};
pub use bytes::ByteOrder;
pub use chain::CALLERS_MAX;
pub use error::ReadError;
pub use events::Event;
pub use header::FEATURE_LEN_MAX;
pub use info::FileFacts;
pub use side::World;

use crate::Sample;
use crate::format::record;
use crate::left_out::left_out;
use attr::{ATTR_LEN_MAX, ATTR_LEN_MIN};
use bytes::Bytes;
use compressed::Decompressor;
use events::{Events, IDS_MAX};
use header::Layout;
use sample::Parts;
use side::Side;
use stream::{RawRecord, RecordStream};

left_out! {
    /// Records that say nothing about memory accesses, or could not be used, by reason.
    Unused:
    /// Samples of an event that the file does not describe.
    unknown_event, "samples belong to an event that the file does not describe";
    /// Samples that end before their fields.
    cut_samples, "samples end before their fields";
    /// Samples of events that carry no address or no data source.
    no_memory_event, "samples are of events without an address or a data source";
    /// Samples taken in a guest, whose addresses mean nothing here.
    guest, "samples were taken in a guest";
    /// Records about processes that are cut off.
    cut_records, "records about processes are cut off";
    /// Records about processes and mappings that were too many to keep.
    too_many_records, "records about processes and mappings are more than are kept";
    /// Records about namespaces.
    namespaces, "records about namespaces were passed over";
    /// Pieces of hardware traces.
    hardware_trace, "pieces of hardware traces were passed over: decode them with perf inject first";
    /// Records of other kinds.
    other_records, "records of other kinds were passed over";
    /// Feature sections that could not be read.
    unreadable_features, "feature sections could not be read";
    /// Accesses that perf reports as lost.
    lost, "records were lost while perf recorded";
    /// Times that the kernel slowed sampling down.
    throttled, "times the kernel slowed sampling down";
    /// Call chains that were longer than [`CALLERS_MAX`].
    cut_chains, "call chains are longer than 127 calls: the outermost were left out";
    /// Call chains whose program's part is in other records.
    deferred_chains, "call chains have no calls of the program, which perf wrote apart";
    /// Copies of a program's stack, from which its calls could be found with its unwind tables.
    stacks, "copies of stacks are not unwound: perf record --call-graph fp or lbr records calls";
}

/// Contents of a file besides its samples.
#[derive(Debug, Default)]
pub struct PerfData {
    /// Contents of the feature sections.
    pub facts: FileFacts,
    /// The events, in the order of the file.
    pub events: Vec<Event>,
    /// Processes, threads and mappings.
    pub world: World,
    /// Records that were not used.
    pub unused: Unused,
    /// Further properties of the file that a reader must know, one sentence each.
    pub notes: Vec<String>,
    /// Functions by process and instruction, where the samples themselves name them.
    pub code_names: BTreeMap<(u32, u64), String>,
}

/// Callback for samples: index of the event, the sample, and the return addresses of its callers,
/// innermost first. A sample without a call chain has none.
pub type Visit<'v> = dyn FnMut(usize, &Sample, &[u64]) + 'v;

/// A sample of a clock with registers.
#[derive(Debug, Clone, Copy)]
pub struct ClockSample<'s> {
    /// The sample, without an address.
    pub sample: &'s Sample,
    /// Return addresses of its callers, innermost first.
    pub callers: &'s [u64],
    /// Its registers.
    pub registers: &'s Registers,
}

/// Callback for samples of clocks with registers.
pub type VisitClock<'v> = dyn FnMut(ClockSample<'_>) + 'v;

/// Reads a file to its end. `visit` gets the samples in the order of the file, `progress` the bytes
/// read so far and in all.
pub fn read<R: Read + Seek>(
    source: R,
    visit: &mut Visit<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PerfData, ReadError> {
    read_with(source, Side::default(), Visits::Memory(visit), progress)
}

/// Reads a file again: like [`read`], but passes over records about processes and mappings.
pub fn read_again<R: Read + Seek>(
    source: R,
    visit: &mut Visit<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PerfData, ReadError> {
    read_with(source, Side::full(), Visits::Memory(visit), progress)
}

/// Like [`read_again`], for samples of clocks with registers; those of memory are passed over.
pub fn read_clocks_again<R: Read + Seek>(
    source: R,
    visit: &mut VisitClock<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PerfData, ReadError> {
    read_with(source, Side::full(), Visits::Clocks(visit), progress)
}

/// Reads the events of a file without its records. A stream gives none: it has them among its records.
pub fn read_events<R: Read + Seek>(mut source: R) -> Result<Vec<Event>, ReadError> {
    let layout = header::read(&mut source)?;
    let mut events = Events::default();
    if let Some(sections) = &layout.sections {
        header::read_attrs(&mut source, &layout, sections, &mut events)?;
    }
    Ok(events.list)
}

fn read_with<R: Read + Seek>(
    mut source: R,
    side: Side,
    visits: Visits<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PerfData, ReadError> {
    let layout = header::read(&mut source)?;
    let mut reader = Reader {
        order: layout.order,
        events: Events::default(),
        facts: FileFacts::default(),
        side,
        unused: Unused::default(),
        parts: Parts::default(),
        visits,
    };
    let mut notes = Vec::new();
    if let Some(sections) = &layout.sections {
        header::read_attrs(&mut source, &layout, sections, &mut reader.events)?;
        header::read_features(&mut source, &layout, sections, &mut reader.facts)?;
        if sections.is_unfinished {
            notes.push(
                "perf record did not end properly: the header has no length of the data".to_owned(),
            );
        }
    }
    reader.read_records(&mut source, &layout, progress)?;
    let Reader {
        mut events,
        facts,
        side,
        mut unused,
        ..
    } = reader;
    events.name(&facts.event_names);
    unused.unreadable_features += facts.unreadable;
    unused.too_many_records = side.left_out;
    Ok(PerfData {
        world: side.finish(&facts.build_ids),
        events: events.list,
        facts,
        unused,
        notes,
        code_names: BTreeMap::new(),
    })
}

/// Reads the feature sections of a file without its records. A stream gives nothing: it has them
/// among its records.
pub fn read_facts<R: Read + Seek>(mut source: R) -> Result<FileFacts, ReadError> {
    let layout = header::read(&mut source)?;
    let mut facts = FileFacts::default();
    if let Some(sections) = &layout.sections {
        header::read_features(&mut source, &layout, sections, &mut facts)?;
    }
    Ok(facts)
}

struct Reader<'v> {
    order: ByteOrder,
    events: Events,
    facts: FileFacts,
    side: Side,
    unused: Unused,
    parts: Parts,
    visits: Visits<'v>,
}

/// Callback for the samples that are asked for.
enum Visits<'v> {
    Memory(&'v mut Visit<'v>),
    Clocks(&'v mut VisitClock<'v>),
}

impl Reader<'_> {
    fn read_records<R: Read + Seek>(
        &mut self,
        source: &mut R,
        layout: &Layout,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), ReadError> {
        let mut stream = RecordStream::new(source, layout)?;
        let mut decompressor = Decompressor::default();
        let mut count = 0u64;
        while let Some(raw) = stream.next_record()? {
            count += 1;
            if count.is_multiple_of(1 << 16) {
                progress(raw.offset, layout.len);
            }
            match raw.kind {
                record::COMPRESSED | record::COMPRESSED2 => {
                    let mut len_max = self.facts.compressed_len_max;
                    if len_max == 0 {
                        len_max = Decompressor::LEN_MAX;
                    }
                    decompressor.push(&raw, self.order, len_max)?;
                    while let Some(raw) = decompressor.next_record(self.order)? {
                        self.take(&raw)?;
                    }
                }
                record::AUXTRACE => {
                    // The size of what follows the record stands first in it.
                    let len = Bytes::new(raw.body, self.order).u64().unwrap_or(0);
                    let offset = raw.offset;
                    self.unused.hardware_trace += 1;
                    stream.skip(offset, "a piece of a hardware trace", len)?;
                }
                record::HEADER_TRACING_DATA if layout.sections.is_none() => {
                    let len = Bytes::new(raw.body, self.order).u32().unwrap_or(0);
                    let offset = raw.offset;
                    self.unused.other_records += 1;
                    stream.skip(offset, "tracing data", u64::from(len).next_multiple_of(8))?;
                }
                _ => self.take(&raw)?,
            }
        }
        decompressor.finish()
    }

    #[inline]
    fn take(&mut self, raw: &RawRecord<'_>) -> Result<(), ReadError> {
        if raw.kind == record::SAMPLE {
            self.take_sample(raw);
            return Ok(());
        }
        self.take_other(raw)
    }

    #[inline]
    fn take_sample(&mut self, raw: &RawRecord<'_>) {
        let Some(attr) = self.events.attr_of(raw.body, self.order) else {
            self.unused.unknown_event += 1;
            return;
        };
        let has_memory = attr.is_of_memory();
        let has_registers = attr.is_clock_with_registers();
        let bytes = Bytes::new(raw.body, self.order);
        let read = sample::read_sample(attr, raw.misc, bytes, &mut self.parts);
        let Some(read) = read else {
            self.unused.cut_samples += 1;
            return;
        };
        let Some(index) = self.events.index_of(read.id) else {
            self.unused.unknown_event += 1;
            return;
        };
        let event = &mut self.events.list[index];
        event.sample_count += 1;
        event.period_sum = event.period_sum.saturating_add(read.sample.period);
        self.unused.stacks += u64::from(read.has_stack);
        let callers = match read.chain {
            Some(chain) => {
                self.unused.cut_chains += u64::from(chain.is_cut);
                self.unused.deferred_chains += u64::from(chain.is_deferred);
                &*self.parts.callers
            }
            None => &[],
        };
        let is_asked_for = match self.visits {
            Visits::Memory(_) => has_memory,
            Visits::Clocks(_) => has_registers,
        };
        if !is_asked_for {
            self.unused.no_memory_event += 1;
            return;
        }
        if matches!(
            read.sample.mode,
            crate::CpuMode::GuestKernel | crate::CpuMode::GuestUser
        ) {
            self.unused.guest += 1;
            return;
        }
        match &mut self.visits {
            Visits::Memory(visit) => visit(index, &read.sample, callers),
            Visits::Clocks(visit) => visit(ClockSample {
                sample: &read.sample,
                callers,
                registers: &self.parts.registers,
            }),
        }
    }

    fn take_other(&mut self, raw: &RawRecord<'_>) -> Result<(), ReadError> {
        match raw.kind {
            record::MMAP | record::MMAP2 | record::COMM | record::FORK | record::EXIT => {
                // As in perf, the first event's layout holds for the `sample_id` of all records.
                let first = self.events.list.first();
                let attr = first.map(|event| event.attr).unwrap_or_default();
                let taken = self.side.take(raw, &attr, self.order);
                self.unused.cut_records += u64::from(taken.is_none());
            }
            record::HEADER_ATTR => self.take_attr(raw)?,
            record::HEADER_FEATURE => {
                let mut bytes = Bytes::new(raw.body, self.order);
                match bytes.u64().map(u8::try_from) {
                    Some(Ok(bit)) => self.facts.take(bit, bytes.rest(), self.order),
                    _ => self.unused.cut_records += 1,
                }
            }
            record::HEADER_BUILD_ID => {
                let taken = self.facts.take_build_id(raw.misc, raw.body);
                self.unused.cut_records += u64::from(taken.is_none());
            }
            record::NAMESPACES => self.unused.namespaces += 1,
            record::LOST => {
                // The event's id, then how many.
                let mut bytes = Bytes::new(raw.body, self.order);
                let lost = bytes.u64().and_then(|_| bytes.u64()).unwrap_or(1);
                self.unused.lost = self.unused.lost.saturating_add(lost);
            }
            record::LOST_SAMPLES => {
                let lost = Bytes::new(raw.body, self.order).u64().unwrap_or(1);
                self.unused.lost = self.unused.lost.saturating_add(lost);
            }
            record::THROTTLE => self.unused.throttled += 1,
            // Counts, and marks for readers that sort.
            record::READ | record::UNTHROTTLE | record::FINISHED_ROUND => {}
            _ => self.unused.other_records += 1,
        }
        Ok(())
    }

    /// Reads an event's attributes in a stream: the struct, whose length is in it, and sample ids.
    fn take_attr(&mut self, raw: &RawRecord<'_>) -> Result<(), ReadError> {
        let mut bytes = Bytes::new(raw.body, self.order);
        let len = bytes.u32().and_then(|_| bytes.u32()).map_or(0, u64::from);
        let is_possible = (ATTR_LEN_MIN..=ATTR_LEN_MAX).contains(&len);
        let attr = raw.body.get(..len as usize).filter(|_| is_possible);
        let Some(attr) = attr.and_then(|attr| Attr::read(attr, self.order)) else {
            let expected = format!("{ATTR_LEN_MIN} to {} bytes", raw.body.len());
            return Err(ReadError::malformed(
                raw.offset,
                "an event's attributes",
                len,
                expected,
            ));
        };
        let mut ids = Bytes::new(&raw.body[len as usize..], self.order);
        if self.events.id_count() > IDS_MAX || self.events.list.len() > header::EVENTS_MAX {
            return Err(ReadError::malformed(
                raw.offset,
                "sample ids",
                "more",
                IDS_MAX,
            ));
        }
        self.events.add(attr, std::iter::from_fn(|| ids.u64()));
        Ok(())
    }
}

/// Returns true if a file that begins with these bytes is perf.data.
pub fn is_perf_data(start: &[u8]) -> bool {
    start.starts_with(&crate::format::MAGIC) || start.starts_with(&crate::format::MAGIC_SWAPPED)
}
