//! Compiles the programs of guest/ with the host's C compiler, statically: the guest has no library.

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

fn main() {
    let sources =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../guest");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    for program in PROGRAMS {
        let source = sources.join(program).with_extension("c");
        println!("cargo::rerun-if-changed={}", source.display());
        let status = Command::new("cc")
            .args(["-static", "-O2", "-g", "-Wall", "-Wextra", "-pthread"])
            .arg(format!("-ffile-prefix-map={}=guest", sources.display()))
            .arg("-o")
            .arg(Path::new(&out).join(program))
            .arg(&source)
            .status()
            .expect("a C compiler is needed (Debian: apt install gcc libc6-dev)");
        assert!(status.success(), "cannot compile {}", source.display());
    }
}
