//! Records to test with: any that can be, and some that a program could make.

use hitm_base::{
    Access, AccessOp, AddrRange, Clock, CodeAddr, CpuId, Cycles, DataSource, LineAddr, Outcome,
    ThreadId,
};
use hitm_trace::{
    Adoption, BlockEncoder, BlockMeta, COUNT_MAX, Counter, EncodeError, End, EndReason, Header,
    HeapObject, LATENCY_MAX, Loss, Mapping, Record, Region, RegionKind, Step, Stretch, ThreadExit,
    ThreadPlaced, ThreadStart, Totals, TraceWriter, Turn, Waker, Work,
};
use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) fn header() -> Header {
    Header {
        hitm_version: "0.1.0".to_owned(),
        args: vec!["./packed".to_owned(), "1000".to_owned()],
        machine_toml: "schema = 1\n".to_owned(),
        window: Cycles(10_000),
        placement: "spread".to_owned(),
        seed: 1,
        arch: "x86_64".to_owned(),
        qemu_version: "7.2.0".to_owned(),
        clock: Clock::from_khz(2_100_000),
        page_size_bytes: 4096,
        sampled: None,
    }
}

/// Mostly small numbers, sometimes any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..300, 2 => 0u64..100_000, 1 => any::<u64>()]
}

fn code() -> impl Strategy<Value = CodeAddr> {
    prop_oneof![3 => 0x40_1000u64..0x40_1040, 1 => any::<u64>()].prop_map(CodeAddr)
}

fn thread() -> impl Strategy<Value = ThreadId> {
    prop_oneof![5 => 0u32..4, 1 => any::<u32>()].prop_map(ThreadId)
}

fn cpu() -> impl Strategy<Value = CpuId> {
    prop_oneof![5 => 0u16..4, 1 => any::<u16>()].prop_map(CpuId)
}

/// Mostly small numbers, sometimes the largest that a recording may hold.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![6 => number().prop_map(|number| number % (COUNT_MAX + 1)), 1 => Just(COUNT_MAX)]
}

fn cycles() -> impl Strategy<Value = Cycles> {
    count().prop_map(Cycles)
}

fn latency() -> impl Strategy<Value = Cycles> {
    prop_oneof![
        6 => number().prop_map(|number| Cycles(number % (LATENCY_MAX + 1))),
        1 => Just(Cycles(LATENCY_MAX)),
    ]
}

prop_compose! {
    fn access()(
        thread in thread(),
        cpu in cpu(),
        time in cycles(),
        line in prop_oneof![4 => 100u64..110, 1 => 0..u64::MAX / 64],
        offset in 0u64..64,
        size in prop_oneof![Just(1u8), Just(4u8), Just(8u8), 1u8..=64],
        op in prop::sample::select(vec![AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw, AccessOp::Fence]),
        code in code(),
    ) -> Access {
        let room = 64 - offset as u8;
        let size = if op == AccessOp::Fence { 0 } else { size.min(room) };
        Access { thread, cpu, time, addr: line * 64 + offset, size, op, code }
    }
}

prop_compose! {
    fn outcome()(
        source in prop::sample::select(DataSource::ALL.to_vec()),
        latency in latency(),
        queued in prop_oneof![Just(Cycles::ZERO), latency()],
        stall in prop_oneof![Just(None), latency().prop_map(Some)],
        saved in prop_oneof![Just(None), latency().prop_map(Some)],
    ) -> Outcome {
        let outcome = Outcome::by_source(source, latency, queued, stall.unwrap_or(latency));
        let lost = saved.map(|saved| outcome.stall.saturating_sub(saved));
        Outcome { lost: lost.unwrap_or(outcome.lost), ..outcome }
    }
}

