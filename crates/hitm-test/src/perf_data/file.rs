//! Writes perf.data files with known samples, in every layout that the reader knows.
//!
//! Written from the format's documents, not from our own writer, so that a mistake there is not
//! repeated here. The whole file is in memory.

use hitm_perf::Sample;

use super::features::{attr, features};
use super::out::Out;

/// Bits of `sample_type`.
pub mod bits {
    #![expect(missing_docs, reason = "the names are the kernel's")]
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
    /// Fields of every sample here.
    pub const BASE: u64 = IP | TID | TIME | ADDR | CPU | PERIOD | DATA_SRC | IDENTIFIER;
}

/// Encoding of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Most significant byte first.
    pub is_big_endian: bool,
    /// A stream without sections.
    pub is_pipe: bool,
    /// Records in compressed ones, this many bytes in each; 0 for none.
    pub compressed_piece: usize,
}

impl Layout {
    /// perf's default on x86.
    pub const PLAIN: Layout = Layout {
        is_big_endian: false,
        is_pipe: false,
        compressed_piece: 0,
    };
}

/// An event.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its name.
    pub name: &'static str,
    /// Contents of its samples.
    pub sample_type: u64,
}

/// A mapping of a process.
#[derive(Debug, Clone, Copy)]
pub struct Mapped {
    /// The process.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Its length.
    pub len: u64,
    /// Path of the file. That of a kernel's image is named with a symbol of it.
    pub path: &'static str,
}

impl Mapped {
    /// Makes a mapping.
    pub const fn new(pid: u32, start: u64, len: u64, path: &'static str) -> Mapped {
        Mapped {
            pid,
            start,
            len,
            path,
        }
    }
}

