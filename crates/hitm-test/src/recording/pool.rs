//! Numbers that the records of one file share.

use hitm_trace::{CALLERS_MAX, COUNT_MAX};

use crate::Choices;

/// Numbers that the records of one file share, so that they refer to each other. So accesses hit
/// heap blocks, stacks lie in mappings, and threads have started.
pub(super) struct Pool {
    addresses: [u64; 4],
    codes: [u64; 4],
    threads: [u64; 4],
    time: u64,
}

impl Pool {
    pub(super) fn draw(choices: &mut Choices<'_>) -> Pool {
        let first = choices.number();
        let second = choices.number();
        let is_extreme = choices.one_in(4);
        Pool {
            addresses: [0x5000_0000, 0x5000_0040, first, second],
            codes: [0x40_1000, 0x40_1010, second, first],
            threads: if is_extreme {
                [0, 1, u64::from(u32::MAX), choices.half().into()]
            } else {
                [0, 1, 2, 3]
            },
            time: limited(choices, COUNT_MAX / 2),
        }
    }

    pub(super) fn address(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.below(8) {
            7 => choices.number(),
            place => self.addresses[place % 4].wrapping_add(choices.below(128) as u64),
        }
    }

    pub(super) fn code(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.below(8) {
            7 => choices.number(),
            place => self.codes[place % 4],
        }
    }

    pub(super) fn thread(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.below(256) {
            254 => choices.half().into(),
            255 if choices.odd(2) => choices.number(),
            place => self.threads[place % 4],
        }
    }

    /// A moment: a little after the last one, or any.
    pub(super) fn time(&mut self, choices: &mut Choices<'_>) -> u64 {
        self.time = match choices.below(16) {
            15 => limited(choices, COUNT_MAX),
            step if self.time <= COUNT_MAX => (self.time + step as u64 * 100).min(COUNT_MAX),
            _ => self.time,
        };
        self.time
    }

    /// A first address and a length; seldom one that wraps or ends before it begins.
    pub(super) fn range(&self, choices: &mut Choices<'_>) -> Extent {
        let start = self.address(choices) & !63;
        let len = match choices.below(4) {
            0 => 64,
            1 => 4096,
            2 => choices.number(),
            _ => u64::MAX - start / 2,
        };
        let len = match choices.odd(8) {
            true => len,
            false => len.min(u64::MAX - start),
        };
        Extent { start, len }
    }

    /// Addresses of a chain: a few from the pool, or a long row.
    pub(super) fn addresses(&self, choices: &mut Choices<'_>) -> Vec<u64> {
        let count = choices.count(20_000);
        let count = match choices.odd(2) {
            true => count,
            false => count.min(CALLERS_MAX),
        };
        if count > 8 {
            let (first, step) = (self.code(choices), choices.number());
            let nth = |nth: u64| first.wrapping_add(step.wrapping_mul(nth));
            return (0..count as u64).map(nth).collect();
        }
        (0..count).map(|_| self.code(choices)).collect()
    }
}

/// Addresses of a record, which may wrap.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    /// The first one.
    pub(super) start: u64,
    /// Bytes.
    pub(super) len: u64,
}

/// A number within the format's limit `max`; rarely any.
pub(super) fn limited(choices: &mut Choices<'_>, max: u64) -> u64 {
    let number = choices.number();
    match choices.odd(16) {
        true => number,
        false => number.min(max),
    }
}

/// A number below `bound`; now and then any of 16 bits, or of 64.
pub(super) fn small(choices: &mut Choices<'_>, bound: usize) -> u64 {
    match choices.below(256) {
        254 => choices.half().into(),
        255 if choices.odd(2) => choices.number(),
        240..=253 => choices.word(2),
        _ => choices.below(bound) as u64,
    }
}
