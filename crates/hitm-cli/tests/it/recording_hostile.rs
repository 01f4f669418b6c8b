//! Recordings that lie, with right checksums: exit code 2 and the place, or an answer in little memory.

use hitm_test::process::Command;
use std::fs;
use std::path::Path;

use hitm_base::{
    Access, AccessOp, AddrRange, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId,
};
use hitm_trace::{
    BLOCK_LEN_MAX, BlockEncoder, BlockMeta, Counter, Header, HeapObject, Mapping, Record, Region,
    RegionKind, Sampled, ThreadStart, TraceWriter, VERSION,
};

use crate::limited::{Ended, run};
use crate::programs::{fifo, in_time};

fn header() -> Header {
    let machine = hitm_base::machine::preset("broadwell-4s").expect("a preset");
    Header {
        machine_toml: machine.to_owned(),
        ..hitm_test::recording::header()
    }
}

/// A recording whose blocks are these bytes, each with its number of records.
fn file(blocks: impl IntoIterator<Item = (u32, Vec<u8>)>) -> Vec<u8> {
    file_with(&header(), blocks)
}

fn file_with(header: &Header, blocks: impl IntoIterator<Item = (u32, Vec<u8>)>) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), header).expect("memory takes it");
    for (record_count, bytes) in blocks {
        let meta = BlockMeta {
            record_count,
            ..BlockMeta::default()
        };
        writer.write_block(meta, &bytes).expect("memory takes it");
    }
    writer.finish().expect("memory takes it")
}

/// A block filled with what `record` makes of 0, 1, 2 and so on from `first`.
fn full_block(first: u64, record: &dyn Fn(u64) -> Record) -> (u32, Vec<u8>) {
    let mut encoder = BlockEncoder::new(vec![0; BLOCK_LEN_MAX]);
    let mut number = first;
    while encoder.push(&record(number)).is_ok() {
        number += 1;
    }
    (encoder.meta().record_count, encoder.bytes().to_vec())
}

const VERBS: &[&[&str]] = &[
    &["report", "-i", "x.hitm"],
    &["report", "-i", "x.hitm", "--format", "json"],
    &["report", "-i", "x.hitm", "--perf-c2c"],
    &["report", "-i", "x.hitm", "--type", "rq"],
    &["diff", "x.hitm", "x.hitm"],
    &["whatif", "-i", "x.hitm", "--machine", "milan-2s"],
    &["export", "x.hitm", "--perf-data", "x.data"],
    &["export", "x.hitm", "--calls", "x.csv"],
];

/// One verb for each of the three ways in which recordings are read.
const READERS: [&[&str]; 3] = [VERBS[0], VERBS[5], VERBS[6]];

/// Runs verbs that read a recording, with 300 MiB. `see` judges how each ends.
fn with_each(verbs: &[&[&str]], file: &[u8], see: impl Fn(&[&str], Ended)) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("x.hitm"), file).expect("a temporary file");
    for verb in verbs {
        see(verb, run(directory.path(), verb));
    }
}

/// The file is refused, with `place`, by every verb.
fn check_refused(file: &[u8], place: &str) {
    with_each(VERBS, file, |verb, ended| {
        assert_eq!(ended.code, 2, "{verb:?}: {}", ended.error);
        assert!(ended.error.contains(place), "{verb:?}: {}", ended.error);
    });
}

/// A file of at most 12 MiB that holds 64 MiB of records, and they ten times as much when they are
/// decoded, is read in 300 MiB.
fn check_bounded(name: &str, record: &dyn Fn(u64) -> Record) {
    check_blocks_bounded(name, 16, &READERS, &header(), record);
}

fn check_blocks_bounded(
    name: &str,
    block_count: u64,
    verbs: &[&[&str]],
    header: &Header,
    record: &dyn Fn(u64) -> Record,
) {
    const RECORDS_A_BLOCK_MIN: u64 = 1 << 20;
    let blocks = (0..block_count).map(|number| full_block(number * RECORDS_A_BLOCK_MIN, record));
    let file = file_with(header, blocks);
    assert!(file.len() < 12 << 20, "{name}: {} bytes", file.len());
    with_each(verbs, &file, |verb, ended| {
        // Some verbs have nothing to say about such a recording.
        assert!(
            [0, 2].contains(&ended.code),
            "{name}: {verb:?}: {}",
            ended.error
        );
    });
}