/// Event in the life of a process or a thread.
#[derive(Debug, Clone, Copy)]
pub enum Happened {
    /// A process began that inherits nothing.
    Began(u32),
    /// A thread ended, of a process.
    Ended(u32, u32),
    /// A process got a name.
    Named(u32, &'static str),
    /// Something was mapped.
    Mapped(Mapped),
}

/// Contents of a file.
#[derive(Debug, Clone)]
pub struct Content {
    /// `uname -m`.
    pub arch: &'static str,
    /// Vendor, family, model, stepping.
    pub cpuid: &'static str,
    /// CPUs, in nodes of equal size, each node a package.
    pub cpus: u32,
    /// Nodes.
    pub nodes: u32,
    /// The events.
    pub events: Vec<Event>,
    /// Place of the event, and the sample.
    pub samples: Vec<(usize, Sample)>,
    /// Mappings from before all events.
    pub mappings: Vec<Mapped>,
    /// Build ids of mapped files.
    pub build_ids: Vec<(&'static str, Vec<u8>)>,
    /// Events with their times; in the file they stand before all samples.
    pub happened: Vec<(u64, Happened)>,
    /// Node of each GiB of physical memory; empty to leave it out.
    pub memory: Vec<u32>,
    /// Words of each sample's call chain, for events that have them.
    pub chain: fn(&Sample) -> Vec<u64>,
    /// Records of any kind before the samples: kind, `misc` and body.
    pub others: Vec<(u32, u16, Vec<u8>)>,
    /// Feature sections by their bit, in place of the file's own.
    pub sections: Vec<(u8, Vec<u8>)>,
}

/// Encodes the file.
pub fn generate(content: &Content, layout: Layout) -> Vec<u8> {
    let mut records = Out::new(layout);
    write_records(content, &mut records);
    let records = if layout.compressed_piece > 0 {
        compress(&records.bytes, layout)
    } else {
        records.bytes
    };
    if layout.is_pipe {
        pipe(content, layout, &records)
    } else {
        file(content, layout, &records)
    }
}

fn write_records(content: &Content, out: &mut Out) {
    for mapped in &content.mappings {
        let is_kernel = mapped.path.starts_with("[kernel");
        out.record(10, if is_kernel { 1 } else { 2 }, |out| {
            // In place of an offset, the address of the symbol.
            let offset = if is_kernel { mapped.start } else { 0 };
            mapping(out, mapped, offset, 1);
        });
        out.record(3, 2, |out| comm(out, mapped.pid, "generated", 1));
    }
    for (time, happened) in &content.happened {
        match *happened {
            Happened::Began(pid) => out.record(7, 2, |out| task(out, [pid, 0, pid, 0], *time)),
            Happened::Ended(pid, tid) => {
                out.record(4, 2, |out| task(out, [pid, pid, tid, tid], *time));
            }
            Happened::Named(pid, name) => out.record(3, 2, |out| comm(out, pid, name, *time)),
            Happened::Mapped(mapped) => {
                out.record(10, 2, |out| mapping(out, &mapped, 0, *time));
            }
        }
    }
    for (kind, misc, body) in &content.others {
        out.record(*kind, *misc, |out| out.bytes.extend(body));
    }
    for (event, sample) in &content.samples {
        let sample_type = content.events[*event].sample_type;
        out.record(9, sample.mode as u16, |out| {
            let chain = (content.chain)(sample);
            write_sample(out, sample_type, *event, sample, &chain);
        });
    }
}

fn mapping(out: &mut Out, mapped: &Mapped, offset: u64, time: u64) {
    let Mapped {
        pid,
        start,
        len,
        path,
    } = *mapped;
    out.u32(pid);
    out.u32(pid);
    out.u64(start);
    out.u64(len);
    out.u64(offset);
    // Device, inode, and its generation.
    out.u32(8);
    out.u32(1);
    out.u64(1000 + path.len() as u64);
    out.u64(0);
    out.u32(7);
    out.u32(2);
    out.padded(path, 8);
    sample_id(out, pid, time);
}

fn comm(out: &mut Out, pid: u32, name: &str, time: u64) {
    out.u32(pid);
    out.u32(pid);
    out.padded(name, 8);
    sample_id(out, pid, time);
}

/// A begin or an end: process, its parent, thread, its parent.
fn task(out: &mut Out, ids: [u32; 4], time: u64) {
    ids.into_iter().for_each(|id| out.u32(id));
    out.u64(time);
    sample_id(out, ids[0], time);
}

/// The `sample_id` of records that are no samples: thread, time, CPU, identifier.
fn sample_id(out: &mut Out, pid: u32, time: u64) {
    out.u32(pid);
    out.u32(pid);
    out.u64(time);
    out.u32(0);
    out.u32(0);
    out.u64(10);
}

fn write_sample(out: &mut Out, sample_type: u64, event: usize, sample: &Sample, chain: &[u64]) {
    let has = |bit: u64| sample_type & bit != 0;
    out.u64(10 + event as u64);
    out.u64(sample.ip);
    out.u32(sample.pid);
    out.u32(sample.tid);
    out.u64(sample.time_ns);
    out.u64(sample.addr);
    out.u32(sample.cpu);
    out.u32(0);
    out.u64(sample.period);
    if has(bits::CALLCHAIN) {
        out.u64(chain.len() as u64);
        chain.iter().for_each(|word| out.u64(*word));
    }
    if has(bits::RAW) {
        out.u32(12);
        (0..3).for_each(|word| out.u32(word));
    }
    if has(bits::BRANCH_STACK) {
        out.u64(1);
        (0..3).for_each(|word| out.u64(word));
    }
    if has(bits::WEIGHT) {
        out.u64(sample.weight);
    }
    if has(bits::WEIGHT_STRUCT) {
        // Latency, and two other latencies above it.
        out.u64(sample.weight | 77 << 32 | 88 << 48);
    }
    if has(bits::DATA_SRC) {
        out.u64(sample.data_src.0);
    }
    if has(bits::PHYS_ADDR) {
        out.u64(sample.phys_addr);
    }
}

fn file(content: &Content, layout: Layout, records: &[u8]) -> Vec<u8> {
    let mut out = Out::new(layout);
    let (entry, count) = (112 + 16, content.events.len());
    let attrs = 104;
    let ids = attrs + entry * count;
    let data = ids + 8 * count;
    let features = features(content, layout);
    out.u64(0x3245_4c49_4652_4550); // "PERFILE2" as a number of this byte order
    out.u64(104);
    out.u64(entry as u64);
    for value in [attrs, entry * count, data, records.len(), 0, 0] {
        out.u64(value as u64);
    }
    let bits = features.iter().fold(0u64, |bits, (bit, _)| bits | 1 << bit);
    [bits, 0, 0, 0].into_iter().for_each(|word| out.u64(word));
    for (index, event) in content.events.iter().enumerate() {
        attr(&mut out, event);
        out.u64((ids + 8 * index) as u64);
        out.u64(8);
    }
    (0..count as u64).for_each(|index| out.u64(10 + index));
    out.bytes.extend(records);
    let mut offset = out.bytes.len() + 16 * features.len();
    for (_, section) in &features {
        out.u64(offset as u64);
        out.u64(section.len() as u64);
        offset += section.len();
    }
    features
        .iter()
        .for_each(|(_, section)| out.bytes.extend(section));
    out.bytes
}

fn pipe(content: &Content, layout: Layout, records: &[u8]) -> Vec<u8> {
    let mut out = Out::new(layout);
    out.u64(0x3245_4c49_4652_4550);
    out.u64(16);
    for (bit, section) in features(content, layout) {
        out.record(80, 0, |out| {
            out.u64(bit.into());
            out.bytes.extend(&section);
        });
    }
    for (index, event) in content.events.iter().enumerate() {
        out.record(64, 0, |out| {
            attr(out, event);
            out.u64(10 + index as u64);
        });
    }
    out.bytes.extend(records);
    out.bytes
}

/// One zstd stream, flushed after each piece, so that records straddle compressed ones.
fn compress(records: &[u8], layout: Layout) -> Vec<u8> {
    use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};
    let mut encoder = Encoder::new(1).expect("zstd has memory");
    let mut out = Out::new(layout);
    for piece in records.chunks(layout.compressed_piece) {
        let mut space = vec![0; 1 << 16];
        let mut input = InBuffer::around(piece);
        let mut output = OutBuffer::around(&mut space[..]);
        while input.pos() < piece.len() {
            encoder
                .run(&mut input, &mut output)
                .expect("the piece fits");
        }
        let left = encoder.flush(&mut output).expect("the piece fits");
        assert_eq!(left, 0, "the piece fits");
        let len = output.pos();
        out.record(81, 0, |out| out.bytes.extend(&space[..len]));
    }
    out.bytes
}
