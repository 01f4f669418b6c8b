//! docs/formats/trace.md shows the versions, the kinds of records, the limits and a whole file in hex: what
//! the crate declares and writes. `UPDATE_EXPECT=1 cargo test -p hitm-trace` rewrites these parts.

mod kinds;

use std::fmt::Write;

use expect_test::expect_file;
use hitm_base::{
    Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, LineAddr, Outcome, ThreadId,
};
use hitm_trace::{
    ADDED, Adoption, End, EndReason, LIMITS, Record, Step, Stretch, ThreadStart, Totals,
    TraceReader, Turn, VERSION, Work,
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

/// Rows of 16 bytes. Those that hold nothing but the header's JSON are three dots.
fn hex_dump(bytes: &[u8]) -> String {
    let json = usize::try_from(u32::from_le_bytes(bytes[12..16].try_into().unwrap())).unwrap();
    let left_out = 0x20..(0x14 + json) / 16 * 16;
    let mut dump = String::new();
    for (row, bytes) in bytes.chunks(16).enumerate() {
        let offset = row * 16;
        if offset == left_out.start {
            dump.push_str("...\n");
        }
        if left_out.contains(&offset) {
            continue;
        }
        write!(dump, "{offset:04x} ").unwrap();
        for byte in bytes {
            write!(dump, " {byte:02x}").unwrap();
        }
        dump.push('\n');
    }
    dump
}

/// The document with what lies between two texts replaced.
fn with_part(document: &str, begin: &str, end: &str, part: &str) -> String {
    let (before, rest) = document.split_once(begin).expect("the part begins");
    let (_, after) = rest.split_once(end).expect("the part ends");
    format!("{before}{begin}{part}{end}{after}")
}

/// The document with what lies between two comments replaced.
fn with_section(document: &str, name: &str, text: &str) -> String {
    let begin = format!("<!-- hitm-trace: {name} -->\n");
    let end = format!("<!-- end of hitm-trace: {name} -->");
    with_part(document, &begin, &end, text)
}

fn versions() -> String {
    let mut text = String::new();
    for (minor, what) in (1..).zip(ADDED) {
        writeln!(text, "Version 1.{minor} added {what}.").unwrap();
    }
    text
}

fn limits() -> String {
    let mut text = String::from("| what | at most |\n|---|---|\n");
    for limit in LIMITS {
        writeln!(text, "| {} | {} |", limit.what, kinds::power(limit.most)).unwrap();
    }
    text
}

#[test]
fn the_document_is_about_what_is_declared_and_written() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/trace.md");
    let document = std::fs::read_to_string(document).unwrap();
    let minor = VERSION.minor.to_string();
    let document = with_part(&document, "# The trace format, version 1.", "\n", &minor);
    let document = with_part(&document, "| minor version: ", " |", &minor);
    let document = with_section(&document, "versions", &versions());
    let document = with_section(&document, "kinds", &kinds::text());
    let document = with_section(&document, "limits", &limits());
    let bytes = file(&records(), 4096);
    let document = with_part(&document, "```hex\n", "```", &hex_dump(&bytes));
    expect_file!["../../../../docs/formats/trace.md"].assert_eq(&document);
}

#[test]
fn the_documents_example_is_a_complete_file() {
    let bytes = file(&records(), 4096);
    let mut reader = TraceReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.chunks().count(), 1);
    assert!(reader.recovery().is_complete());
}

#[test]
fn nothing_is_newer_than_the_version() {
    let text = kinds::text();
    for since in text.split("(since 1.").skip(1) {
        let (minor, _) = since.split_once(')').unwrap();
        assert!(
            minor.parse::<u16>().unwrap() <= VERSION.minor,
            "1.{minor} in {VERSION:?}"
        );
    }
}
