//! What the fuzz targets share: records made from bytes, and files made from records.

use arbitrary::{Arbitrary, Result, Unstructured};
use hitm_base::{
    Access, AccessOp, Clock, CodeAddr, CpuId, Cycles, DataSource, LineAddr, Outcome, ThreadId,
};
use hitm_trace::{
    Adoption, BlockEncoder, Counter, EncodeError, End, EndReason, Header, HeapObject, Mapping,
    Record, Region, RegionKind, Step, Stretch, ThreadExit, ThreadPlaced, ThreadStart, Totals,
    TraceWriter, Turn, Visitor, Waker, Work,
};

/// Bytes in a block of the files made here: small, so that a short input fills several.
const BLOCK_LEN: usize = 2048;

/// Keeps every record that is decoded.
#[derive(Debug, Default)]
pub struct Collect(pub Vec<Record>);

impl Visitor for Collect {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        self.0.push(Record::Access {
            access: *access,
            outcome: *outcome,
        });
    }

    fn record(&mut self, record: Record) {
        self.0.push(record);
    }
}

/// A header to begin files with.
pub fn header() -> Header {
    Header {
        hitm_version: "0.1.0".to_owned(),
        args: vec!["./a".to_owned()],
        machine_toml: String::new(),
        window: Cycles(10_000),
        placement: "spread".to_owned(),
        seed: 1,
        arch: "x86_64".to_owned(),
        qemu_version: "7.2.0".to_owned(),
        clock: Clock::from_khz(1),
        page_size_bytes: 4096,
        sampled: None,
    }
}

/// A complete file with these records. Records that no block holds are left out; the rest is
/// returned beside the file.
pub fn file(records: Vec<Record>) -> (Vec<u8>, Vec<Record>) {
    let mut writer = TraceWriter::new(Vec::new(), &header()).expect("memory takes it");
    let mut encoder = BlockEncoder::new(vec![0; BLOCK_LEN]);
    let mut written = Vec::new();
    for record in records {
        let mut result = encoder.push(&record);
        if result == Err(EncodeError::Full) {
            writer
                .write_block(encoder.meta(), encoder.bytes())
                .expect("memory takes it");
            encoder.clear();
            result = encoder.push(&record);
        }
        match result {
            Ok(()) => written.push(record),
            Err(EncodeError::TooLarge { .. }) => {}
            Err(error) => panic!("{record:?} is not encoded: {error}"),
        }
    }
    writer
        .write_block(encoder.meta(), encoder.bytes())
        .expect("memory takes it");
    (writer.finish().expect("memory takes it"), written)
}

/// Records until the bytes are used up.
pub fn records(bytes: &mut Unstructured<'_>) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    while !bytes.is_empty() && records.len() < 2000 {
        records.push(record(bytes)?);
    }
    Ok(records)
}

/// A number that is small more often than not.
fn number(bytes: &mut Unstructured<'_>) -> Result<u64> {
    match bytes.int_in_range(0..=3u8)? {
        0 => Ok(u64::from(u8::arbitrary(bytes)?)),
        1 => Ok(u64::from(u16::arbitrary(bytes)?)),
        2 => Ok(0),
        _ => u64::arbitrary(bytes),
    }
}

fn cycles(bytes: &mut Unstructured<'_>) -> Result<Cycles> {
    number(bytes).map(Cycles)
}

fn thread(bytes: &mut Unstructured<'_>) -> Result<ThreadId> {
    Ok(ThreadId(number(bytes)? as u32))
}

fn cpu(bytes: &mut Unstructured<'_>) -> Result<CpuId> {
    Ok(CpuId(number(bytes)? as u16))
}

fn text(bytes: &mut Unstructured<'_>) -> Result<String> {
    String::arbitrary(bytes)
}

fn stack(bytes: &mut Unstructured<'_>) -> Result<Vec<CodeAddr>> {
    let count = bytes.int_in_range(0..=8)?;
    (0..count).map(|_| number(bytes).map(CodeAddr)).collect()
}

fn access(bytes: &mut Unstructured<'_>) -> Result<Record> {
    let op = *bytes.choose(&[
        AccessOp::Load,
        AccessOp::Store,
        AccessOp::LockedRmw,
        AccessOp::Fence,
    ])?;
    let addr = number(bytes)?;
    let room = 64 - (addr % 64) as u8;
    let access = Access {
        thread: thread(bytes)?,
        cpu: cpu(bytes)?,
        time: cycles(bytes)?,
        addr,
        size: match op {
            AccessOp::Fence => 0,
            _ => bytes.int_in_range(1..=room)?,
        },
        op,
        code: CodeAddr(number(bytes)?),
    };
    let latency = cycles(bytes)?;
    let outcome = Outcome {
        source: *bytes.choose(&DataSource::ALL)?,
        latency,
        queued: cycles(bytes)?,
        stall: match bool::arbitrary(bytes)? {
            true => latency,
            false => cycles(bytes)?,
        },
    };
    Ok(Record::Access { access, outcome })
}

