//! `struct perf_event_attr`: what an event counts and what its samples hold.

use super::bytes::{ByteOrder, Bytes};
use crate::format::sample;

/// Length of the first version of the struct.
pub(super) const ATTR_LEN_MIN: u64 = 64;
/// More than any version will need.
pub(super) const ATTR_LEN_MAX: u64 = 4096;

/// `PERF_FORMAT_*` of `read_format`.
mod read_format {
    pub(super) const TOTAL_TIME_ENABLED: u64 = 1;
    pub(super) const TOTAL_TIME_RUNNING: u64 = 2;
    pub(super) const ID: u64 = 4;
    pub(super) const GROUP: u64 = 8;
    pub(super) const LOST: u64 = 16;
}

const BRANCH_HW_INDEX: u64 = 1 << 17;
const BRANCH_COUNTERS: u64 = 1 << 19;

/// Event description, as far as its records need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attr {
    /// `PERF_TYPE_*`, or the number of a PMU.
    pub kind: u32,
    /// The event's number within its kind.
    pub config: u64,
    /// Events between two samples, or samples a second.
    pub period: u64,
    /// Bits of [`sample`].
    pub sample_type: u64,
    read_format: u64,
    /// Every record ends with a `sample_id`.
    pub(super) has_sample_id_all: bool,
    branch_sample_type: u64,
    /// One bit for each register of a sample, by the kernel's numbers.
    user_registers: u64,
    interrupt_registers: u64,
}

impl Attr {
    /// Reads the struct; `None` when it is cut off.
    pub(super) fn read(bytes: &[u8], order: ByteOrder) -> Option<Attr> {
        let mut fields = Bytes::new(bytes, order);
        let kind = fields.u32()?;
        let _size = fields.u32()?;
        let config = fields.u64()?;
        let period = fields.u64()?;
        let sample_type = fields.u64()?;
        let read_format = fields.u64()?;
        // Bit fields begin at the other end of the word in the other byte order.
        let flags = match (fields.u64()?, order) {
            (flags, ByteOrder::Little) => flags,
            (flags, ByteOrder::Big) => flags.reverse_bits(),
        };
        // wakeup_events, bp_type, config1; the struct ended here in its first version.
        fields.skip(16)?;
        let mut later = |len: u64| match fields.skip(len) {
            Some(()) => fields.u64().unwrap_or(0),
            None => 0,
        };
        let branch_sample_type = later(8); // behind config2
        let user_registers = later(0);
        let interrupt_registers = later(8); // behind sample_stack_user and clockid
        Some(Attr {
            kind,
            config,
            period,
            sample_type,
            read_format,
            has_sample_id_all: flags >> 18 & 1 == 1,
            branch_sample_type,
            user_registers,
            interrupt_registers,
        })
    }

    /// Returns true if records of both events have one layout.
    pub(super) fn is_laid_out_as(&self, other: &Attr) -> bool {
        let layout = |attr: &Attr| Attr {
            kind: 0,
            config: 0,
            period: 0,
            ..*attr
        };
        layout(self) == layout(other)
    }

    pub(super) fn has(&self, bits: u64) -> bool {
        self.sample_type & bits != 0
    }

    /// Bytes of the `sample_id` that ends each record, samples excepted.
    pub(super) fn sample_id_len(&self) -> usize {
        let words = sample::TID | sample::TIME | sample::ID | sample::STREAM_ID | sample::CPU;
        let words = words | sample::IDENTIFIER;
        if self.has_sample_id_all {
            8 * (self.sample_type & words).count_ones() as usize
        } else {
            0
        }
    }

    /// Passes over `PERF_SAMPLE_READ`.
    pub(super) fn skip_read(&self, bytes: &mut Bytes<'_>) -> Option<()> {
        let has = |bit: u64| u64::from(self.read_format & bit != 0);
        let times = has(read_format::TOTAL_TIME_ENABLED) + has(read_format::TOTAL_TIME_RUNNING);
        let each = 1 + has(read_format::ID) + has(read_format::LOST);
        if self.read_format & read_format::GROUP == 0 {
            return bytes.skip(8 * (times + each));
        }
        let count = bytes.u64()?;
        bytes.skip(
            count
                .checked_mul(each)?
                .checked_add(times)?
                .checked_mul(8)?,
        )
    }

