//! Any records through a replay, read ahead at any moment: the output stays the same.
#![no_main]

use std::sync::LazyLock;

use hitm_base::machine::preset;
use hitm_base::{Access, CpuId, Machine, Outcome, ThreadId};
use hitm_test::{Choices, recording};
use hitm_trace::{Record, Turn, Visitor as _, Waker};
use hitm_weave::replay::{FRESH, Relocate, Replay, ReplayError};
use libfuzzer_sys::fuzz_target;

/// Every other eight bytes of the lowest megabytes lie elsewhere.
struct Scattered;

impl Relocate for Scattered {
    fn pieces(&self, addr: u64, size: u8, pieces: &mut Vec<(u64, u8)>) {
        // The last byte of an access may be the last one that there is.
        for addr in (0..u64::from(size)).map(|nth| addr + nth) {
            let is_moved = addr < 1 << 20 && addr / 8 % 2 == 0;
            pieces.push((if is_moved { FRESH + addr } else { addr }, 1));
        }
    }

    fn fresh_line_count(&self) -> usize {
        1 << 14
    }
}

static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let text = preset("icelake-2s").expect("it is a preset");
    let mut machine = Machine::from_toml(text, "icelake-2s").expect("presets are right");
    machine.core.store_buffer_entries = 3;
    machine.core.fill_buffers = 2;
    machine
});

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let cpu = CpuId(choices.half() as u16);
    let patience = choices.word(2) as usize;
    let records = recording::records(&mut choices);
    let patient = replay(Replay::new(MACHINE.clone(), Scattered), cpu, &records);
    let impatient = Replay::new(MACHINE.clone(), Scattered).with_patience(patience);
    assert_eq!(patient, replay(impatient, cpu, &records));
});

/// One of a few threads, so that records meet.
fn few(thread: ThreadId) -> ThreadId {
    ThreadId(thread.0 % 4)
}

fn few_in(turn: Turn) -> Turn {
    match turn {
        Turn::Left { thread } => Turn::Left {
            thread: few(thread),
        },
        Turn::Returned { thread, waker } => Turn::Returned {
            thread: few(thread),
            waker: waker.map(|waker| Waker {
                thread: few(waker.thread),
                ..waker
            }),
        },
        Turn::Priced | Turn::Passed { .. } => turn,
    }
}

/// The record, as one of a few threads.
fn of_few(mut record: Record) -> Record {
    match &mut record {
        Record::Access { access, .. } => access.thread = few(access.thread),
        Record::ThreadStart(start) => start.thread = few(start.thread),
        Record::Work(work) => work.thread = few(work.thread),
        Record::Turn(turn) => *turn = few_in(*turn),
        _ => {}
    }
    record
}

/// Replays the records; the output has the accesses of the input, as far as their threads had
/// started.
fn replay(
    mut replay: Replay<Scattered>,
    cpu: CpuId,
    records: &[Record],
) -> Result<Vec<(Access, Outcome)>, ReplayError> {
    let mut out = Vec::new();
    let mut sink = |access: &Access, outcome: &Outcome| out.push((*access, *outcome));
    for (number, record) in records.iter().enumerate() {
        if replay.is_impatient() {
            let mut ahead = replay.read_ahead();
            for record in &records[number..] {
                match of_few(record.clone()) {
                    Record::Access { access, outcome } => ahead.access(&access, &outcome),
                    other => ahead.record(other),
                }
            }
            replay.note_ahead(ahead)?;
        }
        match of_few(record.clone()) {
            Record::Access { access, .. } => replay.access(&access)?,
            Record::ThreadStart(start) => replay.start(&start, cpu)?,
            Record::ThreadPlaced(placed) => replay.place(&placed)?,
            Record::Work(work) => replay.work(work)?,
            Record::Turn(turn) => replay.turn(turn, &mut sink)?,
            _ => {}
        }
    }
    replay.finish(&mut sink)?;
    let totals: u64 = replay.totals().map(|(_, totals)| totals.accesses).sum();
    assert_eq!(totals, out.len() as u64);
    Ok(out)
}
