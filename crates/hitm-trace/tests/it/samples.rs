//! Records to test with: any that can be, and some that a program could make.

use hitm_base::{Access, AccessOp, Clock, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use hitm_test::Choices;
use hitm_trace::{
    BlockEncoder, BlockMeta, COUNT_MAX, EncodeError, Header, LATENCY_MAX, Record, ThreadPlaced,
    TraceWriter,
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

/// A record that is no access and takes few bytes.
fn other() -> impl Strategy<Value = Record> {
    let record = |bytes: Vec<u8>| hitm_test::recording::record(&mut Choices::new(&bytes));
    let any = vec(any::<u8>(), 8..80).prop_map(record);
    any.prop_filter("a short one", |record| {
        BlockEncoder::new([0; 1000]).push(record) == Ok(())
    })
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
