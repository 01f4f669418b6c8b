//! Any records through a replay.
#![no_main]

use std::sync::LazyLock;

use hitm_base::machine::preset;
use hitm_base::{Access, CpuId, Machine, ThreadId};
use hitm_test::{Choices, recording};
use hitm_trace::{Record, Turn, Waker};
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
    let records = recording::records(&mut choices);
    let _ = replay(MACHINE.clone(), cpu, &records);
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

/// Runs the records; what comes out is what went in, as far as threads had started.
fn replay(machine: Machine, cpu: CpuId, records: &[Record]) -> Result<(), ReplayError> {
    let mut replay = Replay::new(machine, Scattered);
    let mut count = 0u64;
    for record in records {
        match record {
            Record::Access { access, .. } => {
                let thread = few(access.thread);
                replay.access(&Access { thread, ..*access })?;
            }
            Record::ThreadStart(start) => {
                let mut start = start.clone();
                start.thread = few(start.thread);
                replay.start(&start, cpu)?;
            }
            Record::ThreadPlaced(placed) => replay.place(placed)?,
            Record::Work(work) => {
                let mut work = work.clone();
                work.thread = few(work.thread);
                replay.work(work)?;
            }
            Record::Turn(turn) => replay.turn(few_in(*turn), &mut |_, _| count += 1)?,
            _ => {}
        }
    }
    replay.finish(&mut |_, _| count += 1)?;
    let totals: u64 = replay.totals().map(|(_, totals)| totals.accesses).sum();
    assert_eq!(totals, count);
    Ok(())
}
