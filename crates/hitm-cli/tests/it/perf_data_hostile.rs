//! perf.data that lies: exit code 2, the place named, and little memory, to which `hitm` is held.

use hitm_perf::{CpuMode, DataSrc, Sample, level, lock, op, snoop};
use hitm_test::perf_data::{Content, Layout, bits, generate, vendors};

use crate::limited::run;

/// Every verb that reads perf.data, on one file.
fn check(name: &str, file: &[u8], code: i32, expected: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    std::fs::write(directory.join("x.data"), file).expect("a temporary file");
    for args in [
        &["report", "-i", "x.data"][..],
        &["report", "--perf-c2c", "-i", "x.data"],
        &["import", "x.data", "-o", "x.hitm"],
    ] {
        let ended = run(directory, args);
        let error = &ended.error;
        assert_eq!(ended.code, code, "{name}, {args:?}: {error}");
        if code != 0 {
            let place = error.contains("x.data") && error.contains("byte");
            assert!(
                place && error.contains(expected),
                "{name}, {args:?}: {error}"
            );
        }
    }
}

fn plain() -> Vec<u8> {
    let words = vendors::intel();
    let content = vendors::content("x86_64", "GenuineIntel,6,85,7", &words, bits::WEIGHT);
    generate(&content, Layout::PLAIN)
}

fn word(file: &[u8], at: usize) -> usize {
    u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes")) as usize
}

#[test]
fn headers_that_lie_cost_little() {
    for (name, at, value, expected) in [
        ("header", 8, 1 << 40, "the length of the header"),
        ("entries", 16, 3, "the length of an attribute"),
        ("attributes", 32, u64::MAX, "the section of attributes"),
        ("records' place", 40, u64::MAX, "the section of records"),
        ("records", 48, 1 << 50, "the section of records"),
        ("ids", 104 + 112 + 8, 1 << 40, "an event's sample ids"),
    ] {
        let mut file = plain();
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        check(name, &file, 2, expected);
    }
}

#[test]
fn cut_files_cost_little() {
    let whole = plain();
    for eighths in [1, 4, 7] {
        let file = &whole[..whole.len() * eighths / 8];
        check(&format!("{eighths}/8"), file, 2, "the file ends at byte");
    }
}

#[test]
fn sections_in_circles_cost_little() {
    // A large file whose feature sections all hold the whole of it, themselves included.
    let mut file = plain();
    let table = word(&file, 40) + word(&file, 48);
    file[72..80].fill(0xff);
    file.resize(15 << 20, 0);
    let len = file.len() as u64;
    for entry in 0..64 {
        let at = table + 16 * entry;
        file[at..at + 8].copy_from_slice(&0u64.to_le_bytes());
        file[at + 8..at + 16].copy_from_slice(&len.to_le_bytes());
    }
    check(
        "circles",
        &file,
        2,
        "a feature section over what stands before it",
    );
}

/// A stream of compressed records, each holding `each` bytes of records about mappings, all different.
fn bomb(compressed: usize, each: usize) -> Vec<u8> {
    let mut file = b"PERFILE2".to_vec();
    file.extend(16u64.to_le_bytes());
    let mut encoder = zstd::stream::raw::Encoder::new(1).expect("zstd has memory");
    let mut nth = 0u64;
    for _ in 0..compressed {
        let mut records = Vec::with_capacity(each);
        while records.len() < each {
            let mut body = Vec::new();
            body.extend([7u8, 0, 0, 0, 7, 0, 0, 0]);
            for number in [nth << 12, 1 << 12, 0] {
                body.extend(number.to_le_bytes());
            }
            body.extend([0; 32]);
            records.extend(10u32.to_le_bytes());
            records.extend([2, 0]);
            records.extend((8 + body.len() as u16).to_le_bytes());
            records.extend(body);
            nth += 1;
        }
        // perf flushes for each record; what does not fit into one goes into the next.
        for piece in compress(&mut encoder, &records) {
            file.extend(81u32.to_le_bytes());
            file.extend([0, 0]);
            file.extend((8 + piece.len() as u16).to_le_bytes());
            file.extend(piece);
        }
    }
    file
}

fn compress(encoder: &mut zstd::stream::raw::Encoder<'_>, bytes: &[u8]) -> Vec<Vec<u8>> {
    use zstd::stream::raw::{InBuffer, Operation, OutBuffer};
    let mut space = vec![0; bytes.len()];
    let mut input = InBuffer::around(bytes);
    let mut output = OutBuffer::around(&mut space[..]);
    while input.pos() < bytes.len() {
        encoder
            .run(&mut input, &mut output)
            .expect("zstd compresses");
    }
    while encoder.flush(&mut output).expect("zstd compresses") > 0 {}
    let len = output.pos();
    space[..len].chunks(60_000).map(<[u8]>::to_vec).collect()
}

