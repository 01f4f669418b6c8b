//! Typed records from choices: what the encoder takes.

use hitm_base::{
    Access, AccessOp, AddrRange, CodeAddr, CpuId, Cycles, DataSource, LineAddr, Outcome, ThreadId,
};
use hitm_trace::{
    Adoption, COUNT_MAX, Counter, End, EndReason, HeapObject, LATENCY_MAX, Loss, Mapping, Record,
    Region, RegionKind, Step, Stretch, ThreadExit, ThreadPlaced, ThreadStart, Totals, Turn,
    WaitKind, Waits, Waker, Work,
};

use crate::Choices;

/// The most records of one input.
const RECORDS_MAX: usize = 2000;

/// Records until the bytes are used up.
pub fn records(choices: &mut Choices<'_>) -> Vec<Record> {
    let mut records = Vec::new();
    while !choices.is_empty() && records.len() < RECORDS_MAX {
        records.push(record(choices));
    }
    records
}

/// A record of any kind; every third is an access.
pub fn record(choices: &mut Choices<'_>) -> Record {
    match choices.below(19) {
        0 => thread_start(choices),
        1 => Record::ThreadPlaced(ThreadPlaced {
            thread: thread(choices),
            cpu: cpu(choices),
            time: cycles(choices),
        }),
        2 => thread_exit(choices),
        3 => mapping(choices),
        4 => heap_object(choices),
        5 => region(choices),
        6 => counters(choices),
        7 => end(choices),
        8 => Record::Work(work(choices)),
        9 => Record::Turn(turn(choices)),
        10 => Record::Callers(stack(choices).into()),
        11 => Record::Layout(choices.text()),
        12 => waits(choices),
        _ => access(choices),
    }
}

fn cycles(choices: &mut Choices<'_>) -> Cycles {
    Cycles(count(choices))
}

/// A number that a recording may hold.
fn count(choices: &mut Choices<'_>) -> u64 {
    choices.number().min(COUNT_MAX)
}

fn latency(choices: &mut Choices<'_>) -> Cycles {
    Cycles(choices.number().min(LATENCY_MAX))
}

fn thread(choices: &mut Choices<'_>) -> ThreadId {
    ThreadId(choices.half())
}

fn cpu(choices: &mut Choices<'_>) -> CpuId {
    CpuId(choices.half() as u16)
}

fn stack(choices: &mut Choices<'_>) -> Vec<CodeAddr> {
    let count = choices.pick(&[0, 1, 2, 3, 8, 64, 128, 300]);
    (0..count).map(|_| CodeAddr(choices.number())).collect()
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
        thread: thread(choices),
        cpu: cpu(choices),
        time: cycles(choices),
        addr,
        size: match op {
            AccessOp::Fence => 0,
            _ => 1 + choices.below(room) as u8,
        },
        op,
        code: CodeAddr(choices.number()),
    };
    let latency = self::latency(choices);
    let mut outcome = Outcome::by_source(
        choices.pick(&DataSource::ALL),
        latency,
        self::latency(choices),
        match choices.one_in(2) {
            true => latency,
            false => self::latency(choices),
        },
    );
    if choices.one_in(4) {
        outcome.lost = outcome.stall.min(self::latency(choices));
    }
    Record::Access { access, outcome }
}

fn thread_start(choices: &mut Choices<'_>) -> Record {
    Record::ThreadStart(ThreadStart {
        thread: thread(choices),
        seat: choices.half(),
        process: choices.half(),
        tid: choices.half(),
        cpu: cpu(choices),
        time: cycles(choices),
        name: choices.text(),
    })
}

fn thread_exit(choices: &mut Choices<'_>) -> Record {
    Record::ThreadExit(ThreadExit {
        thread: thread(choices),
        time: cycles(choices),
        insns: count(choices),
        accesses: count(choices),
        stall: cycles(choices),
        contention_stall: cycles(choices),
    })
}

fn waits(choices: &mut Choices<'_>) -> Record {
    Record::Waits(Waits {
        thread: thread(choices),
        kind: choices.pick(&[WaitKind::Spinning, WaitKind::Asleep]),
        word: choices.number(),
        code: CodeAddr(choices.number()),
        count: count(choices),
        cycles: cycles(choices),
    })
}

