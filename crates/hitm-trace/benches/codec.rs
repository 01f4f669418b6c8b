//! Encode, decode and compress: records per second on one core.
//!
//! The records are made by a small integer generator and resemble a recording. They have 8 threads,
//! 200 instructions, 500 shared lines of which a few take most accesses, times that mostly grow.

use std::hint::black_box;
use std::io::Write;

use criterion::{Criterion, Throughput};
use hitm_base::{Access, AccessOp, Clock, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use hitm_trace::{
    BlockEncoder, BlockMeta, EncodeError, Header, Record, TraceReader, TraceWriter, Visitor,
    decode_block,
};

/// Few enough that the records to encode, 88 bytes each, stay in the caches.
const RECORD_COUNT: usize = 100_000;
const BLOCK_LEN: usize = 256 << 10;

/// Xorshift: the same records in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

fn sample() -> Vec<(Access, Outcome)> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut time = 0;
    let make = |_| {
        time += random.below(40);
        let thread = random.below(8);
        let insn = random.below(200).min(random.below(200));
        // Half of the instructions stay with one line, the others roam.
        let line = match insn % 2 {
            0 => insn,
            _ => random.below(500).min(random.below(500)),
        };
        let is_contended = random.below(3) == 0;
        let queued = if is_contended { random.below(600) } else { 0 };
        let latency = if is_contended { 420 + queued } else { 5 };
        let op = match insn % 5 {
            0..3 => AccessOp::Load,
            3 => AccessOp::Store,
            _ => AccessOp::LockedRmw,
        };
        let stall = if op == AccessOp::Store { 0 } else { latency };
        let access = Access {
            thread: ThreadId(thread as u32),
            cpu: CpuId(thread as u16 * 8),
            time: Cycles(time - random.below(8).min(time)),
            addr: 0x7f00_0000_0000 + line * 192 + insn % 8 * 8,
            size: 1 << (insn % 4),
            op,
            code: CodeAddr(0x5555_5555_0000 + insn * 13),
        };
        let outcome = Outcome::by_source(
            if is_contended {
                DataSource::RemoteHitm
            } else {
                DataSource::L1
            },
            Cycles(latency),
            Cycles(queued),
            Cycles(stall),
        );
        (access, outcome)
    };
    (0..RECORD_COUNT).map(make).collect()
}

fn encode_all(
    encoder: &mut BlockEncoder<Vec<u8>>,
    records: &[(Access, Outcome)],
    mut on_block: impl FnMut(BlockMeta, &[u8]),
) {
    encoder.clear();
    for (access, outcome) in records {
        if encoder.push_access(access, outcome) == Err(EncodeError::Full) {
            on_block(encoder.meta(), encoder.bytes());
            encoder.clear();
            encoder
                .push_access(access, outcome)
                .expect("an access fits into an empty block");
        }
    }
    on_block(encoder.meta(), encoder.bytes());
}

/// Uses every field, so that no part of the decoding can be left out.
#[derive(Default)]
struct Sum(u64);

impl Visitor for Sum {
    #[inline(always)]
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        let who = u64::from(access.thread.0) ^ u64::from(access.cpu.0);
        let what = u64::from(access.size) ^ access.op as u64 ^ outcome.source as u64;
        let times = access.time.0 ^ outcome.latency.0 ^ outcome.queued.0 ^ outcome.stall.0;
        self.0 = self
            .0
            .wrapping_add(who ^ what ^ times ^ access.addr ^ access.code.0);
    }

    fn record(&mut self, _: Record) {}
}

fn header() -> Header {
    Header {
        hitm_version: "0.1.0".to_owned(),
        args: vec!["bench".to_owned()],
        machine_toml: String::new(),
        window: Cycles(10_000),
        placement: "spread".to_owned(),
        seed: 1,
        arch: "x86_64".to_owned(),
        qemu_version: "7.2.0".to_owned(),
        clock: Clock::from_khz(2_000_000),
        page_size_bytes: 4096,
        sampled: None,
    }
}

fn write_file(blocks: &[(BlockMeta, Vec<u8>)]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &header()).expect("memory takes it");
    for (meta, block) in blocks {
        writer.write_block(*meta, block).expect("memory takes it");
    }
    writer.finish().expect("memory takes it")
}

fn codec(criterion: &mut Criterion) {
    let records = sample();
    let mut encoder = BlockEncoder::new(vec![0; BLOCK_LEN]);
    let mut blocks = Vec::new();
    encode_all(&mut encoder, &records, |meta, block| {
        blocks.push((meta, block.to_vec()));
    });
    let file = write_file(&blocks);
    let encoded_len: usize = blocks.iter().map(|(_, block)| block.len()).sum();
    let per_record = |len: usize| len as f64 / RECORD_COUNT as f64;
    let mut out = std::io::stderr();
    let _ = writeln!(
        out,
        "{:.2} bytes a record encoded, {:.2} compressed",
        per_record(encoded_len),
        per_record(file.len())
    );

    let mut group = criterion.benchmark_group("codec");
    group.throughput(Throughput::Elements(RECORD_COUNT as u64));
    group.sample_size(20);
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            encode_all(&mut encoder, &records, |_, block| {
                black_box(block);
            });
        });
    });
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            let mut sum = Sum::default();
            for (_, block) in &blocks {
                decode_block(block, &mut sum).expect("the encoder wrote it");
            }
            black_box(sum.0)
        });
    });
    group.bench_function("compress and write", |bencher| {
        bencher.iter(|| black_box(write_file(&blocks)));
    });
    group.bench_function("read, decompress and decode", |bencher| {
        bencher.iter(|| {
            let mut sum = Sum::default();
            let mut reader = TraceReader::new(file.as_slice()).expect("the writer wrote it");
            reader.visit(&mut sum).expect("the writer wrote it");
            black_box(sum.0)
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    codec(&mut criterion);
    criterion.final_summary();
}
