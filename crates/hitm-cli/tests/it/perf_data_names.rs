//! Names for samples: from the mapped files, from caches of files by build id, and from a kernel's ELF
//! file; and what is shown when none of them is there.

use hitm_test::process::Command;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use hitm_test::perf_data::{Content, Layout, Mapped, bits, generate, vendors};

/// Runs `hitm` with caches of files by build id in `directory` alone.
fn hitm(directory: &Path, args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .args(args)
        .current_dir(directory)
        .env("PERF_BUILDID_DIR", directory.join("cache"))
        .env("DEBUGINFOD_CACHE_PATH", directory.join("none"))
        .env("COLUMNS", "200")
        .stdin(Stdio::null())
        .output()
        .expect("hitm starts");
    let code = output.status.code().expect("hitm ends by itself");
    let text = [output.stdout, output.stderr].concat();
    (code, String::from_utf8(text).expect("hitm prints UTF-8"))
}

/// Links `source` without a library, so that addresses are where they are said to be.
fn link(directory: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let source_path = directory.join(format!("{name}.c"));
    std::fs::write(&source_path, source).expect("a temporary file");
    let program = directory.join(name);
    let status = Command::new("cc")
        .args(["-O1", "-g", "-nostdlib", "-static", "-no-pie", "-fno-pie"])
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(&source_path)
        .status()
        .expect("cc is installed");
    assert!(status.success(), "{name} does not link");
    program
}

fn address_of(program: &Path, symbol: &str) -> u64 {
    let output = Command::new("nm").arg(program).output().expect("nm runs");
    let text = String::from_utf8(output.stdout).expect("nm prints UTF-8");
    let line = text
        .lines()
        .find(|line| line.ends_with(&format!(" {symbol}")));
    let address = line.and_then(|line| line.split(' ').next());
    u64::from_str_radix(address.expect("the symbol is there"), 16).expect("a number")
}

/// Samples of one instruction and of one place in a line, of two threads.
fn content(code: u64, data: u64, mode: hitm_perf::CpuMode) -> Content {
    let mut content = vendors::content(
        "x86_64",
        "GenuineIntel,6,85,7",
        &vendors::intel(),
        bits::WEIGHT,
    );
    for (_, sample) in &mut content.samples {
        sample.ip = code;
        sample.addr = data;
        sample.mode = mode;
    }
    content.mappings.clear();
    content
}

const BUILD_ID: &str = "-Wl,--build-id=0x1111222233334444555566667777888899990000";

const PROGRAM: &str = "struct { long padding; long hot; } __attribute__((aligned(64))) object;\n\
    void touch_it(void) { object.hot++; }\nvoid _start(void) { touch_it(); for (;;); }\n";

#[test]
fn programs_are_found_by_their_build_id() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let program = link(directory, "moved", PROGRAM, &[BUILD_ID]);
    let (code, data) = (
        address_of(&program, "touch_it"),
        address_of(&program, "object"),
    );
    let mut content = content(code, data + 8, hitm_perf::CpuMode::User);
    content.mappings.push(Mapped::new(
        100,
        0x40_0000,
        0x1_0000,
        "/nonexistent/program",
    ));
    let build_id = (1..=10u8).flat_map(|digit| [digit % 10 * 0x11; 2]);
    content
        .build_ids
        .push(("/nonexistent/program", build_id.collect()));
    std::fs::write(directory.join("x.data"), generate(&content, Layout::PLAIN)).expect("a file");
    let report = ["report", "-i", "x.data"];
    // As on another machine: what the file itself says is shown, and what is missing.
    let (exit, without) = hitm(directory, &report);
    assert_eq!(exit, 0, "{without}");
    assert!(without.contains("program+0x"), "{without}");
    assert!(
        without.contains("/nonexistent/program: not found"),
        "{without}"
    );
    // perf's cache: a directory for each build id.
    let cache = directory.join("cache/.build-id/11/11222233334444555566667777888899990000");
    std::fs::create_dir_all(&cache).expect("a temporary directory");
    std::fs::copy(&program, cache.join("elf")).expect("a temporary file");
    let (exit, with) = hitm(directory, &report);
    assert_eq!(exit, 0, "{with}");
    let names = ["touch_it", "moved.c:2", "object", ".hot"];
    assert!(names.iter().all(|name| with.contains(name)), "{with}");
    let tables = hitm(directory, &["report", "--perf-c2c", "-i", "x.data"]).1;
    assert!(
        tables.contains("touch_it") && tables.contains("moved.c:2"),
        "{tables}"
    );
    // A program of another build id there is not taken for it.
    let other = link(directory, "other", PROGRAM, &["-Wl,--build-id=0xff"]);
    std::fs::copy(&other, cache.join("elf")).expect("a temporary file");
    let (_, wrong) = hitm(directory, &report);
    assert!(!wrong.contains("touch_it"), "{wrong}");
}

