//! A `PERF_RECORD_SAMPLE`, by its event's `sample_type`.

use super::attr::{Attr, Registers};
use super::bytes::Bytes;
use super::chain::{ChainFacts, read_chain};
use crate::format::sample;
use crate::{CpuMode, DataSrc, Sample};

/// Contents of a sample record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReadSample {
    pub(super) sample: Sample,
    pub(super) id: u64,
    /// Properties of its call chain, if it has one.
    pub(super) chain: Option<ChainFacts>,
    /// Has a copy of the program's stack.
    pub(super) has_stack: bool,
}

/// Parts of a sample that have no fixed length.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Call chain of the last sample that had one.
    pub(super) callers: Vec<u64>,
    /// Registers, without values if there are none.
    pub(super) registers: Registers,
}

/// Reads the body of a sample record, and its call chain and registers, if any, into `parts`; `None` when the
/// body ends before its fields.
#[inline]
pub(super) fn read_sample(
    attr: &Attr,
    misc: u16,
    mut bytes: Bytes<'_>,
    parts: &mut Parts,
) -> Option<ReadSample> {
    let mut read = ReadSample::default();
    let out = &mut read.sample;
    out.mode = CpuMode::of_misc(misc);
    out.cpu = u32::MAX;
    out.period = attr.period;
    if attr.has(sample::IDENTIFIER) {
        read.id = bytes.u64()?;
    }
    if attr.has(sample::IP) {
        out.ip = bytes.u64()?;
    }
    if attr.has(sample::TID) {
        out.pid = bytes.u32()?;
        out.tid = bytes.u32()?;
    }
    if attr.has(sample::TIME) {
        out.time_ns = bytes.u64()?;
    }
    if attr.has(sample::ADDR) {
        out.addr = bytes.u64()?;
    }
    if attr.has(sample::ID) {
        read.id = bytes.u64()?;
    }
    if attr.has(sample::STREAM_ID) {
        bytes.skip(8)?;
    }
    if attr.has(sample::CPU) {
        out.cpu = bytes.u32()?;
        bytes.skip(4)?;
    }
    if attr.has(sample::PERIOD) {
        out.period = bytes.u64()?;
    }
    parts.registers.values.clear();
    // Of the fields between here and the weight only the call chain and the registers are used.
    const BETWEEN: u64 = sample::READ
        | sample::CALLCHAIN
        | sample::RAW
        | sample::BRANCH_STACK
        | sample::REGS_USER
        | sample::STACK_USER;
    if attr.has(BETWEEN) {
        read_between(attr, &mut read, &mut bytes, parts)?;
    }
    let out = &mut read.sample;
    if attr.has(sample::WEIGHT) {
        out.weight = bytes.u64()?;
    } else if attr.has(sample::WEIGHT_STRUCT) {
        // The low half is the latency of the access; the others are of the instruction.
        out.weight = bytes.u64()? & u64::from(u32::MAX);
    }
    if attr.has(sample::DATA_SRC) {
        out.data_src = DataSrc(bytes.u64()?);
    }
    if attr.has(sample::TRANSACTION) {
        bytes.skip(8)?;
    }
    if attr.has(sample::REGS_INTR) {
        attr.interrupt_registers(&mut bytes, &mut parts.registers)?;
    }
    if attr.has(sample::PHYS_ADDR) {
        out.phys_addr = bytes.u64()?;
    }
    Some(read)
}

/// Reads the call chain and the registers, and passes over the other fields of changing length.
fn read_between(
    attr: &Attr,
    read: &mut ReadSample,
    bytes: &mut Bytes<'_>,
    parts: &mut Parts,
) -> Option<()> {
    if attr.has(sample::READ) {
        attr.skip_read(bytes)?;
    }
    if attr.has(sample::CALLCHAIN) {
        read.chain = Some(read_chain(read.sample.ip, bytes, &mut parts.callers)?);
    }
    if attr.has(sample::RAW) {
        let len = bytes.u32()?;
        bytes.skip(len.into())?;
    }
    if attr.has(sample::BRANCH_STACK) {
        attr.skip_branches(bytes)?;
    }
    if attr.has(sample::REGS_USER) {
        attr.user_registers(bytes, &mut parts.registers)?;
    }
    if attr.has(sample::STACK_USER) {
        let len = bytes.u64()?;
        bytes.skip(len)?;
        if len > 0 {
            read.has_stack = true;
            bytes.skip(8)?; // how much of it is used
        }
    }
    Some(())
}