    /// Passes over `PERF_SAMPLE_BRANCH_STACK`.
    pub(super) fn skip_branches(&self, bytes: &mut Bytes<'_>) -> Option<()> {
        let count = bytes.u64()?;
        if self.branch_sample_type & BRANCH_HW_INDEX != 0 {
            bytes.skip(8)?;
        }
        bytes.skip(count.checked_mul(24)?)?;
        if self.branch_sample_type & BRANCH_COUNTERS != 0 {
            bytes.skip(count.checked_mul(8)?)?;
        }
        Some(())
    }

    /// Reads `PERF_SAMPLE_REGS_USER`.
    pub(super) fn user_registers(&self, bytes: &mut Bytes<'_>, to: &mut Registers) -> Option<()> {
        to.read(self.user_registers, bytes)
    }

    /// Reads `PERF_SAMPLE_REGS_INTR`.
    pub(super) fn interrupt_registers(
        &self,
        bytes: &mut Bytes<'_>,
        to: &mut Registers,
    ) -> Option<()> {
        to.read(self.interrupt_registers, bytes)
    }

    /// Returns true for a clock of the kernel, whose samples have registers.
    pub fn is_clock_with_registers(&self) -> bool {
        const SOFTWARE: u32 = 1;
        const CLOCKS: [u64; 2] = [0, 1];
        self.kind == SOFTWARE
            && CLOCKS.contains(&self.config)
            && self.has(sample::REGS_USER | sample::REGS_INTR)
    }

    /// Returns true if samples are of accesses to memory.
    pub fn is_of_memory(&self) -> bool {
        self.has(sample::ADDR) && self.has(sample::DATA_SRC)
    }
}

/// Registers of a sample.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registers {
    /// One bit for each register that is there, by the kernel's numbers (`enum perf_event_x86_regs`).
    pub mask: u64,
    /// Their values by number; none in programs of 32 bits.
    pub values: Vec<u64>,
}

impl Registers {
    /// Reads registers. Those that were read before stay where there are none.
    fn read(&mut self, mask: u64, bytes: &mut Bytes<'_>) -> Option<()> {
        const ABI_64: u64 = 2;
        match bytes.u64()? {
            0 => Some(()),
            ABI_64 => {
                self.mask = mask;
                self.values.clear();
                for _ in 0..mask.count_ones() {
                    self.values.push(bytes.u64()?);
                }
                Some(())
            }
            _ => bytes.skip(8 * u64::from(mask.count_ones())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_those_of_programs_of_64_bits() {
        let attr = Attr {
            user_registers: 0b101,
            ..Attr::default()
        };
        let read = |words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut registers = Registers::default();
            let mut bytes = Bytes::new(&bytes, ByteOrder::Little);
            attr.user_registers(&mut bytes, &mut registers)?;
            Some((registers.values, bytes.rest().len()))
        };
        assert_eq!(read(&[2, 7, 8, 9]), Some((vec![7, 8], 8)));
        // No registers, those of 32 bits, one that is cut off.
        assert_eq!(read(&[0, 7]), Some((vec![], 8)));
        assert_eq!(read(&[1, 7, 8]), Some((vec![], 0)));
        assert_eq!(read(&[2, 7]), None);
    }

    #[test]
    fn clocks_are_events_of_the_kernel() {
        let is_clock = |kind, config, sample_type| {
            let attr = Attr {
                kind,
                config,
                sample_type,
                ..Attr::default()
            };
            attr.is_clock_with_registers()
        };
        assert!(is_clock(1, 0, sample::REGS_USER) && is_clock(1, 1, sample::REGS_INTR));
        assert!(!is_clock(0, 0, sample::REGS_USER) && !is_clock(1, 2, sample::REGS_USER));
        assert!(!is_clock(1, 0, sample::ADDR));
    }
}