#[test]
fn a_kernel_is_named_by_its_elf_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let flags = [
        "-mcmodel=kernel",
        "-Wl,-Ttext-segment=0xffffffff81000000,--defsym=_text=0xffffffff81000000",
        BUILD_ID,
    ];
    let vmlinux = link(directory, "vmlinux", PROGRAM, &flags);
    // The sampled kernel ran elsewhere than it was linked for.
    const SHIFT: u64 = 0x1240_0000;
    let code = address_of(&vmlinux, "touch_it") + SHIFT;
    let data = address_of(&vmlinux, "object") + SHIFT;
    let mut content = content(code, data + 8, hitm_perf::CpuMode::Kernel);
    let image = "[kernel.kallsyms]_text";
    let start = 0xffff_ffff_8100_0000 + SHIFT;
    content
        .mappings
        .push(Mapped::new(u32::MAX, start, 0x100_0000, image));
    // 1111 2222 … 9999 0000.
    let build_id = (1..=10u8).flat_map(|digit| [digit % 10 * 0x11; 2]);
    content
        .build_ids
        .push(("[kernel.kallsyms]", build_id.collect()));
    std::fs::write(directory.join("x.data"), generate(&content, Layout::PLAIN)).expect("a file");
    let (exit, report) = hitm(
        directory,
        &["report", "-i", "x.data", "--vmlinux", "vmlinux"],
    );
    assert_eq!(exit, 0, "{report}");
    let names = ["touch_it", "vmlinux.c:2", "object", ".hot"];
    assert!(names.iter().all(|name| report.contains(name)), "{report}");
    let args = [
        "report",
        "-i",
        "x.data",
        "--perf-c2c",
        "--vmlinux",
        "vmlinux",
    ];
    let (_, tables) = hitm(directory, &args);
    assert!(tables.contains("[k] touch_it"), "{tables}");
    // An imported recording is named in the same way.
    assert_eq!(hitm(directory, &["import", "x.data", "-o", "x.hitm"]).0, 0);
    let (_, again) = hitm(
        directory,
        &["report", "-i", "x.hitm", "--vmlinux", "vmlinux"],
    );
    assert!(names.iter().all(|name| again.contains(name)), "{again}");
    // Nothing is asked for: perf's cache is looked into.
    let cache = directory.join("cache/.build-id/11/11222233334444555566667777888899990000");
    std::fs::create_dir_all(&cache).expect("a temporary directory");
    let list =
        "ffffffff81000000 T _text\nffffffff81000800 T listed_function\nffffffff82000000 B _end\n";
    std::fs::write(cache.join("kallsyms"), list).expect("a temporary file");
    let (_, cached) = hitm(directory, &["report", "-i", "x.data"]);
    assert!(cached.contains("listed_function"), "{cached}");
    // Another kernel's names would be wrong.
    link(
        directory,
        "other",
        PROGRAM,
        &[flags[0], flags[1], "-Wl,--build-id=0xff"],
    );
    let (exit, wrong) = hitm(directory, &["report", "-i", "x.data", "--vmlinux", "other"]);
    assert_eq!(exit, 2, "{wrong}");
    assert!(
        wrong.contains("expected that of the sampled kernel, 1111222233"),
        "{wrong}"
    );
    let (exit, none) = hitm(
        directory,
        &["report", "-i", "x.data", "--vmlinux", "vmlinux.c"],
    );
    assert_eq!(exit, 2, "{none}");
}