fn record(bytes: &mut Unstructured<'_>) -> Result<Record> {
    Ok(match bytes.int_in_range(0..=15u8)? {
        0 => Record::ThreadStart(ThreadStart {
            thread: thread(bytes)?,
            seat: u32::arbitrary(bytes)?,
            tid: u32::arbitrary(bytes)?,
            cpu: cpu(bytes)?,
            time: cycles(bytes)?,
            name: text(bytes)?,
        }),
        1 => Record::ThreadPlaced(ThreadPlaced {
            thread: thread(bytes)?,
            cpu: cpu(bytes)?,
            time: cycles(bytes)?,
        }),
        2 => Record::ThreadExit(ThreadExit {
            thread: thread(bytes)?,
            time: cycles(bytes)?,
            insns: number(bytes)?,
            accesses: number(bytes)?,
            stall: cycles(bytes)?,
            contention_stall: cycles(bytes)?,
        }),
        3 => Record::Mapping(Mapping {
            start: number(bytes)?,
            end: number(bytes)?,
            file_offset: number(bytes)?,
            path: text(bytes)?,
            build_id: Vec::arbitrary(bytes)?,
            executable: bool::arbitrary(bytes)?,
        }),
        4 => Record::HeapObject(HeapObject {
            addr: number(bytes)?,
            size: number(bytes)?,
            time: cycles(bytes)?,
            thread: thread(bytes)?,
            stack: stack(bytes)?,
        }),
        5 => region(bytes)?,
        6 => counters(bytes)?,
        7 => end(bytes)?,
        8 => Record::Work(work(bytes)?),
        9 => Record::Turn(turn(bytes)?),
        10 => Record::Callers(stack(bytes)?.into()),
        _ => access(bytes)?,
    })
}

fn stretch(bytes: &mut Unstructured<'_>) -> Result<Stretch> {
    Ok(Stretch {
        insns: number(bytes)?,
        stores: number(bytes)?,
    })
}

fn work(bytes: &mut Unstructured<'_>) -> Result<Work> {
    let thread = thread(bytes)?;
    let adoption_count = bytes.int_in_range(0..=3)?;
    let adoption = |bytes: &mut Unstructured<'_>| {
        Ok(Adoption {
            line: LineAddr(number(bytes)?),
            owner: self::thread(bytes)?,
            is_written: bool::arbitrary(bytes)?,
        })
    };
    let adoptions: Result<_> = (0..adoption_count).map(|_| adoption(bytes)).collect();
    let step_count = bytes.int_in_range(0..=20)?;
    let step = |bytes: &mut Unstructured<'_>| {
        Ok(Step {
            since: stretch(bytes)?,
            is_fence: bool::arbitrary(bytes)?,
        })
    };
    let steps: Result<_> = (0..step_count).map(|_| step(bytes)).collect();
    Ok(Work {
        thread,
        adoptions: adoptions?,
        steps: steps?,
        ahead: stretch(bytes)?,
    })
}

fn turn(bytes: &mut Unstructured<'_>) -> Result<Turn> {
    Ok(match bytes.int_in_range(0..=4u8)? {
        0 => Turn::Left {
            thread: thread(bytes)?,
        },
        1 => Turn::Returned {
            thread: thread(bytes)?,
            waker: None,
        },
        2 => Turn::Returned {
            thread: thread(bytes)?,
            waker: Some(Waker {
                thread: thread(bytes)?,
                insn: number(bytes)?,
                delay: i64::arbitrary(bytes)?,
            }),
        },
        3 => Turn::Passed {
            span: Cycles(number(bytes)?),
        },
        _ => Turn::Priced,
    })
}

fn region(bytes: &mut Unstructured<'_>) -> Result<Record> {
    Ok(Record::Region(Region {
        start: number(bytes)?,
        end: number(bytes)?,
        kind: match bytes.int_in_range(0..=2u8)? {
            0 => RegionKind::Stack {
                thread: thread(bytes)?,
            },
            1 => RegionKind::AnonymousMap {
                stack: stack(bytes)?,
            },
            _ => RegionKind::Brk,
        },
    }))
}

fn counters(bytes: &mut Unstructured<'_>) -> Result<Record> {
    let count = bytes.int_in_range(0..=4)?;
    let mut counter = |_| {
        Ok(Counter {
            name: text(bytes)?,
            value: number(bytes)?,
        })
    };
    let counters: Result<Vec<Counter>> = (0..count).map(&mut counter).collect();
    Ok(Record::Counters(counters?))
}

fn end(bytes: &mut Unstructured<'_>) -> Result<Record> {
    let reason = match bytes.int_in_range(0..=4u8)? {
        0 => EndReason::Exited {
            status: i32::arbitrary(bytes)?,
        },
        1 => EndReason::Signalled {
            signal: i32::arbitrary(bytes)?,
        },
        2 => EndReason::Stopped,
        3 => EndReason::Exec,
        _ => EndReason::Other {
            code: bytes.int_in_range(4..=u8::MAX)?,
            value: i64::arbitrary(bytes)?,
        },
    };
    Ok(Record::End(End {
        time: cycles(bytes)?,
        reason,
        totals: Totals {
            threads: number(bytes)?,
            insns: number(bytes)?,
            accesses: number(bytes)?,
            stored_accesses: number(bytes)?,
            stall: cycles(bytes)?,
            contention_stall: cycles(bytes)?,
        },
    }))
}