fn mapping(choices: &mut Choices<'_>) -> Record {
    let range = range(choices);
    let build_id_len = choices.pick(&[0, 20, 1, 64]);
    Record::Mapping(Mapping {
        range,
        file_offset: choices.number(),
        path: choices.text(),
        build_id: choices.bytes(build_id_len).to_vec(),
        executable: choices.one_in(2),
    })
}

fn heap_object(choices: &mut Choices<'_>) -> Record {
    Record::HeapObject(HeapObject {
        range: range(choices),
        time: cycles(choices),
        thread: thread(choices),
        stack: stack(choices),
        told_type: None,
    })
}

/// A range that does not wrap; those are made at the level of the wire.
fn range(choices: &mut Choices<'_>) -> AddrRange {
    let (one, other) = (choices.number(), choices.number());
    AddrRange::new(one.min(other), one.max(other)).expect("the smaller one is the first")
}

fn region(choices: &mut Choices<'_>) -> Record {
    let range = range(choices);
    let kind = match choices.below(7) {
        0 => RegionKind::Stack {
            thread: thread(choices),
        },
        1 => RegionKind::AnonymousMap {
            stack: stack(choices),
        },
        2 => RegionKind::Object {
            name: choices.text(),
            type_name: choices.text(),
        },
        3 => RegionKind::Slab {
            cache: choices.text(),
            type_name: choices.text(),
            stride_bytes: choices.number(),
        },
        4 => RegionKind::PerCpu {
            cpu: choices.half(),
        },
        5 => RegionKind::UserMemory {
            address: choices.number().min(u64::MAX - range.len()),
        },
        _ => RegionKind::Brk,
    };
    Record::Region(Region { range, kind })
}

fn counters(choices: &mut Choices<'_>) -> Record {
    let count = choices.below(5);
    let counter = |_| Counter {
        name: choices.text(),
        value: choices.number(),
    };
    Record::Counters((0..count).map(counter).collect())
}

fn stretch(choices: &mut Choices<'_>) -> Stretch {
    Stretch {
        insns: choices.number(),
        stores: choices.number(),
    }
}

fn work(choices: &mut Choices<'_>) -> Work {
    let thread = thread(choices);
    let adoption_count = choices.below(4);
    let adoptions = (0..adoption_count).map(|_| Adoption {
        // A line is an address divided by 64.
        line: LineAddr(choices.number().min(u64::MAX - 64) / 64),
        owner: self::thread(choices),
        is_written: choices.one_in(2),
    });
    let adoptions = adoptions.collect();
    let step_count = choices.below(21);
    let steps = (0..step_count).map(|_| Step {
        since: stretch(choices),
        is_fence: choices.one_in(2),
    });
    Work {
        thread,
        adoptions,
        steps: steps.collect(),
        ahead: stretch(choices),
    }
}

fn turn(choices: &mut Choices<'_>) -> Turn {
    match choices.below(5) {
        0 => Turn::Left {
            thread: thread(choices),
        },
        1 => Turn::Returned {
            thread: thread(choices),
            waker: None,
        },
        2 => Turn::Returned {
            thread: thread(choices),
            waker: Some(Waker {
                thread: thread(choices),
                insn: choices.number(),
                delay: choices.number() as i64,
            }),
        },
        3 => Turn::Passed {
            span: cycles(choices),
        },
        _ => Turn::Priced,
    }
}

fn end(choices: &mut Choices<'_>) -> Record {
    let reason = match choices.below(7) {
        0 => EndReason::Exited {
            status: choices.number() as i32,
        },
        1 => EndReason::Signalled {
            signal: choices.number() as i32,
        },
        2 => EndReason::Stopped,
        3 => EndReason::Exec,
        4 => EndReason::Killed,
        5 => EndReason::Lost {
            loss: Loss::of_code(choices.number() as i64),
        },
        _ => EndReason::Other {
            code: 6 + choices.below(250) as u8,
            value: choices.number() as i64,
        },
    };
    Record::End(End {
        time: cycles(choices),
        reason,
        totals: Totals {
            threads: choices.number(),
            insns: choices.number(),
            accesses: choices.number(),
            stored_accesses: choices.number(),
            stall: cycles(choices),
            contention_stall: cycles(choices),
        },
    })
}
