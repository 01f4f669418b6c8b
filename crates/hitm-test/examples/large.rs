//! Writes a recording of so many accesses, and prints their sums as a report must have them.
//!
//! `cargo run --release -p hitm-test --example large -- 1000000000 large.hitm`: eight threads fight over 64
//! lines, and hand the million lines of their buffers to one another.

use std::fs::File;
use std::io::{BufWriter, Write};

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use hitm_trace::{
    BlockEncoder, EncodeError, End, EndReason, Header, Record, ThreadExit, ThreadStart, Totals,
    TraceWriter,
};

const THREADS: u32 = 8;
const HOT_LINES: u64 = 64;
const BUFFER_LINES: u64 = 1 << 20;
const BLOCK_BYTES: usize = 1 << 18;

/// Numbers that look random: a linear congruential generator with Knuth's multiplier (The Art of Computer
/// Programming, volume 2, 3.3.4).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Sums over all accesses.
#[derive(Default)]
struct Sums {
    by_op: [u64; 3],
    stall: u64,
    lost: u64,
}

struct Output<W: Write> {
    writer: TraceWriter<W>,
    encoder: BlockEncoder<Vec<u8>>,
}

impl<W: Write> Output<W> {
    fn push(&mut self, record: &Record) -> Result<(), Box<dyn std::error::Error>> {
        if self.encoder.push(record) == Err(EncodeError::Full) {
            self.write()?;
            self.encoder.push(record)?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let (meta, bytes) = (self.encoder.meta(), self.encoder.bytes());
        self.writer.write_block(meta, bytes)?;
        self.encoder.clear();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, count, path] = args.as_slice() else {
        return Err("usage: large ACCESSES FILE".into());
    };
    let count: u64 = count.parse()?;
    let header = Header {
        machine_toml: hitm_base::machine::preset("broadwell-4s")
            .ok_or("no such preset")?
            .into(),
        ..hitm_test::recording::header()
    };
    let file = BufWriter::new(File::create(path)?);
    let mut output = Output {
        writer: TraceWriter::new(file, &header)?,
        encoder: BlockEncoder::new(vec![0; BLOCK_BYTES]),
    };
    let sums = write_all(count, &mut output)?;
    output.write()?;
    output.writer.finish()?;
    let [loads, stores, locked] = sums.by_op;
    println!("loads {loads} stores {stores} locked {locked}");
    println!("stall_cycles {} lost_cycles {}", sums.stall, sums.lost);
    Ok(())
}

fn write_all(
    count: u64,
    output: &mut Output<impl Write>,
) -> Result<Sums, Box<dyn std::error::Error>> {
    let mut sums = Sums::default();
    let mut numbers = Numbers(1);
    for thread in 0..THREADS {
        output.push(&Record::ThreadStart(ThreadStart {
            thread: ThreadId(thread),
            tid: 100 + thread,
            cpu: CpuId(thread as u16),
            time: Cycles::ZERO,
            name: "worker".into(),
            seat: thread,
            process: 0,
        }))?;
    }
    for number in 0..count {
        let (access, outcome) = access(number, &mut numbers);
        sums.by_op[access.op as usize] += 1;
        sums.stall += outcome.stall.0;
        sums.lost += outcome.lost.0;
        output.push(&Record::Access { access, outcome })?;
    }
    for thread in 0..THREADS {
        output.push(&Record::ThreadExit(ThreadExit {
            thread: ThreadId(thread),
            time: Cycles(10 * count),
            insns: count,
            accesses: count / u64::from(THREADS),
            stall: Cycles(sums.stall / u64::from(THREADS)),
            contention_stall: Cycles(sums.lost / u64::from(THREADS)),
        }))?;
    }
    output.push(&Record::End(End {
        time: Cycles(10 * count),
        reason: EndReason::Exited { status: 0 },
        totals: Totals {
            threads: THREADS.into(),
            stored_accesses: count,
            ..Totals::default()
        },
    }))?;
    Ok(sums)
}

/// One in sixteen accesses goes to a line that all fight over; the others walk over the buffers.
fn access(number: u64, numbers: &mut Numbers) -> (Access, Outcome) {
    let thread = numbers.below(THREADS.into()) as u32;
    let is_hot = number.is_multiple_of(16);
    let (addr, op, source) = if is_hot {
        let line = numbers.below(HOT_LINES);
        let member = 8 * u64::from(thread);
        (
            0x10_0000 + 64 * line + member,
            AccessOp::LockedRmw,
            DataSource::RemoteHitm,
        )
    } else {
        let line = number / 16 % BUFFER_LINES;
        let place = 8 * (number % 8);
        let (op, source) = match number % 16 {
            1 => (AccessOp::Load, DataSource::RemoteHitm),
            2 | 3 => (AccessOp::Store, DataSource::L1),
            _ => (AccessOp::Load, DataSource::L1),
        };
        (0x4000_0000 + 64 * line + place, op, source)
    };
    let cycles = match source {
        DataSource::RemoteHitm => 200 + numbers.below(200),
        _ => 4,
    };
    let access = Access {
        thread: ThreadId(thread),
        cpu: CpuId(thread as u16),
        time: Cycles(10 * number),
        addr,
        size: 8,
        op,
        code: CodeAddr(0x40_1000 + 4 * (number % 16)),
    };
    let outcome = Outcome::by_source(
        source,
        Cycles(cycles),
        Cycles::ZERO,
        Cycles(if source == DataSource::L1 { 0 } else { cycles }),
    );
    (access, outcome)
}
