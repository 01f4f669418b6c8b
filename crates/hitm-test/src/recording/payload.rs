//! Payloads of every kind of record, number by number, from the shapes in the format's table.

use std::sync::LazyLock;

use hitm_trace::Record;
use hitm_trace::shape::{Choice, Kind, Member, Quantity, Shape};

use super::pool::{Extent, Pool, limited, small};
use super::wire::{Block, Payload};
use crate::Choices;

/// All kinds of records but the access.
pub(super) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(Record::kinds);

/// Adds a record of a kind to a block.
pub(super) fn add(choices: &mut Choices<'_>, pool: &mut Pool, kind: &Kind, block: &mut Block) {
    let mut maker = Maker {
        choices,
        pool,
        chain_count: block.chain_counts.get(&kind.number).copied().unwrap_or(0),
        time: None,
        extent: Extent::default(),
        last_line: 0,
    };
    block.record(kind.number, |payload| maker.put(&kind.payload, payload));
    let (chain_count, time) = (maker.chain_count, maker.time);
    block.chain_counts.insert(kind.number, chain_count);
    if let Some(time) = time {
        block.note_time(time);
    }
}

/// Makes one payload.
struct Maker<'c, 'b> {
    choices: &'c mut Choices<'b>,
    pool: &'c mut Pool,
    /// Call chains that records of the kind have introduced in the block.
    chain_count: usize,
    /// The record's time.
    time: Option<u64>,
    /// The record's addresses.
    extent: Extent,
    /// The line of the item before.
    last_line: u64,
}

impl Maker<'_, '_> {
    fn put(&mut self, shape: &Shape, out: &mut Payload) {
        match shape {
            Shape::Number { quantity, most } => {
                let number = self.number(*quantity, *most);
                out.numbers(&[number]);
            }
            Shape::Signed => drop(out.signed(self.choices.number() as i64)),
            Shape::Text => self.text(out),
            Shape::Bytes => {
                let len = self.choices.pick(&[0, 20, 1, 64]);
                out.counted(self.choices.bytes(len));
            }
            Shape::Flag => drop(out.byte(self.choices.byte() & 1)),
            Shape::Stack => drop(out.stack(&self.pool.addresses(self.choices))),
            Shape::Range | Shape::SizedRange => self.range(*shape == Shape::SizedRange, out),
            Shape::Choice { is_byte, choices } => self.choice(*is_byte, choices, out),
            Shape::Parts(members) => self.members(members, out),
            Shape::Many(members) => {
                let count = self.choices.count(1000);
                out.numbers(&[count as u64]);
                (0..count).for_each(|_| self.members(members, out));
            }
            Shape::Steps => self.steps(out),
            Shape::Callers => self.callers(out),
            Shape::MaybeCallers if self.choices.one_in(4) => {}
            Shape::MaybeCallers => self.callers(out),
        }
    }

    /// The members; those of later versions may be left out.
    fn members(&mut self, members: &[Member], out: &mut Payload) {
        for member in members {
            if member.since > 0 && self.choices.one_in(2) {
                return;
            }
            self.put(&member.shape, out);
        }
    }

    fn number(&mut self, quantity: Quantity, most: u64) -> u64 {
        let (choices, pool) = (&mut *self.choices, &mut *self.pool);
        let number = match quantity {
            Quantity::Any => choices.number(),
            Quantity::Thread => pool.thread(choices),
            Quantity::Cpu => small(choices, 5),
            Quantity::Time => pool.time(choices),
            Quantity::Id => small(choices, 8),
            Quantity::Count => return limited(choices, most),
            Quantity::Address => pool.address(choices),
            Quantity::RangeAddress => return self.range_address(),
            Quantity::Code => pool.code(choices),
            Quantity::LineStep => return self.line_step(most),
            Quantity::ThreadAndFlag => {
                let thread = pool.thread(choices);
                let thread = fit(choices, thread, most);
                return thread.wrapping_mul(2) | choices.below(2) as u64;
            }
        };
        let number = fit(choices, number, most);
        if quantity == Quantity::Time {
            self.time.get_or_insert(number);
        }
        number
    }

    /// An address at which the record's bytes fit; seldom one at which they do not.
    fn range_address(&mut self) -> u64 {
        let address = self.choices.number();
        match self.choices.odd(8) {
            true => address,
            false => address.min(u64::MAX - self.extent.len),
        }
    }

    fn line_step(&mut self, most: u64) -> u64 {
        let line = match self.choices.one_in(16) {
            true => limited(self.choices, most),
            false => self.pool.address(self.choices).min(u64::MAX - 64) / 64,
        };
        let step = line.wrapping_sub(self.last_line) as i64;
        self.last_line = line;
        (step << 1 ^ step >> 63) as u64
    }

    fn text(&mut self, out: &mut Payload) {
        match self.choices.odd(64) {
            true => out.counted(self.choices.bytes(8)),
            false => out.counted(self.choices.text().as_bytes()),
        };
    }

    fn range(&mut self, is_sized: bool, out: &mut Payload) {
        self.extent = self.pool.range(self.choices);
        let Extent { start, len } = self.extent;
        match is_sized {
            true => out.numbers(&[start, len]),
            false => out.numbers(&[start, start.wrapping_add(len)]),
        };
    }

    fn choice(&mut self, is_byte: bool, choices: &[Choice], out: &mut Payload) {
        let choice = &choices[self.choices.below(choices.len())];
        let number = match self.choices.odd(32) {
            true => self.choices.byte().into(),
            false => choice.number,
        };
        match is_byte {
            true => out.byte(number as u8),
            false => out.numbers(&[number]),
        };
        self.members(&choice.members, out);
    }

    fn steps(&mut self, out: &mut Payload) {
        let count = self.choices.below(21);
        out.numbers(&[count as u64]);
        for _ in 0..count {
            let first = self.choices.byte();
            out.byte(first);
            // Each is added to what the byte says.
            if first >> 3 == 31 {
                out.numbers(&[limited(self.choices, u64::MAX - 31)]);
            }
            if first & 3 == 3 {
                out.numbers(&[limited(self.choices, u64::MAX - 3)]);
            }
        }
    }

    /// A new chain, or one that the block knows; seldom one that it does not.
    fn callers(&mut self, out: &mut Payload) {
        let known = match self.choices.below(64) {
            0 if self.choices.odd(2) => Some(self.choices.number()),
            1..=31 if self.chain_count > 0 => Some(self.choices.below(self.chain_count) as u64),
            _ => None,
        };
        match known {
            Some(known) => out.numbers(&[known.wrapping_add(1)]),
            None => {
                self.chain_count += 1;
                out.callers(&self.pool.addresses(self.choices))
            }
        };
    }
}

/// The number, at most `most`; seldom any.
fn fit(choices: &mut Choices<'_>, number: u64, most: u64) -> u64 {
    match choices.odd(16) {
        true => number,
        false => number.min(most),
    }
}
