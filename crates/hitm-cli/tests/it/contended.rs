//! A recording made by hand: two threads that fight over a variable of a file.

use hitm_base::{
    Access, AccessOp, AddrRange, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId,
};
use hitm_trace::{End, EndReason, Mapping, Record, ThreadExit, ThreadStart, Totals};

/// Address of the mapped file.
const BASE: u64 = 0x40_0000;

/// Two threads write in turn, each to its own member, for most of their time; code and data are in the
/// file at `path`.
pub(crate) fn records(path: &str) -> Vec<Record> {
    let mut records = vec![Record::Mapping(Mapping {
        range: AddrRange::with_len(BASE, 0x10_0000).expect("a small address"),
        file_offset: 0,
        path: path.to_owned(),
        build_id: vec![0xab; 20],
        executable: true,
    })];
    records.extend((0..2).map(|thread| start(thread, "writer")));
    for number in 0..200 {
        records.push(write(number));
    }
    records.extend((0..2).map(exit));
    records.push(Record::End(End {
        time: Cycles(100_000),
        reason: EndReason::Exited { status: 0 },
        totals: Totals {
            threads: 2,
            stored_accesses: 200,
            ..Totals::default()
        },
    }));
    records
}

fn start(thread: u32, name: &str) -> Record {
    Record::ThreadStart(ThreadStart {
        thread: ThreadId(thread),
        tid: 100 + thread,
        cpu: CpuId(thread as u16),
        time: Cycles(0),
        name: name.to_owned(),
        seat: thread,
        process: 0,
    })
}

fn write(number: u64) -> Record {
    let thread = (number % 2) as u32;
    let cycles = Cycles(400);
    Record::Access {
        access: Access {
            thread: ThreadId(thread),
            cpu: CpuId(thread as u16),
            time: Cycles(500 * number),
            addr: BASE + 0x8_0000 + 8 * u64::from(thread),
            size: 8,
            op: AccessOp::LockedRmw,
            code: CodeAddr(BASE + 0x1000),
        },
        outcome: Outcome::by_source(DataSource::LocalHitm, cycles, Cycles(0), cycles),
    }
}

fn exit(thread: u32) -> Record {
    Record::ThreadExit(ThreadExit {
        thread: ThreadId(thread),
        time: Cycles(100_000),
        insns: 100,
        accesses: 100,
        stall: Cycles(40_000),
        contention_stall: Cycles(40_000),
    })
}
