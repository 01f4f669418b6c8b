//! Recordings from accesses in a few words.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitm_base::{
    Access, AccessOp, AddrRange, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId,
};
use hitm_trace::{
    BlockEncoder, EncodeError, End, EndReason, Header, Mapping, Record, Step, Stretch, ThreadExit,
    ThreadStart, Totals, TraceWriter, Turn, Work,
};

use super::Files;
use crate::recording;

/// Accesses between two moments at which everything is priced.
const ROUND: usize = 256;

/// An access in a few words.
pub(super) struct Touch {
    thread: usize,
    addr: u64,
    code: u64,
    pub(super) callers: Option<Arc<[CodeAddr]>>,
}

impl Touch {
    pub(super) fn new(thread: usize, addr: u64, code: u64) -> Touch {
        Touch {
            thread,
            addr,
            code,
            callers: None,
        }
    }
}

/// `x.hitm` with these records and accesses, and `one.hitm` with only two of the accesses.
pub(super) fn files(thread_count: usize, before: Vec<Record>, touches: Vec<Touch>) -> Files {
    files_of(thread_count, |_| 0, before, touches)
}

pub(super) fn files_of(
    thread_count: usize,
    process: fn(usize) -> usize,
    before: Vec<Record>,
    mut touches: Vec<Touch>,
) -> Files {
    let x = file(thread_count, process, &before, &touches);
    touches.truncate(2);
    let one = file(2, |_| 0, &[], &touches);
    vec![("x.hitm".to_owned(), x), ("one.hitm".to_owned(), one)]
}

fn file(
    thread_count: usize,
    process: fn(usize) -> usize,
    before: &[Record],
    touches: &[Touch],
) -> Vec<u8> {
    let header = Header {
        machine_toml: recording::MACHINE.to_owned(),
        ..recording::header()
    };
    let mut writer = TraceWriter::new(Vec::new(), &header).expect("memory takes it");
    let mut encoder = BlockEncoder::new(vec![0; 1 << 18]);
    let mut push = |record: Record| {
        if encoder.push(&record) == Err(EncodeError::Full) {
            let (meta, bytes) = (encoder.meta(), encoder.bytes());
            writer.write_block(meta, bytes).expect("memory takes it");
            encoder.clear();
            encoder.push(&record).expect("it fits an empty block");
        }
        if matches!(record, Record::End(_)) {
            let (meta, bytes) = (encoder.meta(), encoder.bytes());
            writer.write_block(meta, bytes).expect("memory takes it");
        }
    };
    let first = before.partition_point(|record| matches!(record, Record::ProcessStart(_)));
    before[..first].iter().cloned().for_each(&mut push);
    (0..thread_count).for_each(|thread| push(start(thread, process(thread), "worker")));
    before[first..].iter().cloned().for_each(&mut push);
    for (round, touches) in touches.chunks(ROUND).enumerate() {
        works(touches).for_each(&mut push);
        push(Record::Turn(Turn::Priced));
        for (place, touch) in touches.iter().enumerate() {
            if let Some(callers) = &touch.callers {
                push(Record::Callers(callers.clone()));
            }
            push(access((round * ROUND + place) as u64, touch));
        }
    }
    let time = Cycles(500 * touches.len() as u64 + 1000);
    for thread in 0..thread_count {
        push(Record::ThreadExit(ThreadExit {
            thread: ThreadId(thread as u32),
            time,
            insns: 10,
            accesses: 1,
            stall: Cycles(400),
            contention_stall: Cycles(400),
        }));
    }
    push(Record::End(End {
        time,
        reason: EndReason::Exited { status: 0 },
        totals: Totals {
            threads: thread_count as u64,
            stored_accesses: touches.len() as u64,
            ..Totals::default()
        },
    }));
    writer.finish().expect("memory takes it")
}

pub(super) fn start(thread: usize, process: usize, name: &str) -> Record {
    Record::ThreadStart(ThreadStart {
        thread: ThreadId(thread as u32),
        tid: 100 + thread as u32,
        cpu: CpuId((thread % 4) as u16),
        time: Cycles(0),
        name: name.to_owned(),
        seat: thread as u32,
        process: process as u32,
    })
}

/// The work of each thread up to its last of these accesses.
fn works(touches: &[Touch]) -> impl Iterator<Item = Record> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for touch in touches {
        *counts.entry(touch.thread).or_default() += 1;
    }
    let step = Step {
        since: Stretch {
            insns: 20,
            stores: 0,
        },
        is_fence: false,
    };
    counts.into_iter().map(move |(thread, count)| {
        Record::Work(Work {
            thread: ThreadId(thread as u32),
            adoptions: Vec::new(),
            steps: std::iter::repeat_n(step, count).collect(),
            ahead: Stretch::default(),
        })
    })
}

fn access(number: u64, touch: &Touch) -> Record {
    let cycles = Cycles(400);
    Record::Access {
        access: Access {
            thread: ThreadId(touch.thread as u32),
            cpu: CpuId((touch.thread % 4) as u16),
            time: Cycles(500 * number),
            addr: touch.addr,
            size: 8,
            op: AccessOp::LockedRmw,
            code: CodeAddr(touch.code),
        },
        outcome: Outcome::by_source(DataSource::LocalHitm, cycles, Cycles(0), cycles),
    }
}

/// Touches of a line that make a verdict on it.
pub(super) const MANY: u64 = 40;
/// Touches of an address where others are on the same line.
pub(super) const FEW: u64 = 4;

/// Two threads touch each of these addresses in turn, so often, each in its own half of the line.
pub(super) fn fight(
    times: u64,
    addrs: impl Iterator<Item = u64>,
    code: impl Fn(u64) -> u64,
) -> Vec<Touch> {
    let addrs = addrs.enumerate();
    let touches = addrs.flat_map(|(number, addr)| {
        let code = code(number as u64);
        let touch = |turn: u64| Touch::new((turn % 2) as usize, addr + turn % 2 * 8, code);
        (0..times).map(touch).collect::<Vec<Touch>>()
    });
    touches.collect()
}

pub(super) fn range(start: u64, len: u64) -> AddrRange {
    AddrRange::with_len(start, len).expect("a small address")
}

pub(super) fn mapping(range: AddrRange, file_offset: u64, path: String) -> Record {
    Record::Mapping(Mapping {
        range,
        file_offset,
        path,
        build_id: Vec::new(),
        executable: true,
    })
}