fn end_reason() -> impl Strategy<Value = EndReason> {
    prop_oneof![
        any::<i32>().prop_map(|status| EndReason::Exited { status }),
        any::<i32>().prop_map(|signal| EndReason::Signalled { signal }),
        Just(EndReason::Stopped),
        Just(EndReason::Exec),
        Just(EndReason::Killed),
        any::<i64>().prop_map(|code| EndReason::Lost {
            loss: Loss::of_code(code)
        }),
        (6u8.., any::<i64>()).prop_map(|(code, value)| EndReason::Other { code, value }),
    ]
}

fn region_kind() -> impl Strategy<Value = RegionKind> {
    prop_oneof![
        thread().prop_map(|thread| RegionKind::Stack { thread }),
        vec(code(), 0..5).prop_map(|stack| RegionKind::AnonymousMap { stack }),
        Just(RegionKind::Brk),
        (".{0,20}", ".{0,20}").prop_map(|(name, type_name)| RegionKind::Object { name, type_name }),
        (".{0,20}", ".{0,20}", any::<u64>()).prop_map(|(cache, type_name, stride_bytes)| {
            RegionKind::Slab {
                cache,
                type_name,
                stride_bytes,
            }
        }),
        any::<u32>().prop_map(|cpu| RegionKind::PerCpu { cpu }),
        any::<u64>().prop_map(|address| RegionKind::UserMemory { address }),
    ]
}

fn thread_record() -> impl Strategy<Value = Record> {
    prop_oneof![
        (
            thread(),
            any::<u32>(),
            cpu(),
            cycles(),
            ".{0,20}",
            any::<u32>(),
            0u32..9
        )
            .prop_map(
                |(thread, tid, cpu, time, name, seat, process)| Record::ThreadStart(ThreadStart {
                    thread,
                    tid,
                    cpu,
                    time,
                    name,
                    seat,
                    process
                })
            ),
        (thread(), cpu(), cycles()).prop_map(|(thread, cpu, time)| Record::ThreadPlaced(
            ThreadPlaced { thread, cpu, time }
        )),
        (thread(), [count(), count(), count(), count(), count()]).prop_map(
            |(thread, [time, insns, accesses, stall, contended])| {
                Record::ThreadExit(ThreadExit {
                    thread,
                    time: Cycles(time),
                    insns,
                    accesses,
                    stall: Cycles(stall),
                    contention_stall: Cycles(contended),
                })
            }
        ),
    ]
}

fn stretch() -> impl Strategy<Value = Stretch> {
    (number(), number()).prop_map(|(insns, stores)| Stretch { insns, stores })
}

