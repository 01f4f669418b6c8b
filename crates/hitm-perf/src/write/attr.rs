//! Start of the file: the header and the attributes of the two events.

use super::put::{put32, put64};
use crate::format::{FILE_HEADER_LEN, MAGIC, sample};

/// Length of `struct perf_event_attr`, version 7, which Linux 5.13 and later write.
pub(super) const ATTR_LEN: usize = 128;

/// Fields of every sample we write; files with call chains add those.
const SAMPLE_TYPE: u64 = sample::IDENTIFIER
    | sample::IP
    | sample::TID
    | sample::TIME
    | sample::ADDR
    | sample::CPU
    | sample::PERIOD
    | sample::WEIGHT
    | sample::DATA_SRC;

/// The name of perf's load event.
pub const LOADS_NAME: &str = "cpu/mem-loads,ldlat=30/P";
/// The name of perf's store event.
pub const STORES_NAME: &str = "cpu/mem-stores/P";

/// Attributes of an event: `perf_event_attr` as far as we fill it in.
pub(super) struct Attr {
    pub(super) id: u64,
    pub(super) name: &'static str,
    /// The raw event of Intel's load latency and precise stores: perf shows the name, but other
    /// tools look here.
    config: u64,
    config1: u64,
}

pub(super) const ATTRS: [Attr; 2] = [
    Attr {
        id: 1,
        name: LOADS_NAME,
        config: 0x1cd,
        config1: 30,
    },
    Attr {
        id: 2,
        name: STORES_NAME,
        config: 0x82d0,
        config1: 0,
    },
];

const ATTRS_OFFSET: usize = FILE_HEADER_LEN + 8 * ATTRS.len();
pub(super) const DATA_OFFSET: usize = ATTRS_OFFSET + (ATTR_LEN + 16) * ATTRS.len();

/// Properties that all samples of a file share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleForm {
    /// Accesses that a sample stands for.
    pub period: u64,
    /// Samples have call chains.
    pub has_callers: bool,
}

impl SampleForm {
    fn sample_type(self) -> u64 {
        match self.has_callers {
            true => SAMPLE_TYPE | sample::CALLCHAIN,
            false => SAMPLE_TYPE,
        }
    }
}

/// Everything before the records.
pub(super) fn head(data_len: u64, feature_bits: &[u8], form: SampleForm) -> Vec<u8> {
    let mut out = Vec::with_capacity(DATA_OFFSET);
    out.extend_from_slice(&MAGIC);
    let attrs_len = (ATTR_LEN + 16) * ATTRS.len();
    let sections = [
        (ATTRS_OFFSET, attrs_len),
        (DATA_OFFSET, data_len as usize),
        (0, 0),
    ];
    put64(&mut out, FILE_HEADER_LEN as u64);
    put64(&mut out, (ATTR_LEN + 16) as u64);
    for (offset, len) in sections {
        put64(&mut out, offset as u64);
        put64(&mut out, len as u64);
    }
    for first in (0..=u8::MAX).step_by(64) {
        let here = feature_bits.iter().filter(|bit| **bit / 64 == first / 64);
        put64(
            &mut out,
            here.fold(0, |bits, bit| bits | 1u64 << (bit % 64)),
        );
    }
    ATTRS.iter().for_each(|attr| put64(&mut out, attr.id));
    for (index, attr) in ATTRS.iter().enumerate() {
        put_attr(&mut out, attr, form);
        put64(&mut out, (FILE_HEADER_LEN + 8 * index) as u64);
        put64(&mut out, 8);
    }
    out
}

/// `struct perf_event_attr`.
pub(super) fn put_attr(out: &mut Vec<u8>, attr: &Attr, form: SampleForm) {
    /// `PERF_TYPE_RAW`: an event of the CPU by number.
    const TYPE_RAW: u32 = 4;
    const READ_FORMAT_ID: u64 = 4;
    const INHERIT: u64 = 1 << 1;
    const MMAP: u64 = 1 << 8;
    const COMM: u64 = 1 << 9;
    const TASK: u64 = 1 << 13;
    /// As precise as the CPU can: the `P` of the events' names.
    const PRECISE_IP: u64 = 3 << 15;
    const MMAP_DATA: u64 = 1 << 17;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const MMAP2: u64 = 1 << 23;
    const COMM_EXEC: u64 = 1 << 24;
    let flags =
        INHERIT | MMAP | COMM | TASK | PRECISE_IP | MMAP_DATA | SAMPLE_ID_ALL | MMAP2 | COMM_EXEC;
    let start = out.len();
    put32(out, TYPE_RAW);
    put32(out, ATTR_LEN as u32);
    put64(out, attr.config);
    for word in [form.period, form.sample_type(), READ_FORMAT_ID, flags] {
        put64(out, word);
    }
    put32(out, 0); // wakeup_events
    put32(out, 0); // bp_type
    put64(out, attr.config1);
    out.resize(start + ATTR_LEN, 0);
}
