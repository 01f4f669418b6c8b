//! perf.data that lies: exit code 2, the place named, and little memory, to which `hitm` is held.

use hitm_test::perf_data::{Layout, bits, generate, vendors};

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
