//! Typed records from choices: what the encoder takes.

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use hitm_trace::{BlockDecoder, COUNT_MAX, LATENCY_MAX, Record};

use super::payload::{KINDS, add};
use super::pool::Pool;
use super::wire::Block;
use crate::Choices;

/// The most records of one input.
const RECORDS_MAX: usize = 2000;

/// Records until the bytes are used up.
pub fn records(choices: &mut Choices<'_>) -> Vec<Record> {
    choices.be_sound();
    let mut pool = Pool::draw(choices);
    let mut records = Vec::new();
    while !choices.is_empty() && records.len() < RECORDS_MAX {
        records.push(match choices.one_in(3) {
            true => access(choices),
            false => other(choices, &mut pool),
        });
    }
    records
}

/// A record of any kind that is no access.
pub fn record(choices: &mut Choices<'_>) -> Record {
    choices.be_sound();
    let mut pool = Pool::draw(choices);
    other(choices, &mut pool)
}

/// A sound payload, decoded. A path alone is no record: an access stands for it.
fn other(choices: &mut Choices<'_>, pool: &mut Pool) -> Record {
    let kind = &KINDS[choices.below(KINDS.len())];
    let mut block = Block::default();
    add(choices, pool, kind, &mut block);
    match BlockDecoder::new(&block.bytes).next() {
        Some(record) => record.expect("a sound payload is a record"),
        None => access(choices),
    }
}

fn cycles(choices: &mut Choices<'_>, most: u64) -> Cycles {
    Cycles(choices.number().min(most))
}

fn access(choices: &mut Choices<'_>) -> Record {
    let op = choices.pick(&[
        AccessOp::Load,
        AccessOp::Store,
        AccessOp::LockedRmw,
        AccessOp::Fence,
    ]);
    // The last line of the address space holds nothing.
    let addr = choices.number().min(u64::MAX - 64);
    let room = 64 - (addr % 64) as usize;
    let access = Access {
        thread: ThreadId(choices.half()),
        cpu: CpuId(choices.half() as u16),
        time: cycles(choices, COUNT_MAX),
        addr,
        size: match op {
            AccessOp::Fence => 0,
            _ => 1 + choices.below(room) as u8,
        },
        op,
        code: CodeAddr(choices.number()),
    };
    let latency = cycles(choices, LATENCY_MAX);
    let mut outcome = Outcome::by_source(
        choices.pick(&DataSource::ALL),
        latency,
        cycles(choices, LATENCY_MAX),
        match choices.one_in(2) {
            true => latency,
            false => cycles(choices, LATENCY_MAX),
        },
    );
    if choices.one_in(4) {
        outcome.lost = outcome.stall.min(cycles(choices, LATENCY_MAX));
    }
    Record::Access { access, outcome }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::mem::discriminant;

    use hitm_trace::TraceReader;

    use super::*;
    use crate::noise;
    use crate::recording::{Collect, file};

    #[test]
    fn records_of_every_kind_go_through_a_file() {
        let mut kinds = HashSet::new();
        for seed in 0..300 {
            let bytes = noise(seed, 3000);
            let (file, written) = file(records(&mut Choices::new(&bytes)));
            let mut read = Collect::default();
            let mut reader = TraceReader::new(&file[..]).unwrap();
            assert!(reader.visit(&mut read).unwrap().is_complete());
            assert_eq!(read.0, written);
            kinds.extend(written.iter().map(discriminant));
        }
        // A path is read as callers, and an access is no kind of the table.
        assert_eq!(kinds.len(), KINDS.len());
    }
}
