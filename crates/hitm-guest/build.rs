//! Compiles the programs of guest/ for x86-64, statically: the guest has no library. Then compresses all of them
//! as one.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

const PROGRAMS: [&str; 7] = [
    "agent",
    "bandwidth_tree",
    "fifo_pool",
    "file_copy",
    "fork_storm",
    "futex_ping_pong",
    "loads",
];

/// The guest's processor is the same on every host.
const COMPILER: &str = match cfg!(target_arch = "x86_64") {
    true => "cc",
    false => "x86_64-linux-gnu-gcc",
};

/// All programs fit into the window, so that each finds the C library of the one before.
const WINDOW_LOG: u32 = 23;
const LEVEL: i32 = 19;

fn main() {
    let sources =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../guest");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let mut programs = Vec::new();
    for program in PROGRAMS {
        let source = sources.join(program).with_extension("c");
        println!("cargo::rerun-if-changed={}", source.display());
        let built = Path::new(&out).join(program);
        let status = Command::new(COMPILER)
            .args(["-static", "-O2", "-g", "-Wall", "-Wextra", "-pthread"])
            .arg(format!("-ffile-prefix-map={}=guest", sources.display()))
            .arg("-o")
            .arg(&built)
            .arg(&source)
            .status()
            .unwrap_or_else(|error| {
                panic!("{COMPILER} is needed (scripts/setup installs it): {error}")
            });
        assert!(status.success(), "cannot compile {}", source.display());
        programs.push(fs::read(built).expect("the compiler wrote it"));
    }
    let lengths: Vec<usize> = programs.iter().map(Vec::len).collect();
    let count = PROGRAMS.len();
    let table = format!(
        "const NAMES: [&str; {count}] = {PROGRAMS:?};\nconst LENGTHS: [usize; {count}] = {lengths:?};\n"
    );
    let written = fs::write(Path::new(&out).join("programs.rs"), table)
        .and_then(|()| compress(&programs.concat()))
        .and_then(|compressed| fs::write(Path::new(&out).join("programs.zst"), compressed));
    written.expect("the folder of the build takes files");
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.long_distance_matching(true)?;
    encoder.write_all(bytes)?;
    encoder.finish()
}