#[test]
fn small_files_with_much_in_them_cost_little() {
    // 120 MB of records about mappings: more than are kept, which is counted and no error.
    let file = bomb(4, 30 << 20);
    let size = file.len();
    assert!(size < 30 << 20, "{size} bytes");
    check("mappings", &file, 0, "");
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("x.data"), &file).expect("a temporary file");
    let ended = run(directory.path(), &["import", "x.data", "-o", "x.hitm"]);
    let said = "records about processes and mappings are more than are kept";
    assert!(ended.error.contains(said), "{}", ended.error);
    // One compressed record with more in it than perf has room for.
    let zeros = zstd::bulk::compress(&vec![0x41; 200 << 20], 1).expect("zstd compresses");
    let mut file = b"PERFILE2".to_vec();
    file.extend(16u64.to_le_bytes());
    for piece in zeros.chunks(60_000) {
        file.extend(81u32.to_le_bytes());
        file.extend([0, 0]);
        file.extend((8 + piece.len() as u16).to_le_bytes());
        file.extend(piece);
    }
    check("zeros", &file, 2, "a compressed record does not decompress");
}

/// Samples of a file that makes much of little.
const SAMPLES: u64 = 2_000_000;

/// A compressed file of loads that found their line modified: `change` says how each differs.
fn many(sample_type: u64, change: &dyn Fn(u64, &mut Sample)) -> Vec<u8> {
    let found = op::LOAD | (level::L3 | level::HIT) << 5 | snoop::HITM << 19 | lock::NA << 24;
    let mut content = vendors::content(
        "x86_64",
        "GenuineIntel,6,85,7",
        &Vec::new(),
        bits::WEIGHT | sample_type,
    );
    content.chain = |sample| vec![vendors::USER, sample.ip, sample.ip + 8 + sample.time_ns % 7];
    let sample = |number: u64| {
        let mut sample = Sample {
            pid: 100,
            tid: 100,
            cpu: 1,
            mode: CpuMode::User,
            time_ns: 1_000_000,
            ip: vendors::CODE,
            addr: vendors::LINE,
            data_src: DataSrc(found),
            weight: 300,
            period: 1,
            ..Sample::default()
        };
        change(number, &mut sample);
        (0, sample)
    };
    let content = Content {
        samples: (0..SAMPLES).map(sample).collect(),
        ..content
    };
    let layout = Layout {
        compressed_piece: 32 << 10,
        ..Layout::PLAIN
    };
    generate(&content, layout)
}

/// Lines, rows, chains, physical lines, threads and processes without end.
#[test]
fn samples_that_all_differ_take_little_memory() {
    let none = |_: u64, _: &mut Sample| {};
    let line = |number: u64, sample: &mut Sample| sample.addr += 64 * number;
    let row = |number: u64, sample: &mut Sample| sample.ip += number;
    let both = |number: u64, sample: &mut Sample| {
        sample.addr += 64 * (number % 512);
        sample.ip += number / 512 * 16;
    };
    let chain = |number: u64, sample: &mut Sample| {
        both(number / 7, sample);
        sample.time_ns += number % 7;
    };
    let physical = |number: u64, sample: &mut Sample| {
        line(number, sample);
        sample.phys_addr = 0x1_0000_0000 + 64 * (number / 2);
    };
    let thread = |number: u64, sample: &mut Sample| sample.tid = 100 + number as u32;
    let process = |number: u64, sample: &mut Sample| {
        sample.pid = 100 + number as u32;
        sample.tid = sample.pid;
    };
    type Change<'c> = &'c dyn Fn(u64, &mut Sample);
    let kinds: [(&str, u64, Change<'_>); 9] = [
        ("all alike", 0, &none),
        ("a line each", 0, &line),
        ("a row each", 0, &row),
        ("a row each on many lines", 0, &both),
        ("a chain each", bits::CALLCHAIN, &chain),
        ("a line and a chain each", bits::CALLCHAIN, &line),
        ("a physical line each", bits::PHYS_ADDR, &physical),
        ("a thread each", 0, &thread),
        ("a process each", 0, &process),
    ];
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    for (name, sample_type, change) in kinds {
        let file = many(sample_type, change);
        assert!(file.len() < 12 << 20, "{name}: {} bytes", file.len());
        std::fs::write(directory.join("x.data"), file).expect("a temporary file");
        for args in [
            &["report", "-i", "x.data", "--format", "json"][..],
            &["report", "-i", "x.data", "--by", "function"],
        ] {
            let ended = run(directory, args);
            assert_eq!(ended.code, 0, "{name}, {args:?}: {}", ended.error);
        }
    }
}