/// The bytes of a record that no encoder takes.
fn raw(kind: u8, numbers: &[u64]) -> (u32, Vec<u8>) {
    let mut block = hitm_test::recording::Block::default();
    block.record(kind, |payload| {
        payload.numbers(numbers);
    });
    (1, block.bytes)
}

#[test]
fn ranges_that_wrap_are_refused() {
    let [heap_block, region] = [5, 6];
    check_refused(
        &file([raw(heap_block, &[u64::MAX - 7, 1 << 20, 0, 0, 0])]),
        "record 0 at byte 0 of the block: a heap block from 0xfffffffffffffff8",
    );
    check_refused(
        &file([raw(region, &[0x2000, 0x1000, 2])]),
        "a region from 0x2000 to 0x1000 ends before it begins",
    );
}

#[test]
fn a_chain_of_20_000_callers_is_refused() {
    let chain: Vec<u64> = [0, 20_000]
        .into_iter()
        .chain((0..20_000).map(|_| 8))
        .collect();
    check_refused(
        &file([raw(12, &chain)]),
        "number of callers is 20000, which is out of range",
    );
}

#[test]
fn times_at_the_end_are_refused() {
    for time in [1 << 60, u64::MAX] {
        check_refused(
            &file([raw(2, &[1, 2, time])]),
            &format!("time is {time}, which is out of range"),
        );
    }
}

#[test]
fn counters_take_little_memory() {
    check_bounded("one name", &|_| {
        let counter = Counter {
            name: "a".to_owned(),
            value: 1,
        };
        Record::Counters(vec![counter; 4096])
    });
    check_bounded("many names", &|number| {
        Record::Counters(vec![Counter {
            name: format!("calls_of_0x{number:x}"),
            value: 1,
        }])
    });
}

#[test]
fn what_names_are_made_of_takes_little_memory() {
    let range = |number: u64, len| AddrRange::with_len(number * 64, len).expect("a small number");
    check_bounded("heap blocks", &|number| {
        Record::HeapObject(HeapObject {
            range: range(number, 16),
            time: Cycles(0),
            thread: ThreadId(0),
            stack: vec![CodeAddr(number); 1],
            told_type: None,
        })
    });
    check_bounded("mappings", &|number| {
        Record::Mapping(Mapping {
            range: range(number, 64),
            file_offset: 0,
            path: "/a/path/of/some/length/that/compresses/well".to_owned(),
            build_id: vec![0; 20],
            executable: true,
        })
    });
    check_bounded("regions", &|number| {
        Record::Region(Region {
            range: range(number, 64),
            kind: RegionKind::Object {
                name: "an object".to_owned(),
                type_name: "rq".to_owned(),
            },
        })
    });
    check_bounded("threads", &|number| {
        Record::ThreadStart(ThreadStart {
            thread: ThreadId(number as u32),
            tid: number as u32,
            cpu: CpuId(0),
            time: Cycles(0),
            name: "a thread".to_owned(),
            seat: 0,
            process: 0,
        })
    });
    check_bounded("names of a thread", &|number| {
        Record::ThreadStart(ThreadStart {
            thread: ThreadId(0),
            tid: 1,
            cpu: CpuId(0),
            time: Cycles(0),
            name: "a".repeat(number as usize % 8192),
            seat: 0,
            process: 0,
        })
    });
    check_bounded("callers", &|number| {
        Record::Callers((0..64).map(|depth| CodeAddr(number << 8 | depth)).collect())
    });
    check_bounded("layouts", &|_| {
        let text = "schema = 1\n[[struct]]\nname = \"a\"\nsize_bytes = 8\n";
        Record::Layout(text.to_owned())
    });
}

/// An error names the format that the file has.
#[test]
fn a_recording_without_work_is_not_one_of_format_1_0() {
    let access = |number: u64| Record::Access {
        access: Access {
            thread: ThreadId(0),
            cpu: CpuId(0),
            time: Cycles(number),
            addr: 0x10_0000 + number % 4096 * 64,
            size: 8,
            op: AccessOp::Load,
            code: CodeAddr(0x40_1000),
        },
        outcome: Outcome::by_source(DataSource::LocalHitm, Cycles(100), Cycles(0), Cycles(100)),
    };
    let file = file([0, 1 << 20].map(|first| full_block(first, &access)));
    with_each(&[VERBS[5]], &file, |_, ended| {
        let format = format!(
            "found a recording of format {}.{} without the work of threads",
            VERSION.major, VERSION.minor
        );
        assert_eq!(ended.code, 2, "{}", ended.error);
        assert!(ended.error.contains(&format), "{}", ended.error);
    });
}