fn work() -> impl Strategy<Value = Work> {
    let adoption =
        (number(), thread(), any::<bool>()).prop_map(|(line, owner, is_written)| Adoption {
            line: LineAddr(line % (u64::MAX / 64)),
            owner,
            is_written,
        });
    let step = (stretch(), any::<bool>()).prop_map(|(since, is_fence)| Step { since, is_fence });
    let parts = (thread(), vec(adoption, 0..4), vec(step, 0..20), stretch());
    parts.prop_map(|(thread, adoptions, steps, ahead)| Work {
        thread,
        adoptions,
        steps: steps.into_iter().collect(),
        ahead,
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    let waker = (thread(), number(), any::<i64>()).prop_map(|(thread, insn, delay)| Waker {
        thread,
        insn,
        delay,
    });
    prop_oneof![
        thread().prop_map(|thread| Turn::Left { thread }),
        (thread(), prop::option::of(waker))
            .prop_map(|(thread, waker)| Turn::Returned { thread, waker }),
        Just(Turn::Priced),
        cycles().prop_map(|span| Turn::Passed { span }),
    ]
}

fn other() -> impl Strategy<Value = Record> {
    prop_oneof![
        thread_record(),
        work().prop_map(Record::Work),
        turn().prop_map(Record::Turn),
        ".{0,60}".prop_map(Record::Layout),
        vec(code(), 0..4).prop_map(|callers| Record::Callers(callers.into())),
        (
            any::<[u64; 3]>(),
            ".{0,40}",
            vec(any::<u8>(), 0..20),
            any::<bool>()
        )
            .prop_map(|([from, to, file_offset], path, build_id, executable)| {
                Record::Mapping(Mapping {
                    range: between(from, to),
                    file_offset,
                    path,
                    build_id,
                    executable,
                })
            }),
        (
            any::<[u64; 2]>(),
            cycles(),
            thread(),
            vec(code(), 0..10),
            any::<Option<u64>>()
        )
            .prop_map(|([from, to], time, thread, stack, told_type)| {
                Record::HeapObject(HeapObject {
                    range: between(from, to),
                    time,
                    thread,
                    stack,
                    told_type,
                })
            }),
        (any::<[u64; 2]>(), region_kind())
            .prop_map(|([from, to], kind)| region(between(from, to), kind)),
        vec(("[a-z_]{1,12}", any::<u64>()), 0..5).prop_map(|counters| {
            let counter = |(name, value)| Counter { name, value };
            Record::Counters(counters.into_iter().map(counter).collect())
        }),
        (cycles(), end_reason(), any::<[u64; 6]>()).prop_map(|(time, reason, totals)| {
            Record::End(End {
                time,
                reason,
                totals: Totals {
                    threads: totals[0],
                    insns: totals[1],
                    accesses: totals[2],
                    stored_accesses: totals[3],
                    stall: Cycles(totals[4]),
                    contention_stall: Cycles(totals[5]),
                },
            })
        }),
    ]
}

/// The addresses between two, whichever is the first.
fn between(from: u64, to: u64) -> AddrRange {
    AddrRange::new(from.min(to), from.max(to)).expect("the smaller one is the first")
}

/// A region; memory of a program that would wrap begins lower.
fn region(range: AddrRange, kind: RegionKind) -> Record {
    let kind = match kind {
        RegionKind::UserMemory { address } => RegionKind::UserMemory {
            address: address.min(u64::MAX - range.len()),
        },
        other => other,
    };
    Record::Region(Region { range, kind })
}

/// Any record that can be.
pub(crate) fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        6 => (access(), outcome()).prop_map(|(access, outcome)| Record::Access { access, outcome }),
        1 => other(),
    ]
}

/// The record with number `number`, which its time says: so that a lost one, a repeated one and one
/// out of place are told apart.
pub(crate) fn numbered(number: u64) -> Record {
    let access = Access {
        thread: ThreadId((number % 3) as u32),
        cpu: CpuId(7),
        time: Cycles(number),
        addr: 0x1000 + number % 7 * 72,
        size: 4,
        op: AccessOp::Store,
        code: CodeAddr(0x40_1000 + number % 5 * 4),
    };
    let outcome = Outcome::by_source(
        DataSource::LocalHitm,
        Cycles(100 + number % 11),
        Cycles(number % 11),
        Cycles(0),
    );
    if number % 100 == 99 {
        return Record::ThreadPlaced(ThreadPlaced {
            thread: ThreadId(1),
            cpu: CpuId(2),
            time: Cycles(number),
        });
    }
    Record::Access { access, outcome }
}

/// The records as blocks of at most `block_len` bytes.
pub(crate) fn blocks(records: &[Record], block_len: usize) -> Vec<(BlockMeta, Vec<u8>)> {
    let mut encoder = BlockEncoder::new(vec![0; block_len]);
    let mut blocks = Vec::new();
    for record in records {
        if encoder.push(record) == Err(EncodeError::Full) {
            blocks.push((encoder.meta(), encoder.bytes().to_vec()));
            encoder.clear();
            encoder.push(record).unwrap();
        }
    }
    if !encoder.is_empty() {
        blocks.push((encoder.meta(), encoder.bytes().to_vec()));
    }
    blocks
}

/// The records as a file with a clean end.
pub(crate) fn file(records: &[Record], block_len: usize) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    for (meta, block) in blocks(records, block_len) {
        writer.write_block(meta, &block).unwrap();
    }
    writer.finish().unwrap()
}
