//! docs/formats/trace.md shows a whole file in hex: it must be what the writer writes.

use std::fmt::Write;

use hitm_base::{
    Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, LineAddr, Outcome, ThreadId,
};
use hitm_trace::{
    Adoption, End, EndReason, Record, Step, Stretch, ThreadStart, Totals, TraceReader, Turn, Work,
};

use crate::samples::file;

/// The records of the document's example.
fn records() -> Vec<Record> {
    let access = Access {
        thread: ThreadId(1),
        cpu: CpuId(8),
        time: Cycles(1000),
        addr: 0x5555_0048,
        size: 8,
        op: AccessOp::Load,
        code: CodeAddr(0x40_1000),
    };
    let outcome = Outcome::by_source(
        DataSource::RemoteHitm,
        Cycles(700),
        Cycles(200),
        Cycles(700),
    );
    let later = Access {
        time: Cycles(1002),
        ..access
    };
    vec![
        Record::ThreadStart(ThreadStart {
            thread: ThreadId(1),
            tid: 4242,
            cpu: CpuId(8),
            time: Cycles(990),
            name: "packed".to_owned(),
            seat: 1,
            process: 0,
        }),
        Record::Work(work()),
        Record::Turn(Turn::Priced),
        Record::Access { access, outcome },
        Record::Access {
            access: later,
            outcome,
        },
        Record::End(End {
            time: Cycles(1702),
            reason: EndReason::Exited { status: 0 },
            totals: Totals {
                threads: 1,
                insns: 9,
                accesses: 5,
                stored_accesses: 2,
                stall: Cycles(1400),
                contention_stall: Cycles(1400),
            },
        }),
    ]
}

/// Work of the example's thread: a load, another two instructions later, and two more instructions,
/// of which one stores.
fn work() -> Work {
    let step = |insns| Step {
        since: Stretch { insns, stores: 0 },
        is_fence: false,
    };
    Work {
        thread: ThreadId(1),
        adoptions: vec![Adoption {
            line: LineAddr::of(0x5555_0048),
            owner: ThreadId(0),
            is_written: true,
        }],
        steps: [step(5), step(2)].into_iter().collect(),
        ahead: Stretch {
            insns: 2,
            stores: 1,
        },
    }
}

fn hex_dump(bytes: &[u8]) -> String {
    let mut dump = String::new();
    for (row, bytes) in bytes.chunks(16).enumerate() {
        write!(dump, "{:04x} ", row * 16).unwrap();
        for byte in bytes {
            write!(dump, " {byte:02x}").unwrap();
        }
        dump.push('\n');
    }
    dump
}

#[test]
fn the_documents_example_is_what_the_writer_writes() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/trace.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, example) = document.split_once("```hex\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let bytes = file(&records(), 4096);
    let dump = hex_dump(&bytes);
    assert!(example == dump, "docs/formats/trace.md should show\n{dump}");
    let mut reader = TraceReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.chunks().count(), 1);
    assert!(reader.recovery().is_complete());
}