/// Two million rows: on a line each, or all on one.
#[test]
fn rows_of_a_report_take_little_memory() {
    let access = |number: u64, line: u64| Record::Access {
        access: Access {
            thread: ThreadId(number as u32 % 4096),
            cpu: CpuId(0),
            time: Cycles(number),
            addr: 0x10_0000 + line * 64,
            size: 8,
            op: AccessOp::Load,
            code: CodeAddr(0x40_1000 + number / 4096),
        },
        outcome: Outcome::by_source(DataSource::LocalHitm, Cycles(100), Cycles(0), Cycles(100)),
    };
    let readers = [VERBS[0], VERBS[3]];
    let sampled = Header {
        sampled: Some(Sampled::default()),
        ..header()
    };
    for (what, header, verbs) in [
        ("accesses", header(), &readers[..]),
        ("samples", sampled, &readers[..1]),
    ] {
        let check = |name: &str, record: &dyn Fn(u64) -> Record| {
            check_blocks_bounded(&format!("{what}: {name}"), 4, verbs, &header, record);
        };
        check("many lines", &|number| access(number, number));
        check("one line", &|number| access(number, 0));
    }
}

/// Runs `hitm`, which must end by itself; returns its exit code and both of its outputs.
fn run_in_time(directory: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    in_time(command.args(args).current_dir(directory))
}

/// A recording that names a FIFO as a mapped file, and one access in it for which a name is wanted.
#[test]
fn a_fifo_that_a_recording_names_is_not_opened() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pipe = directory.path().join("pipe");
    fifo(&pipe);
    let records = crate::contended::records(pipe.to_str().expect("a temporary path is UTF-8"));
    let mut encoder = BlockEncoder::new(vec![0; 1 << 16]);
    for record in &records {
        encoder.push(record).expect("a small record");
    }
    let block = (encoder.meta().record_count, encoder.bytes().to_vec());
    fs::write(directory.path().join("x.hitm"), file([block])).expect("a temporary file");
    for verb in VERBS {
        let (code, said) = run_in_time(directory.path(), verb);
        assert!(matches!(code, Some(0 | 2)), "{verb:?}: {said}");
        if verb.len() == 3 && verb[0] == "report" {
            assert!(
                said.contains("pipe: not read: found a FIFO, expected a regular file"),
                "{said}"
            );
        }
    }
}

#[test]
fn files_without_end_are_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for args in [
        &["layout", "list", "-i", "/dev/zero"][..],
        &["layout", "show", "rq", "-i", "/dev/zero"],
        &["report", "-i", "/dev/zero"],
        &["machine", "show", "/dev/zero"],
        &["sim", "/dev/zero"],
    ] {
        let ended = run(directory.path(), args);
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.error);
        assert!(
            ended
                .error
                .contains("found a device, expected a regular file"),
            "{args:?}: {}",
            ended.error
        );
    }
}

#[test]
fn a_scenario_names_no_fifo() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fifo(&directory.path().join("pipe"));
    let shipped = crate::programs::root().join("scenarios/000-root-domain/pi-stress.toml");
    let text = fs::read_to_string(shipped).expect("a shipped scenario");
    let layouts = text.lines().find(|line| line.starts_with("layouts ="));
    let layouts = layouts.expect("the scenario names layouts");
    let preset = text.lines().find(|line| line.starts_with("preset ="));
    let preset = preset.expect("the scenario names a machine");
    for changed in [
        text.replace(layouts, "layouts = [\"pipe\"]"),
        text.replace(preset, "file = \"pipe\""),
    ] {
        fs::write(directory.path().join("s.toml"), changed).expect("a temporary file");
        let (code, said) = run_in_time(directory.path(), &["sim", "s.toml"]);
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("found a FIFO, expected a regular file"),
            "{said}"
        );
    }
}
